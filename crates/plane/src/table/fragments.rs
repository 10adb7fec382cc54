//! Packets in fragments: what is known of those whose first fragment has come, and the fragments of others, which wait for theirs.
//! Memory is bounded, and so is what a host takes of it from others, see `shares.rs`.
//!
//! A packet is forgotten soon after all of it has come by: its identification may be that of another one then, whose later
//! fragments may come before its first (RFC 6864, section 4.3, RFC 4963).

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::extensions::MORE4;
use crate::frame::{Frame, Kind};
use crate::table::shares::{Host, Shares};
use crate::time::Time;

/// How long the others may come behind the first (RFC 1122, section 3.3.2, allows 60 s and more).
const KNOWN: Duration = Duration::from_secs(30);
/// What waits for so long is given up as soon as it is longer.
const PRECISION: Duration = Duration::from_nanos(1);
/// How long others may come before the first.
const WAITING: Duration = Duration::from_secs(2);

/// What the fragments of a packet have in common (RFC 791, RFC 8200).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Packet {
    /// Whether it is of IPv4: the addresses of IPv4 and IPv6 may be the same numbers.
    v4: bool,
    src: u128,
    dst: u128,
    id: u32,
    pub(crate) proto: u8,
}

impl Packet {
    /// That of a frame with this identification.
    pub(crate) fn of(frame: &Frame<'_>, id: u32) -> Packet {
        let v4 = frame.kind() == Kind::V4;
        let (src, dst) = if v4 {
            let (src, dst) = frame.addresses4();
            (src.into(), dst.into())
        } else {
            frame.addresses6()
        };
        Packet { v4, src, dst, id, proto: frame.proto() }
    }
}

/// How long fragments that come behind the whole packet are duplicates: a sender comes to the same identification after 65536 more
/// packets, which are no less than 80 ms of fragments at 10 Gbit/s.
const DUPLICATES: Duration = Duration::from_millis(50);

/// A fragment: its packet's sender, and its place in the packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    host: Host,
    start: usize,
    bytes: usize,
    more: bool,
}

impl Extent {
    /// That which a frame carries.
    pub(crate) fn of(frame: &Frame<'_>) -> Extent {
        let more = frame.fragment_field() & MORE4 != 0;
        Extent { host: Host::of(frame), start: frame.fragment_offset(), bytes: frame.l4().len(), more }
    }
}

/// How much of a packet has come by: the sum of its fragments, whatever their order. Where one comes twice before all have come,
/// the sum may never be right, and the packet is remembered as long as others.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    bytes: usize,
    whole: Option<usize>,
    /// When all had come.
    done: Option<Time>,
}

impl Seen {
    /// One more fragment.
    fn add(&mut self, now: Time, extent: Extent) {
        self.bytes = self.bytes.saturating_add(extent.bytes);
        if !extent.more {
            self.whole = Some(extent.start + extent.bytes);
        }
        if self.whole == Some(self.bytes) {
            self.done = Some(now);
        }
    }

    /// Whether what comes now is of another packet.
    fn is_over(&self, now: Time) -> bool {
        self.done.is_some_and(|done| now - done > DUPLICATES)
    }
}

/// A packet whose first fragment has come.
#[derive(Debug)]
struct Known<V> {
    since: Time,
    number: u64,
    seen: Seen,
    what: V,
}

/// How many packets in fragments are remembered, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Packets whose first fragment has come.
    pub(crate) packets: usize,
    /// Fragments that wait for their first.
    pub(crate) waiting: usize,
}

/// What is known of packets whose first fragment has come, and the fragments of others, of one direction.
#[derive(Debug)]
pub(crate) struct FragmentTable<K, V, P> {
    known: HashMap<K, Known<V>>,
    /// The packets, each by its number, by sender.
    order: Shares<K>,
    waiting: Shares<(K, P)>,
    /// The numbers of those that wait.
    numbers: HashMap<K, VecDeque<u64>>,
}

impl<K: Copy + Eq + Hash, V: Copy, P> FragmentTable<K, V, P> {
    pub(crate) fn new(room: Room) -> FragmentTable<K, V, P> {
        FragmentTable {
            known: HashMap::new(),
            order: Shares::new(room.packets),
            waiting: Shares::new(room.waiting),
            numbers: HashMap::new(),
        }
    }

