//! What both tables promise: they agree with a list that is searched from end to end.

use std::collections::HashMap;

use super::{Hop, Lpm, v4::V4, v6::V6};
use crate::prefix::mask6 as mask;
use crate::random::Random;

/// Addresses as 128 bits, aligned left, so that one list serves both tables.
trait Width: Copy {
    const BITS: u8;
    fn of(left: u128) -> Self;
}

impl Width for u32 {
    const BITS: u8 = 32;
    fn of(left: u128) -> u32 {
        (left >> 96) as u32
    }
}

impl Width for u128 {
    const BITS: u8 = 128;
    fn of(left: u128) -> u128 {
        left
    }
}

/// Near one another, so that prefixes cover one another and share paths: bits of few choices in random places.
fn address(random: &mut Random) -> u128 {
    let mut address = 0x2001_0db8_u128 << 96;
    for _ in 0..random.below(4) {
        address ^= u128::from(random.below(4)) << random.below(126);
    }
    if random.below(4) == 0 {
        address ^= u128::from(random.next()) << 64 >> random.below(64);
    }
    address
}

fn contract<T: Lpm<Address: Width>>(mut table: T, seed: u64) {
    let mut random = Random(seed);
    let mut list: HashMap<(u128, u8), Hop> = HashMap::new();
    let bits = <T::Address as Width>::BITS;
    for change in 0..3000_u32 {
        let length = random.below(u64::from(bits) + 1) as u8;
        let known = list.keys().min_by_key(|&&(a, l)| a ^ u128::from(l) ^ u128::from(random.0)).copied();
        let (prefix, length) = match known {
            Some(known) if random.below(2) == 0 => known,
            _ => (address(&mut random) & mask(length), length),
        };
        // Alternately it rather grows and rather shrinks.
        let (short, hop) = (T::Address::of(prefix), Hop(random.below(1000) as u32));
        if random.below(4) < if change / 500 % 2 == 0 { 3 } else { 1 } {
            assert_eq!(table.insert(short, length, hop), list.insert((prefix, length), hop), "seed {seed}");
        } else {
            assert_eq!(table.remove(short, length), list.remove(&(prefix, length)), "seed {seed}");
        }
        assert_eq!(table.get(short, length), list.get(&(prefix, length)).copied(), "seed {seed}");
        assert_eq!(table.len(), list.len(), "seed {seed}");
        let asked: Vec<u128> = (0..8)
            .map(|n| {
                if n < 4 {
                    address(&mut random)
                } else {
                    prefix ^ u128::from(random.next()) << random.below(120)
                }
            })
            .collect();
        let mut hops = vec![Hop(0); asked.len()];
        table.lookup(&asked.iter().map(|&left| T::Address::of(left)).collect::<Vec<_>>(), &mut hops);
        for (&asked, hop) in asked.iter().zip(hops) {
            let covering = list.iter().filter(|((prefix, length), _)| (asked ^ prefix) & mask(*length) == 0);
            let longest = covering.max_by_key(|((_, length), _)| *length).map_or(Hop::NONE, |(_, &hop)| hop);
            assert_eq!(hop, longest, "seed {seed}, change {change}, address {asked:032x}");
        }
    }
    for (prefix, length) in list.into_keys() {
        assert!(table.remove(T::Address::of(prefix), length).is_some());
    }
    assert_eq!(table.len(), 0);
}

#[test]
fn ipv4_agrees_with_a_list() {
    (1..4).for_each(|seed| contract(V4::new(), seed));
}

#[test]
fn ipv6_agrees_with_a_list() {
    (1..4).for_each(|seed| contract(V6::new(), seed));
}

/// Many neighbours in one batch, more than a pass holds.
#[test]
fn a_batch_of_any_length_is_looked_up() {
    let mut table = V6::new();
    for n in 0..1000_u32 {
        table.insert(u128::from(n) << 80, 48, Hop(n));
    }
    let asked: Vec<u128> = (0..1001).map(|n| n << 80 | 7).collect();
    let mut hops = vec![Hop(0); asked.len()];
    table.lookup(&asked, &mut hops);
    assert!((0..1000).map(Hop).eq(hops[..1000].iter().copied()));
    assert_eq!(hops[1000], Hop::NONE);
}
