//! AF_PACKET sockets: sending whole frames in batches, and a memory-mapped ring (TPACKET_V3) to receive them.
//!
//! ```text
//!  ring:  | block 0 | block 1 | ... |   kernel fills a block, hands it over by its status word,
//!            frames    frames           we read all its frames and hand it back
//! ```

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Bytes of a ring block. Blocks are handed over whole, so that smaller ones arrive sooner.
const BLOCK_BYTES: u32 = 1 << 20;
/// A block that is not full is handed over after this many ms.
const RETIRE_MS: u32 = 2;
/// A sender waits this long for room in its buffer.
const SEND_TIMEOUT_MS: i64 = 20;
/// Frames of a batch.
pub const BATCH: usize = 64;

/// What went wrong with a packet socket.
#[derive(Debug, thiserror::Error)]
#[error("packet socket on interface {ifindex}, {step}: {source}{}", hint(.source))]
pub struct PacketError {
    pub(crate) ifindex: u32,
    pub(crate) step: &'static str,
    pub(crate) source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => " (needs CAP_NET_RAW: run as root or in a user namespace)",
        Some(libc::EMSGSIZE) => " (frames are longer than the interface's MTU)",
        Some(libc::ENETDOWN) => " (the interface is down)",
        Some(libc::ENXIO | libc::ENODEV) => " (the interface has vanished)",
        _ => "",
    }
}

/// A raw socket that is bound to nothing yet, so that nothing arrives on it.
pub(crate) fn raw_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked below.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just returned.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn set<T>(fd: impl AsFd, option: i32, value: &T) -> io::Result<()> {
    set_at(fd, libc::SOL_PACKET, option, value)
}

