//! A timer wheel of 20 us slots: what waits for its rate, by when it may send again.
//!
//! The wheel has one list per slot, in chunks of a cache line: so all items that are due are known at once, and the owner can
//! prefetch what it has of them. Nothing is allocated before the first item.
//!
//! Invariant: an item expires no earlier than its time, and at most one slot later if the wheel is asked then. An item that is
//! due beyond the wheel expires at the end of the wheel, and its owner arms it again.

/// Length of a slot, ns.
pub(super) const SLOT_NS: u64 = 20_000;
const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
/// The end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Items of a chunk.
const ITEMS: usize = 14;

/// Items of a slot; those in `next` are older.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Chunk {
    items: [u32; ITEMS],
    count: u32,
    next: u32,
}

const _: () = assert!(size_of::<Chunk>() == 64);

/// Lists of items by time.
#[derive(Debug)]
pub(super) struct Wheel {
    /// The newest chunk of each slot.
    heads: Vec<u32>,
    chunks: Vec<Chunk>,
    free_chunk: u32,
    /// A bit for each slot that has items.
    used: [u64; WORDS],
    /// How many slots have items.
    count: u32,
    /// The first slot that has not expired, counted from time 0.
    first: u64,
}

impl Wheel {
    pub(super) fn new() -> Wheel {
        Wheel {
            heads: Vec::new(),
            chunks: Vec::new(),
            free_chunk: NONE,
            used: [0; WORDS],
            count: 0,
            first: 0,
        }
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.heads.capacity() * size_of::<u32>() + self.chunks.capacity() * size_of::<Chunk>()
    }

    /// Gives its memory back, if it has no items.
    pub(super) fn free_memory(&mut self) {
        if self.count == 0 {
            (self.heads, self.chunks, self.free_chunk) = (Vec::new(), Vec::new(), NONE);
        }
    }

    /// Adds an item that is due at `due_ns`.
    pub(super) fn arm(&mut self, due_ns: u64, item: u32) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; SLOTS];
        }
        let slot = due_ns.div_ceil(SLOT_NS).clamp(self.first, self.first + SLOTS as u64 - 1);
        let at = slot as usize % SLOTS;
        let bit = 1 << (at % 64);
        self.count += u32::from(self.used[at / 64] & bit == 0);
        self.used[at / 64] |= bit;
        let mut head = self.heads[at];
        if head == NONE || self.chunks[head as usize].count as usize == ITEMS {
            head = self.open(head);
            self.heads[at] = head;
        }
        let chunk = &mut self.chunks[head as usize];
        chunk.items[chunk.count as usize] = item;
        chunk.count += 1;
    }

    /// A chunk without items, in front of `next`.
    fn open(&mut self, next: u32) -> u32 {
        let chunk = Chunk { items: [NONE; ITEMS], count: 0, next };
        if self.free_chunk == NONE {
            self.chunks.push(chunk);
            return self.chunks.len() as u32 - 1;
        }
        let at = self.free_chunk;
        self.free_chunk = self.chunks[at as usize].next;
        self.chunks[at as usize] = chunk;
        at
    }

    /// Removes the items of the first slot that is due by `now_ns` and adds them to `due`, the newest first. False: none is due.
    pub(super) fn expire(&mut self, now_ns: u64, due: &mut Vec<u32>) -> bool {
        let now = now_ns / SLOT_NS;
        let Some(slot) = self.first_used().filter(|&slot| slot <= now) else {
            self.first = self.first.max(now + 1);
            return false;
        };
        let at = slot as usize % SLOTS;
        self.used[at / 64] &= !(1 << (at % 64));
        self.count -= 1;
        self.first = slot + 1;
        let mut head = std::mem::replace(&mut self.heads[at], NONE);
        while head != NONE {
            let chunk = &mut self.chunks[head as usize];
            due.extend(chunk.items[..chunk.count as usize].iter().rev());
            let next = std::mem::replace(&mut chunk.next, self.free_chunk);
            (self.free_chunk, head) = (head, next);
        }
        true
    }

    /// When the next list is due, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.first_used().map(|slot| slot * SLOT_NS)
    }

    fn first_used(&self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let start = self.first as usize % SLOTS;
        // The word of the first slot comes twice: first its end, and last its begin.
        (0..=WORDS).find_map(|n| {
            let word = (start / 64 + n) % WORDS;
            let mask = match n {
                0 => u64::MAX << (start % 64),
                WORDS => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.used[word] & mask;
            let at = word * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| self.first + ((at + SLOTS - start) % SLOTS) as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn items_expire_in_their_slot() {
        for seed in 1..=4 {
            let (mut random, mut wheel) = (Random(seed), Wheel::new());
            let (mut due, mut expired): (Vec<u64>, Vec<u32>) = (Vec::new(), Vec::new());
            let (mut alive, mut now) = (0, 0);
            for step in 0..3000 {
                let at = now + random.below(SLOT_NS * (SLOTS as u64 - 2));
                due.push(at);
                wheel.arm(at, step);
                alive += 1;
                now += random.below(200_000);
                while wheel.expire(now, &mut expired) {}
                for item in expired.drain(..) {
                    let at = std::mem::replace(&mut due[item as usize], u64::MAX);
                    assert!(at <= now, "seed {seed}: item {item} of {at} expired at {now}");
                    alive -= 1;
                }
                let late = due.iter().filter(|&&at| at != u64::MAX && at + SLOT_NS <= now).count();
                assert_eq!(late, 0, "seed {seed}, {now} ns");
                assert_eq!(wheel.due_ns().is_some(), alive > 0, "seed {seed}");
                assert!(wheel.due_ns().is_none_or(|at| at > now), "seed {seed}");
            }
        }
    }
}