    /// Its limits.
    pub(crate) fn room(&self) -> Room {
        Room { packets: self.order.most(), waiting: self.waiting.most() }
    }

    /// Sets other limits: what is beyond them gives way when the next one comes.
    pub(crate) fn limit(&mut self, room: Room) {
        self.order.set_most(room.packets);
        self.waiting.set_most(room.waiting);
    }

    /// The first fragment of a packet came: replaces what was known by its key.
    pub(crate) fn learn(&mut self, now: Time, first: Extent, key: K, what: V) {
        self.forget(&key);
        let number = self.order.push(now, first.host, key);
        let mut seen = Seen::default();
        seen.add(now, first);
        self.known.insert(key, Known { since: now, number, seen, what });
        while let Some((_, key)) = self.order.displace() {
            self.known.remove(&key);
        }
    }

    /// What is known for a later fragment, which goes on by it.
    pub(crate) fn pass(&mut self, now: Time, later: Extent, key: &K) -> Option<V> {
        let what = self.get(key, now)?;
        if let Some(known) = self.known.get_mut(key) {
            known.seen.add(now, later);
        }
        Some(what)
    }

    pub(crate) fn get(&self, key: &K, now: Time) -> Option<V> {
        let is_it = |known: &&Known<V>| now - known.since <= KNOWN && !known.seen.is_over(now);
        self.known.get(key).filter(is_it).map(|known| known.what)
    }

    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(Known { number, .. }) = self.known.remove(key) {
            self.order.remove(number);
        }
    }

    /// Fragments that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &P> {
        self.waiting.iter().map(|(_, fragment)| fragment)
    }

    /// A fragment of a host waits; returns those that gave way, of which it may be one.
    #[must_use]
    pub(crate) fn wait(&mut self, now: Time, host: Host, key: K, fragment: P) -> Vec<P> {
        let number = self.waiting.push(now, host, (key, fragment));
        self.numbers.entry(key).or_default().push_back(number);
        let mut gone = Vec::new();
        while let Some((number, (key, fragment))) = self.waiting.displace() {
            self.no_more(&key, number);
            gone.push(fragment);
        }
        gone
    }

    /// Those of a packet that wait, in the order in which they came.
    pub(crate) fn of(&self, key: &K) -> impl Iterator<Item = &P> {
        let numbers = self.numbers.get(key).into_iter().flatten();
        numbers.filter_map(|&number| self.waiting.get(number)).map(|(_, fragment)| fragment)
    }

    /// Takes those of a packet out that wait.
    pub(crate) fn take(&mut self, key: &K) -> Vec<P> {
        let numbers = self.numbers.remove(key).unwrap_or_default();
        let taken = numbers.into_iter().filter_map(|number| self.waiting.remove(number));
        taken.map(|(_, fragment)| fragment).collect()
    }

    /// Takes all out that wait.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (K, P)> + use<K, V, P> {
        self.numbers.clear();
        self.waiting.take_all()
    }

    /// When the first of those that wait has waited too long.
    pub(crate) fn due(&self) -> Option<Time> {
        self.waiting.oldest().map(|since| since + WAITING + PRECISION)
    }

    /// Forgets what is too old; returns the fragments that have waited too long.
    #[must_use]
    pub(crate) fn expire(&mut self, now: Time) -> Vec<P> {
        while let Some((_, key)) = self.order.pop_older(now, KNOWN) {
            self.known.remove(&key);
        }
        let mut lapsed = Vec::new();
        while let Some((number, (key, fragment))) = self.waiting.pop_older(now, WAITING) {
            self.no_more(&key, number);
            lapsed.push(fragment);
        }
        lapsed
    }

    /// This fragment of this packet waits no more.
    fn no_more(&mut self, key: &K, number: u64) {
        if let Some(numbers) = self.numbers.get_mut(key) {
            if let Ok(at) = numbers.binary_search(&number) {
                numbers.remove(at);
            }
            if numbers.is_empty() {
                self.numbers.remove(key);
            }
        }
    }
}
