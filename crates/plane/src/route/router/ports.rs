//! The ports of a router while it runs: what their addresses say about routes, and how that changes.
//!
//! ```text
//! addresses of a port > its own ones, its networks, their broadcast addresses > base > tables, where no route of the text is
//! ```
//! Invariant: `base` has for each prefix what the last port in the order of the text says, of the ports that have it, and the tables
//! have that unless a route, a subscriber or, where `base` has nothing, a neighbour has the prefix.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use weir_packet::frame::Mac;

use super::{ALL, BROADCAST, CONNECTED, LOCAL, MARTIAN, Next, Router, full};
use crate::frame::PortId;
use crate::neighbour::{Known, Link, Slot};
use crate::outbox::Outbox;
use crate::port::Rpf;
use crate::prefix::{Prefix, is_link_local};
use crate::route::{Hop, Lpm, rpf};
use crate::tags::PortTags;

/// What a port is from now on.
#[derive(Debug, Clone)]
pub(crate) struct PortChange {
    pub(crate) port: PortId,
    /// Its Ethernet address; `None`: as before.
    pub(crate) mac: Option<Mac>,
    pub(crate) addresses: Vec<Prefix>,
    /// It is of the right end.
    pub(crate) is_outside: bool,
    pub(crate) tags: PortTags,
    pub(crate) is_access: bool,
    pub(crate) mtu: u16,
    pub(crate) rpf: Rpf,
}

/// A look at all neighbours behind changes of ports, a part in each call.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The ports that have changed.
    pub(crate) ports: BTreeSet<PortId>,
    /// The networks that they have, or had.
    pub(crate) networks: Vec<Prefix>,
    /// The number of the next neighbour.
    pub(crate) from: u32,
}

/// How often one call of [`Router::sweep`] compares a neighbour with a network.
const LOOKS_PER_SWEEP: u32 = 1 << 13;

/// A prefix that follows from an address of a port.
pub(super) struct Connected {
    pub(super) prefix: Prefix,
    pub(super) hop: Hop,
}

/// What follows from a port's addresses; of two with the same prefix the last one counts.
pub(super) fn connected(port: PortId, link: &Link) -> Vec<Connected> {
    let mut all = Vec::new();
    for local in &link.addresses {
        if local.len < full(local.address) && !is_link_local(local.address) {
            all.push(Connected { prefix: local.network(), hop: Hop(CONNECTED + u32::from(port.0)) });
        }
        if let IpAddr::V4(address) = local.address
            && local.len < 31
        {
            let last = u32::from(address) | !crate::prefix::mask4(local.len);
            let prefix = Prefix { address: Ipv4Addr::from(last).into(), len: 32 };
            all.push(Connected { prefix, hop: Hop(BROADCAST + u32::from(port.0)) });
        }
    }
    let own = |local: &Prefix| Prefix { address: local.address, len: full(local.address) };
    all.extend(link.addresses.iter().map(|local| Connected { prefix: own(local), hop: LOCAL }));
    all
}

impl Router {
    /// Room for ports up to this number; new ones have no addresses yet.
    pub(crate) fn make_room_for_ports(&mut self, ports: usize) {
        for port in self.mtus.len()..ports {
            let port = PortId(port as u16);
            self.nexts.set(Hop(CONNECTED + u32::from(port.0)), Next::Connected(port));
            self.nexts.set(Hop(BROADCAST + u32::from(port.0)), Next::Broadcast(port));
            self.mtus.push(0);
            self.accepted.push(None);
        }
        self.neighbours.make_room_for_ports(ports);
    }

    /// So many ports have room.
    pub(crate) fn ports(&self) -> usize {
        self.mtus.len()
    }

    /// The order of the ports in the text.
    pub(crate) fn set_order(&mut self, order: Vec<PortId>) {
        self.neighbours.order = order;
    }

    /// A port is different from now on; there is room for it.
    #[expect(clippy::indexing_slicing, reason = "there is room for each port")]
    pub(crate) fn change_port(&mut self, change: PortChange) {
        let PortChange { port, mac, addresses, is_outside, tags, is_access, mtu, rpf } = change;
        let before = connected(port, self.neighbours.link(port));
        let mac = mac.unwrap_or(self.neighbours.link(port).mac);
        self.neighbours.set_link(port, Link { mac, addresses, is_outside, tags, is_access });
        let behind = connected(port, self.neighbours.link(port));
        let number = usize::from(port.0);
        self.mtus[number] = mtu;
        self.accepted[number] = rpf::accepted(rpf, port, self.neighbours.link(port));
        self.left_ports = self.neighbours.left_ports();
        let prefixes: BTreeSet<Prefix> =
            before.iter().chain(&behind).map(|connected| connected.prefix).collect();
        prefixes.into_iter().for_each(|prefix| self.rebase(prefix));
        // What is known of a frame's way may have changed even where no prefix has.
        self.epochs = (self.epochs.0.wrapping_add(1), self.epochs.1.wrapping_add(1));
        self.settle();
    }

