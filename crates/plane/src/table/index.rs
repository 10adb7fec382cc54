//! From a hash to the numbers of records: lines of eight, one cache line each.
//!
//! ```text
//! hash > line: [ hash | number ] x 8        the eighth may be a link to a line of overflow
//! ```
//! It grows by linear hashing (Litwin 1980): an insertion that makes it too full splits one line in two, so that no
//! insertion costs more than a handful of lines, and what lies there moves by its stored hash alone, without a look at
//! the records. A record's own number and hash are all it knows: the caller compares the record with what it seeks.
//!
//! Invariant: numbers lie tightly from the front of a line, and a line of overflow is never empty.

use weir_memory::prefetch;

use super::arena::Arena;

const WIDTH: usize = 8;
/// Numbers per line, on average, from which on it grows.
const LOAD: u32 = 4;
/// Lines of an empty index.
const LEAST: u32 = 16;
/// In the last place of a line: what follows is the number of a line of overflow.
const LINK: u32 = 1 << 31;

/// Largest number that can be stored. 0 stands for none.
pub(crate) const MOST: u32 = LINK - 1;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    hashes: [u32; WIDTH],
    numbers: [u32; WIDTH],
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    const EMPTY: Line = Line { hashes: [0; WIDTH], numbers: [0; WIDTH] };

    /// The line of overflow behind this one.
    #[inline]
    fn link(&self) -> Option<u32> {
        let last = self.numbers[WIDTH - 1];
        (last & LINK != 0).then_some(last & !LINK)
    }

    /// Places with numbers.
    fn used(&self) -> usize {
        let places = WIDTH - usize::from(self.link().is_some());
        self.numbers[..places].iter().position(|&number| number == 0).unwrap_or(places)
    }

    /// The places whose hash is this one.
    #[inline]
    fn places(&self, hash: u32) -> Places {
        // By words of half the length, so that the compiler compares four at once.
        let equal = self.hashes.map(|stored| u16::from(stored == hash).wrapping_neg());
        Places(u64::from_le_bytes(equal.map(|equal| equal as u8)))
    }
}

/// Places of a line, from the first on: a byte for each, with all bits or none.
struct Places(u64);

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize / 8;
        self.0 &= !(0xff << (8 * place));
        // Says to the compiler what is true of a byte of eight.
        Some(place % WIDTH)
    }
}

/// Where a number lies.
#[derive(Clone, Copy)]
enum At {
    Line(u32),
    Overflow(u32),
}

/// Numbers by hash.
#[derive(Debug)]
pub(crate) struct Index {
    lines: Arena<Line>,
    overflow: Arena<Line>,
    /// Lines of overflow that nothing uses.
    spare: Vec<u32>,
    len: u32,
    /// The power of two above the number of lines, less one.
    mask: u32,
}

impl Index {
    pub(crate) fn new() -> Index {
        let mut lines = Arena::new();
        (0..LEAST).for_each(|_| _ = lines.push(Line::EMPTY));
        Index { lines, overflow: Arena::new(), spare: Vec::new(), len: 0, mask: 2 * LEAST - 1 }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Line>() * (self.lines.len() + self.overflow.len()) as usize
    }

    #[inline]
    fn line(&self, hash: u32) -> u32 {
        let line = hash & self.mask;
        if line < self.lines.len() { line } else { line & (self.mask >> 1) }
    }

    /// Asks for the line of a hash, so that it is on its way when it is needed.
    #[inline]
    pub(crate) fn touch(&self, hash: u32) {
        prefetch(&self.lines[self.line(hash)]);
    }

