//! Frames that were not judged, reported when this begins: without it the absence of attacks would be misleading.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use weir_packet::encapsulation::EtherType;

/// What stood still for so long and grows again has begun again.
const QUIET_NS: u64 = 10_000_000_000;
/// Different reasons that are counted apart: a type field may be anything.
const MOST_REASONS: usize = 32;

/// Why something is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// Frames were lost before they could be counted.
    Lost,
    /// Counts of busy hosts were discarded: there is no more memory for hosts.
    HostsEvicted,
    /// Flows were forgotten early: there is no more memory for flows.
    FlowsForgotten,
    /// Hosts near a limit are not watched: too many others are.
    Unwatched,
    /// Frames of a protocol in which no IP packet is found.
    NotUnderstood(EtherType),
    /// Frames that end within the headers before or of IP.
    Cut(EtherType),
    /// Frames that end before their ports or their flags of TCP: they are counted, but not by these.
    NoPorts,
    /// Frames of a link type (LINKTYPE_* of a capture file) that is not understood.
    LinkType(u16),
    /// Frames without a time stamp.
    Untimed,
    /// Frames of further protocols and links, which are not counted apart.
    Others,
}

impl Gap {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Gap::Lost => "lost",
            Gap::HostsEvicted => "hosts_evicted",
            Gap::FlowsForgotten => "flows_forgotten",
            Gap::Unwatched => "unwatched",
            Gap::NotUnderstood(_) => "not_understood",
            Gap::Cut(_) => "cut",
            Gap::NoPorts => "no_ports",
            Gap::LinkType(_) => "link_type",
            Gap::Untimed => "untimed",
            Gap::Others => "others",
        }
    }

    /// The EtherType or link type that it is about: `0x8864`, `105`.
    pub fn protocol(self) -> Option<String> {
        match self {
            Gap::NotUnderstood(ether_type) | Gap::Cut(ether_type) => Some(ether_type.to_string()),
            Gap::LinkType(link_type) => Some(link_type.to_string()),
            _ => None,
        }
    }

    /// What it is, behind its count, and what helps.
    pub fn words(self) -> String {
        let of = |ether_type: EtherType| {
            let name = ether_type.name().map_or(String::new(), |name| format!(", {name}"));
            format!("frames ({ether_type}{name})")
        };
        match self {
            Gap::Lost => "frames were lost before detection: raise --buffer or --threads".into(),
            Gap::HostsEvicted => "busy hosts were evicted: raise memory.hosts_mib".into(),
            Gap::FlowsForgotten => "flows were evicted early: raise memory.flows_mib".into(),
            Gap::Unwatched => "times a host near its limit could not be watched: raise the limits".into(),
            Gap::NotUnderstood(ether_type) => {
                format!("{}: no IP packet in this protocol", of(ether_type))
            }
            Gap::Cut(ether_type) => {
                format!("{} end within their headers: capture more bytes of each", of(ether_type))
            }
            Gap::NoPorts => {
                "frames by ports, new flows and SYN: they end before these; capture more bytes of each".into()
            }
            Gap::LinkType(link_type) => {
                format!("frames of link type {link_type}: Ethernet, raw IP and Linux cooked are understood")
            }
            Gap::Untimed => "frames without a time stamp: they have no rate".into(),
            Gap::Others => "frames of further protocols and links".into(),
        }
    }
}

/// Frames that could not be judged, by the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotJudged(BTreeMap<Gap, u64>);

impl NotJudged {
    pub(crate) fn add(&mut self, gap: Gap, frames: u64) {
        let has_room = self.0.len() < MOST_REASONS || self.0.contains_key(&gap);
        *self.0.entry(if has_room { gap } else { Gap::Others }).or_default() += frames;
    }

    /// Each reason with its count of frames.
    pub fn iter(&self) -> impl Iterator<Item = (Gap, u64)> {
        self.0.iter().map(|(gap, frames)| (*gap, *frames))
    }

    /// Frames of all reasons that were not counted at all.
    pub fn frames(&self) -> u64 {
        self.iter().filter(|(gap, _)| *gap != Gap::NoPorts).map(|(_, frames)| frames).sum()
    }
}

/// One of [`NotJudged`], in JSON.
#[derive(Serialize)]
struct Reason {
    gap: &'static str,
    protocol: Option<String>,
    frames: u64,
}

impl Serialize for NotJudged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(gap, frames)| Reason {
            gap: gap.name(),
            protocol: gap.protocol(),
            frames,
        }))
    }
}

/// What has been reported.
#[derive(Debug, Default)]
pub struct Unjudged {
    /// Of each gap: its count, and when that last grew.
    seen: BTreeMap<Gap, (u64, u64)>,
}

impl Unjudged {
    /// What has begun since the last look, with its count since then.
    pub fn look(&mut self, gaps: Vec<(Gap, u64)>, now_ns: u64) -> Vec<(Gap, u64)> {
        let mut begun = Vec::new();
        for (gap, count) in gaps {
            let (before, grew_ns) = self.seen.get(&gap).copied().unzip();
            let before = before.unwrap_or(0);
            if count > before {
                if grew_ns.is_none_or(|grew_ns: u64| now_ns.abs_diff(grew_ns) >= QUIET_NS) {
                    begun.push((gap, count - before));
                }
                self.seen.insert(gap, (count, now_ns));
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Status;

    #[test]
    fn a_gap_is_reported_when_it_begins_and_when_it_begins_again() {
        let mut unjudged = Unjudged::default();
        let mut look = |second: u64, lost, unwatched| {
            let status = Status { lost, unwatched, ..Status::default() };
            unjudged.look(status.gaps(), second * 1_000_000_000)
        };
        assert_eq!(look(1, 0, 0), []);
        assert_eq!(look(2, 0, 5), [(Gap::Unwatched, 5)]);
        assert_eq!(look(3, 7, 6), [(Gap::Lost, 7)]);
        assert_eq!(look(12, 8, 7), []);
        assert_eq!(look(21, 8, 7), []);
        // Ten seconds after it last grew.
        assert_eq!(look(22, 9, 7), [(Gap::Lost, 1)]);
        assert_eq!(look(40, 9, 9), [(Gap::Unwatched, 2)]);
    }

    #[test]
    fn each_protocol_is_a_gap_of_its_own_up_to_a_number_of_them() {
        let (mut status, mut unjudged) = (Status::default(), Unjudged::default());
        let of = |n: u16| Gap::NotUnderstood(EtherType(0x9100 + n));
        for n in 0..100 {
            status.not_judged.add(of(n), u64::from(n) + 1);
        }
        let begun = unjudged.look(status.gaps(), 7);
        assert_eq!(begun.len(), MOST_REASONS + 1);
        assert!(begun.contains(&(of(4), 5)), "{begun:?}");
        assert_eq!(begun.last(), Some(&(Gap::Others, (MOST_REASONS as u64 + 1..=100).sum())));
        assert_eq!(status.not_judged.frames(), (1..=100).sum::<u64>());
        let text = serde_json::to_string(&status.not_judged).expect("plain");
        assert!(text.starts_with(r#"[{"gap":"not_understood","protocol":"0x9100","frames":1},"#), "{text}");
        let words = Gap::NotUnderstood(EtherType(0x88e5)).words();
        assert_eq!(words, "frames (0x88e5, MACsec): no IP packet in this protocol");
    }
}
