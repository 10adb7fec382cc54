//! The places of the clients: who is connected, and who loses its place when all are taken.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::hub::{Ending, Mailbox};
use crate::request::Refusal;

use super::outgoing::error_line;

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not greeted.
    Greets,
    /// It waits for nothing, since this instant.
    Idle(Instant),
    /// It waits for an answer, is in the middle of a line, or has subscriptions.
    Busy,
}

/// The clients that are connected, the oldest first.
pub(super) struct Places {
    most: usize,
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    next: u64,
    clients: BTreeMap<u64, (Arc<Mailbox>, Stage)>,
}

/// A client's place. It is free again when this is dropped.
pub(super) struct Place<'a> {
    places: &'a Places,
    number: u64,
    /// How other threads reach the client.
    pub(super) mailbox: Arc<Mailbox>,
}

impl Places {
    pub(super) fn new(most: usize) -> Places {
        Places { most, seats: Mutex::default() }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("no thread panics while it holds the lock")
    }

    /// A place for a client, whose connection no longer blocks; `None`: there is none, and the client got an error.
    pub(super) fn admit(&self, mut stream: &UnixStream) -> Option<Place<'_>> {
        stream.set_nonblocking(true).ok()?;
        let mut seats = self.seats();
        if seats.clients.len() >= self.most && !seats.make_room(self.most) {
            let most = self.most;
            let busy = format!("all {most} places for clients are taken: end one of them, or try again");
            // Shorter than a socket's buffer.
            let _ = stream.write_all(&error_line(None, &Refusal::from(busy)));
            return None;
        }
        let mailbox = Arc::new(Mailbox::new().ok()?);
        let number = seats.next;
        seats.next += 1;
        seats.clients.insert(number, (mailbox.clone(), Stage::Greets));
        Some(Place { places: self, number, mailbox })
    }

    /// Ends a client that can be spared.
    pub(super) fn make_room(&self) {
        self.seats().make_room(self.most);
    }

    pub(super) fn end_all(&self, ending: &Ending) {
        self.seats().clients.values().for_each(|(mailbox, _)| mailbox.end(ending.clone()));
    }
}

impl Seats {
    /// Ends a client that can be spared; false if there is none.
    fn make_room(&mut self, places: usize) -> bool {
        let Some(number) = self.spare() else { return false };
        let (mailbox, _) = self.clients.remove(&number).expect("it was found");
        mailbox.end(Ending::Replaced { places });
        true
    }

    /// The oldest client that has not greeted, or else the one that is idle for the longest time.
    fn spare(&self) -> Option<u64> {
        let greets = self.clients.iter().find(|(_, (_, stage))| *stage == Stage::Greets);
        let idle = self.clients.iter().filter_map(|(number, (_, stage))| match stage {
            Stage::Idle(since) => Some((since, number)),
            _ => None,
        });
        greets.map(|(number, _)| *number).or_else(|| idle.min().map(|(_, number)| *number))
    }
}

impl Place<'_> {
    /// Notes what the client does; false if it has lost its place.
    pub(super) fn set(&self, stage: Stage) -> bool {
        let mut seats = self.places.seats();
        let place = seats.clients.get_mut(&self.number);
        place.map(|(_, at)| *at = stage).is_some()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.seats().clients.remove(&self.number);
    }
}
