//! Clients of a node, each in a thread of its own: one that is silent, slow, or does not read its answer does not delay the
//! others, and the node never waits for one.
//!
//! ```text
//!   connect > a line: the request > the answer: a line > closed
//!             <---- patience ---->  <---- patience --->
//! ```
//! Invariant: no more clients have a thread than there are places. If all places are taken, a new client replaces the oldest
//! client that the node waits for; if the node is working for all of them, the new client gets an error.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use weir_port::duplex;

/// Longest write: the timeout applies once per write, whatever its length.
const PIECE_BYTES: usize = 32 << 10;
/// A failed accept is repeated after this time.
const RETRY: Duration = Duration::from_millis(100);
/// Longest wait for the next client; then the wait is repeated.
const LONG: Duration = Duration::from_secs(3600);

/// Limits for clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Clients at a time.
    pub(crate) places: usize,
    /// Most bytes of a request.
    pub(crate) request_bytes: usize,
    /// Time for a client to send its request, and the same time to read its answer.
    pub(crate) patience: Duration,
}

/// Computes the answer of the node to the bytes of a request.
pub(crate) type Answer<'a> = dyn Fn(&[u8]) -> Result<Value> + Sync + 'a;

/// Answers clients until the other end of `over` is closed; then those that are left are dropped.
pub(crate) fn serve(listener: &UnixListener, over: &UnixStream, limits: Limits, answer: &Answer<'_>) {
    let present = Present::default();
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
                    // Most likely there are no descriptors left: an idle client has one.
                    present.drop_idlest();
                    std::thread::sleep(RETRY);
                    continue;
                }
            };
            let Some(place) = present.admit(stream, limits.places) else { continue };
            let present = &present;
            let client = move || Client { place, present, limits }.attend(answer);
            // If no thread can be started, the connection is closed.
            let _ = std::thread::Builder::new().name("client".into()).spawn_scoped(scope, client);
        }
        present.drop_all();
    });
}

/// Whether the next call may succeed.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// The stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The node waits for the request.
    Asks,
    /// The client waits for the answer.
    Waits,
    /// The node waits until the answer has been taken.
    Reads,
}

/// The clients that are connected, the oldest first.
#[derive(Default)]
struct Present(Mutex<Places>);

#[derive(Default)]
struct Places {
    next: u64,
    clients: BTreeMap<u64, (Arc<UnixStream>, Stage)>,
}

/// A client's place. It is free again when this is dropped.
struct Place {
    number: u64,
    stream: Arc<UnixStream>,
}

impl Present {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }

    /// A place for a client; `None`: there is none, and the client got an error.
    fn admit(&self, stream: UnixStream, most: usize) -> Option<Place> {
        let mut places = self.places();
        if places.clients.len() >= most && !places.drop_idlest() {
            let busy = anyhow!("the node is working for {most} other clients: try again");
            // Shorter than a socket's buffer, so this does not block.
            let _ = stream.set_nonblocking(true).and_then(|()| (&stream).write_all(&line(Err(busy))));
            return None;
        }
        stream.set_nonblocking(false).ok()?;
        let (number, stream) = (places.next, Arc::new(stream));
        places.next += 1;
        places.clients.insert(number, (stream.clone(), Stage::Asks));
        Some(Place { number, stream })
    }

    fn drop_idlest(&self) {
        self.places().drop_idlest();
    }

    fn drop_all(&self) {
        for (stream, _) in self.places().clients.values() {
            // The client may have closed the connection.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Places {
    /// Ends the oldest client that the node waits for; false if it waits for none.
    fn drop_idlest(&mut self) -> bool {
        let waited_for = |(_, stage): &(_, Stage)| *stage != Stage::Waits;
        let Some(number) = self.clients.iter().find(|(_, client)| waited_for(client)).map(|(n, _)| *n) else {
            return false;
        };
        let (stream, stage) = self.clients.remove(&number).expect("it was found");
        // A client that has not sent its request yet gets the reason: only reading is shut down.
        let end = if stage == Stage::Asks { Shutdown::Read } else { Shutdown::Both };
        let _ = stream.shutdown(end);
        true
    }
}

/// A client at its place.
struct Client<'a> {
    place: Place,
    present: &'a Present,
    limits: Limits,
}

impl Client<'_> {
    /// Reads the request, and writes the answer.
    fn attend(self, answer: &Answer<'_>) {
        let asked = self.request();
        if !self.is_at(Stage::Waits) {
            let dropped = anyhow!(
                "connection closed: more than {} clients, and no request received",
                self.limits.places
            );
            let _ = self.write(&line(Err(dropped)));
            return;
        }
        let answered = asked.and_then(|request| {
            // No request may end the node.
            let caught = catch_unwind(AssertUnwindSafe(|| answer(&request)));
            caught.unwrap_or_else(|_| {
                Err(anyhow!("the node failed at this request, and continues: please report it"))
            })
        });
        let answer = line(answered);
        let has_place = self.is_at(Stage::Reads);
        if answer.len() <= PIECE_BYTES {
            // The socket's buffer has room for it, so the write does not block: the place is free before the client can read it.
            self.leave();
        }
        if has_place {
            // A client that has gone, or does not read, gets no answer.
            let _ = self.write(&answer);
        }
    }

    /// Frees its place.
    fn leave(&self) {
        self.present.places().clients.remove(&self.place.number);
    }

    /// Sets the stage; false if the client has lost its place.
    fn is_at(&self, stage: Stage) -> bool {
        let mut places = self.present.places();
        let place = places.clients.get_mut(&self.place.number);
        place.map(|(_, at)| *at = stage).is_some()
    }

    /// The bytes of the request: up to the end of the line, or of the data.
    fn request(&self) -> Result<Vec<u8>> {
        let Limits { request_bytes, patience, .. } = self.limits;
        let (end, mut stream) = (Instant::now() + patience, &*self.place.stream);
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let came = left(end)
                .and_then(|left| stream.set_read_timeout(Some(left)))
                .and_then(|()| stream.read(&mut piece));
            let read = match came {
                Ok(read) => &piece[..read],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(anyhow!("no complete request within {patience:?}: send a line of JSON"));
                }
                Err(error) => return Err(error.into()),
            };
            let (line, is_last) = match read.iter().position(|&byte| byte == b'\n') {
                Some(at) => (&read[..at], true),
                None => (read, read.is_empty()),
            };
            if request.len() + line.len() > request_bytes {
                return Err(anyhow!("the request is longer than {request_bytes} bytes"));
            }
            request.extend_from_slice(line);
            if is_last {
                return Ok(request);
            }
        }
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let (end, mut stream) = (Instant::now() + self.limits.patience, &*self.place.stream);
        for mut piece in line.chunks(PIECE_BYTES) {
            while !piece.is_empty() {
                stream.set_write_timeout(Some(left(end)?))?;
                match stream.write(piece) {
                    Ok(written) => piece = &piece[written..],
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The time until `end`.
///
/// # Errors
/// The time has passed.
fn left(end: Instant) -> io::Result<Duration> {
    end.checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
        .ok_or(ErrorKind::TimedOut.into())
}

/// An answer as a client gets it.
fn line(answer: Result<Value>) -> Vec<u8> {
    let document = match answer {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": format!("{error:#}") }),
    };
    format!("{document}\n").into_bytes()
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
