//! Changes that a server asks for: Disconnect and CoA (RFC 5176).
//!
//! ```text
//! datagram > source and secret known? > seen before: the same answer > time within the window? > attributes supported?
//!          > Ask (identification, change) > session engine > Server::answer > ACK | NAK with Error-Cause
//! ```
//! A source that is not configured gets no answer (section 6.1). An answer is kept for a window, by source, port, identifier and
//! authenticator, so a request that comes again changes nothing twice. A server has 256 identifiers for each source port, so from one
//! port at most 256 requests are carried out per window (section 6.3): larger changes belong to the REST API.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::access::Nas;
use super::attribute::{Attributes, number};
use super::client::Secret;
use super::limits;
use super::packet::{Distrust, Packet, Require, code};
use super::plans::{PlanTable, PlanWish};
use crate::account::Limits;
use crate::now::Now;

/// Why a request is refused (RFC 5176, section 3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorCause {
    /// An attribute that cannot be changed, or identifies nothing.
    UnsupportedAttribute = 401,
    /// Nothing identifies a session.
    MissingAttribute = 402,
    /// The request is for another concentrator.
    NasIdentificationMismatch = 403,
    /// Disconnect or CoA is not supported in this form.
    UnsupportedService = 405,
    /// The value of an attribute cannot be.
    InvalidAttributeValue = 407,
    /// No session fits.
    SessionContextNotFound = 503,
    /// The change could not be carried out.
    ResourcesUnavailable = 506,
    /// Several sessions fit.
    MultipleSessionSelection = 508,
}

/// What identifies sessions: all of them fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identification {
    /// User-Name.
    pub name: Option<Vec<u8>>,
    /// Acct-Session-Id.
    pub session_id: Option<Vec<u8>>,
    /// Framed-IP-Address.
    pub address: Option<Ipv4Addr>,
    /// Framed-IPv6-Prefix, as it was sent, without the reserved byte.
    pub prefix: Option<Vec<u8>>,
    /// Framed-Interface-Id.
    pub interface_id: Option<u64>,
    /// Calling-Station-Id.
    pub calling_station_id: Option<Vec<u8>>,
    /// NAS-Port-Id.
    pub port_id: Option<Vec<u8>>,
    /// Chargeable-User-Identity.
    pub chargeable: Option<Vec<u8>>,
}

/// What is to change; all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Rates or a plan.
    pub plan: PlanWish,
    /// When the session ends, s after it began.
    pub session_timeout_s: Option<u32>,
    /// When it ends without traffic, s.
    pub idle_timeout_s: Option<u32>,
    /// Interval between interim updates, s.
    pub interim_s: Option<u32>,
    /// Quotas, bytes.
    pub quotas: Limits,
}

/// What a server wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ends the sessions.
    Disconnect,
    /// Changes them.
    Change(Change),
}

/// A request that is to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// By what [`Server::answer`] knows it.
    pub key: Key,
    /// Which sessions.
    pub identification: Identification,
    /// What.
    pub action: Action,
}

/// By what a request is known when it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    from: SocketAddr,
    id: u8,
    authenticator: [u8; 16],
}

impl Key {
    /// Where the answer goes.
    pub fn from(&self) -> SocketAddr {
        self.from
    }
}

/// What a datagram comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// It came before: send the same answer.
    Again(Vec<u8>),
    /// It is refused: send this to where it came from.
    Refused(Vec<u8>),
    /// Carry this out, then call [`Server::answer`].
    Ask(Box<Ask>),
    /// It is being carried out.
    Pending,
}

/// Why a datagram gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Ignored {
    /// Its source is not configured.
    #[error("the source is no configured server: add its address and secret")]
    UnknownSource,
    /// It was not made with the secret.
    #[error(transparent)]
    Distrusted(Distrust),
    /// It is no request of Disconnect or CoA.
    #[error("the packet is neither Disconnect-Request nor CoA-Request")]
    Code,
    /// Its Event-Timestamp is too old or in the future.
    #[error(
        "the Event-Timestamp is outside the window: set the clocks of both sides, or the packet was replayed"
    )]
    Timestamp,
    /// Too many requests are remembered.
    #[error("too many requests within the window: use the REST API for changes of many sessions")]
    Busy,
}

