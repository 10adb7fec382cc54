//! Tags of discovery (RFC 2516, appendix A), in the order in which they were sent.
//!
//! ```text
//! type: 2 | length: 2 | value | ... | 0x0000: end of the list, optional
//! ```
//! Unknown tags are kept and ignored (RFC 2516, section 5).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::drops::DropReason;

/// End of the list.
pub const END_OF_LIST: u16 = 0x0000;
/// The service that is asked for or offered; empty: any.
pub const SERVICE_NAME: u16 = 0x0101;
/// Name of the access concentrator.
pub const AC_NAME: u16 = 0x0102;
/// Number by which a host finds the answer to its request; sent back unchanged.
pub const HOST_UNIQ: u16 = 0x0103;
/// Proof that a host received the PADO.
pub const AC_COOKIE: u16 = 0x0104;
/// Vendor-specific: 4 bytes of the enterprise number, then what the vendor defines.
pub const VENDOR: u16 = 0x0105;
/// Written by a relay; sent back unchanged.
pub const RELAY_SESSION_ID: u16 = 0x0110;
/// Largest PPP payload of the host (RFC 4638).
pub const PPP_MAX_PAYLOAD: u16 = 0x0120;
/// The service is refused.
pub const SERVICE_NAME_ERROR: u16 = 0x0201;
/// The access concentrator cannot begin a session.
pub const AC_SYSTEM_ERROR: u16 = 0x0202;
/// Another error; a text.
pub const GENERIC_ERROR: u16 = 0x0203;

/// Tags with their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagList {
    /// Type, length and value of each; no end.
    bytes: Vec<u8>,
}

impl TagList {
    /// Reads the payload of a discovery packet.
    ///
    /// # Errors
    /// A tag is longer than the rest of the packet.
    pub fn read(mut payload: &[u8]) -> Result<TagList, DropReason> {
        let mut tags = TagList::default();
        loop {
            match payload {
                [] | [0, 0, ..] => return Ok(tags),
                [a, b, c, d, rest @ ..] => {
                    let len = u16::from_be_bytes([*c, *d]);
                    let (value, behind) = rest.split_at_checked(len.into()).ok_or(DropReason::PppoeTags)?;
                    tags.push(u16::from_be_bytes([*a, *b]), value);
                    payload = behind;
                }
                _ => return Err(DropReason::PppoeTags),
            }
        }
    }

    /// Adds a tag behind the others. A value above 65,535 bytes is cut.
    pub fn push(&mut self, kind: u16, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.bytes.extend(kind.to_be_bytes());
        self.bytes.extend(len.to_be_bytes());
        self.bytes.extend(value.iter().take(len.into()));
    }

    /// Type and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let [a, b, c, d, behind @ ..] = rest else { return None };
            let len = u16::from_be_bytes([*c, *d]);
            let (value, behind) = behind.split_at_checked(len.into())?;
            rest = behind;
            Some((u16::from_be_bytes([*a, *b]), value))
        })
    }

    /// The values of a type.
    pub fn all(&self, kind: u16) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(found, _)| *found == kind).map(|(_, value)| value)
    }

    /// The first value of a type; `None`: there is no such tag.
    pub fn get(&self, kind: u16) -> Option<&[u8]> {
        self.all(kind).next()
    }

    /// As they are sent, without an end of the list.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_unknown_tags_are_kept_and_what_follows_the_end_is_not_read() {
        let bytes = [0x7f, 0xff, 0, 1, 9, 1, 1, 0, 0, 1, 3, 0, 2, 7, 8, 0, 0, 0, 0, 1, 2];
        let tags = TagList::read(&bytes).unwrap();
        let all: Vec<_> = tags.iter().collect();
        assert_eq!(all, [(0x7fff, &[9][..]), (SERVICE_NAME, &[]), (HOST_UNIQ, &[7, 8])]);
        assert_eq!(tags.as_bytes(), &bytes[..15]);
        assert_eq!(TagList::read(tags.as_bytes()), Ok(tags));
    }

    #[test]
    fn a_tag_that_is_cut_is_refused() {
        let bytes = [1, 3, 0, 2, 7, 8];
        for len in 1..bytes.len() {
            assert_eq!(TagList::read(&bytes[..len]), Err(DropReason::PppoeTags), "{len}");
        }
    }
}
