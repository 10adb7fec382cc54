//! One-to-one addresses, found from either end: each frame is looked up, and the cost grows with the logarithm of their number.

/// A one-to-one address, with all its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) outside: u32,
    pub(crate) inside: u32,
}

/// Pairs without a common end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pairs {
    by_inside: Vec<Pair>,
    by_outside: Vec<Pair>,
}

impl FromIterator<Pair> for Pairs {
    fn from_iter<T: IntoIterator<Item = Pair>>(pairs: T) -> Pairs {
        let mut by_inside: Vec<Pair> = pairs.into_iter().collect();
        let mut by_outside = by_inside.clone();
        by_inside.sort_unstable_by_key(|pair| pair.inside);
        by_outside.sort_unstable_by_key(|pair| pair.outside);
        Pairs { by_inside, by_outside }
    }
}

impl Pairs {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_inside.is_empty()
    }

    /// All of them, in order of their outside.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.by_outside.iter()
    }

    /// The pair of an inside address.
    #[inline]
    pub(crate) fn of(&self, inside: u32) -> Option<Pair> {
        let at = self.by_inside.binary_search_by_key(&inside, |pair| pair.inside);
        at.ok().map(|at| self.by_inside[at])
    }

    /// The pair of an outside address.
    #[inline]
    pub(crate) fn at(&self, outside: u32) -> Option<Pair> {
        let at = self.by_outside.binary_search_by_key(&outside, |pair| pair.outside);
        at.ok().map(|at| self.by_outside[at])
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
            let pairs: Pairs = list.iter().copied().collect();
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
