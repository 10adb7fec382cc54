//! Agreement of repeated runs, compared with the intervals that each of them claimed.

use crate::stats::{median, percentile};

/// What one run says of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said {
    /// Its value, above 0.
    pub value: f64,
    /// Interval (95 %) that it gave.
    pub interval: Option<(f64, f64)>,
}

/// How several runs agree in a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Runs with this figure.
    pub runs: usize,
    /// Median of their values.
    pub median: f64,
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Nine of ten pairs of runs differ by this or less: larger / smaller - 1.
    pub pairs_within: f64,
    /// Half of the interval that a run claims, as a share of its value: the median over the runs; `None` if none claims one.
    pub claimed: Option<f64>,
    /// Share of the pairs of runs whose intervals have something in common, 0..=1; `None` where fewer than two claim one.
    pub overlap: Option<f64>,
}

/// `None` with fewer than two runs.
pub fn agreement(said: &[Said]) -> Option<Agreement> {
    let said: Vec<&Said> = said.iter().filter(|one| one.value > 0.0).collect();
    let values: Vec<f64> = said.iter().map(|one| one.value).collect();
    let pairs = || (0..said.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let apart = |(i, j): (usize, usize)| (values[i] / values[j]).ln().abs().exp_m1();
    let apart: Vec<f64> = pairs().map(apart).collect();
    let claims = said.iter().filter_map(|one| Some((one.interval?, one.value)));
    let claimed: Vec<f64> = claims.map(|((low, high), value)| (high - low) / 2.0 / value).collect();
    let common = pairs().filter_map(|(i, j)| {
        let ((low, high), (other_low, other_high)) = (said[i].interval?, said[j].interval?);
        Some(low <= other_high && other_low <= high)
    });
    let common: Vec<bool> = common.collect();
    let overlap = common.iter().filter(|c| **c).count() as f64 / common.len() as f64;
    Some(Agreement {
        runs: said.len(),
        median: median(&values)?,
        low: percentile(&values, 0.0)?,
        high: percentile(&values, 100.0)?,
        pairs_within: percentile(&apart, 90.0)?,
        claimed: median(&claimed),
        overlap: (!common.is_empty()).then_some(overlap),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_as_their_pairs_do() {
        let said = |value, half| Said { value, interval: Some((value - half, value + half)) };
        let none = Said { value: 100.0, interval: None };
        assert_eq!(agreement(&[none]), None);
        let found = agreement(&[said(100.0, 3.0), said(104.0, 3.0), said(110.0, 2.0), none]).unwrap();
        assert_eq!((found.runs, found.median, found.low, found.high), (4, 102.0, 100.0, 110.0));
        assert!((found.pairs_within - 0.1).abs() < 1e-9, "{found:?}");
        assert!((found.claimed.unwrap() - 0.0288).abs() < 1e-3, "{found:?}");
        assert_eq!(found.overlap, Some(1.0 / 3.0));
        assert_eq!(agreement(&[none, none]).unwrap().overlap, None);
    }
}
