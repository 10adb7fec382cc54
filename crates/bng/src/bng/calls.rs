//! Sessions over PPPoE: from a PADI to an address, and to the end.
//!
//! ```text
//! PADI > PADO        PADR > a call: LCP > CHAP > subscriber, status, address, prefix > IPCP and IPV6CP, each by itself
//!                                        first Configure-Ack of one of them: the record ... Stored > the node, the Acks
//! PADT, LCP Terminate-Request, no answer, an operator > the call and its session end, PADT
//! ```
//! - The client gets the Acks of its address and its interface identifier after the record of its session is on disk, and after the node knows the session.
//! - A call without a record is forgotten at a restart; its client gets a PADT for what it sends.
//! - After a PADT nothing more is sent to its session (RFC 2516, section 5.5).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod brownout;
mod login;
mod remote;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use self::brownout::Answers;
pub(super) use self::brownout::Shown;
use self::remote::Remote;
use super::accepted::Given;
use super::dhcp::Grant;
use super::{Answer, Bng, Deadline, Outputs, Wait, Waiting};
use crate::account::{Account, Facts};
use crate::config::Pppoe;
use crate::drops::DropReason;
use crate::io::{Output, Punt};
use crate::limit::Limit;
use crate::line::Line;
use crate::mac::Mac;
use crate::ppp::auth::Attempt;
use crate::ppp::endpoint::{self, End, Endpoint, Layer, Role};
use crate::ppp::ipcp::Addresses;
use crate::ppp::ipv6cp::InterfaceIds;
use crate::ppp::packet::code;
use crate::ppp::protocol;
use crate::pppoe::DISCOVERY;
use crate::pppoe::concentrator::{self, Answered, Begin, Concentrator, SessionKey, padt};
use crate::pppoe::discovery::Discovery;
use crate::pppoe::line_tag::LineTag;
use crate::pppoe::session::SessionFrame;
use crate::prefix::interface_id;
use crate::radius::client::Client;
use crate::random::{Random, mac_sha256};
use crate::session::{Device, EndCause, LineRates, NO_ADDRESS, PppLink, Session, SessionId};
use crate::subscribers::Index;
use crate::why::{Direction, Outcome, TraceFrame};

/// Most PADO that wait for their time.
const MOST_PADOS: usize = 4096;
/// PADT for frames of sessions that there are not, for each MAC on a line.
const PADT_LIMIT: Limit = Limit { per_s: 1, burst: 1 };

/// How long a session may be negotiated, s, with all answers of RADIUS servers; its client may dial again.
const SET_UP_MOST_S: u64 = 120;

/// Number of a call, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallId(u64);

/// A PPPoE session, also one that is being set up.
#[derive(Debug)]
struct Call {
    key: SessionKey,
    mac: Mac,
    line_tag: Option<LineTag>,
    endpoint: Endpoint,
    /// When its negotiation began, s.
    began_s: u32,
    deadline: Option<Duration>,
    /// Whom the password was of, and what it gets.
    login: Option<(Index, Given)>,
    /// What its record says.
    session: Option<SessionId>,
    /// What RADIUS is asked for.
    asks: Option<Box<Attempt>>,
    /// What AAA has said of it.
    account: Option<Box<Account>>,
}

/// 64,000 sessions in 64 MB, with what they point to.
const _: () = assert!(size_of::<Call>() <= 816);

/// All calls.
#[derive(Debug)]
pub(super) struct Calls {
    concentrator: Concentrator,
    calls: BTreeMap<CallId, Call>,
    by_key: HashMap<SessionKey, CallId>,
    last: u64,
    pados: VecDeque<(u64, Line, Vec<u8>)>,
    last_pado: u64,
    random: Random,
    remote: Remote,
    answers: Answers,
}

/// What became of a frame that was not dropped.
enum Taken {
    /// All that it causes is done.
    Now,
    /// It is answered when a record is on disk.
    Later,
}

