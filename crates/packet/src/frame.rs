//! Test frames: Ethernet, IP, UDP or TCP, and a signature.
//!
//! ```text
//! 14 Ethernet | 20 IPv4 or 40 IPv6 | 8 UDP | 18 signature | zero bytes
//! 14 Ethernet | 20 IPv4 or 40 IPv6 | 20 TCP, SYN | 6      | zero bytes
//! ```
//! The signature (little endian) says which frame this is and when it left:
//! `magic:16 stream:8 epoch:8 group:16 seq:32 time_ns:64`. A smallest frame with TCP has no room for it behind the
//! header. It is spread over those fields of a SYN that mean nothing or anything (RFC 9293, section 3.1), and 6 bytes
//! of data: sequence number = seq, acknowledgement (there is none) = magic, stream, epoch, window = group,
//! urgent pointer (nothing is urgent) and data = time.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use serde::{Deserialize, Serialize};

use crate::checksum::{fold, pseudo_header, sum, write_ipv4};
use crate::fields::be16;
use crate::flow::{Flow, IpVersion};
use crate::headers::{SYN, TCP, UDP};
use crate::size::FCS_BYTES;

/// First two bytes of a signature, as a little-endian number.
pub const MAGIC: u16 = 0x4557;
/// Bit of a signature's stream: not a test frame, but a broadcast that goes along with them.
pub const BROADCAST: u8 = 0x80;
/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 18;
/// Hop limit of test frames.
pub(crate) const HOP_LIMIT: u8 = 64;

/// A MAC address.
pub type Mac = [u8; 6];

/// What test frames carry above IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Transport {
    /// UDP.
    #[default]
    Udp,
    /// TCP segments that open a connection, each of them.
    Syn,
}

named!(Transport, "transport", "udp" => Udp, "syn" => Syn);

impl Transport {
    /// Its number in the IP header.
    pub const fn protocol(self) -> u8 {
        match self {
            Transport::Udp => UDP,
            Transport::Syn => TCP,
        }
    }

    /// What its checksum covers of its header that is the same in all frames.
    pub const fn fixed_sum(self) -> u16 {
        match self {
            Transport::Udp => 0,
            Transport::Syn => u16::from_be_bytes(SYN_WORD),
        }
    }

    /// Where the checksum is in its header.
    const fn checksum_at(self) -> usize {
        match self {
            Transport::Udp => 6,
            Transport::Syn => 16,
        }
    }

    /// The pieces of the signature in order: where each is in the header, or behind it, and its length.
    const fn signature_at(self) -> &'static [(usize, usize)] {
        match self {
            Transport::Udp => &[(8, SIGNATURE_BYTES)],
            Transport::Syn => &[(8, 4), (14, 2), (4, 4), (18, 8)],
        }
    }
}

/// Fourth word of a TCP header without options: its length, and SYN alone.
const SYN_WORD: [u8; 2] = [5 << 4, SYN];
/// Bytes of a transport header and the signature, whichever it is.
const SIGNED_BYTES: usize = 8 + SIGNATURE_BYTES;

/// Bytes of Ethernet and IP header.
pub const fn transport_at(ip: IpVersion) -> usize {
    match ip {
        IpVersion::V4 => 14 + 20,
        IpVersion::V6 => 14 + 40,
    }
}

/// Bytes of Ethernet, IP and UDP header.
#[expect(clippy::arithmetic_side_effects, reason = "54 at most")]
pub const fn header_bytes(ip: IpVersion) -> usize {
    transport_at(ip) + 8
}

/// Smallest frame size in bytes, FCS included: 64 for IPv4, 84 for IPv6 (RFC 8219, section 4).
#[expect(clippy::arithmetic_side_effects, reason = "less than 100")]
pub const fn min_frame_bytes(ip: IpVersion) -> u16 {
    (transport_at(ip) + SIGNED_BYTES + FCS_BYTES) as u16
}

/// What identifies a test frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signature {
    /// Direction: 0 leaves at side a, 1 at side b; with [`BROADCAST`] set it is no test frame.
    pub stream: u8,
    /// Number of the trial, modulo 256.
    pub epoch: u8,
    /// Flow group.
    pub group: u16,
    /// Number of the frame within its group.
    pub seq: u32,
    /// Departure, CLOCK_MONOTONIC ns.
    pub time_ns: u64,
}

impl Signature {
    /// Its 18 bytes, as they follow a UDP header.
    pub(crate) fn to_bytes(self) -> [u8; SIGNATURE_BYTES] {
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = self.stream;
        bytes[3] = self.epoch;
        bytes[4..6].copy_from_slice(&self.group.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.seq.to_le_bytes());
        bytes[10..18].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes
    }

