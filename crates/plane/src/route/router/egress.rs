//! How a packet leaves: time to live, length, options, Ethernet addresses; or why it does not.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::frame::Mac;

use super::{GROUPS, NEIGHBOURS, Next, Router, is_of_link};
use crate::access::{Receiver, clamp_mss};
use crate::batch::{Frames, PerFrame, Set, Verdict};
use crate::dir::{Dir, EntryPoint};
use crate::drops::DropReason;
use crate::flow::spread;
use crate::fragment;
use crate::frame::{Frame, HEAD_ROOM, Kind, Line, PPPOE, PortId, pppoe_header};
use crate::icmp::{self, Error};
use crate::neighbour::{Asker, Known, Slot, State, Target, Waiting};
use crate::prefix::Prefix;
use crate::route::Hop;
use crate::route::hops::{End, hops};
use crate::route::options::{self, Options, Writer};
use crate::stage::Step;
use crate::table::shares::Host;
use crate::tags::Tags;

/// A host on the link of a port.
#[derive(Clone, Copy)]
struct Station {
    port: PortId,
    mac: Mac,
    /// Those of its line, where the port has several.
    tags: Option<Tags>,
    /// 0: none.
    pppoe_session: u16,
    /// The longest packet that it takes, whatever its port carries.
    most_bytes: u16,
}

/// The subscriber of the text at a port that a frame is for.
fn subscriber(step: &Step<'_, '_>, i: usize, port: PortId) -> Option<Station> {
    if step.subscribers.is_empty() {
        return None;
    }
    let found = step.subscribers.receiver(step.subscribers.lookup_to(step.frames[i].destination()))?;
    (found.line.port == port).then_some(Station::of(found))
}

impl Station {
    /// A host on the link of a port that is no subscriber.
    fn host(port: PortId, mac: Mac) -> Station {
        Station { port, mac, tags: None, pppoe_session: 0, most_bytes: u16::MAX }
    }

    fn of(Receiver { line: Line { port, tags, mac, pppoe_session }, most_bytes }: Receiver) -> Station {
        Station { port, mac, tags: Some(tags), pppoe_session, most_bytes }
    }
}

/// The sender of the frame that this one answers, if that came in by the port.
fn asker(frame: &Frame<'_>, port: PortId) -> Option<Station> {
    let (mac, _) = frame.macs();
    let Frame { tags, pppoe_session, .. } = *frame;
    let station = Station { tags: Some(tags), pppoe_session, ..Station::host(port, mac) };
    (frame.is_answer && frame.port == port).then_some(station)
}

impl Router {
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
    pub(in crate::route) fn hops(&self, frames: &Frames<'_, '_>, set: Set, end: End) -> PerFrame<Hop> {
        hops((&self.v4, &self.v6), frames, set, end)
    }

    /// The longest packet of a port.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "hops and links name ports that there are")]
    pub(in crate::route) fn mtu(&self, port: PortId) -> u16 {
        self.mtus[usize::from(port.0)]
    }

    /// The quick way, and where it is left.
    #[inline]
    fn forward(&mut self, step: &mut Step<'_, '_>, dir: Dir, i: usize, hop: Hop) {
        let hop = if hop.0 >= GROUPS && hop != Hop::NONE { self.member(&step.frames[i], hop) } else { hop };
        let frame = &mut step.frames[i];
        if let Some(Next::Ready { port, mac }) = self.nexts.get(hop)
            && frame.ttl() > 1
            && frame.ip_bytes() <= usize::from(self.mtu(port))
            && !is_of_link(frame)
            && !frame.is_to_group()
            && !frame.has_options4()
        {
            let link = self.neighbours.link(port);
            frame.decrement_ttl();
            frame.set_ethernet(mac, link.mac, link.tags.fixed());
            step.leave(i, port);
        } else {
            self.slow(step, dir, i, hop);
        }
    }

