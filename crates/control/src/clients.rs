//! Clients of a node, each in a separate thread: one that is silent, slow, or does not read does not delay the others, and the
//! node never waits for one.
//!
//! ```text
//!   accept > a place (places) > its thread: greetings, then lines one after the other (connection)
//!                               bytes from the client (lines) and to it (outgoing)
//!                               events from other threads (crate::hub)
//! ```
//! Invariant: no more clients have a place than there are places. If all places are taken, a new client replaces the oldest one
//! that has not greeted, or else the one that is idle for the longest time and has no subscription; if there is none, the new
//! client gets an error.

mod connection;
mod lines;
mod outgoing;
mod places;

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use weir_port::duplex;

use super::answers::Reply;
use super::hub::{Ending, Hub};
use super::request::{Ask, Refusal};
use connection::Connection;
use places::Places;

/// A failed accept is repeated after this time.
const RETRY: Duration = Duration::from_millis(100);
/// Longest wait for the next client; then the wait is repeated.
const LONG: Duration = Duration::from_secs(3600);

/// Limits for clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Clients at a time.
    pub(crate) places: usize,
    /// Most bytes of a line.
    pub(crate) line_bytes: usize,
    /// Time for a client to send its hello, to end a line that it has begun, and to take bytes that were written to it.
    pub(crate) patience: Duration,
    /// Subscriptions of a client.
    pub(crate) subscriptions: usize,
}

/// Computes the answer of the node.
pub(crate) type Answer<'a> = dyn Fn(Ask) -> Result<Reply, Refusal> + Sync + 'a;

/// What clients are served with.
pub(crate) struct Served<'a> {
    /// The answers to their requests.
    pub(crate) answer: &'a Answer<'a>,
    /// The counters of the node, for subscriptions.
    pub(crate) counters: &'a (dyn Fn() -> Result<Value> + Sync),
    /// The events of the node.
    pub(crate) hub: &'a Hub,
    /// Called before the first client subscribes to events.
    pub(crate) before_events: &'a (dyn Fn() + Sync),
    /// The limits for all of them.
    pub(crate) limits: Limits,
}

/// Serves clients until the other end of `over` is closed; then those that are left are dropped.
pub(crate) fn serve(listener: &UnixListener, over: &UnixStream, served: &Served<'_>) {
    let places = Places::new(served.limits.places);
    std::thread::scope(|scope| {
        loop {
            let ready = duplex::wait(&[over.as_fd(), listener.as_fd()], LONG);
            if ready.is_ok_and(|failed| failed.contains(&0)) {
                break;
            }
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_passing(&error) => continue,
                Err(_) => {
                    // Most likely there are no descriptors left: an idle client has some.
                    places.make_room();
                    std::thread::sleep(RETRY);
                    continue;
                }
            };
            let Some(place) = places.admit(&stream) else { continue };
            let client = move || Connection::new(stream, place, served).attend();
            // If no thread can be started, the connection is closed.
            let _ = std::thread::Builder::new().name("client".into()).spawn_scoped(scope, client);
        }
        places.end_all(&Ending::Over);
    });
}

/// Whether the next call may succeed.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

#[cfg(test)]
mod tests;
