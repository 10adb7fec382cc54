//! Frames that are punted to the machine that the node runs on, each for a reason. A punted frame costs as much as a hundred
//! forwarded ones, so that each reason has a rate of its own, and each sender a part of that. A flood to the node's addresses
//! takes nothing from its routing protocols, nor from neighbour discovery.
//!
//! | reason | frames | what counts as a sender |
//! |---|---|---|
//! | neighbours | ARP, neighbour discovery, router discovery | an Ethernet address |
//! | routing | BGP, OSPF, BFD, RIP, PIM, VRRP, LDP, IGMP; from the link by itself | an address, or a /64, with an Ethernet address |
//! | ICMP | all other ICMP | likewise |
//! | rest | all else | likewise |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::ops::AddAssign;

use weir_packet::headers::{ICMP, ICMP6, TCP, UDP};

use crate::drops::DropReason;
use crate::frame::{Frame, Kind, PortId};
use crate::limits::Limits;
use crate::table::quota::Quota;
use crate::table::shares::Host;
use crate::threads::Share;
use crate::time::Time;

/// Places for senders.
const PLACES: usize = 1024;
const BGP: u16 = 179;
const LDP: u16 = 646;
/// RIP, RIPng, LDP, BFD: of one hop, its echoes, of several hops.
const ROUTING_UDP: [u16; 6] = [520, 521, LDP, 3784, 3785, 4784];
/// IGMP, EIGRP, OSPF, PIM, VRRP.
const ROUTING: [u8; 5] = [2, 88, 89, 103, 112];

/// Why a frame is punted to the machine. The machine is given frames in this order, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Punt {
    /// It says something about neighbours.
    Neighbours,
    /// It is of a routing protocol.
    Routing,
    /// Another message of ICMP.
    Icmp,
    /// All else.
    Rest,
}

impl Punt {
    /// All of them, in the order in which the machine is given them.
    pub const ALL: [Punt; 4] = [Punt::Neighbours, Punt::Routing, Punt::Icmp, Punt::Rest];

    /// Its name in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Punt::Neighbours => "neighbours",
            Punt::Routing => "routing",
            Punt::Icmp => "icmp",
            Punt::Rest => "rest",
        }
    }

    fn of(frame: &Frame<'_>) -> Punt {
        let (sport, dport) = frame.ports();
        match (frame.kind(), frame.proto()) {
            (Kind::V4 | Kind::V6, ICMP | ICMP6) => match frame.icmp() {
                Some((133..=137, _)) if frame.kind() == Kind::V6 => Punt::Neighbours,
                _ => Punt::Icmp,
            },
            (Kind::V4 | Kind::V6, TCP) if [BGP, LDP].iter().any(|port| [sport, dport].contains(port)) => {
                Punt::Routing
            }
            (Kind::V4 | Kind::V6, UDP) if ROUTING_UDP.contains(&dport) => Punt::Routing,
            (Kind::V4 | Kind::V6, proto) if ROUTING.contains(&proto) => Punt::Routing,
            (Kind::V4 | Kind::V6, _) => Punt::Rest,
            _ => Punt::Neighbours,
        }
    }
}

/// How many frames were punted, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Punts([u64; Punt::ALL.len()]);

impl Punts {
    /// Counts a frame.
    pub(crate) fn count(&mut self, punt: Punt) {
        if let Some(count) = self.0.get_mut(punt as usize) {
            *count += 1;
        }
    }

    /// Frames punted for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its frames.
    pub fn by_reason(&self) -> impl Iterator<Item = (Punt, u64)> {
        Punt::ALL.into_iter().zip(self.0)
    }
}

impl AddAssign for Punts {
    fn add_assign(&mut self, other: Punts) {
        self.0.iter_mut().zip(other.0).for_each(|(to, from)| *to += from);
    }
}

