//! What a trial of churn found: the same sessions, frames and bytes, as emulator, node and RADIUS server count them. Pure.
//!
//! ```text
//!  emulator: sent, received  =  node: from and to subscribers, each of IPv4 and IPv6;   node  =  RADIUS: all Stops together
//!  emulator: sessions that came up  =  RADIUS: Starts  =  RADIUS: Stops
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_cpe::Summary;
use weir_cpe::radius::Accounted;
use weir_record::record::Detail;

use super::measured::{Counted, failures, own_losses};

/// Frames and bytes.
type Traffic = [u64; 2];

/// What a node counts of a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Families {
    pub(super) v4: Traffic,
    pub(super) v6: Traffic,
}

/// What a node counts of all subscribers together, also of those whose sessions have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeCounts {
    pub(super) from: Families,
    pub(super) to: Families,
}

fn minus(now: Traffic, before: Traffic) -> Traffic {
    [0, 1].map(|place: usize| now[place] - before[place])
}

fn apart(one: Traffic, other: Traffic) -> Traffic {
    [0, 1].map(|place: usize| one[place].abs_diff(other[place]))
}

fn plus(one: Traffic, other: Traffic) -> Traffic {
    [0, 1].map(|place: usize| one[place] + other[place])
}

impl Families {
    fn since(self, before: Families) -> Families {
        Families { v4: minus(self.v4, before.v4), v6: minus(self.v6, before.v6) }
    }

    fn all(self) -> Traffic {
        plus(self.v4, self.v6)
    }
}

impl NodeCounts {
    /// What was counted since an earlier time.
    pub(super) fn since(self, before: NodeCounts) -> NodeCounts {
        NodeCounts { from: self.from.since(before.from), to: self.to.since(before.to) }
    }
}

/// What a RADIUS server was told by accounting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) starts: u64,
    pub(super) interims: u64,
    pub(super) stops: u64,
    /// Starts and Stops that came again.
    pub(super) repeated: u64,
    pub(super) without_start: u64,
    /// Messages with a smaller counter than an earlier one of their session.
    pub(super) decreased: u64,
    pub(super) from: Traffic,
    pub(super) to: Traffic,
}

impl From<Accounted> for Told {
    fn from(accounted: Accounted) -> Told {
        let Accounted { starts, interims, stops, repeated, without_start, decreased, from, to } = accounted;
        Told { starts, interims, stops, repeated, without_start, decreased, from, to }
    }
}

/// What both ends beside the emulator counted; `None`: they do not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ends {
    pub(super) node: Option<NodeCounts>,
    pub(super) told: Option<Told>,
}

/// Sessions that ended and began again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Churned {
    pub(super) ended: u64,
    pub(super) up_again: u64,
    /// Sessions that came up, for the first time or again.
    pub(super) began: u64,
    pub(super) seconds: f64,
    /// Devices that failed, by step.
    pub(super) failures: Vec<(String, u64)>,
    pub(super) from: Counted,
    pub(super) to: Counted,
    /// First packets that were sent: the BNG counts them, too.
    pub(super) first_packets: u64,
    /// Of the numbered frames those of IPv6: sent from subscribers, received by them.
    pub(super) ipv6: [u64; 2],
    /// Bytes of a numbered frame on the line, and of a first packet.
    pub(super) line_bytes: [u64; 2],
    pub(super) ends: Ends,
    pub(super) left_behind: Option<u64>,
    pub(super) own_losses: u64,
}

impl Detail for Churned {
    const KEY: &'static str = "bng_churned";
}

impl Churned {
    pub(super) fn of(
        summary: &Summary,
        time: Duration,
        line_bytes: [u64; 2],
        ends: Ends,
        left_behind: Option<u64>,
    ) -> Churned {
        let churn = summary.churn.unwrap_or_default();
        Churned {
            ended: churn.ended,
            up_again: churn.up_again,
            began: summary.up + churn.up_again,
            // Sessions end from the first one on, also while others come up.
            seconds: (time + summary.all_up.unwrap_or_default()).as_secs_f64(),
            failures: failures(summary),
            from: Counted::of(summary.from_subscriber),
            to: Counted::of(summary.to_subscriber),
            first_packets: summary.up + churn.up_again + summary.retransmissions.first_packet,
            ipv6: [
                summary.from_subscriber.map_or(0, |traffic| traffic.sent6),
                summary.to_subscriber.map_or(0, |traffic| traffic.received6),
            ],
            line_bytes,
            ends,
            left_behind,
            own_losses: own_losses(summary),
        }
    }

    /// By how many frames and bytes the node's counters differ from the emulator's: from subscribers, what it sent; to them, what arrived.
    pub(super) fn difference(&self) -> Option<Traffic> {
        let NodeCounts { from, to } = self.ends.node?;
        let ([each, first], [sent6, received6]) = (self.line_bytes, self.ipv6);
        let whole = |frames: u64, bytes: u64| [frames, frames * bytes];
        let sent = plus(whole(self.from.sent - sent6, each), whole(self.first_packets, first));
        let v4 = plus(apart(from.v4, sent), apart(to.v4, whole(self.to.received - received6, each)));
        let v6 = plus(apart(from.v6, whole(sent6, each)), apart(to.v6, whole(received6, each)));
        Some(plus(v4, v6))
    }

    /// By how many frames and bytes accounting differs from the node's counters.
    pub(super) fn accounting_difference(&self) -> Option<Traffic> {
        let (node, told) = (self.ends.node?, self.ends.told?);
        Some(plus(apart(told.from, node.from.all()), apart(told.to, node.to.all())))
    }

    /// Sessions that came up without a Start or without a Stop, and Starts and Stops of no such session.
    pub(super) fn unaccounted(&self) -> Option<u64> {
        let told = self.ends.told?;
        Some(told.starts.abs_diff(self.began) + told.stops.abs_diff(self.began) + told.without_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_three_ends_are_compared_in_frames_and_bytes() {
        let counted = |frames| Counted { sent: frames, received: frames, ..Counted::default() };
        let node = NodeCounts {
            from: Families { v4: [110, 100 * 96 + 10 * 76], v6: [3, 3 * 96] },
            to: Families { v4: [50, 50 * 96], v6: [0, 0] },
        };
        let (from, to) = ([113, 103 * 96 + 10 * 76], [50, 50 * 96]);
        let told = Told { starts: 30, stops: 30, from, to, ..Told::default() };
        let ends = Ends { node: Some(node), told: Some(told) };
        let same = Churned {
            began: 30,
            from: counted(103),
            to: counted(50),
            first_packets: 10,
            ipv6: [3, 0],
            line_bytes: [96, 76],
            ends,
            ..Churned::default()
        };
        assert_eq!(same.difference(), Some([0, 0]));
        assert_eq!(same.accounting_difference(), Some([0, 0]));
        assert_eq!(same.unaccounted(), Some(0));
        let other = Churned { began: 31, first_packets: 11, to: counted(49), ..same };
        assert_eq!(other.difference(), Some([2, 76 + 96]));
        assert_eq!(other.unaccounted(), Some(2));
        assert_eq!(Churned::default().difference(), None);
    }
}
