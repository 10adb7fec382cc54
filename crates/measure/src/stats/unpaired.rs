//! Ratio of the medians of two samples that were measured at different times.
//!
//! The interval is that of Price and Bonett ("Distribution-free confidence intervals for difference and ratio of
//! medians", J. Stat. Comput. Simul. 72, 2002): the logarithm of the ratio, with a standard error from order
//! statistics, which an outlier moves little. They use the normal quantile, which is too narrow for a handful
//! of repetitions; here it is Student's t with the degrees of freedom of Welch and Satterthwaite.
//!
//! What a search leaves open between its bounds adds to the error: searches that end on the same step of their
//! grid look more alike than they are.

use super::student::{critical, two_sided};
use super::{CONFIDENCE, Ratio, median};

/// Repeated measurements of one quantity.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// One value per repetition, all above 0.
    pub values: &'a [f64],
    /// Upper bound / lower bound of what one repetition leaves open: 1 when it leaves nothing open.
    pub open: f64,
}

/// A ratio and how surprising it would be between equals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unpaired {
    /// Median / median of the base, with its interval.
    pub ratio: Ratio,
    /// Probability of a ratio at least as far from 1 if both medians were the same; `None` without an interval.
    pub p: Option<f64>,
}

/// `other` / `base`. `None` where a sample is empty or has values that are not above 0; without an interval
/// where one has fewer than two values.
pub fn unpaired_ratio(base: Sample<'_>, other: Sample<'_>) -> Option<Unpaired> {
    if base.values.iter().chain(other.values).any(|v| v.is_nan() || *v <= 0.0) {
        return None;
    }
    let value = median(other.values)? / median(base.values)?;
    let Some((variance, freedom)) = scatter(base.values).zip(scatter(other.values)).map(welch) else {
        return Some(Unpaired { ratio: Ratio { value, interval: None }, p: None });
    };
    // A value anywhere between two bounds: the variance of a uniform distribution. It is known, not found from the sample.
    let open = |s: Sample<'_>| s.open.max(1.0).ln().powi(2) / 12.0;
    let all = variance + open(base) + open(other);
    let freedom = if variance > 0.0 { freedom * (all / variance).powi(2) } else { f64::INFINITY };
    let error = all.sqrt();
    let half = critical(1.0 - CONFIDENCE, freedom) * error;
    let interval = Some((value * (-half).exp(), value * half.exp()));
    let p = match (error > 0.0, value == 1.0) {
        (true, _) => two_sided((value.ln() / error).abs(), freedom),
        (false, true) => 1.0,
        (false, false) => 0.0,
    };
    Some(Unpaired { ratio: Ratio { value, interval }, p: Some(p) })
}

/// Variance of the logarithm of the median, and its degrees of freedom; `None` with fewer than two values.
fn scatter(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let sorted = super::sorted(values);
    let c = ((n as f64 + 1.0) / 2.0 - (n as f64).sqrt()).round().max(1.0) as usize;
    let spread = (sorted[n - c] / sorted[c - 1]).ln();
    // The spread of `between` of n gaps (of a uniform population) has this many degrees of freedom; a normal
    // sample has no more than n - 1.
    let (between, gaps) = ((n + 1 - 2 * c) as f64, n as f64 + 1.0);
    let freedom = (between / 2.0 / (1.0 - between / gaps)).min(n as f64 - 1.0);
    Some(((spread / (2.0 * deviations(n, c))).powi(2), freedom))
}

