//! Accounting of sessions: which messages wait for a server, and what they say.
//!
//! ```text
//! session is on disk > Start          Accept's interval > Interim          session has ended > counters of the node > Stop
//!            each is sent until a server has answered it; then a record says so (Change::Accounted)
//! ```
//! - The record of a session says that its Start waits, and the record of its end that its Stop waits. So after a crash at any record
//!   each Start has a Stop; at most a message is sent twice, with the same Acct-Session-Id.
//! - A Stop waits until the node has said what the session counted, at most [`HELD`].
//! - An interim update is a record with the counters of its time, until a server has answered it, a newer one is due, or the session ends.
//! - Nothing else waits for accounting: messages are made and sent after all other outputs of an input.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod ledger;
mod records;
mod send;

use std::time::Duration;

pub(super) use ledger::Ledger;
use ledger::{Ended, OnDisk};

use super::{Bng, Outputs};
use crate::account::{Account, AccountId, AccountState, Facts};
use crate::radius::Service;
use crate::radius::accounting::{Message, NODE};
use crate::radius::client::{self, Server};
use crate::record::{self, Change, Unaccounted};
use crate::session::{Counters, EndCause, Session, SessionId};
use crate::subscribers::{Index, Online};

/// How long a Stop waits for the counters of the node.
const HELD: Duration = Duration::from_secs(10);
/// Pause after all servers were found dead.
const DEAD_PAUSE: Duration = Duration::from_secs(5);
/// Pause before a record that was lost is written again.
const REWRITE_AFTER: Duration = Duration::from_secs(5);
/// Most messages that are made within one input: frames of clients come between them.
const MOST_IN_TURN: usize = 256;
/// Most ended sessions whose Stop waits; the oldest one of more is dropped, and counted.
const MOST_ENDED: usize = 500_000;

/// What accounting has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountingCounts {
    /// Messages that servers have answered: Start, Interim, Stop.
    pub answered: [u64; 3],
    /// Sessions whose messages were dropped, because too many waited.
    pub dropped: u64,
}

impl Unaccounted {
    /// Of a session that is online.
    fn of(online: &Online, account: Account, end_s: u64, cause: EndCause) -> Unaccounted {
        let session = &online.session;
        Unaccounted {
            session: session.id,
            subscriber: session.subscriber.clone(),
            line: session.lease.device.line.clone(),
            mac: session.lease.device.mac,
            address: session.lease.address,
            prefix: session.lease.prefix,
            is_ppp: session.lease.ppp.is_some(),
            account,
            start_s: session.start_s,
            end_s,
            cause,
            counters: session.counters,
        }
    }
}

impl Bng {
    /// What accounting has counted.
    pub fn accounting_counts(&self) -> AccountingCounts {
        self.ledger.counts
    }

    /// Messages of accounting that no server has answered.
    pub fn accounting_waits(&self) -> usize {
        self.ledger.spool.len()
    }

    /// Sessions that have ended and whose Stop was not answered, with their counters.
    pub fn unaccounted(&self) -> impl Iterator<Item = &Unaccounted> {
        self.ledger.ended.values().map(|ended| &ended.of)
    }

    /// What the client of accounting has counted, for each server, and whether it answers.
    pub fn accounting_server_counts(&self) -> impl Iterator<Item = (&str, client::Counts, bool)> {
        let client = &self.ledger.client;
        client.counts().map(|(server, counts)| (server, counts, client.is_alive(server)))
    }

    /// Whether sessions are accounted for.
    fn accounts(&self) -> bool {
        self.config.radius.iter().any(|server| server.accounting.is_some())
    }

    /// The account of a new session; `known` is what AAA has said. `None`: there is nothing to be kept.
    pub(super) fn begin_account(&mut self, known: Option<Account>) -> Option<Account> {
        if self.accounts() {
            let account = known.unwrap_or_else(|| self.ledger.account());
            return Some(Account { state: AccountState::Waits, ..account });
        }
        known.filter(|account| *account.facts != Facts::default())
    }

    /// Other servers, with their secrets. Sessions of the records are told of, if their messages were not answered.
    pub(super) fn set_accounting_servers(&mut self, servers: Vec<Server>, out: &mut Outputs) {
        self.ledger.has_servers = !servers.is_empty();
        let is_first = !std::mem::replace(&mut self.ledger.has_begun, true);
        if is_first && self.revision == 0 {
            self.lost_all(out);
        }
        if is_first && self.ledger.lost_all_s.is_some() {
            self.ledger.send(NODE, Message::Start);
        }
        self.tell_radius(Service::Accounting, out, |client, now, outputs| {
            client.configure(now, servers, outputs);
        });
        let all: Vec<_> = self.sessions.iter().map(|(session, index)| (*session, *index)).collect();
        for (session, index) in all {
            self.queue_start(session, index);
        }
        let interims: Vec<SessionId> = self.ledger.interims.keys().copied().collect();
        interims.into_iter().for_each(|session| self.ledger.send(session, Message::Interim));
        let ended: Vec<SessionId> = self.ledger.ended.keys().copied().collect();
        for session in ended {
            let state = self.ledger.ended.get(&session).map(|ended| ended.of.account.state);
            if state == Some(AccountState::Waits) {
                self.ledger.send(session, Message::Start);
            }
            self.ledger.stop_if_ready(session);
        }
        self.ledger.paused_until = None;
        self.ledger.spool.hurry();
        self.ledger.is_dirty = true;
    }

    /// This program has no sessions of before, and has lost them if there were any.
    fn lost_all(&mut self, out: &mut Outputs) {
        if self.accounts() {
            let at_s = self.now.wall_s;
            self.ledger.lost_all_s = Some(at_s);
            self.store(Change::LostAll { at_s }, out);
        }
    }

