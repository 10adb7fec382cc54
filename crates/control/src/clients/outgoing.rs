//! The bytes to a client that its socket has not taken yet, with the descriptors that pass with some of them.
//!
//! Invariant: the descriptors of an answer go with the first byte of its line.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use weir_linux::descriptors;

use crate::answers::Reply;
use crate::hub::Notice;
use crate::request::Refusal;

/// What is to be written.
pub(super) struct Outgoing {
    pieces: VecDeque<Piece>,
    /// The client last took some bytes then, or there were none to take before.
    pub(super) taken: Instant,
}

struct Piece {
    bytes: Vec<u8>,
    /// So many of them are written.
    written: usize,
    descriptors: Vec<OwnedFd>,
}

impl Outgoing {
    pub(super) fn new() -> Outgoing {
        Outgoing { pieces: VecDeque::new(), taken: Instant::now() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes.len() - piece.written).sum()
    }

    /// Appends a line, with these descriptors.
    pub(super) fn push(&mut self, line: Vec<u8>, descriptors: Vec<OwnedFd>) {
        if self.pieces.is_empty() {
            self.taken = Instant::now();
        }
        match self.pieces.back_mut() {
            Some(last) if descriptors.is_empty() && last.descriptors.is_empty() => last.bytes.extend(line),
            _ => self.pieces.push_back(Piece { bytes: line, written: 0, descriptors }),
        }
    }

    /// Writes what the socket takes now; whether it took anything.
    pub(super) fn write(&mut self, to: &UnixStream) -> io::Result<bool> {
        let mut has_taken = false;
        while let Some(piece) = self.pieces.front_mut() {
            let all: Vec<_> = piece.descriptors.iter().map(AsFd::as_fd).collect();
            match descriptors::send(to, &piece.bytes[piece.written..], &all) {
                Ok(written) => {
                    // They are the client's now.
                    piece.descriptors.clear();
                    piece.written += written;
                    has_taken = true;
                    self.taken = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(has_taken),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if piece.written == piece.bytes.len() {
                self.pieces.pop_front();
            }
        }
        Ok(has_taken)
    }
}

/// A value as a line.
pub(super) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("it is plain data");
    line.push(b'\n');
    line
}

/// The answer to a request that failed, or a line about no request.
pub(super) fn error_line(id: Option<u64>, error: &Refusal) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        error: &'a Refusal,
    }
    line(&Line { id, error })
}

/// The answer to a request.
pub(super) fn answer_line(id: u64, reply: &Reply) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        id: u64,
        ok: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        descriptors: Option<usize>,
    }
    let descriptors = (!reply.fds.is_empty()).then_some(reply.fds.len());
    line(&Line { id, ok: &reply.value, descriptors })
}

/// A line of a subscription to events.
pub(super) fn notice_line(notice: &Notice) -> Vec<u8> {
    match notice {
        // The event is JSON already.
        Notice::Event { subscription, text } => {
            format!("{{\"subscription\":{subscription},\"event\":{text}}}\n").into_bytes()
        }
        Notice::LeftOut { subscription, events } => left_out_line(*subscription, *events),
    }
}

/// So many lines of a subscription are left out here.
pub(super) fn left_out_line(subscription: u64, left_out: u64) -> Vec<u8> {
    format!("{{\"subscription\":{subscription},\"left_out\":{left_out}}}\n").into_bytes()
}

/// A line of a subscription to counters.
pub(super) fn counters_line(subscription: u64, counters: &Value) -> Vec<u8> {
    format!("{{\"subscription\":{subscription},\"counters\":{counters}}}\n").into_bytes()
}
