//! GSP, Global Synchronization Protection (draft-lauten-aqm-gsp-03; Lautenschlaeger, Francini, HPSR 2016).
//!
//! After the first drop a full queue drops about one packet of every second flow in the next round trip, and so
//! synchronizes them. GSP drops one packet when the queue exceeds a threshold, then ignores the threshold for an
//! interval. The adaptive variant shortens the interval while the queue is above the threshold more often than not.
//!
//! The draft gives no number for the threshold: it is a parameter here.

use serde::{Deserialize, Serialize};

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue};

/// What is too much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// More than so many bytes are queued.
    Bytes(u64),
    /// More than this share of the limit is queued, 0 to 1.
    Share(f64),
    /// The head has waited longer, in s.
    #[serde(rename = "sojourn_s")]
    Sojourn(Time),
}

/// How the interval follows the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adaptation {
    /// Time above the threshold that halves the interval.
    #[serde(rename = "tau_s")]
    pub tau: Time,
    /// Weight of time above against time below the threshold.
    pub alpha: f64,
    /// Largest sum: the shortest interval is `interval / (1 + max / tau)`.
    #[serde(rename = "max_s")]
    pub max: Time,
}

impl Default for Adaptation {
    fn default() -> Adaptation {
        Adaptation { tau: Time::from_s(1), alpha: 2.0, max: Time::from_s(60) }
    }
}

/// What can be set of GSP.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is too much; half of the limit by default.
    pub threshold: Threshold,
    /// How long the threshold is ignored after a drop: about two round trips.
    #[serde(rename = "interval_s")]
    pub interval: Time,
    /// How the interval follows the load; without it, GSP is the basic one.
    pub adapt: Option<Adaptation>,
}

impl Default for Config {
    fn default() -> Config {
        Config { threshold: Threshold::Share(0.5), interval: Time::from_ms(200), adapt: None }
    }
}

impl Config {
    /// Adaptive GSP.
    pub fn adaptive() -> Config {
        Config { adapt: Some(Adaptation::default()), ..Config::default() }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if let Threshold::Share(share) = self.threshold {
            ConfigError::share("gsp: threshold", share)?;
        }
        match self.adapt {
            Some(adapt) if adapt.tau == Time::ZERO => Err(ConfigError("gsp: tau_s must be above 0".into())),
            _ => Ok(()),
        }
    }
}

/// Since the buffer overflowed, time below the threshold does not count until the queue has been empty and full again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cycle {
    Clear,
    Overflow,
    Drained,
}

/// A queue with GSP.
#[derive(Debug)]
pub struct Gsp<T> {
    config: Config,
    limit_bytes: u64,
    expiry: Time,
    last: Time,
    cycle: Cycle,
    cumulated_s: f64,
    buffer: Buffer<T>,
    accounting: Accounting<T>,
}

impl<T> Gsp<T> {
    /// An empty queue.
    pub fn new(config: Config, at: &Bottleneck) -> Gsp<T> {
        Gsp {
            config,
            limit_bytes: at.limit_bytes,
            expiry: Time::ZERO,
            last: Time::ZERO,
            cycle: Cycle::Clear,
            cumulated_s: 0.0,
            buffer: Buffer::new(),
            accounting: Accounting::new(),
        }
    }

    fn above(&self, now: Time) -> bool {
        match self.config.threshold {
            Threshold::Bytes(bytes) => self.buffer.bytes() > bytes,
            Threshold::Share(share) => self.buffer.bytes() as f64 > share * self.limit_bytes as f64,
            Threshold::Sojourn(time) => self.buffer.head_age(now) > time,
        }
    }

    /// How long the threshold is ignored if it is violated at `now`.
    fn interval(&mut self, now: Time, above: bool) -> Time {
        let elapsed_s = (now - self.last).secs();
        self.last = now;
        let Some(adapt) = self.config.adapt else {
            return self.config.interval;
        };
        self.cycle = match self.cycle {
            Cycle::Overflow if self.buffer.is_empty() => Cycle::Drained,
            Cycle::Drained if above => Cycle::Clear,
            same => same,
        };
        if above {
            self.cumulated_s += adapt.alpha * elapsed_s;
        } else if self.cycle == Cycle::Clear {
            self.cumulated_s -= elapsed_s;
        }
        self.cumulated_s = self.cumulated_s.clamp(0.0, adapt.max.secs());
        Time::from_ps((self.config.interval.ps() as f64 / (1.0 + self.cumulated_s / adapt.tau.secs())) as u64)
    }
}

