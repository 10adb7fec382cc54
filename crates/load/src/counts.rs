//! The load of a trial, and its counts.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_packet::flow::{Direction, FlowSpec};
use weir_packet::frame::{Ends, Transport};
use weir_packet::size::FrameSizes;
use weir_port::shared::MARKS;

use crate::histogram::{Histogram, LATE_BITS, LATENCY_BITS};
use crate::ipdv::Ipdv;
use crate::tcp::Part;

/// The traffic of all trials at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Frame sizes.
    pub sizes: FrameSizes,
    /// Transport protocol of the frames.
    pub transport: Transport,
    /// Directions in which frames are sent.
    pub direction: Direction,
    /// Flows from a to b; from b to a they are reversed.
    pub flows: FlowSpec,
    /// MACs and IP prefixes of the stream from a and of the stream from b.
    pub ends: [Ends; 2],
    /// Seed of random sizes.
    pub seed: u64,
}

impl Traffic {
    /// Is stream `i` (0 = from a, 1 = from b) sent?
    pub fn sends(&self, stream: usize) -> bool {
        stream == 0 || self.direction == Direction::Both
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        (0..2).filter(|&i| self.sends(i)).count()
    }

    /// The port (0 = a, 1 = b) where frames of `stream` are counted.
    pub fn arrival(&self, stream: usize) -> usize {
        match self.direction {
            Direction::Reflect => stream,
            Direction::Forward | Direction::Both => 1 - stream,
        }
    }

    /// Name of a stream in records.
    pub fn name(&self, stream: usize) -> &'static str {
        match (self.direction, stream) {
            (Direction::Reflect, _) => "a>b>a",
            (_, 0) => "a>b",
            _ => "b>a",
        }
    }
}

/// The load of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Frames/s, all streams together; `None` = as fast as the tester can.
    pub fps: Option<f64>,
    /// How long to send.
    pub duration: Duration,
    /// Ends a stream after this many frames, if it comes first.
    pub max_frames: Option<u64>,
    /// The only stream that is sent, of two that could be; `None` = all. Of the XDP tester.
    #[serde(default)]
    pub only: Option<usize>,
    /// How frames are spread over the time; of no meaning as fast as the tester can.
    pub shape: Shape,
    /// Losses that are less than this apart, by the times at which frames were sent, are one period.
    pub merge: Duration,
    /// A trial is over when no frame has arrived for this long; `None` = the tester's own time,
    /// which suffices for queues but not for deep buffers (RFC 9004: 2 s).
    pub drain: Option<Duration>,
    /// Only frames sent this long after the start or later are timed (RFC 2544, section 26.2); all are counted.
    pub timed_from: Duration,
    /// Shall differences between latencies be counted?
    pub ipdv: bool,
    /// Shall the device be in overload? Then times of arrival are recorded, about each millisecond, and frames may leave 16
    /// at a time. Only the XDP tester does.
    #[serde(default)]
    pub overload: bool,
    /// Shall stops of CPUs be recorded, to attribute losses to them? The clocks for that delay a frame now and then.
    #[serde(default)]
    pub stops: bool,
    /// Before each n-th frame of a stream goes a broadcast (RFC 2544, section 11.1), in addition; `None` = never.
    pub broadcast_every: Option<NonZeroU32>,
    /// The part of TCP connections that each frame of stream 0 begins, where the XDP tester has both ends of them.
    #[serde(default)]
    pub tcp: Option<Part>,
    /// The share of stream 0 in the rate; `None` = all streams have the same.
    #[serde(default)]
    pub share: Option<f64>,
}

/// How the frames of a load are spread over its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Shape {
    /// Evenly.
    Steady,
    /// Evenly, but from a time on at another rate (RFC 2544, section 26.5).
    Step {
        /// When the rate changes, after the start.
        at: Duration,
        /// Frames/s from then on, all streams together.
        fps: f64,
    },
    /// In bursts, with pauses such that the mean is the load's rate (RFC 2544, section 21).
    Bursts {
        /// Frames of a burst of each stream, at least 1.
        frames: u32,
        /// Frames/s within a burst, all streams together; `None` = as fast as the tester can.
        within_fps: Option<f64>,
    },
}

/// Losses less than this apart are one period unless a load says otherwise.
const MERGE: Duration = Duration::from_millis(1);

