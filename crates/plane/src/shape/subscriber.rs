//! A subscriber that has packets, or had some until recently: its rate, classes and flows.
//!
//! ```text
//! strict class, within its limit   > first
//! other classes, strict beyond it  > deficit round robin by weight
//! hosts of a class, if they share  > see `hosts.rs`
//! flows of a class                 > new ones first, deficit round robin (RFC 8290); COBALT at the head of each
//! ```
//! An idle subscriber has no slot. A flow that is empty keeps its place as long as its AQM remembers something.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use weir_memory::prefetch;
use weir_queue::Time as AqmTime;
use weir_queue::cake::cobalt::{Head, Times, Verdict};

use super::flows::{Flow, Flows, Listed, Waiting};
use super::gate::Gate;
use super::hosts::{HostShares, Lists};
use super::ring::Links;
use super::round::Link;
use super::scheduler::{Departed, Offered, Plan, Shaper, Why};
use super::wheel::NONE;

/// Classes of a subscriber; the first one is strict.
pub(crate) const CLASSES: usize = 4;
/// The class of best effort.
const USUAL: usize = CLASSES - 1;
/// Most flow queues of a subscriber. The first four of them are for flows that found no place, one for each class.
const PLACES: usize = 32;
/// Places that a flow may have.
const WAYS: usize = 8;
/// Bytes of a flow, and of a class with weight 1, in a round.
const QUANTUM: i32 = 1600;
/// The least target of AQMs, ns.
const TARGET_NS: u64 = 5_000_000;
/// Bytes of a full frame, for the targets of AQMs.
const FULL: u32 = 1514;
/// Steps of delay.
pub(crate) const STEPS: usize = 16;
/// The first step ends at 2^16 ns, each other one at twice the one before.
const FIRST_STEP_BITS: u32 = 16;
/// Packets of a flow that are dropped at once when there is no room.
const BATCH: u16 = 16;
/// Bits of a flow's number in the table of its subscriber; the others are of its hash.
const FLOW_BITS: u32 = 24;
const NUMBER: u32 = (1 << FLOW_BITS) - 1;

/// What has lists of flows.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// A class of the subscriber in this slot.
    Class(u32, usize),
    Host(u32),
}

/// A class of a subscriber.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class {
    /// Of its flows, or of hosts where these share.
    pub(super) lists: Lists,
    credit: i32,
    packets: u16,
}

impl Class {
    const EMPTY: Class = Class { lists: Lists::EMPTY, credit: 0, packets: 0 };
}

/// What has happened to the packets of a subscriber that had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// Time during which packets waited for the subscriber's own rate, ns.
    pub(crate) by_plan_ns: u64,
    /// Time during which they waited for the rate of a group or port, or for their turn there, ns.
    pub(crate) by_parent_ns: u64,
    /// Packets by their delay: the first step ends at 65.536 us, each other one at twice the one before; the last has no end.
    pub(crate) delays: [u32; STEPS],
    /// Packets that left with the mark of congestion.
    pub(crate) marked: u32,
    /// Packets that were dropped by AQM, and because there was no room.
    pub(crate) dropped: [u32; 2],
}

impl Totals {
    pub(super) fn add(&mut self, other: &Totals) {
        self.by_plan_ns += other.by_plan_ns;
        self.by_parent_ns += other.by_parent_ns;
        self.marked += other.marked;
        self.delays.iter_mut().zip(&other.delays).for_each(|(sum, more)| *sum += more);
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(sum, more)| *sum += more);
    }
}

