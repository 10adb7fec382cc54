//! The rig `peers-generator`: frame generators compared in the same rounds, and what the tester itself is like.

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;

use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod command;
mod contestant;
mod plan;
mod report;
mod result;
mod run;

pub use plan::{Peer, Peers};

const PROGRAMS: Programs = Programs(include_str!("../../../../plans/peers-generator.programs"));

/// The rig.
pub(super) struct GeneratorsRig;

impl Rig for GeneratorsRig {
    fn name(&self) -> &'static str {
        "peers-generator"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("peers-generator", include_str!("../../../../plans/peers-generator.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("peers")).map(|experiment| Arc::new(experiment) as _)
    }

    fn answer(&self, data: &RunData) -> Option<Answer> {
        report::answer(data)
    }

    fn findings(&self, data: &RunData) -> Vec<String> {
        report::findings(data)
    }

    fn parts(&self, data: &RunData) -> Vec<Part> {
        report::parts(data)
    }
}

impl Experiment for Peers {
    fn estimate(&self) -> Duration {
        Peers::estimate(self)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Contest::from(run.of(self)).all_rounds()
    }
}
