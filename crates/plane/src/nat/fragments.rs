//! Fragments (RFC 4787 REQ-14): only the first one has ports; what became of it becomes of all others.
//!
//! ```text
//! first fragment > translated as any packet > what changed is kept for its identification
//! later fragment > known: changed alike        unknown: held until the first one comes, or too long
//! ```
//! Who sent a fragment is part of what it is known by, and the identification of what leaves is new: two hosts behind
//! one address do not mix. Memory is bounded; what does not fit is dropped, and packets that are whole never come here.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::{Nat, Next};
use crate::drops::Drop;
use crate::frame::{ETHERNET, Frame, HEAD_ROOM, PortId};
use crate::stage::{Dir, Step};
use crate::time::Time;

/// Packets whose first fragment is remembered.
const MOST_KNOWN: usize = 4096;
/// Fragments that wait for their first.
const MOST_HELD: usize = 256;
/// How long the others may come behind the first (RFC 1122, section 3.3.2, allows 60 s and more).
const KNOWN: Duration = Duration::from_secs(30);
/// How long others may come before the first.
const HELD: Duration = Duration::from_secs(2);

/// What fragments of a packet have in common (RFC 791).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: u32,
    dst: u32,
    id: u16,
    proto: u8,
    dir: Dir,
}

/// What the first fragment became.
#[derive(Debug, Clone, Copy)]
struct Change {
    src: u32,
    dst: u32,
    id: u16,
    turns: bool,
    at: Time,
}

#[derive(Debug)]
struct Held {
    key: Key,
    at: Time,
    port: PortId,
    buf: Vec<u8>,
}

/// What is known of fragments.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    known: HashMap<Key, Change>,
    /// In the order of time; a packet that was seen twice stands here twice.
    order: VecDeque<(Time, Key)>,
    held: VecDeque<Held>,
}

impl Fragments {
    fn learn(&mut self, key: Key, change: Change) {
        while self.order.len() >= MOST_KNOWN {
            self.forget_oldest();
        }
        self.known.insert(key, change);
        self.order.push_back((change.at, key));
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.known.get(&key).is_some_and(|change| change.at == at)
        {
            self.known.remove(&key);
        }
    }

    fn known(&self, key: &Key, now: Time) -> Option<Change> {
        self.known.get(key).filter(|change| now - change.at <= KNOWN).copied()
    }

    /// Forgets what is too old; tells how many held fragments were given up.
    pub(super) fn expire(&mut self, now: Time) -> u64 {
        while self.order.front().is_some_and(|(at, _)| now - *at > KNOWN) {
            self.forget_oldest();
        }
        let mut lapsed = 0;
        while self.held.front().is_some_and(|held| now - held.at > HELD) {
            self.held.pop_front();
            lapsed += 1;
        }
        lapsed
    }
}

fn key(frame: &Frame<'_>, dir: Dir) -> Key {
    let (src, dst) = frame.addresses4();
    Key { src, dst, id: frame.id4(), proto: frame.proto(), dir }
}

/// The frame without tags (the port that it leaves by puts its own), with room in front.
pub(super) fn copy(frame: &Frame<'_>) -> Vec<u8> {
    [&[0; HEAD_ROOM][..], &frame.untagged()].concat()
}

impl Change {
    fn apply(&self, frame: &mut Frame<'_>) {
        frame.set_src4(self.src);
        frame.set_dst4(self.dst);
        frame.set_id4(self.id);
    }
}

impl Nat {
    /// A first fragment, which `translate` treats as a packet.
    pub(super) fn first(
        &mut self,
        step: &mut Step<'_, '_>,
        i: usize,
        dir: Dir,
        translate: impl FnOnce(&mut Nat, &mut Step<'_, '_>) -> Next,
    ) -> Next {
        let key = key(&step.frames[i], dir);
        let next = translate(self, step);
        let frame = &step.frames[i];
        if matches!(next, Next::On | Next::Turn) {
            let (src, dst) = frame.addresses4();
            let turns = matches!(next, Next::Turn);
            let change = Change { src, dst, id: frame.id4(), turns, at: step.now };
            self.fragments.learn(key, change);
            self.release(step, dir, key, change);
        }
        next
    }

    /// Those that came before their first.
    fn release(&mut self, step: &mut Step<'_, '_>, dir: Dir, key: Key, change: Change) {
        let held = &mut self.fragments.held;
        while let Some(place) = held.iter().position(|held| held.key == key) {
            let Held { port, mut buf, .. } = held.remove(place).expect("just found");
            let end = buf.len();
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, port);
            frame.read(ETHERNET - 2).expect("it was read when it came");
            change.apply(&mut frame);
            let entry = step.onward(if change.turns { Dir::Inward } else { dir });
            step.own.release(entry, port, buf);
        }
    }

    /// A later fragment.
    pub(super) fn later(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir) -> Next {
        let frame = &mut step.frames[i];
        let key = key(frame, dir);
        if let Some(change) = self.fragments.known(&key, step.now) {
            change.apply(frame);
            return if change.turns { Next::Turn } else { Next::On };
        }
        if self.fragments.held.len() >= MOST_HELD {
            return Next::Drop(Drop::NatFragment);
        }
        self.fragments.held.push_back(Held { key, at: step.now, port: frame.port, buf: copy(frame) });
        Next::Hold
    }
}