/// How requests are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Addresses that may ask, with their secrets.
    pub sources: BTreeMap<IpAddr, Secret>,
    /// Whether a request must have a Message-Authenticator; a wrong one is never accepted (section 3.4).
    pub require: Require,
    /// How far an Event-Timestamp may be off, and how long answers are kept.
    pub window: Duration,
    /// Most answers that are kept.
    pub most: usize,
}

impl Default for Options {
    /// No source; 300 s; 65,536 answers.
    fn default() -> Options {
        Options {
            sources: BTreeMap::new(),
            require: Require::Nothing,
            window: Duration::from_secs(300),
            most: 65_536,
        }
    }
}

#[derive(Debug)]
struct Kept {
    request: Packet,
    secret: Secret,
    /// `None`: it is being carried out.
    answer: Option<Vec<u8>>,
}

/// The side that is asked.
#[derive(Debug)]
pub struct Server {
    options: Options,
    nas: Nas,
    plans: PlanTable,
    kept: HashMap<Key, Kept>,
    order: VecDeque<(Duration, Key)>,
}

impl Server {
    /// A server that remembers nothing.
    pub fn new(options: Options, nas: Nas, plans: PlanTable) -> Server {
        Server { options, nas, plans, kept: HashMap::new(), order: VecDeque::new() }
    }

    /// Takes requests differently from now on.
    pub fn configure(&mut self, options: Options, nas: Nas, plans: PlanTable) {
        (self.options, self.nas, self.plans) = (options, nas, plans);
    }

    /// A datagram.
    ///
    /// # Errors
    /// It gets no answer.
    pub fn datagram(&mut self, now: Now, from: SocketAddr, bytes: &[u8]) -> Result<Received, Ignored> {
        let secret = self.options.sources.get(&from.ip()).cloned().ok_or(Ignored::UnknownSource)?;
        let request = Packet::read(bytes).map_err(Ignored::Distrusted)?;
        if !matches!(request.code, code::DISCONNECT_REQUEST | code::COA_REQUEST) {
            return Err(Ignored::Code);
        }
        request.check_hashed(secret.bytes(), self.options.require).map_err(Ignored::Distrusted)?;
        while self.order.front().is_some_and(|(until, _)| *until <= now.at) {
            if let Some((_, key)) = self.order.pop_front() {
                self.kept.remove(&key);
            }
        }
        let key = Key { from, id: request.id, authenticator: request.authenticator };
        if let Some(kept) = self.kept.get(&key) {
            return Ok(kept.answer.clone().map_or(Received::Pending, Received::Again));
        }
        if let Some(at) = request.attributes.u32(number::EVENT_TIMESTAMP)
            && now.wall_s.abs_diff(at.into()) > self.options.window.as_secs()
        {
            return Err(Ignored::Timestamp);
        }
        if self.kept.len() >= self.options.most {
            return Err(Ignored::Busy);
        }
        let asked = self.read(&request);
        self.order.push_back((now.at + self.options.window, key));
        self.kept.insert(key, Kept { request, secret, answer: None });
        match asked {
            Ok((identification, action)) => Ok(Received::Ask(Box::new(Ask { key, identification, action }))),
            Err(cause) => Ok(self.answer(key, Err(cause)).map_or(Received::Pending, Received::Refused)),
        }
    }

    /// The answer to a request; `None`: it is not known any more. `result` says why nothing was changed.
    pub fn answer(&mut self, key: Key, result: Result<(), ErrorCause>) -> Option<Vec<u8>> {
        let kept = self.kept.get_mut(&key)?;
        let mut attributes = Attributes::default();
        let is_disconnect = kept.request.code == code::DISCONNECT_REQUEST;
        let code = match (result, is_disconnect) {
            (Ok(()), true) => code::DISCONNECT_ACK,
            (Ok(()), false) => code::COA_ACK,
            (Err(_), true) => code::DISCONNECT_NAK,
            (Err(_), false) => code::COA_NAK,
        };
        if let Err(cause) = result {
            attributes.push_u32(number::ERROR_CAUSE, cause as u32);
        }
        // A proxy finds its way back by them (section 3.1).
        for value in kept.request.attributes.all(number::PROXY_STATE) {
            attributes.push(number::PROXY_STATE, value);
        }
        let answer = kept.request.answer(code, &attributes, kept.secret.bytes())?.write();
        kept.answer = Some(answer.clone());
        Some(answer)
    }

