//! Numbers that repeat exactly: from a seed, or chosen by the bytes of an input.

use weir_rng::Rng;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Dice {
    /// What decides first.
    bytes: std::vec::IntoIter<u8>,
    rng: Rng,
}

impl Dice {
    /// A stream that is a function of `seed` alone.
    pub fn new(seed: u64) -> Dice {
        Dice { bytes: Vec::new().into_iter(), rng: Rng::new(seed) }
    }

    /// A stream of which each number is chosen by the next bytes: one of them for up to 256 sides, two for up to 65,536. So
    /// changing a byte changes one choice. Behind the last byte it goes on as from one seed for all.
    pub fn of_bytes(bytes: &[u8]) -> Dice {
        Dice { bytes: Vec::from(bytes).into_iter(), rng: Rng::new(0) }
    }

    /// One of 0..`sides`, in whatever type the number of sides has.
    ///
    /// # Panics
    /// Dice without a side.
    pub fn roll<N: TryInto<usize> + TryFrom<usize>>(&mut self, sides: N) -> N {
        let sides = sides.try_into().ok().expect("a number of sides");
        let side = self.chosen(sides).unwrap_or_else(|| self.rng.below(sides));
        N::try_from(side).ok().expect("it is less than a number of this type")
    }

    /// What the next bytes choose; `None`: too few are left, and are left out.
    fn chosen(&mut self, sides: usize) -> Option<usize> {
        let width = match sides {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 8,
        };
        let number = (0..width).try_fold(0, |number, _| Some(number << 8 | usize::from(self.bytes.next()?)));
        number.map(|number| number % sides)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_choose_as_far_as_they_go() {
        let mut dice = Dice::of_bytes(&[7, 255, 1, 2, 9]);
        assert_eq!((dice.roll(10), dice.roll(256), dice.roll(0x1_0000), dice.roll(4)), (7, 255, 0x102, 1));
        let (mut same, mut dice) = (Dice::new(0), dice);
        assert_eq!([0; 9].map(|_| dice.roll(1000)), [0; 9].map(|_| same.roll(1000)));
    }
}
