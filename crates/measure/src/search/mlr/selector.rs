//! Which trial does one goal want next? The strategies of the reference controller (MLRsearch 1.2.1),
//! restated.
//!
//! A goal is reached through a chain of stages, coarse to fine: each stage has its own trial length,
//! duration sum and width, and starts from the bounds that the stage before it found. Within a stage:
//!
//! ```text
//! halve the start interval > confirm its low end > confirm its high end
//!       > a bound is missing: step outwards, each step twice the last
//!       > both bounds known:  bisect, unless a step from a bound stays closer to where the stage started
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use super::classify::Target;
use super::grid::{Steps, middle};
use super::trials::{Bounds, Trials};

/// A target and the width at which its interval is narrow enough.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) target: Target,
    pub(super) width: Steps,
}

/// What all goals see.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) trials: &'a Trials,
    /// Highest load that can be offered.
    pub(super) ceiling: Steps,
    /// Loads at which no valid trial could be had.
    pub(super) given_up: &'a BTreeSet<Steps>,
    /// Smallest outward step, common to all goals, so that their searches do not interleave.
    pub(super) outward: Steps,
}

/// A trial that a goal asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) load: Steps,
    pub(super) duration: Duration,
    /// Outward step of all goals once this trial is made.
    pub(super) outward: Steps,
}

/// Chooses trials for one goal.
#[derive(Debug)]
pub(super) struct Selector {
    chain: Vec<Stage>,
    stage: usize,
    expansion: Steps,
    /// Where the stage began: the bounds of the stage before, or two loads tried at the very start.
    start: Bounds,
    /// Next step outwards, unless the common one is larger.
    step: Steps,
    /// Bound that, should the chosen load become it, calls for a larger step.
    expand_at: Option<End>,
}

/// An end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lower,
    Upper,
}

/// A load that a strategy proposes and the step that it took.
type Proposal = Option<(Steps, Steps)>;

impl Selector {
    /// `chain` is coarse to fine and not empty.
    pub(super) fn new(chain: Vec<Stage>, expansion: Steps, start: Bounds) -> Selector {
        let mut selector = Selector { chain, stage: 0, expansion, start, step: 0, expand_at: None };
        selector.begin_stage(start);
        selector
    }

    /// The trial wanted next; `None` once the last stage has nothing more to ask for.
    pub(super) fn nominate(&mut self, field: &Field) -> Option<Candidate> {
        loop {
            let bounds = field.trials.bounds(&self.stage().target);
            if let Some((load, outward)) = self.propose(bounds, field) {
                return Some(Candidate { load, duration: self.stage().target.trial, outward });
            }
            if self.stage + 1 == self.chain.len() {
                return None;
            }
            self.stage += 1;
            self.begin_stage(bounds);
        }
    }

    /// To be called after the nominated trial was made; returns the new common outward step if it grew.
    pub(super) fn won(&mut self, load: Steps, trials: &Trials) -> Option<Steps> {
        let bounds = trials.bounds(&self.stage().target);
        let reached = match self.expand_at? {
            End::Lower => bounds.lower,
            End::Upper => bounds.upper,
        };
        (reached == Some(load)).then(|| {
            self.step *= self.expansion;
            self.step
        })
    }

    fn stage(&self) -> &Stage {
        &self.chain[self.stage]
    }

    fn begin_stage(&mut self, start: Bounds) {
        self.start = start;
        let apart = start.lower.zip(start.upper).map_or(0, |(lower, upper)| upper - lower);
        self.expand_from(apart);
    }

    /// Outward steps start again, beyond a step of `last`.
    fn expand_from(&mut self, last: Steps) {
        self.step = last.max(self.stage().width) * self.expansion;
    }

    fn propose(&mut self, bounds: Bounds, field: &Field) -> Proposal {
        self.expand_at = None;
        let (load, outward) = self
            .halve(bounds, field)
            .or_else(|| self.confirm_lower(bounds, field))
            .or_else(|| self.confirm_upper(bounds, field))
            .or_else(|| self.extend_down(bounds, field))
            .or_else(|| self.extend_up(bounds, field))
            .or_else(|| self.bisect(bounds, field))?;
        Some((field.nearest_free(load, bounds)?, outward))
    }

