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
//! - A packet passes at once, without being queued, if its subscriber has no others, all gates are open, and no list has a child.
//! - Where there is no room, the subscriber with the most packets (within a factor of two) loses the first ones of its longest flow.
//!
//! Invariant: a subscriber with packets is listed, or in the wheel; so is each group with lists that are not empty, unless it is
//! listed. offered = passed at once + departed + lost + waiting.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::flows::{Flow, Flows};
use super::gate::{Gate, MOST_BYTES};
use super::hosts::{HostShares, Hosts};
use super::ring::{Links, Ring};
use super::subscriber::{CLASSES, STEPS, Slot, Totals, step};
use super::wheel::{NONE, SLOT_NS, Wheel};

/// Bytes of a subscriber in a round.
const QUANTUM: i32 = 1600;
/// Bytes of a group in a round: what its rate sends in this time, but no less than a subscriber has, ns.
const GROUP_ROUND_NS: u64 = 50_000;
const MOST_QUANTUM: u64 = 1 << 20;
/// How long a slot is kept for a subscriber without packets, ns: longer than rounds last.
const LINGER_NS: u64 = 100_000_000;
/// How often a part of the slots is looked at, ns, and how many parts there are.
const SWEEP_NS: u64 = 10_000_000;
const SWEEPS: usize = 50;
/// Children whose timers expire are prefetched so many ahead.
const AHEAD: usize = 8;
/// Lists of busy subscribers: by the logarithm of their packets.
const BUSY: usize = 16;
/// A subscriber with fewer packets is not busy.
const BUSY_PACKETS: u32 = 4;
/// `weir_queue` times end after 213 days.
const LONGEST_NS: u64 = 100 * 86_400 * 1_000_000_000;
const STRICT: usize = 0;
const OTHERS: usize = 1;

/// What the shaper is set to, beside the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Packets that may wait, of all subscribers. At least three for each subscriber that may have some, so that one of them is busy.
    pub(crate) packets: u32,
    /// Packets of one subscriber.
    pub(crate) packets_each: u32,
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

/// A port, a group or a subscriber's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child(u32);

impl Child {
    const NODE: u32 = 1 << 31;

    pub(super) fn subscriber(slot: u32) -> Child {
        Child(slot)
    }

    fn node(number: u32) -> Child {
        Child(number | Child::NODE)
    }

    /// The one that lists have by this number.
    #[inline]
    pub(super) fn of(number: u32) -> Child {
        Child(number)
    }

    #[inline]
    pub(super) fn is_node(self) -> bool {
        self.0 & Child::NODE != 0
    }

    pub(super) fn index(self) -> usize {
        (self.0 & !Child::NODE) as usize
    }
}

/// Where a child is listed at its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Nothing,
    List,
    New,
    ThisRound,
    NextRound,
}

/// A child at its parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    next: [u32; 2],
    is_in: [In; 2],
    is_armed: bool,
    /// The slot of the wheel, modulo 2^32.
    armed_slot: u32,
    credit: i32,
    /// The round of the parent in which it got its last quantum.
    round: u32,
}

impl Link {
    pub(super) fn new(round: u32) -> Link {
        Link {
            next: [NONE; 2],
            is_in: [In::Nothing; 2],
            is_armed: false,
            armed_slot: 0,
            credit: 0,
            round: round.wrapping_sub(1),
        }
    }

    /// The next one in its list.
    #[inline]
    pub(super) fn next(&self, band: usize) -> Option<u32> {
        let [strict, others] = self.next;
        Some(if band == STRICT { strict } else { others }).filter(|&next| next != NONE)
    }

    fn is_unlisted(&self) -> bool {
        self.is_in == [In::Nothing; 2]
    }
}

/// A port or a group.
#[derive(Debug)]
struct Node {
    parent: u32,
    gate: Gate,
    link: Link,
    quantum: i32,
    round: u32,
    strict: Ring,
    new: Ring,
    this_round: Ring,
    next_round: Ring,
    counts: NodeCounts,
}

/// What a port or group has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NodeCounts {
    /// Packets that wait, and their bytes.
    pub(crate) waiting: [u64; 2],
    /// Packets that were sent, and their bytes.
    pub(crate) sent: [u64; 2],
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
    /// As in [`Totals`].
    pub(crate) delays: [u64; STEPS],
}