    #[cold]
    fn slow(&mut self, step: &mut Step<'_, '_>, dir: Dir, i: usize, hop: Hop) {
        // An error goes back through all stages.
        let back = EntryPoint::Begin(dir.opposite());
        let next = self.nexts.get(hop);
        // It goes no further than to the node (RFC 4291, section 2.5.6).
        let is_for_us = matches!(next, Some(Next::Local | Next::All | Next::Broadcast(_)));
        if is_of_link(&step.frames[i]) && !is_for_us {
            return step.drop(i, DropReason::MartianSource);
        }
        let to_all = step.frames[i].is_to_group();
        match next {
            None => step.refuse(i, DropReason::NoRoute, Error::NoRoute, back),
            Some(Next::Blackhole) => step.drop(i, DropReason::Blackhole),
            Some(Next::Martian) => step.drop(i, DropReason::MartianDestination),
            Some(Next::Unreachable) => step.refuse(i, DropReason::RouteUnreachable, Error::NoHost, back),
            Some(Next::Prohibit) => step.refuse(i, DropReason::RouteProhibited, Error::Prohibited, back),
            Some(Next::Local) => self.local(step, i),
            Some(Next::All) => step.local(i),
            Some(Next::Broadcast(port)) if port == step.frames[i].port => step.local(i),
            Some(Next::Broadcast(_)) => step.drop(i, DropReason::DirectedBroadcast),
            Some(_) if to_all => step.drop(i, DropReason::LinkBroadcast),
            Some(_) if step.frames[i].ttl() <= 1 => {
                step.refuse(i, DropReason::TtlExpired, Error::TimeExceeded, back)
            }
            Some(Next::Ready { port, mac }) => self.send(step, i, Station::host(port, mac), back),
            Some(Next::Stale { port, mac }) => {
                self.neighbours.used(Slot(hop.0 - NEIGHBOURS), step.now);
                self.settle();
                self.send(step, i, Station::host(port, mac), back);
            }
            Some(Next::Unresolved) => self.wait(step, i, Slot(hop.0 - NEIGHBOURS), dir),
            Some(Next::Connected(port)) => self.send_to_host(step, dir, i, port),
        }
    }

    /// A packet for a host on the link of a port: for a subscriber, or one that is to be asked about.
    fn send_to_host(&mut self, step: &mut Step<'_, '_>, dir: Dir, i: usize, port: PortId) {
        let back = EntryPoint::Begin(dir.opposite());
        if self.neighbours.link(port).is_access {
            return self.send_to_subscriber(step, dir, i);
        }
        let has_lines = self.neighbours.link(port).has_lines();
        let host = subscriber(step, i, port).or_else(|| asker(&step.frames[i], port).filter(|_| has_lines));
        match host {
            Some(host) => self.send(step, i, host, back),
            None if has_lines => step.drop(i, DropReason::NoLine),
            None if self.is_too_long(&step.frames[i], port) => {
                step.refuse(i, DropReason::TooBig, Error::TooBig(self.mtu(port)), back);
            }
            None => {
                let frame = &step.frames[i];
                let (asker, target) =
                    (Asker { host: Host::of(frame), dir }, Target { port, ip: destination(frame) });
                match self.neighbours.demand(step.now, target, asker, step.outbox, step.drops) {
                    Ok(slot) => self.wait(step, i, slot, dir),
                    Err(reason) => step.drop(i, reason),
                }
            }
        }
    }

    /// A packet for a network of access ports: it is for a subscriber at any of them, or answers a device without a session.
    fn send_to_subscriber(&self, step: &mut Step<'_, '_>, dir: Dir, i: usize) {
        let back = EntryPoint::Begin(dir.opposite());
        let frame = &mut step.frames[i];
        if let Some(asker) = asker(frame, frame.port).filter(|_| self.neighbours.link(frame.port).is_access) {
            return self.send(step, i, asker, back);
        }
        let from = frame.subscriber;
        frame.subscriber = step.subscribers.lookup_to(frame.destination());
        // On their way inward packets name their receiver, also those that a NAT has turned.
        if dir == Dir::Outward && from == frame.subscriber && !from.is_none() {
            return match step.subscribers.rejects_loops() {
                true => step.refuse(i, DropReason::SubscriberLoop, Error::RejectRoute, back),
                false => step.drop(i, DropReason::SubscriberLoop),
            };
        }
        let Some(receiver) = step.subscribers.receiver(frame.subscriber) else {
            return step.refuse(i, DropReason::NoSubscriber, Error::NoHost, back);
        };
        let most_bytes = self.most_bytes(&receiver);
        if is_longer(frame, most_bytes) {
            return step.refuse(i, DropReason::TooBig, Error::TooBig(most_bytes), back);
        }
        match step.subscribers.send_to(step.now, frame) {
            Ok(line) => {
                clamp_mss(frame, receiver.most_bytes);
                let later = self.complete(step, i, Station::of(receiver), back);
                if step.verdicts[i] == Verdict::Out(line.port) {
                    hold(step, i);
                }
                let known = step.frames[i].known();
                for buf in later {
                    let Step { now, frames, outbox, subscribers, .. } = step;
                    if let Err(buf) = subscribers.hold_fragment_to(*now, &frames[i], (known, buf), outbox) {
                        outbox.send(EntryPoint::Leave(line.port), line.port, buf);
                    }
                }
            }
            Err(denied) => step.drop(i, denied.into()),
        }
    }

