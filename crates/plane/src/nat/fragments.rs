//! Fragments (RFC 4787 REQ-14): only the first one has ports; what became of it becomes of all others.
//!
//! ```text
//! first fragment > translated as any packet > the translation is kept for its identification
//! later fragment > known: translated alike        unknown: waits until the first one comes, or too long
//! ```
//! Where a checksum of all fragments is to be made, as NAT64 must for ICMP and for UDP without one (RFC 6146,
//! section 3.4), the first one waits as well, until all are there. What waited comes to the NAT once more, and finds
//! what was missing.
//! An error of ICMP for the other kind of IP goes on in one fragment: its quote is cut anyway (RFC 7915, sections 4.5 and 5.5).
//!
//! The sender of a fragment is part of its key, and the identification of what leaves is new: two hosts behind
//! one address do not mix. Memory is bounded, for each direction and each host, see `table/fragments.rs`; packets that are whole never
//! come here.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::ops::Range;

use weir_packet::checksum::sum;
use weir_packet::headers::UDP;

use super::nat64::header::give_checksum;
use super::nat64::packet::whole;
use super::next::Next;
use super::table::Table;
use super::translation::{Translation, send6};
use crate::dir::{Dir, EntryPoint};
use crate::drops::DropReason;
use crate::extensions::MORE4;
use crate::frame::{ETHERNET, Fragment, Frame, HEAD_ROOM, Kind, Known};
use crate::kept::{Then, Ticket};
use crate::outbox::Outbox;
use crate::stage::{ByDir, Step};
use crate::table::fragments::{Extent, FragmentTable, Packet, Room};
use crate::table::shares::Host;
use crate::time::Time;

/// A packet on its way outward or inward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    packet: Packet,
    dir: Dir,
}

/// The state of fragments that wait.
#[derive(Debug, PartialEq, Eq)]
enum Stand {
    /// Some are missing.
    Waits,
    /// All are here.
    Whole,
    /// They are not of one packet.
    Wrong,
}

/// A fragment that waits.
#[derive(Debug)]
struct Waiting {
    /// The bytes of the whole transport that it carries, and whether more follow.
    part: Range<usize>,
    more: bool,
    fragment: Stored,
}

impl Waiting {
    /// Its ticket, if it is not a copy.
    fn kept(&self) -> Option<Ticket> {
        match self.fragment {
            Stored::Kept(frame) => Some(frame),
            Stored::Copied(_) => None,
        }
    }
}

/// What is stored of a fragment that waits.
#[derive(Debug)]
enum Stored {
    /// It waits for its first fragment.
    Kept(Ticket),
    /// It waits for all other fragments, and is read together with them.
    Copied(Copied),
}

/// The copy of a frame without tags, with head room in front, and its known fields.
#[derive(Debug)]
struct Copied {
    known: Known,
    buf: Vec<u8>,
}

impl Copied {
    /// As a frame.
    #[expect(clippy::expect_used, reason = "the copy of a frame that was read")]
    fn frame(&mut self) -> Frame<'_> {
        let end = self.buf.len();
        let mut frame = Frame::new(&mut self.buf, HEAD_ROOM, end, self.known.port);
        frame.read(ETHERNET - 2).expect("it was read when it came");
        frame
    }
}

impl Stored {
    fn go_on(self, outbox: &mut Outbox, entry: EntryPoint) {
        match self {
            Stored::Kept(frame) => outbox.emit(frame, Then::On(entry)),
            Stored::Copied(Copied { known, buf }) => outbox.emit_copy(entry, known, buf),
        }
    }

    /// It goes no further; the caller counts the reason.
    fn give_up(self, outbox: &mut Outbox) {
        match self {
            Stored::Kept(frame) => outbox.discard(frame),
            Stored::Copied(_) => outbox.discard_copies(1),
        }
    }
}

/// The fragments that a NAT knows.
#[derive(Debug)]
pub(super) struct Fragments(ByDir<FragmentTable<Key, Translation, Waiting>>);

