//! AF_XDP: frames go from the driver into a ring of our own, and the kernel's network stack never sees them.
//!
//! In zero-copy mode the driver itself writes into our memory; in copy mode, which every driver has, its softirq
//! copies each frame once. There is a socket for each receive queue, since a queue without one would pass us by.
//!
//! In copy mode frames lie side by side, though the kernel thinks of 2 KiB for each: memory that is gone through in
//! steps of its own size is in no cache, and its pages in no table of the processor.
//!
//! ```text
//!  chunk 0 |  256 bytes that are not used | time | kept | length |  ...
//!  chunk 1       |  256 bytes that are not used | time | kept | length |  ...          stride
//! ```

mod socket;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attached::Attached;
use super::filter::Filter;
use super::tap::wait_for;
use super::{Account, CaptureError, Drops, Frame, Granted, Interface, Options, Queue};
use crate::bpf::{Memory, now_ns, object};
use crate::xsk::Layout;
use socket::{Geometry, Socket};

/// What the kernel keeps free before a frame.
const HEAD_BYTES: u32 = 256;
/// Chunks beyond those of the ring: what the driver may hold.
const SPARE_CHUNKS: u32 = 4096;
/// Frames after which chunks are given back.
const BATCH: u32 = 256;
/// The largest ring that is worth having: 2^22 frames.
const MOST_ENTRIES: u64 = 1 << 22;
/// A rest is no longer than it takes to fill this part of the ring.
const RESTING_SHARE: u64 = 8;
/// Bytes of the stamp that the program puts before a frame, and of the length that it puts behind the part that is kept.
const STAMP_BYTES: usize = 8;
const LENGTH_BYTES: usize = 8;
/// Neighbours share no cache line.
const LINE_BYTES: u32 = 64;
/// What a frame costs beside its own memory: entries of two rings.
const ENTRY_BYTES: u32 = 16 + 8;
/// Longest part of a frame that the program can be asked to keep.
const MOST_KEPT: u32 = 0x3ff8;

pub(super) fn open(interface: &Interface, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let queues = interface.receive_queues().map_err(interface.refused("counting its queues"))?;
    let mtu = interface.mtu().map_err(interface.refused("asking for its MTU"))?;
    let attached = Arc::new(Attached::new(interface, options, "AF_XDP redirector", object::XSK, queues)?);
    let zero_copy = has_zero_copy(interface).map_err(interface.refused("asking for zero copy"))?;
    let kept = if zero_copy { 0 } else { kept(options, mtu) };
    let wanted = geometry(options, queues.into(), mtu, kept)?;
    let made = sockets(queues, wanted).map_err(interface.refused("making an AF_XDP socket"))?;
    let (geometry, sockets) = made;
    let shorter = if geometry == wanted { "" } else { ", the longest ring that this kernel makes" };
    let reported = Arc::new(attached.program.memory("bss", 2)?);
    reported.set(KEEP, &kept.into());
    let to_1970_ns = real_time_offset_ns();
    let mut opened: Vec<Box<dyn Queue>> = vec![];
    for (number, socket) in (0..).zip(sockets) {
        let step = "binding an AF_XDP socket to a queue";
        let (flags, mode) =
            if zero_copy { (libc::XDP_ZEROCOPY, "zero-copy") } else { (libc::XDP_COPY, "copy") };
        let bound = socket.bind(interface.index(), number, flags | libc::XDP_USE_NEED_WAKEUP);
        bound.map_err(interface.refused(step))?;
        if options.busy_poll {
            socket.poll_busily().map_err(interface.refused("turning busy polling on"))?;
        }
        let rings = u64::from(geometry.entries) * u64::from(ENTRY_BYTES);
        let granted = Granted {
            method: format!(
                "AF_XDP, {mode} mode, {} XDP{}{shorter}",
                attached.mode(),
                if options.busy_poll { ", busy polling" } else { "" }
            ),
            memory: socket.memory() + rings,
            frames: geometry.chunks.min(geometry.entries).into(),
        };
        attached.program.set_socket("sockets", number, socket.as_fd())?;
        opened.push(Box::new(Xsk {
            socket,
            attached: attached.clone(),
            reported: reported.clone(),
            number,
            to_1970_ns,
            zero_copy,
            busy_poll: options.busy_poll,
            snap: options.snap,
            kept: kept as usize,
            filter: options.filter.clone().map(Filter::new),
            retire: options.retire,
            rested: Instant::now(),
            since_rest: 0,
            dropped: 0,
            placed: 0,
            taken: 0,
            refused: 0,
            calls: 0,
            granted,
        }));
    }
    Ok(opened)
}

