//! AF_PACKET: frames come out of a ring that the kernel fills frame by frame (TPACKET_V2: a ring of blocks would hold
//! each frame back for a millisecond), and leave by one system call for many. The machine's own stack sees all that
//! arrives as well.
//!
//! What the kernel has left to a driver is done here: VLAN tags go back in place, checksums are finished.
//! Source: Documentation/networking/packet_mmap.rst, net/packet/af_packet.c.

mod slots;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weir_packet::checksum::{fold, sum};
use weir_packet::headers::{TCP, UDP};
use weir_packet::steer::Spread;

use super::{Account, BATCH, CaptureError, Chunk, FRONT, Lost, Pool, Port};
use crate::capture::fanout::Group;
use crate::capture::tag::{self, Tag};
use crate::capture::tap::{Tap, pending_error};
use crate::capture::{Drops, Fanout, Interface, Options};
use crate::mapping::Mapping;
use crate::packet::{Sender, set};
use crate::spread;
use slots::{Filled, Slots};

/// Slots of the ring.
const SLOTS: u32 = 4096;
/// The kernel's header of a frame, and what it keeps between that and the frame.
const AROUND_BYTES: u32 = 128;

/// A ring to receive and a socket to send, at one interface.
pub struct Packet {
    tap: Tap,
    slots: Slots,
    sender: Sender,
    received: u64,
    sent: u64,
    lost: Lost,
    ring_full: u64,
}

impl Packet {
    /// At an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, no permission.
    pub fn open(interface: &str, longest: usize, promiscuous: bool) -> Result<Packet, CaptureError> {
        let packet = Packet::bound(&Interface::named(interface)?, longest, promiscuous)?;
        packet.tap.admit()?;
        Ok(packet)
    }

    /// Several at one interface, each for a thread of its own: a frame reaches one of them, as `spread` says.
    ///
    /// # Errors
    /// No such interface, no permission.
    pub fn open_several(
        interface: &str,
        longest: usize,
        promiscuous: bool,
        (sockets, spread): (usize, Spread),
    ) -> Result<Vec<Packet>, CaptureError> {
        let group = match spread::program(spread, sockets as u8) {
            Some(program) => Group::by(program),
            None => Group::new(Fanout::Hash),
        };
        let interface = Interface::named(interface)?;
        let join = |_| {
            let packet = Packet::bound(&interface, longest, promiscuous)?;
            group.join(&packet.tap)?;
            Ok(packet)
        };
        // Each would hear all frames until the last has joined.
        let all = (0..sockets).map(join).collect::<Result<Vec<_>, CaptureError>>()?;
        all.iter().try_for_each(|packet| packet.tap.admit())?;
        Ok(all)
    }

    /// Bound to the interface, and deaf until it is admitted.
    fn bound(interface: &Interface, longest: usize, promiscuous: bool) -> Result<Packet, CaptureError> {
        let tap = Tap::open(interface, &Options { promiscuous, ..Options::default() })?;
        let version = libc::tpacket_versions::TPACKET_V2;
        set(&tap.fd, libc::PACKET_VERSION, &version)
            .map_err(interface.refused("choosing rings of frames"))?;
        let slot_bytes = (longest as u32 + AROUND_BYTES).next_power_of_two();
        let block_bytes = slot_bytes.max(1 << 16);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes,
            tp_block_nr: SLOTS / (block_bytes / slot_bytes),
            tp_frame_size: slot_bytes,
            tp_frame_nr: SLOTS,
        };
        set(&tap.fd, libc::PACKET_RX_RING, &request).map_err(interface.refused("making the ring"))?;
        let memory = Mapping::shared(tap.fd.as_fd(), (slot_bytes * SLOTS) as usize, 0)
            .map_err(interface.refused("mapping the ring"))?;
        let refused = |error: crate::packet::PacketError| interface.refused(error.step)(error.source);
        let sender = Sender::open(interface.index).map_err(refused)?;
        tap.bind()?;
        let (slots, lost) = (Slots::new(memory, slot_bytes, SLOTS), Lost::default());
        Ok(Packet { tap, slots, sender, received: 0, sent: 0, lost, ring_full: 0 })
    }
}

