//! Packets in fragments: the later ones have no ports to be judged by, and share the verdict of the first one.
//!
//! ```text
//! first fragment > rules > passed or refused, which is kept for the others
//! later fragment > known: passes, or does not        unknown: waits until the first one comes, or too long
//! ```
//! Memory is bounded, for each direction and each host, see `table/fragments.rs`. Where no rule asks for what only a first fragment
//! has, none waits. A fragment that would overwrite the header of TCP never passes (RFC 1858, RFC 3128).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::headers::TCP;

use crate::dir::{Dir, EntryPoint};
use crate::drops::DropReason;
use crate::frame::{Frame, Kind};
use crate::kept::{Then, Ticket};
use crate::outbox::Outbox;
use crate::stage::{ByDir, Step};
use crate::table::fragments::{self, Extent, Packet, Room};
use crate::table::shares::Host;
use crate::time::Time;

/// The header of TCP without options.
const TCP_HEADER: usize = 20;

/// What becomes of a later fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Later {
    /// It passes, and the rule that has accepted the first one may say its class.
    Passes(Option<u8>),
    /// It is judged like any frame.
    Judged,
    /// Its verdict is set.
    Gone,
}

/// What became of the first fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// By a rule that may say its class.
    Passed(Option<u8>),
    Refused,
}

/// A fragment that waits.
#[derive(Debug)]
struct Waiting {
    extent: Extent,
    frame: Ticket,
}

/// The packets that are remembered.
#[derive(Debug)]
pub(super) struct FragmentTable(ByDir<fragments::FragmentTable<Packet, First, Waiting>>);

impl FragmentTable {
    pub(super) fn new(room: Room) -> FragmentTable {
        FragmentTable(ByDir::new(|| fragments::FragmentTable::new(room)))
    }

    /// The same, empty.
    pub(super) fn anew(&self) -> FragmentTable {
        FragmentTable::new(self.0[Dir::Outward].room())
    }

    /// Sets other limits.
    pub(super) fn limit(&mut self, room: Room) {
        self.0.each().into_iter().for_each(|fragments| fragments.limit(room));
    }

    /// A first fragment was judged: those that waited for it go on, or are dropped.
    pub(super) fn judged(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir, first: First) {
        let (key, fragments) = (key(&step.frames[i]), &mut self.0[dir]);
        fragments.learn(step.now, Extent::of(&step.frames[i]), key, first);
        for Waiting { extent, frame } in fragments.take(&key) {
            fragments.pass(step.now, extent, &key);
            match first {
                First::Passed(class) => {
                    class.into_iter().for_each(|class| step.outbox.kept.classify(frame, class));
                    step.outbox.emit(frame, Then::On(step.onward(dir)));
                }
                First::Refused => give_up(step, frame),
            }
        }
    }

    /// A later fragment; `asked` says whether a rule asks for what only the first one has.
    pub(super) fn later(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir, asked: bool) -> Later {
        let frame = &step.frames[i];
        if frame.proto() == TCP && frame.fragment_offset() < TCP_HEADER {
            step.drop(i, DropReason::FilterFragment);
            return Later::Gone;
        }
        if !asked {
            return Later::Judged;
        }
        let (key, fragments) = (key(frame), &mut self.0[dir]);
        match fragments.pass(step.now, Extent::of(frame), &key) {
            Some(First::Passed(class)) => return Later::Passes(class),
            Some(First::Refused) => step.drop(i, DropReason::FilterFragment),
            None => {
                let (host, extent) = (Host::of(frame), Extent::of(frame));
                let waiting = Waiting { extent, frame: step.keep(i) };
                let gone = fragments.wait(step.now, host, key, waiting);
                gone.into_iter().for_each(|waiting| step.outbox.give_way(waiting.frame));
            }
        }
        Later::Gone
    }

    /// The filter is removed: what waited in it goes on where frames of its direction enter.
    pub(super) fn emit_waiting(&mut self, outbox: &mut Outbox, entry: impl Fn(Dir) -> EntryPoint) {
        for dir in [Dir::Outward, Dir::Inward] {
            let waiting = self.0[dir].take_all();
            waiting.for_each(|(_, Waiting { frame, .. })| outbox.emit(frame, Then::On(entry(dir))));
        }
    }

    /// Fragments that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.0.both().into_iter().flat_map(|fragments| fragments.waiting().map(|waiting| waiting.frame))
    }

    /// When the first of those that wait has waited too long.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.both().into_iter().filter_map(fragments::FragmentTable::due).min()
    }

    /// Gives up what waited too long.
    pub(super) fn expire(&mut self, step: &mut Step<'_, '_>) {
        for fragments in self.0.each() {
            fragments.expire(step.now).into_iter().for_each(|waiting| give_up(step, waiting.frame));
        }
    }
}

/// What the fragments of a packet have in common (RFC 791, section 3.2, RFC 8200, section 4.5).
fn key(frame: &Frame<'_>) -> Packet {
    let mut packet = Packet::of(frame, frame.fragment_id());
    if frame.kind() != Kind::V4 {
        // The first fragment tells the protocol behind further headers, the later ones do not.
        packet.proto = 0;
    }
    packet
}

/// A fragment that was kept goes no further.
fn give_up(step: &mut Step<'_, '_>, fragment: Ticket) {
    step.outbox.discard(fragment);
    step.drops.count(DropReason::FilterFragment);
}
