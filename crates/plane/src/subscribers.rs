//! The subscribers of a node: which frames come from each, and which go to each.
//!
//! ```text
//! frame of a subscriber  > port, tags, Ethernet address > index, generation       travel with the frame
//! frame to a subscriber  > address (longest prefix)     > index, generation
//! index and generation   > its line, its Ethernet address; nothing if it was removed meanwhile
//! ```
//! A thread of a node has a table of its own; the same changes in the same order give the same indexes in each.
//!
//! Invariant: an index that was removed rests until it is released, which is when no frame in the node has it any more, see
//! [`crate::Plane::frames_epoch`]. Should one have it all the same, its generation is another one.
//!
//! `subscribers/config.rs` reads the small static table of the text.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod config;

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

use crate::address::{bits, words_of, words6};
use crate::frame::{Line, Subscriber};
use crate::prefix::{Prefix, mask6};
use crate::table::index::{self, Index};
use crate::table::secret::Secret;

pub use config::SubscriberConfig;
pub(crate) use config::read;

/// What is known of a subscriber.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) line: Line,
    /// Its addresses and networks.
    prefixes: Vec<Prefix>,
    generation: u8,
    is_live: bool,
}

/// Why a subscriber cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Another subscriber has the line.
    Line,
    /// Another subscriber has this prefix.
    Prefix(Prefix),
    /// There are as many as there can be.
    Full,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Taken::Line => {
                f.write_str("another subscriber has this port, tags and Ethernet address: give each its own")
            }
            Taken::Prefix(prefix) => write!(f, "another subscriber has {prefix}: give each its own"),
            Taken::Full => f.write_str("there are too many subscribers"),
        }
    }
}

/// All subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Option<Box<Tables>>);

#[derive(Debug)]
struct Tables {
    secret: Secret,
    /// By index.
    entries: Vec<Entry>,
    by_line: Index,
    by_prefix: Index,
    /// What the numbers of `by_prefix` stand for.
    prefixes: Vec<Owned>,
    free_prefixes: Vec<u32>,
    /// How many prefixes have each length, of 128 bits, and the lengths that some have, the longest first.
    lengths: [u32; 129],
    used_lengths: Vec<u8>,
    live: u32,
    free: Vec<u32>,
    /// Indexes that were removed and may still be named by frames, the oldest first.
    resting: VecDeque<u32>,
}

/// A prefix of a subscriber.
#[derive(Debug, Clone, Copy)]
struct Owned {
    address: [u32; 4],
    len: u8,
    index: u32,
}

impl Subscribers {
    /// Without any; hashes follow from `seed`.
    pub(crate) fn with_seed(seed: u64) -> Subscribers {
        Subscribers(Some(Box::new(Tables::new(seed))))
    }

    /// Whether there are none, so that no frame needs to be looked up.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|tables| tables.live == 0)
    }

    /// The subscriber from which a frame comes; [`Subscriber::NONE`] if it is unknown.
    #[inline]
    pub(crate) fn lookup_from(&self, line: Line) -> Subscriber {
        self.0.as_ref().map_or(Subscriber::NONE, |tables| tables.of_line(line))
    }

    /// The subscriber to which a frame for this address goes; [`Subscriber::NONE`] if it is unknown.
    #[inline]
    pub(crate) fn lookup_to(&self, address: [u32; 4]) -> Subscriber {
        self.0.as_ref().map_or(Subscriber::NONE, |tables| tables.to_address(address))
    }

    /// What is known of a subscriber; `None` if it is none, or was removed.
    #[inline]
    pub(crate) fn entry(&self, subscriber: Subscriber) -> Option<&Entry> {
        let entry = self.0.as_ref()?.entries.get(subscriber.index as usize)?;
        (entry.is_live && entry.generation == subscriber.generation).then_some(entry)
    }

    /// Adds a subscriber.
    ///
    /// # Errors
    /// Another one has what is to be its own; nothing has changed then.
    pub(crate) fn insert(&mut self, line: Line, prefixes: Vec<Prefix>) -> Result<Subscriber, Taken> {
        self.0.get_or_insert_with(|| Box::new(Tables::new(0))).insert(line, prefixes)
    }

    /// Removes a subscriber; its index rests. False if it was removed already.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "subscribers of the text stay as long as the node runs")
    )]
    pub(crate) fn remove(&mut self, subscriber: Subscriber) -> bool {
        self.entry(subscriber).is_some()
            && self.0.as_mut().is_some_and(|tables| tables.remove(subscriber.index))
    }

    /// How many indexes rest.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "subscribers of the text stay as long as the node runs")
    )]
    pub(crate) fn resting(&self) -> usize {
        self.0.as_ref().map_or(0, |tables| tables.resting.len())
    }

    /// The indexes that have rested longest, so many, may be used again: no frame names them any more.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "subscribers of the text stay as long as the node runs")
    )]
    pub(crate) fn release(&mut self, oldest: usize) {
        if let Some(tables) = &mut self.0 {
            let oldest = oldest.min(tables.resting.len());
            tables.free.extend(tables.resting.drain(..oldest));
        }
    }
}

