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

/// The ports that the route back to the source of a packet may lead to, a bit for each. The packet came in by `port`; `left` has
/// the ports of the left end. `None`: nothing is checked.
pub(super) fn accepted(rpf: Rpf, port: PortId, left: u64) -> Option<u64> {
    match rpf {
        Rpf::Strict => Some(bit(port)),
        Rpf::End if bit(port) & left != 0 => Some(left),
        Rpf::End => Some(!left),
        Rpf::Loose => Some(u64::MAX),
        Rpf::Off => None,
    }
}

/// A set of ports with this one alone.
pub(super) const fn bit(port: PortId) -> u64 {
    1 << (port.0 % 64)
}
