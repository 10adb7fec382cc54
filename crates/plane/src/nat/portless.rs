//! Protocols without ports, as GRE and ESP: one host at a time for each public address and remote end.
//!
//! ```text
//! inside, protocol, remote  <->  outside address, protocol, remote        found by either side
//! ```
//! A second host that shares the public address with the first and talks to the same remote end gets nothing: nobody could
//! tell to whom an answer is.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::slot::{Inside, Kind, Remote, Slot};
use super::table::{Flow, Table};
use super::{Nat, Next};
use crate::address::mapped4;
use crate::drops::Drop;
use crate::stage::Step;
use crate::table::tcp::Segment;
use crate::table::timers::Tick;
use crate::time::Time;

impl Table {
    /// The hash under which a slot lies for the outside.
    pub(super) fn hash_outside(&self, slot: &Slot) -> u32 {
        self.hash_of_outside(slot.outside, slot.inside().proto, slot.remote().address)
    }

    fn hash_of_outside(&self, outside: u16, proto: u8, remote: u32) -> u32 {
        self.secret.hash([0, 0, u32::from(outside), remote], 1 << 62 | u64::from(proto))
    }

    /// The slot of a protocol without ports between an outside address and a remote one, or 0.
    pub(super) fn portless(&mut self, now: Time, outside: u16, proto: u8, remote: u32) -> u32 {
        let is = |slot: &Slot| {
            (slot.kind(), slot.outside, slot.inside().proto) == (Kind::Private, outside, proto)
                && slot.remote() == Remote { address: remote, port: 0 }
        };
        let number = self.sessions.find(self.hash_of_outside(outside, proto, remote), is);
        self.alive(now, number)
    }

    /// The slot of a frame from inside, a new one if need be.
    fn outbound_portless(&mut self, now: Time, inside: Inside, remote: u32) -> Result<u32, Drop> {
        let remote = Remote { address: remote, port: 0 };
        let known = self.sessions.session(&self.secret, &inside, remote, Kind::Private);
        match self.alive(now, known) {
            0 => self.create(now, &Flow { inside, remote, segment: Segment::default() }),
            known => {
                self.sessions[known].seen = Tick::of(now);
                Ok(known)
            }
        }
    }
}

impl Nat {
    /// A packet without ports on its way out.
    pub(super) fn out_portless(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        let frame = &mut step.frames[i];
        let (src, dst) = frame.addresses4();
        if self.is_public(dst) {
            return if self.local.contains(&dst) { Next::On } else { Next::Drop(Drop::NatProtocol) };
        }
        let inside = Inside { address: mapped4(src), port: 0, proto: frame.proto() };
        let number = match self.table.outbound_portless(step.now, inside, dst) {
            Ok(number) => number,
            Err(reason) => return self.refuse(step, i, reason),
        };
        let outside = self.table.sessions[number].outside;
        frame.set_src4(self.table.outside.address(outside));
        if !frame.keeps_whole() {
            frame.set_id4(self.next_id(outside));
        }
        Next::On
    }

    /// A packet without ports for a public address.
    pub(super) fn back_portless(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        let frame = &mut step.frames[i];
        let (src, dst) = frame.addresses4();
        let outside = self.table.outside.number(dst);
        let number = outside.map_or(0, |outside| self.table.portless(step.now, outside, frame.proto(), src));
        if number == 0 {
            return if self.local.contains(&dst) { Next::On } else { Next::Drop(Drop::NatNoMapping) };
        }
        let [_, _, _, inside] = self.table.sessions[number].inside().address;
        frame.set_dst4(inside);
        Next::On
    }
}
