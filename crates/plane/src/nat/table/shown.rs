//! Mappings and sessions to be shown, a page of them at a time.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::{SocketAddr, SocketAddrV4};

use weir_packet::headers::{ICMP, TCP, UDP};

use super::Table;
use crate::address::address_of;
use crate::nat::answer::NatSession;
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind, Slot};
use crate::table::page::Page;

/// An address of IPv4 with a port.
type End = (u32, u16);

/// A mapping or session, as it was when the page was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapped {
    inside: Inside,
    outside: End,
    far: End,
    /// The server that replaces the remote end, if the session is redirected.
    server: Option<End>,
}

impl Table {
    /// Mappings and sessions from this number on, a page of them.
    pub(crate) fn shown(&self, from: u32) -> Page<Mapped> {
        let is_shown = |slot: &&Slot| slot.kind() != Kind::Free && !self.is_foreign(slot);
        let one = |number: u32| Some(&self.sessions[number]).filter(is_shown).map(|slot| self.mapped(slot));
        Page::of(from.max(1)..self.sessions.numbers(), one)
    }

    fn mapped(&self, slot: &Slot) -> Mapped {
        let (inside, remote) = (slot.inside(), slot.remote());
        let server = match slot.kind() {
            Kind::Redirected => self.redirects.get(usize::from(slot.dependents)).map(|to| to.server),
            _ => None,
        };
        // A further session has the outside end of its mapping.
        let slot = match slot.kind() {
            Kind::Session => {
                let hash = Sessions::hash(&self.secret, &inside);
                &self.sessions[self.sessions.mapping(hash, &inside)]
            }
            _ => slot,
        };
        let outside = (self.outside.address(slot.outside), slot.outside_port);
        Mapped { inside, outside, far: (remote.address, remote.port), server }
    }
}

impl Mapped {
    /// The same for programs.
    pub(crate) fn record(&self) -> NatSession {
        let Inside { address, port, proto } = self.inside;
        let proto = match proto {
            TCP => "tcp".to_string(),
            UDP => "udp".to_string(),
            ICMP => "icmp".to_string(),
            other => other.to_string(),
        };
        let end = |(address, port): End| SocketAddrV4::new(address.into(), port);
        NatSession {
            proto,
            inside: SocketAddr::new(address_of(address), port),
            outside: end(self.outside),
            remote: end(self.far),
            server: self.server.map(end),
        }
    }
}
