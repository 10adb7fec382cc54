//! The two ends of a ring, over any memory of words: what they write, what they believe, and how they agree again after
//! damage. See the [crate](crate) for the layout and the invariants.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::damage::{Damage, DamageCounts};
use crate::geometry::{Geometry, HEADER_WORDS, SLOTS_AT, WORD_BYTES};
use crate::record::{HEAD_WORDS, Head, length};

/// Why a record was not put into a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No slot is free: the other process is slow, stopped or gone.
    #[error("the ring is full")]
    Full,
    /// The frame is longer than a slot: see [`Geometry::frame_bytes`].
    #[error("the frame is longer than a slot of the ring")]
    TooLong,
}

/// Words between two that different processes write: two cache lines, since a CPU fetches them in pairs.
const LINE_WORDS: usize = 128 / WORD_BYTES;
/// Where the index of the producer is.
pub(crate) const PRODUCER_AT: usize = LINE_WORDS;
/// Where the index of the consumer is.
pub(crate) const CONSUMER_AT: usize = 2 * LINE_WORDS;
/// Where it is 1 while the consumer sleeps.
pub(crate) const ASLEEP_AT: usize = 3 * LINE_WORDS;

const _: () = assert!(HEADER_WORDS <= LINE_WORDS && ASLEEP_AT < SLOTS_AT);

/// A word that two processes share: one of the machine, or in tests one of loom.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// See [`fence`], sequentially consistent.
    fn fence();
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// The memory of a ring.
pub(crate) trait Memory {
    type Word: Word;
    fn words(&self) -> &[Self::Word];
}

/// A ring in memory, as it was when this end was made.
#[derive(Debug)]
struct Ring<M> {
    memory: M,
    geometry: Geometry,
    header: [u64; HEADER_WORDS],
}

impl<M: Memory> Ring<M> {
    fn new(memory: M, geometry: Geometry, header: [u64; HEADER_WORDS]) -> Ring<M> {
        assert_eq!(memory.words().len(), geometry.words(), "memory of a ring is as long as the ring");
        Ring { memory, geometry, header }
    }

    #[expect(clippy::indexing_slicing, reason = "new() asserts the length, and AT is below SLOTS_AT")]
    fn word(&self, at: usize) -> &M::Word {
        &self.memory.words()[at]
    }

    /// The slot of record `index`, any number.
    #[expect(clippy::indexing_slicing, reason = "new() asserts the length; the mask keeps the index")]
    fn slot(&self, index: u64) -> &[M::Word] {
        let slot_words = self.geometry.slot_words();
        let start = SLOTS_AT + (index & (self.geometry.slots() - 1)) as usize * slot_words;
        &self.memory.words()[start..start + slot_words]
    }

    /// Puts right what the other end never writes: the header, and the index of this end. False if something was wrong.
    fn restore(&self, index_at: usize, index: u64, damage: &mut DamageCounts) -> bool {
        let mut is_intact = true;
        for (word, value) in self.memory.words().iter().zip(self.header) {
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
                is_intact = false;
            }
        }
        if !is_intact {
            damage.add(Damage::Header);
        }
        let word = self.word(index_at);
        if word.load(Ordering::Relaxed) != index {
            word.store(index, Ordering::Release);
            damage.add(Damage::Index);
            is_intact = false;
        }
        is_intact
    }
}

/// The end that puts records into a ring.
#[derive(Debug)]
pub(crate) struct ProducerEnd<M> {
    ring: Ring<M>,
    /// Index of the next record.
    next: u64,
    /// Index of the first record that the consumer has not been told of.
    committed: u64,
    /// What the consumer has last said to have consumed.
    consumed: u64,
    /// Records that were refused since one was taken.
    refused: u64,
    /// The consumer must look at the ring, whatever its flag says.
    must_wake: bool,
    damage: DamageCounts,
}

