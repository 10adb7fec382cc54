//! The rig `fixes`: settings that `weir doctor` names, each before and after, under the load that it is for.
//!
//! Files:
//! - `plan.rs`: the settings and their values; `bench.rs`: the loads

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;

use weir_lab::error::RunError;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::Running;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod bench;
mod plan;
mod report;
mod run;

pub use plan::Fixes;

/// The rig.
pub(super) struct FixesRig;

impl Rig for FixesRig {
    fn name(&self) -> &'static str {
        "fixes"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("fixes", include_str!("../../../../plans/fixes.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("fixes")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for Fixes {
    fn estimate(&self) -> Duration {
        Fixes::estimate(self)
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        // After each setting, compared with before.
        (0..2 * self.fixes.len()).map(|point| if point % 2 == 0 { vec![] } else { vec![point - 1] }).collect()
    }

    fn means(&self) -> Option<&'static str> {
        Some("processes of weir")
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Fixing::from(run.of(self)).all_rounds()
    }
}