impl<T> Queue<T> for Gsp<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        let above = self.above(now);
        let interval = self.interval(now, above);
        if self.buffer.bytes() + u64::from(packet.bytes) > self.limit_bytes {
            self.cycle = Cycle::Overflow;
            return self.accounting.reject(packet, Reason::Overflow);
        }
        if above && now > self.expiry {
            self.expiry = now + interval;
            if !self.accounting.mark(&mut packet) {
                return self.accounting.reject(packet, Reason::Protection);
            }
        }
        self.accounting.queued(packet.bytes);
        self.buffer.push(packet);
    }

    fn take(&mut self, _now: Time) -> Option<Packet<T>> {
        let packet = self.buffer.pop()?;
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

    /// When packets are dropped, in ms, if 30 packets stay queued all the time.
    fn drops_ms(config: Config) -> Vec<u64> {
        let mut queue = Gsp::new(config, &Bottleneck { limit_bytes: 50_000, bits_per_s: 1, seed: 0 });
        let mut drops = Vec::new();
        for ms in 0..900 {
            queue.offer(Packet::new(1000, 0, ms), Time::from_ms(ms));
            if queue.backlog().packets > 30 {
                queue.take(Time::from_ms(ms));
            }
            drops.extend(queue.dropped().drain(..).map(|_| ms));
        }
        drops
    }

    #[test]
    fn one_drop_an_interval() {
        assert_eq!(drops_ms(Config::default()), [26, 227, 428, 629, 830]);
    }

    #[test]
    fn the_adaptive_interval_shrinks_above_the_threshold() {
        // above it since 26 ms: 200 / (1 + 2 * 0.001), then 200 / (1 + 2 * 0.201), ..
        assert_eq!(drops_ms(Config::adaptive()), [26, 226, 369, 488, 592, 686, 773, 854]);
    }

    #[test]
    fn after_an_overflow_time_below_the_threshold_counts_only_when_the_queue_was_empty_and_full_again() {
        let config =
            Config { threshold: Threshold::Bytes(2000), interval: Time::from_s(9), ..Config::adaptive() };
        let mut queue = Gsp::new(config, &Bottleneck { limit_bytes: 4000, bits_per_s: 1, seed: 0 });
        let mut ms = 0;
        // an arrival 100 ms after the last, with so many packets in the queue; the sum after it, in ms
        for (packets, cycle, sum_ms) in [
            (0, Cycle::Clear, 0),
            (3, Cycle::Clear, 200),
            (1, Cycle::Clear, 100),
            (4, Cycle::Overflow, 300),
            (1, Cycle::Overflow, 300),
            (3, Cycle::Overflow, 500),
            (1, Cycle::Overflow, 500),
            (0, Cycle::Drained, 500),
            (1, Cycle::Drained, 500),
            (3, Cycle::Clear, 700),
            (1, Cycle::Clear, 600),
        ] {
            while queue.backlog().packets > packets {
                queue.take(Time::from_ms(ms));
            }
            while queue.backlog().packets < packets {
                queue.buffer.push(Packet::new(1000, 0, 0));
                queue.accounting.queued(1000);
            }
            ms += 100;
            queue.offer(Packet::new(1000, 0, 0), Time::from_ms(ms));
            let got_ms = (queue.cumulated_s * 1e3).round() as u64;
            assert_eq!((queue.cycle, got_ms), (cycle, sum_ms), "{packets} packets at {ms} ms");
        }
    }

    #[test]
    fn thresholds_are_bytes_shares_and_sojourns() {
        for (threshold, first) in [
            (Threshold::Bytes(10_000), 11),
            (Threshold::Share(0.1), 6),
            (Threshold::Sojourn(Time::from_ms(20)), 21),
        ] {
            assert_eq!(drops_ms(Config { threshold, ..Config::default() })[0], first, "{threshold:?}");
        }
    }
}
