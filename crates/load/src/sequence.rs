//! Which sequence numbers of a flow group have arrived: duplicates and reordering.
//!
//! The same algorithm as in `bpf/recv.bpf.c`: a ring of words, each 64 numbers and the block that they belong
//! to, so that nothing has to be cleared when the numbers move on. A number counts as reordered when a higher
//! one came before it (RFC 4737, section 3.3).

use weir_port::shared::{Gap, Losses, Passed};

use crate::loss::{note_gap, note_late};

/// Words in the ring; it reaches back 64 times as many frames.
const WORDS: usize = 1024;

/// What the arrival of a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The highest so far.
    InOrder,
    /// Lower than one that came before, by so much.
    Reordered(u64),
    /// Came before.
    Duplicate,
}

/// Numbers seen so far.
#[derive(Debug, Clone)]
pub struct Window {
    next: u64,
    newest: Passed,
    words: Vec<(u64, u64)>,
}

impl Default for Window {
    fn default() -> Self {
        Window { next: 0, newest: Passed::default(), words: vec![(u64::MAX, 0); WORDS] }
    }
}

impl Window {
    /// Highest number that arrived, + 1.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The frame with the highest number.
    pub(crate) fn newest(&self) -> Passed {
        self.newest
    }

    /// Notes that `seq` arrived, and what is missing before it.
    pub(crate) fn arrive(&mut self, seq: u32, passed: Passed, losses: &mut Losses, merge_ns: u64) -> Arrival {
        // The number on the wire has 32 bits: the frame is within 2^31 of the next one.
        let ahead = seq.wrapping_sub(self.next as u32) as i32;
        let near = self.next.checked_add_signed(ahead.into()).filter(|_| self.next > 0);
        let seq = near.unwrap_or(seq.into());
        let (block, bit) = (seq >> 6, 1 << (seq & 63));
        let word = &mut self.words[block as usize % WORDS];
        if word.0 == block {
            if word.1 & bit != 0 {
                return Arrival::Duplicate;
            }
            word.1 |= bit;
        } else if word.0 == u64::MAX || word.0 < block {
            *word = (block, bit);
        }
        // Otherwise the number is older than the window: late, and whether it came before is not known.
        if seq < self.next {
            note_late(losses, seq);
            return Arrival::Reordered(self.next - 1 - seq);
        }
        if seq > self.next {
            let (first, last, lost) = (self.next, seq - 1, seq - self.next);
            note_gap(losses, Gap { first, last, lost, before: self.newest, after: passed }, merge_ns);
        }
        (self.next, self.newest) = (seq + 1, passed);
        Arrival::InOrder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::NO_LOSSES;

    /// `.` in order, `d` again, a digit: late by so many, or more than eight.
    fn check(numbers: &[u32], expected: &str) {
        let (mut window, mut losses) = (Window::default(), NO_LOSSES);
        let got: String = numbers
            .iter()
            .map(|&n| match window.arrive(n, Passed::default(), &mut losses, 0) {
                Arrival::InOrder => '.',
                Arrival::Reordered(extent) => char::from_digit(extent.min(9) as u32, 10).expect("a digit"),
                Arrival::Duplicate => 'd',
            })
            .collect();
        assert_eq!(got, expected, "{numbers:?}");
    }

    #[test]
    fn arrivals_are_named() {
        check(&[0, 1, 2, 3], "....");
        check(&[0, 3, 4, 1, 2, 5], "...32.");
        check(&[0, 2, 1, 3], "..1.");
        check(&[0, 0, 1, 1, 0], ".d.dd");
        check(&[5, 4, 4, 5, 6], ".1dd.");
        check(&[63, 64, 63, 64, 0], "..dd9");
        // After 2^32 frames the numbers start again.
        check(&[u32::MAX - 1, u32::MAX, 0, u32::MAX, 1, 0], "...d.d");
        // 64 Ki frames later the window has moved on: late, but no longer known to be a duplicate.
        check(&[0, 65_535, 0, 65_536, 0], "..d.9");
    }
}
