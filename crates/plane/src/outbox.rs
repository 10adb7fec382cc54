//! Frames that the node sends by itself: errors of ICMP, questions about neighbours, what a stage had kept. They pass
//! the pipeline from where they are born, in a batch of their own within the same run.
//!
//! Invariant: between two runs none waits here, so that no number of a stage outlives the stages that it counts.

use std::net::IpAddr;

use crate::dir::EntryPoint;
use crate::frame::{Frame, Kind, Known, PortId};
use crate::icmp::Error;
use crate::kept::{Decided, KeptFrames, Originated, Then, Ticket};
use crate::limiter::{Limiter, Row};
use crate::limits::Limits;
use crate::report;
use crate::reset;
use crate::time::Time;

/// Most frames of its own that the node sends in a batch: they cost more than to pass one on.
const MOST: usize = 256;

/// Frames that the node sends.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) waiting: Vec<Originated>,
    /// Frames made by the node.
    pub(crate) made: u64,
    /// Frames and copies that stages keep.
    pub(crate) kept_count: u64,
    pub(crate) kept: KeptFrames,
    /// Frames that stages kept and a panic has cost.
    pub(crate) lost: u64,
    /// Frames that there was no room for.
    pub(crate) refused: u64,
    /// Fragments that were kept and gave way to others.
    pub(crate) gave_way: u64,
    /// The node's addresses by port: what its errors come from.
    addresses: Vec<Vec<IpAddr>>,
    limiter: Limiter,
    /// The stage at work: after a panic, its state is unknown.
    pub(crate) at_work: Option<usize>,
}

impl Outbox {
    /// Nothing to say yet; these are the node's addresses by port, and what may be said.
    pub(crate) fn new(addresses: Vec<Vec<IpAddr>>, limiter: Limiter) -> Outbox {
        Outbox { addresses, limiter, ..Outbox::default() }
    }

    /// The node has other addresses, by port, and more ports.
    pub(crate) fn take_ports(&mut self, addresses: Vec<Vec<IpAddr>>, more: Vec<Row>) {
        self.addresses = addresses;
        self.limiter.add(more);
    }

    /// Sets other limits.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.limiter.limit(limits);
    }

    /// Sends an ICMP error to the sender of a frame, if the rules of ICMP and the limits allow; the error enters the pipeline at
    /// `back`.
    pub(crate) fn report(&mut self, now: Time, frame: &Frame<'_>, error: Error, back: EntryPoint) {
        let fits = |ip: &&IpAddr| ip.is_ipv4() == (frame.kind() == Kind::V4);
        let port = self.addresses.get(usize::from(frame.port.0)).into_iter().flatten().find(fits);
        if let Some(&source) = port.or_else(|| self.addresses.iter().flatten().find(fits)) {
            self.report_from(source, now, frame, error, back);
        }
    }

    /// As [`Outbox::report`], with the error from this address.
    pub(crate) fn report_from(
        &mut self,
        source: IpAddr,
        now: Time,
        frame: &Frame<'_>,
        error: Error,
        back: EntryPoint,
    ) {
        if let Some(permit) = self.limiter.error(now, frame, error)
            && let Some(buf) = report::about(permit, frame, error, source)
        {
            self.answer(frame, back, buf);
        }
    }

    /// Sends a reset to the sender of a TCP segment that no host takes; the reset enters the pipeline at `back`.
    pub(crate) fn reset(&mut self, now: Time, frame: &Frame<'_>, back: EntryPoint) {
        if let Some(permit) = self.limiter.reset(now, frame)
            && let Some(buf) = reset::answer(permit, frame)
        {
            self.answer(frame, back, buf);
        }
    }

    /// Sends an answer to a frame, as in [`Outbox::send`].
    fn answer(&mut self, frame: &Frame<'_>, entry: EntryPoint, buf: Vec<u8>) {
        let known = Known {
            tags: frame.tags,
            pppoe_session: frame.pppoe_session,
            is_answer: true,
            ..Known::untagged(frame.port)
        };
        self.originate(entry, known, buf);
    }

    /// A frame that the node made; `buf` has [`crate::frame::HEAD_ROOM`] bytes free in front of the Ethernet header.
    pub(crate) fn send(&mut self, entry: EntryPoint, port: PortId, buf: Vec<u8>) {
        self.originate(entry, Known::untagged(port), buf);
    }

    fn originate(&mut self, entry: EntryPoint, known: Known, buf: Vec<u8>) {
        self.made += 1;
        if self.waiting.len() < MOST {
            self.waiting.push(Originated { then: Then::On(entry), known, buf });
        } else {
            self.refused += 1
        }
    }

    /// A call of the plane begins.
    pub(crate) fn begin(&mut self) {
        self.kept.begin(self.kept_count);
    }

    /// Keeps a frame, for [`Outbox::emit`] or [`Outbox::discard`]; the caller gives it the verdict.
    pub(crate) fn keep(&mut self, frame: &Frame<'_>) -> Ticket {
        self.kept_count += 1;
        self.kept.keep(frame)
    }

    /// Keeps a frame that the node has made; `buf` is as in [`Outbox::send`].
    pub(crate) fn keep_made(&mut self, known: Known, buf: Vec<u8>) -> Ticket {
        (self.made, self.kept_count) = (self.made + 1, self.kept_count + 1);
        self.kept.keep_made(known, buf)
    }

    /// A frame that was kept goes on. It counts as kept until the caller of the plane has brought it back.
    pub(crate) fn emit(&mut self, ticket: Ticket, then: Then) {
        match self.kept.emit(ticket, then) {
            Decided::Later => {}
            Decided::Now(frame) => {
                self.kept_count -= 1;
                self.waiting.push(frame);
            }
            Decided::Lost => {
                self.kept_count -= 1;
                self.lost += 1;
            }
        }
    }

    /// Takes a frame of the node's own that a stage has kept, as it left the batch.
    pub(crate) fn set_aside(&mut self, ticket: Ticket, frame: &[u8]) {
        if let Some(frame) = self.kept.set_aside(ticket, frame) {
            self.kept_count -= 1;
            self.waiting.push(frame);
        }
    }

    /// A frame that was kept goes no further; the caller counts the reason.
    pub(crate) fn discard(&mut self, ticket: Ticket) {
        self.kept_count -= 1;
        self.kept.discard(ticket);
    }

    /// Copies that a stage made wait beside the frame.
    pub(crate) fn keep_copies(&mut self, frames: usize) {
        self.made += frames as u64;
        self.kept_count += frames as u64;
    }

    /// A copy that was kept goes on.
    pub(crate) fn emit_copy(&mut self, entry: EntryPoint, known: Known, buf: Vec<u8>) {
        self.kept_count -= 1;
        self.waiting.push(Originated { then: Then::On(entry), known, buf });
    }

    /// A fragment that was kept goes no further: others have the room.
    pub(crate) fn give_way(&mut self, fragment: Ticket) {
        self.discard(fragment);
        self.gave_way += 1;
    }

    /// Copies that were kept go no further; the caller counts the reason.
    pub(crate) fn discard_copies(&mut self, frames: u64) {
        self.kept_count -= frames;
    }
}
