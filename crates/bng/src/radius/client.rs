//! A client of several servers (RFC 2865; timers of RFC 5080, section 2.2.1; Status-Server of RFC 5997).
//!
//! ```text
//! request > first server that is alive, of the realm, with a free identifier > datagram
//!         > no answer: again, later and later > the next server > no server left, or 30 s: the request fails
//! no answer to several datagrams in a row: the server is dead > Status-Server, or a pause > alive
//! ```
//! - No request waits for another one's answer; when all identifiers are used, requests wait in order, and their number is bounded.
//! - When every server is dead a request fails at once, so that what follows RADIUS in the order of AAA is asked without delay.
//! - A server with TLS has connections in place of source ports: nothing is sent again by the same connection (RFC 6613, section 2.6.1), and
//!   the requests of a connection that ends are sent by another one; see stream.rs.
//! - A request that goes to another server, or whose Acct-Delay-Time has changed, has a new identifier and authenticator.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod ids;
mod stream;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::access::Request;
use super::attribute::{Attributes, number};
use super::packet::{Distrust, Packet, Require, code, hide_password};
use crate::now::Now;
use crate::random::Random;
use ids::Ids;
use stream::Link;
pub use stream::LinkChange;

/// The secret of a server. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// The bytes of a secret.
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(bytes.into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// How packets get to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP.
    Datagrams,
    /// TLS over TCP (RFC 6614). A connection has 256 identifiers, as a source port has.
    Stream,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name here, unique.
    pub name: String,
    /// How packets get to it.
    pub transport: Transport,
    /// The secret of both sides.
    pub secret: Secret,
    /// Realms (behind `@`) that it serves; empty: those of no other server.
    pub realms: Vec<String>,
    /// Source ports or connections; each has 256 identifiers.
    pub ports: u16,
    /// Whether an answer must have a Message-Authenticator.
    pub require: Require,
    /// Most requests without an answer.
    pub most_open: usize,
    /// Whether it answers Status-Server.
    pub has_status: bool,
    /// How long it is not asked when it is dead; with Status-Server the interval between these.
    pub dead_time: Duration,
}

impl Server {
    /// A server with the defaults: UDP, all realms, 16 ports, 1,024 open requests, Message-Authenticator not required, no
    /// Status-Server, a dead time of 60 s.
    pub fn new(name: &str, secret: Secret) -> Server {
        Server {
            name: name.into(),
            transport: Transport::Datagrams,
            secret,
            realms: Vec::new(),
            ports: 16,
            require: Require::Nothing,
            most_open: 1024,
            has_status: false,
            dead_time: Duration::from_secs(60),
        }
    }
}

impl Server {
    /// Its state when it has not answered. One that answers Status-Server is asked at once: an overload that lost datagrams may have passed.
    fn dead_from(&self, now: Duration) -> Health {
        match self.has_status {
            true => Health::Dead { until: now, pause: FIRST_STATUS_PAUSE.min(self.dead_time) },
            false => Health::Dead { until: now + self.dead_time, pause: self.dead_time },
        }
    }
}

/// Times and limits. The defaults are those of RFC 5080, section 2.2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// First wait (IRT).
    pub first: Duration,
    /// Longest wait (MRT).
    pub longest: Duration,
    /// Datagrams to one server (MRC) if no other one is left.
    pub most_tries: u32,
    /// The same if another server is alive.
    pub tries_before_next: u32,
    /// Longest time of a request (MRD), at all servers.
    pub most: Duration,
    /// Datagrams without an answer after which a server is dead.
    pub dead_after: u32,
    /// Most requests that wait for an identifier.
    pub most_waiting: usize,
}

impl Default for Timers {
    fn default() -> Timers {
        let s = Duration::from_secs;
        Timers {
            first: s(2),
            longest: s(16),
            most_tries: 5,
            tries_before_next: 2,
            most: s(30),
            dead_after: 8,
            most_waiting: 65_536,
        }
    }
}

