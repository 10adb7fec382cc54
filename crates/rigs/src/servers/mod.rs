//! The rig `servers`: the same reply by processes, threads and event loops, in the same rounds; connections per second,
//! latency, what a connection costs, and which side is the limit.
//!
//! Files:
//! - `bench.rs`: a trial; `measured.rs`: its figures; `peer.rs`: servers and clients of other projects

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;

use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, Rig, first_alike};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod bench;
mod counters;
mod measured;
mod peer;
mod plan;
mod report;
mod run;

pub use plan::{Servers, Work};

const PROGRAMS: Programs = Programs(include_str!("../../../../plans/servers.programs"));

/// The rig.
pub(super) struct ServersRig;

impl Rig for ServersRig {
    fn name(&self) -> &'static str {
        "servers"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("servers", include_str!("../../../../plans/servers.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("servers")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for Servers {
    fn estimate(&self) -> Duration {
        Servers::estimate(self)
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        first_alike(&self.work(), |a, b| (a.reply, a.mode) == (b.reply, b.mode))
    }

    fn means(&self) -> Option<&'static str> {
        Some("processes of weir")
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Serving::from(run.of(self)).all_rounds()
    }
}
