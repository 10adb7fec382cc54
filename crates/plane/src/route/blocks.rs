//! Memory of the route tables: blocks of neighbouring elements, named by the number of their first. It grows by whole
//! segments, so that no growth copies what is there: a change of a table stays a small piece of work at any size. A segment
//! is touched as far as it is used, and in huge pages where the kernel has some.
//!
//! Invariant: a block lies in one segment; what was freed is given out again before memory grows.

use std::ops::{Index, IndexMut, Range};

use weir_memory::Segment;

/// The longest block.
const MAX_LENGTH: usize = 256;

/// Blocks in segments of `1 << BITS` elements.
#[derive(Debug)]
pub(crate) struct Blocks<T, const BITS: u32> {
    segments: Vec<Segment<T>>,
    /// First free element of the last segment.
    next: usize,
    /// Freed blocks by length.
    free: Vec<Vec<u32>>,
    /// Elements of the blocks in use.
    live: usize,
}

impl<T: Copy + Default, const BITS: u32> Blocks<T, BITS> {
    const SEGMENT: usize = 1 << BITS;

    pub(crate) fn new() -> Self {
        Blocks { segments: Vec::new(), next: Self::SEGMENT, free: vec![Vec::new(); MAX_LENGTH + 1], live: 0 }
    }

    /// A block of `length` elements; its content is what was there before.
    pub(crate) fn alloc(&mut self, length: usize) -> u32 {
        let length = rounded(length);
        self.live += length;
        if let Some(block) = self.free[length].pop() {
            return block;
        }
        if self.next + length > Self::SEGMENT {
            self.segments.push(Segment::with_capacity(Self::SEGMENT));
            self.next = 0;
        }
        let block = ((self.segments.len() - 1) << BITS) + self.next;
        self.next += length;
        if let Some(segment) = self.segments.last_mut() {
            segment.grow(self.next, T::default());
        }
        u32::try_from(block).expect("a table has less than 2^32 elements")
    }

    pub(crate) fn free(&mut self, block: u32, length: usize) {
        let length = rounded(length);
        self.live -= length;
        self.free[length].push(block);
    }

    /// A block's elements.
    pub(crate) fn block(&self, block: u32, length: usize) -> &[T] {
        let (segment, range) = place::<BITS>(block, length);
        &self.segments[segment][range]
    }

    /// A block's elements, to be written.
    pub(crate) fn block_mut(&mut self, block: u32, length: usize) -> &mut [T] {
        let (segment, range) = place::<BITS>(block, length);
        &mut self.segments[segment][range]
    }

    /// The block that holds the elements of `block` and `element` at place `at`; the old one is free.
    pub(crate) fn with(&mut self, block: u32, length: usize, at: usize, element: T) -> u32 {
        let mut all = Vec::with_capacity(length + 1);
        if length > 0 {
            all.extend_from_slice(self.block(block, length));
            self.free(block, length);
        }
        all.insert(at, element);
        self.put(&all)
    }

    /// The block that holds the elements of `block` but the one at place `at`; the old one is free. An empty block is 0.
    pub(crate) fn without(&mut self, block: u32, length: usize, at: usize) -> u32 {
        let mut all = self.block(block, length).to_vec();
        self.free(block, length);
        all.remove(at);
        if all.is_empty() { 0 } else { self.put(&all) }
    }

    /// A block that holds these elements, at least one.
    pub(crate) fn put(&mut self, elements: &[T]) -> u32 {
        let block = self.alloc(elements.len());
        self.block_mut(block, elements.len()).copy_from_slice(elements);
        block
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| size_of_val(&**segment)).sum()
    }

    /// Elements of the blocks in use.
    #[cfg(test)]
    pub(crate) fn live(&self) -> usize {
        self.live
    }
}

/// Lengths that are kept apart: each up to 8, then the multiples of 8.
fn rounded(length: usize) -> usize {
    if length <= 8 { length } else { length.next_multiple_of(8) }
}

#[inline]
fn place<const BITS: u32>(block: u32, length: usize) -> (usize, Range<usize>) {
    let at = block as usize & ((1 << BITS) - 1);
    (block as usize >> BITS, at..at + length)
}

impl<T, const BITS: u32> Index<u32> for Blocks<T, BITS> {
    type Output = T;

    #[inline]
    fn index(&self, element: u32) -> &T {
        let (segment, range) = place::<BITS>(element, 1);
        &self.segments[segment][range.start]
    }
}

impl<T, const BITS: u32> IndexMut<u32> for Blocks<T, BITS> {
    fn index_mut(&mut self, element: u32) -> &mut T {
        let (segment, range) = place::<BITS>(element, 1);
        &mut self.segments[segment][range.start]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_touch_each_other_and_come_back() {
        let mut blocks = Blocks::<u32, 9>::new();
        let mut all: Vec<(u32, usize)> = Vec::new();
        for n in 0..2000_u32 {
            let length = 1 + (n as usize * 37) % 64;
            let block = blocks.put(&vec![n; length]);
            all.push((block, length));
        }
        for (n, &(block, length)) in all.iter().enumerate() {
            assert!(blocks.block(block, length).iter().all(|&element| element == n as u32), "block {n}");
        }
        let bytes = blocks.bytes();
        for &(block, length) in &all {
            blocks.free(block, length);
        }
        assert_eq!(blocks.live(), 0);
        for &(_, length) in &all {
            blocks.alloc(length);
        }
        assert_eq!(blocks.bytes(), bytes, "freed blocks are used again");
    }

    #[test]
    fn elements_are_put_in_and_taken_out_in_order() {
        let mut blocks = Blocks::<u32, 9>::new();
        let one = blocks.with(0, 0, 0, 7);
        let two = blocks.with(one, 1, 1, 9);
        let three = blocks.with(two, 2, 1, 8);
        assert_eq!(blocks.block(three, 3), [7, 8, 9]);
        let two = blocks.without(three, 3, 0);
        assert_eq!(blocks.block(two, 2), [8, 9]);
    }
}
