//! The rig `files`: many small files in one directory, made, written and read back; what each kind of durability costs, on each
//! file system.
//!
//! Files:
//! - `place.rs`: file systems on loop devices

use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;

use weir_lab::error::RunError;
use weir_lab::error::Unfit;
use weir_lab::rig::{Experiment, Rig, first_alike};
use weir_lab::run::Running;
use weir_lab::run::programs::Programs;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

mod measured;
mod peer;
mod place;
mod plan;
mod report;
mod run;

pub use plan::Files;

const PROGRAMS: Programs = Programs(include_str!("../../../../plans/files.programs"));

/// The rig.
pub(super) struct FilesRig;

impl Rig for FilesRig {
    fn name(&self) -> &'static str {
        "files"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[("files", include_str!("../../../../plans/files.toml"))]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("files")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for Files {
    fn estimate(&self) -> Duration {
        Files::estimate(self)
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        let load = |work: &plan::Work| (work.file_system, work.bytes, work.workers);
        first_alike(&self.work(), |a, b| load(a) == load(b))
    }

    fn without_frames(&self) -> Option<&'static str> {
        Some("calls of this process")
    }

    fn preflight(&self, _: TesterKind) -> Result<(), Unfit> {
        place::check(self).map_err(|why| Unfit {
            what: format!("files cannot be made in {}", self.directory.display()),
            option: "files.directory",
            source: Box::new(RunError::Linux(weir_linux::Error::Input(why))),
        })
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Filling::from(run.of(self)).all_rounds()
    }
}
