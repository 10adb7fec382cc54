//! The node as a router: its routes, the neighbours that they lead to, and frames about neighbours.
//!
//! ```text
//! frames > hop of each destination (Lpm) > next hop ready: one hop less to live, new addresses, out
//!                                        > anything else: the slow way, with a reason for each drop (egress)
//! ```
//!
//! A neighbour of a port's network that is known has a route of its own to it, so that the quick way is the same for
//! all frames. Invariant: a hop of the tables from `NEIGHBOURS` on is a neighbour's, and its place in `nexts` agrees with the
//! neighbour's state.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod egress;
mod next_hops;
mod ports;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use weir_packet::frame::Mac;
use weir_packet::neighbour::{self, Host};

use super::nexts::{Next, Nexts};
use super::options::Options;
use super::rpf::{self, Accepted};
use super::{Hop, Lpm, v4::V4, v6::V6};
use crate::frame::{Frame, Kind, MOST_PORTS, PortId};
use crate::icmp;
use crate::kept::Ticket;
use crate::limits::Limits;
use crate::neighbour::{Link, NeighbourState, Neighbours, Slot, Translated};
use crate::outbox::Outbox;
use crate::port::Rpf;
use crate::prefix::{Prefix, is_link_local6};
use crate::table::page::Page;
use crate::table::secret::Secret;
use crate::threads::{NeighbourNews, Share};
use crate::time::Time;
use next_hops::Shared;
use ports::{Connected, connected};
pub(crate) use ports::{PortChange, Sweep};

const LOCAL: Hop = Hop(0);
const ALL: Hop = Hop(1);
const BLACKHOLE: Hop = Hop(2);
const UNREACHABLE: Hop = Hop(3);
const PROHIBIT: Hop = Hop(4);
const MARTIAN: Hop = Hop(5);
/// The first of the ports' networks; [`MOST_PORTS`] of them, then as many broadcast addresses.
const CONNECTED: u32 = 8;
const BROADCAST: u32 = CONNECTED + MOST_PORTS as u32;
/// The first of the neighbours.
const NEIGHBOURS: u32 = BROADCAST + MOST_PORTS as u32;
/// The first of the groups.
pub(super) const GROUPS: u32 = 1 << 24;

/// The node as a router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(super) v4: V4,
    pub(super) v6: V6,
    pub(super) nexts: Nexts,
    groups: Vec<Shared>,
    /// Those that no route uses.
    free_groups: Vec<usize>,
    by_members: HashMap<Vec<u32>, u32>,
    pub(super) neighbours: Neighbours,
    mtus: Vec<u16>,
    /// Where prefixes lead that are those of ports, or of no host elsewhere. A route of the text may replace one.
    base: HashMap<Prefix, Hop>,
    /// How many ports are at the left end.
    pub(super) left_ports: usize,
    /// By port, the ports that the route back to the sources of its frames may lead to, see [`rpf::accepted`].
    pub(super) accepted: Vec<Option<Accepted>>,
    /// What it does with options of IPv4.
    pub(crate) options: Options,
    /// The epochs of routes and of neighbours.
    pub(super) epochs: (u32, u32),
    /// Of the hash by which flows are spread over next hops.
    pub(super) secret: Secret,
}

/// No port's network holds the address of a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoLink(pub IpAddr);

impl fmt::Display for NoLink {
    /// What is wrong, and what to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoLink(address) = self;
        write!(f, "{address} is no neighbour of a port, or there are too many: give a port its network")
    }
}

