//! Memory that is reserved at once and touched only as it fills: elements never move, and from the first huge page on
//! the kernel is asked for huge pages, the next one before it is reached ([`crate::Populator`]).

use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};

use crate::populate::populate;

/// Bytes of a huge page, and of a page.
pub(crate) const HUGE: usize = 1 << 21;
const PAGE: usize = 1 << 12;

/// Elements that never move, up to as many as were reserved.
#[derive(Debug)]
pub struct Segment<T> {
    elements: Vec<T>,
    /// With so many elements something is asked of the kernel. First, with those of a huge page, that pages be huge: a small table takes no
    /// more memory than it needs.
    ask_at: usize,
    asks_for_huge: bool,
}

impl<T> Segment<T> {
    /// Room for so many elements.
    pub fn with_capacity(elements: usize) -> Segment<T> {
        let ask_at = HUGE / size_of::<T>().max(1);
        Segment { elements: Vec::with_capacity(elements), ask_at, asks_for_huge: false }
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
        if self.elements.len() >= self.ask_at {
            self.ask();
        }
    }

    /// Asks for huge pages once, and for the next one in the middle of each.
    #[cold]
    fn ask(&mut self) {
        if !self.asks_for_huge {
            self.asks_for_huge = true;
            advise(&self.elements);
        }
        let begin = self.elements.as_ptr().expose_provenance();
        let bytes = size_of::<T>().max(1);
        let end = begin + self.elements.len() * bytes;
        let (middle, next) = (end / HUGE * HUGE + HUGE / 2, end / HUGE * HUGE + HUGE);
        let ask_at = if end < middle {
            middle
        } else {
            let room = (begin + self.elements.capacity() * bytes) / PAGE * PAGE;
            if next < room {
                populate(next..room.min(next + HUGE));
            }
            middle + HUGE
        };
        self.ask_at = self.elements.len() + (ask_at - end).div_ceil(bytes);
    }
}

/// Asks for huge pages for all whole ones in the memory of a vector. Where the kernel has none, nothing changes.
#[cold]
pub(crate) fn advise<T>(elements: &Vec<T>) {
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

    fn populate_ahead() {
        if let Some(populator) = crate::Populator::first() {
            let thread = std::thread::Builder::new().name("memory".into());
            thread.spawn(|| populator.run()).expect("a thread");
        }
    }

    /// Whether the kernel has made the page of an address (proc_pid_pagemap(5)).
    fn is_made(address: usize) -> Option<bool> {
        use std::os::unix::fs::FileExt;
        let (pages, mut entry) = (std::fs::File::open("/proc/self/pagemap").ok()?, [0; 8]);
        pages.read_exact_at(&mut entry, (address / PAGE * 8) as u64).ok()?;
        Some(u64::from_le_bytes(entry) >> 63 == 1)
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_next_huge_page_is_made_before_it_is_reached() {
        populate_ahead();
        let mut segment = Segment::with_capacity(16 * HUGE);
        let begin = segment.as_ptr() as usize;
        // Half of the second whole huge page.
        let page = begin.next_multiple_of(HUGE) + HUGE;
        segment.grow(page + HUGE / 2 - begin - 1, 0_u8);
        let (next, after) = (page + HUGE, page + 2 * HUGE);
        if is_made(next).is_none() {
            return println!("skipped: no /proc/self/pagemap");
        }
        assert_eq!(is_made(next), Some(false));
        segment.push(0);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while is_made(next) == Some(false) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((is_made(next), is_made(after)), (Some(true), Some(false)));
        // What follows is asked for in the middle of the next one.
        segment.push(0);
        assert!(segment.ask_at - segment.len() >= HUGE - 2, "{}", segment.ask_at);
    }

    /// The longest times that one more element takes, us, where some come each ms: the last 20 of all.
    fn longest_us() -> Vec<u128> {
        use std::time::{Duration, Instant};
        let (begin, mut segment, mut times) = (Instant::now(), Segment::with_capacity(1 << 20), Vec::new());
        for ms in 0..2000 {
            while begin.elapsed() < Duration::from_millis(ms) {
                std::thread::sleep(Duration::from_micros(100));
            }
            for _ in 0..500 {
                let before = Instant::now();
                segment.push([1_u64; 8]);
                times.push(before.elapsed().as_micros());
            }
        }
        times.sort_unstable();
        times.split_off(times.len() - 20)
    }

    /// `cargo test --release -p weir-memory -- --ignored --nocapture longest`
    #[test]
    #[ignore = "a measurement"]
    fn the_longest_times_are_shorter_where_pages_are_made_ahead() {
        println!("pages are made as they are touched: {:?} us", longest_us());
        populate_ahead();
        println!("pages are made ahead: {:?} us", longest_us());
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
