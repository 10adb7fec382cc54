//! All valid trials of a search, and the bounds that they set for a target.

use std::collections::BTreeMap;

use super::classify::{Class, Target, Trial};
use super::grid::Steps;

/// Trials by load.
#[derive(Debug, Default)]
pub(super) struct Trials(BTreeMap<Steps, Vec<Trial>>);

/// The relevant bounds for a target (draft-ietf-bmwg-mlrsearch-15, section "Relevant Bounds"):
/// `lower < upper` where both are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Largest load that meets the target below `upper`.
    pub(super) lower: Option<Steps>,
    /// Smallest load that misses the target; what happens above does not matter (loss inversion).
    pub(super) upper: Option<Steps>,
}

impl Trials {
    pub(super) fn add(&mut self, load: Steps, trial: Trial) {
        self.0.entry(load).or_default().push(trial);
    }

    /// The trials at `load`.
    pub(super) fn at(&self, load: Steps) -> &[Trial] {
        self.0.get(&load).map_or(&[], Vec::as_slice)
    }

    /// Highest load below `load` that has a trial.
    pub(super) fn highest_below(&self, load: Steps) -> Option<Steps> {
        self.0.range(..load).next_back().map(|(load, _)| *load)
    }

    /// Relevant bounds for `target`.
    pub(super) fn bounds(&self, target: &Target) -> Bounds {
        let mut bounds = Bounds::default();
        for (load, trials) in &self.0 {
            match target.classify(trials) {
                Class::Lower => bounds.lower = Some(*load),
                Class::Upper => return Bounds { upper: Some(*load), ..bounds },
                Class::Undecided => {}
            }
        }
        bounds
    }
}

impl Bounds {
    /// Are both known and at most `width` apart?
    pub(super) fn within(self, width: Steps) -> bool {
        self.lower.zip(self.upper).is_some_and(|(lower, upper)| upper - lower <= width)
    }

    /// Is `load` outside of what is already decided?
    pub(super) fn undecided(self, load: Steps) -> bool {
        self.lower.is_none_or(|lower| lower < load) && self.upper.is_none_or(|upper| load < upper)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Each load has one trial that decides it: `loads` with their loss ratios.
    fn check(loads: &[(Steps, f64)], expected: (Option<Steps>, Option<Steps>)) {
        let second = Duration::from_secs(1);
        let target = Target { loss_ratio: 0.0, exceed_ratio: 0.0, trial: second, sum: second };
        let mut trials = Trials::default();
        for (load, loss_ratio) in loads {
            trials.add(*load, Trial { duration: second, effective: second, loss_ratio: *loss_ratio });
        }
        let bounds = trials.bounds(&target);
        assert_eq!((bounds.lower, bounds.upper), expected, "{loads:?}");
    }

    #[test]
    fn the_smallest_upper_bound_wins() {
        check(&[], (None, None));
        check(&[(3, 0.0), (1, 0.0)], (Some(3), None));
        check(&[(3, 0.1), (7, 0.1)], (None, Some(3)));
        check(&[(1, 0.0), (3, 0.1), (5, 0.0), (7, 0.1)], (Some(1), Some(3)));
    }
}
