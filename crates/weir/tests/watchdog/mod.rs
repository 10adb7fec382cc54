//! Programs that a test waits for: one that does not come to an end is killed, so that the test fails and says where.

use std::io;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Longer than any of them takes on a loaded machine: one that still runs then is not coming to an end.
const LONGEST: Duration = Duration::from_secs(600);

/// Watches a program until it is dropped, which is after the program has been waited for.
pub(crate) struct Watch {
    _over: Sender<()>,
}

impl Watch {
    pub(crate) fn new(child: &Child) -> Watch {
        let (_over, ended) = channel();
        let pid = child.id();
        std::thread::spawn(move || {
            if ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                eprintln!("process {pid} has not ended in {LONGEST:?}: it is killed");
                // SAFETY: sends a signal, to a child that whoever watches it has not waited for.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
        });
        Watch { _over }
    }
}

/// Runs a program to its end.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let _watch = Watch::new(&child);
    child.wait_with_output()
}
