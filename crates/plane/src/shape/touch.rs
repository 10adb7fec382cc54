//! Prefetches of the shaper: what the next packets need is on its way before their turn comes.
//!
//! ```text
//! packets that arrive   number of the slot > slot (> places of its flows) > flow > last packet   step by step for a batch
//! timers that expire    slot                                                                     some ahead
//! packets that leave    slot of the third next child > flow of the second > packet of the first
//! ```
//! Nothing here changes what the shaper does.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use weir_memory::prefetch;

use super::round::Child;
use super::scheduler::{Offered, Shaper};
use super::stage::{Shapers, Side};
use super::wheel::NONE;
use crate::batch::{PerFrame, Set};
use crate::time::Time;

/// What was prefetched of a packet's flow.
enum Touched {
    /// The packet passes at once, as far as its subscriber is concerned.
    Nothing,
    Flow(u32),
    /// The places that it may have.
    Places,
}

impl Shapers {
    /// Packets of these subscribers are to be offered soon.
    pub(crate) fn touch_slots(&self, side: Side, subscribers: impl Iterator<Item = u32> + Clone) {
        let shaper = self.side(side);
        subscribers.clone().for_each(|subscriber| shaper.touch_number(subscriber));
        subscribers.for_each(|subscriber| shaper.touch_slot(subscriber));
    }

    /// Packets of `set` are about to be offered; what [`Shapers::touch_slots`] has asked for is there.
    pub(crate) fn touch(&self, (side, now): (Side, Time), packets: &PerFrame<Offered>, set: Set) {
        let shaper = self.side(side);
        let (mut waiting, mut others) = (Set::EMPTY, Set::EMPTY);
        let mut flows = PerFrame::all(NONE);
        for i in set {
            match shaper.touch_recent(&packets[i], now.ns()) {
                Touched::Nothing => continue,
                Touched::Flow(flow) => flows[i] = flow,
                Touched::Places => others.insert(i),
            }
            waiting.insert(i);
        }
        for i in others {
            flows[i] = shaper.touch_flow(&packets[i]);
        }
        for i in waiting {
            shaper.flows.touch_last_packet(flows[i]);
        }
    }
}

impl Shaper {
    #[inline]
    fn touch_number(&self, subscriber: u32) {
        if let Some(number) = self.slot_of.get(subscriber as usize) {
            prefetch(number);
        }
    }

    #[inline]
    fn touch_slot(&self, subscriber: u32) {
        if let Some(at) = self.slot_at(subscriber) {
            self.slots[at as usize].touch();
        }
    }

    #[inline]
    fn touch_recent(&self, packet: &Offered, now_ns: u64) -> Touched {
        let Some(at) = self.slot_at(packet.subscriber) else { return Touched::Nothing };
        let slot = &self.slots[at as usize];
        if slot.packets == 0 && slot.gate.is_open(now_ns) {
            return Touched::Nothing;
        }
        slot.touch_rest();
        match self.recent_flow(slot, packet) {
            Some(flow) => {
                self.flows.touch(flow);
                Touched::Flow(flow)
            }
            None => {
                self.touch_places_of(slot, packet);
                Touched::Places
            }
        }
    }

    #[inline]
    fn touch_flow(&self, packet: &Offered) -> u32 {
        let flow = self.slot_at(packet.subscriber).and_then(|at| self.known_flow(at, packet));
        flow.inspect(|&flow| self.flows.touch(flow)).unwrap_or(NONE)
    }

    /// The timer of a child is about to expire.
    #[inline]
    pub(super) fn touch_child(&self, child: Child) {
        if !child.is_node() {
            self.slots[child.index()].touch();
            self.slots[child.index()].touch_rest();
        }
    }

    /// A child is served; those behind it in its list follow.
    #[inline]
    pub(super) fn touch_next(&self, child: Child, band: usize) {
        let after = |child: Child| Some(Child::of(self.slot_of_child(child)?.link.next(band)?));
        let Some(first) = after(child).filter(|&first| first != child) else { return };
        let flow_of = |child| self.slot_of_child(child).and_then(|slot| self.first_flow(slot));
        if let Some(flow) = flow_of(first) {
            self.flows.touch_first_packet(flow);
        }
        let Some(second) = after(first) else { return };
        if let Some(flow) = flow_of(second) {
            self.flows.touch(flow);
        }
        if let Some(third) = after(second) {
            self.touch_child(third);
        }
    }
}
