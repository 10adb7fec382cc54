//! RFC 2544 section 26.1: the highest rate at which as many frames come back as were sent.
//!
//! Starts at the highest load, halves it until a trial succeeds, then bisects. Section 24 lets the trials of
//! the search be shorter, as long as the final determination has the full length: then the rate found is
//! confirmed by a full trial, and lowered in growing steps while that fails.

use std::time::Duration;

pub use super::bracket::Resolution;
use super::bracket::{Bracket, Verdict};
use super::{Counted, GoalOutcome, Invalid, Measured, Stop, invalid, parameter};

/// Trials at one load, or close to it, before the search gives up for want of a valid one.
const ATTEMPTS: u32 = 3;

/// A search for the throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Lowest load offered, frames/s.
    pub min_fps: f64,
    /// Highest load offered, frames/s: the theoretical maximum of the medium.
    pub max_fps: f64,
    /// Length of the trials that decide; the RFC wants at least 60 s.
    pub final_trial: Duration,
    /// Length of the other trials, if shorter.
    pub search_trial: Option<Duration>,
    /// Loss ratio that still counts as none, 0..1; anything but 0 departs from the RFC.
    pub loss_tolerance: f64,
    /// How close lower and upper bound must come.
    pub resolution: Resolution,
}

impl Config {
    pub(super) fn mistakes(&self) -> Vec<Invalid> {
        let (value, limit) = (self.search_trial.unwrap_or(self.final_trial), self.final_trial);
        let (what, limit_name) = ("search trial".to_string(), "the final trial");
        let too_long = (value > limit).then_some(Invalid::TooLong { what, value, limit_name, limit });
        let found = [
            invalid::load_range(self.min_fps, self.max_fps),
            invalid::time("final trial".into(), self.final_trial),
            self.search_trial.and_then(|trial| invalid::time("search trial".into(), trial)),
            too_long,
            invalid::share("loss tolerance".into(), self.loss_tolerance),
        ];
        found.into_iter().flatten().chain(self.resolution.mistakes()).collect()
    }

    pub(super) fn run(&self, measurer: &mut Counted) -> Result<GoalOutcome, Stop> {
        let mut bracket = Bracket::new(self.min_fps, self.max_fps);
        let quick = self.search_trial.unwrap_or(self.final_trial);
        self.narrow(&mut bracket, quick, measurer)?;
        if quick < self.final_trial {
            self.confirm(&mut bracket, measurer)?;
        }
        let value = bracket.value(measurer);
        Ok(GoalOutcome { goal: "throughput".into(), parameters: self.parameters(), value })
    }

    /// Trials of one length until the bounds are close.
    fn narrow(&self, bracket: &mut Bracket, trial: Duration, measurer: &mut Counted) -> Result<(), Stop> {
        while let Some(load_fps) = bracket.next(self.max_fps, self.resolution) {
            let (load_fps, verdict) = self.probe(load_fps, trial, measurer)?;
            bracket.learn(load_fps, verdict);
        }
        Ok(())
    }

    /// Full-length trials downwards from what short ones accepted. What a short trial refused stays so: it
    /// lost frames, and a longer one would have lost them too.
    fn confirm(&self, bracket: &mut Bracket, measurer: &mut Counted) -> Result<(), Stop> {
        let Some(mut load_fps) = bracket.accepted.take() else { return Ok(()) };
        let mut step = self.resolution.at(load_fps);
        loop {
            let (tried_fps, verdict) = self.probe(load_fps, self.final_trial, measurer)?;
            bracket.learn(tried_fps, verdict);
            let lower = matches!(verdict, Verdict::Refused | Verdict::TesterLimited);
            if !lower || tried_fps <= self.min_fps {
                return self.narrow(bracket, self.final_trial, measurer);
            }
            load_fps = (tried_fps - step).max(self.min_fps);
            step *= 2.0;
        }
    }

    /// Tries a load, and where no valid trial can be had, one slightly below. Returns the load that counts.
    fn probe(&self, load_fps: f64, trial: Duration, measurer: &mut Counted) -> Result<(f64, Verdict), Stop> {
        let aside = self.resolution.at(load_fps) / f64::from(2 * ATTEMPTS);
        for attempt in 0..ATTEMPTS {
            let load_fps = (load_fps - f64::from(attempt) * aside).max(self.min_fps);
            match measurer.measure(load_fps, trial)? {
                Measured::Loss { loss_ratio, .. } if loss_ratio <= self.loss_tolerance => {
                    return Ok((load_fps, Verdict::Accepted));
                }
                Measured::Loss { .. } => return Ok((load_fps, Verdict::Refused)),
                Measured::TesterLimited { .. } => return Ok((load_fps, Verdict::TesterLimited)),
                Measured::Unusable => {}
            }
        }
        Ok((load_fps, Verdict::Unknown))
    }

    fn parameters(&self) -> Vec<(String, String)> {
        vec![
            parameter::seconds("final trial", self.final_trial),
            parameter::seconds("search trial", self.search_trial.unwrap_or(self.final_trial)),
            parameter::percent("loss tolerance", self.loss_tolerance),
            parameter::percent("resolution", self.resolution.relative),
            parameter::fps("resolution at least", self.resolution.absolute_fps),
            parameter::fps("min load", self.min_fps),
            parameter::fps("max load", self.max_fps),
        ]
    }
}
