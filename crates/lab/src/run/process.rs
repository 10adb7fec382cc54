//! A program by somebody else, or weir itself, that captures or watches: from its start to its last words.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_load::xdp::pin_to;
use weir_testbed::cpu::ThreadTimes;
use weir_testbed::journal::{EntryId, Journal};

use crate::run::RunError;

/// It must be ready within this time, and at its end within this time after it was informed to.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// Who uses less of a CPU than this waits.
const IDLE: f64 = 0.02;

/// It runs.
pub(crate) struct Process {
    child: Child,
    entry: EntryId,
    said: PathBuf,
}

/// A trial gave nothing: the run cannot go on, or this program cannot.
pub(crate) enum Failed {
    Run(RunError),
    Program(String),
}

impl<E: Into<RunError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed::Run(error.into())
    }
}

/// CPU time of a program, of all its threads and children.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProgramTime {
    /// Exact.
    pub(crate) run_ns: u64,
    /// How that is divided.
    system_ticks: u64,
    user_ticks: u64,
}

impl ProgramTime {
    /// What was used since `earlier`.
    pub(crate) fn since(&self, earlier: &ProgramTime) -> ProgramTime {
        let [run_ns, system_ticks, user_ticks] = [
            (self.run_ns, earlier.run_ns),
            (self.system_ticks, earlier.system_ticks),
            (self.user_ticks, earlier.user_ticks),
        ]
        .map(|(now, before)| now.saturating_sub(before));
        ProgramTime { run_ns, system_ticks, user_ticks }
    }

    /// The part of it in the kernel.
    pub(crate) fn system_ns(&self) -> u64 {
        let ticks = (self.system_ticks + self.user_ticks).max(1);
        (self.run_ns as f64 * self.system_ticks as f64 / ticks as f64) as u64
    }
}

impl Process {
    /// Starts it on one CPU, in the namespace of the calling thread; what it says goes to the file `said`.
    pub(crate) fn start(
        command: &mut Command,
        cpu: usize,
        said: &Path,
        journal: &mut Journal,
    ) -> Result<Process, RunError> {
        let output = File::create(said).and_then(|file| Ok((file.try_clone()?, file)));
        let (one, other) = output.map_err(|error| failed("a file for what a program says", error))?;
        command.stdin(Stdio::null()).stdout(one).stderr(other);
        // SAFETY: signal(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::signal(libc::SIGINT, libc::SIG_DFL) {
                libc::SIG_ERR => Err(io::Error::last_os_error()),
                // A run in the background of a script ignores Ctrl-C, and what it starts would, too.
                _ => Ok(()),
            });
        }
        // It inherits the CPU of the thread that starts it.
        pin_to(cpu).map_err(|error| failed("place a program on its CPU", error))?;
        let (child, entry) = journal.spawn(command)?;
        Ok(Process { child, entry, said: said.into() })
    }

    /// Waits until it has said these words; what it said instead if it never does.
    pub(crate) fn await_words(&mut self, words: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // In this order: what it says last is there when it has ended.
            let ended = self.has_ended();
            let said = self.said();
            if said.contains(words) {
                return Ok(());
            }
            if ended || Instant::now() > deadline {
                let how = if ended { "it ended" } else { "it was not ready within 30 s" };
                return Err(format!("{how}: {}", last_line(&said)));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until it has done nothing for `quiet`: no frame is left but those that the kernel still holds back. Returns
    /// how long it was at work.
    pub(crate) fn await_quiet(&mut self, quiet: Duration, stopped: impl Fn() -> bool) -> Duration {
        let begin = Instant::now();
        let deadline = begin + PATIENCE;
        let mut since = (begin, self.run_ns());
        while since.0.elapsed() < quiet && Instant::now() < deadline && !stopped() && !self.has_ended() {
            thread::sleep(LOOK);
            let used = self.run_ns().saturating_sub(since.1);
            if used as f64 > IDLE * quiet.as_nanos() as f64 {
                since = (Instant::now(), self.run_ns());
            }
        }
        since.0 - begin
    }

    /// CPU time of all its threads and children so far.
    pub(crate) fn time(&self) -> ProgramTime {
        let times = self.processes().into_iter().filter_map(ticks);
        let (user_ticks, system_ticks) = times.fold((0, 0), |(user, system), (u, s)| (user + u, system + s));
        ProgramTime { run_ns: self.run_ns(), system_ticks, user_ticks }
    }

    fn run_ns(&self) -> u64 {
        let threads = self.processes().into_iter().flat_map(threads);
        threads.filter_map(|thread| Some(ThreadTimes::of(thread)?.run_ns)).sum()
    }

    /// The program and all that it has started.
    fn processes(&self) -> BTreeSet<u32> {
        let (mut found, mut next) = (BTreeSet::new(), vec![self.child.id()]);
        while let Some(pid) = next.pop() {
            if found.insert(pid) {
                let children = |thread| {
                    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
                    text.unwrap_or_default()
                        .split_whitespace()
                        .filter_map(|pid| pid.parse().ok())
                        .collect::<Vec<u32>>()
                };
                next.extend(threads(pid).into_iter().flat_map(children));
            }
        }
        found
    }

    /// Tells it to end, as Ctrl-C does, and waits until it has; returns what it said. One that does not is killed.
    pub(crate) fn end(mut self, journal: &mut Journal) -> Result<Result<String, String>, RunError> {
        // SAFETY: no pointers. The child has not been waited for, so that the number is still its own.
        let reported = !self.has_ended() && unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) } == 0;
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
        let status = self.child.try_wait().ok().flatten();
        journal.undo(self.entry)?;
        // Killed by the journal if it had not ended: there is nothing more to learn.
        let _ = self.child.wait();
        let said = self.said();
        Ok(match status {
            Some(_) if reported => Ok(said),
            Some(status) => Err(format!("it ended too early ({}): {}", code(status), last_line(&said))),
            None => Err(format!("it did not end within 30 s: {}", last_line(&said))),
        })
    }

    /// Ends it at once, without its last words; returns what it has said.
    pub(crate) fn kill(mut self, journal: &mut Journal) -> Result<Result<String, String>, RunError> {
        let status = self.child.try_wait().ok().flatten();
        journal.undo(self.entry)?;
        // An error means that it has been waited for.
        let _ = self.child.wait();
        let said = self.said();
        Ok(match status {
            None => Ok(said),
            Some(status) => Err(format!("it ended too early ({}): {}", code(status), last_line(&said))),
        })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).unwrap_or_default()).into_owned()
    }
}

