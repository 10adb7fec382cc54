//! How sessions begin, go on and end.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use super::dhcp::Grant;
use super::{Bng, Deadline, Outputs, Quarantine, Wait, Waiting};
use crate::account::{Account, Facts};
use crate::drops::DropReason;
use crate::io::{AddSession, Event, LinkState, NodeCommand, Output};
use crate::line::PortName;
use crate::places::Places;
use crate::plan::Plan;
use crate::record::Change;
use crate::session::{Counters, Device, EndCause, Lease, NO_ADDRESS, Session, SessionId};
use crate::subscriber::{Service, Subscriber};
use crate::subscribers::{Entry, Index, Offer, OnDisk, Online, Timers};
use crate::why::Outcome;

/// Least time between two records that only say what a session counted.
const COUNTED_EVERY: Duration = Duration::from_secs(60);
/// Most addresses in quarantine because of one subscriber; its next one ends that of its first.
const MOST_DECLINED: usize = 3;

impl Bng {
    /// Grants or renews the lease of an address that the subscriber may have; the client is answered when it is on disk.
    pub(super) fn grant(&mut self, index: Index, grant: Grant, out: &mut Outputs) {
        let Grant { device, client_id, address, prefix, lease_s, ppp, account, answer } = grant;
        self.supersede(index);
        let granted_s = self.now.wall_s;
        let seat = self.subscribers.get(index).map_or(0, |entry| entry.seat);
        let mut lease =
            Lease { device, seat, address, prefix, client_id, granted_s, lease_s, ppp, account: None };
        let is_same = |online: &Online| {
            let Lease { device, address: held, prefix: of, ppp: link, .. } = &online.session.lease;
            (device, *held, *of, *link) == (&lease.device, address, prefix, ppp)
        };
        let goes_on =
            self.subscribers.get(index).and_then(|entry| entry.online.as_ref()).is_some_and(is_same);
        if !goes_on {
            self.end(index, EndCause::Replaced, out);
            self.make_place(&lease.device, out);
        }
        let before = self.online_mut(index).and_then(|online| online.session.lease.account.clone());
        lease.account = match (before, account) {
            // Its renewal was asked of RADIUS: what the answer says counts from now on.
            // Its networks stay.
            (Some(before), Some(Account { is_walled, facts, .. })) => {
                let routes = before.facts.routes.clone();
                let facts = Arc::new(Facts { routes, ..(*facts).clone() });
                Some(Account { is_walled, facts, ..before })
            }
            (Some(before), None) => Some(before),
            (None, account) => {
                let account = self.with_fixed_routes(index, account);
                self.begin_account(account)
            }
        };
        self.withdraw_offer(index);
        self.hold_address(address, index);
        prefix.into_iter().for_each(|prefix| self.prefixes.hold(prefix, index));
        self.trace(&answer.line, answer.mac, Outcome::Waiting(address));
        let lease_end = match ppp {
            Some(_) => Duration::MAX,
            None => self.now.at + Duration::from_secs(lease_s.into()),
        };
        self.store_subscriber(index, out);
        let first_revision = self.revision + 1;
        let Some(entry) = self.subscribers.get_mut(index) else { return };
        let subscriber = entry.subscriber.name.clone();
        let online = entry.online.get_or_insert_with(|| Online {
            session: Session {
                id: SessionId(first_revision),
                subscriber: subscriber.clone(),
                lease: lease.clone(),
                start_s: lease.granted_s,
                counters: Counters::default(),
                lease_end,
                grace_until: None,
            },
            waits_for: None,
            is_stored: false,
            in_node: None,
            was_in_node: false,
            counted_at: Duration::ZERO,
            timers: Timers::default(),
            advertised: None,
        });
        self.deadlines.remove(&(online.session.lease_end, Deadline::Lease(index)));
        if lease_end < Duration::MAX {
            self.deadlines.insert((lease_end, Deadline::Lease(index)));
        }
        online.session.lease_end = lease_end;
        online.session.lease = lease.clone();
        let Session { id: session, start_s, counters, .. } = online.session;
        online.counted_at = self.now.at;
        self.sessions.insert(session, index);
        self.places.insert(&lease.device, session);
        let noted = self.subscribers.get(index).and_then(|entry| entry.online.as_ref());
        if let Some(noted) = noted.map(|online| online.session.clone()) {
            self.note_account(&noted);
            self.hold_routes(&noted, index);
        }
        let revision = self.store(Change::Lease { session, subscriber, start_s, counters, lease }, out);
        if let Some(online) = self.online_mut(index) {
            online.waits_for = Some(revision);
        }
        self.waiting
            .push_back(Waiting { revision, what: Wait::Answer { subscriber: index, session, answer } });
    }

