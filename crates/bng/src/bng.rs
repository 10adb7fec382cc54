//! The state of a BNG, and what becomes of each input.
//!
//! ```text
//! input > deadlines that have passed > punt: dhcp.rs | command: commands.rs | record, table of the node: adopt.rs
//!                                                     > sessions.rs: grant, end > records > what waits for the disk
//! ```

mod accepted;
mod accounting;
mod adopt;
mod advertise;
mod calls;
mod commands;
mod dhcp;
mod dhcp_radius;
mod dynauth;
mod limits;
mod queries;
mod radius;
mod refused;
mod routes;
mod seats;
mod sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

pub use accounting::AccountingCounts;
pub use dynauth::DynauthCounts;
pub use queries::{Counts, Sizes};

use self::accounting::Ledger;
use self::calls::{CallId, Calls};
use self::dhcp_radius::DhcpAsks;
use self::refused::Refusals;
use crate::config::Config;
use crate::drops::DropReason;
use crate::io::{CommandError, Input, Now, Output};
use crate::limit::Limiter;
use crate::line::{Line, PortName};
use crate::mac::Mac;
use crate::places::Places;
use crate::pool::Addresses;
use crate::prefix::Prefixes;
use crate::radius::dynauth::{self as dynauth_server, ErrorCause};
use crate::record::{Change, Record};
use crate::route::Routes;
use crate::session::SessionId;
use crate::subscribers::{Index, Subscribers};
use crate::why::{Direction, Outcome, TraceFrame, Traces};

/// Most deadlines that pass within one input; the others are due at once.
const MOST_DEADLINES: usize = 256;

/// A BNG.
#[derive(Debug)]
pub struct Bng {
    config: Config,
    now: Now,
    subscribers: Subscribers,
    addresses: Addresses,
    prefixes: Prefixes,
    /// Networks behind subscribers: of sessions, and those that a subscriber alone gets.
    routes: Routes,
    fixed_routes: Routes,
    sessions: BTreeMap<SessionId, Index>,
    places: Places,
    deadlines: BTreeSet<(Duration, Deadline)>,
    /// Addresses in quarantine.
    quarantines: HashMap<Ipv4Addr, Quarantine>,
    /// What waits for the disk, in the order of records.
    waiting: VecDeque<Waiting>,
    /// Number of the last record.
    revision: u64,
    limiter: Limiter,
    traces: Traces,
    counts: Counts,
    /// PPPoE sessions, also those that are being set up.
    calls: Calls,
    /// DHCP clients that RADIUS is asked for.
    dhcp_asks: DhcpAsks,
    /// Sessions that the node does not take.
    refusals: Refusals,
    /// Accounting.
    ledger: Ledger,
    /// Requests of CoA and Disconnect.
    dynauth: dynauth_server::Server,
    dynauth_counts: DynauthCounts,
    /// Until when a port's servers are not reported again.
    servers_seen: HashMap<PortName, Duration>,
    /// When [`Output::Wake`] was last said for.
    wake: Option<Duration>,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deadline {
    /// A lease ends.
    Lease(Index),
    /// A session ends, since its port has no link.
    Grace(Index),
    /// A session ends that the node does not take.
    Refusal(SessionId),
    /// An interim update, or a limit of a session.
    Session(Index),
    /// An offer ends.
    Offer(Index),
    /// An address may be assigned again.
    Quarantine(Ipv4Addr),
    /// A PPPoE session has something to do.
    Call(CallId),
    /// A PADO leaves.
    Pado(u64),
    /// A router advertisement leaves.
    Advertise(Index),
    /// A request to RADIUS was not answered in time.
    Radius,
    /// The same of accounting, or a Stop waits no longer.
    Accounting,
}

/// Why an address is not assigned for a time.
#[derive(Debug)]
struct Quarantine {
    until: Duration,
    /// The subscriber whose client declined it last.
    subscriber: Index,
}

/// What waits for a record.
#[derive(Debug)]
struct Waiting {
    revision: u64,
    what: Wait,
}

#[derive(Debug)]
enum Wait {
    /// A client, for the answer to its request.
    Answer {
        /// The subscriber of the session.
        subscriber: Index,
        session: SessionId,
        answer: Answer,
    },
    /// A server that has asked for a change.
    Dynauth { key: dynauth_server::Key },
    /// An operator; the subscriber that was changed, if any.
    Command { id: u64, changed: Option<Index> },
}

/// A frame for a client.
#[derive(Debug)]
struct Answer {
    line: Line,
    mac: Mac,
    frame: Vec<u8>,
}

type Outputs = Vec<Output>;

impl Bng {
    /// A BNG without subscribers. `seed` should be secret: it decides which sources of frames share
    /// the buckets of their limits.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn new(config: Config, seed: u64) -> Result<Bng, CommandError> {
        if let Some(wrong) = config.contradictions().first() {
            return Err(CommandError::Configuration(wrong.clone()));
        }
        let mut addresses = Addresses::default();
        addresses.set_pools(config.pools.clone());
        let places = Places::new(config.session_limits);
        let mut prefixes = Prefixes::default();
        prefixes.set_pools(config.prefix_pools.clone());
        let mut calls = Calls::new(seed);
        calls.configure(config.pppoe.as_ref());
        let options = dynauth_server::Options::default();
        let dynauth = dynauth_server::Server::new(options, config.aaa.nas.clone(), config.aaa.plans.clone());
        Ok(Bng {
            config,
            now: Now::default(),
            subscribers: Subscribers::default(),
            addresses,
            prefixes,
            routes: Routes::default(),
            fixed_routes: Routes::default(),
            sessions: BTreeMap::new(),
            places,
            deadlines: BTreeSet::new(),
            quarantines: HashMap::new(),
            waiting: VecDeque::new(),
            revision: 0,
            limiter: Limiter::new(seed),
            calls,
            dhcp_asks: DhcpAsks::default(),
            refusals: Refusals::default(),
            ledger: Ledger::new(seed),
            dynauth,
            dynauth_counts: DynauthCounts::default(),
            traces: Traces::default(),
            counts: Counts::default(),
            servers_seen: HashMap::new(),
            wake: None,
        })
    }

