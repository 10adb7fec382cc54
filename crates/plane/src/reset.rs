//! The reset that answers a TCP segment for which there is no connection (RFC 9293, section 3.10.7.1).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::headers::{ACK, SYN, TCP, words};

use crate::frame::{Fragment, Frame, Kind};
use crate::icmp::ORIGINATED_TTL;
use crate::limiter::Permit;

const FIN: u8 = 0x01;
const RST: u8 = 0x04;

/// The frame with the reset, with head room and an Ethernet header that leads back; `None` for what is no whole segment, for
/// a reset, and for what was sent to more than one host of the link.
pub(crate) fn answer(_: Permit, frame: &Frame<'_>) -> Option<Vec<u8>> {
    let whole = frame.tcp().filter(|_| frame.fragment() == Fragment::Whole);
    let &[a, b, c, d, s0, s1, s2, s3, a0, a1, a2, a3, length, flags, ..] = whole?;
    if flags & RST != 0 || frame.is_to_group() {
        return None;
    }
    let payload = frame.l4().len().saturating_sub(words(length >> 4));
    let counted = [SYN, FIN].iter().filter(|&flag| flags & flag != 0).count();
    let (seq, ack, flags) = if flags & ACK != 0 {
        (u32::from_be_bytes([a0, a1, a2, a3]), 0, RST)
    } else {
        (
            0,
            u32::from_be_bytes([s0, s1, s2, s3]).wrapping_add(payload.wrapping_add(counted) as u32),
            RST | ACK,
        )
    };
    let mut tcp = [c, d, a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0];
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&ack.to_be_bytes());
    let (addresses, ether_type, mut ip) = match frame.kind() {
        Kind::V4 => {
            let swapped = [&frame.header4()[16..], &frame.header4()[12..16]].concat();
            (swapped, [0x08, 0x00], vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, ORIGINATED_TTL, TCP, 0, 0])
        }
        _ => {
            let swapped = [&frame.header6()[24..], &frame.header6()[8..24]].concat();
            (swapped, [0x86, 0xdd], vec![0x60, 0, 0, 0, 0, 20, TCP, ORIGINATED_TTL])
        }
    };
    let checksum = !fold(pseudo_header(&addresses, TCP, tcp.len()) + sum(&tcp));
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    ip.extend(addresses);
    if frame.kind() == Kind::V4 {
        write_ipv4(&mut ip);
    }
    Some([&frame.front_of_answer()[..], &ether_type, &ip, &tcp].concat())
}
