//! AF_XDP: what capturing and forwarding sockets have in common. A socket has a piece of memory registered, or shares
//! that of another; frames change hands through rings.
//! Source: Documentation/networking/af_xdp.rst, net/xdp/xsk.c.

pub(crate) mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::mapping::Mapping;
use crate::packet::set_at;
use ring::Side;

/// The kernel lets go of a queue a moment after its socket was closed: how often we ask for it, each time after twice
/// the time.
const BIND_TRIES: u32 = 10;
const BIND_FIRST_WAIT: Duration = Duration::from_millis(1);

/// A ring as it lies in memory.
pub(crate) struct Entries {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
    pub(crate) side: Side,
}

/// The rings of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Frames that have arrived.
    Received,
    /// Frames to be sent.
    Sent,
    /// Chunks for frames that will arrive.
    Free,
    /// Chunks of frames that have been sent.
    Completed,
}

impl Entries {
    /// Makes a ring of `size` entries, a power of two, and maps it.
    pub(crate) fn make(fd: &OwnedFd, kind: Kind, size: u32) -> io::Result<Entries> {
        let option = match kind {
            Kind::Received => libc::XDP_RX_RING,
            Kind::Sent => libc::XDP_TX_RING,
            Kind::Free => libc::XDP_UMEM_FILL_RING,
            Kind::Completed => libc::XDP_UMEM_COMPLETION_RING,
        };
        set_at(fd, libc::SOL_XDP, option, &size)?;
        let all: libc::xdp_mmap_offsets = get(fd, libc::XDP_MMAP_OFFSETS)?;
        let descriptor = size_of::<libc::xdp_desc>();
        let (offset, offsets, entry_bytes) = match kind {
            Kind::Received => (libc::XDP_PGOFF_RX_RING, all.rx, descriptor),
            Kind::Sent => (libc::XDP_PGOFF_TX_RING, all.tx, descriptor),
            Kind::Free => (libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, all.fr, size_of::<u64>()),
            Kind::Completed => {
                (libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, all.cr, size_of::<u64>())
            }
        };
        let bytes = offsets.desc as usize + size as usize * entry_bytes;
        let memory = Mapping::shared(fd.as_fd(), bytes, offset)?;
        Ok(Entries { memory, offsets, side: Side::new(size, 0) })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, which at() asserts; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.at(at as usize)) }
    }

    /// As a consumer: entries that are full.
    pub(crate) fn full(&self) -> u32 {
        self.side.full(self.word(self.offsets.producer))
    }

    /// As a producer: entries that are free.
    pub(crate) fn free(&self) -> u32 {
        self.side.free(self.word(self.offsets.consumer))
    }

    /// The entry `ahead` of the next.
    pub(crate) fn entry<T>(&self, ahead: u32) -> *mut T {
        self.memory.at(self.offsets.desc as usize + self.side.slot(ahead) * size_of::<T>())
    }

    /// As a consumer: gives `n` entries back.
    pub(crate) fn consumed(&mut self, n: u32) {
        let mut side = self.side;
        side.hand_over(n, self.word(self.offsets.consumer));
        self.side = side;
    }

    /// As a producer: hands `n` entries over, of which the kernel holds none any more. [`Entries::free`] may be less for a
    /// moment: the kernel publishes received frames before it publishes that it has taken their chunks from the fill ring
    /// (`xsk_flush` in net/xdp/xsk.c).
    pub(crate) fn produced(&mut self, n: u32) {
        let mut side = self.side;
        side.hand_over(n, self.word(self.offsets.producer));
        self.side = side;
    }

    /// Does the driver wait to hear of what we produced?
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

#[cfg(test)]
impl Entries {
    /// A ring in memory of our own; its numbers begin at `first`.
    pub(crate) fn fresh(size: u32, first: u32) -> Entries {
        let offsets = libc::xdp_ring_offset { producer: 0, consumer: 64, desc: 256, flags: 128 };
        let bytes = 256 + size as usize * size_of::<libc::xdp_desc>();
        let ring =
            Entries { memory: Mapping::fresh(bytes).expect("memory"), offsets, side: Side::new(size, first) };
        [0, 64].into_iter().for_each(|at| ring.word(at).store(first, Ordering::Relaxed));
        ring
    }

