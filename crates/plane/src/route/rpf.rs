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
use crate::neighbour::Link;
use crate::port::Rpf;

/// The ports that the route back to the source of a packet may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    /// This one.
    Port(PortId),
    /// Those of the right end, or those of the left one.
    End { is_outside: bool },
    /// All.
    Any,
}

/// The ports that the route back to the source of a packet may lead to, which came in by `port`. `None`: nothing is checked.
pub(super) fn accepted(rpf: Rpf, port: PortId, link: &Link) -> Option<Accepted> {
    match rpf {
        Rpf::Strict => Some(Accepted::Port(port)),
        Rpf::End => Some(Accepted::End { is_outside: link.is_outside }),
        Rpf::Loose => Some(Accepted::Any),
        Rpf::Off => None,
    }
}
