//! The actions of an attack: a script, a web service, a BGP daemon. Each has its own thread, so that a slow one delays
//! neither the watch nor the others.

use std::convert::Infallible;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use tracing::warn;
use weir_detect::{Announcements, Event};

use super::announcer::{Announced, Announcer};
use super::program;
use super::webhook::Webhook;

/// Events that may wait for an action. More are dropped, with a note: old events are of no use.
const WAITING: usize = 1000;
/// Time limit of a web service.
const PATIENCE: Duration = Duration::from_secs(10);

/// All actions.
pub(crate) struct Actions {
    workers: Vec<Worker>,
    announcer: Option<Announcer>,
}

/// A thread that runs an action for each event, in order.
struct Worker {
    name: &'static str,
    events: SyncSender<String>,
    /// Carries no value; closed when the thread ends.
    done: Receiver<Infallible>,
}

impl Actions {
    /// Starts the threads.
    ///
    /// # Errors
    /// A configured target does not exist.
    pub(crate) fn start(config: &weir_detect::Actions) -> Result<Actions> {
        let mut workers = Vec::new();
        if let Some(script) = config.script.clone() {
            let most = config.script_time;
            let run = move |event: &str| program::run(&mut Command::new(&script), event, most);
            workers.push(Worker::start("the script", run));
        }
        if let Some(url) = &config.webhook {
            let webhook = Webhook::new(url, PATIENCE);
            workers.push(Worker::start("the webhook", move |event| webhook.post(event)));
        }
        let announcer = config.announce.clone().map(Announcer::start).transpose()?;
        Ok(Actions { workers, announcer })
    }

    /// Runs the actions for an event, which is this `document`; returns the command for the BGP daemon.
    pub(crate) fn of(&mut self, event: &Event, document: &Value) -> Option<Announced> {
        self.workers.iter().for_each(|worker| worker.give(document.to_string()));
        self.announcer.as_ref()?.of(event)
    }

    /// The announcements, if they are configured.
    pub(crate) fn announcements(&self) -> Option<Announcements> {
        self.announcer.as_ref().map(Announcer::counts)
    }

    /// Withdraws the announcements, because the end of the attacks would not be seen, and waits for all actions, `most` at
    /// most.
    pub(crate) fn finish(self, most: Duration) {
        let end = Instant::now() + most;
        // Close all queues first, so that the threads end at the same time.
        let ending: Vec<_> = self.workers.into_iter().map(|worker| (worker.name, worker.done)).collect();
        if let Some(announcer) = self.announcer {
            announcer.finish(end);
        }
        for (name, done) in ending {
            let wait = end.saturating_duration_since(Instant::now());
            if done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                warn!(action = name, "note: {name} is still running: some events were not passed to it");
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
                    warn!(action = name, "note: {name} failed: {error:#}");
                }
            }
        });
        Worker { name, events, done }
    }

    fn give(&self, event: String) {
        if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
            let name = self.name;
            warn!(action = name, "note: {name} is too slow: an event was not passed to it");
        }
    }
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