impl Tables {
    fn new(seed: u64) -> Tables {
        let nobody = Entry { line: Line::default(), prefixes: Vec::new(), generation: 0, is_live: false };
        let nothing = Owned { address: [0; 4], len: 0, index: 0 };
        Tables {
            secret: Secret::new(seed),
            entries: vec![nobody],
            by_line: Index::new(),
            by_prefix: Index::new(),
            prefixes: vec![nothing],
            free_prefixes: Vec::new(),
            lengths: [0; 129],
            used_lengths: Vec::new(),
            live: 0,
            free: Vec::new(),
            resting: VecDeque::new(),
        }
    }

    fn hash_of_line(&self, Line { port, tags, mac: [a, b, c, d, e, f] }: Line) -> u32 {
        let words = [
            port.0.into(),
            u32::from(tags.outer) << 16 | u32::from(tags.inner),
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([0, 0, e, f]),
        ];
        self.secret.hash(words, 1)
    }

    fn hash_of_prefix(&self, address: [u32; 4], len: u8) -> u32 {
        self.secret.hash(address, 2 + u64::from(len))
    }

    /// The number of the subscriber with this line; 0: none.
    fn index_of_line(&self, line: Line) -> u32 {
        let is = |index: u32| self.entries.get(index as usize).is_some_and(|entry| entry.line == line);
        self.by_line.find(self.hash_of_line(line), is)
    }

    /// The number of a prefix; 0: no subscriber has it.
    fn number_of_prefix(&self, address: [u32; 4], len: u8) -> u32 {
        let is = |number: u32| {
            self.prefixes
                .get(number as usize)
                .is_some_and(|owned| owned.address == address && owned.len == len)
        };
        self.by_prefix.find(self.hash_of_prefix(address, len), is)
    }

    fn named(&self, index: u32) -> Subscriber {
        let generation = self.entries.get(index as usize).map_or(0, |entry| entry.generation);
        Subscriber { index, generation }
    }

    fn of_line(&self, line: Line) -> Subscriber {
        match self.index_of_line(line) {
            0 => Subscriber::NONE,
            index => self.named(index),
        }
    }

    fn to_address(&self, address: [u32; 4]) -> Subscriber {
        for &len in &self.used_lengths {
            let number = self.number_of_prefix(words6(bits(address) & mask6(len)), len);
            if let Some(owned) = self.prefixes.get(number as usize).filter(|_| number != 0) {
                return self.named(owned.index);
            }
        }
        Subscriber::NONE
    }

    fn insert(&mut self, line: Line, prefixes: Vec<Prefix>) -> Result<Subscriber, Taken> {
        if self.index_of_line(line) != 0 {
            return Err(Taken::Line);
        }
        for (n, &prefix) in prefixes.iter().enumerate() {
            let (address, len) = masked(prefix);
            let is_twice = prefixes.iter().take(n).any(|&other| masked(other) == (address, len));
            if is_twice || self.number_of_prefix(address, len) != 0 {
                return Err(Taken::Prefix(prefix));
            }
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() > index::MOST as usize => return Err(Taken::Full),
            None => self.push_entry(line),
        };
        for &prefix in &prefixes {
            self.own(prefix, index);
        }
        self.by_line.insert(self.hash_of_line(line), index);
        if let Some(entry) = self.entries.get_mut(index as usize) {
            *entry = Entry { line, prefixes, generation: entry.generation, is_live: true };
        }
        self.live += 1;
        Ok(self.named(index))
    }

    fn push_entry(&mut self, line: Line) -> u32 {
        self.entries.push(Entry { line, prefixes: Vec::new(), generation: 0, is_live: false });
        self.entries.len() as u32 - 1
    }

    /// A prefix is a subscriber's from now on.
    fn own(&mut self, prefix: Prefix, index: u32) {
        let (address, len) = masked(prefix);
        let owned = Owned { address, len, index };
        let number = match self.free_prefixes.pop() {
            Some(number) => {
                self.prefixes.get_mut(number as usize).into_iter().for_each(|place| *place = owned);
                number
            }
            None => {
                self.prefixes.push(owned);
                self.prefixes.len() as u32 - 1
            }
        };
        self.by_prefix.insert(self.hash_of_prefix(address, len), number);
        self.count_length(len, |count| count + 1);
    }