/// Number by which the caller knows a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// Name of the server.
        server: String,
        /// Source port, from 0 on.
        port: u16,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// A request has an answer, or failed.
    Done {
        /// Which.
        token: Token,
        /// Code and attributes of the answer.
        result: Result<(u8, Attributes), Failure>,
    },
    /// End a connection, and begin another one.
    Reconnect {
        /// Name of the server.
        server: String,
        /// Which connection, from 0 on.
        port: u16,
    },
    /// A server does not answer.
    Dead(String),
    /// It answers again.
    Alive(String),
    /// An answer was dropped, and others may be: said once a minute for each server.
    Distrusted {
        /// Name of the server.
        server: String,
        /// Why.
        why: Distrust,
    },
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// No server serves the realm.
    #[error("no RADIUS server is configured for this realm: add one without realms")]
    NoServer,
    /// All servers of the realm are dead.
    #[error("all RADIUS servers are dead: see the events of each, and its secret and address")]
    AllDead,
    /// No server has answered in time.
    #[error("no RADIUS server has answered in time")]
    NoAnswer,
    /// Too many requests wait.
    #[error("too many requests wait for RADIUS servers: raise their ports and limits of open requests")]
    Busy,
    /// It is longer than 4096 bytes.
    #[error("the request is longer than 4096 bytes")]
    TooLong,
}

/// What a client counts for each server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// First datagrams of requests.
    pub requests: u64,
    /// Datagrams that were sent again.
    pub repeated: u64,
    /// Answers that were believed.
    pub answers: u64,
    /// Answers of no open request: late or repeated ones.
    pub late: u64,
    /// Answers with a wrong authenticator.
    pub forged: u64,
    /// Answers without the Message-Authenticator that they must have.
    pub without_authenticator: u64,
    /// Answers that are no packet, or of another kind.
    pub malformed: u64,
}

/// Whether a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Alive {
        unanswered: u32,
    },
    /// It is asked for its status, or tried again, then; the pause is that after the next Status-Server.
    Dead {
        until: Duration,
        pause: Duration,
    },
    /// Its first connection is being made: requests wait for it if no other server takes them.
    Connecting,
    /// It cannot be reached, and is alive with its next connection.
    Unreachable,
}

#[derive(Debug)]
struct ServerState {
    server: Server,
    number: u32,
    ids: Ids,
    health: Health,
    counts: Counts,
    /// When an answer was last reported as dropped.
    told: Option<Duration>,
    /// Its connections, if it has such.
    links: Vec<Link>,
}

impl ServerState {
    fn new(server: Server, number: u32) -> ServerState {
        let (links, health) = match server.transport {
            Transport::Datagrams => (Vec::new(), Health::Alive { unanswered: 0 }),
            Transport::Stream => (vec![Link::default(); server.ports.into()], Health::Connecting),
        };
        let mut ids = Ids::new(server.ports);
        (0..server.ports).for_each(|port| ids.set_usable(port, server.transport == Transport::Datagrams));
        ServerState { server, number, ids, health, counts: Counts::default(), told: None, links }
    }

    /// Whether requests may be given to it.
    fn is_asked(&self) -> bool {
        matches!(self.health, Health::Alive { .. } | Health::Connecting)
    }

    /// Whether it can take other options without beginning anew.
    fn may_become(&self, server: &Server) -> bool {
        let own = &self.server;
        let is_stream = own.transport == Transport::Stream;
        own.name == server.name
            && own.transport == server.transport
            && (own.ports == server.ports || !is_stream)
    }
}

/// An open request: server, port and identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    server: u32,
    port: u16,
    id: u8,
}

/// A request on its way.
#[derive(Debug)]
struct Job {
    /// `None`: a Status-Server.
    token: Option<Token>,
    request: Arc<Request>,
    give_up: Duration,
    /// Servers that did not answer it.
    tried: Vec<u32>,
}

#[derive(Debug)]
struct Open {
    job: Job,
    authenticator: [u8; 16],
    /// Of the server when it was sent.
    secret: Secret,
    bytes: Vec<u8>,
    tries: u32,
    wait: Duration,
    retry: Duration,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    timers: Timers,
    servers: Vec<ServerState>,
    numbers: u32,
    open: HashMap<Key, Open>,
    deadlines: BTreeSet<(Duration, Key)>,
    waiting: VecDeque<Job>,
    random: Random,
}

