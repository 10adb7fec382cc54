//! Connections that passed the filter, so that rules can ask for them: one entry of a cache line for both directions.
//!
//! ```text
//! frame > flow (both ends in order, kind) > index > entry > new, established, related, invalid
//! ```
//!
//! | state | a frame is in it |
//! |---|---|
//! | `new` | that may begin a connection, or is of one whose other end has not answered |
//! | `established` | of a connection whose both ends have sent |
//! | `related` | an error of ICMP that quotes a packet of a connection |
//! | `invalid` | that can begin none: a reset or SYN-ACK, an answer of ICMP, an error of ICMP about nothing known |
//!
//! What passes in the state `new` is remembered. As where connections outlive a restart of the node, a segment of TCP
//! in the middle of a connection may begin one. In a full table a new connection evicts another one, the oldest of the first
//! [`EvictionClass`] among a few: a host that floods the table evicts its own. A packet that a later stage drops has begun no
//! connection: it is forgotten as soon as its sender has been informed.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod recipe;

use std::net::SocketAddr;

use weir_memory::prefetch;
use weir_packet::headers::TCP;

use super::answer::FilterSession;
use crate::address::address_of;
use crate::batch::{BATCH, PerFrame, Set, Verdict};
use crate::flow::{Flow, kind};
use crate::frame::{Fragment, Frame};
use crate::stage::Step;
use crate::table::arena::Arena;
use crate::table::eviction::{CANDIDATES, Candidate, EvictionClass, Holdings};
use crate::table::holders::Holders;
use crate::table::index::Index;
use crate::table::page::Page;
use crate::table::secret::Secret;
use crate::table::tcp::{ACK, Effect, FIN, RST, SYN, Segment, Side, Track};
use crate::table::timers::{Ages, Class, Hand, Tick, Timeouts};
use crate::time::Time;

/// The state of a frame's connection, in the order of the names in the language of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    New,
    Established,
    Related,
    Invalid,
}

/// A connection.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Entry {
    low: [u32; 4],
    high: [u32; 4],
    /// Ports of the low and the high end.
    ports: u32,
    seen: Tick,
    /// Its `flags` hold the kind of the flow, the end that began it and whether the other end answered.
    track: Track,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// Bits of an entry's flags beside the kind.
const BEGUN_BY_LOW: u8 = 0x40;
const ANSWERED: u8 = 0x80;
const KIND: u8 = 0x3f;

/// The class of timeouts of a flow of this kind that begins.
fn class_of(flow: &Flow) -> Class {
    match flow.kind {
        kind::TCP => Class::TcpOpening,
        kind::UDP => Class::Udp,
        kind::ICMP | kind::ICMP6 => Class::Icmp,
        _ => Class::Other,
    }
}

impl Entry {
    #[inline]
    fn is(&self, flow: &Flow) -> bool {
        self.low == flow.low
            && self.high == flow.high
            && self.ports == flow.ports
            && self.track.flags & KIND == flow.kind
    }

    /// The end that sent a frame of this flow.
    #[inline]
    fn side(&self, flow: &Flow) -> Side {
        let begun_by_low = self.track.flags & BEGUN_BY_LOW != 0;
        if flow.from_low == begun_by_low { Side::Inside } else { Side::Outside }
    }
}

/// A connection, as it was when the page was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection(Entry);

impl Connection {
    /// The same for programs.
    pub(crate) fn record(&self) -> FilterSession {
        let Entry { low, high, ports, track, .. } = self.0;
        let proto = match track.flags & KIND {
            kind::TCP => "tcp",
            kind::UDP => "udp",
            kind::ICMP => "icmp",
            kind::ICMP6 => "icmp6",
            kind::SCTP => "sctp",
            _ => "",
        };
        // In the place of ports others have their number.
        let (proto, ports) =
            if proto.is_empty() { ((ports & 0xff).to_string(), 0) } else { (proto.to_string(), ports) };
        let end = |words: [u32; 4], port: u32| SocketAddr::new(address_of(words), port as u16);
        let (low, high) = (end(low, ports >> 16), end(high, ports & 0xffff));
        let (from, to) = if track.flags & BEGUN_BY_LOW != 0 { (low, high) } else { (high, low) };
        FilterSession { proto, from, to, answered: track.flags & ANSWERED != 0 }
    }
}

/// The frames of a batch, with the connection of each.
pub(crate) struct Found {
    flows: PerFrame<Flow>,
    hashes: PerFrame<u32>,
    /// The entry, or 0.
    entries: PerFrame<u32>,
    pub(crate) states: PerFrame<State>,
}

