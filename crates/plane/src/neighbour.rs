//! The Ethernet addresses of hosts on the links of the node (RFC 826, RFC 4861 section 7.3), and the frames that wait for them.
//!
//! ```text
//! unknown > Asking > Reachable > Stale > Delay > Probing > unknown        an answer at any time: Reachable
//! ```
//!
//! Invariant: a neighbour that is asked about, reachable, stale or probed has one deadline; frames wait for those
//! that are asked about alone.

mod answer;
mod asked;
mod command;
mod news;
mod ports;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use weir_packet::frame::Mac;
use weir_packet::neighbour::{self, Heard, Host};

use crate::dir::{Dir, EntryPoint};
use crate::drops::{DropReason, Drops};
use crate::frame::{Frame, HEAD_ROOM, PortId, pppoe_header};
use crate::icmp::Error;
use crate::kept::{Then, Ticket};
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::prefix::{Prefix, is_link_local};
use crate::tags::{PortTags, Tag};
use crate::threads::{NeighbourNews, Share};
use crate::time::Time;
pub use answer::NeighbourState;
pub(crate) use asked::Asker;
use asked::{AskedFor, Place};
pub(crate) use command::NeighbourChange;
pub use command::{NeighbourCommand, NeighbourEntry};
use news::Gossip;

/// Between two questions (RFC 4861, section 10, RETRANS_TIMER).
const RETRANSMIT: Duration = Duration::from_secs(1);
/// Questions without an answer (MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
const MOST_QUESTIONS: u8 = 3;
/// How long an answer holds (REACHABLE_TIME).
const REACHABLE: Duration = Duration::from_secs(30);
/// Between the use of an old answer and the question whether it still holds (DELAY_FIRST_PROBE_TIME).
const DELAY: Duration = Duration::from_secs(5);
/// How long an unused neighbour is known; several times the minute of RFC 1122, section 2.3.2.1.
const FORGET: Duration = Duration::from_secs(600);
/// Frames that wait for one neighbour (RFC 4861, section 7.2.2: a small number, the newest).
const MOST_WAITING: usize = 8;
/// Frames that wait for any; beyond, one waits for each.
const MOST_FRAMES_WAITING: usize = 1024;
/// Neighbours.
pub(crate) const MOST: usize = 1 << 17;
/// Deadlines that one tick looks at.
const PER_TICK: usize = 64;

/// What a port is on its link.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Its Ethernet address.
    pub(crate) mac: Mac,
    /// Its addresses with their networks.
    pub(crate) addresses: Vec<Prefix>,
    /// It answers for the addresses that the node translates to, too.
    pub(crate) is_outside: bool,
    /// VLAN tags of its frames.
    pub(crate) tags: PortTags,
    /// Subscribers are at it.
    pub(crate) is_access: bool,
}

impl Link {
    /// A port with an address of IPv6 has one for its link, too.
    fn add_link_local(&mut self) {
        if self.addresses.iter().any(|local| local.address.is_ipv6()) {
            self.addresses.push(link_local(self.mac));
        }
    }

    /// Whether it has several lines with tags of their own. The node learns of no neighbour there: what a host of one line says
    /// changes nothing for another line.
    pub(crate) fn has_lines(&self) -> bool {
        self.tags.lines().is_some()
    }
}

/// Addresses of IPv4 that a node translates to.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    /// Each from the first to the last.
    pub(crate) ranges: Vec<(u32, u32)>,
    /// One-to-one addresses; each may be of several NATs.
    hosts: BTreeMap<u32, u32>,
}

impl Translated {
    /// One more NAT has a one-to-one address.
    pub(crate) fn add(&mut self, host: u32) {
        *self.hosts.entry(host).or_default() += 1;
    }

    /// One NAT fewer has it.
    pub(crate) fn remove(&mut self, host: u32) {
        if let Some(nats) = self.hosts.get_mut(&host) {
            *nats -= 1;
            if *nats == 0 {
                self.hosts.remove(&host);
            }
        }
    }

    fn has(&self, address: u32) -> bool {
        self.hosts.contains_key(&address)
            || self.ranges.iter().any(|&(first, last)| (first..=last).contains(&address))
    }
}

/// A host that a packet is for, on the link of a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) port: PortId,
    pub(crate) ip: IpAddr,
}

/// The number of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

