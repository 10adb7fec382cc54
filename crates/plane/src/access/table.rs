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
use crate::address::{bits, mapped4, words_of, words6};
use crate::batch::{Frames, PerFrame, Set};
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::frame::{Frame, IPV4, IPV6, Kind, Line, PPPOE, Subscriber};
use crate::kept::Ticket;
use crate::prefix::{Prefix, is_link_local, mask6};
use crate::shape::{Departed, Shapers, Side as Direction};
use crate::table::arena::Arena;
use crate::table::index::{self, Index};
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
        if is_policed && !side.bucket.allow(now, bytes) {
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

    /// Whether a packet may go to a subscriber in its state; its class is found, and a walled one's gets the source that it has asked.
    /// What the node itself answers passes the wall.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline]
    pub(crate) fn admit_to(&mut self, now: Time, frame: &mut Frame<'_>) -> Result<(), Denied> {
        let tables = self.0.as_mut().ok_or(Denied::NoSession)?;
        let Subscriber { index, generation } = frame.subscriber;
        let side = tables.to.record(index).filter(|side| side.generation == generation);
        match side.and_then(|side| side.standing.state()).ok_or(Denied::NoSession)? {
            AccessState::Active => {}
            AccessState::Blocked => {
                tables.details[index].dropped.blocked += 1;
                return Err(Denied::Blocked);
            }
            AccessState::Walled if frame.is_answer => {}
            AccessState::Walled => {
                if let Err(refused) = tables.walled.send_to(now, index, frame) {
                    tables.details[index].dropped.walled += 1;
                    return Err(refused.into());
                }
            }
        }
        tables.policy.dscp.mark(tables.policy.dscp.to, frame);
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

    /// A packet goes to its subscriber: it counts, with the headers that it is going to have. Returns where the subscriber is.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline]
    pub(crate) fn send_to(&mut self, now: Time, frame: &Frame<'_>) -> Result<Line, Denied> {
        let tables = self.0.as_mut().ok_or(Denied::NoSession)?;
        let (to, ip_bytes) = (frame.subscriber, frame.ip_bytes());
        let side = tables.to.record_mut(to.index).ok_or(Denied::NoSession)?;
        if !side.standing.is_live() || side.generation != to.generation {
            return Err(Denied::NoSession);
        }
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

/// The smaller one of the rates of a plan and a line; 0: no limit.
fn smaller_rate(plan_bits_per_s: u64, line_bits_per_s: u64) -> u64 {
    match (plan_bits_per_s, line_bits_per_s) {
        (plan, 0) => plan,
        (0, line) => line,
        (plan, line) => plan.min(line),
    }
}

impl Tables {
    fn new(seed: u64) -> Tables {
        let mut tables = Tables {
            secret: Secret::new(seed),
            seed,
            from: Arena::new(),
            to: Arena::new(),
            details: Arena::new(),
            labels: LabelTable::new(),
            policy: AccessPolicy::default(),
            walled: Walled::default(),
            untranslated: 0,
            shapers: None,
            departing: Vec::new(),
            by_line: Index::new(),
            by_address4: Index::new(),
            by_prefix: Index::new(),
            prefixes: Arena::new(),
            free_prefixes: Vec::new(),
            lengths: [0; 129],
            used_lengths: Vec::new(),
            live: 0,
            unknown_sessions: UnknownSessions::default(),
            echoes: Echoes::default(),
            routers: HashMap::new(),
            terminations: Quota::new(seed, SENDERS, TERMINATIONS),
            resting: VecDeque::new(),
            removed: Removed::default(),
        };
        // Index 0 is no subscriber, prefix 0 is none.
        tables.push();
        tables.prefixes.push(Owned { address: [0; 4], len: 0, index: 0 });
        tables
    }

    fn hash_of_line(&self, Line { port, tags, mac: [a, b, c, d, e, f], pppoe_session }: Line) -> u32 {
        let words = [
            u32::from(pppoe_session) << 16 | u32::from(port.0),
            u32::from(tags.outer) << 16 | u32::from(tags.inner),
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([0, 0, e, f]),
        ];
        self.secret.hash(words, 1)
    }

    fn hash_of_prefix(&self, address: [u32; 4], len: u8) -> u32 {
        self.secret.hash(address, 2 + u64::from(len))
    }

    /// The side of a subscriber, unless it was removed.
    #[inline]
    fn side<'a>(&self, sides: &'a Arena<Side>, subscriber: Subscriber) -> Option<&'a Side> {
        let side = sides.record(subscriber.index)?;
        (side.standing.is_live() && side.generation == subscriber.generation).then_some(side)
    }

    /// The number of the subscriber with this line; 0: none.
    fn index_of_line(&self, line: Line) -> u32 {
        self.by_line.find(self.hash_of_line(line), |index| self.from[index].line == line)
    }

    /// The number of a session that is in the table; 0: it is not.
    fn index_of_session(&self, session: &AccessSession) -> u32 {
        match session.prefixes.first() {
            Some(&prefix) if session.is_routed => self.owner(prefix),
            _ => self.index_of_line(session.line),
        }
    }

    /// The number of the subscriber with this prefix; 0: none has it.
    fn owner(&self, prefix: Prefix) -> u32 {
        let (address, len) = masked(prefix);
        let first = if len == HOST_BITS {
            self.index_of_address4(self.hash_of_prefix(address, len), address)
        } else {
            0
        };
        if first != 0 { first } else { self.prefixes[self.number_of_prefix(address, len)].index }
    }

    /// The number of the subscriber behind the router of this line that has an address; 0: none.
    #[cold]
    fn index_of_source(&self, line: Line, address: [u32; 4]) -> u32 {
        let index = self.to_address(address).index;
        let is_there =
            self.from.record(index).is_some_and(|side| side.line == line) && self.details[index].is_routed;
        if is_there { index } else { 0 }
    }

    /// The number of a prefix; 0: no subscriber has it.
    fn number_of_prefix(&self, address: [u32; 4], len: u8) -> u32 {
        let is = |number: u32| {
            let owned = &self.prefixes[number];
            owned.address == address && owned.len == len
        };
        self.by_prefix.find(self.hash_of_prefix(address, len), is)
    }

    #[inline]
    fn named(&self, index: u32) -> Subscriber {
        Subscriber { index, generation: self.from[index].generation }
    }

    fn to_address(&self, address: [u32; 4]) -> Subscriber {
        self.to_hashed(self.hash_of_prefix(address, HOST_BITS), address)
    }

    /// The subscriber of an address with this hash.
    #[inline]
    fn to_hashed(&self, hash: u32, address: [u32; 4]) -> Subscriber {
        match self.index_of_address4(hash, address) {
            0 => self.to_prefix(address),
            index => self.named(index),
        }
    }

    /// The number of the subscriber whose first address of IPv4 this is, with its hash; 0: none.
    #[inline]
    fn index_of_address4(&self, hash: u32, address: [u32; 4]) -> u32 {
        let is_first = |address4| self.by_address4.find(hash, |index| self.to[index].address4 == address4);
        address4_of(address).map_or(0, is_first)
    }

    /// The subscriber with the longest prefix of an address, but for first addresses of IPv4.
    fn to_prefix(&self, address: [u32; 4]) -> Subscriber {
        for &len in &self.used_lengths {
            let number = self.number_of_prefix(words6(bits(address) & mask6(len)), len);
            if number != 0 {
                return self.named(self.prefixes[number].index);
            }
        }
        Subscriber::NONE
    }

    /// Whether a subscriber has this prefix.
    fn is_owned(&self, prefix: Prefix) -> bool {
        let (address, len) = masked(prefix);
        let is_first =
            len == HOST_BITS && self.index_of_address4(self.hash_of_prefix(address, HOST_BITS), address) != 0;
        is_first || self.number_of_prefix(address, len) != 0
    }

    fn insert(&mut self, line: Line, details: Details, traffic: [Traffic; 2]) -> Result<Subscriber, Taken> {
        if self.index_of_line(line) != 0 {
            return Err(Taken::Line);
        }
        for (n, &prefix) in details.prefixes.iter().enumerate() {
            let is_twice = details.prefixes.iter().take(n).any(|&other| masked(other) == masked(prefix));
            if is_twice || self.is_owned(prefix) {
                return Err(Taken::Prefix(prefix));
            }
        }
        let index = match self.resting.front() {
            Some(&(index, RELEASED)) => {
                self.resting.pop_front();
                index
            }
            _ if self.from.len() > index::MOST => return Err(Taken::Full),
            _ => self.push(),
        };
        let first = first_address4(&details.prefixes);
        for prefix in behind_first(&details.prefixes) {
            self.own(prefix, index);
        }
        match details.is_routed {
            false => self.by_line.insert(self.hash_of_line(line), index),
            true => *self.routers.entry(line).or_default() += 1,
        }
        if let Some(first) = first {
            self.by_address4.insert(self.hash_of_prefix(masked(first).0, HOST_BITS), index);
        }
        let generation = self.from[index].generation;
        let address4 = first.and_then(|first| address4_of(masked(first).0)).unwrap_or(0);
        let [from, to] = traffic;
        let labels = self.labels.take(&Labels::default());
        let standing = Standing::active();
        let side = |traffic| Side {
            line,
            generation,
            standing,
            mru: 0,
            labels,
            address4,
            bucket: Bucket::default(),
            traffic,
        };
        (self.from[index], self.to[index]) = (side(from), side(to));
        self.details[index] = details;
        self.live += 1;
        Ok(self.named(index))
    }

    /// What a session says beside its line and its prefixes.
    fn set_details(&mut self, index: u32, session: &AccessSession) {
        let AccessSession {
            session,
            revision,
            from_bits_per_s,
            to_bits_per_s,
            line_bits_per_s,
            mru,
            magic,
            echo,
            echo_said,
            state,
            nat,
            ref labels,
            ..
        } = *session;
        self.set_state(index, state);
        self.set_nat(index, nat);
        self.set_labels(index, labels);
        let details = &mut self.details[index];
        (details.session, details.revision) = (session, revision);
        (details.magic, details.echo_said) = (magic, echo_said);
        self.echoes.set(index, echo);
        details.bits_per_s = [from_bits_per_s, to_bits_per_s];
        details.line_bits_per_s = line_bits_per_s;
        let [line_from, line_to] = line_bits_per_s;
        self.from[index].bucket.set_rate(smaller_rate(from_bits_per_s, line_from));
        self.to[index].bucket.set_rate(smaller_rate(to_bits_per_s, line_to));
        self.set_plan(index);
        (self.from[index].mru, self.to[index].mru) = (mru, mru);
    }

    fn set_state(&mut self, index: u32, state: AccessState) {
        let standing = self.from[index].standing.with_state(state);
        (self.from[index].standing, self.to[index].standing) = (standing, standing);
        if state != AccessState::Walled {
            self.walled.forget(index);
        }
    }

    fn set_nat(&mut self, index: u32, nat: NatProfile) {
        let before = self.from[index].standing;
        self.untranslated -= u32::from(before.is_untranslated());
        self.untranslated += u32::from(nat == NatProfile::None);
        self.details[index].nat = nat;
        let standing = before.with_nat(nat);
        (self.from[index].standing, self.to[index].standing) = (standing, standing);
    }

    fn set_labels(&mut self, index: u32, labels: &Labels) {
        let before = self.from[index].labels;
        if self.labels.get(before).is_some_and(|row| row.labels == *labels) {
            return;
        }
        self.labels.give_back(before);
        let number = self.labels.take(labels);
        (self.from[index].labels, self.to[index].labels) = (number, number);
    }

    /// Counts a frame of a direction: for its plan and group, and for its subscriber if it is no best effort of IPv4, which is most.
    #[inline]
    fn count(&mut self, index: u32, labels: u16, direction: usize, kind: FrameKind, bytes: usize) {
        if let Some(counts) = self.labels.get_mut(labels).and_then(|row| row.counts.get_mut(direction)) {
            counts.count(kind, bytes);
        }
        if kind != FrameKind::USUAL
            && let Some(counts) = self.details[index].counts.get_or_insert_default().get_mut(direction)
        {
            counts.count(kind, bytes);
        }
    }

    fn push(&mut self) -> u32 {
        self.from.push(Side::default());
        self.details.push(Details::default());
        self.to.push(Side::default())
    }

    /// A prefix is a subscriber's from now on.
    fn own(&mut self, prefix: Prefix, index: u32) {
        let (address, len) = masked(prefix);
        let owned = Owned { address, len, index };
        let number = match self.free_prefixes.pop() {
            Some(number) => {
                self.prefixes[number] = owned;
                number
            }
            None => self.prefixes.push(owned),
        };
        self.by_prefix.insert(self.hash_of_prefix(address, len), number);
        self.count_length(len, |count| count + 1);
    }

    fn disown(&mut self, prefix: Prefix) {
        let (address, len) = masked(prefix);
        let number = self.number_of_prefix(address, len);
        self.by_prefix.remove(self.hash_of_prefix(address, len), number);
        self.free_prefixes.push(number);
        self.count_length(len, |count| count - 1);
    }

    fn count_length(&mut self, len: u8, change: impl Fn(u32) -> u32) {
        let Some(count) = self.lengths.get_mut(usize::from(len)) else { return };
        let before = std::mem::replace(count, change(*count));
        match (before, *count) {
            (0, 1) => {
                let at = self.used_lengths.partition_point(|&other| other > len);
                self.used_lengths.insert(at, len);
            }
            (1, 0) => self.used_lengths.retain(|&other| other != len),
            _ => {}
        }
    }

    fn remove(&mut self, index: u32, epoch: u64) -> bool {
        let Side { line, generation, standing, labels, .. } = self.from[index];
        if standing.state().is_none() {
            return false;
        }
        self.labels.give_back(labels);
        self.untranslated -= u32::from(standing.is_untranslated());
        self.walled.forget(index);
        let gone = Side { line, generation: generation.wrapping_add(1), ..Side::default() };
        (self.from[index], self.to[index]) = (gone, gone);
        let Details { prefixes, is_routed, .. } = std::mem::take(&mut self.details[index]);
        self.forget_line(line, is_routed, index);
        self.echoes.remove(index);
        let first = first_address4(&prefixes);
        if let Some(first) = first {
            self.by_address4.remove(self.hash_of_prefix(masked(first).0, HOST_BITS), index);
        }
        for prefix in behind_first(&prefixes) {
            self.disown(prefix);
        }
        self.shapers.iter_mut().for_each(|shapers| shapers.remove(index));
        self.live -= 1;
        self.resting.push_back((index, epoch.saturating_add(REST_EPOCHS)));
        true
    }

    /// Frames of a line are no more those of this subscriber.
    fn forget_line(&mut self, line: Line, is_routed: bool, index: u32) {
        if !is_routed {
            return self.by_line.remove(self.hash_of_line(line), index);
        }
        if let Some(count) = self.routers.get_mut(&line) {
            *count -= 1;
            if *count == 0 {
                self.routers.remove(&line);
            }
        }
    }

    /// Indexes that have rested long enough by this epoch may be used again.
    fn release(&mut self, epoch: u64) {
        let rested = self.resting.iter_mut().take_while(|(_, until)| *until <= epoch);
        rested.for_each(|(_, until)| *until = RELEASED);
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

/// The first address of IPv4 among prefixes.
fn first_address4(prefixes: &[Prefix]) -> Option<Prefix> {
    prefixes.iter().copied().find(|prefix| prefix.address.is_ipv4() && prefix.len == 32)
}

/// All prefixes but the first address of IPv4.
fn behind_first(prefixes: &[Prefix]) -> impl Iterator<Item = Prefix> {
    let first = first_address4(prefixes);
    prefixes.iter().copied().filter(move |&prefix| first != Some(prefix))
}

/// The address of IPv4 that these words stand for.
fn address4_of(address: [u32; 4]) -> Option<u32> {
    let [_, _, _, last] = address;
    (address == mapped4(last)).then_some(last)
}

/// The first address of a prefix, and its length, as one of IPv6.
fn masked(prefix: Prefix) -> ([u32; 4], u8) {
    let Prefix { address, len } = prefix.network();
    (words_of(address), if matches!(address, IpAddr::V4(_)) { len + 96 } else { len })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::frame::PortId;
    use crate::random::Random;
    use crate::tags::Tags;

    fn line(n: u16) -> Line {
        let mac = [2, 0, 0, 0, 0, (n % 3) as u8];
        Line {
            port: PortId(n % 2),
            tags: Tags { outer: 1 + n % 5, inner: n % 7 },
            mac,
            pppoe_session: n / 105,
        }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn to(table: &Subscribers, address: &str) -> Subscriber {
        table.lookup_to(words_of(address.parse().expect("an address")))
    }

    #[test]
    fn subscribers_are_found_by_line_and_by_the_longest_prefix() {
        let mut table = Subscribers::with_seed(7);
        assert!(table.is_empty() && table.lookup_from(line(1)).is_none());
        let one = table.insert(line(1), vec![prefix("198.18.0.0/16"), prefix("2001:db8::/32")]).expect("one");
        let two = table.insert(line(2), vec![prefix("198.18.7.0/24"), prefix("198.18.9.9/32")]).expect("two");
        assert_eq!([one.index, two.index], [1, 2]);
        for (address, found) in [
            ("198.18.0.1", one),
            ("198.18.7.1", two),
            ("198.18.9.9", two),
            ("198.18.9.8", one),
            ("2001:db8::1", one),
            ("2001:db9::1", Subscriber::NONE),
            ("198.19.0.1", Subscriber::NONE),
            // The words of 198.18.0.1 without what says that it is of IPv4.
            ("::c612:1", Subscriber::NONE),
        ] {
            assert_eq!(to(&table, address), found, "{address}");
        }
        assert_eq!((table.lookup_from(line(1)), table.lookup_from(line(2))), (one, two));
        for other in [
            Line { pppoe_session: 7, ..line(1) },
            Line { port: PortId(0), ..line(1) },
            Line { tags: Tags { outer: 2, inner: 0 }, ..line(1) },
            Line { mac: [2, 0, 0, 0, 1, 1], ..line(1) },
        ] {
            assert_eq!(table.lookup_from(other), Subscriber::NONE, "{other:?}");
        }
        assert_eq!(table.insert(line(1), Vec::new()), Err(Taken::Line));
        let taken = table.insert(line(3), vec![prefix("192.0.2.1/32"), prefix("198.18.7.5/24")]);
        assert_eq!(taken, Err(Taken::Prefix(prefix("198.18.7.5/24"))));
        let twice = table.insert(line(3), vec![prefix("192.0.2.1/32"); 2]);
        assert_eq!(twice, Err(Taken::Prefix(prefix("192.0.2.1/32"))));
        assert_eq!(to(&table, "192.0.2.1"), Subscriber::NONE, "nothing has changed");
    }

    #[test]
    fn an_index_rests_until_no_frame_names_it() {
        let mut table = Subscribers::with_seed(7);
        let one = table.insert(line(1), vec![prefix("198.18.0.1/32")]).expect("one");
        assert!(table.remove(one, 100) && !table.remove(one, 100));
        assert!(table.is_empty() && table.line(one).is_none() && to(&table, "198.18.0.1").is_none());
        table.change(None, None, 100 + REST_EPOCHS - 1);
        let again = table.insert(line(1), vec![prefix("198.18.0.1/32")]).expect("again");
        assert_eq!(again, Subscriber { index: 2, generation: 0 }, "the first index rests");
        table.change(None, None, 100 + REST_EPOCHS);
        let other = table.insert(line(2), Vec::new()).expect("another");
        assert_eq!(other, Subscriber { index: 1, generation: 1 });
        assert!(table.line(one).is_none(), "a frame that names the old one names none");
        assert_eq!(table.line(other), Some(line(2)));
    }

    fn session(number: u64, n: u16, prefixes: &[&str], from_bits_per_s: u64) -> AccessSession {
        let prefixes = prefixes.iter().map(|text| prefix(text)).collect();
        AccessSession {
            session: number,
            revision: 7,
            line: line(n),
            prefixes,
            from_bits_per_s,
            ..AccessSession::default()
        }
    }

    /// Sends a packet to an address, of which 86 bytes are of IP.
    fn send_to(table: &mut Subscribers, address: &str) -> Result<Line, Denied> {
        let packet =
            crate::scenario::packet(&format!("udp 198.51.100.9:53 > {address}:1 len 58")).expect("a packet");
        let mut buf = [&[0; crate::frame::HEAD_ROOM][..], &[2; 12], &[8, 0], &packet].concat();
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, crate::frame::HEAD_ROOM, end, PortId(9));
        frame.read(12).expect("readable");
        frame.subscriber = to(table, address);
        table.admit_to(Time::default(), &mut frame)?;
        table.send_to(Time::default(), &frame)
    }

    #[test]
    fn a_session_that_is_replaced_goes_on_counting() {
        let mut table = Subscribers::with_seed(7);
        let mut old = session(5, 1, &["198.18.0.1/32"], 0);
        table.change(None, Some(&old), 0);
        assert_eq!(send_to(&mut table, "198.18.0.1"), Ok(line(1)));
        let counted = Traffic { frames: 1, bytes: 100 + 4 * line(1).tags.count() as u64 };
        for (new, index) in [
            (session(5, 1, &["198.18.0.1/32"], 1000), 1),
            (session(5, 2, &["198.18.0.1/32"], 1000), 2),
            (session(5, 2, &["198.18.0.1/32", "198.18.1.0/24"], 0), 3),
        ] {
            table.change(Some(&old), Some(&new), 0);
            let shown = table.shown_one(index).expect("it has this index");
            assert_eq!((shown.session, shown.bits_per_s), (5, [new.from_bits_per_s, 0]));
            assert_eq!(shown.traffic, [Traffic::default(), counted]);
            assert_eq!((shown.line, shown.prefixes), (new.line, &new.prefixes[..]));
            old = new;
        }
        table.change(Some(&old), None, 0);
        assert!(table.is_empty() && (1..table.end()).all(|index| table.shown_one(index).is_none()));
    }

    /// What a list that is searched from end to end says.
    #[derive(Default)]
    struct Model {
        live: HashMap<u32, (Subscriber, Line, Vec<Prefix>)>,
        resting: Vec<(u32, u64)>,
        /// All that were ever removed.
        gone: Vec<Subscriber>,
    }

    impl Model {
        fn from(&self, line: Line) -> Subscriber {
            let found = self.live.values().find(|(_, other, _)| *other == line);
            found.map_or(Subscriber::NONE, |(subscriber, _, _)| *subscriber)
        }

        fn to(&self, address: IpAddr) -> Subscriber {
            let all = self.live.values().flat_map(|(subscriber, _, prefixes)| {
                prefixes.iter().map(move |prefix| (prefix.len, *prefix, *subscriber))
            });
            let best = all.filter(|(_, prefix, _)| prefix.contains(address)).max_by_key(|(len, _, _)| *len);
            best.map_or(Subscriber::NONE, |(_, _, subscriber)| subscriber)
        }

        fn owns(&self, prefix: Prefix) -> bool {
            self.live.values().any(|(_, _, all)| all.iter().any(|other| other.network() == prefix.network()))
        }
    }

    #[test]
    fn the_table_agrees_with_a_list() {
        for seed in 1..=6 {
            let (mut table, mut model) = (Subscribers::with_seed(seed), Model::default());
            let (mut random, mut epoch) = (Random(seed), 0);
            for step in 0..3000 {
                let what = format!("seed {seed}, step {step}");
                let address = |random: &mut Random| Ipv4Addr::from(0xc612_0000 | random.below(64) as u32);
                match random.below(5) {
                    0 | 1 => {
                        let of = line(random.below(210) as u16);
                        let some = random.below(3);
                        let prefixes: Vec<Prefix> = (0..some)
                            .map(|_| Prefix {
                                address: address(&mut random).into(),
                                len: 26 + random.below(7) as u8,
                            })
                            .collect();
                        let is_twice = prefixes.len() == 2 && prefixes[0].network() == prefixes[1].network();
                        let is_free = model.from(of).is_none()
                            && !is_twice
                            && !prefixes.iter().any(|prefix| model.owns(*prefix));
                        match table.insert(of, prefixes.clone()) {
                            Ok(new) => {
                                assert!(
                                    is_free && !model.resting.iter().any(|(index, _)| *index == new.index),
                                    "{what}: {new:?}"
                                );
                                assert!(
                                    !model.gone.contains(&new) && !model.live.contains_key(&new.index),
                                    "{what}"
                                );
                                model.live.insert(new.index, (new, of, prefixes));
                            }
                            Err(taken) => assert!(!is_free, "{what}: {taken}"),
                        }
                    }
                    2 => {
                        let mut all: Vec<u32> = model.live.keys().copied().collect();
                        all.sort_unstable();
                        if let Some(&index) = all.get(random.below(all.len().max(1) as u64) as usize) {
                            let (subscriber, _, _) = model.live.remove(&index).expect("it is there");
                            assert!(table.remove(subscriber, epoch), "{what}");
                            model.resting.push((index, epoch));
                            model.gone.push(subscriber);
                        }
                    }
                    3 if random.below(4) == 0 => {
                        epoch += random.below(REST_EPOCHS);
                        table.change(None, None, epoch);
                        model.resting.retain(|(_, since)| since + REST_EPOCHS > epoch);
                    }
                    _ => {}
                }
                let (of, at) = (line(random.below(210) as u16), address(&mut random));
                assert_eq!(table.lookup_from(of), model.from(of), "{what}");
                assert_eq!(table.lookup_to(words_of(at.into())), model.to(at.into()), "{what}: {at}");
                for (subscriber, of, _) in model.live.values() {
                    assert_eq!(table.line(*subscriber), Some(*of), "{what}");
                }
                // A generation comes again after 256 others.
                let gone = model.gone.iter().rev().take(200);
                gone.for_each(|subscriber| assert!(table.line(*subscriber).is_none(), "{what}"));
            }
            assert!(model.gone.len() > 300, "seed {seed}: {} were removed", model.gone.len());
        }
    }
}