    /// Accounting was switched on: sessions that began without it are accounted for from now on, with the time of their begin.
    pub(super) fn account_all(&mut self, out: &mut Outputs) {
        if !self.accounts() {
            return;
        }
        let all: Vec<_> = self.sessions.iter().map(|(session, index)| (*session, *index)).collect();
        for (session, index) in all {
            let Some(online) = self.online_mut(index) else { continue };
            let is_stored = online.is_stored;
            let is_off = online
                .session
                .lease
                .account
                .as_ref()
                .is_none_or(|account| account.state == AccountState::Off);
            if !is_off {
                continue;
            }
            let known = online.session.lease.account.take();
            let account = self.begin_account(known);
            let Some(online) = self.online_mut(index) else { continue };
            online.session.lease.account = account;
            let noted = online.session.clone();
            self.note_account(&noted);
            let Some(online) = self.online_mut(index) else { continue };
            if is_stored {
                let (subscriber, start_s) = (online.session.subscriber.clone(), online.session.start_s);
                let (counters, lease) = (online.session.counters, online.session.lease.clone());
                self.store(Change::Lease { session, subscriber, start_s, counters, lease }, out);
                self.queue_start(session, index);
            }
        }
    }

    /// The record of a session is on disk.
    pub(super) fn queue_start(&mut self, session: SessionId, index: Index) {
        let Some(online) = self.online_mut(index).filter(|online| online.is_stored) else { return };
        let state = online.session.lease.account.as_ref().map(|account| account.state);
        if state == Some(AccountState::Waits) {
            self.ledger.send(session, Message::Start);
        }
    }

    /// A session goes on. What it has counted by now is on disk until a server has answered.
    pub(super) fn queue_interim(&mut self, session: SessionId, index: Index, out: &mut Outputs) {
        let now = self.now;
        let Some(online) = self.online_mut(index) else { return };
        let account = online.session.lease.account.as_ref();
        if account.is_none_or(|account| account.state == AccountState::Off) {
            return;
        }
        let counters = online.session.counters;
        online.counted_at = now.at;
        self.store(Change::Interim { session, at_s: now.wall_s, counters }, out);
        self.ledger.keep_interim(session, now.wall_s, counters);
        self.ledger.send(session, Message::Interim);
    }

    /// When a session ends, for its record; `None`: no Stop follows.
    pub(super) fn account_end_s(&self, online: &Online) -> Option<u64> {
        let state = online.session.lease.account.as_ref().map_or(AccountState::Off, |account| account.state);
        (online.is_stored && state != AccountState::Off).then_some(self.now.wall_s)
    }

    /// A session has ended, and the record with this number says so.
    pub(super) fn queue_stop(&mut self, online: &Online, cause: EndCause, record: u64, out: &mut Outputs) {
        let session = online.session.id;
        let Some(end_s) = self.account_end_s(online) else { return };
        let Some(account) = online.session.lease.account.clone() else { return };
        let of = Unaccounted::of(online, account, end_s, cause);
        let ended = Ended { of, record: OnDisk::NotYet, held: None, is_answered: false };
        self.ledger.ended.insert(session, ended);
        self.ledger.unstored.push_back((record, session));
        if online.in_node.is_some() {
            self.ledger.hold(self.now.at + HELD, session);
        }
        self.ledger.is_dirty = true;
        if self.ledger.ended.len() > MOST_ENDED
            && let Some(oldest) = self.ledger.ended.keys().next().copied()
        {
            self.ledger.counts.dropped += 1;
            self.forget_ended(oldest, out);
        }
    }

    fn forget_ended(&mut self, session: SessionId, out: &mut Outputs) {
        self.ledger.forget(session);
        self.store(Change::Accounted { session, what: record::Answered::Stop }, out);
    }

    /// The node has removed a session; what it counted, if that is known.
    pub(super) fn removed_by_node(
        &mut self,
        session: SessionId,
        counters: Option<Counters>,
        out: &mut Outputs,
    ) {
        if let Some(counters) = counters {
            self.counted_after_end(session, counters, out);
        }
        self.ledger.release(session);
    }

    /// More was counted of a session that has ended.
    pub(super) fn counted_after_end(&mut self, session: SessionId, counters: Counters, out: &mut Outputs) {
        let Some(ended) = self.ledger.ended.get_mut(&session) else { return };
        let before = ended.of.counters;
        ended.of.counters = before.max(counters);
        let counters = ended.of.counters;
        if counters != before {
            self.store(Change::Counted { session, counters }, out);
        }
    }

    /// The node has been asked which sessions it has: what it counted of others is not known any more.
    pub(super) fn node_has(&mut self, has: impl Fn(SessionId) -> bool) {
        let gone: Vec<SessionId> =
            self.ledger.held.iter().map(|(_, session)| *session).filter(|session| !has(*session)).collect();
        gone.into_iter().for_each(|session| self.ledger.release(session));
    }

    /// A new account, for a session without one.
    pub(super) fn ledger_account(&mut self) -> Account {
        self.ledger.account()
    }

    /// The session with this Acct-Session-Id.
    pub(super) fn session_of_account(&self, id: AccountId) -> Option<Index> {
        self.sessions.get(self.ledger.sessions.get(&id)?).copied()
    }

    /// A session has this account from now on.
    pub(super) fn note_account(&mut self, session: &Session) {
        if let Some(account) = &session.lease.account {
            self.ledger.sessions.insert(account.id, session.id);
        }
    }

    /// A session has ended.
    pub(super) fn forget_account(&mut self, session: &Session) {
        if let Some(account) = &session.lease.account {
            self.ledger.sessions.remove(&account.id);
        }
    }
}
