//! Network address translation: NAT44 from one address for a home to a pool for a carrier's subscribers.
//!
//! ```text
//!  outward  frame > flow (inside end, remote end) > table > mapping > source rewritten   > on, or back in (hairpin)
//!  inward   frame > port of a public address      > table > mapping > destination rewritten > on
//! ```
//!
//! | question | file |
//! |---|---|
//! | Who may send what, which mapping comes and goes? | `table.rs` |
//! | Who gives way when the table is full? | `scarce.rs` |
//! | What is a mapping, and how is it found? | `slot.rs`, `sessions.rs` |
//! | Who has which port of the outside? | `outside.rs`; who gets the next: `ports.rs`, `block_set.rs`, `resting.rs`, `deterministic.rs` |
//! | When is a session over? | `../table/timers.rs`, `tcp.rs` |
//! | What happens to errors of ICMP, to fragments? | `icmp.rs`, `fragments.rs` |
//! | What of protocols without ports? | `portless.rs` |
//! | How do hosts ask for ports themselves? | `pcp.rs`, `leases.rs` |
//! | How does a destination lead elsewhere? | `redirect.rs` |
//! | How is what was configured by address found? | `pairs.rs`, `ranges.rs` |
//! | Which ports of a public address are another box's? | `shared.rs` |
//! | How do hosts with IPv6 reach IPv4? | `nat64/` |
//! | Whose is a frame, where several threads are one NAT? | `steer.rs`; whose is a port: `sharding.rs` |
//! | What does `nat(...)` take? | `config.rs`, `words.rs`; when it changes: `apply.rs`, goes away: `end.rs`; when the node begins again: `restore.rs`, `block_events.rs` |
//!
//! A batch goes through each table in two passes: the first only reads where each frame leads, so that the cache misses
//! of up to 64 frames overlap, the second acts.

mod apply;
mod block_events;
mod block_set;
mod config;
mod deterministic;
mod end;
mod fragments;
mod icmp;
mod leases;
mod log;
mod nat64;
mod outside;
mod pairs;
mod passage;
mod pcp;
mod portless;
mod ports;
mod ranges;
mod redirect;
mod resting;
mod restore;
mod scarce;
mod sessions;
mod sharding;
mod shared;
mod shown;
mod slot;
mod steer;
mod subscribers;
mod table;
mod unsolicited;
mod words;

use std::net::{IpAddr, Ipv4Addr};

use weir_packet::headers::{ICMP, TCP, UDP};

use crate::address::mapped4;
use crate::batch::{PerFrame, Set};
use crate::drops::Drop;
use crate::frame::{Fragment, Frame, Kind as Packet};
use crate::icmp::Error;
use crate::kept::Ticket;
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::prefix::is_unicast4;
use crate::stage::Step;
use crate::table::tcp::{self, Segment};
use crate::time::Time;
use crate::way::{Dir, Entry, Share};

pub(crate) use apply::Update;
pub use block_events::BlockEvent;
use block_events::BlockEvents;
pub(crate) use config::Config;
pub use deterministic::{Deterministic, Owner};
use fragments::Fragments;
pub use log::{Event, What};
use outside::{Endpoint, Space};
pub(crate) use passage::Passage;
pub use restore::Kept;
pub(crate) use sharding::Sharding;
pub(crate) use shown::Mapped;
use slot::{Inside, Kind, Remote};
pub(crate) use steer::{Departs, Lead, Receiver, sender};
use table::{Arrival, Flow, Table};
use unsolicited::Unsolicited;

/// The stage.
pub(crate) struct Nat {
    table: Table,
    fragments: Fragments,
    unsolicited: Unsolicited,
    /// Identification of the next packet of each public address (RFC 6864).
    ids: Vec<u16>,
    /// Addresses of the node itself: what no mapping awaits there is for it.
    local: Vec<u32>,
    /// Frames need a look at their addresses before all else.
    is_special: bool,
    /// The node forwards.
    routes: bool,
    /// It does, and has addresses of IPv6 to speak of it with.
    routes6: bool,
    /// Longest packets of the inside and of the outside.
    mtus: Mtus,
    seed: u64,
}

impl std::fmt::Debug for Nat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nat").field("sessions", &self.table.sessions.live()).finish_non_exhaustive()
    }
}

