//! Neighbours that are asked about because a packet was for them. They may not exist: a host that scans a network makes up as
//! many as it likes (RFC 6583).
//!
//! ```text
//! frame for an unknown neighbour            > quota of its sender > question, and one more that is asked about
//!                                           used up: dropped      too many: the oldest of the sender that has most gives way
//! ```
//! Each port has this for each direction, so that outside takes nothing from inside. Neighbours that have answered, and those
//! that routes lead to, are never among these.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Slot;
use crate::dir::Dir;
use crate::frame::PortId;
use crate::limits::Limits;
use crate::stage::ByDir;
use crate::table::quota::Quota;
use crate::table::shares::{Host, Shares};
use crate::threads::Share;
use crate::time::Time;

/// Places for hosts that have the node ask.
const PLACES: usize = 256;

/// The sender of a packet for a neighbour that is not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) host: Host,
    pub(crate) dir: Dir,
}

/// A neighbour among those that are asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    dir: Dir,
    number: u64,
}

/// Those of a port in a direction.
#[derive(Debug)]
struct Asked {
    neighbours: Shares<Slot>,
    questions: Quota,
}

/// Those of all ports.
#[derive(Debug)]
pub(super) struct AskedFor {
    ports: Vec<ByDir<Asked>>,
    limits: Limits,
    share: Share,
    seed: u64,
}

impl AskedFor {
    pub(super) fn new(ports: usize, limits: &Limits, share: Share, seed: u64) -> AskedFor {
        let mut all = AskedFor { ports: Vec::new(), limits: *limits, share, seed };
        all.make_room_for_ports(ports);
        all
    }

    /// Room for ports up to this number.
    pub(super) fn make_room_for_ports(&mut self, ports: usize) {
        let (limits, share, seed) = (self.limits, self.share, self.seed);
        let asked = || Asked {
            neighbours: Shares::new(limits.unresolved(share)),
            questions: Quota::new(seed, PLACES, limits.questions(share)),
        };
        (self.ports.len()..ports).for_each(|_| self.ports.push(ByDir::new(asked)));
    }

    /// Other limits.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.limits = *limits;
        for asked in self.ports.iter_mut().flat_map(ByDir::each) {
            asked.neighbours.set_most(limits.unresolved(self.share));
            asked.questions.set_rates(limits.questions(self.share));
        }
    }

    fn of(&mut self, port: PortId, dir: Dir) -> Option<&mut Asked> {
        self.ports.get_mut(usize::from(port.0)).map(|port| &mut port[dir])
    }

    /// Whether a sender may have the node ask for one more neighbour of a port; if so, it counts.
    pub(super) fn may_ask(&mut self, now: Time, port: PortId, asker: Asker) -> bool {
        self.of(port, asker.dir).is_some_and(|asked| asked.questions.allows(now, asker.host))
    }

    /// One more is asked about. [`AskedFor::displace`] is to follow.
    pub(super) fn push(&mut self, now: Time, (port, slot): (PortId, Slot), asker: Asker) -> Option<Place> {
        let number = self.of(port, asker.dir)?.neighbours.push(now, asker.host, slot);
        Some(Place { dir: asker.dir, number })
    }

    /// One that is asked about no more, if there are too many.
    pub(super) fn displace(&mut self, port: PortId, dir: Dir) -> Option<Slot> {
        self.of(port, dir)?.neighbours.displace().map(|(_, slot)| slot)
    }

    /// It is known, or given up.
    pub(super) fn remove(&mut self, port: PortId, place: Place) {
        if let Some(asked) = self.of(port, place.dir) {
            asked.neighbours.remove(place.number);
        }
    }
}
