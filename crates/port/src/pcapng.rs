//! Capture files: pcapng (draft-ietf-opsawg-pcapng) as it is written, and as it is read together with the older pcap
//! (draft-ietf-opsawg-pcap).
//!
//! ```text
//!  section | interface 0 | interface 1 | packet 0 | packet 1 | ... | statistics 0 | packet 0 | ...
//! ```
//! A block is its type, its length, its body and its length again, in units of 4 bytes. [`write`] appends blocks to a
//! buffer; [`read`] takes files of any byte order and of any program.

pub mod read;
pub mod write;

/// Frames of Ethernet (LINKTYPE_ETHERNET).
pub const ETHERNET: u16 = 1;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Of old writers; the draft asks readers to know it (section B.1).
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Tells the byte order of a section.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Codes of options, by the block that they belong to.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const SECTION_HARDWARE: u16 = 2;
    pub(super) const SECTION_OS: u16 = 3;
    pub(super) const SECTION_APPLICATION: u16 = 4;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const INTERFACE_DESCRIPTION: u16 = 3;
    pub(super) const INTERFACE_SPEED: u16 = 8;
    pub(super) const INTERFACE_RESOLUTION: u16 = 9;
    pub(super) const INTERFACE_FILTER: u16 = 11;
    pub(super) const INTERFACE_OS: u16 = 12;
    pub(super) const INTERFACE_TIME_OFFSET: u16 = 14;
    pub(super) const PACKET_DROPPED: u16 = 4;
    pub(super) const STATISTICS_START: u16 = 2;
    pub(super) const STATISTICS_END: u16 = 3;
    pub(super) const STATISTICS_RECEIVED: u16 = 4;
    pub(super) const STATISTICS_DROPPED_BY_INTERFACE: u16 = 5;
    pub(super) const STATISTICS_ACCEPTED: u16 = 6;
    pub(super) const STATISTICS_DROPPED_BY_SYSTEM: u16 = 7;
    pub(super) const STATISTICS_DELIVERED: u16 = 8;
}

/// Where packets were captured: an interface, or one queue of it. Empty texts are unknown ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// As the system calls it.
    pub name: String,
    /// What else tells it from others, for example the queue.
    pub description: String,
    /// The filter in words.
    pub filter: String,
    /// System that captured.
    pub system: String,
    /// Largest number of bytes kept of a packet; 0 is no limit.
    pub snap: u32,
    /// What a packet begins with: LINKTYPE_*, for example [`ETHERNET`].
    pub link_type: u16,
    /// Speed of the line.
    pub bits_per_s: Option<u64>,
}

/// A captured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Which of the section's interfaces, from 0.
    pub interface: u32,
    /// When, in ns since 1970.
    pub at_ns: u64,
    /// Its length on the wire, of which `bytes` may be the beginning only.
    pub wire_len: u32,
    /// What was kept.
    pub bytes: &'a [u8],
    /// Packets lost between the one of this interface before and this one.
    pub dropped: u64,
}

/// Counters of an interface at an instant; all count from the start of the capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Which of the section's interfaces, from 0.
    pub interface: u32,
    /// When they were read, in ns since 1970.
    pub at_ns: u64,
    /// When the capture began, in ns since 1970.
    pub start_ns: Option<u64>,
    /// When it ended: only in the last statistics.
    pub end_ns: Option<u64>,
    /// Packets that came in.
    pub received: Option<u64>,
    /// Of these, lost by the interface.
    pub dropped_by_interface: Option<u64>,
    /// Packets that the filter let pass.
    pub accepted: Option<u64>,
    /// Of these, lost for lack of room in the system.
    pub dropped_by_system: Option<u64>,
    /// Packets that the capturing program got.
    pub delivered: Option<u64>,
}

/// Bytes up to the next multiple of 4.
const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}
