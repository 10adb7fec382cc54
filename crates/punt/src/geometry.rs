//! How many slots of which size a ring has, and the header that says so.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::PuntError;
use crate::record::{HEAD_WORDS, Kind};

/// Most slots of a ring.
pub(crate) const MAX_SLOTS: u32 = 1 << 16;
/// A slot is a multiple of this: records begin with a cache line.
pub(crate) const SLOT_UNIT_BYTES: u32 = 64;
/// Fewest bytes of a slot: the shortest frame of Ethernet fits.
pub(crate) const MIN_SLOT_BYTES: u32 = 128;
/// Most bytes of a slot: the longest frame that a node knows fits.
pub(crate) const MAX_SLOT_BYTES: u32 = 1 << 17;
/// Version of the layout.
pub(crate) const VERSION: u32 = 1;
/// Words of a header.
pub(crate) const HEADER_WORDS: usize = 4;
/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;
/// Word at which the slots begin: a separate page for all that is not a record.
pub(crate) const SLOTS_AT: usize = 4096 / WORD_BYTES;

const MAGIC: u64 = u64::from_be_bytes(*b"weirpunt");

/// The size of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    slot_bytes: u32,
}

impl Geometry {
    /// A ring of so many slots, each of so many bytes. 24 of them are not for the frame: a slot of 2,048 bytes has room for
    /// one of 2,024.
    ///
    /// # Errors
    /// Slots are a power of two, 2 to 65,536; bytes of a slot a multiple of 64, 128 to 131,072.
    pub fn new(slots: u32, slot_bytes: u32) -> Result<Geometry, PuntError> {
        Geometry::of_words(slots.into(), slot_bytes.into())
    }

    fn of_words(slots: u64, slot_bytes: u64) -> Result<Geometry, PuntError> {
        let is_allowed = |slots: u32| slots.is_power_of_two() && (2..=MAX_SLOTS).contains(&slots);
        let known = u32::try_from(slots).ok().filter(|slots| is_allowed(*slots));
        let slots = known.ok_or(PuntError::Slots { found: slots })?;
        let is_allowed = |bytes: u32| {
            bytes.is_multiple_of(SLOT_UNIT_BYTES) && (MIN_SLOT_BYTES..=MAX_SLOT_BYTES).contains(&bytes)
        };
        let known = u32::try_from(slot_bytes).ok().filter(|bytes| is_allowed(*bytes));
        let slot_bytes = known.ok_or(PuntError::SlotBytes { found: slot_bytes })?;
        Ok(Geometry { slots, slot_bytes })
    }

    /// Slots of the ring: as many records fit.
    pub const fn slots(self) -> u64 {
        self.slots as u64
    }

    /// Length of the longest frame that fits into a slot.
    #[expect(clippy::arithmetic_side_effects, reason = "a slot has more bytes than its head")]
    pub const fn frame_bytes(self) -> usize {
        self.slot_bytes as usize - HEAD_WORDS * WORD_BYTES
    }

    pub(crate) const fn slot_words(self) -> usize {
        self.slot_bytes as usize / WORD_BYTES
    }

    /// Words of the whole memory.
    #[expect(clippy::arithmetic_side_effects, reason = "2^30 at most")]
    pub(crate) const fn words(self) -> usize {
        SLOTS_AT + self.slots as usize * self.slot_words()
    }

    /// The header of such a ring.
    pub(crate) fn header<K: Kind>(self) -> [u64; HEADER_WORDS] {
        let version_and_kind = u64::from(VERSION) | u64::from(K::CODE) << 32;
        [MAGIC, version_and_kind, self.slots.into(), self.slot_bytes.into()]
    }

    /// Reads a header.
    pub(crate) fn of_header<K: Kind>(header: [u64; HEADER_WORDS]) -> Result<Geometry, PuntError> {
        let [magic, version_and_kind, slots, slot_bytes] = header;
        if magic != MAGIC {
            return Err(PuntError::NoRing);
        }
        let (version, kind) = (version_and_kind as u32, (version_and_kind >> 32) as u32);
        if version != VERSION {
            return Err(PuntError::Version { found: version });
        }
        if kind != K::CODE {
            return Err(PuntError::OtherKind);
        }
        Geometry::of_words(slots, slot_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Injections, Punts};

    fn check(header: [u64; HEADER_WORDS], expected: &str) {
        let found = match Geometry::of_header::<Punts>(header) {
            Ok(geometry) => format!("{} x {}", geometry.slots, geometry.slot_bytes),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{header:x?}");
    }

    #[test]
    fn a_header_is_a_geometry_or_says_why_not() {
        let of = |slots, slot_bytes| [MAGIC, 1 | 1 << 32, slots, slot_bytes];
        let slots = |found| format!("a ring has a power of two of slots, 2 to 65536, not {found}");
        let bytes = |found| format!("a slot has a multiple of 64 bytes, 128 to 131072, not {found}");
        check(of(1024, 2048), "1024 x 2048");
        check(of(2, 128), "2 x 128");
        check(of(1 << 16, 1 << 17), "65536 x 131072");
        check(of(1, 2048), &slots(1));
        check(of(0, 2048), &slots(0));
        check(of(1000, 2048), &slots(1000));
        check(of(1 << 17, 2048), &slots(1 << 17));
        check(of(1 << 32 | 2, 2048), &slots(4_294_967_298_u64));
        check(of(2, 64), &bytes(64));
        check(of(2, 2047), &bytes(2047));
        check(of(2, 1 << 18), &bytes(1 << 18));
        check(of(2, u64::MAX), &bytes(u64::MAX));
        check([0; 4], "the memory holds no ring: pass on the descriptor that the node sent");
        let version = "the ring has version 7, this program knows 1: use the program of the node's version";
        check([MAGIC, 7 | 1 << 32, 2, 128], version);
        let kind = "the ring is of another kind: punts and injections were exchanged";
        check(Geometry::new(2, 128).unwrap().header::<Injections>(), kind);
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let geometry = Geometry::new(1024, 2048).unwrap();
        assert_eq!(Geometry::of_header::<Punts>(geometry.header::<Punts>()).unwrap(), geometry);
        assert_eq!((geometry.frame_bytes(), geometry.words() * WORD_BYTES), (2024, 4096 + (2 << 20)));
    }
}
