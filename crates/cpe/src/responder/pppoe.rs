//! PPPoE of the responder: the concentrator's side of `weir_bng`, with one password for all.
//!
//! ```text
//!  discovery > Concentrator > session id > Endpoint per session > address from the MAC address
//! ```

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use weir_bng::ppp::auth::{Method, Password, Verdict};
use weir_bng::ppp::endpoint::{Endpoint, Network, Output, Role};
use weir_bng::ppp::ipcp::Addresses;
use weir_bng::ppp::ipv6cp::InterfaceIds;
use weir_bng::ppp::negotiation::Timers;
use weir_bng::ppp::protocol;
use weir_bng::pppoe::concentrator::{self, Answered, Concentrator, Port, SessionKey};
use weir_bng::pppoe::discovery::Discovery;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::ra::{self, Advertised, Advertisement};
use weir_bng::{Limit, Line, LinkPrefix, Mac, PortName, Random, Tags, link_local};

use super::{GATEWAY, MAC, address_of};

/// The password of each device.
const PASSWORD: &[u8] = b"secret";
/// Interface identifier of the responder, its prefixes, which have the IPv4 address of the device in their last bits (2001:db8::/32), and how
/// long they are valid, s.
const OWN_ID: u64 = 1;
const PREFIXES: u64 = 0x2001_0db8_0000_0000;
const LIFETIME_S: u16 = 3600;
const UNLIMITED: Limit = Limit { per_s: 1_000_000, burst: 1_000_000 };

/// Methods of authentication, the first one asked for first.
pub(super) const METHODS: [Method; 3] = [Method::ChapMd5, Method::MsChapV2, Method::Pap];

/// All sessions.
#[derive(Debug)]
pub(super) struct Pppoe {
    concentrator: Concentrator,
    sessions: HashMap<SessionKey, Session>,
    methods: Vec<Method>,
    random: Random,
    port: Option<PortName>,
}

#[derive(Debug)]
struct Session {
    mac: Mac,
    endpoint: Box<Endpoint>,
}

/// What becomes of a frame beside answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A session has this address.
    Up(Ipv4Addr, SessionKey, Mac),
    /// The session that had it has ended.
    Down(Ipv4Addr),
}

impl Pppoe {
    /// No session; devices authenticate themselves by one of `methods`.
    pub(super) fn new(methods: &[Method]) -> Pppoe {
        let options = concentrator::Options {
            mac_limit: UNLIMITED,
            line_limit: UNLIMITED,
            max_payload: 1500,
            ..concentrator::Options::default()
        };
        Pppoe {
            concentrator: Concentrator::new(options, Random::new([7; 32])),
            sessions: HashMap::new(),
            methods: methods.to_vec(),
            random: Random::new([8; 32]),
            port: "access".parse().ok(),
        }
    }

