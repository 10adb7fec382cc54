//! Frames of clients in scenarios, and what is answered.
//!
//! ```text
//! in   access1 request 02:00:00:00:00:01 want 100.64.0.2 server 100.64.0.1 id 0x0102 circuit eth0/1
//! out  access1 ack 100.64.0.2 to 100.64.0.2 mac 02:00:00:00:00:01 lease 3600 last 82
//! ```
//! | `in` | |
//! |---|---|
//! | `discover`, `request`, ... MAC | type of the message, address of the client; servers' messages come from a server |
//! | `want`, `server`, `ciaddr`, `giaddr` ADDRESS | options 50 and 54, fields |
//! | `id`, `circuit`, `remote` WORD | option 61, sub-options of option 82 |
//! | `ask 1,3,121`, `size N`, `option CODE WORD` | options 55 and 57, any option |
//! | `xid N`, `broadcast`, `rebinding` | number, flag; sent to all although it has an address |
//! | `from MAC` | source of the frame, if it is not the client |
//! | `frame 0x0102...` | in place of all this: the bytes of a recorded frame |
//! | `broken WHAT` | `ip-checksum`, `udp-checksum`, `ip-length`, `udp-length`, `fragment`, `cookie`, `cut` |
//!
//! | `out` | |
//! |---|---|
//! | `offer`, `ack`, `nak` | type of the message, and behind it the address that is assigned |
//! | `to`, `mac`, `port` | destination of the packet and of the frame, UDP port |
//! | `server`, `lease`, `renewal`, `rebinding`, `mask`, `router`, `dns`, `captive`, `id`, `circuit`, `remote`, `routes` | options |
//! | `xid`, `ciaddr`, `giaddr`, `flags` | fields |
//! | `codes`, `last` | codes of all options, and of the last one |
//!
//! `none` says that there is none.

use std::fmt::Display;
use std::net::Ipv4Addr;

use weir_packet::checksum;

use crate::dhcp4::frame::{self, CLIENT_PORT, Datagram, SERVER_PORT};
use crate::dhcp4::message::{BOOTREPLY, BROADCAST, Message, MessageType};
use crate::dhcp4::options::{
    CAPTIVE_PORTAL, CLASSLESS_ROUTES, CLIENT_ID, DNS, LEASE_TIME, MAX_SIZE, MESSAGE_TYPE, PARAMETER_LIST,
    REBINDING_TIME, RELAY_INFO, RENEWAL_TIME, REQUESTED_ADDRESS, ROUTER, SERVER_ID, SUBNET_MASK,
};
use crate::dhcp4::relay_info::{CIRCUIT_ID, REMOTE_ID, sub_option};
use crate::hex;
use crate::mac::Mac;
use crate::words::Words;

/// The MAC address of the node.
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);

/// The frame that a line of a scenario describes; a MAC with `+` behind it is counted up by `repetition`.
///
/// # Errors
/// What is wrong with the line.
pub fn frame(line: &str, repetition: u32) -> Result<Vec<u8>, String> {
    let mut words = Words::new(line);
    if words.takes("frame") {
        return bytes(&mut words);
    }
    let word = words.word("a type of a message")?;
    let kind = (1..=8).filter_map(MessageType::of).find(|kind| kind.name() == word);
    let kind = kind.ok_or_else(|| format!("`{word}` is no type of a message"))?;
    let word = words.word("a MAC address")?;
    let mac = match word.strip_suffix('+') {
        Some(mac) => counted_up(mac.parse()?, repetition),
        None => word.parse()?,
    };
    let mut sent = Sent { message: Message::request(1, mac), src_mac: mac, to_all: false, broken: None };
    sent.message.options.push(MESSAGE_TYPE, &[kind as u8]);
    let mut relay_info = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "circuit" => sub(&mut relay_info, CIRCUIT_ID, &mut words)?,
            "remote" => sub(&mut relay_info, REMOTE_ID, &mut words)?,
            _ => sent.field(word, &mut words)?,
        }
    }
    if !relay_info.is_empty() {
        sent.message.options.push(RELAY_INFO, &relay_info);
    }
    sent.frame(kind)
}