    /// Writes the record of a subscriber that is not on disk as it is.
    pub(super) fn store_subscriber(&mut self, index: Index, out: &mut Outputs) {
        let main = self.subscribers.get(self.subscribers.main(index));
        let entry = main.filter(|entry| entry.on_disk == OnDisk::NotYet);
        if let Some(subscriber) = entry.map(|entry| entry.subscriber.clone()) {
            self.store(Change::Subscriber(subscriber), out);
        }
    }

    /// A client has repeated its request before it was answered: it gets the answer to the last one alone, since its lease lasts from
    /// then on (RFC 2131, section 4.4.1).
    fn supersede(&mut self, index: Index) {
        let Some(revision) = self.online_mut(index).and_then(|online| online.waits_for.take()) else {
            return;
        };
        let place = self.waiting.binary_search_by_key(&revision, |waiting| waiting.revision);
        if place.is_ok_and(|place| self.waiting.remove(place).is_some()) {
            self.counts.drops += DropReason::Superseded;
        }
    }

    /// A record of a session is on disk: the node is told of it before the client. Its address; `None`: it has ended.
    pub(super) fn session_is_stored(
        &mut self,
        index: Index,
        session: SessionId,
        out: &mut Outputs,
    ) -> Option<Ipv4Addr> {
        let online = self.online_mut(index).filter(|online| online.session.id == session)?;
        online.waits_for = None;
        let is_first = !std::mem::replace(&mut online.is_stored, true);
        let (subscriber, address) = (online.session.subscriber.clone(), online.session.lease.address);
        self.tell_node(index, out);
        self.plan_session(index);
        if is_first {
            self.queue_start(session, index);
            out.push(Output::Event(Event::SessionStarted { session, subscriber, address }));
        }
        Some(address)
    }

    /// A record of a session could not be written. One that no client knows of is no session.
    pub(super) fn session_is_not_stored(&mut self, index: Index, session: SessionId, out: &mut Outputs) {
        let Some(online) = self.online_mut(index).filter(|online| online.session.id == session) else {
            return;
        };
        online.waits_for = None;
        if !online.is_stored {
            self.end(index, EndCause::NotStored, out);
        }
    }

    /// The node gets the session as it is now, if it has it otherwise or not at all.
    pub(super) fn tell_node(&mut self, index: Index, out: &mut Outputs) {
        let Some(add) = self.subscribers.get(index).and_then(|entry| self.add_session(entry)) else { return };
        let Some(online) = self.online_mut(index) else { return };
        if online.is_stored && online.in_node.as_ref() != Some(&add.service) {
            online.in_node = Some(add.service.clone());
            out.push(Output::Node(NodeCommand::AddSession(add)));
        }
    }

    /// What the node needs of a subscriber's session; `None`: it has none, or its plan was gone when the program began.
    pub(super) fn add_session(&self, entry: &Entry) -> Option<AddSession> {
        let online = entry.online.as_ref()?;
        let session = &online.session;
        let Device { line, mac, relay } = session.lease.device.clone();
        Some(AddSession {
            session: session.id,
            subscriber: session.subscriber.clone(),
            line,
            mac,
            address: session.lease.address,
            prefix: session.lease.prefix,
            relay,
            ppp: session.lease.ppp,
            service: self.service(&entry.subscriber, online)?,
        })
    }

    /// The rates, state, plan, group and NAT profile that the node gets for a subscriber; `None`: the file had no such plan when the program began.
    fn service(&self, subscriber: &Subscriber, online: &Online) -> Option<Service> {
        let before = online.in_node.as_ref().map(|service| service.rates);
        let rates = self.config.rates(&subscriber.plan).or(before)?;
        let plan = match &subscriber.plan {
            Plan::Named(name) => Some(name.clone()),
            Plan::Own(_) => None,
        };
        let status = Bng::status(subscriber, &online.session);
        let account = online.session.lease.account.as_ref();
        let routes = account.map(|account| account.facts.routes.clone()).unwrap_or_default();
        Some(Service { rates, status, plan, group: subscriber.group.clone(), nat: subscriber.nat, routes })
    }