/// A subscriber that has packets.
///
/// The first two lines have all that is asked for while its packets are of one flow, of the usual class. An odd number of lines
/// spreads slots over all sets of the caches.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Slot {
    // The first line: a packet that passes at once or begins to wait, and a timer that expires.
    pub(super) gate: Gate,
    pub(super) link: Link,
    pub(super) parent: u32,
    /// The flow of the last packet that came, as in `places`; `NONE`: it shares a queue, or was closed.
    recent: u32,
    pub(super) packets: u16,
    pub(super) overhead: u8,
    turn: u8,
    pub(super) busy: u8,
    /// Packets of the strict class wait.
    pub(super) has_strict: bool,
    /// The recent flow has no packets and nothing to remember: it is kept for the next packet.
    recent_rests: bool,
    // The second line: a packet that leaves after it had to wait.
    pub(super) subscriber: u32,
    pub(super) bytes: u32,
    /// Since when its packets wait without one that left, ns.
    pub(super) since_ns: u64,
    /// As in [`Totals`].
    by_plan_ns: u64,
    by_parent_ns: u64,
    usual: Class,
    /// As in [`Totals`], beside `more_delays`.
    delays: [u8; STEPS],
    // The third line: packets of other classes, many packets, losses.
    others: [Class; USUAL],
    pub(super) busy_next: u32,
    pub(super) busy_before: u32,
    dropped: [u32; 2],
    // All else: flows that come and go, strict packets and marks.
    more_delays: [u32; STEPS],
    places: [u32; PLACES],
    pub(super) strict: Gate,
    marked: u32,
}

const LINE: usize = 64;
const _: () = assert!(std::mem::offset_of!(Slot, subscriber) == LINE);
const _: () = assert!(std::mem::offset_of!(Slot, others) == 2 * LINE);
const _: () = assert!(std::mem::offset_of!(Slot, more_delays) == 3 * LINE);
const _: () = assert!(std::mem::offset_of!(Slot, places) == 4 * LINE);
const _: () = assert!(size_of::<Slot>() == 7 * LINE);

impl Slot {
    pub(super) fn new(subscriber: u32, plan: &Plan, round: u32) -> Slot {
        Slot {
            gate: Gate::new(plan.bits_per_s),
            link: Link::new(round),
            parent: plan.parent.0,
            recent: NONE,
            packets: 0,
            overhead: plan.overhead,
            turn: 1,
            busy: 0,
            has_strict: false,
            recent_rests: false,
            subscriber,
            bytes: 0,
            since_ns: 0,
            by_plan_ns: 0,
            by_parent_ns: 0,
            usual: Class::EMPTY,
            delays: [0; STEPS],
            others: [Class::EMPTY; USUAL],
            busy_next: NONE,
            busy_before: NONE,
            dropped: [0; 2],
            more_delays: [0; STEPS],
            places: [NONE; PLACES],
            strict: Gate::new(plan.strict_bits_per_s),
            marked: 0,
        }
    }

    /// What it has counted.
    pub(super) fn totals(&self) -> Totals {
        let Slot { by_plan_ns, by_parent_ns, more_delays: mut delays, marked, dropped, .. } = *self;
        delays.iter_mut().zip(self.delays).for_each(|(sum, more)| *sum += u32::from(more));
        Totals { by_plan_ns, by_parent_ns, delays, marked, dropped }
    }

    #[inline]
    fn count_delay(&mut self, delay_ns: u64) {
        let step = step(delay_ns);
        let count = &mut self.delays[step];
        match count.checked_add(1) {
            Some(more) => *count = more,
            None => self.more_delays[step] += u32::from(std::mem::replace(count, 0)) + 1,
        }
    }

    #[inline]
    fn class(&self, class: usize) -> &Class {
        self.others.get(class).unwrap_or(&self.usual)
    }

    #[inline]
    fn class_mut(&mut self, class: usize) -> &mut Class {
        self.others.get_mut(class).unwrap_or(&mut self.usual)
    }

    /// Prefetches what [`Shaper::offer`] asks for first.
    #[inline]
    pub(super) fn touch(&self) {
        prefetch(self);
    }

    /// Prefetches what a packet needs that leaves after it had to wait, beside that.
    #[inline]
    pub(super) fn touch_rest(&self) {
        prefetch(&self.subscriber);
    }

    /// The recent flow.
    #[inline]
    pub(super) fn recent(&self) -> Option<u32> {
        (self.recent != NONE).then_some(self.recent & NUMBER)
    }

    /// Whether it has packets of its strict class within the limit of that, and others.
    #[inline]
    pub(super) fn wants(&self, now_ns: u64) -> [bool; 2] {
        if !self.has_strict {
            return [false, self.packets > 0];
        }
        let strict = self.class(0).packets;
        let is_first = self.strict.is_open(now_ns);
        [is_first, !is_first || self.packets > strict]
    }

