//! A connection to the remote side: requests, replies, and the reason of its end.

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_testbed::external::RemoteSpec;
use weir_testbed::external::hooks;

use super::heard::{self, Heard, Trouble};
use super::{BEAT, Hello, Reply, Request, VERSION};

/// Time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long the remote side may take to end.
const END: Duration = Duration::from_secs(5);

/// An open connection. When it is dropped, the remote side has given its machine back, unless it cannot be reached.
pub(crate) struct Link {
    child: Child,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
    /// Dropped, it ends the heartbeat.
    _beat: Sender<()>,
}

impl Link {
    /// Connects, and waits for the greeting of the same version.
    ///
    /// # Errors
    /// The failure and what to do, in words.
    pub(crate) fn connect(spec: &RemoteSpec) -> Result<(Link, Hello), String> {
        let command = format!("{} port-agent", spec.weir);
        let mut child = spec.ssh.start(&command)?;
        let stdin = Arc::new(Mutex::new(child.stdin.take()));
        let lines = lines(child.stdout.take().expect("piped"));
        let complaints = thread::spawn({
            let stderr = child.stderr.take().expect("piped");
            move || hooks::end_of(stderr)
        });
        let beat = start_beating(stdin.clone());
        let mut link = Link { child, stdin, lines, complaints: Some(complaints), _beat: beat };
        let by_hand = || format!("try it: ssh -o BatchMode=yes {} '{command}'", spec.ssh.target);
        let line = match link.lines.recv_timeout(spec.ssh.timeout) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = spec.ssh.timeout.as_secs_f64();
                return Err(format!("no greeting within {seconds} s; {}", by_hand()));
            }
            // A shell ends with 127 for a program that it does not find, with 126 for one that is none.
            Err(RecvTimeoutError::Disconnected) => {
                let (code, why) = link.end();
                return Err(match code {
                    Some(126 | 127) => format!(
                        "there is no program `{}` ({why}): install weir {VERSION} on that host, or name it with \
                         `remote_weir` in [external]",
                        spec.weir
                    ),
                    Some(255) => format!("{why}; {}", by_hand()),
                    _ => format!("{why}; weir {VERSION} is needed there, {}", by_hand()),
                });
            }
        };
        Ok((link, greeting(&line)?))
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: &Request) -> Result<(), Trouble> {
        write(&self.stdin, request).map_err(|()| self.lost())
    }

    /// Waits for the reply to a request, and sends [`Request::Stop`] when `stopped` says so.
    pub(crate) fn receive<T: Heard>(
        &mut self,
        patience: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<T, Trouble> {
        let deadline = Instant::now() + patience;
        let mut reported = false;
        loop {
            if stopped() && !reported {
                reported = true;
                self.send(&Request::Stop)?;
            }
            let line = match self.lines.recv_timeout(LOOK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => continue,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Trouble::Lost(format!("no answer within {} s", patience.as_secs_f64())));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
            };
            return heard::reply(&line);
        }
    }

    fn lost(&mut self) -> Trouble {
        Trouble::Lost(self.end().1)
    }

    /// Ends the connection: exit code and words.
    fn end(&mut self) -> (Option<i32>, String) {
        // The end of its input is the remote side's sign to go.
        drop(lock(&self.stdin).take());
        let status = hooks::ended(&mut self.child, END);
        if status.is_none() {
            // Whether it was there still to be killed does not matter.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match status {
            Some(status) => (status.code(), hooks::why(status, &complaints)),
            None => (None, "it does not end".into()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first line of the remote side.
pub(super) fn greeting(line: &str) -> Result<Hello, String> {
    let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    let Some(there) = value["done"]["weir"].as_str() else {
        return Err(format!(
            "it printed `{line:.80}` instead of a greeting: set `remote_weir` to weir {VERSION}, and make sure that the login \
             shell there prints nothing"
        ));
    };
    if there != VERSION {
        return Err(format!(
            "it has weir {there}, this host has {VERSION}: install the same version on both hosts"
        ));
    }
    match serde_json::from_value(value) {
        Ok(Reply::Done(hello)) => Ok(hello),
        Ok(Reply::Failed(why)) => Err(why),
        Err(error) => Err(format!(
            "its greeting cannot be parsed ({error}): install the same version of weir on both hosts"
        )),
    }
}

/// What the remote side says, line by line, until it ends or a line has no end: then nothing it says is of use. A remote side
/// that says more than it is asked waits, since there is room for a few lines only.
fn lines(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (line, lines) = sync_channel(16);
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        // The receiver has gone: then the child ends as well.
        while let Some(text) = heard::line(&mut stdout) {
            if line.send(text).is_err() {
                return;
            }
        }
    });
    lines
}

fn start_beating(stdin: Arc<Mutex<Option<ChildStdin>>>) -> Sender<()> {
    let (beat, ended) = channel();
    thread::spawn(move || {
        while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            if write(&stdin, &Request::Alive).is_err() {
                return;
            }
        }
    });
    beat
}

fn write(stdin: &Mutex<Option<ChildStdin>>, request: &Request) -> Result<(), ()> {
    let mut line = serde_json::to_vec(request).expect("requests are plain data");
    line.push(b'\n');
    let mut stdin = lock(stdin);
    stdin.as_mut().ok_or(())?.write_all(&line).map_err(drop)
}

/// Locks a mutex; no thread panics while it holds it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
