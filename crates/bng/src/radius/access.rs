//! What is asked of a server, and what it answers, as plain data.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::attribute::{Attributes, number, vendor};
use super::limits;
use super::plans::{PlanTable, PlanWish};
use crate::hex;
use crate::line::{Line, Tags};
use crate::mac::Mac;
use crate::ppp::auth::{Attempt, Credential, Password};

/// Of Microsoft (RFC 2548).
mod microsoft {
    pub(super) const ERROR: u8 = 2;
    pub(super) const CHALLENGE: u8 = 11;
    pub(super) const RESPONSE_2: u8 = 25;
    pub(super) const SUCCESS_2: u8 = 26;
}

/// What a server is asked. The password is hidden when the server is known, since its secret hides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Code of the packet.
    pub code: u8,
    /// All attributes but User-Password and Message-Authenticator.
    pub attributes: Attributes,
    /// For User-Password.
    pub password: Option<Password>,
    /// When it happened, s since 1970, for Acct-Delay-Time; `None`: the packet has none.
    pub happened_s: Option<u64>,
}

/// This concentrator, as servers know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nas {
    /// NAS-Identifier.
    pub identifier: String,
    /// NAS-IP-Address.
    pub address: Option<Ipv4Addr>,
    /// User-Name.
    pub user_name: Template,
    /// Calling-Station-Id.
    pub calling_station_id: Template,
    /// NAS-Port-Id.
    pub port_id: Template,
}

impl Default for Nas {
    fn default() -> Nas {
        let template = |text: &str| Template(text.into());
        Nas {
            identifier: "weir".into(),
            address: None,
            user_name: template("{name}"),
            calling_station_id: template("{mac}"),
            port_id: template("{line}"),
        }
    }
}

/// A text with places: `{mac}`, `{line}`, `{port}`, `{outer}`, `{inner}`, `{circuit}`, `{remote}`, `{name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

const PLACES: [&str; 8] = ["mac", "line", "port", "outer", "inner", "circuit", "remote", "name"];

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        for part in text.split('{').skip(1) {
            let place = part.split_once('}').map(|(place, _)| place);
            if !place.is_some_and(|place| PLACES.contains(&place)) {
                let places = PLACES.join("}, {");
                return Err(format!("`{text}` has an unknown place: use {{{places}}}"));
            }
        }
        Ok(Template(text.into()))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a device has its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// It dials in by PPPoE.
    Pppoe,
    /// It has its address by DHCP.
    Dhcp,
}

/// Where a session is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// How its device has it.
    pub access: Access,
    /// Its line.
    pub line: &'a Line,
    /// The device.
    pub mac: Mac,
    /// The circuit-id of its access node, if known.
    pub circuit_id: Option<&'a [u8]>,
    /// The remote-id of its access node, if known.
    pub remote_id: Option<&'a [u8]>,
    /// Actual rate from the subscriber, kbit/s.
    pub up_kbit_per_s: Option<u32>,
    /// Actual rate to the subscriber, kbit/s.
    pub down_kbit_per_s: Option<u32>,
    /// Name that the peer gave.
    pub name: &'a [u8],
    /// User-Name as it is, for a name that does not come from the peer; `None`: by the template.
    pub user_name: Option<&'a [u8]>,
    /// Acct-Session-Id.
    pub session_id: &'a str,
}

impl Template {
    /// Whether it has this place.
    pub(crate) fn has(&self, place: &str) -> bool {
        self.0.contains(&format!("{{{place}}}"))
    }

    /// The text with what stands at its places; nothing where it is not known.
    pub fn render(&self, place: &Place<'_>) -> String {
        let [outer, inner] = match place.line.tags {
            Tags::None => [String::new(), String::new()],
            Tags::One(vid) => [vid.to_string(), String::new()],
            Tags::Two { outer, inner } => [outer.to_string(), inner.to_string()],
        };
        let id = |id: Option<&[u8]>| id.map(|id| hex::Word(id).to_string()).unwrap_or_default();
        PLACES.iter().fold(self.0.clone(), |text, name| {
            let value = match *name {
                "mac" => place.mac.to_string(),
                "line" => place.line.to_string(),
                "port" => place.line.port.to_string(),
                "outer" => outer.clone(),
                "inner" => inner.clone(),
                "circuit" => id(place.circuit_id),
                "remote" => id(place.remote_id),
                _ => String::from_utf8_lossy(place.name).into_owned(),
            };
            text.replace(&format!("{{{name}}}"), &value)
        })
    }
}

