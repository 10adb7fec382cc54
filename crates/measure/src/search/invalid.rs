//! Invalid parameters of a search. Each message has the remedy.

use std::time::Duration;

/// A mistake in the parameters of a search.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Load limits that leave no room for a search.
    #[error(
        "loads from {min_fps} to {max_fps} frames/s: set a min load above 0 and a finite max load above it"
    )]
    LoadRange {
        /// Lowest load, frames/s.
        min_fps: f64,
        /// Highest load, frames/s.
        max_fps: f64,
    },
    /// A start outside of the load limits.
    #[error("start load is {start_fps} frames/s: set one from min load to max load")]
    Start {
        /// First load, frames/s.
        start_fps: f64,
    },
    /// A search without a goal.
    #[error("there is no goal: name at least one")]
    NoGoal,
    /// Two goals of the same name.
    #[error("goal {name:?} is there twice: give each goal its own name")]
    SameName {
        /// The name.
        name: String,
    },
    /// A share outside of its range.
    #[error("{what} is {value}: set a share of at least 0 and below 1")]
    Share {
        /// Goal and parameter.
        what: String,
        /// The value.
        value: f64,
    },
    /// A width or resolution that no search can reach.
    #[error("{what} is {value}: set a relative width of at least {least} and below 1")]
    Width {
        /// Goal and parameter.
        what: String,
        /// The value.
        value: f64,
        /// The smallest width that loads can be distinguished by.
        least: f64,
    },
    /// An absolute resolution that is no rate.
    #[error("{what} is {value} frames/s: set 0 or more")]
    Resolution {
        /// Parameter.
        what: String,
        /// The value.
        value: f64,
    },
    /// A duration of nothing.
    #[error("{what} is 0 s: set a time above 0")]
    NoTime {
        /// Goal and parameter.
        what: String,
    },
    /// A duration beyond the one that bounds it.
    #[error("{what} is {value:?}, more than {limit_name} of {limit:?}: shorten it")]
    TooLong {
        /// Goal and parameter.
        what: String,
        /// The value.
        value: Duration,
        /// What bounds it.
        limit_name: &'static str,
        /// The bound.
        limit: Duration,
    },
    /// A number below the one that makes sense.
    #[error("{what} is {value}: set at least {least}")]
    TooFew {
        /// Parameter.
        what: &'static str,
        /// The value.
        value: u32,
        /// The smallest sensible value.
        least: u32,
    },
    /// A number above the one that makes sense.
    #[error("{what} is {value}: set at most {most}")]
    TooMany {
        /// Parameter.
        what: &'static str,
        /// The value.
        value: u32,
        /// The largest sensible value.
        most: u32,
    },
}

/// Narrower than this no tester can tell two loads apart (one part in a million).
pub(super) const LEAST_WIDTH: f64 = 1e-6;

pub(super) fn load_range(min_fps: f64, max_fps: f64) -> Option<Invalid> {
    let good = min_fps > 0.0 && min_fps < max_fps && max_fps.is_finite();
    (!good).then_some(Invalid::LoadRange { min_fps, max_fps })
}

pub(super) fn share(what: String, value: f64) -> Option<Invalid> {
    (!(0.0..1.0).contains(&value)).then_some(Invalid::Share { what, value })
}

pub(super) fn width(what: String, value: f64) -> Option<Invalid> {
    let least = LEAST_WIDTH;
    (!(least..1.0).contains(&value)).then_some(Invalid::Width { what, value, least })
}

pub(super) fn time(what: String, value: Duration) -> Option<Invalid> {
    value.is_zero().then_some(Invalid::NoTime { what })
}

pub(super) fn count(what: &'static str, value: u32, range: std::ops::RangeInclusive<u32>) -> Option<Invalid> {
    let (least, most) = range.into_inner();
    match value {
        value if value < least => Some(Invalid::TooFew { what, value, least }),
        value if value > most => Some(Invalid::TooMany { what, value, most }),
        _ => None,
    }
}