    fn disown(&mut self, prefix: Prefix) {
        let (address, len) = masked(prefix);
        let number = self.number_of_prefix(address, len);
        self.by_prefix.remove(self.hash_of_prefix(address, len), number);
        self.free_prefixes.push(number);
        self.count_length(len, |count| count - 1);
    }

    fn count_length(&mut self, len: u8, change: impl Fn(u32) -> u32) {
        let Some(count) = self.lengths.get_mut(usize::from(len)) else { return };
        let before = std::mem::replace(count, change(*count));
        match (before, *count) {
            (0, 1) => {
                let at = self.used_lengths.partition_point(|&other| other > len);
                self.used_lengths.insert(at, len);
            }
            (1, 0) => self.used_lengths.retain(|&other| other != len),
            _ => {}
        }
    }

    fn remove(&mut self, index: u32) -> bool {
        let Some(entry) = self.entries.get_mut(index as usize).filter(|entry| entry.is_live) else {
            return false;
        };
        (entry.is_live, entry.generation) = (false, entry.generation.wrapping_add(1));
        let (line, prefixes) = (entry.line, std::mem::take(&mut entry.prefixes));
        self.by_line.remove(self.hash_of_line(line), index);
        prefixes.into_iter().for_each(|prefix| self.disown(prefix));
        self.live -= 1;
        self.resting.push_back(index);
        true
    }
}

