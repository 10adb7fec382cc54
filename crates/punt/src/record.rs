//! The records of both kinds of rings, and how each stands in a slot.
//!
//! ```text
//!   word 0   length of the frame:32 | port:16 | reason or how:16        from the low bits to the high ones
//!        1   outer TPID:16 | outer TCI:16 | inner TPID:16 | inner TCI:16
//!        2   arrival, ns
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use crate::damage::Damage;

/// Words of a slot before the frame.
pub(crate) const HEAD_WORDS: usize = 3;
/// They, as they stand in a slot.
pub(crate) type Head = [u64; HEAD_WORDS];

/// A VLAN tag (IEEE 802.1Q, section 9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// EtherType of the tag, 0x8100 or 0x88a8; never 0.
    pub tpid: u16,
    /// PCP (3 bits), DEI (1) and VID (12).
    pub tci: u16,
}

/// The VLAN tags of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tags {
    /// None.
    #[default]
    Untagged,
    /// One.
    One(Tag),
    /// Two (QinQ).
    Two {
        /// The one that comes first in the frame, S-VLAN.
        outer: Tag,
        /// The one behind it, C-VLAN.
        inner: Tag,
    },
}

/// A frame that a node gives to its control program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Punt<'a> {
    /// Why: a number that node and program agree on.
    pub reason: u16,
    /// Index of the port where it arrived.
    pub port: u16,
    /// Tags that were removed from it.
    pub tags: Tags,
    /// When it arrived, CLOCK_MONOTONIC ns.
    pub arrival_ns: u64,
    /// The frame without these tags, from the Ethernet header on.
    pub bytes: &'a [u8],
}

/// A frame that a control program gives to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection<'a> {
    /// What the node does with it.
    pub how: How,
    /// Index of the port.
    pub port: u16,
    /// Tags that it leaves with, or that it is taken to have arrived with.
    pub tags: Tags,
    /// The frame without these tags, from the Ethernet header on.
    pub bytes: &'a [u8],
}

/// What a node does with a frame that was injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// It leaves by the port.
    Leave,
    /// It enters by the port as if received there.
    Enter,
}

impl How {
    /// Its number in a slot; fresh memory is none of them.
    const fn code(self) -> u16 {
        match self {
            How::Leave => 1,
            How::Enter => 2,
        }
    }

    fn of_code(code: u16) -> Result<How, Damage> {
        match code {
            1 => Ok(How::Leave),
            2 => Ok(How::Enter),
            _ => Err(Damage::How),
        }
    }
}

/// What the records of a ring are: [`Punts`] or [`Injections`].
pub trait Kind: sealed::Sealed {
    /// A record.
    type Record<'a>;
    /// Its number in the header.
    #[doc(hidden)]
    const CODE: u32;
    /// A record as it stands in a slot, and its frame.
    #[doc(hidden)]
    fn encode<'a>(record: &'a Self::Record<'_>) -> (Head, &'a [u8]);
    /// Reads the copy of a slot.
    #[doc(hidden)]
    fn decode(head: Head, bytes: &[u8]) -> Result<Self::Record<'_>, Damage>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Punts {}
    impl Sealed for super::Injections {}
}

/// From a node to its control program: [`Punt`].
#[derive(Debug)]
pub enum Punts {}

impl Kind for Punts {
    type Record<'a> = Punt<'a>;
    const CODE: u32 = 1;

    fn encode<'a>(punt: &'a Punt<'_>) -> (Head, &'a [u8]) {
        let first = first_word(punt.bytes.len(), punt.port, punt.reason);
        ([first, punt.tags.word(), punt.arrival_ns], punt.bytes)
    }

    fn decode([first, tags, arrival_ns]: Head, bytes: &[u8]) -> Result<Punt<'_>, Damage> {
        let tags = Tags::of_word(tags)?;
        Ok(Punt { reason: reason_or_how(first), port: port(first), tags, arrival_ns, bytes })
    }
}

/// From a control program to its node: [`Injection`].
#[derive(Debug)]
pub enum Injections {}

impl Kind for Injections {
    type Record<'a> = Injection<'a>;
    const CODE: u32 = 2;

    fn encode<'a>(injection: &'a Injection<'_>) -> (Head, &'a [u8]) {
        let first = first_word(injection.bytes.len(), injection.port, injection.how.code());
        ([first, injection.tags.word(), 0], injection.bytes)
    }

    fn decode([first, tags, _]: Head, bytes: &[u8]) -> Result<Injection<'_>, Damage> {
        let how = How::of_code(reason_or_how(first))?;
        Ok(Injection { how, port: port(first), tags: Tags::of_word(tags)?, bytes })
    }
}

