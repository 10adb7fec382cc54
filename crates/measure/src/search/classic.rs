//! Repeated trials without the worst ones: the procedure of the router comparison of 2017 that compared
//! Linux, FreeBSD and OpenBSD.
//!
//! At each rate ten trials of 120 s. The three with the highest loss are discarded. The rate is accepted
//! when the other seven lose 0.15 % or less on average *and* at least half of those seven (four) lose 0.1 %
//! or less each. From the start rate on, an accepted rate is doubled and a refused one halved, until there
//! are both; then the step is halved each time. All ten trials are made even where fewer would decide.

use std::time::Duration;

pub use super::bracket::Resolution;
use super::bracket::{Bracket, Verdict};
use super::{Counted, GoalOutcome, Invalid, Measured, Stop, invalid, parameter};

/// A search for the accepted rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Lowest load offered, frames/s.
    pub min_fps: f64,
    /// Highest load offered, frames/s.
    pub max_fps: f64,
    /// First load offered, frames/s.
    pub start_fps: f64,
    /// Trials per load.
    pub trials: u32,
    /// How many of them are discarded, those with the highest loss.
    pub discarded: u32,
    /// Length of a trial.
    pub trial: Duration,
    /// Highest mean loss ratio of the kept trials, 0..1.
    pub mean_loss: f64,
    /// Loss ratio that at least half of the kept trials must not exceed, 0..1.
    pub typical_loss: f64,
    /// How close accepted and refused rate must come.
    pub resolution: Resolution,
}

impl Config {
    /// The procedure to the letter, between two loads, starting at the higher one.
    pub fn published(min_fps: f64, max_fps: f64) -> Config {
        Config {
            min_fps,
            max_fps,
            start_fps: max_fps,
            trials: 10,
            discarded: 3,
            trial: Duration::from_secs(120),
            mean_loss: 0.0015,
            typical_loss: 0.001,
            resolution: Resolution { relative: 0.01, absolute_fps: 0.0 },
        }
    }

    pub(super) fn mistakes(&self) -> Vec<Invalid> {
        let in_range = (self.min_fps..=self.max_fps).contains(&self.start_fps);
        let found = [
            invalid::load_range(self.min_fps, self.max_fps),
            (!in_range).then_some(Invalid::Start { start_fps: self.start_fps }),
            invalid::time("trial".into(), self.trial),
            invalid::count("trials", self.trials, 1..=1000),
            invalid::count("discarded trials", self.discarded, 0..=self.trials.saturating_sub(1)),
            invalid::share("mean loss".into(), self.mean_loss),
            invalid::share("typical loss".into(), self.typical_loss),
        ];
        found.into_iter().flatten().chain(self.resolution.mistakes()).collect()
    }

    pub(super) fn run(&self, measurer: &mut Counted) -> Result<GoalOutcome, Stop> {
        let mut bracket = Bracket::new(self.min_fps, self.max_fps);
        while let Some(load_fps) = bracket.next(self.start_fps, self.resolution) {
            let verdict = self.probe(load_fps, measurer)?;
            bracket.learn(load_fps, verdict);
        }
        let value = bracket.value(measurer);
        Ok(GoalOutcome { goal: "classic".into(), parameters: self.parameters(), value })
    }

    /// All trials at one load. An unusable one is repeated, up to as often as there are trials.
    fn probe(&self, load_fps: f64, measurer: &mut Counted) -> Result<Verdict, Stop> {
        let mut losses = Vec::new();
        for _ in 0..2 * self.trials {
            match measurer.measure(load_fps, self.trial)? {
                Measured::Loss { loss_ratio, .. } => losses.push(loss_ratio),
                Measured::TesterLimited { .. } => return Ok(Verdict::TesterLimited),
                Measured::Unusable => {}
            }
            if losses.len() == self.trials as usize {
                return Ok(if self.accepts(losses) { Verdict::Accepted } else { Verdict::Refused });
            }
        }
        Ok(Verdict::Unknown)
    }

    /// Do the loss ratios of all trials at a load make it an accepted one?
    pub fn accepts(&self, mut losses: Vec<f64>) -> bool {
        losses.sort_by(f64::total_cmp);
        losses.truncate(losses.len() - self.discarded as usize);
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        let typical = losses.iter().filter(|loss| **loss <= self.typical_loss).count();
        mean <= self.mean_loss && 2 * typical >= losses.len()
    }

    fn parameters(&self) -> Vec<(String, String)> {
        vec![
            parameter::text("trials per load", self.trials),
            parameter::text("discarded (highest loss)", self.discarded),
            parameter::seconds("trial", self.trial),
            parameter::percent("mean loss of the kept trials", self.mean_loss),
            parameter::percent("loss of at least half of the kept trials", self.typical_loss),
            parameter::percent("resolution", self.resolution.relative),
            parameter::fps("resolution at least", self.resolution.absolute_fps),
            parameter::fps("min load", self.min_fps),
            parameter::fps("start load", self.start_fps),
            parameter::fps("max load", self.max_fps),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: loss of the ten trials in percent, in the order measured, and the verdict.
    fn check(rows: &[([f64; 10], bool)]) {
        let config = Config::published(1e3, 1e6);
        for (percent, accepted) in rows {
            let losses = percent.iter().map(|loss| loss / 100.0).collect();
            assert_eq!(config.accepts(losses), *accepted, "{percent:?}");
        }
    }

    #[test]
    fn the_three_worst_do_not_count() {
        const ACCEPTED: bool = true;
        const REFUSED: bool = false;
        check(&[
            ([0.0; 10], ACCEPTED),
            ([9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0, 9.0], ACCEPTED),
            // A fourth bad one is kept, and spoils the mean.
            ([9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 9.0, 0.0, 9.0], REFUSED),
            // Mean of the kept seven exactly 0.15 %, then just above, with four good ones.
            ([9.0, 9.0, 9.0, 0.35, 0.35, 0.34, 0.0, 0.0, 0.0, 0.0], ACCEPTED),
            ([9.0, 9.0, 9.0, 0.36, 0.36, 0.36, 0.0, 0.0, 0.0, 0.0], REFUSED),
            // Mean in order, but only three of seven lose 0.1 % or less.
            ([9.0, 9.0, 9.0, 0.12, 0.12, 0.12, 0.12, 0.0, 0.0, 0.0], REFUSED),
            ([9.0, 9.0, 9.0, 0.12, 0.12, 0.12, 0.10, 0.0, 0.0, 0.0], ACCEPTED),
        ]);
    }
}
