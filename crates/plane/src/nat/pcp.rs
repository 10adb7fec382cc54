//! The Port Control Protocol (RFC 6887): hosts ask for ports by themselves, as RFC 6888 REQ-9 wants it.
//!
//! ```text
//! request to port 5351 of the node > a mapping is leased > the answer in place of the request, back to where it came from
//!
//!  0  version, R and opcode, 0, result | 4 lifetime | 8 epoch (of a request: its host) | 24 nonce | 36 protocol
//! 40  internal port, external port | 44 external address | of PEER: 60 remote port | 64 remote address
//! ```
//! MAP, PEER and ANNOUNCE, for TCP and UDP of hosts with IPv4, each for itself; no option is understood, and nobody chooses
//! an external port. What has no room for a header gets no answer. After the node began anew its epoch is 0, so that hosts
//! ask again.

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::headers::{TCP, UDP};

use super::leases::{Refused, Wish};
use super::slot::{Address, Inside};
use super::{Nat, Next};
use crate::address::mapped4;
use crate::drops::Drop;
use crate::icmp::OWN_TTL;
use crate::stage::Step;
use crate::time::Time;

/// Where requests are heard.
pub(super) const PORT: u16 = 5351;
const VERSION: u8 = 2;
/// Set in the opcode of an answer.
const ANSWER: u8 = 0x80;
const ANNOUNCE: u8 = 0;
const MAP: u8 = 1;
const PEER: u8 = 2;

const HEADER: usize = 24;
const MAP_BYTES: usize = 60;
const PEER_BYTES: usize = 80;
/// Longest message (section 7).
const MOST_BYTES: usize = 1100;
/// Times that a lease may have, s (section 15).
const LEAST_S: u32 = 120;
const MOST_S: u32 = 86_400;

/// Why a request is refused (section 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Error {
    UnsupportedVersion = 1,
    NotAuthorized = 2,
    MalformedRequest = 3,
    UnsupportedOpcode = 4,
    UnsupportedOption = 5,
    MalformedOption = 6,
    NoResources = 8,
    UnsupportedProtocol = 9,
    UserExQuota = 10,
    AddressMismatch = 12,
}

impl Error {
    /// How long the host is not to ask again, s: short where things may change by themselves.
    fn lifetime_s(self) -> u32 {
        match self {
            Error::NoResources | Error::UserExQuota => 30,
            _ => 1800,
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        match refused {
            Refused::NotYours => Error::NotAuthorized,
            Refused::Short(Drop::NatQuota | Drop::NatRate) => Error::UserExQuota,
            Refused::Short(_) => Error::NoResources,
        }
    }
}

/// What is granted.
#[derive(Debug, Clone, Copy)]
struct Granted {
    lifetime_s: u32,
    /// External address and port, of MAP and PEER.
    outside: Option<(u32, u16)>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn address(bytes: &[u8], at: usize) -> Address {
    [0, 4, 8, 12].map(|n| word(bytes, at + n))
}

/// Whether all that follows may be left aside (section 7.3).
fn options(mut rest: &[u8]) -> Result<(), Error> {
    while let [code, _, length @ ..] = rest {
        // Those from 128 on are for who understands them.
        if *code < 128 {
            return Err(Error::UnsupportedOption);
        }
        let [a, b, ..] = length else { return Err(Error::MalformedOption) };
        let bytes = 4 + usize::from(u16::from_be_bytes([*a, *b])).next_multiple_of(4);
        rest = rest.get(bytes..).ok_or(Error::MalformedOption)?;
    }
    Ok(())
}

impl Nat {
    /// A request of a host inside: the answer takes its place.
    pub(super) fn answer_pcp(&mut self, step: &mut Step<'_, '_>, i: usize) -> Next {
        let frame = &mut step.frames[i];
        let ((host, node), (port, _)) = (frame.addresses4(), frame.ports());
        let l4 = frame.l4();
        let bytes = usize::from(half(l4, 4));
        let Some(request) = l4.get(8..bytes).filter(|request| request.len() >= HEADER) else {
            return Next::Drop(Drop::NatProtocol);
        };
        if request[1] & ANSWER != 0 {
            return Next::Drop(Drop::NatProtocol);
        }
        let granted = self.grant_pcp(step.now, host, request);
        let frame = &mut step.frames[i];
        write(&mut frame.l4_mut()[8..bytes], step.now, granted);
        frame.set_source4(node, PORT);
        frame.set_destination4(host, port);
        let pseudo = pseudo_header(&frame.ip()[12..20], UDP, bytes);
        let l4 = frame.l4_mut();
        l4[6..8].fill(0);
        let checksum = !fold(pseudo + sum(&l4[..bytes]));
        l4[6..8].copy_from_slice(&if checksum == 0 { 0xffff } else { checksum }.to_be_bytes());
        let header_bytes = usize::from(frame.ip()[0] & 15) * 4;
        let ip = frame.ip_mut();
        ip[8] = OWN_TTL;
        write_ipv4(&mut ip[..header_bytes]);
        Next::Turn
    }

