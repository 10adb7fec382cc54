//! Destinations that lead elsewhere: who asks one of them reaches a server of the network's own, as a resolver, and hears
//! it as the one that was asked.
//!
//! ```text
//!  outward   inside > asked      becomes   X':x' > server
//!  inward    server > X':x'      becomes   asked > inside
//! ```
//! Each inside end has an outside port of its own for each destination that it asks, so that two of them asked from one
//! socket are told apart though one server answers for both. Nobody but the server is let in. The server is outside, or a
//! public end that a forward leads inside; who asks a public address of the NAT or the node itself is not redirected.

use std::net::Ipv4Addr;

use weir_packet::headers::TCP;

use super::slot::{Inside, Kind, Remote};
use super::table::{Arrival, Flow, New, Table};
use super::{Nat, Next};
use crate::drops::Drop;
use crate::prefix::Prefix;
use crate::stage::Step;
use crate::table::tcp::{Segment, Side};
use crate::time::Time;

/// Destinations that lead to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) proto: u8,
    /// Who is redirected.
    pub(crate) from: Prefix,
    /// Destinations, and their port.
    pub(crate) asked: (Prefix, u16),
    pub(crate) server: (u32, u16),
}

impl Redirect {
    /// Whether it is about a destination.
    fn is_asked(&self, proto: u8, remote: Remote) -> bool {
        let (network, port) = self.asked;
        (proto, remote.port) == (self.proto, port)
            && network.contains(Ipv4Addr::from(remote.address).into())
            && (remote.address, remote.port) != self.server
    }

    fn holds(&self, flow: &Flow) -> bool {
        let [_, _, _, inside] = flow.inside.address;
        self.is_asked(flow.inside.proto, flow.remote) && self.from.contains(Ipv4Addr::from(inside).into())
    }
}

impl Table {
    /// Redirects by number are those that ever were configured: sessions outlive them.
    pub(super) fn number_redirects(&mut self) {
        for redirect in &self.config.redirects {
            if !self.redirects.contains(redirect) {
                self.redirects.push(*redirect);
            }
        }
    }

    /// The redirected session of a frame from the inside, a new one if need be; `None` if it goes where it wants to.
    fn outbound_redirected(&mut self, now: Time, flow: &Flow) -> Result<Option<u32>, Drop> {
        if !self.redirects.iter().any(|redirect| redirect.is_asked(flow.inside.proto, flow.remote)) {
            return Ok(None);
        }
        let known = self.redirected(now, &flow.inside, flow.remote);
        if known != 0 {
            self.heard(now, known, Side::Inside, &flow.segment);
            return Ok(Some(known));
        }
        let Some(redirect) = self.config.redirects.iter().find(|redirect| redirect.holds(flow)) else {
            return Ok(None);
        };
        let number = self.redirects.iter().position(|other| other == redirect).expect("it was numbered");
        // A connection that began before there was this redirect goes on.
        if flow.inside.proto == TCP && self.is_connected(now, flow) {
            return Ok(None);
        }
        let track = Table::begin(flow.inside.proto, Side::Inside, &flow.segment)?;
        let new = New { kind: Kind::Redirected, redirect: number as u16, track };
        self.create_as(now, flow.inside, flow.remote, new).map(Some)
    }

    /// The redirected session of an inside end and the destination that it asked, or 0.
    pub(super) fn redirected(&mut self, now: Time, inside: &Inside, asked: Remote) -> u32 {
        let number = self.sessions.session(&self.secret, inside, asked, Kind::Redirected);
        self.alive(now, number)
    }

    fn is_connected(&mut self, now: Time, flow: &Flow) -> bool {
        let slot = self.mapping_of(now, &flow.inside, flow.remote).copied();
        slot.is_some_and(|slot| {
            let (outside, port) = (slot.outside, slot.outside_port);
            let space = super::outside::Space::Tcp;
            self.has_session(now, super::outside::Place { outside, space, port }, flow.remote)
        })
    }

    /// The server of a redirected session.
    pub(super) fn server(&self, number: u32) -> (u32, u16) {
        self.redirects[usize::from(self.sessions[number].dependents)].server
    }

    /// What the inside asked for to which this frame is the answer.
    fn inbound_redirected(&mut self, now: Time, arrival: &Arrival, number: u32) -> Result<Remote, Drop> {
        if self.alive(now, number) == 0 {
            return Err(Drop::NatNoMapping);
        }
        let Remote { address, port } = arrival.remote;
        if (address, port) != self.server(number) {
            return Err(Drop::NatFiltered);
        }
        self.heard(now, number, Side::Outside, &arrival.segment);
        Ok(self.sessions[number].remote())
    }
}

impl Nat {
    /// A packet with ports on its way out, if it is redirected.
    pub(super) fn out_redirected(&mut self, step: &mut Step<'_, '_>, i: usize) -> Option<Next> {
        let flow = super::flow(&step.frames[i]);
        let asked = flow.remote.address;
        if self.table.redirects.is_empty() || self.is_own(asked) || self.local.contains(&asked) {
            return None;
        }
        let number = match self.table.outbound_redirected(step.now, &flow) {
            Ok(number) => number?,
            Err(reason) => return Some(self.refuse(step, i, reason)),
        };
        let (address, port) = self.table.server(number);
        let frame = &mut step.frames[i];
        frame.set_destination4(address, port);
        self.translate_source(frame, number);
        Some(if self.is_own(address) { Next::Hairpin } else { Next::On })
    }

    /// A packet for the port of a redirected session.
    pub(super) fn back_redirected(&mut self, step: &mut Step<'_, '_>, i: usize, number: u32) -> Next {
        let place = self.place(&step.frames[i]).expect("a session has it");
        let frame = &mut step.frames[i];
        let (remote, segment) = (super::remote(frame), Segment::of(frame));
        let arrival = Arrival { place, proto: frame.proto(), remote, segment };
        match self.table.inbound_redirected(step.now, &arrival, number) {
            Ok(asked) => {
                let Inside { address: [_, _, _, inside], port, .. } = self.table.sessions[number].inside();
                frame.set_source4(asked.address, asked.port);
                frame.set_destination4(inside, port);
                if let Some(mss) = self.table.config.mss {
                    super::clamp(frame, mss);
                }
                Next::On
            }
            Err(reason) => Next::Drop(reason),
        }
    }
}