    /// Times of its AQMs.
    fn times(&self) -> Times {
        let mtu = AqmTime::from_ns(self.gate.time_ns(FULL + u32::from(self.overhead)));
        Times::new(AqmTime::from_ns(TARGET_NS), AqmTime::from_ms(100), mtu)
    }

    /// Whether no flow needs to be remembered.
    pub(super) fn open_flows(&self) -> impl Iterator<Item = u32> {
        self.places.iter().filter(|&&entry| entry != NONE).map(|entry| entry & NUMBER)
    }
}

impl Links for Flows {
    #[inline]
    fn next(&mut self, item: u32) -> &mut u32 {
        &mut self.flow_mut(item).next
    }
}

impl Shaper {
    fn aqm_time(&self, now_ns: u64) -> AqmTime {
        AqmTime::from_ns(now_ns - self.began_ns)
    }

    /// Puts a packet into its flow; there is room for it.
    pub(super) fn enqueue(&mut self, at: u32, packet: &Offered, payload: u32, now_ns: u64) {
        let class = packet.class.min(CLASSES as u8 - 1);
        let flow = self.place(at, packet, class);
        let (slot, flows) = (&mut self.slots[at as usize], &mut self.flows);
        flows.push(
            flow,
            Waiting {
                next: NONE,
                payload,
                arrival_ns: now_ns,
                bytes: packet.bytes as u16,
                note: packet.note,
                is_ect: packet.is_ect,
            },
        );
        slot.has_strict |= class == 0;
        let own = slot.class_mut(usize::from(class));
        own.packets += 1;
        let known = flows.flow_mut(flow);
        if known.listed == Listed::No {
            (known.listed, known.credit) = (Listed::New, QUANTUM);
            match self.hosts.shares {
                HostShares::Ignored => own.lists.new.push(flows, flow),
                HostShares::Fair => {
                    let host = self.hosts.host_mut(known.host());
                    host.lists.new.push(flows, flow);
                    if host.listed == Listed::No {
                        (host.listed, host.credit) = (Listed::New, QUANTUM);
                        let number = flows.flow(flow).host();
                        own.lists.new.push(&mut self.hosts, number);
                    }
                }
            }
        }
        if slot.packets == 0 {
            (slot.gate.has_waited, slot.since_ns) = (false, now_ns);
        }
        slot.packets += 1;
        slot.bytes += packet.bytes;
        self.note_backlog(at);
    }

    /// The hash of a flow in the table of its subscriber, and the place behind those of classes from which on it is sought.
    #[inline]
    fn start(&self, hash: u32, class: u8) -> (u32, usize) {
        let mixed = (hash ^ self.salt ^ u32::from(class) << 30).wrapping_mul(0x9e37_79b1);
        (mixed, ((u64::from(mixed) * (PLACES - CLASSES) as u64) >> 32) as usize)
    }

    /// Prefetches the places that a packet's flow may have.
    #[inline]
    pub(super) fn touch_places_of(&self, slot: &Slot, packet: &Offered) {
        let (_, start) = self.start(packet.flow, packet.class);
        prefetch(&slot.places[CLASSES + start]);
        prefetch(&slot.places[CLASSES + (start + WAYS - 1) % (PLACES - CLASSES)]);
    }

    /// The queue that a packet's flow seems to have.
    #[inline]
    pub(super) fn known_flow(&self, at: u32, packet: &Offered) -> Option<u32> {
        let (mixed, start) = self.start(packet.flow, packet.class);
        let slot = &self.slots[at as usize];
        let places = (0..WAYS).map(|way| slot.places[CLASSES + (start + way) % (PLACES - CLASSES)]);
        places.into_iter().find(|&entry| has_tag(entry, mixed)).map(|entry| entry & NUMBER)
    }

    /// The same, if it is that of the packet before.
    #[inline]
    pub(super) fn recent_flow(&self, slot: &Slot, packet: &Offered) -> Option<u32> {
        let (mixed, _) = self.start(packet.flow, packet.class);
        has_tag(slot.recent, mixed).then_some(slot.recent & NUMBER)
    }

