//! A large frame of TCP or UDP is cut into the segments that it stands for, each with headers of its own.
//!
//! ```text
//!  | Ethernet, IP, TCP | 1 2 3 |   >   | E, IP, TCP | 1 |, | E, IP, TCP | 2 |, | E, IP, TCP | 3 |
//! ```
//! The headers are read from the frame, whatever else is said of it.
//! Source: net/ipv4/tcp_offload.c (tcp_gso_segment), udp_offload.c (__udp_gso_segment), af_inet.c (inet_gso_segment).

use super::checksum::not_zero;
use super::virtio::{Kind, Large};
use super::{TCP_CHECKSUM_AT, Transport, UDP_CHECKSUM_AT, be16};
use crate::checksum::{fold, sum, write_ipv4};
use crate::headers::{TCP, UDP};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

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

impl Segments {
    /// `None` where the frame is not what it is said to be, or the packet is in a tunnel.
    pub fn of(frame: &[u8], large: Large) -> Option<Segments> {
        let transport = Transport::of(frame)?;
        let bytes = &frame[transport.at..transport.end];
        let header = match (large.kind, transport.protocol) {
            (Kind::Tcp, TCP) if bytes.len() >= 20 => usize::from(bytes[12] >> 4) * 4,
            (Kind::Udp, UDP) => 8,
            _ => return None,
        };
        let least = if large.kind == Kind::Tcp { 20 } else { 8 };
        let payload_at = transport.at + header;
        let fits = header >= least && payload_at <= transport.end;
        let size = usize::from(large.payload.get());
        fits.then_some(Segments { transport, kind: large.kind, payload_at, size, next: 0 })
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

    /// Writes the next segment of the frame.
    ///
    /// # Panics
    /// If `into` is not as long as [`Segments::next_bytes`] said.
    pub fn write_next(&mut self, frame: &[u8], into: &mut [u8]) {
        let (start, end) = self.payload().expect("there is one more");
        let (headers, payload) = into.split_at_mut(self.payload_at);
        headers.copy_from_slice(&frame[..self.payload_at]);
        payload.copy_from_slice(&frame[start..end]);
        self.write_ip(into);
        match self.kind {
            Kind::Tcp => self.write_tcp(into, end == self.transport.end),
            Kind::Udp => self.write_udp(into),
        }
        self.next += 1;
    }

    /// Lengths, and the number of a packet of IPv4.
    fn write_ip(&self, segment: &mut [u8]) {
        let Transport { ip, at, is_v4, .. } = self.transport;
        let total = segment.len() - ip;
        if !is_v4 {
            segment[ip + 4..ip + 6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
            return;
        }
        let number = be16(segment, ip + 4).wrapping_add(self.next as u16);
        segment[ip + 2..ip + 4].copy_from_slice(&(total as u16).to_be_bytes());
        segment[ip + 4..ip + 6].copy_from_slice(&number.to_be_bytes());
        write_ipv4(&mut segment[ip..at]);
    }

    fn write_tcp(&self, segment: &mut [u8], is_last: bool) {
        let tcp = &mut segment[self.transport.at..];
        if let Some(number) = tcp[4..].first_chunk_mut() {
            let first = u32::from_be_bytes(*number);
            *number = first.wrapping_add((self.next * self.size) as u32).to_be_bytes();
        }
        // The first answers a congestion signal, the last ends what was written at once.
        let first = if self.next == 0 { 0 } else { CWR };
        let last = if is_last { 0 } else { FIN | PSH };
        tcp[13] &= !(first | last);
        self.write_checksum(segment, TCP_CHECKSUM_AT);
    }

    fn write_udp(&self, segment: &mut [u8]) {
        let udp = &mut segment[self.transport.at..];
        let bytes = udp.len() as u16;
        udp[4..6].copy_from_slice(&bytes.to_be_bytes());
        // Zero: the sender wants none.
        if be16(udp, UDP_CHECKSUM_AT) != 0 {
            self.write_checksum(segment, UDP_CHECKSUM_AT);
        }
    }

    fn write_checksum(&self, segment: &mut [u8], offset: usize) {
        let at = self.transport.at;
        let pseudo = self.transport.pseudo_header(segment, segment.len() - at);
        let transport = &mut segment[at..];
        transport[offset..offset + 2].fill(0);
        let checksum = not_zero(!fold(pseudo + sum(transport)), offset);
        transport[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}
