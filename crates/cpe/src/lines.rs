//! The lines of the devices: which VLAN tags each has.
//!
//! ```text
//! untagged             all devices on one line
//! 7                    all devices in VLAN 7
//! 100-199              device 0 in VLAN 100, device 1 in VLAN 101, ..
//! 100-199.1-4094       device 0 with outer tag 100 and inner tag 1, device 1 with 100.2, .., device 4094 with 101.1
//! ```
//! After the last line the first one follows again.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use std::fmt;
use std::str::FromStr;

use weir_bng::Tags;

/// Ranges of VLAN tags, walked in order: the inner tag counts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lines {
    outer: Option<Range>,
    inner: Option<Range>,
}

/// VLAN numbers, 1 to 4094, the first at most the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
}

impl Range {
    fn count(self) -> u32 {
        u32::from(self.last.saturating_sub(self.first)).saturating_add(1)
    }

    /// The VLAN at a place, counted round.
    fn at(self, place: u32) -> u16 {
        let place = place.checked_rem(self.count()).unwrap_or(0);
        self.first.saturating_add(u16::try_from(place).unwrap_or(0))
    }

    fn read(text: &str) -> Option<Range> {
        let vid = |text: &str| {
            let vid = text.parse().ok().filter(|vid| (1..=4094).contains(vid));
            vid.filter(|_| !text.starts_with('+'))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Range { first: vid(first)?, last: vid(last)? };
        (range.first <= range.last).then_some(range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl Lines {
    /// How many lines there are.
    pub fn count(&self) -> u32 {
        let of = |range: Option<Range>| range.map_or(1, Range::count);
        of(self.outer).saturating_mul(of(self.inner))
    }

    /// Tags that no device has, as many as the lines have.
    pub(crate) fn outside(&self) -> Tags {
        let beside = |range: Range| match range.first {
            1 => range.last.saturating_add(1),
            first => first.saturating_sub(1),
        };
        match (self.outer, self.inner) {
            (None, _) => Tags::One(1),
            (Some(outer), None) => Tags::One(beside(outer)),
            (Some(outer), Some(inner)) => Tags::Two { outer: beside(outer), inner: inner.first },
        }
    }

    /// The tags of a device.
    pub(crate) fn tags(&self, device: u32) -> Tags {
        match (self.outer, self.inner) {
            (None, _) => Tags::None,
            (Some(outer), None) => Tags::One(outer.at(device)),
            (Some(outer), Some(inner)) => {
                let row = device.checked_div(inner.count()).unwrap_or(0);
                Tags::Two { outer: outer.at(row), inner: inner.at(device) }
            }
        }
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.outer, self.inner) {
            (None, _) => f.write_str("untagged"),
            (Some(outer), None) => write!(f, "{outer}"),
            (Some(outer), Some(inner)) => write!(f, "{outer}.{inner}"),
        }
    }
}

impl FromStr for Lines {
    type Err = String;

    fn from_str(text: &str) -> Result<Lines, String> {
        let wrong = || {
            format!(
                "`{text}` are no VLAN tags: use untagged, 7, 100-199, or 100-199.1-4094 for outer and inner tags"
            )
        };
        let range = |text| Range::read(text).ok_or_else(wrong);
        match (text, text.split_once('.')) {
            ("untagged", _) => Ok(Lines::default()),
            (_, None) => Ok(Lines { outer: Some(range(text)?), inner: None }),
            (_, Some((outer, inner))) => Ok(Lines { outer: Some(range(outer)?), inner: Some(range(inner)?) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_walked_in_order_and_again_from_the_first() {
        let tags = |text: &str, devices: &[u32]| -> Vec<String> {
            let lines: Lines = text.parse().unwrap();
            devices.iter().map(|device| lines.tags(*device).to_string()).collect()
        };
        assert_eq!(tags("untagged", &[0, 9]), ["", ""]);
        assert_eq!(tags("7", &[0, 9]), ["7", "7"]);
        assert_eq!(tags("100-102", &[0, 1, 2, 3]), ["100", "101", "102", "100"]);
        let devices = [0, 1, 4093, 4094, 409_399, 409_400];
        assert_eq!(
            tags("100-199.1-4094", &devices),
            ["100.1", "100.2", "100.4094", "101.1", "199.4094", "100.1"]
        );
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for (text, count) in
            [("untagged", 1), ("7", 1), ("100-199", 100), ("100-199.1-4094", 409_400), ("4094.1-2", 2)]
        {
            let lines: Lines = text.parse().unwrap();
            assert_eq!((lines.to_string().as_str(), lines.count()), (text, count));
        }
        for text in ["", "0", "4095", "9-8", "1-2-3", "1.", ".1", "1.2.3", "+7", "a"] {
            assert!(text.parse::<Lines>().unwrap_err().contains("use untagged"), "{text}");
        }
    }
}
