//! The engine: begins or resumes a run, lets a rig measure its points trial by trial, records each trial as it ends, and ends the
//! run in any case.
//!
//! ```text
//! plan > preflight > Run > Experiment::run > rounds > trial: kept from an earlier part of the run, or measured > log
//! ```

use std::collections::BTreeSet;

use weir_linux::process::{is_alive, this_process};
use weir_load::TesterKind;
use weir_testbed::journal::{self, Journal};

use crate::error::RunError;
use crate::frames::Settings;
use crate::machine;
use crate::plan::Plan;
use crate::run::resume::KeptTrials;
use crate::run::{Event, Options, Running};
use weir_linux::time;
use weir_record::record::{Run, RunId, RunState, Tester};
use weir_record::run_data::RunData;
use weir_record::store::{RunLog, StoreError};

/// Runs the experiment of a plan; returns the run, which is in the log.
///
/// # Errors
/// See [`RunError`]. Trials that ended before are kept in any case, and the run is marked accordingly.
pub fn run(plan: &Plan, log: &RunLog, options: &Options) -> Result<RunId, RunError> {
    plan.experiment.preflight(options.tester)?;
    let mut record = begin(plan, options);
    record.id = log.begin(&record)?;
    let none = KeptTrials::none(record.uuid);
    execute(plan, record, &none, log, options)
}

/// Goes on with a run that was interrupted or has failed; `plan` is the one of its record. Its own seed counts, and
/// no trial that was kept is made again.
///
/// # Errors
/// [`RunError::Resume`] if it cannot go on here; otherwise as [`run()`].
pub fn resume(plan: &Plan, data: RunData, log: &RunLog, options: &Options) -> Result<RunId, RunError> {
    let (mut record, resumed) = KeptTrials::of(data, generator_name(options.tester))?;
    plan.experiment.preflight(options.tester)?;
    record.process = this_process();
    record.failure = None;
    record.resumed.push(time::now());
    log.reopen_run(&record)?;
    execute(plan, record, &resumed, log, options)
}

fn execute(
    plan: &Plan,
    record: Run,
    resumed: &KeptTrials,
    log: &RunLog,
    options: &Options,
) -> Result<RunId, RunError> {
    (options.observe)(Event::Run(&record));
    let settings = Settings {
        tester: options.tester,
        seed: record.seed,
        limits: plan.limits.clone(),
        external: None,
        tsc_hz: machine::tsc_hz(&weir_disk::kernel_text("/proc/cpuinfo").unwrap_or_default()),
    };
    let journal = Journal::in_dir(&journal::default_dir());
    let own = plan.own();
    if own.as_ref().is_some_and(BTreeSet::is_empty) {
        (options.observe)(Event::Note("this shard has no point: there are more shards than points"));
    }
    let run = Running { record: &record, resumed, experiment: &(), log, options, settings, journal, own };
    let result = plan.experiment.run(run);
    let now = time::now();
    match &result {
        Ok(()) => log.finish_run(record.uuid, RunState::Complete, &now)?,
        Err(RunError::Interrupted(_)) => log.finish_run(record.uuid, RunState::Interrupted, &now)?,
        Err(error) => log.fail_run(&Run { failure: Some(error.to_string()), ..record.clone() }, &now)?,
    }
    result.map(|()| record.uuid)
}

/// Marks runs as interrupted whose process is gone without having ended them; returns their numbers.
pub fn mark_dead_runs(log: &RunLog) -> Result<Vec<i64>, StoreError> {
    let dead = |run: &Run| run.state == RunState::Running && !is_alive(&run.process);
    let runs = log.archive().runs()?.into_iter().filter(dead);
    runs.map(|run| log.mark_interrupted(run.uuid).map(|()| run.id)).collect()
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
        uuid: RunId::random(),
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
