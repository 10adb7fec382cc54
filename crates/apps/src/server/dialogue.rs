//! The dialogue of one connection: (request), reply, end. The same for all architectures, whether calls wait or not.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use super::{Closing, Service, http};
use crate::sys;

/// What a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// "450 too busy", as soon as there is a connection.
    Busy,
    /// The line that the client sends.
    Echo,
    /// A small HTTP reply to a request.
    Http,
}

/// The text of [`Reply::Busy`].
pub(crate) const BUSY: &[u8] = b"450 too busy\r\n";
/// Longest request.
pub(crate) const MOST: usize = 4096;

impl Reply {
    /// All of them with the names that plans and records use.
    pub const ALL: [(Reply, &'static str); 3] =
        [(Reply::Busy, "busy"), (Reply::Echo, "echo"), (Reply::Http, "http")];

    /// Its name.
    pub fn name(self) -> &'static str {
        Reply::ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }

    /// Does the client speak first?
    pub(crate) fn has_request(self) -> bool {
        self != Reply::Busy
    }

    /// Is this all that the client has to say?
    pub(crate) fn is_whole(self, request: &[u8]) -> bool {
        match self {
            Reply::Busy => true,
            Reply::Echo => request.ends_with(b"\n"),
            Reply::Http => request.ends_with(b"\r\n\r\n"),
        }
    }

    /// Hands out the reply to a request.
    pub(crate) fn with_text<R>(self, request: &[u8], use_it: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Reply::Busy => use_it(BUSY),
            Reply::Echo => use_it(request),
            Reply::Http => http::with_reply(use_it),
        }
    }
}

/// Where a dialogue is.
#[derive(Debug, PartialEq)]
enum State {
    /// The client speaks; what it has said, without an allocation as long as that is nothing.
    Asked(Vec<u8>),
    /// The rest of the reply.
    Replying(Vec<u8>),
    /// The client has the reply and keeps the connection.
    Held,
}

/// A dialogue.
#[derive(Debug)]
pub(crate) struct Dialogue {
    reply: Reply,
    closing: Closing,
    state: State,
}

/// What a dialogue waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Readable,
    Writable,
    /// Nothing: the connection is to be closed.
    End,
}

impl Dialogue {
    pub(crate) fn new(service: &Service) -> Dialogue {
        Dialogue::of(service.reply, service.closing)
    }

    pub(crate) fn of(reply: Reply, closing: Closing) -> Dialogue {
        Dialogue { reply, closing, state: State::Asked(Vec::new()) }
    }

    /// Goes as far as it can without waiting; on a socket whose calls wait, to its end. An error of the connection ends it.
    pub(crate) fn advance(&mut self, socket: BorrowedFd<'_>) -> Next {
        self.try_advance(socket).unwrap_or_else(|error| match (error.kind(), &self.state) {
            (ErrorKind::WouldBlock, State::Replying(_)) => Next::Writable,
            (ErrorKind::WouldBlock, _) => Next::Readable,
            _ => Next::End,
        })
    }

    fn try_advance(&mut self, socket: BorrowedFd<'_>) -> io::Result<Next> {
        let mut buffer = [0; MOST];
        loop {
            match &mut self.state {
                State::Asked(said) => {
                    if self.reply.has_request() {
                        let n = retried(|| sys::receive(socket, &mut buffer))?;
                        if n == 0 || said.len() + n > MOST {
                            return Ok(Next::End);
                        }
                        let (last, before) = (&buffer[..n], !said.is_empty());
                        if before || !self.reply.is_whole(last) {
                            said.extend_from_slice(last);
                            if !self.reply.is_whole(said) {
                                continue;
                            }
                        }
                        let whole = if said.is_empty() { last } else { said };
                        self.state = self.reply.with_text(whole, |text| say(socket, text))?;
                    } else {
                        self.state = self.reply.with_text(&[], |text| say(socket, text))?;
                    }
                }
                State::Replying(rest) => {
                    let n = retried(|| sys::send(socket, rest))?;
                    rest.drain(..n);
                    if rest.is_empty() {
                        self.state = State::Held;
                    }
                }
                State::Held if self.closing == Closing::AfterReply => return Ok(Next::End),
                State::Held => {
                    if retried(|| sys::receive(socket, &mut buffer))? == 0 {
                        return Ok(Next::End);
                    }
                }
            }
        }
    }
}

/// Sends what the socket takes at once; nearly always all.
fn say(socket: BorrowedFd<'_>, text: &[u8]) -> io::Result<State> {
    match retried(|| sys::send(socket, text)) {
        Ok(n) if n == text.len() => Ok(State::Held),
        Ok(n) => Ok(State::Replying(text[n..].to_vec())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(State::Replying(text.to_vec())),
        Err(error) => Err(error),
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The client says the parts one by one; what the dialogue waits for after each, and what the client has in the end.
    fn check(reply: Reply, closing: Closing, parts: &[&str], nexts: &[Next], text: &str) {
        let (mut client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let mut dialogue = Dialogue::of(reply, closing);
        let mut found = vec![dialogue.advance(server.as_fd())];
        for part in parts {
            client.write_all(part.as_bytes()).unwrap();
            found.push(dialogue.advance(server.as_fd()));
        }
        assert_eq!(found, nexts, "{reply:?} {parts:?}");
        drop(server);
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert!(said.starts_with(text) && said.is_empty() == text.is_empty(), "{reply:?} {parts:?}: {said}");
    }

    #[test]
    fn a_dialogue_replies_to_a_whole_request() {
        use Closing::{AfterClient, AfterReply};
        use Next::{End, Readable};
        check(Reply::Busy, AfterReply, &[], &[End], "450 too busy\r\n");
        check(Reply::Busy, AfterClient, &[], &[Readable], "450 too busy\r\n");
        check(Reply::Echo, AfterReply, &["ab", "c\n"], &[Readable, Readable, End], "abc\n");
        check(Reply::Echo, AfterClient, &["a\n", "x"], &[Readable, Readable, Readable], "a\n");
        let request = ["GET / HTTP/1.1\r\nHost: a\r\n", "\r\n"];
        check(Reply::Http, AfterReply, &request, &[Readable, Readable, End], "HTTP/1.1 200 OK\r\n");
        let long = "x".repeat(MOST);
        check(Reply::Echo, AfterReply, &[&long, "y\n"], &[Readable, Readable, End], "");
    }

    #[test]
    fn a_client_that_leaves_ends_it() {
        let (client, server) = UnixStream::pair().unwrap();
        let mut dialogue = Dialogue::of(Reply::Echo, Closing::AfterReply);
        drop(client);
        assert_eq!(dialogue.advance(server.as_fd()), Next::End);
    }
}
