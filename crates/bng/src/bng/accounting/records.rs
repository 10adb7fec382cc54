//! Records of accounting: those that are written again after a failure of the disk, and those of before this program began.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::ledger::{Ended, OnDisk};
use super::{HELD, REWRITE_AFTER};
use crate::account::AccountState;
use crate::bng::{Bng, Outputs};
use crate::radius::accounting::NODE;
use crate::record::{self, Change, Unaccounted};
use crate::session::{Counters, EndCause, SessionId};
use crate::subscribers::Online;

impl Bng {
    /// Records up to this one are on disk.
    pub(in crate::bng) fn ends_are_stored(&mut self, revision: u64, out: &mut Outputs) {
        while let Some((_, session)) = self.ledger.unstored.pop_front_if(|(record, _)| *record <= revision) {
            let Some(ended) = self.ledger.ended.get_mut(&session) else { continue };
            ended.record = OnDisk::Yes;
            if ended.is_answered {
                self.forget_ended(session, out);
            } else {
                self.ledger.stop_if_ready(session);
            }
        }
        // The disk works: the others are written, too.
        self.ledger.disk_works = true;
        if !self.ledger.lost.is_empty() {
            self.ledger.rewrite_at = Some(self.now.at);
            self.ledger.is_dirty = true;
        }
    }

    /// Records that were not reported as written are lost. Servers are told nevertheless, and the records are written again.
    pub(in crate::bng) fn ends_are_lost(&mut self) {
        for (_, session) in std::mem::take(&mut self.ledger.unstored) {
            let Some(ended) = self.ledger.ended.get_mut(&session) else { continue };
            ended.record = OnDisk::Lost;
            self.ledger.lost.push_back(session);
            self.ledger.stop_if_ready(session);
        }
        self.ledger.disk_works = false;
        if !self.ledger.lost.is_empty() {
            self.ledger.rewrite_at = Some(self.now.at + REWRITE_AFTER);
            self.ledger.is_dirty = true;
        }
    }

    /// Writes records of ends again that were lost: one, and when that is on disk all others.
    pub(super) fn rewrite_ends(&mut self, out: &mut Outputs) {
        if self.ledger.rewrite_at.is_none_or(|at| at > self.now.at) {
            return;
        }
        self.ledger.rewrite_at = None;
        let most = if self.ledger.disk_works { usize::MAX } else { 1 };
        for _ in 0..most {
            let Some(session) = self.ledger.lost.pop_front() else { return };
            let Some(ended) = self.ledger.ended.get(&session) else { continue };
            let of = ended.of.clone();
            let change = Change::End {
                session,
                subscriber: of.subscriber,
                address: of.address,
                cause: of.cause,
                ended_s: Some(of.end_s),
                counters: of.counters,
            };
            let record = self.store(change, out);
            self.ledger.unstored.push_back((record, session));
        }
    }

    /// A session of the records has ended.
    pub(in crate::bng) fn adopt_stop(
        &mut self,
        online: &Online,
        cause: EndCause,
        ended_s: u64,
        counters: Counters,
    ) {
        let account = online.session.lease.account.clone();
        let Some(account) = account.filter(|account| account.state != AccountState::Off) else { return };
        let mut of = Unaccounted::of(online, account, ended_s, cause);
        of.counters = of.counters.max(counters);
        self.adopt_unaccounted(of);
    }

    pub(in crate::bng) fn adopt_unaccounted(&mut self, of: Unaccounted) {
        let session = of.session;
        self.ledger.ended.insert(session, Ended { of, record: OnDisk::Yes, held: None, is_answered: false });
        self.ledger.hold(self.now.at + HELD, session);
        self.ledger.is_dirty = true;
    }

    pub(in crate::bng) fn adopt_answered(&mut self, session: SessionId, what: record::Answered) {
        match what {
            record::Answered::Stop => return self.ledger.forget(session),
            record::Answered::Interim => return self.forget_interim(session),
            record::Answered::Start => {}
        }
        if session == NODE {
            self.ledger.lost_all_s = None;
            return;
        }
        let index = self.sessions.get(&session).copied();
        let account = match index.and_then(|index| self.online_mut(index)) {
            Some(online) => online.session.lease.account.as_mut(),
            None => self.ledger.ended.get_mut(&session).map(|ended| &mut ended.of.account),
        };
        if let Some(account) = account.filter(|account| account.state == AccountState::Waits) {
            account.state = AccountState::Started;
        }
    }

    /// More was counted of a session of the records that has ended; whether there is one.
    pub(in crate::bng) fn adopt_counted(&mut self, session: SessionId, counters: Counters) -> bool {
        let ended = self.ledger.ended.get_mut(&session);
        ended.map(|ended| ended.of.counters = ended.of.counters.max(counters)).is_some()
    }

    /// An interim update of the records waits.
    pub(in crate::bng) fn adopt_interim(&mut self, session: SessionId, at_s: u64, counters: Counters) {
        self.ledger.keep_interim(session, at_s, counters);
    }

    /// A session of the records has ended: its interim update does not wait any more.
    pub(in crate::bng) fn forget_interim(&mut self, session: SessionId) {
        self.ledger.interims.remove(&session);
    }

    /// All sessions of before the records were lost.
    pub(in crate::bng) fn adopt_lost_all(&mut self, at_s: u64) {
        self.ledger.lost_all_s = Some(at_s);
    }

    /// What waits for servers as records, for a log that is made short.
    pub(in crate::bng) fn unaccounted_changes(&self) -> impl Iterator<Item = Change> {
        let lost_all = self.ledger.lost_all_s.map(|at_s| Change::LostAll { at_s });
        let online = self.ledger.interims.iter().filter(|(session, _)| self.sessions.contains_key(session));
        let interims = online.map(|(session, interim)| Change::Interim {
            session: *session,
            at_s: interim.at_s,
            counters: interim.counters,
        });
        let ended = self.unaccounted().map(|of| Change::Unaccounted(Box::new(of.clone())));
        lost_all.into_iter().chain(interims).chain(ended)
    }
}
