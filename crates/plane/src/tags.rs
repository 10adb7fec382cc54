//! VLAN tags (IEEE 802.1Q): those that a frame came with, and those that a port accepts.
//!
//! ```text
//! vlan 7               one line: the tags are compared as they are, and frames leave with these
//! vlan 100-199.1-4094  a line for each outer and inner tag; a frame leaves with the tags of its own line
//! vlan 7, untagged     two lines
//! ```
//! A tag that names a priority and no VLAN (section 9.6) is none of these: it may stand behind the tags of a line.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::drops::DropReason;

/// EtherTypes of an outer tag in front of an inner one (802.1ad), and of an inner tag or one alone (802.1Q).
const OUTER: u16 = 0x88a8;
const INNER: u16 = 0x8100;
/// Bits of a tag that are the number of a VLAN.
const VID: u16 = 0x0fff;
/// Both Ethernet addresses of a frame, behind which the tags stand.
const ADDRESSES: usize = 12;

/// A tag as it stands in a frame.
pub(crate) type Tag = [u8; 4];

/// The VLANs of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tags {
    /// That of the outer tag, or of the only one; 0: the frame has no tag.
    pub outer: u16,
    /// That of the inner tag; 0: there is none.
    pub inner: u16,
}

impl Tags {
    /// Of a frame without tags.
    pub const NONE: Tags = Tags { outer: 0, inner: 0 };

    /// How many there are.
    #[inline]
    pub(crate) fn count(self) -> usize {
        usize::from(self.outer != 0).saturating_add(usize::from(self.inner != 0))
    }

    /// As they stand in a frame, written to `places`.
    pub(crate) fn write(self, places: &mut [Tag; 2]) -> &[Tag] {
        let written = match self {
            Tags { outer: 0, .. } => [[0; 4]; 2],
            Tags { outer, inner: 0 } => [tag(INNER, outer), [0; 4]],
            Tags { outer, inner } => [tag(OUTER, outer), tag(INNER, inner)],
        };
        *places = written;
        places.get(..self.count()).unwrap_or_default()
    }

    /// The same with this priority in each (IEEE 802.1Q).
    #[inline]
    pub(crate) fn write_with_priority(self, priority: u8, places: &mut [Tag; 2]) -> &[Tag] {
        self.write(places);
        for [_, _, high, _] in places.iter_mut() {
            *high |= priority << 5;
        }
        places.get(..self.count()).unwrap_or_default()
    }

    /// Reads those of a line as the text says them: `100.5`, `7`, `untagged`.
    pub(crate) fn read(text: &str) -> Result<Tags, String> {
        if text == "untagged" {
            return Ok(Tags::NONE);
        }
        let set = TagSet::read(text)?;
        if set.is_fixed() {
            Ok(set.first())
        } else {
            Err(format!("`{text}` are several lines: write the tags of one"))
        }
    }
}

impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tags { outer: 0, .. } => f.write_str("untagged"),
            Tags { outer, inner: 0 } => write!(f, "{outer}"),
            Tags { outer, inner } => write!(f, "{outer}.{inner}"),
        }
    }
}

fn tag(ether_type: u16, vid: u16) -> Tag {
    let [[a, b], [c, d]] = [ether_type.to_be_bytes(), vid.to_be_bytes()];
    [a, b, c, d]
}

/// Numbers of VLANs, from the first to the last, each of 1 to 4094.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vids {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl Vids {
    fn read(text: &str) -> Option<Vids> {
        let vid = |text: &str| text.parse().ok().filter(|vid| (1..=4094).contains(vid));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (vid(first)?, vid(last)?);
        (first <= last).then_some(Vids { first, last })
    }

    #[inline]
    fn contains(self, vid: u16) -> bool {
        (self.first..=self.last).contains(&vid)
    }

    fn overlaps(self, other: Vids) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for Vids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Vids { first, last } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// The tags of the frames of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagSet {
    /// The outer ones, or the only ones.
    pub outer: Option<Vids>,
    /// The inner ones.
    pub inner: Option<Vids>,
    /// Frames without tags are the port's as well.
    pub untagged: bool,
}

impl TagSet {
    /// No tags.
    pub const UNTAGGED: TagSet = TagSet { outer: None, inner: None, untagged: true };

