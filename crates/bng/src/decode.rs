//! A frame of a client in one line, for people: `PADI service "" host-uniq 0x00000001`, `LCP Configure-Request id 1 mru 1492 auth chap-md5`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write;
use std::net::Ipv4Addr;

use weir_packet::fields::be16;

use crate::dhcp4::frame;
use crate::dhcp4::message::Message;
use crate::hex;
use crate::ppp::auth::Method;
use crate::ppp::packet::{OptionList, Packet};
use crate::ppp::protocol;
use crate::pppoe::discovery::{Code, Discovery};
use crate::pppoe::session::SessionFrame;
use crate::pppoe::{self, tags};
use crate::prefix::link_local;
use crate::ra::{self, Advertisement};

const IPV6: u16 = 0x86dd;
/// Names of codes 1 to 11 of LCP and the NCPs.
const CODES: [&str; 11] = [
    "Configure-Request",
    "Configure-Ack",
    "Configure-Nak",
    "Configure-Reject",
    "Terminate-Request",
    "Terminate-Ack",
    "Code-Reject",
    "Protocol-Reject",
    "Echo-Request",
    "Echo-Reply",
    "Discard-Request",
];

/// What a frame without tags says. Passwords are left out.
pub fn decode(bytes: &[u8]) -> String {
    if pppoe::is_pppoe(bytes) {
        return match (Discovery::read(bytes), SessionFrame::read(bytes)) {
            (Ok(packet), _) => discovery(&packet),
            (_, Ok(frame)) => session(&frame),
            (_, Err(reason)) => format!("PPPoE: {}", reason.meaning()),
        };
    }
    if be16(bytes, 12) == Some(IPV6) {
        return packet6(bytes.get(14..).unwrap_or_default());
    }
    match frame::read(bytes).and_then(|datagram| Message::read(datagram.payload)) {
        Ok(message) => dhcp(&message),
        Err(reason) => format!("no message of DHCP or PPPoE: {}", reason.meaning()),
    }
}

fn dhcp(message: &Message) -> String {
    let kind = message.message_type().map_or("of an unknown type", |kind| kind.name());
    let mut text = format!("DHCP {kind} xid {:#010x}", message.xid);
    for (name, address) in
        [("ciaddr", message.ciaddr), ("yiaddr", message.yiaddr), ("giaddr", message.giaddr)]
    {
        if !address.is_unspecified() {
            _ = write!(text, " {name} {address}");
        }
    }
    text
}

fn discovery(packet: &Discovery) -> String {
    let name = match packet.code {
        Code::Padi => "PADI",
        Code::Pado => "PADO",
        Code::Padr => "PADR",
        Code::Pads => "PADS",
        Code::Padt => "PADT",
    };
    let mut text = String::from(name);
    if packet.session_id != 0 {
        _ = write!(text, " session {}", packet.session_id);
    }
    let texts = [
        (tags::SERVICE_NAME, "service"),
        (tags::AC_NAME, "ac-name"),
        (tags::SERVICE_NAME_ERROR, "service-name-error"),
        (tags::AC_SYSTEM_ERROR, "ac-system-error"),
        (tags::GENERIC_ERROR, "error"),
    ];
    for (kind, name) in texts {
        if let Some(value) = packet.tags.get(kind) {
            _ = write!(text, " {name} \"{}\"", plain(value));
        }
    }
    if let Some(value) = packet.tags.get(tags::HOST_UNIQ) {
        _ = write!(text, " host-uniq {}", hex::Word(value));
    }
    if let Some(payload) = packet.tags.get(tags::PPP_MAX_PAYLOAD).and_then(|value| be16(value, 0)) {
        _ = write!(text, " max-payload {payload}");
    }
    text
}

/// A text of outside, without what a terminal would obey.
fn plain(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.chars().map(|char| if char.is_control() { '.' } else { char }).collect()
}

fn session(frame: &SessionFrame<'_>) -> String {
    let SessionFrame { session_id, protocol, payload, .. } = *frame;
    let text = match (protocol, Packet::read(payload)) {
        (protocol::IPV6, _) => packet6(payload),
        (protocol::IPV4, _) => "IPv4 packet".into(),
        (protocol::LCP, Some(packet)) => negotiated("LCP", packet, lcp_option),
        (protocol::IPCP, Some(packet)) => negotiated("IPCP", packet, ipcp_option),
        (protocol::IPV6CP, Some(packet)) => negotiated("IPV6CP", packet, ipv6cp_option),
        (protocol::PAP, Some(packet)) => pap(packet),
        (protocol::CHAP, Some(packet)) => chap(packet),
        (other, _) => format!("PPP protocol {other:#06x}, {} bytes", payload.len()),
    };
    format!("{text} session {session_id}")
}

