//! Where a series of measurements changes its level.
//!
//! Circular binary segmentation (Olshen et al.: "Circular binary segmentation for the analysis of array-based DNA
//! copy number data", Biostatistics 5, 2004): the stretch whose mean differs most from that of the rest; whether
//! that is more than chance, a permutation test says; each part is searched again. A stretch in the middle is found as
//! well as a single step. Values that are far from the median count as not quite so far, so that an outlier is no step.

use crate::rng::Rng;
use crate::stats::{Sample, Unpaired, median, unpaired_ratio};

/// Shortest stretch with its own level: one or two outliers are none.
const SHORTEST: usize = 3;
/// With fewer values no order of them is surprising enough.
pub(super) const FEWEST: usize = 8;
/// A permutation test of the whole series with a smaller p shows a change.
const LEVEL: f64 = 0.05;
/// The same for the parts of a series that has one: there are several of them.
const LEVEL_OF_PARTS: f64 = 0.01;
/// Standard deviations from the median beyond which values are all alike.
const REMOTE: f64 = 3.0;
/// Permutations per test: the smallest p is a thousandth.
const PERMUTATIONS: usize = 999;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    /// Index of the first value of the new level.
    pub(super) at: usize,
    /// New level / old level.
    pub(super) step: Unpaired,
}

/// All changes, in order. The same values (all above 0) and seed give the same changes.
pub(super) fn changes(values: &[f64], seed: u64) -> Vec<Change> {
    let mut cuts = Vec::new();
    search(values, 0, &mut Rng::new(seed), &mut cuts);
    cuts.sort_unstable();
    settle(values, cuts)
}

/// Adds the places at which `values`, which begin at `offset`, change.
fn search(values: &[f64], offset: usize, rng: &mut Rng, cuts: &mut Vec<usize>) {
    let n = values.len();
    if n < FEWEST {
        return;
    }
    let mut scores = scores(values);
    let (found, from, to) = widest(&scores);
    let level = if cuts.is_empty() { LEVEL } else { LEVEL_OF_PARTS };
    if found <= 0.0 || !is_surprising(&mut scores, found, level, rng) {
        return;
    }
    let ends = [0, from, to, n];
    cuts.extend([from, to].iter().filter(|&&cut| cut > 0 && cut < n).map(|cut| cut + offset));
    for part in ends.windows(2) {
        search(&values[part[0]..part[1]], offset + part[0], rng, cuts);
    }
}

/// Distances from the median in standard deviations (from the median of the distances), none beyond [`REMOTE`].
fn scores(values: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let middle = median(&logs).unwrap_or_default();
    let distances: Vec<f64> = logs.iter().map(|v| (v - middle).abs()).collect();
    let deviation = 1.4826 * median(&distances).unwrap_or_default();
    let score = |v: &f64| match v - middle {
        0.0 => 0.0,
        // Without any deviation in most values, the others are far away.
        distance => (distance / deviation).clamp(-REMOTE, REMOTE),
    };
    logs.iter().map(score).collect()
}

/// The stretch whose mean differs most from that of the rest, and by how much in units of its standard error
/// (but for a factor that permutations do not change).
fn widest(scores: &[f64]) -> (f64, usize, usize) {
    let n = scores.len();
    let mut sums = vec![0.0; n + 1];
    for (i, score) in scores.iter().enumerate() {
        sums[i + 1] = sums[i] + score;
    }
    let total = sums[n];
    let mut best = (0.0, 0, n);
    for from in std::iter::once(0).chain(SHORTEST..=n - SHORTEST) {
        let ends = from + SHORTEST..=n - SHORTEST;
        // A stretch to the end is the rest of one from the beginning.
        for to in ends.filter(|to| from > 0 || *to < n) {
            let (inside, outside) = ((to - from) as f64, (n - to + from) as f64);
            let sum = sums[to] - sums[from];
            let apart = (sum / inside - (total - sum) / outside).abs() * (inside * outside).sqrt();
            if apart > best.0 + 1e-9 {
                best = (apart, from, to);
            }
        }
    }
    best
}

/// Whether so wide a difference is rare among permutations. Ends as soon as it cannot be any more.
fn is_surprising(scores: &mut [f64], found: f64, level: f64, rng: &mut Rng) -> bool {
    let most = (level * (PERMUTATIONS + 1) as f64) as usize - 1;
    let mut wider = 0;
    for _ in 0..PERMUTATIONS {
        for i in (1..scores.len()).rev() {
            scores.swap(i, rng.below(i + 1));
        }
        wider += usize::from(widest(scores).0 >= found - 1e-9);
        if wider > most {
            return false;
        }
    }
    true
}

/// Puts each cut where it fits best between its neighbours, and leaves out, one after the other, those whose step
/// has an interval with 1.
fn settle(values: &[f64], mut cuts: Vec<usize>) -> Vec<Change> {
    loop {
        for i in 0..cuts.len() {
            let (from, to) = neighbours(&cuts, i, values.len());
            cuts[i] = best_cut(values, from, to).unwrap_or(cuts[i]);
        }
        let steps: Vec<_> = (0..cuts.len()).filter_map(|i| Some((i, step(values, &cuts, i)?))).collect();
        let p = |step: &Unpaired| step.p.unwrap_or(1.0);
        let weakest = steps.iter().max_by(|a, b| p(&a.1).total_cmp(&p(&b.1)));
        match weakest {
            Some((i, step)) if p(step) >= LEVEL => drop(cuts.remove(*i)),
            _ => return steps.into_iter().map(|(i, step)| Change { at: cuts[i], step }).collect(),
        }
    }
}