    /// Reads what stands behind `vlan`: `7`, `7.9`, `100-199.1-4094`.
    pub(crate) fn read(text: &str) -> Result<TagSet, String> {
        let (outer, inner) = match text.split_once('.') {
            Some((outer, inner)) => (outer, Some(inner)),
            None => (text, None),
        };
        let vids = (Vids::read(outer), inner.map(Vids::read));
        let (Some(outer), None | Some(Some(_))) = vids else {
            return Err(format!(
                "`{text}` is no VLAN: write a tag of 1 to 4094, or two with a dot between, or ranges: 100-199.1-4094"
            ));
        };
        Ok(TagSet { outer: Some(outer), inner: vids.1.flatten(), untagged: false })
    }

    /// Whether all its frames have the same tags, or none.
    pub fn is_fixed(&self) -> bool {
        let is_one = |vids: &Option<Vids>| vids.is_none_or(|vids| vids.first == vids.last);
        match self.outer {
            None => true,
            Some(_) => !self.untagged && is_one(&self.outer) && is_one(&self.inner),
        }
    }

    /// Whether its frames have no tags.
    pub fn is_plain(&self) -> bool {
        self.outer.is_none()
    }

    /// The first of its lines.
    pub(crate) fn first(&self) -> Tags {
        let first = |vids: Option<Vids>| vids.map_or(0, |vids| vids.first);
        Tags { outer: first(self.outer), inner: first(self.inner) }
    }

    /// How many tags its frames have at most.
    pub fn most(&self) -> usize {
        self.first().count()
    }

    /// Whether a frame with these tags is the port's.
    #[inline]
    pub fn accepts(&self, tags: Tags) -> bool {
        match (self.outer, self.inner) {
            _ if tags == Tags::NONE => self.untagged,
            (Some(outer), None) => outer.contains(tags.outer) && tags.inner == 0,
            (Some(outer), Some(inner)) => outer.contains(tags.outer) && inner.contains(tags.inner),
            (None, _) => false,
        }
    }

    /// Whether a frame may be of both.
    pub fn overlaps(&self, other: &TagSet) -> bool {
        let both = |one: Option<Vids>, other: Option<Vids>| match (one, other) {
            (Some(one), Some(other)) => one.overlaps(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let tagged = self.outer.is_some() && both(self.outer, other.outer) && both(self.inner, other.inner);
        tagged || self.untagged && other.untagged
    }

    /// The tags of a frame, if it is the port's. What stands behind them is not looked at.
    ///
    /// # Errors
    /// It is not, or it ends too early.
    pub(crate) fn of_frame(&self, frame: &[u8]) -> Result<Tags, DropReason> {
        let outer = Read::at(frame, ADDRESSES).ok_or(DropReason::Malformed)?;
        let tags = match (self.inner, outer) {
            // None, or one that names a priority.
            (_, Read { vid: 0, .. }) => Tags::NONE,
            (None, Read { ether_type: INNER, vid }) => Tags { outer: vid, inner: 0 },
            (Some(_), Read { ether_type: OUTER, vid }) => {
                let inner = Read::at(frame, ADDRESSES.saturating_add(4)).ok_or(DropReason::Malformed)?;
                if inner.ether_type != INNER || inner.vid == 0 {
                    return Err(DropReason::UnknownVlan);
                }
                Tags { outer: vid, inner: inner.vid }
            }
            _ => return Err(DropReason::UnknownVlan),
        };
        if self.accepts(tags) { Ok(tags) } else { Err(DropReason::UnknownVlan) }
    }
}

impl fmt::Display for TagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(outer) = self.outer {
            write!(f, "vlan {outer}")?;
        }
        if let Some(inner) = self.inner {
            write!(f, ".{inner}")?;
        }
        match (self.outer, self.untagged) {
            (Some(_), true) => f.write_str(", untagged"),
            (None, true) => f.write_str("untagged"),
            _ => Ok(()),
        }
    }
}

/// What stands in the place of a tag.
struct Read {
    ether_type: u16,
    /// 0: it is no tag, or one that names no VLAN.
    vid: u16,
}

impl Read {
    fn at(frame: &[u8], at: usize) -> Option<Read> {
        let &[a, b, c, d] = frame.get(at..)?.first_chunk()?;
        let (ether_type, tci) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let is_tag = matches!(ether_type, OUTER | INNER);
        Some(Read { ether_type, vid: if is_tag { tci & VID } else { 0 } })
    }
}