/// Whether an inside end is one of IPv4.
#[inline]
fn is_v4(inside: &Inside) -> bool {
    inside.address[..3] == [0, 0, 0xffff]
}

fn v4(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) => Some(u32::from(address)),
        IpAddr::V6(_) => None,
    }
}

/// Longest packets of the links of the node, in bytes: of either end the shortest link counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mtus {
    pub(crate) inside: u16,
    pub(crate) outside: u16,
}

impl Default for Mtus {
    /// A bump in the wire has none of its own.
    fn default() -> Mtus {
        Mtus { inside: u16::MAX, outside: u16::MAX }
    }
}

/// What a NAT holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Mappings and sessions.
    pub sessions: u32,
    /// Memory of all that belongs to them: indexes, subscribers, ports.
    pub bytes: usize,
}

/// Where a frame goes behind the stage.
enum Next {
    On,
    /// To an address of this NAT's: its source is translated, its destination not yet.
    Hairpin,
    /// To another host inside.
    Turn,
    Drop(Drop),
    /// Its verdict is decided.
    Gone,
}

/// Whether a mapping awaits a frame.
enum Awaited {
    Yes,
    No,
    /// Another thread is to say.
    Asked,
}

#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Nat {
    /// A NAT as `config` says, or a thread's share of it, in a node with these addresses; what nobody is to foresee follows
    /// from `seed`.
    pub(crate) fn new(config: Config, local: Vec<IpAddr>, seed: u64, share: Share) -> Nat {
        let table = Table::new(config, seed, share);
        let first = (seed as u16).wrapping_mul(share.of.into()).wrapping_add(share.thread.into());
        let ids = (0..table.outside.len()).map(|_| first).collect();
        Nat {
            is_special: table.is_special(),
            table,
            fragments: Fragments::new(Limits::default().fragments(share)),
            unsolicited: Unsolicited::default(),
            ids,
            local: local.into_iter().filter_map(v4).collect(),
            routes: false,
            routes6: false,
            mtus: Mtus::default(),
            seed,
        }
    }

    /// The same in a node with these longest packets that forwards, maybe with an address of IPv6.
    pub(crate) fn of_router(self, mtus: Mtus, has6: bool) -> Nat {
        Nat { routes: true, routes6: has6, mtus, ..self }
    }

    /// What hosts use together is limited otherwise from now on.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.fragments.limit(limits.fragments(self.table.share));
    }

    /// Hosts get no further block of ports, or do again.
    pub(crate) fn withhold_blocks(&mut self, withheld: bool) {
        self.table.pool.withhold(withheld);
    }

    /// Translates the frames of `set` on their way in `dir`, and tells who goes on.
    pub(crate) fn run(&mut self, step: &mut Step<'_, '_>, dir: Dir, set: Set) -> Set {
        self.table.expire(step.now);
        match dir {
            Dir::Outward => self.outward(step, set),
            Dir::Inward => self.inward(step, set),
        }
    }

    /// Lets time pass: sessions end, waiting fragments are given up, late answers are sent. True: there is more to do.
    pub(crate) fn tick(&mut self, step: &mut Step<'_, '_>) -> bool {
        let more = self.table.expire(step.now);
        let lapsed = self.fragments.expire(step.now, step.outbox);
        (0..lapsed).for_each(|_| step.drops.count(Drop::NatFragment));
        self.answer_unsolicited(step);
        more
    }

    /// When something is due.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        [self.table.due(now), self.fragments.due(), self.unsolicited.due()].into_iter().flatten().min()
    }

    /// Whether there is room for an update.
    ///
    /// # Errors
    /// There is none; nothing has changed.
    pub(crate) fn accepts(&self, update: &Update) -> Result<(), String> {
        self.table.accepts(update)
    }

    /// Takes another configuration, without losing what lives.
    pub(crate) fn take(&mut self, now: Time, update: &mut Update) {
        self.table.apply(now, update);
        self.is_special = self.table.is_special();
        let first = self.ids.first().copied().unwrap_or_default();
        self.ids.resize(self.table.outside.len(), first);
    }

    /// Forgets all that lives in it.
    pub(crate) fn begin_anew(&mut self) {
        self.table = Table::new(self.table.config.clone(), self.seed, self.table.share);
        self.table.block_events = BlockEvents::behind();
        self.fragments = self.fragments.anew();
        self.unsolicited = Unsolicited::default();
    }

    /// Frames that wait in it: the tickets of those that are kept, and how many are copies.
    pub(crate) fn waiting(&self) -> (Vec<Ticket>, usize) {
        self.fragments.waiting()
    }

    /// It goes away: fragments that waited in it go on where frames of their direction enter.
    pub(crate) fn let_go(&mut self, outbox: &mut Outbox, entry: impl Fn(Dir) -> Entry) {
        self.fragments.let_go(outbox, entry);
    }

    /// Gives a host a block of ports again; false if it cannot be.
    pub(crate) fn restore(&mut self, now: Time, kept: &Kept) -> bool {
        self.table.restore(now, kept)
    }

    /// What it holds.
    pub(crate) fn usage(&self) -> Usage {
        Usage { sessions: self.table.sessions.live() - self.table.foreign, bytes: self.table.bytes() }
    }

    /// What happened since the last call, and how many events there was no room for, ever.
    pub(crate) fn events(&mut self) -> (impl Iterator<Item = Event>, u64) {
        self.table.log.drain()
    }

    fn outward(&mut self, step: &mut Step<'_, '_>, set: Set) -> Set {
        let (mut hashes, mut guesses) = (PerFrame::all(0_u32), PerFrame::all(0_u32));
        for i in set {
            let flow = self.ends_out(&step.frames[i]);
            hashes[i] = self.table.hash(&flow.inside, flow.remote);
        }
        let sessions = &self.table.sessions;
        let is_large = sessions.is_large();
        if is_large {
            set.for_each(|i| sessions.touch(hashes[i]));
        }
        for i in set {
            guesses[i] = sessions.first(hashes[i]);
        }
        if is_large {
            set.for_each(|i| sessions.touch_slot(guesses[i]));
        }
        self.act(step, set, |nat, step, i| nat.out(step, i, hashes[i], guesses[i]))
    }

    /// The two ends of a frame on its way out, of either kind of IP.
    #[inline]
    fn ends_out(&self, frame: &Frame<'_>) -> Flow {
        if let (Packet::V6, Some(prefix)) = (frame.kind(), self.table.config.prefix64)
            && let Some((inside, remote)) = nat64::ends(frame, prefix)
        {
            return Flow { inside, remote, segment: Segment::default() };
        }
        ends(frame, Dir::Outward)
    }

    fn inward(&mut self, step: &mut Step<'_, '_>, set: Set) -> Set {
        let (sessions, outside) = (&self.table.sessions, &self.table.outside);
        let is_large = sessions.is_large();
        if is_large {
            set.filter_map(|i| self.endpoint(&step.frames[i])).for_each(|endpoint| outside.touch(endpoint));
        }
        let mut guesses = PerFrame::all(0_u32);
        for i in set {
            guesses[i] = self.endpoint(&step.frames[i]).map_or(0, |endpoint| outside.slot(endpoint));
        }
        if is_large {
            set.for_each(|i| sessions.touch_slot(guesses[i]));
        }
        self.act(step, set, |nat, step, i| nat.back(step, i, guesses[i]))
    }

    /// Does to each frame what `one` says.
    #[inline]
    fn act(
        &mut self,
        step: &mut Step<'_, '_>,
        set: Set,
        one: impl Fn(&mut Nat, &mut Step<'_, '_>, usize) -> Next,
    ) -> Set {
        let mut on = set;
        for i in set {
            match one(self, step, i) {
                Next::On => continue,
                Next::Turn => step.turn(i),
                Next::Drop(reason) => step.drop(i, reason),
                Next::Gone => {}
                Next::Hairpin => unreachable!("it was led back"),
            }
            on.remove(i);
        }
        on
    }

    /// A frame on its way out.
    #[inline]
    fn out(&mut self, step: &mut Step<'_, '_>, i: usize, hash: u32, guess: u32) -> Next {
        let frame = &step.frames[i];
        if let Some(next) = self.beyond(frame) {
            return next;
        }
        let next = match !is_plain(frame) || self.is_special {
            true => self.out_special(step, i, (hash, guess)),
            false => self.out_plain(step, i, (hash, guess)),
        };
        if let Next::Hairpin = next { self.hairpin(step, i) } else { next }
    }

    /// What becomes of a frame on its way out that is no matter of a NAT. One between two links of the inside passes, and one
    /// to all where the node is among them. One from an address that nobody can have does not: translated it would pass for
    /// an honest one.
    #[inline]
    fn beyond(&self, frame: &Frame<'_>) -> Option<Next> {
        if frame.kind() != Packet::V4 {
            return None;
        }
        let (src, dst) = frame.addresses4();
        let is_for_all = dst >> 28 == 14 || dst == u32::MAX;
        if frame.stays_inside || self.routes && is_for_all {
            return Some(Next::On);
        }
        (!is_unicast4(src)).then_some(Next::Drop(Drop::MartianSource))
    }

    /// A frame with ports; what lies under its hash was looked up already.
    #[inline]
    fn out_plain(&mut self, step: &mut Step<'_, '_>, i: usize, (hash, guess): (u32, u32)) -> Next {
        let frame = &mut step.frames[i];
        let flow = flow(frame);
        let is_public = self.is_public(flow.remote.address);
        if self.local.contains(&flow.remote.address) {
            match is_public.then(|| self.is_awaited(step, i)) {
                Some(Awaited::Yes) => {}
                Some(Awaited::Asked) => return Next::Gone,
                Some(Awaited::No) | None => return self.out_local(step, i),
            }
        }
        let frame = &mut step.frames[i];
        let number = match self.table.outbound(step.now, flow, hash, guess) {
            Ok(number) => number,
            Err(reason) => return self.refuse(step, i, reason),
        };
        self.translate_source(frame, number);
        if is_public { Next::Hairpin } else { Next::On }
    }

    /// A frame leaves from the outside end of a mapping. Each frame comes here: a call would cost some clocks.
    #[inline(always)]
    fn translate_source(&mut self, frame: &mut Frame<'_>, number: u32) {
        let slot = &self.table.sessions[number];
        let (outside, port) = (slot.outside, slot.outside_port);
        frame.set_source4(self.table.outside.address(outside), port);
        if !frame.keeps_whole() || frame.fragment() != Fragment::Whole {
            frame.set_id4(self.next_id(outside));
        }
        if let Some(mss) = self.table.config.mss {
            clamp(frame, mss);
        }
    }

    /// A packet from inside for the node itself.
    #[cold]
    fn out_local(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        let frame = &step.frames[i];
        let is_question = frame.proto() == UDP && frame.ports().1 == pcp::PORT;
        match is_question && self.table.config.pcp && frame.fragment() == Fragment::Whole {
            true => self.answer_pcp(step, i),
            false => Next::On,
        }
    }

    /// The identification of the next packet of a public address; those of two threads are apart.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there is one for each public address")]
    fn next_id(&mut self, outside: u16) -> u16 {
        let id = &mut self.ids[usize::from(outside)];
        *id = id.wrapping_add(self.table.share.of.into());
        *id
    }

    /// Whether a mapping awaits a frame, at an address that is the node's, too.
    #[cold]
    fn is_awaited(&mut self, step: &mut Step<'_, '_>, i: usize) -> Awaited {
        if step.frames[i].is_awaited {
            return Awaited::Yes;
        }
        // What a host asks for is its own thread's matter.
        let is_asked_here = self.table.config.pcp && step.frames[i].ports().1 == pcp::PORT;
        if !is_asked_here && self.ask_other(step, i) {
            return Awaited::Asked;
        }
        if self.awaits(step.now, &step.frames[i]) { Awaited::Yes } else { Awaited::No }
    }

    /// Whether there is a mapping for a frame that came to a public address.
    pub(crate) fn awaits(&mut self, now: Time, frame: &Frame<'_>) -> bool {
        self.endpoint(frame).is_some_and(|endpoint| self.table.holder(now, endpoint).is_some())
    }

    /// A frame whose source is translated and whose destination is a public address of this NAT (RFC 4787 REQ-9).
    fn hairpin(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        if self.goes_to_another_box(step, i) {
            return Next::On;
        }
        if self.hand_hairpin(step, i) {
            return Next::Gone;
        }
        let guess = self.endpoint(&step.frames[i]).map_or(0, |endpoint| self.table.outside.slot(endpoint));
        match self.back(step, i, guess) {
            Next::On => Next::Turn,
            other => other,
        }
    }

    /// A frame on its way in.
    #[inline]
    fn back(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let frame = &step.frames[i];
        if !is_plain(frame) || self.is_special {
            return self.back_special(step, i, guess);
        }
        self.back_plain(step, i, guess)
    }

    #[inline]
    fn back_plain(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let Some(endpoint) = self.endpoint(&step.frames[i]) else { return self.stranger(step, i) };
        let frame = &mut step.frames[i];
        let (remote, segment) = (remote(frame), Segment::of(frame));
        let arrival = Arrival { endpoint, proto: frame.proto(), remote, segment };
        match self.table.inbound(step.now, &arrival, guess) {
            Ok(number) => {
                let inside = self.table.sessions[number].inside();
                if !is_v4(&inside) {
                    return self.back64(step, i, inside);
                }
                frame.set_destination4(inside.address[3], inside.port);
                if let Some(mss) = self.table.config.mss {
                    clamp(frame, mss);
                }
                Next::On
            }
            Err(Drop::NatNoMapping) if self.local.contains(&frame.addresses4().1) => Next::On,
            Err(reason) => {
                let silent = self.table.config.unsolicited == config::Manner::Silent;
                if segment.flags & (tcp::SYN | tcp::ACK) == tcp::SYN && !silent {
                    self.unsolicited.note(&step.frames[i], step.now, arrival);
                }
                Next::Drop(reason)
            }
        }
    }

    /// A frame from outside that is not for a public address: it may be from an excluded host, or from a router about what
    /// was sent to one.
    fn stranger(&self, step: &Step<'_, '_>, i: usize) -> Next {
        let frame = &step.frames[i];
        let (src, dst) = frame.addresses4();
        let exclude = &self.table.config.exclude;
        let is_excluded = exclude.contains(src)
            || frame.icmp_error() && icmp::quote(frame).is_ok_and(|quote| exclude.contains(quote.dst.0));
        match self.local.contains(&dst) || is_excluded {
            true => Next::On,
            false => Next::Drop(Drop::NatNoMapping),
        }
    }

    /// The port of a public address that a frame is for.
    #[inline]
    fn endpoint(&self, frame: &Frame<'_>) -> Option<Endpoint> {
        if frame.kind() != Packet::V4 {
            return None;
        }
        let outside = self.table.outside.number(frame.addresses4().1)?;
        Some(Endpoint { outside, space: Space::of(frame.proto())?, port: frame.ports().1 })
    }

    /// A frame that gets no mapping; its sender may be reported (RFC 6888 REQ-11B).
    fn refuse(&mut self, step: &mut Step<'_, '_>, i: usize, reason: Drop) -> Next {
        let is_shortage = matches!(
            reason,
            Drop::NatNoPort | Drop::NatWithheld | Drop::NatQuota | Drop::NatRate | Drop::NatSessions
        );
        if is_shortage && self.table.config.exhausted == config::Manner::Answer {
            let frame = &step.frames[i];
            let public = self.table.outside.first();
            let from = match frame.kind() {
                Packet::V4 => public.map(|public| IpAddr::from(Ipv4Addr::from(public))),
                _ => public.and_then(|public| self.as_v6(public)).map(IpAddr::from),
            };
            if let Some(from) = from {
                let back = step.back(Dir::Outward);
                step.outbox.report_from(from, step.now, frame, Error::NoHost, back);
            }
        }
        Next::Drop(reason)
    }
}

