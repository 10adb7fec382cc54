//! RED (Floyd, Jacobson: "Random Early Detection Gateways for Congestion Avoidance", ToN 1993), with the gentle region,
//! and Adaptive RED (Floyd, Gummadi, Shenker 2001), in bytes.
//!
//! ```text
//! probability   1 |                    ____
//!                 |                 /           max < average < 2 max: "gentle"
//!           max p |             /
//!               0 |______ ----                  min < average < max
//!                       min   max  2 max
//! ```

use serde::{Deserialize, Serialize};
use weir_rng::Rng;

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue};

/// How the distance of drops is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// Uniform over 1 to 1/p packets.
    #[default]
    Uniform,
    /// Uniform over 1/p to 2/p packets (ns-2 and ns-3: "wait").
    Wait,
}

/// What can be set of RED.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Below this average, in bytes, nothing is dropped. Without it: that of Adaptive RED, the larger of 5 packets and
    /// half of 5 ms at the rate of the link.
    pub min_bytes: Option<u64>,
    /// At this average, in bytes, `max_p` is reached; above twice of it all is dropped. Without it: 3 times `min_bytes`.
    pub max_bytes: Option<u64>,
    /// Largest probability of the first slope, 0 to 1; the start value if `adapt` is set.
    pub max_p: f64,
    /// Weight of an arrival in the average. Without it 1 - exp(-1 / packets per second of the link).
    pub weight: Option<f64>,
    /// Mean packet, in bytes.
    pub mean_bytes: u32,
    /// How the distance of drops is drawn.
    pub spacing: Spacing,
    /// Adaptive RED changes `max_p` once in this time. Without it `max_p` stays.
    #[serde(rename = "adapt_s")]
    pub adapt: Option<Time>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            min_bytes: None,
            max_bytes: None,
            max_p: 0.1,
            weight: None,
            mean_bytes: 1000,
            spacing: Spacing::Uniform,
            adapt: None,
        }
    }
}

impl Config {
    /// Adaptive RED.
    pub fn adaptive() -> Config {
        Config { adapt: Some(Time::from_ms(500)), ..Config::default() }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        ConfigError::share("red: max_p", self.max_p)?;
        if let Some(weight) = self.weight {
            ConfigError::share("red: weight", weight)?;
        }
        if let (Some(min), Some(max)) = (self.min_bytes, self.max_bytes)
            && min >= max
        {
            return Err(ConfigError(format!("red: min_bytes {min} must be below max_bytes {max}")));
        }
        Ok(())
    }
}

/// What RED says of an arrival.
enum Verdict {
    Accept,
    Signal,
    Drop,
}

/// A queue with RED.
#[derive(Debug)]
pub struct Red<T> {
    config: Config,
    min: f64,
    max: f64,
    weight: f64,
    packets_per_s: f64,
    limit_bytes: u64,
    max_p: f64,
    average: f64,
    since_drop: u64,
    idle_since: Option<Time>,
    adapt_at: Time,
    rng: Rng,
    buffer: Buffer<T>,
    accounting: Accounting<T>,
}

impl<T> Red<T> {
    /// An empty queue.
    pub fn new(config: Config, at: &Bottleneck) -> Red<T> {
        let mean = f64::from(config.mean_bytes.max(1));
        let packets_per_s = at.bits_per_s as f64 / 8.0 / mean;
        let min = config
            .min_bytes
            .map_or_else(|| (5.0 * mean).max(0.005 * at.bits_per_s as f64 / 8.0 / 2.0), |bytes| bytes as f64);
        Red {
            min,
            max: config.max_bytes.map_or(3.0 * min, |bytes| bytes as f64),
            weight: config.weight.unwrap_or_else(|| 1.0 - (-1.0 / packets_per_s).exp()),
            packets_per_s,
            limit_bytes: at.limit_bytes,
            max_p: config.max_p,
            average: 0.0,
            since_drop: 0,
            idle_since: Some(Time::ZERO),
            adapt_at: config.adapt.unwrap_or(Time::MAX),
            rng: Rng::new(at.seed),
            buffer: Buffer::new(),
            accounting: Accounting::new(),
            config,
        }
    }

    /// Moves the average towards the present queue; an idle time counts as the packets that could have left in it.
    fn measure(&mut self, now: Time) {
        if let Some(since) = self.idle_since.take() {
            let missed = (now - since).secs() * self.packets_per_s;
            self.average *= (1.0 - self.weight).powf(missed);
        }
        self.average = (1.0 - self.weight) * self.average + self.weight * self.buffer.bytes() as f64;
    }

