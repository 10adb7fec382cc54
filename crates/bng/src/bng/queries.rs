//! What can be seen of a BNG.

use std::net::Ipv4Addr;
use std::ops::Bound;

use super::{Bng, Quarantine, Wait};
use crate::config::Config;
use crate::drops::{DropReason, Drops};
use crate::io::AddSession;
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::pool::{Pool, Stock};
use crate::prefix::PrefixPool;
use crate::record::{Change, Record};
use crate::session::{Session, SessionId};
use crate::step::Step;
use crate::subscriber::{Key, Status, Subscriber};
use crate::subscribers::{Entry, Index};
use crate::watch::{Watched, Whom};
use crate::why::{Outcome, Trace, TraceFrame, Why};

/// Frames of clients by what became of them: `received` is the sum of all others and of those that wait for the disk or for RADIUS, see
/// [`Sizes::waiting_answers`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// All.
    pub received: u64,
    /// Answered.
    pub answered: u64,
    /// Taken in, and want no answer.
    pub accepted: u64,
    /// Not answered.
    pub drops: Drops,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Subscribers.
    pub subscribers: usize,
    /// Sessions.
    pub sessions: usize,
    /// Offers that stand.
    pub offers: usize,
    /// Addresses that were ever used.
    pub addresses: usize,
    /// Answers that wait for the disk or for RADIUS.
    pub waiting_answers: usize,
    /// Times at which something happens.
    pub deadlines: usize,
    /// Devices of which the last frames are kept.
    pub traces: usize,
}

