//! Who talks to whom in a frame off any wire: Ethernet with its VLAN tags, IP, and the ports behind it. Nothing is
//! checked beyond what is needed to read on; what cannot be read is left out, and no input panics.

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
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        match be16(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            0x0800 => return read_v4(frame.get(at + 2..)?),
            0x86dd => return read_v6(frame.get(at + 2..)?),
            _ => return None,
        }
    }
    None
}

fn read_v4(ip: &[u8]) -> Option<Headers> {
    let header = ip.get(..20)?;
    let length = usize::from(header[0] & 15) * 4;
    if header[0] >> 4 != 4 || length < 20 {
        return None;
    }
    let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let later_fragment = be16(header, 6)? & 0x1fff != 0;
    Some(behind(ip, length, header[9], later_fragment, (address(12), address(16))))
}

fn read_v6(ip: &[u8]) -> Option<Headers> {
    let header = ip.get(..40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |bytes: &[u8]| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
    let ends = (address(&header[8..24])?, address(&header[24..40])?);
    let (mut protocol, mut at, mut later_fragment) = (header[6], 40, false);
    for _ in 0..MAX_EXTENSIONS {
        let Some([next, length]) = ip.get(at..at + 2).map(|two| [two[0], two[1]]) else { break };
        let bytes = match protocol {
            // Hop by hop, routing, destination options, mobility, HIP, shim6 (RFC 7045).
            0 | 43 | 60 | 135 | 139 | 140 => (usize::from(length) + 1) * 8,
            51 => (usize::from(length) + 2) * 4,
            44 => {
                later_fragment |= be16(ip, at + 2).is_some_and(|offset| offset & 0xfff8 != 0);
                8
            }
            _ => break,
        };
        protocol = next;
        at += bytes;
    }
    Some(behind(ip, at, protocol, later_fragment, ends))
}

/// What stands behind an IP header of this length.
fn behind(ip: &[u8], at: usize, protocol: u8, later_fragment: bool, ends: (IpAddr, IpAddr)) -> Headers {
    let (src, dst) = ends;
    let mut headers = Headers { src, dst, protocol, ports: (0, 0), tcp_flags: 0, later_fragment };
    if later_fragment {
        return headers;
    }
    let byte = |offset: usize| ip.get(at + offset).copied().unwrap_or(0);
    let word = |offset: usize| u16::from_be_bytes([byte(offset), byte(offset + 1)]);
    match protocol {
        TCP => (headers.ports, headers.tcp_flags) = ((word(0), word(2)), byte(13)),
        UDP | SCTP => headers.ports = (word(0), word(2)),
        ICMP | ICMP6 => headers.ports = (u16::from(byte(0)), u16::from(byte(1))),
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

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Flow, IpVersion};
    use crate::frame::{Ends, Signature};

    const FLOW: Flow = Flow { src: 0xc612_8001, dst: 0xc613_8002, sport: 1024, dport: 49151, group: 0 };

    fn frame(ip: IpVersion) -> Vec<u8> {
        let prefix = *b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0";
        Ends { ip, src_mac: [2; 6], dst_mac: [4; 6], src_prefix: prefix, dst_prefix: prefix }.frame(
            &FLOW,
            100,
            Signature::default(),
        )
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
