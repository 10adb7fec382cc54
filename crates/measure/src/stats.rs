//! Statistics of repeated measurements: few values, unknown distribution, outliers.
//!
//! Hence medians, with exact intervals from order statistics (the sign test turned round); where a procedure asks for
//! the mean, Student's. Five values never bound a median with 95 %: two times in 32 all lie on one side of it. An
//! empty sample has no statistic: `None`.

mod student;
mod unpaired;

pub use unpaired::{Sample, Unpaired, unpaired_ratio};

/// How often an interval holds what it is for.
pub const CONFIDENCE: f64 = 0.95;

/// Fewest values that bound a median with [`CONFIDENCE`].
pub const FEWEST_FOR_INTERVAL: usize = 6;

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
    /// Median of the ratios of the pairs.
    pub value: f64,
    /// Bounds of the [`CONFIDENCE`] interval; `None` with fewer than six pairs. It excludes 1 where
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

/// Exact interval of the median of any distribution: the k-th value from below and from above, with the largest k that
/// leaves it between them with [`CONFIDENCE`]. `None` with fewer than six values.
pub fn median_interval(sample: &[f64]) -> Option<(f64, f64)> {
    let (sorted, n) = (sorted(sample), sample.len());
    let tail = (1.0 - CONFIDENCE) / 2.0;
    // The probability that exactly i values lie below the median, then that i or fewer do.
    let (mut exactly, mut at_most, mut k) = (0.5_f64.powi(i32::try_from(n).ok()?), 0.0, 0);
    while k < n && at_most + exactly <= tail {
        at_most += exactly;
        exactly *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    Some((*sorted.get(k.checked_sub(1)?)?, sorted[n - k]))
}

/// Student's interval of the arithmetic mean: exact where values scatter normally. `None` with fewer than three.
pub fn mean_interval(sample: &[f64]) -> Option<(f64, f64)> {
    let Mean { mean, standard_deviation } = mean(sample).filter(|_| sample.len() >= 3)?;
    let n = sample.len() as f64;
    let half = student::critical(1.0 - CONFIDENCE, n - 1.0) * standard_deviation / n.sqrt();
    Some((mean - half, mean + half))
}

/// Ratio of two quantities that were measured alternately, as `(first, second)`: the median over the pairs, so that what
/// disturbed both of a pair cancels out. `None` without pairs, or where a second is 0.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    if pairs.iter().any(|(_, second)| *second == 0.0) {
        return None;
    }
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| first / second).collect();
    Some(Ratio { value: median(&ratios)?, interval: median_interval(&ratios) })
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
    use crate::rng::Rng;

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

    /// Rows: number of values, and which of them, from 1, bound the median. The published table of the sign test.
    #[test]
    fn intervals_of_a_median_are_those_of_the_sign_test() {
        for (n, low, high) in [(6, 1, 6), (8, 1, 8), (9, 2, 8), (12, 3, 10), (20, 6, 15), (100, 40, 61)] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            assert_eq!(median_interval(&values), Some((f64::from(low), f64::from(high))), "{n} values");
        }
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(median_interval(&[]), None);
    }

    /// Share of 1000 samples of `n` values around 0, almost normal, whose interval holds it.
    fn coverage(n: usize, of: fn(&[f64]) -> Option<(f64, f64)>) -> f64 {
        let covers = |seed: &u64| {
            let mut rng = Rng::new(*seed);
            let sample: Vec<f64> = (0..n).map(|_| (0..12).map(|_| rng.unit() - 0.5).sum()).collect();
            let (low, high) = of(&sample).expect("enough values");
            (low..=high).contains(&0.0)
        };
        (0..1000).filter(covers).count() as f64 / 1000.0
    }

    #[test]
    fn intervals_cover_what_they_say() {
        for n in [6, 9, 15] {
            let share = coverage(n, median_interval);
            assert!(share >= 0.95 - 0.014, "the median of {n} is covered in {share}");
        }
        for n in [3, 5, 20] {
            let share = coverage(n, mean_interval);
            assert!((0.936..=0.98).contains(&share), "the mean of {n} is covered in {share}");
        }
        assert_eq!(mean_interval(&[1.0, 2.0]), None);
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
        let r = ratio(&pairs).expect("20 pairs");
        let (low, high) = r.interval.expect("20 pairs");
        assert!((r.value - 1.1).abs() < 1e-9 && high - low < 1e-9, "{r:?}");
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(1.0, 0.0)]), None);
        assert_eq!(ratio(&[(3.0, 2.0)]), Some(Ratio { value: 1.5, interval: None }));
    }
}
