//! Which entry a flow has: a hash in memory that XDP programs read and the plane alone writes.
//!
//! ```text
//!   key > hash > entry at its place, if it has this key
//!              > bucket | slot slot slot slot slot slot slot slot |  a cache line
//!              > other  | slot ..                                 |
//!   slot: the hash, number of the entry + 1 > entry, which has its key
//! ```
//! Programs look at the place first, and wait for one cache line there: the caller takes it as the number of an entry if it is
//! free.
//!
//! A key is in one of two buckets: the first one unless many are there already, so that most lookups read one line, and a table
//! that is half full loses none. A slot is written at once and after its entry: a program sees the whole of it or nothing.
//!
//! Buckets double as entries come, so that those of a few thousand flows stay in the caches near the CPU however many
//! there is room for. Slots that move are where they were, too, until programs know of the new buckets; a program that has
//! looked at the mask before finds no entry at worst, and leaves the frame to the plane.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::layout::{Bucket, Entry, Key};
use crate::bpf::Memory;
use crate::field;

/// Entries for each bucket, if all there is room for are there.
const LOAD: u32 = 4;
/// With so many in its first bucket, a key is in the other one if there are fewer.
const MANY: usize = 6;
/// Buckets that there are at first: two pages.
const FIRST_BUCKETS: u32 = 128;

pub(super) struct Index {
    /// Those up to the mask are used.
    buckets: Memory<Bucket>,
    pub(super) seed: u64,
    /// Only one thread changes it, and the number of keys.
    mask: AtomicU32,
    keys: AtomicU32,
}

/// A slot, as the number of its bucket and its own.
type Place = (usize, usize);

impl Index {
    /// Buckets that so many entries need.
    pub(super) fn buckets(entries: u32) -> u32 {
        entries.div_ceil(LOAD).next_power_of_two()
    }

    /// Of buckets that are a power of two, and free.
    pub(super) fn new(buckets: Memory<Bucket>) -> Index {
        let mask = AtomicU32::new(FIRST_BUCKETS.min(buckets.len() as u32) - 1);
        let seed = RandomState::new().build_hasher().finish();
        Index { buckets, seed, mask, keys: AtomicU32::new(0) }
    }

    /// Where, of so many entries, programs look first for one with this key.
    pub(super) fn place(&self, key: &Key, room: u32) -> u32 {
        ((u64::from(hash_of(key, self.seed)) * u64::from(room)) >> 32) as u32
    }

    /// What stands in a key for an address of IPv6.
    pub(super) fn hash6(&self, address: [u8; 16]) -> u32 {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address;
        hash([[a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]], self.seed)
    }

    /// Buckets in use - 1.
    pub(super) fn mask(&self) -> u32 {
        self.mask.load(Ordering::Relaxed)
    }

    /// Has a key lead to an entry, which is written already; false if there is no room. Tells of another mask.
    pub(super) fn insert(
        &self,
        key: &Key,
        number: u32,
        entries: &Memory<Entry>,
        publish: impl Fn(u32),
    ) -> bool {
        let hash = hash_of(key, self.seed);
        let known = self.find(key, hash, entries);
        while known.is_none() && self.is_crowded(hash) && self.grow(&publish) {}
        let Some((bucket, slot)) = known.or_else(|| self.free(hash)) else {
            return false;
        };
        self.keys.fetch_add(u32::from(known.is_none()), Ordering::Relaxed);
        fence(Ordering::Release);
        self.set(bucket, slot, slot_of(hash, number));
        true
    }

    /// A key leads nowhere any more; false if it did not lead anywhere.
    pub(super) fn remove(&self, key: &Key, entries: &Memory<Entry>) -> bool {
        let Some((bucket, slot)) = self.find(key, hash_of(key, self.seed), entries) else { return false };
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.set(bucket, slot, 0);
        true
    }