/// The frame has fewer than 2^32 bytes, since it fits into a slot.
fn first_word(length: usize, port: u16, reason_or_how: u16) -> u64 {
    u64::from(length as u32) | u64::from(port) << 32 | u64::from(reason_or_how) << 48
}

/// Length of the frame: any 32 bits.
pub(crate) fn length([first, ..]: Head) -> usize {
    first as u32 as usize
}

fn port(first: u64) -> u16 {
    (first >> 32) as u16
}

fn reason_or_how(first: u64) -> u16 {
    (first >> 48) as u16
}

impl Tags {
    fn word(self) -> u64 {
        let word = |tag: Tag| u64::from(tag.tpid) | u64::from(tag.tci) << 16;
        match self {
            Tags::Untagged => 0,
            Tags::One(outer) => word(outer),
            Tags::Two { outer, inner } => word(outer) | word(inner) << 32,
        }
    }

    fn of_word(word: u64) -> Result<Tags, Damage> {
        let tag = |word: u64| Tag { tpid: word as u16, tci: (word >> 16) as u16 };
        let (outer, inner) = (tag(word), tag(word >> 32));
        match (word as u32, (word >> 32) as u32) {
            (0, 0) => Ok(Tags::Untagged),
            (_, 0) if outer.tpid != 0 => Ok(Tags::One(outer)),
            _ if outer.tpid != 0 && inner.tpid != 0 => Ok(Tags::Two { outer, inner }),
            _ => Err(Damage::Tags),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &[u8] = &[7; 60];
    const S: Tag = Tag { tpid: 0x88a8, tci: 0xe064 };
    const C: Tag = Tag { tpid: 0x8100, tci: 0x0ffe };

    /// A record stands in a slot as these words, and is read from them.
    fn check<K: Kind>(record: K::Record<'_>, head: Head)
    where
        for<'a> K::Record<'a>: PartialEq + std::fmt::Debug,
    {
        assert_eq!(K::encode(&record), (head, FRAME), "{record:?}");
        assert_eq!(length(head), FRAME.len());
        assert_eq!(K::decode(head, FRAME), Ok(record), "{head:x?}");
    }

    #[test]
    fn a_punt_is_read_as_it_was_written() {
        let punt = |reason, port, tags, arrival_ns| Punt { reason, port, tags, arrival_ns, bytes: FRAME };
        let two = Tags::Two { outer: S, inner: C };
        check::<Punts>(punt(0, 0, Tags::Untagged, 0), [60, 0, 0]);
        check::<Punts>(punt(3, 2, Tags::One(C), 9), [0x0003_0002_0000_003c, 0x0ffe_8100, 9]);
        check::<Punts>(punt(0, 7, two, u64::MAX), [0x0000_0007_0000_003c, 0x0ffe_8100_e064_88a8, u64::MAX]);
        check::<Punts>(punt(u16::MAX, u16::MAX, Tags::Untagged, 1), [0xffff_ffff_0000_003c, 0, 1]);
    }

    #[test]
    fn an_injection_is_read_as_it_was_written() {
        let injection = |how, port, tags| Injection { how, port, tags, bytes: FRAME };
        let two = Tags::Two { outer: S, inner: C };
        check::<Injections>(injection(How::Leave, 0, Tags::Untagged), [0x0001_0000_0000_003c, 0, 0]);
        check::<Injections>(injection(How::Enter, 5, Tags::One(S)), [0x0002_0005_0000_003c, 0xe064_88a8, 0]);
        check::<Injections>(
            injection(How::Leave, u16::MAX, two),
            [0x0001_ffff_0000_003c, 0x0ffe_8100_e064_88a8, 0],
        );
    }

    #[test]
    fn what_cannot_be_is_damage() {
        for (first, tags, damage) in [
            (0x0000_0000_0000_003c, 0, Damage::How),
            (0x0003_0000_0000_003c, 0, Damage::How),
            (0xffff_0000_0000_003c, 0, Damage::How),
            (0x0001_0000_0000_003c, 0x0007_0000, Damage::Tags),
            (0x0001_0000_0000_003c, 0x0007_8100_0000_0000, Damage::Tags),
            (0x0001_0000_0000_003c, 0x0007_8100_0007_0000, Damage::Tags),
            (0x0002_0000_0000_003c, 0x0007_0000_0007_8100, Damage::Tags),
        ] {
            assert_eq!(Injections::decode([first, tags, 0], FRAME), Err(damage), "{first:x} {tags:x}");
        }
        assert_eq!(Punts::decode([0x0009_0000_0000_003c, 1 << 32, 0], FRAME), Err(Damage::Tags));
    }
}
