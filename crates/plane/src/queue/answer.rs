//! What programs are told of a queue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::QueueCounts;
use crate::dir::Dir;

/// The counters of a queue in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueState {
    /// The queue among the stages of the text, from 1.
    pub stage: usize,
    /// The direction.
    pub direction: Dir,
    /// The name of its AQM.
    pub aqm: String,
    /// The rate of the link, bits/s, as it was when a frame was last sent; none without a limit.
    pub bits_per_s: Option<u64>,
    /// Bytes that may wait.
    pub limit_bytes: u64,
    /// Frames that wait.
    pub backlog_frames: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Frames that have gone on.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Of these, frames that got the mark of congestion here.
    pub marked: u64,
    /// Frames that the queue dropped.
    pub dropped: u64,
    /// Frames in flight behind the link, where it has a delay.
    pub delayed: Option<u64>,
    /// Frames lost behind the link, as configured.
    pub lost: Option<u64>,
    /// How much later than they were due frames went on, ns: the median.
    pub late_ns_p50: u64,
    /// The same, exceeded by one frame in a hundred.
    pub late_ns_p99: u64,
    /// The same, of the latest.
    pub late_ns_max: u64,
}

impl From<QueueCounts> for QueueState {
    fn from(queue: QueueCounts) -> QueueState {
        let late = |part: f64| queue.late.percentile(part);
        QueueState {
            stage: queue.stage,
            direction: queue.dir,
            bits_per_s: queue.bits_per_s,
            limit_bytes: queue.limit_bytes,
            backlog_frames: queue.backlog.0,
            backlog_bytes: queue.backlog.1,
            sent_frames: queue.sent.0,
            sent_bytes: queue.sent.1,
            marked: queue.marked,
            dropped: queue.dropped,
            delayed: queue.behind.map(|(delayed, _)| delayed),
            lost: queue.behind.map(|(_, lost)| lost),
            late_ns_p50: late(0.5),
            late_ns_p99: late(0.99),
            late_ns_max: late(1.0),
            aqm: queue.aqm,
        }
    }
}
