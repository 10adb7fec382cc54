//! Lists of numbers: each item has the number of the next one, the last one that of the first, and the list knows the last one.

use super::wheel::NONE;

/// Where items have the number of the next one.
pub(super) trait Links {
    fn next(&mut self, item: u32) -> &mut u32;
}

/// A list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    tail: u32,
}

impl Ring {
    pub(super) const EMPTY: Ring = Ring { tail: NONE };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.tail == NONE
    }

    /// The last item.
    #[inline]
    pub(super) fn last(self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// The first item.
    #[inline]
    pub(super) fn head(self, links: &mut impl Links) -> Option<u32> {
        (self.tail != NONE).then(|| *links.next(self.tail))
    }

    /// Adds an item behind the last one.
    #[inline]
    pub(super) fn push(&mut self, links: &mut impl Links, item: u32) {
        let first = if self.tail == NONE { item } else { *links.next(self.tail) };
        *links.next(item) = first;
        if self.tail != NONE {
            *links.next(self.tail) = item;
        }
        self.tail = item;
    }

    /// Removes the first item.
    #[inline]
    pub(super) fn pop(&mut self, links: &mut impl Links) -> Option<u32> {
        let first = self.head(links)?;
        if first == self.tail {
            self.tail = NONE;
        } else {
            let second = *links.next(first);
            *links.next(self.tail) = second;
        }
        Some(first)
    }

    /// The first item becomes the last one.
    #[inline]
    pub(super) fn rotate(&mut self, links: &mut impl Links) {
        if self.tail != NONE {
            self.tail = *links.next(self.tail);
        }
    }
}
