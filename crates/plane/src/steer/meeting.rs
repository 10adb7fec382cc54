//! Where the pieces of a packet for a public address meet: only the first one tells the port, and by it the thread that
//! all of them belong to.
//!
//! ```text
//! any thread > the thread of both addresses and the identification > the thread of the port
//! ```

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::frame::{Frame, HEAD_ROOM, PortId};
use crate::time::Time;

/// Packets whose first piece is remembered.
const MOST_KNOWN: usize = 4096;
/// Pieces that wait for their first.
const MOST_HELD: usize = 256;
/// How long the others may come behind the first, and before it: as a NAT on one thread has it.
const KNOWN: Duration = Duration::from_secs(30);
const HELD: Duration = Duration::from_secs(2);

/// What the pieces of a packet of IPv4 have in common (RFC 791).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: u32,
    dst: u32,
    id: u16,
    proto: u8,
}

fn key(frame: &Frame<'_>) -> Key {
    let (src, dst) = frame.addresses4();
    Key { src, dst, id: frame.id4(), proto: frame.proto() }
}

#[derive(Debug)]
struct Held {
    key: Key,
    at: Time,
    port: PortId,
    buf: Vec<u8>,
}

/// What this thread knows of packets in pieces.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    known: HashMap<Key, (Time, u8)>,
    /// In the order of time; a packet that was seen twice stands here twice.
    order: VecDeque<(Time, Key)>,
    held: VecDeque<Held>,
}

impl Meeting {
    /// A first piece, which belongs to this thread; returns those that waited for it, with the ports they came in by.
    pub(super) fn learn(&mut self, now: Time, frame: &Frame<'_>, thread: u8) -> Vec<(PortId, Vec<u8>)> {
        while self.order.len() >= MOST_KNOWN {
            self.forget_oldest();
        }
        let key = key(frame);
        self.known.insert(key, (now, thread));
        self.order.push_back((now, key));
        if self.held.iter().all(|held| held.key != key) {
            return Vec::new();
        }
        let (of_it, others): (Vec<_>, Vec<_>) = self.held.drain(..).partition(|held| held.key == key);
        self.held.extend(others);
        of_it.into_iter().map(|held| (held.port, held.buf)).collect()
    }

    /// The thread of a later piece.
    pub(super) fn find(&self, now: Time, frame: &Frame<'_>) -> Option<u8> {
        self.known.get(&key(frame)).filter(|known| now - known.0 <= KNOWN).map(|known| known.1)
    }

    /// Keeps a copy of a later piece whose first has not come; false if there is no room.
    pub(super) fn hold(&mut self, now: Time, frame: &Frame<'_>) -> bool {
        let has_room = self.held.len() < MOST_HELD;
        if has_room {
            let buf = [&[0; HEAD_ROOM][..], &frame.untagged()].concat();
            self.held.push_back(Held { key: key(frame), at: now, port: frame.port, buf });
        }
        has_room
    }

    /// Forgets what is too old; tells how many pieces were given up.
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

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.known.get(&key).is_some_and(|known| known.0 == at)
        {
            self.known.remove(&key);
        }
    }
}