    /// Ends the session of a subscriber, if it has one.
    pub(super) fn end(&mut self, index: Index, cause: EndCause, out: &mut Outputs) {
        let Some(online) = self.remove_session(index) else { return };
        let Session { id: session, subscriber, lease, counters, .. } = online.session.clone();
        let address = lease.address;
        if online.in_node.is_some() {
            out.push(Output::Node(NodeCommand::RemoveSession { session }));
        }
        self.trace(&lease.device.line, lease.device.mac, Outcome::Ended(cause));
        if cause != EndCause::NotStored {
            let (subscriber, ended_s) = (subscriber.clone(), self.account_end_s(&online));
            let end = Change::End { session, subscriber, address, cause, ended_s, counters };
            let record = self.store(end, out);
            self.queue_stop(&online, cause, record, out);
        }
        if online.is_stored {
            out.push(Output::Event(Event::SessionEnded { session, subscriber, address, cause, counters }));
        }
        if let Some(ppp) = lease.ppp {
            self.hang_up(&lease.device.line, ppp, session, out);
        }
    }

    /// Takes a session out of all tables; its address is free.
    pub(super) fn remove_session(&mut self, index: Index) -> Option<Online> {
        self.stop_advertising(index);
        let entry = self.subscribers.get_mut(index)?;
        let online = entry.online.take()?;
        let Lease { address, prefix, .. } = online.session.lease;
        entry.last_address = Some(address).filter(|address| *address != NO_ADDRESS).or(entry.last_address);
        entry.last_prefix = prefix.or(entry.last_prefix);
        let is_offered = entry.offer.as_ref().is_some_and(|offer| offer.address == address);
        let is_prefix_offered = entry.offer.as_ref().is_some_and(|offer| offer.prefix == prefix);
        self.sessions.remove(&online.session.id);
        self.places.remove(&online.session.lease.device, online.session.id);
        self.forget_account(&online.session);
        self.release_routes(&online.session, index);
        self.forget_refusal(online.session.id);
        self.forget_timers(&online.timers, index);
        self.deadlines.remove(&(online.session.lease_end, Deadline::Lease(index)));
        if let Some(until) = online.session.grace_until {
            self.deadlines.remove(&(until, Deadline::Grace(index)));
        }
        if !is_offered {
            self.addresses.release(address, index);
        }
        if let Some(prefix) = prefix.filter(|_| !is_prefix_offered) {
            self.prefixes.release(prefix, index);
        }
        Some(online)
    }

    /// Whether the limits of sessions allow a session of a device for a subscriber, in place of the one that it has.
    pub(super) fn check_places(&self, index: Index, device: &Device) -> Result<(), DropReason> {
        let entry = self.subscribers.get(index);
        let own = entry.and_then(|entry| entry.online.as_ref()).map(|online| online.session.id);
        self.places.check(device, own)
    }

    /// Sessions end that are in the way of one of this device.
    fn make_place(&mut self, device: &Device, out: &mut Outputs) {
        while let Some(index) =
            self.places.in_the_way(device, None).and_then(|session| self.sessions.get(&session).copied())
        {
            self.end(index, EndCause::Replaced, out);
        }
    }

    /// Counts all sessions anew, for other limits: those that are too many go on.
    pub(super) fn count_places(&mut self) {
        self.places = Places::new(self.config.session_limits);
        for (session, index) in &self.sessions {
            let online = self.subscribers.get(*index).and_then(|entry| entry.online.as_ref());
            online.into_iter().for_each(|online| self.places.insert(&online.session.lease.device, *session));
        }
    }

    /// A port has lost its link, or has it again: its sessions are in grace, or are not any more.
    pub(super) fn port_link(&mut self, port: &PortName, link: LinkState, out: &mut Outputs) {
        let until = (link == LinkState::Down).then(|| self.now.at + self.config.grace);
        let mut sessions = 0;
        for &index in self.sessions.values() {
            let entry = self.subscribers.get_mut(index).and_then(|entry| entry.online.as_mut());
            let Some(online) = entry.filter(|online| online.session.lease.device.line.port == *port) else {
                continue;
            };
            sessions += 1;
            let grace = &mut online.session.grace_until;
            if grace.is_some() == until.is_some() {
                continue;
            }
            match std::mem::replace(grace, until) {
                Some(before) => _ = self.deadlines.remove(&(before, Deadline::Grace(index))),
                None => self.deadlines.extend(until.map(|until| (until, Deadline::Grace(index)))),
            }
        }
        out.push(Output::Event(Event::PortLink { port: port.clone(), link, sessions }));
    }

    pub(super) fn grace_ends(&mut self, index: Index, out: &mut Outputs) {
        self.end(index, EndCause::LinkLost, out);
    }

    /// The node has ended a session, and has told what it had counted: it is not asked to remove it.
    pub(super) fn ended_by_node(&mut self, session: SessionId, counters: Counters, out: &mut Outputs) {
        let Some(&index) = self.sessions.get(&session) else { return };
        self.counted(session, counters, out);
        if let Some(online) = self.online_mut(index) {
            online.in_node = None;
        }
        self.end(index, EndCause::LinkLost, out);
    }

