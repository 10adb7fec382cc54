//! The ends of the packet in a frame off any wire: what encapsulates the packet (see [`crate::encapsulation`]), IP, and the ports
//! behind it. Nothing is checked beyond what is needed to read on; what cannot be read is left out, and no input panics.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::IpAddr;

use crate::encapsulation::{EtherType, Link, Network, Unread, network};
use crate::flow::IpVersion;

/// Protocol numbers of IP.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// The authentication header (RFC 4302).
pub const AH: u8 = 51;
/// ICMP for IPv6.
pub const ICMP6: u8 = 58;
/// SCTP.
pub const SCTP: u8 = 132;
/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;
/// The host identity protocol (RFC 7401).
pub const HIP: u8 = 139;

/// Flags of TCP.
pub const SYN: u8 = 0x02;
/// The acknowledgement field counts.
pub const ACK: u8 = 0x10;

/// IPv6 extension headers that are followed.
const MAX_EXTENSIONS: usize = 8;

/// What the headers of an IP frame say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol number: that behind the extension headers of IPv6.
    pub protocol: u8,
    /// Ports of TCP, UDP and SCTP, source and destination; for ICMP its type and code; zero where there are none, as
    /// in all fragments but the first.
    pub ports: (u16, u16),
    /// Flags of TCP, else zero.
    pub tcp_flags: u8,
    /// Neither the first fragment nor a whole packet.
    pub later_fragment: bool,
    /// The frame ends before the ports, or the flags of TCP: these are zero though the packet has them.
    pub is_cut: bool,
    /// Bytes of the frame before the payload of TCP, UDP and others, as far as headers are known.
    pub header_bytes: u16,
}

impl Headers {
    /// Reads ports and flags of the transport; false where they should be there, and are not.
    fn read_transport(&mut self, bytes: &[u8]) -> bool {
        match (self.protocol, bytes) {
            (TCP | UDP | SCTP, &[a, b, c, d, ref rest @ ..]) => {
                self.ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                match (self.protocol, rest.get(9)) {
                    (TCP, Some(&flags)) => self.tcp_flags = flags,
                    (TCP, None) => return false,
                    _ => {}
                }
            }
            (ICMP | ICMP6, &[kind, code, ..]) => self.ports = (kind.into(), code.into()),
            (TCP | UDP | SCTP | ICMP | ICMP6, _) => return false,
            _ => {}
        }
        true
    }

    /// A TCP segment that opens a connection.
    pub fn opens(&self) -> bool {
        self.protocol == TCP && self.tcp_flags & (SYN | ACK) == SYN
    }
}

/// Reads the headers of an Ethernet frame; `None` if it carries no IP or ends too early.
#[inline]
pub fn read(frame: &[u8]) -> Option<Headers> {
    read_link(Link::Ethernet, frame).ok()
}

/// Reads the headers of a frame of a link.
///
/// # Errors
/// It carries no IP that can be read.
#[inline]
pub fn read_link(link: Link, frame: &[u8]) -> Result<Headers, Unread> {
    let Network { ip, at } = network(link, frame)?;
    let packet = frame.get(at..).unwrap_or_default();
    match ip {
        IpVersion::V4 => read_v4(packet, at).ok_or(Unread::Unknown(EtherType(0x0800))),
        IpVersion::V6 => read_v6(packet, at).ok_or(Unread::Unknown(EtherType(0x86dd))),
    }
}

/// The packet begins at `at` in its frame.
fn read_v4(ip: &[u8], at: usize) -> Option<Headers> {
    let header = ip.first_chunk::<20>()?;
    let length = words(header[0] & 15);
    if header[0] >> 4 != 4 || length < 20 {
        return None;
    }
    let [.., a, b, c, d, e, f, g, h] = *header;
    let later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let ends = ([a, b, c, d].into(), [e, f, g, h].into());
    let transport = Transport { bytes: ip.get(length..), at: at.saturating_add(length) };
    Some(behind(&transport, header[9], later_fragment, ends))
}

