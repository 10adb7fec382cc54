//! The end of a ring that puts records in: a node's of punts, a control program's of injections.

use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

use crate::memory::{self, Mapping};
use crate::ring::{ProducerEnd, Refused};
use crate::{DamageCounts, Descriptors, Geometry, Kind, PuntError, wake};

/// Puts records of one kind into a ring.
///
/// No call waits, allocates or costs a system call, but that [`commit`](Producer::commit) sends a byte to a consumer that sleeps.
#[derive(Debug)]
pub struct Producer<K> {
    end: ProducerEnd<Mapping>,
    wake: OwnedFd,
    kind: PhantomData<K>,
}

impl<K: Kind> Producer<K> {
    /// Makes a ring, whose other end is for the consumer.
    ///
    /// # Errors
    /// [`PuntError::System`]: there is no memory or no descriptor left.
    pub fn create(geometry: Geometry) -> Result<(Producer<K>, Descriptors), PuntError> {
        let (own, other) = memory::create::<K>(geometry)?;
        Ok((Producer::attach(own)?, other))
    }

    /// The end of a ring that the other process has made, and into which nothing has been put yet.
    ///
    /// # Errors
    /// The memory is not such a ring: all of [`PuntError`].
    pub fn attach(descriptors: Descriptors) -> Result<Producer<K>, PuntError> {
        let (memory, geometry, header) = memory::attach::<K>(descriptors.memory.as_fd())?;
        let end = ProducerEnd::new(memory, geometry, header, 0);
        Ok(Producer { end, wake: descriptors.wake, kind: PhantomData })
    }

    /// Slots of the ring.
    pub fn geometry(&self) -> Geometry {
        self.end.geometry()
    }

    /// Writes a record behind the last one. The consumer sees it after the next [`commit`](Producer::commit).
    ///
    /// # Errors
    /// The record was not taken, and the caller counts it.
    pub fn push(&mut self, record: &K::Record<'_>) -> Result<(), Refused> {
        let (head, bytes) = K::encode(record);
        self.end.push(head, bytes)
    }

    /// How many records are in the ring, by the consumer's last word: at most as many as it has slots.
    pub fn waiting(&mut self) -> u64 {
        self.end.waiting()
    }

    /// Shows the consumer all records so far, and wakes it if it sleeps. Called once at the end of a batch, also of one in
    /// which every record was refused.
    pub fn commit(&mut self) {
        if self.end.commit() {
            wake::send(self.wake.as_fd());
        }
    }

    /// What was found in the memory that should not be there.
    pub fn damage(&self) -> &DamageCounts {
        self.end.damage()
    }
}
