//! What was before the program began: records of the disk, sessions of the node.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::{Bng, Deadline, Outputs};
use crate::io::{AddSession, Event, NodeCommand, Output};
use crate::name::Name;
use crate::record::{Change, Record};
use crate::session::{Counters, EndCause, Lease, NO_ADDRESS, Session, SessionId};
use crate::subscribers::{Index, OnDisk, Online, Timers};

impl Bng {
    /// Takes in a record. Nothing is done because of it but a note where it changes nothing.
    pub(super) fn adopt(&mut self, record: Record, out: &mut Outputs) {
        // What a snapshot says already: the log behind it may begin earlier.
        if record.revision < self.revision {
            return;
        }
        self.revision = record.revision;
        if let Err(why) = self.apply(record.change) {
            out.push(Output::Event(Event::RecordSkipped { revision: record.revision, why }));
        }
    }

    fn apply(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::Subscriber(subscriber) => {
                self.set_subscriber(subscriber, OnDisk::Yes);
            }
            // Its record may never have been written.
            Change::SubscriberRemoved(name) => {
                if let Some(index) = self.subscribers.of_name(&name) {
                    for seat in self.subscribers.seats(index) {
                        self.adopt_end(seat, EndCause::SubscriberChanged, None, Counters::default());
                    }
                    self.forget_subscriber(index);
                }
            }
            Change::Answer { login, answer } => self.adopt_answer(login, *answer),
            Change::LastAddress { subscriber, address } => {
                let index = self.known(&subscriber)?;
                if let Some(entry) = self.subscribers.get_mut(index) {
                    entry.last_address = Some(address);
                }
                self.addresses.was_used(address);
            }
            Change::LastPrefix { subscriber, prefix } => {
                let index = self.known(&subscriber)?;
                if let Some(entry) = self.subscribers.get_mut(index) {
                    entry.last_prefix = Some(prefix);
                }
                self.prefixes.was_used(prefix);
            }
            Change::Lease { session, subscriber, start_s, counters, lease } => {
                let session = Session {
                    id: session,
                    subscriber,
                    lease,
                    start_s,
                    counters,
                    lease_end: Duration::MAX,
                    grace_until: None,
                };
                self.adopt_lease(session)?;
            }
            Change::End { session, subscriber, address, cause, ended_s, counters } => {
                let main = self.known(&subscriber)?;
                let seat = self.sessions.get(&session).copied();
                let seat = seat.filter(|seat| self.subscribers.main(*seat) == main);
                if let Some(seat) = seat {
                    self.adopt_end(seat, cause, ended_s, counters);
                }
                let entry = self.subscribers.get_mut(seat.unwrap_or(main));
                if let Some(entry) = entry.filter(|_| address != NO_ADDRESS) {
                    entry.last_address = Some(address);
                }
            }
            Change::Declined { address, subscriber, until_s } => {
                let index = self.known(&subscriber)?;
                let holder = self.addresses.holder(address);
                if let Some(seat) = holder.filter(|seat| self.subscribers.main(*seat) == index) {
                    self.adopt_end(seat, EndCause::Declined, None, Counters::default());
                }
                // If the clock was set back meanwhile, it is no longer than it would have been from now on.
                let left = until_s.saturating_sub(self.now.wall_s).min(self.config.quarantine.as_secs());
                if left > 0 && self.addresses.holder(address).is_none() {
                    self.decline(index, address, self.now.at + Duration::from_secs(left));
                }
            }
            Change::Accounted { session, what } => self.adopt_answered(session, what),
            Change::Unaccounted(of) => self.adopt_unaccounted(*of),
            Change::LostAll { at_s } => self.adopt_lost_all(at_s),
            Change::Interim { session, at_s, counters } => {
                let index = self.sessions.get(&session).copied();
                let online = index.and_then(|index| self.online_mut(index));
                let online = online.ok_or_else(|| format!("there is no session {session}"))?;
                online.session.counters = online.session.counters.max(counters);
                self.adopt_interim(session, at_s, counters);
            }
            Change::Counted { session, counters } => match self.sessions.get(&session).copied() {
                Some(index) => {
                    if let Some(online) = self.online_mut(index) {
                        online.session.counters = online.session.counters.max(counters);
                    }
                }
                None if self.adopt_counted(session, counters) => {}
                None => return Err(format!("there is no session {session}")),
            },
        }
        Ok(())
    }

    fn known(&self, name: &Name) -> Result<Index, String> {
        self.subscribers.of_name(name).ok_or_else(|| format!("there is no subscriber {name}"))
    }

    /// How much of a lease is left. Of both times the fractions of a second are not known. If the clock was set back meanwhile, all of
    /// it is left: the address is held longer than it must.
    fn left(&self, lease: &Lease) -> Duration {
        let passed_s = self.now.wall_s.saturating_sub(lease.granted_s).saturating_sub(1);
        Duration::from_secs(u64::from(lease.lease_s).saturating_sub(passed_s))
    }

    /// Takes in a lease of the records.
    fn adopt_lease(&mut self, mut session: Session) -> Result<(), String> {
        let main = self.known(&session.subscriber)?;
        let index = self.subscribers.seat(main, session.lease.seat);
        session.subscriber = self.name(index).unwrap_or(session.subscriber);
        self.config.share_port(&mut session.lease.device.line.port);
        if session.lease.ppp.is_none() {
            session.lease_end = self.now.at + self.left(&session.lease);
        }
        self.adopt_session(index, session);
        Ok(())
    }

    /// Whatever held the address ends, and the session that the subscriber had.
    fn adopt_session(&mut self, index: Index, session: Session) {
        let Lease { address, prefix, .. } = session.lease;
        // It has another seat now.
        if let Some(before) = self.sessions.get(&session.id).copied().filter(|before| *before != index) {
            self.remove_session(before);
        }
        let is_renewal = |online: &Online| online.session.id == session.id;
        let is_own = self.online_mut(index).is_some_and(|online| is_renewal(online));
        let of_address = self.addresses.holder(address);
        let of_prefix = prefix.and_then(|prefix| self.prefixes.holder(prefix));
        for holder in [of_address, of_prefix].into_iter().flatten().filter(|holder| *holder != index) {
            self.adopt_end(holder, EndCause::Replaced, None, Counters::default());
        }
        while let Some(holder) = self.holder_of_routes(&session, index) {
            self.adopt_end(holder, EndCause::Replaced, None, Counters::default());
        }
        match is_own {
            true => _ = self.remove_session(index),
            false => self.adopt_end(index, EndCause::Replaced, None, Counters::default()),
        }
        self.quarantine_ends(address);
        self.hold_address(address, index);
        prefix.into_iter().for_each(|prefix| self.prefixes.hold(prefix, index));
        self.sessions.insert(session.id, index);
        self.places.insert(&session.lease.device, session.id);
        self.note_account(&session);
        self.hold_routes(&session, index);
        if session.lease.ppp.is_none() {
            self.deadlines.insert((session.lease_end, Deadline::Lease(index)));
        }
        let (counted_at, timers) = (self.now.at, Timers::default());
        if let Some(entry) = self.subscribers.get_mut(index) {
            let (waits_for, in_node, advertised) = (None, None, None);
            entry.online = Some(Online {
                session,
                waits_for,
                is_stored: true,
                in_node,
                was_in_node: true,
                counted_at,
                advertised,
                timers,
            });
        }
        self.plan_session(index);
    }

    /// The session of a subscriber has ended; its Stop waits, unless a record behind this one says more.
    fn adopt_end(&mut self, index: Index, cause: EndCause, ended_s: Option<u64>, counters: Counters) {
        if let Some(online) = self.remove_session(index) {
            self.forget_interim(online.session.id);
            self.adopt_stop(&online, cause, ended_s.unwrap_or(self.now.wall_s), counters);
        }
    }

    /// The sessions of the node: ended ones are removed, then missing or different ones are added, which may have their addresses.
    pub(super) fn compare_node(&mut self, table: &[AddSession], out: &mut Outputs) {
        self.adopt_calls();
        let is_online = |session: &SessionId| {
            let entry = self.sessions.get(session).and_then(|index| self.subscribers.get(*index));
            entry.is_some_and(|entry| self.add_session(entry).is_some())
        };
        let ended = table.iter().map(|add| add.session).filter(|session| !is_online(session));
        let mut ended: Vec<_> = ended.collect();
        ended.sort();
        ended.dedup();
        out.extend(ended.into_iter().map(|session| Output::Node(NodeCommand::RemoveSession { session })));
        let in_node: HashSet<SessionId> = table.iter().map(|add| add.session).collect();
        self.node_has(|session| in_node.contains(&session));
        let has: HashMap<SessionId, &AddSession> = table.iter().map(|add| (add.session, add)).collect();
        let online: Vec<_> = self.sessions.iter().map(|(session, index)| (*session, *index)).collect();
        for (session, index) in online {
            let Some(add) = self.subscribers.get(index).and_then(|entry| self.add_session(entry)) else {
                continue;
            };
            let in_node =
                has.get(&session).filter(|found| ***found == add).map(|found| found.service.clone());
            if let Some(online) = self.online_mut(index) {
                online.in_node = in_node;
            }
            self.tell_node(index, out);
            self.resume_advertising(index);
        }
    }
}
