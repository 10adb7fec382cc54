//! Numbered UDP packets: small enough for the shortest Ethernet frame.
//!
//! ```text
//!  14 Ethernet | 20 IPv4 | 8 UDP, no checksum | 18:
//!    0 "wC" | 2 run | 4 kind | 5 device: 3 bytes | 8 sequence number | 12 when it was sent, ns: 6 bytes | padding
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::SocketAddrV4;

use weir_bng::Mac;
use weir_packet::checksum;
use weir_packet::fields::{be16, be32, put};

/// Bytes of the shortest frame without tags, without FCS.
pub const SHORTEST_FRAME: usize = 60;
/// Headers before the number.
const HEADERS: usize = 42;
const NUMBER_BYTES: usize = 18;
const MARK: [u8; 2] = *b"wC";
const UDP: u8 = 17;
/// Most devices that three bytes can number.
pub(crate) const MOST_DEVICES: u32 = 1 << 24;

/// What a numbered packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first one of a session, sent until one arrives.
    First = 1,
    /// Traffic from a subscriber.
    FromSubscriber = 2,
    /// Traffic to a subscriber.
    ToSubscriber = 3,
}

/// The number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// Number of the run, so that frames of an earlier one do not count.
    pub(crate) run: u16,
    pub(crate) kind: Kind,
    pub(crate) device: u32,
    pub(crate) sequence: u32,
    pub(crate) sent_ns: u64,
}

/// Between which ends a packet travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) src_mac: Mac,
    pub(crate) dst_mac: Mac,
    pub(crate) src: SocketAddrV4,
    pub(crate) dst: SocketAddrV4,
}

impl Number {
    /// Writes an untagged frame over all of `frame`, which has at least [`SHORTEST_FRAME`] bytes.
    pub(crate) fn write(&self, route: &Route, frame: &mut [u8]) {
        let ip_bytes = u16::try_from(frame.len().saturating_sub(14)).unwrap_or(u16::MAX);
        put(frame, 0, route.dst_mac.0);
        put(frame, 6, route.src_mac.0);
        put(frame, 12, [8, 0, 0x45, 0]);
        put(frame, 16, ip_bytes.to_be_bytes());
        // Not to be fragmented, 64 hops.
        put(frame, 18, [0, 0, 0x40, 0, 64, UDP, 0, 0]);
        put(frame, 26, route.src.ip().octets());
        put(frame, 30, route.dst.ip().octets());
        if let Some(header) = frame.get_mut(14..34) {
            checksum::write_ipv4(header);
        }
        put(frame, 34, route.src.port().to_be_bytes());
        put(frame, 36, route.dst.port().to_be_bytes());
        put(frame, 38, ip_bytes.saturating_sub(20).to_be_bytes());
        put(frame, 40, [0, 0]);
        put(frame, HEADERS, MARK);
        put(frame, 44, self.run.to_be_bytes());
        let [_, a, b, c] = self.device.to_be_bytes();
        put(frame, 46, [self.kind as u8, a, b, c]);
        put(frame, 50, self.sequence.to_be_bytes());
        let [_, _, time @ ..] = self.sent_ns.to_be_bytes();
        put(frame, 54, time);
    }

    /// Reads an untagged frame: how its packet travelled, and its number. `None`: it is no numbered packet.
    pub(crate) fn read(frame: &[u8]) -> Option<(Route, Number)> {
        let number = frame.get(HEADERS..)?.first_chunk::<NUMBER_BYTES>()?;
        let &[m, n, r, s, kind, a, b, c, q, w, e, t, ref time @ ..] = number;
        let header = (be32(frame, 12)? >> 8, *frame.get(23)?);
        if [m, n] != MARK || header != (0x0008_0045, UDP) {
            return None;
        }
        let kind = [Kind::First, Kind::FromSubscriber, Kind::ToSubscriber]
            .into_iter()
            .find(|known| *known as u8 == kind)?;
        let end = |ip, port| Some(SocketAddrV4::new(be32(frame, ip)?.into(), be16(frame, port)?));
        let route = Route {
            dst_mac: Mac(*frame.first_chunk()?),
            src_mac: Mac(*frame.get(6..)?.first_chunk()?),
            src: end(26, 34)?,
            dst: end(30, 36)?,
        };
        let number = Number {
            run: u16::from_be_bytes([r, s]),
            kind,
            device: u32::from_be_bytes([0, a, b, c]),
            sequence: u32::from_be_bytes([q, w, e, t]),
            sent_ns: time.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        Some((route, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let number =
            Number { run: 7, kind: Kind::ToSubscriber, device: 0x12_3456, sequence: 9, sent_ns: 1 << 40 };
        let end = |text: &str| text.parse().unwrap();
        let route = Route {
            src_mac: Mac([2, 0, 0, 0, 0, 1]),
            dst_mac: Mac([2, 0, 0, 0, 0, 2]),
            src: end("100.64.0.2:49152"),
            dst: end("198.18.0.2:7"),
        };
        let mut frame = [0xff; SHORTEST_FRAME];
        number.write(&route, &mut frame);
        assert_eq!(Number::read(&frame), Some((route, number)));
        assert!(checksum::is_right_ipv4(frame[14..34].try_into().unwrap()));
        for len in 0..SHORTEST_FRAME {
            assert_eq!(Number::read(&frame[..len]), None, "{len} bytes");
        }
        for at in [12, 14, 23, 42, 46] {
            let mut other = frame;
            other[at] ^= 0x40;
            assert_eq!(Number::read(&other), None, "byte {at}");
        }
    }
}