impl Calls {
    pub(super) fn new(seed: u64) -> Calls {
        let key = mac_sha256(&[0; 32], &[b"calls", &seed.to_be_bytes()]);
        let mut random = Random::new(key);
        let of_concentrator = Random::new(random.bytes());
        Calls {
            concentrator: Concentrator::new(concentrator::Options::default(), of_concentrator),
            calls: BTreeMap::new(),
            by_key: HashMap::new(),
            last: 0,
            pados: VecDeque::new(),
            last_pado: 0,
            remote: Remote::new(&mut random),
            answers: Answers::new(&mut random),
            random,
        }
    }

    pub(super) fn configure(&mut self, pppoe: Option<&Pppoe>) {
        if let Some(pppoe) = pppoe {
            self.concentrator.configure(pppoe.discovery.clone());
        }
    }

    fn insert(&mut self, call: Call) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.by_key.insert(call.key.clone(), id);
        self.calls.insert(id, call);
        id
    }

    pub(super) fn radius_client(&mut self) -> &mut Client {
        self.remote.client()
    }

    /// Whether packets of IPv6 may be sent to the client of a call.
    pub(super) fn is_ipv6_open(&self, id: CallId) -> bool {
        self.calls.get(&id).is_some_and(|call| call.endpoint.is_ipv6_open())
    }

    /// The call of a session.
    pub(super) fn of_session(&self, line: &Line, ppp: PppLink, session: SessionId) -> Option<CallId> {
        let id = *self.by_key.get(&SessionKey { line: line.clone(), id: ppp.id })?;
        self.calls.get(&id).filter(|call| call.session == Some(session)).map(|_| id)
    }
}

fn role(pppoe: &Pppoe) -> Role {
    Role::Concentrator { name: pppoe.discovery.name.clone(), methods: pppoe.methods.clone() }
}

impl Bng {
    /// How many PPPoE sessions there are, also those that are being set up.
    pub fn calls(&self) -> usize {
        self.calls.calls.len()
    }

    /// How many PPPoE sessions are being set up.
    pub fn half_open_calls(&self) -> usize {
        self.calls.concentrator.half_open()
    }

    /// What discovery has counted beside drops.
    pub fn discovery_counts(&self) -> concentrator::Counts {
        self.calls.concentrator.counts()
    }

    /// Logins that RADIUS is asked for.
    pub(super) fn asking(&self) -> usize {
        self.calls.calls.values().filter(|call| call.asks.is_some()).count()
    }

    /// A PPPoE frame that the node did not forward.
    pub(super) fn pppoe(&mut self, punt: &Punt<'_>, out: &mut Outputs) {
        let line = Line { port: punt.port.clone(), tags: punt.tags };
        let mac = punt.bytes.get(6..).and_then(<[u8]>::first_chunk).copied().map_or(Mac::default(), Mac);
        if mac.is_station() {
            let (at, direction) = (self.now.at, Direction::FromSubscriber);
            self.traces.heard(&line, mac, TraceFrame { at, direction, bytes: punt.bytes.to_vec() });
        }
        match self.pppoe_frame(&line, punt.bytes, out) {
            Ok(Taken::Now) => self.counts.accepted += 1,
            Ok(Taken::Later) => {}
            // Frames of an attempt that has ended do not hide its reason.
            Err(reason @ DropReason::PppoeSession) => {
                self.counts.drops += reason;
                self.traces.note_if_unknown(&line, mac, Outcome::Dropped(reason));
            }
            Err(reason) => self.drop_frame(&line, mac, reason),
        }
    }

    fn pppoe_frame(&mut self, line: &Line, bytes: &[u8], out: &mut Outputs) -> Result<Taken, DropReason> {
        if self.config.pppoe.is_none() {
            return Err(DropReason::PppoeOff);
        }
        let port = self.config.ports.get(&line.port).and_then(|port| port.mac);
        let port = port.ok_or(DropReason::PortUnknown)?;
        if weir_packet::fields::be16(bytes, 12) == Some(DISCOVERY) {
            let packet = Discovery::read(bytes)?;
            return self.discovery(line, port, &packet, out).map(|()| Taken::Now);
        }
        let frame = SessionFrame::read(bytes)?;
        if frame.src == port {
            return Err(DropReason::OwnMac);
        }
        if frame.dst != port {
            return Err(DropReason::OtherServer);
        }
        let key = SessionKey { line: line.clone(), id: frame.session_id };
        let call = self.calls.by_key.get(&key).copied();
        let is_of = |id: &CallId| self.calls.calls.get(id).is_some_and(|call| call.mac == frame.src);
        let Some(id) = call.filter(is_of) else {
            return Err(self.unknown_session(line, port, &frame, out));
        };
        self.session_frame(id, &frame, out)
    }

