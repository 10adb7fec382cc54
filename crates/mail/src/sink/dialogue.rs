//! One SMTP connection from the server's side: commands in, replies out (RFC 5321, section 4.1). Pure.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use serde::{Deserialize, Serialize};
use weir_rng::Rng;

use super::{Received, Service};

/// A command longer than this ends the connection; RFC 5321, section 4.5.3.1.4, allows 512 bytes.
const LINE: usize = 4096;
/// Most recipients of a transaction (RFC 5321, section 4.5.3.1.8, wants 100 at least).
const RECIPIENTS: u64 = 1000;

/// Faults that the sink injects, as shares 0..=1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Of the recipients: 550, always the same ones.
    pub refuse: f64,
    /// Of the RCPT commands: 450, by chance.
    pub defer: f64,
    /// Of the connections: 421 in place of a greeting.
    pub busy: f64,
    /// Of the RCPT commands: 421, and the end of the connection.
    pub cut: f64,
}

/// What is to be done when the replies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Read,
    Tls,
    Close,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Commands,
    /// Nothing of the message was taken.
    TextBegins,
    /// Within it; the last bytes so far may be the beginning of its end.
    Text,
}

/// A connection.
pub(crate) struct Dialogue {
    faults: Faults,
    pipelining: bool,
    tls: bool,
    chance: Rng,
    state: State,
    next: Next,
    mail: bool,
    recipients: u64,
    counts: Received,
    /// To be written.
    pub(crate) out: Vec<u8>,
}

/// The end of an empty message.
const EMPTY: &[u8] = b".\r\n";
/// The end of a message, with that of its last line.
const END: &[u8] = b"\r\n.\r\n";

impl Dialogue {
    pub(crate) fn new(service: &Service, seed: u64) -> Dialogue {
        let mut dialogue = Dialogue {
            faults: service.faults,
            pipelining: service.pipelining,
            tls: service.tls,
            chance: Rng::new(seed),
            state: State::Commands,
            next: Next::Read,
            mail: false,
            recipients: 0,
            counts: Received::default(),
            out: Vec::new(),
        };
        if dialogue.happens(dialogue.faults.busy) {
            dialogue.end("421 busy\r\n");
        } else {
            dialogue.say("220 mx.weir.test ESMTP\r\n");
        }
        dialogue
    }

    pub(crate) fn next(&self) -> Next {
        self.next
    }

    /// TLS is on; what was agreed before is forgotten (RFC 3207, section 4.2).
    pub(crate) fn secured(&mut self) {
        (self.next, self.tls, self.mail, self.recipients) = (Next::Read, false, false, 0);
    }

    /// What was completed since the last call.
    pub(crate) fn take_counts(&mut self) -> Received {
        std::mem::take(&mut self.counts)
    }

    /// Takes whole commands, or as much of a message as there is; returns how many bytes that was.
    pub(crate) fn input(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.next == Next::Read && !rest.is_empty() {
            let taken = match self.state {
                State::Commands => self.command(rest),
                State::TextBegins | State::Text => self.text(rest),
            };
            if taken == 0 {
                break;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        bytes.len() - rest.len()
    }

    fn command(&mut self, bytes: &[u8]) -> usize {
        let end = match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) if end <= LINE => end,
            None if bytes.len() <= LINE => return 0,
            _ => {
                self.end("421 line too long\r\n");
                return 0;
            }
        };
        let line = bytes.get(..end).unwrap_or_default();
        let verb = line.first_chunk::<4>().map(|verb| verb.to_ascii_uppercase());
        match verb.as_deref() {
            Some(b"RCPT") => self.rcpt(line),
            Some(b"MAIL") => {
                (self.mail, self.recipients) = (true, 0);
                self.say("250 ok\r\n");
            }
            Some(b"RSET") => {
                self.complete(0);
                self.say("250 ok\r\n");
            }
            Some(b"DATA") if self.recipients == 0 => self.say("554 no valid recipients\r\n"),
            Some(b"DATA") => {
                self.state = State::TextBegins;
                self.say("354 end with a dot\r\n");
            }
            Some(b"EHLO") => self.ehlo(),
            Some(b"HELO" | b"NOOP") => self.say("250 mx.weir.test\r\n"),
            Some(b"STAR") if self.tls => {
                self.say("220 go ahead\r\n");
                self.next = Next::Tls;
            }
            Some(b"QUIT") => self.end("221 bye\r\n"),
            _ => self.say("500 what?\r\n"),
        }
        end + 1
    }

    fn ehlo(&mut self) {
        self.say("250-mx.weir.test\r\n");
        if self.pipelining {
            self.say("250-PIPELINING\r\n");
        }
        if self.tls {
            self.say("250-STARTTLS\r\n");
        }
        self.say("250 8BITMIME\r\n");
    }

