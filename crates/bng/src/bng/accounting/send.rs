//! Messages on their way: what each says, when it is sent, and what its answer changes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::ledger::OnDisk;
use super::{DEAD_PAUSE, MOST_IN_TURN};
use crate::account::{Account, AccountState, Facts};
use crate::bng::{Bng, Deadline, Outputs};
use crate::prefix::LinkPrefix;
use crate::radius::Service;
use crate::radius::access::{Access, Place, Request, session_attributes};
use crate::radius::accounting::{Answered, Message, NODE, Report, node_request};
use crate::radius::attribute::{Attributes, number};
use crate::radius::client::{Failure, Token};
use crate::record::{self, Change, Unaccounted};
use crate::session::{EndCause, NO_ADDRESS, SessionId};
use crate::subscriber::{Key, Subscriber};

impl Bng {
    /// What is due.
    pub(in crate::bng) fn accounting_timer(&mut self, out: &mut Outputs) {
        self.ledger.deadline = None;
        let now = self.now;
        while let Some((_, session)) = self.ledger.held.first().copied().filter(|(at, _)| *at <= now.at) {
            self.ledger.release(session);
        }
        if self.ledger.paused_until.is_some_and(|at| at <= now.at) {
            self.ledger.paused_until = None;
        }
        self.ledger.spool.timer(now.at);
        self.tell_radius(Service::Accounting, out, |client, now, outputs| client.timer(now, outputs));
    }

    /// Sends what may be sent; after all other outputs of an input.
    pub(in crate::bng) fn account(&mut self, out: &mut Outputs) {
        if !std::mem::take(&mut self.ledger.is_dirty) {
            return;
        }
        self.rewrite_ends(out);
        self.ledger.next_turn = None;
        let mut sent = 0;
        while self.ledger.has_servers && self.ledger.paused_until.is_none() {
            if sent == MOST_IN_TURN {
                self.ledger.next_turn = Some(self.now.at);
                break;
            }
            sent += 1;
            let Some((session, message)) = self.ledger.spool.take() else { break };
            if message == Message::Interim {
                self.ledger.interim_is_sent(session);
            }
            let Some(request) = self.accounting_request(session, message) else {
                self.ledger.spool.forget(session);
                continue;
            };
            self.tell_radius(Service::Accounting, out, |client, now, outputs| {
                client.send(now, Token(session.0), request, outputs);
            });
        }
        self.ledger.is_dirty = false;
        self.plan_accounting();
    }

    /// Asks to be called when something is due.
    pub(super) fn plan_accounting(&mut self) {
        let ledger = &mut self.ledger;
        let held = ledger.held.first().map(|(at, _)| *at);
        let retry = ledger.spool.deadline().filter(|_| ledger.has_servers);
        let others = [ledger.paused_until, ledger.rewrite_at, ledger.next_turn];
        let all = [ledger.client.deadline(), retry, held].into_iter().chain(others);
        let deadline = all.flatten().min();
        if deadline != ledger.deadline {
            if let Some(before) = std::mem::replace(&mut ledger.deadline, deadline) {
                self.deadlines.remove(&(before, Deadline::Accounting));
            }
            if let Some(at) = deadline {
                self.deadlines.insert((at, Deadline::Accounting));
            }
        }
    }

    /// A message was answered, or why it was not.
    pub(in crate::bng) fn accounting_done(
        &mut self,
        session: SessionId,
        result: Result<(), Failure>,
        out: &mut Outputs,
    ) {
        if result == Err(Failure::AllDead) {
            self.ledger.paused_until = Some(self.now.at + DEAD_PAUSE);
        }
        let answered = if result.is_ok() { Answered::Yes } else { Answered::No };
        let message = self.ledger.spool.done(self.now.at, session, answered);
        self.ledger.is_dirty = true;
        let place = match message {
            None => return,
            Some(Message::Start) => 0,
            Some(Message::Interim) => 1,
            Some(Message::Stop) => 2,
        };
        if let Some(count) = self.ledger.counts.answered.get_mut(place).filter(|_| session != NODE) {
            *count += 1;
        }
        match message {
            Some(Message::Start) if session == NODE => {
                self.ledger.lost_all_s = None;
                self.store(Change::Accounted { session, what: record::Answered::Start }, out);
            }
            Some(Message::Start) => self.start_is_answered(session, out),
            Some(Message::Interim) => self.interim_is_answered(session, out),
            Some(Message::Stop) => match self.ledger.ended.get_mut(&session) {
                Some(ended) if ended.record == OnDisk::Yes => self.forget_ended(session, out),
                Some(ended) => ended.is_answered = true,
                None => {}
            },
            None => {}
        }
    }