impl Bng {
    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of the last record.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Frames by what became of them.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How much is kept.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            subscribers: self.subscribers.len(),
            sessions: self.sessions.len(),
            offers: self.subscribers.all().filter(|(_, entry)| entry.offer.is_some()).count(),
            addresses: self.addresses.len(),
            waiting_answers: self.asking()
                + self.dhcp_asks.len()
                + self.waiting.iter().filter(|one| matches!(one.what, Wait::Answer { .. })).count(),
            deadlines: self.deadlines.len(),
            traces: self.traces.len(),
        }
    }

    /// All subscribers, in the order of their names.
    pub fn subscribers(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.iter().map(|(_, entry)| &entry.subscriber)
    }

    /// The subscriber of a name, and its session.
    pub fn subscriber(&self, name: &Name) -> Option<(&Subscriber, Option<&Session>)> {
        let entry = self.subscribers.get(self.subscribers.of_name(name)?)?;
        Some((&entry.subscriber, self.first_session(entry)))
    }

    /// Subscribers behind a name and their sessions, in the order of their names.
    pub fn subscribers_after(
        &self,
        name: Option<&Name>,
    ) -> impl Iterator<Item = (&Subscriber, Option<&Session>)> {
        self.subscribers.after(name).map(|entry| (&entry.subscriber, self.first_session(entry)))
    }

    /// Sessions behind a number of which a record is on disk, in the order in which they began.
    pub fn sessions_after(&self, session: SessionId) -> impl Iterator<Item = &Session> {
        let behind = self.sessions.range((Bound::Excluded(session), Bound::Unbounded));
        behind.filter_map(|(_, index)| self.subscribers.get(*index)?.session())
    }

    /// The pools of prefixes, and how many of each are of sessions.
    pub fn prefix_pools(&self) -> Vec<(&PrefixPool, u64)> {
        let used = |pool: &PrefixPool| {
            let held = self.sessions().filter_map(|session| session.lease.prefix);
            held.filter(|prefix| pool.has(*prefix)).count() as u64
        };
        self.prefixes.pools().iter().map(|pool| (pool, used(pool))).collect()
    }

    /// The pools, and how many addresses of each are of sessions.
    pub fn pools(&self) -> Vec<(&Pool, u64)> {
        let pools = self.addresses.pools();
        let mut used = vec![0; pools.len()];
        for session in self.sessions() {
            if let Some(at) = pools.iter().position(|pool| pool.has(session.lease.address))
                && let Some(used) = used.get_mut(at)
            {
                *used += 1;
            }
        }
        pools.iter().zip(used).collect()
    }

    /// All sessions of which a record is on disk, in the order in which they began.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter_map(|index| self.subscribers.get(*index)?.session())
    }

    /// A session by its number.
    pub fn session(&self, session: SessionId) -> Option<&Session> {
        self.subscribers.get(*self.sessions.get(&session)?)?.session()
    }

    /// The session with an address, and its subscriber.
    pub fn session_at(&self, address: Ipv4Addr) -> Option<(&Subscriber, &Session)> {
        let entry = self.subscribers.get(self.addresses.holder(address)?)?;
        let session = entry.session().filter(|session| session.lease.address == address)?;
        Some((&entry.subscriber, session))
    }

    /// The page of the portal.
    pub fn portal(&self) -> Option<&str> {
        self.config.portal.as_deref()
    }

    /// What the node should have.
    pub fn node_sessions(&self) -> impl Iterator<Item = AddSession> {
        let entries = self.sessions.values().filter_map(|index| self.subscribers.get(*index));
        entries.filter(|entry| entry.session().is_some()).filter_map(|entry| self.add_session(entry))
    }

    /// Records that say the state of now, for a log that is made short; all of them have the number of the last record.
    pub fn snapshot(&self) -> Vec<Record> {
        let (mut subscribers, mut others) = (Vec::new(), Vec::new());
        for (index, entry) in self.subscribers.iter() {
            let subscriber = entry.subscriber.name.clone();
            subscribers.push(Change::Subscriber(entry.subscriber.clone()));
            if let Some(address) = entry.last_address {
                others.push(Change::LastAddress { subscriber: subscriber.clone(), address });
            }
            if let Some(prefix) = entry.last_prefix {
                others.push(Change::LastPrefix { subscriber: subscriber.clone(), prefix });
            }
            for address in &entry.declined {
                let quarantine = self.quarantines.get(address).filter(|found| found.subscriber == index);
                let Some(Quarantine { until, .. }) = quarantine else { continue };
                let until_s = self.now.wall_s + until.saturating_sub(self.now.at).as_secs();
                others.push(Change::Declined { address: *address, subscriber: subscriber.clone(), until_s });
            }
            let seats = self.subscribers.seats(index).into_iter();
            for online in seats.filter_map(|seat| self.subscribers.get(seat)?.online.as_ref()) {
                let Session { id: session, start_s, counters, lease, .. } = online.session.clone();
                others.push(Change::Lease {
                    session,
                    subscriber: subscriber.clone(),
                    start_s,
                    counters,
                    lease,
                });
            }
        }
        let changes = subscribers.into_iter().chain(others).chain(self.unaccounted_changes());
        let changes = changes.chain(self.last_answers());
        changes.map(|change| Record { revision: self.revision, change }).collect()
    }

    /// Why a device has no session.
    pub fn why_mac(&self, mac: Mac) -> Why {
        match self.traces.of_mac(mac) {
            Some((line, trace)) => self.why(line, mac, trace),
            None => self.why_unheard(&Key::Mac(mac)),
        }
    }

    /// Why the device of a line that was heard last has no session.
    pub fn why_line(&self, line: &Line) -> Why {
        match self.traces.of_line(line) {
            Some((mac, trace)) => self.why(line, mac, trace),
            None => self.why_unheard(&Key::Line(line.clone())),
        }
    }

    /// Why the device that gives this name by PPP has no session; `None`: no device has given it, and no subscriber has it.
    pub fn why_login(&self, login: &str) -> Option<Why> {
        if let Some((line, mac, trace)) = self.traces.of_login(login) {
            return Some(self.why(line, mac, trace));
        }
        let key = Key::Login(login.parse().ok()?);
        self.subscribers.of_key(&key).map(|_| self.why_unheard(&key))
    }

    /// Frames behind a number of a client that is followed, see [`crate::Command::Watch`].
    pub fn watched(&self, whom: &Whom, number: u64) -> Vec<Watched> {
        self.traces.watched(whom, number)
    }

    fn why(&self, line: &Line, mac: Mac, trace: &Trace) -> Why {
        let login = trace.login.as_deref().and_then(|login| login.parse().ok()).map(Key::Login);
        let keys = [login, Some(Key::Line(line.clone())), Some(Key::Mac(mac))];
        let index = keys.iter().flatten().find_map(|key| self.subscribers.of_key(key));
        let online = self.sessions.values().copied().find(|index| self.is_of(*index, line, mac));
        let entry = online.or(index).and_then(|index| self.subscribers.get(index));
        Why {
            subscriber: entry.map(|entry| entry.subscriber.name.clone()),
            step: Some(trace.outcome.step()),
            reason: [&*self.reason(trace.outcome), trace.detail.as_deref().unwrap_or_default()]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(": "),
            device: Some((line.clone(), mac)),
            login: trace.login.as_deref().map(String::from),
            at: Some(trace.at),
            drops: trace.drops.clone(),
            frames: trace.frames.iter().cloned().collect::<Vec<TraceFrame>>(),
        }
    }

    /// Whether a subscriber is online with this device.
    pub(super) fn is_of(&self, index: Index, line: &Line, mac: Mac) -> bool {
        let session = self.subscribers.get(index).and_then(Entry::session);
        session.is_some_and(|session| session.lease.device.line == *line && session.lease.device.mac == mac)
    }

    fn reason(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::Dropped(DropReason::PoolExhausted) => self.addresses.exhausted(),
            Outcome::Dropped(DropReason::NoSubscriber) => {
                match (self.subscribers.by_line, self.subscribers.by_circuit) {
                    (0, 0) => "no subscriber has this MAC".into(),
                    (_, 0) => "no subscriber has this MAC or this line".into(),
                    (0, _) => "no subscriber has this MAC or this circuit-id".into(),
                    _ => "no subscriber has this MAC, this line or this circuit-id".into(),
                }
            }
            other => other.to_string(),
        }
    }

    /// Nothing is remembered of its frames.
    fn why_unheard(&self, key: &Key) -> Why {
        let entry = self.subscribers.of_key(key).and_then(|index| self.subscribers.get(index));
        let subscriber = entry.map(|entry| entry.subscriber.name.clone());
        let session = entry.and_then(|entry| self.first_session(entry));
        let (step, reason) = match (entry, session) {
            (_, Some(session)) => (Some(Step::Up), Outcome::Up(session.lease.address).to_string()),
            (Some(entry), None) if entry.subscriber.status == Status::Blocked => {
                (Some(Step::Status), DropReason::SubscriberBlocked.meaning().to_string())
            }
            (Some(_), None) => (None, format!("no frame from {key} has come in")),
            (None, None) => (None, format!("no subscriber has {key}, and no frame from it has come in")),
        };
        let (device, login, at) = (None, None, None);
        Why { subscriber, step, reason, device, login, at, drops: Vec::new(), frames: Vec::new() }
    }
}

impl Entry {
    /// The session, if a record of it is on disk.
    pub(super) fn session(&self) -> Option<&Session> {
        self.online.as_ref().filter(|online| online.is_stored).map(|online| &online.session)
    }
}