    /// Adaptive RED keeps the average in the middle fifth between the thresholds.
    fn adapt(&mut self, now: Time) {
        if now < self.adapt_at {
            return;
        }
        self.adapt_at = now + self.config.adapt.unwrap_or(Time::MAX);
        let band = 0.4 * (self.max - self.min);
        if self.average > self.max - band && self.max_p <= 0.5 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        } else if self.average < self.min + band && self.max_p >= 0.01 {
            self.max_p *= 0.9;
        }
    }

    fn verdict(&mut self, bytes: u32) -> Verdict {
        if self.average < self.min {
            self.since_drop = 0;
            return Verdict::Accept;
        }
        if self.average >= 2.0 * self.max {
            self.since_drop = 0;
            return Verdict::Drop;
        }
        self.since_drop += 1;
        let by_average = if self.average < self.max {
            self.max_p * (self.average - self.min) / (self.max - self.min)
        } else {
            self.max_p + (1.0 - self.max_p) * (self.average - self.max) / self.max
        };
        let p = by_average * f64::from(bytes) / f64::from(self.config.mean_bytes.max(1));
        if self.rng.unit() < spaced(self.config.spacing, p, self.since_drop) {
            self.since_drop = 0;
            Verdict::Signal
        } else {
            Verdict::Accept
        }
    }
}

/// The probability of a drop, given that `since` packets came after the last one.
fn spaced(spacing: Spacing, p: f64, since: u64) -> f64 {
    let count = since as f64 * p;
    match spacing {
        Spacing::Uniform if count < 1.0 => p / (1.0 - count),
        Spacing::Wait if count < 1.0 => 0.0,
        Spacing::Wait if count < 2.0 => p / (2.0 - count),
        _ => 1.0,
    }
}

impl<T> Queue<T> for Red<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        self.measure(now);
        self.adapt(now);
        let verdict = self.verdict(packet.bytes);
        if self.buffer.is_empty() {
            // what is dropped here does not end the idle time; what is queued leaves later, in `take`
            self.idle_since = Some(now);
        }
        match verdict {
            Verdict::Drop => return self.accounting.reject(packet, Reason::Early),
            Verdict::Signal if !packet.ecn.capable() => return self.accounting.reject(packet, Reason::Early),
            Verdict::Signal | Verdict::Accept => {}
        }
        if self.buffer.bytes() + u64::from(packet.bytes) > self.limit_bytes {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        if matches!(verdict, Verdict::Signal) {
            self.accounting.mark(&mut packet);
        }
        self.idle_since = None;
        self.accounting.queued(packet.bytes);
        self.buffer.push(packet);
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        let packet = self.buffer.pop()?;
        self.accounting.taken(packet.bytes);
        if self.buffer.is_empty() {
            self.idle_since = Some(now);
        }
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

    #[test]
    fn the_distance_of_drops_is_bounded() {
        for (spacing, p, since, expected) in [
            (Spacing::Uniform, 0.1, 0, 0.1),
            (Spacing::Uniform, 0.1, 5, 0.2),
            (Spacing::Uniform, 0.1, 10, 1.0),
            (Spacing::Wait, 0.1, 9, 0.0),
            (Spacing::Wait, 0.1, 15, 0.2),
            (Spacing::Wait, 0.1, 20, 1.0),
        ] {
            let got: f64 = spaced(spacing, p, since);
            assert!((got - expected).abs() < 1e-12, "{spacing:?} {p} {since}: {got}");
        }
    }

    #[test]
    fn thresholds_and_weight_follow_from_the_rate() {
        for (bits_per_s, min) in [(1_000_000, 5000.0), (1_000_000_000, 312_500.0)] {
            let red: Red<()> =
                Red::new(Config::default(), &Bottleneck { limit_bytes: 1, bits_per_s, seed: 0 });
            assert_eq!((red.min, red.max), (min, 3.0 * min));
            assert!((red.weight * red.packets_per_s - 1.0).abs() < 0.01, "{}", red.weight);
        }
    }

    #[test]
    fn adaptive_red_keeps_the_average_near_the_middle() {
        // load 1.3: without adaptation, 10 % at the most are dropped, and the gentle region is needed
        let averages = [Config::default(), Config::adaptive()].map(|config| {
            let mut red =
                Red::new(config, &Bottleneck { limit_bytes: 1 << 20, bits_per_s: 8_000_000, seed: 1 });
            for i in 0..100_000u64 {
                red.offer(Packet::new(1000, 0, i), Time::from_us(1000 * i * 10 / 13));
                if i * 10 / 13 != (i + 1) * 10 / 13 {
                    red.take(Time::from_us(1000 * i * 10 / 13));
                }
            }
            (red.average - red.min) / (red.max - red.min)
        });
        assert!(averages[0] > 1.0 && (0.3..0.8).contains(&averages[1]), "{averages:?}");
    }
}
