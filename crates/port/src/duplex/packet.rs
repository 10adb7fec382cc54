//! AF_PACKET: frames come out of a ring that the kernel fills frame by frame (TPACKET_V2: a ring of blocks would hold
//! each frame back for a millisecond), and leave by one system call for many. The machine's own stack sees all that
//! arrives as well.
//!
//! What the kernel has left to a driver is done here: VLAN tags go back in place, checksums are finished, large frames are
//! cut into segments (`large.rs`). It says of each frame what of that there is to do (PACKET_VNET_HDR).
//! Source: Documentation/networking/packet_mmap.rst, net/packet/af_packet.c.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod slots;
mod tags;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weir_packet::offload::checksum::finish;
use weir_packet::offload::virtio;
use weir_packet::steer::Spread;

use super::large::{LargeFrame, chunk_for, put_tag_back};
use super::{Account, BATCH, CaptureError, Choice, Chunk, Lost, Pool, Port, ReceiveMode};
use crate::capture::fanout::Group;
use crate::capture::tag::{self, Tag};
use crate::capture::tap::{Tap, exchange_filter, pending_error, set_promiscuous};
use crate::capture::{Drops, Fanout, Interface, Options};
use crate::mapping::Mapping;
use crate::packet::{Sender, set, set_at};
use crate::spread;
use slots::{Filled, Slots};
pub use tags::{Tags, Vids};

/// Slots of the ring, at most and at least.
const SLOTS: u32 = 4096;
const LEAST_SLOTS: u32 = 64;
/// Bytes that the rings of all ports of a node have together, unless fewer than 32 need less.
const ALL_RINGS_BYTES: usize = 256 << 20;
/// The kernel's header of a frame, and what it keeps between that and the frame.
const AROUND_BYTES: u32 = 128;
/// Bytes of large frames that the kernel may keep at the socket: some 240 of 64 KB.
const KEPT_BYTES: i32 = 16 << 20;
/// linux/if_packet.h, which the libc crate lacks.
const PACKET_COPY_THRESH: i32 = 7;
const PACKET_VNET_HDR: i32 = 15;

/// What a port takes from its interface.
#[derive(Debug, Clone, Copy)]
pub struct PacketOptions {
    /// The longest frame.
    pub longest: usize,
    /// Whether frames for other machines are taken, too.
    pub mode: ReceiveMode,
    /// The tags of its frames, where other ports take other frames of the interface; the kernel keeps those away.
    pub tags: Option<Tags>,
    /// So many rings share the memory for rings.
    pub rings: usize,
}

impl PacketOptions {
    fn slot_bytes(&self) -> u32 {
        (self.longest as u32 + AROUND_BYTES).next_power_of_two()
    }

    /// Slots of a ring: as many as there is memory for, a power of two.
    fn slots(&self) -> u32 {
        let most = ALL_RINGS_BYTES / self.slot_bytes() as usize / self.rings.max(1);
        (most as u32).checked_ilog2().map_or(0, |bits| 1 << bits).clamp(LEAST_SLOTS, SLOTS)
    }
}

/// A ring to receive and a socket to send, at one interface.
pub struct Packet {
    tap: Tap,
    slots: Slots,
    large: LargeFrame,
    sender: Sender,
    received: u64,
    sent: u64,
    lost: Lost,
    ring_full: u64,
    /// When the frames of the last call arrived, and the slot that was read last.
    arrived_ns: Vec<u64>,
    stamp_ns: u64,
}

impl Packet {
    /// At an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, no permission.
    pub fn open(interface: &str, longest: usize, mode: ReceiveMode) -> Result<Packet, CaptureError> {
        Packet::open_with(interface, &PacketOptions { longest, mode, tags: None, rings: 1 })
    }

    /// The same with more to say.
    ///
    /// # Errors
    /// No such interface, no permission.
    pub fn open_with(interface: &str, options: &PacketOptions) -> Result<Packet, CaptureError> {
        let packet = Packet::bound(&Interface::named(interface)?, options)?;
        packet.tap.admit()?;
        Ok(packet)
    }