type Outputs = Vec<Output>;

/// Between the first two Status-Server packets to a dead server; it doubles up to the dead time.
const FIRST_STATUS_PAUSE: Duration = Duration::from_secs(1);

/// Interval between two reports of dropped answers of a server.
const TOLD_EVERY: Duration = Duration::from_secs(60);

impl Client {
    /// A client without servers.
    pub fn new(timers: Timers, random: Random) -> Client {
        Client {
            timers,
            servers: Vec::new(),
            numbers: 0,
            open: HashMap::new(),
            deadlines: BTreeSet::new(),
            waiting: VecDeque::new(),
            random,
        }
    }

    /// Longest time of the requests from now on, at all servers.
    pub fn set_most(&mut self, most: Duration) {
        self.timers.most = most;
    }

    /// Other servers, in the order in which they are asked. A server of the same name keeps its state and takes its new secret;
    /// requests to servers that are gone go to others.
    pub fn configure(&mut self, now: Now, servers: Vec<Server>, out: &mut Outputs) {
        let mut before = std::mem::take(&mut self.servers);
        for server in servers {
            let place = before.iter().position(|state| state.may_become(&server));
            let state = match place.map(|place| before.swap_remove(place)) {
                Some(mut state) => {
                    state.ids.resize(server.ports);
                    ServerState { server, ..state }
                }
                None => {
                    self.numbers += 1;
                    ServerState::new(server, self.numbers)
                }
            };
            self.servers.push(state);
        }
        let is_gone = |key: &Key| before.iter().any(|state| state.number == key.server);
        let mut gone: Vec<Key> = self.open.keys().copied().filter(is_gone).collect();
        gone.sort_unstable();
        for key in gone {
            if let Some(open) = self.close(key) {
                self.place(now, open.job, out);
            }
        }
    }