fn counted_up(Mac([a, b, c, d, e, f]): Mac, repetition: u32) -> Mac {
    let [c, d, e, f] = u32::from_be_bytes([c, d, e, f]).wrapping_add(repetition).to_be_bytes();
    Mac([a, b, c, d, e, f])
}

fn sub(info: &mut Vec<u8>, code: u8, words: &mut Words<'_>) -> Result<(), String> {
    let value = bytes(words)?;
    let len = u8::try_from(value.len()).map_err(|_| "a sub-option has at most 255 bytes")?;
    info.extend([code, len]);
    info.extend(value);
    Ok(())
}

fn bytes(words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let word = words.word("a text, or bytes as 0x0102,")?;
    hex::bytes(word).ok_or_else(|| format!("`{word}` has no whole bytes"))
}

/// What a client sends.
struct Sent {
    message: Message,
    src_mac: Mac,
    to_all: bool,
    broken: Option<String>,
}

impl Sent {
    fn field(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), String> {
        let Message { options, .. } = &mut self.message;
        match word {
            "want" => options.push_addresses(REQUESTED_ADDRESS, &[words.number("IPv4 address")?]),
            "server" => options.push_addresses(SERVER_ID, &[words.number("IPv4 address")?]),
            "ciaddr" => self.message.ciaddr = words.number("IPv4 address")?,
            "giaddr" => self.message.giaddr = words.number("IPv4 address")?,
            "id" => options.push(CLIENT_ID, &bytes(words)?),
            "size" => options.push(MAX_SIZE, &words.number::<u16>("size")?.to_be_bytes()),
            "option" => {
                let code = words.number("code of an option")?;
                options.push(code, &bytes(words)?);
            }
            "ask" => {
                let codes = words.word("codes of options")?.split(',').map(str::parse);
                let codes: Vec<u8> = codes
                    .collect::<Result<_, std::num::ParseIntError>>()
                    .map_err(|error| error.to_string())?;
                options.push(PARAMETER_LIST, &codes);
            }
            "xid" => self.message.xid = words.number("number")?,
            "broadcast" => self.message.flags = BROADCAST,
            "rebinding" => self.to_all = true,
            "from" => self.src_mac = words.value("a MAC address")?,
            "broken" => self.broken = Some(words.word("what is broken")?.to_string()),
            other => return Err(format!("`{other}` is no part of a message")),
        }
        Ok(())
    }

    fn frame(mut self, kind: MessageType) -> Result<Vec<u8>, String> {
        let none = Ipv4Addr::UNSPECIFIED;
        let is_relayed = self.message.giaddr != none;
        // A client with an address sends to the server.
        let is_unicast = is_relayed || self.message.ciaddr != none && !self.to_all;
        let (mut src_port, mut dst_port) = (CLIENT_PORT, SERVER_PORT);
        if kind.is_of_server() {
            self.message.op = BOOTREPLY;
            (src_port, dst_port) = (SERVER_PORT, CLIENT_PORT);
        } else if is_relayed {
            src_port = SERVER_PORT;
            self.message.hops = 1;
        }
        let mut payload = self.message.write();
        if self.broken.as_deref() == Some("cookie") {
            payload[236] = 0;
        }
        let datagram = Datagram {
            dst_mac: if is_unicast { OTHER } else { Mac::BROADCAST },
            src_mac: self.src_mac,
            src: if is_relayed { self.message.giaddr } else { self.message.ciaddr },
            dst: if is_unicast { Ipv4Addr::new(100, 64, 0, 1) } else { Ipv4Addr::BROADCAST },
            src_port,
            dst_port,
            payload: &payload,
        };
        let mut frame = frame::write(&datagram).map_err(|reason| reason.meaning().to_string())?;
        match self.broken.as_deref() {
            None | Some("cookie") => {}
            Some("ip-checksum") => frame[24] ^= 1,
            Some("udp-checksum") => frame[41] ^= 1,
            Some("ip-length") => {
                frame[16] = 0xff;
                checksum::write_ipv4(&mut frame[14..34]);
            }
            Some("udp-length") => frame[38] = 0xff,
            Some("fragment") => {
                frame[20] = 0x20;
                checksum::write_ipv4(&mut frame[14..34]);
            }
            Some("cut") => frame.truncate(30),
            Some(other) => return Err(format!("`{other}` cannot be broken")),
        }
        Ok(frame)
    }
}

