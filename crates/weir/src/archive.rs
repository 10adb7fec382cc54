//! Archives in PostgreSQL: the program weir-archive pushes runs to them, and answers what the commands ask of them.

use std::ffi::OsString;
use std::io::BufReader;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use weir_record::store::{Archive, PipedArchive};

use crate::cli::{ArchiveCommand, Push, RunName, Serve, Store};
use crate::outcome::Outcome;
use crate::sister::{self, become_program};
use weir_service::say;

const NAME: &str = "weir-archive";
/// What is read of its answers at once, bytes: a list of an archive has many megabytes.
const PIPE_BYTES: usize = 64 << 10;

pub(crate) fn push(arguments: &Push) -> Result<Outcome> {
    let mut words: Vec<OsString> = vec!["push".into(), "--to".into(), arguments.to.clone().into()];
    words.extend(["--store".into(), arguments.store.path()?.into()]);
    if arguments.all {
        words.push("--all".into());
    }
    match &*arguments.runs {
        [RunName::Last] => {}
        runs => words.extend(runs.iter().map(number).collect::<Result<Vec<_>>>()?),
    }
    become_program(NAME, &words)
}

/// Pushes all runs of the log that are not in the archive yet. The log keeps those that cannot be pushed now.
pub(crate) fn push_after_run(address: &str, store: &Store) -> Result<()> {
    let mut command = Command::new(sister::path(NAME)?);
    command.args(["push", "--all", "--to", address, "--store"]).arg(store.path()?);
    let pushed = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {NAME}"))?;
    if !pushed.status.success() {
        let said = String::from_utf8_lossy(&pushed.stderr);
        say::say(said.trim_end());
        say::notes(&[
            "the run is recorded here; it is pushed after the next run, or by `weir push --all`".into()
        ]);
    }
    Ok(())
}

fn number(run: &RunName) -> Result<OsString> {
    match run {
        RunName::Number(number) => Ok(number.to_string().into()),
        RunName::Last => bail!("`last` stands alone: give the numbers of several runs, see `weir list`"),
    }
}

pub(crate) fn serve(arguments: &Serve) -> Result<Outcome> {
    let mut words: Vec<OsString> = vec!["serve".into(), "--from".into(), arguments.from.clone().into()];
    words.extend(["--listen".into(), arguments.listen.to_string().into()]);
    words.extend(arguments.tokens.iter().flat_map(|path| ["--tokens".into(), path.into()]));
    become_program(NAME, &words)
}

pub(crate) fn run(command: &ArchiveCommand) -> Result<Outcome> {
    let mut words: Vec<OsString> = Vec::new();
    match command {
        ArchiveCommand::Setup { at, writer, reader } => {
            words.extend(["setup".into(), "--at".into(), at.into()]);
            words.extend(writer.iter().flat_map(|role| ["--writer".into(), role.into()]));
            words.extend(reader.iter().flat_map(|role| ["--reader".into(), role.into()]));
        }
        ArchiveCommand::Prune { at, keep_days, plan, delete } => {
            words.extend(["prune".into(), "--at".into(), at.into()]);
            words.extend(["--keep-days".into(), keep_days.to_string().into()]);
            words.extend(plan.iter().flat_map(|plan| ["--plan".into(), plan.into()]));
            words.extend(delete.then(|| "--delete".into()));
        }
    }
    become_program(NAME, &words)
}

/// An archive to read, by a process that ends when it is not asked any more.
pub(crate) fn open(address: &str) -> Result<Box<dyn Archive>> {
    let mut command = Command::new(sister::path(NAME)?);
    command.args(["answer", "--from", address]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {NAME}"))?;
    let (Some(questions), Some(answers)) = (child.stdin, child.stdout) else { bail!("{NAME} has no pipes") };
    Ok(Box::new(PipedArchive::over(
        Box::new(questions),
        Box::new(BufReader::with_capacity(PIPE_BYTES, answers)),
    )))
}
