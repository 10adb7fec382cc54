//! The next hops of routes: neighbours, and groups of them that share the flows of a route.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::IpAddr;

use weir_packet::frame::Mac;

use super::{BLACKHOLE, GROUPS, NEIGHBOURS, Next, NoLink, PROHIBIT, Router, UNREACHABLE, full};
use crate::frame::PortId;
use crate::neighbour::{Known, NeighbourChange, Slot, State};
use crate::outbox::Outbox;
use crate::prefix::Prefix;
use crate::route::Hop;
use crate::route::command::RouteChange;
use crate::route::config::{NextHop, Route, Target};
use crate::route::group::Group;
/// Routes of several next hops that are used together.
#[derive(Debug)]
pub(in crate::route) struct Shared {
    pub(super) group: Group,
    pub(in crate::route) members: Vec<u32>,
    /// How many routes use it; it is free if none does.
    routes: u32,
}

impl Router {
    /// Adds a route, or changes where its prefix leads.
    ///
    /// # Errors
    /// A next hop that is no neighbour; nothing has changed then.
    pub(crate) fn add(&mut self, route: &Route) -> Result<(), NoLink> {
        let hop = match &route.target {
            Target::Blackhole => BLACKHOLE,
            Target::Unreachable => UNREACHABLE,
            Target::Prohibit => PROHIBIT,
            Target::Via(gateways) => {
                let mut members = Vec::with_capacity(gateways.len());
                for gateway in gateways {
                    let slot = self.slot_of(gateway).ok_or(NoLink(gateway.address))?;
                    members.push(NEIGHBOURS + slot.0);
                }
                self.settle();
                match members[..] {
                    [one] => Hop(one),
                    _ => Hop(GROUPS + self.group(members, self.get(route.prefix))),
                }
            }
        };
        self.pin(hop);
        if let Some(old) = self.set(route.prefix, hop)
            && !self.took_own_route(route.prefix, old)
        {
            self.unpin(old);
        }
        Ok(())
    }

    /// Whether the hop of a prefix was there as a neighbour's own route, which it has no more.
    pub(super) fn took_own_route(&mut self, prefix: Prefix, hop: Hop) -> bool {
        let slot = Slot(hop.0.wrapping_sub(NEIGHBOURS));
        let is_own = self.is_own_route(prefix, hop);
        if is_own {
            self.neighbours.set_own_route(slot, false);
        }
        is_own
    }

    /// Whether the hop of a prefix is there as a neighbour's own route.
    pub(super) fn is_own_route(&self, prefix: Prefix, hop: Hop) -> bool {
        let slot = Slot(hop.0.wrapping_sub(NEIGHBOURS));
        (NEIGHBOURS..GROUPS).contains(&hop.0)
            && self.neighbours.has_own_route(slot)
            && prefix == Prefix { address: self.neighbours.known(slot).ip, len: full(prefix.address) }
    }

    /// The port of a next hop.
    fn port_of(&self, hop: &NextHop) -> Option<PortId> {
        hop.port.or_else(|| self.neighbours.port_of(hop.address))
    }

    /// The neighbour of a next hop, which may be new.
    fn slot_of(&mut self, hop: &NextHop) -> Option<Slot> {
        let port = self.port_of(hop)?;
        self.neighbours.slot(port, hop.address)
    }

    /// Takes a route out; false if there is none for this prefix.
    pub(crate) fn remove(&mut self, prefix: Prefix) -> bool {
        let Some(old) = self.unroute(prefix) else { return false };
        self.unpin(old);
        // It may have replaced the neighbour's own route.
        self.refresh_host(prefix);
        true
    }

    /// Holds these next hops until they are released, so that routes by them can be added.
    ///
    /// # Errors
    /// A next hop that is no neighbour; nothing has changed then.
    pub(crate) fn hold_gateways(&mut self, gateways: &[NextHop]) -> Result<(), NoLink> {
        for (n, gateway) in gateways.iter().enumerate() {
            match self.slot_of(gateway) {
                Some(slot) => self.neighbours.pin(slot),
                None => {
                    self.release_gateways(gateways.get(..n).unwrap_or_default());
                    return Err(NoLink(gateway.address));
                }
            }
        }
        Ok(())
    }

    /// Releases them; the routes that need them still hold them.
    #[expect(clippy::expect_used, reason = "of a change of the text, which has kept them")]
    pub(crate) fn release_gateways(&mut self, gateways: &[NextHop]) {
        for gateway in gateways {
            let slot = self.port_of(gateway).and_then(|port| self.neighbours.find(port, gateway.address));
            self.neighbours.unpin(slot.expect("it was kept"));
        }
        self.settle();
    }

    /// Sets a neighbour with a configured Ethernet address.
    pub(crate) fn fix(&mut self, port: PortId, ip: IpAddr, mac: Mac, outbox: &mut Outbox) {
        if let Some(slot) = self.neighbours.slot(port, ip) {
            self.neighbours.fix(slot, mac, outbox);
            self.settle();
        }
    }

