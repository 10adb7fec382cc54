//! The table of subscribers: which frames come from each, and which go to each.
//!
//! ```text
//! frame of a subscriber  > port, tags, Ethernet address > index, generation       travel with the frame
//! frame to a subscriber  > address (longest prefix)     > index, generation
//! index and generation   > its line, its Ethernet address; nothing if it was removed meanwhile
//!
//! index > from: line, address, bucket, counters | to: the same, for frames to it | details: what no frame asks for
//! ```
//! A thread of a node has a table of its own; the same changes in the same order give the same indexes in each. What a frame needs
//! of its subscriber is in one cache line for each direction.
//!
//! Invariant: an index that was removed rests until no frame in the node has it any more, see [`crate::Plane::frames_epoch`].
//! Should one have it all the same, its generation is another one.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod rows;
mod shaped;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;

use weir_memory::prefetch;

use super::answer::SubscriberCount;
use super::bucket::Bucket;
use super::counts::{FrameKind, KindCounts, Traffic};
use super::echo::{self, Echoes, Heard};
use super::labels::{LabelRow, LabelTable, Labels};
use super::removed::Removed;
use super::state::Standing;
use super::walled::{Refused, Walled};
use super::{
    AccessPolicy, AccessSession, AccessState, Loops, NatProfile, SubscriberConfig, SubscriberEvent,
    UnknownSessions,
};
use crate::address::{mapped4, words6};
use crate::batch::{Frames, PerFrame, Set};
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::frame::{Frame, IPV4, IPV6, Kind, Line, PPPOE, Subscriber};
use crate::kept::Ticket;
use crate::prefix::{Prefix, is_link_local};
use crate::shape::{Departed, Shapers, Side as Direction};
use crate::table::arena::Arena;
use crate::table::index::Index;
use crate::table::quota::{Quota, Rate, Rates};
use crate::table::secret::Secret;
use crate::table::shares::Host;
use crate::table::tcp;
use crate::time::Time;

/// How much [`crate::Plane::frames_epoch`] grows until an index that was removed may be used again: a frame that is kept once more
/// counts as a newer one.
const REST_EPOCHS: u64 = 64;

/// One direction of a subscriber: what each of its frames asks for.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Side {
    line: Line,
    generation: u8,
    standing: Standing,
    /// As [`AccessSession::mru`].
    mru: u16,
    /// Number of its plan and group.
    labels: u16,
    /// Its first address of IPv4; 0: it has none.
    address4: u32,
    bucket: Bucket,
    traffic: Traffic,
}

const _: () = assert!(size_of::<Side>() == 64);

/// A subscriber that a packet is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receiver {
    pub(crate) line: Line,
    /// The longest packet that it takes, whatever its port carries.
    pub(crate) most_bytes: u16,
}

impl Side {
    /// The longest packet of its subscriber.
    #[inline]
    fn most_bytes(&self) -> u16 {
        match (self.mru, self.line.pppoe_session) {
            (0, 0) => u16::MAX,
            (0, _) => PPPOE_MRU,
            (mru, _) => mru,
        }
    }
}

/// What few frames ask for.
#[derive(Debug, Default)]
struct Details {
    session: u64,
    revision: u64,
    /// Its addresses and networks.
    prefixes: Box<[Prefix]>,
    bits_per_s: [u64; 2],
    line_bits_per_s: [u64; 2],
    nat: NatProfile,
    magic: Option<u32>,
    echo_said: (Option<u16>, Option<u8>),
    /// It is behind the router of its line.
    is_routed: bool,
    /// Frames of PPP from it that carried no packets.
    control_frames: u64,
    /// What was counted from it and to it, but for the best effort of IPv4: that is the rest of all. `None`: it had no other frames.
    counts: Option<Box<[KindCounts; 2]>>,
    dropped: Dropped,
    /// The last foreign source of its frames: a sample.
    last_foreign: Option<IpAddr>,
}

/// Frames of a subscriber that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dropped {
    /// From it, with foreign sources.
    pub(super) foreign: u64,
    /// From it, and to it, beyond its rates.
    pub(super) over_rate: [u64; 2],
    /// From it or to it, since it is blocked.
    pub(super) blocked: u64,
    /// From it or to it, since it is walled.
    pub(super) walled: u64,
}

