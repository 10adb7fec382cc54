//! Who gives way in a full table, so that one who floods it starves nobody else.
//!
//! ```text
//! full > of a few sessions: one that was never open, or is over     > the oldest gives way
//!                           else one of a host with much more       > the oldest gives way, unless it is an open connection
//!                           else                                    > the new one is refused
//! ```
//! What others outside begin has a limit of its own for each host, beyond which only those calls are refused.

use super::slot::{Inside, Kind};
use super::table::Table;
use crate::drops::Drop;
use crate::table::timers::Class;
use crate::time::Time;

/// Sessions that are looked at for one that may give way.
const LOOKED_AT: u32 = 16;

/// Who has as many keeps them all, however full the table is; who has more than these and twice as many as who asks does not.
const A_FEW: u32 = 16;

/// What may give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// A connection that is not open: not yet, or no more.
    NotOpen,
    /// Of a host that has much more than the one who asks.
    OfTheRicher,
}

impl Table {
    /// Sees that there is room for one more session of a host.
    ///
    /// # Errors
    /// The table is full, and none of those that were looked at may give way.
    pub(super) fn room_for(&mut self, now: Time, inside: &Inside) -> Result<(), Drop> {
        match !self.is_full() || self.make_room(now, inside) {
            true => Ok(()),
            false => Err(Drop::NatSessions),
        }
    }

    /// Ends a session that is worth less than a new one of this inside end; false if none of a few is.
    #[cold]
    fn make_room(&mut self, now: Time, inside: &Inside) -> bool {
        let host = self.subscribers.find(&self.secret, inside.address);
        let own = if host == 0 { 0 } else { self.subscribers[host].sessions };
        let mut found: Option<(Worth, u32)> = None;
        for _ in 0..LOOKED_AT {
            self.victim = if self.victim + 1 < self.sessions.numbers() { self.victim + 1 } else { 1 };
            let Some(worth) = self.worth(self.victim, own, inside) else { continue };
            let seen = self.sessions[self.victim].seen;
            let is_less = |&(other, number): &(Worth, u32)| {
                let age = seen.since(self.sessions[number].seen) as i32;
                worth < other || worth == other && age < 0
            };
            if found.as_ref().is_none_or(is_less) {
                found = Some((worth, self.victim));
            }
        }
        let Some((_, number)) = found else { return false };
        self.end_session(now, number);
        true
    }

    /// What a session is worth to whom a host gives way that has `own` sessions; `None`: it stays.
    fn worth(&self, number: u32, own: u32, inside: &Inside) -> Option<Worth> {
        let slot = &self.sessions[number];
        let ends_here = match slot.kind() {
            Kind::Free => false,
            // With further sessions it would only be known by fewer ends.
            Kind::Mapping => slot.dependents == 0,
            _ => true,
        };
        // Whoever is about to join a mapping needs that.
        if !ends_here || slot.is_fixed() || self.is_foreign(slot) || slot.inside() == *inside {
            return None;
        }
        match slot.track.class {
            Class::TcpOpening | Class::TcpClosing | Class::TcpReset => Some(Worth::NotOpen),
            Class::TcpEstablished | Class::Lasting => None,
            _ => {
                let enough = own.saturating_mul(2).saturating_add(A_FEW);
                (self.subscribers[slot.subscriber].sessions > enough).then_some(Worth::OfTheRicher)
            }
        }
    }

    /// Whether somebody outside may begin one more session of a mapping.
    ///
    /// # Errors
    /// Its host has not answered as many as it may leave unanswered.
    pub(super) fn may_call(&self, mapping: u32) -> Result<(), Drop> {
        let host = self.sessions[mapping].subscriber;
        let is_full = host != 0 && self.subscribers[host].calls >= self.config.subscriber_calls;
        if is_full { Err(Drop::NatQuota) } else { Ok(()) }
    }

    /// Somebody outside has begun a session.
    pub(super) fn called(&mut self, session: u32) {
        let slot = &mut self.sessions[session];
        if !slot.is_fixed() && !slot.is_called() {
            slot.set_called(true);
            self.subscribers[slot.subscriber].calls += 1;
        }
    }

    /// A session was answered from inside, or is over.
    #[inline]
    pub(super) fn call_is_over(&mut self, session: u32) {
        let slot = &mut self.sessions[session];
        if slot.is_called() {
            slot.set_called(false);
            self.subscribers[slot.subscriber].calls -= 1;
        }
    }
}
