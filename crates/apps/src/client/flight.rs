//! One connection of the client: from connect to the end of the reply.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::server::Reply;
use crate::sys;

/// A connection.
pub(super) struct Flight {
    socket: OwnedFd,
    /// When it was due, and when it began.
    pub(super) due: Duration,
    pub(super) began: Duration,
    asked: bool,
    received: usize,
}

/// What an event has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing that ends it.
    None,
    /// The whole reply, for the first time.
    Reply,
    /// The end, after the whole reply.
    End,
    Failed(String),
}

/// What each reply is at least, bytes, and the request for it.
fn words(reply: Reply) -> (usize, &'static [u8]) {
    const LINE: &[u8] = b"the quick brown fox jumps over the lazy dog, and back again\n";
    match reply {
        Reply::Busy => (b"450 too busy\r\n".len(), b""),
        Reply::Echo => (LINE.len(), LINE),
        // Servers differ in the lines of their head.
        Reply::Http => (40, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
    }
}

impl Flight {
    pub(super) fn new(socket: OwnedFd, due: Duration, began: Duration) -> Flight {
        Flight { socket, due, began, asked: false, received: 0 }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Asks, as soon as there is a connection; false if there is none yet.
    pub(super) fn ask(&mut self, reply: Reply) -> bool {
        let (_, request) = words(reply);
        if !self.asked && !request.is_empty() {
            // What goes wrong here is found when the reply is read.
            let sent = sys::send(self.socket.as_fd(), request);
            let later = [ErrorKind::WouldBlock, ErrorKind::NotConnected, ErrorKind::BrokenPipe];
            if sent.as_ref().is_err_and(|error| later.contains(&error.kind())) {
                return false;
            }
        }
        self.asked = true;
        true
    }

    /// Reads what there is.
    pub(super) fn read(&mut self, reply: Reply, ended: bool) -> News {
        let (least, _) = words(reply);
        if !self.ask(reply) && !ended {
            return News::None;
        }
        let mut buffer = [0; 2048];
        let before = self.received;
        loop {
            match sys::receive(self.socket.as_fd(), &mut buffer) {
                Ok(0) if self.received >= least => return News::End,
                Ok(0) => return News::Failed("short reply".into()),
                Ok(n) => {
                    self.received += n;
                    if n < buffer.len() && !ended {
                        break;
                    }
                    // The kernel has said that the end follows: that need not be read.
                    if n < buffer.len() && self.received >= least {
                        return News::End;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return News::Failed(name(&error, self.received > 0)),
            }
        }
        if before < least && self.received >= least { News::Reply } else { News::None }
    }

    /// Has it its reply, and is it open, with nothing that has come since?
    pub(super) fn is_held(&self, reply: Reply) -> bool {
        let mut buffer = [0; 1];
        let found = sys::receive(self.socket.as_fd(), &mut buffer).map_err(|error| error.kind());
        self.received >= words(reply).0 && found.is_err_and(|kind| kind == ErrorKind::WouldBlock)
    }
}

/// What people call an error of a connection.
pub(super) fn name(error: &io::Error, has_reply: bool) -> String {
    match error.raw_os_error() {
        Some(libc::ECONNRESET) if has_reply => "reset after the reply".into(),
        Some(libc::ECONNRESET) => "reset before the reply".into(),
        Some(libc::ECONNREFUSED) => "refused".into(),
        Some(libc::ETIMEDOUT) => "timed out".into(),
        Some(libc::EADDRNOTAVAIL) => "no free port (EADDRNOTAVAIL)".into(),
        Some(libc::EMFILE) => "no descriptor left (EMFILE)".into(),
        _ => error.to_string(),
    }
}
