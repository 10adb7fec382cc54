//! TCP connections without sockets, with the XDP tester at both ends: their segments and counts.
//!
//! ```text
//! Hold    SYN -> SYN ACK -> ACK
//! Data    ACK data -> ACK data -> ACK                                              of those that are held
//! Close   FIN ACK -> FIN ACK -> ACK                                                of those that are held
//! Reset   RST                                                                      of those that are held
//! Whole   SYN -> SYN ACK -> ACK data -> ACK data -> FIN ACK -> FIN ACK -> ACK
//! ```
//! The generator sends the first segment of a part, the programs at both ports answer (`bpf/tcp.bpf.c`). Nothing is sent
//! twice: a part of a connection ends with its first segment that is lost.

use serde::{Deserialize, Serialize};

/// What the segments are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Connections are established, and stay so. Whatever was before is forgotten.
    Hold,
    /// Each sends data and gets some.
    Data,
    /// Each is closed from inside.
    Close,
    /// Each is reset from inside.
    Reset,
    /// Connections are established, send data and get some, and are closed.
    Whole,
}

/// Part of the connections of a trial: what becomes of which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What becomes of them.
    pub act: Act,
    /// The first of them, as the flows are listed.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Length of all segments, FCS included; those without options and data are padded.
pub const FRAME_BYTES: u16 = 66;
/// Group of flows that are no connections: their SYN belongs to a flood.
pub const FLOOD: u16 = 1;

impl Act {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Act::Hold => "established",
            Act::Data => "data",
            Act::Close => "closed",
            Act::Reset => "reset",
            Act::Whole => "established, data, closed",
        }
    }

    /// Flags of the first segment.
    pub(crate) fn flags(self) -> u32 {
        match self {
            Act::Hold | Act::Whole => 0x02,
            Act::Data => 0x18,
            Act::Close => 0x11,
            Act::Reset => 0x04,
        }
    }
}

/// What was said in a trial; of each connection each segment counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// SYN that arrived outside.
    pub begun: u64,
    /// Answers to them that arrived inside, at the host that they belong to.
    pub answered: u64,
    /// Connections whose third segment arrived outside.
    pub established: u64,
    /// Connections in which data came back inside.
    pub exchanged: u64,
    /// Connections whose last segment arrived outside, after FIN of both sides.
    pub closed: u64,
    /// RST that arrived outside.
    pub reset: u64,
    /// SYN of a flood from inside that arrived outside.
    pub flooded: u64,
    /// SYN of a flood from outside that were sent.
    pub flooding: u64,
    /// Segments that came again.
    pub repeated: u64,
    /// Segments with wrong numbers or flags, or in a wrong order.
    pub unexpected: u64,
}
