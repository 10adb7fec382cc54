//! Packets in pieces: what is known of those whose first piece has come, and the pieces of others, which wait for theirs.
//! Memory is bounded: what was learned first is forgotten first, and who finds no room does not wait.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::frame::{Frame, Kind};
use crate::time::Time;

/// Packets whose first piece is remembered.
const MOST_KNOWN: usize = 4096;
/// Pieces that wait for their first.
const MOST_WAITING: usize = 256;
/// How long the others may come behind the first (RFC 1122, section 3.3.2, allows 60 s and more).
const KNOWN: Duration = Duration::from_secs(30);
/// How long others may come before the first.
const WAITING: Duration = Duration::from_secs(2);

/// What the pieces of a packet have in common (RFC 791, RFC 8200).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Packet {
    /// Of IPv4 or of IPv6, whose addresses may be the same numbers.
    v4: bool,
    src: u128,
    dst: u128,
    id: u32,
    pub(crate) proto: u8,
}

impl Packet {
    /// That of a frame with this identification.
    pub(crate) fn of(frame: &Frame<'_>, id: u32) -> Packet {
        let v4 = frame.kind() == Kind::V4;
        let (src, dst) = match v4 {
            true => {
                let (src, dst) = frame.addresses4();
                (src.into(), dst.into())
            }
            false => frame.addresses6(),
        };
        Packet { v4, src, dst, id, proto: frame.proto() }
    }
}

/// What is known of packets whose first piece has come.
#[derive(Debug)]
pub(crate) struct Known<K, V> {
    packets: HashMap<K, (Time, V)>,
    /// In the order of time; a packet that was seen twice stands here twice.
    order: VecDeque<(Time, K)>,
}

impl<K: Copy + Eq + Hash, V: Copy> Known<K, V> {
    pub(crate) fn learn(&mut self, now: Time, key: K, what: V) {
        while self.order.len() >= MOST_KNOWN {
            self.forget_oldest();
        }
        self.packets.insert(key, (now, what));
        self.order.push_back((now, key));
    }

    pub(crate) fn get(&self, key: &K, now: Time) -> Option<V> {
        self.packets.get(key).filter(|known| now - known.0 <= KNOWN).map(|known| known.1)
    }

    pub(crate) fn forget(&mut self, key: &K) {
        self.packets.remove(key);
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Time) {
        while self.order.front().is_some_and(|(at, _)| now - *at > KNOWN) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.packets.get(&key).is_some_and(|known| known.0 == at)
        {
            self.packets.remove(&key);
        }
    }
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Known<K, V> {
        Known { packets: HashMap::new(), order: VecDeque::new() }
    }
}

/// Pieces that wait, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Waiting<K, P> {
    pieces: VecDeque<(Time, K, P)>,
}

impl<K: Eq, P> Waiting<K, P> {
    pub(crate) fn has_room(&self) -> bool {
        self.pieces.len() < MOST_WAITING
    }

    /// Pieces that wait.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Has a piece wait, for which there is room.
    pub(crate) fn push(&mut self, now: Time, key: K, piece: P) {
        self.pieces.push_back((now, key, piece));
    }

    /// Those of a packet.
    pub(crate) fn of(&self, key: &K) -> impl Iterator<Item = &P> {
        self.pieces.iter().filter(move |piece| piece.1 == *key).map(|piece| &piece.2)
    }

    /// Takes those of a packet out.
    pub(crate) fn take(&mut self, key: &K) -> Vec<P> {
        if self.of(key).next().is_none() {
            return Vec::new();
        }
        let (of_it, others): (Vec<_>, Vec<_>) = self.pieces.drain(..).partition(|piece| piece.1 == *key);
        self.pieces.extend(others);
        of_it.into_iter().map(|piece| piece.2).collect()
    }

    /// Takes all out.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (K, P)> {
        self.pieces.drain(..).map(|(_, key, piece)| (key, piece))
    }

    /// Gives up what has waited too long; tells how many pieces.
    pub(crate) fn expire(&mut self, now: Time) -> u64 {
        let mut lapsed = 0;
        while self.pieces.front().is_some_and(|piece| now - piece.0 > WAITING) {
            self.pieces.pop_front();
            lapsed += 1;
        }
        lapsed
    }
}

impl<K, P> Default for Waiting<K, P> {
    fn default() -> Waiting<K, P> {
        Waiting { pieces: VecDeque::new() }
    }
}