    /// What was counted of each server.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.servers.iter().map(|state| (&*state.server.name, state.counts))
    }

    /// Whether a server is asked.
    pub fn is_alive(&self, name: &str) -> bool {
        let state = self.servers.iter().find(|state| state.server.name == name);
        state.is_some_and(|state| matches!(state.health, Health::Alive { .. }))
    }

    /// Requests that are open or wait.
    pub fn len(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    /// Whether no request is open or waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When [`Client::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        let open = self.deadlines.first().map(|(at, _)| *at);
        let waiting = self.waiting.front().map(|job| job.give_up);
        let dead = self.servers.iter().filter_map(|state| match state.health {
            Health::Dead { until, .. } => Some(until),
            _ => state.watch_at(),
        });
        dead.chain(open).chain(waiting).min()
    }

    /// Asks.
    pub fn send(&mut self, now: Now, token: Token, request: Request, out: &mut Outputs) {
        let give_up = now.at + self.timers.most;
        let job = Job { token: Some(token), request: Arc::new(request), give_up, tried: Vec::new() };
        self.place(now, job, out);
    }

    /// Forgets a request: its answer does not matter any more.
    pub fn cancel(&mut self, token: Token) {
        self.waiting.retain(|job| job.token != Some(token));
        let key = self.open.iter().find(|(_, open)| open.job.token == Some(token)).map(|(key, _)| *key);
        if let Some(key) = key {
            self.close(key);
        }
    }

    /// Servers for a request, in their order.
    fn candidates(&self, request: &Request) -> Vec<usize> {
        let name = request.attributes.get(number::USER_NAME).unwrap_or_default();
        let realm =
            name.iter().rposition(|byte| *byte == b'@').and_then(|at| name.get(at + 1..)).unwrap_or_default();
        let serves = |state: &ServerState| {
            state.server.realms.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(realm))
        };
        let of_realm = self.servers.iter().any(serves);
        let fits =
            |state: &ServerState| if of_realm { serves(state) } else { state.server.realms.is_empty() };
        self.servers.iter().enumerate().filter(|(_, state)| fits(state)).map(|(place, _)| place).collect()
    }

    /// Sends a request to the first server that may take it.
    fn place(&mut self, now: Now, job: Job, out: &mut Outputs) {
        let fail = |failure, out: &mut Outputs| {
            if let Some(token) = job.token {
                out.push(Output::Done { token, result: Err(failure) });
            }
        };
        let candidates = self.candidates(&job.request);
        let state = |place: &usize| self.servers.get(*place);
        if candidates.is_empty() {
            return fail(Failure::NoServer, out);
        }
        let is_alive = |place: &usize| state(place).is_some_and(ServerState::is_asked);
        let alive: Vec<usize> = candidates.into_iter().filter(is_alive).collect();
        if alive.is_empty() {
            return fail(Failure::AllDead, out);
        }
        let is_new = |place: &usize| state(place).is_some_and(|state| !job.tried.contains(&state.number));
        let untried: Vec<usize> = alive.into_iter().filter(is_new).collect();
        if untried.is_empty() || job.give_up <= now.at {
            return fail(Failure::NoAnswer, out);
        }
        let has_room = |place: &&usize| {
            state(place)
                .is_some_and(|state| state.ids.used() < state.server.most_open && state.ids.has_free())
        };
        match untried.iter().find(has_room) {
            Some(place) => self.open_at(now, *place, job, out),
            None if self.waiting.len() < self.timers.most_waiting => self.waiting.push_back(job),
            None => fail(Failure::Busy, out),
        }
    }

    fn open_at(&mut self, now: Now, place: usize, job: Job, out: &mut Outputs) {
        let taken = self.servers.get_mut(place).and_then(|state| state.ids.take());
        if let Some(at) = taken {
            self.open_as(now, place, at, job, out);
        }
    }

    /// Sends a request with this port and identifier.
    fn open_as(&mut self, now: Now, place: usize, (port, id): (u16, u8), job: Job, out: &mut Outputs) {
        let Some(state) = self.servers.get_mut(place) else { return };
        let key = Key { server: state.number, port, id };
        let secret = state.server.secret.clone();
        let Some(packet) = build(&job.request, id, &secret, now, &mut self.random) else {
            state.ids.release(port, id);
            if let Some(token) = job.token {
                out.push(Output::Done { token, result: Err(Failure::TooLong) });
            }
            return;
        };
        state.counts.requests += 1;
        let bytes = packet.write();
        out.push(Output::Send { server: state.server.name.clone(), port, bytes: bytes.clone() });
        let wait = jitter(self.timers.first, &mut self.random);
        let retry = now.at + wait;
        self.deadlines.insert((retry, key));
        let authenticator = packet.authenticator;
        self.open.insert(key, Open { job, authenticator, secret, bytes, tries: 1, wait, retry });
    }

    /// Takes an open request out; its identifier is free.
    fn close(&mut self, key: Key) -> Option<Open> {
        let open = self.open.remove(&key)?;
        self.deadlines.remove(&(open.retry, key));
        if let Some(state) = self.servers.iter_mut().find(|state| state.number == key.server) {
            state.ids.release(key.port, key.id);
        }
        Some(open)
    }

    /// A datagram of a server, that came to one of this client's ports.
    ///
    /// # Errors
    /// It is not the answer to an open request: it was counted, and changes nothing.
    pub fn datagram(
        &mut self,
        now: Now,
        server: &str,
        port: u16,
        bytes: &[u8],
        out: &mut Outputs,
    ) -> Result<(), NoAnswer> {
        let state =
            self.servers.iter_mut().find(|state| state.server.name == server).ok_or(NoAnswer::Late)?;
        let result = match Packet::read(bytes) {
            Err(distrust) => Err(NoAnswer::Distrusted(distrust)),
            Ok(packet) => {
                let key = Key { server: state.number, port, id: packet.id };
                match self.open.get(&key) {
                    None => Err(NoAnswer::Late),
                    Some(open) if !answers(&open.job, packet.code) => Err(NoAnswer::OtherKind),
                    Some(open) => {
                        // The attack is on Access-Accept and Access-Reject. FreeRADIUS 3.2.1 answers accounting and Status-Server
                        // without the attribute.
                        let is_access = open.job.request.code == code::ACCESS_REQUEST;
                        let require = if is_access { state.server.require } else { Require::Nothing };
                        let checked = packet.check_answer(&open.authenticator, open.secret.bytes(), require);
                        checked.map(|()| (key, packet)).map_err(NoAnswer::Distrusted)
                    }
                }
            }
        };
        match &result {
            Ok(_) => state.counts.answers += 1,
            Err(NoAnswer::Late) => state.counts.late += 1,
            Err(NoAnswer::Distrusted(Distrust::NoMessageAuthenticator)) => {
                state.counts.without_authenticator += 1
            }
            Err(NoAnswer::Distrusted(Distrust::Length) | NoAnswer::OtherKind) => state.counts.malformed += 1,
            Err(NoAnswer::Distrusted(_)) => state.counts.forged += 1,
        }
        if let Err(NoAnswer::Distrusted(why)) = &result
            && state.told.is_none_or(|at| at + TOLD_EVERY <= now.at)
        {
            state.told = Some(now.at);
            out.push(Output::Distrusted { server: state.server.name.clone(), why: *why });
        }
        let (key, packet) = result?;
        if matches!(state.health, Health::Dead { .. }) {
            out.push(Output::Alive(state.server.name.clone()));
        }
        state.health = Health::Alive { unanswered: 0 };
        state.hears(now, port);
        if let Some(Open { job: Job { token: Some(token), .. }, .. }) = self.close(key) {
            out.push(Output::Done { token, result: Ok((packet.code, packet.attributes)) });
        }
        self.start_waiting(now, out);
        Ok(())
    }

    /// Requests that wait for an identifier, as long as there are any.
    fn start_waiting(&mut self, now: Now, out: &mut Outputs) {
        for _ in 0..self.waiting.len() {
            let Some(job) = self.waiting.pop_front() else { return };
            let before = self.waiting.len();
            self.place(now, job, out);
            // It waits again, behind the others: it comes first the next time.
            if self.waiting.len() > before {
                if let Some(job) = self.waiting.pop_back() {
                    self.waiting.push_front(job);
                }
                return;
            }
        }
    }

    /// Deadlines may have passed.
    pub fn timer(&mut self, now: Now, out: &mut Outputs) {
        while let Some((_, key)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now.at) {
            self.no_answer(now, key, out);
        }
        for place in 0..self.servers.len() {
            self.revive(now, place, out);
            self.watch(now, place, out);
        }
        while let Some(job) = self.waiting.pop_front_if(|job| job.give_up <= now.at) {
            if let Some(token) = job.token {
                out.push(Output::Done { token, result: Err(Failure::NoAnswer) });
            }
        }
        self.start_waiting(now, out);
    }

    /// A datagram was not answered in time.
    fn no_answer(&mut self, now: Now, key: Key, out: &mut Outputs) {
        let timers = self.timers;
        let Some(state) = self.servers.iter_mut().find(|state| state.number == key.server) else {
            self.close(key);
            return;
        };
        if let Health::Alive { unanswered } = &mut state.health {
            *unanswered += 1;
            if *unanswered >= timers.dead_after {
                state.health = state.server.dead_from(now.at);
                out.push(Output::Dead(state.server.name.clone()));
                self.leave(now, key.server, out);
                return self.reconnect_all(now, key.server, out);
            }
        }
        let is_stream = state.server.transport == Transport::Stream;
        let name = state.server.name.clone();
        let Some(open) = self.open.get(&key) else { return };
        let most_tries = match self.has_next(&open.job, key.server) {
            true => timers.tries_before_next,
            false => timers.most_tries,
        };
        let Some(open) = self.open.get_mut(&key) else { return };
        let is_status = open.job.token.is_none();
        if is_status || open.tries >= most_tries || open.job.give_up <= now.at {
            self.move_on(now, key, out);
            // Nothing comes by this connection any more.
            if is_stream && is_status {
                self.reconnect(now, key, out);
            }
            return;
        }
        open.tries += 1;
        // RT = 2 RTprev + RAND RTprev, at most MRT + RAND MRT.
        let next = open.wait + jitter(open.wait, &mut self.random);
        open.wait = if next > timers.longest { jitter(timers.longest, &mut self.random) } else { next };
        self.deadlines.remove(&(open.retry, key));
        open.retry = (now.at + open.wait).min(open.job.give_up);
        self.deadlines.insert((open.retry, key));
        // TCP has sent it again as often as needed.
        if is_stream {
            return;
        }
        let bytes = open.bytes.clone();
        if let Some(state) = self.servers.iter_mut().find(|state| state.number == key.server) {
            state.counts.repeated += 1;
        }
        out.push(Output::Send { server: name, port: key.port, bytes });
    }

    /// Whether a request can go to another server.
    fn has_next(&self, job: &Job, asked: u32) -> bool {
        let may_take = |place: usize| {
            self.servers.get(place).is_some_and(|state| {
                state.is_asked()
                    && state.ids.has_free()
                    && state.number != asked
                    && !job.tried.contains(&state.number)
            })
        };
        self.candidates(&job.request).into_iter().any(may_take)
    }

    /// A request goes to another server.
    fn move_on(&mut self, now: Now, key: Key, out: &mut Outputs) {
        let Some(Open { mut job, .. }) = self.close(key) else { return };
        if job.token.is_some() {
            job.tried.push(key.server);
            self.place(now, job, out);
        }
    }

    /// All requests of a server go to others, in the order in which their answers are due.
    fn leave(&mut self, now: Now, server: u32, out: &mut Outputs) {
        let own: Vec<Key> =
            self.deadlines.iter().map(|(_, key)| *key).filter(|key| key.server == server).collect();
        own.into_iter().for_each(|key| self.move_on(now, key, out));
    }

    /// A dead server is asked for its status, or is tried again.
    fn revive(&mut self, now: Now, place: usize, out: &mut Outputs) {
        let Some(state) = self.servers.get_mut(place) else { return };
        let Health::Dead { until, pause } = state.health else { return };
        if until > now.at {
            return;
        }
        if !state.server.has_status {
            // One datagram without an answer, and it is dead again.
            state.health = Health::Alive { unanswered: self.timers.dead_after.saturating_sub(1) };
            return;
        }
        let next = (2 * pause).min(state.server.dead_time);
        state.health = Health::Dead { until: now.at + pause, pause: next };
        self.open_at(now, place, Job::status(now.at + pause), out);
    }
}