/// The cuts before and after cut `i`, or the ends.
fn neighbours(cuts: &[usize], i: usize, end: usize) -> (usize, usize) {
    (if i == 0 { 0 } else { cuts[i - 1] }, cuts.get(i + 1).copied().unwrap_or(end))
}

/// The step at cut `i`.
fn step(values: &[f64], cuts: &[usize], i: usize) -> Option<Unpaired> {
    let (from, to) = neighbours(cuts, i, values.len());
    let side = |values| Sample { values, open: 1.0 };
    unpaired_ratio(side(&values[from..cuts[i]]), side(&values[cuts[i]..to]))
}

/// Where the values between `from` and `to` are closest to the medians of both sides.
fn best_cut(values: &[f64], from: usize, to: usize) -> Option<usize> {
    let distance = |side: &[f64]| {
        let level = median(side).unwrap_or_default();
        side.iter().map(|v| (v - level).abs()).sum::<f64>()
    };
    let cost = |cut: usize| distance(&values[from..cut]) + distance(&values[cut..to]);
    let cuts = from + SHORTEST..(to + 1).saturating_sub(SHORTEST);
    cuts.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels with their lengths, and noise in percent of the level.
    fn series(levels: &[(f64, usize)], noise: f64, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let mut normal = || (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let each = levels.iter().flat_map(|(level, n)| std::iter::repeat_n(*level, *n));
        each.map(|level| level * (noise / 100.0 * normal()).exp()).collect()
    }

    fn at(values: &[f64], seed: u64) -> Vec<usize> {
        changes(values, seed).iter().map(|c| c.at).collect()
    }

    #[test]
    fn flat_noise_has_no_change() {
        for n in [8, 12, 30] {
            let alarms = (0..1000).filter(|&seed| !at(&series(&[(1e6, n)], 2.0, seed), seed).is_empty());
            let alarms = alarms.count();
            assert!(alarms <= 50, "{n} values: {alarms} of seeds 0..1000");
        }
    }

    /// Steps of 5 % in 2 % of noise: found, and within one value of their place.
    #[test]
    fn steps_are_found() {
        for (levels, cuts, least) in [
            (&[(100.0, 10), (105.0, 10)][..], &[10][..], 85),
            (&[(100.0, 12), (95.0, 6)], &[12], 80),
            (&[(100.0, 10), (110.0, 10), (100.0, 10)], &[10, 20], 95),
            (&[(100.0, 10), (110.0, 5), (120.0, 10)], &[10, 15], 75),
            (&[(100.0, 5), (80.0, 3)], &[5], 75),
            (&[(100.0, 12), (120.0, 4), (100.0, 12)], &[12, 16], 90),
        ] {
            let found = (0..100).filter(|&seed| {
                let found = at(&series(levels, 2.0, seed), seed);
                found.len() == cuts.len() && found.iter().zip(cuts).all(|(a, b)| a.abs_diff(*b) <= 2)
            });
            let found = found.count();
            assert!(found >= least, "{levels:?}: {found} of seeds 0..100");
        }
    }

    #[test]
    fn the_step_is_measured() {
        let [change] = changes(&series(&[(100.0, 15), (90.0, 15)], 1.0, 3), 3)[..] else { panic!() };
        let (low, high) = change.step.ratio.interval.unwrap();
        assert!(change.at == 15 && low < 0.9 && high > 0.9 && high - low < 0.03, "{change:?}");
    }

    #[test]
    fn outliers_are_no_change() {
        for (place, n) in [(5, 1), (0, 1), (19, 1), (8, 2), (18, 2)] {
            let alarms = (0..200).filter(|&seed| {
                let mut values = series(&[(1e6, 20)], 1.0, seed);
                values[place..place + n].iter_mut().for_each(|v| *v *= 0.3);
                !at(&values, seed).is_empty()
            });
            let alarms = alarms.count();
            assert!(alarms <= 15, "{n} outliers at {place}: {alarms} of seeds 0..200");
        }
    }

    #[test]
    fn an_outlier_hides_no_change() {
        let found = (0..100).filter(|&seed| {
            let mut values = series(&[(100.0, 10), (95.0, 10)], 1.0, seed);
            values[2] = 1000.0;
            at(&values, seed).iter().any(|cut| cut.abs_diff(10) <= 1)
        });
        let found = found.count();
        assert!(found >= 80, "{found} of seeds 0..100");
    }

    #[test]
    fn too_few_and_equal_values() {
        for flat in [&[][..], &[1.0, 2.0], &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], &[5.0; 40]] {
            assert!(at(flat, 1).is_empty(), "{flat:?}");
        }
        assert_eq!(at(&[[5.0; 6], [6.0; 6]].concat(), 1), [6], "without any noise");
    }
}
