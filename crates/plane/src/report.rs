//! The error of ICMP that reports to the sender of a frame why it goes no further (RFC 792, RFC 1812 section 4.3, RFC 4443).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::headers::{ICMP, ICMP6};

use crate::frame::{Frame, IPV4, IPV6, Kind};
use crate::icmp::{Error, ORIGINATED_TTL};
use crate::limiter::Permit;

/// Longest error of IPv4 (RFC 1812, section 4.3.2.3).
const MOST_V4: usize = 576;
/// Longest error of IPv6 (RFC 4443, section 2.4 c).
const MOST_V6: usize = 1280;
/// Bytes of an error in front of what it quotes.
const ICMP_HEADER: usize = 8;
/// Precedence 6, internetwork control (RFC 1812, section 4.3.2.5).
const TOS: u8 = 0xc0;

/// The frame in which `source` tells the sender of `frame` what happened to it, with head room and an Ethernet header
/// that leads back; `None` where `source` is not of its kind.
pub(crate) fn about(_: Permit, frame: &Frame<'_>, error: Error, source: IpAddr) -> Option<Vec<u8>> {
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

    fn reported(mut buf: Vec<u8>, what: Error, source: IpAddr) -> Option<Vec<u8>> {
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        let permit = Limiter::default().error(Time::from_ms(0), &frame, what)?;
        about(permit, &frame, what, source)
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
            let mut bytes = reported(buf, Error::TooBig(1300), source).expect("an error");
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
        let is_reported = |buf| reported(buf, Error::TimeExceeded, SOURCE4).is_some();
        assert!(is_reported(v4(host, far, 0, ICMP, &echo)));
        assert!(is_reported(v4(host, far, 0x2000, ICMP, &echo)), "a first fragment");
        assert!(!is_reported(v4(host, far, 1, ICMP, &echo)), "a later fragment");
        assert!(!is_reported(v4(host, far, 0, ICMP, &[11, 0, 0, 0, 0, 0, 0, 0])), "an error");
        assert!(!is_reported(v4(host, [224, 0, 0, 9], 0, ICMP, &echo)), "to a group");
        for martian in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
            assert!(!is_reported(v4(martian, far, 0, ICMP, &echo)), "from {martian:?}");
        }
        let mut broadcast = v4(host, far, 0, ICMP, &echo);
        broadcast[HEAD_ROOM..HEAD_ROOM + 6].fill(0xff);
        assert!(!is_reported(broadcast), "to all on the link");
        let source = "2001:db8::1".parse().unwrap();
        let (group, host) = ("ff02::1", "2001:db8::9");
        assert!(
            reported(v6(host, group, ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]), Error::TooBig(1280), source)
                .is_some()
        );
        assert!(
            reported(v6(host, group, ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]), Error::NoRoute, source).is_none()
        );
        assert!(
            reported(v6("::", host, ICMP6, &[128, 0, 0, 0, 0, 0, 0, 0]), Error::NoRoute, source).is_none()
        );
        assert!(reported(v6(host, host, ICMP6, &[1, 0, 0, 0, 0, 0, 0, 0]), Error::NoRoute, source).is_none());
    }

    #[test]
    fn a_long_packet_is_quoted_in_part() {
        let long = reported(v4([10, 0, 0, 1], [192, 0, 2, 1], 0, 47, &[9; 1400]), Error::NoRoute, SOURCE4);
        assert_eq!(long.expect("an error").len(), HEAD_ROOM + ETHERNET + MOST_V4);
    }
}