    /// A frame of an unknown session: its sender gets a PADT, at a limited rate.
    fn unknown_session(
        &mut self,
        line: &Line,
        port: Mac,
        frame: &SessionFrame<'_>,
        out: &mut Outputs,
    ) -> DropReason {
        if self.limiter.takes(self.now.at, &("padt", line, frame.src), PADT_LIMIT) {
            let padt = padt(port, frame.src, frame.session_id, DropReason::PppoeSession.meaning());
            self.send_now(line, frame.src, padt, out);
        }
        DropReason::PppoeSession
    }

    fn discovery(
        &mut self,
        line: &Line,
        port: Mac,
        packet: &Discovery,
        out: &mut Outputs,
    ) -> Result<(), DropReason> {
        let of = concentrator::Port { line, mac: port };
        match self.calls.concentrator.input(self.now.at, of, packet)? {
            Answered::Offer { after, frame } if after.is_zero() => {
                self.send_now(line, packet.src, frame, out);
            }
            Answered::Offer { after, frame } => {
                if self.calls.pados.len() >= MOST_PADOS {
                    return Err(DropReason::PadiRateLine);
                }
                self.calls.last_pado += 1;
                let number = self.calls.last_pado;
                self.deadlines.insert((self.now.at + after, Deadline::Pado(number)));
                self.calls.pados.push_back((number, line.clone(), frame));
            }
            Answered::Again(frame) => self.send_now(line, packet.src, frame, out),
            Answered::Begin(begin) => self.begin_call(*begin, out),
            Answered::Refuse { reason, frame } => {
                self.send_now(line, packet.src, frame, out);
                return Err(reason);
            }
            Answered::End(key) => {
                if let Some(id) = self.calls.by_key.get(&key).copied() {
                    self.drop_call(id, EndCause::Released, out);
                }
            }
        }
        Ok(())
    }

    /// The first PADO leaves.
    pub(super) fn send_pado(&mut self, out: &mut Outputs) {
        if let Some((_, line, frame)) = self.calls.pados.pop_front() {
            let mac = frame.first_chunk().copied().map_or(Mac::default(), Mac);
            self.send_now(&line, mac, frame, out);
        }
    }

    fn begin_call(&mut self, begin: Begin, out: &mut Outputs) {
        let Some(pppoe) = &self.config.pppoe else { return };
        let Begin { key, mac, line_tag, max_mru, frame } = begin;
        let endpoint = Endpoint::new(role(pppoe), max_mru, pppoe.timers, &mut self.calls.random);
        let line = key.line.clone();
        let (deadline, login, session, asks, account) = (None, None, None, None, None);
        let began_s = self.now.at.as_secs() as u32;
        let call = Call { key, mac, line_tag, endpoint, began_s, deadline, login, session, asks, account };
        let id = self.calls.insert(call);
        self.send_now(&line, mac, frame, out);
        let mut outputs = Vec::new();
        if let Some(call) = self.calls.calls.get_mut(&id) {
            call.endpoint.start(self.now.at, &mut outputs);
        }
        self.carry_out_call(id, outputs, out);
    }

    /// Sessions of the records go on: those that have no call get one.
    pub(super) fn adopt_calls(&mut self) {
        let all = self.sessions.values().filter_map(|index| Some((*index, self.subscribers.get(*index)?)));
        let sessions = all.filter_map(|(index, entry)| {
            let session = &entry.online.as_ref()?.session;
            let ppp = session.lease.ppp?;
            let is_known = self.calls.of_session(&session.lease.device.line, ppp, session.id).is_some();
            (!is_known).then(|| (index, session.clone(), ppp))
        });
        let sessions: Vec<_> = sessions.collect();
        for (index, session, ppp) in sessions {
            self.adopt_call(index, &session, ppp);
        }
    }