    fn rcpt(&mut self, line: &[u8]) {
        let is_refused = self.faults.refuse > 0.0 && {
            let hash = crc32fast::hash(line.trim_ascii());
            f64::from(hash) < self.faults.refuse * f64::from(u32::MAX)
        };
        if !self.mail {
            self.say("503 MAIL first\r\n");
        } else if self.happens(self.faults.cut) {
            self.end("421 closing\r\n");
        } else if is_refused {
            self.say("550 unknown\r\n");
        } else if self.recipients >= RECIPIENTS {
            self.say("452 too many\r\n");
        } else if self.happens(self.faults.defer) {
            self.say("450 later\r\n");
        } else {
            self.recipients += 1;
            self.say("250 ok\r\n");
        }
    }

    fn text(&mut self, bytes: &[u8]) -> usize {
        // The end of DATA's line is also that of a line before the dot.
        if self.state == State::TextBegins {
            if bytes.starts_with(EMPTY) {
                return self.taken(EMPTY.len());
            } else if EMPTY.starts_with(bytes) {
                return 0;
            }
            self.state = State::Text;
        }
        match bytes.windows(END.len()).position(|window| window == END) {
            Some(at) => self.taken(at + END.len()),
            // The end may be cut in two: its beginning stays.
            None => {
                let taken = bytes.len().saturating_sub(END.len() - 1);
                self.counts.bytes += taken as u64;
                taken
            }
        }
    }

    /// A message has ended after so many bytes.
    fn taken(&mut self, bytes: usize) -> usize {
        self.complete(bytes as u64);
        self.state = State::Commands;
        self.say("250 taken\r\n");
        bytes
    }

    fn complete(&mut self, bytes: u64) {
        if self.recipients > 0 {
            self.counts.transactions += 1;
            self.counts.recipients += self.recipients;
        }
        self.counts.bytes += bytes;
        (self.mail, self.recipients) = (false, 0);
    }

    fn say(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn end(&mut self, text: &str) {
        self.say(text);
        self.next = Next::Close;
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.chance.unit() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies to these bytes when they arrive in pieces of this size, and the messages received.
    fn say(service: &Service, bytes: &str, piece: usize) -> (String, Received) {
        let mut dialogue = Dialogue::new(service, 7);
        let mut waiting = Vec::new();
        for piece in bytes.as_bytes().chunks(piece) {
            waiting.extend_from_slice(piece);
            let taken = dialogue.input(&waiting);
            waiting.drain(..taken);
        }
        let replies = String::from_utf8(dialogue.out.clone()).unwrap();
        let codes: Vec<&str> = replies.lines().map(|line| &line[..3]).collect();
        (codes.join(" "), dialogue.take_counts())
    }

    fn check(service: &Service, bytes: &str, replies: &str, (transactions, recipients): (u64, u64)) {
        for piece in [1, 2, 3, 7, 10_000] {
            let (said, counts) = say(service, bytes, piece);
            assert_eq!(said, replies, "{bytes} in pieces of {piece}");
            assert_eq!((counts.transactions, counts.recipients), (transactions, recipients), "{bytes}");
        }
    }

    #[test]
    fn only_completed_transactions_count() {
        let plain = Service::default();
        let to = "MAIL FROM:<a>\r\nRCPT TO:<b>\r\nRCPT TO:<c>\r\n";
        check(&plain, &format!("EHLO x\r\n{to}"), "220 250 250 250 250 250 250", (0, 0));
        check(&plain, &format!("HELO x\r\n{to}RSET\r\nQUIT\r\n"), "220 250 250 250 250 250 221", (1, 2));
        check(&plain, "RCPT TO:<b>\r\nRSET\r\nDATA\r\nnonsense\r\n", "220 503 250 554 500", (0, 0));
        let message = "Subject: x\r\n\r\nfoo.\r\n..\r\n. \r\nRSET\r\n.\r\n";
        check(&plain, &format!("{to}DATA\r\n{message}NOOP\r\n"), "220 250 250 250 354 250 250", (1, 2));
        check(&plain, &format!("{to}DATA\r\n.\r\nQUIT\r\n"), "220 250 250 250 354 250 221", (1, 2));
    }

    #[test]
    fn faults_are_those_that_were_asked_for() {
        let with = |faults| Service { faults, ..Service::default() };
        let to = "MAIL FROM:<a>\r\nRCPT TO:<b>\r\nRSET\r\n";
        let none = Faults::default();
        check(&with(Faults { refuse: 1.0, ..none }), to, "220 250 550 250", (0, 0));
        check(&with(Faults { defer: 1.0, ..none }), to, "220 250 450 250", (0, 0));
        check(&with(Faults { cut: 1.0, ..none }), to, "220 250 421", (0, 0));
        check(&with(Faults { busy: 1.0, ..none }), to, "421", (0, 0));
        check(&with(none), &"x".repeat(LINE + 1), "220 421", (0, 0));
        check(&with(none), &format!("{}\n", "x".repeat(LINE + 1)), "220 421", (0, 0));
        check(
            &Service { tls: true, ..Service::default() },
            "EHLO x\r\nSTARTTLS\r\nMAIL",
            "220 250 250 250 250 220",
            (0, 0),
        );
    }
}
