//! Packets of LCP, the NCPs, PAP and CHAP, and the options of Configure packets (RFC 1661, sections 5 and 6).
//!
//! ```text
//! code: 1 | identifier: 1 | length: 2 | data           option: type: 1 | length with this header: 1 | data
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

/// Codes of LCP; those up to [`code::CODE_REJECT`] are of every protocol that is negotiated.
pub mod code {
    /// Configure-Request.
    pub const REQUEST: u8 = 1;
    /// Configure-Ack.
    pub const ACK: u8 = 2;
    /// Configure-Nak.
    pub const NAK: u8 = 3;
    /// Configure-Reject.
    pub const REJECT: u8 = 4;
    /// Terminate-Request.
    pub const TERMINATE_REQUEST: u8 = 5;
    /// Terminate-Ack.
    pub const TERMINATE_ACK: u8 = 6;
    /// Code-Reject.
    pub const CODE_REJECT: u8 = 7;
    /// Protocol-Reject.
    pub const PROTOCOL_REJECT: u8 = 8;
    /// Echo-Request.
    pub const ECHO_REQUEST: u8 = 9;
    /// Echo-Reply.
    pub const ECHO_REPLY: u8 = 10;
    /// Discard-Request.
    pub const DISCARD_REQUEST: u8 = 11;
}

/// Bytes before the data.
pub const HEADER_BYTES: usize = 4;

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What it is.
    pub code: u8,
    /// Number by which an answer finds its request.
    pub id: u8,
    /// What it says.
    pub data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the payload of a protocol; what follows the packet is padding. `None`: its length is wrong.
    pub fn read(payload: &'a [u8]) -> Option<Packet<'a>> {
        let &[code, id, a, b, ..] = payload else { return None };
        let data = payload.get(HEADER_BYTES..u16::from_be_bytes([a, b]).into())?;
        Some(Packet { code, id, data })
    }

    /// The payload of a protocol. Data above 65,531 bytes is cut.
    pub fn write(&self) -> Vec<u8> {
        let len = u16::try_from(self.data.len().saturating_add(HEADER_BYTES)).unwrap_or(u16::MAX);
        let [a, b] = len.to_be_bytes();
        let mut bytes = vec![self.code, self.id, a, b];
        bytes.extend(self.data.iter().take(usize::from(len).saturating_sub(HEADER_BYTES)));
        bytes
    }
}

/// Options in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionList {
    bytes: Vec<u8>,
}

impl OptionList {
    /// Reads the data of a Configure packet; `None`: a length contradicts the rest.
    pub fn read(data: &[u8]) -> Option<OptionList> {
        let mut rest = data;
        while let [_, len, ..] = rest {
            rest = rest.get(usize::from(*len).max(2)..).filter(|_| *len >= 2)?;
        }
        rest.is_empty().then(|| OptionList { bytes: data.to_vec() })
    }

    /// Adds an option behind the others; a value above 253 bytes is cut.
    pub fn push(&mut self, kind: u8, value: &[u8]) {
        let len = u8::try_from(value.len().saturating_add(2)).unwrap_or(u8::MAX);
        self.bytes.extend([kind, len]);
        self.bytes.extend(value.iter().take(usize::from(len).saturating_sub(2)));
    }

    /// Type and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let [kind, len, behind @ ..] = rest else { return None };
            let (value, behind) = behind.split_at_checked(usize::from(*len).checked_sub(2)?)?;
            rest = behind;
            Some((*kind, value))
        })
    }

    /// The value of the first option of a type.
    pub fn get(&self, kind: u8) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The value of an option with as many bytes.
    pub fn fixed<const N: usize>(&self, kind: u8) -> Option<[u8; N]> {
        self.get(kind)?.try_into().ok()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// As they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_are_written() {
        let packet = Packet { code: code::REQUEST, id: 7, data: &[1, 4, 5, 0xd4] };
        let mut bytes = packet.write();
        assert_eq!(bytes, [1, 7, 0, 8, 1, 4, 5, 0xd4]);
        for len in 0..bytes.len() {
            assert_eq!(Packet::read(&bytes[..len]), None, "{len} bytes");
        }
        bytes.extend([0; 9]);
        assert_eq!(Packet::read(&bytes), Some(packet), "padding is not read");
        for len in 0..4 {
            bytes[3] = len;
            assert_eq!(Packet::read(&bytes), None, "length {len}");
        }
    }

    #[test]
    fn options_keep_their_order_and_wrong_lengths_are_refused() {
        let bytes = [1, 4, 5, 0xd4, 5, 6, 1, 2, 3, 4, 7, 2];
        let options = OptionList::read(&bytes).unwrap();
        let all: Vec<_> = options.iter().collect();
        assert_eq!(all, [(1, &[5, 0xd4][..]), (5, &[1, 2, 3, 4]), (7, &[])]);
        assert_eq!((options.fixed::<2>(1), options.fixed::<4>(1)), (Some([5, 0xd4]), None));
        let mut copy = OptionList::default();
        options.iter().for_each(|(kind, value)| copy.push(kind, value));
        assert_eq!(copy, options);
        for bad in [&[1][..], &[1, 0], &[1, 1, 0], &[1, 3], &[7, 2, 9]] {
            assert_eq!(OptionList::read(bad), None, "{bad:?}");
        }
    }
}
