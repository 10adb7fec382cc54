//! A queue and the link that takes from it, on a virtual clock: when each packet starts and ends follows from arrivals and rate.

use std::collections::VecDeque;
use std::fmt;

use weir_queue::{Bottleneck, Config, ConfigError, Counters, Pace, Packet, Queue, Reason, Tally, Time};

use crate::rate::{Rate, Schedule};

/// A packet that the link has taken.
#[derive(Debug)]
pub struct Departure<T> {
    /// The packet, with CE if it was marked.
    pub packet: Packet<T>,
    /// When it was taken from the queue: its sojourn ends.
    pub starts: Time,
    /// When its last bit has left.
    pub ends: Time,
}

/// Offered, dropped, departed: what became of all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// They arrived.
    pub offered: Tally,
    /// The link took them.
    pub departed: Tally,
    /// They got CE.
    pub marked: u64,
    /// The queue dropped them, by [`Reason::ALL`].
    pub dropped: [Tally; Reason::ALL.len()],
}

/// A queue in front of a link.
pub struct Link<T> {
    /// The last one takes arrivals; those before it, of earlier settings, are emptied first.
    queues: VecDeque<Box<dyn Queue<T> + Send>>,
    schedule: Schedule,
    pace: Pace,
    now: Time,
    /// When the packet in service has left.
    free: Time,
    /// When a pause is over.
    resumes: Time,
    dropped: Vec<(T, Reason)>,
    ended: LinkCounts,
}

