//! What programs are told of queues of subscribers and groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::round::NodeCounts;
use super::scheduler::Backlog;
use super::stage::{Shapers, ShownNode};

/// Frames that wait in a direction, and what became of those that had to wait.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct QueueFigures {
    /// Frames that wait.
    pub backlog_frames: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Frames that left with the mark of congestion (ECN).
    pub marked: u64,
    /// Frames that were dropped: by AQM, and because there was no room.
    pub dropped: u64,
    /// Frames that had to wait, by their delay: the first step ends at 65.536 us, each other one at twice the one before; the last one
    /// has no end.
    pub delays: Vec<u64>,
    /// Time during which frames waited for the rate of the subscriber, ms.
    pub limited_by_plan_ms: u64,
    /// Time during which frames waited for a group or port, or for their turn there, ms.
    pub limited_by_parent_ms: u64,
}

/// A port or group of subscribers, and what it has counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupState {
    /// The name of the group; none: it is the port itself.
    pub group: Option<String>,
    /// The access port.
    pub port: String,
    /// The group that it is within.
    pub within: Option<String>,
    /// Rate from its subscribers, bits/s; none: no limit.
    pub from_bits_per_s: Option<u64>,
    /// Rate to its subscribers, bits/s; none: no limit.
    pub to_bits_per_s: Option<u64>,
    /// Frames from its subscribers that were shaped and have gone on, and their bytes.
    pub from_sent: (u64, u64),
    /// Frames to its subscribers that were shaped and have left, and their bytes.
    pub to_sent: (u64, u64),
    /// Queues from its subscribers.
    pub from_queue: QueueFigures,
    /// Queues to its subscribers.
    pub to_queue: QueueFigures,
}

impl QueueFigures {
    /// The end of the step of delay in which this share of the frames that had to wait are, us; `None`: none had to wait.
    pub fn delay_us(&self, share: f64) -> Option<u64> {
        let all: u64 = self.delays.iter().sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let step = self.delays.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        step.filter(|_| all > 0).map(|step| (65_536 << step) / 1000)
    }
}

impl From<Backlog> for QueueFigures {
    fn from(backlog: Backlog) -> QueueFigures {
        let Backlog { packets, bytes, totals } = backlog;
        QueueFigures {
            backlog_frames: packets.into(),
            backlog_bytes: bytes.into(),
            marked: totals.marked.into(),
            dropped: totals.dropped.iter().map(|&count| u64::from(count)).sum(),
            delays: totals.delays.iter().map(|&count| count.into()).collect(),
            limited_by_plan_ms: totals.by_plan_ns / 1_000_000,
            limited_by_parent_ms: totals.by_parent_ns / 1_000_000,
        }
    }
}

impl From<NodeCounts> for QueueFigures {
    fn from(counts: NodeCounts) -> QueueFigures {
        let [backlog_frames, backlog_bytes] = counts.waiting;
        QueueFigures {
            backlog_frames,
            backlog_bytes,
            marked: counts.marked,
            dropped: counts.dropped,
            delays: counts.delays.to_vec(),
            ..QueueFigures::default()
        }
    }
}

impl Shapers {
    /// The ports and groups, at ports with these names.
    pub(crate) fn group_states(&self, ports: &[String]) -> Vec<GroupState> {
        let rate = |bits_per_s: u64| (bits_per_s > 0).then_some(bits_per_s);
        let of = |ShownNode { group, port, within, rates: [from, to], counts: [from_counts, to_counts] }: ShownNode<'_>| GroupState {
            group: group.map(String::from),
            port: ports.get(usize::from(port.0)).cloned().unwrap_or_default(),
            within: within.map(String::from),
            from_bits_per_s: rate(from),
            to_bits_per_s: rate(to),
            from_sent: from_counts.sent.into(),
            to_sent: to_counts.sent.into(),
            from_queue: from_counts.into(),
            to_queue: to_counts.into(),
        };
        self.nodes().map(of).collect()
    }
}
