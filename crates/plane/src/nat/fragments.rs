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

use super::{Nat, Next, nat64};
use crate::drops::Drop;
use crate::frame::{ETHERNET, Frame, HEAD_ROOM, Kind, PortId};
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
    src: u128,
    dst: u128,
    id: u32,
    proto: u8,
    dir: Dir,
}

/// What the first fragment became.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// A packet of the same kind with these addresses and identification, which may have turned.
    Rewritten { ends: (u32, u32), id: u16, turns: bool },
    /// From IPv6 to IPv4.
    ToV4 { ends: (u32, u32), id: u16 },
    /// From IPv4 to IPv6.
    ToV6 { ends: (u128, u128) },
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
    known: HashMap<Key, (Time, Change)>,
    /// In the order of time; a packet that was seen twice stands here twice.
    order: VecDeque<(Time, Key)>,
    held: VecDeque<Held>,
}

impl Fragments {
    fn learn(&mut self, now: Time, key: Key, change: Change) {
        while self.order.len() >= MOST_KNOWN {
            self.forget_oldest();
        }
        self.known.insert(key, (now, change));
        self.order.push_back((now, key));
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.known.get(&key).is_some_and(|known| known.0 == at)
        {
            self.known.remove(&key);
        }
    }

    fn known(&self, key: &Key, now: Time) -> Option<Change> {
        self.known.get(key).filter(|known| now - known.0 <= KNOWN).map(|known| known.1)
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
    let (src, dst, id) = match frame.kind() {
        Kind::V6 => {
            let (src, dst) = frame.addresses6();
            (src, dst, nat64::fragment(frame).map_or(0, |fragment| fragment.id))
        }
        _ => {
            let (src, dst) = frame.addresses4();
            (src.into(), dst.into(), frame.id4().into())
        }
    };
    Key { src, dst, id, proto: frame.proto(), dir }
}

/// The frame without tags (the port that it leaves by puts its own), with room in front.
pub(super) fn copy(frame: &Frame<'_>) -> Vec<u8> {
    [&[0; HEAD_ROOM][..], &frame.untagged()].concat()
}

impl Change {
    /// Whether what follows goes on inward, though it was on its way out.
    fn turns(self) -> bool {
        matches!(self, Change::Rewritten { turns: true, .. })
    }

    /// Changes a fragment alike; false if its buffer has no room for that.
    fn apply(self, frame: &mut Frame<'_>) -> bool {
        match self {
            Change::Rewritten { ends: (src, dst), id, .. } => {
                frame.set_src4(src);
                frame.set_dst4(dst);
                frame.set_id4(id);
            }
            Change::ToV4 { ends, id } => nat64::to_v4(frame, ends, id),
            Change::ToV6 { ends } => return nat64::to_v6(frame, ends),
        }
        true
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
        if matches!(next, Next::On | Next::Turn) && frame.kind() == Kind::V4 {
            let turns = matches!(next, Next::Turn);
            let change = Change::Rewritten { ends: frame.addresses4(), id: frame.id4(), turns };
            self.follow(step, dir, key, change);
        }
        next
    }

    /// A first fragment that is about to become one of the other kind of IP.
    pub(super) fn first64(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir, change: Change) {
        let key = key(&step.frames[i], dir);
        self.follow(step, dir, key, change);
    }

    /// All others of its packet are changed alike: those to come, and those that came before.
    fn follow(&mut self, step: &mut Step<'_, '_>, dir: Dir, key: Key, change: Change) {
        self.fragments.learn(step.now, key, change);
        let entry = step.onward(if change.turns() { Dir::Inward } else { dir });
        let held = &mut self.fragments.held;
        while let Some(place) = held.iter().position(|held| held.key == key) {
            let Held { port, mut buf, .. } = held.remove(place).expect("just found");
            let end = buf.len();
            buf.resize(end + nat64::LONGER, 0);
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, port);
            frame.read(ETHERNET - 2).expect("it was read when it came");
            assert!(change.apply(&mut frame), "there is room");
            let buf = copy(&frame);
            step.own.release(entry, port, buf);
        }
    }

    /// A later fragment.
    pub(super) fn later(&mut self, step: &mut Step<'_, '_>, i: usize, dir: Dir) -> Next {
        let frame = &mut step.frames[i];
        let key = key(frame, dir);
        if let Some(change) = self.fragments.known(&key, step.now) {
            if change.turns() {
                change.apply(frame);
                return Next::Turn;
            }
            return match change.apply(frame) {
                true => Next::On,
                false => self.apply_to_copy(step, i, change),
            };
        }
        if self.fragments.held.len() >= MOST_HELD {
            return Next::Drop(Drop::NatFragment);
        }
        self.fragments.held.push_back(Held { key, at: step.now, port: frame.port, buf: copy(frame) });
        Next::Hold
    }

    /// What its port's memory has no room for goes on as a copy.
    pub(super) fn apply_to_copy(&mut self, step: &mut Step<'_, '_>, i: usize, change: Change) -> Next {
        let frame = &step.frames[i];
        let port = frame.port;
        let mut buf = copy(frame);
        let end = buf.len();
        buf.resize(end + nat64::LONGER, 0);
        let mut longer = Frame::new(&mut buf, HEAD_ROOM, end, port);
        longer.read(ETHERNET - 2).expect("it was read when it came");
        assert!(change.apply(&mut longer), "there is room");
        let buf = copy(&longer);
        self.send_on(step, i, buf)
    }
}
