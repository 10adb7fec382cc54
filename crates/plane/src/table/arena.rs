//! Numbered records that never move: segments of memory, each reserved at once and touched only as it fills up, so that
//! growing costs a page fault now and then and never a copy.

use std::ops;

use weir_memory::{Segment, prefetch};

/// Bytes of a segment, about.
const SEGMENT_BYTES: usize = 1 << 26;

/// Records by number, from 0.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    segments: Vec<Segment<T>>,
    len: u32,
}

impl<T> Arena<T> {
    /// Records of a segment.
    const SEGMENT: usize = SEGMENT_BYTES / size_of::<T>().next_power_of_two();

    pub(crate) fn new() -> Arena<T> {
        Arena { segments: Vec::new(), len: 0 }
    }

    /// Records so far.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a record and tells its number.
    pub(crate) fn push(&mut self, record: T) -> u32 {
        let number = self.len;
        if (number as usize).is_multiple_of(Self::SEGMENT) {
            self.segments.push(Segment::with_capacity(Self::SEGMENT));
        }
        self.segments[number as usize / Self::SEGMENT].push(record);
        self.len = number + 1;
        number
    }
}

impl<T> Arena<T> {
    /// The record of this number, if there is one.
    #[inline]
    pub(crate) fn record(&self, number: u32) -> Option<&T> {
        (number < self.len).then(|| &self[number])
    }

    /// Prefetches the record of this number, if there is one.
    #[inline]
    pub(crate) fn touch(&self, number: u32) {
        self.record(number).into_iter().for_each(prefetch);
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn record_mut(&mut self, number: u32) -> Option<&mut T> {
        (number < self.len).then(|| &mut self[number])
    }
}

impl<T> ops::Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.segments[number as usize / Self::SEGMENT][number as usize % Self::SEGMENT]
    }
}

impl<T> ops::IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.segments[number as usize / Self::SEGMENT][number as usize % Self::SEGMENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_numbers_over_segments() {
        let mut arena = Arena::new();
        let segment = Arena::<[u32; 512]>::SEGMENT as u32;
        (0..segment + 3).for_each(|n| assert_eq!(arena.push([n; 512]), n));
        arena[segment][1] = 77;
        assert_eq!(arena.len(), segment + 3);
        assert_eq!((arena[segment - 1][511], arena[segment][..2].to_vec()), (segment - 1, vec![segment, 77]));
    }
}