/// Standard normal deviations between the median and order statistic `c` of `n`.
fn deviations(n: usize, c: usize) -> f64 {
    // Binomial tail: the probability that fewer than c of n values are below the median.
    let (mut term, mut tail) = (0.5f64.powi(n as i32), 0.0);
    for i in 0..c {
        tail += term;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    // By its choice of c the tail tends to 2 deviations; 2^-n is zero before that shows.
    if tail > 0.0 { critical(2.0 * tail, f64::INFINITY) } else { 2.0 }
}

/// Sum of two variances, and its degrees of freedom.
fn welch(((a, free_a), (b, free_b)): ((f64, f64), (f64, f64))) -> (f64, f64) {
    let sum = a + b;
    let freedom = if sum > 0.0 { sum * sum / (a * a / free_a + b * b / free_b) } else { free_a + free_b };
    (sum, freedom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn sample(values: &[f64]) -> Sample<'_> {
        Sample { values, open: 1.0 }
    }

    /// Noise with mean 0 and deviation about 1.
    type Noise = fn(&mut Rng) -> f64;

    const NOISES: [(&str, Noise); 4] = [
        ("normal", |rng| (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0),
        ("uniform", |rng| (rng.unit() - 0.5) * 12f64.sqrt()),
        ("skewed", |rng| -(1.0 - rng.unit()).ln() - 1.0),
        // One in ten is ten times as far away.
        ("outliers", |rng| {
            let far = if rng.unit() < 0.1 { 10.0 } else { 1.0 };
            ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0) * far
        }),
    ];

    fn draw(rng: &mut Rng, n: usize, level: f64, noise: Noise) -> Vec<f64> {
        (0..n).map(|_| level * (0.01 * noise(rng)).exp()).collect()
    }

    #[test]
    fn equals_are_rarely_called_different() {
        for (name, noise) in NOISES {
            for n in [2, 3, 5, 7, 10, 30] {
                let wrong = (0..1000).filter(|&seed| {
                    let mut rng = Rng::new(seed);
                    let (a, b) = (draw(&mut rng, n, 1e6, noise), draw(&mut rng, n, 1e6, noise));
                    unpaired_ratio(sample(&a), sample(&b)).unwrap().p.unwrap() < 0.05
                });
                let wrong = wrong.count();
                assert!(wrong <= 60, "{name}, {n} values: {wrong} of seeds 0..1000");
            }
        }
    }

    #[test]
    fn the_interval_covers_the_true_ratio() {
        for (name, noise) in NOISES {
            for (n, m) in [(3, 3), (3, 10), (5, 7)] {
                let covered = (0..1000).filter(|&seed| {
                    let mut rng = Rng::new(seed);
                    let (a, b) = (draw(&mut rng, n, 1e6, noise), draw(&mut rng, m, 1.3e6, noise));
                    let found = unpaired_ratio(sample(&a), sample(&b)).unwrap();
                    let (low, high) = found.ratio.interval.unwrap();
                    (low..=high).contains(&1.3)
                });
                let covered = covered.count();
                assert!(covered >= 930, "{name}, {n} and {m} values: {covered} of seeds 0..1000");
            }
        }
    }

    #[test]
    fn what_the_searches_leave_open_counts() {
        let (a, b) = ([100.0; 3], [102.0; 3]);
        let wide = |values| Sample { values, open: 1.05 };
        let sure = unpaired_ratio(sample(&a), sample(&b)).unwrap();
        assert_eq!((sure.ratio.interval, sure.p), (Some((1.02, 1.02)), Some(0.0)));
        let open = unpaired_ratio(wide(&a), wide(&b)).unwrap();
        let (low, high) = open.ratio.interval.unwrap();
        assert!(low < 1.0 && high > 1.05 && open.p.unwrap() > 0.3, "{open:?}");
        assert_eq!(unpaired_ratio(sample(&a), sample(&a)).unwrap().p, Some(1.0));
    }

    #[test]
    fn few_values_do_not_make_a_known_deviation_uncertain() {
        // 2 % on each side, and next to nothing within the samples: ln 1.1 is 3.37 deviations of a normal distribution.
        let known = |values| Sample { values, open: (0.02 * 12f64.sqrt()).exp() };
        let found = unpaired_ratio(known(&[100.0, 100.1]), known(&[110.0, 110.1])).unwrap();
        let p = found.p.unwrap();
        assert!((5e-4..1e-3).contains(&p), "{found:?}");
        // Where the values scatter as much, they are to be doubted as before.
        let found = unpaired_ratio(known(&[98.0, 102.0]), known(&[108.0, 112.0])).unwrap();
        assert!(found.p.unwrap() > 0.03, "{found:?}");
    }

    #[test]
    fn samples_that_are_too_small() {
        assert_eq!(unpaired_ratio(sample(&[]), sample(&[1.0])), None);
        assert_eq!(unpaired_ratio(sample(&[0.0]), sample(&[1.0])), None);
        let one = unpaired_ratio(sample(&[2.0]), sample(&[3.0, 3.0])).unwrap();
        assert_eq!((one.ratio.value, one.ratio.interval, one.p), (1.5, None, None));
    }

    #[test]
    fn deviations_of_order_statistics() {
        for (n, c, expected) in [(2, 1, 0.6745), (3, 1, 1.1503), (10, 2, 2.2995), (2000, 955, 2.0)] {
            assert!((deviations(n, c) - expected).abs() < 1e-3, "{n} {c}: {}", deviations(n, c));
        }
    }
}
