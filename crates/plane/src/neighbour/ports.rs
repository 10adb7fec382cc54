//! The neighbours of ports that come, change and go.

use std::net::IpAddr;

use super::{Link, Neighbours, OfPort, Slot, State};
use crate::frame::PortId;
use crate::outbox::Outbox;
use crate::tags::PortTags;

impl Neighbours {
    /// Room for ports up to this number; new ones have no addresses yet.
    pub(crate) fn make_room_for_ports(&mut self, ports: usize) {
        for _ in self.links.len()..ports {
            let tags = PortTags::Fixed(Vec::new());
            let (mac, addresses) = ([0; 6], Vec::new());
            self.links.push(Link { mac, addresses, is_outside: true, tags, is_access: false });
            self.of_ports.push(OfPort::default());
        }
        self.asked.make_room_for_ports(ports);
        self.gossip.make_room_for_ports(ports);
    }

    /// How many ports of the text are at the left end.
    pub(crate) fn left_ports(&self) -> usize {
        self.order.iter().filter(|port| !self.link(**port).is_outside).count()
    }

    /// A port is different from now on. A sweep of the neighbours is to follow.
    pub(crate) fn set_link(&mut self, port: PortId, mut link: Link) {
        link.add_link_local();
        self.links[usize::from(port.0)] = link;
    }

    /// Neighbours, used or not, are numbered up to here.
    pub(crate) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Whether there is a neighbour of this number.
    pub(crate) fn is_used(&self, slot: Slot) -> bool {
        let neighbour = &self.slots[slot.0 as usize];
        self.find(neighbour.port, neighbour.ip) == Some(slot)
    }

    /// Forgets a neighbour that its port's networks do not hold any more, unless a route leads to it or the text names it.
    pub(crate) fn forget_far(&mut self, slot: Slot, outbox: &mut Outbox) {
        let neighbour = &self.slots[slot.0 as usize];
        let is_kept = neighbour.routes > 0 || neighbour.state == State::Static;
        if !is_kept && !self.may_be_near(neighbour.port, neighbour.ip) {
            self.give_up(slot, outbox);
            self.enter(slot, State::Unknown, None);
            self.forget(slot);
        }
    }

    /// Whether a neighbour of a port can have this address.
    fn may_be_near(&self, port: PortId, ip: IpAddr) -> bool {
        let link = self.link(port);
        !link.has_lines() && link.addresses.iter().any(|local| local.contains(ip) && local.address != ip)
    }
}
