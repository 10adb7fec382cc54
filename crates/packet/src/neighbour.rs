//! Address resolution: ARP for IPv4 (RFC 826), neighbour discovery for IPv6 (RFC 4861, sections 4.3 and 4.4).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{fold, pseudo_header, sum};

/// An address on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its IP address.
    pub ip: IpAddr,
}

/// What a frame says about neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// `from` asks for the Ethernet address of `target`.
    Question {
        /// The asking host; its address may be unspecified.
        from: Host,
        /// What for.
        target: IpAddr,
    },
    /// This host tells its Ethernet address.
    Answer(Host),
}

const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet, IPv4, 6 and 4 bytes of address.
const ARP_HEADER: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ICMP6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Options: Ethernet address of the sender of a solicitation, or of the target of an advertisement.
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
/// Ethernet and IPv6 header.
const ND: usize = 54;

/// The frame in which `from` asks for the Ethernet address of `target`, an address of the same version.
pub fn question(from: Host, target: IpAddr) -> Vec<u8> {
    match (from.ip, target) {
        (IpAddr::V4(ip), IpAddr::V4(target)) => arp(1, (from.mac, ip), ([0; 6], target), [0xff; 6]),
        (IpAddr::V6(ip), IpAddr::V6(target)) => {
            let [.., a, b, c] = target.octets();
            // The solicited-node multicast address, and that of Ethernet (RFC 4291, section 2.7.1, RFC 2464).
            let group =
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
            let body = nd_body(SOLICITATION, 0, target, (SOURCE_MAC, from.mac));
            nd(from.mac, [0x33, 0x33, 0xff, a, b, c], (ip, group), body)
        }
        _ => panic!("{} and {target} are of two versions", from.ip),
    }
}

/// The frame in which `from` answers a question of `to`, of the same version.
pub fn answer(from: Host, to: Host) -> Vec<u8> {
    match (from.ip, to.ip) {
        (IpAddr::V4(ip), IpAddr::V4(asker)) => arp(2, (from.mac, ip), (to.mac, asker), to.mac),
        (IpAddr::V6(ip), IpAddr::V6(asker)) => {
            // A host without an address yet gets the answer by the all-nodes group (section 7.2.4). Flags: solicited, override.
            let (asker, solicited) = if asker.is_unspecified() {
                (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0)
            } else {
                (asker, 0x40)
            };
            let body = nd_body(ADVERTISEMENT, 0x20 | solicited, ip, (TARGET_MAC, from.mac));
            nd(from.mac, to.mac, (ip, asker), body)
        }
        _ => panic!("{} and {} are of two versions", from.ip, to.ip),
    }
}

fn arp(operation: u8, from: ([u8; 6], Ipv4Addr), to: ([u8; 6], Ipv4Addr), dst_mac: [u8; 6]) -> Vec<u8> {
    let mut frame = [&dst_mac[..], &from.0, &ARP, &ARP_HEADER, &[0, operation]].concat();
    for (mac, ip) in [from, to] {
        frame.extend(mac);
        frame.extend(ip.octets());
    }
    frame
}

/// A message with one option, the checksum still zero.
fn nd_body(kind: u8, flags: u8, target: Ipv6Addr, (option, mac): (u8, [u8; 6])) -> [u8; 32] {
    let mut body = [0; 32];
    (body[0], body[4], body[24], body[25]) = (kind, flags, option, 1);
    body[8..24].copy_from_slice(&target.octets());
    body[26..].copy_from_slice(&mac);
    body
}

fn nd(src_mac: [u8; 6], dst_mac: [u8; 6], (src, dst): (Ipv6Addr, Ipv6Addr), mut body: [u8; 32]) -> Vec<u8> {
    let addresses = [src.octets(), dst.octets()].concat();
    let checksum = !fold(pseudo_header(&addresses, ICMP6, body.len()) + sum(&body));
    body[2..4].copy_from_slice(&checksum.to_be_bytes());
    // Hop limit 255: no router has forwarded it (section 7.1).
    let header = [0x60, 0, 0, 0, 0, body.len() as u8, ICMP6, 255];
    [&dst_mac[..], &src_mac, &IPV6, &header, &addresses, &body].concat()
}