fn negotiated(name: &str, packet: Packet<'_>, option: fn(u8, &[u8]) -> Option<String>) -> String {
    let code = usize::from(packet.code).checked_sub(1).and_then(|at| CODES.get(at));
    let mut text = match code {
        Some(code) => format!("{name} {code} id {}", packet.id),
        None => format!("{name} code {} id {}", packet.code, packet.id),
    };
    match packet.code {
        1..=4 => {
            let options = OptionList::read(packet.data).unwrap_or_default();
            for (kind, value) in options.iter() {
                let shown = option(kind, value).unwrap_or_else(|| format!("{kind}={}", hex::Word(value)));
                _ = write!(text, " {shown}");
            }
        }
        8 => _ = be16(packet.data, 0).map(|of| write!(text, " protocol {of:#06x}")),
        9 | 10 => _ = write!(text, " {} bytes", packet.data.len()),
        _ => {}
    }
    text
}

fn lcp_option(kind: u8, value: &[u8]) -> Option<String> {
    match (kind, value) {
        (1, &[a, b]) => Some(format!("mru {}", u16::from_be_bytes([a, b]))),
        (3, value) => Some(match Method::read(value) {
            Some(Method::ChapMd5) => "auth chap-md5".into(),
            Some(Method::MsChapV2) => "auth ms-chapv2".into(),
            Some(Method::Pap) => "auth pap".into(),
            None => format!("auth {}", hex::Word(value)),
        }),
        (5, value) => Some(format!("magic {}", hex::Word(value))),
        _ => None,
    }
}

fn ipv6cp_option(kind: u8, value: &[u8]) -> Option<String> {
    let id = <[u8; 8]>::try_from(value).ok().filter(|_| kind == 1)?;
    Some(format!("interface-id {}", link_local(u64::from_be_bytes(id))))
}

fn ipcp_option(kind: u8, value: &[u8]) -> Option<String> {
    let address = Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?);
    match kind {
        3 => Some(format!("address {address}")),
        129 => Some(format!("dns {address}")),
        131 => Some(format!("dns2 {address}")),
        _ => None,
    }
}

fn pap(packet: Packet<'_>) -> String {
    let name = match packet.data.split_first() {
        Some((len, rest)) => plain(rest.get(..usize::from(*len)).unwrap_or(rest)),
        None => String::new(),
    };
    match packet.code {
        1 => format!("PAP Authenticate-Request id {} name \"{name}\" password ********", packet.id),
        2 => format!("PAP Authenticate-Ack id {} \"{name}\"", packet.id),
        3 => format!("PAP Authenticate-Nak id {} \"{name}\"", packet.id),
        code => format!("PAP code {code} id {}", packet.id),
    }
}

fn chap(packet: Packet<'_>) -> String {
    let name = || {
        let len = packet.data.first().map_or(0, |len| usize::from(*len));
        plain(packet.data.get(1 + len..).unwrap_or_default())
    };
    match packet.code {
        1 => format!("CHAP Challenge id {} name \"{}\"", packet.id, name()),
        2 => format!("CHAP Response id {} name \"{}\"", packet.id, name()),
        3 => format!("CHAP Success id {}", packet.id),
        4 => format!("CHAP Failure id {} \"{}\"", packet.id, plain(packet.data)),
        code => format!("CHAP code {code} id {}", packet.id),
    }
}

fn packet6(packet: &[u8]) -> String {
    if let Some(from) = ra::read_solicitation(packet) {
        return format!("ICMPv6 router solicitation from {from}");
    }
    let Some((from, found)) = Advertisement::read(packet) else { return "IPv6 packet".into() };
    let mut text = format!("ICMPv6 router advertisement from {from} router {} s", found.router_lifetime_s);
    if let Some(prefix) = found.prefix {
        _ = write!(text, " prefix {} valid {} s", prefix.prefix, prefix.valid_s);
    }
    if let Some(mtu) = found.mtu {
        _ = write!(text, " mtu {mtu}");
    }
    text
}