impl Fragments {
    pub(super) fn new(room: Room) -> Fragments {
        Fragments(ByDir::new(|| FragmentTable::new(room)))
    }

    /// The same, empty.
    pub(super) fn anew(&self) -> Fragments {
        Fragments::new(self.0[Dir::Outward].room())
    }

    /// Other limits.
    pub(super) fn limit(&mut self, room: Room) {
        self.0.each().into_iter().for_each(|fragments| fragments.limit(room));
    }

    fn of(&mut self, key: &Key) -> &mut FragmentTable<Key, Translation, Waiting> {
        &mut self.0[key.dir]
    }

    fn known(&self, key: &Key, now: Time) -> Option<Translation> {
        self.0[key.dir].get(key, now)
    }

    /// Takes all fragments of a packet out, in their order.
    fn take(&mut self, key: &Key) -> Vec<Waiting> {
        let mut of_it = self.of(key).take(key);
        of_it.sort_by_key(|waiting| waiting.part.start);
        of_it
    }

    /// The state of a packet whose first fragment waits, too.
    fn stand(&self, key: &Key) -> Stand {
        let mut parts: Vec<_> = self.0[key.dir].of(key).collect();
        parts.sort_by_key(|waiting| waiting.part.start);
        let mut next = 0;
        let mut ended = false;
        for waiting in &parts {
            // Overlapping fragments are no valid packet (RFC 5722, section 4), nor is data behind the end.
            if waiting.part.start < next || ended || waiting.part.end > usize::from(u16::MAX) {
                return Stand::Wrong;
            }
            if waiting.part.start > next {
                return Stand::Waits;
            }
            (next, ended) = (waiting.part.end, !waiting.more);
        }
        if ended { Stand::Whole } else { Stand::Waits }
    }

    /// The NAT goes away: what waited in it goes on, as it came, where frames of its direction enter.
    pub(super) fn emit_waiting(&mut self, outbox: &mut Outbox, entry: impl Fn(Dir) -> EntryPoint) {
        for (Key { dir, .. }, waiting) in self.0.each().into_iter().flat_map(FragmentTable::take_all) {
            waiting.fragment.go_on(outbox, entry(dir));
        }
    }

    /// Fragments that wait: the tickets of those that are kept, and how many are copies.
    pub(super) fn waiting(&self) -> (Vec<Ticket>, usize) {
        let all: Vec<Option<Ticket>> =
            self.0.both().into_iter().flat_map(FragmentTable::waiting).map(Waiting::kept).collect();
        let copies = all.iter().filter(|kept| kept.is_none()).count();
        (all.into_iter().flatten().collect(), copies)
    }

    /// When the first of those that wait has waited too long.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.both().into_iter().filter_map(FragmentTable::due).min()
    }

    /// Forgets what is too old; returns how many waiting fragments were dropped.
    pub(super) fn expire(&mut self, now: Time, outbox: &mut Outbox) -> usize {
        let all: Vec<Waiting> =
            self.0.each().into_iter().flat_map(|fragments| fragments.expire(now)).collect();
        let given_up = all.len();
        all.into_iter().for_each(|waiting| waiting.fragment.give_up(outbox));
        given_up
    }
}

/// The first fragment of a packet, as it came: its key, and its place in the packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct First(Key, Extent);

impl First {
    /// A frame on its way in `dir`.
    pub(super) fn of(frame: &Frame<'_>, dir: Dir) -> First {
        First(key(frame, dir), Extent::of(frame))
    }
}

fn key(frame: &Frame<'_>, dir: Dir) -> Key {
    Key { packet: Packet::of(frame, frame.fragment_id()), dir }
}

