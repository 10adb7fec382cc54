//! Translations of a NAT: the number of correct ones, the faults of the others, and frames as evidence.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weir_packet::flow::Flow;
use weir_port::translation::PUBLIC_RANGES;

/// Most ranges of public addresses.
pub const MOST_RANGES: usize = PUBLIC_RANGES;

/// What is expected of a NAT, and of which flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    /// Public addresses, from the first to the last of each range; 1 to [`MOST_RANGES`] ranges.
    pub public: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Flows from inside, in the order of sending; after the last the first follows. Group 0. As many as those of the
    /// traffic at most.
    pub flows: Vec<Flow>,
}

/// What can be wrong with a frame behind a NAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NatFault {
    /// It left with a source that is no public address.
    Leaked,
    /// Two flows have one outside tuple; counted are the flows that got one that was taken.
    Clashed,
    /// An answer went to another inside host.
    WrongSubscriber,
    /// Its flow had another outside tuple before.
    Remapped,
    /// It went to another outside host.
    WrongDestination,
}

impl NatFault {
    /// In the order of the program.
    pub const ALL: [NatFault; 5] = [
        NatFault::Leaked,
        NatFault::Clashed,
        NatFault::WrongSubscriber,
        NatFault::Remapped,
        NatFault::WrongDestination,
    ];

    /// In words, after a number.
    pub fn text(self) -> &'static str {
        match self {
            NatFault::Leaked => "frames left untranslated",
            NatFault::Clashed => "flows got an outside tuple that another flow had in the same trial",
            NatFault::WrongSubscriber => "answers went to the wrong subscriber",
            NatFault::Remapped => "frames had another outside tuple than their flow's first frame",
            NatFault::WrongDestination => "frames went to the wrong destination",
        }
    }
}

/// What was seen on both sides of a NAT in a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Translated {
    /// Frames that arrived outside as they should.
    pub outside: u64,
    /// Flows of which one did.
    pub flows: u64,
    /// Frames that arrived inside, where they belong.
    pub inside: u64,
    /// Flows of which one did.
    pub flows_inside: u64,
    /// What was wrong; kinds that did not occur are left out.
    pub faults: Vec<(NatFault, u64)>,
}

impl Translated {
    /// Frames that arrived and count as lost, since something was wrong with them.
    pub fn wrong_frames(&self) -> u64 {
        // A flow whose tuple is another's is answered wrongly, and counted there.
        self.faults.iter().filter(|(kind, _)| *kind != NatFault::Clashed).map(|(_, n)| n).sum()
    }
}

/// A frame that shows what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What is wrong with it.
    pub fault: NatFault,
    /// Number of its flow.
    pub flow: u32,
    /// When it came, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    /// Length without FCS.
    pub wire_len: u32,
    /// Its beginning.
    pub bytes: Vec<u8>,
}

impl NatFault {
    /// Was it seen outside?
    pub fn is_outside(self) -> bool {
        self != NatFault::WrongSubscriber
    }
}

/// The outside tuple of a flow, as its first frame of a trial had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outside {
    /// Public address.
    pub address: Ipv4Addr,
    /// Port.
    pub port: u16,
}
