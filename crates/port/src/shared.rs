//! The memory that the eBPF programs and user space share, as `bpf/weir.h` lays it out.

/// Plain data that a program shares: any bytes are a value, and each byte of a value is written.
///
/// # Safety
/// Only for integers, arrays of such data, and structures of them as in C without padding: see [`shared!`].
pub unsafe trait Shared: Copy {
    /// Names and places of the fields of a structure.
    const FIELDS: &'static [(&'static str, usize)] = &[];
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        // SAFETY: an integer.
        unsafe impl Shared for $kind {}
    )*};
}
integers!(u8, u16, u32, u64, i64);
// SAFETY: nothing stands between the entries of an array.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// Declares a structure that a program shares. That it has no padding, and nothing but shared data, is checked when it is
/// compiled; that the program's own declaration is the same, by the tests (`crates/port/src/shared/tests.rs`).
macro_rules! shared {
    ($(#[$about:meta])* $vis:vis struct $name:ident {
        $($(#[$of_field:meta])* $of:vis $field:ident: $kind:ty,)*
    }) => {
        $(#[$about])*
        #[repr(C)]
        $vis struct $name {
            $($(#[$of_field])* $of $field: $kind,)*
        }

        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$kind>())*, "there is padding");

        // SAFETY: as in C, of what `is_shared` takes alone, and by the assertion above without padding.
        unsafe impl $crate::shared::Shared for $name {
            const FIELDS: &'static [(&'static str, usize)] = {
                const fn is_shared<T: $crate::shared::Shared>() {}
                $(is_shared::<$kind>();)*
                &[$((stringify!($field), std::mem::offset_of!($name, $field))),*]
            };
        }
    };
}
pub(crate) use shared;

/// Streams of one generator: side a and side b.
pub(crate) const STREAMS: usize = 2;
/// Flow groups of a stream.
pub const GROUPS: usize = 256;
/// Buckets of the lateness histogram, 8 per octave.
pub const LATE_BUCKETS: usize = 256;
/// Buckets of a latency histogram, 64 per octave.
pub const LATENCY_BUCKETS: usize = 1920;
/// Gaps of a group that late frames may still fill.
pub const GAPS: usize = 16;
/// Periods of loss of a group that are kept.
pub const EVENTS: usize = 1024;
/// Periods in which a very late frame is looked for.
pub const LATE_EVENTS: usize = 4;
/// Slots of time in which arrivals are noted.
pub const MARKS: usize = 2048;
/// Frames that leave a node at once.
pub(crate) const LEAVING: usize = 256;
/// The longest of them.
pub(crate) const LEAVING_BYTES: usize = 2112;

shared! {
    /// One entry of the flow table; addresses and ports in network order.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Flow {
        /// IPv4 source, or the last 4 bytes of the IPv6 source.
        pub src: u32,
        /// The same of the destination.
        pub dst: u32,
        /// Source port.
        pub sport: u16,
        /// Destination port.
        pub dport: u16,
        /// Flow group, below [`GROUPS`].
        pub group: u16,
        /// One's complement sum of addresses and ports.
        pub sum: u16,
    }
}

shared! {
    /// Frames with the same time between them.
    #[derive(Debug, Clone, Copy)]
    pub struct Phase {
        /// How many; all ones: no end.
        pub frames: u64,
        /// Time to the next frame, ns * 65536.
        pub gap_q16: u64,
    }
}

