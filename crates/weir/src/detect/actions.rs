//! What is done about an attack: a script, a web service, a BGP daemon. Each gets its own thread, so that a slow one
//! holds up neither the watch nor the others.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use weir_detect::{Announce, Commands, Daemon, Event, Kind};

use crate::say;

/// Events that may wait for an action. More are dropped, aloud: old news of an attack are of no use.
const WAITING: usize = 1000;
/// A web service may take so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that is done.
pub(super) struct Actions {
    workers: Vec<Worker>,
    announcer: Option<Announcer>,
}

/// What a BGP daemon is told.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Announced {
    /// The command.
    pub(super) command: String,
    /// Or only shown.
    pub(super) sent: bool,
}

/// A thread that acts upon events, one after another.
struct Worker {
    name: &'static str,
    events: SyncSender<String>,
    /// Says nothing, and is closed when all is done.
    done: Receiver<Infallible>,
}

struct Announcer {
    announce: Announce,
    /// How each attack that was announced is taken back.
    withdrawals: HashMap<u64, String>,
    worker: Option<Worker>,
}

impl Actions {
    /// Ready to act.
    ///
    /// # Errors
    /// What is configured is not there.
    pub(super) fn start(config: &weir_detect::Actions) -> Result<Actions> {
        let mut workers = Vec::new();
        if let Some(script) = config.script.clone() {
            workers.push(Worker::start("the script", move |event| run_script(&script, event)));
        }
        if let Some(url) = config.webhook.clone() {
            let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent();
            workers.push(Worker::start("the webhook", move |event| {
                let request = agent.post(&url).header("content-type", "application/json");
                request.send(event).map(|_| ()).with_context(|| format!("cannot post to {url}"))
            }));
        }
        let announcer = config.announce.clone().map(Announcer::start).transpose()?;
        Ok(Actions { workers, announcer })
    }

    /// Acts upon an event, which is this `document`; returns what a BGP daemon was told or would have been told.
    pub(super) fn of(&mut self, event: &Event, document: &Value) -> Option<Announced> {
        self.workers.iter().for_each(|worker| worker.give(document.to_string()));
        self.announcer.as_mut()?.of(event)
    }

    /// Waits until all has been done, `most` at most. What was announced stays: the attacks may go on.
    pub(super) fn finish(self, most: Duration) {
        let announcer = self.announcer.and_then(|announcer| announcer.worker);
        let end = Instant::now() + most;
        for Worker { name, events, done } in self.workers.into_iter().chain(announcer) {
            drop(events);
            let wait = end.saturating_duration_since(Instant::now());
            if done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                say::say(&format!("note: {name} has not come to its end: not all events were handed to it"));
            }
        }
    }
}

impl Worker {
    fn start(name: &'static str, mut act: impl FnMut(&str) -> Result<()> + Send + 'static) -> Worker {
        let (events, waiting) = sync_channel::<String>(WAITING);
        let (is_done, done) = channel();
        std::thread::spawn(move || {
            let _is_done: Sender<Infallible> = is_done;
            for event in waiting {
                if let Err(error) = act(&event) {
                    say::say(&format!("note: {name} has failed: {error:#}"));
                }
            }
        });
        Worker { name, events, done }
    }

    fn give(&self, event: String) {
        if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
            say::say(&format!("note: {} is too slow: an event was not handed to it", self.name));
        }
    }
}

impl Announcer {
    fn start(announce: Announce) -> Result<Announcer> {
        let worker = match (&announce.daemon, announce.send) {
            (_, false) => None,
            (Daemon::ExaBgp(pipe), true) => {
                // Without a reader it does not open, and would block with one that is slow.
                let mut file = OpenOptions::new()
                    .write(true)
                    .custom_flags(libc::O_NONBLOCK)
                    .open(pipe)
                    .with_context(|| format!("cannot talk to ExaBGP through {pipe}: is it running?"))?;
                // In one piece, which the pipe takes whole or not at all: half a command would spoil the next.
                Some(Worker::start("ExaBGP", move |command| {
                    Ok(file.write_all(format!("{command}\n").as_bytes())?)
                }))
            }
            (Daemon::GoBgp, true) => Some(Worker::start("GoBGP", |command| {
                let words: Vec<_> = command.split_whitespace().collect();
                let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
                let output = output.with_context(|| format!("cannot run {}", words[0]))?;
                if !output.status.success() {
                    let error = [output.stdout, output.stderr].concat();
                    bail!("{command}: {}", String::from_utf8_lossy(&error).trim());
                }
                Ok(())
            })),
        };
        Ok(Announcer { announce, withdrawals: HashMap::new(), worker })
    }

    fn of(&mut self, event: &Event) -> Option<Announced> {
        let command = match event.event {
            Kind::Start => {
                let Commands { announce, withdraw } = self.announce.commands(event)?;
                self.withdrawals.insert(event.attack, withdraw);
                announce
            }
            Kind::Update => return None,
            Kind::End => self.withdrawals.remove(&event.attack)?,
        };
        if let Some(worker) = &self.worker {
            worker.give(command.clone());
        }
        Some(Announced { command, sent: self.worker.is_some() })
    }
}

/// Runs a program with the event on its standard input, and waits for its end.
fn run_script(script: &str, event: &str) -> Result<()> {
    let mut child = Command::new(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {script}"))?;
    // A script that does not read has its reasons.
    let _ = child.stdin.take().expect("it is piped").write_all(event.as_bytes());
    let status = child.wait()?;
    if !status.success() {
        bail!("{script} ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_actions_but_not_for_ever() {
        let of = |worker| Actions { workers: vec![worker], announcer: None };
        let (done, heard) = channel();
        let quick = Worker::start("the webhook", move |event| Ok(done.send(event.to_string())?));
        quick.give("an event".into());
        of(quick).finish(Duration::from_secs(600));
        assert_eq!(heard.try_recv().as_deref(), Ok("an event"));
        let (_never, end) = channel::<()>();
        let stuck = Worker::start("the script", move |_| Ok(end.recv()?));
        stuck.give("an event".into());
        of(stuck).finish(Duration::from_millis(1));
    }
}
