//! Packets that are built from parts of others.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::write_ipv4;
use weir_packet::fields::put;
use weir_packet::headers::ICMP6;

use crate::frame::{Frame, HEAD_ROOM, IPV6};

/// The packet in one fragment, from its first fragment and the payload of all of them; `None` if it is too long.
pub(in crate::nat) fn whole(first: &Frame<'_>, l4: &[u8]) -> Option<Vec<u8>> {
    let ip = first.ip_header();
    let (ether_type, header) = match ip.first_chunk::<IPV6>() {
        Some(header) if header[0] >> 4 == 6 => {
            let (mut header, bytes) = (*header, u16::try_from(l4.len()).ok()?);
            header[4..6].copy_from_slice(&bytes.to_be_bytes());
            header[6] = ICMP6;
            ([0x86, 0xdd], header.to_vec())
        }
        _ => {
            let (mut header, bytes) = (ip.to_vec(), u16::try_from(ip.len().saturating_add(l4.len())).ok()?);
            put(&mut header, 2, bytes.to_be_bytes());
            put(&mut header, 6, [0; 2]);
            write_ipv4(&mut header);
            ([8, 0], header)
        }
    };
    let buf = packet(first, ether_type, &[&header, l4]);
    (buf.len() <= usize::from(u16::MAX)).then_some(buf)
}

/// A frame with the Ethernet addresses of another, with room in front.
pub(super) fn packet(frame: &Frame<'_>, ether_type: [u8; 2], parts: &[&[u8]]) -> Vec<u8> {
    let (dst, src) = frame.macs();
    [&[0; HEAD_ROOM][..], &dst, &src, &ether_type, &parts.concat()].concat()
}