impl Node {
    fn is_empty(&self, band: usize) -> bool {
        match band {
            STRICT => self.strict.is_empty(),
            _ => self.new.is_empty() && self.this_round.is_empty() && self.next_round.is_empty(),
        }
    }

    fn has_children(&self) -> bool {
        !self.is_empty(STRICT) || !self.is_empty(OTHERS)
    }

    fn list(&mut self, is_in: In) -> &mut Ring {
        match is_in {
            In::List | In::Nothing => &mut self.strict,
            In::New => &mut self.new,
            In::ThisRound => &mut self.this_round,
            In::NextRound => &mut self.next_round,
        }
    }
}

/// Rates by levels, and the packets that wait for them.
#[derive(Debug)]
pub(crate) struct Shaper {
    limits: Limits,
    pub(super) weights: [u8; CLASSES],
    pub(super) salt: u32,
    pub(super) random: u64,
    pub(super) slots: Vec<Slot>,
    free_slots: Vec<u32>,
    /// By the number of the subscriber.
    pub(super) slot_of: Vec<u32>,
    nodes: Vec<Node>,
    ports: Vec<u32>,
    turn: usize,
    wheel: Wheel,
    /// Children whose timer has expired; empty between calls.
    expired: Vec<u32>,
    /// Subscribers whose rate has changed, and when they may send.
    early: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) flows: Flows,
    pub(super) hosts: Hosts,
    busy: [u32; BUSY],
    lost: Vec<Lost>,
    /// Of subscribers, as far as their slots do not have them.
    totals: HashMap<u32, Box<Totals>>,
    /// When the time of AQMs began.
    pub(super) began_ns: u64,
    swept: usize,
    sweep_ns: u64,
}

/// Children by their links of one band.
struct Children<'a> {
    slots: &'a mut [Slot],
    nodes: &'a mut [Node],
    band: usize,
}

impl Links for Children<'_> {
    #[inline]
    fn next(&mut self, item: u32) -> &mut u32 {
        let child = Child(item);
        let link = match child.is_node() {
            true => &mut self.nodes[child.index()].link,
            false => &mut self.slots[child.index()].link,
        };
        &mut link.next[self.band]
    }
}

