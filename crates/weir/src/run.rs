//! `weir run`: a plan from its text to its report.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_agent::hosts::{Host, Hosts};
use weir_config::plain;
use weir_lab::engine;
use weir_lab::error::RunError;
use weir_lab::plan::Plan;
use weir_lab::run::{Event, Options};
use weir_load::TesterKind;
use weir_record::record::{Machine, Point, Run};
use weir_record::run_data::RunData;
use weir_record::store::{Archive, RunLog};
use weir_report::export;
use weir_report::trend::{self, Filter};
use weir_rigs::PLANS;

use crate::hosts::measure::Fleet;
use crate::hosts::worker::Order;
use crate::outcome::Outcome;
use crate::place::Place;
use crate::progress::Progress;
use crate::{archive, clean, cli, compare, hosts, privilege, records};
use weir_service::{say, signals, time};

mod repeat;

/// Runs the plan and writes its report; or repeats a plan.
pub(crate) fn run(arguments: &cli::Run, out: &mut impl Write) -> Result<Outcome> {
    match arguments.repeated() {
        Some(plan) => repeat::run(arguments, plan, out),
        None => Ok(once(arguments, out)?.1),
    }
}

/// Runs one plan, or two alternately; returns the run, if it is one, and the outcome.
fn once(arguments: &cli::Run, out: &mut impl Write) -> Result<(Option<RunData>, Outcome)> {
    // Wrong plans are reported first.
    let hosts = arguments.on.as_deref().map(hosts::measure::read).transpose()?;
    let changes = match &hosts {
        Some(hosts) => hosts::measure::changes(arguments, hosts)?,
        None => arguments.changes(),
    };
    let plans = arguments.plans.iter().map(|name| changes.load(name)).collect::<Result<Vec<_>, _>>()?;
    let place = Place::of(arguments.report.as_deref(), &arguments.store)?;
    if !arguments.no_report {
        place.check()?;
    }
    let session = Session::open(arguments, &plans, hosts.as_ref())?;
    if let [a, b] = &plans[..] {
        return Ok((None, session.side_by_side([a, b], &place, out)?));
    }
    let archive = session.log.archive();
    let resumed = arguments.resume.map(|run| records::find_whole(archive, run)).transpose()?;
    let plan = match (plans.into_iter().next(), &resumed) {
        (Some(plan), _) => plan,
        (None, Some(data)) => PLANS.reload(&data.run.plan, &data.run.plan_toml)?,
        (None, None) => unreachable!("clap requires one of them"),
    };
    // A missing baseline is reported before the run begins.
    let against = arguments.against.as_ref();
    let base = against.map(|side| compare::baseline(side, archive, &plan.name)).transpose()?;
    let workers = hosts.as_ref().and_then(Fleet::of);
    if let (Some(workers), true) = (&workers, arguments.each) {
        return Ok((None, session.each(&plan, workers.clone(), out)?));
    }
    let (data, interrupted) = match workers {
        Some(workers) => session.shards(&plan, workers)?,
        None => session.measure(&plan, resumed)?,
    };
    let id = data.run.id;
    // The report first: the reader of standard output may go away. If the report cannot be written, the results are still
    // printed.
    let report = (!arguments.no_report).then(|| place.write(std::slice::from_ref(&data))).transpose();
    let text = match (arguments.json, arguments.verbose) {
        (true, _) => export::json(&data) + "\n",
        (false, true) => {
            plain(&export::show(&data, weir_rigs::sections())).into_owned() + "\n" + &answer(&data)
        }
        (false, false) => answer(&data),
    };
    let mut written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    let mut differs = false;
    if let Some(base) = base.filter(|_| !interrupted) {
        let compared = compare::with_baseline(&base, &data, against);
        differs = compare::fails(&compared, &arguments.fail_on);
        let text = format!("\n{}", compare::shown(&compared));
        if arguments.json {
            say::say(&text)
        } else {
            written = written.and_then(|()| out.write_all(text.as_bytes()))
        }
    }
    if !arguments.quiet {
        if interrupted {
            say::say(&format!("interrupted; continue with `weir run --resume {id}`"));
        }
        if let Ok(Some(path)) = &report {
            say::say(&format!("report: {}", path.display()));
        }
    }
    written?;
    report.with_context(|| {
        format!("the results are recorded; `weir report {id} -o FILE` writes the report to another file")
    })?;
    let outcome = match (interrupted, data.is_believable()) {
        (true, _) => Outcome::Interrupted,
        (false, false) => Outcome::NotAllValid,
        (false, true) if differs => Outcome::Differs,
        (false, true) => Outcome::Done,
    };
    Ok((Some(data), outcome))
}

