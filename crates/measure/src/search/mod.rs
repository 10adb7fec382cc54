//! Searches for the highest rate that meets a goal. Pure: all they know of the world is a [`Measurer`].
//!
//! Three procedures, one interface: [`mlr`] (several goals at once, least trial time), [`rfc2544`] (one
//! long loss-free trial) and [`classic`] (ten trials, the worst three discarded). [`sim`] has devices to
//! try them on. [`burst`] looks for the longest burst in place of the highest rate.

use std::time::Duration;

mod again;
mod bracket;
pub mod burst;
pub mod classic;
mod interval;
mod invalid;
mod irregular;
pub mod mlr;
pub mod rfc2544;
pub mod sim;
mod value;

pub use again::Answers;
pub use invalid::Invalid;
pub use irregular::Irregular;
pub use value::{GoalValue, RateInterval};

/// Answers the question "what happens at this load for this long?".
pub trait Measurer {
    /// Measures one trial at `load_fps` frames/s, all directions together, for `duration`.
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop>;
}

/// A trial as a search sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// The trial is valid.
    Loss {
        /// Lost frames / offered frames, 0..=1.
        loss_ratio: f64,
        /// What the trial took in all; MLRsearch weighs trials by it.
        effective: Duration,
    },
    /// The tester cannot offer this load: nothing is known about the DUT here, nor at any higher load.
    TesterLimited {
        /// What the tester managed, frames/s.
        achieved_fps: f64,
    },
    /// No valid trial could be had here after the allowed retries (noise, accounting that does not balance).
    Unusable,
}

/// Ends a search at once: interrupted by the user, or the test bed is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stop(pub String);

/// A search procedure with all its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// MLRsearch: one or more goals.
    Mlr(mlr::Config),
    /// RFC 2544 section 26.1: one goal, `throughput`.
    Rfc2544(rfc2544::Config),
    /// Repeated trials without the worst ones: one goal, `classic`.
    Classic(classic::Config),
}

/// What a search found for one goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalOutcome {
    /// Name of the goal.
    pub goal: String,
    /// Every parameter as name and value with unit.
    pub parameters: Vec<(String, String)>,
    /// The result; `trials` and `trial_s` are those of the whole search, which all its goals share.
    pub value: GoalValue,
}

impl Search {
    /// All that is wrong with the parameters, or nothing.
    pub fn validate(&self) -> Result<(), Vec<Invalid>> {
        let mistakes = match self {
            Search::Mlr(config) => config.mistakes(),
            Search::Rfc2544(config) => config.mistakes(),
            Search::Classic(config) => config.mistakes(),
        };
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// Searches until every goal has a result, which may be an irregular one.
    ///
    /// # Errors
    /// When the measurer stops the search.
    ///
    /// # Panics
    /// When the parameters are not valid; see [`Search::validate`].
    pub fn run(&self, measurer: &mut dyn Measurer) -> Result<Vec<GoalOutcome>, Stop> {
        if let Err(mistakes) = self.validate() {
            panic!("a search that is not valid was run: {mistakes:?}");
        }
        let mut counted = Counted { measurer, trials: 0, time: Duration::ZERO };
        match self {
            Search::Mlr(config) => config.run(&mut counted),
            Search::Rfc2544(config) => Ok(vec![config.run(&mut counted)?]),
            Search::Classic(config) => Ok(vec![config.run(&mut counted)?]),
        }
    }
}

/// A measurer that keeps count of what it was asked for, valid or not.
struct Counted<'a> {
    measurer: &'a mut dyn Measurer,
    trials: usize,
    /// Sum of the intended durations.
    time: Duration,
}

impl Counted<'_> {
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop> {
        self.trials += 1;
        self.time += duration;
        self.measurer.measure(load_fps, duration)
    }
}

/// Parameters as they appear in a record: name and value with unit.
mod parameter {
    use std::time::Duration;

    pub(super) fn text(name: &str, value: impl ToString) -> (String, String) {
        (name.into(), value.to_string())
    }

    pub(super) fn percent(name: &str, ratio: f64) -> (String, String) {
        text(name, format!("{} %", in_percent(ratio)))
    }

    pub(super) fn in_percent(ratio: f64) -> f64 {
        // Twelve digits are more than any parameter has and fewer than the rounding error of * 100.
        (ratio * 1e14).round() / 1e12
    }

    pub(super) fn seconds(name: &str, duration: Duration) -> (String, String) {
        text(name, format!("{} s", duration.as_secs_f64()))
    }

    pub(super) fn fps(name: &str, fps: f64) -> (String, String) {
        text(name, format!("{fps} frames/s"))
    }
}

#[cfg(test)]
mod tests;
