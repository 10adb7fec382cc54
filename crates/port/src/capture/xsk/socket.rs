//! An AF_XDP socket: memory for frames, the rings through which they change hands, and its place at a queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::ring::Side;
use crate::mapping::Mapping;
use crate::packet::set_at;

/// The kernel lets go of a queue a moment after its socket was closed: how often we ask for it, each time after twice
/// the time.
const BIND_TRIES: u32 = 10;
const BIND_FIRST_WAIT: Duration = Duration::from_millis(1);

/// A ring as it lies in memory.
struct Entries {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
    side: Side,
}

impl Entries {
    fn map(fd: BorrowedFd<'_>, place: Place) -> io::Result<Entries> {
        let Place { offset, offsets, size, entry_bytes } = place;
        let bytes = offsets.desc as usize + size as usize * entry_bytes;
        let memory = Mapping::shared(fd, bytes, offset)?;
        Ok(Entries { memory, offsets, side: Side::new(size, 0) })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, which at() asserts; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.at(at as usize)) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// The entry `ahead` of the next.
    fn entry<T>(&self, ahead: u32) -> *mut T {
        self.memory.at(self.offsets.desc as usize + self.side.slot(ahead) * size_of::<T>())
    }
}

/// Where a ring is found, and how large it is.
struct Place {
    offset: libc::off_t,
    offsets: libc::xdp_ring_offset,
    size: u32,
    entry_bytes: usize,
}

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
    _completed: Mapping,
}

impl Socket {
    /// A socket with its memory, at no queue yet.
    pub(super) fn new(geometry: Geometry) -> io::Result<Socket> {
        // SAFETY: no pointers; the result is checked below.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel has just returned.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let memory = Mapping::fresh(geometry.chunk_bytes as usize * geometry.chunks as usize)?;
        let registration = libc::xdp_umem_reg {
            addr: memory.at::<u8>(0) as u64,
            len: memory.bytes() as u64,
            chunk_size: geometry.chunk_bytes,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        let set = |option, value: u32| set_at(&fd, libc::SOL_XDP, option, &value);
        set_at(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        let free_entries = geometry.chunks.next_power_of_two();
        set(libc::XDP_UMEM_FILL_RING, free_entries)?;
        set(libc::XDP_UMEM_COMPLETION_RING, 1)?;
        set(libc::XDP_RX_RING, geometry.entries)?;
        let offsets: libc::xdp_mmap_offsets = get(&fd, libc::XDP_MMAP_OFFSETS)?;
        let received = Place {
            offset: libc::XDP_PGOFF_RX_RING,
            offsets: offsets.rx,
            size: geometry.entries,
            entry_bytes: size_of::<libc::xdp_desc>(),
        };
        let free = Place {
            offset: libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            offsets: offsets.fr,
            size: free_entries,
            entry_bytes: size_of::<u64>(),
        };
        let completed_bytes = offsets.cr.desc as usize + size_of::<u64>();
        let completed_at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let completed = Mapping::shared(fd.as_fd(), completed_bytes, completed_at)?;
        let (received, free) = (Entries::map(fd.as_fd(), received)?, Entries::map(fd.as_fd(), free)?);
        let mut socket = Socket { fd, memory, geometry, received, free, _completed: completed };
        for chunk in 0..geometry.chunks {
            socket.put_back(chunk, u64::from(chunk) * u64::from(geometry.chunk_bytes));
        }
        socket.hand_back(geometry.chunks);
        Ok(socket)
    }

    /// Binds it to a receive queue.
    pub(super) fn bind(&self, index: u32, queue: u32, flags: u16) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let mut wait = BIND_FIRST_WAIT;
        for _ in 0..BIND_TRIES {
            let bytes = size_of_val(&address) as u32;
            // SAFETY: pointer and length describe `address`.
            if unsafe { libc::bind(self.fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(error);
            }
            std::thread::sleep(wait);
            wait *= 2;
        }
        Err(io::Error::from_raw_os_error(libc::EBUSY))
    }

    /// Does the driver put frames straight into our memory?
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        let options: libc::xdp_options = get(&self.fd, libc::XDP_OPTIONS)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The kernel's counters. All of them must be asked for: with fewer, one counter holds another as well.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get(&self.fd, libc::XDP_STATISTICS)
    }

    /// Frames that are there.
    pub(super) fn waiting(&self) -> u32 {
        self.received.side.full(self.received.producer())
    }

    /// The frame `ahead` of the next, which must be below [`Socket::waiting`]; its chunk stays ours until
    /// [`Socket::hand_back`].
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
        let mut side = self.received.side;
        side.hand_over(n, self.received.consumer());
        self.received.side = side;
        self.hand_back(n);
    }

    fn hand_back(&mut self, n: u32) {
        debug_assert!(self.free.side.free(self.free.consumer()) >= n, "there is room for all chunks");
        let mut side = self.free.side;
        side.hand_over(n, self.free.producer());
        self.free.side = side;
    }

    /// Does the driver wait to be told of free chunks?
    pub(super) fn needs_wakeup(&self) -> bool {
        self.free.word(self.free.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Tells it.
    pub(super) fn wake_driver(&self) {
        let nothing = std::ptr::null_mut();
        // SAFETY: no buffer, no address.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                nothing,
                0,
                libc::MSG_DONTWAIT,
                nothing.cast(),
                nothing.cast(),
            )
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A structure of the kernel's: integers only.
trait Plain {}
impl Plain for libc::xdp_mmap_offsets {}
impl Plain for libc::xdp_options {}
impl Plain for libc::xdp_statistics {}

fn get<T: Plain>(fd: &OwnedFd, option: i32) -> io::Result<T> {
    // SAFETY: integers; zero is a value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as u32;
    let pointer = std::ptr::from_mut(&mut value).cast();
    // SAFETY: pointer and length describe `value`.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, pointer, &mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
