//! The frames of one direction and flow group: counts, losses with their times, latency.

use serde::{Deserialize, Serialize};

/// Counts and latency of one flow group in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// `a>b`, `b>a`, `a>b>a` when the remote end reflects, or `a>a` when the device sends frames back where they came in.
    pub direction: String,
    /// Flow group, from 0.
    pub group: u32,
    /// Frames that left the tester.
    pub sent: u64,
    /// Frames received, each counted once.
    pub received: u64,
    /// `sent - received`.
    pub lost: u64,
    /// Received after a frame with a higher sequence number (RFC 4737 type-P-reordered).
    pub reordered: u64,
    /// How far behind the highest number a frame arrived, at most: the reordering extent (RFC 4737, section 4.2.2)
    /// where none in between was lost.
    #[serde(default)]
    pub reorder_extent_max: u64,
    /// Received again.
    pub duplicated: u64,
    /// Received with a wrong IP or UDP checksum or signature.
    pub corrupted: u64,
    /// Time from departure to arrival.
    pub latency: Latency,
    /// Periods of loss, oldest first; only the last ones where there were too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loss_events: Vec<LossEvent>,
    /// How many there were.
    #[serde(default)]
    pub loss_event_count: u64,
    /// Frames lost in a row are a run, a single one too: how many there were.
    #[serde(default)]
    pub loss_runs: u64,
    /// Frames of the longest run.
    #[serde(default)]
    pub loss_run_max: u64,
    /// Differences between the latencies of consecutive frames; `None` unless they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipdv: Option<Ipdv>,
}

/// A period in which frames were lost: gaps in the sequence with less than a millisecond between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossEvent {
    /// When its first lost frame was sent, ns after the first frame of the trial was due.
    pub first_sent_ns: u64,
    /// When its last lost frame was sent.
    pub last_sent_ns: u64,
    /// Frames lost between these.
    pub lost: u64,
    /// From the arrival of the last frame before it to that of the first frame after it, ns.
    pub outage_ns: u64,
}

/// IP packet delay variation (RFC 3393 as used by RFC 8219, section 7.3.2): latency of a frame minus that of the one
/// sent before it, ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ipdv {
    /// Pairs of consecutive frames that both arrived.
    pub count: u64,
    /// Smallest difference.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// Largest difference.
    pub max_ns: i64,
}

/// Summary of a latency histogram, nanoseconds. All zero when `count` is zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Frames measured.
    pub count: u64,
    /// Smallest value.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// The histogram: (upper bound of bucket in ns, frames), empty buckets left out.
    pub buckets: Vec<(u64, u64)>,
}
