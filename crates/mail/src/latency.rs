//! Latencies of one step of the dialogue.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Percentiles, s. Each is exact to 1 %. They are those of a closed loop: a connection that waits asks nothing meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub p50_s: f64,
    /// 90 % are not longer.
    pub p90_s: f64,
    /// 99 % are not longer.
    pub p99_s: f64,
    /// 99.9 % are not longer.
    pub p999_s: f64,
    /// The longest.
    pub max_s: f64,
}

/// Counts in microseconds up to an hour.
#[derive(Debug, Clone)]
pub(crate) struct Counts(Histogram<u32>);

impl Counts {
    pub(crate) fn new() -> Counts {
        Counts(Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("bounds that are allowed"))
    }

    pub(crate) fn add(&mut self, took: std::time::Duration) {
        self.0.saturating_record(took.as_micros().try_into().unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Counts) {
        self.0.add(&other.0).expect("the same bounds");
    }

    pub(crate) fn summary(&self) -> Latency {
        let at = |q| self.0.value_at_quantile(q) as f64 / 1e6;
        Latency {
            count: self.0.len(),
            p50_s: at(0.5),
            p90_s: at(0.9),
            p99_s: at(0.99),
            p999_s: at(0.999),
            max_s: self.0.max() as f64 / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn percentiles_of_several_threads_are_those_of_all() {
        let (mut one, mut other) = (Counts::new(), Counts::new());
        (1..=50).for_each(|ms| one.add(Duration::from_millis(ms)));
        (51..=100).for_each(|ms| other.add(Duration::from_millis(ms)));
        one.merge(&other);
        let found = one.summary();
        assert_eq!(found.count, 100);
        for (value, ms) in
            [(found.p50_s, 50.0), (found.p90_s, 90.0), (found.p99_s, 99.0), (found.max_s, 100.0)]
        {
            assert!((value * 1e3 / ms - 1.0).abs() < 0.011, "{value} s, not {ms} ms");
        }
    }
}
