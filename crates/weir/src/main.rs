//! The program `weir`.
//!
//! Files:
//! - `cli/`: one file for each group of commands; `cli/host.rs` reads host names and scoped addresses
//! - `run.rs`: runs and compares plans; `hosts/`: on other hosts; `place.rs`: where reports are written; `records.rs`, `compare.rs`: reads records
//! - `agent.rs`: what this program does as the agent of another host
//! - `archive.rs`: archives in PostgreSQL; `sister.rs`: programs beside this one
//! - `doctor.rs`, `doctor/load.rs`: what this machine can measure; what it does under load
//! - `bng.rs`, `node.rs`, `detect.rs`, `capture.rs`, `bottleneck.rs`, `cpe.rs`, `flows.rs`, `mail.rs`, `inspect.rs`: one file for each service or
//!   tool
//! - `privilege.rs`: what this process may do; signals, metrics and systemd are in `weir-service`

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use weir_config::plain;
use weir_rigs::PLANS;
use weir_service::{say, time};

mod agent;
mod archive;
mod bench;
mod bng;
mod bottleneck;
mod capture;
mod check;
mod clean;
mod cli;
mod compare;
mod conformance;
mod cpe;
mod detect;
mod docs;
mod doctor;
mod flows;
mod generate;
mod hosts;
mod inspect;
mod interface;
mod live;
mod mail;
mod node;
mod outcome;
mod place;
mod privilege;
mod progress;
mod receive;
mod records;
mod run;
mod setup;
mod sister;
mod stdout;

use cli::{Cli, Command, PlanCommand, Sets};
use outcome::{Outcome, with_causes};

/// The exit codes are documented in the help text of [`cli`].
fn main() -> ExitCode {
    if let Err(error) = survive_file_limits() {
        say::say(&format!("weir: {error}"));
        return ExitCode::from(1);
    }
    let own_process = weir_apps::command::run_if_asked()
        .or_else(weir_mail::command::run_if_asked)
        .or_else(weir_node::offload::guard_if_asked);
    if let Some(code) = own_process {
        return code;
    }
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match run(cli.command) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::NotAllValid) => ExitCode::from(3),
        Ok(Outcome::Differs) => ExitCode::from(4),
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Ok(Outcome::Unfit) => ExitCode::from(1),
        // `weir list | head`: the reader closed the pipe.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            weir_service::log::end_with_error(&format!("weir: {}", with_causes(&error)));
            ExitCode::from(1)
        }
    }
}

/// Makes writes beyond a file size limit (`ulimit -f`) fail as on a full disk; by default SIGXFSZ ends the process without
/// accounting. A handler and not `SIG_IGN`: child processes keep the default action.
fn survive_file_limits() -> Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Default::default())
        .context("cannot set a handler for SIGXFSZ")?;
    Ok(())
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn run(command: Command) -> Result<Outcome> {
    if let Command::Agent { role } = command {
        // Several of its threads write to standard output, so it is not locked.
        return agent::serve(role);
    }
    let mut out = stdout::Output::new();
    let outcome = by(command, &mut out)?;
    // Writes a last line without a line end.
    out.flush()?;
    Ok(outcome)
}

fn by(command: Command, mut out: &mut stdout::Output) -> Result<Outcome> {
    match command {
        Command::Run(arguments) => return run::run(&arguments, &mut out),
        Command::Generate(arguments) => return generate::send(&arguments, &mut out),
        Command::Receive(arguments) => return receive::count(&arguments, &mut out),
        Command::Cpe(arguments) => return cpe::emulate(&arguments, &mut out),
        Command::Detect(arguments) => return detect::run(&arguments, &mut out),
        Command::Capture(arguments) => return capture::capture(&arguments, &mut out),
        Command::Pps(arguments) => return capture::pps(&arguments, &mut out),
        Command::Bottleneck(arguments) => return bottleneck::run_one(&arguments, &mut out),
        Command::Flows(arguments) => return flows::run_one(&arguments, &mut out),
        Command::Mail(arguments) => return mail::run_one(&arguments, &mut out),
        Command::Push(arguments) => return archive::push(&arguments),
        Command::Serve(arguments) => return archive::serve(&arguments),
        Command::Archive(command) => return archive::run(&command),
        Command::Compare(arguments) => return compare::run(&arguments, &mut out),
        Command::Conformance(arguments) => return conformance::run(&arguments, &mut out),
        Command::Node(command) => return node::run(&command, &mut out),
        Command::Bng(command) => return bng::run(&command, &mut out),
        Command::Doctor(arguments) => return doctor::run(&arguments, &mut out),
        Command::Inspect(arguments) => return inspect::run(&arguments, &mut out),
        Command::Setup(arguments) => setup::print(&arguments, &mut out),
        Command::Bench(bench) => bench::run(&bench, &mut out),
        Command::Check(arguments) => return check::run(&arguments, &mut out),
        Command::Agent { .. } => unreachable!("see above"),
        Command::Clean(store) => clean::run(&store, &mut out),
        Command::List(arguments) => records::list(&arguments, &mut out),
        Command::Show(arguments) => records::show(&arguments, &mut out),
        Command::Export(arguments) => records::export(&arguments, &mut out),
        Command::Trend(arguments) => records::trend(&arguments, &mut out),
        Command::Merge(arguments) => records::merge(&arguments, &mut out),
        Command::Report(arguments) => records::report(&arguments, &mut out),
        Command::Plan(PlanCommand::Check { plan, sets }) => check_plan(&plan, &sets, &mut out),
        Command::Plan(PlanCommand::List) => list_plans(&mut out),
        Command::Plan(PlanCommand::Show { name }) => show_plan(&name, &mut out),
        Command::Plan(PlanCommand::Options) => Ok(out.write_all(PLANS.options().as_bytes())?),
        Command::Completions { shell } => Ok(out.write_all(&docs::completions(shell))?),
        Command::Man { output: None } => Ok(docs::man_page(&mut out)?),
        Command::Man { output: Some(folder) } => docs::man_pages(&folder)
            .with_context(|| format!("cannot write man pages to {}", folder.display())),
    }?;
    Ok(Outcome::Done)
}

fn check_plan(name: &OsStr, sets: &Sets, out: &mut impl Write) -> Result<()> {
    let plan = sets.load(name)?;
    let points = match plan.points() {
        0 => String::new(),
        n => format!("{n} points, "),
    };
    Ok(writeln!(
        out,
        "{} is valid: {points}at most {} of trials",
        name.display(),
        time::in_words(plan.estimate())
    )?)
}

fn list_plans(out: &mut impl Write) -> Result<()> {
    for (name, _) in PLANS.shipped() {
        let plan = PLANS.load(name, &[])?;
        writeln!(out, "{name:16} {}", plan.question)?;
        let short = plan.short.map(|time| format!("; --short: at most {}", time::in_words(time)));
        let (estimate, short) = (time::in_words(plan.estimate()), short.unwrap_or_default());
        writeln!(out, "{:16} at most {estimate} of trials{short}", "")?;
    }
    Ok(())
}

fn show_plan(name: &OsStr, out: &mut impl Write) -> Result<()> {
    Ok(out.write_all(plain(&PLANS.load(name, &[])?.text).as_bytes())?)
}
