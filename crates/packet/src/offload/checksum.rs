//! Checksums that a sender left to be finished ("partial"): the field holds the sum of the pseudo header alone.
//!
//! Source: skb_checksum_help() and skb_crc32c_csum_help() of net/core/dev.c; for SCTP RFC 9260, appendix A.

use super::{SCTP_CHECKSUM_AT, Transport, UDP_CHECKSUM_AT, tunnel};
use crate::checksum::{fold, sum};
use crate::fields::put;
use crate::headers::{SCTP, UDP};

/// A checksum to be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// Where the bytes begin that it covers, up to the end of the frame.
    pub start: usize,
    /// Where it is behind `start`.
    pub offset: usize,
}

/// Finishes a checksum; false, and nothing is changed, where it is outside of the frame.
pub fn finish(frame: &mut [u8], Partial { start, offset }: Partial) -> bool {
    let Some(covered) = frame.get_mut(start..) else { return false };
    if offset == SCTP_CHECKSUM_AT {
        return finish_sctp(covered);
    }
    if offset.checked_add(2).is_none_or(|end| end > covered.len()) {
        return false;
    }
    // What stands in the field is part of the sum: the pseudo header.
    let checksum = not_zero(!fold(sum(covered)), offset);
    put(covered, offset, checksum.to_be_bytes());
    true
}

/// Zero in UDP says that there is no checksum; all ones are as much.
pub(super) fn not_zero(checksum: u16, offset: usize) -> u16 {
    if checksum == 0 && offset == UDP_CHECKSUM_AT { 0xffff } else { checksum }
}

/// Finishes the checksum of a frame that may be partial: it is if the field holds the sum of the pseudo header. A frame with its
/// checksum is never changed: if the two are the same, so is what is finished.
///
/// So is that of a packet in a tunnel (VXLAN, Geneve, GRE, IP in IP), one tunnel deep. A fragment is not looked at.
#[inline]
pub fn finish_if_partial(frame: &mut [u8]) {
    let Some(transport) = Transport::of(frame) else { return };
    if let Some(inner) = tunnel::inside(frame, &transport)
        && looks_partial(frame, &inner)
    {
        finish_found(frame, &inner);
    }
    if looks_partial(frame, &transport) {
        finish_found(frame, &transport);
    }
}

#[inline]
fn looks_partial(frame: &[u8], transport: &Transport) -> bool {
    let Transport { protocol, at, end, .. } = *transport;
    let Some(offset) = transport.checksum_at() else { return false };
    let field = frame.get(at..end).and_then(|bytes| bytes.get(offset..)).unwrap_or_default();
    if protocol == SCTP {
        return field.first_chunk() == Some(&[0; 4]);
    }
    let Some(&field) = field.first_chunk() else { return false };
    let field = u16::from_be_bytes(field);
    if protocol == UDP && field == 0 {
        return false;
    }
    let pseudo = fold(transport.pseudo_header(frame, end.saturating_sub(at)));
    // Both are zero in ones' complement.
    field == pseudo || (field == 0 && pseudo == 0xffff)
}

#[cold]
fn finish_found(frame: &mut [u8], transport: &Transport) {
    if let (Some(offset), Some(packet)) = (transport.checksum_at(), frame.get_mut(..transport.end)) {
        finish(packet, Partial { start: transport.at, offset });
    }
}

/// The CRC of a whole SCTP packet, in which it counts as zero.
fn finish_sctp(packet: &mut [u8]) -> bool {
    if packet.len() < SCTP_CHECKSUM_AT + 4 {
        return false;
    }
    put(packet, SCTP_CHECKSUM_AT, [0; 4]);
    let crc = crc32c(packet);
    put(packet, SCTP_CHECKSUM_AT, crc.to_le_bytes());
    true
}

/// CRC-32C (Castagnoli).
#[expect(clippy::indexing_slicing, reason = "there is an entry for each byte")]
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| CRC32C[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[expect(clippy::indexing_slicing, reason = "the compiler does it")]
static CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};
