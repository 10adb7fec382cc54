//! Ports of a node: where it receives frames and sends them, many at a time, without waiting.
//!
//! ```text
//!   port > chunks of a pool > [ the node ] > the same chunks > another port
//! ```
//! A frame stays in its [`Chunk`] from port to port; what a port cannot lend to the kernel it copies there. Invariant:
//! each chunk has one owner at a time: the pool, the holder of the [`Chunk`], or the kernel.
//!
//! Files:
//! - `duplex/xdp.rs`: AF_XDP; `duplex/xdp/order.rs` chooses between socket and XDP program and keeps the order of frames;
//!   `duplex/xdp/redirects.rs`: another thread asks whether the XDP program can be used
//! - `duplex/packet.rs`, `duplex/tap.rs`, `duplex/file.rs`: AF_PACKET, TAP devices, capture files
//! - `duplex/large.rs`: cuts large frames into segments and finishes checksums
//! - `duplex/pool.rs`, `duplex/memory.rs`: the chunks and their memory; `duplex/umem.rs`: the same for AF_XDP sockets

mod file;
mod large;
mod memory;
mod packet;
mod pool;
mod tap;
mod umem;
mod xdp;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::capture::Interface;
pub use crate::capture::{CaptureError, Drops};
pub use file::{File, FileError};
pub use memory::{Memory, MemoryEnd};
pub use packet::{Chooser, Packet, PacketOptions, Tags, Vids};
pub use pool::{Chunk, FRONT, Pool};
pub use tap::Tap;
pub use umem::Umem;
pub use xdp::{RedirectWatch, Redirectable, Xdp, takes_redirected};

/// Most frames that one call hands on.
pub const BATCH: usize = 64;

/// The frames that a port takes from its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveMode {
    /// Frames for the interface's own address, broadcast, and groups that it belongs to.
    Own,
    /// All frames: promiscuous mode.
    Promiscuous,
}

/// Where frames come and go; it belongs to one thread, with a pool.
pub trait Port: Send {
    /// It is about to receive in the thread that has this pool. A port that was opened with the pool has begun already.
    fn begin(&mut self, _pool: &mut Pool) {}

    /// Closes it. Returns the chunks of its pool that it had with the kernel, which are free now.
    fn close(self: Box<Self>) -> Vec<Chunk> {
        Vec::new()
    }

    /// Appends frames that have arrived, at most [`BATCH`] of them, in their order. Never waits.
    ///
    /// # Errors
    /// The port is of no more use.
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()>;

    /// When each of the frames arrived that the last call of [`Port::receive`] handed on, in ns since 1970; empty if the port
    /// does not know. Segments of one large frame arrived together.
    fn arrived_ns(&self) -> &[u64] {
        &[]
    }

    /// Sends frames in their order and takes their chunks. Those that there is no room for are dropped, and counted.
    ///
    /// # Errors
    /// The port is of no more use.
    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()>;

    /// Gives frames that arrived here to the stack of the machine, as if the node had not taken them, and takes their chunks. A
    /// port whose frames reach the stack anyway, or that has none behind it, does nothing with them.
    ///
    /// # Errors
    /// The port is of no more use.
    fn leave_to_machine(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        frames.drain(..).for_each(|chunk| pool.give_back(chunk));
        Ok(())
    }

    /// By what another thread changes which frames the port takes from its interface; `None`: the kernel does not choose for it.
    ///
    /// # Errors
    /// There are no descriptors left.
    fn chooser(&self) -> io::Result<Option<Chooser>> {
        Ok(None)
    }

    /// From now on nothing new comes in, while what is there can still be received.
    ///
    /// # Errors
    /// What the kernel says.
    fn stop(&mut self) -> io::Result<()>;

    /// Can be read when a frame has arrived; `None` if there is never a need to wait.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Looks why the descriptor reports an error. An interface that is down may come up again, which is no error. It takes no lock of the
    /// kernel that a program may hold for long.
    ///
    /// # Errors
    /// The port is of no more use.
    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether nothing can ever arrive again.
    fn is_over(&self) -> bool {
        false
    }

    /// Whether frames that an XDP program redirects here leave, as the last look of its [`RedirectWatch`] has found.
    fn takes_redirected(&self) -> bool {
        false
    }

    /// What another thread asks the kernel for this port, once a second or so. Of the parts of a port one has it, and gives it once.
    fn watch(&mut self) -> Option<RedirectWatch> {
        None
    }