impl Router {
    /// A router with these links, at most [`MOST_PORTS`], the longest packet of each, and the order of those that are ports of the
    /// text.
    #[expect(clippy::expect_used, reason = "texts that stand here")]
    pub(crate) fn new(links: Vec<Link>, mtus: Vec<u16>, order: &[PortId]) -> Router {
        let accepted = vec![None; links.len()];
        let mut nexts = Nexts::default();
        let fixed =
            [Next::Local, Next::All, Next::Blackhole, Next::Unreachable, Next::Prohibit, Next::Martian];
        (0..).zip(fixed).for_each(|(hop, next)| nexts.set(Hop(hop), next));
        let ports: Vec<PortId> = (0..links.len()).map(|port| PortId(port as u16)).collect();
        for &port in &ports {
            nexts.set(Hop(CONNECTED + u32::from(port.0)), Next::Connected(port));
            nexts.set(Hop(BROADCAST + u32::from(port.0)), Next::Broadcast(port));
        }
        let mut neighbours = Neighbours::new(links);
        neighbours.order = order.to_vec();
        let (v4, v6, groups, by_members) = (V4::new(), V6::new(), Vec::new(), HashMap::new());
        let free_groups = Vec::new();
        let options = Options::default();
        let mut router = Router {
            v4,
            v6,
            nexts,
            groups,
            free_groups,
            by_members,
            neighbours,
            mtus,
            base: HashMap::new(),
            left_ports: 0,
            accepted,
            options,
            epochs: (0, 0),
            secret: Secret::new(0),
        };
        for (group, len) in [("224.0.0.0", 4), ("255.255.255.255", 32), ("ff00::", 8)] {
            router.set_base(Prefix { address: group.parse().expect("an address"), len }, ALL);
        }
        // RFC 1812, section 5.3.7, RFC 4291, sections 2.5.2 and 2.5.3.
        for (martian, len) in [("0.0.0.0", 8), ("127.0.0.0", 8), ("::", 128), ("::1", 128)] {
            router.set_base(Prefix { address: martian.parse().expect("an address"), len }, MARTIAN);
        }
        // Link-local addresses of others are never forwarded (RFC 4291, section 2.5.6).
        router.set_base(Prefix { address: "fe80::".parse().expect("an address"), len: 10 }, BLACKHOLE);
        for &port in order {
            for Connected { prefix, hop } in connected(port, router.neighbours.link(port)) {
                router.set_base(prefix, hop);
            }
        }
        router
    }

    /// Judges the sources of frames as the ports say.
    pub(crate) fn judging(self, rpf: Vec<Rpf>) -> Router {
        let accepted = |(port, rpf)| rpf::accepted(rpf, port, self.neighbours.link(port));
        let accepted = (0..).map(PortId).zip(rpf).map(accepted).collect();
        Router { left_ports: self.neighbours.left_ports(), accepted, ..self }
    }

    /// The same for a thread of a node with these limits.
    pub(crate) fn limited(self, limits: &Limits, share: Share, seed: u64) -> Router {
        let secret = Secret::new(seed);
        Router { neighbours: self.neighbours.limited(limits, share, seed), secret, ..self }
    }