    /// Sessions and change of a request.
    fn read(&self, request: &Packet) -> Result<(Identification, Action), ErrorCause> {
        let is_disconnect = request.code == code::DISCONNECT_REQUEST;
        let attributes = &request.attributes;
        self.check_nas(attributes)?;
        let mut identification = Identification::default();
        let mut change = Change::default();
        for (kind, value) in attributes.iter() {
            if identification.take(kind, value)? || is_common(kind) {
                continue;
            }
            let is_change = !is_disconnect && (change.take(kind, value)? || self.plans.knows(None, kind));
            let is_vendor = !is_disconnect && kind == number::VENDOR_SPECIFIC;
            if !is_change && !is_vendor {
                return Err(ErrorCause::UnsupportedAttribute);
            }
        }
        let is_known = |(vendor, kind, _): (u32, u8, &[u8])| {
            self.plans.knows(Some(vendor), kind) || limits::is_quota(vendor, kind)
        };
        if !attributes.vendors().all(is_known) {
            return Err(ErrorCause::UnsupportedAttribute);
        }
        if identification == Identification::default() {
            return Err(ErrorCause::MissingAttribute);
        }
        if is_disconnect {
            return Ok((identification, Action::Disconnect));
        }
        change.plan = self.plans.wish(attributes).map_err(|_| ErrorCause::InvalidAttributeValue)?;
        change.quotas = limits::quotas(attributes).map_err(|_| ErrorCause::InvalidAttributeValue)?;
        // Authorize-only (Service-Type 17) and a change of nothing.
        if change == Change::default() {
            return Err(ErrorCause::UnsupportedService);
        }
        Ok((identification, Action::Change(change)))
    }

    /// Whether a request is for this concentrator. An address is compared if this concentrator has said one.
    fn check_nas(&self, attributes: &Attributes) -> Result<(), ErrorCause> {
        let identifier = attributes.get(number::NAS_IDENTIFIER);
        let is_other = identifier.is_some_and(|found| found != self.nas.identifier.as_bytes());
        let address = attributes.fixed(number::NAS_IP_ADDRESS).map(<Ipv4Addr as From<[u8; 4]>>::from);
        let pair = self.nas.address.zip(address);
        let is_other = is_other || pair.is_some_and(|(own, found)| own != found);
        if is_other { Err(ErrorCause::NasIdentificationMismatch) } else { Ok(()) }
    }
}

/// Attributes that neither identify a session nor change it.
fn is_common(kind: u8) -> bool {
    matches!(
        kind,
        number::NAS_IDENTIFIER
            | number::NAS_IP_ADDRESS
            | number::NAS_IPV6_ADDRESS
            | number::PROXY_STATE
            | number::MESSAGE_AUTHENTICATOR
            | number::EVENT_TIMESTAMP
            | number::ACCT_TERMINATE_CAUSE
            | number::STATE
            | number::CLASS
    )
}

