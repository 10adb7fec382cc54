//! Plans: what to vary, what to measure, and the question in one sentence.
//!
//! ```text
//! plan.toml + --set > read > Plan > points: dut x rules x cpus x ip x flows x order x direction x frame
//! ```
//! A list in a plan is an axis. A [`Plan`] that exists is valid: what it asks for can be measured.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod read;
mod set;
mod short;

use crate::frames::Limits;
use crate::rig::{Experiment, Rig};
pub use read::Label;
pub use short::Form;
pub use weir_config::{Mistake, Mistakes, Place};
use weir_record::shards::Shard;

/// A valid plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of a shipped plan, or of the file without its ending.
    pub name: String,
    /// The question that it answers, in one sentence.
    pub question: String,
    /// The procedure that it follows (`RFC 2544, section 26.1`).
    pub cites: Option<String>,
    /// What is done.
    pub experiment: Arc<dyn Experiment>,
    /// When a trial is not to be believed.
    pub limits: Limits,
    /// The longest time of its declared short form, `[short]`; `None` if it has none, or is it.
    pub short: Option<Duration>,
    /// The part of the points that is measured; `None`: all.
    pub shard: Option<Shard>,
    /// TOML text with `--set` changes applied; reading it gives the same plan.
    pub text: String,
}

impl Plan {
    /// Upper bound of the trial time. Repeated noisy trials, building test beds and measuring the wire are
    /// not counted. Points of a shard take as long as others.
    pub fn estimate(&self) -> Duration {
        let (all, estimate) = (self.experiment.bases().len().max(1), self.experiment.estimate());
        self.own().map_or(estimate, |own| estimate.mul_f64(own.len() as f64 / all as f64))
    }

    /// How many points are measured one after another; 0 where all are measured in the same rounds.
    pub fn points(&self) -> usize {
        let all = self.experiment.points();
        self.own().filter(|_| all > 0).map_or(all, |own| own.len())
    }

    /// The settings of the points that are measured, as far as the plan tells them.
    pub fn settings(&self) -> Vec<Vec<(String, String)>> {
        let (own, all) = (self.own(), self.experiment.settings().into_iter().enumerate());
        let is_own = |number: &usize| own.as_ref().is_none_or(|own| own.contains(number));
        all.filter(|(number, _)| is_own(number)).map(|(_, settings)| settings).collect()
    }

    /// Numbers of the points that are measured; `None`: all.
    pub fn own(&self) -> Option<BTreeSet<usize>> {
        self.shard.map(|shard| shard.own(&self.experiment.bases()))
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither a shipped plan nor a file.
    #[error("`{name}` is neither a shipped plan nor a file: {remedy}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What to write instead.
        remedy: String,
    },
    /// The file cannot be read.
    #[error("cannot read the plan {path}")]
    File {
        /// Its path.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The plan is wrong.
    #[error("the plan has mistakes:\n{0}")]
    Mistakes(Mistakes),
}

/// The plans of some rigs: those that ship with them, and others in files and records.
#[derive(Clone, Copy)]
pub struct Plans(pub &'static [&'static dyn Rig]);

impl Plans {
    /// The plans that ship: name and text.
    pub fn shipped(self) -> Vec<(&'static str, &'static str)> {
        self.0.iter().flat_map(|rig| rig.plans()).copied().collect()
    }

    /// A plan with every option, each explained: the reference for authors of plans.
    pub fn options(self) -> String {
        let parts = self.0.iter().map(|rig| rig.options()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The plan `name_or_path` with the changes `sets` (`key.path=value`). The name of a shipped plan comes
    /// first; a file of the same name is reached as `./quick`.
    ///
    /// # Errors
    /// See [`PlanError`]; the message says what to do.
    pub fn load(self, name_or_path: impl AsRef<OsStr>, sets: &[String]) -> Result<Plan, PlanError> {
        self.load_form(name_or_path.as_ref(), Form::Full, sets)
    }

    /// The short form that a plan declares, with the changes `sets` on top.
    ///
    /// # Errors
    /// As [`Plans::load`], and if it declares none.
    pub fn load_short(self, name_or_path: impl AsRef<OsStr>, sets: &[String]) -> Result<Plan, PlanError> {
        self.load_form(name_or_path.as_ref(), Form::Short, sets)
    }

    fn load_form(self, name_or_path: &OsStr, form: Form, sets: &[String]) -> Result<Plan, PlanError> {
        let shipped = self.shipped();
        if let Some((name, text)) = shipped.iter().find(|(name, _)| name_or_path == *name) {
            return self.read(&Label { name, place: name }, text, form, sets).map_err(PlanError::Mistakes);
        }
        let path = Path::new(name_or_path);
        let place = path.display().to_string();
        if !path.exists() {
            let names: Vec<_> = shipped.iter().map(|(name, _)| *name).collect();
            let remedy = weir_config::did_you_mean(&place, &names);
            return Err(PlanError::Unknown { name: place, remedy });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| PlanError::File { path: place.clone(), source })?;
        let name = path.file_stem().map_or((&place).into(), |stem| stem.to_string_lossy());
        let label = Label { name: &name, place: &place };
        self.read(&label, &text, form, sets).map_err(PlanError::Mistakes)
    }

    /// The plan of a record: its name and its text as kept.
    ///
    /// # Errors
    /// [`PlanError::Mistakes`] if another version of weir wrote it and this one reads it differently.
    pub fn reload(self, name: &str, text: &str) -> Result<Plan, PlanError> {
        let label = Label { name, place: "the plan in the record" };
        self.read(&label, text, Form::Full, &[]).map_err(PlanError::Mistakes)
    }
}
