//! The engine: begins a run or resumes one, has a rig measure its points trial by trial, keeps each as it ends, and ends the
//! run whatever happened.
//!
//! ```text
//! plan > preflight > Run > Experiment::run > rounds > trial: kept from an earlier part of the run, or measured > store
//! ```

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use uuid::Uuid;
use weir_load::TesterKind;
use weir_testbed::journal::{self, Journal};
use weir_testbed::process::{is_alive, this_process};

pub use crate::error::RunError;
use crate::frames::Settings;
use crate::machine;
use crate::plan::Plan;
use crate::record::{Point, PointResult, Run, RunState, Tester, Trial};
use crate::run_data::RunData;
use crate::store::{Store, StoreError};
use crate::time;

pub(crate) mod folder;
pub(crate) mod process;
pub mod programs;
mod resume;
pub(crate) mod rounds;
pub(crate) mod series;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tree;
pub(crate) mod wires;

pub use folder::sweep_folders;
use resume::KeptTrials;

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run has its number in the store.
    Run(&'a Run),
    /// A point begins.
    Point {
        /// Its number from 0; ceilings come before the points and have none.
        index: Option<usize>,
        /// Points of the plan.
        count: usize,
        /// The point.
        point: &'a Point,
    },
    /// The next point of a round begins, where rounds go over all points.
    Round {
        /// The round, from 1.
        number: usize,
        /// Rounds in all.
        of: usize,
        /// How many points are done, the rounds so far as a share of them.
        done: f64,
        /// Points of the plan, or turns where there is nothing but rounds.
        count: usize,
        /// The point.
        point: &'a Point,
    },
    /// What the rounds of a point have found so far, frames/s.
    SoFar(&'a Point, f64),
    /// A procedure begins at the point.
    Procedure {
        /// Its name, that of its section in the plan.
        name: &'static str,
        /// The share of the time at the point that has gone by, as far as the plan tells, 0..=1.
        done: f64,
    },
    /// A trial begins.
    Trial {
        /// Frames/s; `None`: as fast as possible.
        offered_fps: Option<f64>,
        /// How long it sends.
        duration: Duration,
    },
    /// Frames so far in this trial.
    Progress {
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// A trial has ended and is kept.
    Ended(&'a Trial),
    /// A point has its result.
    Result(&'a Point, &'a PointResult),
    /// Something that the user should know.
    Note(&'a str),
}

/// How to run a plan.
pub struct Options<'a> {
    /// Seed of all randomness.
    pub seed: u64,
    /// How to send and receive.
    pub tester: TesterKind,
    /// What is weaker than it could be, for the record.
    pub tester_limits: Vec<String>,
    /// Set to end the run.
    pub stop: &'a AtomicBool,
    /// Reported what goes on.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

/// Runs the experiment of a plan; returns the number of the run in the store.
///
/// # Errors
/// See [`RunError`]. Trials that ended before are kept in any case, and the run is marked accordingly.
pub fn run(plan: &Plan, store: &dyn Store, options: &Options) -> Result<i64, RunError> {
    plan.experiment.preflight(options.tester)?;
    let mut record = begin(plan, options);
    record.id = store.begin_run(&record)?;
    execute(plan, record, &KeptTrials::default(), store, options)
}

/// Goes on with a run that was interrupted or has failed; `plan` is the one of its record. Its own seed counts, and
/// no trial that was kept is made again.
///
/// # Errors
/// [`RunError::Resume`] if it cannot go on here; otherwise as [`run()`].
pub fn resume(plan: &Plan, data: RunData, store: &dyn Store, options: &Options) -> Result<i64, RunError> {
    let (mut record, resumed) = KeptTrials::of(data, options)?;
    plan.experiment.preflight(options.tester)?;
    record.process = this_process();
    record.failure = None;
    record.resumed.push(time::now());
    store.reopen_run(&record)?;
    execute(plan, record, &resumed, store, options)
}

fn execute(
    plan: &Plan,
    record: Run,
    resumed: &KeptTrials,
    store: &dyn Store,
    options: &Options,
) -> Result<i64, RunError> {
    (options.observe)(Event::Run(&record));
    let settings = Settings {
        tester: options.tester,
        seed: record.seed,
        limits: plan.limits.clone(),
        external: None,
        tsc_hz: machine::tsc_hz(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
    };
    let journal = Journal::in_dir(&journal::default_dir());
    let run = Running { record: &record, resumed, experiment: &(), store, options, settings, journal };
    let result = plan.experiment.run(run);
    let now = time::now();
    match &result {
        Ok(()) => store.finish_run(record.id, RunState::Complete, &now)?,
        Err(RunError::Interrupted(_)) => store.finish_run(record.id, RunState::Interrupted, &now)?,
        Err(error) => store.fail_run(&Run { failure: Some(error.to_string()), ..record.clone() }, &now)?,
    }
    result.map(|()| record.id)
}

/// Marks runs as interrupted whose process is gone without having ended them; returns their numbers.
pub fn mark_dead_runs(store: &dyn Store) -> Result<Vec<i64>, StoreError> {
    let dead = |run: &Run| run.state == RunState::Running && !is_alive(&run.process);
    let numbers: Vec<i64> = store.runs()?.iter().filter(|run| dead(run)).map(|run| run.id).collect();
    for &id in &numbers {
        store.mark_interrupted(id)?;
    }
    Ok(numbers)
}

fn begin(plan: &Plan, options: &Options) -> Run {
    Run {
        id: 0,
        plan: plan.name.clone(),
        question: plan.question.clone(),
        plan_toml: plan.text.clone(),
        started: time::now(),
        finished: None,
        state: RunState::Running,
        seed: options.seed,
        version: env!("CARGO_PKG_VERSION").to_string(),
        process: this_process(),
        machine: machine::gather(),
        tester: tester(plan, options),
        deviations: plan.experiment.deviations(),
        resumed: Vec::new(),
        failure: None,
        uuid: Uuid::new_v4().to_string(),
    }
}

fn tester(plan: &Plan, options: &Options) -> Tester {
    if let Some(means) = plan.experiment.means() {
        return Tester { generator: means.into(), receiver: means.into(), ..Tester::default() };
    }
    let receiver = match options.tester {
        TesterKind::Xdp => "xdp",
        TesterKind::Packet => "af-packet",
    };
    let cpus = weir_testbed::cpu::CpuPlan::choose(weir_testbed::cpu::DutCpus::Count(1));
    Tester {
        generator: generator_name(options.tester).into(),
        receiver: receiver.into(),
        cpus: cpus.map(|c| c.tester).unwrap_or_default(),
        limits: options.tester_limits.clone(),
    }
}

fn generator_name(tester: TesterKind) -> &'static str {
    match tester {
        TesterKind::Xdp => "xdp-live-frames",
        TesterKind::Packet => "af-packet",
    }
}

/// A run in progress, of this experiment: what the engine has for a rig.
pub struct Running<'a, E = ()> {
    pub(crate) record: &'a Run,
    pub(crate) resumed: &'a KeptTrials,
    pub(crate) experiment: &'a E,
    pub(crate) store: &'a dyn Store,
    pub(crate) options: &'a Options<'a>,
    pub(crate) settings: Settings,
    pub(crate) journal: Journal,
}

impl<'a> Running<'a> {
    /// The same with the options of its experiment.
    pub fn of<E>(self, experiment: &'a E) -> Running<'a, E> {
        let Running { record, resumed, experiment: (), store, options, settings, journal } = self;
        Running { record, resumed, experiment, store, options, settings, journal }
    }
}

impl<E> Running<'_, E> {
    /// A point of this run without a device under test.
    pub(crate) fn point(&self, index: usize, dut: &str, settings: Vec<(&str, String)>) -> Point {
        let settings = settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Point { run_id: self.record.id, index, settings, dut: dut.into(), ..Point::default() }
    }

    /// Tells the result of a point, and keeps it unless an earlier part of this run has.
    pub(crate) fn close(&self, point: &Point, result: PointResult) -> Result<(), RunError> {
        if self.resumed.finished(point.index).is_none() {
            self.store.finish_point(point.id, &result)?;
        }
        (self.options.observe)(Event::Result(point, &result));
        Ok(())
    }
}
