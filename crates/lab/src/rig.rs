//! The trait of a rig, a family of experiments. It reads its part of a plan, runs the experiment with the means of the
//! [engine](crate::run), and turns its records into blocks of a report. The list of all is `rigs/mod.rs`.
//!
//! ```text
//! plan > Rig::read > Experiment::run > trials, figures > Rig::findings, Rig::parts
//! ```
//! What a rig records as figures is compared, followed over time and exported without any code of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_config::Section;
use weir_load::TesterKind;

use crate::error::{RunError, Unfit};
use crate::run::programs::Programs;
use crate::run::running::Running;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::report::block::Part;

/// A family of experiments.
pub trait Rig: Sync {
    /// Its name in plans: `experiment = "NAME"`.
    fn name(&self) -> &'static str;

    /// Plans that ship: name and text.
    fn plans(&self) -> &'static [(&'static str, &'static str)];

    /// Its part of the reference of options: TOML with a comment for each option.
    fn options(&self) -> &'static str;

    /// Programs by others that its experiments measure beside weir: the list that the launcher installs from, too.
    fn programs(&self) -> Programs {
        Programs("")
    }

    /// Reads its sections of a plan; `None` if they have mistakes, which are noted.
    fn read(&self, root: &Section<'_>) -> Option<Arc<dyn Experiment>>;

    /// The answer to the question of a run: what its first screen shows. `None` if the run is of another rig, or if a comparison
    /// of devices by their rates answers the question.
    fn answer(&self, _: &RunData) -> Option<Answer> {
        None
    }

    /// What a run says, one sentence each, for the summary.
    fn findings(&self, _: &RunData) -> Vec<String> {
        Vec::new()
    }

    /// The sections of a report on a run; none if it is of another rig.
    fn parts(&self, _: &RunData) -> Vec<Part> {
        Vec::new()
    }
}

/// What a plan does: a family of experiments with all options.
pub trait Experiment: fmt::Debug + Send + Sync + Any {
    /// Upper bound of the trial time. Repeated noisy trials, building test beds and measuring the wire are not counted.
    fn estimate(&self) -> Duration;

    /// How many points it measures one after another; 0 where all are measured in the same rounds.
    fn points(&self) -> usize {
        0
    }

    /// The settings of its points as far as the plan tells them; none: not known before a point begins.
    fn settings(&self) -> Vec<Vec<(String, String)>> {
        Vec::new()
    }

    /// For each point in the order of their numbers the points that it is compared with: a shard of the plan measures them, too, in
    /// the same rounds. Ceilings of the tester are no points of a plan.
    fn bases(&self) -> Vec<Vec<usize>>;

    /// What it measures with, where that needs neither frames nor privileges.
    fn without_frames(&self) -> Option<&'static str> {
        None
    }

    /// What it measures with, where that is no tester of frames; in place of generator and receiver in records.
    fn means(&self) -> Option<&'static str> {
        self.without_frames()
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

/// Bases of points that are each compared with the first one that is alike.
pub fn first_alike<P>(points: &[P], is_alike: impl Fn(&P, &P) -> bool) -> Vec<Vec<usize>> {
    let base = |(own, point): (usize, &P)| {
        let first = points[..own].iter().position(|other| is_alike(other, point));
        first.into_iter().collect()
    };
    points.iter().enumerate().map(base).collect()
}

impl dyn Experiment {
    /// The experiment, if it is one of this rig.
    pub fn of<E: Experiment>(&self) -> Option<&E> {
        (self as &dyn Any).downcast_ref()
    }
}
