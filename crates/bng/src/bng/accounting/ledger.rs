//! What is kept for accounting: messages that wait, and sessions that have ended.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::AccountingCounts;
use crate::account::{Account, AccountId, AccountState, Facts};
use crate::radius::accounting::{Message, Spool};
use crate::radius::client::{Client, Timers};
use crate::random::{Random, mac_sha256};
use crate::record::Unaccounted;
use crate::session::{Counters, SessionId};

/// A session that has ended, and whose Stop was not answered.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) of: Unaccounted,
    /// Where the record of its end is.
    pub(super) record: OnDisk,
    /// The Stop waits for the node.
    pub(super) held: Option<Duration>,
    pub(super) is_answered: bool,
}

/// Where the record of an end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// On its way.
    NotYet,
    Yes,
    /// It was lost, and is written again.
    Lost,
}

/// An interim update that waits for a server: the newest one of its session.
#[derive(Debug)]
pub(super) struct Interim {
    /// When it was due, s since 1970.
    pub(super) at_s: u64,
    pub(super) counters: Counters,
    /// The time of the update that is on its way, which may be an older one.
    pub(super) sent_s: Option<u64>,
}

/// Messages that wait, and the client that sends them.
#[derive(Debug)]
pub(in crate::bng) struct Ledger {
    pub(super) client: Client,
    pub(super) spool: Spool,
    pub(super) has_servers: bool,
    /// Servers were said at least once.
    pub(super) has_begun: bool,
    pub(super) ended: BTreeMap<SessionId, Ended>,
    pub(super) interims: BTreeMap<SessionId, Interim>,
    /// Sessions that are online, by Acct-Session-Id.
    pub(super) sessions: HashMap<AccountId, SessionId>,
    pub(super) held: BTreeSet<(Duration, SessionId)>,
    /// Records of ends that are on their way to the disk.
    pub(super) unstored: VecDeque<(u64, SessionId)>,
    /// Records of ends that were lost with a failure of the disk, and when the next one is written again.
    pub(super) lost: VecDeque<SessionId>,
    pub(super) rewrite_at: Option<Duration>,
    /// The last write of the record of an end succeeded.
    pub(super) disk_works: bool,
    pub(super) paused_until: Option<Duration>,
    /// More messages may be sent than were in this turn.
    pub(super) next_turn: Option<Duration>,
    pub(super) deadline: Option<Duration>,
    /// When this program lost all sessions; `None`: no Accounting-On waits.
    pub(super) lost_all_s: Option<u64>,
    pub(super) is_dirty: bool,
    pub(super) counts: AccountingCounts,
    pub(super) random: Random,
    pub(super) no_facts: Arc<Facts>,
}

impl Ledger {
    pub(in crate::bng) fn new(seed: u64) -> Ledger {
        let mut random = Random::new(mac_sha256(&[0; 32], &[b"accounting", &seed.to_be_bytes()]));
        let client = Client::new(Timers::default(), Random::new(random.bytes()));
        let spool = Spool::new(Random::new(random.bytes()));
        let (ended, interims, sessions, held, unstored, lost, no_facts) = Default::default();
        Ledger {
            client,
            spool,
            has_servers: false,
            has_begun: false,
            ended,
            interims,
            sessions,
            held,
            unstored,
            lost,
            rewrite_at: None,
            disk_works: true,
            paused_until: None,
            next_turn: None,
            deadline: None,
            lost_all_s: None,
            is_dirty: false,
            counts: AccountingCounts::default(),
            random,
            no_facts,
        }
    }

    /// A new account without any facts.
    pub(in crate::bng) fn account(&mut self) -> Account {
        let id = AccountId(u64::from_be_bytes(self.random.bytes()));
        Account { id, state: AccountState::Off, is_walled: false, facts: self.no_facts.clone() }
    }

    pub(in crate::bng) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    pub(in crate::bng) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Something may be sent, or is due at another time.
    pub(in crate::bng) fn is_changed(&mut self) {
        self.is_dirty = true;
    }

    /// A server answers again: what waits is sent at once.
    pub(in crate::bng) fn server_has_returned(&mut self) {
        self.paused_until = None;
        self.spool.hurry();
    }

    pub(super) fn send(&mut self, session: SessionId, message: Message) {
        self.spool.add(session, message);
        self.is_dirty = true;
    }

    /// The Stop of a session is sent if its record is on disk, or lost, and nothing more is to be counted.
    pub(super) fn stop_if_ready(&mut self, session: SessionId) {
        let Some(ended) = self.ended.get(&session) else { return };
        if ended.held.is_none() && !ended.is_answered && ended.record != OnDisk::NotYet {
            self.send(session, Message::Stop);
        }
    }

    /// The node has said what it has counted, or will not.
    pub(super) fn release(&mut self, session: SessionId) {
        let Some(ended) = self.ended.get_mut(&session) else { return };
        if let Some(until) = ended.held.take() {
            self.held.remove(&(until, session));
        }
        self.stop_if_ready(session);
    }

    pub(super) fn hold(&mut self, until: Duration, session: SessionId) {
        if let Some(ended) = self.ended.get_mut(&session) {
            ended.held = Some(until);
            self.held.insert((until, session));
        }
    }

    /// An interim update waits, in place of the one before.
    pub(super) fn keep_interim(&mut self, session: SessionId, at_s: u64, counters: Counters) {
        let sent_s = self.interims.get(&session).and_then(|before| before.sent_s);
        self.interims.insert(session, Interim { at_s, counters, sent_s });
    }

    /// The interim update of a session is on its way.
    pub(super) fn interim_is_sent(&mut self, session: SessionId) {
        if let Some(interim) = self.interims.get_mut(&session) {
            interim.sent_s = Some(interim.at_s);
        }
    }

    pub(super) fn forget(&mut self, session: SessionId) {
        self.interims.remove(&session);
        if let Some(Ended { held: Some(until), .. }) = self.ended.remove(&session) {
            self.held.remove(&(until, session));
        }
        self.spool.forget(session);
    }
}
