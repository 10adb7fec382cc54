//! What the node knows of ICMP: which errors it sends about frames that go no further and about which it sends none, pings, and
//! what errors quote (RFC 792, RFC 1812 section 4.3, RFC 4443).
//!
//! No error is sent about an error, a later fragment, or a packet with a group or unspecified address (RFC 1812, section 4.3.2.7,
//! RFC 4443, section 2.4 e). How one is written is in `report.rs`, how often one is sent in `limiter.rs`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::headers::ICMP6;

use crate::frame::{Fragment, Frame, Kind};

/// Whether a packet of IPv6 is about neighbours or routers of its link (RFC 4861).
#[inline]
pub(crate) fn is_about_neighbours(frame: &Frame<'_>) -> bool {
    frame.proto() == ICMP6 && matches!(frame.icmp(), Some((133..=137, _)))
}

/// The errors that a sender is informed of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    /// The time to live ended here.
    TimeExceeded,
    /// No route leads there.
    NoRoute,
    /// The last link leads there, but the host does not answer.
    NoHost,
    /// Refused, as if no service listened at the port.
    NoPort,
    /// Refused by the administrator.
    Prohibited,
    /// Its route leads back to where it came from.
    RejectRoute,
    /// Longer than this many bytes, and not to be cut.
    TooBig(u16),
    /// Its source says by which nodes it goes, and it cannot.
    Routed,
    /// This byte of its header is wrong.
    Problem(u8),
}

/// Hops that an error or a reset may go; one of them is the node itself, which sends it like a frame that came in.
pub(crate) const ORIGINATED_TTL: u8 = 65;

impl Error {
    /// Type, code and the second word in IPv4.
    pub(crate) fn v4(self) -> (u8, u8, u32) {
        match self {
            Error::TimeExceeded => (11, 0, 0),
            Error::NoRoute => (3, 0, 0),
            Error::NoHost => (3, 1, 0),
            Error::NoPort => (3, 3, 0),
            Error::Prohibited => (3, 13, 0),
            Error::RejectRoute => (3, 1, 0),
            // RFC 1191, section 4.
            Error::TooBig(mtu) => (3, 4, u32::from(mtu)),
            Error::Routed => (3, 5, 0),
            Error::Problem(at) => (12, 0, u32::from(at) << 24),
        }
    }

    /// The same of IPv6.
    pub(crate) fn v6(self) -> (u8, u8, u32) {
        match self {
            Error::TimeExceeded => (3, 0, 0),
            Error::NoRoute => (1, 0, 0),
            Error::NoHost => (1, 3, 0),
            Error::NoPort => (1, 4, 0),
            Error::Prohibited => (1, 1, 0),
            Error::RejectRoute => (1, 6, 0),
            Error::TooBig(mtu) => (2, 0, u32::from(mtu)),
            // Where there is one, the routing header is the first; the fourth byte of it says how many are left.
            Error::Routed => (4, 0, 43),
            Error::Problem(at) => (4, 0, u32::from(at)),
        }
    }
}

/// Whether the sender of a frame may be informed of it.
pub(crate) fn may_be_reported(frame: &Frame<'_>, error: Error) -> bool {
    if frame.is_to_group() || frame.icmp_error() || frame.fragment() == Fragment::Later {
        return false;
    }
    match frame.kind() {
        Kind::V4 => {
            let (src, dst) = frame.addresses4();
            let (sender, target) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
            let is_host =
                !sender.is_multicast() && !sender.is_loopback() && src >> 24 != 0 && src >> 28 != 15;
            is_host && !target.is_multicast() && !target.is_broadcast()
        }
        Kind::V6 => {
            const REDIRECT: u8 = 137;
            let (src, dst) = frame.addresses6();
            let (sender, target) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
            let redirect = frame.icmp().is_some_and(|(kind, _)| kind == REDIRECT);
            let is_host = !sender.is_unspecified() && !sender.is_multicast() && !sender.is_loopback();
            is_host && !redirect && (!target.is_multicast() || matches!(error, Error::TooBig(_)))
        }
        _ => false,
    }
}

/// Makes the answer to a ping out of the ping, packet only; false if it is none.
pub(crate) fn answer_echo(frame: &mut Frame<'_>) -> bool {
    const ECHO_V4: (u8, u8) = (8, 0);
    const ECHO_V6: (u8, u8) = (128, 0);
    let answer = match (frame.kind(), frame.icmp()) {
        (Kind::V4, Some(ECHO_V4)) => 0,
        (Kind::V6, Some(ECHO_V6)) => 129,
        _ => return false,
    };
    if frame.fragment() != Fragment::Whole {
        return false;
    }
    frame.swap_addresses();
    frame.set_ttl(ORIGINATED_TTL - 1);
    frame.set_icmp_type(answer);
    true
}

/// Bytes of an error of ICMP in front of what it quotes.
const QUOTE_AT: usize = 8;

/// The packet that a frame quotes, if it is an error of ICMP, whole or its first fragment.
fn quoted<'a>(frame: &'a Frame<'_>) -> Option<&'a [u8]> {
    if frame.icmp_error() { frame.l4().get(QUOTE_AT..) } else { None }
}

/// The addresses of the packet of IPv4 that a frame quotes, if it is an error.
pub(crate) fn quoted4(frame: &Frame<'_>) -> Option<(u32, u32)> {
    let ip = quoted(frame)?;
    let address = |at: usize| Some(u32::from_be_bytes(*ip.get(at..)?.first_chunk()?));
    Some((address(12)?, address(16)?))
}

/// The addresses of the packet of IPv6 that a frame quotes, if it is an error.
pub(crate) fn quoted6(frame: &Frame<'_>) -> Option<(u128, u128)> {
    let ip = quoted(frame)?;
    let address = |at: usize| Some(u128::from_be_bytes(*ip.get(at..)?.first_chunk()?));
    Some((address(8)?, address(24)?))
}

#[cfg(test)]
mod tests {
    use weir_packet::checksum::{fold, sum};

    use super::*;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::scenario::packet;

    #[test]
    fn pings_are_answered_in_place() {
        let echo = packet("icmp echo 10.0.0.1 > 192.168.0.1 id 1").expect("a packet");
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &echo].concat();
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        assert!(answer_echo(&mut frame));
        assert_eq!(frame.addresses4(), (0xc0a8_0001, 0x0a00_0001));
        assert_eq!((frame.icmp(), frame.ttl(), fold(sum(frame.l4()))), (Some((0, 0)), 64, 0xffff));
        assert!(!answer_echo(&mut frame), "an answer is no question");
    }
}
