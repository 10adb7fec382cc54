//! The meaning of the hops of the routing tables. A frame's hop is looked up here, so that each takes 8 bytes.
//!
//! ```text
//! | kind: 4 bits, port: 12 bits | Ethernet address: 48 bits |
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::frame::Mac;

use super::Hop;
use crate::frame::{MOST_PORTS, PortId};

/// The meaning of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A neighbour that is known.
    Ready {
        port: PortId,
        mac: Mac,
    },
    /// A neighbour that was last heard long ago.
    Stale {
        port: PortId,
        mac: Mac,
    },
    /// A neighbour that must be asked.
    Unresolved,
    /// The destination itself is a neighbour at this port.
    Connected(PortId),
    /// The node itself.
    Local,
    /// All hosts, or a group of them: the node is one.
    All,
    /// All hosts of this port's link.
    Broadcast(PortId),
    Blackhole,
    Unreachable,
    Prohibit,
    /// No host can have the address.
    Martian,
}

/// What hops mean, by hop.
#[derive(Debug, Default)]
pub(super) struct Nexts(Vec<Place>);

/// A meaning as it lies in memory.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The kind above the number of the port.
    word: u16,
    mac: Mac,
}

const _: () = assert!(size_of::<Place>() == 8 && MOST_PORTS <= 1 << PORT_BITS);

const PORT_BITS: u32 = 12;
const READY: u16 = 0;
const STALE: u16 = 1;
const UNRESOLVED: u16 = 2;
const CONNECTED: u16 = 3;
const LOCAL: u16 = 4;
const ALL: u16 = 5;
const BROADCAST: u16 = 6;
const BLACKHOLE: u16 = 7;
const UNREACHABLE: u16 = 8;
const PROHIBIT: u16 = 9;
const MARTIAN: u16 = 10;

impl Nexts {
    /// The meaning of a hop; `None`: no route leads there, or it is a group's.
    #[inline]
    pub(super) fn get(&self, hop: Hop) -> Option<Next> {
        self.0.get(hop.0 as usize).map(|place| place.next())
    }

    /// Says what a hop means. Hops before it that mean nothing yet lead nowhere.
    pub(super) fn set(&mut self, hop: Hop, next: Next) {
        let at = hop.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Place::of(Next::Blackhole));
        }
        if let Some(place) = self.0.get_mut(at) {
            *place = Place::of(next);
        }
    }

    /// Memory that look-ups read, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl Place {
    fn of(next: Next) -> Place {
        let (kind, port, mac) = match next {
            Next::Ready { port, mac } => (READY, port, mac),
            Next::Stale { port, mac } => (STALE, port, mac),
            Next::Connected(port) => (CONNECTED, port, [0; 6]),
            Next::Broadcast(port) => (BROADCAST, port, [0; 6]),
            Next::Unresolved => (UNRESOLVED, PortId(0), [0; 6]),
            Next::Local => (LOCAL, PortId(0), [0; 6]),
            Next::All => (ALL, PortId(0), [0; 6]),
            Next::Blackhole => (BLACKHOLE, PortId(0), [0; 6]),
            Next::Unreachable => (UNREACHABLE, PortId(0), [0; 6]),
            Next::Prohibit => (PROHIBIT, PortId(0), [0; 6]),
            Next::Martian => (MARTIAN, PortId(0), [0; 6]),
        };
        Place { word: kind << PORT_BITS | port.0, mac }
    }

    #[inline(always)]
    fn next(self) -> Next {
        let Place { word, mac } = self;
        let port = PortId(word & ((1 << PORT_BITS) - 1));
        match word >> PORT_BITS {
            READY => Next::Ready { port, mac },
            STALE => Next::Stale { port, mac },
            CONNECTED => Next::Connected(port),
            BROADCAST => Next::Broadcast(port),
            UNRESOLVED => Next::Unresolved,
            LOCAL => Next::Local,
            ALL => Next::All,
            UNREACHABLE => Next::Unreachable,
            PROHIBIT => Next::Prohibit,
            MARTIAN => Next::Martian,
            _ => Next::Blackhole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_means_what_was_said() {
        let (port, mac) = (PortId(MOST_PORTS as u16 - 1), [2, 3, 4, 5, 6, 7]);
        let all = [
            Next::Ready { port, mac },
            Next::Stale { port, mac },
            Next::Unresolved,
            Next::Connected(port),
            Next::Local,
            Next::All,
            Next::Broadcast(port),
            Next::Blackhole,
            Next::Unreachable,
            Next::Prohibit,
            Next::Martian,
        ];
        let mut nexts = Nexts::default();
        (3..).zip(all).for_each(|(hop, next)| nexts.set(Hop(hop), next));
        (3..).zip(all).for_each(|(hop, next)| assert_eq!(nexts.get(Hop(hop)), Some(next)));
        assert_eq!((nexts.get(Hop(0)), nexts.get(Hop(14))), (Some(Next::Blackhole), None));
        assert_eq!(nexts.bytes(), 14 * 8);
    }
}
