//! VLAN tags on frames.
//!
//! ```text
//!  12 addresses | 88a8 outer | 8100 inner | EtherType ..      two tags; one tag is 8100
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_bng::Tags;
use weir_packet::fields::be16;

const ADDRESSES: usize = 12;
const TAG: usize = 4;
/// EtherTypes of an outer tag in front of an inner one (802.1ad), of an inner tag or one alone (802.1Q), and an old one of outer tags.
const OUTER: u16 = 0x88a8;
const INNER: u16 = 0x8100;
const OLD_OUTER: u16 = 0x9100;
const VID: u16 = 0x0fff;

/// The bytes of tags as they stand in a frame, and how many of them.
pub(crate) fn tag_bytes(tags: Tags) -> ([u8; 8], usize) {
    let ([a, b], [c, d], [e, g]) = (OUTER.to_be_bytes(), INNER.to_be_bytes(), [0, 0]);
    match tags {
        Tags::None => ([0; 8], 0),
        Tags::One(vid) => {
            let [v, w] = vid.to_be_bytes();
            ([c, d, v, w, e, g, 0, 0], TAG)
        }
        Tags::Two { outer, inner } => {
            let ([v, w], [x, y]) = (outer.to_be_bytes(), inner.to_be_bytes());
            ([a, b, v, w, c, d, x, y], 8)
        }
    }
}

/// Puts tags into a frame that has none.
pub(crate) fn tagged(tags: Tags, mut frame: Vec<u8>) -> Vec<u8> {
    let (bytes, count) = tag_bytes(tags);
    if count > 0 && frame.len() >= ADDRESSES {
        frame.splice(ADDRESSES..ADDRESSES, bytes.into_iter().take(count));
    }
    frame
}

/// Takes the tags off a frame, with `room` for the frame without them; a frame without tags stays where it is. `None`: more than two
/// tags, or a frame that is cut. A tag that names a priority and no VLAN counts as none.
pub(crate) fn untagged<'a>(frame: &'a [u8], room: &'a mut Vec<u8>) -> Option<(Tags, &'a [u8])> {
    let addresses = frame.first_chunk::<ADDRESSES>()?;
    let mut rest = frame.get(ADDRESSES..)?;
    let mut vids = [0_u16; 2];
    let mut count = 0_usize;
    while let OUTER | INNER | OLD_OUTER = be16(rest, 0)? {
        let vid = be16(rest, 2)? & VID;
        rest = rest.get(TAG..)?;
        if vid == 0 {
            continue;
        }
        *vids.get_mut(count)? = vid;
        count = count.saturating_add(1);
    }
    let [outer, inner] = vids;
    let tags = match count {
        0 => Tags::None,
        1 => Tags::One(outer),
        _ => Tags::Two { outer, inner },
    };
    if rest.len().saturating_add(ADDRESSES) == frame.len() {
        return Some((tags, frame));
    }
    room.clear();
    room.extend(addresses);
    room.extend(rest);
    Some((tags, room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_off_as_they_were_put_on() {
        let frame: Vec<u8> = (0..12).chain([8, 0, 1, 2]).collect();
        for tags in [Tags::None, Tags::One(7), Tags::Two { outer: 100, inner: 4094 }] {
            let mut room = Vec::new();
            assert_eq!(untagged(&tagged(tags, frame.clone()), &mut room), Some((tags, &frame[..])));
        }
    }

    #[test]
    fn priority_tags_are_none_and_three_tags_are_refused() {
        let frame = |tags: &[u8]| [&[0; 12][..], tags, &[8, 0]].concat();
        let mut room = Vec::new();
        let priority = frame(&[0x81, 0, 0x60, 0]);
        assert_eq!(
            untagged(&priority, &mut room).map(|(tags, rest)| (tags, rest.len())),
            Some((Tags::None, 14))
        );
        let three = [0x81, 0, 0, 1].repeat(3);
        assert_eq!(untagged(&frame(&three), &mut Vec::new()), None);
        for len in 0..16 {
            assert_eq!(untagged(&frame(&[0x81, 0, 0, 1])[..len], &mut Vec::new()), None, "{len} bytes");
        }
    }
}