const _: () = assert!(2 * size_of::<Side>() <= 128 && 2 * size_of::<Side>() + size_of::<Details>() <= 320);

/// What is known of a subscriber, to be shown.
pub(super) struct Shown<'a> {
    pub(super) session: u64,
    pub(super) revision: u64,
    pub(super) line: Line,
    pub(super) prefixes: &'a [Prefix],
    pub(super) bits_per_s: [u64; 2],
    pub(super) line_bits_per_s: [u64; 2],
    pub(super) state: AccessState,
    pub(super) nat: NatProfile,
    pub(super) labels: &'a Labels,
    pub(super) mru: u16,
    pub(super) magic: Option<u32>,
    pub(super) echo_said: (Option<u16>, Option<u8>),
    pub(super) is_dead: bool,
    pub(super) is_routed: bool,
    /// When its last packet was accepted.
    pub(super) last_seen: Time,
    /// From it, and to it.
    pub(super) traffic: [Traffic; 2],
    pub(super) counts: [KindCounts; 2],
    pub(super) dropped: Dropped,
    pub(super) last_foreign: Option<IpAddr>,
}

/// Why a frame from a subscriber, or to one, goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The session has ended, or there never was one.
    NoSession,
    /// Its source address is not the subscriber's.
    ForeignSource,
    /// It is beyond the rate.
    OverRate,
    /// The subscriber is blocked.
    Blocked,
    /// The subscriber is walled, and the other end is not in its garden.
    Walled,
    /// The same, and its sender gets a reset.
    WalledReset,
}

impl From<Denied> for DropReason {
    fn from(denied: Denied) -> DropReason {
        match denied {
            Denied::NoSession => DropReason::NoSubscriber,
            Denied::ForeignSource => DropReason::SubscriberSource,
            Denied::OverRate => DropReason::SubscriberRate,
            Denied::Blocked => DropReason::SubscriberBlocked,
            Denied::Walled | Denied::WalledReset => DropReason::SubscriberWalled,
        }
    }
}

/// Senders of packets of unknown sessions that are told apart.
const SENDERS: usize = 4096;
/// PADTs per second, and those of a sender.
const TERMINATIONS: Rates =
    Rates { of_host: Rate { burst: 1, per_s: 1 }, of_all: Rate { burst: 1000, per_s: 4000 }, threads: 1 };
/// Bits of the address of one host, as one of IPv6.
const HOST_BITS: u8 = 128;
/// Ethernet header, and a VLAN tag.
const ETHERNET: usize = 14;
const TAG: usize = 4;
/// A header of TCP without options.
const TCP: usize = 20;
/// The MRU of a PPPoE session without RFC 4638.
const PPPOE_MRU: u16 = 1492;
/// An index that has rested long enough.
const RELEASED: u64 = 0;

/// Why a subscriber cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Another subscriber has the line.
    Line,
    /// Another subscriber has this prefix.
    Prefix(Prefix),
    /// There are as many as there can be.
    Full,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Taken::Line => {
                f.write_str("another subscriber has this port, tags, Ethernet address and PPPoE session: give each its own")
            }
            Taken::Prefix(prefix) => write!(f, "another subscriber has {prefix}: give each its own"),
            Taken::Full => f.write_str("there are too many subscribers"),
        }
    }
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Option<Box<Tables>>);

#[derive(Debug)]
struct Tables {
    secret: Secret,
    seed: u64,
    /// By index.
    from: Arena<Side>,
    to: Arena<Side>,
    details: Arena<Details>,
    labels: LabelTable,
    policy: AccessPolicy,
    walled: Walled,
    /// Subscribers that no NAT translates.
    untranslated: u32,
    /// Of frames that wait for rates, where the text has access ports.
    shapers: Option<Box<Shapers>>,
    /// Frames that go on; empty between calls.
    departing: Vec<(Ticket, Departed)>,
    by_line: Index,
    /// By its first address of IPv4.
    by_address4: Index,
    by_prefix: Index,
    /// What the numbers of `by_prefix` stand for.
    prefixes: Arena<Owned>,
    free_prefixes: Vec<u32>,
    /// How many prefixes have each length, of 128 bits, and the lengths that some have, the longest first.
    lengths: [u32; 129],
    used_lengths: Vec<u8>,
    live: u32,
    unknown_sessions: UnknownSessions,
    echoes: Echoes,
    /// Lines of routers, and how many subscribers are behind each.
    routers: HashMap<Line, u32>,
    /// PADTs for packets of unknown sessions.
    terminations: Quota,
    /// Indexes that were removed, and when: no frame names the oldest any more when its time has come.
    resting: VecDeque<(u32, u64)>,
    /// What those that were removed last had counted.
    removed: Removed,
}

