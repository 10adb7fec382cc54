//! How mappings and sessions end.
//!
//! Invariant: a mapping ends with the last of its sessions, unless it is configured; its port goes back to its block.

use super::Table;
use crate::nat::log::EventKind;
use crate::nat::outside::{Endpoint, Space};
use crate::nat::ports::{AtOnce, Taken};
use crate::nat::sessions::Sessions;
use crate::nat::slot::Kind;
use crate::table::tcp::Track;
use crate::table::timers::{Class, Tick};
use crate::time::Time;

impl Table {
    /// The number of the slot if it is alive, else 0; a session that is too old ends here.
    pub(super) fn alive(&mut self, now: Time, number: u32) -> u32 {
        let slot = &self.sessions[number];
        if number == 0 || !self.ages.over(slot.track.class, slot.seen, Tick::of(now)) {
            return number;
        }
        self.end_session(now, number);
        // A mapping may have further sessions.
        if self.is_free(number) { 0 } else { number }
    }

    pub(super) fn is_free(&self, number: u32) -> bool {
        self.sessions[number].kind() == Kind::Free
    }

    /// A session is over. A mapping ends with its last session.
    pub(super) fn end_session(&mut self, now: Time, number: u32) {
        self.call_is_over(number);
        let slot = self.sessions[number];
        match slot.kind() {
            Kind::Free => {}
            Kind::Mapping if slot.dependents > 0 => {
                self.sessions[number].set_track(Track::plain(Class::Lasting));
                self.sessions.renew(number);
            }
            Kind::Mapping | Kind::Private | Kind::Redirected => self.remove(now, number, slot.track.class),
            Kind::Session => {
                let inside = slot.inside();
                let mapping = self.sessions.mapping(Sessions::hash(&self.secret, &inside), &inside);
                self.sessions.remove(&self.secret, number);
                self.leave(mapping);
                let owner = &mut self.sessions[mapping];
                let is_needed = owner.is_fixed() && !owner.is_retired();
                if owner.dependents == 0 && owner.track.class == Class::Lasting && !is_needed {
                    self.remove(now, mapping, slot.track.class);
                }
            }
        }
    }

    /// A further session of a mapping was removed.
    pub(super) fn leave(&mut self, mapping: u32) {
        let owner = &mut self.sessions[mapping];
        owner.dependents -= 1;
        self.subscribers[owner.subscriber].sessions -= 1;
    }

    /// Removes a mapping; its last session was of this class.
    pub(super) fn remove(&mut self, now: Time, number: u32, class: Class) {
        self.call_is_over(number);
        let slot = self.sessions[number];
        let space = Space::of(slot.inside().proto).unwrap_or(Space::Other);
        let endpoint = Endpoint { outside: slot.outside, space, port: slot.outside_port };
        // Of several connections, others may have ended in another way.
        let is_closed = class == Class::TcpClosing && !slot.is_shared();
        let at_once = if is_closed { AtOnce::Yes } else { AtOnce::No };
        let rest = if slot.is_fixed() {
            None
        } else {
            let taken = Taken { endpoint, generation: slot.generation() };
            self.pool.give_back(taken, Tick::of(now), at_once)
        };
        match space {
            Space::Other => self.sessions.remove_hash(self.hash_outside(&slot), number),
            _ => self.outside.give_back(endpoint, rest),
        }
        self.foreign -= u32::from(self.is_foreign(&slot));
        self.sessions.remove(&self.secret, number);
        if !slot.is_fixed() {
            self.subscribers[slot.subscriber].sessions -= 1;
            self.log_session(now, EventKind::SessionDeleted, &slot);
            self.subscribers.forget_idle(&self.secret, slot.subscriber);
        }
    }

    /// A session that was begun outside was answered, or is over.
    #[inline]
    pub(super) fn call_is_over(&mut self, session: u32) {
        let slot = &mut self.sessions[session];
        if slot.is_called() {
            slot.clear_called();
            self.subscribers[slot.subscriber].calls -= 1;
        }
    }
}