/// State that all runs of a command share.
struct Session<'a> {
    arguments: &'a cli::Run,
    means: privilege::Means,
    stop: Arc<AtomicBool>,
    log: RunLog,
}

impl Session<'_> {
    fn open<'a>(arguments: &'a cli::Run, plans: &[Plan], hosts: Option<&Hosts>) -> Result<Session<'a>> {
        let is_simulated =
            !plans.is_empty() && plans.iter().all(|plan| plan.experiment.without_frames().is_some());
        let is_elsewhere = hosts.is_some_and(|hosts| Fleet::of(hosts).is_some());
        let means = if is_simulated || is_elsewhere {
            privilege::Means::none()
        } else {
            privilege::obtain(arguments.tester)?
        };
        let stop = stop_flag()?;
        let log = records::open(&arguments.store)?;
        let undone = clean::undo(&log)?;
        if !arguments.quiet {
            say::notes(&undone);
            say::notes(&means.limits);
        }
        Ok(Session { arguments, means, stop, log })
    }

    /// Runs or continues a plan; returns whether it was interrupted.
    fn measure(&self, plan: &Plan, resumed: Option<RunData>) -> Result<(RunData, bool)> {
        let progress = (!self.arguments.quiet).then(|| {
            announce(plan);
            Progress::new(plan.estimate(), &plan.settings(), self.arguments.verbose)
        });
        let begun = OnceLock::new();
        let observe = |event: Event| {
            if let Event::Run(run) = &event {
                begun.get_or_init(|| (*run).clone());
            }
            if let Some(progress) = &progress {
                progress.on_event(event);
            }
        };
        let options = Options {
            seed: self.arguments.seed.unwrap_or_else(fresh_seed),
            tester: self.means.tester,
            tester_limits: self.means.limits.clone(),
            stop: &self.stop,
            observe: &observe,
        };
        let result = match resumed {
            Some(data) => engine::resume(plan, data, &self.log, &options),
            None => engine::run(plan, &self.log, &options),
        };
        progress.iter().for_each(Progress::finish);
        self.push()?;
        let archive = self.log.archive();
        let interrupted = match result {
            Ok(_) => false,
            Err(RunError::Interrupted(_)) => true,
            Err(error) => return Err(failed(error, begun.get(), archive)),
        };
        let run = begun.get().expect("it was reported when it began");
        Ok((archive.run_data(run.uuid)?, interrupted))
    }

    /// Pushes the runs of this machine, if the user wants that.
    fn push(&self) -> Result<()> {
        match &self.arguments.push {
            Some(address) => archive::push_after_run(address, &self.arguments.store),
            None => Ok(()),
        }
    }

    /// Measures a plan in shards on other hosts; returns the whole run, or whether it was interrupted.
    fn shards(&self, plan: &Plan, workers: Vec<&Host>) -> Result<(RunData, bool)> {
        let of = self.arguments.shards.map_or(workers.len(), usize::from).max(workers.len());
        let shard = |text: &str| Ok(if of == 1 { plan.clone() } else { self.arguments.shard(text)? });
        let result = self.fleet(plan, workers).shards(of, shard, &self.log);
        self.push()?;
        result
    }

    /// Measures a plan on each of the hosts.
    fn each(&self, plan: &Plan, workers: Vec<&Host>, out: &mut impl Write) -> Result<Outcome> {
        let result = self.fleet(plan, workers).each(plan, &self.log);
        self.push()?;
        let (runs, failures) = result?;
        for data in &runs {
            let Machine { kernel, cpu, .. } = &data.run.machine;
            write!(out, "run {}: Linux {kernel}, {cpu}\n{}\n", data.run.id, answer(data))?;
        }
        let of_points = |data: &RunData| data.points.iter().map(|data| data.point.clone()).collect();
        let points: Vec<(Run, Vec<Point>)> =
            runs.iter().map(|data| (data.run.clone(), of_points(data))).collect();
        if let Some(kernels) =
            trend::kernels(&plan.name, &points, &Filter::default()).filter(|k| k.kernels.len() > 1)
        {
            write!(out, "{}", plain(&kernels.text()))?;
        }
        out.flush()?;
        let interrupted = self.stop.load(Ordering::Relaxed);
        Ok(match (interrupted, failures.is_empty() && runs.iter().all(RunData::is_believable)) {
            (true, _) => Outcome::Interrupted,
            (false, true) => Outcome::Done,
            (false, false) => Outcome::NotAllValid,
        })
    }

    fn fleet<'b>(&'b self, plan: &Plan, workers: Vec<&'b Host>) -> Fleet<'b> {
        let cli::Run { quiet, verbose, tester, seed, each, .. } = *self.arguments;
        let tester = match tester {
            cli::TesterKind::Auto => None,
            cli::TesterKind::Xdp => Some(TesterKind::Xdp),
            cli::TesterKind::Packet => Some(TesterKind::Packet),
        };
        let seed = seed.unwrap_or_else(fresh_seed);
        let order = Order { name: plan.name.clone(), plan: String::new(), seed, tester };
        let named = self.arguments.plans.first().map(|plan| plan.display().to_string()).unwrap_or_default();
        Fleet { workers, named, order, stop: &self.stop, is_shared: !each, quiet, verbose }
    }

    /// Runs two plans alternately, with alternating order, and compares the second with the first.
    fn side_by_side(&self, plans: [&Plan; 2], place: &Place, out: &mut impl Write) -> Result<Outcome> {
        let times = self.arguments.times;
        if !self.arguments.quiet {
            let longest = plans.map(Plan::estimate).iter().sum::<Duration>() * times;
            say::say(&format!(
                "{} and {} alternately, {times} times each: at most {} of trials",
                plans[0].name,
                plans[1].name,
                time::in_words(longest)
            ));
        }
        let mut runs: [Vec<RunData>; 2] = Default::default();
        for round in 0..times as usize {
            for side in [round % 2, 1 - round % 2] {
                let (data, interrupted) = self.measure(plans[side], None)?;
                if interrupted {
                    say::say("interrupted: compare the complete runs with `weir compare`");
                    return Ok(Outcome::Interrupted);
                }
                runs[side].push(data);
            }
        }
        let believable = runs.iter().flatten().all(RunData::is_believable);
        let merged = runs.map(|runs| weir_record::merged(&runs).expect("at least one of each"));
        let compared = compare::sides_of(&merged);
        let text = if self.arguments.json {
            serde_json::to_string_pretty(&compared)? + "\n"
        } else {
            compare::shown(&compared)
        };
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if !self.arguments.no_report {
            let path = place.write(&merged)?;
            say::say(&format!("report: {}", path.display()));
        }
        written?;
        Ok(match (believable, compare::fails(&compared, &self.arguments.fail_on)) {
            (false, _) => Outcome::NotAllValid,
            (true, true) => Outcome::Differs,
            (true, false) => Outcome::Done,
        })
    }
}