    /// Reads it back; `None` without the magic number.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[m0, m1, stream, epoch, g0, g1, s0, s1, s2, s3, ref time @ ..] =
            bytes.first_chunk::<SIGNATURE_BYTES>()?;
        (u16::from_le_bytes([m0, m1]) == MAGIC).then(|| Signature {
            stream,
            epoch,
            group: u16::from_le_bytes([g0, g1]),
            seq: u32::from_le_bytes([s0, s1, s2, s3]),
            time_ns: u64::from_le_bytes(*time),
        })
    }
}

/// Where the frames of a stream come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// IP version.
    pub ip: IpVersion,
    /// MAC of the tester's port.
    pub src_mac: Mac,
    /// MAC of the next hop.
    pub dst_mac: Mac,
    /// Upper 12 bytes of the IPv6 source (unused for IPv4).
    pub src_prefix: [u8; 12],
    /// Upper 12 bytes of the IPv6 destination.
    pub dst_prefix: [u8; 12],
    /// IPv4 says that routers may not cut the packet (DF), as hosts do; the test frames of RFC 2544 do not.
    pub keeps_whole: bool,
}

/// The bit of the flags of IPv4, in their first byte.
const DONT_FRAGMENT: u8 = 0x40;

impl Ends {
    /// Of IPv4, with the addresses of the flow alone.
    pub fn v4(src_mac: Mac, dst_mac: Mac) -> Ends {
        Ends {
            ip: IpVersion::V4,
            src_mac,
            dst_mac,
            src_prefix: [0; 12],
            dst_prefix: [0; 12],
            keeps_whole: false,
        }
    }

    /// Ethernet, IP and transport header of a frame of `size` bytes (FCS included), without the transport's checksum and
    /// what belongs to the signature.
    #[expect(clippy::indexing_slicing, reason = "the header of IPv4 has just been written")]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a size has room for the headers: at least `min_frame_bytes`"
    )]
    pub fn header(&self, transport: Transport, flow: &Flow, size: u16) -> Vec<u8> {
        let ip_bytes = size as usize - FCS_BYTES - 14;
        let mut frame = Vec::with_capacity(64);
        frame.extend_from_slice(&self.dst_mac);
        frame.extend_from_slice(&self.src_mac);
        let protocol = transport.protocol();
        let above_ip = match self.ip {
            IpVersion::V4 => {
                frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
                frame.extend_from_slice(&(ip_bytes as u16).to_be_bytes());
                let flags = if self.keeps_whole { DONT_FRAGMENT } else { 0 };
                frame.extend_from_slice(&[0, 0, flags, 0, HOP_LIMIT, protocol, 0, 0]);
                frame.extend_from_slice(&flow.src.to_be_bytes());
                frame.extend_from_slice(&flow.dst.to_be_bytes());
                write_ipv4(&mut frame[14..34]);
                ip_bytes - 20
            }
            IpVersion::V6 => {
                frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend_from_slice(&((ip_bytes - 40) as u16).to_be_bytes());
                frame.extend_from_slice(&[protocol, HOP_LIMIT]);
                frame.extend_from_slice(&self.src_prefix);
                frame.extend_from_slice(&flow.src.to_be_bytes());
                frame.extend_from_slice(&self.dst_prefix);
                frame.extend_from_slice(&flow.dst.to_be_bytes());
                ip_bytes - 40
            }
        };
        frame.extend_from_slice(&flow.sport.to_be_bytes());
        frame.extend_from_slice(&flow.dport.to_be_bytes());
        match transport {
            Transport::Udp => {
                frame.extend_from_slice(&(above_ip as u16).to_be_bytes());
                frame.extend_from_slice(&[0, 0]);
            }
            Transport::Syn => {
                frame.extend_from_slice(&[0; 8]);
                frame.extend_from_slice(&SYN_WORD);
                frame.extend_from_slice(&[0; 6]);
            }
        }
        frame
    }

    /// A whole test frame of `size` bytes with UDP, FCS included but not written.
    pub fn frame(&self, flow: &Flow, size: u16, signature: Signature) -> Vec<u8> {
        self.carry(Transport::Udp, flow, size, signature)
    }

    /// The same with another transport.
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "a size has room for the headers: at least `min_frame_bytes`"
    )]
    pub fn carry(&self, transport: Transport, flow: &Flow, size: u16, signature: Signature) -> Vec<u8> {
        let mut frame = self.header(transport, flow, size);
        frame.resize(size as usize - FCS_BYTES, 0);
        let (at, signature) = (transport_at(self.ip), signature.to_bytes());
        let mut rest = &signature[..];
        for &(offset, bytes) in transport.signature_at() {
            let (piece, others) = rest.split_at(bytes);
            frame[at + offset..][..bytes].copy_from_slice(piece);
            rest = others;
        }
        let (below, above_ip) = frame.split_at(at);
        let check = match !transport_sum(&below[addresses(self.ip)], above_ip, transport) {
            0 if transport == Transport::Udp => 0xffff,
            check => check,
        };
        frame[at + transport.checksum_at()..][..2].copy_from_slice(&check.to_be_bytes());
        frame
    }
}

