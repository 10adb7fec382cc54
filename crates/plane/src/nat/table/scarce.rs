//! Which session is evicted from a full table, so that a host that floods it starves no other host.
//!
//! ```text
//! full > of a few sessions: one that was never open, or is over, but
//!                           not for a host that floods the table    > the oldest is evicted
//!                           else one of a host with many more       > the oldest is evicted; an open TCP connection only
//!                                                                     if its host floods the table
//!                           else                                    > the new one is refused
//! ```
//! Sessions that begin outside have a limit of their own for each host, beyond which only those are refused.

use super::Table;
use crate::drops::DropReason;
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind};
use crate::table::eviction::{CANDIDATES, Candidate, EvictionClass, Holdings};
use crate::table::timers::Class;
use crate::time::Time;

/// The inside end that wants one more session.
struct Newcomer<'a> {
    inside: &'a Inside,
    /// Sessions that its host has.
    sessions: u32,
    /// The mapping that it may join has so many further sessions; it must not end.
    dependents: u16,
}

impl Table {
    /// Makes room for one more session of a host, if need be.
    ///
    /// # Errors
    /// The table is full, and none of the candidates may be evicted.
    pub(super) fn room_for(&mut self, now: Time, inside: &Inside) -> Result<(), DropReason> {
        if !self.is_full() || self.make_room(now, inside) { Ok(()) } else { Err(DropReason::NatSessions) }
    }

    /// Evicts a session for a new one of this inside end; false if none of the candidates may be evicted.
    #[cold]
    fn make_room(&mut self, now: Time, inside: &Inside) -> bool {
        let joined = self.sessions.mapping(Sessions::hash(&self.secret, inside), inside);
        let host = match joined {
            0 => self.subscribers.find(&self.secret, inside.address),
            // Configured mappings have one owner.
            _ => self.sessions[joined].subscriber,
        };
        let sessions = if joined == 0 && host == 0 { 0 } else { self.subscribers[host].sessions };
        let newcomer = Newcomer { inside, sessions, dependents: self.sessions[joined].dependents };
        let mut best = Candidate::default();
        for _ in 0..CANDIDATES {
            self.victim = if self.victim + 1 < self.sessions.numbers() { self.victim + 1 } else { 1 };
            let Some(class) = self.eviction_class(self.victim, &newcomer) else { continue };
            best.look(class, self.sessions[self.victim].seen, self.victim);
        }
        let Some(number) = best.number() else { return false };
        self.end_session(now, number);
        true
    }

    /// The class of a session as a candidate for eviction; `None`: it stays.
    fn eviction_class(&self, number: u32, newcomer: &Newcomer<'_>) -> Option<EvictionClass> {
        let slot = &self.sessions[number];
        // A mapping ends without further sessions, unless it is configured.
        let is_further = slot.kind() == Kind::Session;
        let is_needed = slot.inside() == *newcomer.inside && !(is_further && newcomer.dependents > 1);
        let ends_here = match slot.kind() {
            Kind::Free => false,
            // With further sessions, evicting it would only forget one remote end.
            Kind::Mapping => slot.dependents == 0,
            _ => true,
        };
        if !ends_here || is_needed || slot.is_fixed() && !is_further || self.is_foreign(slot) {
            return None;
        }
        let holder = self.subscribers[slot.subscriber].sessions;
        let holdings = Holdings { holder, newcomer: newcomer.sessions, live: self.sessions.live() };
        match slot.track.class {
            Class::TcpOpening | Class::TcpClosing | Class::TcpReset => holdings.not_open(),
            Class::TcpEstablished => holdings.open(),
            Class::Lasting => None,
            _ => holdings.holder_has_more().then_some(EvictionClass::Renewable),
        }
    }

    /// Whether a remote host may begin one more session of a mapping.
    ///
    /// # Errors
    /// The inside host has left as many sessions unanswered as it may.
    pub(super) fn may_call(&self, mapping: u32) -> Result<(), DropReason> {
        let host = self.sessions[mapping].subscriber;
        let is_full = host != 0 && self.subscribers[host].calls >= self.config.subscriber_calls;
        if is_full { Err(DropReason::NatQuota) } else { Ok(()) }
    }

    /// A remote host has begun a session.
    pub(super) fn called(&mut self, session: u32) {
        let slot = &mut self.sessions[session];
        if !slot.is_fixed() && !slot.is_called() {
            slot.set_called();
            self.subscribers[slot.subscriber].calls += 1;
        }
    }
}