/// Why a datagram is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoAnswer {
    /// No open request has its identifier, or the server is not configured.
    #[error("no open request has this identifier: the answer is late, repeated or forged")]
    Late,
    /// Its code answers another kind of request.
    #[error("the code of the packet is not one of an answer to the request")]
    OtherKind,
    /// It was not made by the server.
    #[error(transparent)]
    Distrusted(Distrust),
}

/// Whether a code answers a request.
fn answers(job: &Job, found: u8) -> bool {
    match job.request.code {
        code::ACCESS_REQUEST => {
            matches!(found, code::ACCESS_ACCEPT | code::ACCESS_REJECT | code::ACCESS_CHALLENGE)
        }
        code::ACCOUNTING_REQUEST => found == code::ACCOUNTING_RESPONSE,
        _ => matches!(found, code::ACCESS_ACCEPT | code::ACCESS_REJECT | code::ACCOUNTING_RESPONSE),
    }
}

/// The time, a tenth shorter or longer.
fn jitter(time: Duration, random: &mut Random) -> Duration {
    let per_mille = 900 + random.below(201) as u32;
    time * per_mille / 1000
}

/// The packet of a request for a server; `None`: it is too long.
fn build(request: &Request, id: u8, secret: &Secret, now: Now, random: &mut Random) -> Option<Packet> {
    let secret = secret.bytes();
    let mut attributes = request.attributes.clone();
    if let Some(happened_s) = request.happened_s {
        let delay = u32::try_from(now.wall_s.saturating_sub(happened_s)).unwrap_or(u32::MAX);
        attributes.push_u32(number::ACCT_DELAY_TIME, delay);
    }
    if matches!(request.code, code::ACCOUNTING_REQUEST) {
        return Packet::hashed(request.code, id, &attributes, secret);
    }
    let authenticator = random.bytes();
    if let Some(password) = &request.password {
        attributes.push(number::USER_PASSWORD, &hide_password(password.bytes(), secret, &authenticator));
    }
    Packet::access(request.code, id, authenticator, &attributes, secret)
}

#[cfg(test)]
mod tests;
