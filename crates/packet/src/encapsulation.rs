//! Where the network header of a frame is: behind VLAN tags, a PPPoE session, MPLS labels and SNAP, in any order.
//!
//! ```text
//!  | addresses | 0x88a8 tag | 0x8100 tag | 0x8864 PPPoE, PPP 0x0021 | IPv4 | ...
//!                                                                    ^ Network { ip: V4, at: 32 }
//! ```
//! The IP packet is the one that a router on this link would read the addresses of: what a tunnel carries inside IP (GRE, VXLAN,
//! GTP-U) is not looked for. An Ethernet frame inside a pseudowire of MPLS has no mark of its own, and is not read.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::flow::IpVersion;

/// Headers between Ethernet and IP that are passed; frames with more are not understood.
const MAX_LAYERS: usize = 8;
/// Labels of one MPLS stack that are passed.
const MAX_LABELS: usize = 16;
/// A type field up to this is the length of an IEEE 802.3 frame.
const MAX_LENGTH: u16 = 1500;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PPPOE_SESSION: u16 = 0x8864;
const MPLS: u16 = 0x8847;
/// Stands for a frame of IEEE 802.3 with LLC, which has no EtherType.
const LLC: u16 = 0;

/// What the bytes of a frame begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet.
    Ethernet,
    /// IP of either version, without a header in front.
    RawIp,
    /// Linux "cooked" capture, as on the interface `any` (LINKTYPE_LINUX_SLL).
    Cooked,
    /// Its second version (LINKTYPE_LINUX_SLL2).
    Cooked2,
}

impl Link {
    /// The link of a LINKTYPE_* of a capture file; `None` where it is not understood.
    pub fn of(link_type: u16) -> Option<Link> {
        Some(match link_type {
            1 => Link::Ethernet,
            // LINKTYPE_RAW, its numbers on BSD, and IP of one version.
            12 | 14 | 101 | 228 | 229 => Link::RawIp,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            _ => return None,
        })
    }
}

/// The network header of a frame: its fixed part is whole, and says this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Version of IP.
    pub ip: IpVersion,
    /// Where it begins.
    pub at: usize,
}

/// Why a frame has no network header that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unread {
    /// It is of a protocol that carries no packets of hosts: ARP, LLDP, LCP and others.
    Control(EtherType),
    /// It is of a protocol that is not understood, or its headers contradict each other.
    Unknown(EtherType),
    /// Its bytes end before its headers do: too few were captured, or it is malformed.
    Cut(EtherType),
}

impl Unread {
    /// The type of the header that ended the search.
    pub fn ether_type(self) -> EtherType {
        match self {
            Unread::Control(ether_type) | Unread::Unknown(ether_type) | Unread::Cut(ether_type) => ether_type,
        }
    }

    /// The reason in a word, for programs.
    pub fn reason(self) -> &'static str {
        match self {
            Unread::Control(_) => "control",
            Unread::Unknown(_) => "not_understood",
            Unread::Cut(_) => "cut",
        }
    }
}

impl fmt::Display for Unread {
    /// `0x88e5 MACsec`, `0x0800 IPv4 cut within its headers`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ether_type = self.ether_type();
        write!(f, "{ether_type}")?;
        if let Some(name) = ether_type.name() {
            write!(f, " {name}")?;
        }
        if let Unread::Cut(_) = self { f.write_str(" cut within its headers") } else { Ok(()) }
    }
}

/// A protocol above Ethernet; 0 is a frame of IEEE 802.3 with LLC. Shown as `0x8864`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LLC => f.write_str("IEEE 802.3 LLC"),
            other => write!(f, "{other:#06x}"),
        }
    }
}

