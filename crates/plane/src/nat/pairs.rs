//! One-to-one addresses, found from either end: each frame is looked up, so that this takes one hash. What comes from outside is only
//! looked up, never inserted: the hash need not be secret.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;

/// A one-to-one address, with all its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) outside: u32,
    pub(crate) inside: u32,
}

/// Spreads addresses (Knuth, volume 3, section 6.4: multiplicative hashing).
#[derive(Debug, Clone, Copy, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, address: u32) {
        let mixed = (self.0 ^ u64::from(address)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByAddress = HashMap<u32, Pair, BuildHasherDefault<Spread>>;

/// Pairs without a common end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pairs {
    by_inside: ByAddress,
    by_outside: ByAddress,
    /// The outside addresses in order.
    outsides: BTreeSet<u32>,
}

impl Pairs {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_inside.is_empty()
    }

    /// All of them, in order of their outside.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.behind(None)
    }

    /// Those behind an outside address, in their order.
    pub(crate) fn behind(&self, after: Option<u32>) -> impl Iterator<Item = &Pair> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.outsides.range((from, Bound::Unbounded)).filter_map(|outside| self.by_outside.get(outside))
    }

    /// The pair of an inside address.
    #[inline]
    pub(crate) fn of(&self, inside: u32) -> Option<Pair> {
        self.by_inside.get(&inside).copied()
    }

    /// The pair of an outside address.
    #[inline]
    pub(crate) fn at(&self, outside: u32) -> Option<Pair> {
        self.by_outside.get(&outside).copied()
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// The address that another one has.
    pub(crate) fn insert(&mut self, pair: Pair) -> Result<(), u32> {
        if self.by_inside.contains_key(&pair.inside) {
            return Err(pair.inside);
        }
        if self.by_outside.contains_key(&pair.outside) {
            return Err(pair.outside);
        }
        self.by_inside.insert(pair.inside, pair);
        self.by_outside.insert(pair.outside, pair);
        self.outsides.insert(pair.outside);
        Ok(())
    }

    pub(crate) fn remove(&mut self, pair: &Pair) {
        self.by_inside.remove(&pair.inside);
        self.by_outside.remove(&pair.outside);
        self.outsides.remove(&pair.outside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn each_is_found_from_both_ends_and_nothing_else() {
        for seed in 0..100 {
            let mut random = Random(seed);
            let mut ends = || random.below(64) as u32;
            let mut list: Vec<Pair> = Vec::new();
            for _ in 0..ends() {
                let pair = Pair { outside: ends(), inside: ends() };
                if list.iter().all(|other| other.outside != pair.outside && other.inside != pair.inside) {
                    list.push(pair);
                }
            }
            let mut pairs = Pairs::default();
            list.iter().for_each(|pair| pairs.insert(*pair).expect("its own ends"));
            assert_eq!((pairs.is_empty(), pairs.iter().count()), (list.is_empty(), list.len()));
            for end in 0..64 {
                let find = |is: fn(&Pair) -> u32| list.iter().find(|pair| is(pair) == end).copied();
                assert_eq!(pairs.of(end), find(|pair| pair.inside), "seed {seed}: inside {end} of {list:?}");
                assert_eq!(
                    pairs.at(end),
                    find(|pair| pair.outside),
                    "seed {seed}: outside {end} of {list:?}"
                );
            }
        }
    }
}
