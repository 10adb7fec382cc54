//! A delay line: what is put in comes out at its time, in the order of times; of equal times, in the order of arrival. It has room
//! for everything.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use weir_queue::Time;

#[derive(Debug)]
struct Due<T> {
    at: Time,
    number: u64,
    what: T,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Due<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Due<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    /// The earliest is the greatest, as a heap wants it.
    fn cmp(&self, other: &Due<T>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// A delay line.
#[derive(Debug)]
pub(crate) struct Line<T> {
    heap: BinaryHeap<Due<T>>,
    next: u64,
}

impl<T> Line<T> {
    pub(crate) fn new() -> Line<T> {
        Line { heap: BinaryHeap::new(), next: 0 }
    }

    pub(crate) fn put(&mut self, at: Time, what: T) {
        self.heap.push(Due { at, number: self.next, what });
        self.next += 1;
    }

    /// When the next one comes out.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|due| due.at)
    }

    /// The next one that is due, and when it was due.
    pub(crate) fn take(&mut self, now: Time) -> Option<(Time, T)> {
        self.next_at().filter(|&at| at <= now)?;
        self.heap.pop().map(|due| (due.at, due.what))
    }

    /// Time begins anew: what was `at` is 0.
    pub(crate) fn begin_anew(&mut self, at: Time) {
        self.heap = self.heap.drain().map(|due| Due { at: due.at - at, ..due }).collect();
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