/// An answer, as the fields that a line of a scenario may name.
///
/// # Errors
/// A frame whose lengths or checksums are wrong, or that carries no message of DHCP.
pub fn described(bytes: &[u8]) -> Result<Vec<(&'static str, String)>, String> {
    let datagram = frame::read(bytes).map_err(|reason| reason.meaning())?;
    let message = Message::read(datagram.payload).map_err(|reason| reason.meaning())?;
    let kind = message.message_type().map_err(|reason| reason.meaning())?;
    let mut fields = vec![("message", kind.name().to_string())];
    let mut add = |name, value: Option<&dyn Display>| {
        fields.push((name, value.map_or("none".into(), ToString::to_string)));
    };
    let some = |address: Ipv4Addr| Some(address).filter(|address| !address.is_unspecified());
    let options = &message.options;
    let seconds = |code| options.fixed::<4>(code).ok().flatten().map(u32::from_be_bytes);
    let address = |code| options.address(code).ok().flatten();
    let word = |code: u8| options.get(code).map(|value| hex::Word(&value).to_string());
    let info = options.get(RELAY_INFO).unwrap_or_default();
    let sub = |code| sub_option(&info, code).ok().flatten().map(|value| hex::Word(value).to_string());
    let dns = options.get(DNS).map(|value| {
        let (addresses, _) = value.as_chunks::<4>();
        let shown: Vec<_> = addresses.iter().map(|bytes| Ipv4Addr::from(*bytes).to_string()).collect();
        shown.join(",")
    });
    let text = |code| options.get(code).map(|value| String::from_utf8_lossy(&value).into_owned());
    let codes: Vec<_> = options.iter().map(|(code, _)| code.to_string()).collect();
    for (name, value) in [
        ("address", some(message.yiaddr)),
        ("ciaddr", some(message.ciaddr)),
        ("giaddr", some(message.giaddr)),
    ] {
        add(name, value.as_ref().map(|value| value as &dyn Display));
    }
    for (name, code) in [("server", SERVER_ID), ("mask", SUBNET_MASK), ("router", ROUTER)] {
        add(name, address(code).as_ref().map(|value| value as &dyn Display));
    }
    for (name, code) in [("lease", LEASE_TIME), ("renewal", RENEWAL_TIME), ("rebinding", REBINDING_TIME)] {
        add(name, seconds(code).as_ref().map(|value| value as &dyn Display));
    }
    let words = [
        ("dns", dns),
        ("captive", text(CAPTIVE_PORTAL)),
        ("id", word(CLIENT_ID)),
        ("routes", word(CLASSLESS_ROUTES)),
        ("circuit", sub(CIRCUIT_ID)),
        ("remote", sub(REMOTE_ID)),
        ("last", codes.last().cloned()),
        ("codes", Some(codes.join(","))),
        ("to", Some(datagram.dst.to_string())),
        ("mac", Some(datagram.dst_mac.to_string())),
        ("port", Some(datagram.dst_port.to_string())),
        ("xid", Some(message.xid.to_string())),
        ("flags", Some(format!("{:#06x}", message.flags))),
    ];
    for (name, value) in &words {
        add(name, value.as_ref().map(|value| value as &dyn Display));
    }
    Ok(fields)
}

/// Whether an answer is as a line says; `None`: it is.
///
/// # Errors
/// The line names what no answer has.
pub(super) fn difference(line: &str, seen: &[(&'static str, String)]) -> Result<Option<String>, String> {
    let mut words = Words::new(line);
    let mut pairs = vec![("message", words.word("a type of a message")?)];
    if let Some(address) = words.peek().filter(|word| word.parse::<Ipv4Addr>().is_ok()) {
        words.next();
        pairs.push(("address", address));
    }
    while let Some(name) = words.next() {
        pairs.push((name, words.word(name)?));
    }
    for (name, value) in pairs {
        let found = seen.iter().find(|(seen, _)| *seen == name);
        let (_, found) = found.ok_or_else(|| format!("`{name}` is no part of an answer"))?;
        if found != value && value != "*" {
            return Ok(Some(format!("{name} {found}")));
        }
    }
    Ok(None)
}
