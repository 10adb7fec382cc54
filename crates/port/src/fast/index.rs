//! Which entry a flow has: a hash in memory that XDP programs read and the plane alone writes.
//!
//! ```text
//!   key > hash > bucket | slot slot slot slot slot slot slot slot |  a cache line
//!              > other  | slot ..                                 |
//!   slot: part of the hash, number of the entry + 1 > entry, which has its key
//! ```
//! A key is in one of two buckets, the emptier one when it came, so that a table that is half full loses none. A slot is
//! written at once and after its entry: a program sees the whole of it or nothing.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{Ordering, fence};

use super::layout::{Bucket, Entry, Key};
use crate::bpf::Memory;
use crate::field;

/// Entries for each bucket, if all there is room for are there.
const LOAD: u32 = 4;

pub(super) struct Index {
    buckets: Memory<Bucket>,
    pub(super) seed: u64,
    pub(super) mask: u32,
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
        let mask = buckets.len() as u32 - 1;
        Index { buckets, seed: RandomState::new().build_hasher().finish(), mask }
    }

    /// Has a key lead to an entry, which is written already; false if there is no room.
    pub(super) fn insert(&self, key: &Key, number: u32, entries: &Memory<Entry>) -> bool {
        let hash = hash(key, self.seed);
        let Some((bucket, slot)) = self.find(key, hash, entries).or_else(|| self.free(hash)) else {
            return false;
        };
        fence(Ordering::Release);
        self.set(bucket, slot, hash >> 32 << 32 | u64::from(number + 1));
        true
    }

    /// A key leads nowhere any more; false if it did not lead anywhere.
    pub(super) fn remove(&self, key: &Key, entries: &Memory<Entry>) -> bool {
        let Some((bucket, slot)) = self.find(key, hash(key, self.seed), entries) else { return false };
        self.set(bucket, slot, 0);
        true
    }

    fn find(&self, key: &Key, hash: u64, entries: &Memory<Entry>) -> Option<Place> {
        let leads = |slot: u64| {
            let number = (slot as u32).wrapping_sub(1) as usize;
            slot != 0 && slot >> 32 == hash >> 32 && entries.get(number).key == *key
        };
        self.of(hash).into_iter().find_map(|bucket| {
            let slot = self.buckets.get(bucket).slots.iter().position(|slot| leads(*slot))?;
            Some((bucket, slot))
        })
    }

    fn free(&self, hash: u64) -> Option<Place> {
        let slots = |bucket: usize| self.buckets.get(bucket).slots;
        let free = |bucket: &usize| slots(*bucket).iter().filter(|slot| **slot == 0).count();
        let [first, second] = self.of(hash);
        let bucket = if free(&second) > free(&first) { second } else { first };
        Some((bucket, slots(bucket).iter().position(|slot| *slot == 0)?))
    }

    /// The two buckets of a hash.
    fn of(&self, hash: u64) -> [usize; 2] {
        let other = hash as u32 ^ ((hash >> 32) as u32).wrapping_mul(0x5bd1_e995);
        [(hash as u32 & self.mask) as usize, (other & self.mask) as usize]
    }

    fn set(&self, bucket: usize, slot: usize, value: u64) {
        self.buckets.set_field(bucket, value, field!(Bucket, slots).entry(slot));
    }
}

/// `fast_hash` of bpf/fast.h.
fn hash(key: &Key, seed: u64) -> u64 {
    let half = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
    let [a, b] = [key.src.to_ne_bytes(), key.dst.to_ne_bytes()];
    let [c, d] = [key.sport.to_ne_bytes(), key.dport.to_ne_bytes()];
    let first = half([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]);
    let second = half([c[0], c[1], d[0], d[1], key.port, key.protocol, key.flags, key.keeps_whole]);
    let mut hash = (first ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 32 ^ second).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 32
}
