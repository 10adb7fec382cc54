//! The filter of a socket whose interface has other ports as well: frames with other tags are kept away in the kernel, which would
//! else copy each frame to each port.
//!
//! The kernel takes the outer tag out of a frame before a socket sees it, and tells it beside the frame; an inner tag stands in its
//! place behind the addresses.
//! Source: Documentation/networking/filter.rst, `__netif_receive_skb_core` in net/core/dev.c.

use std::ops::RangeInclusive;

use crate::capture::tap::instruction;

/// Where loads find whether there is an outer tag, its type, and what it says (linux/filter.h).
const TAG_PRESENT: u32 = BESIDE + 48;
const TAG_TYPE: u32 = BESIDE + 60;
const TAG: u32 = BESIDE + 44;
const BESIDE: u32 = -0x1000_i32 as u32;
/// Behind both addresses: the type of an inner tag, and what it says.
const INNER_TYPE: u32 = 12;
const INNER: u32 = 14;
/// Bits of a tag that are the number of a VLAN.
const VID: u32 = 0xfff;

const Q: u32 = 0x8100;
const AD: u32 = 0x88a8;

/// Numbers of VLANs, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vids {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl From<RangeInclusive<u16>> for Vids {
    fn from(range: RangeInclusive<u16>) -> Vids {
        Vids { first: *range.start(), last: *range.end() }
    }
}

/// The tags of the frames of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    /// Those of the outer tag, 802.1ad where there is an inner one, and 802.1Q else.
    pub outer: Option<Vids>,
    /// Those of the inner tag, 802.1Q.
    pub inner: Option<Vids>,
    /// Frames without tags are the port's as well, also those with a tag that names a priority and no VLAN.
    pub untagged: bool,
}

/// A filter as it grows: jumps to its end are known when it is whole.
#[derive(Default)]
struct Draft(Vec<(libc::sock_filter, Option<Jump>)>);

/// A jump by the result of a comparison; else the next instruction follows.
#[derive(Clone, Copy)]
enum Jump {
    RefuseUnless,
    RefuseIf,
    /// To what is said of frames without tags.
    UntaggedIf,
}

impl Draft {
    fn load(&mut self, size: u32, at: u32) {
        self.0.push((instruction(libc::BPF_LD | size | libc::BPF_ABS, at), None));
    }

    fn vid(&mut self) {
        self.0.push((instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, VID), None));
    }

    fn compare(&mut self, how: u32, with: u32, jump: Jump) {
        self.0.push((instruction(libc::BPF_JMP | how | libc::BPF_K, with), Some(jump)));
    }

    fn within(&mut self, vids: Vids) {
        self.compare(libc::BPF_JGE, vids.first.into(), Jump::RefuseUnless);
        self.compare(libc::BPF_JGT, vids.last.into(), Jump::RefuseIf);
    }

    /// The program: what was not refused is accepted, and frames without tags are as the port says.
    fn whole(self, untagged: bool) -> Vec<libc::sock_filter> {
        let accept = self.0.len();
        let refuse = accept + 1;
        let ends = [u32::MAX, 0].map(|bytes| instruction(libc::BPF_RET | libc::BPF_K, bytes));
        let to = |end: usize, from: usize| (end - from - 1) as u8;
        let one = |(n, (one, jump)): (usize, (libc::sock_filter, Option<Jump>))| match jump {
            None => one,
            Some(Jump::RefuseUnless) => libc::sock_filter { jf: to(refuse, n), ..one },
            Some(Jump::RefuseIf) => libc::sock_filter { jt: to(refuse, n), ..one },
            Some(Jump::UntaggedIf) => {
                libc::sock_filter { jt: to(if untagged { accept } else { refuse }, n), ..one }
            }
        };
        self.0.into_iter().enumerate().map(one).chain(ends).collect()
    }
}

impl Tags {
    /// The filter that frames with these tags pass.
    pub(super) fn program(&self) -> Vec<libc::sock_filter> {
        let mut draft = Draft::default();
        draft.load(libc::BPF_B, TAG_PRESENT);
        draft.compare(libc::BPF_JEQ, 0, Jump::UntaggedIf);
        draft.load(libc::BPF_H, TAG);
        draft.vid();
        draft.compare(libc::BPF_JEQ, 0, Jump::UntaggedIf);
        match self.outer {
            Some(outer) => draft.within(outer),
            // No number is that large.
            None => draft.compare(libc::BPF_JGT, VID, Jump::RefuseUnless),
        }
        draft.load(libc::BPF_H, TAG_TYPE);
        draft.compare(libc::BPF_JEQ, if self.inner.is_some() { AD } else { Q }, Jump::RefuseUnless);
        if let Some(inner) = self.inner {
            draft.load(libc::BPF_H, INNER_TYPE);
            draft.compare(libc::BPF_JEQ, Q, Jump::RefuseUnless);
            draft.load(libc::BPF_H, INNER);
            draft.vid();
            draft.within(inner);
        }
        draft.whole(self.untagged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::filter::Filter;

    /// A frame with these tags, each a type and a number.
    fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
        let tags = tags.iter().flat_map(|(kind, vid)| [kind.to_be_bytes(), vid.to_be_bytes()].concat());
        [2; 12].into_iter().chain(tags).chain([8, 0]).chain([0x45; 46]).collect()
    }

    #[test]
    fn frames_with_other_tags_do_not_pass() {
        let vids = |range: RangeInclusive<u16>| Some(Vids::from(range));
        let single = Tags { outer: vids(7..=7), inner: None, untagged: false };
        let ranges = Tags { outer: vids(100..=199), inner: vids(2..=4094), untagged: true };
        let plain = Tags { outer: None, inner: None, untagged: true };
        for (tags, accepted) in [
            (&[][..], [false, true, true]),
            (&[(0x8100, 0xe000)], [false, true, true]),
            (&[(0x8100, 0xe007)], [true, false, false]),
            (&[(0x8100, 8)], [false, false, false]),
            (&[(0x88a8, 7)], [false, false, false]),
            (&[(0x88a8, 7), (0x8100, 9)], [false, false, false]),
            (&[(0x88a8, 100), (0x8100, 2)], [false, true, false]),
            (&[(0x88a8, 0x2000 | 199), (0x8100, 0x6000 | 4094)], [false, true, false]),
            (&[(0x88a8, 99), (0x8100, 2)], [false, false, false]),
            (&[(0x88a8, 200), (0x8100, 2)], [false, false, false]),
            (&[(0x88a8, 150), (0x8100, 1)], [false, false, false]),
            (&[(0x88a8, 150), (0x8100, 4095)], [false, false, false]),
            (&[(0x88a8, 150), (0x88a8, 2)], [false, false, false]),
            (&[(0x88a8, 150)], [false, false, false]),
            (&[(0x8100, 150), (0x8100, 2)], [false, false, false]),
        ] {
            let found = [single, ranges, plain].map(|port| Filter::new(port.program()).accepts(&frame(tags)));
            assert_eq!(found, accepted, "{tags:04x?}");
        }
    }
}
