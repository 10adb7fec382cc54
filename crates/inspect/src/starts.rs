//! Processes and threads that a server starts, as the kernel counts them (perf_event_open(2), the tracepoint
//! sched_process_fork), where the user may: root, as a rule. What others on the machine start meanwhile is not counted.

use std::fs::{self, File};
use std::io::Read;
use std::ptr::null;
use std::thread;

use weir_port::perf::event::{self, Attributes, Of};

const ID: &str = "/sys/kernel/tracing/events/sched/sched_process_fork/id";

const KIND_TRACEPOINT: u32 = 2;
/// Started threads and processes are counted for the process that started them.
const INHERIT: u64 = 1 << 1;

/// A counter for each thread.
pub(crate) struct Starts(Vec<File>);

impl Starts {
    /// Counts from now on what these threads start, and what that starts; `None` where it is not allowed.
    pub(crate) fn of(threads: &[u32]) -> Option<Starts> {
        let id = id()?;
        let counters: Vec<File> = threads.iter().filter_map(|&thread| counter(thread, id)).collect();
        // A thread that has ended meanwhile starts nothing.
        (!counters.is_empty()).then_some(Starts(counters))
    }

    pub(crate) fn count(&mut self) -> u64 {
        let read = |file: &mut File| {
            let mut number = [0; 8];
            file.read_exact(&mut number).map_or(0, |()| u64::from_ne_bytes(number))
        };
        self.0.iter_mut().map(read).sum()
    }
}

fn counter(thread: u32, id: u64) -> Option<File> {
    let attributes =
        Attributes { kind: KIND_TRACEPOINT, config: id, flags: INHERIT, ..Attributes::default() };
    event::open(attributes, Of::Thread(thread)).ok().map(File::from)
}

/// The number of the tracepoint. Where no tracefs is mounted, a thread mounts one in a private namespace, which ends with the
/// thread.
fn id() -> Option<u64> {
    let read = || fs::read_to_string(ID).ok()?.trim().parse().ok();
    read().or_else(|| {
        thread::spawn(move || {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            // SAFETY: strings that end with NUL, and no data. What is mounted after `unshare` belongs to this thread alone.
            let mounted = unsafe {
                libc::unshare(libc::CLONE_NEWNS) == 0
                    && libc::mount(c"none".as_ptr(), c"/".as_ptr(), null(), private, null()) == 0
                    && libc::mount(
                        c"none".as_ptr(),
                        c"/sys/kernel/tracing".as_ptr(),
                        c"tracefs".as_ptr(),
                        0,
                        null(),
                    ) == 0
            };
            if mounted { read() } else { None }
        })
        .join()
        .ok()?
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_others_start_is_not_counted() {
        let mut shell = Command::new("sh");
        // A process for each line, and one that that one starts.
        shell.args(["-c", "while read line; do (/bin/true; /bin/true); echo done; done"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let starts = Starts::of(&[shell.id()]);
        let (mut input, mut output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let mut line = || {
            std::io::Write::write_all(&mut input, b"x\n").unwrap();
            output.read_exact(&mut [0; 5]).unwrap();
        };
        if let Some(mut starts) = starts {
            for rounds in 1..=3 {
                assert!(Command::new("true").status().unwrap().success());
                line();
                let count = starts.count();
                // Some shells run the last program in the place of the one in brackets.
                assert!((2 * rounds..=3 * rounds).contains(&count), "{count} after {rounds} lines");
            }
        } else {
            println!("skipped: this user may not count events of the kernel");
        }
        drop(input);
        shell.wait().unwrap();
    }
}
