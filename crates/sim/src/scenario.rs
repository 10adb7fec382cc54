//! The scenario of a simulation.

use serde::{Deserialize, Serialize};
use weir_queue::ppv::marker;
use weir_queue::{Config, ConfigError, Time};

use crate::cc::Name;

/// A size of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffer {
    /// Bytes.
    Bytes(u64),
    /// Milliseconds at the link's (first) rate.
    Ms(f64),
    /// Bandwidth-delay products, of the link's (first) rate and the longest round trip without queues.
    Bdp(f64),
}

/// The link's rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Constant, in bits/s.
    BitsPerS(u64),
    /// From when on which rate, in s and bits/s; the first at 0. A packet keeps the rate of its start.
    Trace(Vec<(Time, u64)>),
}

/// Flows of a scenario, at most.
const MOST_FLOWS: u64 = 100_000;
/// Samples of all flows: three numbers each, so 1.2 GB.
const MOST_SAMPLES: u64 = 50_000_000;
/// 10 Tbit/s.
const MOST_BITS_PER_S: u64 = 10_000_000_000_000;

impl Rate {
    fn all(&self) -> impl Iterator<Item = u64> {
        let (constant, steps) = match self {
            Rate::BitsPerS(rate) => (Some(*rate), &[][..]),
            Rate::Trace(steps) => (None, &steps[..]),
        };
        constant.into_iter().chain(steps.iter().map(|step| step.1))
    }

    /// The rate at the start, in bits/s.
    pub fn first(&self) -> u64 {
        match self {
            Rate::BitsPerS(rate) => *rate,
            Rate::Trace(steps) => steps.first().map_or(0, |step| step.1),
        }
    }

    /// Its mean between two times, in bits/s.
    pub fn mean(&self, from: Time, to: Time) -> f64 {
        let Rate::Trace(steps) = self else { return self.first() as f64 };
        let ends = steps.iter().skip(1).map(|step| step.0).chain([Time::MAX]);
        let bits = steps.iter().zip(ends).map(|(&(begin, rate), end)| {
            let (begin, end) = (begin.max(from), end.min(to));
            if end > begin { (end - begin).secs() * rate as f64 } else { 0.0 }
        });
        bits.sum::<f64>() / (to - from).secs().max(1e-9)
    }
}

/// Losses behind the queue, on the way to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Each segment with this probability.
    Random(f64),
    /// Gilbert's model: a burst begins with `enters` and ends with `leaves`, per segment; in a burst all is lost.
    Burst {
        /// Probability that a burst begins.
        enters: f64,
        /// Probability that it ends.
        leaves: f64,
    },
}

/// A token bucket that drops what it has no tokens for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Tokens of a second, in bits.
    pub bits_per_s: f64,
    /// Tokens that the bucket holds, in bytes; it is full at the start.
    pub burst_bytes: f64,
}

/// What happens to segments behind the queue, beside the delay.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairment {
    /// Losses; none by default.
    pub loss: Option<Loss>,
    /// Up to so much more delay, uniform; the order is kept.
    #[serde(rename = "jitter_s")]
    pub jitter: Time,
    /// Share of segments that are overtaken, 0 to 1 ..
    pub reorder: f64,
    /// .. because they take so much longer.
    #[serde(rename = "reorder_by_s")]
    pub reorder_by: Time,
    /// What exceeds a rate is dropped.
    pub policer: Option<Policer>,
    /// ACKs come in groups, at multiples of this time.
    #[serde(rename = "ack_every_s")]
    pub ack_every: Time,
}