    /// Sends packets of `set` that are for subscribers, on their way in to them; returns the others.
    pub(crate) fn run_to_subscribers(&self, step: &mut Step<'_, '_>, set: Set) -> Set {
        let found = step.subscribers.find_receivers(&mut step.frames, set);
        step.subscribers.touch_slots_to(&step.frames, found);
        let (mut others, mut held) = (set.without(found), Set::EMPTY);
        for i in found {
            let frame = &mut step.frames[i];
            let Some(receiver) = step.subscribers.receiver(frame.subscriber).filter(|_| {
                frame.ttl() > 1 && !is_of_link(frame) && !frame.is_to_group() && !frame.has_options4()
            }) else {
                others.insert(i);
                continue;
            };
            if frame.ip_bytes() > usize::from(self.most_bytes(&receiver)) {
                others.insert(i);
                continue;
            }
            match step.subscribers.send_to(step.now, frame) {
                Ok(Line { port, tags, mac, pppoe_session }) => {
                    clamp_mss(frame, receiver.most_bytes);
                    frame.decrement_ttl();
                    let (own, places) = (self.neighbours.link(port).mac, &mut [[0; 4]; 2]);
                    let tags = tags.write_with_priority(step.subscribers.priority(frame.class), places);
                    match pppoe_session {
                        0 => frame.set_ethernet(mac, own, tags),
                        id => frame.set_session(mac, own, tags, id),
                    }
                    step.leave(i, port);
                    held.insert(i);
                }
                Err(denied) => step.drop(i, denied.into()),
            }
        }
        let Step { now, frames, outbox, subscribers, verdicts, .. } = step;
        subscribers.hold_all_to(*now, frames, held, outbox, |i, ticket| verdicts[i] = Verdict::Kept(ticket));
        others
    }

    /// The next hop of the group for this flow.
    fn member(&self, frame: &Frame<'_>, hop: Hop) -> Hop {
        self.member_of(hop, spread(frame, &self.secret))
    }

    /// The next hop of the group for a flow with this hash.
    pub(in crate::route) fn member_of(&self, hop: Hop, hash: u32) -> Hop {
        let usable = |member: u32| {
            matches!(self.nexts.get(Hop(member)), Some(Next::Ready { .. } | Next::Stale { .. }))
        };
        Hop(self.shared(hop).group.pick(hash, usable))
    }

    /// A packet for the node itself: a ping is answered, all else goes to the machine.
    fn local(&self, step: &mut Step<'_, '_>, i: usize) {
        let frame = &mut step.frames[i];
        let (_, sender) = frame.macs();
        let port = frame.port;
        if icmp::answer_echo(frame) {
            let link = self.neighbours.link(port);
            let tags = frame.tags;
            let (places, has_lines) = (&mut [[0; 4]; 2], link.has_lines());
            let tags = if has_lines { tags.write(places) } else { link.tags.fixed() };
            match frame.pppoe_session {
                0 => frame.set_ethernet(sender, link.mac, tags),
                id => frame.set_session(sender, link.mac, tags, id),
            }
            step.leave(i, port);
        } else {
            step.local(i);
        }
    }

    /// A packet that may be too long for the link.
    fn send(&self, step: &mut Step<'_, '_>, i: usize, to: Station, back: EntryPoint) {
        for later in self.complete(step, i, to, back) {
            step.outbox.send(EntryPoint::Leave(to.port), to.port, later);
        }
    }

    /// The same; returns the fragments behind the first one, which it leaves as.
    fn complete(&self, step: &mut Step<'_, '_>, i: usize, to: Station, back: EntryPoint) -> Vec<Vec<u8>> {
        let Station { port, mac, tags, pppoe_session, most_bytes } = to;
        if step.frames[i].has_options4() && !self.see_to_options(step, i, port, back) {
            return Vec::new();
        }
        let (mtu, link) =
            (self.most_bytes_at(port, pppoe_session).min(most_bytes), self.neighbours.link(port));
        if is_longer(&step.frames[i], mtu) {
            step.refuse(i, DropReason::TooBig, Error::TooBig(mtu), back);
            return Vec::new();
        }
        let frame = &mut step.frames[i];
        let fits = frame.ip().len() <= usize::from(mtu);
        frame.decrement_ttl();
        let places = &mut [[0; 4]; 2];
        let tags = tags.map_or(link.tags.fixed(), |tags| tags.write(places));
        frame.set_ethernet(mac, link.mac, tags);
        let mut later = if fits { Vec::new() } else { fragment::cut(frame, mtu) };
        later.iter_mut().for_each(|later| set_session_of_copy(later, frame.ethernet().len(), pppoe_session));
        if pppoe_session != 0 {
            frame.set_session(mac, link.mac, tags, pppoe_session);
        }
        step.leave(i, port);
        later
    }

