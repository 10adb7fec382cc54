//! What the longest prefix says of an address: the ends of all prefixes cut the addresses into ranges, and of each one it
//! is known beforehand what is said there.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// Ranges of addresses, each from where it begins up to the next one.
#[derive(Debug, Clone)]
pub(super) struct Ranges<A, T> {
    /// In order; the first is that of address 0.
    begins: Vec<A>,
    said: Vec<T>,
}

impl<A: Copy + Ord + Default, T: Copy + PartialEq> Ranges<A, T> {
    /// Of networks, each from its first to its last address, none of which cuts another one in two; `else_` where there is none.
    /// `after` is the next address, if there is one.
    pub(super) fn new(
        mut networks: Vec<(A, A, T)>,
        else_: T,
        after: impl Fn(A) -> Option<A>,
    ) -> Ranges<A, T> {
        // Of those that begin together the wider one first.
        networks.sort_by(|(a, a_last, _), (b, b_last, _)| (a, b_last).cmp(&(b, a_last)));
        let mut ranges = Ranges { begins: vec![A::default()], said: vec![else_] };
        let mut around: Vec<(A, T)> = Vec::new();
        for (first, last, said) in networks {
            ranges.close(&mut around, Some(first), else_, &after);
            ranges.begin(first, said);
            around.push((last, said));
        }
        ranges.close(&mut around, None, else_, &after);
        ranges
    }

    /// Networks end that do so before `until`; behind each is what is around it.
    fn close(
        &mut self,
        around: &mut Vec<(A, T)>,
        until: Option<A>,
        else_: T,
        after: impl Fn(A) -> Option<A>,
    ) {
        while let Some((last, _)) = around.pop_if(|(last, _)| until.is_none_or(|until| *last < until)) {
            if let Some(next) = after(last) {
                self.begin(next, around.last().map_or(else_, |(_, said)| *said));
            }
        }
    }

    fn begin(&mut self, first: A, said: T) {
        // A range without an address.
        if self.begins.last() == Some(&first) {
            self.begins.pop();
            self.said.pop();
        }
        if self.said.last() != Some(&said) {
            self.begins.push(first);
            self.said.push(said);
        }
    }

    /// What is said of an address.
    #[inline]
    pub(super) fn of(&self, address: A) -> Option<T> {
        let place = self.begins.partition_point(|begin| *begin <= address);
        self.said.get(place.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::mask4;
    use crate::random::Random;

    #[test]
    fn the_longest_prefix_is_found() {
        for seed in 1..=200 {
            let mut random = Random(seed);
            let mut networks: Vec<(u32, u8, u32)> = Vec::new();
            for n in 0..random.below(12) as u32 {
                let len = if random.below(8) == 0 { 0 } else { 24 + random.below(9) as u8 };
                let top = if random.below(3) == 0 { 0xffff_ff00 } else { 0xc612_0000 };
                let first = (top | (random.below(64) as u32 * 5)) & mask4(len);
                if networks.iter().all(|&(other, other_len, _)| (other, other_len) != (first, len)) {
                    networks.push((first, len, n + 1));
                }
            }
            let given = networks.iter().map(|&(first, len, n)| (first, first | !mask4(len), n)).collect();
            let ranges = Ranges::new(given, 0, |address: u32| address.checked_add(1));
            let near = (0..400).flat_map(|n| [n, 0xc612_0000 + n, 0xffff_ff00_u32.saturating_add(n)]);
            for address in near.chain([u32::MAX]) {
                let holding = networks.iter().filter(|(first, len, _)| address & mask4(*len) == *first);
                let longest = holding.max_by_key(|(_, len, _)| *len).map_or(0, |&(_, _, n)| n);
                assert_eq!(ranges.of(address), Some(longest), "seed {seed}: {address:x} in {networks:x?}");
            }
        }
    }
}
