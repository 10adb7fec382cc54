//! Which numbers of entries are taken: a bit for each, so that those that are free are passed over 64 at a time.

/// The numbers below a bound.
pub(super) struct Numbers {
    /// Those from the bound on are taken.
    taken: Box<[u64]>,
    free: u32,
}

impl Numbers {
    /// Those below `room`, all free.
    pub(super) fn new(room: u32) -> Numbers {
        let mut taken = vec![0; (room as usize).div_ceil(64)];
        if let Some(last) = taken.last_mut().filter(|_| !room.is_multiple_of(64)) {
            *last = u64::MAX << (room % 64);
        }
        Numbers { taken: taken.into(), free: room }
    }

    /// Whether none is free.
    pub(super) fn are_all_taken(&self) -> bool {
        self.free == 0
    }

    /// Whether one is taken.
    #[inline]
    pub(super) fn is_taken(&self, number: u32) -> bool {
        self.taken.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// The first number behind `from`, or a little more than it takes to have `wanted` that are taken between them.
    pub(super) fn end_of(&self, from: u32, wanted: u32) -> u32 {
        let mut seen = 0;
        let words = self.taken.iter().enumerate().skip(from as usize / 64);
        let enough = words.map(|(word, bits)| (word, bits.count_ones())).find(|(_, bits)| {
            seen += bits;
            seen >= wanted
        });
        enough.map_or(self.taken.len(), |(word, _)| word + 1) as u32 * 64
    }

    /// Takes one that is free: this one, or else the next after it, the first of all after the last.
    pub(super) fn take_near(&mut self, wanted: u32) -> Option<u32> {
        let (first, words) = (wanted as usize / 64, self.taken.len());
        let from_wanted = u64::MAX << (wanted % 64);
        let free = |n: usize| {
            let at = (first + n) % words;
            // The first word is looked at twice: from the wanted number on, and at last up to it.
            let mask = if n == 0 { from_wanted } else { u64::MAX };
            let bits = !self.taken.get(at)? & mask;
            (bits != 0).then(|| (at, bits.trailing_zeros()))
        };
        let (at, bit) = (0..=words).find_map(free)?;
        *self.taken.get_mut(at)? |= 1 << bit;
        self.free -= 1;
        Some(at as u32 * 64 + bit)
    }

    /// One is free again.
    pub(super) fn give_back(&mut self, number: u32) {
        if let Some(word) = self.taken.get_mut(number as usize / 64) {
            self.free += (*word >> (number % 64) & 1) as u32;
            *word &= !(1 << (number % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is wanted, each number is given once, the wanted one if it is free and the nearest one after it else.
    #[test]
    fn the_wanted_number_or_the_next_one() {
        for room in [1, 63, 64, 65, 1000] {
            let mut numbers = Numbers::new(room);
            let mut taken = vec![false; room as usize];
            for n in 0..room {
                let wanted = n.wrapping_mul(0x9e37_79b9) % room;
                let expected = (wanted..room).chain(0..wanted).find(|n| !taken[*n as usize]);
                assert!(!numbers.are_all_taken());
                assert_eq!(numbers.take_near(wanted), expected, "{wanted} of {room}");
                taken[expected.expect("one is free") as usize] = true;
                assert!((0..room).all(|n| numbers.is_taken(n) == taken[n as usize]), "{wanted} of {room}");
            }
            assert!(numbers.are_all_taken());
            assert_eq!(numbers.take_near(0), None);
            assert_eq!(numbers.end_of(0, room + 1), room.next_multiple_of(64));
            assert_eq!(numbers.end_of(room - 1, 1), room.next_multiple_of(64));
            assert_eq!(numbers.end_of(0, 65.min(room)), 65.min(room).next_multiple_of(64));
            numbers.give_back(room / 2);
            numbers.give_back(room / 2);
            assert_eq!((numbers.take_near(room - 1), numbers.take_near(0)), (Some(room / 2), None));
        }
    }
}