impl<M: Memory> ProducerEnd<M> {
    /// Of a ring with nothing in it, whose indices begin at `first`.
    pub(crate) fn new(
        memory: M,
        geometry: Geometry,
        header: [u64; HEADER_WORDS],
        first: u64,
    ) -> ProducerEnd<M> {
        ProducerEnd {
            ring: Ring::new(memory, geometry, header),
            next: first,
            committed: first,
            consumed: first,
            refused: 0,
            must_wake: false,
            damage: DamageCounts::default(),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.ring.geometry
    }

    pub(crate) fn damage(&self) -> &DamageCounts {
        &self.damage
    }

    /// Writes a record behind the last one.
    pub(crate) fn push(&mut self, head: Head, bytes: &[u8]) -> Result<(), Refused> {
        if bytes.len() > self.ring.geometry.frame_bytes() {
            return Err(Refused::TooLong);
        }
        let is_first = self.next == self.committed;
        if is_first && !self.ring.restore(PRODUCER_AT, self.committed, &mut self.damage) {
            self.must_wake = true;
        }
        if !self.has_room() {
            // The flag of a consumer that sleeps may have been overwritten: it is woken each time that a whole ring was refused.
            self.must_wake |= self.refused.is_multiple_of(self.ring.geometry.slots());
            self.refused += 1;
            return Err(Refused::Full);
        }
        self.refused = 0;
        put(self.ring.slot(self.next), head, bytes);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Whether the next slot is free. The other process is asked only when all known to be free have been used.
    fn has_room(&mut self) -> bool {
        let slots = self.ring.geometry.slots();
        if self.next.wrapping_sub(self.consumed) < slots {
            return true;
        }
        self.look_at_consumer() && self.next.wrapping_sub(self.consumed) < slots
    }

    /// Asks the other process how far it has come; false if its answer cannot be.
    fn look_at_consumer(&mut self) -> bool {
        // Acquire: what the consumer has read of a slot, it has read before we overwrite it.
        let consumed = self.ring.word(CONSUMER_AT).load(Ordering::Acquire);
        if self.committed.wrapping_sub(consumed) > self.ring.geometry.slots() {
            self.damage.add(Damage::Index);
            return false;
        }
        self.consumed = consumed;
        true
    }

    /// How many records there are that the consumer has not taken yet.
    pub(crate) fn waiting(&mut self) -> u64 {
        self.look_at_consumer();
        self.next.wrapping_sub(self.consumed)
    }

    /// Lets the consumer see all records so far; true if it must be woken.
    pub(crate) fn commit(&mut self) -> bool {
        if self.next == self.committed && !self.must_wake {
            return false;
        }
        self.committed = self.next;
        self.ring.word(PRODUCER_AT).store(self.committed, Ordering::Release);
        M::Word::fence();
        let asleep = self.ring.word(ASLEEP_AT);
        let flag = asleep.load(Ordering::Relaxed);
        if flag > 1 {
            self.damage.add(Damage::SleepFlag);
        }
        // Clearing the flag is what sends: one wake-up for each sleep.
        let is_asleep = flag != 0 && asleep.swap(0, Ordering::Relaxed) != 0;
        std::mem::take(&mut self.must_wake) || is_asleep
    }
}

/// The end that takes records out of a ring.
#[derive(Debug)]
pub(crate) struct ConsumerEnd<M> {
    ring: Ring<M>,
    /// Index of the next record.
    next: u64,
    /// A frame, copied out of its slot.
    copy: Box<[u8]>,
    damage: DamageCounts,
}

impl<M: Memory> ConsumerEnd<M> {
    /// Of a ring with nothing in it, whose indices begin at `first`.
    pub(crate) fn new(
        memory: M,
        geometry: Geometry,
        header: [u64; HEADER_WORDS],
        first: u64,
    ) -> ConsumerEnd<M> {
        let copy = vec![0; geometry.frame_bytes()].into();
        let ring = Ring::new(memory, geometry, header);
        ConsumerEnd { ring, next: first, copy, damage: DamageCounts::default() }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.ring.geometry
    }

    pub(crate) fn damage(&self) -> &DamageCounts {
        &self.damage
    }

    /// Hands on copies of up to `most` records, then frees their slots together; returns how many it took from the ring.
    pub(crate) fn take(
        &mut self,
        most: usize,
        mut each: impl FnMut(Head, &[u8]) -> Result<(), Damage>,
    ) -> usize {
        self.ring.restore(CONSUMER_AT, self.next, &mut self.damage);
        let taken = self.available().min(most as u64);
        for ahead in 0..taken {
            let slot = self.ring.slot(self.next.wrapping_add(ahead));
            let done = get(slot, &mut self.copy).and_then(|(head, bytes)| each(head, bytes));
            if let Err(damage) = done {
                self.damage.add(damage);
            }
        }
        if taken > 0 {
            self.advance_to(self.next.wrapping_add(taken));
        }
        taken as usize
    }

    /// Records in the ring, at most as many as it has slots.
    fn available(&mut self) -> u64 {
        // Acquire: the records were written before the index.
        let produced = self.ring.word(PRODUCER_AT).load(Ordering::Acquire);
        let available = produced.wrapping_sub(self.next);
        if available <= self.ring.geometry.slots() {
            return available;
        }
        self.damage.add(Damage::Index);
        self.advance_to(produced);
        0
    }

    /// Release: slots are read before they are given back.
    fn advance_to(&mut self, next: u64) {
        self.next = next;
        self.ring.word(CONSUMER_AT).store(next, Ordering::Release);
    }

    /// Tells the producer that this end is about to sleep; false if it must not, because there is something in the ring.
    pub(crate) fn may_sleep(&self) -> bool {
        self.set_asleep(1);
        M::Word::fence();
        let is_empty = self.ring.word(PRODUCER_AT).load(Ordering::Relaxed) == self.next;
        if !is_empty {
            self.set_asleep(0);
        }
        is_empty
    }

    /// It is awake.
    pub(crate) fn woke(&self) {
        self.set_asleep(0);
    }

    /// A swap, as the producer's: loom does not know that a store cannot come between the two halves of one.
    fn set_asleep(&self, flag: u64) {
        self.ring.word(ASLEEP_AT).swap(flag, Ordering::Relaxed);
    }
}

/// Writes a record into a slot, which is long enough.
fn put<W: Word>(slot: &[W], head: Head, bytes: &[u8]) {
    for (word, value) in slot.iter().zip(head) {
        word.store(value, Ordering::Relaxed);
    }
    let body = slot.get(HEAD_WORDS..).unwrap_or_default();
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (word, chunk) in body.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if let (Some(word), false) = (body.get(whole.len()), rest.is_empty()) {
        let mut last = [0; WORD_BYTES];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Copies a record out of its slot, each word once; the length is that of the copy.
fn get<'a, W: Word>(slot: &[W], copy: &'a mut [u8]) -> Result<(Head, &'a [u8]), Damage> {
    let mut head = [0; HEAD_WORDS];
    for (value, word) in head.iter_mut().zip(slot) {
        *value = word.load(Ordering::Relaxed);
    }
    let body = slot.get(HEAD_WORDS..).unwrap_or_default();
    let length = length(head);
    let (chunks, _) = copy.as_chunks_mut::<WORD_BYTES>();
    let chunks = chunks.get_mut(..length.div_ceil(WORD_BYTES)).ok_or(Damage::Length)?;
    for (chunk, word) in chunks.iter_mut().zip(body) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    copy.get(..length).map(|bytes| (head, bytes)).ok_or(Damage::Length)
}

#[cfg(test)]
mod tests;
