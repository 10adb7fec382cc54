//! Ethernet, IPv4 and UDP around a message of DHCPv4. Tags were taken off by the node, and are put on by it.
//!
//! ```text
//! 14 Ethernet | 20 IPv4, options | 8 UDP | message
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::Ipv4Addr;

use weir_packet::checksum::{self, fold, pseudo_header, sum};
use weir_packet::fields::be16;
use weir_packet::headers::{UDP, words};

use crate::drops::DropReason;
use crate::mac::Mac;

/// UDP port of servers and relays.
pub const SERVER_PORT: u16 = 67;
/// UDP port of clients.
pub const CLIENT_PORT: u16 = 68;
/// Longest IPv4 packet that is written.
pub(crate) const MTU: usize = 1500;
/// IPv4 and UDP header.
pub(crate) const HEADER_BYTES: usize = 28;

const IPV4: u16 = 0x0800;
const HOP_LIMIT: u8 = 64;

/// A UDP datagram in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Destination of the frame.
    pub dst_mac: Mac,
    /// Source of the frame.
    pub src_mac: Mac,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// What UDP carries.
    pub payload: &'a [u8],
}

/// Reads an untagged Ethernet frame; bytes behind the IPv4 packet are padding.
///
/// # Errors
/// It carries no whole UDP datagram over IPv4, or a length or a checksum is wrong.
pub fn read(frame: &[u8]) -> Result<Datagram<'_>, DropReason> {
    let (&dst_mac, rest) = frame.split_first_chunk::<6>().ok_or(DropReason::FrameCut)?;
    let (&src_mac, rest) = rest.split_first_chunk::<6>().ok_or(DropReason::FrameCut)?;
    let (&kind, packet) = rest.split_first_chunk::<2>().ok_or(DropReason::FrameCut)?;
    if u16::from_be_bytes(kind) != IPV4 {
        return Err(DropReason::NotIpv4);
    }
    let src_mac = Mac(src_mac);
    if !src_mac.is_station() {
        return Err(DropReason::SourceMac);
    }
    let (header, transport) = ipv4(packet)?;
    let [src, dst] = [12, 16].map(|at| weir_packet::fields::be32(header, at).unwrap_or(0));
    let datagram = Datagram {
        dst_mac: Mac(dst_mac),
        src_mac,
        src: src.into(),
        dst: dst.into(),
        src_port: be16(transport, 0).ok_or(DropReason::UdpLength)?,
        dst_port: be16(transport, 2).ok_or(DropReason::UdpLength)?,
        payload: &[],
    };
    let len = usize::from(be16(transport, 4).ok_or(DropReason::UdpLength)?);
    let udp = transport.get(..len).ok_or(DropReason::UdpLength)?;
    let (udp_header, payload) = udp.split_first_chunk::<8>().ok_or(DropReason::UdpLength)?;
    let [.., a, b] = *udp_header;
    let pseudo_header = pseudo_header(header.get(12..20).unwrap_or_default(), UDP, len);
    // None (RFC 768), or what a system leaves for its network card to add to: a virtual card adds nothing, and no link is between that
    // could have damaged it.
    let is_left_out = [0, fold(pseudo_header)].contains(&u16::from_be_bytes([a, b]));
    if !is_left_out && fold(sum(udp) + pseudo_header) != 0xffff {
        return Err(DropReason::UdpChecksum);
    }
    Ok(Datagram { payload, ..datagram })
}

