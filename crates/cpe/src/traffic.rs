//! Numbered traffic: which frame is due, and what became of all of them.
//!
//! ```text
//!  frame k of a direction is due at begin + k * interval; it is of session k mod n, with the sequence number k / n
//! ```
//! So all sessions send equally often and evenly paced, however many there are.

use std::time::Duration;

use crate::numbered::Number;
use crate::options::Load;
use crate::sequence::{Arrival, Sequence};
use crate::summary::{Times, TrafficSummary};

/// A direction of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    FromSubscriber = 0,
    ToSubscriber = 1,
}

/// Both directions between the devices that were up when it began.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) frame_bytes: usize,
    /// Devices.
    sessions: Vec<u32>,
    /// Place of each device in `sessions`, or none.
    places: Vec<u32>,
    streams: [Stream; 2],
    begin_ns: u64,
    end_ns: u64,
}

/// Frames whose time is kept in each direction.
const MOST_TIMES: usize = 1 << 20;
/// No place.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
struct Stream {
    /// Between two frames; infinite: none is sent.
    interval_ns: f64,
    sent: u64,
    /// Of them, frames of IPv6.
    sent6: u64,
    /// Of them, frames of sessions that were down, which were not sent.
    omitted: u64,
    last_ns: u64,
    received: u64,
    received6: u64,
    duplicated: u64,
    reordered: u64,
    /// Of the first [`MOST_TIMES`] frames that arrived.
    latencies_ns: Vec<u64>,
    sessions: Vec<Received>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Received {
    sequence: Sequence,
    frames: u32,
    omitted: u32,
}

impl Traffic {
    /// Between `sessions`, of so many devices; until `end_ns`.
    pub(crate) fn new(load: Load, devices: u32, sessions: Vec<u32>, begin_ns: u64, end_ns: u64) -> Traffic {
        let mut places = vec![NOWHERE; devices as usize];
        for (place, device) in (0..).zip(&sessions) {
            places[*device as usize] = place;
        }
        let stream = |fps: f64| Stream {
            interval_ns: 1e9 / (fps * sessions.len() as f64),
            sent: 0,
            sent6: 0,
            omitted: 0,
            last_ns: begin_ns,
            received: 0,
            received6: 0,
            duplicated: 0,
            reordered: 0,
            latencies_ns: Vec::new(),
            sessions: vec![Received::default(); sessions.len()],
        };
        let streams = [load.from_subscriber_fps, load.to_subscriber_fps].map(stream);
        Traffic { frame_bytes: load.frame_bytes, sessions, places, streams, begin_ns, end_ns }
    }

    /// The device and the sequence number of the next frame, if one is due.
    pub(crate) fn next(&mut self, direction: Direction, now_ns: u64) -> Option<(u32, u32)> {
        if self.due_ns(direction) > now_ns || now_ns >= self.end_ns {
            return None;
        }
        let stream = &mut self.streams[direction as usize];
        let (number, count) = (stream.sent, self.sessions.len() as u64);
        stream.sent += 1;
        stream.last_ns = now_ns;
        Some((self.sessions[(number % count) as usize], (number / count) as u32))
    }

    /// The frame of a device that [`Traffic::next`] named is not sent, since its session is down.
    pub(crate) fn omit(&mut self, direction: Direction, device: u32) {
        let place = self.places.get(device as usize).copied().unwrap_or(NOWHERE);
        let stream = &mut self.streams[direction as usize];
        stream.omitted += 1;
        if let Some(session) = stream.sessions.get_mut(place as usize) {
            session.omitted += 1;
        }
    }

    /// The frame that [`Traffic::next`] named is of IPv6.
    pub(crate) fn is_ipv6(&mut self, direction: Direction) {
        self.streams[direction as usize].sent6 += 1;
    }

    /// When the next frame of a direction is due; `u64::MAX`: never.
    fn due_ns(&self, direction: Direction) -> u64 {
        let stream = &self.streams[direction as usize];
        let after = stream.sent as f64 * stream.interval_ns;
        let due_ns = if after.is_finite() { self.begin_ns + after as u64 } else { u64::MAX };
        if due_ns < self.end_ns { due_ns } else { u64::MAX }
    }