/// All connections.
pub(crate) struct Connections {
    entries: Arena<Entry>,
    /// By entry, a number that changes whenever it becomes another connection, or its state changes.
    epochs: Arena<u32>,
    /// Connections with another epoch, if a fast path asks for them.
    renewed: Option<Vec<u32>>,
    /// The entry that was freed last, or 0; in place of the ports it has the one that was freed before.
    free: u32,
    index: Index,
    secret: Secret,
    ages: Ages,
    hand: Hand,
    live: u32,
    /// Connections at a time.
    most: u32,
    /// The entry that was last looked at for eviction.
    victim: u32,
    /// Connections of each host, at whichever end it is.
    holders: Holders,
    /// Frames of the present batch that began a connection, or came right behind the one that did.
    begun: Vec<(usize, u32)>,
    /// Connections whose frames a later stage dropped.
    refused: Vec<u32>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connections({} live)", self.live)
    }
}

const FREE_ENTRY: Entry = Entry { low: [0; 4], high: [0; 4], ports: 0, seen: Tick(0), track: Track::FREE };

/// There is no room for one more connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Connections {
    /// An empty table for so many connections.
    pub(crate) fn new(seed: u64, most: u32) -> Connections {
        let mut entries = Arena::new();
        // Number 0 means none, and is what a search finds that finds nothing.
        entries.push(FREE_ENTRY);
        let mut epochs = Arena::new();
        epochs.push(0);
        Connections {
            entries,
            epochs,
            renewed: None,
            free: 0,
            index: Index::new(),
            secret: Secret::new(seed),
            ages: Ages::new(&Timeouts::default()),
            hand: Hand::default(),
            live: 0,
            most,
            victim: 0,
            holders: Holders::new(),
            begun: Vec::with_capacity(BATCH),
            refused: Vec::with_capacity(BATCH),
        }
    }

    /// Sets another limit: connections beyond it live on.
    pub(crate) fn set_most(&mut self, most: u32) {
        self.most = most;
    }

    /// Connections that are remembered.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Those from this number on, so many at most.
    pub(crate) fn shown(&self, from: u32) -> Page<Connection> {
        let is_live = |entry: &Entry| entry.track.flags & KIND != 0;
        let one = |number: u32| Some(self.entries[number]).filter(is_live).map(Connection);
        Page::of(from.max(1)..self.entries.len(), one)
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() as usize * size_of::<Entry>() + self.index.bytes() + self.holders.bytes()
    }

    /// The connections of frames. Three passes, so that the lines of the index and those of the entries are on their
    /// way for all frames at once.
    pub(crate) fn find(&self, step: &Step<'_, '_>, set: Set) -> Found {
        let mut found = Found {
            flows: PerFrame::all(Flow::default()),
            hashes: PerFrame::all(0),
            entries: PerFrame::all(0),
            states: PerFrame::all(State::New),
        };
        for i in set {
            let flow = Flow::of(&step.frames[i]);
            let hash = flow.hash(&self.secret);
            (found.flows[i], found.hashes[i]) = (flow, hash);
        }
        // More than a second-level cache holds: it pays to ask for what is needed next.
        let is_large = self.entries.len() > 1 << 13;
        if is_large {
            set.for_each(|i| self.index.touch(found.hashes[i]));
        }
        for i in set {
            found.entries[i] = self.index.first(found.hashes[i]);
        }
        if is_large {
            set.for_each(|i| prefetch(&self.entries[found.entries[i]]));
        }
        let now = Tick::of(step.now);
        for i in set {
            let flow = &found.flows[i];
            if !self.entries[found.entries[i]].is(flow) {
                found.entries[i] = self.lookup(flow, found.hashes[i]);
            }
            let entry = &self.entries[found.entries[i]];
            let alive = found.entries[i] != 0 && !self.ages.over(entry.track.class, entry.seen, now);
            found.states[i] = match alive && !step.frames[i].icmp_error() {
                true if is_impossible(entry, entry.side(flow), &step.frames[i]) => State::Invalid,
                true if begins_anew(entry, &step.frames[i]) => State::New,
                true if entry.side(flow) == Side::Outside || entry.track.flags & ANSWERED != 0 => {
                    State::Established
                }
                true => State::New,
                false => {
                    found.entries[i] = 0;
                    self.without_entry(&step.frames[i], now)
                }
            };
        }
        found
    }

    fn lookup(&self, flow: &Flow, hash: u32) -> u32 {
        self.index.find(hash, |number| self.entries[number].is(flow))
    }

    /// The state of a frame that is of no connection.
    #[cold]
    fn without_entry(&self, frame: &Frame<'_>, now: Tick) -> State {
        if frame.icmp_error() {
            let known = Flow::quoted(frame).is_some_and(|flow| {
                let number = self.lookup(&flow, flow.hash(&self.secret));
                let entry = &self.entries[number];
                number != 0 && !self.ages.over(entry.track.class, entry.seen, now)
            });
            return if known { State::Related } else { State::Invalid };
        }
        let begins = frame.proto() != TCP
            || frame.fragment() == Fragment::Later
            || Track::begin(Side::Inside, &Segment::of(frame)).is_some();
        if frame.icmp_answer() || !begins { State::Invalid } else { State::New }
    }

    /// A frame passed: stores its connection, and its state.
    #[inline]
    pub(crate) fn passed(
        &mut self,
        frame: &Frame<'_>,
        found: &Found,
        i: usize,
        now: Time,
    ) -> Result<(), Full> {
        let number = found.entries[i];
        if number == 0 {
            return self.passed_new(frame, found, i, now);
        }
        let entry = &mut self.entries[number];
        let (side, class) = (entry.side(&found.flows[i]), entry.track.class);
        update(entry, side, frame, Tick::of(now));
        if entry.track.class != class {
            self.renew(number);
        }
        Ok(())
    }

    #[cold]
    fn passed_new(&mut self, frame: &Frame<'_>, found: &Found, i: usize, now: Time) -> Result<(), Full> {
        let tick = Tick::of(now);
        if found.states[i] != State::New || frame.fragment() == Fragment::Later {
            return Ok(());
        }
        let (flow, hash) = (found.flows[i], found.hashes[i]);
        // It may have begun earlier in this batch, or be over and not yet taken away.
        let before = self.lookup(&flow, hash);
        let alive =
            before != 0 && !self.ages.over(self.entries[before].track.class, self.entries[before].seen, tick);
        if alive {
            let entry = &mut self.entries[before];
            let side = entry.side(&flow);
            update(entry, side, frame, tick);
            self.renew(before);
            if self.begun.iter().any(|begun| begun.1 == before) {
                self.begun.push((i, before));
            }
            return Ok(());
        }
        let track = match flow.kind {
            kind::TCP => Track::begin(Side::Inside, &Segment::of(frame)),
            _ => Some(Track::plain(class_of(&flow))),
        };
        // It is in the state new, so that there is one.
        let Some(mut track) = track else { return Ok(()) };
        track.flags = flow.kind | if flow.from_low { BEGUN_BY_LOW } else { 0 };
        let entry = Entry { low: flow.low, high: flow.high, ports: flow.ports, seen: tick, track };
        if before != 0 {
            self.entries[before] = entry;
            self.renew(before);
            self.begun.push((i, before));
            return Ok(());
        }
        if self.live >= self.most && !self.make_room(&flow, found) {
            return Err(Full);
        }
        let number = match self.free {
            0 => {
                self.epochs.push(0);
                self.entries.push(entry)
            }
            free => {
                self.free = self.entries[free].ports;
                self.entries[free] = entry;
                free
            }
        };
        self.index.insert(hash, number);
        [flow.low, flow.high].into_iter().for_each(|host| self.holders.add(&self.secret, host));
        self.live += 1;
        self.begun.push((i, number));
        Ok(())
    }

    /// All stages have seen the batch; these are the verdicts of its frames.
    pub(crate) fn settle(&mut self, verdicts: &PerFrame<Verdict>) {
        let is_dropped = |i: usize| matches!(verdicts[i], Verdict::Dropped(_));
        for &(i, number) in &self.begun {
            if is_dropped(i) && self.begun.iter().all(|&(other, of)| of != number || is_dropped(other)) {
                self.refused.push(number);
            }
        }
        self.begun.clear();
    }

    /// Forgets connections that were refused: the node's answers to them have passed.
    pub(crate) fn forget_refused(&mut self) {
        while let Some(number) = self.refused.pop() {
            // Of two frames the first has made it so already.
            if self.entries[number].track.flags & KIND != 0 {
                self.remove(number);
            }
        }
    }

    /// Removes what is over, a bounded part of it in each call; true if there is more to look at.
    pub(crate) fn tick(&mut self, now: Time) -> bool {
        let tick = Tick::of(now);
        for number in self.hand.walk(tick, self.entries.len()).into_iter().flatten() {
            let entry = &self.entries[number];
            if entry.track.flags & KIND == 0 || !self.ages.over(entry.track.class, entry.seen, tick) {
                continue;
            }
            self.remove(number);
        }
        self.hand.is_behind()
    }

    /// Evicts a connection for a new one; false if none of the candidates may be evicted. Connections with a frame in this batch
    /// stay.
    #[cold]
    fn make_room(&mut self, newcomer: &Flow, found: &Found) -> bool {
        let held = self.held(newcomer.low, newcomer.high);
        let mut best = Candidate::default();
        for _ in 0..CANDIDATES {
            self.victim = if self.victim + 1 < self.entries.len() { self.victim + 1 } else { 1 };
            let Some(class) = self.eviction_class(self.victim, held) else { continue };
            if found.entries.in_order().all(|entry| entry != self.victim) {
                best.look(class, self.entries[self.victim].seen, self.victim);
            }
        }
        let Some(number) = best.number() else { return false };
        // The connection that gets this number is not the one that was begun or refused.
        self.begun.retain(|(_, begun)| *begun != number);
        self.refused.retain(|refused| *refused != number);
        self.remove(number);
        true
    }

    /// Connections of the one of two hosts that has more.
    fn held(&self, low: [u32; 4], high: [u32; 4]) -> u32 {
        let [low, high] = [low, high].map(|host| self.holders.of(&self.secret, host));
        low.max(high)
    }

    /// The class of a connection as a candidate for eviction, for a newcomer whose host holds so many; `None`: it stays. Of the two
    /// ends of the connection the one with more counts.
    fn eviction_class(&self, number: u32, newcomer: u32) -> Option<EvictionClass> {
        let entry = &self.entries[number];
        if entry.track.flags & KIND == 0 {
            return None;
        }
        let holder = self.held(entry.low, entry.high);
        let holdings = Holdings { holder, newcomer, live: self.live };
        match (entry.track.flags & ANSWERED, entry.track.class) {
            (0, _) => holdings.not_open(),
            (_, Class::TcpEstablished) => holdings.open(),
            // A host that floods the table evicts its own, too.
            _ => (holdings.holder_has_more() || holdings.holder_floods() && holder >= newcomer)
                .then_some(EvictionClass::Renewable),
        }
    }

    /// The epoch of a connection changes: what was derived from it is not valid any more.
    #[cold]
    fn renew(&mut self, number: u32) {
        self.epochs[number] = self.epochs[number].wrapping_add(1);
        if let Some(renewed) = &mut self.renewed {
            renewed.push(number);
        }
    }

    fn remove(&mut self, number: u32) {
        self.renew(number);
        let Entry { low, high, ports, track, .. } = self.entries[number];
        let flow = Flow { low, high, ports, kind: track.flags & KIND, from_low: true };
        self.index.remove(flow.hash(&self.secret), number);
        [low, high].into_iter().for_each(|host| self.holders.take(&self.secret, host));
        self.entries[number] = Entry { ports: self.free, ..FREE_ENTRY };
        self.free = number;
        self.live -= 1;
    }
}