/// The error of a run, and, if it had begun, the state of its record.
fn failed(error: RunError, run: Option<&Run>, archive: &dyn Archive) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let Some(Run { id, uuid, .. }) = run else { return error };
    let trials = |data: RunData| data.points.iter().map(|point| point.trials.len()).sum::<usize>();
    if archive.run_data(*uuid).is_ok_and(|data| trials(data) == 0) {
        return error.context(format!("run {id} failed before its first trial"));
    }
    error.context(format!(
        "run {id} failed; its finished trials are kept: remove the cause, then continue with `weir run --resume {id}`"
    ))
}

fn answer(data: &RunData) -> String {
    plain(&export::answer(data, weir_rigs::sections(), say::columns())).into_owned()
}

fn announce(plan: &Plan) {
    let estimate = time::in_words(plan.estimate());
    let points = match plan.points() {
        // An experiment without a device under test.
        0 => String::new(),
        n => format!("{n} points, "),
    };
    let short = plan.short.map(|time| format!(" (--short: at most {})", time::in_words(time)));
    say::say(&format!(
        "plan {}: {points}at most {estimate} of trials, and more if some have to be repeated{}",
        plan.name,
        short.unwrap_or_default()
    ));
}

/// Set by Ctrl-C, SIGTERM, or a terminal that closes. The second of the first two ends the process at once. A closing terminal
/// causes more than one SIGHUP, from its shell and from the kernel, so a second one does not end the process.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = signals::stop_at(&[SIGINT, SIGTERM])?;
    // Under nohup the program continues without its terminal.
    if !signals::ignores(SIGHUP) {
        signal_hook::flag::register(SIGHUP, stop.clone())?;
    }
    Ok(stop)
}

/// A seed from the clock.
pub(crate) fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // Short enough to type again.
    since.map_or(1, |d| d.as_nanos() as u64 % 1_000_000_000)
}
