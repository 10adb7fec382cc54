//! The rig `mail`: one message to many recipients over many domains, with more and more connections, and all of it as fast as
//! it goes; beside it what others send and receive.

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
mod case;
mod peers;
mod plan;
mod report;
mod result;
mod run;

pub use plan::{Mail, MailPeer};

const PROGRAMS: Programs = Programs(include_str!("../../../../plans/peers-mail.programs"));

/// The rig.
pub(super) struct MailRig;

impl Rig for MailRig {
    fn name(&self) -> &'static str {
        "mail"
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("mail", include_str!("../../../../plans/mail.toml")),
            ("peers-mail", include_str!("../../../../plans/peers-mail.toml")),
        ]
    }

    fn options(&self) -> &'static str {
        include_str!("options.toml")
    }

    fn programs(&self) -> Programs {
        PROGRAMS
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        plan::read(root.section("mail")).map(|experiment| Arc::new(experiment) as _)
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

impl Experiment for Mail {
    fn estimate(&self) -> Duration {
        Mail::estimate(self)
    }

    fn bases(&self) -> Vec<Vec<usize>> {
        let is_pair = |case: &case::Case| matches!(case, case::Case::Pair(..));
        first_alike(&self.cases(), |a, b| is_pair(a) == is_pair(b))
    }

    fn means(&self) -> Option<&'static str> {
        Some("processes of weir")
    }

    fn run(&self, run: Running<'_>) -> Result<(), RunError> {
        run::Rounds::from(run.of(self)).all_rounds()
    }
}
