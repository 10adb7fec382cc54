//! The program `weir`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use weir_lab::plan;

mod cli;
mod docs;
mod time;

use cli::{Cli, Command, PlanCommand};

/// Exit code of an error; see [`cli`] for the others.
const ERROR: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}

fn run(command: Command) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match command {
        Command::Plan(PlanCommand::Check { plan, sets }) => check_plan(&plan, &sets.sets, &mut out),
        Command::Plan(PlanCommand::List) => list_plans(&mut out),
        Command::Plan(PlanCommand::Show { name }) => show_plan(&name, &mut out),
        Command::Completions { shell } => {
            docs::completions(shell, &mut out);
            Ok(())
        }
        Command::Man { output: None } => docs::man_page(&mut out).context("cannot write the man page"),
        Command::Man { output: Some(folder) } => docs::man_pages(&folder)
            .with_context(|| format!("cannot write man pages to {}", folder.display())),
        _ => bail!("this command is not there yet"),
    }
}

fn check_plan(name: &str, sets: &[String], out: &mut impl Write) -> Result<()> {
    let plan = plan::load(name, sets)?;
    let (points, time) = (plan.points().len(), time::in_words(plan.estimate()));
    Ok(writeln!(out, "{name} is valid: {points} points, at most {time} of trials")?)
}

fn list_plans(out: &mut impl Write) -> Result<()> {
    for (name, _) in plan::shipped() {
        writeln!(out, "{name:16} {}", plan::load(name, &[])?.question)?;
    }
    Ok(())
}

fn show_plan(name: &str, out: &mut impl Write) -> Result<()> {
    Ok(out.write_all(plan::load(name, &[])?.text.as_bytes())?)
}
