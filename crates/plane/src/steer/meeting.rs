//! Where the fragments of a packet meet if only the first one says which thread it belongs to: by the port of a public
//! address, or by the packet that an error of ICMP quotes.
//!
//! ```text
//! any thread > the thread of both addresses and the identification > the thread that all of them belong to
//! ```

use super::Directed;
use crate::frame::Frame;
use crate::kept::Ticket;
use crate::stage::ByDir;
use crate::table::fragments::{Extent, FragmentTable, Packet, Room};
use crate::table::shares::Host;
use crate::time::Time;

fn key(frame: &Frame<'_>) -> Packet {
    Packet::of(frame, frame.fragment_id())
}

/// What this thread knows of packets in fragments: the thread of each whose first has come, and the fragments of others.
#[derive(Debug)]
pub(super) struct Meeting(ByDir<FragmentTable<Packet, u8, Waiting>>);

/// A fragment that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    extent: Extent,
    pub(super) frame: Ticket,
    /// Its addresses, mixed.
    pub(super) addresses: u32,
}

impl Meeting {
    pub(super) fn new(room: Room) -> Meeting {
        Meeting(ByDir::new(|| FragmentTable::new(room)))
    }

    /// Other limits.
    pub(super) fn limit(&mut self, room: Room) {
        self.0.each().into_iter().for_each(|fragments| fragments.limit(room));
    }

    /// A first fragment, which belongs to this thread; returns those that waited for it.
    pub(super) fn learn(&mut self, now: Time, directed: Directed<'_, '_>, thread: u8) -> Vec<Ticket> {
        let Directed { frame, dir } = directed;
        let key = key(frame);
        let fragments = &mut self.0[dir];
        fragments.learn(now, Extent::of(frame), key, thread);
        let waited = fragments.take(&key).into_iter().map(|Waiting { extent, frame, .. }| {
            fragments.pass(now, extent, &key);
            frame
        });
        waited.collect()
    }

    /// The thread of a later fragment.
    pub(super) fn find(&mut self, now: Time, directed: Directed<'_, '_>) -> Option<u8> {
        let Directed { frame, dir } = directed;
        self.0[dir].pass(now, Extent::of(frame), &key(frame))
    }

    /// A later fragment waits for its first one; returns those that gave way, of which it may be one.
    pub(super) fn wait(
        &mut self,
        now: Time,
        directed: Directed<'_, '_>,
        ticket: Ticket,
        addresses: u32,
    ) -> Vec<Waiting> {
        let Directed { frame, dir } = directed;
        let waiting = Waiting { extent: Extent::of(frame), frame: ticket, addresses };
        self.0[dir].wait(now, Host::of(frame), key(frame), waiting)
    }

    /// Takes all fragments out that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.0.each().into_iter().flat_map(FragmentTable::take_all).map(|(_, waiting)| waiting).collect()
    }

    /// Fragments that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.0.both().into_iter().flat_map(|fragments| fragments.waiting().map(|waiting| waiting.frame))
    }

    /// When the first of those that wait has waited too long.
    pub(super) fn due(&self) -> Option<Time> {
        self.0.both().into_iter().filter_map(FragmentTable::due).min()
    }

    /// Forgets what is too old; returns the fragments that were given up.
    pub(super) fn expire(&mut self, now: Time) -> impl Iterator<Item = Ticket> {
        self.0
            .each()
            .into_iter()
            .flat_map(move |fragments| fragments.expire(now))
            .map(|waiting| waiting.frame)
    }
}