    /// Handles the options of a packet that leaves by a port; false if it goes no further.
    #[cold]
    fn see_to_options(&self, step: &mut Step<'_, '_>, i: usize, port: PortId, back: EntryPoint) -> bool {
        let v4 = |prefix: &Prefix| match prefix.address {
            IpAddr::V4(address) => Some(u32::from(address)),
            IpAddr::V6(_) => None,
        };
        let of_port = |port: PortId| self.neighbours.link(port).addresses.iter().filter_map(v4);
        match (self.options, of_port(port).next()) {
            (Options::Drop, _) if options::asks_nodes(&step.frames[i]) => {
                step.drop(i, DropReason::IpOption);
                return false;
            }
            (Options::Fill, Some(address)) => {
                let ports = 0..self.mtus.len();
                let is_local = |asked| {
                    ports.clone().any(|port| of_port(PortId(port as u16)).any(|local| local == asked))
                };
                let writer = Writer { address, is_local: &is_local, now: step.now };
                if let Err(at) = options::fill(&mut step.frames[i], &writer) {
                    step.refuse(i, DropReason::IpOption, Error::Problem(at), back);
                    return false;
                }
            }
            _ => {}
        }
        true
    }

    /// Whether a packet is longer than a link carries, and not to be cut.
    fn is_too_long(&self, frame: &Frame<'_>, port: PortId) -> bool {
        is_longer(frame, self.mtu(port))
    }

    /// The longest packet that gets to a subscriber.
    #[inline]
    fn most_bytes(&self, receiver: &Receiver) -> u16 {
        let Line { port, pppoe_session, .. } = receiver.line;
        self.most_bytes_at(port, pppoe_session).min(receiver.most_bytes)
    }

    /// The longest packet that a port carries, in a PPPoE session unless that is 0.
    #[inline]
    fn most_bytes_at(&self, port: PortId, pppoe_session: u16) -> u16 {
        let header = if pppoe_session == 0 { 0 } else { PPPOE as u16 };
        self.mtu(port).saturating_sub(header)
    }

    /// A packet for a neighbour whose Ethernet address is not known.
    fn wait(&mut self, step: &mut Step<'_, '_>, i: usize, slot: Slot, dir: Dir) {
        let back = EntryPoint::Begin(dir.opposite());
        let Known { port, mac, state, .. } = self.neighbours.known(slot);
        if !matches!(state, State::Unknown | State::Asking(_)) {
            return self.send(step, i, Station::host(port, mac), back);
        }
        if step.frames[i].has_options4() && !self.see_to_options(step, i, port, back) {
            return;
        }
        let mtu = self.mtu(port);
        if self.is_too_long(&step.frames[i], port) {
            return step.refuse(i, DropReason::TooBig, Error::TooBig(mtu), back);
        }
        let (frame, link) = (&mut step.frames[i], self.neighbours.link(port));
        frame.decrement_ttl();
        frame.set_ethernet([0; 6], link.mac, link.tags.fixed());
        let later = if frame.ip().len() > usize::from(mtu) { fragment::cut(frame, mtu) } else { Vec::new() };
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

/// A packet that leaves for a subscriber may have to wait for a rate.
#[inline]
fn hold(step: &mut Step<'_, '_>, i: usize) {
    let Step { now, frames, outbox, subscribers, verdicts, .. } = step;
    if let Some(ticket) = subscribers.hold_to(*now, &frames[i], outbox) {
        verdicts[i] = Verdict::Kept(ticket);
    }
}

/// Whether a packet is longer than this, and not to be cut.
fn is_longer(frame: &Frame<'_>, most_bytes: u16) -> bool {
    let fits = frame.ip().len() <= usize::from(most_bytes);
    !fits && (frame.kind() == Kind::V6 || fragment::forbidden(frame))
}

/// Gives a fragment, with head room and an Ethernet header of so many bytes in front, the header of a PPPoE session, unless that is 0.
fn set_session_of_copy(fragment: &mut Vec<u8>, ethernet: usize, pppoe_session: u16) {
    if pppoe_session != 0 {
        let (type_at, ip_at) = (HEAD_ROOM + ethernet - 2, HEAD_ROOM + ethernet);
        fragment.splice(type_at..ip_at, pppoe_header(pppoe_session, Kind::V4, fragment.len() - ip_at));
    }
}

fn destination(frame: &Frame<'_>) -> IpAddr {
    match frame.kind() {
        Kind::V4 => Ipv4Addr::from(frame.addresses4().1).into(),
        _ => Ipv6Addr::from(frame.addresses6().1).into(),
    }
}
