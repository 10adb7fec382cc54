//! The header by which the kernel says what of a frame is left to a network card: `struct virtio_net_hdr`.
//!
//! ```text
//!  flags:8  gso_type:8  hdr_len:16  gso_size:16  csum_start:16  csum_offset:16     in the order of this machine
//! ```
//! Source: virtio 1.2, section 5.1.6; linux/virtio_net.h (virtio_net_hdr_from_skb).

use std::num::NonZeroU16;

use super::checksum::Partial;

/// Bytes of the header.
pub const BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Beside a kind of TCP: the connection has explicit congestion notification.
const GSO_ECN: u8 = 0x80;

/// Offloads that a frame still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// A checksum that is to be finished.
    pub partial: Option<Partial>,
    /// A large frame, and what it carries.
    pub large: Option<Large>,
}

/// A frame that stands for several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Large {
    /// What is cut.
    pub kind: Kind,
    /// Bytes of payload in a segment.
    pub payload: NonZeroU16,
}

/// What a large frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One piece of a stream.
    Tcp,
    /// Datagrams of the same length, but the last.
    Udp,
}

/// Reads the header; `None` for a kind of large frame that cannot be cut here, or without a length of its segments.
/// The length of the headers that it names is no more than a hint, and not read.
pub fn read(header: &[u8; BYTES]) -> Option<Offloads> {
    let [flags, kind, _, _, a, b, c, d, e, f] = *header;
    let word = |bytes| usize::from(u16::from_ne_bytes(bytes));
    let partial = Partial { start: word([c, d]), offset: word([e, f]) };
    let kind = match kind & !GSO_ECN {
        0 => None,
        GSO_TCPV4 | GSO_TCPV6 => Some(Kind::Tcp),
        GSO_UDP_L4 => Some(Kind::Udp),
        _ => return None,
    };
    let large = match kind {
        None => None,
        Some(kind) => Some(Large { kind, payload: NonZeroU16::new(u16::from_ne_bytes([a, b]))? }),
    };
    Some(Offloads { partial: (flags & NEEDS_CSUM != 0).then_some(partial), large })
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test's own lengths")]
mod tests {
    use super::*;

    fn header(flags: u8, kind: u8, size: u16, start: u16, offset: u16) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        (bytes[0], bytes[1]) = (flags, kind);
        for (at, value) in [(2, 0xffff_u16), (4, size), (6, start), (8, offset)] {
            bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn offloads_are_read() {
        let large = |kind, payload| NonZeroU16::new(payload).map(|payload| Large { kind, payload });
        let partial = |start, offset| Some(Partial { start, offset });
        let none = Offloads::default();
        for (bytes, expected) in [
            (header(0, 0, 0, 0, 0), Some(none)),
            // The other end has checked it: nothing is left to do.
            (header(2, 0, 0, 34, 16), Some(none)),
            (header(1, 0, 0, 34, 16), Some(Offloads { partial: partial(34, 16), ..none })),
            (
                header(1, 1, 1448, 34, 16),
                Some(Offloads { partial: partial(34, 16), large: large(Kind::Tcp, 1448) }),
            ),
            (header(0, 0x84, 1428, 0, 0), Some(Offloads { large: large(Kind::Tcp, 1428), ..none })),
            (
                header(1, 5, 1200, 34, 6),
                Some(Offloads { partial: partial(34, 6), large: large(Kind::Udp, 1200) }),
            ),
            // Segments of no length, IP fragments of UDP, unknown kinds.
            (header(1, 1, 0, 34, 16), None),
            (header(1, 3, 1448, 34, 6), None),
            (header(1, 77, 1448, 34, 6), None),
            // Places beyond any frame are found when the checksum is finished.
            (header(1, 0, 0, 0xffff, 0xffff), Some(Offloads { partial: partial(0xffff, 0xffff), ..none })),
        ] {
            assert_eq!(read(&bytes), expected, "{bytes:?}");
        }
    }
}
