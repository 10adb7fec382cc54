//! One connection of the client: from connect to the end of the reply.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::server::Reply;
use crate::sys;

/// A connection.
pub(crate) struct Flight {
    socket: OwnedFd,
    /// When it was due, and when it began.
    pub(crate) due: Duration,
    pub(crate) began: Duration,
    asked: bool,
    received: usize,
}

/// What an event has brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing that ends it.
    None,
    /// The whole reply, for the first time.
    Reply,
    /// The end, after the whole reply.
    End,
    Failed(String),
}

/// Most bytes of a reply; a server that sends more may never stop.
const MOST: usize = 1 << 20;

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
    pub(crate) fn new(socket: OwnedFd, due: Duration, began: Duration) -> Flight {
        Flight { socket, due, began, asked: false, received: 0 }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Asks, as soon as there is a connection; false if there is none yet.
    pub(crate) fn ask(&mut self, reply: Reply) -> bool {
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
    pub(crate) fn read(&mut self, reply: Reply, ended: bool) -> News {
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
                    if self.received > MOST {
                        return News::Failed("endless reply".into());
                    }
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
    pub(crate) fn is_held(&self, reply: Reply) -> bool {
        let mut buffer = [0; 1];
        let found = sys::receive(self.socket.as_fd(), &mut buffer).map_err(|error| error.kind());
        self.received >= words(reply).0 && found.is_err_and(|kind| kind == ErrorKind::WouldBlock)
    }
}

/// What people call an error of a connection.
pub(crate) fn name(error: &io::Error, has_reply: bool) -> String {
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_reply_that_does_not_end_is_a_failure() {
        let (mut server, client) = UnixStream::pair().unwrap();
        let talker = std::thread::spawn(move || while server.write_all(&[b'x'; 4096]).is_ok() {});
        let mut flight = Flight::new(client.into(), Duration::ZERO, Duration::ZERO);
        // On a socket that waits, reading goes on for as long as there is something.
        assert_eq!(flight.read(Reply::Busy, true), News::Failed("endless reply".into()));
        drop(flight);
        talker.join().unwrap();
    }
}
