//! Where each frame goes that passed the stages: next hop, time to live, length, Ethernet addresses.
//!
//! ```text
//! frames > hop of each destination (Lpm) > next hop ready: one hop less to live, new addresses, out
//!                                        > anything else: the slow way, with a reason for each drop
//! ```
//!
//! A neighbour of a port's network that is known has a route of its own to it, so that the quick way is the same for
//! all frames. Invariant: a hop of the tables from `NEIGHBOURS` on is a neighbour's, and `nexts` says what the
//! neighbour's state says.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use weir_packet::frame::Mac;
use weir_packet::neighbour;

use super::config::{NextHop, Route, Target};
use super::group::Group;
use super::hops::{End, hops};
use super::options::{self, Options, Writer};
use super::rpf;
use super::{Hop, Lpm, v4::V4, v6::V6};
use crate::batch::{Frames, PerFrame, Set};
use crate::drops::Drop;
use crate::flow::spread;
use crate::fragment;
use crate::frame::{Frame, Kind, PortId};
use crate::icmp::{self, Error};
use crate::kept::Ticket;
use crate::limits::Limits;
use crate::neighbour::{Asker, Known, Link, Neighbours, Slot, State, Waiting};
use crate::outbox::Outbox;
use crate::port::Rpf;
use crate::prefix::{Prefix, is_link_local6, is_unicast4, is_unicast6};
use crate::stage::Step;
use crate::table::secret::Secret;
use crate::table::shares::Host;
use crate::time::Time;
use crate::way::{Dir, Entry, News, Share};

/// What a hop means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A neighbour that is known.
    Ready {
        port: PortId,
        mac: Mac,
    },
    /// A neighbour that was known long ago.
    Stale {
        port: PortId,
        mac: Mac,
    },
    /// A neighbour that must be asked.
    Unresolved,
    /// The destination itself is a neighbour at this port.
    Connected(PortId),
    /// The node itself.
    Local,
    /// All hosts, or a group of them: the node is one.
    All,
    /// All hosts of this port's link.
    Broadcast(PortId),
    Blackhole,
    Unreachable,
    Prohibit,
    /// Nobody can have the address.
    Martian,
}

const _: () = assert!(size_of::<Next>() == 8);

const LOCAL: Hop = Hop(0);
const ALL: Hop = Hop(1);
const BLACKHOLE: Hop = Hop(2);
const UNREACHABLE: Hop = Hop(3);
const PROHIBIT: Hop = Hop(4);
const MARTIAN: Hop = Hop(5);
/// The first of the ports' networks; [`MOST_PORTS`] of them, then as many broadcast addresses.
const CONNECTED: u32 = 8;
const MOST_PORTS: u32 = 64;
const BROADCAST: u32 = CONNECTED + MOST_PORTS;
/// The first of the neighbours.
const NEIGHBOURS: u32 = BROADCAST + MOST_PORTS;
/// The first of the groups.
pub(super) const GROUPS: u32 = 1 << 24;

/// Routes of several next hops that are used together.
#[derive(Debug)]
pub(super) struct Shared {
    group: Group,
    pub(super) members: Vec<u32>,
    /// How many routes use it; free without any.
    routes: u32,
}

