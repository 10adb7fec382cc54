//! Rigs that compare weir with programs of other projects: `peers-generator`, `peers-capture` and `peers-detect`. All programs
//! take turns in the same rounds, so that a busy minute of the machine meets all of them, and ratios are formed round by round.
//!
//! ```text
//! plan > programs: installed, or left out > entrants > round 1: a b c  round 2: b c a ... > results > report: ratios to weir
//! ```
//!
//! Files:
//! - `contest.rs`: programs, entrants and rounds of all three
//! - `report.rs`: charts, tables and answers of all three
//! - `generator/`, `capture/`, `detect/`: plan, programs, trial and report of each

mod capture;
mod contest;
mod detect;
mod generator;
mod report;

use std::sync::Arc;

use weir_config::Section;
use weir_lab::rig::{Experiment, Rig};
use weir_lab::run::programs::Programs;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

/// `peers-generator`.
pub(super) const GENERATOR: PeersRig = generator::RIG;
/// `peers-capture`.
pub(super) const CAPTURE: PeersRig = capture::RIG;
/// `peers-detect`.
pub(super) const DETECT: PeersRig = detect::RIG;

/// One of the three rigs.
pub(super) struct PeersRig {
    /// Name in plans, and its plan that ships.
    plans: &'static [(&'static str, &'static str); 1],
    options: &'static str,
    programs: Programs,
    read: fn(&Section<'_>) -> Option<Arc<dyn Experiment>>,
    answer: fn(&RunData) -> Option<Answer>,
    findings: fn(&RunData) -> Vec<String>,
    parts: fn(&RunData) -> Vec<Part>,
}

impl Rig for PeersRig {
    fn name(&self) -> &'static str {
        self.plans[0].0
    }

    fn plans(&self) -> &'static [(&'static str, &'static str)] {
        self.plans
    }

    fn options(&self) -> &'static str {
        self.options
    }

    fn programs(&self) -> Programs {
        self.programs
    }

    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>> {
        (self.read)(root)
    }

    fn answer(&self, data: &RunData) -> Option<Answer> {
        (self.answer)(data)
    }

    fn findings(&self, data: &RunData) -> Vec<String> {
        (self.findings)(data)
    }

    fn parts(&self, data: &RunData) -> Vec<Part> {
        (self.parts)(data)
    }
}
