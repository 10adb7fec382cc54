//! What a stage must know of the node that it is in.

use std::net::IpAddr;

/// Longest packets of the links of the node, in bytes: of either end the shortest link counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mtus {
    pub(crate) inside: u16,
    pub(crate) outside: u16,
}

impl Default for Mtus {
    /// A bump in the wire has none of its own.
    fn default() -> Mtus {
        Mtus { inside: u16::MAX, outside: u16::MAX }
    }
}

/// What a stage knows of a node that forwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarding {
    pub(crate) mtus: Mtus,
    /// The node has addresses of IPv6.
    pub(crate) has_v6: bool,
}

/// The node around a stage, as its text says.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Its own addresses.
    pub(crate) local: Vec<IpAddr>,
    /// What else a stage knows of a node that forwards.
    pub(crate) forwarding: Option<Forwarding>,
}
