//! Packets of discovery (RFC 2516, section 5).
//!
//! ```text
//! destination: 6 | source: 6 | 0x8863 | 0x11 | code: 1 | session id: 2 | length: 2 | tags
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use super::tags::{SERVICE_NAME, TagList};
use super::{DISCOVERY, VERSION_TYPE};
use crate::drops::DropReason;
use crate::mac::Mac;

/// Most bytes of a PADI behind the Ethernet header, so that a relay has room for its tag (RFC 2516, section 5.1).
const MOST_PADI_BYTES: usize = 1484;
/// Most tag bytes that are written: what a frame of 1500 bytes carries.
const MOST_TAG_BYTES: usize = 1494;

/// Code of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Initiation: a host looks for concentrators.
    Padi = 0x09,
    /// Offer of a concentrator.
    Pado = 0x07,
    /// Request of a host.
    Padr = 0x19,
    /// Session confirmation, or an error with id 0.
    Pads = 0x65,
    /// The session has ended.
    Padt = 0xa7,
}

impl Code {
    const ALL: [Code; 5] = [Code::Padi, Code::Pado, Code::Padr, Code::Pads, Code::Padt];
}

/// A packet with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// Destination.
    pub dst: Mac,
    /// Source.
    pub src: Mac,
    /// What it is.
    pub code: Code,
    /// The session; 0 in PADI, PADO, PADR and an error.
    pub session_id: u16,
    /// Its tags.
    pub tags: TagList,
}

impl Discovery {
    /// Reads an Ethernet frame without VLAN tags.
    ///
    /// # Errors
    /// It is no packet of discovery, or one that RFC 2516 forbids.
    pub fn read(frame: &[u8]) -> Result<Discovery, DropReason> {
        let (dst, rest) = frame.split_first_chunk().ok_or(DropReason::FrameCut)?;
        let (src, rest) = rest.split_first_chunk().ok_or(DropReason::FrameCut)?;
        let &[e, f, version_type, code, s, t, l, m, ref payload @ ..] = rest else {
            return Err(DropReason::FrameCut);
        };
        if u16::from_be_bytes([e, f]) != DISCOVERY {
            return Err(DropReason::NotPppoe);
        }
        let payload = payload.get(..u16::from_be_bytes([l, m]).into()).ok_or(DropReason::PppoeLength)?;
        let code = Code::ALL.into_iter().find(|known| *known as u8 == code);
        let code = code.filter(|_| version_type == VERSION_TYPE).ok_or(DropReason::PppoeCode)?;
        let src = Mac(*src);
        if !src.is_station() {
            return Err(DropReason::SourceMac);
        }
        let session_id = u16::from_be_bytes([s, t]);
        let packet = Discovery { dst: Mac(*dst), src, code, session_id, tags: TagList::read(payload)? };
        packet.check(payload.len())?;
        Ok(packet)
    }

    /// What section 5 says of each code.
    fn check(&self, payload_bytes: usize) -> Result<(), DropReason> {
        let is_request = matches!(self.code, Code::Padi | Code::Padr);
        if is_request && self.session_id != 0 {
            return Err(DropReason::PppoeCode);
        }
        if self.code == Code::Padi && payload_bytes.saturating_add(6) > MOST_PADI_BYTES {
            return Err(DropReason::PppoeLength);
        }
        if is_request && self.tags.all(SERVICE_NAME).nth(1).is_some() {
            return Err(DropReason::PppoeServiceName);
        }
        Ok(())
    }

    /// The Ethernet frame without VLAN tags; `None`: it is longer than 1500 bytes.
    pub fn write(&self) -> Option<Vec<u8>> {
        let tags = Some(self.tags.as_bytes()).filter(|tags| tags.len() <= MOST_TAG_BYTES)?;
        let len = u16::try_from(tags.len()).ok()?;
        let mut frame = Vec::with_capacity(tags.len().saturating_add(20));
        frame.extend(self.dst.0);
        frame.extend(self.src.0);
        frame.extend(DISCOVERY.to_be_bytes());
        frame.extend([VERSION_TYPE, self.code as u8]);
        frame.extend(self.session_id.to_be_bytes());
        frame.extend(len.to_be_bytes());
        frame.extend(tags);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tags::{HOST_UNIQ, RELAY_SESSION_ID};
    use super::*;

    fn padi(tags: &[(u16, &[u8])]) -> Discovery {
        let mut list = TagList::default();
        tags.iter().for_each(|(kind, value)| list.push(*kind, value));
        let src = Mac([2, 0, 0, 0, 0, 1]);
        Discovery { dst: Mac::BROADCAST, src, code: Code::Padi, session_id: 0, tags: list }
    }

    #[test]
    fn packets_are_read_as_they_are_written() {
        let packet = padi(&[(SERVICE_NAME, b""), (HOST_UNIQ, &[1, 2, 3, 4])]);
        let mut frame = packet.write().unwrap();
        assert_eq!(Discovery::read(&frame).as_ref(), Ok(&packet));
        frame.resize(60, 0xaa);
        assert_eq!(Discovery::read(&frame), Ok(packet), "padding is not read");
    }

    #[test]
    fn p4_a_padi_is_short_and_names_one_service() {
        let of = |tags: &[(u16, &[u8])]| Discovery::read(&padi(tags).write().unwrap()).err();
        let two = [(SERVICE_NAME, &b"a"[..]), (SERVICE_NAME, b"b")];
        assert_eq!(of(&two), Some(DropReason::PppoeServiceName));
        // 6 bytes of header, 4 of Service-Name, 4 of the relay's tag.
        for (len, wrong) in [(1470, None), (1471, Some(DropReason::PppoeLength))] {
            assert_eq!(of(&[(SERVICE_NAME, b""), (RELAY_SESSION_ID, &vec![0; len])]), wrong, "{len}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        let good = padi(&[(SERVICE_NAME, b"x")]).write().unwrap();
        for (at, byte, reason) in [
            (6, 0x03, DropReason::SourceMac),
            (13, 0x64, DropReason::NotPppoe),
            (14, 0x21, DropReason::PppoeCode),
            (15, 0x08, DropReason::PppoeCode),
            (17, 0x01, DropReason::PppoeCode),
            (19, 0xff, DropReason::PppoeLength),
            (19, 0x04, DropReason::PppoeTags),
        ] {
            let mut frame = good.clone();
            frame[at] = byte;
            assert_eq!(Discovery::read(&frame), Err(reason), "byte {at} = {byte:#x}");
        }
        for len in 0..good.len() {
            assert!(Discovery::read(&good[..len]).is_err(), "{len} bytes");
        }
    }
}
