//! The range that a search for one goal has narrowed its rate down to.
//!
//! ```text
//! nothing known > start;  all accepted > double;  all refused > halve;  both > middle, until close enough
//! ```

use super::{Counted, Invalid, Irregular, invalid};
use crate::search::GoalValue;

/// How close the bounds must come: the wider of the two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resolution {
    /// Share of the upper bound, 0..1.
    pub relative: f64,
    /// Frames/s; 0 for none.
    pub absolute_fps: f64,
}

/// What a procedure says of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The load is a lower bound.
    Accepted,
    /// The load is an upper bound.
    Refused,
    /// The tester could not offer it.
    TesterLimited,
    /// No valid trial could be had.
    Unknown,
}

/// Bounds of the rate, frames/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bracket {
    pub(super) min_fps: f64,
    pub(super) max_fps: f64,
    /// Highest load accepted.
    pub(super) accepted: Option<f64>,
    /// Lowest load refused.
    pub(super) refused: Option<f64>,
    /// Lowest load that the tester could not offer.
    limited: Option<f64>,
    unknown: bool,
}

impl Resolution {
    /// In frames/s, for an upper bound of `fps`.
    pub(super) fn at(self, fps: f64) -> f64 {
        (self.relative * fps).max(self.absolute_fps)
    }

    pub(super) fn mistakes(self) -> impl Iterator<Item = Invalid> {
        let (what, value) = ("absolute resolution".to_string(), self.absolute_fps);
        let negative = !(value >= 0.0 && value.is_finite());
        let absolute = negative.then_some(Invalid::Resolution { what, value });
        [invalid::width("relative resolution".into(), self.relative), absolute].into_iter().flatten()
    }
}

impl Bracket {
    pub(super) fn new(min_fps: f64, max_fps: f64) -> Bracket {
        Bracket { min_fps, max_fps, accepted: None, refused: None, limited: None, unknown: false }
    }

    /// The load to try next; `None` when the bounds are close enough or can not come closer.
    pub(super) fn next(&self, start_fps: f64, resolution: Resolution) -> Option<f64> {
        if self.unknown {
            return None;
        }
        match (self.accepted, self.top()) {
            (None, None) => Some(start_fps),
            (Some(low), None) => (low < self.max_fps).then_some((2.0 * low).min(self.max_fps)),
            (None, Some(high)) => (high > self.min_fps).then_some((high / 2.0).max(self.min_fps)),
            (Some(low), Some(high)) => (high - low > resolution.at(high)).then_some((low + high) / 2.0),
        }
    }

    pub(super) fn learn(&mut self, load_fps: f64, verdict: Verdict) {
        match verdict {
            Verdict::Accepted => self.accepted = Some(load_fps),
            Verdict::Refused => self.refused = Some(load_fps),
            Verdict::TesterLimited => self.limited = Some(load_fps),
            Verdict::Unknown => self.unknown = true,
        }
    }

    /// The accepted load as a result, and why it is irregular if it is.
    pub(super) fn value(&self, counted: &Counted) -> GoalValue {
        GoalValue {
            fps: self.accepted,
            lower_fps: self.accepted,
            upper_fps: self.refused,
            irregular: self.irregular().map(|reason| reason.to_string()),
            trials: counted.trials,
            trial_s: counted.time.as_secs_f64(),
            // One verdict per load, each at its own load, says nothing of chance.
            interval: None,
        }
    }

    /// Lowest load that is not to be tried again.
    fn top(&self) -> Option<f64> {
        match (self.refused, self.limited) {
            (Some(refused), Some(limited)) => Some(refused.min(limited)),
            (refused, limited) => refused.or(limited),
        }
    }

    fn irregular(&self) -> Option<Irregular> {
        let limited_first = self.limited.is_some_and(|limited| self.refused.is_none_or(|r| limited < r));
        if self.unknown {
            Some(Irregular::NoValidTrial)
        } else if limited_first {
            Some(Irregular::TesterLimited)
        } else if self.accepted.is_none() {
            Some(Irregular::MinIsLossy)
        } else if self.refused.is_none() {
            Some(Irregular::MaxIsNotUpper)
        } else {
            None
        }
    }
}
