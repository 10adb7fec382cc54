//! The token buckets of one rate, one for each subscriber, in a table that never grows.
//!
//! ```text
//! granted   by the rate since the beginning: bits/s times ns, that is, billionths of a bit, so that nothing is rounded
//! full_at   of a bucket: how much is to be granted until it is full again; it lacks full_at - granted, and the rest are tokens
//! a frame   lacks + its bits <= burst: it passes, and full_at = granted + lacks + its bits
//! ```
//! A bucket is that one number. One that is full says nothing, and its place may become another subscriber's. Places are in
//! sets of eight, which a keyed hash of the subscriber chooses.
//!
//! Invariant: no subscriber gets more than burst + rate * time. If no bucket of a set is full, a new subscriber replaces the
//! fullest bucket and inherits its level (as in Space-Saving, Metwally, Agrawal, El Abbadi, ICDT 2005). From then on all buckets
//! of the set lack as many tokens or more, so that a subscriber that lost its place gains nothing when it returns. To take tokens
//! from others in this way, an attacker must have used up what eight subscribers may.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_memory::prefetch;

use crate::time::Time;

/// Places of a set.
const WAYS: usize = 8;
/// Billionths of a bit in a byte.
const BYTE: u128 = 8_000_000_000;

/// A rate and what may pass at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(super) bits_per_s: u64,
    /// In billionths of a bit.
    burst: u128,
}

impl Limit {
    /// With a burst of so many bytes.
    pub(super) fn with_bytes(bits_per_s: u64, bytes: u64) -> Limit {
        Limit { bits_per_s, burst: u128::from(bytes) * BYTE }
    }

    /// With a burst of what the rate grants in so many ns, but at least so many bytes.
    pub(super) fn with_ns(bits_per_s: u64, ns: u64, least_bytes: u64) -> Limit {
        let burst = (u128::from(bits_per_s) * u128::from(ns)).max(u128::from(least_bytes) * BYTE);
        Limit { bits_per_s, burst }
    }

    /// Whole bytes of the burst.
    pub(super) fn burst_bytes(self) -> u64 {
        (self.burst / BYTE) as u64
    }
}

/// The buckets of all subscribers.
#[derive(Debug)]
pub(super) struct Buckets {
    limit: Limit,
    /// What was granted until then.
    granted: u128,
    since: Time,
    /// By set and place: the subscriber.
    subscribers: Vec<[u128; WAYS]>,
    /// By set and place: how much is to be granted until it is full; 0 where there never was one.
    full_at: Vec<[u128; WAYS]>,
    known: u64,
    displaced: u64,
}

