//! A ring of blocks that the kernel fills (TPACKET_V3): the frame is copied once, in the softirq, and the reader is
//! woken once per block and calls nothing while there is work.
//!
//! ```text
//!  | block 0 | block 1 | block 2 | ...   the kernel fills one, hands it over by its status word when it is full or
//!     ours      ours      kernel's      its time is up, and goes on to the next; we read it and hand it back
//! ```
//! When the next block is not the kernel's, the ring freezes: frames are dropped until we hand one back. The status
//! words order everything: ours to read after an acquiring load, the kernel's again after a releasing store.
//! Source: Documentation/networking/packet_mmap.rst, net/packet/af_packet.c.

mod block;

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::tap::Tap;
use super::{Account, CaptureError, Drops, Frame, Granted, Interface, Options, Queue, fanout, tag};
use crate::mapping::Mapping;
use crate::packet::set;

/// Fewest blocks: one that fills, and one that is read, each with one behind it.
const FEWEST_BLOCKS: u64 = 4;
/// What the kernel takes for a ring at most: its count of bytes has 32 bits.
const MOST_MIB: u64 = 4095;
const PAGE_BYTES: u32 = 4096;
/// The kernel wants a frame size, and that it fits into blocks; blocks of this version hold frames of any size.
const NOMINAL_FRAME_BYTES: u32 = 2048;

pub(super) fn open(interface: &Interface, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let ring = Ring::open(interface, options, 1)?;
    ring.tap.bind()?;
    ring.tap.admit()?;
    Ok(vec![Box::new(ring)])
}

/// As many rings as `options` wants, in a fan-out.
pub(super) fn open_fanout(
    interface: &Interface,
    options: &Options,
) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    fanout::open(options, |sockets| Ring::open(interface, options, sockets), |ring| &ring.tap)
}

/// How many blocks of which size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    block_bytes: u32,
    blocks: u32,
}

impl Geometry {
    /// For one of `queues` rings.
    fn of(options: &Options, queues: u64) -> Result<Geometry, CaptureError> {
        let block_bytes = options.block_bytes;
        if !block_bytes.is_power_of_two() || block_bytes < PAGE_BYTES {
            let text =
                format!("a block has a power of two of bytes, at least {PAGE_BYTES}, not {block_bytes}");
            return Err(CaptureError::Option(text));
        }
        let cost = block::cost_of(options.buffer.frame_bytes.min(options.snap));
        let frames = options.buffer.frames_of_each(queues, cost);
        let in_block = block::frames_in(block_bytes, cost).max(1);
        let blocks = frames.div_ceil(in_block).max(FEWEST_BLOCKS);
        let mib = (blocks * u64::from(block_bytes)) >> 20;
        if mib > MOST_MIB {
            let text = format!(
                "a ring for {frames} frames needs {mib} MiB, {MOST_MIB} at most: ask for a shorter buffer or more sockets"
            );
            return Err(CaptureError::Option(text));
        }
        Ok(Geometry { block_bytes, blocks: blocks as u32 })
    }

    fn bytes(self) -> usize {
        self.block_bytes as usize * self.blocks as usize
    }

    /// The kernel's words for it.
    fn request(self, retire: Duration) -> libc::tpacket_req3 {
        let frames_in_block = self.block_bytes / NOMINAL_FRAME_BYTES;
        libc::tpacket_req3 {
            tp_block_size: self.block_bytes,
            tp_block_nr: self.blocks,
            tp_frame_size: NOMINAL_FRAME_BYTES,
            tp_frame_nr: frames_in_block * self.blocks,
            // Zero would leave it to the link's speed.
            tp_retire_blk_tov: retire.as_millis().clamp(1, u32::MAX.into()) as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        }
    }
}

struct Ring {
    tap: Tap,
    memory: Mapping,
    geometry: Geometry,
    snap: u32,
    /// Index of the block that is handed over next.
    next: u32,
    received: u64,
    dropped: u64,
    freezes: u64,
    taken: u64,
    /// Of `dropped`, those for which a frame said so.
    placed: u64,
    calls: u64,
    granted: Granted,
}

