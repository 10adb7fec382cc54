//! Frames that the node sends by itself: errors of ICMP, questions about neighbours, what a stage had held. They pass
//! the chain from where they are born, in a batch of their own within the same run.

use crate::frame::PortId;

/// Where a frame of the node's own enters the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Before the stage `above`, on the way to the right; behind all stages if that is their number.
    Outward { above: usize },
    /// Behind the stage `below`, on the way to the left: the first stage it meets is the one before.
    Inward { below: usize },
    /// It is whole and leaves by this port as it is.
    Leave(PortId),
}

/// A frame of the node's own on its way.
#[derive(Debug)]
pub(crate) struct OwnFrame {
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
    pub(crate) waiting: Vec<OwnFrame>,
    /// Frames made by the node.
    pub(crate) made: u64,
    /// Copies that stages hold.
    pub(crate) held: u64,
    /// Frames that there was no room for.
    pub(crate) refused: u64,
}

impl Own {
    /// A frame that the node made; `buf` has [`crate::frame::HEAD_ROOM`] bytes free in front of the Ethernet header.
    pub(crate) fn send(&mut self, entry: Entry, port: PortId, buf: Vec<u8>) {
        self.made += 1;
        match self.waiting.len() < MOST {
            true => self.waiting.push(OwnFrame { entry, port, buf }),
            false => self.refused += 1,
        }
    }

    /// A frame that was held goes on.
    pub(crate) fn release(&mut self, entry: Entry, port: PortId, buf: Vec<u8>) {
        self.held -= 1;
        self.waiting.push(OwnFrame { entry, port, buf });
    }

    /// A frame that was held goes no further; the caller counts the reason.
    pub(crate) fn lapse(&mut self, frames: u64) {
        self.held -= frames;
    }
}
