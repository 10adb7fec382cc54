//! Limits of sessions: interim updates, session timeout, idle timeout, quotas; what AAA gave, or what the plan has.
//!
//! ```text
//! counters of the node > quota used? > end, or walled        deadline > interim update | session timeout | idle timeout > end, or walled
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::{Bng, Deadline, Outputs};
use crate::account::{Account, Limits};
use crate::config::AtLimit;
use crate::plan::Plan;
use crate::radius::accounting::{first_interim, interim_s};
use crate::record::Change;
use crate::session::{Counters, EndCause, Session};
use crate::subscriber::{Status, Subscriber};
use crate::subscribers::{Index, Timers};

impl Limits {
    /// These, and those of `others` where these have none.
    fn or(self, others: Limits) -> Limits {
        Limits {
            session_timeout_s: self.session_timeout_s.or(others.session_timeout_s),
            idle_timeout_s: self.idle_timeout_s.or(others.idle_timeout_s),
            interim_s: self.interim_s.or(others.interim_s),
            down_bytes: self.down_bytes.or(others.down_bytes),
            up_bytes: self.up_bytes.or(others.up_bytes),
            total_bytes: self.total_bytes.or(others.total_bytes),
        }
    }

    /// Whether one of the quotas is used.
    fn are_used(&self, counters: Counters) -> bool {
        let Counters { down_bytes, up_bytes, .. } = counters;
        let total = down_bytes.saturating_add(up_bytes);
        let pairs = [(self.down_bytes, down_bytes), (self.up_bytes, up_bytes), (self.total_bytes, total)];
        pairs.into_iter().any(|(most, used)| most.is_some_and(|most| most > 0 && used >= most))
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

impl Bng {
    /// The limits of a session.
    fn limits(&self, subscriber: &Subscriber, session: &Session) -> Limits {
        self.limits_of(subscriber, session.lease.account.as_ref())
    }

    /// The same of a session that has this account.
    pub(super) fn limits_of(&self, subscriber: &Subscriber, account: Option<&Account>) -> Limits {
        let own = account.map_or(Limits::default(), |account| account.facts.limits);
        let of_plan = match &subscriber.plan {
            Plan::Named(name) => self.config.plan_limits.get(name).copied(),
            Plan::Own(_) => None,
        };
        own.or(of_plan.unwrap_or_default())
    }

    /// The status that the node gets: a session beyond a limit may be walled although its subscriber is not.
    pub(super) fn status(subscriber: &Subscriber, session: &Session) -> Status {
        let is_walled = session.lease.account.as_ref().is_some_and(|account| account.is_walled);
        if is_walled && subscriber.status == Status::Active { Status::Walled } else { subscriber.status }
    }

    /// A session began, was adopted, or has other limits: when something of it is due.
    pub(super) fn plan_session(&mut self, index: Index) {
        let Some(entry) = self.subscribers.get(index) else { return };
        let Some(online) = &entry.online else { return };
        let limits = self.limits(&entry.subscriber, &online.session);
        let now = self.now;
        let lasted_s = now.wall_s.saturating_sub(online.session.start_s);
        let is_walled = online.session.lease.account.as_ref().is_some_and(|account| account.is_walled);
        let left = |timeout: u32| Duration::from_secs(u64::from(timeout).saturating_sub(lasted_s));
        // Servers say 0 for no limit.
        let timeout = limits.session_timeout_s.filter(|timeout| *timeout > 0 && !is_walled);
        let ends_at = timeout.map(|timeout| now.at + left(timeout));
        let least = self.config.accounting.least_interim_s;
        let interval = interim_s(limits.interim_s.or(self.config.accounting.interim_s), least);
        let before = online.timers;
        let interim_at = match (interval, before.interim_at) {
            (Some(interval), Some(at)) if before.interim_s == interval => Some(at),
            (Some(interval), _) => Some(first_interim(now.at, interval, self.ledger.random())),
            (None, _) => None,
        };
        let timers = Timers {
            interim_at,
            interim_s: interval.unwrap_or(0),
            ends_at,
            idle_s: limits.idle_timeout_s.unwrap_or(0),
            idle_since: if before.idle_since.is_zero() { now.at } else { before.idle_since },
            due: before.due,
        };
        self.set_timers(index, timers);
    }

    /// Plans of the configuration may have other limits.
    pub(super) fn plan_all_sessions(&mut self) {
        let all: Vec<Index> = self.sessions.values().copied().collect();
        all.into_iter().for_each(|index| self.plan_session(index));
    }

    fn set_timers(&mut self, index: Index, timers: Timers) {
        let Some(online) = self.online_mut(index) else { return };
        let idle_at = (timers.idle_s > 0).then(|| timers.idle_since + seconds(timers.idle_s));
        let due = [timers.interim_at, timers.ends_at, idle_at].into_iter().flatten().min();
        let before = timers.due;
        online.timers = Timers { due, ..timers };
        if due != before {
            if let Some(before) = before {
                self.deadlines.remove(&(before, Deadline::Session(index)));
            }
            if let Some(due) = due {
                self.deadlines.insert((due, Deadline::Session(index)));
            }
        }
    }

    /// Something of a session is due.
    pub(super) fn session_is_due(&mut self, index: Index, out: &mut Outputs) {
        let now = self.now.at;
        let Some(online) = self.online_mut(index) else { return };
        online.timers.due = None;
        let (mut timers, session, is_stored) = (online.timers, online.session.id, online.is_stored);
        if timers.ends_at.is_some_and(|at| at <= now) {
            return self.limit_is_reached(index, EndCause::SessionTimeout, out);
        }
        if timers.idle_s > 0 && timers.idle_since + seconds(timers.idle_s) <= now {
            return self.end(index, EndCause::IdleTimeout, out);
        }
        if let Some(at) = timers.interim_at.filter(|at| *at <= now) {
            if is_stored {
                self.queue_interim(session, index, out);
            }
            // After a pause of the program none is made up for.
            timers.interim_at = Some((at + seconds(timers.interim_s)).max(now + Duration::from_secs(1)));
        }
        self.set_timers(index, timers);
    }

    /// More was counted of a session.
    pub(super) fn counted_on(&mut self, index: Index, before: Counters, out: &mut Outputs) {
        let Some(entry) = self.subscribers.get(index) else { return };
        let Some(online) = &entry.online else { return };
        let counters = online.session.counters;
        let is_walled = online.session.lease.account.as_ref().is_some_and(|account| account.is_walled);
        if !is_walled && self.limits(&entry.subscriber, &online.session).are_used(counters) {
            return self.limit_is_reached(index, EndCause::Quota, out);
        }
        if counters.up_frames != before.up_frames && online.timers.idle_s > 0 {
            let timers = Timers { idle_since: self.now.at, ..online.timers };
            self.set_timers(index, timers);
        }
    }

    /// A session has lasted as long as it may, or its quota is used.
    fn limit_is_reached(&mut self, index: Index, cause: EndCause, out: &mut Outputs) {
        if self.config.at_limit == AtLimit::End {
            return self.end(index, cause, out);
        }
        let account = match self.online_mut(index) {
            Some(online) => online.session.lease.account.clone(),
            None => return,
        };
        let mut account = account.unwrap_or_else(|| self.ledger.account());
        account.is_walled = true;
        self.set_account(index, account, out);
    }

    /// What accounting knows of a session has changed: it is written, and the node gets the session as it is now.
    pub(super) fn set_account(&mut self, index: Index, account: Account, out: &mut Outputs) {
        let Some(online) = self.online_mut(index) else { return };
        online.session.lease.account = Some(account);
        let session = online.session.clone();
        self.note_account(&session);
        let Some(online) = self.online_mut(index) else { return };
        let Session { id: session, start_s, counters, .. } = online.session;
        let (subscriber, lease) = (online.session.subscriber.clone(), online.session.lease.clone());
        self.store(Change::Lease { session, subscriber, start_s, counters, lease }, out);
        self.plan_session(index);
        self.tell_node(index, out);
    }

    /// A session has ended: nothing of it is due any more.
    pub(super) fn forget_timers(&mut self, entry: &Timers, index: Index) {
        if let Some(due) = entry.due {
            self.deadlines.remove(&(due, Deadline::Session(index)));
        }
    }
}
