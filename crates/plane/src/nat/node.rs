//! What a NAT must know of the node that it is in.

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

/// What a NAT knows of a node that forwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarding {
    pub(crate) mtus: Mtus,
    /// The node has addresses of IPv6.
    pub(crate) has_v6: bool,
}

/// The node around a NAT.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its own addresses: packets to them without a mapping are for the node itself.
    pub(super) local: Vec<u32>,
    /// The node forwards.
    pub(super) routes: bool,
    /// The node forwards, and has addresses of IPv6 that its ICMP errors come from.
    pub(super) routes6: bool,
    /// Longest packets of the inside and of the outside.
    pub(super) mtus: Mtus,
}

impl Node {
    /// One with these addresses that does not forward.
    pub(super) fn new(local: Vec<IpAddr>) -> Node {
        let v4 = |address| match address {
            IpAddr::V4(address) => Some(u32::from(address)),
            IpAddr::V6(_) => None,
        };
        Node { local: local.into_iter().filter_map(v4).collect(), ..Node::default() }
    }
}
