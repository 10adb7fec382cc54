//! What an access node says of a line: the vendor-specific tag of the Broadband Forum (TR-101, section 3.9.1; RFC 4679).
//!
//! ```text
//! 0x0105 | length | 3561: 4 | sub-option: 1 | length: 1 | value | ...
//!                             1 circuit-id, 2 remote-id, 0x81 rate upstream, 0x82 rate downstream, kbit/s
//! ```
//! The concentrator reads it in PADI and PADR and never sends it (TR-101, R-115 to R-117).
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use super::tags::{TagList, VENDOR};
use crate::drops::DropReason;

/// Enterprise number of the Broadband Forum (formerly ADSL Forum).
pub const ENTERPRISE: u32 = 3561;
/// Most bytes of an identifier (TR-101, R-122).
const MOST_ID_BYTES: usize = 63;

const CIRCUIT_ID: u8 = 0x01;
const REMOTE_ID: u8 = 0x02;
const RATE_UP: u8 = 0x81;
const RATE_DOWN: u8 = 0x82;

/// A line as its access node describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct LineTag {
    /// Circuit-id, 1 to 63 bytes.
    pub circuit_id: Option<Box<[u8]>>,
    /// Remote-id, 1 to 63 bytes.
    pub remote_id: Option<Box<[u8]>>,
    /// Actual rate from the subscriber, kbit/s.
    pub up_kbit_per_s: Option<u32>,
    /// Actual rate to the subscriber, kbit/s.
    pub down_kbit_per_s: Option<u32>,
}

impl LineTag {
    /// Reads the tag; `None`: there is none.
    ///
    /// # Errors
    /// A sub-option is longer than its tag, or has a length that its type cannot have.
    pub fn read(tags: &TagList) -> Result<Option<LineTag>, DropReason> {
        let own = |value: &[u8]| value.strip_prefix(&ENTERPRISE.to_be_bytes()).map(<[u8]>::to_vec);
        let Some(value) = tags.all(VENDOR).find_map(own) else { return Ok(None) };
        let (mut line, mut rest) = (LineTag::default(), &*value);
        while let [kind, len, behind @ ..] = rest {
            let (value, behind) = behind.split_at_checked((*len).into()).ok_or(DropReason::PppoeLineTag)?;
            match *kind {
                CIRCUIT_ID => line.circuit_id = Some(id(value)?),
                REMOTE_ID => line.remote_id = Some(id(value)?),
                RATE_UP => line.up_kbit_per_s = Some(number(value)?),
                RATE_DOWN => line.down_kbit_per_s = Some(number(value)?),
                // The other characteristics of the line (minimum, attainable and maximum rates, delays).
                _ => {}
            }
            rest = behind;
        }
        if rest.is_empty() { Ok(Some(line)) } else { Err(DropReason::PppoeLineTag) }
    }

    /// Adds the tag, as an access node does.
    pub fn write(&self, tags: &mut TagList) {
        let mut value = ENTERPRISE.to_be_bytes().to_vec();
        let rates = [(RATE_UP, self.up_kbit_per_s), (RATE_DOWN, self.down_kbit_per_s)];
        for (kind, id) in [(CIRCUIT_ID, &self.circuit_id), (REMOTE_ID, &self.remote_id)] {
            if let Some(id) = id {
                value.extend([kind, u8::try_from(id.len()).unwrap_or(u8::MAX)]);
                value.extend(id.iter().take(usize::from(u8::MAX)));
            }
        }
        for (kind, rate) in rates {
            if let Some(rate) = rate {
                value.extend([kind, 4]);
                value.extend(rate.to_be_bytes());
            }
        }
        tags.push(VENDOR, &value);
    }
}

fn id(value: &[u8]) -> Result<Box<[u8]>, DropReason> {
    let is_id = (1..=MOST_ID_BYTES).contains(&value.len());
    if is_id { Ok(value.into()) } else { Err(DropReason::PppoeLineTag) }
}

fn number(value: &[u8]) -> Result<u32, DropReason> {
    value.try_into().map(u32::from_be_bytes).map_err(|_| DropReason::PppoeLineTag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p11_circuit_id_remote_id_and_rates_are_read() {
        let line = LineTag {
            circuit_id: Some(b"eth0/1:100".as_slice().into()),
            remote_id: Some([1, 2].as_slice().into()),
            up_kbit_per_s: Some(40_000),
            down_kbit_per_s: Some(100_000),
        };
        let mut tags = TagList::default();
        tags.push(VENDOR, &[0, 0, 0, 9, 1, 1, 1]);
        line.write(&mut tags);
        assert_eq!(LineTag::read(&tags), Ok(Some(line)), "the tag of another vendor is ignored");
        assert_eq!(LineTag::read(&TagList::default()), Ok(None));
    }

    #[test]
    fn p11_a_tag_that_contradicts_itself_is_refused() {
        for sub_options in [&[1][..], &[1, 2, 9], &[1, 0], &[0x81, 3, 0, 0, 1], &[2, 1, 7, 0x82]] {
            let mut tags = TagList::default();
            tags.push(VENDOR, &[&ENTERPRISE.to_be_bytes(), sub_options].concat());
            assert_eq!(LineTag::read(&tags), Err(DropReason::PppoeLineTag), "{sub_options:?}");
        }
    }
}