    /// What became of all frames so far.
    ///
    /// # Errors
    /// What the kernel says.
    fn account(&mut self) -> io::Result<Account>;

    /// How frames come and go, for people.
    fn method(&self) -> String;

    /// Why what was to arrive has ended early. What came before has arrived.
    fn ended_early(&self) -> Option<String> {
        None
    }

    /// What is in its way, and what to do about it.
    fn obstacle(&self) -> Option<String> {
        None
    }
}

/// The frames that a port takes from an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Whether frames for other machines are taken, too.
    pub mode: ReceiveMode,
    /// The tags of its frames, where other ports take other frames of the interface.
    pub tags: Option<Tags>,
}

/// What became of the frames of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Frames that were handed on.
    pub received: u64,
    /// Frames that were taken to be sent, and not dropped.
    pub sent: u64,
    /// What was lost on either way, by the name of the place.
    pub drops: Vec<Drops>,
}

/// Descriptors that a thread waits for, again and again without memory of their own for each wait.
#[derive(Default)]
pub struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Waits for none from now on.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Waits for this one as well, which must be open until the wait is over. Returns its number.
    pub fn add(&mut self, descriptor: BorrowedFd<'_>) -> usize {
        self.0.push(libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        self.0.len() - 1
    }

    /// Waits until one of them can be read, `timeout` at most; true if any reports an error.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let all = &mut self.0;
        let time =
            libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // SAFETY: as many as there are, and a time, which live through the call; no signal mask.
        let ready = unsafe { libc::ppoll(all.as_mut_ptr(), all.len() as u64, &time, std::ptr::null()) };
        match ready {
            0.. => Ok(self.failed().next().is_some()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {
                    all.iter_mut().for_each(|one| one.revents = 0);
                    Ok(false)
                }
                error => Err(error),
            },
        }
    }

    /// Whether the last wait has found that this one can be read.
    pub fn is_readable(&self, number: usize) -> bool {
        self.0.get(number).is_some_and(|one| one.revents & libc::POLLIN != 0)
    }

    fn failed(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|&i| self.0[i].revents & !libc::POLLIN != 0)
    }
}

/// Waits until one of these can be read, `timeout` at most. Tells which of them report an error instead.
///
/// # Errors
/// What the kernel says.
pub fn wait(descriptors: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<usize>> {
    let mut set = PollSet::default();
    for &descriptor in descriptors {
        set.add(descriptor);
    }
    set.wait(timeout)?;
    Ok(set.failed().collect())
}

/// The Ethernet address of an interface of the calling thread's network namespace.
///
/// # Errors
/// There is no such interface.
pub fn mac_of(interface: &str) -> Result<[u8; 6], CaptureError> {
    let interface = Interface::named(interface)?;
    interface.mac().map_err(interface.refused("asking for its address"))
}

/// The name of frames that were not sent because there was no room, in every account.
const NO_ROOM: &str = "no room to send";
/// The name of frames that no chunk can hold.
const TOO_LONG: &str = "too long for a chunk";
/// The name of frames with a checksum or segments that the kernel left to us in a way that cannot be finished here, such as large
/// frames in tunnels.
const UNKNOWN_OFFLOAD: &str = "unknown offload";
/// The name of frames for which no chunk was free.
const NO_CHUNK: &str = "no free chunk";

/// A frame in its own chunk; `None` if no chunk can hold it, or none is free, which is counted.
fn copied(pool: &mut Pool, frame: &[u8], lost: &mut Lost) -> Option<Chunk> {
    if frame.len() > pool.longest() {
        lost.too_long += 1;
        return None;
    }
    let Some(mut chunk) = pool.take() else {
        lost.no_chunk += 1;
        return None;
    };
    chunk.set_range(FRONT..FRONT + frame.len());
    pool.bytes_mut(&chunk).copy_from_slice(frame);
    Some(chunk)
}

/// What ports that copy lose.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    too_long: u64,
    no_chunk: u64,
    no_room: u64,
    unknown_offload: u64,
}

impl Lost {
    fn drops(self) -> Vec<Drops> {
        let all = [
            (TOO_LONG, self.too_long),
            (NO_CHUNK, self.no_chunk),
            (NO_ROOM, self.no_room),
            (UNKNOWN_OFFLOAD, self.unknown_offload),
        ];
        all.into_iter().map(|(name, frames)| Drops { name, frames }).collect()
    }
}