impl<T: Send + 'static> Link<T> {
    /// An empty queue of `config` in front of an idle link, at time 0.
    ///
    /// # Errors
    /// A setting of the queue makes no sense.
    pub fn new(config: &Config, at: &Bottleneck, rate: &Rate) -> Result<Link<T>, ConfigError> {
        let schedule = rate.schedule(Time::ZERO, at.seed);
        Ok(Link {
            queues: VecDeque::from([config.build(at)?]),
            pace: Pace::new(schedule.bits_per_s()),
            schedule,
            now: Time::ZERO,
            free: Time::ZERO,
            resumes: Time::ZERO,
            dropped: Vec::new(),
            ended: LinkCounts::default(),
        })
    }

    /// The rate changes, from `at` on.
    pub fn set_rate(&mut self, rate: &Rate, at: Time, seed: u64) {
        self.schedule = rate.schedule(at, seed);
        self.pace = Pace::new(self.schedule.bits_per_s());
        // What waits for the end of a pause starts now, and no earlier.
        (self.now, self.resumes) = (self.now.max(at), Time::ZERO);
    }

    /// From now on another queue takes what arrives. The packets of the former one leave first, by its rules.
    ///
    /// # Errors
    /// A setting of the queue makes no sense.
    pub fn set_queue(&mut self, config: &Config, at: &Bottleneck) -> Result<(), ConfigError> {
        self.queues.push_back(config.build(at)?);
        self.forget_empty();
        Ok(())
    }

    /// Time begins anew: what was `at` is 0. Nothing waits, and the queue is built again.
    ///
    /// # Errors
    /// A setting of the queue makes no sense.
    pub fn begin_anew(
        &mut self,
        config: &Config,
        bottleneck: &Bottleneck,
        at: Time,
    ) -> Result<(), ConfigError> {
        self.set_queue(config, bottleneck)?;
        self.schedule.begin_anew(at);
        (self.now, self.free, self.resumes) = (Time::ZERO, self.free - at, self.resumes - at);
        Ok(())
    }

    /// A packet arrives. At equal times, a departure comes first. Times never decrease: an earlier one counts as the last.
    pub fn arrive(&mut self, packet: Packet<T>, at: Time, mut departed: impl FnMut(Departure<T>)) {
        let at = at.max(self.now);
        self.advance(at, &mut departed);
        self.now = at;
        if let Some(queue) = self.queues.back_mut() {
            queue.offer(packet, at);
        }
        self.collect();
    }

    /// When the link takes the next packet; none if none waits.
    pub fn next_start(&self) -> Option<Time> {
        let due = self.queues.front()?.due(self.now)?;
        Some(due.max(self.free).max(self.resumes))
    }

    /// Takes all packets that start until, and at, `until`.
    pub fn advance(&mut self, until: Time, mut departed: impl FnMut(Departure<T>)) {
        while let Some(starts) = self.next_start().filter(|&at| at <= until) {
            self.now = self.now.max(starts);
            if !self.has_rate(starts) {
                continue;
            }
            let Some(queue) = self.queues.front_mut() else { return };
            let taken = queue.take(starts);
            self.collect();
            self.forget_empty();
            let Some(packet) = taken else { continue };
            self.free = starts + self.pace.slot(u64::from(packet.bytes));
            departed(Departure { packet, starts, ends: self.free });
        }
    }

    /// Takes all packets out, in the order in which they would leave from `at` on.
    pub fn drain(&mut self, at: Time) -> Vec<Packet<T>> {
        let (mut at, mut all) = (at.max(self.now), Vec::new());
        for queue in &mut self.queues {
            while let Some(due) = queue.due(at) {
                let before = queue.backlog().packets;
                at = due;
                all.extend(queue.take(at));
                if queue.backlog().packets == before {
                    break;
                }
            }
        }
        self.collect();
        all
    }

    /// Sets the rate of `at`. False in a pause: then the link is busy until it is over.
    fn has_rate(&mut self, at: Time) -> bool {
        if self.schedule.seek(at) {
            self.pace = Pace::new(self.schedule.bits_per_s());
        }
        if self.schedule.bits_per_s() > 0 {
            return true;
        }
        self.resumes = self.schedule.next().map_or(Time::MAX, |next| next + Time::from_ps(1));
        false
    }

    fn collect(&mut self) {
        let dropped = self.queues.iter_mut().flat_map(|queue| queue.dropped().drain(..));
        self.dropped.extend(dropped.map(|drop| (drop.packet.payload, drop.reason)));
    }

    fn forget_empty(&mut self) {
        while self.queues.len() > 1 && self.queues.front().is_some_and(|queue| queue.backlog().packets == 0) {
            let counts = self.queues.pop_front().map(|queue| *queue.counters());
            add(&mut self.ended, &counts.unwrap_or_default());
        }
    }

    /// Payloads of packets that were dropped since the caller emptied this list last, and why.
    pub fn dropped(&mut self) -> &mut Vec<(T, Reason)> {
        &mut self.dropped
    }

    /// What waits.
    pub fn backlog(&self) -> Tally {
        self.queues.iter().map(|queue| queue.backlog()).fold(Tally::default(), |sum, one| Tally {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }

    /// The rate of the packet that started last, in bits/s; 0 in a pause in which one waits.
    pub fn bits_per_s(&self) -> u64 {
        self.schedule.bits_per_s()
    }

    /// What became of all packets so far.
    pub fn counts(&self) -> LinkCounts {
        let mut counts = self.ended;
        self.queues.iter().for_each(|queue| add(&mut counts, queue.counters()));
        counts
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("schedule", &self.schedule)
            .field("free", &self.free)
            .finish_non_exhaustive()
    }
}

fn add(sum: &mut LinkCounts, queue: &Counters) {
    let plus = |to: &mut Tally, more: &Tally| {
        to.packets += more.packets;
        to.bytes += more.bytes;
    };
    plus(&mut sum.offered, &queue.offered);
    plus(&mut sum.departed, &queue.taken);
    sum.marked += queue.marked;
    sum.dropped.iter_mut().zip(&queue.dropped).for_each(|(to, more)| plus(to, more));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Trace;

    fn link(rate: &Rate) -> Link<u32> {
        let at = Bottleneck { limit_bytes: 1_000_000, bits_per_s: rate.nominal(), seed: 1 };
        Link::new(&Config::Fifo(Default::default()), &at, rate).unwrap()
    }

    /// 1000 bytes take 1 ms at 8 Mbit/s.
    fn arrive(link: &mut Link<u32>, numbers: std::ops::Range<u32>, at: Time) {
        numbers.for_each(|number| link.arrive(Packet::new(1000, 0, number), at, |_| ()));
    }

    /// Numbers and starts in us of what leaves until then.
    fn departures(link: &mut Link<u32>, until: Time) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        link.advance(until, |one| all.push((one.packet.payload, one.starts.ns() / 1000)));
        all
    }

    #[test]
    fn a_rate_that_is_set_in_a_pause_counts_at_once() {
        let trace = Trace::read("0 8mbit\n0.002 0\n100 8mbit\n").unwrap();
        let mut link = link(&Rate::Trace(trace.into()));
        arrive(&mut link, 0..6, Time::from_ms(1));
        assert_eq!(departures(&mut link, Time::from_ms(50)), [(1, 2000)]);
        assert_eq!(link.next_start(), Some(Time::from_s(100) + Time::from_ps(1)));
        link.set_rate(&Rate::Constant(4_000_000), Time::from_ms(50), 1);
        assert_eq!(departures(&mut link, Time::from_ms(53)), [(2, 50_000), (3, 52_000)]);
    }

    #[test]
    fn what_is_drained_is_all_that_waits_and_time_may_begin_anew_then() {
        let rate = Rate::Constant(8_000_000);
        let mut link = link(&rate);
        arrive(&mut link, 0..5, Time::ZERO);
        let at = Bottleneck { limit_bytes: 1_000_000, bits_per_s: rate.nominal(), seed: 1 };
        link.set_queue(&Config::Codel(Default::default()), &at).unwrap();
        arrive(&mut link, 5..7, Time::ZERO);
        let drained: Vec<u32> = link.drain(Time::from_us(500)).iter().map(|packet| packet.payload).collect();
        assert_eq!(drained, [1, 2, 3, 4, 5, 6], "one is in service");
        assert_eq!((link.backlog(), link.next_start()), (Tally::default(), None));
        link.begin_anew(&Config::Fifo(Default::default()), &at, Time::from_us(600)).unwrap();
        arrive(&mut link, 7..9, Time::ZERO);
        assert_eq!(departures(&mut link, Time::from_ms(5)), [(7, 400), (8, 1400)]);
        assert_eq!((link.counts().offered.packets, link.counts().departed.packets), (9, 9));
    }

    #[test]
    fn a_schedule_goes_on_when_time_begins_anew() {
        let trace = Rate::Trace(Trace::read("0 8mbit\n0.001 0\n0.003 8mbit\n").unwrap().into());
        let mut link = link(&trace);
        let at = Bottleneck { limit_bytes: 1_000_000, bits_per_s: trace.nominal(), seed: 1 };
        link.begin_anew(&Config::Fifo(Default::default()), &at, Time::from_ms(2)).unwrap();
        arrive(&mut link, 0..2, Time::ZERO);
        assert_eq!(
            departures(&mut link, Time::from_ms(5)),
            [(0, 1000), (1, 2000)],
            "the pause has 1 ms left"
        );
    }
}