/// The first address of a prefix, and its length, as one of IPv6.
fn masked(prefix: Prefix) -> ([u32; 4], u8) {
    let Prefix { address, len } = prefix.network();
    (words_of(address), if matches!(address, IpAddr::V4(_)) { len + 96 } else { len })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::frame::PortId;
    use crate::random::Random;
    use crate::tags::Tags;

    fn line(n: u16) -> Line {
        let mac = [2, 0, 0, 0, 0, (n % 3) as u8];
        Line { port: PortId(n % 2), tags: Tags { outer: 1 + n % 5, inner: n % 7 }, mac }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn to(table: &Subscribers, address: &str) -> Subscriber {
        table.lookup_to(words_of(address.parse().expect("an address")))
    }

    #[test]
    fn subscribers_are_found_by_line_and_by_the_longest_prefix() {
        let mut table = Subscribers::with_seed(7);
        assert!(table.is_empty() && table.lookup_from(line(1)).is_none());
        let one = table.insert(line(1), vec![prefix("198.18.0.0/16"), prefix("2001:db8::/32")]).expect("one");
        let two = table.insert(line(2), vec![prefix("198.18.7.0/24"), prefix("198.18.9.9/32")]).expect("two");
        assert_eq!([one.index, two.index], [1, 2]);
        for (address, found) in [
            ("198.18.0.1", one),
            ("198.18.7.1", two),
            ("198.18.9.9", two),
            ("198.18.9.8", one),
            ("2001:db8::1", one),
            ("2001:db9::1", Subscriber::NONE),
            ("198.19.0.1", Subscriber::NONE),
            // The words of 198.18.0.1 without what says that it is of IPv4.
            ("::c612:1", Subscriber::NONE),
        ] {
            assert_eq!(to(&table, address), found, "{address}");
        }
        assert_eq!((table.lookup_from(line(1)), table.lookup_from(line(2))), (one, two));
        for other in [
            Line { port: PortId(0), ..line(1) },
            Line { tags: Tags { outer: 2, inner: 0 }, ..line(1) },
            Line { mac: [2, 0, 0, 0, 1, 1], ..line(1) },
        ] {
            assert_eq!(table.lookup_from(other), Subscriber::NONE, "{other:?}");
        }
        assert_eq!(table.insert(line(1), Vec::new()), Err(Taken::Line));
        let taken = table.insert(line(3), vec![prefix("192.0.2.1/32"), prefix("198.18.7.5/24")]);
        assert_eq!(taken, Err(Taken::Prefix(prefix("198.18.7.5/24"))));
        let twice = table.insert(line(3), vec![prefix("192.0.2.1/32"); 2]);
        assert_eq!(twice, Err(Taken::Prefix(prefix("192.0.2.1/32"))));
        assert_eq!(to(&table, "192.0.2.1"), Subscriber::NONE, "nothing has changed");
    }

    #[test]
    fn an_index_rests_until_it_is_released() {
        let mut table = Subscribers::with_seed(7);
        let one = table.insert(line(1), vec![prefix("198.18.0.1/32")]).expect("one");
        assert!(table.remove(one) && !table.remove(one));
        assert_eq!((table.is_empty(), table.resting()), (true, 1));
        assert!(table.entry(one).is_none() && to(&table, "198.18.0.1").is_none());
        let again = table.insert(line(1), vec![prefix("198.18.0.1/32")]).expect("again");
        assert_eq!(again, Subscriber { index: 2, generation: 0 }, "the first index rests");
        table.release(1);
        let other = table.insert(line(2), Vec::new()).expect("another");
        assert_eq!(other, Subscriber { index: 1, generation: 1 });
        assert!(table.entry(one).is_none(), "a frame that names the old one names none");
        assert_eq!(table.entry(other).map(|entry| entry.line), Some(line(2)));
    }

    /// What a list that is searched from end to end says.
    #[derive(Default)]
    struct Model {
        live: HashMap<u32, (Subscriber, Line, Vec<Prefix>)>,
        resting: Vec<u32>,
        /// All that were ever removed.
        gone: Vec<Subscriber>,
    }

    impl Model {
        fn from(&self, line: Line) -> Subscriber {
            let found = self.live.values().find(|(_, other, _)| *other == line);
            found.map_or(Subscriber::NONE, |(subscriber, _, _)| *subscriber)
        }

        fn to(&self, address: IpAddr) -> Subscriber {
            let all = self.live.values().flat_map(|(subscriber, _, prefixes)| {
                prefixes.iter().map(move |prefix| (prefix.len, *prefix, *subscriber))
            });
            let best = all.filter(|(_, prefix, _)| prefix.contains(address)).max_by_key(|(len, _, _)| *len);
            best.map_or(Subscriber::NONE, |(_, _, subscriber)| subscriber)
        }

        fn owns(&self, prefix: Prefix) -> bool {
            self.live.values().any(|(_, _, all)| all.iter().any(|other| other.network() == prefix.network()))
        }
    }

    #[test]
    fn the_table_agrees_with_a_list() {
        for seed in 1..=6 {
            let (mut table, mut model) = (Subscribers::with_seed(seed), Model::default());
            let mut random = Random(seed);
            for step in 0..3000 {
                let what = format!("seed {seed}, step {step}");
                let address = |random: &mut Random| Ipv4Addr::from(0xc612_0000 | random.below(64) as u32);
                match random.below(5) {
                    0 | 1 => {
                        let of = line(random.below(210) as u16);
                        let some = random.below(3);
                        let prefixes: Vec<Prefix> = (0..some)
                            .map(|_| Prefix {
                                address: address(&mut random).into(),
                                len: 26 + random.below(7) as u8,
                            })
                            .collect();
                        let is_twice = prefixes.len() == 2 && prefixes[0].network() == prefixes[1].network();
                        let is_free = model.from(of).is_none()
                            && !is_twice
                            && !prefixes.iter().any(|prefix| model.owns(*prefix));
                        match table.insert(of, prefixes.clone()) {
                            Ok(new) => {
                                assert!(is_free && !model.resting.contains(&new.index), "{what}: {new:?}");
                                assert!(
                                    !model.gone.contains(&new) && !model.live.contains_key(&new.index),
                                    "{what}"
                                );
                                model.live.insert(new.index, (new, of, prefixes));
                            }
                            Err(taken) => assert!(!is_free, "{what}: {taken}"),
                        }
                    }
                    2 => {
                        let mut all: Vec<u32> = model.live.keys().copied().collect();
                        all.sort_unstable();
                        if let Some(&index) = all.get(random.below(all.len().max(1) as u64) as usize) {
                            let (subscriber, _, _) = model.live.remove(&index).expect("it is there");
                            assert!(table.remove(subscriber), "{what}");
                            model.resting.push(index);
                            model.gone.push(subscriber);
                        }
                    }
                    3 if random.below(4) == 0 => {
                        let some = random.below(model.resting.len() as u64 + 1) as usize;
                        table.release(some);
                        model.resting.drain(..some);
                    }
                    _ => {}
                }
                let (of, at) = (line(random.below(210) as u16), address(&mut random));
                assert_eq!(table.lookup_from(of), model.from(of), "{what}");
                assert_eq!(table.lookup_to(words_of(at.into())), model.to(at.into()), "{what}: {at}");
                assert_eq!(table.resting(), model.resting.len(), "{what}");
                for (subscriber, of, _) in model.live.values() {
                    assert_eq!(table.entry(*subscriber).map(|entry| entry.line), Some(*of), "{what}");
                }
                // A generation comes again after 256 others.
                let gone = model.gone.iter().rev().take(200);
                gone.for_each(|subscriber| assert!(table.entry(*subscriber).is_none(), "{what}"));
            }
            assert!(model.gone.len() > 300, "seed {seed}: {} were removed", model.gone.len());
        }
    }
}