    /// Takes in what happens, and adds what is to be done. A time before that of an input before counts as the same time.
    pub fn input(&mut self, now: Now, input: Input<'_>, out: &mut Vec<Output>) {
        self.now = Now { at: now.at.max(self.now.at), wall_s: now.wall_s };
        // What was adopted may have ended meanwhile, but the node is asked first what it has.
        if !matches!(input, Input::Adopt(_)) {
            self.pass_deadlines(out);
        }
        match input {
            Input::Punt(punt) => self.punt(&punt, out),
            Input::Stored { revision } => self.stored(revision, out),
            Input::StoreFailed => self.store_failed(out),
            Input::Timer => {}
            Input::Command { id, command } => self.command(id, command, out),
            Input::Adopt(record) => self.adopt(record, out),
            Input::NodeTable(table) => self.compare_node(table, out),
            Input::RadiusServers(servers) => self.set_radius_servers(servers, out),
            Input::AccountingServers(servers) => self.set_accounting_servers(servers, out),
            Input::Radius { service, server, port, bytes } => {
                // A datagram that is no answer is counted by the client.
                self.tell_radius(service, out, |client, now, outputs| {
                    _ = client.datagram(now, server, port, bytes, outputs);
                });
            }
            Input::DynauthOptions(options) => self.set_dynauth(options),
            Input::Dynauth { from, bytes } => self.dynauth_datagram(from, bytes, out),
            Input::Removed { session, counters } => self.removed_by_node(session, counters, out),
            Input::RadiusLink { service, server, port, change } => {
                self.tell_radius(service, out, |client, now, outputs| {
                    client.link(now, server, port, change, outputs);
                });
            }
            Input::PasswordHashed { login, mark, hash } => self.password_hashed(login, mark, hash, out),
            Input::PasswordChecked { id, checked } => self.password_checked(id, checked, out),
            Input::SessionLost { session } => self.session_lost(session, out),
            Input::EndedByNode { session, counters } => self.ended_by_node(session, counters, out),
            Input::NodeRefused { session, lacks, why } => self.refused_by_node(session, lacks, why, out),
            Input::Counted { session, counters } => self.counted(session, counters, out),
            Input::PortLink { port, link } => self.port_link(&port, link, out),
        }
        self.account(out);
        let next = self.deadlines.first().map(|(at, _)| *at);
        if let Some(at) = next.filter(|at| self.wake != Some(*at)) {
            out.push(Output::Wake(at));
        }
        self.wake = next;
    }