/// A frame that waits for its destination, whole but for the Ethernet address.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) frame: Ticket,
    /// The way of an error about it, from its beginning: stages may come and go while it waits.
    pub(crate) back: Dir,
}

/// How well a neighbour is known (RFC 4861, section 7.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not asked yet, or not answered.
    Unknown,
    /// Asked, with so many questions (INCOMPLETE).
    Asking(u8),
    /// It answered not long ago.
    Reachable,
    /// It answered long ago, or was learnt from an unsolicited message.
    Stale,
    /// It answered long ago and is used again.
    Delay,
    /// It answered long ago and is asked again, with so many questions.
    Probing(u8),
    /// Given by the administrator.
    Static,
}

#[derive(Debug)]
struct Neighbour {
    port: PortId,
    ip: IpAddr,
    mac: Mac,
    state: State,
    deadline: Time,
    /// Routes that lead to it: it is kept while there are any.
    routes: u32,
    /// The router has a route to it that is none of these: it follows from what is known of it.
    has_own_route: bool,
    /// Its place among those that are asked about because a packet was for them.
    asked: Option<Place>,
    waiting: VecDeque<Waiting>,
}

/// All neighbours.
#[derive(Debug)]
pub(crate) struct Neighbours {
    links: Vec<Link>,
    /// The ports that there are, in the order of the text.
    pub(crate) order: Vec<PortId>,
    /// What ports of the right end answer for beside their own addresses.
    pub(crate) translated: Translated,
    slots: Vec<Neighbour>,
    free: Vec<Slot>,
    /// They are free as soon as the router has seen that they were forgotten.
    freed: Vec<Slot>,
    by_address: HashMap<(PortId, IpAddr), Slot>,
    deadlines: BTreeSet<(Time, Slot)>,
    /// By port, how many there are, and those that are stale.
    of_ports: Vec<OfPort>,
    asked: AskedFor,
    gossip: Gossip,
    /// Frames that wait for neighbours.
    frames_waiting: usize,
    /// Neighbours whose state or Ethernet address changed.
    dirty: Vec<Slot>,
}

/// Neighbours of a port.
#[derive(Debug, Default)]
struct OfPort {
    all: usize,
    stale: BTreeSet<(Time, Slot)>,
}

/// What of a neighbour matters to those that send to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) port: PortId,
    pub(crate) ip: IpAddr,
    pub(crate) mac: Mac,
    pub(crate) state: State,
}

impl Neighbours {
    pub(crate) fn new(mut links: Vec<Link>) -> Neighbours {
        links.iter_mut().for_each(Link::add_link_local);
        let (ports, limits, share) = (links.len(), Limits::default(), Share::default());
        Neighbours {
            order: (0..ports).map(|port| PortId(port as u16)).collect(),
            links,
            translated: Translated::default(),
            of_ports: (0..ports).map(|_| OfPort::default()).collect(),
            asked: AskedFor::new(ports, &limits, share, 0),
            gossip: Gossip::new(ports, share),
            slots: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            by_address: HashMap::with_capacity(MOST),
            deadlines: BTreeSet::new(),
            frames_waiting: 0,
            dirty: Vec::new(),
        }
    }

    /// The same for a thread of a node with these limits.
    pub(crate) fn limited(self, limits: &Limits, share: Share, seed: u64) -> Neighbours {
        let ports = self.links.len();
        let asked = AskedFor::new(ports, limits, share, seed);
        Neighbours { asked, gossip: Gossip::new(ports, share), ..self }
    }