    fn grant_pcp(&mut self, now: Time, host: u32, request: &[u8]) -> Result<Granted, Error> {
        if request[0] != VERSION {
            return Err(Error::UnsupportedVersion);
        }
        if request.len() > MOST_BYTES || !request.len().is_multiple_of(4) {
            return Err(Error::MalformedRequest);
        }
        if address(request, 8) != mapped4(host) {
            return Err(Error::AddressMismatch);
        }
        let needed = match request[1] {
            ANNOUNCE => HEADER,
            MAP => MAP_BYTES,
            PEER => PEER_BYTES,
            _ => return Err(Error::UnsupportedOpcode),
        };
        options(request.get(needed..).ok_or(Error::MalformedRequest)?)?;
        if request[1] == ANNOUNCE {
            return Ok(Granted { lifetime_s: 0, outside: None });
        }
        let (proto, port) = (request[36], half(request, 40));
        if !matches!(proto, TCP | UDP) || port == 0 {
            return Err(Error::UnsupportedProtocol);
        }
        let inside = Inside { address: mapped4(host), port, proto };
        let nonce = *request[24..].first_chunk().expect("it is long enough");
        let asked_s = word(request, 4);
        if asked_s == 0 {
            self.table.end_own_lease(now, &inside, nonce)?;
            return Ok(Granted { lifetime_s: 0, outside: None });
        }
        let lifetime_s = asked_s.clamp(LEAST_S, MOST_S);
        let until = now + std::time::Duration::from_secs(lifetime_s.into());
        let number = self.table.lease(now, Wish { inside, nonce, until, is_open: request[1] == MAP })?;
        let slot = &self.table.sessions[number];
        let outside = (self.table.outside.address(slot.outside), slot.outside_port);
        Ok(Granted { lifetime_s, outside: Some(outside) })
    }
}

/// Makes an answer of a request.
fn write(message: &mut [u8], now: Time, granted: Result<Granted, Error>) {
    let (code, lifetime_s) = match granted {
        Ok(granted) => (0, granted.lifetime_s),
        Err(error) => (error as u8, error.lifetime_s()),
    };
    message[0] = VERSION;
    message[1] |= ANSWER;
    message[2..4].copy_from_slice(&[0, code]);
    message[4..8].copy_from_slice(&lifetime_s.to_be_bytes());
    message[8..12].copy_from_slice(&((now.ns() / 1_000_000_000) as u32).to_be_bytes());
    message[12..HEADER].fill(0);
    if let Ok(Granted { outside: Some((address, port)), .. }) = granted {
        message[42..44].copy_from_slice(&port.to_be_bytes());
        for (at, word) in (44..).step_by(4).zip(mapped4(address)) {
            message[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
    }
}

#[cfg(test)]
#[path = "pcp_tests.rs"]
mod tests;
