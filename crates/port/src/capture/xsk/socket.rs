//! An AF_XDP socket that receives: memory for frames, and the rings through which they change hands.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::mapping::Mapping;
use crate::xsk::{self, Entries, Kind, Layout, Place};

/// How much memory a socket has, in which pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Where chunks lie; each holds one frame.
    pub(super) layout: Layout,
    /// Bytes from one chunk to the next: fewer than it has where chunks overlap.
    pub(super) stride: u32,
    /// Chunks in all.
    pub(super) chunks: u32,
    /// Entries of the ring of received frames: a power of two.
    pub(super) entries: u32,
}

/// Lower bits of a descriptor's address; with chunks anywhere, the upper ones are how far into it the frame begins.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;

impl Geometry {
    /// Of frames alone.
    fn bytes(self) -> usize {
        let (Layout::Chunks(chunk) | Layout::Anywhere(chunk)) = self.layout;
        self.stride as usize * (self.chunks as usize - 1) + chunk as usize
    }

    /// The same with rings of so many entries, unless they are shorter.
    pub(super) fn at_most(self, entries: u32) -> Geometry {
        match self.entries.checked_sub(entries) {
            None | Some(0) => self,
            Some(fewer) => {
                Geometry { entries, chunks: self.chunks.saturating_sub(fewer).max(entries), ..self }
            }
        }
    }

    /// Bits of an address that say which chunk it is in.
    fn chunk_bits(self) -> u64 {
        match self.layout {
            Layout::Chunks(bytes) => ADDRESS & !u64::from(bytes - 1),
            Layout::Anywhere(_) => ADDRESS,
        }
    }
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
    chunk_bits: u64,
    received: Entries,
    free: Entries,
    /// The kernel wants one, though nothing is sent.
    _completed: Entries,
}

impl Socket {
    /// A socket with its memory, at no queue yet.
    pub(super) fn new(geometry: Geometry) -> io::Result<Socket> {
        let fd = xsk::socket()?;
        let memory = Mapping::fresh(geometry.bytes())?;
        xsk::register(&fd, &memory, geometry.layout)?;
        let free = Entries::make(&fd, Kind::Free, geometry.chunks.next_power_of_two())?;
        let completed = Entries::make(&fd, Kind::Completed, 1)?;
        let received = Entries::make(&fd, Kind::Received, geometry.entries)?;
        let chunk_bits = geometry.chunk_bits();
        let mut socket = Socket { fd, memory, chunk_bits, received, free, _completed: completed };
        for chunk in 0..geometry.chunks {
            socket.put_back(chunk, u64::from(chunk) * u64::from(geometry.stride));
        }
        socket.free.produced(geometry.chunks);
        Ok(socket)
    }

    /// Binds it to a receive queue.
    pub(super) fn bind(&self, index: u32, queue: u32, flags: u16) -> io::Result<()> {
        xsk::bind(&self.fd, Place { index, queue }, flags, None)
    }

    /// From now on, calls of [`Socket::wake_driver`] run the driver's receive routine.
    pub(super) fn poll_busily(&self) -> io::Result<()> {
        xsk::poll_busily(&self.fd)
    }

    /// Does the driver put frames straight into our memory?
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        xsk::is_zero_copy(&self.fd)
    }

    /// The kernel's counters.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        xsk::statistics(&self.fd)
    }

    /// Memory for frames, bytes.
    pub(super) fn memory(&self) -> u64 {
        self.memory.bytes() as u64
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
        self.put_back(ahead, entry.addr & self.chunk_bits);
        let at = (entry.addr & ADDRESS) + (entry.addr >> ADDRESS_BITS);
        Received { at: at as usize, bytes: entry.len as usize }
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

    /// Does the driver wait to hear of free chunks?
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
