//! The content of files, and the order in which they are read.

use super::Task;

/// Memory whose address is a multiple of a page, as O_DIRECT wants it.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    size: usize,
}

const PAGE: usize = 4096;

impl Buffer {
    pub(super) fn new(size: usize) -> Buffer {
        let bytes = vec![0; size + PAGE];
        let from = bytes.as_ptr().align_offset(PAGE);
        Buffer { bytes, from, size }
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.size]
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.size]
    }

    /// Puts in what belongs into a file: nothing that compresses, nothing that two files share.
    pub(super) fn fill(&mut self, seed: u64, file: u32) {
        let mut numbers = Numbers::of(seed, file);
        for word in self.get_mut().chunks_mut(8) {
            word.copy_from_slice(&numbers.next().to_ne_bytes()[..word.len()]);
        }
    }

    /// Is this what belongs into a file?
    pub(super) fn is_of(&self, seed: u64, file: u32) -> bool {
        let mut numbers = Numbers::of(seed, file);
        self.get().chunks(8).all(|word| *word == numbers.next().to_ne_bytes()[..word.len()])
    }
}

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Numbers(u64);

impl Numbers {
    fn of(seed: u64, file: u32) -> Numbers {
        Numbers(seed ^ (u64::from(file) << 32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// All files in an order that follows from the seed (Fisher and Yates).
pub(super) fn shuffled(task: &Task) -> Vec<u32> {
    let mut order: Vec<u32> = (0..task.files).collect();
    let mut numbers = Numbers(task.seed);
    for last in (1..order.len()).rev() {
        order.swap(last, (numbers.next() % (last as u64 + 1)) as usize);
    }
    order
}
