//! The memory of the program that checks what a NAT does, as `bpf/translation.h` lays it out; and that of the NAT that does
//! wrong on purpose, `bpf/prefix.bpf.c`. Numbers are in the order of the machine unless they say otherwise.

use crate::shared::shared;

/// Ranges of public addresses.
pub const PUBLIC_RANGES: usize = 8;
/// Kinds of faults that there is room for.
pub const KINDS: usize = 8;
/// Frames that are kept of each kind.
pub const KEPT: usize = 16;
/// Bytes that are kept of a frame.
pub const KEPT_BYTES: usize = 256;

/// Where a program checks.
pub mod side {
    /// Behind the NAT: the source is translated.
    pub const OUTSIDE: u32 = 1;
    /// Before it: nothing is.
    pub const INSIDE: u32 = 2;
}

shared! {
    /// A flow: as it was sent, and as the first frame of a round arrived. Addresses and ports are in network order.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Tuple {
        /// Source inside; of IPv6, its last four bytes.
        pub src: u32,
        /// Destination.
        pub dst: u32,
        /// Source port inside.
        pub sport: u16,
        /// Destination port.
        pub dport: u16,
        /// Source outside.
        pub outside: u32,
        /// Source port outside.
        pub outside_port: u16,
        /// 1: another flow has the same outside.
        pub clashed: u16,
        /// Round in which the outside was noted.
        pub seen: u32,
        /// Round in which a frame came back inside.
        pub answered: u32,
        /// Of TCP: the round in the upper 24 bits, what was said in the others.
        pub said: u32,
    }
}

shared! {
    /// From the first to the last address of a range, both in it.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Range {
        /// First address.
        pub first: u32,
        /// Last address.
        pub last: u32,
    }
}

shared! {
    /// What is checked, and what was found.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Check {
        /// See [`side`].
        pub side: u32,
        /// Flows in the table; 0: nothing is checked.
        pub count: u32,
        /// What was seen in an earlier round is forgotten; not 0.
        pub round: u32,
        /// Entries of the table of claims, a power of two, less one.
        pub claims: u32,
        /// Public addresses.
        pub allowed: [Range; PUBLIC_RANGES],
        /// How many ranges are in use.
        pub allowed_count: u32,
        /// Nothing.
        pub pad: u32,
        /// Frames without a fault.
        pub good: u64,
        /// Flows of which a frame came in this round.
        pub flows: u64,
        /// Frames with a fault, by kind; of clashes, flows.
        pub faults: [u64; KINDS],
    }
}

/// What segments of TCP mean, in the order of [`Talk::said`]; what each is depends on the side.
pub mod said {
    /// SYN outside, the answer to it inside.
    pub const SYN: usize = 0;
    /// Outside: what acknowledges the answer.
    pub const ESTABLISHED: usize = 1;
    /// Data.
    pub const DATA: usize = 2;
    /// FIN.
    pub const FIN: usize = 4;
    /// Outside: the last acknowledgement.
    pub const CLOSED: usize = 5;
    /// Outside: RST.
    pub const RESET: usize = 6;
    /// Outside: SYN that belongs to no connection.
    pub const FLOOD: usize = 7;
    /// How many there are.
    pub const KINDS: usize = 8;
}

shared! {
    /// One end of TCP connections, as `bpf/tcp.bpf.c` lays it out.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Talk {
        /// Where sequence numbers begin; the last eight bits are zero.
        pub salt: u32,
        /// Connection of which the trial sends first.
        pub first: u32,
        /// 1: the initiator keeps connections open.
        pub hold: u32,
        /// Nothing.
        pub pad: u32,
        /// Segments, of each connection once; see [`said`].
        pub said: [u64; said::KINDS],
        /// Segments that came again.
        pub repeated: u64,
        /// Segments with wrong numbers or flags, or in a wrong order.
        pub unexpected: u64,
    }
}

shared! {
    /// A frame that was kept.
    #[derive(Debug, Clone, Copy)]
    pub struct Kept {
        /// When it came, CLOCK_MONOTONIC ns.
        pub time_ns: u64,
        /// Which flow it is of.
        pub flow: u32,
        /// Its length without FCS.
        pub length: u32,
        /// Its beginning.
        pub frame: [u8; KEPT_BYTES],
    }
}

shared! {
    /// The NAT without state.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct PrefixNat {
        /// Interface of the subscribers.
        pub inside: u32,
        /// Interface of the others.
        pub outside: u32,
        /// Network of the subscribers.
        pub private_net: u32,
        /// What it becomes.
        pub public_net: u32,
        /// Bits of an address that are kept.
        pub host_mask: u32,
        /// What it does wrong: 0 nothing, 1 to 4 as in the program.
        pub fault: u32,
        /// To each n-th frame.
        pub every: u32,
        /// Nothing.
        pub pad: u32,
        /// Frames so far that could be such an n-th one, outward and inward.
        pub frames: [u64; 2],
        /// Ethernet destination and source of frames to the inside, then 4 bytes of nothing.
        pub inward: [u8; 16],
        /// The same of frames to the outside.
        pub outward: [u8; 16],
    }
}
