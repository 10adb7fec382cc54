//! What the REST server asks of the main loop, by a channel of bounded length.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_bng::{Bng, Command, CommandError, Now, Subscriber};

use crate::wake::Waker;

/// Most questions that wait for the main loop.
const MOST: usize = 256;

/// A look at the state of the main loop.
pub(crate) type Look = Box<dyn FnOnce(&View<'_>) + Send>;

/// What is asked.
pub(crate) enum Ask {
    /// Look at the state.
    Look(Look),
    /// Carry out a command.
    Command(Box<Command>, oneshot::Sender<Result<(), CommandError>>),
    /// Add these subscribers; those that are refused are returned with their places.
    Add(Vec<Subscriber>, oneshot::Sender<Vec<(usize, CommandError)>>),
}

/// The state of the main loop.
pub(crate) struct View<'a> {
    /// Subscribers and sessions.
    pub(crate) bng: &'a Bng,
    /// The time of the look.
    pub(crate) now: Now,
    /// The same by the clock on the wall, since 1970.
    pub(crate) wall: Duration,
    /// What the program waits for, and what to do about it.
    pub(crate) waits_for: &'a [String],
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// Too many questions wait.
    #[error("{MOST} requests wait already: repeat this one later")]
    Busy,
    /// The program ends.
    #[error("the program ends: repeat the request when it has started again")]
    Ends,
}

/// Asks the main loop.
#[derive(Clone)]
pub(crate) struct Asker {
    asks: SyncSender<Ask>,
    waker: Waker,
}

impl Asker {
    /// One, and where its questions come out.
    pub(crate) fn new(waker: Waker) -> (Asker, Receiver<Ask>) {
        let (asks, receiver) = sync_channel(MOST);
        (Asker { asks, waker }, receiver)
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Unanswered> {
        let (sender, answer) = oneshot::channel();
        self.asks.try_send(ask(sender)).map_err(|error| match error {
            TrySendError::Full(_) => Unanswered::Busy,
            TrySendError::Disconnected(_) => Unanswered::Ends,
        })?;
        self.waker.wake();
        answer.await.map_err(|_| Unanswered::Ends)
    }

    /// Looks at the state.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let answer = |sender: oneshot::Sender<T>| -> Ask {
            // A client that has gone needs no answer.
            Ask::Look(Box::new(move |view| drop(sender.send(look(view)))))
        };
        self.ask(answer).await
    }

    /// Has a command carried out; the answer comes when it is on disk.
    pub(crate) async fn command(&self, command: Command) -> Result<Result<(), CommandError>, Unanswered> {
        self.ask(|sender| Ask::Command(Box::new(command), sender)).await
    }

    /// Adds subscribers; those that were refused, with their places.
    pub(crate) async fn add(
        &self,
        subscribers: Vec<Subscriber>,
    ) -> Result<Vec<(usize, CommandError)>, Unanswered> {
        self.ask(|sender| Ask::Add(subscribers, sender)).await
    }
}
