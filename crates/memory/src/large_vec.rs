//! A vector that asks for huge pages from the first huge page on: numbered records that random numbers find.
//!
//! It grows as a [`Vec`] does. Where that is large, the allocator moves its pages and copies nothing.

use std::ops::{Deref, DerefMut};

use crate::segment::{HUGE, advise};

/// Elements by number; it never shrinks.
#[derive(Debug)]
pub struct LargeVec<T> {
    elements: Vec<T>,
}

impl<T> Default for LargeVec<T> {
    fn default() -> LargeVec<T> {
        LargeVec { elements: Vec::new() }
    }
}

impl<T> LargeVec<T> {
    /// One more element; returns its number.
    pub fn push(&mut self, element: T) -> u32 {
        let number = self.elements.len();
        if number == self.elements.capacity() {
            self.grow();
        }
        self.elements.push(element);
        number as u32
    }

    #[cold]
    fn grow(&mut self) {
        self.elements.reserve(1);
        if self.bytes() >= HUGE {
            advise(&self.elements);
        }
    }

    /// Its memory, bytes.
    pub fn bytes(&self) -> usize {
        self.elements.capacity() * size_of::<T>()
    }
}

impl<T> Deref for LargeVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for LargeVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_numbers_while_it_grows() {
        let mut all = LargeVec::default();
        let in_huge = HUGE / size_of::<[u64; 512]>();
        for n in 0..3 * in_huge as u64 {
            assert_eq!(u64::from(all.push([n; 512])), n);
        }
        all[1][0] = 13;
        assert_eq!((all[0][0], all[1][0], all[2 * in_huge][511]), (0, 13, 2 * in_huge as u64));
        assert!(all.bytes() >= 3 * HUGE);
    }
}