    fn pass_deadlines(&mut self, out: &mut Outputs) {
        for _ in 0..MOST_DEADLINES {
            let due = self.deadlines.first().copied().filter(|(at, _)| *at <= self.now.at);
            let Some((at, deadline)) = due else { return };
            self.deadlines.remove(&(at, deadline));
            // It is said again for the next one, even if that is at the same time.
            self.wake = None;
            match deadline {
                Deadline::Lease(subscriber) => self.lease_ends(subscriber, out),
                Deadline::Grace(subscriber) => self.grace_ends(subscriber, out),
                Deadline::Refusal(session) => self.refusal_is_due(session, out),
                Deadline::Session(subscriber) => self.session_is_due(subscriber, out),
                Deadline::Offer(subscriber) => self.withdraw_offer(subscriber),
                Deadline::Quarantine(address) => self.quarantine_ends(address),
                Deadline::Call(call) => self.call_timer(call, out),
                Deadline::Pado(_) => self.send_pado(out),
                Deadline::Advertise(subscriber) => self.advertise_again(subscriber, out),
                Deadline::Radius => self.radius_timer(out),
                Deadline::Accounting => self.accounting_timer(out),
            }
        }
    }

    /// Writes a record; its number.
    fn store(&mut self, change: Change, out: &mut Outputs) -> u64 {
        self.revision += 1;
        out.push(Output::Store(Record { revision: self.revision, change }));
        self.revision
    }

    /// Records up to this one are on disk.
    fn stored(&mut self, revision: u64, out: &mut Outputs) {
        self.ends_are_stored(revision, out);
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.revision <= revision) {
            match waiting.what {
                Wait::Command { id, changed } => {
                    self.subscriber_is_stored(changed);
                    out.push(Output::Done { id, result: Ok(()) });
                }
                Wait::Dynauth { key } => self.answer_dynauth(key, Ok(()), out),
                Wait::Answer { subscriber, session, answer } => {
                    self.subscriber_is_stored(Some(subscriber));
                    let is_online = self.session_is_stored(subscriber, session, out);
                    match is_online {
                        Some(address) => {
                            self.trace(&answer.line, answer.mac, Outcome::Up(address));
                            self.send(answer, out);
                            if !self.waits(session) {
                                self.start_advertising(subscriber, out);
                            }
                        }
                        None => self.counts.drops += DropReason::SessionEnded,
                    }
                }
            }
        }
    }

    /// Whether another answer of a session, of the same record, is next.
    fn waits(&self, session: SessionId) -> bool {
        let next = self.waiting.front().map(|waiting| &waiting.what);
        matches!(next, Some(Wait::Answer { session: of, .. }) if *of == session)
    }

    /// Clients that wait for a record ask again, and get the answer to a new one.
    fn store_failed(&mut self, out: &mut Outputs) {
        self.ends_are_lost();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.what {
                Wait::Command { id, .. } => {
                    out.push(Output::Done { id, result: Err(CommandError::NotStored) })
                }
                Wait::Dynauth { key } => {
                    self.answer_dynauth(key, Err(ErrorCause::ResourcesUnavailable), out);
                }
                Wait::Answer { subscriber, session, answer } => {
                    self.session_is_not_stored(subscriber, session, out);
                    self.drop_frame(&answer.line, answer.mac, DropReason::NotStored);
                }
            }
        }
    }

    /// Sends a frame to a client.
    fn send(&mut self, answer: Answer, out: &mut Outputs) {
        let Answer { line, mac, frame } = answer;
        self.counts.answered += 1;
        let direction = Direction::ToSubscriber;
        self.traces.keep(&line, mac, TraceFrame { at: self.now.at, direction, bytes: frame.clone() });
        out.push(Output::Send { port: line.port, tags: line.tags, frame });
    }

    /// Notes what came of a frame of a device.
    fn trace(&mut self, line: &Line, mac: Mac, outcome: Outcome) {
        self.traces.note(line, mac, outcome);
    }

    /// A frame is not answered.
    fn drop_frame(&mut self, line: &Line, mac: Mac, reason: DropReason) {
        self.counts.drops += reason;
        self.trace(line, mac, Outcome::Dropped(reason));
    }
}