shared! {
    /// One direction of the generator. The first part is written by user space, the second by the program.
    #[derive(Debug, Clone, Copy)]
    pub struct Stream {
        /// Where frames leave; 0 = off.
        pub ifindex: u32,
        /// 34 for IPv4, 54 for IPv6.
        pub header_bytes: u32,
        /// Template of Ethernet and IP header.
        pub header: [u8; 64],
        /// Sum of the constant part of the IPv4 header.
        pub ip_sum: u32,
        /// Sum of the constant part of what the transport's checksum covers.
        pub transport_sum: u32,
        /// Gaps between frames, alternately.
        pub phase: [Phase; 2],
        /// Frames to send.
        pub total: u64,
        /// First flow table entry.
        pub flow_first: u32,
        /// Number of flow table entries.
        pub flow_count: u32,
        /// 0 = as fast as possible.
        pub paced: u32,
        /// Phase of the next frame, unless this one ends.
        pub phase_now: u32,
        /// Frames sent when the phase ends.
        pub phase_end: u64,
        /// Gap of the phase.
        pub gap_q16: u64,
        /// When the first frame of the second phase left, ns after the start.
        pub turned_ns: u64,
        /// Frames sent.
        pub sent: u64,
        /// When the next frame is due, ns * 65536 after the start.
        pub due_q16: u64,
        /// When the next frame may leave even if it is late, ns * 65536 after the start.
        pub allowed_q16: u64,
        /// When the last frame left, ns after the start.
        pub last_ns: u64,
        /// Sum of lateness, ns.
        pub late_sum_ns: u64,
        /// Largest lateness, ns.
        pub late_max_ns: u64,
        /// How late the last frame left that had a due time of its own, ns.
        pub late_end_ns: u64,
        /// A broadcast goes before the frame with this number; all ones: never.
        pub cast_next: u64,
        /// Broadcasts sent.
        pub casts: u64,
        /// Frames from one broadcast to the next.
        pub cast_every: u32,
        /// 0: UDP; 1: TCP, SYN; more: the flags of a segment of connections.
        pub syn: u32,
        /// Due time for which lateness was noted last, ns * 65536.
        pub noted_q16: u64,
        /// Next flow table entry.
        pub flow_next: u32,
        /// Next entry of the cycle of sizes.
        pub size_next: u32,
        /// Sum of frame sizes, FCS included.
        pub bytes: u64,
        /// Next sequence number of each group.
        pub seq: [u32; GROUPS],
        /// Lateness histogram.
        pub late: [u64; LATE_BUCKETS],
    }
}

shared! {
    /// All of the generator's memory.
    #[derive(Debug, Clone, Copy)]
    pub struct Gen {
        /// When to start, CLOCK_MONOTONIC ns.
        pub start_ns: u64,
        /// No frame leaves later.
        pub stop_ns: u64,
        /// The clock when it was last read, CLOCK_MONOTONIC ns.
        pub clock_ns: u64,
        /// State of the generator of random sizes.
        pub seed: u64,
        /// From the first frame of a group to the last, ns: they leave together.
        pub group_ns: u64,
        /// Program runs that belong together: a batch of the kernel, or a part of it.
        pub group: u32,
        /// 1 if a frame has left in this group.
        pub left: u32,
        /// Runs so far in this group.
        pub run: u32,
        /// Entries of `size` in use; 0 = random between the first two.
        pub size_count: u32,
        /// Frame lengths without FCS.
        pub size: [u16; weir_packet::size::MAX_CYCLE],
        /// Length of the frames handed to the program.
        pub size_max: u16,
        /// Number of the trial, modulo 256.
        pub epoch: u8,
        /// 1 while there is something to send.
        pub active: u8,
        /// The clock is read in runs with a number that has none of these bits.
        pub clock_mask: u32,
        /// Both directions.
        pub stream: [Stream; STREAMS],
    }
}

shared! {
    /// Counts of one flow group on one CPU.
    #[derive(Debug, Clone, Copy)]
    pub struct Group {
        /// Frames, duplicates included.
        pub received: u64,
        /// Frames that had come before.
        pub duplicated: u64,
        /// Frames that came after one with a higher number.
        pub reordered: u64,
        /// How far behind the highest number a frame arrived, at most.
        pub extent_max: u64,
        /// Sum of latency.
        pub latency_sum_ns: u64,
        /// Smallest latency; 0 when there is none.
        pub latency_min_ns: u64,
        /// Largest latency.
        pub latency_max_ns: u64,
        /// Arrival of the first frame, CLOCK_MONOTONIC ns.
        pub first_ns: u64,
        /// Arrival of the last frame.
        pub last_ns: u64,
        /// Sum of frame sizes, FCS included.
        pub bytes: u64,
        /// Latency histogram.
        pub latency: [u64; LATENCY_BUCKETS],
    }
}

shared! {
    /// A frame that arrived; times are CLOCK_MONOTONIC ns.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Passed {
        /// When it was sent.
        pub sent_ns: u64,
        /// When it arrived.
        pub arrived_ns: u64,
    }
}

