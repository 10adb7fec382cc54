//! An AF_XDP socket that receives: memory for frames, and the rings through which they change hands.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::mapping::Mapping;
use crate::xsk::{self, Entries, Kind, Place};

/// How much memory a socket has, in which pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a chunk, each of which holds one frame.
    pub(super) chunk_bytes: u32,
    /// Entries of the ring of received frames: a power of two.
    pub(super) entries: u32,
    /// Chunks in all: those in the ring and those that the kernel fills meanwhile.
    pub(super) chunks: u32,
}

/// A frame that was received.
pub(super) struct Received {
    /// Where it begins in the memory.
    pub(super) at: usize,
    /// Its length.
    pub(super) bytes: usize,
}

pub(super) struct Socket {
    fd: OwnedFd,
    memory: Mapping,
    geometry: Geometry,
    received: Entries,
    free: Entries,
    /// The kernel wants one, though nothing is sent.
    _completed: Entries,
}

impl Socket {
    /// A socket with its memory, at no queue yet.
    pub(super) fn new(geometry: Geometry) -> io::Result<Socket> {
        let fd = xsk::socket()?;
        let memory = Mapping::fresh(geometry.chunk_bytes as usize * geometry.chunks as usize)?;
        xsk::register(&fd, &memory, geometry.chunk_bytes)?;
        let free = Entries::make(&fd, Kind::Free, geometry.chunks.next_power_of_two())?;
        let completed = Entries::make(&fd, Kind::Completed, 1)?;
        let received = Entries::make(&fd, Kind::Received, geometry.entries)?;
        let mut socket = Socket { fd, memory, geometry, received, free, _completed: completed };
        for chunk in 0..geometry.chunks {
            socket.put_back(chunk, u64::from(chunk) * u64::from(geometry.chunk_bytes));
        }
        socket.free.produced(geometry.chunks);
        Ok(socket)
    }

    /// Binds it to a receive queue.
    pub(super) fn bind(&self, index: u32, queue: u32, flags: u16) -> io::Result<()> {
        xsk::bind(&self.fd, Place { index, queue }, flags, None)
    }

    /// Does the driver put frames straight into our memory?
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        xsk::is_zero_copy(&self.fd)
    }

    /// The kernel's counters.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        xsk::statistics(&self.fd)
    }

    /// Frames that are there.
    pub(super) fn waiting(&self) -> u32 {
        self.received.full()
    }

    /// The frame `ahead` of the next, which must be below [`Socket::waiting`]; its chunk stays ours until
    /// [`Socket::give_back`].
    pub(super) fn frame(&mut self, ahead: u32) -> Received {
        // SAFETY: a full entry, which the kernel does not touch.
        let entry = unsafe { self.received.entry::<libc::xdp_desc>(ahead).read() };
        self.put_back(ahead, entry.addr & !u64::from(self.geometry.chunk_bytes - 1));
        Received { at: entry.addr as usize, bytes: entry.len as usize }
    }

    /// The memory from `at` on.
    pub(super) fn bytes(&mut self, at: usize, bytes: usize) -> &mut [u8] {
        assert!(at + bytes <= self.memory.bytes(), "frames are within the memory");
        // SAFETY: within the mapping; the chunk of a received frame is ours until it is handed back.
        unsafe { std::slice::from_raw_parts_mut(self.memory.at::<u8>(at), bytes) }
    }

    /// Notes a chunk as free, `ahead` of the next; the ring has room for all chunks there are.
    fn put_back(&mut self, ahead: u32, chunk: u64) {
        // SAFETY: a free entry of the ring, which the kernel does not touch.
        unsafe { self.free.entry::<u64>(ahead).write(chunk) };
    }

    /// Gives the chunks of the next `n` frames back.
    pub(super) fn give_back(&mut self, n: u32) {
        self.received.consumed(n);
        self.free.produced(n);
    }

    /// Does the driver wait to be told of free chunks?
    pub(super) fn needs_wakeup(&self) -> bool {
        self.free.needs_wakeup()
    }

    /// Tells it.
    pub(super) fn wake_driver(&self) {
        xsk::wake_receiver(self.fd.as_fd());
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
