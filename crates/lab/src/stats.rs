//! Statistics of repeated measurements: few values, unknown distribution, outliers.
//!
//! Hence medians and bootstrap intervals (Efron, Tibshirani: "An Introduction to the Bootstrap", 1993,
//! chapter 13, percentile method) rather than means and normal quantiles. Randomness comes from a seed: the
//! same sample and seed give the same interval. An empty sample has no statistic: `None`.

mod student;
mod unpaired;

use crate::rng::Rng;
pub use unpaired::{Sample, Unpaired, unpaired_ratio};

/// Resamples per interval. The bounds then move by well under their own width from seed to seed.
const RESAMPLES: usize = 2000;

/// Share of the resampled statistics inside an interval.
pub const CONFIDENCE: f64 = 0.95;

/// Fewest values for which an interval says anything.
const FEWEST_FOR_INTERVAL: usize = 3;

/// Arithmetic mean and spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// Arithmetic mean, in the unit of the sample.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1), in the unit of the sample; 0 for a single value.
    pub standard_deviation: f64,
}

/// How many times larger one measured quantity is than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of the first / median of the second.
    pub value: f64,
    /// Bounds of the [`CONFIDENCE`] interval; `None` with fewer than three pairs. It excludes 1 where
    /// the difference is more than noise.
    pub interval: Option<(f64, f64)>,
}

/// The middle value; the mean of the two middle ones where their number is even.
pub fn median(sample: &[f64]) -> Option<f64> {
    let sorted = sorted(sample);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The smallest value that at least `percent` (0..=100) of the sample do not exceed (nearest rank: always
/// a value that was measured).
pub fn percentile(sample: &[f64], percent: f64) -> Option<f64> {
    nearest_rank(&sorted(sample), percent / 100.0)
}

/// Mean and standard deviation.
pub fn mean(sample: &[f64]) -> Option<Mean> {
    let n = sample.len() as f64;
    if sample.is_empty() {
        return None;
    }
    let mean = sample.iter().sum::<f64>() / n;
    let squares = sample.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    Some(Mean { mean, standard_deviation: (squares / (n - 1.0).max(1.0)).sqrt() })
}

/// Bootstrap interval of the median; `None` with fewer than three values.
pub fn median_interval(sample: &[f64], seed: u64) -> Option<(f64, f64)> {
    interval(sample, seed, median)
}

/// Bootstrap interval of the arithmetic mean; `None` with fewer than three values.
pub fn mean_interval(sample: &[f64], seed: u64) -> Option<(f64, f64)> {
    interval(sample, seed, |sample| mean(sample).map(|m| m.mean))
}

/// Ratio of the medians of two quantities that were measured in turns, as `(first, second)`. Pairs are
/// resampled together, so what disturbed both at the same time cancels out. `None` without pairs, or
/// where the second median is 0.
pub fn ratio(pairs: &[(f64, f64)], seed: u64) -> Option<Ratio> {
    let value = ratio_of_medians(pairs)?;
    Some(Ratio { value, interval: interval(pairs, seed, ratio_of_medians) })
}

fn ratio_of_medians(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let divisor = median(&second)?;
    (divisor != 0.0).then_some(median(&first)? / divisor)
}

/// Percentile bootstrap: the statistic of many samples drawn from the sample with replacement.
fn interval<T: Copy>(sample: &[T], seed: u64, statistic: fn(&[T]) -> Option<f64>) -> Option<(f64, f64)> {
    if sample.len() < FEWEST_FOR_INTERVAL {
        return None;
    }
    let mut rng = Rng::new(seed);
    let mut resample = || -> Option<f64> {
        let drawn: Vec<T> = (0..sample.len()).map(|_| sample[rng.below(sample.len())]).collect();
        statistic(&drawn)
    };
    let statistics: Vec<f64> = (0..RESAMPLES).filter_map(|_| resample()).collect();
    let sorted = sorted(&statistics);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some((nearest_rank(&sorted, tail)?, nearest_rank(&sorted, 1.0 - tail)?))
}

fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

fn sorted(sample: &[f64]) -> Vec<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row: a sample, then what each statistic says of it.
    fn check(sample: &[f64], med: Option<f64>, p: [Option<f64>; 3], mean_sd: Option<(f64, f64)>) {
        assert_eq!(median(sample), med, "median of {sample:?}");
        let got = [0.0, 90.0, 100.0].map(|percent| percentile(sample, percent));
        assert_eq!(got, p, "percentiles 0, 90, 100 of {sample:?}");
        let got = mean(sample).map(|m| (m.mean, m.standard_deviation));
        assert_eq!(got, mean_sd, "mean and standard deviation of {sample:?}");
    }

    #[test]
    fn point_statistics() {
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        check(&[], None, [None; 3], None);
        check(&[4.0], Some(4.0), [Some(4.0); 3], Some((4.0, 0.0)));
        check(&[3.0, 1.0], Some(2.0), [Some(1.0), Some(3.0), Some(3.0)], Some((2.0, 2f64.sqrt())));
        check(&[9.0, 1.0, 2.0], Some(2.0), [Some(1.0), Some(9.0), Some(9.0)], Some((4.0, 19f64.sqrt())));
        let sd = (82.5f64 / 9.0).sqrt();
        check(&ten, Some(5.5), [Some(1.0), Some(9.0), Some(10.0)], Some((5.5, sd)));
    }

    /// Nominal 95 %; the percentile bootstrap of a median of 15 covers slightly less or more.
    #[test]
    fn interval_covers_the_median_of_the_population() {
        const SEEDS: u64 = 400;
        let covered = (0..SEEDS).filter(|&seed| {
            let mut rng = Rng::new(seed);
            let sample: Vec<f64> = (0..15).map(|_| rng.unit()).collect();
            let (low, high) = median_interval(&sample, seed).expect("15 values");
            (low..=high).contains(&0.5)
        });
        let share = covered.count() as f64 / SEEDS as f64;
        assert!((0.90..=0.99).contains(&share), "covered {share} of seeds 0..{SEEDS}");
    }

    #[test]
    fn interval_repeats_and_needs_three_values() {
        let sample = [1.0, 5.0, 2.0, 8.0, 3.0];
        assert_eq!(median_interval(&sample, 7), median_interval(&sample, 7));
        assert_eq!(median_interval(&sample[..2], 7), None);
        assert_eq!(median_interval(&[2.0; 3], 7), Some((2.0, 2.0)));
    }

    /// Pairs with a common disturbance of +-30 % and a true ratio of 1.1: only pairing shows it.
    #[test]
    fn pairing_cancels_what_disturbs_both() {
        let mut rng = Rng::new(3);
        let pairs: Vec<(f64, f64)> = (0..20)
            .map(|_| {
                let common = 0.7 + 0.6 * rng.unit();
                (1.1 * common, common)
            })
            .collect();
        let r = ratio(&pairs, 3).expect("20 pairs");
        let (low, high) = r.interval.expect("20 pairs");
        assert!((r.value - 1.1).abs() < 1e-9 && high - low < 1e-9, "{r:?}");
        assert_eq!(ratio(&[], 3), None);
        assert_eq!(ratio(&[(1.0, 0.0)], 3), None);
        assert_eq!(ratio(&[(3.0, 2.0)], 3), Some(Ratio { value: 1.5, interval: None }));
    }
}
