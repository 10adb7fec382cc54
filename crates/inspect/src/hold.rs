//! Connections that are held open.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);
/// If so many connections in a row cannot be made, and none was before, there is no server.
const HOPELESS: usize = 3;
/// What a server says on a connection is read so often before the next one has its turn.
const READS: usize = 16;

/// Connections to a server.
pub(crate) struct Held {
    to: SocketAddr,
    streams: Vec<Stream>,
    /// Connections that could not be made, or that the server has closed.
    pub(crate) closed: usize,
}

struct Stream {
    stream: TcpStream,
    is_greeted: bool,
}

impl Held {
    pub(crate) fn none(to: SocketAddr) -> Held {
        Held { to, streams: Vec::new(), closed: 0 }
    }

    /// Opens connections until there were so many, those that are closed by now included.
    pub(crate) fn up_to(&mut self, count: usize) -> io::Result<()> {
        let mut failed = 0;
        for _ in self.streams.len() + self.closed..count {
            match TcpStream::connect_timeout(&self.to, CONNECT) {
                Ok(stream) => {
                    stream.set_nonblocking(true)?;
                    self.streams.push(Stream { stream, is_greeted: false });
                }
                Err(error) => {
                    self.closed += 1;
                    failed += 1;
                    // A server that answered others may be full; one that never answers is none.
                    if failed == self.closed && self.streams.is_empty() && failed >= HOPELESS.min(count) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins to speak on each: some servers, and some kernels for them, wait for the first byte.
    pub(crate) fn speak(&mut self) {
        for Stream { stream, .. } in &mut self.streams {
            // What cannot be written is seen as closed at the next look.
            let _ = stream.write(b"G");
        }
    }

    /// Reads what has come, and forgets what the server has closed. Returns how many are open.
    pub(crate) fn look(&mut self) -> usize {
        let before = self.streams.len();
        self.streams.retain_mut(|one| one.is_open());
        self.closed += before - self.streams.len();
        self.streams.len()
    }

    /// Those on which the server has said something.
    pub(crate) fn greeted(&self) -> usize {
        self.streams.iter().filter(|one| one.is_greeted).count()
    }

    /// Their ports here.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        self.streams.iter().filter_map(|one| Some(one.stream.local_addr().ok()?.port())).collect()
    }
}

impl Stream {
    fn is_open(&mut self) -> bool {
        let mut bytes = [0; 4096];
        for _ in 0..READS {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => self.is_greeted = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        // It sends more than is read: it is open.
        true
    }
}

/// One connection from its beginning to its end by the server; false if it was not made, or did not end in time.
pub(crate) fn whole(to: SocketAddr, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    let done = || -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&to, CONNECT)?;
        stream.set_read_timeout(Some(patience))?;
        let mut bytes = [0; 4096];
        while stream.read(&mut bytes)? > 0 {
            if Instant::now() >= until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    };
    match done() {
        Ok(()) => true,
        // A server that closes with our bytes unread resets the connection: an end, too.
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that never stops to speak, on each connection.
    fn talker() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // An error means that the client has gone, which is no failure of the test.
                thread::spawn(move || drop(io::copy(&mut io::repeat(b'x'), &mut stream.unwrap())));
            }
        });
        at
    }

    #[test]
    fn a_server_that_never_stops_to_speak_is_left() {
        let at = talker();
        let mut held = Held::none(at);
        held.up_to(2).unwrap();
        while held.greeted() < 2 {
            assert_eq!((held.look(), held.closed), (2, 0));
        }
        assert!(!whole(at, Duration::from_millis(200)), "it does not end");
    }
}