/// What the checksum of a transport covers, added up.
fn transport_sum(addresses: &[u8], above_ip: &[u8], transport: Transport) -> u16 {
    fold(pseudo_header(addresses, transport.protocol(), above_ip.len()) + sum(above_ip))
}

/// Where the addresses of an IP header start in a frame, and where they end.
fn addresses(ip: IpVersion) -> std::ops::Range<usize> {
    match ip {
        IpVersion::V4 => 26..34,
        IpVersion::V6 => 22..54,
    }
}

/// What a received frame turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A test frame with right checksums.
    Test(Signature),
    /// A test frame with a wrong checksum or length.
    Corrupted,
    /// Something else.
    Other,
}

/// Checks a received frame (without FCS) and reads its signature.
#[expect(clippy::arithmetic_side_effects, reason = "a length of 16 bits, and 40")]
pub fn parse(frame: &[u8]) -> Parsed {
    let Some((ip, transport, ip_bytes)) = ip_header(frame) else { return Parsed::Other };
    let at = transport_at(ip);
    let Some(signature) = frame.get(at..).and_then(|above_ip| signature(above_ip, transport)) else {
        return Parsed::Other;
    };
    match frame.get(..14 + ip_bytes).and_then(|frame| frame.split_at_checked(at)) {
        Some((below, above_ip)) if is_right(ip, transport, below, above_ip) => Parsed::Test(signature),
        _ => Parsed::Corrupted,
    }
}

/// Whether the checksums of a test frame are right, which has all of its signature.
fn is_right(ip: IpVersion, transport: Transport, below: &[u8], above_ip: &[u8]) -> bool {
    let (Some(header), Some(addresses)) = (below.get(14..), below.get(addresses(ip))) else { return false };
    let Some(signed) = above_ip.first_chunk::<SIGNED_BYTES>() else { return false };
    let is_used = transport == Transport::Syn || signed[6..8] != [0, 0];
    (ip == IpVersion::V6 || fold(sum(header)) == 0xffff)
        && (!is_used || transport_sum(addresses, above_ip, transport) == 0xffff)
}

/// The signature of a frame, from its transport header on.
fn signature(above_ip: &[u8], transport: Transport) -> Option<Signature> {
    let above_ip = above_ip.first_chunk::<SIGNED_BYTES>()?;
    if transport == Transport::Syn && above_ip[12..14] != SYN_WORD {
        return None;
    }
    let mut bytes = [0; SIGNATURE_BYTES];
    let mut rest = &mut bytes[..];
    for &(offset, n) in transport.signature_at() {
        let (piece, others) = rest.split_at_mut(n);
        piece.copy_from_slice(above_ip.get(offset..)?.get(..n)?);
        rest = others;
    }
    Signature::from_bytes(&bytes)
}

/// Turns a frame that [`parse`] accepted around: both ends of MAC, IP and transport swapped, hop limit restored.
pub fn reflect(frame: &mut [u8]) {
    let turn = |ends: &mut [u8]| {
        let (one, other) = ends.split_at_mut(ends.len() / 2);
        one.swap_with_slice(other);
    };
    match ip_header(frame) {
        Some((IpVersion::V4, ..)) => {
            let Some(headers) = frame.first_chunk_mut::<38>() else { return };
            turn(&mut headers[..12]);
            turn(&mut headers[26..34]);
            turn(&mut headers[34..]);
            headers[22] = HOP_LIMIT;
            write_ipv4(&mut headers[14..34]);
        }
        Some((IpVersion::V6, ..)) => {
            let Some(headers) = frame.first_chunk_mut::<58>() else { return };
            turn(&mut headers[..12]);
            turn(&mut headers[22..54]);
            turn(&mut headers[54..]);
            headers[21] = HOP_LIMIT;
        }
        None => {}
    }
}

