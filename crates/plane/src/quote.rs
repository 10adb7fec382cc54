//! The beginning of a packet that an ICMP error quotes; the receiver of the error is said to have sent it.
//!
//! ```text
//!  ICMP header, 8 bytes | IP header of the quoted packet | the first 8 bytes or more of what that carried
//! ```
//! The error's own checksum is right, unless it came in fragments, and so is that of the quoted IPv4 header (RFC 5508
//! REQ-3). Options and extension headers are passed over. An error about an error is none (RFC 1122, section 3.2.2).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::{fold, pseudo_header, sum};
use weir_packet::headers::{ICMP, ICMP6, SCTP, TCP, UDP, words};

use crate::extensions;
use crate::frame::{Fragment, Frame, IPV4, IPV6};
use crate::query::{self, Query};

/// Header of an error, in front of what it quotes.
pub(crate) const ERROR: usize = 8;
/// Bytes of the quoted transport that there must be: its ports, or its identifier.
const LEAST: usize = 8;

/// Tells the hosts of a link about another router there; no other host may believe it (RFC 1812, section 5.2.7.2).
const REDIRECT: u8 = 5;

/// A quoted packet with addresses of type `A`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quote<A> {
    pub(crate) proto: u8,
    /// Where its transport begins, from the ICMP header on; eight bytes of it are there.
    pub(crate) l4_at: usize,
    /// Address and port; of a query of ICMP its identifier, of what has no ports zero.
    pub(crate) src: (A, u16),
    pub(crate) dst: (A, u16),
    /// It answers a query of ICMP.
    pub(crate) is_answer: bool,
}

/// Why the sender of the quoted packet is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unclear {
    /// It is cut short, a checksum is wrong, it is itself an error, or the error is a redirect.
    Broken,
    /// It is a later fragment.
    Later,
}

/// The ports of a quoted transport.
fn ports(proto: u8, l4: &[u8; LEAST]) -> Result<(u16, u16), Unclear> {
    let [a, b, c, d, e, f, ..] = *l4;
    match (proto, a) {
        (TCP | UDP | SCTP, _) => Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        (ICMP | ICMP6, kind) if query::of(proto, kind).is_some() => {
            let id = u16::from_be_bytes([e, f]);
            Ok((id, id))
        }
        (ICMP | ICMP6, _) => Err(Unclear::Broken),
        _ => Ok((0, 0)),
    }
}

/// Whether the checksum of an error is right if its bytes have this sum; of a fragment that cannot be known.
fn is_right(frame: &Frame<'_>, covered: u64) -> bool {
    frame.fragment() != Fragment::Whole || fold(covered) == 0xffff
}

/// Reads what an error of ICMP for IPv4 quotes.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn v4(frame: &Frame<'_>) -> Result<Quote<u32>, Unclear> {
    let icmp = frame.l4();
    let ip = icmp.get(ERROR..).ok_or(Unclear::Broken)?;
    let header = ip.first_chunk::<IPV4>().ok_or(Unclear::Broken)?;
    let header_bytes = words(header[0] & 15);
    let is_header = header[0] >> 4 == 4 && header_bytes >= IPV4;
    let (all, l4) = ip.split_at_checked(header_bytes).filter(|_| is_header).ok_or(Unclear::Broken)?;
    let l4 = l4.first_chunk::<LEAST>().ok_or(Unclear::Broken)?;
    let is_redirect = frame.icmp().is_some_and(|(kind, _)| kind == REDIRECT);
    if is_redirect || !is_right(frame, sum(icmp)) || fold(sum(all)) != 0xffff {
        return Err(Unclear::Broken);
    }
    if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
        return Err(Unclear::Later);
    }
    let (sport, dport) = ports(header[9], l4)?;
    let [.., a, b, c, d, e, f, g, h] = *header;
    let (src, dst) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    Ok(Quote {
        proto: header[9],
        l4_at: ERROR.saturating_add(header_bytes),
        src: (src, sport),
        dst: (dst, dport),
        is_answer: query::of(header[9], l4[0]) == Some(Query::Answer),
    })
}

/// Reads what an error of ICMPv6 quotes.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn v6(frame: &Frame<'_>) -> Result<Quote<u128>, Unclear> {
    let icmp = frame.l4();
    let (src, dst) = frame.addresses6();
    let addresses = [src.to_be_bytes(), dst.to_be_bytes()].concat();
    if !is_right(frame, pseudo_header(&addresses, ICMP6, icmp.len()) + sum(icmp)) {
        return Err(Unclear::Broken);
    }
    let ip = icmp.get(ERROR..).ok_or(Unclear::Broken)?;
    let header = ip.first_chunk::<IPV6>().filter(|header| header[0] >> 4 == 6).ok_or(Unclear::Broken)?;
    let carried = extensions::walk(ip).ok_or(Unclear::Broken)?;
    if carried.is_later() {
        return Err(Unclear::Later);
    }
    let l4 = ip.get(carried.at..).and_then(|l4| l4.first_chunk::<LEAST>()).ok_or(Unclear::Broken)?;
    let (sport, dport) = ports(carried.proto, l4)?;
    let (_, ends) = header.split_at(IPV6 - 32);
    let address = |bytes: &[u8]| bytes.iter().fold(0, |address, &byte| address << 8 | u128::from(byte));
    let (src, dst) = ends.split_at(16);
    Ok(Quote {
        proto: carried.proto,
        l4_at: ERROR.saturating_add(carried.at),
        src: (address(src), sport),
        dst: (address(dst), dport),
        is_answer: query::of(carried.proto, l4[0]) == Some(Query::Answer),
    })
}

impl<A: PartialEq + Copy> Quote<A> {
    /// Both ends; of a query of ICMP only the querying end has the identifier.
    pub(crate) fn asker(&self) -> ((A, u16), (A, u16)) {
        match (self.proto, self.is_answer) {
            (ICMP | ICMP6, true) => ((self.src.0, 0), self.dst),
            (ICMP | ICMP6, false) => (self.src, (self.dst.0, 0)),
            _ => (self.src, self.dst),
        }
    }

    /// Whether the error goes to the sender of the quoted packet: for any other host it says nothing.
    pub(crate) fn is_for(&self, receiver: A) -> bool {
        self.src.0 == receiver
    }
}