    /// The queue of a flow of a subscriber.
    #[inline]
    fn place(&mut self, at: u32, packet: &Offered, class: u8) -> u32 {
        let (mixed, start) = self.start(packet.flow, class);
        let slot = &mut self.slots[at as usize];
        if has_tag(slot.recent, mixed) {
            let number = slot.recent & NUMBER;
            let known = self.flows.flow(number);
            if known.hash == packet.flow && known.class == class {
                slot.recent_rests = false;
                return number;
            }
        }
        self.place_of_another(at, &Offered { class, ..*packet }, mixed, start)
    }

    /// The queue of a flow that is not the recent one.
    #[inline(never)]
    fn place_of_another(&mut self, at: u32, packet: &Offered, mixed: u32, start: usize) -> u32 {
        self.leave_recent(at);
        let Offered { flow: hash, class, .. } = *packet;
        let tag = mixed & !NUMBER;
        let (slot, flows) = (&mut self.slots[at as usize], &mut self.flows);
        let (mut free, mut resting) = (None, None);
        for way in 0..WAYS {
            let place = CLASSES + (start + way) % (PLACES - CLASSES);
            let entry = slot.places[place];
            if entry == NONE {
                free = free.or(Some(place));
                continue;
            }
            let number = entry & NUMBER;
            if has_tag(entry, mixed) {
                let known = flows.flow(number);
                if known.hash == hash && known.class == class {
                    slot.recent = entry;
                    return number;
                }
            }
            if free.is_none() && resting.is_none() && flows.flow(number).listed == Listed::No {
                resting = Some((place, number));
            }
        }
        // All of its places have others: it shares a queue with the flows of its class for which that is so as well, and stays there
        // as long as that queue may have packets of it.
        let shared = slot.places[usize::from(class)];
        let bit = 1 << ((mixed >> 8) % u32::BITS);
        if shared != NONE {
            let number = shared & NUMBER;
            let known = flows.flow_mut(number);
            known.hash = if known.packets == 0 { 0 } else { known.hash };
            if known.hash & bit != 0 || free.is_none() && resting.is_none() {
                known.hash |= bit;
                return number;
            }
        }
        if let (None, Some((place, number))) = (free, resting) {
            slot.places[place] = NONE;
            self.close_flow(number);
            free = Some(place);
        }
        // Those that share a queue are one host.
        let (place, hash, host) =
            free.map_or((usize::from(class), bit, 0), |place| (place, hash, packet.host));
        let host = self.host_for(at, host, class);
        let number = self.flows.open(hash, class, place as u8, host);
        let slot = &mut self.slots[at as usize];
        slot.places[place] = number | tag;
        if place >= CLASSES {
            slot.recent = number | tag;
        }
        number
    }

    /// The next packet is of another flow than the recent one.
    fn leave_recent(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let recent = std::mem::replace(&mut slot.recent, NONE);
        if std::mem::take(&mut slot.recent_rests) {
            self.free_place(at, recent & NUMBER);
        }
    }

    /// Frees a flow that has no packets and is in no list, and its place.
    fn free_place(&mut self, at: u32, flow: u32) {
        let place = usize::from(self.flows.flow(flow).place);
        self.slots[at as usize].places[place] = NONE;
        self.close_flow(flow);
    }

    /// The host of a new flow of a subscriber.
    fn host_for(&mut self, at: u32, hash: u32, class: u8) -> u32 {
        if self.hosts.shares == HostShares::Ignored {
            return NONE;
        }
        let known = self.slots[at as usize].open_flows().map(|flow| self.flows.flow(flow).host());
        let is_it = |&host: &u32| {
            let host = self.hosts.host(host);
            (host.hash, host.class) == (hash, class)
        };
        let host = known.into_iter().find(is_it);
        let host = host.unwrap_or_else(|| self.hosts.open(hash, class));
        self.hosts.add_flow(host);
        host
    }

