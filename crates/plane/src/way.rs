//! Which way frames go, through the stages of a plane and from one plane of a node to another: words that all others use.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::frame::PortId;

/// Which way a frame passes the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dir {
    /// From the left end of the text to the right: from the inside out.
    Outward,
    /// From the right end to the left.
    Inward,
}

impl Dir {
    /// The way back.
    pub(crate) fn opposite(self) -> Dir {
        match self {
            Dir::Outward => Dir::Inward,
            Dir::Inward => Dir::Outward,
        }
    }
}

/// Most threads of a node.
pub const MOST_THREADS: u8 = 64;

/// Which of a node's threads a plane is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub thread: u8,
    /// How many there are, at most [`MOST_THREADS`].
    pub of: u8,
}

impl Default for Share {
    /// The only one.
    fn default() -> Share {
        Share { thread: 0, of: 1 }
    }
}

impl Share {
    /// What a thread may have of what all may have together.
    pub(crate) fn part(self, all: u32) -> u32 {
        all.div_ceil(self.of.into())
    }
}

/// A frame that another thread goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Who that is.
    pub to: u8,
    /// How it comes there.
    pub way: Way,
}

/// How a frame comes to a plane. None says a number of a stage: threads take another text one after the other. A NAT has
/// its number among the NATs of the text; by another text it may be another one, which does not know the frame's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By a port.
    Wire,
    /// By another thread, which found that it belongs here.
    Found,
    /// By another thread: a fragment of a packet, which meets the others here.
    Meets,
    /// By another thread, whose NAT of this number has translated its source: it goes inward through that.
    Turned(u8),
    /// By another thread, whose NAT of this number asks whether a mapping awaits it; else it is for the node itself.
    Asks(u8),
    /// By the thread that was asked: a mapping awaits it there.
    Awaited(u8),
}

/// Where a frame enters the pipeline that did not come in by a port: one of the node's own, or one that was kept. Stages have the
/// numbers of the present text.
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

/// Bits of a code that say the way; the others are the number of a NAT.
const WAY_BITS: u32 = 3;

impl Way {
    /// As a byte; never 255.
    pub fn code(self) -> u8 {
        let (way, nat) = match self {
            Way::Wire => (0, 0),
            Way::Found => (1, 0),
            Way::Meets => (2, 0),
            Way::Turned(nat) => (3, nat),
            Way::Asks(nat) => (4, nat),
            Way::Awaited(nat) => (5, nat),
        };
        nat << WAY_BITS | way
    }

    /// What a byte stands for.
    pub fn of_code(code: u8) -> Option<Way> {
        let nat = code >> WAY_BITS;
        match code & ((1 << WAY_BITS) - 1) {
            0 => Some(Way::Wire),
            1 => Some(Way::Found),
            2 => Some(Way::Meets),
            3 => Some(Way::Turned(nat)),
            4 => Some(Way::Asks(nat)),
            5 => Some(Way::Awaited(nat)),
            _ => None,
        }
    }
}

/// What a plane has heard of neighbours, and the others of its node are to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The port that it came in by.
    pub port: PortId,
    /// The frame, without tags.
    pub frame: Vec<u8>,
}
