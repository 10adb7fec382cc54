//! A client that dials in by PPPoE: what an emulated device says, from a PADI to an address. Pure: (now, frame) -> frames.
//!
//! ```text
//! dial > PADI (repeated) > PADO: PADR (repeated) > PADS: LCP, login, IPCP > address ... PADT or the end of LCP > idle
//!                                                                   IPV6CP > router solicitation > prefix
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::mac::Mac;
use crate::ppp::auth::Method;
use crate::ppp::auth::supplicant::Login;
use crate::ppp::endpoint::{End, Endpoint, Layer, Output, Role};
use crate::ppp::ipcp::Addresses;
use crate::ppp::ipv6cp::InterfaceIds;
use crate::ppp::negotiation::Timers;
use crate::ppp::protocol;
use crate::pppoe::discovery::{Code, Discovery};
use crate::pppoe::line_tag::LineTag;
use crate::pppoe::session::SessionFrame;
use crate::pppoe::tags::{AC_COOKIE, GENERIC_ERROR, HOST_UNIQ, PPP_MAX_PAYLOAD, SERVICE_NAME, TagList};
use crate::pppoe::{MAX_PAYLOAD, concentrator};
use crate::prefix::link_local;
use crate::ra::{self, Advertisement};
use crate::random::Random;

/// First wait for a PADO or PADS; it doubles each time (RFC 2516, section 5.1).
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// PADI or PADR before the client gives up.
const MOST_TRIES: u32 = 6;

/// What a client is.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its MAC address.
    pub mac: Mac,
    /// Its name and password.
    pub login: Login,
    /// Methods of authentication that it accepts.
    pub methods: Vec<Method>,
    /// Its MRU; above 1492 it asks for RFC 4638.
    pub max_mru: u16,
    /// Its interface identifier; 0: it takes one. `None`: no IPv6.
    pub interface_id: Option<u64>,
    /// What its access node adds.
    pub line_tag: Option<LineTag>,
}

impl Profile {
    /// A client with an MRU of 1492, CHAP and IPv4.
    pub fn new(mac: Mac, login: Login) -> Profile {
        let methods = vec![Method::ChapMd5];
        Profile { mac, login, methods, max_mru: MAX_PAYLOAD, interface_id: None, line_tag: None }
    }
}

#[derive(Debug)]
enum State {
    Idle,
    /// A PADI or PADR is repeated until it is answered.
    Discovery {
        frame: Vec<u8>,
        tries: u32,
        wait: Duration,
        retry: Duration,
    },
    Session(Box<Session>),
}

#[derive(Debug)]
struct Session {
    id: u16,
    concentrator: Mac,
    endpoint: Endpoint,
    addresses: Option<Addresses>,
    ids: Option<InterfaceIds>,
    /// The last router advertisement, and how many there were.
    advertised: Option<Advertisement>,
    advertisements: u32,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    profile: Profile,
    state: State,
    host_uniq: u32,
    random: Random,
    end: Option<End>,
    padt: Option<String>,
}

impl Client {
    /// A client that does nothing yet.
    pub fn new(profile: Profile, random: Random) -> Client {
        Client { profile, state: State::Idle, host_uniq: 0, random, end: None, padt: None }
    }

    /// What it is.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether it does nothing.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Its PPPoE session, also while it is being set up: id, and the endpoint of PPP.
    pub fn session(&self) -> Option<(u16, &Endpoint)> {
        match &self.state {
            State::Session(session) => Some((session.id, &session.endpoint)),
            _ => None,
        }
    }

    /// The addresses that it has.
    pub fn addresses(&self) -> Option<Addresses> {
        match &self.state {
            State::Session(session) => session.addresses,
            _ => None,
        }
    }

    /// The interface identifiers that IPV6CP has agreed on, while it is open.
    pub fn interface_ids(&self) -> Option<InterfaceIds> {
        match &self.state {
            State::Session(session) => session.ids,
            _ => None,
        }
    }

    /// The last router advertisement of its session, and how many there were.
    pub fn advertised(&self) -> Option<(&Advertisement, u32)> {
        match &self.state {
            State::Session(session) => Some((session.advertised.as_ref()?, session.advertisements)),
            _ => None,
        }
    }

    /// The address that it makes of the prefix of its link (SLAAC).
    pub fn address6(&self) -> Option<Ipv6Addr> {
        let (advertised, _) = self.advertised()?;
        Some(advertised.prefix?.prefix.host(self.interface_ids()?.own))
    }

    /// Why its last session ended, as PPP says it.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The text of the last PADT that ended a session.
    pub fn padt(&self) -> Option<&str> {
        self.padt.as_deref()
    }