    fn adopt_call(&mut self, index: Index, session: &Session, ppp: PppLink) {
        let Device { line, mac, .. } = session.lease.device.clone();
        let key = SessionKey { line, id: ppp.id };
        // Two sessions of the records with one id: the later one has it.
        if let Some(before) = self.calls.by_key.get(&key).copied() {
            self.forget_call(before);
        }
        self.calls.concentrator.adopt(&key, mac);
        // Without `pppoe` in the configuration sessions go on, and no new one begins.
        let pppoe = self.config.pppoe.clone().unwrap_or_default();
        let given = Given { address: session.lease.address, prefix: session.lease.prefix };
        let ipv6 = given.prefix.and_then(|_| self.interface_ids(&key.line, mac)).map(Layer::Ipv6);
        let layers = [self.ppp_addresses(given.address).map(Layer::Ipv4), ipv6];
        let layers: Vec<Layer> = layers.into_iter().flatten().collect();
        let random = &mut self.calls.random;
        let endpoint = Endpoint::opened(role(&pppoe), ppp.agreed, &layers, pppoe.timers, random);
        let (login, session) = (Some((index, given)), Some(session.id));
        let (line_tag, deadline, asks, account) = (None, None, None, None);
        let began_s = self.now.at.as_secs() as u32;
        self.calls.insert(Call {
            key,
            mac,
            line_tag,
            endpoint,
            began_s,
            deadline,
            login,
            session,
            asks,
            account,
        });
        self.resume_advertising(index);
    }

    fn session_frame(
        &mut self,
        id: CallId,
        frame: &SessionFrame<'_>,
        out: &mut Outputs,
    ) -> Result<Taken, DropReason> {
        let mut outputs = Vec::new();
        let Some(call) = self.calls.calls.get_mut(&id) else { return Err(DropReason::PppoeSession) };
        // It has received its PADS.
        self.calls.concentrator.confirm(&call.key);
        if frame.protocol == protocol::IPV6 {
            // Before it has a session its subscriber may be online with another device.
            let (index, _) = call.login.filter(|_| call.session.is_some()).ok_or(DropReason::PppDiscarded)?;
            return self.solicited(index, frame.payload, out).map(|()| Taken::Now);
        }
        // If the client is silent, the timers of PPP end its session.
        if call.session.is_none() && self.now.at.as_secs() > u64::from(call.began_s) + SET_UP_MOST_S {
            self.close_call(id, End::TooLate, out);
            return Ok(Taken::Now);
        }
        if !call.endpoint.frame(self.now.at, frame.protocol, frame.payload, &mut outputs) {
            return Err(DropReason::PppDiscarded);
        }
        let (before, dropped) = (self.waiting.len(), self.counts.drops.clone());
        self.carry_out_call(id, outputs, out);
        // A login that was refused has its reason already; one that RADIUS is asked for is counted with the answer.
        let is_counted = self.counts.drops != dropped;
        let asks = self.calls.calls.get(&id).is_some_and(|call| call.asks.is_some());
        match self.waiting.len() > before || is_counted || asks {
            true => Ok(Taken::Later),
            false => Ok(Taken::Now),
        }
    }

    pub(super) fn call_timer(&mut self, id: CallId, out: &mut Outputs) {
        let mut outputs = Vec::new();
        if let Some(call) = self.calls.calls.get_mut(&id) {
            call.deadline = None;
            call.endpoint.timer(self.now.at, &mut outputs);
        }
        self.carry_out_call(id, outputs, out);
    }

