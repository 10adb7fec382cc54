//! Segments: data of equal size in one direction, ACKs in the other.

use weir_queue::{Ecn, Time};

/// A data segment on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) flow: u32,
    /// Number of the segment in the flow, from 0.
    pub(crate) seq: u64,
}

/// A data segment behind the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) data: Data,
    pub(crate) ecn: Ecn,
}

/// An ACK. The way back loses nothing, so each ACK says only what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckMessage {
    pub(crate) flow: u32,
    /// All segments before this one have arrived.
    pub(crate) next: u64,
    /// A segment behind a gap that has arrived just now (SACK).
    pub(crate) beyond: Option<u64>,
    /// The segment that has arrived just now had arrived before (DSACK).
    pub(crate) duplicate: bool,
    /// Segments with CE since the ACK before (AccECN).
    pub(crate) ce: u32,
}

/// Something that is due at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due<T> {
    pub(crate) at: Time,
    pub(crate) what: T,
}