    /// The first number under this hash, most often the only one; 0 where there is none, or where it needs
    /// [`Index::find`] to be found.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> u32 {
        let line = &self.lines[self.line(hash)];
        let number = line.places(hash).next().map_or(0, |place| line.numbers[place]);
        if number & LINK == 0 { number } else { 0 }
    }

    /// The number under this hash for which `is` is true; 0 where there is none.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> u32 {
        let mut line = &self.lines[self.line(hash)];
        loop {
            for place in line.places(hash) {
                let number = line.numbers[place];
                if number & LINK == 0 && number != 0 && is(number) {
                    return number;
                }
            }
            match line.link() {
                Some(next) => line = &self.overflow[next],
                None => return 0,
            }
        }
    }

    /// Stores a number, from 1 to [`MOST`], under a hash.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        debug_assert!(number != 0 && number <= MOST);
        self.put(self.line(hash), hash, number);
        self.len += 1;
        if self.len > self.lines.len() * LOAD {
            self.split();
        }
    }

    /// Takes a number away; it lies under this hash.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let mut here = At::Line(self.line(hash));
        let mut before = here;
        let mut hole = None;
        loop {
            let line = self.at(here);
            let is = |place: &usize| line.hashes[*place] == hash && line.numbers[*place] == number;
            if let Some(place) = (0..line.used()).find(is) {
                hole = Some((here, place));
            }
            let Some(next) = line.link() else { break };
            (before, here) = (here, At::Overflow(next));
        }
        let (at, place) = hole.expect("what is taken away lies there");
        // The last one fills the hole, and the last line goes when it is empty.
        let last = self.at(here).used() - 1;
        let moved = (self.at(here).hashes[last], self.at(here).numbers[last]);
        self.set(at, place, moved);
        self.set(here, last, (0, 0));
        if let (At::Overflow(empty), 0) = (here, last) {
            self.set(before, WIDTH - 1, (0, 0));
            self.spare.push(empty);
        }
        self.len -= 1;
    }

    fn at(&self, at: At) -> &Line {
        match at {
            At::Line(number) => &self.lines[number],
            At::Overflow(number) => &self.overflow[number],
        }
    }

    fn set(&mut self, at: At, place: usize, entry: (u32, u32)) {
        let line = match at {
            At::Line(number) => &mut self.lines[number],
            At::Overflow(number) => &mut self.overflow[number],
        };
        (line.hashes[place], line.numbers[place]) = entry;
    }

    /// Stores an entry in a line or behind it.
    fn put(&mut self, line: u32, hash: u32, number: u32) {
        let mut here = At::Line(line);
        loop {
            let used = self.at(here).used();
            if let Some(next) = self.at(here).link() {
                here = At::Overflow(next);
            } else if used < WIDTH {
                return self.set(here, used, (hash, number));
            } else {
                // The eighth makes room for the link and goes behind it.
                let last = &self.at(here);
                let eighth = (last.hashes[WIDTH - 1], last.numbers[WIDTH - 1]);
                let next = self.spare.pop().unwrap_or_else(|| self.overflow.push(Line::EMPTY));
                self.set(here, WIDTH - 1, (0, LINK | next));
                self.set(At::Overflow(next), 0, eighth);
                here = At::Overflow(next);
            }
        }
    }

    /// Splits the next line: what has the next bit of the hash set goes to a new line at the end.
    fn split(&mut self) {
        let new = self.lines.push(Line::EMPTY);
        if new > self.mask {
            self.mask = 2 * self.mask + 1;
        }
        let old = new & (self.mask >> 1);
        let mut next = Some(std::mem::replace(&mut self.lines[old], Line::EMPTY));
        while let Some(line) = next {
            for place in 0..line.used() {
                let hash = line.hashes[place];
                self.put(self.line(hash), hash, line.numbers[place]);
            }
            next = line.link().map(|link| {
                self.spare.push(link);
                std::mem::replace(&mut self.overflow[link], Line::EMPTY)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Hashes of which many meet in one line, and some are equal.
    fn hash(n: u32) -> u32 {
        match n % 4 {
            0 => n.wrapping_mul(0x9e37_79b1),
            1 => n.wrapping_mul(0x9e37_79b1) & 0xffff_fff0,
            2 => 7,
            _ => (n / 64) << 12,
        }
    }

    fn check(index: &Index, live: &HashSet<u32>, all: u32) {
        for number in 1..all {
            let found = index.find(hash(number), |candidate| candidate == number);
            assert_eq!(found == number, live.contains(&number), "{number}");
            let first = index.first(hash(number));
            assert!(first == 0 || live.contains(&first), "{number}: {first}");
        }
        assert_eq!(index.len as usize, live.len());
        let chained = index.overflow.len() as usize - index.spare.len();
        let links = (0..index.lines.len()).filter(|&n| index.lines[n].link().is_some()).count();
        assert!(links <= chained, "{links} lines go on in {chained}");
    }

    #[test]
    fn what_was_stored_is_found_and_what_was_taken_is_not() {
        let mut index = Index::new();
        let mut live = HashSet::new();
        let all = 3000;
        let mut random = 1_u32;
        for step in 0..30_000 {
            random = random.wrapping_mul(0x19660d).wrapping_add(0x3c6e_f35f);
            let number = 1 + (random >> 8) % (all - 1);
            if live.insert(number) {
                index.insert(hash(number), number);
            } else {
                live.remove(&number);
                index.remove(hash(number), number);
            }
            if step % 1000 == 0 {
                check(&index, &live, all);
            }
        }
        for number in live.drain() {
            index.remove(hash(number), number);
        }
        check(&index, &live, all);
        assert_eq!(index.spare.len() as u32, index.overflow.len(), "no line of overflow without a number");
    }

    #[test]
    fn an_insertion_splits_one_line_at_most() {
        let mut index = Index::new();
        for number in 1..100_000_u32 {
            let before = index.lines.len();
            index.insert(number.wrapping_mul(0x9e37_79b1), number);
            assert!(index.lines.len() <= before + 1);
        }
        let found = (1..100_000_u32).filter(|&n| index.first(n.wrapping_mul(0x9e37_79b1)) == n).count();
        assert!(found > 80_000, "{found} without a second look");
        assert!(index.bytes() < 100_000 * 24, "{} bytes", index.bytes());
    }
}