/// Reads a frame; `None` if it says nothing of the kind.
pub fn parse(frame: &[u8]) -> Option<Heard> {
    match frame.get(12..14)? {
        kind if *kind == ARP => parse_arp(frame.get(14..)?.first_chunk()?),
        kind if *kind == IPV6 => parse_nd(frame),
        _ => None,
    }
}

fn parse_arp(arp: &[u8; 28]) -> Option<Heard> {
    let ip = |bytes: &[u8]| Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    if arp[..6] != ARP_HEADER {
        return None;
    }
    let from = Host { mac: arp[8..14].try_into().ok()?, ip: ip(&arp[14..18])? };
    match arp[6..8] {
        [0, 1] => Some(Heard::Question { from, target: ip(&arp[24..])? }),
        [0, 2] => Some(Heard::Answer(from)),
        _ => None,
    }
}

fn parse_nd(frame: &[u8]) -> Option<Heard> {
    let (frame, options) = frame.split_first_chunk::<{ ND + 24 }>()?;
    if frame[20] != ICMP6 || frame[21] != 255 {
        return None;
    }
    let address = |bytes: &[u8]| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
    let (source, target) = (address(&frame[22..38])?, address(&frame[ND + 8..])?);
    match frame[ND] {
        SOLICITATION => {
            let mac = option(options, SOURCE_MAC).or_else(|| frame[6..12].try_into().ok())?;
            Some(Heard::Question { from: Host { mac, ip: source }, target })
        }
        ADVERTISEMENT => {
            let mac = option(options, TARGET_MAC).or_else(|| frame[6..12].try_into().ok())?;
            Some(Heard::Answer(Host { mac, ip: target }))
        }
        _ => None,
    }
}

/// The Ethernet address in the first option of this kind.
fn option(mut options: &[u8], kind: u8) -> Option<[u8; 6]> {
    while let [found, words, rest @ ..] = options {
        let length = crate::headers::words(*words).saturating_mul(2);
        if length == 0 {
            return None;
        }
        if *found == kind {
            return rest.get(..6)?.try_into().ok();
        }
        options = options.get(length..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8, ip: &str) -> Host {
        Host { mac: [2, 0, 0, 0, 0, last], ip: ip.parse().unwrap() }
    }

    #[test]
    fn questions_and_answers_are_understood() {
        for (asker, owner) in [("198.18.1.2", "198.18.1.1"), ("2001:db8:18:1::2", "2001:db8:18:1::1")] {
            let (asker, owner) = (host(2, asker), host(1, owner));
            let asked = question(asker, owner.ip);
            assert_eq!(parse(&asked), Some(Heard::Question { from: asker, target: owner.ip }));
            let answered = answer(owner, asker);
            assert_eq!(parse(&answered), Some(Heard::Answer(owner)));
            assert_eq!((&answered[..6], &answered[6..12]), (&asker.mac[..], &owner.mac[..]));
            for frame in [asked, answered] {
                for length in 0..42 {
                    assert_eq!(parse(&frame[..length]), None, "cut to {length} bytes");
                }
            }
        }
    }

    #[test]
    fn checksums_and_multicast_addresses_are_right() {
        let frame = question(host(2, "2001:db8:18:1::2"), "2001:db8:18:1::12:3456".parse().unwrap());
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(frame[38..54], "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap().octets());
        let whole = sum(&frame[22..54]) + 32 + 58 + sum(&frame[54..]);
        assert_eq!((frame.len(), fold(whole)), (54 + 32, 0xffff));
    }

    #[test]
    fn other_frames_say_nothing() {
        let mut forwarded = question(host(2, "2001:db8::2"), "2001:db8::1".parse().unwrap());
        forwarded[21] = 254;
        assert_eq!(parse(&forwarded), None);
        let mut reverse = question(host(2, "198.18.1.2"), "198.18.1.1".parse().unwrap());
        reverse[21] = 3;
        assert_eq!(parse(&reverse), None);
        assert_eq!(parse(&[0; 64]), None);
    }
}
