//! Where the pieces of a packet meet whose thread only the first one tells: by the port of a public address, or by the
//! packet that an error of ICMP quotes.
//!
//! ```text
//! any thread > the thread of both addresses and the identification > the thread that all of them belong to
//! ```

use crate::frame::{Frame, Kind, PortId};
use crate::table::pieces::{Known, Waiting};
use crate::time::Time;

/// What the pieces of a packet have in common (RFC 791, RFC 8200).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// Of IPv4 or of IPv6, whose addresses may be the same numbers.
    v4: bool,
    src: u128,
    dst: u128,
    id: u32,
    proto: u8,
}

fn key(frame: &Frame<'_>) -> Key {
    let v4 = frame.kind() == Kind::V4;
    let (src, dst) = match v4 {
        true => {
            let (src, dst) = frame.addresses4();
            (src.into(), dst.into())
        }
        false => frame.addresses6(),
    };
    Key { v4, src, dst, id: frame.fragment_id(), proto: frame.proto() }
}

/// What this thread knows of packets in pieces.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    /// The thread of each.
    known: Known<Key, u8>,
    /// Copies, with the ports that they came in by.
    waiting: Waiting<Key, (PortId, Vec<u8>)>,
}

impl Meeting {
    /// A first piece, which belongs to this thread; returns those that waited for it, with the ports they came in by.
    pub(super) fn learn(&mut self, now: Time, frame: &Frame<'_>, thread: u8) -> Vec<(PortId, Vec<u8>)> {
        let key = key(frame);
        self.known.learn(now, key, thread);
        self.waiting.take(&key)
    }

    /// The thread of a later piece.
    pub(super) fn find(&self, now: Time, frame: &Frame<'_>) -> Option<u8> {
        self.known.get(&key(frame), now)
    }

    /// Keeps a copy of a later piece whose first has not come; false if there is no room.
    pub(super) fn hold(&mut self, now: Time, frame: &Frame<'_>) -> bool {
        let has_room = self.waiting.has_room();
        if has_room {
            self.waiting.push(now, key(frame), (frame.port, frame.copy()));
        }
        has_room
    }

    /// Forgets what is too old; tells how many pieces were given up.
    pub(super) fn expire(&mut self, now: Time) -> u64 {
        self.known.expire(now);
        self.waiting.expire(now)
    }
}