/// A prefix of a subscriber.
#[derive(Debug, Clone, Copy)]
struct Owned {
    address: [u32; 4],
    len: u8,
    index: u32,
}

impl Subscribers {
    /// Without any; hashes follow from `seed`.
    pub(crate) fn with_seed(seed: u64) -> Subscribers {
        Subscribers(Some(Box::new(Tables::new(seed))))
    }

    /// Whether there are none, so that no frame needs to be looked up.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|tables| tables.live == 0)
    }

    /// The subscriber from which a frame comes; [`Subscriber::NONE`] if it is unknown.
    #[cfg(test)]
    pub(crate) fn lookup_from(&self, line: Line) -> Subscriber {
        self.0.as_ref().map_or(Subscriber::NONE, |tables| tables.named(tables.index_of_line(line)))
    }

    /// The subscriber to which a frame for this address goes; [`Subscriber::NONE`] if it is unknown.
    #[inline]
    pub(crate) fn lookup_to(&self, address: [u32; 4]) -> Subscriber {
        self.0.as_ref().map_or(Subscriber::NONE, |tables| tables.to_address(address))
    }

    /// The line of a subscriber; `None` if it is none, or was removed.
    #[inline]
    pub(crate) fn line(&self, subscriber: Subscriber) -> Option<Line> {
        let tables = self.0.as_ref()?;
        tables.side(&tables.from, subscriber).map(|side| side.line)
    }

    /// The subscriber that a packet is for; `None` if it is none, or was removed.
    #[inline]
    pub(crate) fn receiver(&self, subscriber: Subscriber) -> Option<Receiver> {
        let tables = self.0.as_ref()?;
        let side = tables.side(&tables.to, subscriber)?;
        Some(Receiver { line: side.line, most_bytes: side.most_bytes() })
    }

    /// A subscriber has sent PPP that is no packet: it is alive. Returns the magic number of the node there, and the longest packet.
    pub(crate) fn heard_lcp(&mut self, subscriber: Subscriber) -> (u32, u16) {
        let Some(tables) = &mut self.0 else { return (0, 0) };
        match (tables.to.record(subscriber.index), tables.details.record_mut(subscriber.index)) {
            (Some(side), Some(details)) => {
                details.control_frames += 1;
                (details.magic.unwrap_or_default(), side.most_bytes())
            }
            _ => (0, 0),
        }
    }

    /// Whether the sender of a packet of an unknown PPPoE session is told so now.
    pub(crate) fn terminates(&mut self, now: Time, sender: Host) -> bool {
        self.0.as_mut().is_some_and(|tables| {
            tables.unknown_sessions == UnknownSessions::Terminate && tables.terminations.allows(now, sender)
        })
    }

    /// Whether the sender of a packet for itself is told so.
    pub(crate) fn rejects_loops(&self) -> bool {
        self.0.as_ref().is_some_and(|tables| tables.policy.loops == Loops::Reject)
    }

    /// What becomes of packets of unknown PPPoE sessions from now on.
    pub(crate) fn set_unknown_sessions(&mut self, what: UnknownSessions) {
        self.0.iter_mut().for_each(|tables| tables.unknown_sessions = what);
    }

    /// Sets the subscribers that frames of `set` come from.
    pub(crate) fn find_senders(&self, frames: &mut Frames<'_, '_>, set: Set) {
        let Some(tables) = &self.0 else { return };
        let mut hashes = PerFrame::all(0);
        for i in set {
            hashes[i] = tables.hash_of_line(frames[i].line());
            tables.by_line.touch(hashes[i]);
        }
        for i in set {
            prefetch(&tables.from[tables.by_line.first(hashes[i])]);
        }
        for i in set {
            let line = frames[i].line();
            let index = match tables.by_line.find(hashes[i], |index| tables.from[index].line == line) {
                0 if !tables.routers.is_empty() => tables.index_of_source(line, source_of(&frames[i])),
                index => index,
            };
            frames[i].subscriber = tables.named(index);
        }
    }

    /// Sets the subscribers that packets of `set` go to; returns those that have one.
    pub(crate) fn find_receivers(&self, frames: &mut Frames<'_, '_>, set: Set) -> Set {
        let Some(tables) = &self.0 else { return Set::EMPTY };
        let (mut hashes, mut found) = (PerFrame::all(0), Set::EMPTY);
        for i in set {
            hashes[i] = tables.hash_of_prefix(frames[i].destination(), HOST_BITS);
            tables.by_address4.touch(hashes[i]);
        }
        for i in set {
            prefetch(&tables.to[tables.by_address4.first(hashes[i])]);
        }
        for i in set {
            let frame = &mut frames[i];
            frame.subscriber = tables.to_hashed(hashes[i], frame.destination());
            if !frame.subscriber.is_none() {
                found.insert(i);
            }
        }
        found
    }

    /// Whether subscribers are behind a router of this line.
    pub(crate) fn is_router(&self, line: Line) -> bool {
        self.0.as_ref().is_some_and(|tables| tables.routers.contains_key(&line))
    }

    /// Sends echo requests to silent sessions whose turn it is, a bounded number of them: `send` is told the line, the id and the magic
    /// number of each. True: there are more.
    pub(crate) fn ask_silent(&mut self, now: Time, mut send: impl FnMut(Line, u8, u32)) -> bool {
        let Some(tables) = &mut self.0 else { return false };
        for _ in 0..echo::MOST {
            let Some(index) = tables.echoes.next(now) else { return false };
            let (side, details) = (&tables.from[index], &tables.details[index]);
            let Dropped { foreign, over_rate: [over_rate, _], .. } = details.dropped;
            let packets = side.traffic.frames + foreign + over_rate;
            let heard = Heard { packets, control: details.control_frames };
            if let Some(id) = tables.echoes.turn(index, details.session, heard) {
                send(side.line, id, details.magic.unwrap_or_default());
            }
        }
        true
    }

    /// When a silent session is asked next.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        self.0.as_ref().and_then(|tables| tables.echoes.due(now))
    }

    /// Sessions that have died or come alive since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<SubscriberEvent> {
        self.0.as_mut().map_or_else(Vec::new, |tables| std::mem::take(&mut tables.echoes.events))
    }

    /// Takes a packet from its subscriber: it counts.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline]
    pub(crate) fn take_from(&mut self, now: Time, frame: &mut Frame<'_>) -> Result<(), Denied> {
        let tables = self.0.as_mut().ok_or(Denied::NoSession)?;
        let Subscriber { index, generation } = frame.subscriber;
        let side = tables.from.record_mut(index).ok_or(Denied::NoSession)?;
        let Some(state) = side.standing.state().filter(|_| side.generation == generation) else {
            return Err(Denied::NoSession);
        };
        if state == AccessState::Blocked {
            tables.details[index].dropped.blocked += 1;
            return Err(Denied::Blocked);
        }
        let is_first =
            frame.kind() == Kind::V4 && frame.addresses4().0 == side.address4 && side.address4 != 0;
        if !is_first && !tables.details[index].has_source(frame) {
            let details = &mut tables.details[index];
            details.dropped.foreign += 1;
            details.last_foreign = source(frame);
            return Err(Denied::ForeignSource);
        }
        if state == AccessState::Walled
            && let Err(refused) = tables.walled.take_from(now, index, frame)
        {
            tables.details[index].dropped.walled += 1;
            return Err(refused.into());
        }
        let bytes = frame.bytes().len() + pppoe_bytes(side.line);
        let is_policed = tables.shapers.as_ref().is_none_or(|shapers| shapers.is_policed());
        if !is_policed {
            side.bucket.note(now);
        } else if !side.bucket.allow(now, bytes) {
            let [over_rate, _] = &mut tables.details[index].dropped.over_rate;
            *over_rate += 1;
            return Err(Denied::OverRate);
        }
        side.traffic.add(bytes);
        let (labels, most_bytes, marking) = (side.labels, side.most_bytes(), tables.policy.dscp.from);
        tables.policy.dscp.mark(marking, frame);
        clamp_mss(frame, most_bytes);
        tables.count(index, labels, 0, FrameKind::of(frame), bytes);
        Ok(())
    }

    /// The priority in the tags of a frame of this class to a subscriber.
    #[inline]
    pub(crate) fn priority(&self, class: u8) -> u8 {
        self.0.as_ref().map_or(0, |tables| tables.policy.dscp.priority(class))
    }

    /// Whether the subscriber of a frame, from it or to it, may send and receive anything.
    pub(crate) fn is_blocked(&self, subscriber: Subscriber) -> bool {
        let Some(tables) = &self.0 else { return false };
        let side = tables.side(&tables.from, subscriber);
        side.is_some_and(|side| side.standing.state() == Some(AccessState::Blocked))
    }

    /// The state of a subscriber, and the names of its plan and group; `None`: it is none.
    pub(crate) fn standing(&self, subscriber: Subscriber) -> Option<(AccessState, &Labels)> {
        let tables = self.0.as_ref()?;
        let side = tables.side(&tables.from, subscriber)?;
        Some((side.standing.state()?, &tables.labels.get(side.labels)?.labels))
    }

    /// Packets of `set` that no NAT translates, since that is so of the subscriber that they come from, or go to on their way inward.
    #[inline]
    pub(crate) fn untranslated(&self, frames: &Frames<'_, '_>, dir: Dir, set: Set) -> Set {
        let Some(tables) = self.0.as_ref().filter(|tables| tables.untranslated > 0) else {
            return Set::EMPTY;
        };
        let mut found = Set::EMPTY;
        for i in set {
            let subscriber = match dir {
                Dir::Outward => frames[i].subscriber,
                Dir::Inward => tables.to_address(frames[i].destination()),
            };
            let side = tables.side(&tables.from, subscriber);
            if side.is_some_and(|side| side.standing.is_untranslated()) {
                found.insert(i);
            }
        }
        found
    }

    /// Takes what the text says of all subscribers.
    pub(crate) fn set_policy(&mut self, policy: &AccessPolicy) {
        let Some(tables) = &mut self.0 else { return };
        tables.walled.garden.clone_from(&policy.garden);
        tables.policy.clone_from(policy);
        tables.set_shape(&policy.shape);
    }

    /// Plans and groups that sessions have or had, with their counters.
    pub(super) fn labels(&self) -> impl Iterator<Item = &LabelRow> {
        self.0.iter().flat_map(|tables| tables.labels.iter())
    }

    /// A packet goes to its subscriber, if the state and the rate of that permit it: its class is found, and it counts with the headers
    /// that it is going to have. A walled subscriber's gets the source that it has asked; what the node itself answers passes the wall.
    /// Returns where the subscriber is.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline]
    pub(crate) fn send_to(&mut self, now: Time, frame: &mut Frame<'_>) -> Result<Line, Denied> {
        let tables = self.0.as_mut().ok_or(Denied::NoSession)?;
        let to = frame.subscriber;
        let side = tables.to.record(to.index).filter(|side| side.generation == to.generation);
        match side.and_then(|side| side.standing.state()).ok_or(Denied::NoSession)? {
            AccessState::Active => {}
            state => tables.admit_to(now, frame, state)?,
        }
        tables.policy.dscp.mark(tables.policy.dscp.to, frame);
        let ip_bytes = frame.ip_bytes();
        let side = &mut tables.to[to.index];
        let bytes = ip_bytes + ETHERNET + TAG * side.line.tags.count() + pppoe_bytes(side.line);
        let shapers = tables.shapers.as_ref();
        let is_policed = shapers.is_none_or(|shapers| shapers.is_policed());
        if is_policed && !side.bucket.allow(now, bytes) {
            let [_, over_rate] = &mut tables.details[to.index].dropped.over_rate;
            *over_rate += 1;
            return Err(Denied::OverRate);
        }
        let line = side.line;
        if shapers.is_some_and(|shapers| shapers.takes(Direction::To, side.bucket.bits_per_s())) {
            // It counts when it leaves.
            return Ok(line);
        }
        side.traffic.add(bytes);
        let labels = side.labels;
        tables.count(to.index, labels, 1, FrameKind::of(frame), bytes);
        Ok(line)
    }

    /// Whether an address is that of the subscriber.
    pub(crate) fn has_address(&self, subscriber: Subscriber, address: IpAddr) -> bool {
        let Some(tables) = &self.0 else { return false };
        tables.side(&tables.from, subscriber).is_some()
            && tables.details[subscriber.index].prefixes.iter().any(|prefix| prefix.contains(address))
    }

    /// Adds a subscriber without a session, or limits.
    ///
    /// # Errors
    /// Another one has what is to be its own; nothing has changed then.
    pub(crate) fn insert(&mut self, line: Line, prefixes: Vec<Prefix>) -> Result<Subscriber, Taken> {
        let details = Details { prefixes: prefixes.into(), ..Details::default() };
        let tables = self.0.get_or_insert_with(|| Box::new(Tables::new(0)));
        tables.insert(line, details, [Traffic::default(); 2])
    }

    /// Adds one of the text; no two of a text have the same.
    pub(crate) fn insert_fixed(&mut self, one: &SubscriberConfig) {
        let Ok(added) = self.insert(one.line, one.prefixes.clone()) else { return };
        let Some(tables) = &mut self.0 else { return };
        tables.set_state(added.index, one.state);
        tables.set_nat(added.index, one.nat);
        tables.set_labels(added.index, &one.labels);
    }

    /// Changes a session: what stays the same goes on counting. `epoch` is [`crate::Plane::frames_epoch`].
    pub(crate) fn change(&mut self, old: Option<&AccessSession>, new: Option<&AccessSession>, epoch: u64) {
        let Some(tables) = &mut self.0 else { return };
        let index = old.map_or(0, |old| tables.index_of_session(old));
        let is_in_place = |old: &AccessSession, new: &AccessSession| {
            (old.line, old.is_routed, &old.prefixes) == (new.line, new.is_routed, &new.prefixes)
        };
        if let (Some(old), Some(new)) = (old, new)
            && index != 0
            && is_in_place(old, new)
        {
            return tables.set_details(index, new);
        }
        // Index 0 has counted nothing.
        let traffic = [tables.from[index].traffic, tables.to[index].traffic];
        let Details { counts, dropped, .. } = &mut tables.details[index];
        let (counts, dropped) = (counts.take(), *dropped);
        tables.release(epoch);
        tables.remove(index, epoch);
        let Some(new) = new else {
            if let Some(old) = old.filter(|_| index != 0) {
                tables.removed.add(old.session, traffic);
            }
            return;
        };
        let (prefixes, is_routed) = (new.prefixes.clone().into(), new.is_routed);
        let details = Details { prefixes, is_routed, counts, dropped, ..Details::default() };
        // The configuration has no session that cannot be beside the others.
        if let Ok(added) = tables.insert(new.line, details, traffic) {
            tables.set_details(added.index, new);
        }
    }

    /// What these sessions had counted when they were removed.
    pub(crate) fn removed(&self, sessions: &[u64]) -> Vec<SubscriberCount> {
        self.0.as_ref().map_or(Vec::new(), |tables| tables.removed.of(sessions))
    }

    /// Removes a subscriber of the text; its index rests. False if it was removed already.
    #[cfg(test)]
    pub(crate) fn remove(&mut self, subscriber: Subscriber, epoch: u64) -> bool {
        self.line(subscriber).is_some()
            && self.0.as_mut().is_some_and(|tables| tables.remove(subscriber.index, epoch))
    }

    /// Indexes end here.
    pub(super) fn end(&self) -> u32 {
        self.0.as_ref().map_or(0, |tables| tables.from.len())
    }

    /// The subscriber of an index, to be shown; `None`: there is none.
    pub(super) fn shown_one(&self, index: u32) -> Option<Shown<'_>> {
        let tables = self.0.as_ref()?;
        let (from, to) = (tables.from.record(index)?, tables.to.record(index)?);
        let details = tables.details.record(index)?;
        let state = from.standing.state()?;
        let mut counts = details.counts.as_deref().copied().unwrap_or_default();
        for (counts, all) in counts.iter_mut().zip([from.traffic, to.traffic]) {
            counts.complete(all);
        }
        Some(Shown {
            session: details.session,
            revision: details.revision,
            line: from.line,
            prefixes: &details.prefixes,
            bits_per_s: details.bits_per_s,
            line_bits_per_s: details.line_bits_per_s,
            state,
            nat: details.nat,
            labels: &tables.labels.get(from.labels)?.labels,
            counts,
            mru: to.mru,
            magic: details.magic,
            echo_said: details.echo_said,
            is_dead: tables.echoes.is_dead(index),
            is_routed: details.is_routed,
            last_seen: from.bucket.last(),
            traffic: [from.traffic, to.traffic],
            dropped: details.dropped,
            last_foreign: details.last_foreign,
        })
    }

    /// Memory of the table, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let Some(tables) = &self.0 else { return 0 };
        let per_index = 2 * size_of::<Side>() + size_of::<Details>();
        let indexes = tables.by_line.bytes() + tables.by_address4.bytes() + tables.by_prefix.bytes();
        let prefixes = size_of::<Owned>() * tables.prefixes.len() as usize + tables.echoes.bytes();
        per_index * tables.from.len() as usize
            + indexes
            + prefixes
            + tables.walled.bytes()
            + tables.shapers.as_ref().map_or(0, |shapers| shapers.bytes())
            + size_of::<Prefix>() * tables.live as usize
    }
}

