//! Who gives way in a full table, so that one who floods it starves nobody else.
//!
//! ```text
//! full > of a few sessions: one that was never open, or is over, but
//!                           not for who fills the table with others  > the oldest gives way
//!                           else one of a host with much more       > the oldest gives way; an open connection of TCP only
//!                                                                     if its host fills the table
//!                           else                                    > the new one is refused
//! ```
//! What others outside begin has a limit of its own for each host, beyond which only those calls are refused.

use super::Table;
use crate::drops::DropReason;
use crate::nat::sessions::Sessions;
use crate::nat::slot::{Inside, Kind};
use crate::table::timers::Class;
use crate::table::worth::{LOOKED_AT, Least, Rivals, Worth};
use crate::time::Time;

/// Who wants one more session.
struct Newcomer<'a> {
    inside: &'a Inside,
    /// Sessions that its host has.
    sessions: u32,
    /// The mapping that it may be about to join, which must not end, has so many further sessions.
    dependents: u16,
}

impl Table {
    /// Sees that there is room for one more session of a host.
    ///
    /// # Errors
    /// The table is full, and none of those that were looked at may give way.
    pub(super) fn room_for(&mut self, now: Time, inside: &Inside) -> Result<(), DropReason> {
        match !self.is_full() || self.make_room(now, inside) {
            true => Ok(()),
            false => Err(DropReason::NatSessions),
        }
    }

    /// Ends a session that is worth less than a new one of this inside end; false if none of a few is.
    #[cold]
    fn make_room(&mut self, now: Time, inside: &Inside) -> bool {
        let joined = self.sessions.mapping(Sessions::hash(&self.secret, inside), inside);
        let host = match joined {
            0 => self.subscribers.find(&self.secret, inside.address),
            // Those of all configured mappings are one host's.
            _ => self.sessions[joined].subscriber,
        };
        let sessions = if joined == 0 && host == 0 { 0 } else { self.subscribers[host].sessions };
        let newcomer = Newcomer { inside, sessions, dependents: self.sessions[joined].dependents };
        let mut least = Least::default();
        for _ in 0..LOOKED_AT {
            self.victim = if self.victim + 1 < self.sessions.numbers() { self.victim + 1 } else { 1 };
            let Some(worth) = self.worth(self.victim, &newcomer) else { continue };
            least.look(worth, self.sessions[self.victim].seen, self.victim);
        }
        let Some(number) = least.number() else { return false };
        self.end_session(now, number);
        true
    }

    /// What a session is worth beside who wants one more; `None`: it stays.
    fn worth(&self, number: u32, newcomer: &Newcomer<'_>) -> Option<Worth> {
        let slot = &self.sessions[number];
        // Without further sessions a mapping that was not configured would end.
        let is_further = slot.kind() == Kind::Session;
        let is_needed = slot.inside() == *newcomer.inside && !(is_further && newcomer.dependents > 1);
        let ends_here = match slot.kind() {
            Kind::Free => false,
            // With further sessions it would only be known by fewer ends.
            Kind::Mapping => slot.dependents == 0,
            _ => true,
        };
        if !ends_here || is_needed || slot.is_fixed() && !is_further || self.is_foreign(slot) {
            return None;
        }
        let holder = self.subscribers[slot.subscriber].sessions;
        let rivals = Rivals { holder, newcomer: newcomer.sessions, live: self.sessions.live() };
        match slot.track.class {
            Class::TcpOpening | Class::TcpClosing | Class::TcpReset => rivals.not_open(),
            Class::TcpEstablished => rivals.open(),
            Class::Lasting => None,
            _ => rivals.holder_is_richer().then_some(Worth::OfTheRicher),
        }
    }

    /// Whether somebody outside may begin one more session of a mapping.
    ///
    /// # Errors
    /// Its host has not answered as many as it may leave unanswered.
    pub(super) fn may_call(&self, mapping: u32) -> Result<(), DropReason> {
        let host = self.sessions[mapping].subscriber;
        let is_full = host != 0 && self.subscribers[host].calls >= self.config.subscriber_calls;
        if is_full { Err(DropReason::NatQuota) } else { Ok(()) }
    }

    /// Somebody outside has begun a session.
    pub(super) fn called(&mut self, session: u32) {
        let slot = &mut self.sessions[session];
        if !slot.is_fixed() && !slot.is_called() {
            slot.set_called(true);
            self.subscribers[slot.subscriber].calls += 1;
        }
    }
}
