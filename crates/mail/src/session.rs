//! One SMTP connection from the client's side as a state machine: bytes to send, replies in, an outcome for each recipient
//! (RFC 5321, RFC 2920, RFC 3207). Pure.
//!
//! ```text
//! greeting > EHLO (> STARTTLS > EHLO) > [ MAIL > RCPT ... > RSET | DATA > text > . ] ... > QUIT
//! ```
//! Every recipient that is given to it is in [`Session::news`] in the end, whatever the server does.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::reply::{NoReply, Reply};

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// RSET in place of DATA: every step but the message.
    Rset,
    /// A message with this many bytes of text.
    Data(u32),
}

/// Is TLS used?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartTls {
    /// No.
    Never,
    /// Where the server offers it.
    Offered,
    /// Without it nothing is delivered.
    Required,
}

/// Settings of a client for all its connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    /// Its name in EHLO.
    pub helo: String,
    /// Sender of the messages.
    pub from: String,
    /// Sends commands without waiting for the replies in between, where the server offers it (RFC 2920).
    pub pipelining: bool,
    /// TLS.
    pub tls: StartTls,
    /// RSET or a message.
    pub ending: Ending,
}

/// A step of the dialogue that has a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// The connection itself.
    Connect,
    /// The first line of the server.
    Greeting,
    /// EHLO, or HELO where it is not known.
    Ehlo,
    /// STARTTLS, and the handshake after it.
    StartTls,
    /// MAIL FROM.
    Mail,
    /// RCPT TO.
    Rcpt,
    /// DATA.
    Data,
    /// The message.
    Text,
    /// RSET.
    Rset,
    /// QUIT.
    Quit,
}

impl Verb {
    /// All, in the order in which they occur.
    pub const ALL: [Verb; 10] = [
        Verb::Connect,
        Verb::Greeting,
        Verb::Ehlo,
        Verb::StartTls,
        Verb::Mail,
        Verb::Rcpt,
        Verb::Data,
        Verb::Text,
        Verb::Rset,
        Verb::Quit,
    ];

    /// As in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Connect => "connect",
            Verb::Greeting => "greeting",
            Verb::Ehlo => "EHLO",
            Verb::StartTls => "STARTTLS",
            Verb::Mail => "MAIL",
            Verb::Rcpt => "RCPT",
            Verb::Data => "DATA",
            Verb::Text => "message",
            Verb::Rset => "RSET",
            Verb::Quit => "QUIT",
        }
    }
}

/// Cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The server's reply.
    Code(u16),
    /// No complete reply in time.
    Silent,
    /// The server closed or reset the connection.
    Closed,
    /// Its reply is no reply of SMTP.
    Malformed,
    /// Its reply does not end.
    Endless,
    /// It sent a reply without a command.
    Unasked,
    /// TLS was required and is not offered, or its handshake failed.
    NoTls,
    /// Nothing accepts connections there.
    Refused,
    /// The domain does not exist or takes no mail (RFC 7505).
    NoMail,
    /// No name server has answered.
    NoAnswer,
    /// The address is not on the loopback, where alone the engine delivers by MX.
    Elsewhere,
    /// No descriptor, port or memory for another connection.
    NoResource,
}

/// Where it failed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// At which step.
    pub at: Verb,
    /// Why.
    pub cause: Cause,
}

impl Trouble {
    /// The code of the server's reply, else 0.
    pub fn code(self) -> u16 {
        if let Cause::Code(code) = self.cause { code } else { 0 }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.name();
        match self.cause {
            Cause::Code(code) => write!(f, "{code} to {at}"),
            Cause::Silent => write!(f, "no reply to {at} in time"),
            Cause::Closed => write!(f, "connection closed at {at}"),
            Cause::Malformed => write!(f, "no SMTP reply to {at}"),
            Cause::Endless => write!(f, "endless reply to {at}"),
            Cause::Unasked => write!(f, "a reply too many after {at}"),
            Cause::NoTls => f.write_str("no TLS"),
            Cause::Refused => f.write_str("connection refused"),
            Cause::NoMail => f.write_str("domain takes no mail"),
            Cause::NoAnswer => f.write_str("no answer from the name server"),
            Cause::Elsewhere => f.write_str("address outside the loopback"),
            Cause::NoResource => f.write_str("no descriptor or port for a connection"),
        }
    }
}