    pub(super) fn lease_ends(&mut self, index: Index, out: &mut Outputs) {
        self.end(index, EndCause::Expired, out);
    }

    /// A subscriber has an address, if it has any.
    pub(super) fn hold_address(&mut self, address: Ipv4Addr, index: Index) {
        if address != NO_ADDRESS {
            self.addresses.hold(address, index);
        }
    }

    /// An address is offered to a subscriber, in place of the one before.
    pub(super) fn hold_offer(&mut self, index: Index, offer: Offer) {
        self.withdraw_offer(index);
        self.hold_address(offer.address, index);
        offer.prefix.into_iter().for_each(|prefix| self.prefixes.hold(prefix, index));
        self.deadlines.insert((offer.until, Deadline::Offer(index)));
        if let Some(entry) = self.subscribers.get_mut(index) {
            entry.offer = Some(offer);
        }
    }

    /// The subscriber's offer is void, and its address free if no session has it.
    pub(super) fn withdraw_offer(&mut self, index: Index) {
        let Some(entry) = self.subscribers.get_mut(index) else { return };
        let Some(offer) = entry.offer.take() else { return };
        let lease = entry.online.as_ref().map(|online| &online.session.lease);
        let has_session = lease.is_some_and(|lease| lease.address == offer.address);
        let has_prefix = lease.is_some_and(|lease| lease.prefix == offer.prefix);
        self.deadlines.remove(&(offer.until, Deadline::Offer(index)));
        if !has_session {
            self.addresses.release(offer.address, index);
        }
        if let Some(prefix) = offer.prefix.filter(|_| !has_prefix) {
            self.prefixes.release(prefix, index);
        }
    }

    /// A client found its address in use.
    pub(super) fn quarantine(&mut self, index: Index, address: Ipv4Addr, out: &mut Outputs) {
        self.withdraw_offer(index);
        self.end(index, EndCause::Declined, out);
        let Some(entry) = self.subscribers.get_mut(index) else { return };
        let subscriber = entry.subscriber.name.clone();
        let until_s = self.now.wall_s.saturating_add(self.config.quarantine.as_secs());
        self.decline(index, address, self.now.at + self.config.quarantine);
        self.store_subscriber(index, out);
        self.store(Change::Declined { address, subscriber: subscriber.clone(), until_s }, out);
        out.push(Output::Event(Event::AddressDeclined { subscriber, address }));
    }

    /// An address is in quarantine because of a subscriber, which may have a few.
    pub(super) fn decline(&mut self, index: Index, address: Ipv4Addr, until: Duration) {
        self.quarantine_ends(address);
        self.addresses.decline(address);
        self.quarantines.insert(address, Quarantine { until, subscriber: index });
        self.deadlines.insert((until, Deadline::Quarantine(address)));
        let Some(entry) = self.subscribers.get_mut(index) else { return };
        if entry.last_address == Some(address) {
            entry.last_address = None;
        }
        // Another subscriber's client may have declined an address later.
        let is_own =
            |other: &Ipv4Addr| self.quarantines.get(other).is_some_and(|found| found.subscriber == index);
        entry.declined.retain(|other| *other != address && is_own(other));
        entry.declined.push(address);
        if entry.declined.len() > MOST_DECLINED {
            let first = entry.declined.remove(0);
            self.quarantine_ends(first);
        }
    }

    pub(super) fn quarantine_ends(&mut self, address: Ipv4Addr) {
        if let Some(Quarantine { until, .. }) = self.quarantines.remove(&address) {
            self.deadlines.remove(&(until, Deadline::Quarantine(address)));
            self.addresses.end_quarantine(address);
        }
    }

    /// What the node has counted; on disk now and then.
    pub(super) fn counted(&mut self, session: SessionId, counters: Counters, out: &mut Outputs) {
        let Some(&index) = self.sessions.get(&session) else {
            return self.counted_after_end(session, counters, out);
        };
        let now = self.now.at;
        let Some(online) = self.online_mut(index) else { return };
        let before = online.session.counters;
        online.was_in_node = true;
        online.session.counters = before.max(counters);
        let counters = online.session.counters;
        if counters != before && online.is_stored && now >= online.counted_at + COUNTED_EVERY {
            online.counted_at = now;
            self.store(Change::Counted { session, counters }, out);
        }
        self.counted_on(index, before, out);
    }

    pub(super) fn online_mut(&mut self, index: Index) -> Option<&mut Online> {
        self.subscribers.get_mut(index)?.online.as_mut()
    }
}
