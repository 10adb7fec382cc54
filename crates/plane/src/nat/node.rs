//! What a NAT must know of the node that it is in.

use std::net::IpAddr;

use crate::stage::{Forwarding, Mtus, Surroundings};

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
    pub(super) fn new(surroundings: &Surroundings) -> Node {
        let Surroundings { local, forwarding } = surroundings;
        let v4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(u32::from(*address)),
            IpAddr::V6(_) => None,
        };
        let local = local.iter().filter_map(v4).collect();
        match *forwarding {
            Some(Forwarding { mtus, has_v6 }) => Node { local, routes: true, routes6: has_v6, mtus },
            None => Node { local, ..Node::default() },
        }
    }
}
