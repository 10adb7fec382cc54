//! Numbers that repeat exactly from a seed.

use weir_rng::Rng;

/// A stream of pseudorandom numbers.
#[derive(Debug, Clone)]
pub struct Dice(Rng);

impl Dice {
    /// A stream that is a function of `seed` alone.
    pub fn new(seed: u64) -> Dice {
        Dice(Rng::new(seed))
    }

    /// One of 0..`sides`, in whatever type the number of sides has.
    ///
    /// # Panics
    /// Dice without a side.
    pub fn roll<N: TryInto<usize> + TryFrom<usize>>(&mut self, sides: N) -> N {
        let sides = sides.try_into().ok().expect("a number of sides");
        N::try_from(self.0.below(sides)).ok().expect("it is less than a number of this type")
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
