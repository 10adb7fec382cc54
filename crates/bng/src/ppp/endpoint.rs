//! One end of a PPP session: its phases (RFC 1661, section 3.2).
//!
//! ```text
//! start > link: LCP > authentication > network: IPCP and IPV6CP, each by itself > end
//!              ^ the peer negotiates anew: all above falls and begins again
//! ```
//! The end is said once. Frames and timers after it do nothing.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::time::Duration;

use super::auth::authenticator::{self, Authenticator};
use super::auth::supplicant::{self, Login, Supplicant};
use super::auth::{Attempt, Method, Verdict};
use super::automaton::State;
use super::ipcp::{Addresses, Ipcp};
use super::ipv6cp::{InterfaceIds, Ipv6cp};
use super::lcp::{self, Agreed, Lcp};
use super::mru_test::MruTest;
use super::negotiation::{Negotiation, Protocol, Step, Timers};
use super::packet::{Packet, code};
use super::protocol;
use crate::pppoe::MAX_PAYLOAD;
use crate::random::Random;

/// What an end of a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It asks the peer who it is, by one of these methods.
    Concentrator {
        /// Its name in a challenge.
        name: String,
        /// The methods, the first first; not empty.
        methods: Vec<Method>,
    },
    /// It says who it is, and takes what it gets.
    Client {
        /// Its name and password.
        login: Login,
        /// Methods that it accepts.
        methods: Vec<Method>,
        /// Its interface identifier; 0: it takes one. `None`: no IPv6.
        interface_id: Option<u64>,
    },
}

/// What the network layer of a session gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Network {
    /// Addresses of IPv4; `None`: IPCP is refused.
    pub ipv4: Option<Addresses>,
    /// The concentrator's interface identifier, and one for a peer without; `None`: IPV6CP is refused.
    pub ipv6: Option<InterfaceIds>,
}

/// A protocol of the network layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// By IPCP.
    Ipv4(Addresses),
    /// By IPV6CP.
    Ipv6(InterfaceIds),
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The peer sent Terminate-Request.
    Peer,
    /// The peer does not answer.
    NoAnswer,
    /// The line sends back what is sent.
    Looped,
    /// The peer refuses each method of authentication.
    MethodRefused,
    /// The peer did not say who it is in time.
    NoCredentials,
    /// Name or password were wrong.
    Rejected,
    /// No protocol of the network layer is open.
    NoNetwork,
    /// Its negotiation went on for too long.
    TooLate,
    /// This side wanted it.
    Closed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Peer => "the peer ended the session (LCP Terminate-Request)",
            End::NoAnswer => "the peer does not answer LCP",
            End::Looped => "the line is looped back: the peer has the same magic number",
            End::MethodRefused => "the peer refuses each method of authentication that is configured",
            End::NoCredentials => "the peer did not authenticate itself in time",
            End::Rejected => "name or password are wrong",
            End::NoNetwork => "neither IPCP nor IPV6CP could be opened",
            End::TooLate => "the session was not up in time: the peer negotiates again and again",
            End::Closed => "the session was ended by the concentrator",
        })
    }
}

/// What an end of a session wants done, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a frame.
    Send {
        /// Its protocol.
        protocol: u16,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// Find out whether the peer is who it says; answer by [`Endpoint::verdict`].
    Ask(Attempt),
    /// A protocol of the network layer is open.
    Up(Layer),
    /// It is not open any more.
    Down(Layer),
    /// The session has ended.
    Ended(End),
}

/// How far an end of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The link is negotiated.
    Link,
    /// The client says who it is.
    Authentication,
    /// Protocols of the network layer are negotiated, or open.
    Network,
    /// It ends, or has ended.
    End,
}

#[derive(Debug)]
enum Phase {
    Link,
    Authenticator(Box<Authenticator>),
    Supplicant(Box<Supplicant>),
    /// The authenticator stays, for a peer that missed its answer.
    Network(Option<Box<Authenticator>>),
    Terminating,
    Ended,
}