    /// Frees a flow that has no packets, is in no list and has no place.
    fn close_flow(&mut self, flow: u32) {
        if self.hosts.shares == HostShares::Fair {
            self.hosts.remove_flow(self.flows.flow(flow).host());
        }
        self.flows.close(flow);
    }

    /// A flow of a subscriber that has packets, most often.
    #[inline]
    pub(super) fn first_flow(&self, slot: &Slot) -> Option<u32> {
        let others = || slot.others.iter().find_map(|class| class.lists.any());
        let first = slot.usual.lists.any().or_else(others)?;
        match self.hosts.shares {
            HostShares::Ignored => Some(first),
            HostShares::Fair => self.hosts.host(first).lists.any(),
        }
    }

    /// The next packet of a subscriber whose gate is open, of its strict class within the limit, or of another.
    pub(super) fn serve_subscriber(&mut self, at: u32, is_strict: bool, now_ns: u64) -> Option<Departed> {
        let slot = &self.slots[at as usize];
        let wants = slot.gate.is_open(now_ns).then(|| slot.wants(now_ns))?;
        if is_strict {
            return if wants[0] { self.serve_class(at, 0, now_ns) } else { None };
        }
        while self.slots[at as usize].wants(now_ns)[1] {
            let class = self.next_class(at, wants[0]);
            if let Some(departed) = self.serve_class(at, class, now_ns) {
                self.slots[at as usize].class_mut(class).credit -= departed.charged as i32;
                return Some(departed);
            }
        }
        None
    }

    /// The class whose turn it is among those with packets. The strict one takes part beyond its limit only.
    fn next_class(&mut self, at: u32, strict_is_first: bool) -> usize {
        let weights = self.weights;
        let slot = &mut self.slots[at as usize];
        if slot.usual.packets == slot.packets && slot.usual.credit > 0 {
            return USUAL;
        }
        loop {
            let turn = usize::from(slot.turn);
            let is_alone = slot.class(turn).packets == slot.packets;
            let class = slot.class_mut(turn);
            let takes_part = class.packets > 0 && !(turn == 0 && strict_is_first);
            if takes_part && class.credit > 0 {
                return turn;
            }
            let weight = QUANTUM * i32::from(weights[turn]);
            if takes_part && is_alone {
                class.credit = (class.credit + weight).min(weight);
                continue;
            }
            if !takes_part {
                class.credit = class.credit.min(0);
            }
            slot.turn = (slot.turn + 1) % CLASSES as u8;
            let next = usize::from(slot.turn);
            let weight = QUANTUM * i32::from(weights[next]);
            let class = slot.class_mut(next);
            class.credit = (class.credit + weight).min(weight);
        }
    }

    fn serve_class(&mut self, at: u32, class: usize, now_ns: u64) -> Option<Departed> {
        match self.hosts.shares {
            HostShares::Ignored => self.serve_flows(at, class, None, now_ns),
            HostShares::Fair => self.serve_hosts(at, class, now_ns),
        }
    }

    /// As [`Shaper::serve_flows`], host by host.
    fn serve_hosts(&mut self, at: u32, class: usize, now_ns: u64) -> Option<Departed> {
        loop {
            let (lists, hosts) = (&mut self.slots[at as usize].class_mut(class).lists, &mut self.hosts);
            let (host, is_new) = lists.head(hosts)?;
            let known = hosts.host_mut(host);
            if known.credit <= 0 {
                known.credit += QUANTUM;
                known.listed = Listed::Old;
                lists.make_old(hosts);
                continue;
            }
            if let Some(departed) = self.serve_flows(at, class, Some(host), now_ns) {
                self.hosts.host_mut(host).credit -= departed.charged as i32;
                return Some(departed);
            }
            let (lists, hosts) = (&mut self.slots[at as usize].class_mut(class).lists, &mut self.hosts);
            if is_new && !lists.old.is_empty() {
                hosts.host_mut(host).listed = Listed::Old;
                lists.make_old(hosts);
            } else {
                lists.pop(hosts);
                hosts.unlist(host);
            }
        }
    }