/// The packet begins at `at` in its frame.
fn read_v6(ip: &[u8], at: usize) -> Option<Headers> {
    let (header, behind_header) = ip.split_first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |bytes: &[u8]| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
    let ends = (address(&header[8..24])?, address(&header[24..40])?);
    let (mut protocol, mut later_fragment) = (header[6], false);
    let mut rest = Transport { bytes: Some(behind_header), at: at.saturating_add(40) };
    for _ in 0..MAX_EXTENSIONS {
        let Some(&[next, length, ref others @ ..]) = rest.bytes else { break };
        let bytes = match protocol {
            // Hop by hop, routing, destination options, mobility, HIP, shim6 (RFC 7045).
            0 | 43 | 60 | 135 | 139 | 140 => extension_bytes(length),
            51 => words(length).saturating_add(8),
            44 => {
                let offset = others.first_chunk().map_or(0, |&place| u16::from_be_bytes(place));
                later_fragment |= offset & 0xfff8 != 0;
                8
            }
            _ => break,
        };
        let behind = rest.bytes.and_then(|rest| rest.get(bytes..));
        (protocol, rest) = (next, Transport { bytes: behind, at: rest.at.saturating_add(bytes) });
    }
    Some(behind(&rest, protocol, later_fragment, ends))
}

/// What stands behind an IP header.
struct Transport<'a> {
    /// `None`: the frame ends before.
    bytes: Option<&'a [u8]>,
    /// Where it begins in its frame.
    at: usize,
}

/// Bytes of so many words of 32 bits: so headers of IPv4 and TCP say how long they are.
#[inline]
pub fn words(count: u8) -> usize {
    usize::from(count) * 4
}

/// Bytes of an extension header of IPv6 that says this length (RFC 8200, section 4.3).
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "eight times 256 is a usize")]
pub fn extension_bytes(length: u8) -> usize {
    (usize::from(length) + 1) * 8
}

/// The headers of a packet with this transport.
fn behind(
    transport: &Transport<'_>,
    protocol: u8,
    later_fragment: bool,
    (src, dst): (IpAddr, IpAddr),
) -> Headers {
    let mut headers = Headers {
        src,
        dst,
        protocol,
        ports: (0, 0),
        tcp_flags: 0,
        later_fragment,
        is_cut: false,
        header_bytes: 0,
    };
    let mut length = 0;
    if !later_fragment {
        let bytes = transport.bytes.unwrap_or_default();
        length = match protocol {
            TCP => bytes.get(12).map_or(20, |offset| words(offset >> 4).max(20)),
            UDP | ICMP | ICMP6 => 8,
            SCTP => 12,
            _ => 0,
        };
        headers.is_cut = !headers.read_transport(bytes);
    }
    headers.header_bytes = u16::try_from(transport.at.saturating_add(length)).unwrap_or(u16::MAX);
    headers
}

