//! Session frames (RFC 2516, section 6).
//!
//! ```text
//! destination: 6 | source: 6 | 0x8864 | 0x11 | 0x00 | session id: 2 | length: 2 | PPP protocol: 2 | payload
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use super::{ETHERNET_BYTES, SESSION, VERSION_TYPE};
use crate::drops::DropReason;
use crate::mac::Mac;

/// A session frame with its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionFrame<'a> {
    /// Destination.
    pub dst: Mac,
    /// Source.
    pub src: Mac,
    /// The session.
    pub session_id: u16,
    /// Protocol of PPP (RFC 1661, section 2), never compressed (RFC 2516, section 7).
    pub protocol: u16,
    /// What the protocol carries.
    pub payload: &'a [u8],
}

impl<'a> SessionFrame<'a> {
    /// Reads an Ethernet frame without VLAN tags.
    ///
    /// # Errors
    /// It is no session frame, or is cut.
    pub fn read(frame: &'a [u8]) -> Result<SessionFrame<'a>, DropReason> {
        let (dst, rest) = frame.split_first_chunk().ok_or(DropReason::FrameCut)?;
        let (src, rest) = rest.split_first_chunk().ok_or(DropReason::FrameCut)?;
        let &[e, f, version_type, code, s, t, l, m, ref payload @ ..] = rest else {
            return Err(DropReason::FrameCut);
        };
        if u16::from_be_bytes([e, f]) != SESSION {
            return Err(DropReason::NotPppoe);
        }
        if (version_type, code) != (VERSION_TYPE, 0) {
            return Err(DropReason::PppoeCode);
        }
        let payload = payload.get(..u16::from_be_bytes([l, m]).into()).ok_or(DropReason::PppoeLength)?;
        let [p, q, payload @ ..] = payload else { return Err(DropReason::PppoeLength) };
        let src = Mac(*src);
        if !src.is_station() {
            return Err(DropReason::SourceMac);
        }
        let (session_id, protocol) = (u16::from_be_bytes([s, t]), u16::from_be_bytes([*p, *q]));
        Ok(SessionFrame { dst: Mac(*dst), src, session_id, protocol, payload })
    }

    /// The Ethernet frame without VLAN tags. A payload above 65,533 bytes is cut.
    pub fn write(&self) -> Vec<u8> {
        let len = u16::try_from(self.payload.len().saturating_add(2)).unwrap_or(u16::MAX);
        let mut frame = Vec::with_capacity(self.payload.len().saturating_add(ETHERNET_BYTES + 8));
        frame.extend(self.dst.0);
        frame.extend(self.src.0);
        frame.extend(SESSION.to_be_bytes());
        frame.extend([VERSION_TYPE, 0]);
        frame.extend(self.session_id.to_be_bytes());
        frame.extend(len.to_be_bytes());
        frame.extend(self.protocol.to_be_bytes());
        frame.extend(self.payload.iter().take(usize::from(len).saturating_sub(2)));
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let [dst, src] = [Mac([2, 0, 0, 0, 0, 0xfe]), Mac([2, 0, 0, 0, 0, 1])];
        let sent =
            SessionFrame { dst, src, session_id: 7, protocol: 0xc021, payload: &[9, 1, 0, 8, 0, 0, 0, 0] };
        let mut frame = sent.write();
        assert_eq!(SessionFrame::read(&frame), Ok(sent));
        for len in 0..frame.len() {
            assert!(SessionFrame::read(&frame[..len]).is_err(), "{len} bytes");
        }
        frame.resize(60, 0xaa);
        assert_eq!(SessionFrame::read(&frame), Ok(sent), "padding is not read");
        for (at, byte, reason) in [
            (6, 0x03, DropReason::SourceMac),
            (13, 0x63, DropReason::NotPppoe),
            (14, 0x12, DropReason::PppoeCode),
            (15, 0x09, DropReason::PppoeCode),
            (18, 0x10, DropReason::PppoeLength),
            (19, 0x01, DropReason::PppoeLength),
        ] {
            let mut wrong = frame.clone();
            wrong[at] = byte;
            assert_eq!(SessionFrame::read(&wrong), Err(reason), "byte {at} = {byte:#x}");
        }
    }
}