    /// The kernel's side of it.
    ///
    /// # Safety
    /// It is used no longer than this side lives.
    pub(crate) unsafe fn other(&self) -> std::mem::ManuallyDrop<Entries> {
        // SAFETY: as the caller promises.
        let memory = std::mem::ManuallyDrop::into_inner(unsafe { self.memory.again() });
        let Entries { offsets, side, .. } = *self;
        std::mem::ManuallyDrop::new(Entries { memory, offsets, side })
    }
}

/// A socket at no queue yet.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked below.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just returned.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Where frames may lie in the memory of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// In chunks of this size, side by side.
    Chunks(u32),
    /// Wherever there are so many bytes: the kernel does not mind if they overlap.
    Anywhere(u32),
}

/// Registers memory with a socket.
pub(crate) fn register(fd: &OwnedFd, memory: &Mapping, layout: Layout) -> io::Result<()> {
    let (chunk_size, flags) = match layout {
        Layout::Chunks(bytes) => (bytes, 0),
        Layout::Anywhere(bytes) => (bytes, libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG),
    };
    let registration = libc::xdp_umem_reg {
        addr: memory.at::<u8>(0) as u64,
        len: memory.bytes() as u64,
        chunk_size,
        headroom: 0,
        flags,
        tx_metadata_len: 0,
    };
    set_at(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// A receive queue of an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) index: u32,
    pub(crate) queue: u32,
}

/// Binds a socket to a queue; `sharing` is one that has registered the memory.
pub(crate) fn bind(fd: &OwnedFd, place: Place, flags: u16, sharing: Option<&OwnedFd>) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: place.index,
        sxdp_queue_id: place.queue,
        sxdp_shared_umem_fd: sharing.map_or(0, |other| other.as_raw_fd() as u32),
    };
    let mut wait = BIND_FIRST_WAIT;
    for _ in 0..BIND_TRIES {
        let bytes = size_of_val(&address) as u32;
        // SAFETY: pointer and length describe `address`.
        if unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) } == 0 {
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

/// Has [`wake_receiver`] run the driver's receive routine, for so many frames at a time, and asks that interrupts do not.
/// Source: Documentation/networking/napi.rst, "Busy polling".
pub(crate) fn poll_busily(fd: &OwnedFd) -> io::Result<()> {
    // asm-generic/socket.h, younger than the libc crate's list.
    const SO_PREFER_BUSY_POLL: i32 = 69;
    const SO_BUSY_POLL_BUDGET: i32 = 70;
    /// What a routine receives at a time without us, too (NAPI_POLL_WEIGHT).
    const BUDGET: i32 = 64;
    /// A call does not wait, but without a time it does not poll either.
    const TIME_US: i32 = 20;
    let set = |option, value: i32| set_at(fd, libc::SOL_SOCKET, option, &value);
    set(SO_PREFER_BUSY_POLL, 1)?;
    set(libc::SO_BUSY_POLL, TIME_US)?;
    set(SO_BUSY_POLL_BUDGET, BUDGET)
}

/// Does the driver put frames straight into our memory?
pub(crate) fn is_zero_copy(fd: &OwnedFd) -> io::Result<bool> {
    let options: libc::xdp_options = get(fd, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// The kernel's counters. All of them must be asked for: with fewer, one counter holds another as well.
pub(crate) fn statistics(fd: &OwnedFd) -> io::Result<libc::xdp_statistics> {
    get(fd, libc::XDP_STATISTICS)
}

/// Tells the driver of free chunks.
pub(crate) fn wake_receiver(fd: BorrowedFd<'_>) {
    let nothing = std::ptr::null_mut();
    // SAFETY: no buffer, no address.
    unsafe { libc::recvfrom(fd.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, nothing.cast(), nothing.cast()) };
}

/// Tells the driver of frames to be sent; in copy mode this call sends some of them.
pub(crate) fn wake_sender(fd: BorrowedFd<'_>) -> io::Result<()> {
    let nothing = std::ptr::null();
    // SAFETY: no buffer, no address.
    let result = unsafe { libc::sendto(fd.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, nothing.cast(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
