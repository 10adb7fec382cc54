//! What a rig is: one family of experiments. It reads its part of a plan, runs the experiment with the means of the
//! [engine](crate::run), and turns its records into blocks of a report. The list of all is `rigs/mod.rs`.
//!
//! ```text
//! plan > Rig::read > Experiment::run > trials, figures > Rig::findings, Rig::sections
//! ```
//! What a rig records as figures is compared, followed over time and exported without any code of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;

use crate::report::block::Part;
use crate::run::preflight::Unfit;
use crate::run::{RunError, Running};
use crate::run_data::RunData;

/// A family of experiments.
pub trait Rig: Sync {
    /// Its name in plans: `experiment = "NAME"`.
    fn name(&self) -> &'static str;

    /// Plans that ship: name and text.
    fn plans(&self) -> &'static [(&'static str, &'static str)];

    /// Its part of the reference of options: TOML with a comment for each option.
    fn options(&self) -> &'static str;

    /// Programs by others that its experiments measure beside weir.
    fn programs(&self) -> &'static [Program] {
        &[]
    }

    /// Reads its sections of a plan; `None` if they have mistakes, which are noted.
    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>>;

    /// What a run says, one sentence each, for the summary.
    fn findings(&self, _: &RunData) -> Vec<String> {
        Vec::new()
    }

    /// The sections of a report on a run; none if it is of another rig.
    fn parts(&self, _: &RunData) -> Vec<Part> {
        Vec::new()
    }
}

/// A program by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name in the file system.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

/// What a plan does: a family of experiments with all options.
pub trait Experiment: fmt::Debug + Send + Sync + Any {
    /// Upper bound of the trial time. Repeated noisy trials, building test beds and measuring the wire are not counted.
    fn estimate(&self) -> Duration;

    /// Points with a device under test; 0 if all are measured in the same rounds.
    fn devices(&self) -> usize {
        0
    }

    /// Where it departs from the procedure that it uses, one sentence each.
    fn deviations(&self) -> Vec<String> {
        Vec::new()
    }

    /// Tries what it needs, before anything is recorded.
    ///
    /// # Errors
    /// The first that does not work, and why.
    fn preflight(&self, _: TesterKind) -> Result<(), Unfit> {
        Ok(())
    }

    /// Measures all points.
    ///
    /// # Errors
    /// See [`RunError`]. What was measured before is kept.
    fn run(&self, run: Running<'_>) -> Result<(), RunError>;
}

impl dyn Experiment {
    /// The experiment, if it is one of this rig.
    pub fn of<E: Experiment>(&self) -> Option<&E> {
        (self as &dyn Any).downcast_ref()
    }
}
