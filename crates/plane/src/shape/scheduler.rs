//! The scheduler of the shaper: which subscriber's packet leaves next, and when.
//!
//! ```text
//! port     strict: turn by turn | new: first | this round | next round       children: groups, subscribers
//!  group   the same
//!   subscriber   gate (its rate) > classes > flows
//! ```
//! - Each level has a gate. A child is listed at its parent while it has packets and its gate is open, else it waits in the timer
//!   wheel. A list may also hold children of which that is no longer true: they are removed when their turn comes.
//! - Strict packets have a list of their own at each level. So they leave first when a full group or port may send again.
//! - Others share by deficit round robin: a quantum in each round. A child that becomes active and has not used its quantum of
//!   the present round is served before the round goes on. So an idle subscriber never waits for a round of all others, and none
//!   gets more than a quantum in a round by pausing.
//! - A packet passes at once, without being queued, if its subscriber has no others, all gates are open, and no list has a child. So
//!   does a packet whose subscriber's timer has expired, see `due.rs`.
//! - Where there is no room, the subscriber with the most packets (within a factor of two) loses the first ones of its longest flow.
//!
//! Invariant: a subscriber with packets is listed, in the wheel, or ready; so is each group with lists that are not empty, unless it is
//! listed. offered = passed at once + departed + lost + waiting.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_memory::LargeVec;

use super::busy::{Busy, LISTS};
use super::due::Ready;
use super::flows::{Flow, Flows};
use super::gate::{Gate, MOST_BYTES};
use super::hosts::{HostShares, Hosts};
use super::ring::Ring;
use super::round::{Child, Link, Node, NodeCounts, quantum};
use super::subscriber::{CLASSES, Slot, Totals};
use super::wheel::{NONE, Wheel};

/// How long a slot is kept for a subscriber without packets, ns: longer than rounds last.
const LINGER_NS: u64 = 100_000_000;
/// How often a part of the slots is looked at, ns, and how many parts there are.
const SWEEP_NS: u64 = 10_000_000;
const SWEEPS: usize = 50;
/// `weir_queue` times end after 213 days.
const LONGEST_NS: u64 = 100 * 86_400 * 1_000_000_000;

/// What the shaper is set to, beside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Packets that may wait, of all subscribers. At least three for each subscriber that may have some, so that one of them is busy.
    pub(crate) packets: u32,
    /// Packets of one subscriber.
    pub(crate) packets_each: u16,
    /// Bytes of one subscriber: what its rate sends in this time, but no less than [`Limits::LEAST_BYTES`], ns.
    pub(crate) each_ns: u64,
    /// Weights of the classes beside the strict one, and of the strict one beyond its limit.
    pub(crate) weights: [u8; CLASSES],
    /// How hosts of a subscriber share its rate.
    pub(crate) hosts: HostShares,
}

impl Limits {
    const LEAST_BYTES: u32 = 64 << 10;
    const MOST_BYTES: u64 = 16 << 20;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            packets: 196_608,
            packets_each: 4096,
            each_ns: 200_000_000,
            weights: [1, 4, 2, 1],
            hosts: HostShares::Ignored,
        }
    }
}

/// A port or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

/// What a subscriber has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The smaller one of the rates of its plan and its line; 0: no limit.
    pub(crate) bits_per_s: u64,
    /// The rate up to which the strict class goes first; 0: no limit.
    pub(crate) strict_bits_per_s: u64,
    /// Bytes of each frame on the line beside those that it has in the node.
    pub(crate) overhead: u8,
    /// The group, or the port.
    pub(crate) parent: NodeId,
}

/// A packet that arrives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Offered {
    pub(crate) subscriber: u32,
    pub(crate) bytes: u32,
    /// A hash of its flow.
    pub(crate) flow: u32,
    /// A hash of the address of the subscriber's host.
    pub(crate) host: u32,
    /// 0 is the strict one.
    pub(crate) class: u8,
    /// Its endpoints know ECN.
    pub(crate) is_ect: bool,
    /// A note of the owner.
    pub(crate) note: u16,
}

/// A packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departed {
    pub(crate) payload: u32,
    pub(crate) note: u16,
    pub(crate) is_marked: bool,
    pub(crate) subscriber: u32,
    pub(crate) bytes: u32,
    /// With the overhead.
    pub(crate) charged: u32,
    pub(crate) delay_ns: u64,
}

