//! Memory for the frames of one thread, in chunks of one frame each. AF_XDP sockets share it with the kernel.
//!
//! ```text
//!  | FRONT | frame ... | rest |   chunk n begins at n * chunk_bytes
//! ```
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::umem::Umem;
use crate::mapping::Mapping;

/// Bytes in front of a frame that arrives: what XDP keeps free, so that all ports agree.
pub const FRONT: usize = 256;
/// Sizes of a chunk; AF_XDP takes the first two.
const CHUNK_BYTES: [usize; 4] = [2048, 4096, 8192, 16384];

/// A chunk, and the frame in it. It is not `Clone`: its holder may read and write its bytes.
#[derive(Debug)]
pub struct Chunk {
    pool: u32,
    number: u32,
    start: u16,
    end: u16,
}

impl Chunk {
    /// Where the frame is in its chunk.
    pub fn range(&self) -> Range<usize> {
        self.start.into()..self.end.into()
    }

    /// A chunk with an empty frame.
    pub(super) fn empty(pool: u32, number: u32) -> Chunk {
        Chunk { pool, number, start: FRONT as u16, end: FRONT as u16 }
    }

    /// Its number in its pool.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Says where the frame is now.
    pub fn set_range(&mut self, range: Range<usize>) {
        (self.start, self.end) = (range.start as u16, range.end as u16);
    }
}

/// The chunks of one thread.
pub struct Pool {
    id: u32,
    memory: Arc<Mapping>,
    chunk_bytes: usize,
    free: Vec<u32>,
    chunks: u32,
    /// The memory as AF_XDP sockets share it.
    umem: Umem,
}

impl Pool {
    /// Chunks for so many frames of at most `frame_bytes`.
    ///
    /// # Errors
    /// There is no such memory, or no chunk is as large.
    pub fn new(chunks: u32, frame_bytes: usize) -> io::Result<Pool> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let wide = |bytes: &usize| *bytes >= FRONT + frame_bytes;
        let chunk_bytes = CHUNK_BYTES.into_iter().find(wide).ok_or_else(|| {
            io::Error::other(format!("frames of {frame_bytes} bytes are longer than any chunk"))
        })?;
        let memory = Arc::new(Mapping::fresh(chunk_bytes * chunks as usize)?);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let umem = Umem::new(id, memory.clone(), chunk_bytes);
        // The one that was given back last is the next, since it may still be in a cache.
        Ok(Pool { id, memory, chunk_bytes, free: (0..chunks).rev().collect(), chunks, umem })
    }

    /// The longest frame.
    pub fn longest(&self) -> usize {
        self.chunk_bytes - FRONT
    }

    /// Free chunks.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// A chunk with an empty frame.
    pub fn take(&mut self) -> Option<Chunk> {
        let number = self.free.pop()?;
        Some(Chunk::empty(self.id, number))
    }

    /// Takes a chunk back.
    pub fn give_back(&mut self, chunk: Chunk) {
        assert_eq!(chunk.pool, self.id, "the chunk of another pool");
        self.free.push(chunk.number);
    }

    /// The frame.
    ///
    /// # Panics
    /// If it is said to be where its chunk is not, as in [`Pool::bytes_mut`].
    #[expect(clippy::indexing_slicing, reason = "the node itself says where a frame is")]
    pub fn bytes(&self, chunk: &Chunk) -> &[u8] {
        // SAFETY: as in whole_mut(); the pool is borrowed, so that there is no writer.
        let whole = unsafe { std::slice::from_raw_parts(self.start(chunk), self.chunk_bytes) };
        &whole[chunk.range()]
    }

    /// The frame, to be written.
    #[expect(clippy::indexing_slicing, reason = "the node itself says where a frame is")]
    pub fn bytes_mut(&mut self, chunk: &Chunk) -> &mut [u8] {
        // SAFETY: the pool is borrowed for as long as the bytes are.
        let whole = unsafe { self.whole_mut(chunk) };
        &mut whole[chunk.range()]
    }

    /// All bytes of several chunks at once, with the places of their frames.
    pub fn all_mut<'a>(
        &'a mut self,
        chunks: &'a [Chunk],
    ) -> impl Iterator<Item = (&'a mut [u8], Range<usize>)> {
        let pool = &*self;
        // SAFETY: no two chunks have the same number, and the pool is borrowed for as long as the bytes are.
        chunks.iter().map(move |chunk| (unsafe { pool.whole_mut(chunk) }, chunk.range()))
    }

    /// # Safety
    /// While the result lives, no other reference to the bytes of this chunk is made.
    #[expect(clippy::mut_from_ref, reason = "the chunk says whose bytes they are")]
    unsafe fn whole_mut(&self, chunk: &Chunk) -> &mut [u8] {
        // SAFETY: a chunk of the mapping; its one owner is the holder of the `Chunk`, and not the kernel.
        unsafe { std::slice::from_raw_parts_mut(self.start(chunk), self.chunk_bytes) }
    }

    fn start(&self, chunk: &Chunk) -> *mut u8 {
        assert_eq!(chunk.pool, self.id, "the chunk of another pool");
        self.memory.at(chunk.number as usize * self.chunk_bytes)
    }
}

/// What an AF_XDP socket needs. The kernel has its chunks meanwhile.
impl Pool {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// The memory as AF_XDP sockets share it.
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    /// Gives a chunk to the kernel: the place of its frame in the memory, and its length.
    pub(super) fn lend(&self, chunk: &Chunk) -> (u64, u32) {
        assert_eq!(chunk.pool, self.id, "the chunk of another pool");
        let at = chunk.number as usize * self.chunk_bytes + usize::from(chunk.start);
        (at as u64, u32::from(chunk.end - chunk.start))
    }

