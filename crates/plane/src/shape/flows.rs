//! Flow queues of all subscribers: packets and flows are slots of two slabs.
//!
//! ```text
//! flow: head > packet > packet > tail        a flow has 64 bytes, a packet 32
//! ```
//! The AQM of a flow is the law COBALT of crate queue (`cake::cobalt`), which decides about one packet. The queues of that crate, such as
//! `fair`, keep their packets in buffers of their own, some 130 KiB for each scheduler: here all subscribers share both slabs.
//!
//! Invariant: a slot is in one list, or free.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use weir_memory::{LargeVec, prefetch};
use weir_queue::cake::cobalt::Cobalt;

use super::wheel::NONE;

/// A packet that waits.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Waiting {
    pub(super) next: u32,
    /// The owner's number for it.
    pub(super) payload: u32,
    pub(super) arrival_ns: u64,
    pub(super) bytes: u16,
    /// The owner's note.
    pub(super) note: u16,
    pub(super) is_ect: bool,
}

const _: () = assert!(size_of::<Waiting>() == 32);

/// Where a flow is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    No,
    New,
    Old,
}

/// The queue of a flow.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Flow {
    /// In the list of its class.
    pub(super) next: u32,
    pub(super) head: u32,
    tail: u32,
    pub(super) bytes: u32,
    pub(super) credit: i32,
    /// The hash of the flow; if several share the queue, a bit for each hash.
    pub(super) hash: u32,
    pub(super) packets: u16,
    pub(super) class: u8,
    /// Where its subscriber has it.
    pub(super) place: u8,
    pub(super) listed: Listed,
    /// The number of its host, where these share.
    host: [u8; 3],
    pub(super) law: Cobalt,
}

const _: () = assert!(size_of::<Flow>() == 64);

impl Flow {
    /// The number of its host, where these share.
    pub(super) fn host(&self) -> u32 {
        let [a, b, c] = self.host;
        u32::from_le_bytes([a, b, c, 0])
    }
}

/// All packets and flows.
#[derive(Debug)]
pub(super) struct Flows {
    packets: LargeVec<Waiting>,
    free_packet: u32,
    flows: LargeVec<Flow>,
    free_flow: u32,
    /// Packets that wait.
    pub(super) waiting: u32,
    /// Flows in use.
    pub(super) used: u32,
}

impl Flows {
    pub(super) fn new() -> Flows {
        Flows {
            packets: LargeVec::default(),
            free_packet: NONE,
            flows: LargeVec::default(),
            free_flow: NONE,
            waiting: 0,
            used: 0,
        }
    }

    pub(super) fn flow(&self, at: u32) -> &Flow {
        &self.flows[at as usize]
    }

    pub(super) fn flow_mut(&mut self, at: u32) -> &mut Flow {
        &mut self.flows[at as usize]
    }

    /// Prefetches a flow.
    #[inline]
    pub(super) fn touch(&self, at: u32) {
        self.flows.get(at as usize).into_iter().for_each(prefetch);
    }

    /// Prefetches the packet of a flow that leaves next.
    #[inline]
    pub(super) fn touch_first_packet(&self, at: u32) {
        self.touch_packet(self.flows[at as usize].head);
    }

    /// Prefetches the packet of a flow that the next one waits behind; `NONE` has none.
    #[inline]
    pub(super) fn touch_last_packet(&self, at: u32) {
        if let Some(flow) = self.flows.get(at as usize).filter(|flow| flow.head != NONE) {
            self.touch_packet(flow.tail);
        }
    }

    #[inline]
    fn touch_packet(&self, number: u32) {
        self.packets.get(number as usize).into_iter().for_each(prefetch);
    }

    /// A flow without packets.
    pub(super) fn open(&mut self, hash: u32, class: u8, place: u8, host: u32) -> u32 {
        self.used += 1;
        let [a, b, c, _] = host.to_le_bytes();
        let flow = Flow {
            next: NONE,
            head: NONE,
            tail: NONE,
            bytes: 0,
            credit: 0,
            hash,
            packets: 0,
            class,
            place,
            listed: Listed::No,
            host: [a, b, c],
            law: Cobalt::default(),
        };
        if self.free_flow == NONE {
            return self.flows.push(flow);
        }
        let at = self.free_flow;
        self.free_flow = self.flow(at).next;
        *self.flow_mut(at) = flow;
        at
    }

    /// Frees a flow that has no packets and is in no list.
    pub(super) fn close(&mut self, at: u32) {
        let free = self.free_flow;
        let flow = self.flow_mut(at);
        debug_assert!(flow.packets == 0 && flow.listed == Listed::No, "a flow at rest");
        flow.next = free;
        self.free_flow = at;
        self.used -= 1;
    }

    /// Puts a packet behind the others of a flow.
    pub(super) fn push(&mut self, at: u32, packet: Waiting) {
        let packet = Waiting { next: NONE, ..packet };
        let number = if self.free_packet == NONE {
            self.packets.push(packet)
        } else {
            let number = self.free_packet;
            self.free_packet = self.packets[number as usize].next;
            self.packets[number as usize] = packet;
            number
        };
        self.waiting += 1;
        let flow = &mut self.flows[at as usize];
        flow.packets += 1;
        flow.bytes += u32::from(packet.bytes);
        if flow.head == NONE {
            flow.head = number;
        } else {
            self.packets[flow.tail as usize].next = number;
        }
        flow.tail = number;
    }

    /// Removes the first packet of a flow.
    pub(super) fn pop(&mut self, at: u32) -> Option<Waiting> {
        let flow = &mut self.flows[at as usize];
        if flow.head == NONE {
            return None;
        }
        let number = flow.head;
        let packet = self.packets[number as usize];
        flow.head = packet.next;
        flow.packets -= 1;
        flow.bytes -= u32::from(packet.bytes);
        self.packets[number as usize].next = self.free_packet;
        self.free_packet = number;
        self.waiting -= 1;
        Some(packet)
    }

    /// The packets of a flow, the oldest first.
    pub(super) fn packets(&self, at: u32) -> impl Iterator<Item = &Waiting> {
        let first = self.flow(at).head;
        let packet = |number: u32| (number != NONE).then(|| &self.packets[number as usize]);
        std::iter::successors(packet(first), move |before| packet(before.next))
    }

    /// All flows, those that are free as well.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut()
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.packets.bytes() + self.flows.bytes()
    }
}
