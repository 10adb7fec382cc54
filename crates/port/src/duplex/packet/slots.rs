//! A ring of slots that the kernel fills one by one (TPACKET_V2); each changes hands by its status word.
//!
//! ```text
//!  | status, header | ... | offloads | frame | rest |   slot n begins at n * slot_bytes
//! ```
//! Ours to read after an acquiring load of the word, the kernel's again after a releasing store.
//! Source: Documentation/networking/packet_mmap.rst, net/packet/af_packet.c.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_packet::offload::virtio;

use crate::mapping::Mapping;

/// linux/if_packet.h: all of a frame that was longer than its slot is kept at the socket.
const TP_STATUS_COPY: u32 = 1 << 1;

/// A ring, and how far it was read.
pub(super) struct Slots {
    memory: Mapping,
    slot_bytes: u32,
    slots: u32,
    /// The slot that is filled next.
    next: u32,
}

/// A slot that the kernel has handed over.
pub(super) struct Filled<'a> {
    /// What the kernel says of the frame.
    pub(super) header: libc::tpacket2_hdr,
    /// What its sender left to a network card.
    pub(super) offloads: [u8; virtio::BYTES],
    /// The frame; `None` where it was longer than the slot.
    pub(super) frame: Option<&'a [u8]>,
    /// It waits at the socket.
    pub(super) is_kept: bool,
}

impl Slots {
    /// A ring of so many slots of so many bytes, which is all of `memory`.
    pub(super) fn new(memory: Mapping, slot_bytes: u32, slots: u32) -> Slots {
        assert!(slot_bytes as usize * slots as usize <= memory.bytes(), "the ring is in its memory");
        Slots { memory, slot_bytes, slots, next: 0 }
    }

    fn at(&self) -> usize {
        self.next as usize * self.slot_bytes as usize
    }

    fn status(&self) -> &AtomicU32 {
        let at = self.at() + offset_of!(libc::tpacket2_hdr, tp_status);
        // SAFETY: aligned and inside the mapping, which at() asserts; both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.at(at)) }
    }

    /// The next slot, if the kernel has handed it over.
    ///
    /// # Panics
    /// If the kernel says of a frame that it is not in its slot.
    #[expect(clippy::expect_used, reason = "as many bytes as that were taken")]
    pub(super) fn filled(&self) -> Option<Filled<'_>> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the slot is ours, and it begins with its header.
        let header = unsafe { self.memory.at::<libc::tpacket2_hdr>(self.at()).read() };
        let (start, bytes) = (usize::from(header.tp_mac), header.tp_len.min(header.tp_snaplen) as usize);
        assert!(start >= virtio::BYTES && start + bytes <= self.slot_bytes as usize, "in its slot");
        let from = start - virtio::BYTES;
        // SAFETY: inside the slot, which is ours until hand_back(), and that needs the ring to itself.
        let all = unsafe {
            std::slice::from_raw_parts(self.memory.at::<u8>(self.at() + from), virtio::BYTES + bytes)
        };
        let (offloads, frame) = all.split_first_chunk().expect("it begins with that");
        let is_whole = header.tp_snaplen >= header.tp_len;
        let is_kept = header.tp_status & TP_STATUS_COPY != 0;
        Some(Filled { header, offloads: *offloads, frame: is_whole.then_some(frame), is_kept })
    }

    /// Gives the slot that was read back to the kernel.
    pub(super) fn hand_back(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: u32 = 256;
    const SLOTS: u32 = 4;
    const FRAMES: u8 = 11;

    /// What the kernel does: waits for a slot, fills it and hands it over.
    fn kernel(memory: Mapping) -> Mapping {
        let mut ring = Slots::new(memory, SLOT_BYTES, SLOTS);
        for n in 0..FRAMES {
            while ring.status().load(Ordering::Acquire) != libc::TP_STATUS_KERNEL {
                std::thread::yield_now();
            }
            let bytes = 20 + u32::from(n);
            let at = ring.at();
            // SAFETY: the slot is the kernel's; integers, so that zero is a value.
            unsafe {
                let mut header: libc::tpacket2_hdr = std::mem::zeroed();
                (header.tp_mac, header.tp_len) = (80, bytes);
                header.tp_snaplen = if n == 5 { 7 } else { bytes };
                // All but the status, which comes last.
                let rest = offset_of!(libc::tpacket2_hdr, tp_len);
                let from = std::ptr::from_ref(&header).cast::<u8>().add(rest);
                let length = size_of::<libc::tpacket2_hdr>() - rest;
                from.copy_to_nonoverlapping(ring.memory.at::<u8>(at + rest), length);
                ring.memory.at::<u8>(at + 80).write_bytes(n, bytes as usize);
            }
            ring.status().store(libc::TP_STATUS_USER, Ordering::Release);
            ring.next = (ring.next + 1) % SLOTS;
        }
        ring.memory
    }

    /// For miri, which sees a slot that both sides touch at once.
    #[test]
    fn slots_are_filled_and_handed_back_in_turn() {
        let memory = Mapping::fresh((SLOT_BYTES * SLOTS) as usize).expect("memory");
        // SAFETY: the thread ends before the ring does, and is joined.
        let theirs = std::mem::ManuallyDrop::into_inner(unsafe { memory.again() });
        let mut ring = Slots::new(memory, SLOT_BYTES, SLOTS);
        std::thread::scope(|scope| {
            // What the thread gives back is ours, and unmapped once.
            let thread = scope.spawn(move || std::mem::ManuallyDrop::new(kernel(theirs)));
            for n in 0..FRAMES {
                let came = loop {
                    match ring.filled() {
                        Some(filled) => break filled.frame.map(<[u8]>::to_vec),
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(came, (n != 5).then(|| vec![n; 20 + usize::from(n)]));
                ring.hand_back();
            }
            thread.join().expect("the kernel does not panic");
        });
        assert!(ring.filled().is_none());
    }
}