    /// Sets other limits for what hosts share.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.neighbours.limit(limits);
    }

    /// News about neighbours for the other threads of the node since the last call.
    pub(crate) fn news(&mut self) -> impl Iterator<Item = NeighbourNews> {
        self.neighbours.news()
    }

    /// The port of a neighbour's hop.
    pub(super) fn neighbour_port(&self, hop: Hop) -> PortId {
        self.neighbours.known(Slot(hop.0 - NEIGHBOURS)).port
    }

    /// What ports of the right end answer for beside their own addresses.
    pub(crate) fn translated(&mut self) -> &mut Translated {
        &mut self.neighbours.translated
    }

    /// The hosts of a prefix are on the link of this port.
    pub(crate) fn lead_to(&mut self, prefix: Prefix, port: PortId) {
        // What leads to the node itself stays.
        if !matches!(self.get(prefix.network()), Some(LOCAL | ALL | MARTIAN)) {
            self.set(prefix.network(), Hop(CONNECTED + u32::from(port.0)));
        }
    }

    /// How many neighbours it knows or asks for.
    #[cfg(test)]
    pub(crate) fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// Neighbours from this number on, a page of them.
    pub(crate) fn shown_neighbours(&self, from: u32, ports: &[String]) -> Page<NeighbourState> {
        self.neighbours.shown(from, ports)
    }

    /// Frames that wait for neighbours.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.neighbours.waiting()
    }

    /// Memory that look-ups read, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes() + self.nexts.bytes()
    }

    fn set(&mut self, prefix: Prefix, hop: Hop) -> Option<Hop> {
        self.epochs.0 = self.epochs.0.wrapping_add(1);
        match prefix.address {
            IpAddr::V4(address) => self.v4.insert(address.into(), prefix.len, hop),
            IpAddr::V6(address) => self.v6.insert(address.into(), prefix.len, hop),
        }
    }

    fn get(&self, prefix: Prefix) -> Option<Hop> {
        match prefix.address {
            IpAddr::V4(address) => self.v4.get(address.into(), prefix.len),
            IpAddr::V6(address) => self.v6.get(address.into(), prefix.len),
        }
    }

    /// When something is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.neighbours.due()
    }

    /// Does what is due at `now`, a bounded part of it; true if there is more.
    pub(crate) fn tick(&mut self, now: Time, outbox: &mut Outbox) -> bool {
        let more = self.neighbours.tick(now, outbox);
        self.settle();
        more
    }

    /// Handles a frame about neighbours: true if it is answered, false if it was for another host, `None` if it is no such frame.
    pub(crate) fn on_neighbour_frame(
        &mut self,
        frame: &Frame<'_>,
        now: Time,
        outbox: &mut Outbox,
    ) -> Option<bool> {
        let heard = neighbour::parse(&frame.untagged())?;
        let answered = self.neighbours.on_message(frame, heard, now, outbox);
        self.settle();
        Some(answered)
    }

    /// Whether an address is that of the node at a port.
    pub(crate) fn is_own(&self, port: PortId, address: IpAddr) -> bool {
        self.neighbours.link(port).addresses.iter().any(|local| local.address == address)
    }

    /// Answers the question of `from` for the address of another subscriber.
    pub(crate) fn answer_for(&self, frame: &Frame<'_>, target: IpAddr, from: Host, outbox: &mut Outbox) {
        self.neighbours.answer_for(frame, target, from, outbox);
    }

    /// Takes news about neighbours from another thread of the node.
    pub(crate) fn on_neighbour_news(&mut self, news: &NeighbourNews, now: Time, outbox: &mut Outbox) {
        if let Some(heard) = neighbour::parse(&news.frame) {
            self.neighbours.on_news(news.port, heard, now, outbox);
            self.settle();
        }
    }

    /// Whether a packet says that it comes from a host on the link of its port.
    pub(crate) fn is_near(&self, frame: &Frame<'_>) -> bool {
        let from: IpAddr = match frame.kind() {
            Kind::V4 => Ipv4Addr::from(frame.addresses4().0).into(),
            Kind::V6 => std::net::Ipv6Addr::from(frame.addresses6().0).into(),
            _ => return true,
        };
        self.neighbours.link(frame.port).addresses.iter().any(|local| local.contains(from))
    }

    /// The Ethernet address of a port.
    pub(crate) fn mac(&self, port: PortId) -> Mac {
        self.neighbours.link(port).mac
    }

    /// Whether it is a packet for the node's address on its link, or for all there, and not about neighbours.
    #[inline]
    pub(crate) fn takes_in(&self, frame: &Frame<'_>) -> bool {
        let is_packet = match frame.kind() {
            Kind::V4 => true,
            Kind::V6 => !icmp::is_about_neighbours(frame),
            Kind::Arp | Kind::Other => false,
        };
        is_packet && (*frame.receiver() == self.mac(frame.port) || frame.is_to_group())
    }
}

fn full(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Whether the source is an address of its link alone.
#[inline]
pub(super) fn is_of_link(frame: &Frame<'_>) -> bool {
    frame.kind() == Kind::V6 && is_link_local6(frame.addresses6().0)
}
