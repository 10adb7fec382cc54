//! Sessions with a redirected destination.

use std::collections::hash_map::Entry;

use weir_packet::headers::TCP;

use super::Table;
use super::opening::{New, begin};
use crate::drops::DropReason;
use crate::nat::flow::{Arrival, Flow};
use crate::nat::outside::{Endpoint, Space};
use crate::nat::redirect::Redirect;
use crate::nat::slot::{Inside, Kind, Remote};
use crate::table::tcp::Side;
use crate::time::Time;

/// Whether a look-up may begin a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Only a known session is found.
    Known,
    /// If there is none, the first redirect that holds for the frame begins one.
    OrBegin,
}

impl Table {
    /// Numbers the redirects: a number stands for a redirect as long as the node runs, since sessions outlive redirects.
    pub(super) fn number_redirects(&mut self, come: &[Redirect]) {
        for redirect in come {
            if let Entry::Vacant(vacant) = self.redirect_numbers.entry(*redirect) {
                vacant.insert(self.redirects.len() as u16);
                self.redirects.push(*redirect);
            }
        }
    }

    /// The redirected session of a frame from the inside; `None` if the frame is not redirected.
    pub(crate) fn outbound_redirected(
        &mut self,
        now: Time,
        flow: &Flow,
        lookup: Lookup,
    ) -> Result<Option<u32>, DropReason> {
        let known = self.redirected(now, &flow.inside, flow.remote);
        if known != 0 {
            self.heard(now, known, Side::Inside, &flow.segment);
            return Ok(Some(known));
        }
        let first = || self.config.redirects.iter().find(|redirect| redirect.holds(flow));
        let Some(redirect) = (lookup == Lookup::OrBegin).then(first).flatten() else { return Ok(None) };
        let number = self.redirect_numbers[redirect];
        // A connection that began before this redirect goes on.
        if flow.inside.proto == TCP && self.is_connected(now, flow) {
            return Ok(None);
        }
        let track = begin(flow.inside.proto, Side::Inside, &flow.segment)?;
        let new = New { kind: Kind::Redirected, redirect: number, track };
        self.create_as(now, flow.inside, flow.remote, new).map(Some)
    }

    /// The redirected session of an inside end and the destination that it asked, or 0.
    pub(crate) fn redirected(&mut self, now: Time, inside: &Inside, asked: Remote) -> u32 {
        let number = self.sessions.session(&self.secret, inside, asked, Kind::Redirected);
        self.alive(now, number)
    }

    fn is_connected(&mut self, now: Time, flow: &Flow) -> bool {
        let slot = self.mapping_of(now, &flow.inside, flow.remote).copied();
        slot.is_some_and(|slot| {
            let (outside, port) = (slot.outside, slot.outside_port);
            let space = Space::Tcp;
            self.has_session(now, Endpoint { outside, space, port }, flow.remote)
        })
    }

    /// The server of a redirected session.
    pub(crate) fn server(&self, number: u32) -> (u32, u16) {
        self.redirects[usize::from(self.sessions[number].dependents)].server
    }

    /// The destination that the inside host asked; this frame is the answer.
    pub(crate) fn inbound_redirected(
        &mut self,
        now: Time,
        arrival: &Arrival,
        number: u32,
    ) -> Result<Remote, DropReason> {
        if self.alive(now, number) == 0 {
            return Err(DropReason::NatNoMapping);
        }
        let Remote { address, port } = arrival.remote;
        if (address, port) != self.server(number) {
            return Err(DropReason::NatFiltered);
        }
        self.heard(now, number, Side::Outside, &arrival.segment);
        Ok(self.sessions[number].remote())
    }
}
