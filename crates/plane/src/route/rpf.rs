//! By which port packets may come in, as the way back to their source says (BCP 38 = RFC 2827, RFC 3704).
//!
//! | `rpf` | the way back to the source leads to |
//! |---|---|
//! | `strict` | the port that the packet came in by |
//! | `end`, if the text says nothing | a port of the same end of the node: several uplinks may be used in both directions |
//! | `loose` | any port |
//! | `off` | not asked |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use crate::frame::PortId;

/// What is asked of the way back to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rpf {
    /// It leads to the port that the packet came in by.
    Strict,
    /// It leads to a port of the same end.
    #[default]
    End,
    /// It leads to any port.
    Loose,
    /// Nothing.
    Off,
}

impl Rpf {
    /// By their names in texts.
    pub(crate) const NAMES: [(&str, Rpf); 4] =
        [("strict", Rpf::Strict), ("end", Rpf::End), ("loose", Rpf::Loose), ("off", Rpf::Off)];

    /// The ports that the way back may lead to of a packet that came in by `port`, a bit for each, where these are at the left
    /// end; `None`: nothing is asked.
    pub(super) fn accepted(self, port: PortId, left: u64) -> Option<u64> {
        match self {
            Rpf::Strict => Some(bit(port)),
            Rpf::End if bit(port) & left != 0 => Some(left),
            Rpf::End => Some(!left),
            Rpf::Loose => Some(u64::MAX),
            Rpf::Off => None,
        }
    }
}

/// A set of ports with this one alone.
pub(super) const fn bit(port: PortId) -> u64 {
    1 << (port.0 % 64)
}