impl Load {
    /// `fps` frames/s evenly over `duration`.
    pub fn steady(fps: f64, duration: Duration) -> Load {
        Load {
            fps: Some(fps),
            duration,
            max_frames: None,
            only: None,
            shape: Shape::Steady,
            merge: MERGE,
            drain: None,
            timed_from: Duration::ZERO,
            ipdv: false,
            overload: false,
            stops: false,
            broadcast_every: None,
            tcp: None,
            share: None,
        }
    }

    /// `fps` frames/s evenly over `duration`, which are more than the device forwards.
    pub fn overload(fps: f64, duration: Duration) -> Load {
        Load { overload: true, ..Load::steady(fps, duration) }
    }

    /// As fast as the tester can, over `duration`.
    pub fn full_speed(duration: Duration) -> Load {
        Load { fps: None, ..Load::steady(0.0, duration) }
    }

    /// The values that receivers measure. No frame is timed until it is known when the first one leaves, by the receiver's
    /// own clock: those from another host never are.
    pub(crate) fn watch(&self) -> Watch {
        let merge_ns = u64::try_from(self.merge.as_nanos()).unwrap_or(u64::MAX / 2);
        let mark_shift = self.overload.then(|| mark_shift(self.duration));
        Watch { merge_ns, timed_from_ns: u64::MAX, ipdv: self.ipdv, mark_shift, tcp: self.tcp }
    }
}

/// A slot of arrivals has 2 to this power of ns, if a trial is short: a millisecond.
const MARK_SHIFT: u32 = 20;
/// Arrivals are recorded for this long after the load has ended.
const AFTER: Duration = Duration::from_millis(50);

/// The shortest slots, as a power of two of ns, that cover a trial of this duration.
fn mark_shift(duration: Duration) -> u32 {
    let ns = (duration + AFTER).as_nanos();
    (MARK_SHIFT..64).find(|shift| (MARKS as u128) << shift >= ns).unwrap_or(63)
}

/// Frames sent by a tester in a trial, or by its part on one host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    /// Per stream, in order; the counts of arrivals are still empty.
    pub streams: Vec<StreamCounts>,
    /// Time from the first frame's due time to the end of sending.
    pub sending: Duration,
}

/// Frames sent and received in a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counts {
    /// Per stream that is sent, in order.
    pub streams: Vec<StreamCounts>,
    /// Per port: frames that are not counted in any stream.
    pub ports: [PortCounts; 2],
    /// Time from the first frame's due time to the end of sending.
    pub sending: Duration,
    /// Frames that arrived and that the tester itself lost.
    pub drops: Vec<TesterDrops>,
}

/// Frames lost in the tester.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TesterDrops {
    /// Name of the place.
    pub name: String,
    /// How many.
    pub frames: u64,
    /// Counter that they were read from.
    pub source: String,
}

/// One stream of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamCounts {
    /// 0 = from a, 1 = from b.
    pub stream: usize,
    /// Frames that were to be sent.
    pub offered: u64,
    /// Frames handed to the interface.
    pub sent: u64,
    /// Sum of their sizes in bytes, FCS included.
    pub sent_bytes: u64,
    /// How late frames left, ns after their due time; empty when not paced.
    pub late: Histogram,
    /// Largest lateness, ns.
    pub late_max_ns: u64,
    /// How late the last frame left, ns; of those that are due at the same time, the first.
    pub late_end_ns: u64,
    /// When sending began, CLOCK_MONOTONIC ns.
    pub start_ns: u64,
    /// When the last frame left, ns after the start.
    pub last_ns: u64,
    /// When the first frame left after which the rate was another one, ns after the start.
    pub turned_ns: Option<u64>,
    /// Broadcasts that went along.
    pub broadcasts: u64,
    /// Frames received, per flow group.
    pub groups: Vec<GroupCounts>,
    /// When it arrived, oldest first: about one for each millisecond in which anything did; empty unless it was asked for.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// How many frames had arrived at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Arrival of the last of them, ns after the start.
    pub at_ns: u64,
    /// Frames so far, each once.
    pub frames: u64,
}

impl StreamCounts {
    /// Frames received, each counted once.
    pub fn received(&self) -> u64 {
        self.groups.iter().map(|g| g.received).sum()
    }
}

