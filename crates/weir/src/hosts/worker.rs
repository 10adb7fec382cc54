//! A worker: runs a plan or a shard as a separate process, and sends its record point by point, so that no line is longer than
//! a point. The files of the run are removed afterwards: the records are kept where the run was asked for.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weir_agent::serve::{Requests, note, say};
use weir_lab::machine;
use weir_lab::run::folder::Folder;
use weir_linux::process::dying_with_parent;
use weir_load::TesterKind;
use weir_record::record::Run;
use weir_record::run_data::RunData;
use weir_record::store::{Archive, SqliteArchive};

use crate::outcome::with_causes;

/// Time between two looks at whether a run has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Lines of a run that failed which say why.
const LAST_LINES: usize = 4;

/// What a worker is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Run a plan. Replies with [`Measured`] when it has ended.
    Run(Order),
    /// Replies with a point of the run, by its place.
    Point(usize),
}

/// A plan, and how to run it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Its name.
    pub(crate) name: String,
    /// Its text with all changes.
    pub(crate) plan: String,
    pub(crate) seed: u64,
    /// `None`: the best that the host allows.
    pub(crate) tester: Option<TesterKind>,
}

/// A run that has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Its state says how it ended.
    pub(crate) run: Run,
    /// How many points it has.
    pub(crate) points: usize,
}

/// Serves until the other host ends the connection.
pub(crate) fn serve() {
    let requests = Requests::open(machine::gather());
    let stop = requests.stop().clone();
    let mut measured: Option<RunData> = None;
    for request in requests {
        match request {
            Request::Run(order) => match run(&order, &stop) {
                Ok(data) => {
                    say(Ok(Measured { run: data.run.clone(), points: data.points.len() }));
                    measured = Some(data);
                }
                Err(error) => say::<Measured>(Err(with_causes(&error))),
            },
            Request::Point(index) => {
                let point = measured.as_ref().and_then(|data| data.points.get(index));
                say(point.ok_or_else(|| format!("the run has no point {index}")));
            }
        }
    }
}

/// Runs a plan to its end, or until the other host stops it.
fn run(order: &Order, stop: &AtomicBool) -> Result<RunData> {
    let folder = Folder::new(&std::env::temp_dir()).context("cannot create a folder for the run")?;
    // The name of a plan is that of its file.
    let is_name = !order.name.is_empty() && !order.name.contains(['/', '\0']) && !order.name.starts_with('.');
    if !is_name {
        bail!("`{}` is no name of a plan", order.name.escape_debug());
    }
    let plan = folder.path().join(format!("{}.toml", order.name));
    fs::write(&plan, &order.plan).with_context(|| format!("cannot write {}", plan.display()))?;
    let store = folder.path().join("records.db");
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("run").arg(&plan).arg("--store").arg(&store);
    command.args(["--seed", &order.seed.to_string(), "--verbose", "--no-report"]);
    command.args(order.tester.iter().flat_map(|tester| {
        let name = match tester {
            TesterKind::Xdp => "xdp",
            TesterKind::Packet => "packet",
        };
        ["--tester", name]
    }));
    command.env_remove("WEIR_PUSH_TO").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = dying_with_parent(&mut command).spawn().context("cannot start the run")?;
    let said = child.stderr.take().map(|stderr| thread::spawn(move || pass_on(stderr)));
    let status = ended(&mut child, stop)?;
    let said = said.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let archive = SqliteArchive::open_to_read(&store).ok();
    let recorded = archive.and_then(|archive| archive.run_data(archive.newest().ok()??).ok());
    recorded.with_context(|| format!("the run left no record ({status}): {said}"))
}

/// Reports each line of the run; returns the last ones.
fn pass_on(stderr: impl Read) -> String {
    let mut last: Vec<String> = Vec::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        last.push(line.clone());
        last.drain(..last.len().saturating_sub(LAST_LINES));
        note(line);
    }
    last.join("; ")
}

/// Waits for the end of the run, and interrupts it when the other host wants that.
fn ended(child: &mut Child, stop: &AtomicBool) -> Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the run")? {
            return Ok(status);
        }
        if stop.swap(false, Ordering::Relaxed) {
            // SAFETY: no pointers; the child was not waited for, so that its number is its own.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        }
        thread::sleep(LOOK);
    }
}
