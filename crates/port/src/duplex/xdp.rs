//! AF_XDP: frames go from the driver into chunks of the pool and from there to another port, and the machine's own stack
//! sees none of them. All ports of a pool share its memory, so that a frame is passed on without a copy of ours.
//!
//! ```text
//!   free chunks > [fill ring] > kernel > [rx ring] > node > [tx ring] > kernel > [completion ring] > free chunks
//! ```
//! In copy mode, which every driver has, the kernel copies each frame once when it arrives and once when it leaves.
//! There is a socket for each receive queue, since a queue without one would pass us by. Several threads have some of the
//! queues each, and memory of their own. Where there is a cheaper way for many frames to leave at once ([`live`]), they
//! take it.
//!
//! The kernel does not say which checksums are left to a network card. They are looked for where frames come from stacks on
//! the same host. Large frames do not arrive: attached to a veth, an XDP program has the other end cut them.

mod live;
mod order;
mod redirects;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use weir_packet::offload::checksum::finish_if_partial;

use super::umem::{ChunkSet, QueueRoom, Umem};
use super::{Account, BATCH, CaptureError, Chunk, NO_ROOM, Pool, Port, ReceiveMode};
use crate::bpf::{BpfError, Link, Mode, Program, object};
use crate::capture::attached::Attached;
use crate::capture::tap::pending_error;
use crate::capture::{Drops, Interface, Options};
use crate::fast::{FastPort, Gate};
use crate::packet::set_at;
use crate::xsk::{self, Entries, Kind, Place};
use live::Live;
use order::{Order, SendPath};
pub use redirects::RedirectWatch;
use redirects::Redirects;

/// Entries of each ring of a socket.
const ENTRIES: u32 = 2048;
/// Chunks that a socket has with the kernel at most, while frames arrive and leave.
pub(super) const CHUNKS_OF_QUEUE: u32 = 2 * ENTRIES;
/// Frames that a call sends in copy mode, at least, where there is room: TX_BATCH_SIZE of net/xdp/xsk.c is 32, and was 16.
const LEAST_OF_A_CALL: u32 = 16;
/// Free chunks are handed over so many at a time.
const REFILL: u32 = BATCH as u32;
/// Bytes of frames that the kernel may hold for a socket until they have left.
const SEND_BYTES: i32 = 16 << 20;

/// One interface with all its receive queues, or a thread's share of them.
pub struct Xdp {
    queues: Vec<Queue>,
    live: Option<Live>,
    order: Order,
    /// Whether the driver takes redirected frames, for all threads.
    redirects: Arc<Redirects>,
    /// What another thread asks about the interface, until that has it: of the first thread's part.
    watch: Option<RedirectWatch>,
    /// Why the kernel has no such way, if it should.
    no_live: Option<String>,
    attached: Arc<Attached>,
    /// Frames may arrive with a partial checksum.
    finishes_checksums: bool,
    /// Its chunks of the pool.
    room: QueueRoom,
    /// An epoll descriptor that is ready when any of the queues is.
    ready: OwnedFd,
    /// The queue that is asked first, next time.
    turn: usize,
    received: u64,
    sent: u64,
    no_room: u64,
    /// Gives frames to the machine.
    pass: Program,
    /// Frames that it did not take.
    no_machine: u64,
}

/// Does the driver of an interface take frames that an XDP program redirects to it, as it is now? It drops them in silence
/// where not: a veth does unless its other end has GRO or a native XDP program. Linux before 6.3 does not say; there a veth is
/// tried with one frame that no host receives, and of others nothing is known.
///
/// # Errors
/// No such interface, or no permission to load programs.
pub fn takes_redirected(interface: &str) -> Result<Option<bool>, CaptureError> {
    let interface = Interface::named(interface)?;
    Ok(match interface.takes_redirected() {
        None => Live::open(&interface)?.map(|mut live| live.takes_one()),
        reported => reported,
    })
}