/// One end of a session.
#[derive(Debug)]
pub struct Endpoint {
    role: Role,
    timers: Timers,
    lcp: Negotiation<Lcp>,
    phase: Phase,
    ipcp: Option<Negotiation<Ipcp>>,
    ipv6cp: Option<Negotiation<Ipv6cp>>,
    /// Whether the line carries what the MRU says; a client leaves that to the concentrator.
    mru_test: MruTest,
    /// Why it ends, as far as it is known.
    end: Option<End>,
    random: Random,
}

type Outputs = Vec<Output>;

impl Endpoint {
    /// An end of which nothing is negotiated.
    pub fn new(role: Role, max_mru: u16, timers: Timers, random: &mut Random) -> Endpoint {
        let lcp = Lcp::new(side(&role), max_mru, random);
        Endpoint {
            role,
            timers,
            lcp: Negotiation::new(lcp, timers),
            phase: Phase::Link,
            ipcp: None,
            ipv6cp: None,
            mru_test: MruTest::Holds,
            end: None,
            random: Random::new(random.bytes()),
        }
    }

    /// An end that is open, from what was kept of it: when the program ended, or to save memory.
    pub fn opened(
        role: Role,
        agreed: Agreed,
        layers: &[Layer],
        timers: Timers,
        random: &mut Random,
    ) -> Endpoint {
        let lcp = Lcp::opened(side(&role), agreed, random);
        let mut endpoint = Endpoint::new(role, agreed.max_mru, timers, random);
        endpoint.lcp = Negotiation::opened(lcp, timers);
        endpoint.phase = Phase::Network(None);
        for layer in layers {
            match layer {
                Layer::Ipv4(addresses) => {
                    let ipcp = match endpoint.role {
                        Role::Concentrator { .. } => Ipcp::concentrator(*addresses),
                        Role::Client { .. } => Ipcp::client_with(*addresses),
                    };
                    endpoint.ipcp = Some(Negotiation::opened(ipcp, timers));
                }
                Layer::Ipv6(ids) => {
                    endpoint.ipv6cp = Some(Negotiation::opened(Ipv6cp::new(ids.own, ids.peer), timers));
                }
            }
        }
        endpoint
    }

    /// What both sides of the link agreed on; the MRU of the peer as far as the line carries it.
    pub fn agreed(&self) -> Agreed {
        let agreed = self.lcp.protocol.agreed();
        Agreed { peer_mru: self.mru_test.limit(agreed.peer_mru), ..agreed }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        let ends =
            matches!(self.lcp.state(), State::Closing | State::Stopping | State::Closed | State::Stopped);
        match self.phase {
            Phase::Link if ends => Stage::End,
            Phase::Link => Stage::Link,
            Phase::Authenticator(_) | Phase::Supplicant(_) => Stage::Authentication,
            Phase::Network(_) => Stage::Network,
            Phase::Terminating | Phase::Ended => Stage::End,
        }
    }

