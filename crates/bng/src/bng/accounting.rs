//! Accounting of sessions: which messages wait for a server, and what they say.
//!
//! ```text
//! session is on disk > Start          Accept's interval > Interim          session has ended > counters of the node > Stop
//!            each is sent until a server has answered it; then a record says so (Change::Accounted)
//! ```
//! - The record of a session says that its Start waits, and the record of its end that its Stop waits. So after a crash at any record
//!   each Start has a Stop; at most a message is sent twice, with the same Acct-Session-Id.
//! - A Stop waits until the node has said what the session counted, at most [`HELD`].
//! - Nothing else waits for accounting: messages are made and sent after all other outputs of an input.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Bng, Deadline, Outputs};
use crate::account::{Account, AccountId, Facts, Told};
use crate::io::{Event, Output};
use crate::prefix::LinkPrefix;
use crate::radius::Service;
use crate::radius::access::{Place, Request, session_attributes};
use crate::radius::accounting::{Answered, Message, NODE, Report, Spool, node_request};
use crate::radius::attribute::{Attributes, number};
use crate::radius::client::{self, Client, Failure, LinkChange, Server, Timers, Token};
use crate::random::{Random, mac_sha256};
use crate::record::{self, Change, Unaccounted};
use crate::session::{Counters, EndCause, Session, SessionId};
use crate::subscriber::{Key, Subscriber};
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

/// A session that has ended, and whose Stop was not answered.
#[derive(Debug)]
struct Ended {
    of: Unaccounted,
    /// Where the record of its end is.
    record: OnDisk,
    /// The Stop waits for the node.
    held: Option<Duration>,
    is_answered: bool,
}

/// Where the record of an end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDisk {
    /// On its way.
    NotYet,
    Yes,
    /// It was lost, and is written again.
    Lost,
}

/// Messages that wait, and the client that sends them.
#[derive(Debug)]
pub(super) struct Ledger {
    client: Client,
    spool: Spool,
    has_servers: bool,
    /// Servers were said at least once.
    has_begun: bool,
    ended: BTreeMap<SessionId, Ended>,
    /// Sessions that are online, by Acct-Session-Id.
    sessions: HashMap<AccountId, SessionId>,
    held: BTreeSet<(Duration, SessionId)>,
    /// Records of ends that are on their way to the disk.
    unstored: VecDeque<(u64, SessionId)>,
    /// Records of ends that were lost with a failure of the disk, and when the next one is written again.
    lost: VecDeque<SessionId>,
    rewrite_at: Option<Duration>,
    /// The last write of the record of an end succeeded.
    disk_works: bool,
    paused_until: Option<Duration>,
    /// More messages may be sent than were in this turn.
    next_turn: Option<Duration>,
    deadline: Option<Duration>,
    /// When this program lost all sessions, for Accounting-On.
    lost_all_s: u64,
    is_dirty: bool,
    counts: AccountingCounts,
    random: Random,
    no_facts: Arc<Facts>,
}

impl Ledger {
    pub(super) fn new(seed: u64) -> Ledger {
        let mut random = Random::new(mac_sha256(&[0; 32], &[b"accounting", &seed.to_be_bytes()]));
        let client = Client::new(Timers::default(), Random::new(random.bytes()));
        let spool = Spool::new(Random::new(random.bytes()));
        let (ended, sessions, held, unstored, lost, no_facts) = Default::default();
        Ledger {
            client,
            spool,
            has_servers: false,
            has_begun: false,
            ended,
            sessions,
            held,
            unstored,
            lost,
            rewrite_at: None,
            disk_works: true,
            paused_until: None,
            next_turn: None,
            deadline: None,
            lost_all_s: 0,
            is_dirty: false,
            counts: AccountingCounts::default(),
            random,
            no_facts,
        }
    }

