//! Timers that expire: what waited for its own rate leaves at once where nothing waits above it, as a packet does that arrives.
//!
//! ```text
//! wheel > expired > slot on its way > ready > flow on its way > packet on its way > leaves; or the subscriber is listed
//! ```
//! Strict packets must not wait behind those of subscribers that are ready, so that subscribers with some are listed at once.
//! A packet that arrives while the timer of its subscriber is about to expire waits for that: as long as no child is listed, packets of
//! others pass at once.
//!
//! Invariant: a subscriber that is ready counts as armed, so that it is there once.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Reverse;

use super::round::Child;
use super::scheduler::{Departed, Shaper};
use super::wheel::SLOT_NS;

/// Slots of timers that expire are prefetched so many ahead, and the first packets of those that are ready.
const AHEAD: usize = 8;
const PACKETS_AHEAD: usize = 4;

/// Subscribers whose timers have expired, in their order.
#[derive(Debug, Default)]
pub(super) struct Ready {
    slots: Vec<u32>,
    /// Those in front of it were served.
    next: usize,
}

impl Ready {
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.slots.len()
    }

    fn pop(&mut self) -> Option<u32> {
        let slot = self.slots.get(self.next).copied();
        match slot {
            Some(_) => self.next += 1,
            None => self.forget_served(),
        }
        slot
    }

    fn forget_served(&mut self) {
        self.slots.drain(..self.next);
        self.next = 0;
    }
}

impl Shaper {
    /// Finds those whose timers have expired.
    pub(super) fn run_timers(&mut self, now_ns: u64) {
        let mut expired = std::mem::take(&mut self.expired);
        self.ready.forget_served();
        while self.wheel.expire(now_ns, &mut expired) {
            expired.iter().take(AHEAD).for_each(|&item| self.touch_child(Child::of(item)));
            for (at, &item) in expired.iter().enumerate() {
                if let Some(&later) = expired.get(at + AHEAD) {
                    self.touch_child(Child::of(later));
                }
                self.expire(Child::of(item), now_ns);
            }
            expired.clear();
        }
        self.expired = expired;
        while let Some(&Reverse((due_ns, item))) = self.early.peek()
            && due_ns <= now_ns
        {
            self.early.pop();
            self.settle(Child::of(item), now_ns);
        }
    }

    #[inline]
    fn expire(&mut self, child: Child, now_ns: u64) {
        if let Some(slot) = self.slot_of_child(child).filter(|slot| slot.packets > 0 && !slot.has_strict) {
            self.first_flow(slot).into_iter().for_each(|flow| self.flows.touch(flow));
            self.ready.slots.push(child.number());
        } else {
            self.link_mut(child).is_armed = false;
            self.settle(child, now_ns);
        }
    }

    /// The next packet of those that are ready; those that may not send are listed, or armed.
    #[inline]
    pub(super) fn take_ready(&mut self, now_ns: u64) -> Option<Departed> {
        while let Some(at) = self.ready.pop() {
            let later = self.ready.slots.get(self.ready.next + PACKETS_AHEAD - 1);
            if let Some(flow) = later.and_then(|&later| self.first_flow(&self.slots[later as usize])) {
                self.flows.touch_first_packet(flow);
            }
            if let Some(departed) = self.serve_ready(at, now_ns) {
                return Some(departed);
            }
        }
        None
    }

    #[inline]
    fn serve_ready(&mut self, at: u32, now_ns: u64) -> Option<Departed> {
        let slot = &mut self.slots[at as usize];
        slot.link.is_armed = false;
        let may_leave = slot.gate.is_open(now_ns) && !slot.has_strict && slot.link.is_unlisted();
        if !may_leave || !self.is_free(at, now_ns) {
            self.settle(Child::subscriber(at), now_ns);
            return None;
        }
        let departed = self.serve_subscriber(at, false, now_ns);
        departed.iter().for_each(|departed| self.charge_above(at, departed, now_ns));
        self.settle(Child::subscriber(at), now_ns);
        departed
    }

    /// Arms the timer of a child whose gate is closed.
    pub(super) fn arm(&mut self, child: Child) {
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
}