    /// Sets other limits.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.asked.limit(limits);
    }

    /// News for the other threads of the node since the last call.
    pub(crate) fn news(&mut self) -> impl Iterator<Item = NeighbourNews> {
        self.gossip.drain()
    }

    /// The port whose network holds an address; of several the one with the longest prefix.
    pub(crate) fn port_of(&self, ip: IpAddr) -> Option<PortId> {
        let ports = self.order.iter().map(|&port| (port, self.link(port)));
        let links = ports.filter(|(_, link)| !link.has_lines());
        nearest(links.map(|(port, link)| (port, &link.addresses[..])), ip)
    }

    pub(crate) fn link(&self, port: PortId) -> &Link {
        &self.links[usize::from(port.0)]
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// The neighbour with this address, new if need be; `None` if there are too many.
    pub(crate) fn slot(&mut self, port: PortId, ip: IpAddr) -> Option<Slot> {
        if let Some(slot) = self.find(port, ip) {
            return Some(slot);
        }
        if self.by_address.len() >= MOST && !self.make_room() {
            return None;
        }
        let new = Neighbour {
            port,
            ip,
            mac: [0; 6],
            state: State::Unknown,
            deadline: Time::default(),
            routes: 0,
            has_own_route: false,
            asked: None,
            waiting: VecDeque::new(),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                Slot(self.slots.len() as u32 - 1)
            }
        };
        self.by_address.insert((port, ip), slot);
        self.of_ports[usize::from(port.0)].all += 1;
        self.dirty.push(slot);
        Some(slot)
    }

    /// The neighbour with this address, for a packet to it; a new one is to be asked about.
    ///
    /// # Errors
    /// Its sender has had the node ask for too many, or there are too many neighbours.
    pub(crate) fn demand(
        &mut self,
        now: Time,
        target: Target,
        asker: Asker,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) -> Result<Slot, DropReason> {
        let Target { port, ip } = target;
        if let Some(slot) = self.find(port, ip) {
            return Ok(slot);
        }
        if !self.asked.may_ask(now, port, asker) {
            return Err(DropReason::NeighbourRate);
        }
        let slot = self.slot(port, ip).ok_or(DropReason::NeighbourTable)?;
        self.slots[slot.0 as usize].asked = self.asked.push(now, (port, slot), asker);
        while let Some(other) = self.asked.displace(port, asker.dir) {
            self.slots[other.0 as usize].asked = None;
            let waiting = std::mem::take(&mut self.slots[other.0 as usize].waiting);
            self.frames_waiting -= waiting.len();
            for Waiting { frame, .. } in waiting {
                outbox.discard(frame);
                drops.count(DropReason::NeighbourLimit);
            }
            self.enter(other, State::Unknown, None);
            self.forget(other);
        }
        Ok(slot)
    }

    /// Forgets the neighbour that was not used for longest, of the port that has most; false if there is none.
    fn make_room(&mut self) -> bool {
        let Some(most) = self.of_ports.iter().max_by_key(|port| port.all) else { return false };
        let is_free = |slot: &Slot| self.slots[slot.0 as usize].routes == 0;
        let Some(slot) = most.stale.iter().map(|(_, slot)| *slot).find(is_free) else { return false };
        self.enter(slot, State::Unknown, None);
        self.forget(slot);
        true
    }

    /// The neighbour with this address, if there is one.
    pub(crate) fn find(&self, port: PortId, ip: IpAddr) -> Option<Slot> {
        self.by_address.get(&(port, ip)).copied()
    }

    /// Whether the tables have a route of its own to it.
    pub(crate) fn has_own_route(&self, slot: Slot) -> bool {
        self.slots[slot.0 as usize].has_own_route
    }

    /// The tables have a route of its own to it, or no more.
    pub(crate) fn set_own_route(&mut self, slot: Slot, has_own_route: bool) {
        self.slots[slot.0 as usize].has_own_route = has_own_route;
    }

    pub(crate) fn known(&self, slot: Slot) -> Known {
        let Neighbour { port, ip, mac, state, .. } = self.slots[slot.0 as usize];
        Known { port, ip, mac, state }
    }

    /// Sets a neighbour with a configured Ethernet address: frames that waited for it leave.
    pub(crate) fn fix(&mut self, slot: Slot, mac: Mac, outbox: &mut Outbox) {
        self.slots[slot.0 as usize].mac = mac;
        self.enter(slot, State::Static, None);
        self.release(slot, outbox);
    }

    /// The Ethernet address of a neighbour is not configured any more: it is asked for.
    pub(crate) fn unfix(&mut self, slot: Slot) {
        let neighbour = &mut self.slots[slot.0 as usize];
        (neighbour.mac, neighbour.state) = ([0; 6], State::Unknown);
        let is_needed = neighbour.routes > 0;
        self.dirty.push(slot);
        if !is_needed {
            self.forget(slot);
        }
    }

    /// One more route leads to it.
    pub(crate) fn pin(&mut self, slot: Slot) {
        self.slots[slot.0 as usize].routes += 1;
        self.asked_no_more(slot);
    }

    /// Removes it from those that are asked about because a packet was for them.
    fn asked_no_more(&mut self, slot: Slot) {
        let neighbour = &mut self.slots[slot.0 as usize];
        if let Some(place) = neighbour.asked.take() {
            self.asked.remove(neighbour.port, place);
        }
    }

    /// One route less leads to it.
    pub(crate) fn unpin(&mut self, slot: Slot) {
        let neighbour = &mut self.slots[slot.0 as usize];
        neighbour.routes -= 1;
        if neighbour.state == State::Unknown && neighbour.routes == 0 {
            self.forget(slot);
        }
    }

    /// Neighbours that changed since the last call.
    pub(crate) fn next_dirty(&mut self) -> Option<Slot> {
        let dirty = self.dirty.pop();
        if dirty.is_none() {
            // No reader takes one neighbour for another any more.
            self.free.append(&mut self.freed);
        }
        dirty
    }

    /// Frames that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.slots.iter().flat_map(|neighbour| neighbour.waiting.iter().map(|waiting| waiting.frame))
    }

    /// A kept frame waits for the neighbour, which is asked for its address if it is not yet.
    pub(crate) fn wait(
        &mut self,
        slot: Slot,
        frame: Waiting,
        now: Time,
        outbox: &mut Outbox,
        drops: &mut Drops,
    ) {
        if self.slots[slot.0 as usize].state == State::Unknown {
            self.ask(slot, outbox);
            self.enter(slot, State::Asking(1), Some(now + RETRANSMIT));
        }
        let waiting = &mut self.slots[slot.0 as usize].waiting;
        waiting.push_back(frame);
        self.frames_waiting += 1;
        while waiting.len() > MOST_WAITING || self.frames_waiting > MOST_FRAMES_WAITING && waiting.len() > 1 {
            if let Some(Waiting { frame, .. }) = waiting.pop_front() {
                self.frames_waiting -= 1;
                outbox.discard(frame);
                drops.count(DropReason::NeighbourQueue);
            }
        }
    }

    /// A frame went to a neighbour that is stale.
    pub(crate) fn used(&mut self, slot: Slot, now: Time) {
        if self.slots[slot.0 as usize].state == State::Stale {
            self.enter(slot, State::Delay, Some(now + DELAY));
        }
    }

    /// Understands a frame about neighbours, and answers it; false if it was a question for another host.
    pub(crate) fn on_message(
        &mut self,
        frame: &Frame<'_>,
        heard: Heard,
        now: Time,
        outbox: &mut Outbox,
    ) -> bool {
        let port = frame.port;
        if self.link(port).has_lines() {
            return self.answer_line(frame, heard, outbox);
        }
        let (from, is_answered) = match heard {
            Heard::Question { from, target } => (from, self.answers(port, target)),
            Heard::Answer(from) => (from, true),
        };
        if let Heard::Question { target, .. } = heard
            && is_answered
        {
            let answer = neighbour::answer(Host { mac: self.link(port).mac, ip: target }, from);
            self.say(port, &answer, outbox);
        }
        let is_new = self.note(port, heard, now, outbox) && !from.ip.is_unspecified();
        if self.gossip.is_worth_it(now, (port, from.ip), is_new) {
            self.gossip.publish(port, || frame.untagged());
        }
        is_answered
    }

    /// Answers a question of a host of one of several lines, on that line; nothing is learnt.
    fn answer_line(&self, frame: &Frame<'_>, heard: Heard, outbox: &mut Outbox) -> bool {
        let Heard::Question { from, target } = heard else { return false };
        let is_answered = self.answers(frame.port, target);
        if is_answered {
            self.answer_for(frame, target, from, outbox);
        }
        is_answered
    }

    /// Answers the question of `from` for an address with that of the port, on the line of the question.
    pub(crate) fn answer_for(&self, frame: &Frame<'_>, target: IpAddr, from: Host, outbox: &mut Outbox) {
        let answer = neighbour::answer(Host { mac: self.link(frame.port).mac, ip: target }, from);
        let tags = frame.tags.write(&mut [[0; 4]; 2]).concat();
        let (macs, rest) = answer.split_at(12);
        let (kind, packet) = rest.split_at(2);
        let header = match frame.pppoe_session {
            0 => kind.to_vec(),
            id => pppoe_header(id, frame.kind(), packet.len()).to_vec(),
        };
        let buf = [&[0; HEAD_ROOM][..], macs, &tags, &header, packet].concat();
        outbox.send(EntryPoint::Leave(frame.port), frame.port, buf);
    }

    /// Learns from a message that another thread of the node has received and answered, or from its question.
    pub(crate) fn on_news(&mut self, port: PortId, heard: Heard, now: Time, outbox: &mut Outbox) {
        match heard {
            Heard::Question { from, target } if from.mac == self.link(port).mac => {
                self.gossip.wait_for(now, (port, target));
            }
            _ => _ = self.note(port, heard, now, outbox),
        }
    }

    /// Learns from a message at `port`; returns whether it is new.
    fn note(&mut self, port: PortId, heard: Heard, now: Time, outbox: &mut Outbox) -> bool {
        match heard {
            Heard::Question { from, target } => {
                let is_known = self.find(port, from.ip).is_some();
                // A host that asks the node will be talked to; of others only known entries are updated (RFC 826).
                if self.answers(port, target) && self.is_host(port, from) {
                    self.slot(port, from.ip);
                }
                self.learn(port, from, false, now, outbox) || !is_known
            }
            Heard::Answer(from) => self.learn(port, from, true, now, outbox),
        }
    }

    /// Whether it answers at `port` for an address.
    fn answers(&self, port: PortId, target: IpAddr) -> bool {
        let link = self.link(port);
        let translated = |target: Ipv4Addr| link.is_outside && self.translated.has(target.into());
        link.addresses.iter().any(|local| local.address == target)
            || matches!(target, IpAddr::V4(target) if translated(target))
    }

    /// Whether this can be a neighbour at the port.
    fn is_host(&self, port: PortId, host: Host) -> bool {
        let link = self.link(port);
        host.mac[0] & 1 == 0
            && host.mac != [0; 6]
            && !host.ip.is_multicast()
            && link.addresses.iter().any(|local| local.contains(host.ip) && local.address != host.ip)
    }

    /// Learns the Ethernet address of a host; true if nothing, or another one, was known of it.
    fn learn(&mut self, port: PortId, host: Host, answer: bool, now: Time, outbox: &mut Outbox) -> bool {
        let Some(&slot) = self.by_address.get(&(port, host.ip)) else { return true };
        let neighbour = &mut self.slots[slot.0 as usize];
        if neighbour.state == State::Static || host.mac[0] & 1 != 0 || host.mac == [0; 6] {
            return false;
        }
        let same = neighbour.mac == host.mac;
        // What it has asked for itself is no news.
        let is_new = !same && neighbour.mac != [0; 6];
        let asked = matches!(neighbour.state, State::Asking(_) | State::Probing(_) | State::Delay);
        neighbour.mac = host.mac;
        if answer && (asked || same) {
            self.enter(slot, State::Reachable, Some(now + REACHABLE));
        } else if !same || neighbour.state == State::Unknown {
            self.enter(slot, State::Stale, Some(now + FORGET));
        }
        self.release(slot, outbox);
        is_new
    }

    /// Emits the frames that waited for the neighbour.
    fn release(&mut self, slot: Slot, outbox: &mut Outbox) {
        let neighbour = &mut self.slots[slot.0 as usize];
        self.frames_waiting -= neighbour.waiting.len();
        for Waiting { frame, .. } in neighbour.waiting.drain(..) {
            outbox.emit(frame, Then::Leave(neighbour.port, neighbour.mac));
        }
    }

    /// When something is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Does what is due at `now`, a bounded part of it; true if there is more.
    pub(crate) fn tick(&mut self, now: Time, outbox: &mut Outbox) -> bool {
        for _ in 0..PER_TICK {
            match self.deadlines.first() {
                Some(&(deadline, slot)) if deadline <= now => self.is_due(slot, now, outbox),
                _ => return false,
            }
        }
        true
    }

    fn is_due(&mut self, slot: Slot, now: Time, outbox: &mut Outbox) {
        match self.slots[slot.0 as usize].state {
            State::Asking(asked) if asked < MOST_QUESTIONS => {
                self.ask(slot, outbox);
                self.enter(slot, State::Asking(asked + 1), Some(now + RETRANSMIT));
            }
            State::Probing(asked) if asked < MOST_QUESTIONS => {
                self.ask(slot, outbox);
                self.enter(slot, State::Probing(asked + 1), Some(now + RETRANSMIT));
            }
            State::Delay => {
                self.ask(slot, outbox);
                self.enter(slot, State::Probing(1), Some(now + RETRANSMIT));
            }
            State::Reachable => self.enter(slot, State::Stale, Some(now + FORGET)),
            State::Asking(_) | State::Probing(_) | State::Stale => {
                self.give_up(slot, outbox);
                self.enter(slot, State::Unknown, None);
                if self.slots[slot.0 as usize].routes == 0 {
                    self.forget(slot);
                }
            }
            State::Unknown | State::Static => unreachable!("these have no deadline"),
        }
    }

    /// The frames that waited are dropped, and their senders informed (RFC 1812, section 5.2.7.1).
    fn give_up(&mut self, slot: Slot, outbox: &mut Outbox) {
        let waiting = std::mem::take(&mut self.slots[slot.0 as usize].waiting);
        self.frames_waiting -= waiting.len();
        for Waiting { frame, back } in waiting {
            outbox.emit(frame, Then::Refuse(DropReason::NoNeighbour, Error::NoHost, EntryPoint::Begin(back)));
        }
    }

    fn enter(&mut self, slot: Slot, state: State, deadline: Option<Time>) {
        if !matches!(state, State::Asking(_)) {
            self.asked_no_more(slot);
        }
        let neighbour = &mut self.slots[slot.0 as usize];
        let of_port = &mut self.of_ports[usize::from(neighbour.port.0)];
        self.deadlines.remove(&(neighbour.deadline, slot));
        of_port.stale.remove(&(neighbour.deadline, slot));
        neighbour.state = state;
        if let Some(deadline) = deadline {
            neighbour.deadline = deadline;
            self.deadlines.insert((deadline, slot));
            if state == State::Stale {
                of_port.stale.insert((deadline, slot));
            }
        }
        self.dirty.push(slot);
    }

    fn forget(&mut self, slot: Slot) {
        let Neighbour { port, ip, .. } = self.slots[slot.0 as usize];
        if self.by_address.remove(&(port, ip)).is_some() {
            self.of_ports[usize::from(port.0)].all -= 1;
            self.freed.push(slot);
            self.dirty.push(slot);
        }
    }

    /// Sends a question: to the neighbour where its Ethernet address is known, else to all.
    fn ask(&mut self, slot: Slot, outbox: &mut Outbox) {
        let Known { port, ip, mac, state } = self.known(slot);
        let link = self.link(port);
        let usable = |local: &&Prefix| local.address.is_ipv4() == ip.is_ipv4();
        let mut sources = link.addresses.iter().filter(usable);
        let Some(source) = sources.clone().find(|local| local.contains(ip)).or(sources.next()) else {
            return;
        };
        let mut question = neighbour::question(Host { mac: link.mac, ip: source.address }, ip);
        // The answer may come to any of them.
        self.gossip.publish(port, || question.clone());
        if matches!(state, State::Delay | State::Probing(_)) {
            question[..6].copy_from_slice(&mac);
        }
        self.say(port, &question, outbox);
    }

    /// Sends a frame as it is, with the tags of the port.
    fn say(&self, port: PortId, frame: &[u8], outbox: &mut Outbox) {
        send(port, self.link(port).tags.fixed(), frame, outbox);
    }
}

