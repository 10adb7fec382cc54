//! CoDel (RFC 8289): drops at the head, ever faster, while packets have waited longer than the target for an interval.

use serde::{Deserialize, Serialize};

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, OnEct, Queue};

/// What can be set of CoDel; the defaults are those of RFC 8289, section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Sojourn that is always accepted.
    #[serde(rename = "target_s")]
    pub target: Time,
    /// How long the sojourn must stay above it: about the largest round trip.
    #[serde(rename = "interval_s")]
    pub interval: Time,
    /// What is done to ECN-capable packets.
    pub on_ect: OnEct,
}

impl Default for Config {
    fn default() -> Config {
        Config { target: Time::from_ms(5), interval: Time::from_ms(100), on_ect: OnEct::Mark }
    }
}

/// The control law, for one list of packets.
#[derive(Debug, Clone)]
pub(crate) struct Law {
    config: Config,
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Largest packet seen, in bytes: a queue no larger than that is none.
    largest: u32,
}

impl Law {
    pub(crate) fn new(config: Config) -> Law {
        Law {
            config,
            first_above: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            largest: 512,
        }
    }

    pub(crate) fn arrived(&mut self, bytes: u32) {
        self.largest = self.largest.max(bytes);
    }

    /// The head, and whether it may be dropped (`doDequeue` of the RFC).
    fn pop<T>(&mut self, buffer: &mut Buffer<T>, now: Time) -> (Option<Packet<T>>, bool) {
        let Some(packet) = buffer.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let below = now - packet.arrival < self.config.target || buffer.bytes() <= u64::from(self.largest);
        let may_drop = match self.first_above {
            _ if below => {
                self.first_above = None;
                false
            }
            None => {
                self.first_above = Some(now + self.config.interval);
                false
            }
            Some(since) => now >= since,
        };
        (Some(packet), may_drop)
    }

    fn after(&self, time: Time) -> Time {
        time + Time::from_ps((self.config.interval.ps() as f64 / f64::from(self.count).sqrt()) as u64)
    }

    fn marks<T>(&self, packet: &mut Packet<T>, accounting: &mut Accounting<T>) -> bool {
        self.config.on_ect == OnEct::Mark && accounting.mark(packet)
    }

    /// The next packet that leaves; those before it are dropped.
    pub(crate) fn take<T>(
        &mut self,
        buffer: &mut Buffer<T>,
        accounting: &mut Accounting<T>,
        now: Time,
    ) -> Option<Packet<T>> {
        let (head, may_drop) = self.pop(buffer, now);
        let Some(head) = head else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            self.go_on(head, may_drop, buffer, accounting, now)
        } else if may_drop {
            self.begin(head, buffer, accounting, now)
        } else {
            Some(head)
        }
    }

    /// In the dropping state: all drops that are due.
    fn go_on<T>(
        &mut self,
        head: Packet<T>,
        mut may_drop: bool,
        buffer: &mut Buffer<T>,
        accounting: &mut Accounting<T>,
        now: Time,
    ) -> Option<Packet<T>> {
        let mut head = Some(head);
        self.dropping = may_drop;
        while self.dropping && now >= self.drop_next {
            let mut packet = head?;
            self.count += 1;
            if self.marks(&mut packet, accounting) {
                self.drop_next = self.after(self.drop_next);
                return Some(packet);
            }
            accounting.remove(packet, Reason::Sojourn);
            (head, may_drop) = self.pop(buffer, now);
            self.dropping = may_drop;
            if may_drop {
                self.drop_next = self.after(self.drop_next);
            }
        }
        head
    }

    /// The first drop; a recent dropping state is continued near its rate.
    fn begin<T>(
        &mut self,
        mut packet: Packet<T>,
        buffer: &mut Buffer<T>,
        accounting: &mut Accounting<T>,
        now: Time,
    ) -> Option<Packet<T>> {
        let next = if self.marks(&mut packet, accounting) {
            Some(packet)
        } else {
            accounting.remove(packet, Reason::Sojourn);
            self.pop(buffer, now).0
        };
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now - self.drop_next < self.config.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.after(now);
        self.last_count = self.count;
        next
    }
}

/// A queue with CoDel.
#[derive(Debug)]
pub struct Codel<T> {
    limit_bytes: u64,
    law: Law,
    buffer: Buffer<T>,
    accounting: Accounting<T>,
}

impl<T> Codel<T> {
    /// An empty queue.
    pub fn new(config: Config, at: &Bottleneck) -> Codel<T> {
        Codel {
            limit_bytes: at.limit_bytes,
            law: Law::new(config),
            buffer: Buffer::new(),
            accounting: Accounting::new(),
        }
    }
}

impl<T> Queue<T> for Codel<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        if self.buffer.bytes() + u64::from(packet.bytes) > self.limit_bytes {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        self.law.arrived(packet.bytes);
        self.accounting.queued(packet.bytes);
        self.buffer.push(packet);
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        let packet = self.law.take(&mut self.buffer, &mut self.accounting, now)?;
        self.accounting.taken(packet.bytes);
        Some(packet)
    }

    fn accounting(&self) -> &Accounting<T> {
        &self.accounting
    }

    fn accounting_mut(&mut self) -> &mut Accounting<T> {
        &mut self.accounting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When packets are dropped, in ms, if one of 1000 bytes arrives and one leaves each ms behind a backlog of 20.
    fn drops_ms(config: Config, until_ms: u64) -> Vec<u64> {
        let mut queue =
            Codel::new(config, &Bottleneck { limit_bytes: 1 << 30, bits_per_s: 8_000_000, seed: 0 });
        let mut drops = Vec::new();
        for i in 0..200 {
            queue.offer(Packet::new(1000, 0, i), Time::ZERO);
        }
        for ms in 0..until_ms {
            queue.offer(Packet::new(1000, 0, ms), Time::from_ms(ms));
            queue.take(Time::from_ms(ms));
            drops.extend(queue.dropped().drain(..).map(|_| ms));
        }
        drops
    }

    #[test]
    fn drops_follow_the_law_of_rfc_8289_section_5() {
        // above the target from 5 ms on; then 105 + 100 / sqrt(1), + 100 / sqrt(2), ..
        assert_eq!(drops_ms(Config::default(), 400), [105, 205, 276, 334, 384]);
        // the same with half of the interval: + 50 / sqrt(n)
        let half = Config { interval: Time::from_ms(50), ..Config::default() };
        assert_eq!(drops_ms(half, 200), [55, 105, 141, 170, 195]);
    }

    #[test]
    fn a_queue_of_one_packet_is_never_dropped() {
        let mut queue =
            Codel::new(Config::default(), &Bottleneck { limit_bytes: 9000, bits_per_s: 1, seed: 0 });
        for s in 0..100 {
            queue.offer(Packet::new(1500, 0, s), Time::from_s(s));
            queue.offer(Packet::new(1500, 0, s), Time::from_s(s));
            assert!(queue.take(Time::from_s(s + 1)).is_some() && queue.take(Time::from_s(s + 1)).is_some());
        }
        assert_eq!(queue.counters().dropped_packets(), 0);
    }
}