    /// When the next frame is due.
    pub(crate) fn next_ns(&self) -> u64 {
        self.due_ns(Direction::FromSubscriber).min(self.due_ns(Direction::ToSubscriber))
    }

    /// A frame of a device arrived where it belongs.
    pub(crate) fn arrived(&mut self, direction: Direction, number: &Number, is_v6: bool, latency_ns: u64) {
        let place = self.places.get(number.device as usize).copied().unwrap_or(NOWHERE);
        let stream = &mut self.streams[direction as usize];
        let Some(session) = stream.sessions.get_mut(place as usize) else { return };
        match session.sequence.arrived(number.sequence) {
            Arrival::Duplicate => stream.duplicated += 1,
            arrival => {
                stream.reordered += u64::from(arrival == Arrival::Reordered);
                stream.received += 1;
                stream.received6 += u64::from(is_v6);
                session.frames += 1;
                if stream.latencies_ns.len() < MOST_TIMES {
                    stream.latencies_ns.push(latency_ns);
                }
            }
        }
    }

    /// Whether everything that was sent has arrived.
    pub(crate) fn is_all_there(&self) -> bool {
        self.streams.iter().all(|stream| stream.received >= stream.sent - stream.omitted)
    }

    /// Sends nothing after now.
    pub(crate) fn end(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns.min(now_ns);
    }

    /// What became of a direction; `None`: it has no traffic.
    pub(crate) fn summary(&self, direction: Direction) -> Option<TrafficSummary> {
        let stream = &self.streams[direction as usize];
        if stream.interval_ns.is_infinite() {
            return None;
        }
        let count = self.sessions.len() as u64;
        let sent_by = |place: u64| stream.sent / count + u64::from(place < stream.sent % count);
        let with_loss = (0..).zip(&stream.sessions);
        let with_loss = with_loss.filter(|(place, session)| {
            u64::from(session.frames) + u64::from(session.omitted) < sent_by(*place)
        });
        Some(TrafficSummary {
            sent: stream.sent - stream.omitted,
            received: stream.received,
            sent6: stream.sent6,
            received6: stream.received6,
            duplicated: stream.duplicated,
            reordered: stream.reordered,
            sessions_with_loss: with_loss.count() as u64,
            duration: Duration::from_nanos(stream.last_ns - self.begin_ns),
            latency: Times::of(stream.latencies_ns.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbered::Kind;

    #[test]
    fn sessions_take_turns_and_are_counted_each() {
        let load = Load { from_subscriber_fps: 1000.0, to_subscriber_fps: 0.0, frame_bytes: 60 };
        let mut traffic = Traffic::new(load, 5, vec![1, 4], 0, 10_000_000);
        let direction = Direction::FromSubscriber;
        assert_eq!(traffic.next(Direction::ToSubscriber, 1), None);
        let mut sent = Vec::new();
        for now_ns in (0..=10_000_000).step_by(100_000) {
            while let Some(frame) = traffic.next(direction, now_ns) {
                sent.push((now_ns / 100_000, frame));
            }
        }
        assert_eq!(sent[..4], [(0, (1, 0)), (5, (4, 0)), (10, (1, 1)), (15, (4, 1))]);
        assert_eq!((sent.len(), traffic.next_ns()), (20, u64::MAX));
        let number =
            |device, sequence| Number { run: 1, kind: Kind::FromSubscriber, device, sequence, sent_ns: 0 };
        traffic.is_ipv6(direction);
        for (_, (device, sequence)) in sent.iter().filter(|(at, _)| *at != 15) {
            traffic.arrived(direction, &number(*device, *sequence), *device == 4, 5);
        }
        traffic.arrived(direction, &number(1, 0), true, 9);
        traffic.arrived(direction, &number(0, 0), true, 9);
        let summary = traffic.summary(direction).unwrap();
        assert_eq!((summary.sent, summary.received, summary.lost()), (20, 19, 1));
        assert_eq!((summary.sent6, summary.received6), (1, 9));
        assert_eq!((summary.duplicated, summary.reordered, summary.sessions_with_loss), (1, 0, 1));
        assert_eq!(summary.latency.map(|latency| latency.max), Some(Duration::from_nanos(5)));
        assert_eq!(traffic.summary(Direction::ToSubscriber), None);
    }
}