/// The node as a router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(super) v4: V4,
    pub(super) v6: V6,
    pub(super) nexts: Vec<Next>,
    pub(super) groups: Vec<Shared>,
    by_members: HashMap<Vec<u32>, u32>,
    neighbours: Neighbours,
    mtus: Vec<u16>,
    /// The ports of the left end, a bit for each.
    pub(super) left_ports: u64,
    /// By port, where the way back to the sources of its frames may lead, see [`rpf::accepted`].
    pub(super) accepted: Vec<Option<u64>>,
    /// What it does with options of IPv4.
    pub(crate) options: Options,
    /// Of routes and of neighbours: others whenever they change.
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
    /// A router with these links, at most 64, and the longest packet of each.
    #[expect(clippy::indexing_slicing, clippy::expect_used, reason = "places and texts that stand here")]
    pub(crate) fn new(links: Vec<Link>, mtus: Vec<u16>) -> Router {
        let accepted = vec![None; links.len()];
        let mut nexts = vec![Next::Blackhole; NEIGHBOURS as usize];
        let fixed =
            [Next::Local, Next::All, Next::Blackhole, Next::Unreachable, Next::Prohibit, Next::Martian];
        nexts[..fixed.len()].copy_from_slice(&fixed);
        let ports: Vec<PortId> = (0..links.len()).map(|port| PortId(port as u8)).collect();
        for &port in &ports {
            nexts[(CONNECTED + u32::from(port.0)) as usize] = Next::Connected(port);
            nexts[(BROADCAST + u32::from(port.0)) as usize] = Next::Broadcast(port);
        }
        let neighbours = Neighbours::new(links);
        let (v4, v6, groups, by_members) = (V4::new(), V6::new(), Vec::new(), HashMap::new());
        let left_ports = 0;
        let options = Options::default();
        let mut router = Router {
            v4,
            v6,
            nexts,
            groups,
            by_members,
            neighbours,
            mtus,
            left_ports,
            accepted,
            options,
            epochs: (0, 0),
            secret: Secret::new(0),
        };
        for (group, len) in [("224.0.0.0", 4), ("255.255.255.255", 32), ("ff00::", 8)] {
            router.set(Prefix { address: group.parse().expect("an address"), len }, ALL);
        }
        // RFC 1812, section 5.3.7, RFC 4291, sections 2.5.2 and 2.5.3.
        for (nobody, len) in [("0.0.0.0", 8), ("127.0.0.0", 8), ("::", 128), ("::1", 128)] {
            router.set(Prefix { address: nobody.parse().expect("an address"), len }, MARTIAN);
        }
        // Link-local addresses of others are never forwarded (RFC 4291, section 2.5.6).
        router.set(Prefix { address: "fe80::".parse().expect("an address"), len: 10 }, BLACKHOLE);
        for port in ports {
            router.connect(port);
        }
        router
    }

    /// Judges the sources of frames as the ports say, of which so many are at the left end.
    pub(crate) fn judging(self, left: usize, rpf: Vec<Rpf>) -> Router {
        let left_ports = 1_u64.checked_shl(left as u32).map_or(u64::MAX, |bit| bit - 1);
        let accepted =
            (0..).zip(rpf).map(|(port, rpf)| rpf::accepted(rpf, PortId(port), left_ports)).collect();
        Router { left_ports, accepted, ..self }
    }

    /// The same for a thread of a node with these limits.
    pub(crate) fn limited(self, limits: &Limits, share: Share, seed: u64) -> Router {
        let secret = Secret::new(seed);
        Router { neighbours: self.neighbours.limited(limits, share, seed), secret, ..self }
    }

    /// What hosts use together is limited otherwise from now on.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.neighbours.limit(limits);
    }

    /// What the other threads of the node are to hear of neighbours since the last call.
    pub(crate) fn news(&mut self) -> impl Iterator<Item = News> {
        self.neighbours.news()
    }

    /// The port of a neighbour's hop.
    pub(super) fn neighbour_port(&self, hop: Hop) -> PortId {
        self.neighbours.known(Slot(hop.0 - NEIGHBOURS)).port
    }

    /// The routes that follow from a port's addresses.
    fn connect(&mut self, port: PortId) {
        for local in self.neighbours.link(port).addresses.clone() {
            if local.len < full(local.address) && !crate::neighbour::is_link_local(local.address) {
                self.set(local.network(), Hop(CONNECTED + u32::from(port.0)));
            }
            if let IpAddr::V4(address) = local.address
                && local.len < 31
            {
                let last = u32::from(address) | !crate::prefix::mask4(local.len);
                let all = Prefix { address: Ipv4Addr::from(last).into(), len: 32 };
                self.set(all, Hop(BROADCAST + u32::from(port.0)));
            }
        }
        for local in self.neighbours.link(port).addresses.clone() {
            self.set(Prefix { address: local.address, len: full(local.address) }, LOCAL);
        }
    }

    /// Adds a route, or changes where its prefix leads.
    ///
    /// # Errors
    /// A next hop that is no neighbour; nothing has changed then.
    pub(crate) fn add(&mut self, route: &Route) -> Result<(), NoLink> {
        let hop = match &route.target {
            Target::Blackhole => BLACKHOLE,
            Target::Unreachable => UNREACHABLE,
            Target::Prohibit => PROHIBIT,
            Target::Via(gateways) => {
                let mut members = Vec::with_capacity(gateways.len());
                for gateway in gateways {
                    let slot = self.slot_of(gateway).ok_or(NoLink(gateway.address))?;
                    members.push(NEIGHBOURS + slot.0);
                }
                self.settle();
                match members[..] {
                    [one] => Hop(one),
                    _ => Hop(GROUPS + self.group(members, self.get(route.prefix))),
                }
            }
        };
        self.pin(hop);
        if let Some(old) = self.set(route.prefix, hop) {
            self.unpin(old);
        }
        Ok(())
    }

    /// The port of a next hop.
    fn port_of(&self, hop: &NextHop) -> Option<PortId> {
        hop.port.or_else(|| self.neighbours.port_of(hop.address))
    }

    /// The neighbour that a next hop is, new if need be.
    fn slot_of(&mut self, hop: &NextHop) -> Option<Slot> {
        let port = self.port_of(hop)?;
        self.neighbours.slot(port, hop.address)
    }

    /// Takes a route out; false if there is none for this prefix.
    pub(crate) fn remove(&mut self, prefix: Prefix) -> bool {
        self.epochs.0 = self.epochs.0.wrapping_add(1);
        let old = match prefix.address {
            IpAddr::V4(address) => self.v4.remove(address.into(), prefix.len),
            IpAddr::V6(address) => self.v6.remove(address.into(), prefix.len),
        };
        let Some(old) = old else { return false };
        self.unpin(old);
        // It may have stood in the place of a neighbour's own.
        if prefix.len == full(prefix.address)
            && let Some(port) = self.neighbours.port_of(prefix.address)
            && let Some(slot) = self.neighbours.find(port, prefix.address)
        {
            self.refresh(slot);
        }
        true
    }

    /// Keeps these next hops until they are let go, so that routes by them can be added.
    ///
    /// # Errors
    /// A next hop that is no neighbour; nothing has changed then.
    pub(crate) fn keep(&mut self, gateways: &[NextHop]) -> Result<(), NoLink> {
        for (n, gateway) in gateways.iter().enumerate() {
            match self.slot_of(gateway) {
                Some(slot) => self.neighbours.pin(slot),
                None => {
                    self.let_go(gateways.get(..n).unwrap_or_default());
                    return Err(NoLink(gateway.address));
                }
            }
        }
        Ok(())
    }

    /// No longer keeps them but for the routes that need them.
    #[expect(clippy::expect_used, reason = "of a change of the text, which has kept them")]
    pub(crate) fn let_go(&mut self, gateways: &[NextHop]) {
        for gateway in gateways {
            let slot = self.port_of(gateway).and_then(|port| self.neighbours.find(port, gateway.address));
            self.neighbours.unpin(slot.expect("it was kept"));
        }
        self.settle();
    }

    /// A neighbour whose Ethernet address is given.
    pub(crate) fn fix(&mut self, port: PortId, ip: IpAddr, mac: Mac) {
        if let Some(slot) = self.neighbours.slot(port, ip) {
            self.neighbours.fix(slot, mac);
            self.settle();
        }
    }

    /// See [`Neighbours::answer_for`].
    pub(crate) fn answer_for(&mut self, port: usize, addresses: &mut Vec<(u32, u32)>) {
        self.neighbours.answer_for(port, addresses);
    }

    /// How many neighbours it knows or asks for.
    #[cfg(test)]
    pub(crate) fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// Frames that wait for neighbours.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.neighbours.waiting()
    }

    /// Memory that look-ups read, in bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes() + size_of_val(&*self.nexts)
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

    /// The group of these members; a new one keeps the flows of the one `before`.
    fn group(&mut self, members: Vec<u32>, before: Option<Hop>) -> u32 {
        if let Some(&group) = self.by_members.get(&members) {
            return group;
        }
        let before = before.filter(|hop| hop.0 >= GROUPS).map(|hop| &self.shared(hop).group);
        let shared = Shared { group: Group::new(&members, before), members: members.clone(), routes: 0 };
        let free = self.groups.iter_mut().enumerate().find(|(_, shared)| shared.routes == 0);
        let group = match free {
            Some((free, place)) => {
                *place = shared;
                free
            }
            None => {
                self.groups.push(shared);
                self.groups.len() - 1
            }
        };
        self.by_members.insert(members, group as u32);
        group as u32
    }

    /// What lies under the hop of a group.
    #[expect(clippy::indexing_slicing, reason = "hops of groups are the numbers of those there are")]
    pub(super) fn shared(&self, hop: Hop) -> &Shared {
        &self.groups[(hop.0 - GROUPS) as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "hops of groups are the numbers of those there are")]
    fn pin(&mut self, hop: Hop) {
        if hop.0 >= GROUPS {
            let shared = &mut self.groups[(hop.0 - GROUPS) as usize];
            shared.routes += 1;
            if shared.routes == 1 {
                shared.members.iter().for_each(|member| self.neighbours.pin(Slot(member - NEIGHBOURS)));
            }
        } else if hop.0 >= NEIGHBOURS {
            self.neighbours.pin(Slot(hop.0 - NEIGHBOURS));
        }
    }

    #[expect(clippy::indexing_slicing, reason = "hops of groups are the numbers of those there are")]
    fn unpin(&mut self, hop: Hop) {
        if hop.0 >= GROUPS {
            let shared = &mut self.groups[(hop.0 - GROUPS) as usize];
            shared.routes -= 1;
            if shared.routes == 0 {
                self.by_members.remove(&shared.members);
                shared.members.iter().for_each(|member| self.neighbours.unpin(Slot(member - NEIGHBOURS)));
            }
        } else if hop.0 >= NEIGHBOURS {
            self.neighbours.unpin(Slot(hop.0 - NEIGHBOURS));
        }
        self.settle();
    }

    /// Makes the hops of neighbours say what is known of them.
    fn settle(&mut self) {
        while let Some(slot) = self.neighbours.next_dirty() {
            self.refresh(slot);
        }
    }

    fn refresh(&mut self, slot: Slot) {
        self.epochs = (self.epochs.0.wrapping_add(1), self.epochs.1.wrapping_add(1));
        let Known { port, ip, mac, state } = self.neighbours.known(slot);
        let next = match state {
            State::Unknown | State::Asking(_) => Next::Unresolved,
            State::Stale => Next::Stale { port, mac },
            State::Reachable | State::Delay | State::Probing(_) | State::Static => Next::Ready { port, mac },
        };
        let hop = Hop(NEIGHBOURS + slot.0);
        if self.nexts.len() <= hop.0 as usize {
            self.nexts.resize(hop.0 as usize + 1, Next::Unresolved);
        }
        if let Some(place) = self.nexts.get_mut(hop.0 as usize) {
            *place = next;
        }
        let host = Prefix { address: ip, len: full(ip) };
        match self.get(host) {
            None if next != Next::Unresolved && self.neighbours.port_of(ip) == Some(port) => {
                self.set(host, hop);
            }
            // A route of the same length may lead to the neighbour as well; then it stays.
            Some(found) if found == hop && next == Next::Unresolved && !self.neighbours.is_pinned(slot) => {
                match ip {
                    IpAddr::V4(address) => self.v4.remove(address.into(), host.len),
                    IpAddr::V6(address) => self.v6.remove(address.into(), host.len),
                };
            }
            _ => {}
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

    /// Understands a frame about neighbours; `None` if it is none.
    pub(crate) fn hear(&mut self, frame: &Frame<'_>, now: Time, outbox: &mut Outbox) -> Option<bool> {
        let heard = neighbour::parse(&frame.untagged())?;
        let answered = self.neighbours.hear(frame, heard, now, outbox);
        self.settle();
        Some(answered)
    }

    /// Learns from a frame about neighbours that another thread of the node has received and answered.
    pub(crate) fn overhear(&mut self, news: &News, now: Time, outbox: &mut Outbox) {
        if let Some(heard) = neighbour::parse(&news.frame) {
            self.neighbours.overhear(news.port, heard, now, outbox);
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

    /// Whether it is a packet for the node's address on its link, or for all there, and none about neighbours.
    #[inline]
    pub(crate) fn takes_in(&self, frame: &Frame<'_>) -> bool {
        let is_packet = match frame.kind() {
            Kind::V4 => true,
            Kind::V6 => !icmp::is_about_neighbours(frame),
            Kind::Arp | Kind::Other => false,
        };
        is_packet && (*frame.receiver() == self.mac(frame.port) || frame.is_to_group())
    }

    /// Decides about frames that passed the stages in this direction.
    pub(crate) fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) {
        if set.is_empty() {
            return;
        }
        let hops = self.hops(&step.frames, set, End::Destination);
        for i in set {
            self.forward(step, dir, i, hops[i]);
        }
    }

    /// The hops of one end of each frame of `set`.
    #[inline]
    pub(super) fn hops(&self, frames: &Frames<'_, '_>, set: Set, end: End) -> PerFrame<Hop> {
        hops((&self.v4, &self.v6), frames, set, end)
    }

    /// The longest packet of a port.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "hops and links name ports that there are")]
    pub(super) fn mtu(&self, port: PortId) -> u16 {
        self.mtus[usize::from(port.0)]
    }

    /// The quick way, and where it is left.
    #[inline]
    fn forward(&mut self, step: &mut Step<'_, '_>, dir: Dir, i: usize, hop: Hop) {
        let hop = if hop.0 >= GROUPS && hop != Hop::NONE { self.member(&step.frames[i], hop) } else { hop };
        let frame = &mut step.frames[i];
        if let Some(&Next::Ready { port, mac }) = self.nexts.get(hop.0 as usize)
            && frame.ttl() > 1
            && frame.ip_bytes() <= usize::from(self.mtu(port))
            && !is_of_link(frame)
            && !frame.is_to_group()
            && !frame.has_options4()
        {
            let link = self.neighbours.link(port);
            frame.decrement_ttl();
            frame.set_ethernet(mac, link.mac, &link.tags);
            step.leave(i, port);
        } else {
            self.slow(step, dir, i, hop);
        }
    }

    #[cold]
    fn slow(&mut self, step: &mut Step<'_, '_>, dir: Dir, i: usize, hop: Hop) {
        // An error goes back through all stages.
        let back = Entry::Begin(dir.opposite());
        let next = self.nexts.get(hop.0 as usize).copied();
        // It goes no further than to the node (RFC 4291, section 2.5.6).
        let is_for_us = matches!(next, Some(Next::Local | Next::All | Next::Broadcast(_)));
        if is_of_link(&step.frames[i]) && !is_for_us {
            return step.drop(i, Drop::MartianSource);
        }
        let to_all = step.frames[i].is_to_group();
        match next {
            None => step.refuse(i, Drop::NoRoute, Error::NoRoute, back),
            Some(Next::Blackhole) => step.drop(i, Drop::Blackhole),
            Some(Next::Martian) => step.drop(i, Drop::MartianDestination),
            Some(Next::Unreachable) => step.refuse(i, Drop::RouteUnreachable, Error::NoHost, back),
            Some(Next::Prohibit) => step.refuse(i, Drop::RouteProhibited, Error::Prohibited, back),
            Some(Next::Local) => self.local(step, i),
            Some(Next::All) => step.local(i),
            Some(Next::Broadcast(port)) if port == step.frames[i].port => step.local(i),
            Some(Next::Broadcast(_)) => step.drop(i, Drop::DirectedBroadcast),
            Some(_) if to_all => step.drop(i, Drop::LinkBroadcast),
            Some(_) if step.frames[i].ttl() <= 1 => {
                step.refuse(i, Drop::TtlExpired, Error::TimeExceeded, back)
            }
            Some(Next::Ready { port, mac }) => self.send(step, i, port, mac, back),
            Some(Next::Stale { port, mac }) => {
                self.neighbours.used(Slot(hop.0 - NEIGHBOURS), step.now);
                self.settle();
                self.send(step, i, port, mac, back);
            }
            Some(Next::Unresolved) => self.wait(step, i, Slot(hop.0 - NEIGHBOURS), dir),
            Some(Next::Connected(port)) if self.is_too_long(&step.frames[i], port) => {
                step.refuse(i, Drop::TooBig, Error::TooBig(self.mtu(port)), back);
            }
            Some(Next::Connected(port)) => {
                let frame = &step.frames[i];
                let (asker, to) = (Asker { host: Host::of(frame), dir }, (port, destination(frame)));
                match self.neighbours.demand(step.now, to, asker, (step.outbox, step.drops)) {
                    Ok(slot) => self.wait(step, i, slot, dir),
                    Err(reason) => step.drop(i, reason),
                }
            }
        }
    }

    /// The next hop of the group for this flow.
    fn member(&self, frame: &Frame<'_>, hop: Hop) -> Hop {
        self.member_of(hop, spread(frame, &self.secret))
    }

    /// The next hop of the group for a flow with this hash.
    pub(super) fn member_of(&self, hop: Hop, hash: u32) -> Hop {
        let usable = |member: u32| {
            matches!(self.nexts.get(member as usize), Some(Next::Ready { .. } | Next::Stale { .. }))
        };
        Hop(self.shared(hop).group.pick(hash, usable))
    }

    /// A packet for the node itself: a ping is answered, all else is the machine's.
    fn local(&self, step: &mut Step<'_, '_>, i: usize) {
        let frame = &mut step.frames[i];
        let (_, sender) = frame.macs();
        let port = frame.port;
        if icmp::answer_echo(frame) {
            let link = self.neighbours.link(port);
            frame.set_ethernet(sender, link.mac, &link.tags);
            step.leave(i, port);
        } else {
            step.local(i);
        }
    }

    /// A packet that may be too long for the link.
    fn send(&self, step: &mut Step<'_, '_>, i: usize, port: PortId, mac: Mac, back: Entry) {
        if step.frames[i].has_options4() && !self.see_to_options(step, i, port, back) {
            return;
        }
        let (mtu, link) = (self.mtu(port), self.neighbours.link(port));
        if self.is_too_long(&step.frames[i], port) {
            return step.refuse(i, Drop::TooBig, Error::TooBig(mtu), back);
        }
        let frame = &mut step.frames[i];
        let fits = frame.ip().len() <= usize::from(mtu);
        frame.decrement_ttl();
        frame.set_ethernet(mac, link.mac, &link.tags);
        if !fits {
            for later in fragment::cut(frame, mtu) {
                step.outbox.send(Entry::Leave(port), port, later);
            }
        }
        step.leave(i, port);
    }

    /// Does what the options of a packet ask for that leaves by a port; false if it goes no further.
    #[cold]
    fn see_to_options(&self, step: &mut Step<'_, '_>, i: usize, port: PortId, back: Entry) -> bool {
        let v4 = |prefix: &Prefix| match prefix.address {
            IpAddr::V4(address) => Some(u32::from(address)),
            IpAddr::V6(_) => None,
        };
        let of_port = |port: PortId| self.neighbours.link(port).addresses.iter().filter_map(v4);
        match (self.options, of_port(port).next()) {
            (Options::Drop, _) if options::asks_nodes(&step.frames[i]) => {
                step.drop(i, Drop::IpOption);
                return false;
            }
            (Options::Fill, Some(address)) => {
                let ports = 0..self.mtus.len();
                let is_local =
                    |asked| ports.clone().any(|port| of_port(PortId(port as u8)).any(|local| local == asked));
                let writer = Writer { address, is_local: &is_local, now: step.now };
                if let Err(at) = options::fill(&mut step.frames[i], &writer) {
                    step.refuse(i, Drop::IpOption, Error::Problem(at), back);
                    return false;
                }
            }
            _ => {}
        }
        true
    }

    /// Whether a packet is longer than a link carries, and not to be cut.
    fn is_too_long(&self, frame: &Frame<'_>, port: PortId) -> bool {
        let fits = frame.ip().len() <= usize::from(self.mtu(port));
        !fits && (frame.kind() == Kind::V6 || fragment::forbidden(frame))
    }

    /// A packet for a neighbour whose Ethernet address is not known.
    fn wait(&mut self, step: &mut Step<'_, '_>, i: usize, slot: Slot, dir: Dir) {
        let back = Entry::Begin(dir.opposite());
        let Known { port, mac, state, .. } = self.neighbours.known(slot);
        if !matches!(state, State::Unknown | State::Asking(_)) {
            return self.send(step, i, port, mac, back);
        }
        if step.frames[i].has_options4() && !self.see_to_options(step, i, port, back) {
            return;
        }
        let mtu = self.mtu(port);
        if self.is_too_long(&step.frames[i], port) {
            return step.refuse(i, Drop::TooBig, Error::TooBig(mtu), back);
        }
        let (frame, link) = (&mut step.frames[i], self.neighbours.link(port));
        frame.decrement_ttl();
        frame.set_ethernet([0; 6], link.mac, &link.tags);
        let later = match frame.ip().len() > usize::from(mtu) {
            true => fragment::cut(frame, mtu),
            false => Vec::new(),
        };
        let known = frame.known();
        let mut frames = vec![step.keep(i)];
        frames.extend(later.into_iter().map(|buf| step.outbox.keep_made(known, buf)));
        for frame in frames {
            self.neighbours.wait(
                slot,
                Waiting { frame, back: dir.opposite() },
                step.now,
                step.outbox,
                step.drops,
            );
        }
        self.settle();
    }
}

fn full(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn destination(frame: &Frame<'_>) -> IpAddr {
    match frame.kind() {
        Kind::V4 => Ipv4Addr::from(frame.addresses4().1).into(),
        _ => std::net::Ipv6Addr::from(frame.addresses6().1).into(),
    }
}

/// Whether nobody can have the source address (RFC 1812, section 5.3.7, RFC 4291, sections 2.5.2, 2.5.3, 2.7).
#[inline]
pub(super) fn is_martian(frame: &Frame<'_>) -> bool {
    match frame.kind() {
        Kind::V4 => !is_unicast4(frame.addresses4().0),
        _ => !is_unicast6(frame.addresses6().0),
    }
}

/// Whether the source is an address of its link alone.
#[inline]
pub(super) fn is_of_link(frame: &Frame<'_>) -> bool {
    frame.kind() == Kind::V6 && is_link_local6(frame.addresses6().0)
}

/// Whether the source address is the unspecified one.
pub(super) fn is_nobody(frame: &Frame<'_>) -> bool {
    match frame.kind() {
        Kind::V4 => frame.addresses4().0 == 0,
        _ => frame.addresses6().0 == 0,
    }
}
