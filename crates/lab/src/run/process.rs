//! A child process, another program or weir itself as a server, a client or a watcher: its start, its output, and the CPU time
//! that it used.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_apps::sys::{self, Usage};
use weir_linux::Error;
use weir_testbed::journal::{EntryId, Journal};

use super::tree::{self, ProgramTime};
use crate::error::RunError;

/// Time limit to become ready, and to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a process is looked at.
pub const LOOK: Duration = Duration::from_millis(5);
/// A process that uses a smaller share of a CPU is waiting.
const IDLE: f64 = 0.02;

/// It runs.
pub struct Process {
    child: Child,
    entry: EntryId,
    said: PathBuf,
    /// What it had used when it was ready.
    before: Usage,
}

/// The outcome of a process that has ended.
pub struct Ended {
    /// Since it was ready; of one that never said so, since it was started.
    pub usage: Usage,
    /// All that it has said.
    pub said: String,
}

/// A trial gave nothing: the run cannot go on, or this program cannot.
pub enum Failed {
    /// The run cannot go on.
    Run(RunError),
    /// This program cannot: why.
    Program(String),
}

impl<E: Into<RunError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed::Run(error.into())
    }
}

impl Process {
    /// Starts it on these CPUs, in the namespace of the calling thread, with which it ends; what it says goes to the file `said`.
    pub fn start(
        command: &mut Command,
        cpus: &[usize],
        said: &Path,
        journal: &mut Journal,
    ) -> Result<Process, RunError> {
        let files = File::create(said).and_then(|file| Ok((file.try_clone()?, file)));
        let (one, other) = files.map_err(|error| failed("a file for what a program says", error))?;
        command.stdin(Stdio::null()).stdout(one).stderr(other);
        sys::place(command, cpus);
        let (child, entry) = journal.spawn(command)?;
        Ok(Process { child, entry, said: said.into(), before: Usage::default() })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From now on its cost counts: it is ready.
    pub fn is_ready(&mut self) {
        self.before = tree::usage(self.pid());
    }

    /// Looks at what it has said until that has what is looked for, with `meanwhile` between two looks, which may give up; what
    /// it said instead if it never does.
    fn await_said<T>(
        &self,
        patience: Duration,
        find: impl Fn(&str) -> Option<T>,
        mut meanwhile: impl FnMut() -> bool,
    ) -> Result<T, String> {
        let deadline = Instant::now() + patience;
        loop {
            // In this order: what it says last is there when it has ended.
            let ended = self.has_ended();
            if let Some(found) = find(&self.said()) {
                return Ok(found);
            }
            if ended {
                return Err(format!("it ended: {}", self.last_words()));
            }
            if Instant::now() > deadline || meanwhile() {
                return Err(format!("it was not ready in time: {}", self.last_words()));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until it has said these words.
    pub fn await_words(&self, words: &str) -> Result<(), String> {
        self.await_said(PATIENCE, |said| said.contains(words).then_some(()), || false)
    }

    /// Waits for a whole line that begins so; the rest of the line.
    pub fn await_line(
        &self,
        word: &str,
        patience: Duration,
        meanwhile: impl FnMut() -> bool,
    ) -> Result<String, String> {
        let line = |said: &str| {
            let mut lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            lines.find_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_string())
        };
        self.await_said(patience, line, meanwhile)
    }

    /// Waits for the line that says that it is ready.
    pub fn await_ready(&mut self, word: &str) -> Result<String, String> {
        let line = self.await_line(word, PATIENCE, || false)?;
        self.is_ready();
        Ok(line)
    }

    /// Waits until it has done nothing for `quiet`: no frame is left but those that the kernel still holds back. Returns
    /// how long it was at work.
    pub fn await_quiet(&self, quiet: Duration, stopped: impl Fn() -> bool) -> Duration {
        let begin = Instant::now();
        let deadline = begin + PATIENCE;
        let mut since = (begin, self.time().run_ns);
        while since.0.elapsed() < quiet && Instant::now() < deadline && !stopped() && !self.has_ended() {
            thread::sleep(LOOK);
            let used = self.time().run_ns.saturating_sub(since.1);
            if used as f64 > IDLE * quiet.as_nanos() as f64 {
                since = (Instant::now(), self.time().run_ns);
            }
        }
        since.0 - begin
    }

    /// What its processes and threads that live have used since it was ready.
    pub fn usage(&self) -> Usage {
        tree::usage(self.pid()).since(self.before)
    }

    /// CPU time of all its threads and children so far.
    pub fn time(&self) -> ProgramTime {
        tree::time(self.pid())
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).unwrap_or_default()).into_owned()
    }

    /// Its last line that says anything.
    pub fn last_words(&self) -> String {
        let said = self.said();
        let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(|| "it printed nothing".into(), |line| line.chars().take(200).collect())
    }

    /// Whether it has ended, and its status has not been read yet.
    pub fn has_ended(&self) -> bool {
        tree::is_zombie(self.pid())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        sys::signal(&self.child, signal);
    }

    /// Waits until it has ended by itself, or after this signal; one that does not is killed.
    pub fn end(self, signal: Option<i32>, journal: &mut Journal) -> Result<Result<Ended, String>, RunError> {
        let early = self.has_ended() && signal.is_some();
        signal.iter().for_each(|&signal| self.signal(signal));
        let ended =
            sys::wait_for(&self.child, PATIENCE).map_err(|error| failed("wait for a program", error))?;
        let result = match ended {
            None => Err(format!("it did not end within {} s: {}", PATIENCE.as_secs(), self.last_words())),
            Some((status, _)) if early => Err(self.ended_early(status)),
            Some((_, usage)) => Ok(Ended { usage: usage.since(self.before), said: self.said() }),
        };
        if ended.is_none() {
            self.signal(libc::SIGKILL);
            let _ = sys::wait_for(&self.child, PATIENCE);
        }
        journal.undo(self.entry)?;
        Ok(result)
    }

    /// Tells it to end, as Ctrl-C does, and waits until it has; what it said.
    pub fn interrupt(self, journal: &mut Journal) -> Result<Result<String, String>, RunError> {
        Ok(self.end(Some(libc::SIGINT), journal)?.map(|ended| ended.said))
    }

    /// Ends it at once, without its last words; returns what it has said.
    pub fn kill(self, journal: &mut Journal) -> Result<Result<String, String>, RunError> {
        let early = self.has_ended();
        self.signal(libc::SIGKILL);
        let ended =
            sys::wait_for(&self.child, PATIENCE).map_err(|error| failed("wait for a program", error))?;
        journal.undo(self.entry)?;
        Ok(match ended {
            Some((status, _)) if early => Err(self.ended_early(status)),
            _ => Ok(self.said()),
        })
    }

    fn ended_early(&self, status: ExitStatus) -> String {
        let how = status.code().map_or("by a signal".into(), |code| format!("exit code {code}"));
        format!("it ended too early ({how}): {}", self.last_words())
    }
}

/// An error of the kernel or of a file, which ends the run.
pub fn failed(what: &str, source: io::Error) -> RunError {
    RunError::Linux(Error::os(what)(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, test: impl FnOnce(Process, &mut Journal)) {
        let folder = weir_testkit::Folder::new();
        let mut journal = Journal::in_dir(&folder.join("journal"));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let cpus = weir_testbed::cpu::CpuPlan::choose(weir_testbed::cpu::DutCpus::All).unwrap().dut;
        test(Process::start(&mut command, &cpus, &folder.join("said"), &mut journal).unwrap(), &mut journal);
    }

    #[test]
    fn what_a_program_says_in_the_end_is_kept() {
        let script = "trap 'echo 7 frames >&2; exit' INT; echo ready >&2; while :; do sleep 0.01; done";
        shell(script, |process, journal| {
            process.await_words("ready").unwrap();
            assert_eq!(process.interrupt(journal).unwrap(), Ok("ready\n7 frames\n".into()));
        });
    }

    #[test]
    fn a_line_counts_when_it_is_whole() {
        shell(
            "printf 'port 1'; read line <&0; printf '2\\nport 7\\n'; exec sleep 60",
            |mut process, journal| {
                assert_eq!(process.await_ready("port "), Ok("12".into()));
                let error = process.await_line("none", Duration::from_secs(60), || true).unwrap_err();
                assert_eq!(error, "it was not ready in time: port 7");
                assert!(process.kill(journal).unwrap().is_ok());
            },
        );
    }

    #[test]
    fn a_program_that_ends_by_itself_says_why() {
        shell("echo no such device >&2; exit 3", |process, journal| {
            assert_eq!(process.await_words("ready"), Err("it ended: no such device".into()));
            let end = process.interrupt(journal).unwrap();
            assert_eq!(end, Err("it ended too early (exit code 3): no such device".into()));
        });
    }

    #[test]
    fn a_program_that_does_not_listen_is_killed_with_what_it_has_said() {
        shell("trap '' INT; echo ready; while :; do sleep 0.01; done", |process, journal| {
            process.await_words("ready").unwrap();
            assert_eq!(process.kill(journal).unwrap(), Ok("ready\n".into()));
        });
        shell("echo no >&2; exit 3", |process, journal| {
            process.await_words("more").unwrap_err();
            assert_eq!(process.kill(journal).unwrap(), Err("it ended too early (exit code 3): no".into()));
        });
    }

    #[test]
    fn the_time_of_a_program_is_that_of_its_children_too() {
        let script = "(while kill -0 $$; do :; done) 2>&1 & trap 'kill $!; exit' INT; echo ready; wait";
        shell(script, |process, journal| {
            process.await_words("ready").unwrap();
            let begin = process.time().run_ns;
            let deadline = Instant::now() + 4 * PATIENCE;
            while process.time().run_ns < begin + 20_000_000 {
                assert!(Instant::now() < deadline, "its child does not work");
                thread::sleep(LOOK);
            }
            // The shell waits; its child works.
            let own = sys::process_time_ns(process.pid()).unwrap();
            assert!(own < begin + 20_000_000, "{own}");
            assert_eq!(process.interrupt(journal).unwrap(), Ok("ready\n".into()));
        });
    }
}