impl EtherType {
    /// Its name, where it has a common one.
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            IPV4 => "IPv4",
            IPV6 => "IPv6",
            0x0806 => "ARP",
            0x8035 => "RARP",
            0x8100 | 0x88a8 | 0x9100 => "VLAN",
            0x8808 => "pause",
            0x8809 => "LACP",
            MPLS | 0x8848 => "MPLS",
            0x8863 => "PPPoE discovery",
            PPPOE_SESSION => "PPPoE session",
            0x888e => "EAPOL",
            0x88cc => "LLDP",
            0x88e5 => "MACsec",
            0x88e7 => "PBB",
            0x88f7 => "PTP",
            0x8902 => "CFM",
            0x9000 => "loopback test",
            _ => return None,
        })
    }

    /// Protocols that keep a link going and carry no packets of hosts.
    fn is_control(self) -> bool {
        // ARP, RARP, pause, LACP, PPPoE discovery, EAPOL, LLDP, MVRP, MMRP, PTP, CFM, loopback test.
        matches!(
            self.0,
            0x0806
                | 0x8035
                | 0x8808
                | 0x8809
                | 0x8863
                | 0x888e
                | 0x88cc
                | 0x88f5
                | 0x88f6
                | 0x88f7
                | 0x8902
                | 0x9000
        )
    }
}

/// Finds the network header of a frame of a link.
///
/// # Errors
/// It has none that can be read.
#[inline]
pub fn network(link: Link, frame: &[u8]) -> Result<Network, Unread> {
    let (type_at, at) = match link {
        Link::Ethernet => (12, 14),
        Link::RawIp => {
            let kind = if frame.first().is_some_and(|first| first >> 4 == 6) { IPV6 } else { IPV4 };
            return packet(frame, 0, None, kind);
        }
        Link::Cooked => (14, 16),
        Link::Cooked2 => (0, 20),
    };
    let kind = be16(frame, type_at).ok_or(Unread::Cut(EtherType(LLC)))?;
    behind(frame, at, kind)
}

/// Passes the headers from `at` on, of which the first has the type `kind`.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "a few bytes more for each of a few headers")]
fn behind(frame: &[u8], mut at: usize, mut kind: u16) -> Result<Network, Unread> {
    let cut = |kind| Unread::Cut(EtherType(kind));
    for _ in 0..=MAX_LAYERS {
        match kind {
            IPV4 => return packet(frame, at, Some(IpVersion::V4), kind),
            IPV6 => return packet(frame, at, Some(IpVersion::V6), kind),
            0x8100 | 0x88a8 | 0x9100 => {
                kind = be16(frame, at + 2).ok_or(cut(kind))?;
                at += 4;
            }
            PPPOE_SESSION => (kind, at) = ppp(frame, at)?,
            MPLS | 0x8848 => return labels(frame, at, kind),
            0..=MAX_LENGTH => (kind, at) = (snap(frame, at)?, at + 8),
            other if EtherType(other).is_control() => return Err(Unread::Control(EtherType(other))),
            other => return Err(Unread::Unknown(EtherType(other))),
        }
    }
    Err(Unread::Unknown(EtherType(kind)))
}

/// What a frame of a PPPoE session carries, and where (RFC 2516, section 4; RFC 1661, section 2).
#[expect(clippy::arithmetic_side_effects, reason = "a few bytes more")]
fn ppp(frame: &[u8], at: usize) -> Result<(u16, usize), Unread> {
    let kind = EtherType(PPPOE_SESSION);
    let header = frame.get(at..).and_then(|rest| rest.first_chunk::<7>()).ok_or(Unread::Cut(kind))?;
    let [version_type, code, .., first] = *header;
    if (version_type, code) != (0x11, 0) {
        return Err(Unread::Unknown(kind));
    }
    // An odd first byte is a compressed protocol field of one byte.
    let (protocol, at) = match first & 1 {
        1 => (u16::from(first), at + 7),
        _ => (be16(frame, at + 6).ok_or(Unread::Cut(kind))?, at + 8),
    };
    match protocol {
        0x0021 => Ok((IPV4, at)),
        0x0057 => Ok((IPV6, at)),
        0x0281 => Ok((MPLS, at)),
        // Protocols of network control, link control and authentication.
        0x8000.. => Err(Unread::Control(kind)),
        _ => Err(Unread::Unknown(kind)),
    }
}