/// Whether a connection is over and this segment the first of the next one with the same ends.
#[inline]
fn begins_anew(entry: &Entry, frame: &Frame<'_>) -> bool {
    let is_over = matches!(entry.track.class, Class::TcpClosing | Class::TcpReset);
    is_over && frame.tcp_flags() & (SYN | ACK | RST | FIN) == SYN
}

/// Whether no end sends this in a connection: SYN and FIN at once, or data and FIN before the SYN. A bare ACK may come before: an
/// end that remembers an older connection sends it (RFC 5961, section 4).
#[inline]
fn is_impossible(entry: &Entry, side: Side, frame: &Frame<'_>) -> bool {
    let flags = frame.tcp_flags();
    if flags & SYN != 0 {
        return flags & (FIN | RST) != 0;
    }
    entry.track.class == Class::TcpOpening
        && side == Side::Outside
        && flags & RST == 0
        && !entry.track.has_begun(side)
        && (flags & FIN != 0 || Segment::of(frame).bytes > 0)
}

/// Updates a connection by a frame.
#[inline]
fn update(entry: &mut Entry, side: Side, frame: &Frame<'_>, now: Tick) {
    if begins_anew(entry, frame) {
        // The end that opens it waits for the other end's answer.
        let by_low = (side == Side::Inside) == (entry.track.flags & BEGUN_BY_LOW != 0);
        entry.track.flags = entry.track.flags & KIND | if by_low { BEGUN_BY_LOW } else { 0 };
        entry.track.segment(Side::Inside, &Segment::of(frame));
        entry.seen.set(now);
        return;
    }
    if side == Side::Outside {
        entry.track.flags |= ANSWERED;
    }
    if entry.track.flags & KIND != kind::TCP || frame.fragment() == Fragment::Later {
        entry.seen.set(now);
        return;
    }
    let segment = Segment::of(frame);
    if entry.track.class == Class::TcpEstablished && Segment::is_plain(segment.flags) {
        entry.track.advance(side, &segment);
        entry.seen.set(now);
    } else if entry.track.segment(side, &segment) == Effect::Refresh {
        entry.seen.set(now);
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
