//! What a sender's stack leaves to a network card, for frames that never meet one: checksums of the transport, and large
//! frames that are to be cut into segments.
//!
//! ```text
//!  | headers, partial checksum | 64 KB of payload |   + what the kernel says of it ([`virtio`])
//!    > | headers, checksum | segment |, | headers, checksum | segment |, ...
//! ```
//! Whatever a sender says of a frame, its headers decide. Lengths are those of frames and of fields of 16 bits: their sums are
//! far from the end of a usize.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

pub mod checksum;
pub mod segment;
mod tunnel;
pub mod virtio;

use crate::checksum::pseudo_header;
use crate::headers::{SCTP, TCP, UDP, extension_bytes, words};

/// VLAN tags of a frame that are read.
const MAX_TAGS: usize = 4;
/// IPv6 extension headers that are followed.
const MAX_EXTENSIONS: usize = 4;

/// Where the headers of a whole packet are in its frame. Invariant: `ip < at <= end <= frame.len()`, the fixed part of the
/// IP header is below `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transport {
    /// Where IP begins.
    ip: usize,
    /// Version 4, not 6.
    is_v4: bool,
    protocol: u8,
    /// Where the transport begins.
    at: usize,
    /// Where it ends: padding is behind it.
    end: usize,
}

#[expect(clippy::arithmetic_side_effects, reason = "places in a frame, and lengths of 16 bits")]
impl Transport {
    /// `None` for what is no IP, ends too early, or is a fragment: the checksum of a packet is not that of its pieces.
    #[inline]
    fn of(frame: &[u8]) -> Option<Transport> {
        Transport::of_ethernet(frame, 0)
    }

    /// The same of an Ethernet frame that begins at `start`.
    #[inline]
    fn of_ethernet(frame: &[u8], start: usize) -> Option<Transport> {
        let mut kind_at = start + 12;
        for _ in 0..=MAX_TAGS {
            match *frame.get(kind_at..)?.first_chunk()? {
                [0x08, 0x00] => return Transport::behind_v4(frame, kind_at + 2),
                [0x86, 0xdd] => return Transport::behind_v6(frame, kind_at + 2),
                [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00] => kind_at += 4,
                _ => return None,
            }
        }
        None
    }

    #[inline]
    fn behind_v4(frame: &[u8], ip: usize) -> Option<Transport> {
        let header = frame.get(ip..)?.first_chunk::<20>()?;
        let &[first, _, a, b, _, _, c, d, _, protocol, ..] = header;
        let (length, total) = (words(first & 15), u16::from_be_bytes([a, b]));
        let (at, end) = (ip + length, ip + usize::from(total));
        let is_fragment = u16::from_be_bytes([c, d]) & 0x3fff != 0;
        let fits = first >> 4 == 4 && length >= 20 && at <= end && end <= frame.len();
        (fits && !is_fragment).then_some(Transport { ip, is_v4: true, protocol, at, end })
    }

    #[inline]
    fn behind_v6(frame: &[u8], ip: usize) -> Option<Transport> {
        let header = frame.get(ip..)?.first_chunk::<40>()?;
        let end = ip + 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (mut protocol, mut at) = (header[6], ip + 40);
        for _ in 0..=MAX_EXTENSIONS {
            match protocol {
                // Hop by hop and destination options. A routing header changes the destination, a fragment is none of ours.
                0 | 60 => {
                    let &[next, length] = frame.get(at..)?.first_chunk()?;
                    protocol = next;
                    at += extension_bytes(length);
                }
                _ => {
                    let fits = header[0] >> 4 == 6 && at <= end && end <= frame.len();
                    return fits.then_some(Transport { ip, is_v4: false, protocol, at, end });
                }
            }
        }
        None
    }

    /// Where its checksum is behind `at`: of TCP and UDP the one of the Internet, of SCTP a CRC.
    fn checksum_at(&self) -> Option<usize> {
        match self.protocol {
            TCP => Some(TCP_CHECKSUM_AT),
            UDP => Some(UDP_CHECKSUM_AT),
            SCTP => Some(SCTP_CHECKSUM_AT),
            _ => None,
        }
    }

    /// Sum of its pseudo header, which says that the transport has so many bytes.
    #[inline]
    fn pseudo_header(&self, frame: &[u8], bytes: usize) -> u64 {
        // Of a length each that the compiler knows.
        let ip = frame.get(self.ip..).unwrap_or_default();
        let sum = if self.is_v4 {
            ip.first_chunk::<20>().map(|ip| pseudo_header(&ip[12..], self.protocol, bytes))
        } else {
            ip.first_chunk::<40>().map(|ip| pseudo_header(&ip[8..], self.protocol, bytes))
        };
        sum.unwrap_or_default()
    }
}

const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
const SCTP_CHECKSUM_AT: usize = 8;

#[cfg(test)]
mod tests;
