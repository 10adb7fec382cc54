//! Errors of ICMP that the node sends about a frame that goes no further (RFC 792, RFC 1812 section 4.3, RFC 4443).
//!
//! Never about an error, a later fragment, what went to or came from a group or nobody (RFC 1812, section 4.3.2.7,
//! RFC 4443, section 2.4 e), and no faster than `limiter.rs` allows.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::headers::{ICMP, ICMP6};

use crate::frame::{Fragment, Frame, IPV4, IPV6, Kind};
use crate::limiter::Permit;

/// A message of ICMP with an identifier, which is that of the one who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    Question,
    Answer,
}

/// Which of the two a type of ICMP is: echo, timestamp, information, address mask (RFC 792, RFC 950, RFC 4443).
pub(crate) fn query(proto: u8, kind: u8) -> Option<Query> {
    match (proto, kind) {
        (ICMP, 8 | 13 | 15 | 17) | (ICMP6, 128) => Some(Query::Question),
        (ICMP, 0 | 14 | 16 | 18) | (ICMP6, 129) => Some(Query::Answer),
        _ => None,
    }
}

/// Whether a packet of IPv6 is about neighbours or routers of its link (RFC 4861).
#[inline]
pub(crate) fn is_about_neighbours(frame: &Frame<'_>) -> bool {
    frame.proto() == ICMP6 && matches!(frame.icmp(), Some((133..=137, _)))
}

/// What the sender is informed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Error {
    /// The time to live ended here.
    TimeExceeded,
    /// No route leads there.
    NoRoute,
    /// The last link leads there, but nobody answers.
    NoHost,
    /// Refused, as if nobody listened at the port.
    NoPort,
    /// Refused by the administrator.
    Prohibited,
    /// Longer than this many bytes, and not to be cut.
    TooBig(u16),
    /// Its source says by which nodes it goes, and it cannot.
    Routed,
    /// This byte of its header is wrong.
    Problem(u8),
}

/// Hops that an error or a reset may go; one of them is the node itself, which sends it like a frame that came in.
pub(crate) const ORIGINATED_TTL: u8 = 65;
/// Longest error of IPv4 (RFC 1812, section 4.3.2.3).
const MOST_V4: usize = 576;
/// Longest error of IPv6 (RFC 4443, section 2.4 c).
const MOST_V6: usize = 1280;
const ICMP_HEADER: usize = 8;
/// Precedence 6, internetwork control (RFC 1812, section 4.3.2.5).
const TOS: u8 = 0xc0;

impl Error {
    /// Type, code and the second word.
    fn v4(self) -> (u8, u8, u32) {
        match self {
            Error::TimeExceeded => (11, 0, 0),
            Error::NoRoute => (3, 0, 0),
            Error::NoHost => (3, 1, 0),
            Error::NoPort => (3, 3, 0),
            Error::Prohibited => (3, 13, 0),
            // RFC 1191, section 4.
            Error::TooBig(mtu) => (3, 4, u32::from(mtu)),
            Error::Routed => (3, 5, 0),
            Error::Problem(at) => (12, 0, u32::from(at) << 24),
        }
    }