/// The packet behind a stack of labels. Nothing says what it is but its first bits (RFC 4928, section 2).
#[expect(clippy::arithmetic_side_effects, reason = "a few bytes more for each of a few labels")]
fn labels(frame: &[u8], mut at: usize, kind: u16) -> Result<Network, Unread> {
    for _ in 0..MAX_LABELS {
        let label = frame.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let &[_, _, bottom, _] = label.ok_or(Unread::Cut(EtherType(kind)))?;
        at += 4;
        if bottom & 1 == 1 {
            return packet(frame, at, None, kind);
        }
    }
    Err(Unread::Unknown(EtherType(kind)))
}

/// The EtherType behind LLC and SNAP (RFC 1042).
fn snap(frame: &[u8], at: usize) -> Result<u16, Unread> {
    let kind = EtherType(LLC);
    let header = frame.get(at..).and_then(|rest| rest.first_chunk::<3>()).ok_or(Unread::Cut(kind))?;
    match *header {
        [0xaa, 0xaa, 3] => {
            let rest = frame.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(Unread::Cut(kind))?;
            match *rest {
                [_, _, _, 0, 0, 0, a, b] => Ok(u16::from_be_bytes([a, b])),
                // Protocols of vendors, for example CDP.
                _ => Err(Unread::Control(kind)),
            }
        }
        // Spanning tree and IS-IS.
        [0x42, 0x42, _] | [0xfe, 0xfe, _] => Err(Unread::Control(kind)),
        _ => Err(Unread::Unknown(kind)),
    }
}

/// The IP packet at `at`: of this version, or of the one that its first bits say.
///
/// # Errors
/// There is none; `kind` is the type of the header before it.
#[inline]
fn packet(frame: &[u8], at: usize, version: Option<IpVersion>, kind: u16) -> Result<Network, Unread> {
    let bytes = frame.get(at..).unwrap_or_default();
    let kind = EtherType(kind);
    let (ip, header) = match bytes.first().ok_or(Unread::Cut(kind))? >> 4 {
        4 => (IpVersion::V4, 20),
        6 => (IpVersion::V6, 40),
        _ => return Err(Unread::Unknown(kind)),
    };
    match version.is_none_or(|version| version == ip) {
        false => Err(Unread::Unknown(kind)),
        true if bytes.len() < header => Err(Unread::Cut(kind)),
        true => Ok(Network { ip, at }),
    }
}