/// What becomes of frames that are fragments.
impl Fragments {
    /// The first fragment of a packet was translated as a packet; `first` is its key as it came, `next` what became of it.
    pub(super) fn first(&mut self, step: &mut Step<'_, '_>, i: usize, first: First, next: &Next) {
        let frame = &step.frames[i];
        match next {
            Next::On | Next::Hairpin if frame.kind() == Kind::V4 => {
                let translation = Translation::Rewritten { ends: frame.addresses4(), id: frame.id4() };
                self.follow(step, first, translation);
            }
            // The identification was that of another packet.
            Next::Drop(_) => self.forget(&first),
            _ => {}
        }
    }

    /// The identification of this first fragment was that of another packet.
    pub(super) fn forget(&mut self, first: &First) {
        self.of(&first.0).forget(&first.0);
    }

    /// A first fragment is about to be translated to the other version of IP.
    pub(super) fn first64(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir, translation: Translation) {
        self.follow(step, First::of(&step.frames[i], dir), translation);
    }

    /// Translates all other fragments of its packet alike: those to come, and those that wait.
    fn follow(&mut self, step: &mut Step<'_, '_>, First(key, first): First, translation: Translation) {
        self.of(&key).learn(step.now, first, key, translation);
        let entry = step.again(key.dir);
        for waiting in self.take(&key) {
            waiting.fragment.go_on(step.outbox, entry);
        }
    }

    /// The length of the whole transport of a first fragment, once all others are here; else it waits for them.
    pub(super) fn gathered(
        &mut self,
        table: &Table,
        step: &mut Step<'_, '_>,
        i: usize,
        dir: Dir,
    ) -> Result<usize, Next> {
        let key = key(&step.frames[i], dir);
        match self.known(&key, step.now) {
            Some(Translation::Gathered { bytes }) => Ok(bytes),
            _ => {
                // Another packet with the identification of an earlier one.
                self.of(&key).forget(&key);
                Err(self.wait(table, step, i, key))
            }
        }
    }

    /// A first fragment that turns goes on in another thread, as the others of its packet will.
    pub(super) fn note_thread(&mut self, step: &Step<'_, '_>, i: usize, thread: u8) {
        let (key, first) = (key(&step.frames[i], Dir::Inward), Extent::of(&step.frames[i]));
        self.of(&key).learn(step.now, first, key, Translation::Elsewhere { thread });
    }

    /// The thread in which the first fragment of this one's packet went on.
    pub(super) fn thread_of_first(&mut self, table: &Table, step: &Step<'_, '_>, i: usize) -> u8 {
        let frame = &step.frames[i];
        let key = key(frame, Dir::Inward);
        match self.known(&key, step.now) {
            Some(Translation::Elsewhere { thread }) => {
                self.of(&key).pass(step.now, Extent::of(frame), &key);
                thread
            }
            _ => table.share.thread,
        }
    }

    /// Whether a frame whose source is translated goes to another box that has the same public address.
    #[cold]
    pub(super) fn goes_to_another_box(&mut self, table: &Table, step: &Step<'_, '_>, i: usize) -> bool {
        let frame = &step.frames[i];
        let (key, extent) = (key(frame, Dir::Inward), Extent::of(frame));
        if frame.fragment() == Fragment::Later {
            let is_beyond = matches!(self.known(&key, step.now), Some(Translation::Beyond));
            return is_beyond && self.of(&key).pass(step.now, extent, &key).is_some();
        }
        let is_for_another = table.is_for_another_box(frame);
        if is_for_another && frame.fragment() == Fragment::First {
            self.of(&key).learn(step.now, extent, key, Translation::Beyond);
        }
        is_for_another
    }