    /// When [`Client::timer`] is to be called.
    pub fn deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Idle => None,
            State::Discovery { retry, .. } => Some(*retry),
            State::Session(session) => session.endpoint.deadline(),
        }
    }

    /// Dials: the PADI. A session that there is is forgotten, as after a power cut.
    pub fn dial(&mut self, now: Duration) -> Vec<u8> {
        self.host_uniq = self.host_uniq.wrapping_add(1);
        let padi = self.packet(Mac::BROADCAST, Code::Padi, 0, None);
        self.repeat(now, padi)
    }

    /// Forgets everything, as after a power cut.
    pub fn reset(&mut self) {
        self.state = State::Idle;
    }

    /// Sends a packet until it is answered.
    fn repeat(&mut self, now: Duration, frame: Vec<u8>) -> Vec<u8> {
        let (tries, wait, retry) = (1, FIRST_WAIT, now + FIRST_WAIT);
        self.state = State::Discovery { frame: frame.clone(), tries, wait, retry };
        frame
    }

    fn packet(&self, dst: Mac, code: Code, session_id: u16, cookie: Option<&[u8]>) -> Vec<u8> {
        let mut tags = TagList::default();
        if matches!(code, Code::Padi | Code::Padr) {
            tags.push(SERVICE_NAME, b"");
            tags.push(HOST_UNIQ, &self.host_uniq.to_be_bytes());
            if self.profile.max_mru > MAX_PAYLOAD {
                tags.push(PPP_MAX_PAYLOAD, &self.profile.max_mru.to_be_bytes());
            }
            if let Some(cookie) = cookie {
                tags.push(AC_COOKIE, cookie);
            }
            if let Some(line) = &self.profile.line_tag {
                line.write(&mut tags);
            }
        }
        let packet = Discovery { dst, src: self.profile.mac, code, session_id, tags };
        packet.write().unwrap_or_default()
    }

    /// The frames that it sends because of a frame.
    pub fn hear(&mut self, now: Duration, frame: &[u8]) -> Vec<Vec<u8>> {
        if let Ok(packet) = Discovery::read(frame) {
            return self.discovery(now, &packet);
        }
        let Ok(frame) = SessionFrame::read(frame) else { return Vec::new() };
        let mut out = Vec::new();
        if let State::Session(session) = &mut self.state
            && (frame.session_id, frame.src) == (session.id, session.concentrator)
        {
            match frame.protocol {
                protocol::IPV6 => session.packet6(frame.payload),
                _ => _ = session.endpoint.frame(now, frame.protocol, frame.payload, &mut out),
            }
        }
        self.take(out)
    }

    fn discovery(&mut self, now: Duration, packet: &Discovery) -> Vec<Vec<u8>> {
        let is_own = packet.dst == self.profile.mac
            && packet.tags.get(HOST_UNIQ) == Some(&self.host_uniq.to_be_bytes());
        match (packet.code, &self.state) {
            (Code::Pado, State::Discovery { .. }) if is_own => {
                let padr = self.packet(packet.src, Code::Padr, 0, packet.tags.get(AC_COOKIE));
                vec![self.repeat(now, padr)]
            }
            (Code::Pads, State::Discovery { .. }) if is_own && packet.session_id != 0 => {
                self.begin(now, packet)
            }
            (Code::Pads, State::Discovery { .. }) if is_own => {
                self.state = State::Idle;
                Vec::new()
            }
            (Code::Padt, State::Session(session))
                if (packet.session_id, packet.src) == (session.id, session.concentrator) =>
            {
                let text = packet.tags.get(GENERIC_ERROR).unwrap_or_default();
                self.padt = Some(String::from_utf8_lossy(text).into_owned());
                self.state = State::Idle;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, now: Duration, packet: &Discovery) -> Vec<Vec<u8>> {
        let Profile { login, methods, interface_id, max_mru, .. } = self.profile.clone();
        // Without the tag in the answer the concentrator does not have RFC 4638.
        let has_4638 = packet.tags.get(PPP_MAX_PAYLOAD).is_some();
        let max_mru = if has_4638 { max_mru } else { max_mru.min(MAX_PAYLOAD) };
        let role = Role::Client { login, methods, interface_id };
        let mut endpoint = Endpoint::new(role, max_mru, Timers::default(), &mut self.random);
        let mut out = Vec::new();
        endpoint.start(now, &mut out);
        let (id, concentrator) = (packet.session_id, packet.src);
        let (addresses, ids, advertised) = (None, None, None);
        let session = Session { id, concentrator, endpoint, addresses, ids, advertised, advertisements: 0 };
        self.state = State::Session(Box::new(session));
        self.take(out)
    }

    /// The frames that it sends because the time has come.
    pub fn timer(&mut self, now: Duration) -> Vec<Vec<u8>> {
        match &mut self.state {
            State::Discovery { retry, .. } if *retry > now => Vec::new(),
            State::Discovery { tries, .. } if *tries >= MOST_TRIES => {
                self.state = State::Idle;
                Vec::new()
            }
            State::Discovery { frame, tries, wait, retry } => {
                (*tries, *wait) = (*tries + 1, *wait * 2);
                *retry = now + *wait;
                vec![frame.clone()]
            }
            State::Session(session) => {
                let mut out = Vec::new();
                session.endpoint.timer(now, &mut out);
                self.take(out)
            }
            State::Idle => Vec::new(),
        }
    }

    /// Ends the session in order: LCP Terminate-Request.
    pub fn close(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        if let State::Session(session) = &mut self.state {
            session.endpoint.close(now, End::Closed, &mut out);
        }
        self.take(out)
    }

    /// A frame of its session that carries a packet; `None`: it has none.
    pub fn frame(&self, protocol: u16, payload: &[u8]) -> Option<Vec<u8>> {
        let State::Session(session) = &self.state else { return None };
        let (dst, src, session_id) = (session.concentrator, self.profile.mac, session.id);
        Some(SessionFrame { dst, src, session_id, protocol, payload }.write())
    }

    fn take(&mut self, outputs: Vec<Output>) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for output in outputs {
            match output {
                Output::Send { protocol, payload } => frames.extend(self.frame(protocol, &payload)),
                Output::Up(Layer::Ipv4(found)) => self.set_addresses(Some(found)),
                Output::Down(Layer::Ipv4(_)) => self.set_addresses(None),
                Output::Up(Layer::Ipv6(ids)) => {
                    self.set_ids(Some(ids));
                    let packet = ra::solicitation(link_local(ids.own));
                    frames.extend(self.frame(protocol::IPV6, &packet));
                }
                Output::Down(Layer::Ipv6(_)) => self.set_ids(None),
                Output::Ended(end) => {
                    self.end = Some(end);
                    if let State::Session(session) = &self.state {
                        let Session { concentrator, id, .. } = **session;
                        frames.push(concentrator::padt(self.profile.mac, concentrator, id, ""));
                    }
                    self.state = State::Idle;
                }
                _ => {}
            }
        }
        frames
    }

    fn set_ids(&mut self, found: Option<InterfaceIds>) {
        if let State::Session(session) = &mut self.state {
            session.ids = found;
        }
    }

    fn set_addresses(&mut self, found: Option<Addresses>) {
        if let State::Session(session) = &mut self.state {
            session.addresses = found;
        }
    }
}