    /// Does what the end of a session wants done.
    fn carry_out_call(&mut self, id: CallId, outputs: Vec<endpoint::Output>, out: &mut Outputs) {
        for output in outputs {
            match output {
                endpoint::Output::Send { protocol, payload } => self.send_ppp(id, protocol, &payload, out),
                endpoint::Output::Ask(attempt) => self.log_in(id, &attempt, out),
                // Its record was written with the first Ack.
                endpoint::Output::Up(Layer::Ipv4(_)) => {}
                endpoint::Output::Up(Layer::Ipv6(_)) => self.ipv6_is_up(id, out),
                endpoint::Output::Down(layer) => self.layer_is_down(id, layer, out),
                endpoint::Output::Ended(end) => self.call_ended(id, end, out),
            }
        }
        let Some(call) = self.calls.calls.get_mut(&id) else { return };
        let deadline = call.endpoint.deadline();
        if deadline != call.deadline {
            if let Some(before) = std::mem::replace(&mut call.deadline, deadline) {
                self.deadlines.remove(&(before, Deadline::Call(id)));
            }
            if let Some(at) = deadline {
                self.deadlines.insert((at, Deadline::Call(id)));
            }
        }
    }

    /// A link that ends or is negotiated anew has no session until its address is acknowledged again. While the link is open the
    /// session stays: a client that missed the Ack of its address asks again, and gets the same one.
    fn layer_is_down(&mut self, id: CallId, layer: Layer, out: &mut Outputs) {
        let Some(call) = self.calls.calls.get_mut(&id) else { return };
        let Some((index, _)) = call.login else { return };
        let cause = call.endpoint.end().map_or(EndCause::Released, cause_of);
        if !call.endpoint.is_link_open() && call.session.take().is_some() {
            call.began_s = self.now.at.as_secs() as u32;
            self.end(index, cause, out);
        } else if matches!(layer, Layer::Ipv6(_)) && call.session.is_some() {
            self.stop_advertising(index);
        }
    }

    /// The client takes packets of IPv6, once it has the Ack.
    fn ipv6_is_up(&mut self, id: CallId, out: &mut Outputs) {
        if self.is_stored(id)
            && let Some((index, _)) = self.calls.calls.get(&id).and_then(|call| call.login)
        {
            self.start_advertising(index, out);
        }
    }

    fn send_ppp(&mut self, id: CallId, protocol: u16, payload: &[u8], out: &mut Outputs) {
        let Some(call) = self.calls.calls.get(&id) else { return };
        let (line, mac, session_id) = (call.key.line.clone(), call.mac, call.key.id);
        let Some(src) = self.config.ports.get(&line.port).and_then(|port| port.mac) else { return };
        let frame = SessionFrame { dst: mac, src, session_id, protocol, payload }.write();
        let is_ack =
            matches!(protocol, protocol::IPCP | protocol::IPV6CP) && payload.first() == Some(&code::ACK);
        match is_ack && !self.is_stored(id) {
            true => self.grant_call(id, Answer { line, mac, frame }, out),
            false => self.send_now(&line, mac, frame, out),
        }
    }

    /// Whether a record of the call's session is on disk.
    fn is_stored(&self, id: CallId) -> bool {
        let call = self.calls.calls.get(&id);
        let session = call.and_then(|call| Some((call.login?.0, call.session?)));
        session.is_some_and(|(index, session)| {
            let online = self.subscribers.get(index).and_then(|entry| entry.online.as_ref());
            online.is_some_and(|online| online.session.id == session && online.is_stored)
        })
    }

    /// The client has accepted its address or its interface identifier: it gets the Configure-Ack when the record is on disk.
    fn grant_call(&mut self, id: CallId, answer: Answer, out: &mut Outputs) {
        let Some(call) = self.calls.calls.get(&id) else { return };
        let Some((index, Given { address, prefix })) = call.login else { return };
        if let Some(session) = call.session {
            return self.add_answer(index, session, answer);
        }
        // Its session of before may have another address.
        let may_have = self.may_have(address, index)
            && prefix.is_none_or(|prefix| {
                self.prefixes.holder(prefix) == Some(index) || self.prefixes.is_free_for(prefix, index)
            });
        let device = Device { line: call.key.line.clone(), mac: call.mac, relay: None };
        let routes = call.account.as_ref().map(|account| account.facts.routes.clone()).unwrap_or_default();
        // Others may have come online since it has logged in.
        let has_clash =
            self.check_places(index, &device).is_err() || self.check_routes(index, &routes).is_err();
        if !may_have || has_clash {
            return self.close_call(id, End::Closed, out);
        }
        let ppp = Some(PppLink {
            id: call.key.id,
            agreed: call.endpoint.agreed(),
            line_rates: call.line_tag.as_ref().map(line_rates).unwrap_or_default(),
        });
        let account = Some(self.account_of_call(id));
        // PPP says itself when it ends.
        let lease_s = 0;
        let grant = Grant { device, client_id: None, address, prefix, lease_s, ppp, account, answer };
        self.grant(index, grant, out);
        let session = self.online_mut(index).map(|online| online.session.id);
        if let Some(call) = self.calls.calls.get_mut(&id) {
            call.session = session;
            self.calls.concentrator.establish(&call.key);
        }
    }

