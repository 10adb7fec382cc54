//! The Port Control Protocol (RFC 6887): hosts ask for ports, as RFC 6888 REQ-9 requires.
//!
//! ```text
//! request to port 5351 of the node > a mapping is leased > the answer in place of the request, back to where it came from
//!
//!  0  version, R and opcode, 0, result | 4 lifetime | 8 epoch (of a request: its host) | 24 nonce | 36 protocol
//! 40  internal port, external port | 44 external address | of PEER: 60 remote port | 64 remote address
//! ```
//! MAP, PEER and ANNOUNCE, for TCP and UDP of hosts with IPv4, each for itself; no option is understood, and a client cannot
//! choose an external port. What has no room for a header gets no answer. After the node began anew its epoch is 0, so that hosts
//! ask again.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::Ipv4Addr;

use weir_packet::checksum::{self, pseudo_header};
use weir_packet::fields::{be16, put};
use weir_packet::headers::{TCP, UDP};

use super::leases::{Refused, Wish};
use super::next::Next;
use super::slot::Inside;
use super::table::Table;
use crate::address::mapped4;
use crate::drops::DropReason;
use crate::icmp::ORIGINATED_TTL;
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

const UDP_HEADER: usize = 8;
const HEADER: usize = 24;
const MAP_BYTES: usize = 60;
const PEER_BYTES: usize = 80;
/// Longest message (section 7).
const MOST_BYTES: usize = 1100;
/// Limits of the lifetime of a lease, s (section 15).
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
    /// How long the host must not ask again, s: short where conditions may change.
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
            Refused::Short(DropReason::NatQuota | DropReason::NatRate) => Error::UserExQuota,
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

/// Checks that all options may be ignored (section 7.3).
fn options(mut rest: &[u8]) -> Result<(), Error> {
    while let [code, _, length @ ..] = rest {
        // A server that does not understand an option from 128 on ignores it.
        if *code < 128 {
            return Err(Error::UnsupportedOption);
        }
        let [a, b, ..] = length else { return Err(Error::MalformedOption) };
        let bytes = usize::from(u16::from_be_bytes([*a, *b])).next_multiple_of(4).saturating_add(4);
        rest = rest.get(bytes..).ok_or(Error::MalformedOption)?;
    }
    Ok(())
}

/// A request of an inside host: the answer replaces it.
pub(super) fn answer(table: &mut Table, step: &mut Step<'_, '_>, i: usize) -> Next {
    let frame = &mut step.frames[i];
    let ((host, node), (port, _)) = (frame.addresses4(), frame.ports());
    // The length that the UDP header says.
    let bytes = be16(frame.l4(), 4).map_or(0, usize::from);
    let Some(message) = frame.l4_mut().get_mut(UDP_HEADER..bytes) else {
        return Next::Drop(DropReason::NatProtocol);
    };
    match message.first_chunk::<HEADER>() {
        Some(header) if header[1] & ANSWER == 0 => {
            let granted = grant(table, step.now, host, (*header, message));
            write(message, step.now, granted);
        }
        _ => return Next::Drop(DropReason::NatProtocol),
    }
    frame.set_source4(node, PORT);
    frame.set_destination4(host, port);
    frame.set_ttl(ORIGINATED_TTL);
    let pseudo = pseudo_header(&frame.header4()[12..], UDP, bytes);
    let Some(datagram) = frame.l4_mut().get_mut(..bytes) else { return Next::Drop(DropReason::NatProtocol) };
    checksum::write(datagram, 6, pseudo);
    if be16(datagram, 6) == Some(0) {
        put(datagram, 6, [0xff, 0xff]);
    }
    Next::Turn
}

/// What a request with this header is granted.
fn grant(
    table: &mut Table,
    now: Time,
    host: u32,
    (header, message): ([u8; HEADER], &[u8]),
) -> Result<Granted, Error> {
    let [version, opcode, _, _, a, b, c, d, asker @ ..] = header;
    if version != VERSION {
        return Err(Error::UnsupportedVersion);
    }
    if message.len() > MOST_BYTES || !message.len().is_multiple_of(4) {
        return Err(Error::MalformedRequest);
    }
    if asker != Ipv4Addr::from(host).to_ipv6_mapped().octets() {
        return Err(Error::AddressMismatch);
    }
    let needed = match opcode {
        ANNOUNCE => HEADER,
        MAP => MAP_BYTES,
        PEER => PEER_BYTES,
        _ => return Err(Error::UnsupportedOpcode),
    };
    options(message.get(needed..).ok_or(Error::MalformedRequest)?)?;
    let mapping = message.get(HEADER..needed).and_then(<[u8]>::split_first_chunk);
    let Some((&nonce, &[proto, _, _, _, e, f, ..])) = mapping else {
        // It announces itself.
        return Ok(Granted { lifetime_s: 0, outside: None });
    };
    let port = u16::from_be_bytes([e, f]);
    if !matches!(proto, TCP | UDP) || port == 0 {
        return Err(Error::UnsupportedProtocol);
    }
    let inside = Inside { address: mapped4(host), port, proto };
    let asked_s = u32::from_be_bytes([a, b, c, d]);
    if asked_s == 0 {
        table.end_own_lease(now, &inside, nonce)?;
        return Ok(Granted { lifetime_s: 0, outside: None });
    }
    let lifetime_s = asked_s.clamp(LEAST_S, MOST_S);
    #[expect(clippy::arithmetic_side_effects, reason = "a day at most")]
    let until = now + std::time::Duration::from_secs(lifetime_s.into());
    let number = table.lease(now, Wish { inside, nonce, until, is_open: opcode == MAP })?;
    let slot = &table.sessions[number];
    let outside = (table.outside.address(slot.outside), slot.outside_port);
    Ok(Granted { lifetime_s, outside: Some(outside) })
}

/// Turns a request into its answer.
fn write(message: &mut [u8], now: Time, granted: Result<Granted, Error>) {
    let (code, lifetime_s) = match granted {
        Ok(granted) => (0, granted.lifetime_s),
        Err(error) => (error as u8, error.lifetime_s()),
    };
    let Some((header, mapping)) = message.split_first_chunk_mut::<HEADER>() else { return };
    (header[0], header[1]) = (VERSION, header[1] | ANSWER);
    header[2..4].copy_from_slice(&[0, code]);
    header[4..8].copy_from_slice(&lifetime_s.to_be_bytes());
    header[8..12].copy_from_slice(&((now.ns() / 1_000_000_000) as u32).to_be_bytes());
    header[12..].fill(0);
    if let Ok(Granted { outside: Some((address, port)), .. }) = granted {
        put(mapping, 42 - HEADER, port.to_be_bytes());
        put(mapping, 44 - HEADER, Ipv4Addr::from(address).to_ipv6_mapped().octets());
    }
}

#[cfg(test)]
#[path = "pcp_tests.rs"]
mod tests;