    /// Several at one interface, each for a separate thread: a frame reaches one of them, as `spread` says.
    ///
    /// # Errors
    /// No such interface, no permission.
    pub fn open_several(
        interface: &str,
        options: &PacketOptions,
        sockets: usize,
        spread: Spread,
    ) -> Result<Vec<Packet>, CaptureError> {
        let group = match spread::program(spread, sockets as u8) {
            Some(program) => Group::by(program),
            None => Group::new(Fanout::Hash),
        };
        let interface = Interface::named(interface)?;
        let join = |_| {
            let packet = Packet::bound(&interface, options)?;
            group.join(&packet.tap)?;
            Ok(packet)
        };
        // Each would hear all frames until the last has joined.
        let all = (0..sockets).map(join).collect::<Result<Vec<_>, CaptureError>>()?;
        all.iter().try_for_each(|packet| packet.tap.admit())?;
        Ok(all)
    }

    /// Bound to the interface, and deaf until it is admitted.
    fn bound(interface: &Interface, options: &PacketOptions) -> Result<Packet, CaptureError> {
        let promiscuous = options.mode == ReceiveMode::Promiscuous;
        let filter = options.tags.map(|tags| tags.program());
        let tap = Tap::open(interface, &Options { promiscuous, filter, ..Options::default() })?;
        let version = libc::tpacket_versions::TPACKET_V2;
        set(&tap.fd, libc::PACKET_VERSION, &version)
            .map_err(interface.refused("choosing rings of frames"))?;
        keep_large(&tap).map_err(interface.refused("asking for large frames and their offloads"))?;
        let (slot_bytes, slots) = (options.slot_bytes(), options.slots());
        let block_bytes = slot_bytes.max(1 << 16);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes,
            tp_block_nr: slots / (block_bytes / slot_bytes).min(slots),
            tp_frame_size: slot_bytes,
            tp_frame_nr: slots,
        };
        set(&tap.fd, libc::PACKET_RX_RING, &request).map_err(interface.refused("making the ring"))?;
        let memory = Mapping::shared(tap.fd.as_fd(), slot_bytes as usize * slots as usize, 0)
            .map_err(interface.refused("mapping the ring"))?;
        let refused = |error: crate::packet::PacketError| interface.refused(error.step)(error.source);
        let sender = Sender::open(interface.index()).map_err(refused)?;
        tap.bind()?;
        let (slots, lost) = (Slots::new(memory, slot_bytes, slots), Lost::default());
        let large = LargeFrame::default();
        let arrived_ns = Vec::with_capacity(BATCH);
        Ok(Packet {
            tap,
            slots,
            large,
            sender,
            received: 0,
            sent: 0,
            lost,
            ring_full: 0,
            arrived_ns,
            stamp_ns: 0,
        })
    }

    /// The frame of the next slot: a chunk, or the large frame from now on. False if there is none.
    fn take_slot(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> bool {
        let Some(filled) = self.slots.filled() else { return false };
        self.stamp_ns = u64::from(filled.header.tp_sec) * 1_000_000_000 + u64::from(filled.header.tp_nsec);
        match (filled.frame, virtio::read(&filled.offloads)) {
            (Some(frame), Some(offloads)) if offloads.large.is_none() => {
                into.extend(copied(&filled, frame, offloads, pool, &mut self.lost));
            }
            (Some(frame), _) => {
                let tag = tag_of(&filled);
                self.lost.unknown_offload += u64::from(!self.large.begin(&filled.offloads, frame, tag));
            }
            (None, offloads) => {
                let is_cut = filled.is_kept && self.large.fetch(self.tap.fd.as_fd(), tag_of(&filled));
                let is_large = offloads.is_none_or(|offloads| offloads.large.is_some());
                let lost = match (is_large, filled.is_kept) {
                    (false, _) => &mut self.lost.too_long,
                    (true, true) => &mut self.lost.unknown_offload,
                    // The socket keeps no more of them.
                    (true, false) => &mut self.ring_full,
                };
                *lost += u64::from(!is_cut);
            }
        }
        self.slots.hand_back();
        true
    }
}

/// The socket of a port, by which another thread changes what the port takes from its interface: promiscuous mode waits for a lock of
/// the kernel.
pub struct Chooser {
    fd: OwnedFd,
    index: u32,
}

impl Chooser {
    /// The port takes these frames from now on. What is there already can still be received.
    ///
    /// # Errors
    /// What the kernel says; nothing has changed.
    pub fn choose(&self, before: &Choice, now: &Choice) -> io::Result<()> {
        exchange_filter(&self.fd, now.tags.map(|tags| tags.program()).as_deref())?;
        if before.mode == now.mode {
            return Ok(());
        }
        let done = set_promiscuous(&self.fd, self.index, now.mode == ReceiveMode::Promiscuous);
        if done.is_err() {
            exchange_filter(&self.fd, before.tags.map(|tags| tags.program()).as_deref())?;
        }
        done
    }
}

