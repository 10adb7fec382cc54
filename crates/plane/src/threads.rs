//! What planes of one node that run on several threads share: their number, and how frames and news pass between them.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::frame::PortId;

/// Most threads of a node.
pub const MOST_THREADS: u8 = 64;

/// The thread of a node that a plane runs on, and how many threads there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub thread: u8,
    /// How many threads there are, at most [`MOST_THREADS`].
    pub of: u8,
}

impl Default for Share {
    /// The only thread.
    fn default() -> Share {
        Share { thread: 0, of: 1 }
    }
}

impl Share {
    /// The part of a limit of the whole node that one thread may use.
    pub(crate) fn part(self, all: u32) -> u32 {
        all.div_ceil(self.of.into())
    }
}

/// A frame that another thread goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// The number of that thread.
    pub to: u8,
    /// How the frame enters the plane of that thread.
    pub ingress: Ingress,
}

/// How a frame comes to a plane. No variant has the number of a stage, since threads change to a new text one after the other. A
/// NAT is numbered among the NATs of the text; in another text the number may stand for another NAT, which does not know the
/// frame's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingress {
    /// By a port.
    Wire,
    /// From another thread: the frame belongs to this one.
    Found,
    /// From another thread: a fragment of a packet whose fragments meet in this thread.
    Meets,
    /// From another thread, whose NAT of this number has translated the source: the frame goes inward through that NAT here.
    Turned(u8),
    /// From another thread, whose NAT of this number asks whether there is a mapping for it; else the frame is for the node itself.
    Asks(u8),
    /// From the thread that was asked: there is a mapping for it there.
    Awaited(u8),
    /// From the machine, by a TAP device of the port, or by the thread that hears the device: the frame leaves by that port.
    Machine,
}

/// Bits of a code for the kind of ingress; the others are the number of a NAT.
const KIND_BITS: u32 = 3;

impl Ingress {
    /// This ingress as a byte; never 255.
    pub fn code(self) -> u8 {
        let (kind, nat) = match self {
            Ingress::Wire => (0, 0),
            Ingress::Found => (1, 0),
            Ingress::Meets => (2, 0),
            Ingress::Turned(nat) => (3, nat),
            Ingress::Asks(nat) => (4, nat),
            Ingress::Awaited(nat) => (5, nat),
            Ingress::Machine => (6, 0),
        };
        nat << KIND_BITS | kind
    }

    /// The ingress of a byte, if the byte is a valid code.
    pub fn of_code(code: u8) -> Option<Ingress> {
        let nat = code >> KIND_BITS;
        match code & ((1 << KIND_BITS) - 1) {
            0 => Some(Ingress::Wire),
            1 => Some(Ingress::Found),
            2 => Some(Ingress::Meets),
            3 => Some(Ingress::Turned(nat)),
            4 => Some(Ingress::Asks(nat)),
            5 => Some(Ingress::Awaited(nat)),
            6 => Some(Ingress::Machine),
            _ => None,
        }
    }
}

/// A frame about neighbours that a plane has received or sent, for the planes of the other threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourNews {
    /// The port that it came in by.
    pub port: PortId,
    /// The frame, without tags.
    pub frame: Vec<u8>,
}