/// Flows of one kind, on paths of one delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many.
    pub flows: u32,
    /// Their congestion control.
    pub cc: Name,
    /// Round trip without queues: half of it behind the bottleneck, half back.
    #[serde(rename = "rtt_s")]
    pub rtt: Time,
    /// When the first one starts.
    #[serde(default, rename = "start_s")]
    pub start: Time,
    /// The others start within this time, at random.
    #[serde(default, rename = "spread_s")]
    pub spread: Time,
    /// Reno and CUBIC use ECN (RFC 3168), BBR 2 and 3 do on round trips of 5 ms at most. DCTCP and Prague always do, BBR 1
    /// never does.
    #[serde(default)]
    pub ecn: bool,
    /// The receiver sends an ACK for so many segments; 2 by default.
    #[serde(default = "two")]
    pub delayed_ack: u32,
    /// From when on the application has how many bits/s; empty: always more.
    #[serde(default)]
    pub application: Vec<(Time, f64)>,
    /// How values are set, if the queue needs them.
    #[serde(default)]
    pub marker: marker::Config,
    /// Losses, jitter, reordering.
    #[serde(default)]
    pub impairment: Impairment,
    /// The window of BBR 1 follows from this round trip, in place of the smallest one that it has seen; others ignore it.
    #[serde(default, rename = "min_rtt_s")]
    pub min_rtt: Option<Time>,
}

fn two() -> u32 {
    2
}

impl Group {
    /// Flows that start together and always have data.
    pub fn new(flows: u32, cc: Name, rtt: Time) -> Group {
        Group {
            flows,
            cc,
            rtt,
            start: Time::ZERO,
            spread: Time::ZERO,
            ecn: false,
            delayed_ack: 2,
            application: Vec::new(),
            marker: marker::Config::default(),
            impairment: Impairment::default(),
            min_rtt: None,
        }
    }
}

/// A bottleneck and its flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The queue.
    pub queue: Config,
    /// The link's rate.
    pub rate: Rate,
    /// Size of the buffer. A packet in service is outside of it.
    pub buffer: Buffer,
    /// The flows.
    pub groups: Vec<Group>,
    /// Time that is simulated.
    #[serde(rename = "duration_s")]
    pub duration: Time,
    /// Figures count from here on; the series has all.
    #[serde(default, rename = "warm_up_s")]
    pub warm_up: Time,
    /// Length of an interval of the series.
    #[serde(default = "tenth", rename = "interval_s")]
    pub interval: Time,
    /// Bytes of a full segment as the link counts them; 1514 with the Ethernet header.
    #[serde(default = "frame")]
    pub segment_bytes: u32,
    /// Of these, payload of TCP.
    #[serde(default = "payload")]
    pub payload_bytes: u32,
    /// All that is random follows from it.
    #[serde(default)]
    pub seed: u64,
}

fn tenth() -> Time {
    Time::from_ms(100)
}

fn frame() -> u32 {
    1514
}

fn payload() -> u32 {
    1448
}

/// A scenario that makes no sense; the text says what is wrong, and what is right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A setting of the queue.
    #[error("queue: {0}")]
    Queue(#[from] ConfigError),
    /// A setting of the scenario.
    #[error("{0}")]
    Scenario(String),
}

impl Scenario {
    /// Flows through `queue`, for `duration`.
    pub fn new(
        queue: Config,
        rate_bits_per_s: u64,
        buffer: Buffer,
        groups: Vec<Group>,
        duration: Time,
    ) -> Scenario {
        Scenario {
            queue,
            rate: Rate::BitsPerS(rate_bits_per_s),
            buffer,
            groups,
            duration,
            warm_up: Time::ZERO,
            interval: tenth(),
            segment_bytes: frame(),
            payload_bytes: payload(),
            seed: 0,
        }
    }

    /// The longest round trip without queues.
    pub fn longest_rtt(&self) -> Time {
        self.groups.iter().map(|group| group.rtt).max().unwrap_or_default()
    }

