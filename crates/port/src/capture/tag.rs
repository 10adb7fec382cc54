//! VLAN tags: the kernel takes the outer one out of each frame before a socket sees it, and tells it beside the frame.

/// Bytes that must be free before a frame, so that its tag fits in.
pub(crate) const ROOM: usize = 4;
/// Bytes of both MAC addresses, behind which the tag stands.
const MACS: usize = 12;

/// A tag that was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    /// EtherType, 0x8100 or 0x88a8.
    pub(crate) tpid: u16,
    /// Priority and VLAN number.
    pub(crate) tci: u16,
}

impl Tag {
    /// What the kernel reported beside a frame: `status` of its header or auxiliary data, and the two words there.
    pub(crate) fn reported(status: u32, tpid: u16, tci: u16) -> Option<Tag> {
        if status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        Some(Tag { tpid: if known { tpid } else { libc::ETH_P_8021Q as u16 }, tci })
    }
}

/// The frame that begins [`ROOM`] bytes into `bytes`, with its tag if it has one, cut to `snap`.
pub(crate) fn put_back(bytes: &mut [u8], tag: Option<Tag>, snap: u32) -> &[u8] {
    let frame = match tag {
        Some(tag) if bytes.len() >= ROOM + MACS => {
            bytes.copy_within(ROOM..ROOM + MACS, 0);
            bytes[MACS..MACS + 2].copy_from_slice(&tag.tpid.to_be_bytes());
            bytes[MACS + 2..MACS + 4].copy_from_slice(&tag.tci.to_be_bytes());
            &bytes[..]
        }
        _ => &bytes[ROOM..],
    };
    &frame[..frame.len().min(snap as usize)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag { tpid: 0x8100, tci: 0x2007 };

    #[test]
    fn a_tag_stands_between_source_and_type_again() {
        let mut bytes: Vec<u8> = [0xee; 4].into_iter().chain(1..=20).collect();
        let whole: Vec<u8> = (1..=12).chain([0x81, 0x00, 0x20, 0x07]).chain(13..=20).collect();
        assert_eq!(put_back(&mut bytes.clone(), Some(TAG), 100), whole);
        assert_eq!(put_back(&mut bytes.clone(), Some(TAG), 14), &whole[..14], "the tag counts as bytes kept");
        assert_eq!(put_back(&mut bytes.clone(), None, 100), (1..=20).collect::<Vec<u8>>());
        assert_eq!(put_back(&mut bytes, None, 3), [1, 2, 3]);
    }

    #[test]
    fn a_frame_cut_within_its_addresses_has_no_place_for_a_tag() {
        let mut bytes: Vec<u8> = [0xee; 4].into_iter().chain(1..=11).collect();
        assert_eq!(put_back(&mut bytes, Some(TAG), 100), (1..=11).collect::<Vec<u8>>());
    }

    #[test]
    fn only_a_valid_tag_is_one() {
        let (valid, with_type) = (libc::TP_STATUS_VLAN_VALID, libc::TP_STATUS_VLAN_TPID_VALID);
        assert_eq!(Tag::reported(0, 0x8100, 7), None);
        assert_eq!(Tag::reported(valid, 0, 7), Some(Tag { tpid: 0x8100, tci: 7 }));
        assert_eq!(Tag::reported(valid | with_type, 0x88a8, 7), Some(Tag { tpid: 0x88a8, tci: 7 }));
    }
}