impl Nas {
    /// Who this concentrator is.
    pub fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.push(number::NAS_IDENTIFIER, self.identifier.as_bytes());
        if let Some(address) = self.address {
            attributes.push(number::NAS_IP_ADDRESS, &address.octets());
        }
        attributes
    }
}

/// Attributes that every request of a session has.
pub fn session_attributes(nas: &Nas, place: &Place<'_>) -> Attributes {
    let mut attributes = Attributes::default();
    match place.user_name {
        Some(name) => attributes.push(number::USER_NAME, name),
        // A name of the peer need not be a text.
        None if nas.user_name == Nas::default().user_name => attributes.push(number::USER_NAME, place.name),
        None => attributes.push(number::USER_NAME, nas.user_name.render(place).as_bytes()),
    }
    attributes.push(number::ACCT_SESSION_ID, place.session_id.as_bytes());
    attributes.extend(&nas.attributes());
    // Virtual (5), Ethernet (15).
    let port_type = if place.access == Access::Pppoe { 5 } else { 15 };
    attributes.push_u32(number::NAS_PORT_TYPE, port_type);
    // Framed (2), PPP (1).
    attributes.push_u32(number::SERVICE_TYPE, 2);
    if place.access == Access::Pppoe {
        attributes.push_u32(number::FRAMED_PROTOCOL, 1);
    }
    attributes.push(number::NAS_PORT_ID, nas.port_id.render(place).as_bytes());
    attributes.push(number::CALLING_STATION_ID, nas.calling_station_id.render(place).as_bytes());
    let line = vendor::ADSL_FORUM;
    for (kind, id) in [(1, place.circuit_id), (2, place.remote_id)] {
        if let Some(id) = id {
            attributes.push_vendor(line, kind, id);
        }
    }
    // RFC 4679, sections 3.3.3 and 3.3.4: bit/s.
    for (kind, rate) in [(0x81, place.up_kbit_per_s), (0x82, place.down_kbit_per_s)] {
        if let Some(rate) = rate {
            attributes.push_vendor(line, kind, &rate.saturating_mul(1000).to_be_bytes());
        }
    }
    attributes
}

/// The Access-Request of a device that gives neither name nor password. `wall_s` is the time of its Event-Timestamp.
pub fn device_request(nas: &Nas, place: &Place<'_>, password: Option<Password>, wall_s: u64) -> Request {
    let mut attributes = session_attributes(nas, place);
    attributes.push_u32(number::EVENT_TIMESTAMP, u32::try_from(wall_s).unwrap_or(u32::MAX));
    // Nothing but one byte of zero: a server that knows the identity tells it (RFC 4372, section 2.1).
    attributes.push(number::CHARGEABLE_USER_IDENTITY, &[0]);
    Request { code: super::packet::code::ACCESS_REQUEST, attributes, password, happened_s: None }
}

/// The Access-Request of an attempt. `wall_s` is the time of its Event-Timestamp.
pub fn request(nas: &Nas, place: &Place<'_>, attempt: &Attempt, wall_s: u64) -> Request {
    let mut request = device_request(nas, place, None, wall_s);
    let Request { attributes, password, .. } = &mut request;
    match &attempt.credential {
        Credential::Pap(found) => *password = Some(found.clone()),
        Credential::ChapMd5 { id, challenge, response } => {
            attributes.push(number::CHAP_PASSWORD, &[&[*id], &response[..]].concat());
            attributes.push(number::CHAP_CHALLENGE, challenge);
        }
        Credential::MsChapV2 { id, challenge, peer_challenge, response } => {
            attributes.push_vendor(vendor::MICROSOFT, microsoft::CHALLENGE, challenge);
            let value = [&[*id, 0][..], peer_challenge, &[0; 8], response].concat();
            attributes.push_vendor(vendor::MICROSOFT, microsoft::RESPONSE_2, &value);
        }
    }
    request
}

/// An address of IPv4 as a server gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framed {
    /// This one.
    Address(Ipv4Addr),
    /// One that the concentrator chooses (255.255.255.254), or that the client wants (255.255.255.255).
    Any,
}

/// A prefix of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// Its address; bits behind the length are 0.
    pub address: Ipv6Addr,
    /// Its length, 0 to 128.
    pub len: u8,
}