    fn halve(&mut self, bounds: Bounds, field: &Field) -> Proposal {
        let (lower, upper, width) = (self.start.lower?, self.start.upper?, self.stage().width);
        if upper - lower <= width || upper - lower > 2 * width {
            return None;
        }
        self.confirm(middle(lower, upper, width), bounds, field)
    }

    fn confirm_lower(&mut self, bounds: Bounds, field: &Field) -> Proposal {
        self.confirm(self.start.lower?.min(field.ceiling), bounds, field)
    }

    fn confirm_upper(&self, bounds: Bounds, field: &Field) -> Proposal {
        let load = self.start.upper?.min(field.ceiling);
        self.worth(load, bounds, field).then_some((load, self.stage().width))
    }

    fn confirm(&mut self, load: Steps, bounds: Bounds, field: &Field) -> Proposal {
        let width = self.stage().width;
        self.worth(load, bounds, field).then(|| {
            self.expand_from(width);
            (load, width)
        })
    }

    fn extend_down(&mut self, bounds: Bounds, field: &Field) -> Proposal {
        if bounds.lower.is_some() {
            return None;
        }
        let step = self.step.max(field.outward);
        let load = field.place(bounds.upper? - step, self.stage().width, bounds)?;
        self.worth(load, bounds, field).then(|| {
            self.expand_at = Some(End::Upper);
            (load, step)
        })
    }

    fn extend_up(&mut self, bounds: Bounds, field: &Field) -> Proposal {
        if bounds.upper.is_some() {
            return None;
        }
        let step = self.step.max(field.outward);
        let load = field.place(bounds.lower? + step, self.stage().width, bounds)?;
        self.worth(load, bounds, field).then(|| {
            self.expand_at = Some(End::Lower);
            (load, step)
        })
    }

    fn bisect(&mut self, bounds: Bounds, field: &Field) -> Proposal {
        let (lower, upper, width) = (bounds.lower?, bounds.upper?, self.stage().width);
        if upper - lower <= width {
            return None;
        }
        let half = middle(lower, upper, width).min(field.ceiling);
        let step = self.step.max(field.outward);
        // Bounds may stem from a search for another goal, far from where this stage began.
        if let Some(start) = self.start.upper.filter(|start| half < *start) {
            let load = field.place(upper - step, width, bounds);
            if let Some(load) = load.filter(|load| half < *load && *load < start) {
                self.expand_at = Some(End::Upper);
                return Some((load, step));
            }
        }
        if let Some(start) = self.start.lower.filter(|start| half > *start) {
            let load = field.place(lower + step, width, bounds);
            if let Some(load) = load.filter(|load| half > *load && *load > start) {
                self.expand_at = Some(End::Lower);
                return Some((load, step));
            }
        }
        self.worth(half, bounds, field).then(|| {
            let smaller = (half - lower).min(upper - half);
            self.expand_from(smaller);
            (half, smaller)
        })
    }

    /// Can a trial at `load` still tell this stage anything?
    fn worth(&self, load: Steps, bounds: Bounds, field: &Field) -> bool {
        load <= field.ceiling && bounds.undecided(load) && !bounds.within(self.stage().width)
    }
}