/// What waits of a subscriber, and what became of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backlog {
    pub(crate) packets: u32,
    pub(crate) bytes: u32,
    pub(crate) totals: Totals,
}

/// A packet that was queued and will not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) payload: u32,
    pub(crate) subscriber: u32,
    pub(crate) why: Why,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Aqm,
    /// There was no room.
    Limit,
    /// Its subscriber was removed.
    Removed,
}

/// Rates by levels, and the packets that wait for them.
#[derive(Debug)]
pub(crate) struct Shaper {
    limits: Limits,
    pub(super) weights: [u8; CLASSES],
    pub(super) salt: u32,
    pub(super) random: u64,
    pub(super) slots: LargeVec<Slot>,
    free_slots: Vec<u32>,
    /// By the number of the subscriber.
    pub(super) slot_of: Vec<u32>,
    pub(super) nodes: Vec<Node>,
    pub(super) ports: Vec<u32>,
    pub(super) turn: usize,
    /// Places in lists that are taken.
    pub(super) listed: u32,
    pub(super) wheel: Wheel,
    /// Children whose timer has expired; empty between calls.
    pub(super) expired: Vec<u32>,
    pub(super) ready: Ready,
    /// Subscribers whose rate has changed, and when they may send.
    pub(super) early: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) flows: Flows,
    pub(super) hosts: Hosts,
    pub(super) busy: Busy,
    lost: Vec<Lost>,
    /// Of subscribers, as far as their slots do not have them.
    totals: HashMap<u32, Box<Totals>>,
    /// When the time of AQMs began.
    pub(super) began_ns: u64,
    swept: usize,
    sweep_ns: u64,
}

impl Shaper {
    /// Without levels; flows are hashed by `seed`.
    pub(crate) fn new(limits: Limits, seed: u64) -> Shaper {
        Shaper {
            limits,
            weights: limits.weights.map(|weight| weight.max(1)),
            salt: (seed ^ seed >> 32) as u32,
            random: seed,
            slots: LargeVec::default(),
            free_slots: Vec::new(),
            slot_of: Vec::new(),
            nodes: Vec::new(),
            ports: Vec::new(),
            turn: 0,
            listed: 0,
            wheel: Wheel::new(),
            expired: Vec::new(),
            ready: Ready::default(),
            early: BinaryHeap::new(),
            flows: Flows::new(),
            hosts: Hosts::new(limits.hosts),
            busy: [NONE; LISTS],
            lost: Vec::new(),
            totals: HashMap::new(),
            began_ns: 0,
            swept: 0,
            sweep_ns: 0,
        }
    }

    /// A port, or a group of `parent`; 0 bits/s: no limit.
    pub(crate) fn add_node(&mut self, parent: Option<NodeId>, bits_per_s: u64) -> NodeId {
        let number = self.nodes.len() as u32;
        let round = parent.map_or(0, |parent| self.nodes[parent.0 as usize].round);
        self.nodes.push(Node {
            parent: parent.map_or(NONE, |parent| parent.0),
            gate: Gate::new(bits_per_s),
            link: Link::new(round),
            quantum: quantum(bits_per_s),
            round: 0,
            strict: Ring::EMPTY,
            new: Ring::EMPTY,
            this_round: Ring::EMPTY,
            next_round: Ring::EMPTY,
            counts: NodeCounts::default(),
        });
        if parent.is_none() {
            self.ports.push(number);
        }
        NodeId(number)
    }

    /// Another rate of a port or group.
    pub(crate) fn set_node_rate(&mut self, node: NodeId, bits_per_s: u64, now_ns: u64) {
        let known = &mut self.nodes[node.0 as usize];
        known.gate.set_rate(bits_per_s, now_ns);
        known.quantum = quantum(bits_per_s);
        self.early.push(Reverse((known.gate.free_ns(), Child::node(node.0).0)));
    }

