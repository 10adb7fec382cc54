//! How a block of a ring looks inside.
//!
//! ```text
//!  | version | first | number | status, frames, offset of the first ... |   libc::tpacket_block_desc
//!  | header, with the offset of the next | address | room for a tag | frame | ... |   and so on
//! ```

use std::mem::offset_of;

use crate::capture::Frame;
use crate::capture::tag::{self, Tag};

/// Offset of the status word, which says whether the kernel or the reader has the block.
pub(super) const STATUS_AT: usize = block_offset() + offset_of!(libc::tpacket_hdr_v1, block_status);
/// Bytes of a block before its first frame.
const HEAD_BYTES: u64 = 48;
/// Bytes from a frame's header to its bytes: header, address, room for a tag, and what aligns the IP header.
const FRAME_HEAD_BYTES: u64 = 86;
const ALIGN: u64 = 8;

const fn block_offset() -> usize {
    offset_of!(libc::tpacket_block_desc, hdr)
}

/// Bytes of a ring that a frame of `frame_bytes` takes.
pub(super) const fn cost_of(frame_bytes: u32) -> u64 {
    (FRAME_HEAD_BYTES + frame_bytes as u64).next_multiple_of(ALIGN)
}

/// Frames of `cost` bytes that fit into a block.
pub(super) const fn frames_in(block_bytes: u32, cost: u64) -> u64 {
    (block_bytes as u64 - HEAD_BYTES) / cost
}

/// The block that the kernel fills after block `i` of `blocks`.
pub(super) const fn after(i: u32, blocks: u32) -> u32 {
    if i + 1 == blocks { 0 } else { i + 1 }
}

/// Hands on the frames of a block that has been handed over; returns how many.
///
/// # Panics
/// When an offset leads out of the block, which the kernel never does.
pub(super) fn read(bytes: &mut [u8], snap: u32, lost_before: u64, each: &mut dyn FnMut(&Frame<'_>)) -> usize {
    let head: libc::tpacket_hdr_v1 = copy(bytes, block_offset());
    let (mut at, mut lost_before) = (head.offset_to_first_pkt as usize, lost_before);
    for _ in 0..head.num_pkts {
        let header: libc::tpacket3_hdr = copy(bytes, at);
        let tag = Tag::reported(header.tp_status, header.hv1.tp_vlan_tpid, header.hv1.tp_vlan_tci as u16);
        let start = at + usize::from(header.tp_mac);
        let room = &mut bytes[start - tag::ROOM..start + header.tp_snaplen as usize];
        each(&Frame {
            bytes: tag::put_back(room, tag, snap),
            wire_len: header.tp_len + if tag.is_some() { tag::ROOM as u32 } else { 0 },
            at: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            lost_before: std::mem::take(&mut lost_before),
        });
        at += header.tp_next_offset as usize;
    }
    head.num_pkts as usize
}

/// A structure of the kernel's: integers only.
trait Plain: Copy {}
impl Plain for libc::tpacket_hdr_v1 {}
impl Plain for libc::tpacket3_hdr {}

fn copy<T: Plain>(bytes: &[u8], at: usize) -> T {
    let bytes = &bytes[at..at + size_of::<T>()];
    // SAFETY: as many bytes as a T has, any bit pattern of which is one; they need not be aligned.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<T: Plain>(bytes: &mut [u8], at: usize, value: T) {
        assert!(at + size_of::<T>() <= bytes.len());
        // SAFETY: inside `bytes`; need not be aligned.
        unsafe { bytes[at..].as_mut_ptr().cast::<T>().write_unaligned(value) };
    }

    /// A block of two frames, the second of which was tagged and cut.
    fn block() -> Vec<u8> {
        let mut bytes = vec![0u8; 512];
        // SAFETY: integers; zero is a value.
        let (mut head, mut one): (libc::tpacket_hdr_v1, libc::tpacket3_hdr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        (head.num_pkts, head.offset_to_first_pkt) = (2, 48);
        put(&mut bytes, block_offset(), head);
        (one.tp_next_offset, one.tp_sec, one.tp_nsec) = (120, 2, 7);
        (one.tp_mac, one.tp_snaplen, one.tp_len) = (86, 20, 20);
        put(&mut bytes, 48, one);
        bytes[48 + 86..][..20].fill(1);
        (one.tp_next_offset, one.tp_nsec, one.tp_len) = (0, 9, 1000);
        one.tp_status = libc::TP_STATUS_VLAN_VALID;
        one.hv1.tp_vlan_tci = 5;
        put(&mut bytes, 168, one);
        bytes[168 + 86..][..20].fill(2);
        bytes
    }

    #[test]
    fn frames_of_a_block_come_in_order_with_all_that_is_said_of_them() {
        let mut seen = vec![];
        let mut bytes = block();
        let n = read(&mut bytes, 100, 3, &mut |frame| {
            seen.push((frame.bytes.to_vec(), frame.wire_len, frame.at, frame.lost_before));
        });
        let tagged = [&[2; 12][..], &[0x81, 0, 0, 5], &[2; 8]].concat();
        assert_eq!(n, 2);
        assert_eq!(seen, [(vec![1; 20], 20, 2_000_000_007, 3), (tagged, 1004, 2_000_000_009, 0)]);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn an_offset_that_leads_out_of_the_block_is_never_followed() {
        let mut bytes = block();
        bytes.truncate(200);
        read(&mut bytes, 100, 0, &mut |_| ());
    }

    #[test]
    fn blocks_are_filled_in_turn() {
        let mut i = 0;
        let turn: Vec<_> = std::iter::repeat_with(|| (i, i = after(i, 3)).0).take(7).collect();
        assert_eq!(turn, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(after(u32::MAX - 1, u32::MAX), 0);
    }

    #[test]
    fn a_minimum_frame_costs_two_and_a_half_times_its_bytes() {
        assert_eq!((cost_of(60), frames_in(1 << 20, cost_of(60))), (152, 6898));
    }
}