/// Has the kernel say of each frame what is to be done yet, and keep those at the socket that are longer than a slot.
fn keep_large(tap: &Tap) -> io::Result<()> {
    set(&tap.fd, PACKET_VNET_HDR, &1i32)?;
    set(&tap.fd, PACKET_COPY_THRESH, &1i32)?;
    let keep = |option| set_at(&tap.fd, libc::SOL_SOCKET, option, &KEPT_BYTES);
    keep(libc::SO_RCVBUFFORCE).or_else(|_| keep(libc::SO_RCVBUF))
}

fn tag_of(filled: &Filled<'_>) -> Option<Tag> {
    let header = &filled.header;
    Tag::reported(header.tp_status, header.tp_vlan_tpid, header.tp_vlan_tci)
}

/// The frame of a slot in its own chunk.
fn copied(
    filled: &Filled<'_>,
    frame: &[u8],
    offloads: virtio::Offloads,
    pool: &mut Pool,
    lost: &mut Lost,
) -> Option<Chunk> {
    let mut chunk = chunk_for(frame.len(), pool, lost)?;
    let room = pool.bytes_mut(&chunk).get_mut(tag::ROOM..).unwrap_or_default();
    room.copy_from_slice(frame);
    if let Some(partial) = offloads.partial
        && !finish(room, partial)
    {
        lost.unknown_offload += 1;
        pool.give_back(chunk);
        return None;
    }
    put_tag_back(&mut chunk, tag_of(filled), pool);
    Some(chunk)
}

impl Port for Packet {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        let before = into.len();
        self.arrived_ns.clear();
        for _ in 0..BATCH {
            if self.large.is_there() {
                into.extend(self.large.next_segment(pool, &mut self.lost));
            } else if !self.take_slot(pool, into) {
                break;
            }
            self.arrived_ns.resize(into.len() - before, self.stamp_ns);
        }
        self.received += (into.len() - before) as u64;
        Ok(())
    }

    fn arrived_ns(&self) -> &[u64] {
        &self.arrived_ns
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut Vec<Chunk>) -> io::Result<()> {
        let mut left = &frames[..];
        while !left.is_empty() {
            let bytes: Vec<&[u8]> = left.iter().take(BATCH).map(|chunk| pool.bytes(chunk)).collect();
            match self.sender.send(&bytes) {
                // The interface is down, or its buffer stays full.
                Ok(0) => {
                    self.lost.no_room += left.len() as u64;
                    break;
                }
                Ok(sent) => {
                    self.sent += sent as u64;
                    left = left.get(sent..).unwrap_or_default();
                }
                Err(error) => {
                    self.tap.interface.check()?;
                    match error.source.raw_os_error() {
                        // Down, or this one frame is longer than the interface takes.
                        Some(libc::ENETDOWN | libc::EMSGSIZE) => {
                            self.lost.no_room += 1;
                            left = left.get(1..).unwrap_or_default();
                        }
                        _ => return Err(io::Error::other(error)),
                    }
                }
            }
        }
        frames.drain(..).for_each(|chunk| pool.give_back(chunk));
        Ok(())
    }

    fn chooser(&self) -> io::Result<Option<Chooser>> {
        let fd = self.tap.fd.as_fd().try_clone_to_owned()?;
        Ok(Some(Chooser { fd, index: self.tap.interface.index() }))
    }

    fn stop(&mut self) -> io::Result<()> {
        self.tap.stop()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tap.fd.as_fd())
    }

    fn check(&mut self) -> io::Result<()> {
        // Asking for it clears it, so that the next wait waits.
        pending_error(self.tap.fd.as_fd())?;
        self.tap.interface.check()
    }

    fn account(&mut self) -> io::Result<Account> {
        self.ring_full += u64::from(self.tap.statistics()?.dropped);
        let mut drops = self.lost.drops();
        drops.push(Drops { name: "ring full", frames: self.ring_full });
        Ok(Account { received: self.received, sent: self.sent, drops })
    }

    fn method(&self) -> String {
        "AF_PACKET, ring of frames".into()
    }
}