/// What an Access-Accept gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accept {
    /// Text for the peer.
    pub message: Option<String>,
    /// MS-CHAPv2: what shows the peer that the server knows the password.
    pub proof: Option<Vec<u8>>,
    /// The name that accounting uses, if it is another one.
    pub name: Option<Vec<u8>>,
    /// Address of IPv4.
    pub framed: Option<Framed>,
    /// Pool of such an address.
    pub pool: Option<String>,
    /// Networks behind the subscriber, of both families, as texts (RFC 2865, section 5.22; RFC 3162, section 2.5).
    pub routes: Vec<String>,
    /// Largest packet to the subscriber.
    pub mtu: Option<u32>,
    /// Sent back in accounting, unchanged.
    pub classes: Vec<Vec<u8>>,
    /// Chargeable-User-Identity, sent back in accounting.
    pub chargeable: Option<Vec<u8>>,
    /// When the session ends.
    pub session_timeout_s: Option<u32>,
    /// When it ends without traffic.
    pub idle_timeout_s: Option<u32>,
    /// Interval between interim records.
    pub interim_s: Option<u32>,
    /// Interface identifier of the subscriber.
    pub interface_id: Option<u64>,
    /// Prefixes of the link, advertised by RA.
    pub prefixes: Vec<Prefix>,
    /// Prefixes that are delegated.
    pub delegated: Vec<Prefix>,
    /// Addresses of IPv6.
    pub addresses: Vec<Ipv6Addr>,
    /// Name servers of IPv6.
    pub dns: Vec<Ipv6Addr>,
    /// Pool of prefixes of the link.
    pub pool6: Option<String>,
    /// Pool of delegated prefixes.
    pub delegated_pool: Option<String>,
    /// What the table of plans says.
    pub plan: PlanWish,
    /// Attributes that are not supported: vendor (0: none) and type.
    pub unsupported: Vec<(u32, u8)>,
}

/// What becomes of an Accept with attributes that are not supported (RFC 2865, section 1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unsupported {
    /// They are counted and ignored.
    #[default]
    Ignore,
    /// The Accept counts as a Reject.
    Refuse,
}

/// Attributes of an Accept that need nothing done.
const IGNORED: [u8; 8] = [
    number::USER_NAME,
    number::SERVICE_TYPE,
    number::FRAMED_PROTOCOL,
    number::FRAMED_IP_NETMASK,
    number::STATE,
    number::VENDOR_SPECIFIC,
    number::PROXY_STATE,
    number::MESSAGE_AUTHENTICATOR,
];

/// Attributes of an Accept that are read, and of which nothing is done: they count as not supported.
const READ_ALONE: [u8; 6] = [
    number::FRAMED_MTU,
    number::FRAMED_INTERFACE_ID,
    number::DELEGATED_IPV6_PREFIX,
    number::FRAMED_IPV6_ADDRESS,
    number::DNS_SERVER_IPV6_ADDRESS,
    number::DELEGATED_IPV6_PREFIX_POOL,
];

impl Accept {
    /// Reads an Access-Accept.
    ///
    /// # Errors
    /// An attribute has a value that it cannot have, or is not supported and `unsupported` says so: it counts as a Reject.
    pub fn read(
        attributes: &Attributes,
        table: &PlanTable,
        unsupported: Unsupported,
    ) -> Result<Accept, String> {
        let mut accept = Accept { plan: table.wish(attributes)?, ..Accept::default() };
        accept.name = attributes.get(number::USER_NAME).map(<[u8]>::to_vec);
        for (kind, value) in attributes.iter() {
            let is_second_prefix = kind == number::FRAMED_IPV6_PREFIX && !accept.prefixes.is_empty();
            let is_taken = accept.take(kind, value).ok_or_else(|| {
                format!(
                    "attribute {kind} of the Access-Accept has a value that it cannot have: {}",
                    hex::Word(value)
                )
            })?;
            let is_used = is_taken && !READ_ALONE.contains(&kind) && !is_second_prefix;
            if !is_used && !IGNORED.contains(&kind) && !table.knows(None, kind) {
                accept.unsupported.push((0, kind));
            }
        }
        for (of, kind, value) in attributes.vendors() {
            match (of, kind) {
                // Behind the identifier.
                (vendor::MICROSOFT, microsoft::SUCCESS_2) => {
                    accept.proof = value.get(1..).map(<[u8]>::to_vec)
                }
                _ if table.knows(Some(of), kind) || limits::is_quota(of, kind) => {}
                _ => accept.unsupported.push((of, kind)),
            }
        }
        match accept.unsupported.first() {
            Some((of, kind)) if unsupported == Unsupported::Refuse => Err(format!(
                "attribute {kind} of vendor {of} of the Access-Accept is not supported: remove it on the server"
            )),
            _ => Ok(accept),
        }
    }