    /// Whether IPV6CP is open, so that packets of IPv6 may be sent.
    pub fn is_ipv6_open(&self) -> bool {
        self.ipv6cp.as_ref().is_some_and(|ipv6cp| ipv6cp.state() == State::Opened)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Why it ends; `None`: it goes on.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether LCP is open.
    pub fn is_link_open(&self) -> bool {
        self.lcp.state() == State::Opened
    }

    /// When [`Endpoint::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        let authentication = match &self.phase {
            Phase::Authenticator(authenticator) => authenticator.deadline(),
            Phase::Supplicant(supplicant) => supplicant.deadline(),
            _ => None,
        };
        let ipcp = self.ipcp.as_ref().and_then(Negotiation::deadline);
        let ipv6cp = self.ipv6cp.as_ref().and_then(Negotiation::deadline);
        let mru_test = self.mru_test.deadline();
        [self.lcp.deadline(), authentication, ipcp, ipv6cp, mru_test].into_iter().flatten().min()
    }

    /// The session has an id: negotiation begins.
    pub fn start(&mut self, now: Duration, out: &mut Outputs) {
        let mut steps = Vec::new();
        self.lcp.start(now, &mut steps);
        self.link_steps(now, steps, out);
    }

    /// Ends the session in order: the peer is told by LCP.
    pub fn close(&mut self, now: Duration, end: End, out: &mut Outputs) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        self.end.get_or_insert(end);
        let mut steps = Vec::new();
        self.lcp.close(now, &mut steps);
        if !matches!(self.phase, Phase::Ended) {
            self.phase = Phase::Terminating;
        }
        self.link_steps(now, steps, out);
        // It was not even started.
        if matches!(self.lcp.state(), State::Initial | State::Closed) {
            self.finish(out);
        }
    }

    /// The deadline may have passed.
    pub fn timer(&mut self, now: Duration, out: &mut Outputs) {
        let mut steps = Vec::new();
        self.lcp.timer(now, &mut steps);
        self.link_steps(now, steps, out);
        self.test_mru(now, out);
        match &mut self.phase {
            Phase::Authenticator(authenticator) => {
                let mut steps = Vec::new();
                authenticator.timer(now, &mut steps);
                self.authenticator_steps(now, steps, out);
            }
            Phase::Supplicant(supplicant) => {
                let mut steps = Vec::new();
                supplicant.timer(now, &mut steps);
                self.supplicant_steps(now, steps, out);
            }
            _ => {}
        }
        self.with_ipcp(now, out, |ipcp, steps| ipcp.timer(now, steps));
        self.with_ipv6cp(now, out, |ipv6cp, steps| ipv6cp.timer(now, steps));
    }

    /// A frame of the peer. False: it is discarded.
    pub fn frame(&mut self, now: Duration, protocol: u16, payload: &[u8], out: &mut Outputs) -> bool {
        if matches!(self.phase, Phase::Ended) {
            return false;
        }
        if protocol == protocol::LCP {
            return Packet::read(payload).is_some_and(|packet| self.link(now, packet, out));
        }
        // Nothing but LCP before the link is open (section 3.4).
        if self.lcp.state() != State::Opened {
            return false;
        }
        match protocol {
            protocol::PAP | protocol::CHAP => self.authentication(now, protocol, payload, out),
            protocol::IPCP | protocol::IPV6CP => self.network(now, protocol, payload, out),
            // A packet behind a protocol that is not open (section 3.5).
            protocol::IPV4 | protocol::IPV6 => false,
            _ => {
                self.reject_protocol(protocol, payload, out);
                true
            }
        }
    }

    fn link(&mut self, now: Duration, packet: Packet<'_>, out: &mut Outputs) -> bool {
        let mut steps = Vec::new();
        let is_taken = match packet.code {
            code::PROTOCOL_REJECT => return self.protocol_reject(now, packet, out),
            code => {
                if code == code::TERMINATE_REQUEST {
                    self.end.get_or_insert(End::Peer);
                }
                self.mru_test.replied(packet);
                self.lcp.packet(now, packet, &mut steps)
            }
        };
        self.link_steps(now, steps, out);
        if self.lcp.protocol.is_looped() {
            self.close(now, End::Looped, out);
        }
        is_taken
    }

    /// The peer does not have a protocol.
    fn protocol_reject(&mut self, now: Duration, packet: Packet<'_>, out: &mut Outputs) -> bool {
        let Some(rejected) = packet.data.first_chunk().copied().map(u16::from_be_bytes) else { return false };
        if self.lcp.state() != State::Opened {
            return false;
        }
        let mut steps = Vec::new();
        match rejected {
            protocol::LCP => self.lcp.protocol_rejected(now, &mut steps),
            _ => self.lcp.other_rejected(now, &mut steps),
        }
        self.link_steps(now, steps, out);
        match rejected {
            protocol::IPCP => self.with_ipcp(now, out, |ipcp, steps| ipcp.protocol_rejected(now, steps)),
            // A peer that rejects its packets does not have IPv6, whatever was negotiated.
            protocol::IPV6CP | protocol::IPV6 => {
                self.with_ipv6cp(now, out, |ipv6cp, steps| ipv6cp.protocol_rejected(now, steps))
            }
            protocol::PAP | protocol::CHAP => self.close(now, End::MethodRefused, out),
            _ => {}
        }
        true
    }

    /// Protocol-Reject with what was received, cut to what the peer receives (section 5.7).
    fn reject_protocol(&mut self, protocol: u16, payload: &[u8], out: &mut Outputs) {
        let most = usize::from(self.agreed().peer_mru).saturating_sub(6);
        let mut data = protocol.to_be_bytes().to_vec();
        data.extend(payload.iter().take(most));
        let id = self.lcp.next_id();
        let payload = Packet { code: code::PROTOCOL_REJECT, id, data: &data }.write();
        out.push(Output::Send { protocol: protocol::LCP, payload });
    }

    fn link_steps(&mut self, now: Duration, steps: Vec<Step>, out: &mut Outputs) {
        for step in steps {
            match step {
                Step::Send(payload) => out.push(Output::Send { protocol: protocol::LCP, payload }),
                Step::Up => self.link_is_up(now, out),
                Step::Down => self.link_is_down(now, out),
                Step::Finished => self.finish(out),
            }
        }
    }

    fn finish(&mut self, out: &mut Outputs) {
        if !matches!(self.phase, Phase::Ended) {
            self.phase = Phase::Ended;
            out.push(Output::Ended(self.end.unwrap_or(End::NoAnswer)));
        }
    }

    /// Sends the echo that is due, if any.
    fn test_mru(&mut self, now: Duration, out: &mut Outputs) {
        let Agreed { peer_mru, magic, .. } = self.lcp.protocol.agreed();
        if let Some(payload) = self.mru_test.due(now, peer_mru, magic) {
            out.push(Output::Send { protocol: protocol::LCP, payload });
        }
    }

    fn link_is_up(&mut self, now: Duration, out: &mut Outputs) {
        if matches!(self.role, Role::Concentrator { .. }) && self.lcp.protocol.agreed().peer_mru > MAX_PAYLOAD
        {
            self.mru_test = MruTest::begin(self.lcp.next_id(), now);
            self.test_mru(now, out);
        }
        let (timers, random) = (self.timers, &mut self.random);
        match (&self.role, self.lcp.protocol.method(), self.lcp.protocol.peer_method()) {
            (Role::Concentrator { name, .. }, Some(method), _) => {
                let mut steps = Vec::new();
                let authenticator = Authenticator::start(method, name, timers, now, random, &mut steps);
                self.phase = Phase::Authenticator(Box::new(authenticator));
                self.authenticator_steps(now, steps, out);
            }
            (Role::Concentrator { .. }, None, _) => self.close(now, End::MethodRefused, out),
            (Role::Client { login, .. }, _, Some(method)) => {
                let mut steps = Vec::new();
                let supplicant = Supplicant::start(method, login.clone(), timers, now, random, &mut steps);
                self.phase = Phase::Supplicant(Box::new(supplicant));
                self.supplicant_steps(now, steps, out);
            }
            (Role::Client { .. }, _, None) => self.start_client(now, out),
        }
    }

    fn link_is_down(&mut self, now: Duration, out: &mut Outputs) {
        self.with_ipcp(now, out, |ipcp, steps| ipcp.lower_down(now, steps));
        self.with_ipv6cp(now, out, |ipv6cp, steps| ipv6cp.lower_down(now, steps));
        (self.ipcp, self.ipv6cp, self.mru_test) = (None, None, MruTest::Holds);
        if !matches!(self.phase, Phase::Terminating | Phase::Ended) {
            self.phase = Phase::Link;
        }
    }

    fn authentication(&mut self, now: Duration, protocol: u16, payload: &[u8], out: &mut Outputs) -> bool {
        let Some(packet) = Packet::read(payload) else { return false };
        match &mut self.phase {
            Phase::Authenticator(authenticator) | Phase::Network(Some(authenticator)) => {
                if self.lcp.protocol.method().map(Method::protocol) != Some(protocol) {
                    return false;
                }
                let mut steps = Vec::new();
                let is_taken = authenticator.packet(packet, &mut steps);
                self.authenticator_steps(now, steps, out);
                is_taken
            }
            Phase::Supplicant(supplicant) => {
                let mut steps = Vec::new();
                let is_taken = supplicant.packet(now, packet, &mut steps);
                self.supplicant_steps(now, steps, out);
                is_taken
            }
            _ => false,
        }
    }

    fn authenticator_steps(&mut self, now: Duration, steps: Vec<authenticator::Step>, out: &mut Outputs) {
        let protocol = self.lcp.protocol.method().map_or(protocol::CHAP, Method::protocol);
        for step in steps {
            match step {
                authenticator::Step::Send(payload) => out.push(Output::Send { protocol, payload }),
                authenticator::Step::Ask(attempt) => out.push(Output::Ask(attempt)),
                authenticator::Step::NoAnswer => self.close(now, End::NoCredentials, out),
            }
        }
    }

    /// What became of [`Output::Ask`]; `network` is what the peer gets if it is accepted. False: no answer was waited for.
    pub fn verdict(&mut self, now: Duration, verdict: &Verdict, network: Network, out: &mut Outputs) -> bool {
        let Phase::Authenticator(authenticator) = &mut self.phase else { return false };
        let mut steps = Vec::new();
        if !authenticator.verdict(verdict, &mut steps) {
            return false;
        }
        self.authenticator_steps(now, steps, out);
        if matches!(verdict, Verdict::Reject { .. }) {
            self.close(now, End::Rejected, out);
            return true;
        }
        if let Phase::Authenticator(authenticator) = std::mem::replace(&mut self.phase, Phase::Network(None))
        {
            self.phase = Phase::Network(Some(authenticator));
        }
        let ipcp = network.ipv4.map(Ipcp::concentrator);
        let ipv6cp = network.ipv6.map(|ids| Ipv6cp::new(ids.own, ids.peer));
        self.start_network(now, ipcp, ipv6cp, out);
        true
    }

    fn supplicant_steps(&mut self, now: Duration, steps: Vec<supplicant::Step>, out: &mut Outputs) {
        let protocol = self.lcp.protocol.peer_method().map_or(protocol::CHAP, Method::protocol);
        for step in steps {
            match step {
                supplicant::Step::Send(payload) => out.push(Output::Send { protocol, payload }),
                supplicant::Step::Accepted => self.start_client(now, out),
                supplicant::Step::Rejected(_) => self.close(now, End::Rejected, out),
                supplicant::Step::NoAnswer => self.close(now, End::NoAnswer, out),
            }
        }
    }

    fn start_client(&mut self, now: Duration, out: &mut Outputs) {
        self.phase = Phase::Network(None);
        if let Role::Client { interface_id, .. } = self.role {
            let ipv6cp = interface_id.map(|own| Ipv6cp::new(own, 0));
            self.start_network(now, Some(Ipcp::client()), ipv6cp, out);
        }
    }

    fn start_network(
        &mut self,
        now: Duration,
        ipcp: Option<Ipcp>,
        ipv6cp: Option<Ipv6cp>,
        out: &mut Outputs,
    ) {
        self.ipcp = ipcp.map(|ipcp| Negotiation::new(ipcp, self.timers));
        self.ipv6cp = ipv6cp.map(|ipv6cp| Negotiation::new(ipv6cp, self.timers));
        self.with_ipcp(now, out, |ipcp, steps| ipcp.start(now, steps));
        self.with_ipv6cp(now, out, |ipv6cp, steps| ipv6cp.start(now, steps));
        self.check_network(now, out);
    }

    fn network(&mut self, now: Duration, protocol: u16, payload: &[u8], out: &mut Outputs) -> bool {
        if !matches!(self.phase, Phase::Network(_)) {
            return false;
        }
        let is_refused = match protocol {
            protocol::IPCP => self.ipcp.is_none(),
            _ => self.ipv6cp.is_none(),
        };
        if is_refused {
            self.reject_protocol(protocol, payload, out);
            return true;
        }
        let Some(packet) = Packet::read(payload) else { return false };
        let mut is_taken = false;
        match protocol {
            protocol::IPCP => {
                self.with_ipcp(now, out, |ipcp, steps| is_taken = ipcp.packet(now, packet, steps));
            }
            _ => self.with_ipv6cp(now, out, |ipv6cp, steps| is_taken = ipv6cp.packet(now, packet, steps)),
        }
        is_taken
    }

    fn with_ipcp(
        &mut self,
        now: Duration,
        out: &mut Outputs,
        act: impl FnOnce(&mut Negotiation<Ipcp>, &mut Vec<Step>),
    ) {
        let layer = |ipcp: &Ipcp| Layer::Ipv4(ipcp.addresses());
        if with(&mut self.ipcp, out, act, layer) {
            self.check_network(now, out);
        }
    }

    fn with_ipv6cp(
        &mut self,
        now: Duration,
        out: &mut Outputs,
        act: impl FnOnce(&mut Negotiation<Ipv6cp>, &mut Vec<Step>),
    ) {
        let layer = |ipv6cp: &Ipv6cp| Layer::Ipv6(ipv6cp.ids());
        if with(&mut self.ipv6cp, out, act, layer) {
            self.check_network(now, out);
        }
    }

    /// A session of which no protocol can carry packets any more ends.
    fn check_network(&mut self, now: Duration, out: &mut Outputs) {
        let is_over =
            |state| matches!(state, State::Initial | State::Closed | State::Stopped | State::Stopping);
        let ipcp = self.ipcp.as_ref().is_none_or(|ipcp| is_over(ipcp.state()));
        let ipv6cp = self.ipv6cp.as_ref().is_none_or(|ipv6cp| is_over(ipv6cp.state()));
        if ipcp && ipv6cp && matches!(self.phase, Phase::Network(_)) {
            self.close(now, End::NoNetwork, out);
        }
    }
}

fn side(role: &Role) -> lcp::Side {
    match role {
        Role::Concentrator { methods, .. } => lcp::Side::Concentrator(methods.clone()),
        Role::Client { methods, .. } => lcp::Side::Client(methods.clone()),
    }
}

/// Acts on a protocol of the network layer; whether it has finished.
fn with<P: Protocol>(
    negotiation: &mut Option<Negotiation<P>>,
    out: &mut Outputs,
    act: impl FnOnce(&mut Negotiation<P>, &mut Vec<Step>),
    layer: impl Fn(&P) -> Layer,
) -> bool {
    let Some(negotiation) = negotiation else { return false };
    let mut steps = Vec::new();
    act(negotiation, &mut steps);
    let mut has_finished = false;
    for step in steps {
        match step {
            Step::Send(payload) => out.push(Output::Send { protocol: P::NUMBER, payload }),
            Step::Up => out.push(Output::Up(layer(&negotiation.protocol))),
            Step::Down => out.push(Output::Down(layer(&negotiation.protocol))),
            Step::Finished => has_finished = true,
        }
    }
    has_finished
}

#[cfg(test)]
mod tests;