impl Buckets {
    /// All full, with places for so many subscribers, rounded up to whole sets.
    pub(super) fn new(limit: Limit, subscribers: u32) -> Buckets {
        let sets = (subscribers as usize).div_ceil(WAYS).max(1);
        Buckets {
            limit,
            granted: 0,
            since: Time::default(),
            // Zeros are pages of the kernel's that take no memory until a subscriber has a place there.
            subscribers: vec![[0; WAYS]; sets],
            full_at: vec![[0; WAYS]; sets],
            known: 0,
            displaced: 0,
        }
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    /// Subscribers that have a place.
    pub(super) fn known(&self) -> u64 {
        self.known
    }

    /// How often a subscriber replaced a bucket that was not full.
    pub(super) fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Goes on with the buckets of another limit: each lacks what it lacked, but no more than the burst of this one. Only where that is
    /// less than before all buckets are looked at.
    pub(super) fn take_over(&mut self, old: &mut Buckets, now: Time) {
        (self.granted, self.since) = (old.granted(now), now);
        std::mem::swap(&mut self.subscribers, &mut old.subscribers);
        std::mem::swap(&mut self.full_at, &mut old.full_at);
        if self.limit.burst < old.limit.burst {
            self.shorten();
        }
        (self.known, self.displaced) = (old.known, old.displaced);
    }

    /// Goes on with another limit: each bucket lacks what it lacked, but no more than the burst of this one.
    pub(super) fn set_limit(&mut self, limit: Limit, now: Time) {
        (self.granted, self.since) = (self.granted(now), now);
        let was = std::mem::replace(&mut self.limit, limit);
        if limit.burst < was.burst {
            self.shorten();
        }
    }

    /// No bucket lacks more than the burst.
    fn shorten(&mut self) {
        let most = self.granted + self.limit.burst;
        let more = self.full_at.iter_mut().flatten().filter(|full_at| **full_at > most);
        more.for_each(|full_at| *full_at = most);
    }

    /// All buckets are full.
    pub(super) fn begin_anew(&mut self) {
        let (sets, displaced) = (self.subscribers.len(), self.displaced);
        *self = Buckets { displaced, ..Buckets::new(self.limit, (sets * WAYS) as u32) };
    }

    fn granted(&self, now: Time) -> u128 {
        self.granted + u128::from(self.limit.bits_per_s) * (now - self.since).as_nanos()
    }

    fn set(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.subscribers.len() as u64) >> 32) as usize
    }

    /// Has the lines of a subscriber with this hash on their way.
    pub(super) fn touch(&self, hash: u32) {
        let set = self.set(hash);
        for table in [&self.subscribers, &self.full_at] {
            if let Some([first, _, _, _, fifth, ..]) = table.get(set) {
                prefetch(first);
                prefetch(fifth);
            }
        }
    }

    /// Whether a subscriber with this hash has tokens for a frame of so many bytes; if so, they are taken.
    pub(super) fn allow(&mut self, now: Time, subscriber: u128, hash: u32, bytes: usize) -> bool {
        let (granted, set) = (self.granted(now), self.set(hash));
        let (Some(subscribers), Some(full_at)) = (self.subscribers.get_mut(set), self.full_at.get_mut(set))
        else {
            return false;
        };
        let places = || subscribers.iter().zip(full_at.iter()).enumerate();
        let own = places().find(|(_, (holder, _))| **holder == subscriber).map(|(place, _)| place);
        let least = || places().min_by_key(|(_, (_, full_at))| **full_at).map(|(place, _)| place);
        let Some(place) = own.or_else(least) else { return false };
        let (Some(holder), Some(full_at)) = (subscribers.get_mut(place), full_at.get_mut(place)) else {
            return false;
        };
        let lacks = full_at.saturating_sub(granted) + bytes as u128 * BYTE;
        if lacks > self.limit.burst {
            return false;
        }
        self.known += u64::from(*full_at == 0);
        self.displaced += u64::from(own.is_none() && *full_at > granted);
        (*holder, *full_at) = (subscriber, granted + lacks);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::table::secret::Secret;

    /// A table with the hash that stands in front of it.
    struct Table {
        secret: Secret,
        buckets: Buckets,
    }

    impl Table {
        fn new(limit: Limit, subscribers: u32) -> Table {
            Table { secret: Secret::new(7), buckets: Buckets::new(limit, subscribers) }
        }

        fn allow(&mut self, ns: u64, subscriber: u32, bytes: usize) -> bool {
            let hash = self.secret.hash([0, 0, 0xffff, subscriber], 0);
            self.buckets.allow(Time::from_ns(ns), u128::from(subscriber), hash, bytes)
        }
    }

    /// A rate whose ns per bit are no round number: a subscriber that always has more to send gets burst + rate * time, to the
    /// byte of its frames, whenever and however long they come.
    #[test]
    fn the_rate_is_exact_whenever_time_passes() {
        for seed in 1..=5 {
            let (mut random, mut table) = (Random(seed), Table::new(Limit::with_bytes(7_777_777, 3000), 8));
            let (mut ns, mut passed) = (0, 0_u128);
            while ns < 5_000_000_000 {
                // What is full takes no more.
                ns += if passed < 1500 { 0 } else { random.below(300_000) };
                let bytes = 60 + random.below(1400) as usize;
                let granted = 3000 * BYTE + 7_777_777 * u128::from(ns);
                let is_in = (passed + bytes as u128) * BYTE <= granted;
                assert_eq!(table.allow(ns, 1, bytes), is_in, "seed {seed}, {ns} ns, {passed} bytes before");
                passed += if is_in { bytes as u128 } else { 0 };
            }
            assert!(passed * BYTE > 7_777_777 * u128::from(ns), "it always had more to send: {passed}");
        }
    }

    #[test]
    fn a_bucket_is_full_after_a_pause_and_never_more_than_full() {
        let mut table = Table::new(Limit::with_ns(8_000_000, 4_000_000, 1514), 8);
        assert_eq!(table.buckets.limit().burst_bytes(), 4000);
        let mut burst = |ms: u64| (0..100).filter(|_| table.allow(ms * 1_000_000, 1, 1000)).count();
        assert_eq!([burst(0), burst(1), burst(3), burst(1_000_000)], [4, 1, 2, 4]);
        assert_eq!(Limit::with_ns(1000, 1000, 1514).burst_bytes(), 1514);
    }

    /// A flood of addresses, each of which sends one frame, at seven tenths of the rate that the table's subscribers may have together:
    /// a subscriber that sends too much gets its rate, all of it and no more, and one that sends now and then always finds
    /// tokens.
    #[test]
    fn invented_addresses_neither_give_nor_take_tokens() {
        const PLACES: u32 = 64;
        let limit = Limit::with_bytes(8_000_000, 10_000);
        for seed in 1..=3 {
            let (mut random, mut table) = (Random(seed), Table::new(limit, PLACES));
            let (mut passed, mut of_flood) = (0_u128, 0_u32);
            for us in 0..1_000_000_u64 {
                let ns = us * 1000;
                // Of 512 Mbit/s 360: 45 frames of 1000 bytes in a ms.
                if us % 1000 < 45 {
                    of_flood += u32::from(table.allow(ns, 1000 + random.next() as u32 % (1 << 30), 1000));
                }
                // Twice its rate.
                if us % 500 == 0 {
                    passed += if table.allow(ns, 1, 1000) { 1000 } else { 0 };
                    assert!(
                        passed * BYTE <= limit.burst + 8_000_000 * u128::from(ns),
                        "seed {seed}, {us} us"
                    );
                }
                if us % 10_000 == 0 {
                    assert!(
                        table.allow(ns, 2, 1000),
                        "seed {seed}, {us} us: a frame of one who sends little"
                    );
                }
            }
            assert!(passed >= 1_005_000, "seed {seed}: {passed} bytes of 1010000");
            assert!(of_flood > 40_000, "seed {seed}: {of_flood} frames are no flood");
            assert_eq!(table.buckets.known(), u64::from(PLACES));
        }
    }

    /// More of them than the table has places, and all send what they can: no subscriber gets more than its rate.
    #[test]
    fn who_loses_its_place_gains_nothing() {
        let limit = Limit::with_bytes(800_000, 3000);
        let (mut random, mut table) = (Random(9), Table::new(limit, 8));
        let mut passed = [0_u128; 24];
        for us in 0..2_000_000_u64 {
            let who = random.below(24) as usize;
            passed[who] += if table.allow(us * 1000, who as u32 + 1, 500) { 500 } else { 0 };
            assert!(passed[who] * BYTE <= limit.burst + 800_000 * u128::from(us * 1000), "{who} at {us} us");
        }
        assert!(table.buckets.displaced() > 100);
    }

    #[test]
    fn another_limit_goes_on_with_what_buckets_lack() {
        for (bits_per_s, burst, at_once, a_ms_later) in [
            // Nothing was left: the new rate grants the next frame.
            (8_000_000, 4000, 0, 1),
            (16_000_000, 4000, 0, 2),
            // What may pass at once is more or less than before.
            (8_000_000, 6000, 2, 1),
            (8_000_000, 2000, 0, 1),
        ] {
            let mut old = Table::new(Limit::with_bytes(8_000_000, 4000), 8);
            let second = 1_000_000_000;
            assert_eq!((0..9).filter(|_| old.allow(second, 1, 1000)).count(), 4);
            let mut new = Table::new(Limit::with_bytes(bits_per_s, burst), 8);
            new.buckets.take_over(&mut old.buckets, Time::from_ns(second));
            let what = format!("{bits_per_s} bit/s, {burst} bytes");
            assert_eq!((0..9).filter(|_| new.allow(second, 1, 1000)).count(), at_once, "{what}");
            let later = second + 1_000_000;
            assert_eq!((0..9).filter(|_| new.allow(later, 1, 1000)).count(), a_ms_later, "{what}");
            assert_eq!(new.buckets.known(), 1);
            new.buckets.begin_anew();
            assert_eq!((0..9).filter(|_| new.allow(later, 1, 1000)).count() as u64, burst / 1000, "{what}");
        }
    }
}