impl Details {
    /// Whether the source of a packet is one of its addresses.
    #[cold]
    fn has_source(&self, frame: &Frame<'_>) -> bool {
        let Some(source) = source(frame) else { return false };
        // Its address on the link goes no further than to the node.
        if is_link_local(source) {
            return true;
        }
        // A host reports its groups before it has an address (RFC 3810, section 5.2.13), to its link alone.
        if frame.kind() == Kind::V6 && source.is_unspecified() {
            return frame.addresses6().1 >> 112 == 0xff02;
        }
        self.prefixes.iter().any(|prefix| prefix.contains(source))
    }
}

/// The source of a packet.
fn source(frame: &Frame<'_>) -> Option<IpAddr> {
    match frame.kind() {
        Kind::V4 => Some(IpAddr::from(frame.addresses4().0.to_be_bytes())),
        Kind::V6 => Some(IpAddr::from(frame.addresses6().0.to_be_bytes())),
        Kind::Arp | Kind::Other => None,
    }
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Denied {
        match refused {
            Refused::Dropped => Denied::Walled,
            Refused::Reset => Denied::WalledReset,
        }
    }
}

/// The address that a frame comes from, that of an ARP message included.
fn source_of(frame: &Frame<'_>) -> [u32; 4] {
    match frame.kind() {
        Kind::V4 => mapped4(frame.addresses4().0),
        Kind::V6 => words6(frame.addresses6().0),
        Kind::Arp => frame
            .ip()
            .get(14..18)
            .and_then(<[u8]>::first_chunk)
            .map_or([0; 4], |ip| mapped4(u32::from_be_bytes(*ip))),
        Kind::Other => [0; 4],
    }
}

/// Bytes of the headers of PPPoE and PPP of frames of a line.
#[inline]
fn pppoe_bytes(line: Line) -> usize {
    if line.pppoe_session == 0 { 0 } else { PPPOE }
}

/// TCP of a subscriber is told to send no longer packets than these, in both directions.
#[inline]
pub(crate) fn clamp_mss(frame: &mut Frame<'_>, most_bytes: u16) {
    if most_bytes != u16::MAX && frame.tcp_flags() & tcp::SYN != 0 {
        let headers = if frame.kind() == Kind::V4 { IPV4 } else { IPV6 } + TCP;
        tcp::clamp_mss(frame.l4_mut(), most_bytes.saturating_sub(headers as u16));
    }
}

#[cfg(test)]
mod tests;