/// One flow group of a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroupCounts {
    /// Frames sent.
    pub sent: u64,
    /// Frames received, each counted once.
    pub received: u64,
    /// Frames received again.
    pub duplicated: u64,
    /// Frames received after one with a higher number.
    pub reordered: u64,
    /// How far behind the highest number a frame arrived, at most: the reordering extent (RFC 4737, section 4.2.2)
    /// where none in between was lost.
    pub extent_max: u64,
    /// Time from departure to arrival.
    pub latency: Histogram,
    /// Smallest, largest and sum of all latencies, ns.
    pub latency_min_ns: u64,
    /// Largest latency, ns.
    pub latency_max_ns: u64,
    /// Sum of latencies, ns.
    pub latency_sum_ns: u64,
    /// Differences between latencies, where they were asked for.
    pub ipdv: Option<Box<Ipdv>>,
    /// When frames were lost; empty where the sender is not known.
    pub lost: LostFrames,
}

/// Periods of loss of a flow group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostFrames {
    /// Oldest first; the last ones where there were too many.
    pub events: Vec<LossEvent>,
    /// How many there were.
    pub count: u64,
    /// Frames lost in a row are a run, a single one too: how many there were.
    pub runs: u64,
    /// Frames of the longest run.
    pub run_max: u64,
}

/// Frames lost with less than [`Load::merge`] between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossEvent {
    /// When the first of them was sent, ns after the first frame of the trial was due.
    pub first_sent_ns: u64,
    /// When the last of them was sent.
    pub last_sent_ns: u64,
    /// How many they are.
    pub lost: u64,
    /// From the arrival of the last frame before them to that of the first frame after them, ns. Before the first
    /// and after the last frame that arrived: the time in which they were sent.
    pub outage_ns: u64,
}

impl GroupCounts {
    /// Nothing sent, nothing received.
    pub fn empty() -> Self {
        GroupCounts {
            sent: 0,
            received: 0,
            duplicated: 0,
            reordered: 0,
            extent_max: 0,
            latency: Histogram::new(LATENCY_BITS, weir_port::shared::LATENCY_BUCKETS),
            latency_min_ns: 0,
            latency_max_ns: 0,
            latency_sum_ns: 0,
            ipdv: None,
            lost: LostFrames::default(),
        }
    }
}

/// Frames at a port that belong to no stream of this trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounts {
    /// Wrong checksum, length or signature.
    pub corrupted: u64,
    /// From an earlier trial.
    pub stale: u64,
    /// Of the stream that should arrive elsewhere.
    pub misdelivered: u64,
    /// Not test frames.
    pub other: u64,
    /// Test frames sent back (reflector).
    pub reflected: u64,
    /// Broadcasts that went along with test frames, see [`Load::broadcast_every`].
    pub broadcasts: u64,
}

/// Which test frames a receiver counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Those of one trial and stream; all others are stale or misdelivered, and dropped.
    Only {
        /// Number of the trial, modulo 256.
        epoch: u8,
        /// `None` where no stream arrives.
        stream: Option<u8>,
    },
    /// Test frames of all senders, reflected ones too; other frames are passed to the kernel.
    Any,
}

/// Measurements of a receiver beyond numbers of frames.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    /// Losses less than this apart are one period, ns.
    pub(crate) merge_ns: u64,
    /// Frames sent earlier are not timed, CLOCK_MONOTONIC ns.
    pub(crate) timed_from_ns: u64,
    /// Are differences between latencies counted?
    pub(crate) ipdv: bool,
    /// Slots of arrivals, as a power of two of ns; `None`: no arrivals are noted.
    pub(crate) mark_shift: Option<u32>,
    /// The part of TCP connections that is checked.
    pub(crate) tcp: Option<Part>,
}

/// Counts of a receiver that does not know the senders.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// Test frames, each once.
    pub frames: u64,
    /// Flow groups with at least one frame.
    pub groups: Vec<Arrived>,
    /// Frames that belong to no group.
    pub port: PortCounts,
    /// Frames lost in the receiver itself.
    pub ring_drops: u64,
}

/// Frames received of one flow group.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Its number.
    pub group: u16,
    /// Frames received, duplicated and reordered; `sent` is not known, and 0.
    pub counts: GroupCounts,
    /// Highest sequence number that arrived, + 1.
    pub next: u64,
}

impl Arrived {
    /// Numbers below the highest that never arrived. Losses after the highest number are not seen here.
    pub fn lost(&self) -> u64 {
        self.next.saturating_sub(self.counts.received)
    }
}

/// An empty lateness histogram.
pub fn empty_lateness() -> Histogram {
    Histogram::new(LATE_BITS, weir_port::shared::LATE_BUCKETS)
}
