//! Mappings that hosts have asked for themselves (see `../pcp.rs`): each lasts as long as its lease, also without traffic.
//!
//! A lease counts as one more session of its mapping, which therefore lives. Afterwards it is a mapping as any other.

use weir_packet::headers::UDP;

use super::Table;
use super::opening::New;
use crate::drops::DropReason;
use crate::nat::leases::{Lease, Nonce, Refused, Wish};
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind, Remote};
use crate::table::tcp::Track;
use crate::table::timers::Class;
use crate::time::Time;

/// Leases that one call ends.
const AT_A_TIME: usize = 64;

impl Table {
    /// Leases the mapping of an inside end, which may be new, or renews the lease; returns its number.
    pub(in crate::nat) fn lease(&mut self, now: Time, wish: Wish) -> Result<u32, Refused> {
        let Wish { inside, nonce, until, is_open } = wish;
        let old = self.leases.get(&inside);
        if old.is_some_and(|old| old.nonce != nonce) {
            return Err(Refused::NotYours);
        }
        let hash = Sessions::hash(&self.secret, &inside);
        let known = self.sessions.mapping(hash, &inside);
        let mapping = match self.alive(now, known) {
            0 => {
                let new = New { kind: Kind::Mapping, redirect: 0, track: Track::plain(Class::Lasting) };
                self.create_as(now, inside, Remote::default(), new).map_err(Refused::Short)?
            }
            known => known,
        };
        let slot = &mut self.sessions[mapping];
        if slot.is_fixed() {
            // It is configured, and needs no lease.
            return Ok(mapping);
        }
        if is_open {
            slot.open();
        }
        if old.is_none() {
            let dependents = slot.dependents.checked_add(1).ok_or(Refused::Short(DropReason::NatQuota))?;
            slot.dependents = dependents;
            slot.set_shared();
            self.subscribers[slot.subscriber].sessions += 1;
        }
        self.leases.insert(inside, Lease { nonce, until });
        Ok(mapping)
    }

    /// Ends a lease, if the nonce is right.
    pub(in crate::nat) fn end_own_lease(
        &mut self,
        now: Time,
        inside: &Inside,
        nonce: Nonce,
    ) -> Result<(), Refused> {
        match self.leases.get(inside) {
            Some(lease) if lease.nonce != nonce => Err(Refused::NotYours),
            Some(_) => {
                self.end_lease(now, inside);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Ends a lease, if there is one: the sessions of its mapping live on.
    pub(super) fn end_lease(&mut self, now: Time, inside: &Inside) {
        if !self.leases.remove(inside) {
            return;
        }
        let mapping = self.sessions.mapping(Sessions::hash(&self.secret, inside), inside);
        self.sessions[mapping].close();
        self.leave(mapping);
        let slot = &mut self.sessions[mapping];
        if slot.track.class == Class::Lasting && slot.dependents == 0 {
            match silent(inside.proto) {
                Some(track) => {
                    slot.set_track(track);
                    self.sessions.renew(mapping);
                }
                None => self.remove(now, mapping, Class::Lasting),
            }
        }
    }

    /// When the first lease is over.
    pub(super) fn leases_due(&self) -> Option<Time> {
        self.leases.first_due().map(|(until, _)| until)
    }

    /// Ends leases that are over, a part of them in each call; true if there are more.
    pub(super) fn end_leases(&mut self, now: Time) -> bool {
        for _ in 0..AT_A_TIME {
            match self.leases.first_due() {
                Some((until, inside)) if until <= now => self.end_lease(now, &inside),
                _ => return false,
            }
        }
        true
    }

    /// Whether an inside end has a lease.
    pub(super) fn is_leased(&self, inside: &Inside) -> bool {
        self.leases.get(inside).is_some()
    }
}

/// The state of a mapping without a lease: without connections it lives by its last datagram.
fn silent(proto: u8) -> Option<Track> {
    (proto == UDP).then(|| Track::plain(Class::Udp))
}
