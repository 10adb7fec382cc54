//! Cuts an IPv4 packet that is longer than the next link carries (RFC 791, section 3.2, RFC 1812, section 4.2.2.7).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::write_ipv4;
use weir_packet::options::options;

use crate::extensions::MORE4 as MORE;
use crate::frame::{Frame, HEAD_ROOM, IPV4};

const DONT: u16 = 0x4000;
const OFFSET: u16 = 0x1fff;
/// The option is for each fragment, not for the first one alone.
const COPIED: u8 = 0x80;

/// Whether the sender forbids it.
pub(crate) fn forbidden(frame: &Frame<'_>) -> bool {
    frame.frag_off() & DONT != 0
}

/// Shortens the frame to its first fragment and returns the others, each with head room and the frame's Ethernet header.
pub(crate) fn cut(frame: &mut Frame<'_>, mtu: u16) -> Vec<Vec<u8>> {
    let (ethernet, frag_off) = (frame.ethernet().to_vec(), frame.frag_off());
    let (&header, options) = (frame.header4(), frame.options4().to_vec());
    // Fragments but the last carry eights of bytes; a link that is shorter than any has one of them in each.
    let room = |header: usize| (usize::from(mtu).saturating_sub(header) & !7).max(8);
    let first_bytes = room(frame.ip_header().len());
    let later_options = copied_options(&options);
    let later_bytes = room(IPV4.saturating_add(later_options.len()));
    let Some((_, rest)) = frame.l4().split_at_checked(first_bytes) else { return Vec::new() };
    let later = rest.chunks(later_bytes);
    let last = later.len().saturating_sub(1);
    let later = later.enumerate().map(|(n, part)| {
        // No fragment that was read ends behind the longest packet, so that its fragments have offsets as well.
        let offset = (frag_off & OFFSET)
            .saturating_add((first_bytes.saturating_add(n.saturating_mul(later_bytes)) / 8) as u16);
        let more = if n < last { MORE } else { frag_off & MORE };
        let header = header_for(header, &later_options, part.len(), offset | more);
        [&[0; HEAD_ROOM], &ethernet[..], &header, part].concat()
    });
    let later: Vec<_> = later.collect();
    let first = header_for(header, &options, first_bytes, (frag_off & OFFSET) | MORE);
    let first_at = frame.ip_mut().iter_mut();
    first_at.zip(first).for_each(|(at, byte)| *at = byte);
    // A first fragment may end within the header of its transport; that is not needed any more.
    let _ = frame.read_ip();
    later
}

/// The header of a fragment with so many bytes behind it.
fn header_for(mut header: [u8; IPV4], options: &[u8], payload_bytes: usize, frag_off: u16) -> Vec<u8> {
    let bytes = IPV4.saturating_add(options.len());
    header[0] = 0x40 | (bytes / 4) as u8;
    header[2..4].copy_from_slice(&(bytes.saturating_add(payload_bytes) as u16).to_be_bytes());
    header[6..8].copy_from_slice(&frag_off.to_be_bytes());
    let mut header = [&header[..], options].concat();
    write_ipv4(&mut header);
    header
}

/// The options that later fragments have too, filled up to whole words.
fn copied_options(all: &[u8]) -> Vec<u8> {
    let is_copied = |option: &&[u8]| option.first().is_some_and(|kind| kind & COPIED != 0);
    let mut copied: Vec<u8> = options(all).filter(is_copied).flatten().copied().collect();
    copied.resize(copied.len().next_multiple_of(4), 0);
    copied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{ETHERNET, Fragment, PortId};

    fn packet(options: &[u8], frag_off: u16, payload: usize) -> Vec<u8> {
        let header = [0x45, 0, 0, 0, 0, 9, 0, 0, 64, 99, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1];
        let payload: Vec<u8> = (0..payload).map(|n| n as u8).collect();
        [header_for(header, options, payload.len(), frag_off), payload].concat()
    }

    /// The fragments for this MTU, packets only.
    fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
        let mut buf = [&[0; HEAD_ROOM], &[2; 12][..], &[8, 0], packet].concat();
        let end = buf.len();
        let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
        frame.read(12).expect("readable");
        let later = cut(&mut frame, mtu);
        let mut all = vec![frame.ip().to_vec()];
        for mut buf in later {
            let end = buf.len();
            assert_eq!(buf[HEAD_ROOM..HEAD_ROOM + ETHERNET], frame.bytes()[..ETHERNET]);
            let mut frame = Frame::new(&mut buf, HEAD_ROOM, end, PortId(0));
            frame.read(12).expect("readable");
            assert_eq!(frame.fragment(), Fragment::Later);
            all.push(frame.ip().to_vec());
        }
        all
    }

    #[test]
    fn fragments_put_together_are_the_packet() {
        let options = [[0x94, 4, 0, 0], [7, 4, 4, 0]].concat();
        for (options, frag_off, payload, mtu) in [
            (&[][..], 0, 1480, 576),
            (&options, 0, 1401, 296),
            (&[], 185, 1480, 1000),
            (&[], MORE | 10, 800, 68),
        ] {
            let whole = packet(options, frag_off, payload);
            let parts = fragments(&whole, mtu);
            let (mut together, mut at) = (Vec::<u8>::new(), usize::from(frag_off & OFFSET) * 8);
            for (n, part) in parts.iter().enumerate() {
                let header = usize::from(part[0] & 15) * 4;
                assert!(part.len() <= usize::from(mtu));
                let field = u16::from_be_bytes([part[6], part[7]]);
                assert_eq!(usize::from(field & OFFSET) * 8, at);
                assert_eq!(field & MORE != 0, n + 1 < parts.len() || frag_off & MORE != 0);
                // Of the two options one is for all fragments.
                let expected = IPV4 + if n == 0 { options.len() } else { options.len() / 2 };
                assert_eq!(header, expected);
                together.extend(&part[header..]);
                at += part.len() - header;
            }
            assert_eq!(together, whole[IPV4 + options.len()..]);
        }
    }

    #[test]
    fn a_cut_within_the_header_of_tcp_is_one_like_any() {
        let options = [1; 40];
        for (options, tcp_header) in [(&options[..], 20), (&[], 60), (&options, 60)] {
            let mut packet = packet(options, 0, 100);
            let header = IPV4 + options.len();
            packet[9] = 6;
            packet[header + 12] = (tcp_header / 4) << 4;
            write_ipv4(&mut packet[..header]);
            let parts = fragments(&packet, 68);
            let together: Vec<u8> =
                parts.iter().flat_map(|part| part[usize::from(part[0] & 15) * 4..].to_vec()).collect();
            assert_eq!(together, packet[header..]);
        }
    }
}