/// Words that the program and we share: frames came without a stamp; bytes to keep of a frame.
const UNSTAMPED: usize = 0;
const KEEP: usize = 1;

/// Does the driver put frames straight into the memory of sockets? Asked with a small one.
fn has_zero_copy(interface: &Interface) -> io::Result<bool> {
    let layout = Layout::Chunks(PAGE_BYTES);
    let socket = Socket::new(Geometry { layout, stride: PAGE_BYTES, chunks: 64, entries: 64 })?;
    Ok(socket.bind(interface.index(), 0, libc::XDP_ZEROCOPY).is_ok() && socket.is_zero_copy()?)
}

const PAGE_BYTES: u32 = 4096;
/// Before Linux 6.3 a ring lies in one piece of memory, which has 4 MiB at most: so many entries of 16 bytes, and its head.
const ENTRIES_IN_ONE_PIECE: u32 = 1 << 17;

/// A socket for each queue, and how long its rings are: shorter ones where the kernel has no memory for the longer.
fn sockets(queues: u32, wanted: Geometry) -> io::Result<(Geometry, Vec<Socket>)> {
    let make = |geometry| (0..queues).map(|_| Socket::new(geometry)).collect::<io::Result<Vec<_>>>();
    let shorter = wanted.at_most(ENTRIES_IN_ONE_PIECE);
    match make(wanted) {
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && shorter != wanted => {
            Ok((shorter, make(shorter)?))
        }
        made => Ok((wanted, made?)),
    }
}

/// An Ethernet header with two tags, and what may follow it.
fn longest(mtu: u32) -> u32 {
    mtu + 22
}

/// Bytes of a frame that the program keeps. A filter of ours must see all of it.
fn kept(options: &Options, mtu: u32) -> u32 {
    let wanted = if options.filter.is_some() { u32::MAX } else { options.snap };
    wanted.min(longest(mtu)).min(MOST_KEPT).next_multiple_of(8)
}

/// Rings and memory of the socket of one of `queues` queues, for frames of `mtu` and their headers of which the program
/// keeps so many bytes; 0: they are as the driver writes them.
fn geometry(options: &Options, queues: u64, mtu: u32, kept: u32) -> Result<Geometry, CaptureError> {
    // The kernel takes no larger ones than a page; frames that do not fit are dropped, and named.
    let chunk_bytes = if longest(mtu) + HEAD_BYTES <= 2048 { 2048 } else { PAGE_BYTES };
    let close = (STAMP_BYTES as u32 + kept + LENGTH_BYTES as u32).next_multiple_of(LINE_BYTES);
    // The kernel writes no frame beyond its chunk.
    let stride = if kept > 0 { close.min(chunk_bytes) } else { chunk_bytes };
    let frames = options.buffer.frames_of_each(queues, (stride + ENTRY_BYTES).into());
    if frames > MOST_ENTRIES {
        let text = format!(
            "AF_XDP rings have at most {MOST_ENTRIES} entries, not {frames}: ask for a shorter buffer"
        );
        return Err(CaptureError::Option(text));
    }
    let entries = (frames as u32).next_power_of_two().max(64);
    Ok(match kept {
        0 => {
            Geometry { layout: Layout::Chunks(chunk_bytes), stride, chunks: entries + SPARE_CHUNKS, entries }
        }
        _ => Geometry {
            layout: Layout::Anywhere(chunk_bytes),
            stride,
            chunks: (frames as u32).max(64),
            entries,
        },
    })
}

/// What was kept of a frame, and its whole length.
fn whole(bytes: &[u8], kept: usize) -> (&[u8], u32) {
    match bytes.split_at_checked(kept) {
        Some((begin, length)) if kept > 0 && length.len() == LENGTH_BYTES => {
            let length: [u8; LENGTH_BYTES] = length.try_into().expect("as many bytes");
            (begin, u64::from_ne_bytes(length) as u32)
        }
        _ => (bytes, bytes.len() as u32),
    }
}

/// How long to leave a ring of so many entries alone after `frames` came in `time`; `None`: until the next one comes.
///
/// The kernel would wake a waiting reader for every few frames, at more than the price of receiving them; a reader that rests by
/// the clock is not woken. A ring of blocks does the same by handing over a block at a time.
fn rest(frames: u64, time: Duration, entries: u64) -> Option<Duration> {
    let share = entries as f64 / RESTING_SHARE as f64;
    (frames > 0).then(|| time.mul_f64(share / frames as f64).min(Duration::from_secs(1)))
}

