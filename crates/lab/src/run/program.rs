//! A server or a client as a process: from its start, over what it says, to what it has used in all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_apps::sys::{self, Usage};
use weir_testbed::error::Error;
use weir_testbed::journal::{EntryId, Journal};

use super::tree;
use crate::run::RunError;

/// It must be ready, and must end, within this time.
const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// A process that runs.
pub(crate) struct Child {
    process: std::process::Child,
    entry: EntryId,
    said: PathBuf,
    /// What it had used when it was ready.
    before: Usage,
}

/// What became of it.
pub(crate) struct Ended {
    /// Since it was ready; of a client, since it was started.
    pub(crate) usage: Usage,
    /// All that it has said.
    pub(crate) said: String,
}

impl Child {
    /// Starts it on these CPUs, in the namespace of the calling thread, with which it ends; what it says goes to `said`.
    pub(crate) fn start(
        mut command: Command,
        cpus: &[usize],
        said: &Path,
        journal: &mut Journal,
    ) -> Result<Child, RunError> {
        let files = File::create(said).and_then(|file| Ok((file.try_clone()?, file)));
        let (one, other) = files.map_err(|error| failed("a file for what a program says", error))?;
        command.stdin(Stdio::null()).stdout(one).stderr(other);
        sys::place(&mut command, cpus);
        let (process, entry) = journal.spawn(&mut command)?;
        Ok(Child { process, entry, said: said.into(), before: Usage::default() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// From now on its cost counts: it is ready.
    pub(crate) fn is_ready(&mut self) {
        self.before = tree::usage(self.pid());
    }

    /// Looks until it has said a whole line that begins so, with `meanwhile` between two looks; the rest of the line, or why it
    /// did not come.
    pub(crate) fn await_line(
        &mut self,
        word: &str,
        patience: Duration,
        mut meanwhile: impl FnMut() -> bool,
    ) -> Result<String, String> {
        let deadline = Instant::now() + patience;
        loop {
            // In this order: what it says last is there when it has ended.
            let ended = self.has_ended();
            if let Some(line) = self.line(word) {
                return Ok(line);
            }
            if ended {
                return Err(self.last_words());
            }
            if Instant::now() > deadline || meanwhile() {
                return Err(format!("it did not say `{}` in time: {}", word.trim(), self.last_words()));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits for the word that says that it is ready.
    pub(crate) fn await_ready(&mut self, word: &str) -> Result<String, String> {
        let line = self.await_line(word, PATIENCE, || false)?;
        self.is_ready();
        Ok(line)
    }

    /// What its processes and threads that live have used since it was ready.
    pub(crate) fn usage(&self) -> Usage {
        tree::usage(self.pid()).since(self.before)
    }

    fn line(&self, word: &str) -> Option<String> {
        let said = self.said();
        let mut lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.find_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_string())
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).unwrap_or_default()).into_owned()
    }

    /// Its last line that says anything.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(|| "it said nothing".into(), |line| line.chars().take(200).collect())
    }

    /// It has ended, and nobody has asked how yet.
    pub(crate) fn has_ended(&self) -> bool {
        tree::is_zombie(self.pid())
    }

    pub(crate) fn signal(&self, signal: i32) {
        sys::signal(&self.process, signal);
    }

    /// Waits until it has ended by itself, or after this signal.
    pub(crate) fn end(
        self,
        signal: Option<i32>,
        journal: &mut Journal,
    ) -> Result<Result<Ended, String>, RunError> {
        let early = self.has_ended() && signal.is_some();
        signal.iter().for_each(|&signal| self.signal(signal));
        let ended =
            sys::wait_for(&self.process, PATIENCE).map_err(|error| failed("wait for a program", error))?;
        let result = match ended {
            None => Err(format!("it did not end within {} s: {}", PATIENCE.as_secs(), self.last_words())),
            Some(_) if early => Err(format!("it ended too early: {}", self.last_words())),
            Some((_, usage)) => Ok(Ended { usage: usage.since(self.before), said: self.said() }),
        };
        if result.is_err() && ended.is_none() {
            self.signal(libc::SIGKILL);
            let _ = sys::wait_for(&self.process, PATIENCE);
        }
        journal.undo(self.entry)?;
        Ok(result)
    }
}

pub(crate) fn failed(what: &str, source: io::Error) -> RunError {
    RunError::Testbed(Error::Os { what: what.into(), source })
}
