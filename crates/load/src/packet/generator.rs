//! Builds test frames and sends them through sockets when they are due.

use std::sync::Arc;
use std::time::Duration;

use weir_packet::flow::Flow;
use weir_packet::frame::{BROADCAST, Signature};
use weir_packet::size::{FCS_BYTES, FrameSizes};
use weir_port::bpf::now_ns;
use weir_port::packet::{BATCH, PacketError, Sender};

use crate::counts::{GroupCounts, Load, StreamCounts, Traffic, empty_lateness};
use crate::schedule::Schedule;
use crate::{Control, Start, grace};

/// Sends frames out of one or two interfaces.
pub struct PacketGenerator {
    senders: [Option<Arc<Sender>>; 2],
    traffic: Traffic,
    flows: Vec<Flow>,
}

impl PacketGenerator {
    /// Stream i leaves through sender i.
    pub fn new(senders: [Option<Arc<Sender>>; 2], traffic: Traffic) -> Self {
        let flows = traffic.flows.sequence();
        PacketGenerator { senders, traffic, flows }
    }

    /// The streams that are sent here.
    pub(crate) fn sends(&self) -> impl Iterator<Item = usize> {
        (0..2).filter(|&i| self.traffic.sends(i) && self.senders[i].is_some())
    }

    /// Sends `load`; returns what was sent per stream and how long that took. `arrived` is what `control` is
    /// reported beside what was sent.
    pub(crate) fn send(
        &self,
        load: &Load,
        start: Start,
        control: &Control,
        arrived: impl Fn() -> u64,
    ) -> Result<(Vec<StreamCounts>, Duration), PacketError> {
        let transmitter = Transmitter::new(self, start, load);
        let streams = transmitter.run(control, arrived)?;
        Ok((streams, Duration::from_nanos(now_ns().saturating_sub(start.at_ns))))
    }
}

/// Builds frames and sends them when they are due.
struct Transmitter<'a> {
    senders: &'a [Option<Arc<Sender>>; 2],
    traffic: &'a Traffic,
    flows: &'a [Flow],
    start: Start,
    duration: Duration,
    streams: Vec<Outgoing>,
    random: u64,
}

/// Progress of one stream that is being sent.
struct Outgoing {
    counts: StreamCounts,
    /// `None` = as fast as possible.
    schedule: Option<Schedule>,
    total: u64,
    seq: Vec<u32>,
    /// Due time of the frames that left last.
    noted_ns: Option<u64>,
    /// Frames from one broadcast to the next; 0 = none.
    cast_every: u64,
}

impl Outgoing {
    /// How many frames may leave now. Late, it catches up: its schedule runs at 1.25 times the speed.
    fn allowed(&self, now_ns: u64) -> u64 {
        let left = (self.total - self.counts.sent).min(BATCH as u64);
        let Some(schedule) = &self.schedule else { return left };
        let since_last = now_ns.saturating_sub(self.counts.last_ns);
        let on_schedule = self.noted_ns.unwrap_or(0) + since_last + since_last / 4;
        schedule.due_by(on_schedule.min(now_ns)).saturating_sub(self.counts.sent).min(left)
    }

    /// Is a broadcast due before its next frame? If not, how many frames may leave before one is?
    fn until_broadcast(&self) -> Option<u64> {
        if self.cast_every == 0 {
            return Some(u64::MAX);
        }
        let next = (self.counts.broadcasts + 1) * self.cast_every - 1;
        next.checked_sub(self.counts.sent).filter(|left| *left > 0)
    }

    /// Notes that its next frame left.
    fn sent(&mut self, now_ns: u64) {
        self.counts.last_ns = now_ns;
        let n = self.counts.sent;
        self.counts.sent += 1;
        let Some(schedule) = &self.schedule else { return };
        let due_ns = schedule.due_ns(n);
        if self.noted_ns != Some(due_ns) {
            let late = now_ns.saturating_sub(due_ns);
            self.counts.late.record(late);
            self.counts.late_max_ns = self.counts.late_max_ns.max(late);
            self.counts.late_end_ns = late;
            self.noted_ns = Some(due_ns);
        }
        if n == schedule.phases[0].frames {
            self.counts.turned_ns = Some(now_ns);
        }
    }
}

impl<'a> Transmitter<'a> {
    fn new(generator: &'a PacketGenerator, start: Start, load: &Load) -> Self {
        let PacketGenerator { senders, traffic, flows } = generator;
        let outgoing = |stream| {
            let schedule = Schedule::of(load, stream, traffic.streams());
            let total = schedule.map_or(load.max_frames.unwrap_or(u64::MAX), |schedule| schedule.total);
            Outgoing {
                counts: nothing_sent(stream, total, traffic.flows.groups),
                schedule,
                total,
                seq: vec![0; usize::from(traffic.flows.groups)],
                noted_ns: None,
                cast_every: load.broadcast_every.map_or(0, |n| n.get().into()),
            }
        };
        let streams = generator.sends().map(outgoing).collect();
        Transmitter { senders, traffic, flows, start, duration: load.duration, streams, random: traffic.seed }
    }

