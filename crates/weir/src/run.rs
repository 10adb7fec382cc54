//! `weir run`: a plan from its text to its report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_lab::plan::{self, Plan};
use weir_lab::record::{Purpose, Verdict};
use weir_lab::run::{self, Options, RunError};
use weir_lab::run_data::RunData;
use weir_lab::{export, report};

use crate::progress::Progress;
use crate::{Outcome, clean, cli, privilege, records, time};

/// Runs the plan, writes its report, says where it is.
pub(crate) fn run(arguments: &cli::Run) -> Result<Outcome> {
    let plan = plan::load(&arguments.plan, &arguments.sets.sets)?;
    let means = privilege::obtain(cli::TesterKind::Auto)?;
    let stop = stop_flag()?;
    let store = records::open(&arguments.store)?;
    for line in clean::undo(&store)? {
        eprintln!("note: {line}");
    }
    announce(&plan);
    let progress = Progress::new(plan.estimate());
    for limit in &means.limits {
        eprintln!("note: {limit}");
    }
    let options = Options {
        seed: arguments.seed.unwrap_or_else(fresh_seed),
        tester: means.tester,
        tester_limits: means.limits,
        stop: &stop,
        observe: &|event| progress.tell(event),
    };
    let result = run::run(&plan, &store, &options);
    progress.finish();
    let (id, interrupted) = match result {
        Ok(id) => (id, false),
        Err(RunError::Interrupted(id)) => (id, true),
        Err(error) => return Err(error.into()),
    };
    let data = store.run_data(id)?;
    if arguments.json {
        println!("{}", export::json(&data));
    } else {
        print!("{}", export::show(&data));
    }
    if !arguments.no_report {
        let path = write_report(std::slice::from_ref(&data), arguments.report.as_deref())?;
        eprintln!("report: {}", path.display());
    }
    Ok(match (interrupted, all_valid(&data)) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Done,
        (false, false) => Outcome::NotAllValid,
    })
}

/// Writes one report of these runs and returns its path.
pub(crate) fn write_report(runs: &[RunData], path: Option<&Path>) -> Result<PathBuf> {
    let ids: Vec<String> = runs.iter().map(|data| data.run.id.to_string()).collect();
    let named = || PathBuf::from(format!("weir-{}-{}.html", runs[0].run.plan, ids.join("-")));
    let path = path.map_or_else(named, Path::to_path_buf);
    std::fs::write(&path, report::html(runs))
        .with_context(|| format!("cannot write the report to {}", path.display()))?;
    Ok(path)
}

fn announce(plan: &Plan) {
    let estimate = time::in_words(plan.estimate());
    let points = match plan.points().len() {
        // An experiment without a device under test.
        0 => String::new(),
        n => format!("{n} points, "),
    };
    eprintln!("plan {}: {points}at most {estimate} of trials", plan.name);
}

/// A point whose last word is not valid cannot be trusted; single trials that were repeated do not matter.
fn all_valid(data: &RunData) -> bool {
    let usable = |point: &weir_lab::run_data::PointData| {
        let mut trials = point.trials.iter().filter(|t| t.purpose != Purpose::WarmUp);
        point.trials.is_empty() || trials.any(|t| t.verdict == Verdict::Valid)
    };
    data.points.iter().all(usable)
}

/// Set by Ctrl-C or SIGTERM; the second one ends the process at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Short enough to type again.
    since.map_or(1, |d| d.as_nanos() as u64 % 1_000_000_000)
}
