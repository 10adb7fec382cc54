//! Log-linear histograms as the eBPF programs fill them: 2^k buckets per octave, exact below 2^k.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Buckets per octave of a latency histogram: 64, so that a bucket's bounds differ by less than 1.6 % and
/// its middle is within 0.8 % of every value in it.
pub const LATENCY_BITS: u32 = 6;
/// Buckets per octave of a lateness histogram: 8.
pub const LATE_BITS: u32 = 3;

/// Buckets of a latency histogram: 34 s and more are in the last one.
pub const LATENCY_BUCKETS: usize = 1920;

/// Counts per bucket of values in ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Sparse", try_from = "Sparse")]
pub struct Histogram {
    bits: u32,
    counts: Vec<u64>,
}

/// A histogram on its way to another host: only buckets that hold something.
#[derive(Serialize, Deserialize)]
struct Sparse {
    bits: u32,
    buckets: usize,
    filled: Vec<(usize, u64)>,
}

impl From<Histogram> for Sparse {
    fn from(Histogram { bits, counts }: Histogram) -> Sparse {
        let buckets = counts.len();
        Sparse { bits, buckets, filled: counts.into_iter().enumerate().filter(|(_, n)| *n > 0).collect() }
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;

    fn try_from(Sparse { bits, buckets, filled }: Sparse) -> Result<Histogram, String> {
        if buckets > LATENCY_BUCKETS {
            return Err(format!("a histogram of {buckets} buckets"));
        }
        let mut histogram = Histogram::new(bits, buckets);
        for (bucket, n) in filled {
            let count = histogram.counts.get_mut(bucket).ok_or_else(|| format!("no bucket {bucket}"))?;
            *count = n;
        }
        Ok(histogram)
    }
}

impl Histogram {
    /// Empty, for latencies.
    pub fn latency() -> Self {
        Histogram::new(LATENCY_BITS, LATENCY_BUCKETS)
    }

    /// Empty, with 2^`bits` buckets per octave.
    pub fn new(bits: u32, buckets: usize) -> Self {
        Histogram { bits, counts: vec![0; buckets] }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        let bucket = bucket(self.bits, value).min(self.counts.len() - 1);
        self.counts[bucket] += 1;
    }

    /// Adds the counts of another histogram of the same shape.
    pub fn add(&mut self, counts: &[u64]) {
        for (sum, n) in self.counts.iter_mut().zip(counts) {
            *sum += n;
        }
    }

    /// What was counted since an earlier state of it.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then).collect();
        Histogram { bits: self.bits, counts }
    }

    /// Counts per bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Whether it has 2^`bits` buckets per octave and so many of them, with counts of up to `most`: one that came from
    /// elsewhere may have any.
    pub fn has_form(&self, bits: u32, buckets: usize, most: u64) -> bool {
        self.bits == bits && self.counts.len() == buckets && self.counts.iter().all(|&n| n <= most)
    }

    /// Values counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value below or at which a share `p` (0..=1) of all values lies, by nearest rank; the middle of
    /// its bucket. 0 when nothing was counted.
    pub fn percentile(&self, p: f64) -> u64 {
        let rank = (p * self.total() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (i, n) in self.counts.iter().enumerate() {
            below += n;
            if below >= rank && *n > 0 {
                let range = range(self.bits, i);
                return range.start().midpoint(*range.end());
            }
        }
        0
    }

    /// (upper bound in ns, count) of the buckets that hold something.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(i, n)| (*range(self.bits, i).end(), *n)).collect()
    }
}

/// Bucket of a value.
fn bucket(bits: u32, value: u64) -> usize {
    let octave = (value >> bits).checked_ilog2().map_or(0, |log| log + 1);
    let shift = octave.saturating_sub(1);
    ((octave as usize) << bits) + ((value >> shift) as usize & ((1 << bits) - 1))
}

/// Values of a bucket.
fn range(bits: u32, bucket: usize) -> RangeInclusive<u64> {
    let octave = (bucket >> bits) as u32;
    let within = (bucket & ((1 << bits) - 1)) as u64;
    if octave == 0 {
        return within..=within;
    }
    let shift = octave - 1;
    let first = ((1 << bits) + within) << shift;
    first..=first + (1 << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_range_of_its_bucket() {
        for bits in [LATE_BITS, LATENCY_BITS] {
            for value in
                (0..5000).chain((13..44).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + (1 << (e - 3))]))
            {
                let range = range(bits, bucket(bits, value));
                assert!(range.contains(&value), "{value} in {range:?} with 2^{bits} per octave");
            }
        }
    }

    #[test]
    fn a_histogram_that_travelled_is_the_same() {
        let mut histogram = Histogram::new(LATE_BITS, 240);
        [0, 7, 7, 900, u64::MAX].into_iter().for_each(|value| histogram.record(value));
        assert_eq!(Histogram::try_from(Sparse::from(histogram.clone())), Ok(histogram));
        let empty = |buckets, filled| Histogram::try_from(Sparse { bits: 3, buckets, filled });
        assert!(empty(usize::MAX, Vec::new()).is_err() && empty(8, vec![(8, 1)]).is_err());
    }

    #[test]
    fn percentiles_are_within_one_percent() {
        let mut histogram = Histogram::new(LATENCY_BITS, LATENCY_BUCKETS);
        (1..=100_000).for_each(|v| histogram.record(v * 37));
        for (p, exact) in [(0.5, 1_850_000.0), (0.9, 3_330_000.0), (0.999, 3_696_300.0)] {
            let got = histogram.percentile(p) as f64;
            assert!((got - exact).abs() / exact < 0.01, "p{p}: {got} for {exact}");
        }
        assert_eq!(Histogram::new(6, 1920).percentile(0.5), 0);
        assert_eq!(histogram.buckets().iter().map(|(_, n)| n).sum::<u64>(), 100_000);
    }
}
