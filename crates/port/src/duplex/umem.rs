//! The memory of a pool as AF_XDP sockets share it with the kernel (its UMEM). It can be given to another thread, which opens sockets
//! on it while the thread of the pool goes on.
//!
//! ```text
//!   first socket: registers the memory > bound     others: share that of any socket that is still open > bound
//!   port closed: sockets closed > chunks that the kernel had > the pool
//! ```
//! Invariant: sockets are open for no more queues than the pool has chunks for, so that a port that comes takes none of those of others.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::pool::Chunk;
use crate::mapping::Mapping;
use crate::xsk::{self, Layout};

/// The memory of a pool. Clones are of the same memory.
#[derive(Clone)]
pub struct Umem(Arc<Shared>);

struct Shared {
    pool: u32,
    memory: Arc<Mapping>,
    chunk_bytes: usize,
    /// Sockets that have the memory, until they are closed.
    sockets: Mutex<Vec<Weak<OwnedFd>>>,
    /// Queues that there are chunks for and that have no socket.
    free_queues: AtomicU32,
}

impl fmt::Debug for Umem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Umem").field("pool", &self.0.pool).finish_non_exhaustive()
    }
}

impl Umem {
    /// That of a pool.
    pub(super) fn new(pool: u32, memory: Arc<Mapping>, chunk_bytes: usize) -> Umem {
        let (sockets, free_queues) = (Mutex::default(), AtomicU32::new(0));
        Umem(Arc::new(Shared { pool, memory, chunk_bytes, sockets, free_queues }))
    }

    pub(super) fn pool(&self) -> u32 {
        self.0.pool
    }

    /// Chunks of the memory.
    pub(super) fn chunks(&self) -> usize {
        self.0.memory.bytes() / self.0.chunk_bytes
    }

    /// The pool has chunks for so many queues more, [`super::Xdp::CHUNKS_OF_QUEUE`] for each.
    pub fn add_queues(&self, queues: u32) {
        self.0.free_queues.fetch_add(queues, Ordering::Relaxed);
    }

    /// Takes the chunks of so many queues, if there are as many.
    ///
    /// # Errors
    /// How many there are.
    pub(super) fn take_queues(&self, queues: u32) -> Result<QueueRoom, u32> {
        let less = |free: u32| free.checked_sub(queues);
        self.0.free_queues.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)?;
        Ok(self.queues_of_start(queues))
    }

    /// The chunks of so many queues, which the pool was made with.
    pub(super) fn queues_of_start(&self, queues: u32) -> QueueRoom {
        QueueRoom { umem: self.clone(), queues }
    }

    /// Gives a socket the memory: returns another one that has it, whose memory the socket shares when it is bound, or registers it.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn register(&self, fd: &OwnedFd) -> io::Result<Option<Arc<OwnedFd>>> {
        let mut sockets = self.sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        let other = sockets.iter().find_map(Weak::upgrade);
        if other.is_none() {
            xsk::register(fd, &self.0.memory, Layout::Chunks(self.0.chunk_bytes as u32))?;
        }
        Ok(other)
    }

    /// A socket is bound: others may share its memory.
    pub(super) fn add_socket(&self, fd: &Arc<OwnedFd>) {
        self.sockets().push(Arc::downgrade(fd));
    }

    #[expect(clippy::expect_used, reason = "nothing panics that holds it")]
    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<OwnedFd>>> {
        self.0.sockets.lock().expect("no thread panics with it")
    }

    /// The chunk of this number, with an empty frame.
    ///
    /// # Safety
    /// Neither the pool nor the kernel nor anything else has it.
    pub(super) unsafe fn chunk(&self, number: u32) -> Chunk {
        Chunk::empty(self.0.pool, number)
    }

    /// The number of the chunk that is at this place of the memory.
    pub(super) fn number(&self, at: u64) -> u32 {
        (at as usize / self.0.chunk_bytes) as u32
    }
}

/// The chunks of some queues. They are free for others when it is dropped.
pub(super) struct QueueRoom {
    umem: Umem,
    queues: u32,
}

impl QueueRoom {
    pub(super) fn umem(&self) -> &Umem {
        &self.umem
    }
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        self.umem.add_queues(self.queues);
    }
}

/// Chunks by their numbers.
pub(super) struct ChunkSet(Vec<u64>);

impl ChunkSet {
    /// An empty set, with room for so many.
    pub(super) fn new(chunks: usize) -> ChunkSet {
        ChunkSet(vec![0; chunks.div_ceil(64)])
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the memory has chunks of these numbers alone")]
    pub(super) fn insert(&mut self, chunk: &Chunk) {
        let number = chunk.number() as usize;
        self.0[number / 64] |= 1 << (number % 64);
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the memory has chunks of these numbers alone")]
    pub(super) fn remove(&mut self, chunk: &Chunk) {
        let number = chunk.number() as usize;
        self.0[number / 64] &= !(1 << (number % 64));
    }

    /// The numbers of all.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let of_word = |(n, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| n as u32 * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(of_word)
    }
}