    /// Answers a packet of discovery.
    pub(super) fn discovery(
        &mut self,
        tags: Tags,
        frame: &[u8],
        now: Duration,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<Change> {
        let packet = Discovery::read(frame).ok()?;
        let line = Line { port: self.port.clone()?, tags };
        match self.concentrator.input(now, Port { line: &line, mac: MAC }, &packet).ok()? {
            Answered::Offer { frame, .. } | Answered::Again(frame) | Answered::Refuse { frame, .. } => {
                out.push(frame);
            }
            Answered::Begin(begin) => {
                out.push(begin.frame);
                let role = Role::Concentrator { name: "responder".into(), methods: self.methods.clone() };
                let mut endpoint =
                    Box::new(Endpoint::new(role, begin.max_mru, Timers::default(), &mut self.random));
                let mut said = Vec::new();
                endpoint.start(now, &mut said);
                self.sessions.insert(begin.key.clone(), Session { mac: begin.mac, endpoint });
                return self.said(&begin.key, said, now, out);
            }
            Answered::End(key) => {
                return self.sessions.remove(&key).map(|session| Change::Down(address_of(session.mac)));
            }
        }
        None
    }

    /// Takes in a frame of PPP.
    pub(super) fn session_frame(
        &mut self,
        tags: Tags,
        frame: &SessionFrame<'_>,
        now: Duration,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<Change> {
        let key = SessionKey { line: Line { port: self.port.clone()?, tags }, id: frame.session_id };
        let session = self.sessions.get_mut(&key).filter(|session| session.mac == frame.src)?;
        let mut said = Vec::new();
        session.endpoint.frame(now, frame.protocol, frame.payload, &mut said);
        self.said(&key, said, now, out)
    }

    /// Whether a frame is of a session.
    pub(super) fn has(&self, tags: Tags, frame: &SessionFrame<'_>) -> bool {
        let Some(port) = self.port.clone() else { return false };
        let key = SessionKey { line: Line { port, tags }, id: frame.session_id };
        self.sessions.get(&key).is_some_and(|session| session.mac == frame.src)
    }

    /// Answers a router solicitation of a session with a prefix that follows from the MAC address.
    pub(super) fn advertise(&self, tags: Tags, frame: &SessionFrame<'_>) -> Option<Vec<u8>> {
        let asked = ra::read_solicitation(frame.payload).filter(|_| frame.protocol == protocol::IPV6);
        let dst = asked.filter(|_| self.has(tags, frame))?;
        let number = u64::from(u32::from(address_of(frame.src)));
        let prefix = LinkPrefix::of(Ipv6Addr::from_bits(u128::from(PREFIXES | number) << 64));
        let prefix = Some(Advertised { prefix, valid_s: LIFETIME_S.into(), preferred_s: LIFETIME_S.into() });
        let advertised = Advertisement { router_lifetime_s: LIFETIME_S, prefix, ..Advertisement::default() };
        let payload = advertised.packet(link_local(OWN_ID), dst);
        let SessionFrame { src: dst, session_id, .. } = *frame;
        Some(SessionFrame { dst, src: MAC, session_id, protocol: protocol::IPV6, payload: &payload }.write())
    }

    /// Lets all deadlines pass that are due; the answers with the tags of their sessions.
    pub(super) fn tick(&mut self, now: Duration) -> Vec<(Tags, Vec<u8>)> {
        let is_due = |session: &Session| session.endpoint.deadline().is_some_and(|at| at <= now);
        let due = self.sessions.iter().filter(|(_, session)| is_due(session));
        let due: Vec<SessionKey> = due.map(|(key, _)| key.clone()).collect();
        let mut all = Vec::new();
        for key in due {
            let (mut said, mut out) = (Vec::new(), Vec::new());
            if let Some(session) = self.sessions.get_mut(&key) {
                session.endpoint.timer(now, &mut said);
            }
            self.said(&key, said, now, &mut out);
            all.extend(out.into_iter().map(|frame| (key.line.tags, frame)));
        }
        all
    }

    fn said(
        &mut self,
        key: &SessionKey,
        said: Vec<Output>,
        now: Duration,
        out: &mut Vec<Vec<u8>>,
    ) -> Option<Change> {
        let mut change = None;
        let mut said: std::collections::VecDeque<Output> = said.into();
        while let Some(next) = said.pop_front() {
            let session = self.sessions.get_mut(key)?;
            let mac = session.mac;
            match next {
                Output::Send { protocol, payload } => {
                    let frame =
                        SessionFrame { dst: mac, src: MAC, session_id: key.id, protocol, payload: &payload };
                    out.push(frame.write());
                }
                Output::Ask(attempt) => {
                    let verdict = match attempt.check(&Password::new(PASSWORD)) {
                        Some(message) => Verdict::Accept { message },
                        None => Verdict::Reject { message: Vec::new() },
                    };
                    let mut more = Vec::new();
                    session.endpoint.verdict(now, &verdict, network_of(mac), &mut more);
                    said.extend(more);
                }
                Output::Up(weir_bng::ppp::endpoint::Layer::Ipv4(addresses)) => {
                    self.concentrator.confirm(key);
                    change = Some(Change::Up(addresses.client, key.clone(), mac));
                }
                Output::Down(weir_bng::ppp::endpoint::Layer::Ipv4(addresses)) => {
                    change = Some(Change::Down(addresses.client));
                }
                Output::Up(_) | Output::Down(_) => {}
                Output::Ended(_) => {
                    self.sessions.remove(key);
                    self.concentrator.release(key);
                    out.push(concentrator::padt(MAC, mac, key.id, ""));
                    return Some(Change::Down(address_of(mac)));
                }
            }
        }
        change
    }
}

/// What the device of a MAC address gets.
fn network_of(mac: Mac) -> Network {
    let none = Ipv4Addr::UNSPECIFIED;
    Network {
        ipv4: Some(Addresses { gateway: GATEWAY, client: address_of(mac), dns: [none; 2] }),
        ipv6: Some(InterfaceIds { own: OWN_ID, peer: 2 }),
    }
}
