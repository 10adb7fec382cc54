//! The ports by which packets may come in, according to the route back to their source (BCP 38 = RFC 2827, RFC 3704).
//!
//! | `rpf` | the route back to the source leads to |
//! |---|---|
//! | `strict` | the port that the packet came in by |
//! | `end`, the default | a port of the same end of the node: several uplinks may be used in both directions |
//! | `loose` | any port |
//! | `off` | not checked |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::frame::PortId;
use crate::port::Rpf;

/// Ports side by side, as those of an end are: the first, and the one behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    first: u16,
    end: u16,
}

impl Ports {
    /// The first so many: those of the left end.
    pub(super) fn first(n: usize) -> Ports {
        Ports { first: 0, end: n as u16 }
    }

    /// Whether a port is one of them.
    #[inline]
    pub(super) fn contains(self, port: PortId) -> bool {
        (self.first..self.end).contains(&port.0)
    }

    /// How many they are.
    pub(super) fn len(self) -> usize {
        usize::from(self.end - self.first)
    }
}

/// The ports that the route back to the source of a packet may lead to. The packet came in by `port`; `left` are the ports of the
/// left end. `None`: nothing is checked.
pub(super) fn accepted(rpf: Rpf, port: PortId, left: Ports) -> Option<Ports> {
    match rpf {
        Rpf::Strict => Some(Ports { first: port.0, end: port.0 + 1 }),
        Rpf::End if left.contains(port) => Some(left),
        Rpf::End => Some(Ports { first: left.end, end: u16::MAX }),
        Rpf::Loose => Some(Ports { first: 0, end: u16::MAX }),
        Rpf::Off => None,
    }
}
