//! Markers: they give a flow's packets the values that its bandwidth deserves.
//!
//! Both keep the same promise: if all packets below a value are dropped, what stays of the flow is the bandwidth of this
//! value ([`super::bandwidth`]).

use serde::{Deserialize, Serialize};
use weir_rng::Rng;

use super::value;
use crate::ConfigError;
use crate::time::Time;

/// What can be set of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Config {
    /// A ladder of token buckets from 10 kbit/s to 10 Gbit/s, 30 of them a decade.
    Ladder {
        /// What a bucket can hold, as a time at its rate: about the buffer's delay.
        #[serde(rename = "depth_s")]
        depth: Time,
        /// This flow gets so many times the share of a flow of weight 1.
        weight: f64,
    },
    /// A bandwidth between 0 and the flow's rate is drawn for each packet.
    Random {
        /// The rate is that of about this time.
        #[serde(rename = "window_s")]
        window: Time,
        /// This flow gets so many times the share of a flow of weight 1.
        weight: f64,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config::Random { window: Time::from_ms(100), weight: 1.0 }
    }
}

impl Config {
    /// Whether a marker can be made of it.
    ///
    /// # Errors
    /// What is wrong, and what is right.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (Config::Ladder { depth: time, weight } | Config::Random { window: time, weight }) = self;
        if !weight.is_finite() || *weight <= 0.0 || *time == Time::ZERO {
            return Err(ConfigError("marker: weight, depth_s and window_s must be above 0".into()));
        }
        Ok(())
    }

    /// A marker for one flow.
    pub fn build(&self, seed: u64) -> Marker {
        match *self {
            Config::Ladder { depth, weight } => Marker::Ladder(Ladder::new(depth, weight)),
            Config::Random { window, weight } => Marker::Random(Random::new(window, weight, seed)),
        }
    }
}

/// The marker of one flow.
#[derive(Debug, Clone)]
pub enum Marker {
    /// Token buckets.
    Ladder(Ladder),
    /// Drawn values.
    Random(Random),
}

impl Marker {
    /// The value of a packet of `bytes` that the flow sends at `now`.
    pub fn mark(&mut self, bytes: u32, now: Time) -> u16 {
        match self {
            Marker::Ladder(ladder) => ladder.mark(bytes, now),
            Marker::Random(random) => random.mark(bytes, now),
        }
    }
}

/// Buckets of a decade.
const PER_DECADE: usize = 30;
/// 10 kbit/s to 10 Gbit/s.
const BUCKETS: usize = 6 * PER_DECADE + 1;

/// Each bucket limits the bytes of its value and of all that are higher.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// Bytes/s, from slow to fast.
    rates: Vec<f64>,
    values: Vec<u16>,
    tokens: Vec<f64>,
    depth_s: f64,
    last: Time,
}

impl Ladder {
    fn new(depth: Time, weight: f64) -> Ladder {
        let bits_per_s = |i: usize| 10f64.powf(4.0 + i as f64 / PER_DECADE as f64);
        let rates: Vec<f64> = (0..BUCKETS).map(|i| bits_per_s(i) * weight / 8.0).collect();
        let depth_s = depth.secs();
        Ladder {
            values: (0..BUCKETS).map(|i| value(bits_per_s(i))).collect(),
            tokens: rates.iter().map(|rate| rate * depth_s).collect(),
            rates,
            depth_s,
            last: Time::ZERO,
        }
    }

    /// The slowest bucket that has tokens for the packet, as have all that are faster. It and they pay.
    fn mark(&mut self, bytes: u32, now: Time) -> u16 {
        let elapsed_s = (now - self.last).secs();
        self.last = now;
        for (tokens, rate) in self.tokens.iter_mut().zip(&self.rates) {
            *tokens = (*tokens + rate * elapsed_s).min(rate * self.depth_s);
        }
        let bytes = f64::from(bytes);
        let covering = self.tokens.iter().rev().take_while(|&&tokens| tokens >= bytes).count();
        let first = BUCKETS - covering;
        for tokens in &mut self.tokens[first..] {
            *tokens -= bytes;
        }
        self.values.get(first).copied().unwrap_or(0)
    }
}

/// No state but the rate.
#[derive(Debug, Clone)]
pub struct Random {
    window_s: f64,
    weight: f64,
    bytes_per_s: f64,
    last: Option<Time>,
    rng: Rng,
}

impl Random {
    fn new(window: Time, weight: f64, seed: u64) -> Random {
        Random { window_s: window.secs(), weight, bytes_per_s: 0.0, last: None, rng: Rng::new(seed) }
    }

    /// The rate is a mean with weights that fall exponentially with age.
    fn mark(&mut self, bytes: u32, now: Time) -> u16 {
        let elapsed_s = self.last.map_or(0.0, |last| (now - last).secs());
        self.last = Some(now);
        self.bytes_per_s *= (-elapsed_s / self.window_s).exp();
        self.bytes_per_s += f64::from(bytes) / self.window_s;
        value(self.rng.unit() * self.bytes_per_s * 8.0 / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ppv::bandwidth;

    /// A flow of 20 Mbit/s for 10 s; how much of it has each value or more.
    fn kept_bits_per_s(config: Config, at_least: u16) -> f64 {
        let mut marker = config.build(7);
        let gap = Time::from_us(600);
        let bytes: u32 = (0..16_667u64)
            .filter(|&i| {
                i >= 1667 && marker_value(&mut marker, gap * i) >= at_least || {
                    if i < 1667 {
                        marker_value(&mut marker, gap * i);
                    }
                    false
                }
            })
            .map(|_| 1500)
            .sum();
        f64::from(bytes) * 8.0 / 9.0
    }

    fn marker_value(marker: &mut Marker, now: Time) -> u16 {
        marker.mark(1500, now)
    }

    #[test]
    fn what_is_above_a_value_is_the_bandwidth_of_this_value() {
        let ladder = Config::Ladder { depth: Time::from_ms(100), weight: 1.0 };
        let random = Config::Random { window: Time::from_ms(100), weight: 1.0 };
        for config in [ladder, random] {
            for bits_per_s in [2e6, 5e6, 10e6, 15e6] {
                let v = value(bits_per_s);
                let kept = kept_bits_per_s(config, v);
                let expected = bandwidth(v);
                assert!(
                    (kept / expected - 1.0).abs() < 0.1,
                    "{config:?}: {kept:.0} of {expected:.0} bit/s kept"
                );
            }
        }
    }

    #[test]
    fn a_weight_multiplies_the_share() {
        for weight in [0.5, 2.0] {
            let config = Config::Random { window: Time::from_ms(100), weight };
            let kept = kept_bits_per_s(config, value(5e6));
            assert!((kept / (5e6 * weight) - 1.0).abs() < 0.1, "weight {weight}: {kept:.0} bit/s kept");
        }
    }
}
