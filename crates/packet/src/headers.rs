//! Who talks to whom in a frame off any wire: Ethernet with its VLAN tags, IP, and the ports behind it. Nothing is
//! checked beyond what is needed to read on; what cannot be read is left out, and no input panics.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::IpAddr;

/// Protocol numbers of IP.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMP for IPv6.
pub const ICMP6: u8 = 58;
/// SCTP.
pub const SCTP: u8 = 132;

/// Flags of TCP.
pub const SYN: u8 = 0x02;
/// The acknowledgement field counts.
pub const ACK: u8 = 0x10;

/// VLAN tags of a frame that are read; more are no frame of this world.
const MAX_TAGS: usize = 4;
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
}

impl Headers {
    /// A TCP segment that opens a connection.
    pub fn opens(&self) -> bool {
        self.protocol == TCP && self.tcp_flags & (SYN | ACK) == SYN
    }
}

/// Reads the headers of an Ethernet frame; `None` if it carries no IP or ends too early.
#[inline]
pub fn read(frame: &[u8]) -> Option<Headers> {
    let (_addresses, mut rest) = frame.split_first_chunk::<12>()?;
    for _ in 0..=MAX_TAGS {
        let (&kind, behind) = rest.split_first_chunk()?;
        match u16::from_be_bytes(kind) {
            0x8100 | 0x88a8 | 0x9100 => rest = behind.get(2..)?,
            0x0800 => return read_v4(behind),
            0x86dd => return read_v6(behind),
            _ => return None,
        }
    }
    None
}

fn read_v4(ip: &[u8]) -> Option<Headers> {
    let header = ip.first_chunk::<20>()?;
    let length = words(header[0] & 15);
    if header[0] >> 4 != 4 || length < 20 {
        return None;
    }
    let [.., a, b, c, d, e, f, g, h] = *header;
    let later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let ends = ([a, b, c, d].into(), [e, f, g, h].into());
    Some(behind(ip.get(length..), header[9], later_fragment, ends))
}

fn read_v6(ip: &[u8]) -> Option<Headers> {
    let (header, behind_header) = ip.split_first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |bytes: &[u8]| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
    let ends = (address(&header[8..24])?, address(&header[24..40])?);
    let (mut protocol, mut rest, mut later_fragment) = (header[6], Some(behind_header), false);
    for _ in 0..MAX_EXTENSIONS {
        let Some(&[next, length, ref others @ ..]) = rest else { break };
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
        (protocol, rest) = (next, rest.and_then(|rest| rest.get(bytes..)));
    }
    Some(behind(rest, protocol, later_fragment, ends))
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

/// What stands behind an IP header, if anything does.
fn behind(l4: Option<&[u8]>, protocol: u8, later_fragment: bool, ends: (IpAddr, IpAddr)) -> Headers {
    let (src, dst) = ends;
    let mut headers = Headers { src, dst, protocol, ports: (0, 0), tcp_flags: 0, later_fragment };
    if later_fragment {
        return headers;
    }
    match (protocol, l4) {
        (TCP | UDP | SCTP, Some(&[a, b, c, d, ref rest @ ..])) => {
            headers.ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            if let (TCP, Some(&flags)) = (protocol, rest.get(9)) {
                headers.tcp_flags = flags;
            }
        }
        (ICMP | ICMP6, Some(&[kind, code, ..])) => headers.ports = (kind.into(), code.into()),
        _ => {}
    }
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
