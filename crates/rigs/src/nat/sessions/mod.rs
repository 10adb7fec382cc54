//! The benchmarks of RFC 9693: how fast a NAT establishes connections, what it forwards once they are, how fast it forgets
//! them, and how many it holds.
//!
//! ```text
//! phase 1   initiator [a] -- each tuple once, rate R --> NAT --> [b] responder: keeps the translated tuples
//! phase 2   initiator [a] <----- the same tuples, both directions -----> [b] responder: answers those tuples
//! ```

use std::time::Duration;

use weir_load::TesterKind;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::frames::{PointSpec, preflight};
use weir_lab::rig::Experiment;
use weir_lab::run::Running;

pub(super) mod answer;
mod plan;
pub(super) mod report;
mod run;
mod search;

pub use plan::Rfc9693;
pub(super) use plan::read;
pub(super) use search::highest;

impl Experiment for Rfc9693 {
    fn estimate(&self) -> Duration {
        Rfc9693::points(self).iter().map(|point| self.estimate_at(point)).sum()
    }

    fn points(&self) -> usize {
        Rfc9693::points(self).len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        vec![Vec::new(); Rfc9693::points(self).len()]
    }

    fn settings(&self) -> Vec<Vec<(String, String)>> {
        Rfc9693::points(self).iter().map(PointSpec::settings).collect()
    }

    fn deviations(&self) -> Vec<String> {
        let mut list = vec![
            "RFC 9693: the device is not restarted between repetitions; its connections are deleted."
                .to_string(),
        ];
        let mut add = |differs: bool, text: String| list.extend(differs.then_some(text));
        add(
            self.loss_ratio > 0.0,
            format!("RFC 9693: throughput with a loss ratio of {} in place of 0.", self.loss_ratio),
        );
        add(
            self.trial < Duration::from_secs(60),
            format!("RFC 2544: trials of {} s in place of 60 s.", self.trial.as_secs_f64()),
        );
        list
    }

    fn preflight(&self, tester: TesterKind) -> Result<(), Unfit> {
        preflight::devices(&Rfc9693::points(self), tester)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Measuring::from(run.of(self)).all_points()
    }
}