    /// Takes an attribute in; whether it is known. `None`: its value is wrong.
    fn take(&mut self, kind: u8, value: &[u8]) -> Option<bool> {
        let text = || String::from_utf8_lossy(value).into_owned();
        match kind {
            number::FRAMED_IP_ADDRESS => self.framed = Some(framed(value)?),
            number::FRAMED_POOL => self.pool = Some(text()),
            number::FRAMED_ROUTE | number::FRAMED_IPV6_ROUTE => self.routes.push(text()),
            number::FRAMED_MTU => self.mtu = Some(u32_of(value)?),
            number::REPLY_MESSAGE => self.message = Some(text()),
            number::CLASS => self.classes.push(value.to_vec()),
            number::CHARGEABLE_USER_IDENTITY => self.chargeable = Some(value.to_vec()),
            number::SESSION_TIMEOUT => self.session_timeout_s = Some(u32_of(value)?),
            number::IDLE_TIMEOUT => self.idle_timeout_s = Some(u32_of(value)?),
            number::ACCT_INTERIM_INTERVAL => self.interim_s = Some(u32_of(value)?),
            number::FRAMED_INTERFACE_ID => {
                self.interface_id = Some(u64::from_be_bytes(value.try_into().ok()?));
            }
            number::FRAMED_IPV6_PREFIX => self.prefixes.push(prefix(value)?),
            number::DELEGATED_IPV6_PREFIX => self.delegated.push(prefix(value)?),
            number::FRAMED_IPV6_ADDRESS => self.addresses.push(address6(value)?),
            number::DNS_SERVER_IPV6_ADDRESS => self.dns.push(address6(value)?),
            number::FRAMED_IPV6_POOL => self.pool6 = Some(text()),
            number::DELEGATED_IPV6_PREFIX_POOL => self.delegated_pool = Some(text()),
            _ => return Some(false),
        }
        Some(true)
    }
}