    fn flows(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.flows)).sum()
    }

    /// The buffer in bytes.
    pub fn buffer_bytes(&self) -> u64 {
        let bytes_per_s = self.rate.first() as f64 / 8.0;
        match self.buffer {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Ms(ms) => (ms / 1e3 * bytes_per_s).round() as u64,
            Buffer::Bdp(times) => (times * self.longest_rtt().secs() * bytes_per_s).round() as u64,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: String| Err(ScenarioError::Scenario(what));
        if self.groups.iter().all(|group| group.flows == 0) {
            return wrong("there are no flows: give at least one group a flow".into());
        }
        if self.buffer_bytes() < u64::from(self.segment_bytes) {
            let (bytes, segment) = (self.buffer_bytes(), self.segment_bytes);
            return wrong(format!(
                "a buffer of {bytes} bytes cannot hold a segment of {segment}: use a larger one"
            ));
        }
        if self.interval < Time::from_us(100)
            || self.duration < self.interval
            || self.duration <= self.warm_up
        {
            return wrong(
                "interval_s must be 1e-4 or more, duration_s no shorter than it and longer than warm_up_s"
                    .into(),
            );
        }
        let samples = (self.duration.ps() / self.interval.ps()).saturating_mul(self.flows());
        if self.flows() > MOST_FLOWS || samples > MOST_SAMPLES {
            return wrong(format!(
                "{} flows and {samples} samples are too many: at most {MOST_FLOWS} flows, and {MOST_SAMPLES} samples \
                 (flows times duration_s over interval_s)",
                self.flows()
            ));
        }
        if self.payload_bytes == 0 || self.payload_bytes > self.segment_bytes {
            return wrong("payload_bytes must be 1 to segment_bytes".into());
        }
        if let Rate::Trace(steps) = &self.rate {
            let sorted = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let starts = steps.first().is_some_and(|step| step.0 == Time::ZERO);
            if !sorted || !starts {
                return wrong("a trace starts at 0 s, and its times rise".into());
            }
        }
        if !self.rate.all().all(|rate| (1..=MOST_BITS_PER_S).contains(&rate)) {
            return wrong(format!("rates are 1 to {MOST_BITS_PER_S} bit/s"));
        }
        self.groups.iter().enumerate().try_for_each(|(i, group)| group.check(i + 1))
    }
}

impl Group {
    fn check(&self, number: usize) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError::Scenario(format!("group {number}: {what}")));
        if self.rtt < Time::from_us(10) {
            return wrong("rtt_s must be 1e-5 or more");
        }
        if self.delayed_ack == 0 {
            return wrong("delayed_ack must be 1 or more segments");
        }
        let share = |p: f64| (0.0..=1.0).contains(&p);
        let likely = match self.impairment.loss {
            None => true,
            Some(Loss::Random(p)) => share(p),
            Some(Loss::Burst { enters, leaves }) => share(enters) && share(leaves),
        };
        if !likely || !share(self.impairment.reorder) {
            return wrong("probabilities of loss and reordering are 0 to 1");
        }
        if self
            .impairment
            .policer
            .is_some_and(|policer| !(policer.bits_per_s > 0.0 && policer.burst_bytes >= 0.0))
        {
            return wrong("a policer's bits_per_s must be above 0, its burst_bytes 0 or more");
        }
        let rising = self.application.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !rising || self.application.iter().any(|step| !step.1.is_finite() || step.1 < 0.0) {
            return wrong("the application's times rise, and its rates are 0 bit/s or more");
        }
        Ok(self.marker.check()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_rate_is_that_of_the_bits() {
        let steps = [(0, 8), (10, 2), (30, 4)].map(|(s, rate)| (Time::from_s(s), rate));
        let rate = Rate::Trace(steps.to_vec());
        for (from, to, mean) in [(0, 10, 8.0), (5, 15, 5.0), (0, 40, 4.0), (20, 60, 3.5)] {
            assert_eq!(rate.mean(Time::from_s(from), Time::from_s(to)), mean, "{from} to {to} s");
        }
        assert_eq!(Rate::BitsPerS(7).mean(Time::ZERO, Time::from_s(1)), 7.0);
    }
}