    /// The account of a call: what RADIUS has said, or a new one with what the access node says of the line.
    pub(super) fn account_of_call(&mut self, id: CallId) -> Account {
        let call = self.calls.calls.get_mut(&id);
        if let Some(account) = call.and_then(|call| call.account.take()) {
            return *account;
        }
        let account = self.ledger.account();
        let tag = self.calls.calls.get(&id).and_then(|call| call.line_tag.as_ref());
        let Some(tag) = tag.filter(|tag| tag.circuit_id.is_some() || tag.remote_id.is_some()) else {
            return account;
        };
        let (circuit_id, remote_id) = (tag.circuit_id.clone(), tag.remote_id.clone());
        Account { facts: Arc::new(Facts { circuit_id, remote_id, ..Facts::default() }), ..account }
    }

    /// The client has asked again before its record was on disk, or by the other protocol: each of them gets one Ack.
    fn add_answer(&mut self, index: Index, session: SessionId, answer: Answer) {
        let online = self.online_mut(index).filter(|online| online.session.id == session);
        let Some(revision) = online.and_then(|online| online.waits_for) else { return };
        let from = self.waiting.partition_point(|waiting| waiting.revision < revision);
        let to = self.waiting.partition_point(|waiting| waiting.revision <= revision);
        let protocol = protocol_of(&answer.frame);
        let is_same = |waiting: &&mut Waiting| match &waiting.what {
            Wait::Answer { answer, .. } => protocol_of(&answer.frame) == protocol,
            Wait::Command { .. } | Wait::Dynauth { .. } => false,
        };
        let before = self.waiting.range_mut(from..to).find(is_same);
        if let Some(Wait::Answer { answer: before, .. }) = before.map(|waiting| &mut waiting.what) {
            *before = answer;
            self.counts.drops += DropReason::Superseded;
        } else {
            let what = Wait::Answer { subscriber: index, session, answer };
            self.waiting.insert(to, Waiting { revision, what });
        }
    }

    /// The negotiation has ended, and with it the session.
    fn call_ended(&mut self, id: CallId, end: End, out: &mut Outputs) {
        let Some(call) = self.calls.calls.get(&id) else { return };
        let (line, mac, session_id) = (call.key.line.clone(), call.mac, call.key.id);
        let was_online = call.session.is_some();
        self.drop_call(id, cause_of(end), out);
        if !was_online && end != End::Rejected {
            self.trace(&line, mac, Outcome::LinkEnded(end));
        }
        self.send_padt(&line, mac, session_id, &end.to_string(), out);
    }

    fn send_padt(&mut self, line: &Line, mac: Mac, session_id: u16, text: &str, out: &mut Outputs) {
        if let Some(port) = self.config.ports.get(&line.port).and_then(|port| port.mac) {
            self.send_now(line, mac, padt(port, mac, session_id, text), out);
        }
    }

    /// Takes a call out, and ends its session; nothing is sent to its client.
    fn drop_call(&mut self, id: CallId, cause: EndCause, out: &mut Outputs) {
        let Some(call) = self.forget_call(id) else { return };
        let Some((index, _)) = call.login else { return };
        if call.session.is_some() {
            self.end(index, cause, out);
        } else {
            self.withdraw_offer(index);
        }
    }

