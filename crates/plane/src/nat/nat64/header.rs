//! Headers of one version of IP replaced by those of the other, and checksums that cover them (RFC 7915, sections 4.1 and 5.1).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::fields::put;
use weir_packet::headers::{ICMP, ICMP6, UDP};

use crate::drops::DropReason;
use crate::extensions::{FRAGMENT as FRAGMENT_HEADER, MORE4};
use crate::frame::{Fragment, Frame, IPV4, IPV6, Kind, adjust, adjust_transport, delta16};

/// Smallest packet that every link of IPv6 carries; translated ones up to it may be cut (RFC 7915, section 5.1).
const ALWAYS_FITS: usize = 1260;
/// Longest ICMPv6 error, and the minimum MTU of IPv6.
pub(super) const MOST_V6: usize = 1280;

/// The protocol as the table keeps it.
pub(super) fn proto4(proto: u8) -> u8 {
    if proto == ICMP6 { ICMP } else { proto }
}

/// Changes the checksum of the transport for other addresses, as sums (RFC 7915, sections 4.5 and 5.5).
pub(super) fn readdress(l4: &mut [u8], proto: u8, old: u64, new: u64) {
    let delta = delta16(fold(old), fold(new));
    adjust_transport(l4, proto, delta);
}

/// A header of IPv4.
pub(super) fn header4(
    traffic: (u8, u8),
    bytes: usize,
    proto: u8,
    (id, frag_off): (u16, u16),
    ends: (u32, u32),
) -> [u8; IPV4] {
    let mut header = [0; IPV4];
    header[..2].copy_from_slice(&[0x45, traffic.0]);
    header[2..4]
        .copy_from_slice(&u16::try_from(IPV4.saturating_add(bytes)).unwrap_or(u16::MAX).to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[6..8].copy_from_slice(&frag_off.to_be_bytes());
    header[8..10].copy_from_slice(&[traffic.1, proto]);
    header[12..16].copy_from_slice(&ends.0.to_be_bytes());
    header[16..].copy_from_slice(&ends.1.to_be_bytes());
    write_ipv4(&mut header);
    header
}

/// A header of IPv6.
pub(super) fn header6(traffic: (u8, u8), bytes: usize, proto: u8, ends: (u128, u128)) -> [u8; IPV6] {
    let mut header = [0; IPV6];
    header[..2].copy_from_slice(&[0x60 | traffic.0 >> 4, traffic.0 << 4]);
    header[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
    header[6..8].copy_from_slice(&[proto, traffic.1]);
    header[8..24].copy_from_slice(&ends.0.to_be_bytes());
    header[24..].copy_from_slice(&ends.1.to_be_bytes());
    header
}

/// Traffic class or type of service, and hops left.
pub(super) fn traffic(ip: &[u8]) -> (u8, u8) {
    match *ip {
        [first, tos, _, _, _, _, _, _, ttl, ..] if first >> 4 == 4 => (tos, ttl),
        [first, second, _, _, _, _, _, hops, ..] => (first << 4 | second >> 4, hops),
        _ => (0, 0),
    }
}

/// The sum of both addresses of a frame.
fn sum_of_addresses(frame: &Frame<'_>) -> u64 {
    match frame.kind() {
        Kind::V4 => sum(&frame.header4()[12..]),
        _ => sum(&frame.header6()[8..]),
    }
}

/// Bytes that a packet grows by, at most: the longer header, and a header of fragments.
pub(in crate::nat) const LONGER: usize = IPV6 - IPV4 + FRAGMENT;
/// Extension header of a fragment.
const FRAGMENT: usize = 8;

/// Another type of ICMP. The checksum covered a pseudo header with the sum `old`, and is to cover one with the sum `new`.
fn retype(frame: &mut Frame<'_>, kind: u8, (old, new): (u64, u64)) {
    adjust(frame.l4_mut(), 2, delta16(fold(old), fold(new)));
    frame.set_icmp_type(kind);
}

/// Replaces the IPv6 header of a frame by one of IPv4; the transport of the whole packet has `whole_bytes`.
///
/// # Errors
/// There is no such packet.
pub(in crate::nat) fn to_v4(
    frame: &mut Frame<'_>,
    ends: (u32, u32),
    id: u16,
    whole_bytes: usize,
) -> Result<(), DropReason> {
    let (proto, old) = (frame.proto(), sum_of_addresses(frame));
    let (traffic, bytes) = (traffic(frame.ip()), frame.l4().len());
    let new = sum(&ends.0.to_be_bytes()) + sum(&ends.1.to_be_bytes());
    // A packet that may be cut needs an identification; one that is longer than every link carries was never to be cut.
    let fragment = match frame.fragment_header() {
        Some(header) => (id, header.frag_off()),
        None if IPV4.saturating_add(bytes) <= ALWAYS_FITS => (id, 0),
        None => (0, 0x4000),
    };
    if frame.fragment() != Fragment::Later {
        if proto == ICMP6 {
            // Echo and its answer are all that comes here; the pseudo header is no longer covered.
            let kind = if frame.icmp_answer() { 0 } else { 8 };
            retype(frame, kind, (old + pseudo_header(&[], ICMP6, whole_bytes), 0));
        }
        readdress(frame.l4_mut(), proto, old, new);
    }
    let header = header4(traffic, bytes, proto4(proto), fragment, ends);
    frame.replace_header(&header)
}

/// Gives UDP of IPv4 a checksum, which IPv6 requires (RFC 7915, section 4.5): `covered` is the sum of all `bytes` of the
/// transport; the frame has the first of them.
pub(in crate::nat) fn give_checksum(frame: &mut Frame<'_>, covered: u64, bytes: usize) {
    let checksum = !fold(covered + pseudo_header(&frame.header4()[12..], UDP, bytes));
    let checksum = if checksum == 0 { 0xffff } else { checksum };
    put(frame.l4_mut(), 6, checksum.to_be_bytes());
}

/// The MTU to report if a packet of IPv4 that may be cut would become longer than every link carries.
pub(in crate::nat) fn too_long(frame: &Frame<'_>) -> Option<u16> {
    let (header, bytes) = (frame.ip_header().len(), frame.l4().len());
    let extension = if frame.fragment() == Fragment::Whole { 0 } else { FRAGMENT };
    let is_long = IPV6.saturating_add(extension).saturating_add(bytes) > MOST_V6;
    (is_long && !frame.keeps_whole()).then_some((MOST_V6 - IPV6 - FRAGMENT).saturating_add(header) as u16)
}

/// Replaces the IPv4 header of a frame by one of IPv6; false if there is no room for it. The transport of the whole packet has
/// `whole_bytes`.
///
/// # Errors
/// There is no such packet.
pub(in crate::nat) fn to_v6(
    frame: &mut Frame<'_>,
    ends: (u128, u128),
    whole_bytes: usize,
) -> Result<bool, DropReason> {
    let (is_whole, is_later) = (frame.fragment() == Fragment::Whole, frame.fragment() == Fragment::Later);
    if !frame.has_room(if is_whole { IPV6 } else { IPV6 + FRAGMENT }) {
        return Ok(false);
    }
    let (proto, old) = (frame.proto(), sum_of_addresses(frame));
    let (traffic, bytes) = (traffic(frame.ip()), frame.l4().len());
    let proto6 = if proto == ICMP { ICMP6 } else { proto };
    let new = sum(&ends.0.to_be_bytes()) + sum(&ends.1.to_be_bytes());
    match proto {
        _ if is_later => {}
        ICMP => {
            let kind = if frame.icmp_answer() { 129 } else { 128 };
            retype(frame, kind, (0, new + pseudo_header(&[], ICMP6, whole_bytes)));
        }
        _ => readdress(frame.l4_mut(), proto, old, new),
    }
    if is_whole {
        return frame.replace_header(&header6(traffic, bytes, proto6, ends)).map(|()| true);
    }
    let frag_off = frame.frag_off();
    let [a, b] = (frag_off << 3 | u16::from(frag_off & MORE4 != 0)).to_be_bytes();
    let [c, d] = frame.id4().to_be_bytes();
    let fragment = [proto6, 0, a, b, 0, 0, c, d];
    let header = header6(traffic, bytes.saturating_add(FRAGMENT), FRAGMENT_HEADER, ends);
    frame.replace_header(&[&header[..], &fragment].concat()).map(|()| true)
}

#[cfg(test)]
mod tests {
    use weir_packet::headers::TCP;

    use super::*;
    use crate::frame::{ETHERNET, HEAD_ROOM};

    /// There and back again: the same packet, with right checksums both times.
    #[test]
    fn headers_are_translated_both_ways_in_place() {
        let ends4 = (0xc613_0009, 0xc000_0201);
        let ends6 = (0x0064_ff9b_u128 << 96 | 0xc613_0009, 0x2001_0db8_u128 << 96 | 1);
        for (proto, at, header) in [
            (UDP, 6, &[0, 53, 4, 0, 0, 0, 0, 0][..]),
            (TCP, 16, &[0, 80, 4, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]),
            (ICMP, 2, &[0, 0, 0, 0, 0, 7, 0, 1]),
        ] {
            for bytes in [0, 1, 2, 33] {
                let mut l4 = [header, &vec![0xab; bytes]].concat();
                if proto == UDP {
                    let length = (l4.len() as u16).to_be_bytes();
                    l4[4..6].copy_from_slice(&length);
                }
                let ip = header4((4, 61), l4.len(), proto, (7, 0), ends4);
                let pseudo =
                    if proto == ICMP { 0 } else { sum(&ip[12..]) + l4.len() as u64 + u64::from(proto) };
                let checksum = !fold(pseudo + sum(&l4));
                l4[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
                let before = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &ip, &l4].concat();
                let mut buf = [&before[..], &[0; IPV6]].concat();
                let mut frame = Frame::new(&mut buf, HEAD_ROOM, before.len(), crate::frame::PortId(0));
                frame.read(ETHERNET - 2).expect("a right frame");
                assert_eq!(to_v6(&mut frame, ends6, l4.len()), Ok(true));
                assert_eq!(frame.addresses6(), ends6);
                let proto6 = frame.proto();
                let covered = sum(&frame.ip()[8..IPV6]) + frame.l4().len() as u64 + u64::from(proto6);
                assert_eq!(fold(covered + sum(frame.l4())), 0xffff, "{proto} {bytes}");
                to_v4(&mut frame, ends4, 7, l4.len()).expect("a packet");
                assert_eq!(frame.bytes(), &before[HEAD_ROOM..], "{proto} {bytes}");
                let mut full = before.clone();
                let mut frame = Frame::new(&mut full, HEAD_ROOM, before.len(), crate::frame::PortId(0));
                frame.read(ETHERNET - 2).expect("a right frame");
                assert_eq!(to_v6(&mut frame, ends6, l4.len()), Ok(false), "no room");
                assert_eq!(frame.bytes(), &before[HEAD_ROOM..]);
            }
        }
    }
}