impl Shaper {
    /// Without levels; flows are hashed by `seed`.
    pub(crate) fn new(limits: Limits, seed: u64) -> Shaper {
        Shaper {
            limits,
            weights: limits.weights.map(|weight| weight.max(1)),
            salt: (seed ^ seed >> 32) as u32,
            random: seed,
            slots: Vec::new(),
            free_slots: Vec::new(),
            slot_of: Vec::new(),
            nodes: Vec::new(),
            ports: Vec::new(),
            turn: 0,
            wheel: Wheel::new(),
            expired: Vec::new(),
            early: BinaryHeap::new(),
            flows: Flows::new(),
            hosts: Hosts::new(limits.hosts),
            busy: [NONE; BUSY],
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

    /// Whether nothing waits at the levels above a subscriber, and all are open.
    #[inline]
    fn is_free(&self, at: u32, now_ns: u64) -> bool {
        let mut node = self.slots[at as usize].parent;
        while let Some(known) = self.nodes.get(node as usize) {
            if !known.gate.is_open(now_ns) || known.has_children() {
                return false;
            }
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
        let slot = &self.slots[at as usize];
        // What is there when a packet of 1000 bytes takes so long.
        let most = (self.limits.each_ns / slot.gate.time_ns(1000).max(1)).saturating_mul(1000);
        let most = most.clamp(u64::from(Limits::LEAST_BYTES), Limits::MOST_BYTES) as u32;
        let most_packets = self.limits.packets_each;
        let is_full = |slot: &Slot| slot.packets >= most_packets || slot.bytes + bytes > most;
        while self.slots[at as usize].packets > 0 && is_full(&self.slots[at as usize]) {
            self.shed(at, now_ns);
        }
        if self.flows.waiting >= self.limits.packets {
            match self.busiest() {
                Some(busiest) => self.shed(busiest, now_ns),
                None => {
                    let parent = self.slots[at as usize].parent;
                    return self.note_lost((packet.subscriber, parent), payload, Why::Limit);
                }
            }
        }
        self.enqueue(at, packet, payload, now_ns);
        self.count_waiting(at, 1, bytes as i32);
        self.list(at, now_ns);
    }

    /// The next packet that may leave now.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Departed> {
        for _ in 0..self.ports.len() {
            let port = *self.ports.get(self.turn)?;
            for band in [STRICT, OTHERS] {
                if let Some(departed) = self.serve(port, band, now_ns) {
                    return Some(departed);
                }
            }
            self.turn = (self.turn + 1) % self.ports.len();
        }
        None
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
            + self.slots.capacity() * size_of::<Slot>()
            + self.slot_of.capacity() * size_of::<u32>()
            + self.wheel.bytes()
            + self.totals.len() * size_of::<Totals>()
    }

    fn run_timers(&mut self, now_ns: u64) {
        let mut expired = std::mem::take(&mut self.expired);
        while self.wheel.expire(now_ns, &mut expired) {
            expired.iter().take(AHEAD).for_each(|&item| self.touch_child(Child(item)));
            for (at, &item) in expired.iter().enumerate() {
                if let Some(&later) = expired.get(at + AHEAD) {
                    self.touch_child(Child(later));
                }
                let child = Child(item);
                self.link_mut(child).is_armed = false;
                self.settle(child, now_ns);
            }
            expired.clear();
        }
        self.expired = expired;
        while let Some(&Reverse((due_ns, item))) = self.early.peek()
            && due_ns <= now_ns
        {
            self.early.pop();
            self.settle(Child(item), now_ns);
        }
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
        for slot in &old.slots {
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
            packets: slot.map_or(0, |slot| slot.packets),
            bytes: slot.map_or(0, |slot| slot.bytes),
            totals,
        }
    }

    /// What a port or group has counted.
    pub(crate) fn node_counts(&self, node: NodeId) -> NodeCounts {
        self.nodes[node.0 as usize].counts
    }

    /// The next packet of a band of a node whose gate is open.
    fn serve(&mut self, number: u32, band: usize, now_ns: u64) -> Option<Departed> {
        let node = &mut self.nodes[number as usize];
        if !node.gate.is_open(now_ns) {
            node.gate.has_waited = true;
            return None;
        }
        while let Some((child, is_in)) = self.head(number, band) {
            let departed = match child.is_node() {
                true => self.serve(child.index() as u32, band, now_ns),
                false => self.serve_subscriber(child.0, band == STRICT, now_ns),
            };
            let Some(departed) = departed else {
                self.unlist(number, band, is_in);
                self.settle(child, now_ns);
                continue;
            };
            self.touch_next(child, band);
            self.charge(number, &departed, now_ns);
            self.turn_over(number, child, is_in, departed.charged);
            return Some(departed);
        }
        None
    }

    /// The child of a node that is served next.
    fn head(&mut self, number: u32, band: usize) -> Option<(Child, In)> {
        loop {
            let node = &mut self.nodes[number as usize];
            let is_in = match band {
                STRICT => In::List,
                _ if !node.new.is_empty() => In::New,
                _ => {
                    if node.this_round.is_empty() {
                        std::mem::swap(&mut node.this_round, &mut node.next_round);
                        node.round = node.round.wrapping_add(1);
                    }
                    In::ThisRound
                }
            };
            let (list, round) = (*node.list(is_in), node.round);
            let child = Child(list.head(&mut self.children(band))?);
            if is_in != In::ThisRound {
                return Some((child, is_in));
            }
            let quantum = self.quantum(child);
            let link = self.link_mut(child);
            if link.round != round {
                (link.round, link.credit) = (round, link.credit.min(0) + quantum);
            }
            link.is_in[band] = In::ThisRound;
            if link.credit > 0 {
                return Some((child, is_in));
            }
            self.unlist(number, band, is_in);
            self.put(number, child, band, In::NextRound);
        }
    }

    /// A child has sent so many bytes.
    fn turn_over(&mut self, number: u32, child: Child, is_in: In, bytes: u32) {
        if is_in == In::List {
            let mut list = self.nodes[number as usize].strict;
            list.rotate(&mut self.children(STRICT));
            self.nodes[number as usize].strict = list;
            return;
        }
        let link = self.link_mut(child);
        link.credit -= bytes as i32;
        if link.credit <= 0 {
            self.unlist(number, OTHERS, is_in);
            self.put(number, child, OTHERS, In::NextRound);
        }
    }

    fn charge(&mut self, number: u32, departed: &Departed, now_ns: u64) {
        let Node { gate, counts, .. } = &mut self.nodes[number as usize];
        gate.charge(departed.charged, now_ns);
        counts.sent[0] += 1;
        counts.sent[1] += u64::from(departed.bytes);
        counts.waiting[0] -= 1;
        counts.waiting[1] -= u64::from(departed.bytes);
        counts.marked += u64::from(departed.is_marked);
        counts.delays[step(departed.delay_ns)] += 1;
    }

    /// Lists a subscriber that has packets, or arms its timer.
    fn list(&mut self, at: u32, now_ns: u64) {
        let slot = &mut self.slots[at as usize];
        if !slot.gate.is_open(now_ns) {
            slot.gate.has_waited = true;
            return self.arm(Child::subscriber(at));
        }
        let (parent, wants, is_in) = (slot.parent, slot.wants(now_ns), slot.link.is_in);
        for band in [STRICT, OTHERS] {
            if wants[band] && is_in[band] == In::Nothing {
                self.enter(parent, Child::subscriber(at), band);
                self.raise(parent, band, now_ns);
            }
        }
    }

    /// Lists a node at its parent if the node has children, and so on; or arms its timer.
    fn raise(&mut self, number: u32, band: usize, now_ns: u64) {
        let mut number = number;
        loop {
            let node = &mut self.nodes[number as usize];
            if node.parent == NONE || node.is_empty(band) || node.link.is_in[band] != In::Nothing {
                return;
            }
            if !node.gate.is_open(now_ns) {
                node.gate.has_waited = true;
                return self.arm(Child::node(number));
            }
            let parent = node.parent;
            self.enter(parent, Child::node(number), band);
            number = parent;
        }
    }

    /// A child becomes active at its parent.
    fn enter(&mut self, parent: u32, child: Child, band: usize) {
        if band == STRICT {
            return self.put(parent, child, band, In::List);
        }
        let (round, quantum) = (self.nodes[parent as usize].round, self.quantum(child));
        let link = self.link_mut(child);
        if link.round != round {
            (link.round, link.credit) = (round, link.credit.min(0) + quantum);
        }
        let is_in = if link.credit > 0 { In::New } else { In::NextRound };
        self.put(parent, child, band, is_in);
    }

    /// Sees to a child whose time has come, or that was found without something to send.
    fn settle(&mut self, child: Child, now_ns: u64) {
        if child.is_node() {
            for band in [STRICT, OTHERS] {
                self.raise(child.index() as u32, band, now_ns);
            }
        } else if self.slots.get(child.index()).is_some_and(|slot| slot.packets > 0) {
            self.list(child.0, now_ns);
        }
    }

    fn arm(&mut self, child: Child) {
        let due_ns = match child.is_node() {
            true => self.nodes[child.index()].gate.free_ns(),
            false => self.slots[child.index()].gate.free_ns(),
        };
        let slot = due_ns.div_ceil(SLOT_NS) as u32;
        let link = self.link_mut(child);
        if link.is_armed {
            // It waits for its former rate, which was smaller.
            if (slot.wrapping_sub(link.armed_slot) as i32) < 0 {
                self.early.push(Reverse((due_ns, child.0)));
            }
            return;
        }
        (link.is_armed, link.armed_slot) = (true, slot);
        self.wheel.arm(due_ns, child.0);
    }

    fn put(&mut self, parent: u32, child: Child, band: usize, is_in: In) {
        self.link_mut(child).is_in[band] = is_in;
        let mut list = *self.nodes[parent as usize].list(is_in);
        list.push(&mut self.children(band), child.0);
        *self.nodes[parent as usize].list(is_in) = list;
    }

    /// Removes the first child of a list.
    fn unlist(&mut self, number: u32, band: usize, is_in: In) {
        let mut list = *self.nodes[number as usize].list(is_in);
        let child = list.pop(&mut self.children(band));
        *self.nodes[number as usize].list(is_in) = list;
        if let Some(child) = child {
            self.link_mut(Child(child)).is_in[band] = In::Nothing;
        }
    }

    fn children(&mut self, band: usize) -> Children<'_> {
        Children { slots: &mut self.slots, nodes: &mut self.nodes, band }
    }

    fn link_mut(&mut self, child: Child) -> &mut Link {
        match child.is_node() {
            true => &mut self.nodes[child.index()].link,
            false => &mut self.slots[child.index()].link,
        }
    }

    fn quantum(&self, child: Child) -> i32 {
        if child.is_node() { self.nodes[child.index()].quantum } else { QUANTUM }
    }

    /// The slot of a child that is a subscriber.
    #[inline]
    pub(super) fn slot_of_child(&self, child: Child) -> Option<&Slot> {
        if child.is_node() { None } else { self.slots.get(child.index()) }
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
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
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
        (self.slots, self.free_slots, self.slot_of) = (Vec::new(), Vec::new(), Vec::new());
        self.flows = Flows::new();
        self.hosts = Hosts::new(self.hosts.shares);
        self.wheel.free_memory();
        self.expired = Vec::new();
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

    /// A subscriber goes to another group.
    #[cold]
    fn move_to(&mut self, at: u32, parent: NodeId, now_ns: u64) {
        let old = self.slots[at as usize].parent;
        let child = Child::subscriber(at);
        let bands = [(STRICT, In::List), (OTHERS, In::New), (OTHERS, In::ThisRound), (OTHERS, In::NextRound)];
        for (band, is_in) in bands {
            let mut list = *self.nodes[old as usize].list(is_in);
            let mut others = Ring::EMPTY;
            while let Some(item) = list.pop(&mut self.children(band)) {
                if Child(item) != child {
                    others.push(&mut self.children(band), item);
                }
            }
            *self.nodes[old as usize].list(is_in) = others;
        }
        let round = self.nodes[parent.0 as usize].round;
        let slot = &mut self.slots[at as usize];
        let (packets, bytes) = (slot.packets, slot.bytes);
        let Link { is_armed, armed_slot, .. } = slot.link;
        slot.link = Link { is_armed, armed_slot, ..Link::new(round) };
        self.count_waiting(at, -i64::from(packets), -(bytes as i32));
        self.slots[at as usize].parent = parent.0;
        self.count_waiting(at, i64::from(packets), bytes as i32);
        self.settle(child, now_ns);
    }

    pub(super) fn count_waiting(&mut self, at: u32, packets: i64, bytes: i32) {
        let mut node = self.slots[at as usize].parent;
        while let Some(known) = self.nodes.get_mut(node as usize) {
            let [all, all_bytes] = &mut known.counts.waiting;
            *all = all.wrapping_add_signed(packets);
            *all_bytes = all_bytes.wrapping_add_signed(i64::from(bytes));
            node = known.parent;
        }
    }

    /// A packet of a subscriber, whose parent is the second number, was dropped.
    pub(super) fn note_lost(&mut self, (subscriber, parent): (u32, u32), payload: u32, why: Why) {
        let mut node = parent;
        while let Some(known) = self.nodes.get_mut(node as usize) {
            known.counts.dropped += 1;
            node = known.parent;
        }
        self.lost.push(Lost { payload, subscriber, why });
    }

    /// The number of packets of a subscriber has changed.
    #[inline]
    pub(super) fn note_backlog(&mut self, at: u32) {
        let slot = &self.slots[at as usize];
        let is = match slot.packets {
            0..BUSY_PACKETS => 0,
            packets => (packets.ilog2() as u8).min(BUSY as u8 - 1),
        };
        if is != slot.busy {
            self.move_busy(at, is);
        }
    }

    #[inline(never)]
    fn move_busy(&mut self, at: u32, is: u8) {
        let Slot { busy: was, busy_next: next, busy_before: before, .. } = self.slots[at as usize];
        if was != 0 {
            match before {
                NONE => self.busy[usize::from(was)] = next,
                before => self.slots[before as usize].busy_next = next,
            }
            if next != NONE {
                self.slots[next as usize].busy_before = before;
            }
        }
        let mut first = NONE;
        if is != 0 {
            first = std::mem::replace(&mut self.busy[usize::from(is)], at);
            if first != NONE {
                self.slots[first as usize].busy_before = at;
            }
        }
        let slot = &mut self.slots[at as usize];
        (slot.busy, slot.busy_next, slot.busy_before) = (is, first, NONE);
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

    /// One of the subscribers with the most packets, within a factor of two.
    fn busiest(&self) -> Option<u32> {
        self.busy.iter().rev().copied().find(|&at| at != NONE)
    }
}

fn quantum(bits_per_s: u64) -> i32 {
    let bytes = u128::from(bits_per_s) * u128::from(GROUP_ROUND_NS) / 8_000_000_000;
    (bytes as u64).clamp(QUANTUM as u64, MOST_QUANTUM) as i32
}
