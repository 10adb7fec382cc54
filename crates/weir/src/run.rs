//! `weir run`: a plan from its text to its report.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_lab::plan::{self, Plan};
use weir_lab::record::{Purpose, Verdict};
use weir_lab::run::{self, Event, Options, RunError};
use weir_lab::run_data::RunData;
use weir_lab::{export, report};

use crate::progress::Progress;
use crate::{Outcome, clean, cli, privilege, records, say, time};

/// Who may read a report.
pub(crate) const REPORT: u32 = 0o644;

/// Runs the plan, writes its report, says where it is.
pub(crate) fn run(arguments: &cli::Run, out: &mut impl Write) -> Result<Outcome> {
    // A wrong plan is told before anything else is done.
    let new_plan = arguments.plan.as_ref().map(|name| arguments.sets.load(name)).transpose()?;
    if !arguments.no_report {
        check_folder(arguments.report.as_deref().unwrap_or(Path::new("report")))?;
    }
    let is_simulated = new_plan.as_ref().is_some_and(|plan| plan.experiment.is_simulated());
    let means = if is_simulated { privilege::Means::none() } else { privilege::obtain(arguments.tester)? };
    let stop = stop_flag()?;
    let store = records::open(&arguments.store)?;
    let undone = clean::undo(&store)?;
    let past = arguments.resume.map(|id| records::find_whole(&store, id)).transpose()?;
    let plan = match (new_plan, &past) {
        (Some(plan), _) => plan,
        (None, Some(data)) => plan::reload(&data.run.plan, &data.run.plan_toml)?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    let progress = (!arguments.quiet).then(|| {
        say::notes(&undone);
        announce(&plan);
        say::notes(&means.limits);
        Progress::new(plan.estimate(), arguments.verbose)
    });
    let number = AtomicI64::new(0);
    let observe = |event: Event| {
        if let Event::Run(run) = &event {
            number.store(run.id, Ordering::Relaxed);
        }
        if let Some(progress) = &progress {
            progress.tell(event);
        }
    };
    let options = Options {
        seed: arguments.seed.unwrap_or_else(fresh_seed),
        tester: means.tester,
        tester_limits: means.limits,
        stop: &stop,
        observe: &observe,
    };
    let result = match past {
        Some(data) => run::resume(&plan, data, &store, &options),
        None => run::run(&plan, &store, &options),
    };
    progress.iter().for_each(Progress::finish);
    let (id, interrupted) = match result {
        Ok(id) => (id, false),
        Err(RunError::Interrupted(id)) => (id, true),
        Err(error) => return Err(failed(error, number.into_inner())),
    };
    let data = store.run_data(id)?;
    // The report first: whoever reads the results may go away. If it cannot be written, there are still the results.
    let report = (!arguments.no_report)
        .then(|| write_report(std::slice::from_ref(&data), arguments.report.as_deref()))
        .transpose();
    if let (Ok(Some(path)), false) = (&report, arguments.quiet) {
        say::say(&format!("report: {}", path.display()));
    }
    if interrupted && !arguments.quiet {
        say::say(&format!("interrupted; `weir run --resume {id}` measures the rest"));
    }
    let text = if arguments.json { export::json(&data) + "\n" } else { export::show(&data) };
    out.write_all(text.as_bytes())?;
    report.with_context(|| format!("`weir report {id} -o FILE` writes the report elsewhere"))?;
    Ok(match (interrupted, is_believable(&data)) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Done,
        (false, false) => Outcome::NotAllValid,
    })
}

/// Refuses a report in a folder that is not there, or where it could not be written, before anything is measured.
fn check_folder(report: &Path) -> Result<()> {
    if report.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        // A pipe, or a device.
        return Ok(());
    }
    let folder = report.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let name = folder.display();
    ensure!(folder.is_dir(), "there is no folder {name} for the report: make it, or change --report");
    weir_disk::check_writable(folder).with_context(|| {
        format!(
            "no report can be written to the folder {name}: change --report, or leave it out with --no-report"
        )
    })
}

/// What ended run `id`, 0 if it had not begun, and what is left of it.
fn failed(error: RunError, id: i64) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    match id {
        0 => error,
        id => error.context(format!(
            "run {id} has failed; its finished trials are kept, `weir run --resume {id}` goes on"
        )),
    }
}

/// Writes one report of these runs and returns its path.
pub(crate) fn write_report(runs: &[RunData], path: Option<&Path>) -> Result<PathBuf> {
    let ids: Vec<String> = runs.iter().map(|data| data.run.id.to_string()).collect();
    let named = || PathBuf::from(format!("weir-{}-{}.html", runs[0].run.plan, ids.join("-")));
    let path = path.map_or_else(named, Path::to_path_buf);
    weir_disk::replace(&path, report::html(runs).as_bytes(), REPORT)
        .with_context(|| format!("cannot write the report to {}", path.display()))?;
    Ok(path)
}

fn announce(plan: &Plan) {
    let estimate = time::in_words(plan.estimate());
    let points = match plan.experiment.points() {
        // An experiment without a device under test.
        0 => String::new(),
        n => format!("{n} points, "),
    };
    let short = plan.short.map(|time| format!(" (--short: at most {})", time::in_words(time)));
    say::say(&format!(
        "plan {}: {points}at most {estimate} of trials{}",
        plan.name,
        short.unwrap_or_default()
    ));
}

/// A point without a single valid trial says nothing; trials that were repeated do not matter.
fn is_believable(data: &RunData) -> bool {
    data.points.iter().all(|point| {
        let mut trials = point.trials.iter().filter(|t| t.purpose != Purpose::WarmUp);
        point.trials.is_empty() || trials.any(|t| t.verdict == Verdict::Valid)
    })
}

/// Set by Ctrl-C, SIGTERM, or a terminal that closes. The second of the first two ends the process at once; SIGHUP comes
/// more than once by itself, from the shell of the terminal and from the kernel, and means the same each time.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        signal_hook::flag::register(signal, asked.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // By nohup: it goes on without its terminal.
    if !ignores(&status, SIGHUP) {
        signal_hook::flag::register(SIGHUP, stop.clone())?;
    }
    Ok(stop)
}

/// Whether a process of which the kernel says this was begun with a signal ignored.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Short enough to type again.
    since.map_or(1, |d| d.as_nanos() as u64 % 1_000_000_000)
}
