//! Where the pieces of a packet meet whose thread only the first one tells: by the port of a public address, or by the
//! packet that an error of ICMP quotes.
//!
//! ```text
//! any thread > the thread of both addresses and the identification > the thread that all of them belong to
//! ```

use crate::frame::{Frame, PortId};
use crate::table::pieces::{Known, Packet, Waiting};
use crate::time::Time;

fn key(frame: &Frame<'_>) -> Packet {
    Packet::of(frame, frame.fragment_id())
}

/// What this thread knows of packets in pieces.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    /// The thread of each.
    known: Known<Packet, u8>,
    /// Copies, with the ports that they came in by.
    waiting: Waiting<Packet, (PortId, Vec<u8>)>,
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

    /// Gives all up that wait, with the ports that they came in by.
    pub(super) fn let_go(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.waiting.take_all().map(|(_, waited)| waited).collect()
    }

    /// Pieces that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Forgets what is too old; tells how many pieces were given up.
    pub(super) fn expire(&mut self, now: Time) -> u64 {
        self.known.expire(now);
        self.waiting.expire(now)
    }
}