    /// The entry that a key leads to.
    pub(super) fn number(&self, key: &Key, entries: &Memory<Entry>) -> Option<u32> {
        let (bucket, slot) = self.find(key, hash_of(key, self.seed), entries)?;
        self.buckets.get(bucket).slots.get(slot).map(|slot| *slot as u32 - 1)
    }

    fn find(&self, key: &Key, hash: u32, entries: &Memory<Entry>) -> Option<Place> {
        let leads = |slot: u64| {
            let number = (slot as u32).wrapping_sub(1) as usize;
            slot != 0 && hash_in(slot) == hash && entries.get(number).key == *key
        };
        self.of(hash).into_iter().find_map(|bucket| {
            let slot = self.buckets.get(bucket).slots.iter().position(|slot| leads(*slot))?;
            Some((bucket, slot))
        })
    }

    /// Are there more keys than this many buckets should have, or no room for this one?
    fn is_crowded(&self, hash: u32) -> bool {
        self.keys.load(Ordering::Relaxed) / LOAD > self.mask() || self.free(hash).is_none()
    }

    /// Twice as many buckets; false if there are no more.
    fn grow(&self, publish: impl Fn(u32)) -> bool {
        let mask = self.mask();
        let (before, more) = (mask as usize + 1, mask << 1 | 1);
        if more as usize >= self.buckets.len() {
            return false;
        }
        // Bucket i becomes i and i + before: what moves has the same slot there, which no other entry can take.
        let moving = |bucket: usize| {
            let slots = self.buckets.get(bucket).slots.into_iter().enumerate();
            slots.filter(move |&(_, slot)| {
                let hash = hash_in(slot);
                let which = usize::from(buckets_of(hash, mask)[0] != bucket);
                slot != 0 && buckets_of(hash, more)[which] != bucket
            })
        };
        for bucket in 0..before {
            moving(bucket).for_each(|(slot, value)| self.set(bucket + before, slot, value));
        }
        fence(Ordering::Release);
        publish(more);
        self.mask.store(more, Ordering::Relaxed);
        fence(Ordering::Release);
        for bucket in 0..before {
            moving(bucket).for_each(|(slot, _)| self.set(bucket, slot, 0));
        }
        true
    }

    fn free(&self, hash: u32) -> Option<Place> {
        let slots = |bucket: usize| self.buckets.get(bucket).slots;
        let used = |bucket: usize| slots(bucket).iter().filter(|slot| **slot != 0).count();
        let [first, second] = self.of(hash);
        let is_first = used(first) < MANY || used(first) <= used(second);
        let bucket = if is_first { first } else { second };
        Some((bucket, slots(bucket).iter().position(|slot| *slot == 0)?))
    }

    fn of(&self, hash: u32) -> [usize; 2] {
        buckets_of(hash, self.mask())
    }

    fn set(&self, bucket: usize, slot: usize, value: u64) {
        self.buckets.set_field(bucket, value, field!(Bucket, slots).entry(slot));
    }
}

/// The two buckets of a hash; the other one is `fast_other` of bpf/fast.h.
fn buckets_of(hash: u32, mask: u32) -> [usize; 2] {
    let other = (u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    [(hash & mask) as usize, (other & mask) as usize]
}

fn slot_of(hash: u32, number: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(number + 1)
}

fn hash_in(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn hash_of(key: &Key, seed: u64) -> u32 {
    let [a, b] = [key.src.to_ne_bytes(), key.dst.to_ne_bytes()];
    let [c, d] = [key.sport.to_ne_bytes(), key.dport.to_ne_bytes()];
    let ends = [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]];
    let rest = [c[0], c[1], d[0], d[1], key.port, key.protocol, key.flags, key.kind];
    hash([ends, rest], seed)
}

/// `fast_hash` of bpf/fast.h.
fn hash(halves: [[u8; 8]; 2], seed: u64) -> u32 {
    let [first, second] = halves.map(u64::from_ne_bytes);
    let mut hash = (first ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 32 ^ second).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ hash >> 32) as u32
}
