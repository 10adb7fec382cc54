//! What became of the numbered packets of one session in one direction: 16 bytes, whatever is lost.
//!
//! ```text
//!  numbers below `next` - 64: not remembered | bits of `seen`: the last 64 | next, ..
//! ```

/// Numbers that arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sequence {
    /// The highest number that arrived, plus one.
    next: u32,
    /// Bit n: number `next` - 1 - n arrived.
    seen: u64,
}

/// What an arrived number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A new one, higher than all before.
    InOrder,
    /// A new one, lower than the highest (RFC 4737, section 3).
    Reordered,
    /// One that arrived before, or one so old that this is not known.
    Duplicate,
}

impl Sequence {
    /// Takes in a number.
    pub(crate) fn arrived(&mut self, number: u32) -> Arrival {
        match number.checked_sub(self.next) {
            Some(skipped) => {
                let shift = skipped.saturating_add(1);
                self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
                self.next = number.saturating_add(1);
                Arrival::InOrder
            }
            None => {
                let behind = self.next - 1 - number;
                let bit = 1_u64.checked_shl(behind).unwrap_or(0);
                if bit == 0 || self.seen & bit != 0 {
                    return Arrival::Duplicate;
                }
                self.seen |= bit;
                Arrival::Reordered
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_once() {
        use Arrival::{Duplicate, InOrder, Reordered};
        let mut sequence = Sequence::default();
        let rows = [
            (0, InOrder),
            (0, Duplicate),
            (3, InOrder),
            (2, Reordered),
            (2, Duplicate),
            (1, Reordered),
            (100, InOrder),
            (99, Reordered),
            (37, Reordered),
            (36, Duplicate),
            (u32::MAX, InOrder),
        ];
        for (number, expected) in rows {
            assert_eq!(sequence.arrived(number), expected, "number {number}");
        }
    }
}