/// The tags of a port, as frames are compared with them.
#[derive(Debug, Clone)]
pub(crate) enum PortTags {
    /// All frames have these, which are none for most ports.
    Fixed(Vec<Tag>),
    /// Each line has its own.
    Lines(TagSet),
}

impl PortTags {
    pub(crate) fn of(set: &TagSet) -> PortTags {
        if set.is_fixed() {
            PortTags::Fixed(set.first().write(&mut [[0; 4]; 2]).to_vec())
        } else {
            PortTags::Lines(*set)
        }
    }

    /// Those of all its frames; none where each line has its own.
    #[inline]
    pub(crate) fn fixed(&self) -> &[Tag] {
        match self {
            PortTags::Fixed(tags) => tags,
            PortTags::Lines(_) => &[],
        }
    }

    /// Whether its frames have no tags.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, PortTags::Fixed(tags) if tags.is_empty())
    }

    /// Its lines, where each has its own tags.
    pub(crate) fn lines(&self) -> Option<&TagSet> {
        match self {
            PortTags::Fixed(_) => None,
            PortTags::Lines(set) => Some(set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> TagSet {
        TagSet::read(text).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn texts_of_tags_are_read_and_shown_again() {
        for text in ["7", "7.9", "100-199", "100-199.1-4094", "7.1-4094", "1-4094.5"] {
            assert_eq!(set(text).to_string(), format!("vlan {text}"));
            assert_eq!(set(text).is_fixed(), !text.contains('-'), "{text}");
        }
        for text in
            ["", "0", "4095", "7.", ".7", "1.2.3", "9-7", "7-", "-7", "7-9-11", "1-4095", "a", "7.0-5"]
        {
            let wrong = TagSet::read(text).expect_err(text);
            assert!(wrong.starts_with(&format!("`{text}` is no VLAN: write")), "{wrong}");
        }
        assert_eq!(TagSet::UNTAGGED.to_string(), "untagged");
        assert_eq!(Tags::read("100.5"), Ok(Tags { outer: 100, inner: 5 }));
        assert_eq!(Tags::read("untagged"), Ok(Tags::NONE));
        assert!(Tags::read("1-2").is_err());
    }

    #[test]
    fn two_ports_overlap_where_a_frame_may_be_of_both() {
        let both = |text: &str| TagSet { untagged: true, ..set(text) };
        for (one, other, expected) in [
            (set("7"), set("7"), true),
            (set("7"), set("8"), false),
            (set("7"), set("1-7"), true),
            (set("1-6"), set("7-9"), false),
            (set("7"), set("7.9"), false),
            (set("7.9"), set("7.1-8"), false),
            (set("1-10.9"), set("7.1-9"), true),
            (set("7"), TagSet::UNTAGGED, false),
            (both("7"), TagSet::UNTAGGED, true),
            (both("7"), both("8"), true),
            (TagSet::UNTAGGED, TagSet::UNTAGGED, true),
        ] {
            assert_eq!(one.overlaps(&other), expected, "{one} and {other}");
            assert_eq!(other.overlaps(&one), expected, "{other} and {one}");
        }
    }

    #[test]
    fn the_tags_of_a_frame_are_those_that_were_written() {
        let double = TagSet { untagged: true, ..set("100-199.1-4094") };
        for (set, tags, expected) in [
            (double, Tags { outer: 100, inner: 1 }, true),
            (double, Tags { outer: 199, inner: 4094 }, true),
            (double, Tags { outer: 200, inner: 5 }, false),
            (double, Tags { outer: 100, inner: 0 }, false),
            (double, Tags::NONE, true),
            (set("100-199"), Tags { outer: 150, inner: 0 }, true),
            (set("100-199"), Tags { outer: 150, inner: 1 }, false),
            (set("100-199"), Tags::NONE, false),
        ] {
            let mut places = [[0; 4]; 2];
            let frame = [&[2; 12], &tags.write(&mut places).concat()[..], &[8, 0, 0x45, 0]].concat();
            assert_eq!(set.accepts(tags), expected, "{set}: {tags}");
            let found = set.of_frame(&frame);
            assert_eq!(
                found,
                if expected { Ok(tags) } else { Err(DropReason::UnknownVlan) },
                "{set}: {tags}"
            );
        }
    }
}