#[inline]
fn be16(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk().map(|&bytes| u16::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IP packet of this version without payload.
    fn whole(version: u8) -> Vec<u8> {
        let mut packet = vec![0; if version == 4 { 20 } else { 40 }];
        packet[0] = if version == 4 { 0x45 } else { 0x60 };
        packet
    }

    /// Bytes as they are written in a test: hexadecimal digits, and `IPv4` and `IPv6` for whole packets.
    fn bytes(text: &str) -> Vec<u8> {
        let word = |word: &str| match word {
            "IPv4" => whole(4),
            "IPv6" => whole(6),
            "SLL" => vec![0; 14],
            "SLL2" => vec![0; 18],
            "ETHER" => vec![2; 12],
            digits => {
                let pair = |pair: &[u8]| String::from_utf8_lossy(pair).into_owned();
                let pairs = digits.as_bytes().chunks(2).map(pair);
                pairs.map(|pair| u8::from_str_radix(&pair, 16).expect("hexadecimal")).collect()
            }
        };
        text.split_whitespace().flat_map(word).collect()
    }

    fn said(link: Link, frame: &[u8]) -> String {
        match network(link, frame) {
            Ok(Network { ip, at }) => format!("IPv{ip} at {at}"),
            Err(Unread::Control(kind)) => format!("control {kind}"),
            Err(Unread::Unknown(kind)) => format!("unknown {kind}"),
            Err(Unread::Cut(kind)) => format!("cut {kind}"),
        }
    }

    #[test]
    fn the_network_header_is_found_behind_what_encapsulates_it() {
        let rows = "
            0800 IPv4                                        | IPv4 at 14
            86dd IPv6                                        | IPv6 at 14
            8100 0007 0800 IPv4                              | IPv4 at 18
            88a8 0007 8100 0008 86dd IPv6                    | IPv6 at 22
            8864 1100 0001 0016 0021 IPv4                    | IPv4 at 22
            8864 1100 0001 0015 21 IPv4                      | IPv4 at 21
            8864 1100 0001 002a 0057 IPv6                    | IPv6 at 22
            88a8 0007 8100 0008 8864 1100 0001 0016 0021 IPv4 | IPv4 at 30
            8847 000101ff IPv4                               | IPv4 at 18
            8847 000100ff 000101ff IPv6                      | IPv6 at 22
            8848 000101ff IPv4                               | IPv4 at 18
            8864 1100 0001 001a 0281 000101ff IPv4           | IPv4 at 26
            001c aaaa03 000000 0800 IPv4                     | IPv4 at 22
            8100 0007 001c aaaa03 000000 0800 IPv4           | IPv4 at 26
            0806 0001                                        | control 0x0806
            8100 0007 0806 0001                              | control 0x0806
            8863 1109 0000 0000                              | control 0x8863
            8864 1100 0001 0006 c021 0900                    | control 0x8864
            8864 1100 0001 0006 8021 0900                    | control 0x8864
            0026 424203                                      | control IEEE 802.3 LLC
            0026 aaaa03 00000c 2000                          | control IEEE 802.3 LLC
            0026 e0e003                                      | unknown IEEE 802.3 LLC
            8864 1100 0001 0006 003d IPv4                    | unknown 0x8864
            8864 2100 0001 0016 0021 IPv4                    | unknown 0x8864
            8847 000101ff 0000                               | unknown 0x8847
            88e5 0000                                        | unknown 0x88e5
            0800 IPv6                                        | unknown 0x0800
            86dd IPv4                                        | unknown 0x86dd
            0800 4500                                        | cut 0x0800
            86dd 60                                          | cut 0x86dd
            8847 000101ff 45                                 | cut 0x8847
            8847 000100ff                                    | cut 0x8847
            8864 1100 0001                                   | cut 0x8864
            8100 0007                                        | cut 0x8100
            0800                                             | cut 0x0800
            08                                               | cut IEEE 802.3 LLC";
        for row in rows.lines().filter(|row| !row.trim().is_empty()) {
            let (frame, expected) = row.split_once('|').expect("two columns");
            assert_eq!(said(Link::Ethernet, &bytes(&format!("ETHER {frame}"))), expected.trim(), "{row}");
        }
        let tagged = "8100 0007 ".repeat(20);
        assert_eq!(said(Link::Ethernet, &bytes(&format!("ETHER {tagged} 0800 IPv4"))), "unknown 0x8100");
    }

    #[test]
    fn what_is_not_read_is_named() {
        for (unread, name) in [
            (Unread::Control(EtherType(0x0806)), "0x0806 ARP"),
            (Unread::Unknown(EtherType(0x9999)), "0x9999"),
            (Unread::Unknown(EtherType(LLC)), "IEEE 802.3 LLC"),
            (Unread::Cut(EtherType(IPV4)), "0x0800 IPv4 cut within its headers"),
        ] {
            assert_eq!(unread.to_string(), name);
        }
    }

    #[test]
    fn other_links_have_their_own_beginning() {
        for (link_type, frame, expected) in [
            (101, "IPv4", "IPv4 at 0"),
            (101, "IPv6", "IPv6 at 0"),
            (228, "IPv4", "IPv4 at 0"),
            (101, "45", "cut 0x0800"),
            (101, "60", "cut 0x86dd"),
            (101, "00", "unknown 0x0800"),
            (113, "SLL 0800 IPv4", "IPv4 at 16"),
            (113, "SLL 8864 1100 0001 0016 0021 IPv4", "IPv4 at 24"),
            (276, "86dd SLL2 IPv6", "IPv6 at 20"),
        ] {
            let link = Link::of(link_type).expect("understood");
            assert_eq!(said(link, &bytes(frame)), expected, "{link_type}: {frame}");
        }
        assert_eq!(Link::of(1), Some(Link::Ethernet));
        assert_eq!(Link::of(105), None);
    }
}