/// The name of a protocol number; `None` where it is better shown as a number.
pub fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        ICMP => "ICMP",
        TCP => "TCP",
        UDP => "UDP",
        4 => "IP-in-IP",
        41 => "IPv6-in-IP",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        ICMP6 => "ICMPv6",
        89 => "OSPF",
        112 => "VRRP",
        SCTP => "SCTP",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Flow, IpVersion};
    use crate::frame::{Ends, Signature};

    const FLOW: Flow = Flow { src: 0xc612_8001, dst: 0xc613_8002, sport: 1024, dport: 49151, group: 0 };

    fn frame(ip: IpVersion) -> Vec<u8> {
        let prefix = *b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0";
        Ends {
            ip,
            src_mac: [2; 6],
            dst_mac: [4; 6],
            src_prefix: prefix,
            dst_prefix: prefix,
            keeps_whole: false,
        }
        .frame(&FLOW, 100, Signature::default())
    }

    fn tagged(mut frame: Vec<u8>, tags: &[u16]) -> Vec<u8> {
        for tag in tags {
            let bytes = [tag.to_be_bytes(), [0, 7]].concat();
            frame.splice(12..12, bytes);
        }
        frame
    }

    #[test]
    fn test_frames_are_read_with_and_without_tags() {
        for tags in [&[][..], &[0x8100], &[0x8100, 0x88a8]] {
            let v4 = read(&tagged(frame(IpVersion::V4), tags)).expect("IPv4");
            assert_eq!((v4.src, v4.dst), ([198, 18, 128, 1].into(), [198, 19, 128, 2].into()));
            let v6 = read(&tagged(frame(IpVersion::V6), tags)).expect("IPv6");
            assert_eq!(v6.dst.to_string(), "2001:db8::c613:8002");
            for headers in [v4, v6] {
                assert_eq!((headers.protocol, headers.ports), (UDP, (1024, 49151)));
            }
        }
    }

    /// The IPv6 frame with these extension headers in front of UDP.
    fn extended(first: u8, extensions: &[u8]) -> Option<Headers> {
        let mut bytes = frame(IpVersion::V6);
        bytes[20] = first;
        bytes.splice(54..54, extensions.iter().copied());
        read(&bytes)
    }

    #[test]
    fn ports_are_found_behind_extension_headers() {
        let hop_by_hop_then_options = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[17, 1], &[0; 14]].concat();
        let headers = extended(0, &hop_by_hop_then_options).expect("readable");
        assert_eq!((headers.protocol, headers.ports), (UDP, (1024, 49151)));
        let first = extended(44, &[17, 0, 0, 1, 0, 0, 0, 9]).expect("readable");
        assert_eq!((first.ports, first.later_fragment), ((1024, 49151), false));
        let later = extended(44, &[17, 0, 5, 0, 0, 0, 0, 9]).expect("readable");
        assert_eq!((later.ports, later.later_fragment), ((0, 0), true));
    }

    #[test]
    fn options_fragments_and_flags_of_ipv4() {
        let mut bytes = frame(IpVersion::V4);
        bytes[14] = 0x46;
        bytes.splice(34..34, [1, 1, 1, 0]);
        assert_eq!(read(&bytes).expect("readable").ports, (1024, 49151));
        let mut later = frame(IpVersion::V4);
        later[21] = 9;
        let later = read(&later).expect("readable");
        assert_eq!((later.ports, later.later_fragment), ((0, 0), true));
        for (flags, opens) in [(SYN, true), (SYN | ACK, false), (ACK, false), (SYN | 0x40, true)] {
            let mut tcp = frame(IpVersion::V4);
            tcp[23] = TCP;
            tcp[47] = flags;
            assert_eq!(read(&tcp).expect("readable").opens(), opens, "{flags:#x}");
        }
    }

    #[test]
    fn headers_behind_pppoe_and_labels_are_read_and_counted() {
        let inside = |header: &[u8]| {
            let mut bytes = frame(IpVersion::V4);
            bytes.splice(12..14, header.iter().copied());
            read(&bytes).expect("readable")
        };
        for (header, bytes) in [
            (&[0x08, 0x00][..], 14),
            (&[0x88, 0x64, 0x11, 0, 0, 1, 0, 82, 0, 0x21], 22),
            (&[0x88, 0x47, 0, 1, 0, 255, 0, 2, 1, 255], 22),
        ] {
            let headers = inside(header);
            assert_eq!((headers.ports, headers.header_bytes), ((1024, 49151), bytes + 28), "{header:02x?}");
        }
    }

    #[test]
    fn a_frame_that_ends_before_ports_or_flags_says_so() {
        let udp = frame(IpVersion::V4);
        let mut tcp = udp.clone();
        (tcp[23], tcp[46]) = (TCP, 0x80);
        for (whole, needed, header_bytes) in [(&udp, 38, 42), (&tcp, 48, 66)] {
            for length in 34..60 {
                let headers = read(&whole[..length]).expect("addresses are there");
                assert_eq!(headers.is_cut, length < needed, "{length}");
                if length >= needed {
                    assert_eq!(headers.header_bytes, header_bytes);
                }
            }
        }
        let mut later = tcp;
        later[21] = 9;
        assert!(!read(&later[..34]).expect("addresses are there").is_cut, "it has no ports");
    }

    #[test]
    fn no_input_panics_and_no_prefix_invents_an_address() {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let good = tagged(frame(ip), &[0x8100]);
            let whole = read(&good).expect("readable");
            for n in 0..good.len() {
                assert!(read(&good[..n]).is_none_or(|part| (part.src, part.dst) == (whole.src, whole.dst)));
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[n] ^= 1 << bit;
                    let _ = read(&bad);
                }
            }
        }
        assert_eq!(read(&tagged(frame(IpVersion::V4), &[0x8100; 9])), None);
    }
}
