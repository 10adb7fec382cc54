//! Differences between the latencies of consecutive frames (RFC 3393; IPDV of RFC 8219, section 7.3.2).
//!
//! A frame counts with the one before it if that has the number before and arrived before it.

use serde::{Deserialize, Serialize};
use weir_port::shared::{self, LATENCY_BUCKETS};

use crate::histogram::{Histogram, LATENCY_BITS};

/// Distribution of the differences, ns: later minus earlier. Extremes are exact, the median to 0.8 %.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipdv {
    /// Pairs of frames.
    pub count: u64,
    /// Smallest difference.
    pub min_ns: i64,
    /// Largest difference.
    pub max_ns: i64,
    /// Negative differences, without their sign.
    below: Histogram,
    /// The others.
    above: Histogram,
}

impl Default for Ipdv {
    fn default() -> Self {
        let empty = || Histogram::new(LATENCY_BITS, LATENCY_BUCKETS);
        Ipdv { count: 0, min_ns: 0, max_ns: 0, below: empty(), above: empty() }
    }
}

impl Ipdv {
    /// What a program counted.
    pub(crate) fn of(counted: &shared::Ipdv) -> Ipdv {
        let shared::Ipdv { count, min_ns, max_ns, below, above } = counted;
        let mut ipdv = Ipdv { count: *count, min_ns: *min_ns, max_ns: *max_ns, ..Ipdv::default() };
        ipdv.below.add(below);
        ipdv.above.add(above);
        ipdv
    }

    /// Counts a frame that took `latency_ns` and the one before it.
    pub(crate) fn record(&mut self, latency_ns: u64, before_ns: u64) {
        let difference = latency_ns.wrapping_sub(before_ns) as i64;
        self.min_ns = if self.count == 0 { difference } else { self.min_ns.min(difference) };
        self.max_ns = if self.count == 0 { difference } else { self.max_ns.max(difference) };
        self.count += 1;
        let side = if difference < 0 { &mut self.below } else { &mut self.above };
        side.record(difference.unsigned_abs());
    }

    /// Whether its parts agree, with counts of up to `most`: those that came from elsewhere may not.
    pub(crate) fn is_sound(&self, most: u64) -> bool {
        let has_form = |side: &Histogram| side.has_form(LATENCY_BITS, LATENCY_BUCKETS, most);
        has_form(&self.below)
            && has_form(&self.above)
            && self.below.total() + self.above.total() == self.count
            && self.min_ns <= self.max_ns
    }

    /// Median, by nearest rank.
    pub fn median_ns(&self) -> i64 {
        let (below, rank) = (self.below.total(), self.count.div_ceil(2));
        let share = |nth: u64, of: u64| nth as f64 / of as f64;
        let median = if rank > below {
            self.above.percentile(share(rank - below, self.count - below)) as i64
        } else {
            // The smallest difference is the largest of those without a sign.
            -(self.below.percentile(share(below - rank + 1, below)) as i64)
        };
        median.clamp(self.min_ns, self.max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(latencies: &[u64], count: u64, min_median_max: [i64; 3]) {
        let mut ipdv = Ipdv::default();
        for pair in latencies.windows(2) {
            ipdv.record(pair[1], pair[0]);
        }
        assert_eq!(ipdv.count, count, "{latencies:?}");
        let [min, median, max] = min_median_max;
        assert_eq!((ipdv.min_ns, ipdv.max_ns), (min, max), "{latencies:?}");
        let error = ipdv.median_ns().abs_diff(median) as f64;
        assert!(error <= 0.01 * median.unsigned_abs() as f64, "{latencies:?}: {}", ipdv.median_ns());
    }

    #[test]
    fn differences_have_signs() {
        check(&[], 0, [0, 0, 0]);
        check(&[700], 0, [0, 0, 0]);
        check(&[700, 700], 1, [0, 0, 0]);
        check(&[100_000, 500], 1, [-99_500, -99_500, -99_500]);
        check(&[1000, 1010, 990, 995], 3, [-20, 5, 10]);
        check(&[50_000, 40_000, 31_000, 33_000, 25_000], 4, [-10_000, -9000, 2000]);
        check(&[0, 5_000_000, 0, 3_000_000, 0], 4, [-5_000_000, -3_000_000, 5_000_000]);
    }
}