/// Whether a protocol has ports, or identifiers in their place.
pub(crate) fn has_ports_of(proto: u8) -> bool {
    Space::of(proto).is_some()
}

/// A whole packet with ports.
#[inline]
fn is_plain(frame: &Frame<'_>) -> bool {
    frame.kind() == Packet::V4 && frame.fragment() == Fragment::Whole && has_ports(frame)
}

#[inline]
fn has_ports(frame: &Frame<'_>) -> bool {
    matches!(frame.proto(), TCP | UDP) || frame.icmp_query()
}

/// The two ends of a frame, seen from the inside.
#[inline]
fn ends(frame: &Frame<'_>, dir: Dir) -> Flow {
    if frame.kind() != Packet::V4 {
        let inside = Inside { address: [0; 4], port: 0, proto: 0 };
        return Flow { inside, remote: Remote::default(), segment: Segment::default() };
    }
    let ((src, dst), (sport, dport)) = (frame.addresses4(), frame.ports());
    let ((here, hport), (there, tport)) = match dir {
        Dir::Outward => ((src, sport), (dst, dport)),
        Dir::Inward => ((dst, dport), (src, sport)),
    };
    // The identifier of a query is that of the one who asks, whoever sends it.
    let tport = if frame.proto() == ICMP { 0 } else { tport };
    Flow {
        inside: Inside { address: mapped4(here), port: hport, proto: frame.proto() },
        remote: Remote { address: there, port: tport },
        segment: Segment::default(),
    }
}

