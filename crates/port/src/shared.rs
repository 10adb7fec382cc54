//! The memory that the eBPF programs and user space share, as `bpf/weir.h` lays it out.

/// Streams of one generator: side a and side b.
pub const STREAMS: usize = 2;
/// Flow groups of a stream.
pub const GROUPS: usize = 256;
/// Buckets of the lateness histogram, 8 per octave.
pub const LATE_BUCKETS: usize = 256;
/// Buckets of a latency histogram, 64 per octave.
pub const LATENCY_BUCKETS: usize = 1920;

/// One entry of the flow table; addresses and ports in network order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    /// IPv4 source, or the last 4 bytes of the IPv6 source.
    pub src: u32,
    /// The same of the destination.
    pub dst: u32,
    /// UDP source port.
    pub sport: u16,
    /// UDP destination port.
    pub dport: u16,
    /// Flow group, below [`GROUPS`].
    pub group: u16,
    /// One's complement sum of addresses and ports.
    pub sum: u16,
}

/// One direction of the generator. The first part is written by user space, the second by the program.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Stream {
    /// Where frames leave; 0 = off.
    pub ifindex: u32,
    /// 42 for IPv4, 62 for IPv6.
    pub header_bytes: u32,
    /// Template of Ethernet, IP and UDP header.
    pub header: [u8; 64],
    /// Sum of the constant part of the IPv4 header.
    pub ip_sum: u32,
    /// Sum of the constant part of what the UDP checksum covers.
    pub udp_sum: u32,
    /// Nominal gap, ns * 65536; 0 = as fast as possible.
    pub gap_q16: u64,
    /// Frames to send.
    pub total: u64,
    /// First flow table entry.
    pub flow_first: u32,
    /// Number of flow table entries.
    pub flow_count: u32,
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

/// All of the generator's memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Gen {
    /// When to start, CLOCK_MONOTONIC ns.
    pub start_ns: u64,
    /// No frame leaves later.
    pub stop_ns: u64,
    /// The clock when it was last read, CLOCK_MONOTONIC ns.
    pub clock_ns: u64,
    /// State of the generator of random sizes.
    pub seed: u64,
    /// Program runs between two flushes of the kernel.
    pub batch: u32,
    /// First runs of a batch in which no frame leaves.
    pub hold: u32,
    /// Runs so far in this batch.
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
    /// The clock is read in runs whose number has none of these bits.
    pub clock_mask: u32,
    /// Both directions.
    pub stream: [Stream; STREAMS],
}

/// Counts of one flow group on one CPU.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Group {
    /// Frames, duplicates included.
    pub received: u64,
    /// Frames that had come before.
    pub duplicated: u64,
    /// Frames that came after one with a higher number.
    pub reordered: u64,
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

/// Sequence numbers seen; see the program.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Window {
    /// Highest number so far + 1.
    pub next: u64,
    /// Blocks of 64 numbers: which block + 1, and which of them were seen.
    pub word: [(u64, u64); 1024],
}

/// All of the receiver's memory that user space maps.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Recv {
    /// 1: send test frames back.
    pub reflect: u32,
    /// 1: other frames go on to the kernel.
    pub pass: u32,
    /// Number of the trial, modulo 256.
    pub epoch: u8,
    /// Stream expected here.
    pub stream: u8,
    /// 1: every epoch and stream counts, and reflected frames are counted too.
    pub any: u8,
    pad: [u8; 5],
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
}

const _: () = assert!(size_of::<Flow>() == 16);
const _: () = assert!(size_of::<Stream>() == 168 + GROUPS * 4 + LATE_BUCKETS * 8);
const _: () = assert!(size_of::<Gen>() == 184 + 2 * size_of::<Stream>());
const _: () = assert!(size_of::<Group>() == 72 + LATENCY_BUCKETS * 8);
const _: () = assert!(size_of::<Window>() == 8 + 1024 * 16);
const _: () = assert!(size_of::<Recv>() == 64);

/// Plain data that a program shares: any bit pattern is a value.
///
/// # Safety
/// Only for `repr(C)` structures of integers without padding.
pub unsafe trait Shared: Copy {}
// SAFETY: repr(C), integers only, sizes asserted above leave no room for padding.
unsafe impl Shared for Flow {}
// SAFETY: as above.
unsafe impl Shared for Gen {}
// SAFETY: as above.
unsafe impl Shared for Group {}
// SAFETY: as above.
unsafe impl Shared for Window {}
// SAFETY: as above.
unsafe impl Shared for Recv {}

/// A group's counts with nothing in them.
pub const EMPTY_GROUP: Group = Group {
    received: 0,
    duplicated: 0,
    reordered: 0,
    latency_sum_ns: 0,
    latency_min_ns: 0,
    latency_max_ns: 0,
    first_ns: 0,
    last_ns: 0,
    bytes: 0,
    latency: [0; LATENCY_BUCKETS],
};