/// The frame of a slot in a chunk of its own.
fn copied(filled: &Filled<'_>, pool: &mut Pool, lost: &mut Lost) -> Option<Chunk> {
    let frame = filled.frame.filter(|frame| frame.len() + tag::ROOM <= pool.longest());
    let Some(frame) = frame else {
        lost.too_long += 1;
        return None;
    };
    let Some(mut chunk) = pool.take() else {
        lost.no_chunk += 1;
        return None;
    };
    let (header, status) = (&filled.header, filled.header.tp_status);
    let tag = Tag::told(status, header.tp_vlan_tpid, header.tp_vlan_tci);
    chunk.set_range(FRONT..FRONT + tag::ROOM + frame.len());
    let room = pool.bytes_mut(&chunk);
    room[tag::ROOM..].copy_from_slice(frame);
    if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        finish_checksum(&mut room[tag::ROOM..]);
    }
    let length = tag::put_back(room, tag, u32::MAX).len();
    let end = FRONT + tag::ROOM + frame.len();
    chunk.set_range(end - length..end);
    Some(chunk)
}

impl Port for Packet {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Chunk>) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some(filled) = self.slots.filled() else { break };
            let chunk = copied(&filled, pool, &mut self.lost);
            self.slots.hand_back();
            self.received += u64::from(chunk.is_some());
            into.extend(chunk);
        }
        Ok(())
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
                    left = &left[sent..];
                }
                Err(error) => {
                    self.tap.interface.check()?;
                    match error.source.raw_os_error() {
                        // Down, or this one frame is longer than the interface takes.
                        Some(libc::ENETDOWN | libc::EMSGSIZE) => {
                            self.lost.no_room += 1;
                            left = &left[1..];
                        }
                        _ => return Err(io::Error::other(error)),
                    }
                }
            }
        }
        frames.drain(..).for_each(|chunk| pool.give_back(chunk));
        Ok(())
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

    fn obstacle(&self) -> Option<String> {
        let Interface { name, .. } = &self.tap.interface;
        self.tap.interface.merges().unwrap_or(false).then(|| {
            format!("{name} merges segments of TCP into frames that are too long to pass on: `ethtool -K {name} gro off`")
        })
    }
}

/// Sums TCP or UDP up: a frame of this machine's stack, which leaves that to the driver, has only the sum of the pseudo
/// header there.
fn finish_checksum(frame: &mut [u8]) -> Option<()> {
    let mut at = 12;
    let mut kind = frame.get(at..at + 2)?;
    while kind == [0x81, 0] || kind == [0x88, 0xa8] {
        at += 4;
        kind = frame.get(at..at + 2)?;
    }
    let ip_at = at + 2;
    let ip = frame.get(ip_at..)?;
    let (protocol, l4_at, end) = match ip.first()? >> 4 {
        4 => {
            let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
            (*ip.get(9)?, usize::from(ip[0] & 15) * 4, total)
        }
        // The kernel leaves no sum open behind an extension header.
        6 => (*ip.get(6)?, 40, 40 + usize::from(u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]))),
        _ => return None,
    };
    let check_at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let l4 = frame.get_mut(ip_at + l4_at..ip_at + end)?;
    // What stands in the field is part of the sum: the pseudo header.
    let mut check = !fold(sum(l4));
    if check == 0 && protocol == UDP {
        check = 0xffff;
    }
    l4.get_mut(check_at..check_at + 2)?.copy_from_slice(&check.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use weir_packet::checksum::pseudo_header;
    use weir_packet::flow::{Flow, IpVersion};
    use weir_packet::frame::{Ends, Signature};

    use super::*;

    #[test]
    fn a_sum_that_was_left_open_is_finished() {
        for (ip, l4_at, addresses) in [(IpVersion::V4, 34, 26..34), (IpVersion::V6, 54, 22..54)] {
            let ends =
                Ends { ip, src_mac: [2; 6], dst_mac: [4; 6], src_prefix: [0x20; 12], dst_prefix: [0x20; 12] };
            let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 1, dport: 2, group: 0 };
            let whole = ends.frame(&flow, 101, Signature::default());
            let mut open = whole.clone();
            let pseudo = fold(pseudo_header(&whole[addresses], UDP, whole.len() - l4_at));
            open[l4_at + 6..l4_at + 8].copy_from_slice(&pseudo.to_be_bytes());
            assert_ne!(open, whole);
            finish_checksum(&mut open).expect("UDP");
            assert_eq!(open, whole);
            for end in 0..whole.len() {
                // What ends too early is left as it is, and nothing panics.
                finish_checksum(&mut whole[..end].to_vec());
            }
        }
    }
}
