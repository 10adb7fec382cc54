//! Memory that is reserved at once and touched only as it fills: elements never move, and from the first huge page on
//! the kernel is asked for huge pages.

use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};

/// Bytes of a huge page.
const HUGE: usize = 1 << 21;

/// Elements that never move, up to as many as were reserved.
#[derive(Debug)]
pub struct Segment<T> {
    elements: Vec<T>,
    /// Elements from which on huge pages are asked for: a small table takes no more memory than it needs.
    huge_from: usize,
}

impl<T> Segment<T> {
    /// Room for so many elements.
    pub fn with_capacity(elements: usize) -> Segment<T> {
        let huge_from = HUGE / size_of::<T>().max(1);
        Segment { elements: Vec::with_capacity(elements), huge_from }
    }

    /// Elements that fit without a move.
    pub fn capacity(&self) -> usize {
        self.elements.capacity()
    }

    /// One more element.
    ///
    /// # Panics
    /// If there is no room left.
    pub fn push(&mut self, element: T) {
        assert!(self.elements.len() < self.elements.capacity(), "room in a segment");
        self.elements.push(element);
        self.ask_for_huge_pages();
    }

    /// As many elements as `len`, the new ones copies of `element`.
    ///
    /// # Panics
    /// If there is not so much room.
    pub fn grow(&mut self, len: usize, element: T)
    where
        T: Clone,
    {
        assert!(len <= self.elements.capacity(), "room in a segment");
        self.elements.resize(len.max(self.elements.len()), element);
        self.ask_for_huge_pages();
    }

    #[inline]
    fn ask_for_huge_pages(&mut self) {
        if self.elements.len() >= self.huge_from {
            self.huge_from = usize::MAX;
            advise(&self.elements);
        }
    }
}

/// Asks for huge pages for all whole ones in the memory of a vector. Where the kernel has none, nothing changes.
#[cold]
fn advise<T>(elements: &Vec<T>) {
    let begin = elements.as_ptr().addr();
    let (first, end) = (begin.next_multiple_of(HUGE), begin + elements.capacity() * size_of::<T>());
    let bytes = end.saturating_sub(first) / HUGE * HUGE;
    // Miri has no such call.
    if bytes > 0 && !cfg!(miri) {
        // SAFETY: the range is within the vector's own memory, which lives through the call; the advice says of which pages
        // it is to be made, and leaves what it holds as it is.
        _ = unsafe {
            madvise(elements.as_ptr().with_addr(first).cast_mut().cast(), bytes, Advice::LinuxHugepage)
        };
    }
}

impl<T> Deref for Segment<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for Segment<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are() {
        // Large elements: Miri is slow where there are many.
        const IN_HUGE: usize = HUGE / size_of::<[u64; 512]>();
        let mut segment = Segment::with_capacity(5 * IN_HUGE);
        segment.push([7_u64; 512]);
        let place = segment.as_ptr();
        segment.grow(3 * IN_HUGE, [9; 512]);
        segment.push([11; 512]);
        assert_eq!((segment.as_ptr(), segment.len()), (place, 3 * IN_HUGE + 1));
        assert_eq!((segment[0][0], segment[1][0], segment[3 * IN_HUGE][511]), (7, 9, 11));
        segment[1] = [13; 512];
        assert_eq!(segment[..2], [[7; 512], [13; 512]]);
    }

    #[test]
    #[should_panic(expected = "room in a segment")]
    fn a_full_segment_takes_nothing() {
        let mut segment = Segment::with_capacity(1);
        (0..=segment.capacity()).for_each(|_| segment.push(0_u8));
    }

    /// Pages of memory that the kernel was asked to make huge, by the flag `hg` of the mapping (proc(5), smaps).
    fn is_asked_for(address: usize) -> Option<bool> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_in = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds = range.map(|(a, b)| (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16)));
            if let Some((Ok(first), Ok(end))) = bounds {
                is_in = (first..end).contains(&address);
            } else if is_in && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(flags.split_whitespace().any(|flag| flag == "hg"));
            }
        }
        None
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn only_what_is_larger_than_a_huge_page_asks_for_some() {
        let mut segment = Segment::with_capacity(16 * HUGE);
        let middle = segment.as_ptr() as usize + 8 * HUGE;
        segment.grow(HUGE - 1, 0_u8);
        let before = is_asked_for(middle);
        segment.grow(HUGE, 0);
        let after = is_asked_for(middle);
        match (before, after) {
            (Some(before), Some(after)) => {
                let has_any = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
                assert_eq!((before, after), (false, has_any));
            }
            _ => println!("skipped: no /proc/self/smaps"),
        }
    }
}
