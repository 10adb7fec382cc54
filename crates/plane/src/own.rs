//! Frames that the node sends by itself: errors of ICMP, questions about neighbours, what a stage had held. They pass
//! the chain from where they are born, in a batch of their own within the same run.
//!
//! Invariant: between two runs none waits here, so that no number of a stage outlives the stages that it counts.

use std::net::IpAddr;

use crate::frame::{Frame, Kind, PortId};
use crate::icmp::{self, Error};
use crate::limiter::{Limiter, Said};
use crate::time::Time;
use crate::way::Dir;
use crate::way::Handover;

/// Where a frame of the node's own enters the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Before all stages of its way.
    Begin(Dir),
    /// Before the stage `above`, on the way to the right; behind all stages if that is their number.
    Outward { above: usize },
    /// Behind the stage `below`, on the way to the left: the first stage it meets is the one before.
    Inward { below: usize },
    /// It is whole and leaves by this port as it is.
    Leave(PortId),
    /// It goes on in another thread.
    Hand(Handover),
}

/// A frame of the node's own on its way.
#[derive(Debug)]
pub(crate) struct Originated {
    pub(crate) entry: Entry,
    /// The port that it counts as come in by.
    pub(crate) port: PortId,
    /// With [`crate::frame::HEAD_ROOM`] bytes free in front.
    pub(crate) buf: Vec<u8>,
}

/// Most frames of its own that the node says in a batch: they cost more than to pass one on.
const MOST: usize = 256;

/// What the node has to say.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) waiting: Vec<Originated>,
    /// Frames made by the node.
    pub(crate) made: u64,
    /// Copies that stages hold.
    pub(crate) held: u64,
    /// Frames that there was no room for.
    pub(crate) refused: u64,
    /// Fragments that were held and gave way to others.
    pub(crate) gave_way: u64,
    /// The node's addresses by port: what its errors come from.
    addresses: Vec<Vec<IpAddr>>,
    limiter: Limiter,
    /// The stage at work, for whom a panic leaves in disorder.
    pub(crate) at_work: Option<usize>,
}

impl Own {
    /// Nothing to say yet; these are the node's addresses by port, and so many threads share what it may say.
    pub(crate) fn new(addresses: Vec<Vec<IpAddr>>, seed: u64, threads: u8) -> Own {
        Own { addresses, limiter: Limiter::new(seed, threads), ..Own::default() }
    }

    /// Tells the sender of a frame what became of it, if the rules of ICMP allow; the error enters the chain at `back`.
    pub(crate) fn report(&mut self, now: Time, frame: &Frame<'_>, error: Error, back: Entry) {
        let fits = |ip: &&IpAddr| ip.is_ipv4() == (frame.kind() == Kind::V4);
        let port = self.addresses.get(usize::from(frame.port.0)).into_iter().flatten().find(fits);
        let Some(&source) = port.or_else(|| self.addresses.iter().flatten().find(fits)) else { return };
        let said = if matches!(error, Error::TooBig(_)) { Said::TooBig } else { Said::Else };
        // Whoever sends many that are refused costs no more than a look.
        if icmp::may_be_reported(frame, error)
            && self.limiter.allows(now, frame, said)
            && let Some(buf) = icmp::error(frame, error, source)
        {
            self.send(back, frame.port, buf);
        }
    }

    /// Whether the sender of a frame may be given by a reset; if so, it counts.
    pub(crate) fn may_reset(&mut self, now: Time, frame: &Frame<'_>) -> bool {
        self.limiter.allows(now, frame, Said::Else)
    }

    /// A frame that the node made; `buf` has [`crate::frame::HEAD_ROOM`] bytes free in front of the Ethernet header.
    pub(crate) fn send(&mut self, entry: Entry, port: PortId, buf: Vec<u8>) {
        self.made += 1;
        match self.waiting.len() < MOST {
            true => self.waiting.push(Originated { entry, port, buf }),
            false => self.refused += 1,
        }
    }

    /// Copies that a stage made wait beside the frame.
    pub(crate) fn hold(&mut self, frames: usize) {
        self.made += frames as u64;
        self.held += frames as u64;
    }

    /// A frame that was held goes on.
    pub(crate) fn release(&mut self, entry: Entry, port: PortId, buf: Vec<u8>) {
        self.held -= 1;
        self.waiting.push(Originated { entry, port, buf });
    }

    /// Fragments that were held go no further: others have the room.
    pub(crate) fn give_way(&mut self, fragments: u64) {
        self.lapse(fragments);
        self.gave_way += fragments;
    }

    /// A frame that was held goes no further; the caller counts the reason.
    pub(crate) fn lapse(&mut self, frames: u64) {
        self.held -= frames;
    }
}
