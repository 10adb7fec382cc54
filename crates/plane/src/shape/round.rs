//! Levels and their rounds: which child of a port or group is served next.
//!
//! ```text
//! node   strict: turn by turn | new: first | this round | next round       children: groups, subscribers
//! ```
//! Strict packets have a list of their own. Others share by deficit round robin, see `scheduler.rs`. A list may hold children that have
//! nothing to send any more: they are removed when their turn comes.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use weir_memory::LargeVec;

use super::gate::Gate;
use super::ring::{Links, Ring};
use super::scheduler::{Departed, NodeId, Shaper};
use super::subscriber::{STEPS, Slot, step};
use super::wheel::{NONE, SLOT_NS};

/// Bytes of a subscriber in a round.
const QUANTUM: i32 = 1600;
/// Bytes of a group in a round: what its rate sends in this time, but no less than a subscriber has, ns.
const GROUP_ROUND_NS: u64 = 50_000;
const MOST_QUANTUM: u64 = 1 << 20;
pub(super) const STRICT: usize = 0;
const OTHERS: usize = 1;

/// A port, a group or a subscriber's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child(pub(super) u32);

impl Child {
    const NODE: u32 = 1 << 31;

    pub(super) fn subscriber(slot: u32) -> Child {
        Child(slot)
    }

    pub(super) fn node(number: u32) -> Child {
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

    #[inline]
    pub(super) fn number(self) -> u32 {
        self.0 & !Child::NODE
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        self.number() as usize
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
    pub(super) is_armed: bool,
    /// The slot of the wheel, modulo 2^32.
    pub(super) armed_slot: u32,
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

    /// Whether its timer expires within a slot of the wheel.
    #[inline]
    fn expires_soon(&self, now_ns: u64) -> bool {
        let in_slots = self.armed_slot.wrapping_sub((now_ns / SLOT_NS) as u32) as i32;
        self.is_armed && in_slots <= 1
    }

    pub(super) fn is_unlisted(&self) -> bool {
        self.is_in == [In::Nothing; 2]
    }
}

/// A port or a group.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) gate: Gate,
    pub(super) link: Link,
    pub(super) quantum: i32,
    pub(super) round: u32,
    pub(super) strict: Ring,
    pub(super) new: Ring,
    pub(super) this_round: Ring,
    pub(super) next_round: Ring,
    pub(super) counts: NodeCounts,
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

    pub(super) fn has_children(&self) -> bool {
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

/// Children by their links of one band.
struct Children<'a> {
    slots: &'a mut LargeVec<Slot>,
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
    pub(super) fn take_listed(&mut self, now_ns: u64) -> Option<Departed> {
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

    /// Whether nothing waits at the levels above a subscriber, and all are open.
    #[inline]
    pub(super) fn is_free(&self, at: u32, now_ns: u64) -> bool {
        let mut node = self.slots[at as usize].parent;
        while let Some(known) = self.nodes.get(node as usize) {
            if !known.gate.is_open(now_ns) || known.has_children() {
                return false;
            }
            node = known.parent;
        }
        true
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
                true => self.serve(child.number(), band, now_ns),
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

    /// The same for all levels above a subscriber.
    #[inline]
    pub(super) fn charge_above(&mut self, at: u32, departed: &Departed, now_ns: u64) {
        let mut number = self.slots[at as usize].parent;
        while number != NONE {
            self.charge(number, departed, now_ns);
            number = self.nodes[number as usize].parent;
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

    pub(super) fn count_waiting(&mut self, at: u32, packets: i64, bytes: i32) {
        let mut node = self.slots[at as usize].parent;
        while let Some(known) = self.nodes.get_mut(node as usize) {
            let [all, all_bytes] = &mut known.counts.waiting;
            *all = all.wrapping_add_signed(packets);
            *all_bytes = all_bytes.wrapping_add_signed(i64::from(bytes));
            node = known.parent;
        }
    }

    /// Lists a subscriber that has packets, or arms its timer.
    pub(super) fn list(&mut self, at: u32, now_ns: u64) {
        let slot = &mut self.slots[at as usize];
        if !slot.gate.is_open(now_ns) {
            slot.gate.has_waited = true;
            return self.arm(Child::subscriber(at));
        }
        if slot.link.expires_soon(now_ns) && !slot.has_strict {
            return;
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
    pub(super) fn settle(&mut self, child: Child, now_ns: u64) {
        if child.is_node() {
            for band in [STRICT, OTHERS] {
                self.raise(child.number(), band, now_ns);
            }
        } else if self.slots.get(child.index()).is_some_and(|slot| slot.packets > 0) {
            self.list(child.0, now_ns);
        }
    }

    /// A subscriber goes to another group.
    #[cold]
    pub(super) fn move_to(&mut self, at: u32, parent: NodeId, now_ns: u64) {
        let old = self.slots[at as usize].parent;
        let child = Child::subscriber(at);
        let bands = [(STRICT, In::List), (OTHERS, In::New), (OTHERS, In::ThisRound), (OTHERS, In::NextRound)];
        for (band, is_in) in bands {
            let mut list = *self.nodes[old as usize].list(is_in);
            let mut others = Ring::EMPTY;
            while let Some(item) = list.pop(&mut self.children(band)) {
                if Child(item) == child {
                    self.listed -= 1;
                } else {
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

    fn put(&mut self, parent: u32, child: Child, band: usize, is_in: In) {
        self.listed += 1;
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
            self.listed -= 1;
            self.link_mut(Child(child)).is_in[band] = In::Nothing;
        }
    }

    fn children(&mut self, band: usize) -> Children<'_> {
        Children { slots: &mut self.slots, nodes: &mut self.nodes, band }
    }

    pub(super) fn link_mut(&mut self, child: Child) -> &mut Link {
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
}

pub(super) fn quantum(bits_per_s: u64) -> i32 {
    let bytes = u128::from(bits_per_s) * u128::from(GROUP_ROUND_NS) / 8_000_000_000;
    (bytes as u64).clamp(QUANTUM as u64, MOST_QUANTUM) as i32
}