    /// A new account without any facts.
    pub(super) fn account(&mut self) -> Account {
        let id = AccountId(u64::from_be_bytes(self.random.bytes()));
        Account { id, told: Told::Off, is_walled: false, facts: self.no_facts.clone() }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn send(&mut self, session: SessionId, message: Message) {
        self.spool.add(session, message);
        self.is_dirty = true;
    }

    /// The Stop of a session is sent if its record is on disk, or lost, and nothing more is to be counted.
    fn stop_if_ready(&mut self, session: SessionId) {
        let Some(ended) = self.ended.get(&session) else { return };
        if ended.held.is_none() && !ended.is_answered && ended.record != OnDisk::NotYet {
            self.send(session, Message::Stop);
        }
    }

    /// The node has said what it has counted, or will not.
    fn release(&mut self, session: SessionId) {
        let Some(ended) = self.ended.get_mut(&session) else { return };
        if let Some(until) = ended.held.take() {
            self.held.remove(&(until, session));
        }
        self.stop_if_ready(session);
    }

    fn hold(&mut self, until: Duration, session: SessionId) {
        if let Some(ended) = self.ended.get_mut(&session) {
            ended.held = Some(until);
            self.held.insert((until, session));
        }
    }

    fn forget(&mut self, session: SessionId) {
        if let Some(Ended { held: Some(until), .. }) = self.ended.remove(&session) {
            self.held.remove(&(until, session));
        }
        self.spool.forget(session);
    }
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
            return Some(Account { told: Told::Waits, ..account });
        }
        known.filter(|account| *account.facts != Facts::default())
    }

    /// Other servers, with their secrets. Sessions of the records are told of, if their messages were not answered.
    pub(super) fn set_accounting_servers(&mut self, servers: Vec<Server>, out: &mut Outputs) {
        let mut outputs = Vec::new();
        self.ledger.has_servers = !servers.is_empty();
        if !std::mem::replace(&mut self.ledger.has_begun, true) && self.revision == 0 {
            self.lost_all();
        }
        self.ledger.client.configure(self.now, servers, &mut outputs);
        self.accounting_outputs(outputs, out);
        let all: Vec<_> = self.sessions.iter().map(|(session, index)| (*session, *index)).collect();
        for (session, index) in all {
            self.tell_start(session, index);
        }
        let ended: Vec<SessionId> = self.ledger.ended.keys().copied().collect();
        for session in ended {
            let told = self.ledger.ended.get(&session).map(|ended| ended.of.account.told);
            if told == Some(Told::Waits) {
                self.ledger.send(session, Message::Start);
            }
            self.ledger.stop_if_ready(session);
        }
        self.ledger.paused_until = None;
        self.ledger.spool.hurry();
        self.ledger.is_dirty = true;
    }

    /// This program has no sessions of before, and has lost them if there were any.
    fn lost_all(&mut self) {
        if self.accounts() {
            self.ledger.lost_all_s = self.now.wall_s;
            self.ledger.send(NODE, Message::Start);
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
            let is_off =
                online.session.lease.account.as_ref().is_none_or(|account| account.told == Told::Off);
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
                self.tell_start(session, index);
            }
        }
    }

    /// The record of a session is on disk.
    pub(super) fn tell_start(&mut self, session: SessionId, index: Index) {
        let Some(online) = self.online_mut(index).filter(|online| online.is_stored) else { return };
        let told = online.session.lease.account.as_ref().map(|account| account.told);
        if told == Some(Told::Waits) {
            self.ledger.send(session, Message::Start);
        }
    }

    /// A session goes on.
    pub(super) fn tell_interim(&mut self, session: SessionId, index: Index) {
        let online = self.subscribers.get(index).and_then(|entry| entry.online.as_ref());
        let account = online.and_then(|online| online.session.lease.account.as_ref());
        if account.is_some_and(|account| account.told != Told::Off) {
            self.ledger.send(session, Message::Interim);
        }
    }

    /// When a session ends, for its record; `None`: no Stop follows.
    pub(super) fn account_end_s(&self, online: &Online) -> Option<u64> {
        let told = online.session.lease.account.as_ref().map_or(Told::Off, |account| account.told);
        (online.is_stored && told != Told::Off).then_some(self.now.wall_s)
    }

    /// A session has ended, and the record with this number says so.
    pub(super) fn tell_stop(&mut self, online: &Online, cause: EndCause, record: u64, out: &mut Outputs) {
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

    /// Records up to this one are on disk.
    pub(super) fn ends_are_stored(&mut self, revision: u64, out: &mut Outputs) {
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
    pub(super) fn ends_are_lost(&mut self) {
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
    fn rewrite_ends(&mut self, out: &mut Outputs) {
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

    /// What is due.
    pub(super) fn accounting_timer(&mut self, out: &mut Outputs) {
        self.ledger.deadline = None;
        let now = self.now;
        while let Some((_, session)) = self.ledger.held.first().copied().filter(|(at, _)| *at <= now.at) {
            self.ledger.release(session);
        }
        if self.ledger.paused_until.is_some_and(|at| at <= now.at) {
            self.ledger.paused_until = None;
        }
        self.ledger.spool.timer(now.at);
        let mut outputs = Vec::new();
        self.ledger.client.timer(now, &mut outputs);
        self.accounting_outputs(outputs, out);
        self.ledger.is_dirty = true;
    }

    /// A datagram of a server of accounting; one that is no answer is counted by the client.
    pub(super) fn accounting_datagram(&mut self, server: &str, port: u16, bytes: &[u8], out: &mut Outputs) {
        let mut outputs = Vec::new();
        let _ = self.ledger.client.datagram(self.now, server, port, bytes, &mut outputs);
        self.accounting_outputs(outputs, out);
        self.ledger.is_dirty = true;
    }

    /// A connection to a server of accounting is there, or has ended.
    pub(super) fn accounting_link(&mut self, server: &str, port: u16, change: LinkChange, out: &mut Outputs) {
        let mut outputs = Vec::new();
        self.ledger.client.link(self.now, server, port, change, &mut outputs);
        self.accounting_outputs(outputs, out);
        self.ledger.is_dirty = true;
    }

    /// Sends what may be sent; after all other outputs of an input.
    pub(super) fn account(&mut self, out: &mut Outputs) {
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
            let mut outputs = Vec::new();
            match self.accounting_request(session, message) {
                Some(request) => self.ledger.client.send(self.now, Token(session.0), request, &mut outputs),
                None => self.ledger.spool.forget(session),
            }
            self.accounting_outputs(outputs, out);
        }
        self.ledger.is_dirty = false;
        self.plan_accounting();
    }

    /// Asks to be called when something is due.
    fn plan_accounting(&mut self) {
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

    fn accounting_outputs(&mut self, outputs: Vec<client::Output>, out: &mut Outputs) {
        for output in outputs {
            match output {
                client::Output::Send { server, port, bytes } => {
                    out.push(Output::Radius { service: Service::Accounting, server, port, bytes });
                }
                client::Output::Reconnect { server, port } => {
                    out.push(Output::RadiusReconnect { service: Service::Accounting, server, port });
                }
                client::Output::Done { token, result } => {
                    self.accounting_done(SessionId(token.0), result.map(drop), out);
                }
                client::Output::Distrusted { server, why } => {
                    let server = format!("{server} (accounting)");
                    out.push(Output::Event(Event::RadiusDistrusted { server, why }));
                }
                client::Output::Dead(server) => {
                    let server = format!("{server} (accounting)");
                    out.push(Output::Event(Event::RadiusServer { server, is_alive: false }));
                }
                client::Output::Alive(server) => {
                    let server = format!("{server} (accounting)");
                    out.push(Output::Event(Event::RadiusServer { server, is_alive: true }));
                    self.ledger.paused_until = None;
                    self.ledger.spool.hurry();
                }
            }
        }
    }

    fn accounting_done(&mut self, session: SessionId, result: Result<(), Failure>, out: &mut Outputs) {
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
            Some(Message::Start) if session != NODE => self.start_is_answered(session, out),
            Some(Message::Stop) => match self.ledger.ended.get_mut(&session) {
                Some(ended) if ended.record == OnDisk::Yes => self.forget_ended(session, out),
                Some(ended) => ended.is_answered = true,
                None => {}
            },
            _ => {}
        }
    }

    fn start_is_answered(&mut self, session: SessionId, out: &mut Outputs) {
        let index = self.sessions.get(&session).copied();
        let online = index.and_then(|index| self.online_mut(index));
        let account = match online {
            Some(online) => online.session.lease.account.as_mut(),
            None => self.ledger.ended.get_mut(&session).map(|ended| &mut ended.of.account),
        };
        if let Some(account) = account {
            account.told = Told::Started;
            self.store(Change::Accounted { session, what: record::Answered::Start }, out);
        }
    }

    /// What a message says now; `None`: there is no such session any more.
    fn accounting_request(&self, session: SessionId, message: Message) -> Option<Request> {
        if session == NODE {
            let attributes = self.config.aaa.nas.attributes();
            return Some(node_request(attributes, message, self.ledger.lost_all_s));
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
        let happened_s = if message == Message::Start { of.start_s } else { of.end_s };
        let Unaccounted { start_s, counters, cause, .. } = of;
        let report = Report { message, happened_s, start_s, counters, cause };
        Some(report.request(self.account_attributes(&of), self.config.accounting.input))
    }

    /// What all messages of a session say.
    fn account_attributes(&self, of: &Unaccounted) -> Attributes {
        let Facts { classes, chargeable, circuit_id, remote_id, is_remote, .. } = &*of.account.facts;
        let entry = self.subscribers.of_name(&of.subscriber).and_then(|index| self.subscribers.get(index));
        let name = match entry {
            Some(entry) => self.name_of(&entry.subscriber, &of.account, of.is_ppp),
            None => of.account.facts.name.as_deref().unwrap_or(of.subscriber.as_str().as_bytes()).to_vec(),
        };
        let session_id = of.account.id.to_string();
        let place = Place {
            line: &of.line,
            mac: of.mac,
            circuit_id: circuit_id.as_deref(),
            remote_id: remote_id.as_deref(),
            up_kbit_per_s: None,
            down_kbit_per_s: None,
            name: &name,
            session_id: &session_id,
        };
        let mut attributes = session_attributes(&self.config.aaa.nas, &place);
        if !of.is_ppp {
            attributes = attributes.without(number::FRAMED_PROTOCOL);
        }
        attributes.push(number::FRAMED_IP_ADDRESS, &of.address.octets());
        if let Some(prefix) = of.prefix {
            // Reserved, length (RFC 3162, section 2.3).
            let value = [&[0, LinkPrefix::LEN][..], &prefix.network().octets()].concat();
            attributes.push(number::FRAMED_IPV6_PREFIX, &value);
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
    pub(super) fn name_of(&self, subscriber: &Subscriber, account: &Account, is_ppp: bool) -> Vec<u8> {
        let login = match &subscriber.key {
            Key::Login(login) if is_ppp => login.as_str(),
            _ => subscriber.name.as_str(),
        };
        account.facts.name.as_deref().unwrap_or(login.as_bytes()).to_vec()
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

    /// A session of the records has ended.
    pub(super) fn adopt_stop(&mut self, online: &Online, cause: EndCause, ended_s: u64, counters: Counters) {
        let account = online.session.lease.account.clone();
        let Some(account) = account.filter(|account| account.told != Told::Off) else { return };
        let mut of = Unaccounted::of(online, account, ended_s, cause);
        of.counters = of.counters.max(counters);
        self.adopt_unaccounted(of);
    }

    pub(super) fn adopt_unaccounted(&mut self, of: Unaccounted) {
        let session = of.session;
        self.ledger.ended.insert(session, Ended { of, record: OnDisk::Yes, held: None, is_answered: false });
        self.ledger.hold(self.now.at + HELD, session);
        self.ledger.is_dirty = true;
    }

    pub(super) fn adopt_answered(&mut self, session: SessionId, what: record::Answered) {
        if what == record::Answered::Stop {
            return self.ledger.forget(session);
        }
        let index = self.sessions.get(&session).copied();
        let account = match index.and_then(|index| self.online_mut(index)) {
            Some(online) => online.session.lease.account.as_mut(),
            None => self.ledger.ended.get_mut(&session).map(|ended| &mut ended.of.account),
        };
        if let Some(account) = account.filter(|account| account.told == Told::Waits) {
            account.told = Told::Started;
        }
    }

    /// More was counted of a session of the records that has ended; whether there is one.
    pub(super) fn adopt_counted(&mut self, session: SessionId, counters: Counters) -> bool {
        let ended = self.ledger.ended.get_mut(&session);
        ended.map(|ended| ended.of.counters = ended.of.counters.max(counters)).is_some()
    }

    /// Sessions that have ended as records, for a log that is made short.
    pub(super) fn unaccounted_changes(&self) -> impl Iterator<Item = Change> {
        self.unaccounted().map(|of| Change::Unaccounted(Box::new(of.clone())))
    }
}