pub(crate) fn set_at<T>(fd: impl AsFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which lives through the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn bind(fd: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero is a valid address; the fields that matter are set below.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex as i32;
    // SAFETY: pointer and length describe `address`.
    let result = unsafe {
        libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_ll>() as u32)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A buffer that holds more frames than a ring, so that the ring is what overflows; and a time limit for sockets that may not
/// have such a buffer, or of which frames are never taken out.
fn set_buffer(fd: &OwnedFd) -> io::Result<()> {
    let bytes = 16 << 20;
    let set_to = |option| set_at(fd, libc::SOL_SOCKET, option, &bytes);
    set_to(libc::SO_SNDBUFFORCE).or_else(|_: io::Error| set_to(libc::SO_SNDBUF))?;
    let time = libc::timeval { tv_sec: 0, tv_usec: SEND_TIMEOUT_MS * 1000 };
    set_at(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &time)
}

/// Sends frames out of one interface.
#[derive(Debug)]
pub struct Sender {
    fd: OwnedFd,
    ifindex: u32,
}

impl Sender {
    /// Opens a socket that bypasses the queueing discipline of the interface.
    pub fn open(ifindex: u32) -> Result<Self, PacketError> {
        let fail = |step| move |source| PacketError { ifindex, step, source };
        let fd = raw_socket().map_err(fail("opening"))?;
        set(&fd, libc::PACKET_QDISC_BYPASS, &1i32).map_err(fail("bypassing the queue"))?;
        set_buffer(&fd).map_err(fail("sizing the buffer"))?;
        bind(&fd, ifindex, 0).map_err(fail("binding"))?;
        Ok(Sender { fd, ifindex })
    }

    /// Sends at most [`BATCH`] frames; returns how many the kernel took, including one that the interface
    /// dropped because its ring was full: that one is in the interface's tx_dropped. 0 means that the socket's
    /// buffer has been full for [`SEND_TIMEOUT_MS`].
    pub fn send(&self, frames: &[impl AsRef<[u8]>]) -> Result<usize, PacketError> {
        let n = frames.len().min(BATCH);
        // SAFETY: all-zero vectors and headers are valid and empty.
        let (mut vectors, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for i in 0..n {
            let frame = frames[i].as_ref();
            vectors[i] = libc::iovec { iov_base: frame.as_ptr() as *mut _, iov_len: frame.len() };
            headers[i].msg_hdr.msg_iov = &mut vectors[i];
            headers[i].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first n headers point to vectors, and those to frames, which all live through the call;
        // the kernel only reads the frames.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), headers.as_mut_ptr(), n as u32, 0) };
        if sent >= 0 {
            // A call that stops early does not say why. It waits for its buffer, so that a full ring is the reason.
            return Ok((sent as usize + 1).min(n));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOBUFS) => Ok(1),
            Some(libc::EAGAIN | libc::EINTR) => Ok(0),
            _ => Err(PacketError { ifindex: self.ifindex, step: "sending", source: error }),
        }
    }
}

/// Receives all frames that arrive at one interface, each as it comes: later than a [`Ring`] in large numbers, but
/// without its wait of [`RETIRE_MS`].
pub struct Receiver {
    fd: OwnedFd,
    ifindex: u32,
    buffers: Vec<Vec<u8>>,
}

/// Largest frame of a [`Receiver`].
const LARGEST_FRAME: usize = 9216;

impl Receiver {
    /// Opens a socket with a buffer of `bytes`.
    pub fn open(ifindex: u32, bytes: i32) -> Result<Self, PacketError> {
        let fail = |step| move |source| PacketError { ifindex, step, source };
        let fd = raw_socket().map_err(fail("opening"))?;
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32).map_err(fail("ignoring own frames"))?;
        let size = |option| set_at(&fd, libc::SOL_SOCKET, option, &bytes);
        size(libc::SO_RCVBUFFORCE).or_else(|_| size(libc::SO_RCVBUF)).map_err(fail("sizing the buffer"))?;
        bind(&fd, ifindex, libc::ETH_P_ALL as u16).map_err(fail("binding"))?;
        Ok(Receiver { fd, ifindex, buffers: vec![vec![0; LARGEST_FRAME]; BATCH] })
    }

    /// Hands the frames that are there to `take`, at most [`BATCH`], and waits for one if there is none, `timeout` at
    /// most. Returns their number.
    pub fn receive(&mut self, timeout: Duration, mut take: impl FnMut(&[u8])) -> Result<usize, PacketError> {
        let mut received = self.look(&mut take)?;
        if received == 0 {
            self.wait(timeout)?;
            received = self.look(&mut take)?;
        }
        Ok(received)
    }

    fn look(&mut self, take: &mut impl FnMut(&[u8])) -> Result<usize, PacketError> {
        // SAFETY: all-zero vectors and headers are valid and empty.
        let (mut vectors, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for (i, buffer) in self.buffers.iter_mut().enumerate() {
            vectors[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            headers[i].msg_hdr.msg_iov = &mut vectors[i];
            headers[i].msg_hdr.msg_iovlen = 1;
        }
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: the headers point to vectors, and those to the buffers with their lengths; all live through the call.
        let n = unsafe {
            libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as u32, flags as _, std::ptr::null_mut())
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            let nothing = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            return if nothing { Ok(0) } else { Err(self.failed(error)) };
        }
        for (buffer, header) in self.buffers.iter().zip(&headers[..n as usize]) {
            take(&buffer[..header.msg_len as usize]);
        }
        Ok(n as usize)
    }

    fn wait(&self, timeout: Duration) -> Result<(), PacketError> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let (tv_sec, tv_nsec) = (timeout.as_secs() as i64, timeout.subsec_nanos().into());
        let time = libc::timespec { tv_sec, tv_nsec };
        // SAFETY: one pollfd and a timespec that live through the call; no signal mask.
        unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
        let gone = poll.revents & libc::POLLERR != 0;
        if gone { Err(self.failed(io::Error::from_raw_os_error(libc::ENETDOWN))) } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> PacketError {
        PacketError { ifindex: self.ifindex, step: "receiving", source }
    }
}

/// Receives all frames that arrive at one interface.
pub struct Ring {
    fd: OwnedFd,
    ifindex: u32,
    start: *mut u8,
    blocks: u32,
    next: u32,
}

// SAFETY: the mapping belongs to this value alone and may be used from any one thread.
unsafe impl Send for Ring {}

/// Frames that a ring could not take since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Frames that arrived, dropped ones included.
    pub frames: u64,
    /// Frames dropped because the ring was full.
    pub drops: u64,
}

impl Ring {
    /// Opens a ring of `blocks` MiB.
    pub fn open(ifindex: u32, blocks: u32) -> Result<Self, PacketError> {
        let fail = |step| move |source| PacketError { ifindex, step, source };
        let fd = raw_socket().map_err(fail("opening"))?;
        set(&fd, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V3).map_err(fail("choosing V3"))?;
        set(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32).map_err(fail("ignoring own frames"))?;
        // SAFETY: all-zero is a valid request; the fields that matter are set below.
        let mut request: libc::tpacket_req3 = unsafe { std::mem::zeroed() };
        request.tp_block_size = BLOCK_BYTES;
        request.tp_block_nr = blocks;
        request.tp_frame_size = 2048;
        request.tp_frame_nr = BLOCK_BYTES / 2048 * blocks;
        request.tp_retire_blk_tov = RETIRE_MS;
        set(&fd, libc::PACKET_RX_RING, &request).map_err(fail("making the ring"))?;
        // SAFETY: a fresh shared mapping of the ring that was just made, of exactly its size.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (BLOCK_BYTES * blocks) as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(fail("mapping the ring")(io::Error::last_os_error()));
        }
        let ring = Ring { fd, ifindex, start: start.cast(), blocks, next: 0 };
        bind(&ring.fd, ifindex, libc::ETH_P_ALL as u16).map_err(fail("binding"))?;
        Ok(ring)
    }

    /// Waits until a block is ready, `timeout` at most, and hands each of its frames with its arrival time
    /// (CLOCK_REALTIME, ns) to `take`. Returns the number of frames.
    pub fn receive(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(&[u8], u64),
    ) -> Result<usize, PacketError> {
        if !self.ready() && !self.wait(timeout)? {
            return Ok(0);
        }
        if !self.ready() {
            return Ok(0);
        }
        // SAFETY: the status word, read with acquire above, says that the block is ours until we hand it back.
        let header = unsafe { &(*self.block()).hdr.bh1 };
        let (frames, mut at) = (header.num_pkts as usize, header.offset_to_first_pkt as usize);
        for _ in 0..frames {
            // SAFETY: the kernel keeps all offsets within the block.
            let (data, time) = unsafe {
                let frame = self.block().cast::<u8>().add(at).cast::<libc::tpacket3_hdr>();
                let data = frame.cast::<u8>().add((*frame).tp_mac as usize);
                at += (*frame).tp_next_offset as usize;
                (
                    std::slice::from_raw_parts(data, (*frame).tp_snaplen as usize),
                    u64::from((*frame).tp_sec) * 1_000_000_000 + u64::from((*frame).tp_nsec),
                )
            };
            take(data, time);
        }
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Ok(frames)
    }

    /// Frames and drops since the last call. The kernel forgets them when it is asked.
    pub fn stats(&self) -> RingStats {
        let stats = statistics(self.fd.as_fd()).expect("every packet socket answers");
        RingStats { frames: stats.tp_packets.into(), drops: stats.tp_drops.into() }
    }

    fn block(&self) -> *mut libc::tpacket_block_desc {
        // SAFETY: next < blocks, so this is inside the mapping.
        unsafe { self.start.add((self.next * BLOCK_BYTES) as usize).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: aligned, inside the mapping, and only ever accessed atomically by us.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.block()).hdr.bh1.block_status) }
    }

    fn ready(&self) -> bool {
        let ready = self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        fence(Ordering::Acquire);
        ready
    }

    fn wait(&self, timeout: Duration) -> Result<bool, PacketError> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd.
        let result = unsafe { libc::poll(&mut poll, 1, timeout.as_millis() as i32) };
        if poll.revents & libc::POLLERR != 0 {
            let source = io::Error::from_raw_os_error(libc::ENETDOWN);
            return Err(PacketError { ifindex: self.ifindex, step: "receiving", source });
        }
        Ok(result > 0)
    }
}

/// Counts of a packet socket since the last call: the kernel forgets them when it is asked (packet(7),
/// PACKET_STATISTICS).
pub(crate) fn statistics(fd: BorrowedFd<'_>) -> io::Result<libc::tpacket_stats_v3> {
    // SAFETY: plain integers; the kernel writes as much of the structure as its ring version has.
    let mut stats: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&stats) as u32;
    // SAFETY: pointer and length describe `stats`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            std::ptr::from_mut(&mut stats).cast(),
            &mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(stats) }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in open(), and no frame of it is borrowed any more.
        unsafe { libc::munmap(self.start.cast(), (BLOCK_BYTES * self.blocks) as usize) };
    }
}