    /// The Ethernet address of a neighbour is configured, or not any more.
    pub(crate) fn change_neighbour(&mut self, change: &NeighbourChange, outbox: &mut Outbox) {
        let NeighbourChange { port, address, was } = change;
        match was.new {
            Some(mac) => self.fix(*port, *address, mac, outbox),
            None => {
                self.neighbours
                    .find(*port, *address)
                    .into_iter()
                    .for_each(|slot| self.neighbours.unfix(slot));
                self.settle();
            }
        }
    }

    /// Changes where a prefix leads; its next hops are held.
    #[expect(clippy::expect_used, reason = "of an update, which has held them")]
    pub(crate) fn change_route(&mut self, change: RouteChange) {
        let RouteChange { prefix, was } = change;
        match was.new {
            Some(target) => self.add(&Route { prefix, target }).expect("its next hops are held"),
            None => _ = self.remove(prefix),
        }
    }

    /// The group with these members; a new group keeps the flows of the group `before`.
    fn group(&mut self, members: Vec<u32>, before: Option<Hop>) -> u32 {
        if let Some(&group) = self.by_members.get(&members) {
            return group;
        }
        let before = before.filter(|hop| hop.0 >= GROUPS).map(|hop| &self.shared(hop).group);
        let shared = Shared { group: Group::new(&members, before), members: members.clone(), routes: 0 };
        let free = self.free_groups.pop().and_then(|free| Some((free, self.groups.get_mut(free)?)));
        let group = match free {
            Some((free, place)) => {
                *place = shared;
                free
            }
            None => {
                self.groups.push(shared);
                self.groups.len() - 1
            }
        };
        self.by_members.insert(members, group as u32);
        group as u32
    }

    /// What lies under the hop of a group.
    #[expect(clippy::indexing_slicing, reason = "hops of groups are the numbers of those there are")]
    pub(in crate::route) fn shared(&self, hop: Hop) -> &Shared {
        &self.groups[(hop.0 - GROUPS) as usize]
    }

    /// One more route needs this hop: its neighbours stay.
    #[expect(clippy::indexing_slicing, reason = "hops of groups are the numbers of those there are")]
    fn pin(&mut self, hop: Hop) {
        if hop.0 >= GROUPS {
            let shared = &mut self.groups[(hop.0 - GROUPS) as usize];
            shared.routes += 1;
            if shared.routes == 1 {
                shared.members.iter().for_each(|member| self.neighbours.pin(Slot(member - NEIGHBOURS)));
            }
        } else if hop.0 >= NEIGHBOURS {
            self.neighbours.pin(Slot(hop.0 - NEIGHBOURS));
        }
    }

    /// One route fewer needs this hop: its neighbours may be forgotten.
    #[expect(clippy::indexing_slicing, reason = "hops of groups are the numbers of those there are")]
    fn unpin(&mut self, hop: Hop) {
        if hop.0 >= GROUPS {
            let shared = &mut self.groups[(hop.0 - GROUPS) as usize];
            shared.routes -= 1;
            if shared.routes == 0 {
                self.by_members.remove(&shared.members);
                self.free_groups.push((hop.0 - GROUPS) as usize);
                shared.members.iter().for_each(|member| self.neighbours.unpin(Slot(member - NEIGHBOURS)));
            }
        } else if hop.0 >= NEIGHBOURS {
            self.neighbours.unpin(Slot(hop.0 - NEIGHBOURS));
        }
        self.settle();
    }

    /// Updates the hops of neighbours that have changed.
    pub(super) fn settle(&mut self) {
        while let Some(slot) = self.neighbours.next_dirty() {
            self.refresh(slot);
        }
    }

    /// Writes what is known of a neighbour into its hop, and adds or removes its own host route.
    pub(super) fn refresh(&mut self, slot: Slot) {
        self.epochs = (self.epochs.0.wrapping_add(1), self.epochs.1.wrapping_add(1));
        let Known { port, ip, mac, state } = self.neighbours.known(slot);
        let next = match state {
            State::Unknown | State::Asking(_) => Next::Unresolved,
            State::Stale => Next::Stale { port, mac },
            State::Reachable | State::Delay | State::Probing(_) | State::Static => Next::Ready { port, mac },
        };
        let hop = Hop(NEIGHBOURS + slot.0);
        self.nexts.set(hop, next);
        let host = Prefix { address: ip, len: full(ip) };
        match self.get(host) {
            None if next != Next::Unresolved && self.neighbours.port_of(ip) == Some(port) => {
                self.set(host, hop);
                self.neighbours.set_own_route(slot, true);
            }
            // A route of the same length may lead to the neighbour as well; then it stays.
            Some(found) if found == hop && self.is_own_route(host, hop) => {
                let is_far = self.neighbours.port_of(ip) != Some(port);
                if next == Next::Unresolved || is_far {
                    self.took_own_route(host, hop);
                    self.unroute(host);
                }
                if is_far {
                    // Another port has the network now.
                    self.refresh_host(host);
                }
            }
            _ => {}
        }
    }
}
