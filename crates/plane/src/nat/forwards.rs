//! Port forwards, found from either end. One is added or removed at a cost that grows with the logarithm of their number.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Bound;

/// A port forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) proto: u8,
    pub(crate) outside: (u32, u16),
    pub(crate) inside: (u32, u16),
}

/// Protocol, address and port of an end.
type End = (u8, u32, u16);

impl Forward {
    fn outside_end(&self) -> End {
        (self.proto, self.outside.0, self.outside.1)
    }

    fn inside_end(&self) -> End {
        (self.proto, self.inside.0, self.inside.1)
    }
}

/// Forwards without a common end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forwards {
    by_outside: BTreeMap<End, Forward>,
    by_inside: BTreeMap<End, Forward>,
}

impl Forwards {
    /// All of them, in order of protocol and outside end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Forward> {
        self.by_outside.values()
    }

    /// Those behind an end, in their order.
    pub(crate) fn behind(&self, after: Option<(u8, (u32, u16))>) -> impl Iterator<Item = &Forward> {
        let from = after
            .map_or(Bound::Unbounded, |(proto, (address, port))| Bound::Excluded((proto, address, port)));
        self.by_outside.range((from, Bound::Unbounded)).map(|(_, forward)| forward)
    }

    /// The forward of an outside end.
    pub(crate) fn at(&self, proto: u8, outside: (u32, u16)) -> Option<Forward> {
        self.by_outside.get(&(proto, outside.0, outside.1)).copied()
    }

    pub(crate) fn contains(&self, forward: &Forward) -> bool {
        self.by_outside.get(&forward.outside_end()) == Some(forward)
    }

    /// Adds a forward.
    ///
    /// # Errors
    /// The end that another one has.
    pub(crate) fn insert(&mut self, forward: Forward) -> Result<(), (u32, u16)> {
        if self.by_inside.contains_key(&forward.inside_end()) {
            return Err(forward.inside);
        }
        if self.by_outside.contains_key(&forward.outside_end()) {
            return Err(forward.outside);
        }
        self.by_outside.insert(forward.outside_end(), forward);
        self.by_inside.insert(forward.inside_end(), forward);
        Ok(())
    }

    pub(crate) fn remove(&mut self, forward: &Forward) {
        self.by_outside.remove(&forward.outside_end());
        self.by_inside.remove(&forward.inside_end());
    }

    /// The address at which a forward begins or ends, if one of these is such an address.
    pub(crate) fn meets(&self, outside: u32, inside: u32) -> Option<Ipv4Addr> {
        let has = |ends: &BTreeMap<End, Forward>, address: u32| {
            let of =
                |proto: u8| ends.range((proto, address, 0)..=(proto, address, u16::MAX)).next().is_some();
            PROTOCOLS.into_iter().any(of)
        };
        let is_met = [(&self.by_outside, outside), (&self.by_inside, inside)];
        is_met.into_iter().find(|(ends, address)| has(ends, *address)).map(|(_, address)| address.into())
    }
}

/// Protocols with forwards: TCP and UDP.
const PROTOCOLS: [u8; 2] = [6, 17];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn no_two_have_an_end_in_common_and_what_is_removed_is_gone() {
        for seed in 0..50 {
            let mut random = Random(seed);
            let (mut forwards, mut list) = (Forwards::default(), Vec::<Forward>::new());
            for _ in 0..200 {
                let mut end = || (random.below(4) as u32, random.below(4) as u16);
                let (outside, inside) = (end(), end());
                let forward = Forward { proto: PROTOCOLS[random.below(2) as usize], outside, inside };
                let clash = |other: &&Forward| {
                    other.proto == forward.proto
                        && (other.outside == forward.outside || other.inside == forward.inside)
                };
                if random.below(3) == 0 && !list.is_empty() {
                    let gone = list.swap_remove(random.below(list.len() as u64) as usize);
                    forwards.remove(&gone);
                } else if list.iter().any(|other| clash(&other)) {
                    forwards.insert(forward).expect_err("an end in common");
                } else {
                    forwards.insert(forward).expect("its own ends");
                    list.push(forward);
                }
                assert_eq!(forwards.iter().count(), list.len());
                assert!(list.iter().all(|one| forwards.contains(one)), "seed {seed}");
                for address in 0..4 {
                    let meets = list.iter().any(|one| one.outside.0 == address);
                    assert_eq!(forwards.meets(address, 99).is_some(), meets, "seed {seed}");
                }
            }
        }
    }
}
