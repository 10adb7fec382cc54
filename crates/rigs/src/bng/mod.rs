//! The rig `bng`: how many subscribers a concentrator (BNG) has online, how fast they come online, how fast they are forwarded.
//!
//! ```text
//!  [devices] a ---- b [ BNG: responder | weir | external ] d ---- c [far end]      a and c are the emulator's
//! ```
//!
//! Files:
//! - `plan.rs`: the options; `street.rs`: namespaces and wires; `device.rs`, `weir.rs`: the BNGs; `aaa.rs`: RADIUS servers beside weir
//! - `run.rs`: the order of the trials; `trials.rs`, `life.rs`, `goodput.rs`, `many.rs`: each kind of trial
//! - `measured.rs`, `churned.rs`: details and figures; `report.rs`: the answer and the section of a report

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;

use weir_lab::error::{RunError, Unfit};
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod aaa;
mod churned;
mod device;
mod goodput;
mod life;
mod many;
mod measured;
mod plan;
mod report;
mod run;
mod street;
mod trials;
mod weir;

pub use plan::Concentrators;

/// The rig.
pub(super) struct BngRig;

impl Rig for BngRig {
    fn name(&self) -> &'static str {
        "bng"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("bng", include_str!("../../../../plans/bng.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        aaa::PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("bng")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for Concentrators {
    fn estimate(&self) -> Duration {
        Concentrators::estimate(self)
    }

    fn points(&self) -> usize {
        self.entries().len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        vec![Vec::new(); self.entries().len()]
    }

    fn means(&self) -> Option<&'static str> {
        Some("emulated devices, AF_PACKET")
    }

    fn preflight(&self, _: TesterKind) -> Result<(), Unfit> {
        street::check(self).map_err(|source| Unfit {
            what: "the wires of a BNG cannot be made".into(),
            option: "bng.dut",
            source: Box::new(source),
        })
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Measuring::from(run.of(self)).all_points()
    }
}
