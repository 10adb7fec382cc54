//! The rig `capture`: the rate of each capture method in overload and without loss, and the cost of a frame.

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::rig::{Experiment, Rig, first_alike};
use weir_lab::run::Running;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod bench;
mod consumer;
mod observer;
mod overload;
mod plan;
mod reader;
mod report;
mod run;

pub use plan::{Ladder, Offered, Receive, Step};

/// The rig.
pub(super) struct CaptureRig;

impl Rig for CaptureRig {
    fn name(&self) -> &'static str {
        "capture"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("capture", include_str!("../../../../plans/capture.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("capture")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for Ladder {
    fn estimate(&self) -> Duration {
        Ladder::estimate(self)
    }

    fn points(&self) -> usize {
        self.steps().len()
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        first_alike(&self.steps(), Step::is_compared_with)
    }

    fn preflight(&self, _: TesterKind) -> Result<(), Unfit> {
        let mut tried = Vec::new();
        for step in self.steps() {
            if !tried.contains(&step.method) {
                run::opens(&step, self).map_err(|error| Unfit {
                    what: format!("{} cannot capture", step.method),
                    option: "capture.methods",
                    source: Box::new(error),
                })?;
                tried.push(step.method);
            }
        }
        Ok(())
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Climb::from(run.of(self)).all_steps()
    }
}
