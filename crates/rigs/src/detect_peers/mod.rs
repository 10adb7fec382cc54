//! The rig `peers-detect`: `weir detect` and other programs that watch for attacks, in the same rounds.

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

mod plan;
mod program;
mod report;
mod run;

pub use plan::{DetectPeer, DetectPeers};

const PROGRAMS: Programs = Programs(include_str!("../../../../plans/peers-detect.programs"));

/// The rig.
pub(super) struct DetectPeersRig;

impl Rig for DetectPeersRig {
    fn name(&self) -> &'static str {
        "peers-detect"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("peers-detect", include_str!("../../../../plans/peers-detect.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("detect_peers")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for DetectPeers {
    fn estimate(&self) -> Duration {
        DetectPeers::estimate(self)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Contest::from(run.of(self)).all_rounds()
    }
}