impl Identification {
    /// Takes an attribute in; whether it identifies a session.
    fn take(&mut self, kind: u8, value: &[u8]) -> Result<bool, ErrorCause> {
        let bytes = || Some(value.to_vec());
        let invalid = ErrorCause::InvalidAttributeValue;
        match kind {
            number::USER_NAME => self.name = bytes(),
            number::ACCT_SESSION_ID => self.session_id = bytes(),
            number::CALLING_STATION_ID => self.calling_station_id = bytes(),
            number::NAS_PORT_ID => self.port_id = bytes(),
            number::CHARGEABLE_USER_IDENTITY => self.chargeable = bytes(),
            number::FRAMED_IP_ADDRESS => {
                self.address = Some(<[u8; 4]>::try_from(value).map_err(|_| invalid)?.into());
            }
            number::FRAMED_INTERFACE_ID => {
                self.interface_id = Some(u64::from_be_bytes(value.try_into().map_err(|_| invalid)?));
            }
            number::FRAMED_IPV6_PREFIX => self.prefix = Some(value.get(1..).ok_or(invalid)?.to_vec()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Change {
    /// Takes an attribute in; whether it is one that can be changed.
    fn take(&mut self, kind: u8, value: &[u8]) -> Result<bool, ErrorCause> {
        let number = || {
            let value = value.try_into().map_err(|_| ErrorCause::InvalidAttributeValue)?;
            Ok(Some(u32::from_be_bytes(value)))
        };
        match kind {
            number::SESSION_TIMEOUT => self.session_timeout_s = number()?,
            number::IDLE_TIMEOUT => self.idle_timeout_s = number()?,
            number::ACCT_INTERIM_INTERVAL => self.interim_s = number()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"secret";
    const NOW: Now = Now { at: Duration::from_secs(1000), wall_s: 1_790_000_000 };

    fn server() -> Server {
        let sources = [(IpAddr::from([192, 0, 2, 9]), Secret::new(SECRET))].into();
        let nas = Nas { address: Some([192, 0, 2, 3].into()), ..Nas::default() };
        Server::new(Options { sources, ..Options::default() }, nas, PlanTable::default())
    }

    fn from() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 9], 4000))
    }

    fn request(code: u8, id: u8, list: &[(u8, &[u8])]) -> Packet {
        let mut attributes = Attributes::default();
        list.iter().for_each(|(kind, value)| attributes.push(*kind, value));
        Packet::hashed(code, id, &attributes, SECRET).unwrap()
    }

    fn ask(server: &mut Server, packet: &Packet) -> Result<Received, Ignored> {
        server.datagram(NOW, from(), &packet.write())
    }

    /// The code and Error-Cause of an answer.
    fn read(answer: &[u8], request: &Packet) -> (u8, Option<u32>) {
        let packet = Packet::read(answer).unwrap();
        packet.check_answer(&request.authenticator, SECRET, Require::MessageAuthenticator).unwrap();
        (packet.code, packet.attributes.u32(number::ERROR_CAUSE))
    }

    const NAME: (u8, &[u8]) = (number::USER_NAME, b"anna");

    #[test]
    fn r13_errors_have_the_cause_of_rfc_5176() {
        let disconnect = code::DISCONNECT_REQUEST;
        for (code, list, cause) in [
            (disconnect, vec![], 402),
            (disconnect, vec![(number::NAS_IDENTIFIER, &b"weir"[..])], 402),
            (disconnect, vec![NAME, (number::NAS_IDENTIFIER, b"other")], 403),
            (disconnect, vec![NAME, (number::NAS_IP_ADDRESS, &[192, 0, 2, 1])], 403),
            (disconnect, vec![NAME, (number::FILTER_ID, b"gold")], 401),
            (disconnect, vec![NAME, (number::VENDOR_SPECIFIC, &[0, 0, 0, 9, 1, 3, 7])], 401),
            (disconnect, vec![(number::FRAMED_IP_ADDRESS, &[1])], 407),
            (code::COA_REQUEST, vec![NAME], 405),
            (code::COA_REQUEST, vec![NAME, (number::SERVICE_TYPE, &[0, 0, 0, 17])], 401),
            (code::COA_REQUEST, vec![NAME, (number::SESSION_TIMEOUT, &[1])], 407),
            (code::COA_REQUEST, vec![NAME, (number::FILTER_ID, b"gold"), (250, b"x")], 401),
            (code::COA_REQUEST, vec![(number::FILTER_ID, b"gold")], 402),
        ] {
            let packet = request(code, 1, &list);
            let found = ask(&mut server(), &packet);
            let Ok(Received::Refused(answer)) = found else { panic!("{list:?}: {found:?}") };
            assert_eq!(read(&answer, &packet), (code + 2, Some(cause)), "{list:?}");
        }
    }

    #[test]
    fn r13_a_request_names_sessions_by_any_identifying_set() {
        for list in [
            vec![NAME],
            vec![(number::ACCT_SESSION_ID, &b"weir-8"[..])],
            vec![(number::FRAMED_IP_ADDRESS, &[100, 64, 0, 9]), (number::NAS_IDENTIFIER, b"weir")],
            vec![(number::CALLING_STATION_ID, b"02:00:00:00:00:01"), NAME, (number::PROXY_STATE, b"p")],
        ] {
            let mut server = server();
            let packet = request(code::DISCONNECT_REQUEST, 1, &list);
            let Ok(Received::Ask(found)) = ask(&mut server, &packet) else { panic!("{list:?}") };
            assert_eq!((&found.action, found.key.from()), (&Action::Disconnect, from()));
            let answer = server.answer(found.key, Ok(())).unwrap();
            assert_eq!(read(&answer, &packet), (code::DISCONNECT_ACK, None));
        }
        let packet = request(
            code::COA_REQUEST,
            1,
            &[NAME, (number::FILTER_ID, b"gold"), (number::IDLE_TIMEOUT, &[0, 0, 1, 0])],
        );
        let Ok(Received::Ask(found)) = ask(&mut server(), &packet) else { panic!("no change") };
        let plan = PlanWish { plan: Some("gold".into()), ..PlanWish::default() };
        assert_eq!(
            found.action,
            Action::Change(Change { plan, idle_timeout_s: Some(256), ..Change::default() })
        );
    }

    #[test]
    fn r13_a_request_that_comes_again_gets_the_same_answer() {
        let mut server = server();
        let packet = request(code::DISCONNECT_REQUEST, 1, &[NAME]);
        let Ok(Received::Ask(found)) = ask(&mut server, &packet) else { panic!("not taken") };
        assert_eq!(ask(&mut server, &packet), Ok(Received::Pending));
        let answer = server.answer(found.key, Err(ErrorCause::SessionContextNotFound)).unwrap();
        assert_eq!(read(&answer, &packet), (code::DISCONNECT_NAK, Some(503)));
        assert_eq!(ask(&mut server, &packet), Ok(Received::Again(answer)));
        // Another port or another content is another request.
        let other_port = SocketAddr::from(([192, 0, 2, 9], 4001));
        assert!(matches!(server.datagram(NOW, other_port, &packet.write()), Ok(Received::Ask(_))));
        let other = request(code::DISCONNECT_REQUEST, 1, &[(number::USER_NAME, b"ben")]);
        assert!(matches!(ask(&mut server, &other), Ok(Received::Ask(_))));
        let later = Now { at: NOW.at + Duration::from_secs(300), ..NOW };
        assert!(matches!(server.datagram(later, from(), &packet.write()), Ok(Received::Ask(_))));
        assert_eq!(server.kept.len(), 1, "answers are forgotten after the window");
    }

    #[test]
    fn r13_unknown_sources_replays_and_forgeries_get_no_answer() {
        let mut server = server();
        let packet = request(code::DISCONNECT_REQUEST, 1, &[NAME]);
        let other = SocketAddr::from(([192, 0, 2, 8], 4000));
        assert_eq!(server.datagram(NOW, other, &packet.write()), Err(Ignored::UnknownSource));
        for (off, result) in [(0, false), (299, false), (301, true)] {
            for at in [1_790_000_000 - off, 1_790_000_000 + off] {
                let list = [NAME, (number::EVENT_TIMESTAMP, &u32::to_be_bytes(at)[..])];
                let found = ask(&mut server, &request(code::DISCONNECT_REQUEST, 2, &list));
                assert_eq!(found == Err(Ignored::Timestamp), result, "{at}");
            }
        }
        let forged = Packet::hashed(code::DISCONNECT_REQUEST, 1, &Attributes::default(), b"other").unwrap();
        assert_eq!(ask(&mut server, &forged), Err(Ignored::Distrusted(Distrust::Authenticator)));
        let access =
            Packet::access(code::ACCESS_REQUEST, 1, [1; 16], &Attributes::default(), SECRET).unwrap();
        assert_eq!(ask(&mut server, &access), Err(Ignored::Code));
        server.options.most = server.kept.len();
        assert_eq!(ask(&mut server, &packet), Err(Ignored::Busy));
    }
}