    fn run(mut self, control: &Control, arrived: impl Fn() -> u64) -> Result<Vec<StreamCounts>, PacketError> {
        let start = self.start.at_ns;
        self.streams.iter_mut().for_each(|s| s.counts.start_ns = start);
        while now_ns() < start {
            std::hint::spin_loop();
        }
        let paced = self.streams.iter().all(|s| s.schedule.is_some());
        let limit = self.duration + if paced { grace(self.duration) } else { Duration::ZERO };
        let mut frames = vec![Vec::new(); BATCH];
        while self.streams.iter().any(|s| s.counts.sent < s.total) && !control.stopped() {
            let elapsed = now_ns() - start;
            if elapsed >= limit.as_nanos() as u64 {
                break;
            }
            for i in 0..self.streams.len() {
                let n = self.streams[i].allowed(elapsed);
                let Some(sender) = self.senders[self.streams[i].counts.stream].as_ref().filter(|_| n > 0)
                else {
                    continue;
                };
                let Some(room) = self.streams[i].until_broadcast() else {
                    let sent = sender.send(&[self.broadcast(i, start + elapsed)])?;
                    self.streams[i].counts.broadcasts += sent as u64;
                    continue;
                };
                let n = n.min(room) as usize;
                self.build(i, &mut frames[..n], start + elapsed);
                let sent = sender.send(&frames[..n])?;
                self.note(i, &frames[..sent], elapsed);
            }
            control.report(self.streams.iter().map(|s| s.counts.sent).sum(), arrived());
        }
        Ok(self.streams.into_iter().map(finished).collect())
    }

    /// Builds the next frames of stream `i`; numbers are only used up when they are sent.
    fn build(&mut self, i: usize, frames: &mut [Vec<u8>], time_ns: u64) {
        let stream = &self.streams[i];
        let ends = &self.traffic.ends[stream.counts.stream];
        let mut seq = stream.seq.clone();
        for (k, frame) in frames.iter_mut().enumerate() {
            let n = stream.counts.sent + k as u64;
            let mut flow = self.flows[(n % self.flows.len() as u64) as usize];
            if stream.counts.stream == 1 {
                flow = flow.reversed();
            }
            let next = &mut seq[usize::from(flow.group)];
            let signature = Signature {
                stream: stream.counts.stream as u8,
                epoch: self.start.epoch,
                group: flow.group,
                seq: *next,
                time_ns,
            };
            *next += 1;
            let size = size_of_frame(&self.traffic.sizes, n, &mut self.random);
            *frame = ends.carry(self.traffic.transport, &flow, size, signature);
        }
    }

    /// What the next frame of stream `i` would be, but for its destination and its mark.
    fn broadcast(&self, i: usize, time_ns: u64) -> Vec<u8> {
        let counts = &self.streams[i].counts;
        let flow = self.flows[(counts.sent % self.flows.len() as u64) as usize];
        let flow = if counts.stream == 1 { flow.reversed() } else { flow };
        let signature = Signature {
            stream: counts.stream as u8 | BROADCAST,
            epoch: self.start.epoch,
            group: flow.group,
            seq: counts.broadcasts as u32,
            time_ns,
        };
        // Of random sizes the next one is not used up.
        let size = size_of_frame(&self.traffic.sizes, counts.sent, &mut self.random.clone());
        let ends = &self.traffic.ends[counts.stream];
        let mut frame = ends.carry(self.traffic.transport, &flow, size, signature);
        frame[..6].fill(0xff);
        frame
    }

    fn note(&mut self, i: usize, sent: &[Vec<u8>], elapsed_ns: u64) {
        let stream = &mut self.streams[i];
        for frame in sent {
            let flow = &self.flows[(stream.counts.sent % self.flows.len() as u64) as usize];
            stream.seq[usize::from(flow.group)] += 1;
            stream.counts.sent_bytes += (frame.len() + FCS_BYTES) as u64;
            stream.sent(elapsed_ns);
        }
    }
}

fn nothing_sent(stream: usize, offered: u64, groups: u16) -> StreamCounts {
    StreamCounts {
        stream,
        offered,
        sent: 0,
        sent_bytes: 0,
        late: empty_lateness(),
        late_max_ns: 0,
        late_end_ns: 0,
        start_ns: 0,
        last_ns: 0,
        turned_ns: None,
        broadcasts: 0,
        groups: vec![GroupCounts::empty(); usize::from(groups)],
        marks: Vec::new(),
    }
}

fn finished(stream: Outgoing) -> StreamCounts {
    let mut counts = stream.counts;
    for (group, sent) in counts.groups.iter_mut().zip(stream.seq) {
        group.sent = u64::from(sent);
    }
    if counts.offered == u64::MAX {
        counts.offered = counts.sent;
    }
    counts
}

fn size_of_frame(sizes: &FrameSizes, n: u64, random: &mut u64) -> u16 {
    match sizes {
        FrameSizes::Fixed(size) => *size,
        FrameSizes::Cycle { sizes, .. } => sizes[(n % sizes.len() as u64) as usize],
        FrameSizes::Random { min, max } => {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            min + ((*random >> 33) % u64::from(max - min + 1)) as u16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(fps: f64) -> Outgoing {
        let load = Load::steady(fps, Duration::from_secs(1_000_000_000));
        let schedule = Schedule::of(&load, 0, 1);
        let total = schedule.expect("a paced load").total;
        Outgoing {
            counts: nothing_sent(0, total, 0),
            schedule,
            total,
            seq: Vec::new(),
            noted_ns: None,
            cast_every: 0,
        }
    }

    #[test]
    fn what_is_due_may_leave_and_no_more_than_a_batch() {
        for (fps, now_ns, expected) in [
            (1e6, 0, 1),
            (1e6, 10_000, 11),
            (1e6, 1_000_000, BATCH as u64),
            (1e30, 1, BATCH as u64),
            (1e-9, 1_000_000, 1),
        ] {
            assert_eq!(outgoing(fps).allowed(now_ns), expected, "{fps} frames/s after {now_ns} ns");
        }
        let mut early = outgoing(1e6);
        early.counts.sent = 11;
        assert_eq!(early.allowed(10_000), 0);
    }
}