    /// The next packet of a class of a subscriber, from the flows that are listed there or at its host.
    fn serve_flows(&mut self, at: u32, class: usize, host: Option<u32>, now_ns: u64) -> Option<Departed> {
        let owner = host.map_or(Owner::Class(at, class), Owner::Host);
        loop {
            let mut lists = *self.lists(owner);
            let (flow, is_new) = lists.head(&mut self.flows)?;
            let known = self.flows.flow_mut(flow);
            if known.credit <= 0 {
                known.credit += QUANTUM;
                known.listed = Listed::Old;
                lists.make_old(&mut self.flows);
                *self.lists(owner) = lists;
                continue;
            }
            if let Some((packet, is_marked)) = self.take_of(at, flow, now_ns) {
                self.flows.flow_mut(flow).credit -= i32::from(packet.bytes);
                return Some(self.depart(at, class, &packet, is_marked, now_ns));
            }
            // A new flow must not be new again at once: it would starve the old ones.
            if is_new && !lists.old.is_empty() {
                self.flows.flow_mut(flow).listed = Listed::Old;
                lists.make_old(&mut self.flows);
                *self.lists(owner) = lists;
            } else {
                lists.pop(&mut self.flows);
                *self.lists(owner) = lists;
                self.end_of_flow(at, flow, now_ns);
            }
        }
    }

    #[inline]
    fn lists(&mut self, owner: Owner) -> &mut Lists {
        match owner {
            Owner::Class(at, class) => &mut self.slots[at as usize].class_mut(class).lists,
            Owner::Host(host) => &mut self.hosts.host_mut(host).lists,
        }
    }

    /// A flow without packets has been taken out of its list.
    fn end_of_flow(&mut self, at: u32, flow: u32, now_ns: u64) {
        let now = self.aqm_time(now_ns);
        let (slot, known) = (&mut self.slots[at as usize], self.flows.flow_mut(flow));
        known.listed = Listed::No;
        if !known.law.is_calm() {
            known.law.emptied(&slot.times(), now);
        }
        if !known.law.is_calm() {
            return;
        }
        if slot.recent() == Some(flow) {
            slot.recent_rests = true;
        } else {
            self.free_place(at, flow);
        }
    }

    /// The next packet of a flow that COBALT lets pass, and whether it has the mark; the last one always passes.
    fn take_of(&mut self, at: u32, flow: u32, now_ns: u64) -> Option<(Waiting, bool)> {
        let now = self.aqm_time(now_ns);
        loop {
            let packet = self.flows.pop(flow)?;
            let random = &mut self.random;
            let known = self.flows.flow_mut(flow);
            let sojourn_ns = now_ns - packet.arrival_ns;
            // The law keeps such a packet, and remembers nothing.
            if sojourn_ns <= TARGET_NS && known.law.is_calm() {
                return Some((packet, false));
            }
            let head = Head { sojourn: AqmTime::from_ns(sojourn_ns), is_ect: packet.is_ect };
            let verdict = known.law.judge(head, &self.slots[at as usize].times(), now, || unit(random));
            match verdict {
                Verdict::Keep => return Some((packet, false)),
                Verdict::Mark => return Some((packet, true)),
                Verdict::DropBlue { is_marked } if known.packets == 0 => return Some((packet, is_marked)),
                Verdict::DropSojourn if known.packets == 0 => return Some((packet, false)),
                Verdict::DropSojourn | Verdict::DropBlue { .. } => self.lose(at, flow, &packet, Why::Aqm),
            }
        }
    }

    /// A packet has been taken out of its flow, and leaves.
    fn depart(&mut self, at: u32, class: usize, packet: &Waiting, is_marked: bool, now_ns: u64) -> Departed {
        self.take_away(at, class, packet);
        let slot = &mut self.slots[at as usize];
        let bytes = u32::from(packet.bytes);
        let charged = bytes + u32::from(slot.overhead);
        let own_ns = slot.gate.free_ns().clamp(slot.since_ns, now_ns);
        slot.by_plan_ns += own_ns - slot.since_ns;
        slot.by_parent_ns += now_ns - own_ns;
        slot.since_ns = now_ns;
        slot.gate.charge(charged, now_ns);
        if class == 0 && slot.strict.has_limit() {
            slot.strict.charge(charged, now_ns);
        }
        let delay_ns = now_ns - packet.arrival_ns;
        slot.count_delay(delay_ns);
        if is_marked {
            slot.marked += 1;
        }
        Departed {
            payload: packet.payload,
            note: packet.note,
            is_marked,
            subscriber: slot.subscriber,
            bytes,
            charged,
            delay_ns,
        }
    }

