//! Numbered UDP packets: with IPv4 small enough for the shortest Ethernet frame.
//!
//! ```text
//!  14 Ethernet | 20 IPv4 | 8 UDP, no checksum | 18:
//!  14 Ethernet | 40 IPv6 | 8 UDP              | 18:
//!    0 "wC" | 2 run | 4 kind | 5 device: 3 bytes | 8 sequence number | 12 when it was sent, ns: 6 bytes | padding
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use weir_bng::Mac;
use weir_packet::checksum;
use weir_packet::fields::{be16, be32, put};

/// Bytes of the shortest frame without tags, without FCS.
pub const SHORTEST_FRAME: usize = 60;
/// The same of a packet of IPv6.
pub const SHORTEST_FRAME6: usize = ETHERNET + IPV6_HEADER + UDP_HEADER + NUMBER_BYTES;
const ETHERNET: usize = 14;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const NUMBER_BYTES: usize = 18;
const MARK: [u8; 2] = *b"wC";
const UDP: u8 = 17;
const HOPS: u8 = 64;
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
    /// Of one version, as `dst`.
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
}

impl Route {
    /// Whether its packets are of IPv6.
    pub(crate) fn is_v6(&self) -> bool {
        self.dst.is_ipv6()
    }
}

impl Number {
    /// Writes an untagged frame over all of `frame`, which has at least [`SHORTEST_FRAME`] bytes, or [`SHORTEST_FRAME6`].
    pub(crate) fn write(&self, route: &Route, frame: &mut [u8]) {
        put(frame, 0, route.dst_mac.0);
        put(frame, 6, route.src_mac.0);
        match (route.src.ip(), route.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ip_bytes = u16::try_from(frame.len().saturating_sub(ETHERNET)).unwrap_or(u16::MAX);
                put(frame, 12, [8, 0, 0x45, 0]);
                put(frame, 16, ip_bytes.to_be_bytes());
                // Not to be fragmented.
                put(frame, 18, [0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
                put(frame, 26, src.octets());
                put(frame, 30, dst.octets());
                if let Some(header) = frame.get_mut(ETHERNET..34) {
                    checksum::write_ipv4(header);
                }
                self.write_datagram(route, frame.get_mut(34..).unwrap_or_default());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let bytes = frame.len().saturating_sub(ETHERNET).saturating_sub(IPV6_HEADER);
                put(frame, 12, [0x86, 0xdd, 0x60, 0, 0, 0]);
                put(frame, 18, u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes());
                put(frame, 20, [UDP, HOPS]);
                put(frame, 22, src.octets());
                put(frame, 38, dst.octets());
                let datagram = frame.get_mut(54..).unwrap_or_default();
                self.write_datagram(route, datagram);
                let addresses = [src.octets(), dst.octets()].concat();
                checksum::write(datagram, 6, checksum::pseudo_header(&addresses, UDP, bytes));
            }
            // Both ends of a route are of one version.
            _ => {}
        }
    }

    /// The header of UDP, with a checksum of 0, and the number.
    fn write_datagram(&self, route: &Route, datagram: &mut [u8]) {
        let bytes = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        put(datagram, 0, route.src.port().to_be_bytes());
        put(datagram, 2, route.dst.port().to_be_bytes());
        put(datagram, 4, bytes.to_be_bytes());
        put(datagram, 6, [0, 0]);
        put(datagram, 8, MARK);
        put(datagram, 10, self.run.to_be_bytes());
        let [_, a, b, c] = self.device.to_be_bytes();
        put(datagram, 12, [self.kind as u8, a, b, c]);
        put(datagram, 16, self.sequence.to_be_bytes());
        let [_, _, time @ ..] = self.sent_ns.to_be_bytes();
        put(datagram, 20, time);
    }

    /// Reads an untagged frame: how its packet travelled, and its number. `None`: it is no numbered packet.
    pub(crate) fn read(frame: &[u8]) -> Option<(Route, Number)> {
        let (src, dst, datagram): (IpAddr, IpAddr, _) = match (be32(frame, 12)? >> 8, *frame.get(20)?) {
            (0x0008_0045, _) if *frame.get(23)? == UDP => {
                let end = |at| be32(frame, at).map(|ip| IpAddr::V4(ip.into()));
                (end(26)?, end(30)?, frame.get(ETHERNET.checked_add(IPV4_HEADER)?..)?)
            }
            (0x0086_dd60, UDP) => {
                let end = |at| Some(IpAddr::V6(Ipv6Addr::from(*frame.get(at..)?.first_chunk::<16>()?)));
                (end(22)?, end(38)?, frame.get(ETHERNET.checked_add(IPV6_HEADER)?..)?)
            }
            _ => return None,
        };
        let number = datagram.get(UDP_HEADER..)?.first_chunk::<NUMBER_BYTES>()?;
        let &[m, n, r, s, kind, a, b, c, q, w, e, t, ref time @ ..] = number;
        if [m, n] != MARK {
            return None;
        }
        let kind = [Kind::First, Kind::FromSubscriber, Kind::ToSubscriber]
            .into_iter()
            .find(|known| *known as u8 == kind)?;
        let route = Route {
            dst_mac: Mac(*frame.first_chunk()?),
            src_mac: Mac(*frame.get(6..)?.first_chunk()?),
            src: SocketAddr::new(src, be16(datagram, 0)?),
            dst: SocketAddr::new(dst, be16(datagram, 2)?),
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
        let route = Route { src: end("[2001:db8::2]:49152"), dst: end("[2001:db8:1::2]:7"), ..route };
        let mut frame = [0xff; SHORTEST_FRAME6];
        number.write(&route, &mut frame);
        assert_eq!(Number::read(&frame), Some((route, number)));
        let pseudo = checksum::pseudo_header(&frame[22..54], UDP, frame.len() - 54);
        assert_eq!(checksum::fold(checksum::sum(&frame[54..]) + pseudo), 0xffff);
        for len in 0..SHORTEST_FRAME6 {
            assert_eq!(Number::read(&frame[..len]), None, "{len} bytes");
        }
    }
}
