//! VLAN tags and the headers of PPPoE on frames.
//!
//! ```text
//!  12 addresses | 88a8 outer | 8100 inner | EtherType ..      two tags; one tag is 8100
//!  12 addresses | tags | 8864 | 11 00 | session id | length | PPP protocol | IP packet
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_bng::ppp::protocol;
use weir_bng::pppoe::SESSION;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::{Mac, Tags};
use weir_packet::fields::be16;

/// Bytes of both MAC addresses.
pub(crate) const ADDRESSES: usize = 12;
/// EtherTypes of IP packets.
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const TAG: usize = 4;
/// EtherTypes of an outer tag in front of an inner one (802.1ad), of an inner tag or one alone (802.1Q), and an old one of outer tags.
const OUTER: u16 = 0x88a8;
const INNER: u16 = 0x8100;
const OLD_OUTER: u16 = 0x9100;
const VID: u16 = 0x0fff;

/// What stands between the MAC addresses of a frame and its packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    bytes: [u8; 18],
    len: usize,
}

impl Head {
    /// Of an IP packet with this EtherType and these tags, in a session of PPPoE if there is one.
    pub(crate) fn of_packet(kind: u16, tags: Tags, session_id: Option<u16>, packet_bytes: usize) -> Head {
        let mut head = Head { bytes: [0; 18], len: 0 };
        head.push_tags(tags);
        match session_id {
            None => head.push(kind),
            Some(id) => {
                head.push(SESSION);
                head.push(0x1100);
                head.push(id);
                head.push(u16::try_from(packet_bytes.saturating_add(2)).unwrap_or(u16::MAX));
                head.push(if kind == IPV6 { protocol::IPV6 } else { protocol::IPV4 });
            }
        }
        head
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn push_tags(&mut self, tags: Tags) {
        match tags {
            Tags::None => {}
            Tags::One(vid) => self.push_all([INNER, vid]),
            Tags::Two { outer, inner } => self.push_all([OUTER, outer, INNER, inner]),
        }
    }

    fn push_all<const N: usize>(&mut self, fields: [u16; N]) {
        fields.into_iter().for_each(|field| self.push(field));
    }

    fn push(&mut self, field: u16) {
        let end = self.len.saturating_add(2);
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(&field.to_be_bytes());
            self.len = end;
        }
    }
}

/// An Ethernet frame with an IP packet as a frame of a session of PPPoE; `None`: it carries something else.
pub(crate) fn in_session(frame: &[u8], session_id: u16) -> Option<Vec<u8>> {
    let (dst, rest) = frame.split_first_chunk()?;
    let (src, rest) = rest.split_first_chunk()?;
    let protocol = match be16(rest, 0)? {
        IPV4 => protocol::IPV4,
        IPV6 => protocol::IPV6,
        _ => return None,
    };
    let payload = rest.get(2..)?;
    Some(SessionFrame { dst: Mac(*dst), src: Mac(*src), session_id, protocol, payload }.write())
}

/// A frame of a session as an Ethernet frame with its IP packet, in `room`; false: it carries something else.
pub(crate) fn out_of_session(frame: &SessionFrame<'_>, room: &mut Vec<u8>) -> bool {
    let kind = match frame.protocol {
        protocol::IPV4 => IPV4,
        protocol::IPV6 => IPV6,
        _ => return false,
    };
    room.clear();
    room.extend(frame.dst.0.iter().chain(&frame.src.0).chain(&kind.to_be_bytes()));
    room.extend(frame.payload);
    true
}

/// Puts tags into a frame that has none.
pub(crate) fn tagged(tags: Tags, mut frame: Vec<u8>) -> Vec<u8> {
    let mut head = Head { bytes: [0; 18], len: 0 };
    head.push_tags(tags);
    if head.len > 0 && frame.len() >= ADDRESSES {
        frame.splice(ADDRESSES..ADDRESSES, head.bytes().iter().copied());
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
    fn packets_leave_a_session_as_they_went_in() {
        for kind in [IPV4, IPV6] {
            let frame =
                [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), &[0x45, 1, 2]].concat();
            let inside = in_session(&frame, 7).unwrap();
            let mut room = Vec::new();
            assert!(out_of_session(&SessionFrame::read(&inside).unwrap(), &mut room));
            assert_eq!(room, frame);
        }
        assert_eq!(in_session(&[&[2; 12][..], &[8, 6, 1]].concat(), 7), None);
    }

    #[test]
    fn a_head_is_what_the_frames_have() {
        for kind in [IPV4, IPV6] {
            let frame = [&[2; 12][..], &kind.to_be_bytes(), &[0x45; 20]].concat();
            for tags in [Tags::None, Tags::One(7), Tags::Two { outer: 100, inner: 4094 }] {
                for session_id in [None, Some(9)] {
                    let inside = session_id.map_or(frame.clone(), |id| in_session(&frame, id).unwrap());
                    let head = Head::of_packet(kind, tags, session_id, 20);
                    assert_eq!(tagged(tags, inside), [&frame[..12], head.bytes(), &frame[14..]].concat());
                }
            }
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