/// A recipient of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Recipient {
    /// Number in the job.
    pub(crate) id: u64,
    /// How often delivery was tried before.
    pub(crate) attempts: u8,
}

/// The outcome of a recipient on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server accepted the message; its code.
    Delivered(u16),
    /// The server refused the message for good.
    Failed(Trouble),
    /// Not now: to be tried again.
    Deferred(Trouble),
}

/// The next step of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// A reply to this.
    Reply(Verb),
    /// The TLS handshake, then [`Session::secured`].
    Tls,
    /// A transaction, or [`Session::quit`].
    Transaction,
    /// It is over: close it.
    Close,
}

/// A command on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Verb(Verb),
    Rcpt(Recipient),
}

impl Command {
    fn verb(self) -> Verb {
        match self {
            Command::Verb(verb) => verb,
            Command::Rcpt(_) => Verb::Rcpt,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Opening,
    Handshake,
    Ready,
    Over,
}

/// Appends the address of a recipient.
pub(crate) type AddressOf<'a> = &'a dyn Fn(u64, &mut Vec<u8>);

/// One connection.
pub(crate) struct Session {
    manner: Rc<Manner>,
    state: State,
    /// TLS is on.
    secure: bool,
    /// Offered in the last reply to EHLO.
    pipelining: bool,
    helo: bool,
    /// Sent, without a reply so far.
    sent: VecDeque<Command>,
    /// To be sent, each up to this place of `lines`.
    next: VecDeque<(Command, usize)>,
    lines: Vec<u8>,
    taken: usize,
    accepted: Vec<(Recipient, u16)>,
    refused_mail: Option<Trouble>,
    /// The step of the last reply.
    last: Verb,
    /// Why the connection was broken off, if it was.
    pub(crate) broken: Option<Trouble>,
    /// Transactions that were completed and not yet reported.
    transactions: u64,
    has_reported: bool,
    /// To be written.
    pub(crate) out: Vec<u8>,
    /// Recipients with an outcome that is not yet reported.
    outcomes: Vec<(Recipient, Outcome)>,
}

/// Results of a connection since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Recipients with an outcome.
    pub(crate) outcomes: Vec<(Recipient, Outcome)>,
    /// Transactions that were completed.
    pub(crate) transactions: u64,
}

impl Session {
    /// A new connection.
    pub(crate) fn new(manner: Rc<Manner>) -> Session {
        Session {
            manner,
            state: State::Opening,
            secure: false,
            pipelining: false,
            helo: false,
            sent: VecDeque::from([Command::Verb(Verb::Greeting)]),
            next: VecDeque::new(),
            lines: Vec::new(),
            taken: 0,
            accepted: Vec::new(),
            refused_mail: None,
            last: Verb::Greeting,
            broken: None,
            transactions: 0,
            has_reported: false,
            out: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    /// The next step, once `out` has been written.
    pub(crate) fn want(&self) -> Want {
        match (&self.state, self.sent.front()) {
            (State::Over, _) => Want::Close,
            (_, Some(command)) => Want::Reply(command.verb()),
            (State::Handshake, None) => Want::Tls,
            (State::Opening | State::Ready, None) => Want::Transaction,
        }
    }

    /// Whether the server was ready for mail. Before that no recipient has an outcome from this connection.
    pub(crate) fn was_ready(&self) -> bool {
        self.state == State::Ready || self.transactions > 0 || self.has_reported
    }

    /// Outcomes and transactions since the last call.
    pub(crate) fn news(&mut self) -> News {
        self.has_reported |= !self.outcomes.is_empty();
        News {
            outcomes: std::mem::take(&mut self.outcomes),
            transactions: std::mem::take(&mut self.transactions),
        }
    }

    /// Sends the message to these.
    pub(crate) fn transaction(&mut self, recipients: &[Recipient], address_of: AddressOf<'_>) {
        self.lines.clear();
        self.taken = 0;
        let from = format!("MAIL FROM:<{}>\r\n", self.manner.from);
        self.line(Command::Verb(Verb::Mail), |lines| lines.extend_from_slice(from.as_bytes()));
        for &recipient in recipients {
            self.line(Command::Rcpt(recipient), |lines| {
                lines.extend_from_slice(b"RCPT TO:<");
                address_of(recipient.id, lines);
                lines.extend_from_slice(b">\r\n");
            });
        }
        match self.manner.ending {
            Ending::Rset => {
                self.line(Command::Verb(Verb::Rset), |lines| lines.extend_from_slice(b"RSET\r\n"))
            }
            Ending::Data(_) => {
                self.line(Command::Verb(Verb::Data), |lines| lines.extend_from_slice(b"DATA\r\n"));
            }
        }
        self.send_next();
    }

    fn line(&mut self, command: Command, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.lines);
        self.next.push_back((command, self.lines.len()));
    }

    /// One command, or all of them.
    fn send_next(&mut self) {
        while let Some((command, end)) = self.next.pop_front() {
            self.out.extend_from_slice(self.lines.get(self.taken..end).unwrap_or_default());
            self.taken = end;
            self.sent.push_back(command);
            if !self.pipelining {
                break;
            }
        }
    }

    fn send(&mut self, verb: Verb, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.sent.push_back(Command::Verb(verb));
    }

    /// Sends QUIT.
    pub(crate) fn quit(&mut self) {
        self.send(Verb::Quit, "QUIT\r\n");
    }

    /// The TLS handshake is done.
    pub(crate) fn secured(&mut self) {
        (self.secure, self.state) = (true, State::Opening);
        self.hello();
    }

    fn hello(&mut self) {
        let word = if self.helo { "HELO" } else { "EHLO" };
        let line = format!("{word} {}\r\n", self.manner.helo);
        self.send(Verb::Ehlo, &line);
    }

    /// The reply to the command that waits longest.
    pub(crate) fn reply(&mut self, reply: Reply<'_>) {
        let code = reply.code;
        let Some(command) = self.sent.pop_front() else {
            // A server that ends may say so at any time (RFC 5321, section 3.8).
            return self.break_off(if code == 421 { Cause::Code(421) } else { Cause::Unasked });
        };
        let verb = command.verb();
        self.last = verb;
        if code == 421 && verb != Verb::Quit {
            self.sent.push_front(command);
            return self.break_off(Cause::Code(421));
        }
        match command {
            Command::Rcpt(recipient) => self.rcpt(recipient, code),
            Command::Verb(Verb::Quit) => self.state = State::Over,
            Command::Verb(verb) => self.step(verb, reply),
        }
        if self.sent.is_empty() && self.state == State::Ready {
            self.skip_data();
            self.send_next();
        }
    }

    fn step(&mut self, verb: Verb, reply: Reply<'_>) {
        let code = reply.code;
        let trouble = Trouble { at: verb, cause: Cause::Code(code) };
        match (verb, code) {
            (Verb::Greeting, 220) => self.hello(),
            (Verb::Ehlo, 250) => self.offers(reply),
            (Verb::Ehlo, 500..=599) if !self.helo => {
                self.helo = true;
                self.hello();
            }
            (Verb::StartTls, 220) => self.state = State::Handshake,
            (Verb::StartTls, _) if self.manner.tls == StartTls::Offered => self.state = State::Ready,
            (Verb::Mail, 250) => self.refused_mail = None,
            (Verb::Mail, 400..=599) => self.refused_mail = Some(trouble),
            (Verb::Rset, 250) => self.complete(code),
            // Only a message can be refused for good: RSET fails with a server that is broken.
            (Verb::Rset, 400..=599) => self.settle(|_| Outcome::Deferred(trouble)),
            (Verb::Data, 354) => self.text(),
            (Verb::Text, 250..=259) => self.complete(code),
            (Verb::Data | Verb::Text, 400..=499) => self.settle(|_| Outcome::Deferred(trouble)),
            (Verb::Data | Verb::Text, 500..=599) => self.settle(|_| Outcome::Failed(trouble)),
            (Verb::Greeting | Verb::Ehlo | Verb::StartTls, 400..=599) => {
                self.sent.push_front(Command::Verb(verb));
                self.break_off(Cause::Code(code));
            }
            _ => {
                self.sent.push_front(Command::Verb(verb));
                self.break_off(Cause::Malformed);
            }
        }
    }

    fn offers(&mut self, reply: Reply<'_>) {
        let offers = |word: &[u8]| {
            reply
                .lines()
                .skip(1)
                .any(|line| line.split(|b| *b == b' ').next().is_some_and(|w| w.eq_ignore_ascii_case(word)))
        };
        self.pipelining = self.manner.pipelining && !self.helo && offers(b"PIPELINING");
        match self.manner.tls {
            StartTls::Offered | StartTls::Required if !self.secure && offers(b"STARTTLS") => {
                self.send(Verb::StartTls, "STARTTLS\r\n");
            }
            StartTls::Required if !self.secure => self.break_off(Cause::NoTls),
            _ => self.state = State::Ready,
        }
    }

    fn rcpt(&mut self, recipient: Recipient, code: u16) {
        let trouble = self.refused_mail.unwrap_or(Trouble { at: Verb::Rcpt, cause: Cause::Code(code) });
        match (trouble.code(), code) {
            (200..=299, 200..=299) => self.accepted.push((recipient, code)),
            (400..=499, _) => self.outcomes.push((recipient, Outcome::Deferred(trouble))),
            (500..=599, _) => self.outcomes.push((recipient, Outcome::Failed(trouble))),
            _ => {
                self.sent.push_front(Command::Rcpt(recipient));
                self.break_off(Cause::Malformed);
            }
        }
    }

    /// No accepted recipient is left for DATA: the transaction is dropped (RFC 5321, section 4.1.1.5).
    fn skip_data(&mut self) {
        let is_data = self.next.front().is_some_and(|(next, _)| *next == Command::Verb(Verb::Data));
        if is_data && self.accepted.is_empty() {
            self.next.clear();
            self.send(Verb::Rset, "RSET\r\n");
        }
    }

    /// Lines of 64 bytes; none without a recipient (RFC 2920, section 3.1).
    fn text(&mut self) {
        const LINE: &[u8; 64] = b"The quick brown fox jumps over the lazy dog, again and again.\x20\r\n";
        if let (Ending::Data(bytes), false) = (self.manner.ending, self.accepted.is_empty()) {
            let header = format!("From: <{}>\r\nSubject: weir\r\n\r\n", self.manner.from);
            self.out.extend_from_slice(header.as_bytes());
            for _ in 0..(bytes as usize).saturating_sub(header.len()).div_ceil(LINE.len()) {
                self.out.extend_from_slice(LINE);
            }
        }
        self.send(Verb::Text, ".\r\n");
    }

    fn complete(&mut self, code: u16) {
        if !self.accepted.is_empty() {
            self.transactions += 1;
        }
        self.settle(|_| Outcome::Delivered(code));
    }

    fn settle(&mut self, outcome: impl Fn(u16) -> Outcome) {
        self.outcomes.extend(self.accepted.drain(..).map(|(recipient, code)| (recipient, outcome(code))));
    }

    /// The connection has failed: recipients without an outcome are deferred.
    pub(crate) fn break_off(&mut self, cause: Cause) {
        let at = self.sent.front().map_or(self.last, |command| command.verb());
        let trouble = Trouble { at, cause };
        self.settle(|_| Outcome::Deferred(trouble));
        let unsent = self.next.drain(..).map(|(command, _)| command);
        for command in self.sent.drain(..).chain(unsent) {
            if let Command::Rcpt(recipient) = command {
                self.outcomes.push((recipient, Outcome::Deferred(trouble)));
            }
        }
        self.broken = Some(trouble);
        self.state = State::Over;
    }
}

impl From<NoReply> for Cause {
    fn from(what: NoReply) -> Cause {
        match what {
            NoReply::Malformed => Cause::Malformed,
            NoReply::TooLong => Cause::Endless,
        }
    }
}

#[cfg(test)]
mod tests;
