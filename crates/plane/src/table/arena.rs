//! Numbered records that never move: pieces of memory, each reserved at once and touched only as it fills up, so that
//! growing costs a page fault now and then and never a copy.

use std::ops;

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 1 << 26;

/// Records by number, from 0.
pub(crate) struct Arena<T> {
    pieces: Vec<Vec<T>>,
    len: u32,
}

impl<T> Arena<T> {
    /// Records of a piece.
    const PIECE: usize = PIECE_BYTES / size_of::<T>().next_power_of_two();

    pub(crate) fn new() -> Arena<T> {
        Arena { pieces: Vec::new(), len: 0 }
    }

    /// Records so far.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a record and tells its number.
    pub(crate) fn push(&mut self, record: T) -> u32 {
        let number = self.len;
        if (number as usize).is_multiple_of(Self::PIECE) {
            self.pieces.push(Vec::with_capacity(Self::PIECE));
        }
        self.pieces[number as usize / Self::PIECE].push(record);
        self.len = number + 1;
        number
    }
}

impl<T> ops::Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.pieces[number as usize / Self::PIECE][number as usize % Self::PIECE]
    }
}

impl<T> ops::IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pieces[number as usize / Self::PIECE][number as usize % Self::PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_numbers_over_pieces() {
        let mut arena = Arena::new();
        let piece = Arena::<[u32; 512]>::PIECE as u32;
        (0..piece + 3).for_each(|n| assert_eq!(arena.push([n; 512]), n));
        arena[piece][1] = 77;
        assert_eq!(arena.len(), piece + 3);
        assert_eq!((arena[piece - 1][511], arena[piece][..2].to_vec()), (piece - 1, vec![piece, 77]));
    }
}