impl Ring {
    fn open(interface: &Interface, options: &Options, queues: u64) -> Result<Ring, CaptureError> {
        let geometry = Geometry::of(options, queues)?;
        let tap = Tap::open(interface, options)?;
        let version = libc::tpacket_versions::TPACKET_V3;
        set(&tap.fd, libc::PACKET_VERSION, &version)
            .map_err(interface.refused("choosing rings of blocks"))?;
        let room = tag::ROOM as u32;
        set(&tap.fd, libc::PACKET_RESERVE, &room).map_err(interface.refused("reserving room for tags"))?;
        set(&tap.fd, libc::PACKET_RX_RING, &geometry.request(options.retire))
            .map_err(interface.refused("making the ring"))?;
        let memory = Mapping::shared(tap.fd.as_fd(), geometry.bytes(), 0)
            .map_err(interface.refused("mapping the ring"))?;
        let cost = block::cost_of(options.buffer.frame_bytes.min(options.snap));
        let granted = Granted {
            method: format!("ring of {} blocks of {} KiB", geometry.blocks, geometry.block_bytes >> 10),
            memory: memory.bytes() as u64,
            frames: block::frames_in(geometry.block_bytes, cost) * u64::from(geometry.blocks),
        };
        Ok(Ring {
            tap,
            memory,
            geometry,
            snap: options.snap,
            next: 0,
            received: 0,
            dropped: 0,
            freezes: 0,
            taken: 0,
            placed: 0,
            calls: 0,
            granted,
        })
    }

    /// Where the next block begins.
    fn at(&self) -> usize {
        self.next as usize * self.geometry.block_bytes as usize
    }

    fn status(&self) -> &AtomicU32 {
        let at = self.at() + block::STATUS_AT;
        // SAFETY: aligned and inside the mapping, which at() asserts, and only ever accessed atomically by us.
        unsafe { AtomicU32::from_ptr(self.memory.at(at)) }
    }

    /// Reads the next block if it has been handed over.
    fn look(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<Option<usize>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return Ok(None);
        }
        if status & libc::TP_STATUS_LOSING != 0 {
            self.ask()?;
        }
        // Whatever is known to be lost by now, and has no place yet, was lost before this block was filled, or
        // while this round of the ring was.
        let lost_before = self.dropped - self.placed;
        let (start, bytes) = (self.memory.at::<u8>(self.at()), self.geometry.block_bytes as usize);
        // SAFETY: the status word says that the block is ours until we hand it back, and a block lies within the ring.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        let n = block::read(bytes, self.snap, lost_before, each);
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        if n > 0 {
            self.placed += lost_before;
        }
        self.taken += n as u64;
        self.next = block::after(self.next, self.geometry.blocks);
        Ok(Some(n))
    }

    /// Adds what the kernel has counted since it was asked last.
    fn ask(&mut self) -> io::Result<()> {
        self.calls += 1;
        let new = self.tap.statistics()?;
        self.received += u64::from(new.received);
        self.dropped += u64::from(new.dropped);
        self.freezes += u64::from(new.freezes);
        Ok(())
    }
}

impl Queue for Ring {
    fn take(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        if let Some(n) = self.look(each)? {
            return Ok(n);
        }
        if wait.is_zero() {
            return Ok(0);
        }
        self.calls += 1;
        if self.tap.wait(wait)? { Ok(self.look(each)?.unwrap_or(0)) } else { Ok(0) }
    }

    fn stop(&mut self) -> io::Result<()> {
        self.tap.stop()
    }

    fn account(&mut self) -> io::Result<Account> {
        self.ask()?;
        let drops = vec![Drops { name: "ring full", frames: self.dropped }];
        let (received, taken, freezes, calls) = (self.received, self.taken, self.freezes, self.calls);
        Ok(Account { received, taken, drops, freezes, calls })
    }

    fn granted(&self) -> Granted {
        self.granted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Buffer, BufferSize};

    fn geometry(block_bytes: u32, frames: f64) -> Result<Geometry, CaptureError> {
        let size = BufferSize::Time { rate: frames, time: Duration::from_secs(1) };
        let buffer = Buffer { size, frame_bytes: 60 };
        Geometry::of(&Options { buffer, block_bytes, ..Options::default() }, 1)
    }

    #[test]
    fn a_ring_is_as_large_as_its_frames_are() {
        // 152 bytes a frame: 6898 in a block of 1 MiB.
        assert_eq!(geometry(1 << 20, 250_000.0).unwrap(), Geometry { block_bytes: 1 << 20, blocks: 37 });
        assert_eq!(geometry(4096, 1.0).unwrap().blocks, 4, "never fewer");
        let request = geometry(1 << 20, 1.0).unwrap().request(Duration::from_micros(10));
        assert_eq!(
            (request.tp_frame_nr, request.tp_retire_blk_tov),
            (2048, 1),
            "a time-out of zero is another thing"
        );
    }

    #[test]
    fn what_no_ring_can_be_is_said() {
        for (block_bytes, frames, text) in [
            (5000, 1.0, "capturing: a block has a power of two of bytes, at least 4096, not 5000"),
            (2048, 1.0, "capturing: a block has a power of two of bytes, at least 4096, not 2048"),
            (
                1 << 20,
                30e6,
                "capturing: a ring for 30000000 frames needs 4350 MiB, 4095 at most: ask for a shorter buffer or more sockets",
            ),
        ] {
            assert_eq!(geometry(block_bytes, frames).unwrap_err().to_string(), text);
        }
    }
}