/// A measurement that took no longer than this is good enough, ns.
const GOOD_NS: u64 = 500;
/// Most measurements. Where a clock is slow to read and others take the CPU meanwhile, as in an emulated machine, each of a few
/// may be interrupted.
const MEASUREMENTS: usize = 100;

/// What to add to CLOCK_MONOTONIC for the time since 1970: measured until a measurement is good, else the quickest one counts.
/// It is wrong by half of the time that this one took, at most.
fn real_time_offset_ns() -> u64 {
    let measure = || {
        let before = now_ns();
        let real = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let took = now_ns() - before;
        (took, real.as_nanos() as u64 - (before + took / 2))
    };
    let mut best = measure();
    for _ in 1..MEASUREMENTS {
        if best.0 <= GOOD_NS {
            break;
        }
        best = best.min(measure());
    }
    best.1
}

struct Xsk {
    socket: Socket,
    attached: Arc<Attached>,
    reported: Arc<Memory<u64>>,
    number: u32,
    to_1970_ns: u64,
    zero_copy: bool,
    /// We have the driver receive, and never rest.
    busy_poll: bool,
    snap: u32,
    /// Frames that have as many bytes and a length are cut to that; 0: none is.
    kept: usize,
    filter: Option<Filter>,
    /// Longest rest.
    retire: Duration,
    /// When the last rest ended.
    rested: Instant,
    /// Frames that came since then.
    since_rest: u64,
    dropped: u64,
    /// Of `dropped`, those for which a frame said so.
    placed: u64,
    taken: u64,
    /// Frames that the filter did not want.
    refused: u64,
    calls: u64,
    granted: Granted,
}

impl Xsk {
    /// Hands on what is there, up to [`BATCH`] frames; returns how many the filter let through, and how many there were.
    fn look(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> (usize, u32) {
        let n = self.socket.waiting().min(BATCH);
        if n == 0 {
            return (0, 0);
        }
        let stamped = self.reported.get(UNSTAMPED) == 0;
        let now = if stamped { 0 } else { now_ns() };
        let (mut lost_before, mut taken) = (self.dropped - self.placed, 0);
        for i in 0..n {
            let frame = self.socket.frame(i);
            let arrived = if stamped {
                self.socket.bytes(frame.at - STAMP_BYTES, STAMP_BYTES).try_into().map(u64::from_ne_bytes)
            } else {
                Ok(now)
            };
            let bytes = &*self.socket.bytes(frame.at, frame.bytes);
            let (bytes, wire_len) = whole(bytes, self.kept);
            if self.filter.as_ref().is_some_and(|filter| !filter.accepts(bytes)) {
                continue;
            }
            taken += 1;
            each(&Frame {
                bytes: &bytes[..bytes.len().min(self.snap as usize)],
                wire_len,
                at: arrived.expect("as many bytes as a stamp has") + self.to_1970_ns,
                lost_before: std::mem::take(&mut lost_before),
            });
        }
        if taken > 0 {
            self.placed = self.dropped;
        }
        self.refused += u64::from(n) - taken as u64;
        self.taken += taken as u64;
        self.since_rest += u64::from(n);
        self.socket.give_back(n);
        if self.zero_copy && self.socket.needs_wakeup() {
            self.calls += 1;
            self.socket.wake_driver();
        }
        (taken, n)
    }

    /// Has the driver receive until something comes, up to `wait`.
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let begin = Instant::now();
        loop {
            self.calls += 1;
            self.socket.wake_driver();
            let (taken, there) = self.look(each);
            if there > 0 {
                return Ok(taken);
            }
            if begin.elapsed() >= wait {
                self.attached.interface().check()?;
                return Ok(0);
            }
        }
    }

    fn losses(&mut self) -> io::Result<Vec<Drops>> {
        let counts = self.socket.statistics()?;
        // A frame for which no chunk is free counts as dropped, too.
        let no_chunk = counts.rx_fill_ring_empty_descs.min(counts.rx_dropped);
        let drops = vec![
            Drops { name: "ring full", frames: counts.rx_ring_full },
            Drops { name: "no free chunk", frames: no_chunk },
            Drops { name: "too long for a chunk", frames: counts.rx_dropped - no_chunk },
        ];
        self.dropped = drops.iter().map(|drops| drops.frames).sum();
        Ok(drops)
    }
}