#[inline]
fn flow(frame: &Frame<'_>) -> Flow {
    Flow { segment: Segment::of(frame), ..ends(frame, Dir::Outward) }
}

#[inline]
fn remote(frame: &Frame<'_>) -> Remote {
    ends(frame, Dir::Inward).remote
}

/// No SYN asks for larger segments than this.
fn clamp(frame: &mut Frame<'_>, mss: u16) {
    if frame.tcp_flags() & tcp::SYN != 0 {
        tcp::clamp_mss(frame.l4_mut(), mss);
    }
}

/// What is neither whole nor plain, or for whom something was configured.
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
impl Nat {
    #[cold]
    fn out_special(&mut self, step: &mut Step<'_, '_>, i: usize, lookup: (u32, u32)) -> Next {
        let frame = &step.frames[i];
        if frame.kind() == Packet::V6 {
            return self.out_of_v6(step, i, lookup);
        }
        if frame.kind() != Packet::V4 || self.table.config.exclude.contains(frame.addresses4().1) {
            return Next::On;
        }
        match frame.fragment() {
            Fragment::Whole => self.out_packet(step, i, lookup),
            Fragment::First => self.first(step, i, Dir::Outward, |nat, step| nat.out_packet(step, i, lookup)),
            Fragment::Later => self.later(step, i, Dir::Outward),
        }
    }