    /// A later fragment.
    pub(super) fn later(&mut self, table: &Table, step: &mut Step<'_, '_>, i: usize, dir: Dir) -> Next {
        let (key, later) = (key(&step.frames[i], dir), Extent::of(&step.frames[i]));
        let translation = match self.of(&key).pass(step.now, later, &key) {
            None => return self.wait(table, step, i, key),
            // The first one was refused, or was of another packet.
            Some(Translation::Gathered { .. } | Translation::Elsewhere { .. } | Translation::Beyond) => {
                return Next::Drop(DropReason::NatFragment);
            }
            Some(translation @ Translation::ToV6 { .. }) => return send6(table, step, i, translation),
            Some(translation) => translation,
        };
        let frame = &mut step.frames[i];
        if let Err(reason) = translation.apply(frame) {
            return Next::Drop(reason);
        }
        let (_, dst) = frame.addresses4();
        if dir == Dir::Outward && table.is_public(dst) { Next::Hairpin } else { Next::On }
    }

    /// A fragment without which, or with which, others are waited for.
    fn wait(&mut self, table: &Table, step: &mut Step<'_, '_>, i: usize, key: Key) -> Next {
        let frame = &step.frames[i];
        let (start, more) = (frame.fragment_offset(), frame.fragment_field() & MORE4 != 0);
        let part = start..start.saturating_add(frame.l4().len());
        let host = Host::of(frame);
        let fragment = match table.config.prefix64 {
            None => Stored::Kept(step.keep(i)),
            Some(_) => {
                let copied = Copied { known: frame.known_of_copy(), buf: frame.copy() };
                step.keep_copy(i);
                Stored::Copied(copied)
            }
        };
        let waiting = Waiting { part, more, fragment };
        for gone in self.of(&key).wait(step.now, host, key, waiting) {
            step.outbox.gave_way += 1;
            gone.fragment.give_up(step.outbox);
        }
        match self.stand(&key) {
            Stand::Waits => {}
            Stand::Wrong => {
                let wrong = self.take(&key);
                wrong.into_iter().for_each(|waiting| give_up(step, waiting.fragment));
            }
            Stand::Whole => self.gather(step, key),
        }
        Next::Gone
    }

    /// All fragments of a packet are here.
    fn gather(&mut self, step: &mut Step<'_, '_>, key: Key) {
        let (mut bytes, mut all) = (0, Vec::new());
        for waiting in self.take(&key) {
            bytes = waiting.part.end;
            match waiting.fragment {
                Stored::Copied(copied) => all.push(copied),
                // It came when the text had no NAT64, and cannot be read here.
                kept => give_up(step, kept),
            }
        }
        // Each but the last has whole words.
        let covered = all.iter_mut().map(|copied| sum(copied.frame().l4())).sum();
        let Some(mut first) = all.first_mut().map(Copied::frame) else { return };
        if first.icmp_error() {
            return join(step, key.dir, all);
        }
        if key.packet.proto == UDP && key.dir == Dir::Inward {
            give_checksum(&mut first, covered, bytes);
        }
        let first = Extent::of(&first);
        self.of(&key).learn(step.now, first, key, Translation::Gathered { bytes });
        let entry = step.again(key.dir);
        all.into_iter().for_each(|copied| step.outbox.emit_copy(entry, copied.known, copied.buf));
    }
}

/// An error of ICMP whose fragments are all here comes to the NAT once more in one fragment.
fn join(step: &mut Step<'_, '_>, dir: Dir, mut all: Vec<Copied>) {
    let fragments = all.len() as u64;
    let l4: Vec<u8> = all.iter_mut().flat_map(|copied| copied.frame().l4().to_vec()).collect();
    let whole = all.first_mut().and_then(|first| Some((first.known, whole(&first.frame(), &l4)?)));
    let lapsed = fragments - u64::from(whole.is_some());
    step.outbox.discard_copies(lapsed);
    (0..lapsed).for_each(|_| step.drops.count(DropReason::NatJoined));
    if let Some((known, buf)) = whole {
        step.outbox.emit_copy(step.again(dir), known, buf);
    }
}

/// A fragment that waited goes no further.
fn give_up(step: &mut Step<'_, '_>, fragment: Stored) {
    fragment.give_up(step.outbox);
    step.drops.count(DropReason::NatFragment);
}
