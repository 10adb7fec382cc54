//! The local side of a connection: requests, replies, and the reason of its end.

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::{self, BEAT, Hello, NoLine, Reply, SILENCE, Signal, Trouble, VERSION};
use crate::ssh::{self, Ssh};

/// Time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long the agent may take to end.
const END: Duration = Duration::from_secs(5);
/// A link that heard nothing for this time is lost: longer than that after which the agent ends.
const LOST_AFTER: Duration = SILENCE.saturating_mul(3);

/// How an agent is started.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The host.
    pub ssh: &'a Ssh,
    /// How the shell there starts weir.
    pub program: &'a str,
    /// The role of the agent.
    pub role: &'a str,
    /// The option that names the program, and the file or section it is in.
    pub option: [&'static str; 2],
}

/// An open connection. After it was dropped, the agent has given its host back, unless it cannot be reached.
pub struct Link {
    child: Child,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    lines: Receiver<Result<String, String>>,
    heard: Arc<Mutex<Instant>>,
    complaints: Option<JoinHandle<String>>,
    /// Dropped, it ends the heartbeat.
    _beat: Sender<()>,
}

impl Link {
    /// Connects, and waits for the greeting of the same version. The link ends with the thread that calls this.
    ///
    /// # Errors
    /// The failure and what to do, in words.
    pub fn connect<M: DeserializeOwned>(start: Start<'_>) -> Result<(Link, Hello<M>), String> {
        let command = format!("{} agent {}", start.program, start.role);
        let mut link = Link::over(start.ssh.start(&command)?)?;
        let by_hand = || format!("try it: ssh -o BatchMode=yes {} '{command}'", start.ssh.target);
        let [option, file] = start.option;
        let line = match link.lines.recv_timeout(start.ssh.timeout) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = start.ssh.timeout.as_secs_f64();
                return Err(format!("no greeting within {seconds} s; {}", by_hand()));
            }
            // A shell ends with 127 for a program that it does not find, with 126 for one that is none.
            Err(RecvTimeoutError::Disconnected) => {
                let (code, why) = link.end();
                return Err(match code {
                    Some(126 | 127) => format!(
                        "there is no program `{}` ({why}): install weir {VERSION} on that host, or name it with `{option}` in \
                         {file}",
                        start.program
                    ),
                    Some(255) => format!("{why}; {}", by_hand()),
                    _ => format!("{why}; weir {VERSION} is needed there, {}", by_hand()),
                });
            }
        };
        Ok((link, protocol::greeting(&line, option)?))
    }

    /// A connection to a process that speaks the protocol.
    fn over(mut child: Child) -> Result<Link, String> {
        let (stdin, Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the client of SSH has no pipes".into());
        };
        let stdin = Arc::new(Mutex::new(stdin));
        let heard = Arc::new(Mutex::new(Instant::now()));
        let (line, lines) = sync_channel(16);
        thread::spawn({
            let heard = heard.clone();
            move || read(stdout, &line, &heard)
        });
        let complaints = Some(thread::spawn(move || ssh::end_of(stderr)));
        let beat = start_beating(stdin.clone());
        Ok(Link { child, stdin, lines, heard, complaints, _beat: beat })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Trouble::Lost`].
    pub fn send<R: Serialize>(&mut self, request: &R) -> Result<(), Trouble> {
        write(&self.stdin, request).map_err(|()| self.lost())
    }

    /// Waits for the reply to a request for up to `patience`, and sends [`Signal::Stop`] when `stopped` says so. `note` gets the
    /// progress that the agent reports.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        patience: Duration,
        stopped: impl Fn() -> bool,
        mut note: impl FnMut(&str),
    ) -> Result<T, Trouble> {
        let begun = Instant::now();
        let mut reported = false;
        loop {
            if stopped() && !reported {
                reported = true;
                self.send(&Signal::Stop)?;
            }
            let line = match self.lines.recv_timeout(LOOK) {
                Ok(Ok(line)) => line,
                Ok(Err(why)) => return Err(Trouble::Lost(why)),
                Err(RecvTimeoutError::Timeout) if lock(&self.heard).elapsed() > LOST_AFTER => {
                    return Err(Trouble::Lost(format!("nothing was heard for {} s", LOST_AFTER.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < patience => continue,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Trouble::Lost(format!("no answer within {} s", patience.as_secs_f64())));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
            };
            match protocol::reply(&line)? {
                Some(value) => return Ok(value),
                None => {
                    if let Ok(Reply::Note(text)) = serde_json::from_str::<Reply<()>>(&line) {
                        note(&text);
                    }
                }
            }
        }
    }

    fn lost(&mut self) -> Trouble {
        Trouble::Lost(self.end().1)
    }

    /// Ends the connection: exit code and words.
    fn end(&mut self) -> (Option<i32>, String) {
        // The end of its input tells the agent to end.
        drop(lock(&self.stdin).take());
        let status = ssh::ended(&mut self.child, END);
        if status.is_none() {
            // Whether it was there still to be killed does not matter.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match status {
            Some(status) => (status.code(), ssh::why(status, &complaints)),
            None => (None, "it does not end".into()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
    }
}

/// Passes the agent's lines on, until it ends or a line is wrong. An agent that sends more than it is asked waits, since there is
/// room for a few lines only.
fn read(stdout: impl Read, lines: &SyncSender<Result<String, String>>, heard: &Mutex<Instant>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let line = match protocol::line(&mut stdout) {
            Ok(line) => line,
            Err(NoLine::End) => return,
            Err(NoLine::Wrong(why)) => {
                let _ = lines.send(Err(why));
                return;
            }
        };
        *lock(heard) = Instant::now();
        let is_beat = matches!(serde_json::from_str(&line), Ok(Signal::Alive));
        // The receiver has gone: then the child ends as well.
        if !is_beat && lines.send(Ok(line)).is_err() {
            return;
        }
    }
}

fn start_beating(stdin: Arc<Mutex<Option<ChildStdin>>>) -> Sender<()> {
    let (beat, ended) = channel();
    thread::spawn(move || {
        while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            if write(&stdin, &Signal::Alive).is_err() {
                return;
            }
        }
    });
    beat
}

fn write<T: Serialize>(stdin: &Mutex<Option<ChildStdin>>, message: &T) -> Result<(), ()> {
    let line = protocol::bytes(message).map_err(drop)?;
    lock(stdin).as_mut().ok_or(())?.write_all(&line).map_err(drop)
}

/// Locks a mutex; no thread panics while it holds it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A link to a shell that prints what a hostile or broken agent would.
    fn link(script: &str) -> Link {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Link::over(shell.spawn().expect("a shell")).expect("pipes")
    }

    fn asked(script: &str) -> (Result<u64, Trouble>, Vec<String>) {
        let mut notes = Vec::new();
        let mut link = link(script);
        let sent = link.send(&"counters");
        let received = link.receive(Duration::from_secs(60), || false, |text| notes.push(text.to_string()));
        (sent.and(received), notes)
    }

    #[test]
    fn replies_are_told_from_beats_and_notes() {
        let script =
            r#"read request; echo '"alive"'; echo '{"note":"half"}'; echo '{"done":7}'; cat >/dev/null"#;
        assert_eq!(asked(script), (Ok(7), vec!["half".into()]));
        let failed = r#"read request; echo '{"failed":"no such interface"}'; cat >/dev/null"#;
        assert_eq!(asked(failed).0, Err(Trouble::Failed("no such interface".into())));
    }

    #[test]
    fn what_a_broken_agent_sends_ends_the_link_with_the_reason() {
        for (script, expected) in [
            (r"read request; printf '\377\376ab\n'; cat >/dev/null", "it sent bytes that are no text: `"),
            ("read request; echo hello; cat >/dev/null", "`hello` is no reply: "),
            (r#"read request; echo '{"done":"x"}'; cat >/dev/null"#, r#"`{"done":"x"}` is no reply: "#),
            (
                "read request; head -c 67108870 /dev/zero | tr '\\0' x; cat >/dev/null",
                "it sent a line of more than 64 MiB",
            ),
            ("read request; printf '{\"done\":'; exit 3", "exit code 3"),
            ("read request; echo 'disk full' >&2; exit 1", "exit code 1: disk full"),
            ("read request; kill -9 $$", "signal: 9 (SIGKILL)"),
        ] {
            match asked(script).0 {
                Err(Trouble::Lost(why)) => assert!(why.starts_with(expected), "{script}: {why}"),
                other => panic!("{script}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_stop_reaches_the_agent_while_it_works() {
        let mut link = link(r#"read request; read stop; echo "{\"done\":${#stop}}"; cat >/dev/null"#);
        link.send(&"run").expect("it runs");
        let received: Result<u64, _> = link.receive(Duration::from_secs(60), || true, |_| ());
        assert_eq!(received, Ok(r#""stop""#.len() as u64));
    }

    #[test]
    fn an_agent_that_says_nothing_is_given_up() {
        let mut link = link("cat >/dev/null");
        link.send(&"run").expect("it runs");
        let received: Result<u64, _> = link.receive(Duration::ZERO, || false, |_| ());
        assert_eq!(received, Err(Trouble::Lost("no answer within 0 s".into())));
    }
}