impl Queue for Xsk {
    fn take(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let (taken, there) = self.look(each);
        if there > 0 {
            // A ring that was nearly full may have lost some.
            if self.socket.waiting() >= self.granted.frames as u32 / 2 {
                self.calls += 1;
                self.losses()?;
            }
            return Ok(taken);
        }
        self.calls += 1;
        self.losses()?;
        if wait.is_zero() {
            return Ok(0);
        }
        if self.busy_poll {
            return self.poll(wait, each);
        }
        self.calls += 1;
        match rest(self.since_rest, self.rested.elapsed(), self.granted.frames) {
            Some(time) => std::thread::sleep(time.min(self.retire).min(wait)),
            None => {
                wait_for(self.socket.as_fd(), wait, self.attached.interface())?;
            }
        }
        (self.rested, self.since_rest) = (Instant::now(), 0);
        Ok(self.look(each).0)
    }

    fn stop(&mut self) -> io::Result<()> {
        self.attached.program.remove_socket("sockets", self.number).map_err(io::Error::other)
    }

    fn account(&mut self) -> io::Result<Account> {
        let drops = self.losses()?;
        let received = self.attached.arrived(self.number)? - self.refused;
        Ok(Account { received, taken: self.taken, drops, freezes: 0, calls: self.calls })
    }

    fn granted(&self) -> Granted {
        self.granted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Buffer, BufferSize};

    #[test]
    fn a_ring_holds_at_least_the_frames_of_its_time() {
        let made = |rate, mtu, snap| {
            let size = BufferSize::Time { rate, time: Duration::from_secs(1) };
            let buffer = Buffer { size, frame_bytes: 60 };
            let options = Options { buffer, snap, ..Options::default() };
            geometry(&options, 2, mtu, kept(&options, mtu)).map(|g| (g.stride, g.chunks, g.entries))
        };
        assert_eq!(made(250_000.0, 1500, 65_535).unwrap(), (1600, 125_000, 131_072));
        assert_eq!(made(250_000.0, 1500, 96).unwrap().0, 128);
        assert_eq!(made(1.0, 1500, 14).unwrap(), (64, 64, 64));
        assert_eq!(made(1.0, 9000, 65_535).unwrap().0, 4096);
        let error = made(9e6, 1500, 96).unwrap_err().to_string();
        assert_eq!(
            error,
            "capturing: AF_XDP rings have at most 4194304 entries, not 4500000: ask for a shorter buffer"
        );
        // As the driver writes them.
        let plain = |mtu| geometry(&Options::default(), 2, mtu, 0).unwrap();
        let spread = Geometry {
            layout: Layout::Chunks(2048),
            stride: 2048,
            chunks: 131_072 + SPARE_CHUNKS,
            entries: 131_072,
        };
        assert_eq!(plain(1500), spread);
        assert_eq!(plain(3818).layout, Layout::Chunks(4096));
    }

    #[test]
    fn a_cut_frame_tells_its_length() {
        let cut = [&[7; 16][..], &1500u64.to_ne_bytes()].concat();
        assert_eq!(whole(&cut, 16), (&[7; 16][..], 1500));
        for bytes in [0, 15, 16, 23] {
            assert_eq!(whole(&cut[..bytes], 16), (&cut[..bytes], bytes as u32), "as it came");
        }
        assert_eq!(whole(&cut, 0), (&cut[..], 24));
    }

    #[test]
    fn a_filter_of_ours_sees_whole_frames() {
        let options = |filter| Options { snap: 96, filter, ..Options::default() };
        assert_eq!(kept(&options(None), 1500), 96);
        assert_eq!(kept(&options(Some(vec![])), 1500), 1528);
        assert_eq!(kept(&Options { snap: 13, ..Options::default() }, 1500), 16);
    }

    #[test]
    fn a_ring_is_left_alone_for_less_than_it_takes_to_fill() {
        let ms = Duration::from_millis;
        assert_eq!(rest(0, ms(50), 4096), None, "the next one wakes us");
        assert_eq!(rest(4096, ms(8), 4096), Some(ms(1)));
        assert_eq!(rest(1024, ms(8), 4096), Some(ms(4)));
        assert_eq!(rest(1, ms(999), u64::MAX), Some(ms(1000)), "no overflow");
    }

    #[test]
    fn the_two_clocks_are_apart_by_a_constant() {
        let (a, b) = (real_time_offset_ns(), real_time_offset_ns());
        assert!(a.abs_diff(b) < 1_000_000_000, "{a} {b}");
    }
}
