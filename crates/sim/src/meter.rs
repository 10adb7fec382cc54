//! The counters of a running simulation.

use weir_queue::Time;

use crate::outcome::Sojourn;

/// Buckets of a factor of two.
const PER_OCTAVE: u64 = 64;

/// Times in buckets of 1.6 %, and their exact mean and maximum.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_s: f64,
    max: Time,
}

/// Times below 64 ns have a bucket each, then 64 buckets are an octave.
fn bucket(ns: u64) -> usize {
    let octave = u64::from((ns.max(1)).ilog2()).saturating_sub(PER_OCTAVE.ilog2().into());
    let index = octave * PER_OCTAVE + (ns >> octave);
    index as usize
}

/// The largest time of a bucket, in ns.
fn upper_ns(index: usize) -> u64 {
    let index = index as u64;
    let octave = (index / PER_OCTAVE).saturating_sub(1);
    ((index - octave * PER_OCTAVE + 1) << octave) - 1
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Time) {
        let index = bucket(time.ns());
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
        self.count += 1;
        self.sum_s += time.secs();
        self.max = self.max.max(time);
    }

    fn percentile_s(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return (upper_ns(index) as f64 / 1e9).min(self.max.secs());
            }
        }
        0.0
    }

    pub(crate) fn figures(&self) -> Sojourn {
        Sojourn {
            mean_s: if self.count == 0 { 0.0 } else { self.sum_s / self.count as f64 },
            p1_s: self.percentile_s(1.0),
            p50_s: self.percentile_s(50.0),
            p95_s: self.percentile_s(95.0),
            p99_s: self.percentile_s(99.0),
            max_s: self.max.secs(),
        }
    }
}

/// The link: how long it was busy, and how long it was idle although something was queued.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkMeter {
    pub(crate) bytes: u64,
    pub(crate) busy: Time,
    pub(crate) idle_with_backlog: Time,
    /// Bytes that the link could have sent, over all changes of its rate.
    pub(crate) capacity_bytes: f64,
}

/// One flow at the bottleneck.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlowMeter {
    pub(crate) offered: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) departed: u64,
    pub(crate) last_departure: Time,
    pub(crate) longest_gap: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_within_two_percent() {
        let mut last = 0;
        for ns in (0..2000).chain((2000..10_000_000_000).step_by(9_999_991)) {
            let index = bucket(ns);
            let upper = upper_ns(index);
            assert!(
                index >= last && upper >= ns && upper - ns <= ns / 60,
                "{ns} ns: bucket {index} up to {upper}"
            );
            last = index;
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|ms| histogram.add(Time::from_ms(ms)));
        let figures = histogram.figures();
        for (got, expected) in [
            (figures.p1_s, 0.01),
            (figures.p50_s, 0.5),
            (figures.p99_s, 0.99),
            (figures.max_s, 1.0),
            (figures.mean_s, 0.5005),
        ] {
            assert!((got / expected - 1.0).abs() < 0.02, "{got}, not {expected}");
        }
    }
}