    fn out_packet(&mut self, step: &mut Step<'_, '_>, i: usize, lookup: (u32, u32)) -> Next {
        let frame = &mut step.frames[i];
        let (src, dst) = frame.addresses4();
        if frame.icmp_error() {
            return self.error_out(step, i);
        }
        if let Some(pair) = self.table.config.pairs.of(src) {
            frame.set_src4(pair.outside);
            return if self.is_public(dst) { Next::Hairpin } else { Next::On };
        }
        match Space::of(frame.proto()) {
            Some(_) if has_ports(frame) => {
                self.out_redirected(step, i).unwrap_or_else(|| self.out_plain(step, i, lookup))
            }
            // Messages of ICMP that are neither query nor error are for the link.
            Some(_) => Next::Drop(Drop::NatProtocol),
            None => self.out_portless(step, i),
        }
    }

    #[cold]
    fn back_special(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let frame = &step.frames[i];
        if frame.kind() != Packet::V4 {
            return Next::On;
        }
        match frame.fragment() {
            Fragment::Whole => self.back_packet(step, i, guess),
            Fragment::First => self.first(step, i, Dir::Inward, |nat, step| nat.back_packet(step, i, guess)),
            Fragment::Later => self.later(step, i, Dir::Inward),
        }
    }

    fn back_packet(&mut self, step: &mut Step<'_, '_>, i: usize, guess: u32) -> Next {
        let frame = &mut step.frames[i];
        let (_, dst) = frame.addresses4();
        if frame.icmp_error() && self.is_public(dst) {
            return self.error_back(step, i);
        }
        if let Some(pair) = self.table.config.pairs.at(dst) {
            frame.set_dst4(pair.inside);
            return Next::On;
        }
        if self.table.sessions[guess].kind() == Kind::Redirected && has_ports(frame) {
            return self.back_redirected(step, i, guess);
        }
        if has_ports(frame) || !self.is_public(dst) {
            return self.back_plain(step, i, guess);
        }
        match Space::of(frame.proto()) {
            Some(_) => Next::Drop(Drop::NatProtocol),
            None => self.back_portless(step, i),
        }
    }

    /// Whether an address is one of this NAT's.
    #[inline]
    pub(crate) fn is_public(&self, address: u32) -> bool {
        self.table.outside.number(address).is_some() || self.table.config.pairs.at(address).is_some()
    }
}