    /// Another plan of a subscriber; its packets keep their order.
    pub(crate) fn set_plan(&mut self, subscriber: u32, plan: &Plan, now_ns: u64) {
        let Some(at) = self.slot_at(subscriber) else { return };
        if self.slots[at as usize].parent != plan.parent.0 {
            self.move_to(at, plan.parent, now_ns);
        }
        let slot = &mut self.slots[at as usize];
        slot.gate.set_rate(plan.bits_per_s, now_ns);
        slot.strict.set_rate(plan.strict_bits_per_s, now_ns);
        slot.overhead = plan.overhead;
        self.early.push(Reverse((slot.gate.free_ns(), at)));
    }

    /// A subscriber has ended: its packets are dropped, and what it has counted is forgotten.
    pub(crate) fn remove(&mut self, subscriber: u32) {
        if let Some(at) = self.slot_at(subscriber) {
            self.forget(at);
            self.slots[at as usize].subscriber = NONE;
            self.slot_of[subscriber as usize] = NONE;
        }
        self.totals.remove(&subscriber);
    }

    /// A packet arrives. True: it passes at once. False: it waits by the owner's number for it, which `payload` gives, until
    /// [`Shaper::take`] or [`Shaper::lost`] names that. `plan` is asked if the subscriber has no slot.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now_ns: u64,
        packet: &Offered,
        plan: impl FnOnce() -> Plan,
        payload: impl FnOnce() -> u32,
    ) -> bool {
        let at = match self.slot_at(packet.subscriber) {
            Some(at) => at,
            None => self.open_slot(packet.subscriber, &plan()),
        };
        let slot = &mut self.slots[at as usize];
        if slot.packets > 0 || !slot.gate.is_open(now_ns) || !self.is_free(at, now_ns) {
            self.wait(at, packet, payload(), now_ns);
            return false;
        }
        let slot = &mut self.slots[at as usize];
        let charged = packet.bytes + u32::from(slot.overhead);
        slot.gate.has_waited = false;
        slot.gate.charge(charged, now_ns);
        if packet.class == 0 && slot.strict.has_limit() {
            slot.strict.charge(charged, now_ns);
        }
        let mut node = slot.parent;
        while let Some(known) = self.nodes.get_mut(node as usize) {
            known.gate.has_waited = false;
            known.gate.charge(charged, now_ns);
            known.counts.sent[0] += 1;
            known.counts.sent[1] += u64::from(packet.bytes);
            node = known.parent;
        }
        true
    }

    fn wait(&mut self, at: u32, packet: &Offered, payload: u32, now_ns: u64) {
        let bytes = packet.bytes.min(MOST_BYTES);
        let packet = &Offered { bytes, ..*packet };
        if self.flows.waiting == 0 {
            // Time may have passed without a call.
            self.run_timers(now_ns);
        }
        while self.slots[at as usize].packets > 0 && self.is_full(at, bytes) {
            self.shed(at, now_ns);
        }
        if self.flows.waiting >= self.limits.packets {
            match self.busiest() {
                Some(busiest) => self.shed(busiest, now_ns),
                None => return self.note_lost(at, payload, Why::Limit),
            }
        }
        self.enqueue(at, packet, payload, now_ns);
        self.count_waiting(at, 1, bytes as i32);
        self.list(at, now_ns);
    }

    /// Whether a subscriber has as much as it may have, with so many bytes more.
    #[inline]
    fn is_full(&self, at: u32, more_bytes: u32) -> bool {
        let slot = &self.slots[at as usize];
        let bytes = slot.bytes + more_bytes;
        let most_bytes = || {
            // What is there when a packet of 1000 bytes takes so long.
            let most = (self.limits.each_ns / slot.gate.time_ns(1000).max(1)).saturating_mul(1000);
            most.clamp(u64::from(Limits::LEAST_BYTES), Limits::MOST_BYTES) as u32
        };
        slot.packets >= self.limits.packets_each || bytes > Limits::LEAST_BYTES && bytes > most_bytes()
    }

    /// The next packet that may leave now.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Departed> {
        loop {
            if self.listed > 0
                && let Some(departed) = self.take_listed(now_ns)
            {
                return Some(departed);
            }
            if self.ready.is_empty() {
                return None;
            }
            // It may list some.
            if let Some(departed) = self.take_ready(now_ns) {
                return Some(departed);
            }
        }
    }

    /// Lets time pass, in front of [`Shaper::take`].
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.run_timers(now_ns);
        if now_ns >= self.sweep_ns {
            self.sweep(now_ns);
        }
        if now_ns - self.began_ns > LONGEST_NS {
            let by = weir_queue::Time::from_ns(now_ns - self.began_ns);
            self.flows.all_mut().for_each(|flow| flow.law.rebase(by));
            self.began_ns = now_ns;
        }
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.flows.bytes()
            + self.hosts.bytes()
            + self.slots.bytes()
            + self.slot_of.capacity() * size_of::<u32>()
            + self.wheel.bytes()
            + self.totals.len() * size_of::<Totals>()
    }

    /// Whether nothing waits, nothing was lost, and no slots are to be looked at.
    #[inline]
    pub(crate) fn is_quiet(&self, now_ns: u64) -> bool {
        self.flows.waiting == 0
            && self.lost.is_empty()
            && (now_ns < self.sweep_ns || self.free_slots.len() == self.slots.len())
    }

    /// The numbers of all packets that wait.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = u32> {
        let flows = self.slots.iter().flat_map(Slot::open_flows);
        flows.flat_map(|flow| self.flows.packets(flow)).map(|packet| packet.payload)
    }

    /// All packets that wait, those of each flow in their order, and their numbers. None waits any more.
    pub(crate) fn drain(&mut self) -> Vec<(Offered, u32)> {
        let mut all = Vec::new();
        for at in 0..self.slots.len() as u32 {
            let subscriber = self.slots[at as usize].subscriber;
            self.clear(at, |shaper, flow, packet| {
                shaper.count_waiting(at, -1, -i32::from(packet.bytes));
                let packet_again = Offered {
                    subscriber,
                    host: shaper.host_hash(flow),
                    bytes: packet.bytes.into(),
                    flow: flow.hash,
                    class: flow.class,
                    is_ect: packet.is_ect,
                    note: packet.note,
                };
                all.push((packet_again, packet.payload));
            });
        }
        all
    }

    /// The hash of the host of a flow; 0 where hosts do not matter, since it is not kept.
    fn host_hash(&self, flow: &Flow) -> u32 {
        match self.hosts.shares {
            HostShares::Ignored => 0,
            HostShares::Fair => self.hosts.host(flow.host()).hash,
        }
    }

    /// Goes on with what another one has counted of subscribers, and with its losses.
    pub(crate) fn inherit(mut self, old: &mut Shaper) -> Shaper {
        for slot in old.slots.iter() {
            let totals = slot.totals();
            if slot.subscriber != NONE && totals != Totals::default() {
                old.totals.entry(slot.subscriber).or_default().add(&totals);
            }
        }
        self.totals = std::mem::take(&mut old.totals);
        self.lost = std::mem::take(&mut old.lost);
        self
    }

    /// A packet that waited elsewhere waits here.
    pub(crate) fn put_back(&mut self, now_ns: u64, packet: &Offered, plan: &Plan, payload: u32) {
        let at = match self.slot_at(packet.subscriber) {
            Some(at) => at,
            None => self.open_slot(packet.subscriber, plan),
        };
        self.wait(at, packet, payload, now_ns);
    }

    /// When [`Shaper::advance`] and [`Shaper::take`] are to be called next.
    pub(crate) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let sweep = (self.free_slots.len() < self.slots.len()).then_some(self.sweep_ns);
        let port = |&port: &u32| {
            let node = &self.nodes[port as usize];
            node.has_children().then(|| node.gate.free_ns().max(now_ns))
        };
        let early = self.early.peek().map(|&Reverse((due_ns, _))| due_ns);
        if self.flows.waiting == 0 && self.lost.is_empty() {
            // Timers of subscribers without packets can wait.
            return sweep;
        }
        if !self.ready.is_empty() {
            return Some(now_ns);
        }
        self.ports.iter().filter_map(port).chain(self.wheel.due_ns()).chain(early).chain(sweep).min()
    }

    /// Packets that were dropped since the last call.
    pub(crate) fn lost(&mut self) -> std::vec::Drain<'_, Lost> {
        self.lost.drain(..)
    }

    /// What became of the packets of a subscriber that had to wait, and those that wait.
    pub(crate) fn totals(&self, subscriber: u32) -> Backlog {
        let mut totals = self.totals.get(&subscriber).map(|totals| **totals).unwrap_or_default();
        let slot = self.slot_at(subscriber).map(|at| &self.slots[at as usize]);
        slot.into_iter().for_each(|slot| totals.add(&slot.totals()));
        Backlog {
            packets: slot.map_or(0, |slot| slot.packets.into()),
            bytes: slot.map_or(0, |slot| slot.bytes),
            totals,
        }
    }

    /// What a port or group has counted.
    pub(crate) fn node_counts(&self, node: NodeId) -> NodeCounts {
        self.nodes[node.0 as usize].counts
    }

    #[inline]
    pub(super) fn slot_at(&self, subscriber: u32) -> Option<u32> {
        self.slot_of.get(subscriber as usize).copied().filter(|&at| at != NONE)
    }

    #[cold]
    fn open_slot(&mut self, subscriber: u32, plan: &Plan) -> u32 {
        let slot = Slot::new(subscriber, plan, self.nodes[plan.parent.0 as usize].round);
        let at = match self.free_slots.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => self.slots.push(slot),
        };
        if self.slot_of.len() <= subscriber as usize {
            self.slot_of.resize(subscriber as usize + 1, NONE);
        }
        self.slot_of[subscriber as usize] = at;
        at
    }

    /// Frees slots of subscribers that have been idle.
    fn sweep(&mut self, now_ns: u64) {
        self.sweep_ns = now_ns + SWEEP_NS;
        for _ in 0..self.slots.len().div_ceil(SWEEPS) {
            self.swept = (self.swept + 1) % self.slots.len();
            let slot = &self.slots[self.swept];
            let is_idle = slot.packets == 0
                && slot.link.is_unlisted()
                && !slot.link.is_armed
                && (slot.subscriber == NONE || slot.gate.free_ns() + LINGER_NS <= now_ns);
            if is_idle && !self.is_unused(self.swept) {
                self.close_slot(self.swept as u32);
            }
        }
        if self.free_slots.len() == self.slots.len() && self.flows.used == 0 {
            self.free_memory();
        }
    }

    /// No subscriber has a slot: none of them needs memory.
    fn free_memory(&mut self) {
        (self.slots, self.free_slots, self.slot_of) = (LargeVec::default(), Vec::new(), Vec::new());
        self.flows = Flows::new();
        self.hosts = Hosts::new(self.hosts.shares);
        self.wheel.free_memory();
        (self.expired, self.ready) = (Vec::new(), Ready::default());
    }

    fn is_unused(&self, at: usize) -> bool {
        self.slots[at].parent == NONE
    }

    fn close_slot(&mut self, at: u32) {
        self.clear(at, |_, _, _| {});
        let slot = &mut self.slots[at as usize];
        slot.parent = NONE;
        self.free_slots.push(at);
        if slot.subscriber == NONE {
            return;
        }
        self.slot_of[slot.subscriber as usize] = NONE;
        let totals = slot.totals();
        if totals != Totals::default() {
            self.totals.entry(slot.subscriber).or_default().add(&totals);
        }
        slot.subscriber = NONE;
    }

    /// A packet of a subscriber was dropped.
    pub(super) fn note_lost(&mut self, at: u32, payload: u32, why: Why) {
        let Slot { subscriber, parent: mut node, .. } = self.slots[at as usize];
        while let Some(known) = self.nodes.get_mut(node as usize) {
            known.counts.dropped += 1;
            node = known.parent;
        }
        self.lost.push(Lost { payload, subscriber, why });
    }

    /// Packets and slots of subscribers in use, and flows.
    #[cfg(test)]
    pub(super) fn used(&self) -> [usize; 3] {
        let slots = self.slots.len() - self.free_slots.len();
        [self.flows.waiting as usize, slots, self.flows.used as usize]
    }

    /// Whether a subscriber has strict packets, and others, that may leave now.
    #[cfg(test)]
    pub(super) fn may_send(&self, subscriber: u32, now_ns: u64) -> [bool; 2] {
        let Some(at) = self.slot_at(subscriber) else { return [false; 2] };
        let slot = &self.slots[at as usize];
        let above = std::iter::successors(self.nodes.get(slot.parent as usize), |node| {
            self.nodes.get(node.parent as usize)
        });
        let is_open = slot.gate.is_open(now_ns) && above.into_iter().all(|node| node.gate.is_open(now_ns));
        slot.wants(now_ns).map(|wants| wants && is_open)
    }
}
