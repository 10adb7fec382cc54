//! A number that threads share: one of the machine, or in tests one of loom, which tries every interleaving.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// See [`AtomicU64`].
pub(crate) trait Word {
    fn new(value: u64) -> Self;
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn swap(&self, value: u64, order: Ordering) -> u64;
    fn add(&self, more: u64, order: Ordering);
    /// See [`fence`], sequentially consistent.
    fn fence();
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }

    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    fn add(&self, more: u64, order: Ordering) {
        self.fetch_add(more, order);
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
impl Word for loom::sync::atomic::AtomicU64 {
    fn new(value: u64) -> Self {
        loom::sync::atomic::AtomicU64::new(value)
    }

    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    fn add(&self, more: u64, order: Ordering) {
        self.fetch_add(more, order);
    }

    fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
