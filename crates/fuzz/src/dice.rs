//! Numbers that repeat exactly from a seed.

/// A stream of pseudorandom numbers (xorshift64*).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A stream that is a function of `seed` alone.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Below `n`, which is above 0.
    pub fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        (high as usize * n) >> 32
    }

    /// Once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }

    /// One of these; `None`: there are none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        (!all.is_empty()).then(|| &all[self.roll(all.len())])
    }
}
