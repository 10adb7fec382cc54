//! Mappings that hosts have asked for by themselves (see `pcp.rs`): each lasts as long as it was leased, whoever is silent.
//!
//! A lease counts as one more session of its mapping, which therefore lives. Afterwards it is a mapping as any other.

use std::collections::{BTreeSet, HashMap};

use weir_packet::headers::UDP;

use super::sessions::Sessions;
use super::slot::{Inside, Kind, Remote};
use super::table::{New, Table};
use crate::drops::Drop;
use crate::table::tcp::Track;
use crate::table::timers::Class;
use crate::time::Time;

/// What a host proves by that a lease is its own.
pub(super) type Nonce = [u8; 12];

/// Leases that end, per call.
const AT_A_TIME: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Lease {
    nonce: Nonce,
    until: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_inside: HashMap<Inside, Lease>,
    due: BTreeSet<(Time, Inside)>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) inside: Inside,
    pub(super) nonce: Nonce,
    pub(super) until: Time,
    /// Anybody outside may use the mapping.
    pub(super) is_open: bool,
}

/// Why there is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is somebody else's.
    NotYours,
    /// There is no port, or no more for this host.
    Short(Drop),
}

impl Table {
    /// Leases the mapping of an inside end, a new one if need be, or goes on with it; tells its number.
    pub(super) fn lease(&mut self, now: Time, wish: Wish) -> Result<u32, Refused> {
        let Wish { inside, nonce, until, is_open } = wish;
        let old = self.leases.by_inside.get(&inside).copied();
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
            slot.set_open(true);
        }
        match old {
            Some(old) => _ = self.leases.due.remove(&(old.until, inside)),
            None => {
                let dependents = slot.dependents.checked_add(1).ok_or(Refused::Short(Drop::NatQuota))?;
                slot.dependents = dependents;
                slot.set_shared();
                self.subscribers[slot.subscriber].sessions += 1;
            }
        }
        self.leases.by_inside.insert(inside, Lease { nonce, until });
        self.leases.due.insert((until, inside));
        Ok(mapping)
    }

    /// Ends a lease, if it is one's own.
    pub(super) fn end_own_lease(&mut self, now: Time, inside: &Inside, nonce: Nonce) -> Result<(), Refused> {
        match self.leases.by_inside.get(inside) {
            Some(lease) if lease.nonce != nonce => Err(Refused::NotYours),
            Some(_) => {
                self.end_lease(now, inside);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Ends a lease, if there is one: what lives of its mapping lives on.
    pub(super) fn end_lease(&mut self, now: Time, inside: &Inside) {
        let Some(lease) = self.leases.by_inside.remove(inside) else { return };
        self.leases.due.remove(&(lease.until, *inside));
        let mapping = self.sessions.mapping(Sessions::hash(&self.secret, inside), inside);
        self.sessions[mapping].set_open(false);
        self.leave(mapping);
        let slot = &mut self.sessions[mapping];
        if slot.track.class == Class::Lasting && slot.dependents == 0 {
            match Table::silent(inside.proto) {
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
        self.leases.due.first().map(|(until, _)| *until)
    }

    /// Ends leases whose time is over, a fragment of them; true if there are more.
    pub(super) fn end_leases(&mut self, now: Time) -> bool {
        for _ in 0..AT_A_TIME {
            match self.leases.due.first() {
                Some(&(until, inside)) if until <= now => self.end_lease(now, &inside),
                _ => return false,
            }
        }
        true
    }

    /// Whether an inside end has a lease.
    pub(super) fn is_leased(&self, inside: &Inside) -> bool {
        self.leases.by_inside.contains_key(inside)
    }

    /// What a mapping is without a lease: of protocols without connections it lives by its last datagram.
    fn silent(proto: u8) -> Option<Track> {
        (proto == UDP).then(|| Track::plain(Class::Udp))
    }
}
