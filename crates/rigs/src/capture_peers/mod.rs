//! The rig `peers-capture`: `weir capture` and other programs that capture, in the same rounds.

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

mod bench;
mod plan;
mod program;
mod report;
mod run;
mod written;

pub use plan::{CapturePeer, CapturePeers, CapturePlace, Job};

const PROGRAMS: Programs = Programs(include_str!("../../../../plans/peers-capture.programs"));

/// The rig.
pub(super) struct CapturePeersRig;

impl Rig for CapturePeersRig {
    fn name(&self) -> &'static str {
        "peers-capture"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("peers-capture", include_str!("../../../../plans/peers-capture.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("capture_peers")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for CapturePeers {
    fn estimate(&self) -> Duration {
        CapturePeers::estimate(self)
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Contest::from(run.of(self)).all_rounds()
    }
}