    /// A packet that was taken out of its flow is dropped.
    fn lose(&mut self, at: u32, flow: u32, packet: &Waiting, why: Why) {
        let class = usize::from(self.flows.flow(flow).class);
        self.take_away(at, class, packet);
        self.count_waiting(at, -1, -i32::from(packet.bytes));
        let slot = &mut self.slots[at as usize];
        match why {
            Why::Aqm => slot.dropped[0] += 1,
            Why::Limit => slot.dropped[1] += 1,
            Why::Removed => {}
        }
        self.note_lost(at, packet.payload, why);
    }

    fn take_away(&mut self, at: u32, class: usize, packet: &Waiting) {
        let slot = &mut self.slots[at as usize];
        let own = slot.class_mut(class);
        own.packets -= 1;
        if class == 0 {
            slot.has_strict = own.packets > 0;
        }
        slot.packets -= 1;
        slot.bytes -= u32::from(packet.bytes);
        self.note_backlog(at);
    }

    /// Drops packets of the subscriber's longest flow, from its head.
    pub(super) fn shed(&mut self, at: u32, now_ns: u64) {
        let now = self.aqm_time(now_ns);
        let slot = &self.slots[at as usize];
        let times = slot.times();
        let Some(flow) = slot.open_flows().max_by_key(|&flow| self.flows.flow(flow).bytes) else { return };
        let known = self.flows.flow_mut(flow);
        known.law.overflowed(&times, now);
        for _ in 0..known.packets.div_ceil(2).min(BATCH) {
            let Some(packet) = self.flows.pop(flow) else { return };
            self.lose(at, flow, &packet, Why::Limit);
        }
    }

    /// Drops all packets of a subscriber and forgets its flows.
    pub(super) fn clear(&mut self, at: u32, mut each: impl FnMut(&mut Shaper, &Flow, &Waiting)) {
        let flows: Vec<u32> = self.slots[at as usize].open_flows().collect();
        for class in 0..CLASSES {
            let mut lists =
                std::mem::replace(&mut self.slots[at as usize].class_mut(class).lists, Lists::EMPTY);
            while self.hosts.shares == HostShares::Fair
                && let Some((host, _)) = lists.head(&mut self.hosts)
            {
                lists.pop(&mut self.hosts);
                self.hosts.host_mut(host).lists = Lists::EMPTY;
                self.hosts.unlist(host);
            }
        }
        for flow in flows {
            while let Some(packet) = self.flows.pop(flow) {
                let class = usize::from(self.flows.flow(flow).class);
                self.take_away(at, class, &packet);
                let known = self.flows.flow(flow).clone();
                each(self, &known, &packet);
            }
            self.flows.flow_mut(flow).listed = Listed::No;
            self.close_flow(flow);
        }
        let slot = &mut self.slots[at as usize];
        (slot.places, slot.recent, slot.recent_rests) = ([NONE; PLACES], NONE, false);
    }

    pub(super) fn forget(&mut self, at: u32) {
        self.clear(at, |shaper, _, packet| {
            shaper.count_waiting(at, -1, -i32::from(packet.bytes));
            shaper.note_lost(at, packet.payload, Why::Removed);
        });
    }
}

/// Whether an entry of the table of flows is of this hash, as far as it says.
#[inline]
fn has_tag(entry: u32, mixed: u32) -> bool {
    entry != NONE && (entry ^ mixed) & !NUMBER == 0
}

/// The step of a delay.
pub(super) fn step(delay_ns: u64) -> usize {
    ((u64::BITS - (delay_ns >> FIRST_STEP_BITS).leading_zeros()) as usize).min(STEPS - 1)
}

/// A random number from 0 to 1: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}
