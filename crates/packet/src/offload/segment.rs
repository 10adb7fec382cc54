//! A large frame of TCP or UDP is cut into the segments that it stands for, each with headers of its own.
//!
//! ```text
//!  | Ethernet, IP, TCP | 1 2 3 |   >   | E, IP, TCP | 1 |, | E, IP, TCP | 2 |, | E, IP, TCP | 3 |
//! ```
//! The headers are read from the frame, whatever else is said of it. No stack makes more segments of one frame than
//! [`MOST`]: a sender that claims more wants the work of them all for the price of one.
//! Source: net/ipv4/tcp_offload.c (tcp_gso_segment), udp_offload.c (__udp_gso_segment), af_inet.c (inet_gso_segment).

use super::checksum::not_zero;
use super::virtio::{Kind, Large};
use super::{TCP_CHECKSUM_AT, Transport, UDP_CHECKSUM_AT};
use crate::checksum::{fold, sum, write_ipv4};
use crate::fields::{be16, be32, put};
use crate::headers::{TCP, UDP, words};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// Segments of a frame: 64 KiB of the least that TCP sends at once (TCP_MIN_GSO_SIZE of include/net/tcp.h, 8 bytes).
pub const MOST: usize = 8192;

/// A large frame, and how far it has been cut. It does not hold the frame, which is given to each call.
#[derive(Debug, Clone, Copy)]
pub struct Segments {
    transport: Transport,
    kind: Kind,
    /// Where the payload begins.
    payload_at: usize,
    /// Bytes of payload in a segment.
    size: usize,
    /// The segment that is next.
    next: usize,
}

#[expect(clippy::arithmetic_side_effects, reason = "places in a frame, and at most 8192 segments of 16 bits")]
impl Segments {
    /// `None` where the frame is not what it is said to be, the packet is in a tunnel, or it stands for more than [`MOST`].
    pub fn of(frame: &[u8], large: Large) -> Option<Segments> {
        let transport = Transport::of(frame)?;
        let bytes = frame.get(transport.at..transport.end)?;
        let (least, header) = match (large.kind, transport.protocol) {
            (Kind::Tcp, TCP) => (20, words(bytes.get(12)? >> 4)),
            (Kind::Udp, UDP) => (8, 8),
            _ => return None,
        };
        let size = usize::from(large.payload.get());
        let payload = bytes.len().checked_sub(header).filter(|_| header >= least)?;
        let payload_at = transport.at + header;
        (payload.div_ceil(size) <= MOST).then_some(Segments {
            transport,
            kind: large.kind,
            payload_at,
            size,
            next: 0,
        })
    }

    /// Payload of the next segment, in the frame; `None` after the last one. A frame without payload is one segment.
    fn payload(&self) -> Option<(usize, usize)> {
        let end = self.transport.end;
        let start = self.payload_at + self.next * self.size;
        (self.next == 0 || start < end).then(|| (start, end.min(start + self.size)))
    }

    /// Length of the next segment with its headers; `None` after the last one.
    pub fn next_bytes(&self) -> Option<usize> {
        self.payload().map(|(start, end)| self.payload_at + end - start)
    }

    /// Leaves the next segment out.
    pub fn skip_next(&mut self) {
        self.next += 1;
    }

    /// Writes the next segment of the frame, over as many bytes as [`Segments::next_bytes`] said; false, and no more is
    /// written, if there are others, or if it is another frame.
    #[must_use]
    pub fn write_next(&mut self, frame: &[u8], into: &mut [u8]) -> bool {
        let Some((start, end)) = self.payload() else { return false };
        let from = (frame.get(..self.payload_at), frame.get(start..end));
        let (Some(from), Some(to)) = (from.0.zip(from.1), into.split_at_mut_checked(self.payload_at)) else {
            return false;
        };
        if from.1.len() != to.1.len() {
            return false;
        }
        to.0.copy_from_slice(from.0);
        to.1.copy_from_slice(from.1);
        self.write_ip(into);
        match self.kind {
            Kind::Tcp => self.write_tcp(into, end == self.transport.end),
            Kind::Udp => self.write_udp(into),
        }
        self.next += 1;
        true
    }

    /// Lengths, and the number of a packet of IPv4.
    fn write_ip(&self, segment: &mut [u8]) {
        let Transport { ip, at, is_v4, .. } = self.transport;
        let Some(header) = segment.get(ip..) else { return };
        let (total, number) = (header.len() as u16, be16(header, 4).unwrap_or_default());
        if !is_v4 {
            return put(segment, ip + 4, total.saturating_sub(40).to_be_bytes());
        }
        put(segment, ip + 2, total.to_be_bytes());
        put(segment, ip + 4, number.wrapping_add(self.next as u16).to_be_bytes());
        if let Some(header) = segment.get_mut(ip..at) {
            write_ipv4(header);
        }
    }

    fn write_tcp(&self, segment: &mut [u8], is_last: bool) {
        let at = self.transport.at;
        let sequence = be32(segment, at + 4).unwrap_or_default();
        put(segment, at + 4, sequence.wrapping_add((self.next * self.size) as u32).to_be_bytes());
        // The first answers a congestion signal, the last ends what was written at once.
        let first = if self.next == 0 { 0 } else { CWR };
        let last = if is_last { 0 } else { FIN | PSH };
        if let Some(flags) = segment.get_mut(at + 13) {
            *flags &= !(first | last);
        }
        self.write_checksum(segment, TCP_CHECKSUM_AT);
    }

    fn write_udp(&self, segment: &mut [u8]) {
        let at = self.transport.at;
        let bytes = segment.len().saturating_sub(at) as u16;
        put(segment, at + 4, bytes.to_be_bytes());
        // Zero: the sender wants none.
        if be16(segment, at + UDP_CHECKSUM_AT) != Some(0) {
            self.write_checksum(segment, UDP_CHECKSUM_AT);
        }
    }

    fn write_checksum(&self, segment: &mut [u8], offset: usize) {
        let at = self.transport.at;
        let pseudo = self.transport.pseudo_header(segment, segment.len().saturating_sub(at));
        let Some(transport) = segment.get_mut(at..) else { return };
        put(transport, offset, [0; 2]);
        let checksum = not_zero(!fold(pseudo + sum(transport)), offset);
        put(transport, offset, checksum.to_be_bytes());
    }
}
