//! The reset that answers a segment of TCP nobody takes (RFC 9293, section 3.10.7.1).

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::headers::{ACK, SYN, TCP};

use crate::frame::{ETHERNET, Fragment, Frame, HEAD_ROOM, Kind};
use crate::icmp::OWN_TTL;

const FIN: u8 = 0x01;
const RST: u8 = 0x04;

/// The frame with the reset, with head room and an Ethernet header whose addresses are not known yet; `None` for what
/// is no whole segment, and for a reset.
pub(crate) fn answer(frame: &Frame<'_>) -> Option<Vec<u8>> {
    if frame.proto() != TCP || frame.fragment() != Fragment::Whole || frame.tcp_flags() & RST != 0 {
        return None;
    }
    let (l4, flags) = (frame.l4(), frame.tcp_flags());
    let word = |at: usize| u32::from_be_bytes([l4[at], l4[at + 1], l4[at + 2], l4[at + 3]]);
    let payload = l4.len() - usize::from(l4[12] >> 4) * 4;
    let counted = [SYN, FIN].iter().filter(|&flag| flags & flag != 0).count();
    let (seq, ack, flags) = match flags & ACK != 0 {
        true => (word(8), 0, RST),
        false => (0, word(4).wrapping_add((payload + counted) as u32), RST | ACK),
    };
    let mut tcp =
        [&l4[2..4], &l4[..2], &seq.to_be_bytes(), &ack.to_be_bytes(), &[0x50, flags], &[0; 6]].concat();
    let (addresses, ether_type, mut ip) = match frame.kind() {
        Kind::V4 => {
            let swapped = [&frame.ip()[16..20], &frame.ip()[12..16]].concat();
            (swapped, [0x08, 0x00], vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, OWN_TTL, TCP, 0, 0])
        }
        _ => {
            let swapped = [&frame.ip()[24..40], &frame.ip()[8..24]].concat();
            (swapped, [0x86, 0xdd], vec![0x60, 0, 0, 0, 0, 20, TCP, OWN_TTL])
        }
    };
    let checksum = !fold(pseudo_header(&addresses, TCP, tcp.len()) + sum(&tcp));
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    ip.extend(addresses);
    if frame.kind() == Kind::V4 {
        write_ipv4(&mut ip);
    }
    Some([&[0; HEAD_ROOM + ETHERNET - 2][..], &ether_type, &ip, &tcp].concat())
}
