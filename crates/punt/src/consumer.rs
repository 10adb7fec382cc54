//! The end of a ring that takes records out: a control program's of punts, a node's of injections.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::memory::{self, Mapping};
use crate::ring::ConsumerEnd;
use crate::{DamageCounts, Descriptors, Geometry, Kind, PuntError, wake};

/// Takes records of one kind out of a ring.
///
/// Its descriptor ([`AsFd`]) can be read when it is to wake, for poll(2) and the like:
///
/// ```text
///   loop: while take(..) > 0 {} > may_sleep()? no: take again > wait for the descriptor, and all else > woke()
/// ```
#[derive(Debug)]
pub struct Consumer<K> {
    end: ConsumerEnd<Mapping>,
    wake: OwnedFd,
    kind: PhantomData<K>,
}

impl<K: Kind> Consumer<K> {
    /// Makes a ring, whose other end is for the producer.
    ///
    /// # Errors
    /// [`PuntError::System`]: there is no memory or no descriptor left.
    pub fn create(geometry: Geometry) -> Result<(Consumer<K>, Descriptors), PuntError> {
        let (own, other) = memory::create::<K>(geometry)?;
        Ok((Consumer::attach(own)?, other))
    }

    /// The end of a ring that the other process has made, and of which nothing has been taken yet.
    ///
    /// # Errors
    /// The memory is not such a ring: all of [`PuntError`].
    pub fn attach(descriptors: Descriptors) -> Result<Consumer<K>, PuntError> {
        let (memory, geometry, header) = memory::attach::<K>(descriptors.memory.as_fd())?;
        let end = ConsumerEnd::new(memory, geometry, header, 0);
        Ok(Consumer { end, wake: descriptors.wake, kind: PhantomData })
    }

    /// Slots of the ring.
    pub fn geometry(&self) -> Geometry {
        self.end.geometry()
    }

    /// Hands on up to `most` records, each a copy of what is in the ring, then frees their slots together. Returns how many
    /// were taken, with those that were damaged and not handed on: 0 if the ring is empty.
    pub fn take(&mut self, most: usize, mut each: impl FnMut(K::Record<'_>)) -> usize {
        self.end.take(most, |head, bytes| K::decode(head, bytes).map(&mut each))
    }

    /// Tells the producer that this end is about to wait for its descriptor; false if it must not, because there is
    /// something in the ring.
    pub fn may_sleep(&self) -> bool {
        self.end.may_sleep()
    }

    /// This end is awake, whatever it was woken by. False if the other process has closed its end or has ended: what it has
    /// put into the ring can still be taken.
    pub fn woke(&self) -> bool {
        self.end.woke();
        wake::receive(self.wake.as_fd())
    }

    /// This end is awake, by something else than its descriptor.
    pub fn woke_otherwise(&self) {
        self.end.woke();
    }

    /// Sleeps until there may be a record, or for this time, for a thread that waits for nothing else. False as in
    /// [`woke`](Consumer::woke).
    ///
    /// # Errors
    /// poll(2) failed; EINTR is not an error.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        if self.may_sleep() {
            wake::wait(self.wake.as_fd(), timeout)?;
        }
        Ok(self.woke())
    }

    /// What was found in the memory that should not be there.
    pub fn damage(&self) -> &DamageCounts {
        self.end.damage()
    }
}

impl<K> AsFd for Consumer<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