impl Session {
    /// Takes in a packet of IPv6: router advertisements alone are of interest.
    fn packet6(&mut self, packet: &[u8]) {
        if self.ids.is_some()
            && let Some((_, found)) = Advertisement::read(packet)
        {
            self.advertised = Some(found);
            self.advertisements += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ppp::auth::Password;

    fn client() -> Client {
        let login = Login { name: b"anna".as_slice().into(), password: Password::new(b"secret") };
        Client::new(Profile::new(Mac([2, 0, 0, 0, 0, 1]), login), Random::new([1; 32]))
    }

    #[test]
    fn a_padi_is_sent_six_times_at_growing_intervals() {
        let mut client = client();
        let padi = client.dial(Duration::ZERO);
        let mut at = vec![0];
        while let Some(next) = client.deadline() {
            let frames = client.timer(next);
            assert!(frames.iter().all(|frame| *frame == padi));
            at.extend(frames.iter().map(|_| next.as_secs()));
        }
        assert_eq!((at, client.is_idle()), (vec![0, 1, 3, 7, 15, 31], true));
    }

    /// Table 1.3, row 40: the PADT of another concentrator or session.
    #[test]
    fn a_padt_of_another_session_is_ignored() {
        let mut client = client();
        client.dial(Duration::ZERO);
        let (own, port) = (client.profile.mac, Mac([2, 0, 0, 0, 0, 0xfe]));
        let mut tags = TagList::default();
        tags.push(HOST_UNIQ, &1_u32.to_be_bytes());
        let pads = Discovery { dst: own, src: port, code: Code::Pads, session_id: 7, tags };
        assert!(!client.hear(Duration::ZERO, &pads.write().unwrap_or_default()).is_empty());
        let other = Mac([2, 0, 0, 0, 0, 0xfd]);
        for (mac, id, idle) in [(other, 7, false), (port, 8, false), (port, 7, true)] {
            client.hear(Duration::ZERO, &concentrator::padt(mac, own, id, "gone"));
            assert_eq!(client.is_idle(), idle, "{mac} {id}");
        }
        assert_eq!(client.padt(), Some("gone"));
    }
}
