//! Room that many hosts use together, so that a host that floods it takes from itself.
//!
//! ```text
//! one too many > the oldest thing of the host that has most gives way; all that have a few count alike
//! ```
//! Hosts with a few count alike because a sender that makes up addresses has one thing under each: a host with two must not give
//! way to that. Of all of these the oldest thing gives way.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::address::{mapped4, words6};
use crate::frame::{Frame, Kind};
use crate::time::Time;

/// A host with no more counts as one with as many.
const A_FEW: usize = 8;

/// A sender: an address of IPv4, or a /64 of IPv6, all of whose addresses one host can have; and by which Ethernet address
/// its frames come, which tells hosts of a link apart that have a /64 together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Host(pub(crate) [u32; 4]);

impl Host {
    /// The sender of a frame.
    #[inline]
    pub(crate) fn of(frame: &Frame<'_>) -> Host {
        let Host([_, _, high, low]) = Host::station(frame);
        // Mixed, since there are Ethernet addresses that follow from those of IPv4.
        let station = (u64::from(high) << 32 | u64::from(low)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [a, b, c, d] = match frame.kind() {
            Kind::V4 => mapped4(frame.addresses4().0),
            _ => words6(frame.addresses6().0 >> 64 << 64),
        };
        Host([a, b, c ^ (station >> 32) as u32, d ^ station as u32])
    }

    /// The sender of a frame on its link.
    #[inline]
    pub(crate) fn station(frame: &Frame<'_>) -> Host {
        let (_, [a, b, c, d, e, f]) = frame.macs();
        Host([0, 1, u32::from_be_bytes([0, 0, a, b]), u32::from_be_bytes([c, d, e, f])])
    }
}

#[derive(Debug)]
struct Thing<T> {
    at: Time,
    host: Host,
    what: T,
}

/// How much a host has, and since when: the last in this order gives way.
type Rank = (usize, Reverse<u64>);

/// Things of hosts, of which there may be so many.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    most: usize,
    next: u64,
    /// By number, that is, in the order in which they came.
    things: BTreeMap<u64, Thing<T>>,
    /// The numbers of each host's, in order; of none that has none.
    hosts: HashMap<Host, VecDeque<u64>>,
    ranks: BTreeSet<Rank>,
}

impl<T> Shares<T> {
    /// None yet, and room for so many.
    pub(crate) fn new(most: usize) -> Shares<T> {
        Shares { most, next: 0, things: BTreeMap::new(), hosts: HashMap::new(), ranks: BTreeSet::new() }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Another limit: what is beyond it gives way when the next one comes.
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }

    /// All of them, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.values().map(|thing| &thing.what)
    }

    /// One more; returns its number. [`Shares::displace`] is to follow.
    pub(crate) fn push(&mut self, at: Time, host: Host, what: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.things.insert(number, Thing { at, host, what });
        self.edit(host, |numbers| numbers.push_back(number));
        number
    }

    /// What gives way if there are too many, with its number; to be repeated while something does.
    pub(crate) fn displace(&mut self) -> Option<(u64, T)> {
        if self.things.len() <= self.most {
            return None;
        }
        let &(_, Reverse(number)) = self.ranks.last()?;
        Some((number, self.remove(number)?))
    }

    /// Takes one out by its number.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let Thing { host, what, .. } = self.things.remove(&number)?;
        self.edit(host, |numbers| {
            if let Ok(at) = numbers.binary_search(&number) {
                numbers.remove(at);
            }
        });
        Some(what)
    }

    /// Takes the oldest one out, with its number, if it is older than this.
    pub(crate) fn pop_older(&mut self, now: Time, age: Duration) -> Option<(u64, T)> {
        let (&number, thing) = self.things.first_key_value()?;
        if now - thing.at > age { Some((number, self.remove(number)?)) } else { None }
    }

    /// When the oldest one came.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.things.first_key_value().map(|(_, thing)| thing.at)
    }

    /// The one of a number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.things.get(&number).map(|thing| &thing.what)
    }

    /// Takes all out, in the order in which they came.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        let emptied = std::mem::replace(self, Shares { next: self.next, ..Shares::new(self.most) });
        emptied.things.into_values().map(|thing| thing.what)
    }

    fn edit(&mut self, host: Host, edit: impl FnOnce(&mut VecDeque<u64>)) {
        let numbers = self.hosts.entry(host).or_default();
        if let Some(rank) = rank(numbers) {
            self.ranks.remove(&rank);
        }
        edit(numbers);
        match rank(numbers) {
            Some(rank) => _ = self.ranks.insert(rank),
            None => _ = self.hosts.remove(&host),
        }
    }
}

fn rank(numbers: &VecDeque<u64>) -> Option<Rank> {
    numbers.front().map(|&first| (numbers.len().max(A_FEW), Reverse(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of things that come in this order, each a host and how many, in room for so many.
    fn left(most: usize, come: &[(u32, usize)]) -> Vec<(u32, usize)> {
        let mut shares = Shares::new(most);
        let all = come.iter().flat_map(|&(host, things)| vec![host; things]);
        for (n, host) in all.enumerate() {
            shares.push(Time::from_ms(n as u64), Host([host; 4]), host);
            let mut gone = 0;
            while shares.displace().is_some() {
                gone += 1;
            }
            assert!(gone <= 1 && shares.len() <= most, "{come:?}");
        }
        assert_eq!(shares.ranks.len(), shares.hosts.len(), "{come:?}");
        let mut left = BTreeMap::<u32, usize>::new();
        shares.take_all().for_each(|host| *left.entry(host).or_default() += 1);
        left.into_iter().collect()
    }

    #[test]
    fn who_has_most_gives_way() {
        for (most, come, expected) in [
            (20, &[(1, 30), (2, 1)][..], &[(1, 19), (2, 1)][..]),
            (20, &[(2, 1), (1, 1000)], &[(1, 19), (2, 1)]),
            (20, &[(1, 20), (2, 15)], &[(1, 10), (2, 10)]),
            (20, &[(1, 10), (2, 10), (3, 8)], &[(1, 4), (2, 8), (3, 8)]),
            // Of those that have a few the oldest does.
            (
                8,
                &[(9, 2), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)],
                &[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (9, 2)],
            ),
            (4, &[(9, 2), (1, 1), (2, 1), (3, 1)], &[(1, 1), (2, 1), (3, 1), (9, 1)]),
        ] {
            assert_eq!(left(most, come), expected, "{come:?}");
        }
    }

    #[test]
    fn what_is_taken_out_or_too_old_counts_no_more() {
        let mut shares = Shares::new(3);
        let numbers: Vec<u64> =
            (0..3).map(|n| shares.push(Time::from_ms(n), Host([n as u32 % 2; 4]), n)).collect();
        assert_eq!((shares.remove(numbers[0]), shares.remove(numbers[0])), (Some(0), None));
        let older =
            |shares: &mut Shares<u64>, ms| shares.pop_older(Time::from_ms(ms), Duration::from_millis(5));
        assert_eq!(
            [older(&mut shares, 6), older(&mut shares, 7), older(&mut shares, 7)],
            [None, Some((1, 1)), None]
        );
        assert_eq!((shares.get(numbers[2]), shares.len(), shares.hosts.len()), (Some(&2), 1, 1));
    }
}
