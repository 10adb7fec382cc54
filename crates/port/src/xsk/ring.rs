//! The rings of an AF_XDP socket: one side produces entries, the other consumes them, and each owns one of two
//! numbers that run freely through all of 32 bits.
//!
//! ```text
//!   ... free | consumer -> full full full | producer -> free free ...      entry i is at i modulo the ring's size
//! ```
//! An entry is written before its producer's number is released, and read after that number was acquired; the same
//! holds, the other way round, for the room that the consumer gives back.
//! Source: Documentation/networking/af_xdp.rst, net/xdp/xsk_queue.h.

use std::sync::atomic::{AtomicU32, Ordering};

/// A number that two sides share.
pub(crate) trait Shared {
    /// What the other side last said, and all that it did before.
    fn acquire(&self) -> u32;
    /// Says how far we are, after all that we did.
    fn release(&self, number: u32);
}

impl Shared for AtomicU32 {
    fn acquire(&self) -> u32 {
        self.load(Ordering::Acquire)
    }

    fn release(&self, number: u32) {
        self.store(number, Ordering::Release);
    }
}

/// Our side of a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    /// Our own number.
    ours: u32,
    /// Entries of the ring: a power of two.
    size: u32,
}

impl Side {
    /// A side of a fresh ring; its numbers begin at `first`.
    pub(crate) fn new(size: u32, first: u32) -> Side {
        assert!(size.is_power_of_two(), "a ring has a power of two of entries, not {size}");
        Side { ours: first, size }
    }

    /// As a consumer: entries that are full.
    pub(crate) fn full(self, producer: &impl Shared) -> u32 {
        producer.acquire().wrapping_sub(self.ours)
    }

    /// As a producer: entries that are free.
    pub(crate) fn free(self, consumer: &impl Shared) -> u32 {
        self.size - self.ours.wrapping_sub(consumer.acquire())
    }

    /// Where the entry is that comes `ahead` after the next one.
    pub(crate) fn slot(self, ahead: u32) -> usize {
        (self.ours.wrapping_add(ahead) & (self.size - 1)) as usize
    }

    /// Hands `n` entries over: full ones as a producer, free ones as a consumer.
    pub(crate) fn hand_over(&mut self, n: u32, number: &impl Shared) {
        self.ours = self.ours.wrapping_add(n);
        number.release(self.ours);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Shared for loom::sync::atomic::AtomicU32 {
        fn acquire(&self) -> u32 {
            self.load(Ordering::Acquire)
        }

        fn release(&self, number: u32) {
            self.store(number, Ordering::Release);
        }
    }

    #[test]
    fn numbers_wrap_around() {
        for first in [0, u32::MAX - 1, u32::MAX, 1 << 31] {
            let (producer, consumer) = (AtomicU32::new(first), AtomicU32::new(first));
            let (mut put, mut take) = (Side::new(4, first), Side::new(4, first));
            let mut entries = [0; 4];
            let (mut written, mut read) = (0, vec![]);
            for n in [3, 1, 4, 2, 4, 4, 1] {
                assert_eq!((put.free(&consumer), take.full(&producer)), (4, 0), "from {first}");
                for i in 0..n {
                    entries[put.slot(i)] = written;
                    written += 1;
                }
                put.hand_over(n, &producer);
                assert_eq!((put.free(&consumer), take.full(&producer)), (4 - n, n), "from {first}");
                read.extend((0..n).map(|i| entries[take.slot(i)]));
                take.hand_over(n, &consumer);
            }
            assert_eq!(read, (0..19).collect::<Vec<_>>(), "from {first}");
        }
    }

    /// Interleavings of both sides, and every value that weakly ordered memory allows: no entry is read before
    /// it was written, and none is overwritten before it was read. Loom itself fails on an access that races.
    #[test]
    fn no_entry_is_touched_by_both_sides() {
        use loom::cell::UnsafeCell;
        use loom::sync::Arc;
        use loom::sync::atomic::AtomicU32;
        const FIRST: u32 = u32::MAX - 1;
        struct Ring {
            producer: AtomicU32,
            consumer: AtomicU32,
            entries: [UnsafeCell<u32>; 2],
        }
        // SAFETY: what the test shows.
        unsafe impl Sync for Ring {}
        let mut model = loom::model::Builder::new();
        // Of all interleavings those with three changes of threads that nothing forces (LOOM_MAX_PREEMPTIONS allows more).
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(|| {
            let numbers = || AtomicU32::new(FIRST);
            let entries = [UnsafeCell::new(0), UnsafeCell::new(0)];
            let ring = Arc::new(Ring { producer: numbers(), consumer: numbers(), entries });
            let theirs = ring.clone();
            let producer = loom::thread::spawn(move || {
                let mut side = Side::new(2, FIRST);
                for value in 1..=3u32 {
                    while side.free(&theirs.consumer) == 0 {
                        loom::thread::yield_now();
                    }
                    // SAFETY: a free entry is the producer's.
                    theirs.entries[side.slot(0)].with_mut(|entry| unsafe { *entry = value });
                    side.hand_over(1, &theirs.producer);
                }
            });
            let mut side = Side::new(2, FIRST);
            for value in 1..=3u32 {
                while side.full(&ring.producer) == 0 {
                    loom::thread::yield_now();
                }
                // SAFETY: a full entry is the consumer's.
                ring.entries[side.slot(0)].with(|entry| assert_eq!(unsafe { *entry }, value));
                side.hand_over(1, &ring.consumer);
            }
            producer.join().unwrap();
        });
    }
}