    fn v6(self) -> (u8, u8, u32) {
        match self {
            Error::TimeExceeded => (3, 0, 0),
            Error::NoRoute => (1, 0, 0),
            Error::NoHost => (1, 3, 0),
            Error::NoPort => (1, 4, 0),
            Error::Prohibited => (1, 1, 0),
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

/// The frame in which `source` tells the sender of `frame` what happened to it, with head room and an Ethernet header
/// that leads back; `None` where `source` is not of its kind.
pub(crate) fn error(_: Permit, frame: &Frame<'_>, error: Error, source: IpAddr) -> Option<Vec<u8>> {
    match (frame.kind(), source) {
        (Kind::V4, IpAddr::V4(source)) => Some(error_v4(frame, error.v4(), source)),
        (Kind::V6, IpAddr::V6(source)) => Some(error_v6(frame, error.v6(), source)),
        _ => None,
    }
}

fn error_v4(frame: &Frame<'_>, header: (u8, u8, u32), source: Ipv4Addr) -> Vec<u8> {
    let (src, _) = frame.addresses4();
    let quoted = frame.ip().get(..MOST_V4 - IPV4 - ICMP_HEADER).unwrap_or(frame.ip());
    let icmp = icmp(header, quoted, 0);
    let total = (IPV4.saturating_add(icmp.len()) as u16).to_be_bytes();
    // Never cut, so that its identification means nothing (RFC 6864, section 4.1).
    let mut ip =
        [0x45, TOS, total[0], total[1], 0, 0, 0x40, 0, ORIGINATED_TTL, ICMP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&src.to_be_bytes());
    write_ipv4(&mut ip);
    [&frame.front_of_answer()[..], &[0x08, 0x00], &ip, &icmp].concat()
}

fn error_v6(frame: &Frame<'_>, header: (u8, u8, u32), source: Ipv6Addr) -> Vec<u8> {
    let sender = Ipv6Addr::from(frame.addresses6().0);
    let quoted = frame.ip().get(..MOST_V6 - IPV6 - ICMP_HEADER).unwrap_or(frame.ip());
    let addresses = [source.octets(), sender.octets()].concat();
    let icmp =
        icmp(header, quoted, pseudo_header(&addresses, ICMP6, ICMP_HEADER.saturating_add(quoted.len())));
    let length = (icmp.len() as u16).to_be_bytes();
    let ip = [0x60 | TOS >> 4, 0, 0, 0, length[0], length[1], ICMP6, ORIGINATED_TTL];
    [&frame.front_of_answer()[..], &[0x86, 0xdd], &ip, &addresses, &icmp].concat()
}

/// Header and quote; the checksum covers `pseudo` as well.
fn icmp((kind, code, word): (u8, u8, u32), quoted: &[u8], pseudo: u64) -> Vec<u8> {
    let word = word.to_be_bytes();
    let checksum = !fold(pseudo + sum(&[kind, code]) + sum(&word) + sum(quoted));
    [&[kind, code][..], &checksum.to_be_bytes(), &word, quoted].concat()
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
#[expect(clippy::arithmetic_side_effects, reason = "a test's own lengths")]
mod tests {
    use super::*;
    use crate::frame::{ETHERNET, HEAD_ROOM, PortId};
    use crate::limiter::Limiter;
    use crate::time::Time;

    const SOURCE4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));

    /// An IPv4 frame of this protocol with this payload.
    fn v4(src: [u8; 4], dst: [u8; 4], place: u16, proto: u8, l4: &[u8]) -> Vec<u8> {
        let total = ((IPV4 + l4.len()) as u16).to_be_bytes();
        let [a, b] = place.to_be_bytes();
        let mut ip = [&[0x45, 0, total[0], total[1], 0, 7, a, b, 1, proto, 0, 0][..], &src, &dst].concat();
        write_ipv4(&mut ip);
        [&[0; HEAD_ROOM][..], &[2; 12], &[0x08, 0x00], &ip, l4].concat()
    }

    fn v6(src: &str, dst: &str, proto: u8, l4: &[u8]) -> Vec<u8> {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let ip = [0x60, 0, 0, 0, 0, l4.len() as u8, proto, 1];
        [&[0; HEAD_ROOM][..], &[2; 12], &[0x86, 0xdd], &ip, &address(src), &address(dst), l4].concat()
    }

    fn about(mut buf: Vec<u8>, what: Error, source: IpAddr) -> Option<Vec<u8>> {
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        let permit = Limiter::default().error(Time::from_ms(0), &frame, what)?;
        error(permit, &frame, what, source)
    }

    #[test]
    fn errors_quote_the_packet_and_are_readable() {
        let source6: IpAddr = "2001:db8::1".parse().unwrap();
        let udp = [&[4, 0, 0, 53, 0, 100, 0, 0][..], &[7; 92]].concat();
        let packets = [
            (v4([10, 0, 0, 1], [192, 0, 2, 1], 0, 17, &udp), SOURCE4, (3, 4), 6..8),
            (v6("2001:db8:1::9", "2001:db8:2::1", 17, &udp), source6, (2, 0), 4..8),
        ];
        for (buf, source, kind, mtu_at) in packets {
            let packet = buf[HEAD_ROOM + ETHERNET..].to_vec();
            let mut bytes = about(buf, Error::TooBig(1300), source).expect("an error");
            let end = bytes.len();
            let mut frame = Frame::new(&mut bytes, HEAD_ROOM, end, PortId(0));
            frame.read(12).expect("readable");
            assert_eq!(frame.icmp(), Some(kind));
            assert_eq!(frame.l4()[mtu_at].iter().fold(0, |mtu, &byte| mtu << 8 | u32::from(byte)), 1300);
            assert_eq!(frame.l4()[8..], packet);
            let pseudo = match frame.kind() {
                Kind::V4 => 0,
                _ => sum(&frame.ip()[8..40]) + frame.l4().len() as u64 + u64::from(ICMP6),
            };
            assert_eq!(fold(sum(frame.l4()) + pseudo), 0xffff);
        }
    }

    #[test]
    fn what_no_error_is_sent_about() {
        let echo = [8, 0, 0, 0, 0, 1, 0, 1];
        let (host, far) = ([10, 0, 0, 1], [192, 0, 2, 1]);
        let reported = |buf| about(buf, Error::TimeExceeded, SOURCE4).is_some();
        assert!(reported(v4(host, far, 0, ICMP, &echo)));
        assert!(reported(v4(host, far, 0x2000, ICMP, &echo)), "a first fragment");
        assert!(!reported(v4(host, far, 1, ICMP, &echo)), "a later fragment");
        assert!(!reported(v4(host, far, 0, ICMP, &[11, 0, 0, 0, 0, 0, 0, 0])), "an error");
        assert!(!reported(v4(host, [224, 0, 0, 9], 0, ICMP, &echo)), "to a group");
        for nobody in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
            assert!(!reported(v4(nobody, far, 0, ICMP, &echo)), "from {nobody:?}");
        }
        let mut broadcast = v4(host, far, 0, ICMP, &echo);
        broadcast[HEAD_ROOM..HEAD_ROOM + 6].fill(0xff);
        assert!(!reported(broadcast), "to all on the link");
        let source = "2001:db8::1".parse().unwrap();
        let (group, host) = ("ff02::1", "2001:db8::9");
        assert!(
            about(v6(host, group, ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]), Error::TooBig(1280), source).is_some()
        );
        assert!(about(v6(host, group, ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]), Error::NoRoute, source).is_none());
        assert!(about(v6("::", host, ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]), Error::NoRoute, source).is_none());
        assert!(about(v6(host, host, ICMP6, &[1, 0, 0, 0, 0, 0, 0, 0]), Error::NoRoute, source).is_none());
    }

    #[test]
    fn a_long_packet_is_quoted_in_part() {
        let long = about(v4([10, 0, 0, 1], [192, 0, 2, 1], 0, 47, &[9; 1400]), Error::NoRoute, SOURCE4);
        assert_eq!(long.expect("an error").len(), HEAD_ROOM + ETHERNET + MOST_V4);
    }

    #[test]
    fn pings_are_answered_in_place() {
        let mut echo = [8, 0, 0, 0, 0, 1, 0, 1, 9];
        let checksum = !fold(sum(&echo));
        echo[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut buf = v4([10, 0, 0, 1], [192, 168, 0, 1], 0, ICMP, &echo);
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        assert!(answer_echo(&mut frame));
        assert_eq!(frame.addresses4(), (0xc0a8_0001, 0x0a00_0001));
        assert_eq!((frame.icmp(), frame.ttl(), fold(sum(frame.l4()))), (Some((0, 0)), 64, 0xffff));
        assert!(!answer_echo(&mut frame), "an answer is no question");
    }
}