/// Sends a frame as it is, with these tags.
fn send(port: PortId, tags: &[Tag], frame: &[u8], outbox: &mut Outbox) {
    let buf = [&[0; HEAD_ROOM], &frame[..12], &tags.concat(), &frame[12..]].concat();
    outbox.send(EntryPoint::Leave(port), port, buf);
}

/// The address that a port has on any link with IPv6 (RFC 4291, appendix A).
fn link_local(mac: Mac) -> Prefix {
    let [a, b, c, d, e, f] = mac;
    let address = Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Prefix { address: address.into(), len: 64 }
}

/// The port with these addresses whose network holds an address; of several the first one with the longest prefix.
pub(crate) fn nearest<'a>(ports: impl Iterator<Item = (PortId, &'a [Prefix])>, ip: IpAddr) -> Option<PortId> {
    let longest = |addresses: &[Prefix]| {
        addresses.iter().filter(|local| is_near(local, ip)).map(|local| local.len).max()
    };
    let near = ports.filter_map(|(port, addresses)| Some((port, longest(addresses)?)));
    near.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(port, _)| port)
}

/// Whether an address is that of a neighbour of a port with this one: each link has link-local addresses, so that these say
/// nothing.
pub(crate) fn is_near(local: &Prefix, ip: IpAddr) -> bool {
    local.contains(ip) && !is_link_local(local.address)
}

#[cfg(test)]
#[path = "neighbour_tests.rs"]
mod tests;