fn code(status: ExitStatus) -> String {
    status.code().map_or("by a signal".into(), |code| format!("exit code {code}"))
}

/// Its last line that says anything.
fn last_line(said: &str) -> String {
    let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(|| "it said nothing".into(), |line| line.chars().take(160).collect())
}

fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Ticks of a process in user mode and in the kernel: proc(5), /proc/PID/stat, fields 14 and 15.
fn ticks(pid: u32) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn failed(what: &str, source: io::Error) -> RunError {
    RunError::Testbed(weir_testbed::error::Error::Os { what: what.into(), source })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn shell(script: &str, test: impl FnOnce(Process, &mut Journal)) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-process-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut journal = Journal::in_dir(&folder.join("journal"));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let cpu = weir_testbed::cpu::CpuPlan::choose(weir_testbed::cpu::DutCpus::All).unwrap().dut[0];
        test(Process::start(&mut command, cpu, &folder.join("said"), &mut journal).unwrap(), &mut journal);
        drop(journal);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_program_says_in_the_end_is_kept() {
        let script = "trap 'echo 7 frames >&2; exit' INT; echo ready >&2; while :; do sleep 0.01; done";
        shell(script, |mut process, journal| {
            process.await_words("ready").unwrap();
            assert_eq!(process.end(journal).unwrap(), Ok("ready\n7 frames\n".into()));
        });
    }

    #[test]
    fn a_program_that_ends_by_itself_says_why() {
        shell("echo no such device >&2; exit 3", |mut process, journal| {
            assert_eq!(process.await_words("ready"), Err("it ended: no such device".into()));
            let end = process.end(journal).unwrap();
            assert_eq!(end, Err("it ended too early (exit code 3): no such device".into()));
        });
    }

    #[test]
    fn a_program_that_does_not_listen_is_killed_with_what_it_has_said() {
        shell("trap '' INT; echo ready; while :; do sleep 0.01; done", |mut process, journal| {
            process.await_words("ready").unwrap();
            assert_eq!(process.kill(journal).unwrap(), Ok("ready\n".into()));
        });
        shell("echo no >&2; exit 3", |mut process, journal| {
            process.await_words("more").unwrap_err();
            assert_eq!(process.kill(journal).unwrap(), Err("it ended too early (exit code 3): no".into()));
        });
    }

    #[test]
    fn the_time_of_a_program_is_that_of_its_children_too() {
        let script = "(while kill -0 $$; do :; done) 2>&1 & trap 'kill $!; exit' INT; echo ready; wait";
        shell(script, |mut process, journal| {
            process.await_words("ready").unwrap();
            let begin = process.time().run_ns;
            let deadline = Instant::now() + 4 * PATIENCE;
            while process.time().run_ns < begin + 20_000_000 {
                assert!(Instant::now() < deadline, "its child does not work");
                thread::sleep(LOOK);
            }
            assert_eq!(process.processes().len(), 2);
            // The shell waits; who works is its child.
            let own: u64 =
                threads(process.child.id()).iter().map(|&t| ThreadTimes::of(t).unwrap().run_ns).sum();
            assert!(own < begin + 20_000_000, "{own}");
            assert_eq!(process.end(journal).unwrap(), Ok("ready\n".into()));
        });
    }
}