impl FromIterator<u64> for Punts {
    /// Counts in the order of [`Punt::ALL`].
    fn from_iter<T: IntoIterator<Item = u64>>(counts: T) -> Punts {
        let mut punts = Punts::default();
        punts.0.iter_mut().zip(counts).for_each(|(to, from)| *to = from);
        punts
    }
}

/// What the machine may still be given.
#[derive(Debug)]
pub(crate) struct Local {
    neighbours: Quota,
    routing: Quota,
    /// For hosts on the link of the port: remote hosts take nothing from it.
    routing_near: Quota,
    icmp: Quota,
    rest: Quota,
    share: Share,
    /// Ports whose frames no machine takes.
    pub(crate) not_taken: Vec<PortId>,
}

/// Where the sender of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// On the link of the port that the frame came in by.
    OnLink,
    Elsewhere,
}

impl Local {
    pub(crate) fn new(limits: &Limits, share: Share, seed: u64) -> Local {
        let [neighbours, routing, icmp, rest] =
            limits.local(share).map(|rates| move || Quota::new(seed, PLACES, rates));
        Local {
            neighbours: neighbours(),
            routing: routing(),
            routing_near: routing(),
            icmp: icmp(),
            rest: rest(),
            share,
            not_taken: Vec::new(),
        }
    }

    /// Sets other limits.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        let [neighbours, routing, icmp, rest] = limits.local(self.share);
        self.neighbours.set_rates(neighbours);
        self.routing.set_rates(routing);
        self.routing_near.set_rates(routing);
        self.icmp.set_rates(icmp);
        self.rest.set_rates(rest);
    }

    /// The reason to give a frame to the machine.
    ///
    /// # Errors
    /// The reason to drop it.
    pub(crate) fn punt(&mut self, now: Time, frame: &Frame<'_>, sender: Sender) -> Result<Punt, DropReason> {
        if self.not_taken.contains(&frame.port) {
            return Err(DropReason::NoLocal);
        }
        let punt = Punt::of(frame);
        let (quota, reason) = match punt {
            Punt::Neighbours => (&mut self.neighbours, DropReason::LocalNeighbours),
            Punt::Routing if sender == Sender::OnLink => (&mut self.routing_near, DropReason::LocalRouting),
            Punt::Routing => (&mut self.routing, DropReason::LocalRouting),
            Punt::Icmp => (&mut self.icmp, DropReason::LocalIcmp),
            Punt::Rest => (&mut self.rest, DropReason::LocalRest),
        };
        let from = if punt == Punt::Neighbours { Host::station(frame) } else { Host::of(frame) };
        if quota.allows(now, from) { Ok(punt) } else { Err(reason) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::HEAD_ROOM;
    use crate::scenario::packet;

    #[test]
    fn kinds_of_frames() {
        for (line, punt) in [
            ("tcp 198.18.0.2:179 > 198.18.0.1:50000 A", Punt::Routing),
            ("tcp [2001:db8::2]:50000 > [2001:db8::1]:179 S", Punt::Routing),
            ("tcp 198.18.0.2:50000 > 198.18.0.1:22 S", Punt::Rest),
            ("udp 198.18.0.2:50000 > 198.18.0.1:3784", Punt::Routing),
            ("udp 198.18.0.2:3784 > 198.18.0.1:53", Punt::Rest),
            ("proto/89 198.18.0.2 > 224.0.0.5 len 44", Punt::Routing),
            ("proto/47 198.18.0.2 > 198.18.0.1 len 44", Punt::Rest),
            ("icmp reply 198.18.0.2 > 198.18.0.1 id 7", Punt::Icmp),
            ("icmp echo [2001:db8::2] > [2001:db8::1] id 7", Punt::Icmp),
        ] {
            let kind: [u8; 2] = if line.contains('[') { [0x86, 0xdd] } else { [8, 0] };
            let packet = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
            let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &kind, &packet].concat();
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
            frame.read(12).expect("readable");
            assert_eq!(Punt::of(&frame), punt, "{line}");
        }
    }
}