    fn forget_call(&mut self, id: CallId) -> Option<Call> {
        let call = self.calls.calls.remove(&id)?;
        self.calls.by_key.remove(&call.key);
        self.calls.concentrator.release(&call.key);
        if let Some(at) = call.deadline {
            self.deadlines.remove(&(at, Deadline::Call(id)));
        }
        if call.asks.is_some() {
            self.calls.remote.cancel(id);
            self.counts.accepted += 1;
        }
        Some(call)
    }

    /// Ends a call at once: LCP Terminate-Request, then PADT.
    fn close_call(&mut self, id: CallId, end: End, out: &mut Outputs) {
        let Some(call) = self.calls.calls.get_mut(&id) else { return };
        let (line, mac, session_id) = (call.key.line.clone(), call.mac, call.key.id);
        let mut outputs = Vec::new();
        let was_online = call.session.is_some();
        call.endpoint.close(self.now.at, end, &mut outputs);
        for output in outputs {
            if let endpoint::Output::Send { protocol, payload } = output {
                self.send_ppp(id, protocol, &payload, out);
            }
        }
        self.drop_call(id, cause_of(end), out);
        if !was_online && end != End::Closed {
            self.trace(&line, mac, Outcome::LinkEnded(end));
        }
        self.send_padt(&line, mac, session_id, &end.to_string(), out);
    }

    /// The record of a PPPoE session says that it has ended: its client gets a PADT.
    pub(super) fn hang_up(&mut self, line: &Line, ppp: PppLink, session: SessionId, out: &mut Outputs) {
        if let Some(id) = self.calls.of_session(line, ppp, session) {
            if let Some(call) = self.calls.calls.get_mut(&id) {
                call.session = None;
            }
            self.close_call(id, End::Closed, out);
        }
    }

    /// The node does not hear the device of a session any more.
    pub(super) fn session_lost(&mut self, session: SessionId, out: &mut Outputs) {
        if let Some(index) = self.sessions.get(&session).copied() {
            self.end(index, EndCause::Lost, out);
        }
    }

    /// Sends a frame that no count of answers has.
    pub(super) fn send_now(&mut self, line: &Line, mac: Mac, frame: Vec<u8>, out: &mut Outputs) {
        let direction = Direction::ToSubscriber;
        self.traces.keep(line, mac, TraceFrame { at: self.now.at, direction, bytes: frame.clone() });
        out.push(Output::Send { port: line.port.clone(), tags: line.tags, frame });
    }

    /// The interface identifiers of a session: the node's is that of its link-local address; `None`: the port has no MAC address yet.
    fn interface_ids(&self, line: &Line, mac: Mac) -> Option<InterfaceIds> {
        let own = self.config.ports.get(&line.port)?.mac?;
        Some(InterfaceIds { own: interface_id(own), peer: interface_id(mac) })
    }

    /// What IPCP says of an address; `None`: it is refused.
    fn ppp_addresses(&self, client: Ipv4Addr) -> Option<Addresses> {
        if client == NO_ADDRESS {
            return None;
        }
        let none = Ipv4Addr::UNSPECIFIED;
        let pool = self.addresses.pool(client).or(self.addresses.pools().first());
        let dns = [0, 1].map(|at| self.config.dns.get(at).copied().unwrap_or(none));
        Some(Addresses { gateway: pool.map_or(none, |pool| pool.router), client, dns })
    }
}

/// The cause of a session whose negotiation has ended.
fn cause_of(end: End) -> EndCause {
    match end {
        End::Peer => EndCause::Released,
        End::Closed => EndCause::Disconnected,
        End::NoNetwork => EndCause::ServiceLost,
        End::TooLate
        | End::NoAnswer
        | End::Looped
        | End::MethodRefused
        | End::NoCredentials
        | End::Rejected => EndCause::Lost,
    }
}

/// The PPP protocol of a frame of a session.
fn protocol_of(frame: &[u8]) -> Option<u16> {
    SessionFrame::read(frame).ok().map(|frame| frame.protocol)
}

/// What an access node says of the rates of a line.
fn line_rates(line: &LineTag) -> LineRates {
    LineRates {
        up_kbit_per_s: line.up_kbit_per_s.unwrap_or_default(),
        down_kbit_per_s: line.down_kbit_per_s.unwrap_or_default(),
    }
}