fn u32_of(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

fn address6(value: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(value).ok().map(Ipv6Addr::from)
}

fn framed(value: &[u8]) -> Option<Framed> {
    let address = Ipv4Addr::from(u32_of(value)?);
    match address.octets() {
        [255, 255, 255, 254 | 255] => Some(Framed::Any),
        _ if address.is_unspecified() || address.is_multicast() || address.is_broadcast() => None,
        _ => Some(Framed::Address(address)),
    }
}

/// Reserved: 1, length: 1, up to 16 bytes (RFC 3162, section 2.3).
fn prefix(value: &[u8]) -> Option<Prefix> {
    let [_, len, bytes @ ..] = value else { return None };
    if *len > 128 || bytes.len() > 16 || bytes.len() * 8 < usize::from(*len) {
        return None;
    }
    let mut octets = [0; 16];
    octets.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let mask = u128::MAX.checked_shl(128 - u32::from(*len)).unwrap_or(0);
    Some(Prefix { address: Ipv6Addr::from(u128::from_be_bytes(octets) & mask), len: *len })
}

/// The text of an Access-Reject for the operator and the peer: Reply-Message, or that of MS-CHAP-Error (RFC 2548, section 2.1.5).
pub fn reject_message(attributes: &Attributes) -> String {
    let error = || {
        let value = attributes.of_vendor(vendor::MICROSOFT, microsoft::ERROR).next()?;
        let text = String::from_utf8_lossy(value.get(1..)?).into_owned();
        text.split_once(" M=").map(|(_, message)| message.to_string())
    };
    attributes.text(number::REPLY_MESSAGE).or_else(error).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r4_a_request_says_who_asks_where_and_when() {
        let line: Line = "access1:100.7".parse().unwrap();
        let place = Place {
            line: &line,
            access: Access::Pppoe,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            circuit_id: Some(b"eth0/1:100"),
            remote_id: Some(&[1, 2]),
            up_kbit_per_s: Some(40_000),
            down_kbit_per_s: None,
            name: b"anna@isp",
            user_name: None,
            session_id: "5f-8",
        };
        let nas = Nas {
            port_id: "{port} {outer}/{inner} {circuit} {remote} {name}".parse().unwrap(),
            ..Nas::default()
        };
        let credential = Credential::ChapMd5 { id: 7, challenge: [1; 16].into(), response: [2; 16] };
        let attempt = Attempt { name: b"anna@isp".as_slice().into(), credential };
        let Request { attributes, password, .. } = request(&nas, &place, &attempt, 1_790_000_000);
        assert_eq!(password, None);
        for (kind, value) in [
            (number::USER_NAME, &b"anna@isp"[..]),
            (number::ACCT_SESSION_ID, b"5f-8"),
            (number::NAS_IDENTIFIER, b"weir"),
            (number::NAS_PORT_ID, b"access1 100/7 eth0/1:100 0x0102 anna@isp"),
            (number::CALLING_STATION_ID, b"02:00:00:00:00:01"),
            (number::EVENT_TIMESTAMP, &1_790_000_000_u32.to_be_bytes()),
            (number::CHARGEABLE_USER_IDENTITY, &[0]),
            (number::CHAP_CHALLENGE, &[1; 16]),
        ] {
            assert_eq!(attributes.get(kind), Some(value), "attribute {kind}");
        }
        assert_eq!(attributes.of_vendor(vendor::ADSL_FORUM, 1).next(), Some(&b"eth0/1:100"[..]), "P11");
        assert_eq!(
            attributes.of_vendor(vendor::ADSL_FORUM, 0x81).next(),
            Some(&40_000_000_u32.to_be_bytes()[..])
        );
        assert!("{mac} {Port}".parse::<Template>().is_err() && "{mac".parse::<Template>().is_err());
    }

    fn read(list: &[(u8, &[u8])], unsupported: Unsupported) -> Result<Accept, String> {
        let mut attributes = Attributes::default();
        list.iter().for_each(|(kind, value)| attributes.push(*kind, value));
        Accept::read(&attributes, &PlanTable::default(), unsupported)
    }

    #[test]
    fn r14_an_accept_gives_addresses_and_prefixes_of_both_families() {
        let v6: Ipv6Addr = "2001:db8:1::".parse().unwrap();
        let octets = v6.octets();
        let prefix = [&[0, 48], &octets[..6]].concat();
        let accept = read(
            &[
                (number::FRAMED_IP_ADDRESS, &[100, 64, 0, 9]),
                (number::FRAMED_IPV6_PREFIX, &[&[0, 64], &octets[..]].concat()),
                (number::DELEGATED_IPV6_PREFIX, &prefix),
                (number::DELEGATED_IPV6_PREFIX, &[&[0, 47], &[0x20, 1, 0xd, 0xb8, 0, 3][..]].concat()),
                (number::FRAMED_INTERFACE_ID, &[0, 0, 0, 0, 0, 0, 0, 9]),
                (number::DNS_SERVER_IPV6_ADDRESS, &octets),
                (number::CLASS, b"a"),
                (number::CLASS, b"b"),
                (number::SESSION_TIMEOUT, &[0, 0, 0x0e, 0x10]),
                (250, b"x"),
            ],
            Unsupported::Ignore,
        );
        let accept = accept.unwrap();
        assert_eq!(accept.framed, Some(Framed::Address(Ipv4Addr::new(100, 64, 0, 9))));
        assert_eq!(accept.prefixes, [Prefix { address: v6, len: 64 }]);
        let second = Prefix { address: "2001:db8:2::".parse().unwrap(), len: 47 };
        assert_eq!(accept.delegated, [Prefix { address: v6, len: 48 }, second]);
        assert_eq!((accept.interface_id, accept.dns.len()), (Some(9), 1));
        assert_eq!((accept.classes.len(), accept.session_timeout_s), (2, Some(3600)));
        // What nothing is done of is counted, too.
        assert_eq!(accept.unsupported, [(0, 123), (0, 123), (0, 96), (0, 169), (0, 250)]);
        let any = read(&[(number::FRAMED_IP_ADDRESS, &[255, 255, 255, 254])], Unsupported::Ignore).unwrap();
        assert_eq!(any.framed, Some(Framed::Any));
    }

    #[test]
    fn an_accept_with_a_wrong_value_counts_as_a_reject() {
        for (kind, value) in [
            (number::FRAMED_IP_ADDRESS, &[100, 64, 0][..]),
            (number::FRAMED_IP_ADDRESS, &[0; 4]),
            (number::FRAMED_IPV6_PREFIX, &[0, 129]),
            (number::FRAMED_IPV6_PREFIX, &[0, 64, 1]),
            (number::FRAMED_IPV6_PREFIX, &[0; 19]),
            (number::FRAMED_INTERFACE_ID, &[1]),
            (number::SESSION_TIMEOUT, &[1]),
        ] {
            assert!(read(&[(kind, value)], Unsupported::Ignore).is_err(), "{kind} {value:?}");
        }
        assert!(read(&[(250, b"x")], Unsupported::Refuse).is_err());
        assert!(read(&[(250, b"x")], Unsupported::Ignore).is_ok());
    }
}
