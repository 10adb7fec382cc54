//! Where the fragments of a packet meet whose thread only the first one tells: by the port of a public address, or by the
//! packet that an error of ICMP quotes.
//!
//! ```text
//! any thread > the thread of both addresses and the identification > the thread that all of them belong to
//! ```

use crate::frame::{Frame, PortId};
use crate::stage::ByDir;
use crate::table::fragments::{FragmentTable, Packet, Piece, Room};
use crate::table::shares::Host;
use crate::time::Time;
use crate::way::Dir;

fn key(frame: &Frame<'_>) -> Packet {
    Packet::of(frame, frame.fragment_id())
}

/// What this thread knows of packets in fragments: the thread of each whose first has come, and copies of others with the
/// ports that they came in by.
#[derive(Debug)]
pub(super) struct Meeting(ByDir<FragmentTable<Packet, u8, Held>>);

/// A copy of a fragment that waits, and the port that it came in by.
#[derive(Debug)]
struct Held {
    piece: Piece,
    port: PortId,
    buf: Vec<u8>,
}

impl Meeting {
    pub(super) fn new(room: Room) -> Meeting {
        Meeting(ByDir::new(|| FragmentTable::new(room)))
    }

    /// Other limits.
    pub(super) fn limit(&mut self, room: Room) {
        self.0.each().into_iter().for_each(|fragments| fragments.limit(room));
    }

    /// A first fragment, which belongs to this thread; returns those that waited for it, with the ports they came in by.
    pub(super) fn learn(
        &mut self,
        now: Time,
        (frame, dir): (&Frame<'_>, Dir),
        thread: u8,
    ) -> Vec<(PortId, Vec<u8>)> {
        let key = key(frame);
        let fragments = &mut self.0[dir];
        fragments.learn(now, Piece::of(frame), key, thread);
        let waited = fragments.take(&key).into_iter().map(|Held { piece, port, buf }| {
            fragments.pass(now, piece, &key);
            (port, buf)
        });
        waited.collect()
    }

    /// The thread of a later fragment.
    pub(super) fn find(&mut self, now: Time, (frame, dir): (&Frame<'_>, Dir)) -> Option<u8> {
        self.0[dir].pass(now, Piece::of(frame), &key(frame))
    }

    /// Keeps a copy of a later fragment whose first has not come; tells how many gave way, of which it may be one.
    pub(super) fn hold(&mut self, now: Time, (frame, dir): (&Frame<'_>, Dir)) -> u64 {
        let held = Held { piece: Piece::of(frame), port: frame.port, buf: frame.copy() };
        self.0[dir].wait(now, Host::of(frame), key(frame), held)
    }

    /// Gives all up that wait, with the ports that they came in by.
    pub(super) fn let_go(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.0
            .each()
            .into_iter()
            .flat_map(FragmentTable::take_all)
            .map(|(_, held)| (held.port, held.buf))
            .collect()
    }

    /// Fragments that wait.
    pub(super) fn waiting(&self) -> usize {
        [Dir::Outward, Dir::Inward].map(|dir| self.0[dir].waiting()).iter().sum()
    }

    /// When the first of those that wait has waited too long.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.both().into_iter().filter_map(FragmentTable::due).min()
    }

    /// Forgets what is too old; tells how many fragments were given up.
    pub(super) fn expire(&mut self, now: Time) -> u64 {
        self.0.each().map(|fragments| fragments.expire(now)).iter().sum()
    }
}