    /// The chunk that the kernel gives back.
    ///
    /// # Safety
    /// The kernel has named the chunk by this place, and each chunk once for each time that it was lent.
    pub(super) unsafe fn returned(&self, at: u64, bytes: u32) -> Chunk {
        let (number, start) = (at as usize / self.chunk_bytes, at as usize % self.chunk_bytes);
        assert!(number < self.chunks as usize && start + bytes as usize <= self.chunk_bytes, "a chunk");
        Chunk {
            pool: self.id,
            number: number as u32,
            start: start as u16,
            end: (start + bytes as usize) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xsk::Entries;

    #[test]
    fn chunks_are_apart_and_come_back() {
        let mut pool = Pool::new(3, 1518).expect("memory");
        assert_eq!((pool.longest(), pool.free()), (1792, 3));
        let mut chunks: Vec<Chunk> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((chunks.len(), pool.free()), (3, 0));
        for (n, chunk) in (1..).zip(&mut chunks) {
            chunk.set_range(FRONT - 8..FRONT + 1792);
            pool.bytes_mut(chunk).fill(n);
        }
        for (n, (whole, range)) in (1..).zip(pool.all_mut(&chunks)) {
            assert!(whole[range.clone()].iter().all(|byte| *byte == n), "chunk {n}");
            assert!(whole[..range.start].iter().all(|byte| *byte == 0), "chunk {n}");
        }
        chunks.drain(..).for_each(|chunk| pool.give_back(chunk));
        assert_eq!(pool.free(), 3);
        assert!(Pool::new(1, 20_000).is_err());
        assert_eq!(Pool::new(1, 9234).expect("memory").longest(), 16128);
    }

    const FRAMES: u8 = 12;
    const BYTES: usize = 60;

    /// Waits until there is an entry.
    fn until(mut ready: impl FnMut() -> bool) {
        while !ready() {
            std::thread::yield_now();
        }
    }

    /// What the kernel does, in copy mode: a frame for each free chunk, and frames to be sent are read and given back.
    fn kernel(memory: &Mapping, [free, received, sent, completed]: [&mut Entries; 4]) {
        for n in 0..FRAMES {
            until(|| free.full() > 0);
            // SAFETY: a full entry is ours, and so are the chunk that it names and a free entry.
            unsafe {
                let at = free.entry::<u64>(0).read() + FRONT as u64;
                free.consumed(1);
                memory.at::<[u8; BYTES]>(at as usize).write([n; BYTES]);
                until(|| received.free() > 0);
                let desc = libc::xdp_desc { addr: at, len: BYTES as u32, options: 0 };
                received.entry::<libc::xdp_desc>(0).write(desc);
            }
            received.produced(1);
            until(|| sent.full() > 0);
            // SAFETY: the same.
            unsafe {
                let desc = sent.entry::<libc::xdp_desc>(0).read();
                sent.consumed(1);
                let frame = memory.at::<[u8; BYTES - 4]>(desc.addr as usize).read();
                assert_eq!((frame, desc.len as usize), ([n + 1; BYTES - 4], BYTES - 4));
                until(|| completed.free() > 0);
                completed.entry::<u64>(0).write(desc.addr);
            }
            completed.produced(1);
        }
    }

    /// For miri, which sees a chunk that two sides touch at once; the numbers of the rings wrap around meanwhile.
    #[test]
    fn chunks_go_to_the_kernel_and_back_by_rings() {
        let mut pool = Pool::new(6, 64).expect("memory");
        let [mut free, mut received, mut sent, mut completed] =
            [(); 4].map(|()| Entries::fresh(4, u32::MAX - 5));
        // SAFETY: the thread ends before the rings and the pool do.
        let (memory, theirs) =
            unsafe { (pool.memory.again(), [&free, &received, &sent, &completed].map(|ring| ring.other())) };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let [mut a, mut b, mut c, mut d] = theirs;
                kernel(&memory, [&mut a, &mut b, &mut c, &mut d]);
            });
            let mut back = 0;
            while back < FRAMES {
                while free.free() > 0 && pool.free() > 1 {
                    let chunk = pool.take().expect("there is one");
                    let (at, _) = pool.lend(&chunk);
                    // SAFETY: a free entry, which the kernel does not touch.
                    unsafe { free.entry::<u64>(0).write(at - FRONT as u64) };
                    free.produced(1);
                }
                if received.full() > 0 && sent.free() > 0 {
                    // SAFETY: a full entry, which names a chunk that the kernel gives back.
                    let mut chunk = unsafe {
                        let entry = received.entry::<libc::xdp_desc>(0).read();
                        pool.returned(entry.addr, entry.len)
                    };
                    received.consumed(1);
                    pool.bytes_mut(&chunk).iter_mut().for_each(|byte| *byte += 1);
                    chunk.set_range(chunk.range().start + 4..chunk.range().end);
                    let (addr, len) = pool.lend(&chunk);
                    // SAFETY: a free entry, which the kernel does not touch.
                    unsafe {
                        sent.entry::<libc::xdp_desc>(0).write(libc::xdp_desc { addr, len, options: 0 })
                    };
                    sent.produced(1);
                }
                if completed.full() > 0 {
                    // SAFETY: as above.
                    let chunk = unsafe { pool.returned(completed.entry::<u64>(0).read(), 0) };
                    completed.consumed(1);
                    pool.give_back(chunk);
                    back += 1;
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(pool.free() + (4 - free.free()) as usize, 6, "no chunk is lost");
    }

    #[test]
    #[should_panic(expected = "another pool")]
    fn a_chunk_belongs_to_its_pool() {
        let (mut one, mut other) = (Pool::new(1, 64).expect("memory"), Pool::new(1, 64).expect("memory"));
        other.give_back(one.take().expect("one"));
    }
}
