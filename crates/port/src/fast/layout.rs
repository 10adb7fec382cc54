//! The memory that the fast path shares with user space, as `bpf/fast.h` lays it out.

use crate::shared::shared;

/// Most ports of a node that has a fast path.
pub const PORTS: usize = 16;
/// Stages that follow a connection of TCP.
pub(crate) const TRACKS: usize = 2;
/// Entries that a bucket leads to.
pub(super) const SLOTS: usize = 8;
/// What a frame adds to [`Entry::used`], beside its bytes.
pub const FRAME: u64 = 1 << 36;
/// Flags of an entry: other Ethernet addresses and a hop less to live, other addresses or ports, connections that stages follow.
pub const IS_ROUTED: u8 = 1;
/// See [`IS_ROUTED`].
pub const IS_REWRITTEN: u8 = 2;
/// See [`IS_ROUTED`].
pub const IS_FOLLOWED: u8 = 4;
/// Flag of an entry that holds whatever the time is.
pub const IS_ENDLESS: u8 = 8;
/// Flag of an entry that holds no more.
pub(super) const IS_OVER: u8 = 16;
/// Nanoseconds of a tick, as a power of two.
pub const TICK_BITS: u32 = 20;

/// A frame without an entry, of [`PUNTS`].
pub const NO_ENTRY: &str = "no entry";
/// Why frames are left to the plane, in the order of `enum fast_punt`.
pub const PUNTS: [&str; 13] = [
    "being changed",
    "no IP",
    "Ethernet address",
    "header",
    "fragment",
    "no hop left",
    "neither TCP nor UDP",
    "begin or end of TCP",
    NO_ENTRY,
    "entry out of date",
    "entry expired",
    "too long",
    "unfinished checksum",
];

/// Kinds of packets of a flow, see [`Key::kind`]: of IPv4.
pub const KIND_V4: u8 = 0;
/// Of IPv4, which may not be cut into fragments.
pub const KIND_V4_WHOLE: u8 = 1;
/// Of IPv6.
pub(crate) const KIND_V6: u8 = 2;

shared! {
    /// What a flow is known by; addresses and ports in network order. Of IPv6 it has hashes of the addresses, see
    /// [`super::Fast::key6`].
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    #[repr(align(8))]
    pub struct Key {
        /// Source address.
        pub src: u32,
        /// Destination address.
        pub dst: u32,
        /// Source port.
        pub sport: u16,
        /// Destination port.
        pub dport: u16,
        /// Port of the node.
        pub port: u8,
        /// TCP or UDP.
        pub protocol: u8,
        /// Flags of TCP.
        pub flags: u8,
        /// [`KIND_V4`] and the others.
        pub kind: u8,
    }
}

shared! {
    /// Where entries are found: a hash in the upper half and the number of the entry + 1 in the lower one; 0: free.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct Bucket {
        pub(super) slots: [u64; SLOTS],
    }
}

shared! {
    /// What is done to the frames of a flow: one cache line.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Entry {
        /// The flow; [`super::Fast::insert`] writes it.
        pub key: Key,
        /// Bytes of packets, and [`FRAME`] for each.
        pub used: u64,
        /// Tick when the last one came: see [`Control::start_ns`].
        pub last: u32,
        /// Tick when it holds no more.
        pub until: u32,
        /// It holds as long as this is that of [`Control`].
        pub epoch: u32,
        /// Addresses and ports that frames leave with, in network order.
        pub src: u32,
        /// See `src`.
        pub dst: u32,
        /// See `src`.
        pub sport: u16,
        /// See `src`.
        pub dport: u16,
        /// Destination and source.
        pub macs: [[u8; 6]; 2],
        /// Longest packet, where it is routed.
        pub most: u16,
        /// Port of the node by which frames leave.
        pub out: u8,
        /// [`IS_ROUTED`] and the others.
        pub flags: u8,
    }
}

const _: () = assert!(size_of::<Entry>() == 64);

shared! {
    /// Connections that the frames of an entry belong to.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Sides {
        /// 0: none; else number * 2 + side + 1.
        pub track: [u32; TRACKS],
    }
}

shared! {
    /// Addresses of a flow of IPv6, in network order.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Wide {
        /// Source address.
        pub src: [u8; 16],
        /// Destination address.
        pub dst: [u8; 16],
    }
}

shared! {
    /// A connection of TCP as a stage of the plane follows it, by side.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Track {
        /// The sequence number after the last that the side sent.
        pub sent: [u32; 2],
        /// The one that the side awaits.
        pub awaits: [u32; 2],
        /// The window that it granted last, unscaled.
        pub window: [u32; 2],
        /// To 32 bytes.
        pub pad: [u32; 2],
    }
}

shared! {
    /// What holds for all entries.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Control {
        /// Entries with another one hold no more.
        pub epoch: u32,
        /// 0: all frames are the plane's.
        pub on: u32,
        /// The time, in tests; 0: that of the machine.
        pub clock_ns: u64,
        /// When ticks began, ns of CLOCK_MONOTONIC.
        pub start_ns: u64,
        /// Of hashes.
        pub seed: u64,
        /// Buckets - 1.
        pub mask: u32,
        /// Entries that there is room for.
        pub room: u32,
    }
}

shared! {
    /// Frames that a CPU has seen.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Counts {
        /// Those that came by each port and did not go to the plane.
        pub received: [u64; PORTS],
        /// Those that left by it.
        pub sent: [u64; PORTS],
        /// Those left to the plane, by reason: see [`PUNTS`].
        pub punts: [u64; PORTS],
    }
}

shared! {
    /// The port that a program is attached to.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Gate {
        /// Its number.
        pub number: u32,
        /// 1: frames may come with an unfinished checksum.
        pub checks_partial: u32,
        /// 1: frames must be for its Ethernet address.
        pub is_router: u32,
        /// That address.
        pub mac: [u8; 6],
        /// To 24 bytes.
        pub pad: [u8; 6],
    }
}

const _: () = assert!(PUNTS.len() <= PORTS);