    /// A server has an interim update; a newer one that was due meanwhile is sent now. The Stop of a session that has ended says more.
    fn interim_is_answered(&mut self, session: SessionId, out: &mut Outputs) {
        let Some(interim) = self.ledger.interims.get(&session) else { return };
        let is_newest = interim.sent_s == Some(interim.at_s);
        let is_online = self.sessions.contains_key(&session);
        if is_online && !is_newest {
            return self.ledger.send(session, Message::Interim);
        }
        self.ledger.interims.remove(&session);
        if is_online {
            self.store(Change::Accounted { session, what: record::Answered::Interim }, out);
        }
    }

    pub(super) fn start_is_answered(&mut self, session: SessionId, out: &mut Outputs) {
        let index = self.sessions.get(&session).copied();
        let online = index.and_then(|index| self.online_mut(index));
        let account = match online {
            Some(online) => online.session.lease.account.as_mut(),
            None => self.ledger.ended.get_mut(&session).map(|ended| &mut ended.of.account),
        };
        if let Some(account) = account {
            account.state = AccountState::Started;
            self.store(Change::Accounted { session, what: record::Answered::Start }, out);
        }
    }

    /// What a message says now; `None`: there is no such session any more.
    pub(super) fn accounting_request(&self, session: SessionId, message: Message) -> Option<Request> {
        if session == NODE {
            let attributes = self.config.aaa.nas.attributes();
            return Some(node_request(attributes, message, self.ledger.lost_all_s?));
        }
        let of = match self.ledger.ended.get(&session) {
            Some(ended) => ended.of.clone(),
            None => {
                let entry = self.subscribers.get(*self.sessions.get(&session)?)?;
                let online = entry.online.as_ref()?;
                let account = online.session.lease.account.clone()?;
                Unaccounted::of(online, account, self.now.wall_s, EndCause::Released)
            }
        };
        let interim = self.ledger.interims.get(&session).filter(|_| message == Message::Interim);
        let (happened_s, counters) = match interim {
            Some(interim) => (interim.at_s, interim.counters),
            None if message == Message::Start => (of.start_s, of.counters),
            None => (of.end_s, of.counters),
        };
        let Unaccounted { start_s, cause, .. } = of;
        let report = Report { message, happened_s, start_s, counters, cause };
        Some(report.request(self.account_attributes(&of), self.config.accounting.input))
    }

    /// What all messages of a session say.
    pub(super) fn account_attributes(&self, of: &Unaccounted) -> Attributes {
        let Facts { classes, chargeable, circuit_id, remote_id, is_remote, routes, .. } = &*of.account.facts;
        let entry = self.subscribers.of_name(&of.subscriber).and_then(|index| self.subscribers.get(index));
        let name = match entry {
            Some(entry) => self.name_of(&entry.subscriber, &of.account, of.is_ppp),
            None => of.account.facts.name.as_deref().unwrap_or(of.subscriber.as_str().as_bytes()).to_vec(),
        };
        let session_id = of.account.id.to_string();
        let place = Place {
            access: if of.is_ppp { Access::Pppoe } else { Access::Dhcp },
            line: &of.line,
            mac: of.mac,
            circuit_id: circuit_id.as_deref(),
            remote_id: remote_id.as_deref(),
            up_kbit_per_s: None,
            down_kbit_per_s: None,
            name: &name,
            user_name: of.account.facts.name.as_deref(),
            session_id: &session_id,
        };
        let mut attributes = session_attributes(&self.config.aaa.nas, &place);
        if of.address != NO_ADDRESS {
            attributes.push(number::FRAMED_IP_ADDRESS, &of.address.octets());
        }
        if let Some(prefix) = of.prefix {
            // Reserved, length (RFC 3162, section 2.3).
            let value = [&[0, LinkPrefix::LEN][..], &prefix.network().octets()].concat();
            attributes.push(number::FRAMED_IPV6_PREFIX, &value);
        }
        for route in routes {
            // The gateway is the subscriber (RFC 2865, section 5.22; RFC 3162, section 2.5).
            match route.address().is_ipv4() {
                true => attributes.push(number::FRAMED_ROUTE, format!("{route} 0.0.0.0 1").as_bytes()),
                false => attributes.push(number::FRAMED_IPV6_ROUTE, format!("{route} :: 1").as_bytes()),
            }
        }
        classes.iter().for_each(|class| attributes.push(number::CLASS, class));
        if let Some(chargeable) = chargeable {
            attributes.push(number::CHARGEABLE_USER_IDENTITY, chargeable);
        }
        // RADIUS (1), Local (2).
        attributes.push_u32(number::ACCT_AUTHENTIC, if *is_remote { 1 } else { 2 });
        attributes
    }

    /// User-Name of a session.
    pub(in crate::bng) fn name_of(
        &self,
        subscriber: &Subscriber,
        account: &Account,
        is_ppp: bool,
    ) -> Vec<u8> {
        let login = match &subscriber.key {
            Key::Login(login) if is_ppp => login.as_str(),
            _ => subscriber.name.as_str(),
        };
        account.facts.name.as_deref().unwrap_or(login.as_bytes()).to_vec()
    }
}