/// Has the driver of an interface take the frames that XDP programs redirect to it, for as long as this is there.
pub struct Redirectable(#[expect(dead_code, reason = "dropping it detaches the program")] Option<Link>);

impl Redirectable {
    /// Most network cards take such frames only while a program is attached to them: where that helps, one is that passes
    /// all frames on. Many drivers take the link down for some seconds for it. `None`: the driver takes none even so, or has no
    /// XDP.
    ///
    /// # Errors
    /// No such interface, or no permission to load programs.
    pub fn make(interface: &str) -> Result<Option<Redirectable>, CaptureError> {
        if takes_redirected(interface)? == Some(true) {
            return Ok(Some(Redirectable(None)));
        }
        let index = Interface::named(interface)?.index();
        let pass = Program::load("program that passes frames on", object::PASS, &[])?;
        let link = match pass.attach(index, Mode::Native) {
            Ok(link) => Some(link),
            // Another XDP program is there.
            Err(BpfError::Attach { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => None,
            Err(_) => return Ok(None),
        };
        // Before Linux 6.3 a driver that has XDP is believed to.
        let takes = takes_redirected(interface)? != Some(false);
        Ok(takes.then_some(Redirectable(link)))
    }
}

impl Xdp {
    fn leaves_live(&self) -> bool {
        self.live.is_some() && self.redirects.are_taken()
    }
}

/// A socket at one queue.
struct Queue {
    fd: Arc<OwnedFd>,
    number: u32,
    zero_copy: bool,
    received: Entries,
    sent: Entries,
    free: Entries,
    completed: Entries,
    /// Frames that the kernel has not said to be sent.
    leaving: u32,
    /// Chunks that the kernel has for frames that will arrive.
    lent: ChunkSet,
}

impl Xdp {
    /// At an interface of the calling thread's network namespace, one for each thread, whose pool has at least
    /// [`Xdp::chunks`] for each port: the queues are dealt to them alternately.
    ///
    /// # Errors
    /// No such interface, no permission, another XDP program is there, frames are longer than a chunk, or there are fewer
    /// queues than threads.
    pub fn open(interface: &str, pools: &mut [Pool], mode: ReceiveMode) -> Result<Vec<Xdp>, CaptureError> {
        Xdp::open_with(interface, pools, mode, None)
    }

    /// The same, with the program of a fast path if there is one.
    ///
    /// # Errors
    /// As above.
    pub fn open_with(
        interface: &str,
        pools: &mut [Pool],
        mode: ReceiveMode,
        fast: Option<&FastPort>,
    ) -> Result<Vec<Xdp>, CaptureError> {
        let interface = Interface::named(interface)?;
        let queues = queues_of_thread(&interface, pools.len())?;
        let rooms = pools.iter().map(|pool| pool.umem().queues_of_start(queues)).collect();
        let mut all = Xdp::bind(&interface, rooms, mode, fast)?;
        for (xdp, pool) in all.iter_mut().zip(pools) {
            xdp.begin(pool);
            xdp.connect()?;
        }
        Ok(all)
    }

    /// The same for threads that run already: each gets its part, and has it begin ([`Port::begin`]).
    ///
    /// # Errors
    /// As above, and that a pool has no chunks for more queues.
    pub fn open_late(interface: &str, umems: &[Umem], mode: ReceiveMode) -> Result<Vec<Xdp>, CaptureError> {
        let interface = Interface::named(interface)?;
        let queues = queues_of_thread(&interface, umems.len())?;
        let room =
            |umem: &Umem| umem.take_queues(queues).map_err(|free| no_chunks(interface.name(), queues, free));
        let rooms = umems.iter().map(room).collect::<Result<Vec<_>, _>>()?;
        let all = Xdp::bind(&interface, rooms, mode, None)?;
        all.iter().try_for_each(Xdp::connect)?;
        Ok(all)
    }

    /// Sockets at all queues, and the program that gives them frames once they are connected.
    fn bind(
        interface: &Interface,
        rooms: Vec<QueueRoom>,
        mode: ReceiveMode,
        fast: Option<&FastPort>,
    ) -> Result<Vec<Xdp>, CaptureError> {
        let numbers = interface.receive_queues().map_err(interface.refused("counting its queues"))?;
        let threads = rooms.len();
        if (numbers as usize) < threads {
            let name = interface.name();
            return Err(CaptureError::Option(format!(
                "{name} has receive queues for {numbers} of {threads} threads: `ethtool -L {name} combined {threads}` \
                 (or rx and tx), or fewer threads"
            )));
        }
        let mut shares = Vec::new();
        for (first, room) in rooms.iter().enumerate() {
            let numbers = (first as u32..numbers).step_by(threads);
            let queues = numbers.map(|number| Queue::open(interface, number, room.umem()));
            let queues = queues.collect::<Result<Vec<_>, _>>()?;
            let ready = ready(&queues).map_err(interface.refused("making an epoll descriptor"))?;
            shares.push((queues, ready));
        }
        let options = Options { promiscuous: mode == ReceiveMode::Promiscuous, ..Options::default() };
        let attached = match fast {
            Some(fast) => Attached::with(interface, &options, fast_program(interface, fast, numbers)?)?,
            None => Attached::new(interface, &options, "AF_XDP redirector", object::NODE, numbers)?,
        };
        let attached = Arc::new(attached);
        let (redirects, watch) = redirects::watched(interface);
        let mut watch = Some(watch);
        let of_thread = |((queues, ready), room): ((Vec<Queue>, OwnedFd), QueueRoom)| {
            let copies = queues.iter().any(|queue: &Queue| !queue.zero_copy);
            let (live, no_live) = match if copies { Live::open(interface) } else { Ok(None) } {
                Ok(live) => (live, None),
                Err(error) => (None, Some(error.to_string())),
            };
            Ok(Xdp {
                queues,
                live,
                order: Order::default(),
                redirects: redirects.clone(),
                watch: watch.take(),
                no_live,
                // In the kernel's receive path there are frames of its own stack, too.
                finishes_checksums: !attached.is_native() || interface.may_bring_partial_checksums(),
                attached: attached.clone(),
                room,
                ready,
                turn: 0,
                received: 0,
                sent: 0,
                no_room: 0,
                pass: Program::load("program that passes frames on", object::PASS, &[])?,
                no_machine: 0,
            })
        };
        shares.into_iter().zip(rooms).map(of_thread).collect()
    }

    /// Its sockets get frames from now on.
    fn connect(&self) -> Result<(), CaptureError> {
        let connect =
            |queue: &Queue| self.attached.program.set_socket("sockets", queue.number, queue.fd.as_fd());
        Ok(self.queues.iter().try_for_each(connect)?)
    }

    /// Chunks that each of so many threads may have with the kernel at this interface.
    ///
    /// # Errors
    /// No such interface.
    pub fn chunks(interface: &str, threads: usize) -> Result<u32, CaptureError> {
        Ok(queues_of_thread(&Interface::named(interface)?, threads)? * CHUNKS_OF_QUEUE)
    }

    /// Chunks that a pool has for each queue that is opened later.
    pub const CHUNKS_OF_QUEUE: u32 = CHUNKS_OF_QUEUE;
}

/// Queues of an interface that each of so many threads has, at most.
fn queues_of_thread(interface: &Interface, threads: usize) -> Result<u32, CaptureError> {
    let queues = interface.receive_queues().map_err(interface.refused("counting its queues"))?;
    Ok(queues.div_ceil(threads as u32))
}

/// There is no memory for the queues of an interface.
fn no_chunks(name: &str, queues: u32, free: u32) -> CaptureError {
    CaptureError::Option(format!(
        "{name} has {queues} receive queues for each thread, and there is memory for the frames of {free}: use packet:{name}, reduce \
         them with `ethtool -L {name} combined {}`, remove another AF_XDP port before, or begin the node anew with this port",
        free.max(1)
    ))
}

/// The program of a fast path for an interface.
fn fast_program(interface: &Interface, fast: &FastPort, queues: u32) -> Result<Program, CaptureError> {
    let gate = Gate {
        number: fast.number.into(),
        checks_partial: interface.may_bring_partial_checksums().into(),
        is_router: fast.router.is_some().into(),
        mac: fast.router.unwrap_or_default(),
        ..Gate::default()
    };
    Ok(fast.fast.instance(&gate, interface.index(), queues)?)
}

/// Can be read when any of the queues can.
fn ready(queues: &[Queue]) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked below.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just returned.
    let ready = unsafe { OwnedFd::from_raw_fd(fd) };
    for queue in queues {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: two descriptors that are open, and one event that lives through the call.
        let added = unsafe {
            libc::epoll_ctl(ready.as_raw_fd(), libc::EPOLL_CTL_ADD, queue.fd.as_raw_fd(), &mut event)
        };
        if added < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(ready)
}

impl Queue {
    fn open(interface: &Interface, number: u32, umem: &Umem) -> Result<Queue, CaptureError> {
        let make = || {
            let fd = xsk::socket()?;
            let other = umem.register(&fd)?;
            let free = Entries::make(&fd, Kind::Free, ENTRIES)?;
            let completed = Entries::make(&fd, Kind::Completed, ENTRIES)?;
            let received = Entries::make(&fd, Kind::Received, ENTRIES)?;
            let sent = Entries::make(&fd, Kind::Sent, ENTRIES)?;
            let bytes = |option| set_at(&fd, libc::SOL_SOCKET, option, &SEND_BYTES);
            bytes(libc::SO_SNDBUFFORCE).or_else(|_| bytes(libc::SO_SNDBUF))?;
            Ok((fd, other, [free, completed, received, sent]))
        };
        let (fd, other, [free, completed, received, sent]) = make()
            .map_err(interface.refused("making an AF_XDP socket (are its frames longer than a page?)"))?;
        let place = Place { index: interface.index(), queue: number };
        let bound = match &other {
            // With neither mode asked for, the kernel takes zero copy where the driver has it.
            None => xsk::bind(&fd, place, libc::XDP_USE_NEED_WAKEUP, None),
            Some(other) => xsk::bind(&fd, place, libc::XDP_SHARED_UMEM, Some(other)),
        };
        bound.map_err(interface.refused("binding an AF_XDP socket to a queue"))?;
        let zero_copy = xsk::is_zero_copy(&fd).map_err(interface.refused("asking for its mode"))?;
        let fd = Arc::new(fd);
        umem.add_socket(&fd);
        let lent = ChunkSet::new(umem.chunks());
        Ok(Queue { fd, number, zero_copy, received, sent, free, completed, leaving: 0, lent })
    }

    /// Closes the socket. Returns the chunks that the kernel had, where it has none of them any more: those that frames arrive in, and
    /// those of frames that have left. In zero-copy mode the driver lets go of them later, and they are not used again; neither is
    /// the chunk of a frame that is still on its way.
    fn close(self, umem: &Umem) -> Vec<Chunk> {
        if self.zero_copy {
            return Vec::new();
        }
        let done = self.completed.full();
        // SAFETY: full entries, which the kernel does not touch.
        let at = |i| unsafe { self.completed.entry::<u64>(i).read() };
        let mut numbers: Vec<u32> = (0..done).map(|i| umem.number(at(i))).collect();
        numbers.extend(self.lent.numbers());
        drop(self);
        // SAFETY: they were lent to this socket, which has not given them back, and nobody else has the socket; in copy mode the kernel
        // fills no chunk once it is closed (xsk_unbind_dev waits for what is under way).
        numbers.into_iter().map(|number| unsafe { umem.chunk(number) }).collect()
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> u32 {
        self.complete(pool);
        let frames = self.received.full().min(BATCH as u32);
        for i in 0..frames {
            // SAFETY: a full entry, which the kernel does not touch, and which names a chunk that it gives back.
            let chunk = unsafe {
                let entry = self.received.entry::<libc::xdp_desc>(i).read();
                pool.returned(entry.addr, entry.len)
            };
            self.lent.remove(&chunk);
            into.push(chunk);
        }
        self.received.consumed(frames);
        if frames > 0 {
            self.refill(pool);
        }
        frames
    }

    /// Gives the kernel chunks for frames that will arrive. Some are kept back for those that leave.
    fn refill(&mut self, pool: &mut Pool) {
        let mut room = self.free.free();
        while room >= REFILL && pool.free() > 2 * BATCH {
            for i in 0..REFILL {
                let chunk = pool.take().expect("there are enough");
                let (at, _) = pool.lend(&chunk);
                self.lent.insert(&chunk);
                // SAFETY: a free entry, which the kernel does not touch.
                unsafe { self.free.entry::<u64>(i).write(at - super::FRONT as u64) };
            }
            self.free.produced(REFILL);
            room -= REFILL;
        }
        if self.free.needs_wakeup() {
            xsk::wake_receiver(self.fd.as_fd());
        }
    }

    /// Takes the chunks back of frames that have left.
    fn complete(&mut self, pool: &mut Pool) {
        let done = self.completed.full();
        for i in 0..done {
            // SAFETY: a full entry, which the kernel does not touch, and which names a chunk that it gives back.
            let chunk = unsafe { pool.returned(self.completed.entry::<u64>(i).read(), 0) };
            pool.give_back(chunk);
        }
        self.completed.consumed(done);
        self.leaving -= done;
    }

    /// Sends; returns how many frames there was no room for.
    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> u64 {
        let mut waiting = frames.drain(..).peekable();
        while waiting.peek().is_some() {
            let mut room = self.room(pool);
            if room == 0 {
                self.push();
                room = self.room(pool);
            }
            if room == 0 {
                // The kernel takes no more now, or sends nothing: the node does not wait for one interface.
                return waiting.map(|chunk| pool.give_back(chunk)).count() as u64;
            }
            let mut n = 0;
            for chunk in waiting.by_ref().take(room as usize) {
                let (addr, len) = pool.lend(&chunk);
                // SAFETY: a free entry, which the kernel does not touch.
                unsafe {
                    self.sent.entry::<libc::xdp_desc>(n).write(libc::xdp_desc { addr, len, options: 0 })
                };
                n += 1;
            }
            self.sent.produced(n);
            self.leaving += n;
            self.push();
        }
        0
    }

    /// Whether all that was sent has left, as far as the kernel says: with a little help, since it may have stopped half way.
    fn is_drained(&mut self, pool: &mut Pool) -> bool {
        if self.sent.free() < ENTRIES {
            self.push();
        }
        self.complete(pool);
        self.leaving == 0
    }

    /// Frames that can be handed to the kernel. Each has its place in the completion ring, too.
    fn room(&mut self, pool: &mut Pool) -> u32 {
        self.complete(pool);
        self.sent.free().min(ENTRIES - self.leaving)
    }

    /// Has the kernel send. In copy mode a call takes some of them and fails where there are more, as it does where there is no
    /// room. Which of the two it was cannot be seen: before Linux 6.17 the ring moves only when the last one was taken.
    fn push(&self) {
        if self.zero_copy && !self.sent.needs_wakeup() {
            return;
        }
        let calls = (ENTRIES - self.sent.free()).div_ceil(LEAST_OF_A_CALL);
        for _ in 0..calls {
            if xsk::wake_sender(self.fd.as_fd()).is_ok() {
                return;
            }
        }
    }
}

impl Port for Xdp {
    fn begin(&mut self, pool: &mut Pool) {
        assert_eq!(pool.id(), self.room.umem().pool(), "the pool that it was opened for");
        self.queues.iter_mut().for_each(|queue| queue.refill(pool));
    }

    fn close(self: Box<Self>) -> Vec<Chunk> {
        let Xdp { queues, room, .. } = *self;
        let loses_chunks = queues.iter().any(|queue| queue.zero_copy);
        let chunks = queues.into_iter().flat_map(|queue| queue.close(room.umem())).collect();
        if loses_chunks {
            std::mem::forget(room);
        }
        chunks
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        assert_eq!(pool.id(), self.room.umem().pool(), "the pool that it was opened with");
        let (queues, before) = (self.queues.len(), into.len());
        for i in 0..queues {
            let queue = (self.turn + i) % queues;
            let frames = self.queues[queue].receive(pool, into);
            if frames > 0 {
                self.received += u64::from(frames);
                self.turn = queue + 1;
                break;
            }
        }
        if self.finishes_checksums {
            for (bytes, range) in pool.all_mut(&into[before..]) {
                finish_if_partial(&mut bytes[range]);
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        assert_eq!(pool.id(), self.room.umem().pool(), "the pool that it was opened with");
        let all = frames.len() as u64;
        let queue = &mut self.queues[0];
        let refused = match &mut self.live {
            Some(live) if self.redirects.are_taken() && Live::can_take(frames) => {
                let mut now = Instant::now();
                if let Some(pause) = self.order.wait(frames.len(), now) {
                    std::thread::sleep(pause);
                    now = Instant::now();
                }
                let probes = self.redirects.probes();
                let all_taken = || live.all_taken(probes);
                match self.order.choose(frames.len(), now, all_taken, || queue.is_drained(pool)) {
                    SendPath::Socket => queue.send(pool, frames),
                    SendPath::BeginLive => {
                        live.begin(probes);
                        live.send(pool, frames)
                    }
                    SendPath::Live => live.send(pool, frames),
                }
            }
            _ => queue.send(pool, frames),
        };
        self.sent += all - refused;
        self.no_room += refused;
        Ok(())
    }

    fn leave_to_machine(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        for chunk in frames.drain(..) {
            // A program in the receive path would get the frame again.
            let passed = self.attached.is_native()
                && self.pass.run_at(pool.bytes(&chunk), self.attached.interface().index()).is_ok();
            self.no_machine += u64::from(!passed);
            pool.give_back(chunk);
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        let remove = |queue: &Queue| self.attached.program.remove_socket("sockets", queue.number);
        self.queues.iter().try_for_each(remove).map_err(io::Error::other)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.queues[..] {
            // Without the detour, which costs each wake-up some 100 ns.
            [queue] => Some(queue.fd.as_fd()),
            _ => Some(self.ready.as_fd()),
        }
    }

    fn check(&mut self) -> io::Result<()> {
        for queue in &self.queues {
            // Asking for it clears it, so that the next wait waits.
            pending_error(queue.fd.as_fd())?;
        }
        self.attached.interface().check()
    }

    fn takes_redirected(&self) -> bool {
        self.redirects.are_taken() && self.attached.is_native()
    }

    fn watch(&mut self) -> Option<RedirectWatch> {
        self.watch.take()
    }

    fn account(&mut self) -> io::Result<Account> {
        let (mut full, mut no_chunk, mut other) = (0, 0, 0);
        for queue in &self.queues {
            let counts = xsk::statistics(&queue.fd)?;
            full += counts.rx_ring_full;
            let none = counts.rx_fill_ring_empty_descs.min(counts.rx_dropped);
            no_chunk += none;
            other += counts.rx_dropped - none;
        }
        let drops = [
            ("ring full", full),
            (super::NO_CHUNK, no_chunk),
            (super::TOO_LONG, other),
            (NO_ROOM, self.no_room),
            ("not taken by the machine", self.no_machine),
        ];
        let drops = drops.into_iter().map(|(name, frames)| Drops { name, frames }).collect();
        Ok(Account { received: self.received, sent: self.sent, drops })
    }

    fn method(&self) -> String {
        let copy = if self.queues.iter().all(|queue| queue.zero_copy) { "zero-copy" } else { "copy" };
        let live = if self.leaves_live() { ", many frames leave at once" } else { "" };
        format!("AF_XDP, {copy} mode, {} XDP{live}", self.attached.mode())
    }

    fn obstacle(&self) -> Option<String> {
        let name = self.attached.interface().name();
        if !self.attached.is_native() {
            return Some(format!(
                "{name} has no XDP in its driver, so that large frames arrive uncut, and are dropped as `{}`: `ethtool -K {name} \
                 gro off`, where they come from this host also `ethtool -K SENDER tso off gso off`; or use packet:{name}",
                super::TOO_LONG
            ));
        }
        let why = match (&self.live, &self.no_live) {
            (Some(_), _) if !self.redirects.are_taken() => {
                "its other end takes many at once with `ethtool -K OTHER gro on`"
            }
            (None, Some(why)) => why,
            _ => return None,
        };
        Some(format!("frames leave {name} one by one: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue between rings in memory, without a kernel behind it.
    fn queue() -> (Queue, [std::mem::ManuallyDrop<Entries>; 2]) {
        let [received, sent, free, completed] = [(); 4].map(|()| Entries::fresh(ENTRIES, 0));
        // SAFETY: they are used while the queue is there.
        let kernel = unsafe { [sent.other(), completed.other()] };
        let fd = std::fs::File::open("/dev/null").expect("it is there").into();
        let queue = Queue {
            fd: Arc::new(fd),
            number: 0,
            zero_copy: true,
            received,
            sent,
            free,
            completed,
            leaving: 0,
            lent: ChunkSet::new(0),
        };
        (queue, kernel)
    }

    fn frames(pool: &mut Pool, n: u32) -> Vec<Chunk> {
        (0..n).map(|_| pool.take().expect("there are enough")).collect()
    }

    #[test]
    fn an_interface_that_sends_nothing_is_not_waited_for() {
        let (mut queue, [mut sent, mut completed]) = queue();
        let mut pool = Pool::new(2 * ENTRIES, 64).expect("memory");
        let mut more = frames(&mut pool, ENTRIES + 100);
        assert_eq!(queue.send(&mut pool, &mut more), 100, "as many as the ring holds");
        assert_eq!((more.len(), pool.free()), (0, ENTRIES as usize));
        // A paused card has taken them all and sent none.
        assert_eq!(sent.full(), ENTRIES);
        // SAFETY: a full entry.
        let first = unsafe { sent.entry::<libc::xdp_desc>(0).read().addr };
        sent.consumed(ENTRIES);
        let mut more = frames(&mut pool, 100);
        assert_eq!(queue.send(&mut pool, &mut more), 100);
        assert_eq!((more.len(), pool.free()), (0, ENTRIES as usize));
        // One has left.
        // SAFETY: a free entry.
        unsafe { completed.entry::<u64>(0).write(first) };
        completed.produced(1);
        let mut more = frames(&mut pool, 100);
        assert_eq!(queue.send(&mut pool, &mut more), 99);
        assert_eq!((sent.full(), pool.free()), (1, ENTRIES as usize));
    }
}
