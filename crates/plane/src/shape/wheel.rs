//! A timer wheel of 20 us slots: what waits for its rate, by when it may send again.
//!
//! The wheel has one list per slot. The owner keeps the links: [`Wheel::arm`] returns the item that the new one stands in front
//! of, and [`Wheel::expire`] the first item of a list that is due.
//!
//! Invariant: an item expires no earlier than its time, and at most one slot later if the wheel is asked then. An item that is
//! due beyond the wheel expires at the end of the wheel, and its owner arms it again.

/// Length of a slot, ns.
pub(super) const SLOT_NS: u64 = 20_000;
const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
/// The end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Lists of items by time.
#[derive(Debug)]
pub(super) struct Wheel {
    heads: Box<[u32]>,
    /// A bit for each slot that has items.
    used: [u64; WORDS],
    /// How many slots have items.
    count: u32,
    /// The first slot that has not expired, counted from time 0.
    first: u64,
}

impl Wheel {
    pub(super) fn new() -> Wheel {
        Wheel { heads: vec![NONE; SLOTS].into(), used: [0; WORDS], count: 0, first: 0 }
    }

    /// Adds an item that is due at `due_ns`; returns the item behind it.
    pub(super) fn arm(&mut self, due_ns: u64, item: u32) -> u32 {
        let slot = due_ns.div_ceil(SLOT_NS).clamp(self.first, self.first + SLOTS as u64 - 1);
        let at = slot as usize % SLOTS;
        let bit = 1 << (at % 64);
        self.count += u32::from(self.used[at / 64] & bit == 0);
        self.used[at / 64] |= bit;
        std::mem::replace(&mut self.heads[at], item)
    }

    /// The first item of a list that is due by `now_ns`, which is removed as a whole.
    pub(super) fn expire(&mut self, now_ns: u64) -> Option<u32> {
        let now = now_ns / SLOT_NS;
        match self.first_used() {
            Some(slot) if slot <= now => {
                let at = slot as usize % SLOTS;
                self.used[at / 64] &= !(1 << (at % 64));
                self.count -= 1;
                self.first = slot + 1;
                Some(std::mem::replace(&mut self.heads[at], NONE))
            }
            _ => {
                self.first = self.first.max(now + 1);
                None
            }
        }
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
            let (mut due, mut next): (Vec<u64>, Vec<u32>) = (Vec::new(), Vec::new());
            let (mut alive, mut now) = (0, 0);
            for step in 0..3000 {
                let at = now + random.below(SLOT_NS * (SLOTS as u64 - 2));
                due.push(at);
                next.push(wheel.arm(at, step));
                alive += 1;
                now += random.below(200_000);
                let all = due.clone();
                while let Some(mut item) = wheel.expire(now) {
                    while item != NONE {
                        let at = all[item as usize];
                        assert!(at <= now, "seed {seed}: item {item} of {at} expired at {now}");
                        due[item as usize] = u64::MAX;
                        (item, alive) = (next[item as usize], alive - 1);
                    }
                }
                let late = due.iter().filter(|&&at| at != u64::MAX && at + SLOT_NS <= now).count();
                assert_eq!(late, 0, "seed {seed}, {now} ns");
                assert_eq!(wheel.due_ns().is_some(), alive > 0, "seed {seed}");
                assert!(wheel.due_ns().is_none_or(|at| at > now), "seed {seed}");
            }
        }
    }
}