    /// Looks at some neighbours, whether they still are neighbours of their ports; true: there are more to look at.
    pub(crate) fn sweep(&mut self, sweep: &mut Sweep, outbox: &mut Outbox) -> bool {
        let most = (LOOKS_PER_SWEEP / (sweep.networks.len() as u32 + 1)).max(1);
        let end = self.neighbours.end().min(sweep.from.saturating_add(most));
        for slot in
            (sweep.from..end).map(Slot).filter(|slot| self.neighbours.is_used(*slot)).collect::<Vec<_>>()
        {
            let Known { port, ip, .. } = self.neighbours.known(slot);
            if sweep.ports.contains(&port) {
                self.neighbours.forget_far(slot, outbox);
            }
            if sweep.networks.iter().any(|network| network.contains(ip)) {
                self.refresh(slot);
            }
        }
        self.settle();
        sweep.from = end;
        end < self.neighbours.end()
    }

    /// What the ports say about a prefix, and what is never forwarded.
    fn base_of(&self, prefix: Prefix) -> Option<Hop> {
        // Most ports have nothing to do with it.
        let is_near = |port: &PortId| {
            self.neighbours.link(*port).addresses.iter().any(|local| local.contains(prefix.address))
        };
        let of_ports = self.neighbours.order.iter().rev().filter(|port| is_near(port)).find_map(|&port| {
            let all = connected(port, self.neighbours.link(port));
            all.into_iter().rev().find(|connected| connected.prefix == prefix)
        });
        let before = self.base.get(&prefix).copied();
        let is_of_no_port = |hop: &Hop| matches!(*hop, ALL | MARTIAN | super::BLACKHOLE);
        of_ports.map(|connected| connected.hop).or(before.filter(is_of_no_port))
    }

    /// Sets what ports say about a prefix.
    pub(super) fn set_base(&mut self, prefix: Prefix, hop: Hop) {
        self.base.insert(prefix, hop);
        self.set(prefix, hop);
    }

    /// Finds out anew what the ports say about a prefix.
    fn rebase(&mut self, prefix: Prefix) {
        let (now, before) = (self.base_of(prefix), self.base.get(&prefix).copied());
        if now == before {
            return;
        }
        match now {
            Some(hop) => _ = self.base.insert(prefix, hop),
            None => _ = self.base.remove(&prefix),
        }
        let there = self.get(prefix);
        if there == before || there.is_some_and(|there| self.is_replaced(prefix, there, now)) {
            there.map(|there| self.took_own_route(prefix, there));
            self.unroute(prefix);
            self.refresh_host(prefix);
        }
    }

    /// Whether what ports say about a prefix replaces this hop: that of a neighbour of its own, or of a subscriber by an address of
    /// the node.
    fn is_replaced(&self, prefix: Prefix, there: Hop, now: Option<Hop>) -> bool {
        let is_subscriber = (CONNECTED..BROADCAST).contains(&there.0);
        now.is_some() && (self.is_own_route(prefix, there) || is_subscriber && now == Some(LOCAL))
    }

    /// A prefix has no route any more: what ports say about it is true again.
    pub(super) fn unroute(&mut self, prefix: Prefix) -> Option<Hop> {
        if let Some(&hop) = self.base.get(&prefix) {
            return self.set(prefix, hop);
        }
        self.epochs.0 = self.epochs.0.wrapping_add(1);
        match prefix.address {
            IpAddr::V4(address) => self.v4.remove(address.into(), prefix.len),
            IpAddr::V6(address) => self.v6.remove(address.into(), prefix.len),
        }
    }

    /// The neighbour with this address may have a route of its own again.
    pub(super) fn refresh_host(&mut self, host: Prefix) {
        if host.len == full(host.address)
            && let Some(port) = self.neighbours.port_of(host.address)
            && let Some(slot) = self.neighbours.find(port, host.address)
        {
            self.refresh(slot);
        }
    }
}
