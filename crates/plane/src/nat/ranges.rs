//! A set of IPv4 addresses as ranges, in order and disjoint: each frame is looked up, and the cost grows with the logarithm of
//! the number of ranges.

/// The first and the last of each range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u32, u32)>);

impl FromIterator<(u32, u32)> for Ranges {
    /// From ranges in any order, which may overlap.
    fn from_iter<T: IntoIterator<Item = (u32, u32)>>(ranges: T) -> Ranges {
        let mut all: Vec<(u32, u32)> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::new();
        for (first, last) in all {
            match apart.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => apart.push((first, last)),
            }
        }
        Ranges(apart)
    }
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of the range that has an address.
    #[inline]
    fn find(&self, address: u32) -> Option<usize> {
        let at = self.0.partition_point(|(_, last)| *last < address);
        self.0.get(at).filter(|(first, _)| *first <= address).map(|_| at)
    }

    /// Whether an address is in it.
    #[inline]
    pub(crate) fn contains(&self, address: u32) -> bool {
        self.find(address).is_some()
    }

    /// Removes an address.
    pub(crate) fn remove(&mut self, address: u32) {
        let Some(at) = self.find(address) else { return };
        let (first, last) = self.0[at];
        let before = (first < address).then(|| (first, address - 1));
        let behind = (address < last).then(|| (address + 1, last));
        self.0.splice(at..=at, before.into_iter().chain(behind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn they_hold_what_a_list_of_ranges_holds() {
        for seed in 0..200 {
            let mut random = Random(seed);
            // Few addresses, so that ranges touch, overlap and reach both ends of all.
            let mut below = |n: u64| random.below(n) as u32;
            let address = |n: u32| if n < 32 { n } else { u32::MAX - 63 + n };
            let list: Vec<(u32, u32)> = (0..below(12))
                .map(|_| {
                    let (one, other) = (below(64), below(64));
                    (address(one.min(other)), address(one.max(other)))
                })
                .collect();
            let mut ranges: Ranges = list.iter().copied().collect();
            let removed: Vec<u32> = (0..below(6)).map(|_| address(below(64))).collect();
            removed.iter().for_each(|&address| ranges.remove(address));
            let holds = |address: u32| list.iter().any(|(first, last)| (*first..=*last).contains(&address));
            for n in 0..64 {
                let address = address(n);
                let is_in = holds(address) && !removed.contains(&address);
                assert_eq!(ranges.contains(address), is_in, "seed {seed}: {address} in {list:?} {removed:?}");
            }
            assert!(ranges.0.windows(2).all(|two| two[0].1 < two[1].0), "seed {seed}: {ranges:?}");
            assert_eq!(ranges.is_empty(), !(0..64).map(address).any(|address| ranges.contains(address)));
        }
    }
}
