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

/// The node around a NAT, as its text says.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Its own addresses.
    pub(crate) local: Vec<IpAddr>,
    /// What else a NAT knows of a node that forwards.
    pub(crate) forwarding: Option<Forwarding>,
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
    pub(super) fn new(surroundings: Surroundings) -> Node {
        let Surroundings { local, forwarding } = surroundings;
        let v4 = |address| match address {
            IpAddr::V4(address) => Some(u32::from(address)),
            IpAddr::V6(_) => None,
        };
        let local = local.into_iter().filter_map(v4).collect();
        match forwarding {
            Some(Forwarding { mtus, has_v6 }) => Node { local, routes: true, routes6: has_v6, mtus },
            None => Node { local, ..Node::default() },
        }
    }
}