/// IP version, transport, and IP length in bytes, header included, of a frame with UDP or TCP.
fn ip_header(frame: &[u8]) -> Option<(IpVersion, Transport, usize)> {
    let be16 = |at: usize| be16(frame, at).map(usize::from);
    let transport = |at: usize| match *frame.get(at)? {
        UDP => Some(Transport::Udp),
        TCP => Some(Transport::Syn),
        _ => None,
    };
    match be16(12)? {
        0x0800 if *frame.get(14)? == 0x45 => Some((IpVersion::V4, transport(23)?, be16(16)?)),
        0x86dd => Some((IpVersion::V6, transport(20)?, be16(18)?.saturating_add(40))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;

    fn ends(ip: IpVersion) -> Ends {
        Ends {
            ip,
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_prefix: *b"\x20\x01\x0d\xb8\x00\x18\0\0\0\0\0\0",
            dst_prefix: *b"\x20\x01\x0d\xb8\x00\x19\0\0\0\0\0\0",
            keeps_whole: true,
        }
    }

    const KINDS: [(IpVersion, Transport); 4] = [
        (IpVersion::V4, Transport::Udp),
        (IpVersion::V6, Transport::Udp),
        (IpVersion::V4, Transport::Syn),
        (IpVersion::V6, Transport::Syn),
    ];
    const FLOW: Flow = Flow { src: 0xc612_8001, dst: 0xc613_8002, sport: 1024, dport: 49151, group: 3 };
    const SIGNATURE: Signature =
        Signature { stream: 1, epoch: 200, group: 3, seq: 0xdead_beef, time_ns: 0x0123_4567_89ab_cdef };

    #[test]
    fn frames_are_read_back() {
        for (ip, transport) in KINDS {
            for size in [min_frame_bytes(ip), 85, 128, 1517, 1518, 9018] {
                let frame = ends(ip).carry(transport, &FLOW, size, SIGNATURE);
                assert_eq!(frame.len(), size as usize - 4);
                assert_eq!(parse(&frame), Parsed::Test(SIGNATURE), "IPv{ip} {transport} {size}");
            }
        }
    }

    #[test]
    fn smallest_frames_are_those_of_rfc2544_and_rfc8219() {
        assert_eq!((min_frame_bytes(IpVersion::V4), min_frame_bytes(IpVersion::V6)), (64, 84));
    }

    #[test]
    fn a_syn_is_one_for_anybody_who_reads_it() {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let mut frame = ends(ip).carry(Transport::Syn, &FLOW, min_frame_bytes(ip), SIGNATURE);
            let headers = headers::read(&frame).expect("readable");
            assert!(headers.opens() && headers.ports == (1024, 49151), "{headers:?}");
            frame[transport_at(ip) + 13] |= headers::ACK;
            assert_eq!(parse(&frame), Parsed::Other, "somebody else's answer, whatever its bytes are");
        }
    }

    #[test]
    fn any_flipped_bit_that_a_checksum_covers_is_noticed() {
        for (ip, transport) in KINDS {
            let good = ends(ip).carry(transport, &FLOW, 100, SIGNATURE);
            let covered = addresses(ip).start..good.len();
            for bit in covered.start * 8..covered.end * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(parse(&bad), Parsed::Test(SIGNATURE), "IPv{ip} {transport} bit {bit}");
            }
        }
    }

    #[test]
    fn a_reflected_frame_is_the_one_that_the_other_side_would_send() {
        for (ip, transport) in KINDS {
            let there = ends(ip);
            let back = Ends {
                src_mac: there.dst_mac,
                dst_mac: there.src_mac,
                src_prefix: there.dst_prefix,
                dst_prefix: there.src_prefix,
                ..there
            };
            let mut frame = there.carry(transport, &FLOW, 100, SIGNATURE);
            reflect(&mut frame);
            assert_eq!(frame, back.carry(transport, &FLOW.reversed(), 100, SIGNATURE), "IPv{ip} {transport}");
        }
    }

    #[test]
    fn no_input_panics() {
        for (ip, transport) in KINDS {
            let good = ends(ip).carry(transport, &FLOW, min_frame_bytes(ip), SIGNATURE);
            for n in 0..good.len() {
                assert_ne!(
                    parse(&good[..n]),
                    Parsed::Test(SIGNATURE),
                    "IPv{ip} {transport}: first {n} bytes"
                );
            }
        }
        assert_eq!(parse(&[0xff; 60]), Parsed::Other);
    }
}