impl Field<'_> {
    /// Moves `load` at least `width` away from known bounds (or to the middle where there is no room for
    /// that), and onto an end of the load range where it is closer than `width` to it. `None` when `load`
    /// is not between the bounds or they are narrow enough.
    pub(super) fn place(&self, load: Steps, width: Steps, bounds: Bounds) -> Option<Steps> {
        let known_upper = bounds.upper.filter(|upper| *upper <= self.ceiling);
        let (min, max) = (bounds.lower.unwrap_or(0), known_upper.unwrap_or(self.ceiling));
        let load = load.clamp(0, self.ceiling.max(0));
        if min >= max || !bounds.undecided(load) {
            return None;
        }
        if max - min <= width {
            return match (bounds.lower, known_upper) {
                (None, _) => Some(min),
                (_, None) => Some(max),
                _ => None,
            };
        }
        let (mut near_min, mut near_max) = (min + width, max - width);
        if near_min > near_max {
            near_min = middle(min, max, width);
            near_max = near_min;
        }
        Some(if load < near_min {
            bounds.lower.map_or(min, |_| near_min)
        } else if load > near_max {
            known_upper.map_or(max, |_| near_max)
        } else {
            load
        })
    }

    /// `load`, or where that was given up, the closest load between the bounds that was not.
    fn nearest_free(&self, load: Steps, bounds: Bounds) -> Option<Steps> {
        let free = |load: &Steps| {
            (0..=self.ceiling).contains(load) && bounds.undecided(*load) && !self.given_up.contains(load)
        };
        (0..=self.given_up.len() as Steps).flat_map(|away| [load - away, load + away]).find(free)
    }
}

#[cfg(test)]
mod tests {
    use super::super::classify::Trial;
    use super::*;

    type Known = Option<Steps>;

    /// Rows: load wanted, lower and upper bound, load to offer; width 10, ceiling 100.
    fn check(rows: &[(Steps, Known, Known, Known)]) {
        let trials = Trials::default();
        let given_up = BTreeSet::new();
        let field = Field { trials: &trials, ceiling: 100, given_up: &given_up, outward: 0 };
        for &(load, lower, upper, expected) in rows {
            let got = field.place(load, 10, Bounds { lower, upper });
            assert_eq!(got, expected, "{load} between {lower:?} and {upper:?}");
        }
    }

    #[test]
    fn loads_keep_their_distance_from_bounds_and_ends() {
        check(&[
            (50, None, Some(80), Some(50)),
            (75, None, Some(80), Some(70)),
            (5, None, Some(80), Some(0)),
            (-20, None, Some(80), Some(0)),
            (3, None, Some(8), Some(0)),
            (90, None, Some(80), None),
            (0, None, Some(0), None),
            (50, Some(20), None, Some(50)),
            (25, Some(20), None, Some(30)),
            (95, Some(20), None, Some(100)),
            (500, Some(20), None, Some(100)),
            (96, Some(95), None, Some(100)),
            (100, Some(100), None, None),
            (22, Some(20), Some(35), Some(25)),
            (25, Some(20), Some(30), None),
            (99, Some(20), Some(200), Some(100)),
        ]);
    }

    /// Known to miss the target at 100 and to meet it at 10, the load wanted next under some ceilings.
    #[test]
    fn nothing_is_wanted_above_the_ceiling() {
        let second = Duration::from_secs(1);
        let target = Target { loss_ratio: 0.0, exceed_ratio: 0.0, trial: second, sum: second };
        let mut trials = Trials::default();
        for (load, loss_ratio) in [(10, 0.0), (100, 0.1)] {
            trials.add(load, Trial { duration: second, effective: second, loss_ratio });
        }
        let given_up = BTreeSet::new();
        for (ceiling, expected) in [(100, Some(42)), (42, Some(42)), (30, Some(30)), (10, None), (5, None)] {
            let stage = Stage { target: target.clone(), width: 1 };
            let mut selector = Selector::new(vec![stage], 2, Bounds::default());
            let field = Field { trials: &trials, ceiling, given_up: &given_up, outward: 0 };
            assert_eq!(selector.nominate(&field).map(|c| c.load), expected, "ceiling {ceiling}");
        }
    }

    #[test]
    fn given_up_loads_are_stepped_around() {
        let trials = Trials::default();
        let given_up = BTreeSet::from([5, 6, 4]);
        let field = Field { trials: &trials, ceiling: 100, given_up: &given_up, outward: 0 };
        let free = |lower, upper| field.nearest_free(5, Bounds { lower: Some(lower), upper: Some(upper) });
        assert_eq!(free(0, 20), Some(3));
        assert_eq!(free(3, 20), Some(7));
        assert_eq!(free(3, 7), None);
    }
}