shared! {
    /// Sequence numbers seen; see the program.
    #[derive(Debug, Clone, Copy)]
    pub struct Window {
        /// Highest number so far + 1.
        pub next: u64,
        /// The frame with that number.
        pub newest: Passed,
        /// Blocks of 64 numbers: which block + 1, and which of them were seen.
        pub word: [[u64; 2]; 1024],
    }
}

shared! {
    /// Latency of a frame minus that of the one before it, of a group.
    #[derive(Debug, Clone, Copy)]
    pub struct Ipdv {
        /// Pairs of frames.
        pub count: u64,
        /// Smallest difference.
        pub min_ns: i64,
        /// Largest difference.
        pub max_ns: i64,
        /// Negative ones, without their sign.
        pub below: [u64; LATENCY_BUCKETS],
        /// The others.
        pub above: [u64; LATENCY_BUCKETS],
    }
}

shared! {
    /// Missing sequence numbers.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Gap {
        /// The first of them.
        pub first: u64,
        /// The last of them.
        pub last: u64,
        /// Those between the two that did not arrive.
        pub lost: u64,
        /// The last frame before them; zero if there was none.
        pub before: Passed,
        /// The first frame after them.
        pub after: Passed,
    }
}

shared! {
    /// What a group lost, and when.
    #[derive(Debug, Clone, Copy)]
    pub struct Losses {
        /// Gaps so far; the last [`GAPS`] are in `gap`.
        pub gaps: u64,
        /// Periods of loss so far; the last [`EVENTS`] are in `event`.
        pub events: u64,
        /// Gaps that were not filled: frames lost in a row.
        pub runs: u64,
        /// Frames of the longest of them.
        pub run_max: u64,
        /// Gaps that late frames may still fill: number n is at n modulo [`GAPS`].
        pub gap: [Gap; GAPS],
        /// Periods: number n is at n modulo [`EVENTS`].
        pub event: [Gap; EVENTS],
    }
}

shared! {
    /// All of the receiver's memory that user space maps.
    #[derive(Debug, Clone, Copy)]
    pub struct Recv {
        /// 1: send test frames back.
        pub reflect: u32,
        /// 1: other frames go on to the kernel.
        pub pass: u32,
        /// Stream (lower byte) and epoch that are expected here.
        pub origin: u16,
        /// 1: every epoch and stream counts, and reflected frames are counted too.
        pub any: u8,
        /// 1: differences of latencies are counted.
        pub ipdv: u8,
        pad: [u8; 4],
        /// Test frames of this epoch and stream.
        pub received: u64,
        /// Frames with a wrong checksum, length or signature.
        pub corrupted: u64,
        /// Frames of an earlier epoch.
        pub stale: u64,
        /// Frames of another stream.
        pub misdelivered: u64,
        /// Frames that are not ours.
        pub other: u64,
        /// Frames sent back.
        pub reflected: u64,
        /// Broadcasts that go along with test frames.
        pub broadcasts: u64,
        /// Frames sent earlier are counted, but not timed; CLOCK_MONOTONIC ns.
        pub timed_from_ns: u64,
        /// Gaps less than this apart belong to one period of loss.
        pub merge_ns: u64,
        /// When the first slot of arrivals begins, CLOCK_MONOTONIC ns; all ones: none are noted.
        pub mark_from_ns: u64,
        /// A slot has 2 to this power of ns, 0..=63.
        pub mark_shift: u32,
        /// The first slot without an arrival.
        pub mark_next: u32,
    }
}

shared! {
    /// The first frame that arrived in a slot of time.
    #[derive(Debug, Clone, Copy)]
    pub struct Mark {
        /// CLOCK_MONOTONIC; 0: none.
        pub at_ns: u64,
        /// Frames so far, with it.
        pub frames: u64,
    }
}

shared! {
    /// Frames that leave a node.
    #[derive(Debug, Clone, Copy)]
    pub struct Leave {
        /// The first that has not left.
        pub next: u32,
        /// How long they are.
        pub bytes: [u16; LEAVING],
    }
}

/// A group's counts with nothing in them.
pub const EMPTY_GROUP: Group = Group {
    received: 0,
    duplicated: 0,
    reordered: 0,
    extent_max: 0,
    latency_sum_ns: 0,
    latency_min_ns: 0,
    latency_max_ns: 0,
    first_ns: 0,
    last_ns: 0,
    bytes: 0,
    latency: [0; LATENCY_BUCKETS],
};

#[cfg(test)]
mod tests;