/// Header, with options, and payload of an IPv4 packet of UDP.
fn ipv4(packet: &[u8]) -> Result<(&[u8], &[u8]), DropReason> {
    let fixed = packet.first_chunk::<20>().ok_or(DropReason::FrameCut)?;
    let &[version, _, a, b, _, _, c, d, _, protocol, ..] = fixed;
    let header_bytes = words(version & 15);
    if version >> 4 != 4 || header_bytes < 20 {
        return Err(DropReason::IpHeader);
    }
    let total = usize::from(u16::from_be_bytes([a, b]));
    let packet = packet.get(..total).ok_or(DropReason::IpLength)?;
    let (header, transport) = packet.split_at_checked(header_bytes).ok_or(DropReason::IpLength)?;
    if fold(sum(header)) != 0xffff {
        return Err(DropReason::IpChecksum);
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([c, d]) & 0x3fff != 0 {
        return Err(DropReason::IpFragment);
    }
    if protocol != UDP {
        return Err(DropReason::NotDhcp);
    }
    Ok((header, transport))
}

/// The frame of a datagram, with checksums.
///
/// # Errors
/// It is longer than a link carries.
pub fn write(datagram: &Datagram<'_>) -> Result<Vec<u8>, DropReason> {
    let Datagram { dst_mac, src_mac, src, dst, src_port, dst_port, payload } = *datagram;
    let total = payload.len().saturating_add(HEADER_BYTES);
    if total > MTU {
        return Err(DropReason::TooLong);
    }
    let lengths = [total, total.saturating_sub(20)].map(|len| u16::try_from(len).unwrap_or(u16::MAX));
    let [total, udp_len] = lengths.map(u16::to_be_bytes);
    // Not to be fragmented, so that its identification may be 0 (RFC 6864, section 4.1).
    let mut ip = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, HOP_LIMIT, UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    weir_packet::fields::put(&mut ip, 12, src.octets());
    weir_packet::fields::put(&mut ip, 16, dst.octets());
    checksum::write_ipv4(&mut ip);
    let mut udp = [&src_port.to_be_bytes()[..], &dst_port.to_be_bytes(), &udp_len, &[0, 0], payload].concat();
    let addresses = [src.octets(), dst.octets()].concat();
    let others = pseudo_header(&addresses, UDP, udp.len());
    checksum::write(&mut udp, 6, others);
    if udp.get(6..8) == Some(&[0, 0]) {
        weir_packet::fields::put(&mut udp, 6, [0xff, 0xff]);
    }
    Ok([&dst_mac.0[..], &src_mac.0, &IPV4.to_be_bytes(), &ip, &udp].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram() -> Datagram<'static> {
        Datagram {
            dst_mac: Mac::BROADCAST,
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::BROADCAST,
            src_port: CLIENT_PORT,
            dst_port: SERVER_PORT,
            payload: b"some bytes",
        }
    }

    #[test]
    fn frames_are_read_as_they_are_written() {
        let mut frame = write(&datagram()).unwrap();
        assert_eq!(read(&frame), Ok(datagram()));
        frame.resize(60, 0xaa);
        assert_eq!(read(&frame), Ok(datagram()), "padding is not read");
        frame[40..42].fill(0);
        assert_eq!(read(&frame), Ok(datagram()), "UDP without a checksum");
        let pseudo_header = pseudo_header(&[0, 0, 0, 0, 255, 255, 255, 255], UDP, 18);
        frame[40..42].copy_from_slice(&fold(pseudo_header).to_be_bytes());
        assert_eq!(read(&frame), Ok(datagram()), "UDP with a checksum that is left to a network card");
        let long = Datagram { payload: &[0; MTU - HEADER_BYTES + 1], ..datagram() };
        assert_eq!(write(&long), Err(DropReason::TooLong));
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        let good = write(&datagram()).unwrap();
        let rows: [(usize, u8, DropReason); 9] = [
            (6, 0x03, DropReason::SourceMac),
            (12, 0x86, DropReason::NotIpv4),
            (14, 0x65, DropReason::IpHeader),
            (14, 0x44, DropReason::IpHeader),
            (17, 0xff, DropReason::IpLength),
            (17, 0x10, DropReason::IpLength),
            (22, 1, DropReason::IpChecksum),
            (39, 0xff, DropReason::UdpLength),
            (50, 0xff, DropReason::UdpChecksum),
        ];
        for (at, byte, reason) in rows {
            let mut frame = good.clone();
            frame[at] = byte;
            assert_eq!(read(&frame), Err(reason), "byte {at} = {byte:#x}");
        }
        let rows = [
            (20, 0x20, DropReason::IpFragment),
            (21, 1, DropReason::IpFragment),
            (23, 6, DropReason::NotDhcp),
        ];
        for (at, byte, reason) in rows {
            let mut frame = good.clone();
            frame[at] = byte;
            checksum::write_ipv4(&mut frame[14..34]);
            assert_eq!(read(&frame), Err(reason), "byte {at} = {byte:#x}");
        }
        for len in 0..good.len() {
            assert!(read(&good[..len]).is_err(), "{len} bytes");
        }
    }
}
