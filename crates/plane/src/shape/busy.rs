//! Subscribers with many packets, by their number of packets: where there is no room, one of those with the most loses some.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use super::scheduler::Shaper;
use super::subscriber::Slot;
use super::wheel::NONE;

/// Lists of busy subscribers: by the logarithm of their packets.
pub(super) const LISTS: usize = 16;
/// A subscriber with fewer packets is not busy.
const BUSY_PACKETS: u16 = 4;

/// The first subscriber of each list.
pub(super) type Busy = [u32; LISTS];

impl Shaper {
    /// The number of packets of a subscriber has changed.
    #[inline]
    pub(super) fn note_backlog(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        let is = match slot.packets {
            0..BUSY_PACKETS => 0,
            packets => (packets.ilog2() as u8).min(LISTS as u8 - 1),
        };
        if is != slot.busy {
            self.move_busy(at, is);
        }
    }

    #[inline(never)]
    fn move_busy(&mut self, at: u32, is: u8) {
        let Slot { busy: was, busy_next: next, busy_before: before, .. } = self.slots[at as usize];
        if was != 0 {
            match before {
                NONE => self.busy[usize::from(was)] = next,
                before => self.slots[before as usize].busy_next = next,
            }
            if next != NONE {
                self.slots[next as usize].busy_before = before;
            }
        }
        let mut first = NONE;
        if is != 0 {
            first = std::mem::replace(&mut self.busy[usize::from(is)], at);
            if first != NONE {
                self.slots[first as usize].busy_before = at;
            }
        }
        let slot = &mut self.slots[at as usize];
        (slot.busy, slot.busy_next, slot.busy_before) = (is, first, NONE);
    }

    /// One of the subscribers with the most packets, within a factor of two.
    pub(super) fn busiest(&self) -> Option<u32> {
        self.busy.iter().rev().copied().find(|&at| at != NONE)
    }
}
