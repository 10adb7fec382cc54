//! A queue like CAKE (Høiland-Jørgensen, Täht, Morton 2018): a shaper without bursts, fairness of hosts and of their flows,
//! COBALT in each flow.
//!
//! ```text
//! arrival -> 8-way set-associative hash -> flow's queue -> COBALT -> DRR++ (sparse, bulk, decaying) -> shaper -> link
//! ```
//! What is like CAKE: the shaper's clock and its overhead accounting, the hash, the three sets of flows, the quantum that is
//! divided by the number of bulk flows of the busier end, COBALT, the drop from the head of the longest queue. What is
//! not: one tin only, no ACK filter, no ingress mode, ECN where CAKE has it, hosts are counted exactly.

pub mod cobalt;
mod hosts;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_rng::Rng;

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::{Pace, Time};
use crate::{Bottleneck, ConfigError, Queue};
use cobalt::{Cobalt, Head, Times, Verdict};
use hosts::{Ends, Hosts};

/// Flows that share a hash value's set.
const WAYS: usize = 8;

/// What can be set of the CAKE-like queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Rate of the shaper, in bits/s. Without it, the rate of the link: then the shaper never waits longer than the link.
    pub rate_bits_per_s: Option<u64>,
    /// Bytes that the link adds to each packet: framing that the packet's size does not contain.
    pub overhead_bytes: u32,
    /// Smallest packet on the link, in bytes, overhead included.
    pub smallest_bytes: u32,
    /// A packet of the largest size, in bytes.
    pub mtu_bytes: u32,
    /// Queues of flows, a multiple of 8.
    pub queues: u32,
    /// COBALT's target.
    #[serde(rename = "target_s")]
    pub target: Time,
    /// COBALT's interval.
    #[serde(rename = "interval_s")]
    pub interval: Time,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rate_bits_per_s: None,
            overhead_bytes: 0,
            smallest_bytes: 0,
            mtu_bytes: 1514,
            queues: 1024,
            target: Time::from_ms(5),
            interval: Time::from_ms(100),
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.queues == 0 || !(self.queues as usize).is_multiple_of(WAYS) || self.queues > 65_536 {
            return Err(ConfigError("cake: queues must be a multiple of 8, 8 to 65536".into()));
        }
        if self.rate_bits_per_s == Some(0) {
            return Err(ConfigError("cake: rate_bits_per_s must be above 0".into()));
        }
        Ok(())
    }
}

/// Which list a flow is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Set {
    #[default]
    None,
    Sparse,
    /// Among the bulk flows for its deficit, but still counted as sparse.
    SparseWait,
    Bulk,
    Decaying,
}

#[derive(Debug)]
struct Flow<T> {
    tag: u32,
    ends: Ends,
    buffer: Buffer<T>,
    cobalt: Cobalt,
    deficit: i64,
    set: Set,
}

/// The three rotations of DRR++.
#[derive(Debug, Default)]
struct Lists {
    sparse: VecDeque<u32>,
    bulk: VecDeque<u32>,
    decaying: VecDeque<u32>,
}

/// A queue like CAKE.
#[derive(Debug)]
pub struct Cake<T> {
    config: Config,
    limit_bytes: u64,
    pace: Pace,
    times: Times,
    quantum: u64,
    next: Time,
    flows: Vec<Flow<T>>,
    lists: Lists,
    hosts: Hosts,
    salt: u64,
    rng: Rng,
    accounting: Accounting<T>,
}

impl<T> Cake<T> {
    /// An empty queue.
    pub fn new(config: Config, at: &Bottleneck) -> Cake<T> {
        let rate = config.rate_bits_per_s.unwrap_or(at.bits_per_s).max(1);
        let mtu = Pace::new(rate).slot(u64::from(config.mtu_bytes));
        let flow = |_| Flow {
            tag: 0,
            ends: Ends::default(),
            buffer: Buffer::new(),
            cobalt: Cobalt::default(),
            deficit: 0,
            set: Set::None,
        };
        Cake {
            limit_bytes: at.limit_bytes,
            pace: Pace::new(rate),
            times: Times::new(config.target, config.interval, mtu),
            quantum: (rate / 8 / 4096).clamp(300, 1514),
            next: Time::ZERO,
            flows: (0..config.queues).map(flow).collect(),
            lists: Lists::default(),
            hosts: Hosts::default(),
            salt: at.seed,
            rng: Rng::new(at.seed.wrapping_add(1)),
            accounting: Accounting::new(),
            config,
        }
    }

    /// The queue of a flow: its own one, else a free one of its set, else one that it shares.
    fn place(&mut self, packet: &Packet<T>) -> u32 {
        let mixed = Rng::new(self.salt ^ u64::from(packet.flow)).next_u64();
        let direct = ((u128::from(mixed) * self.flows.len() as u128) >> 64) as usize;
        let set = direct - direct % WAYS;
        let ways = (0..WAYS).map(|way| set + (direct + way) % WAYS);
        let used = |index: &usize| self.flows[*index].set != Set::None;
        let own = ways.clone().find(|index| used(index) && self.flows[*index].tag == packet.flow);
        let index = own.or_else(|| ways.clone().find(|index| !used(index))).unwrap_or(direct);
        let flow = &mut self.flows[index];
        if flow.set == Set::None {
            flow.tag = packet.flow;
            flow.ends = Ends::of(packet);
        }
        index as u32
    }

    /// Bytes of a flow in a round: the quantum, shared by the bulk flows of its busier end, rounded at random.
    fn share(&mut self, ends: Ends) -> i64 {
        let part = 65_535 / u64::from(self.hosts.load(ends));
        let dither = self.rng.next_u64() >> 48;
        ((self.quantum * part + dither) >> 16) as i64
    }

    fn wake(&mut self, index: u32) {
        let ends = self.flows[index as usize].ends;
        match self.flows[index as usize].set {
            Set::None | Set::Decaying => {
                self.lists.decaying.retain(|&other| other != index);
                let deficit = self.share(ends);
                let flow = &mut self.flows[index as usize];
                flow.set = Set::Sparse;
                flow.deficit = deficit;
                self.lists.sparse.push_back(index);
            }
            Set::SparseWait => {
                self.flows[index as usize].set = Set::Bulk;
                self.hosts.add(ends);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// Drops the head of the longest queue.
    fn shrink(&mut self, now: Time) {
        let bytes = |index: &u32| self.flows[*index as usize].buffer.bytes();
        let lists = self.lists.sparse.iter().chain(&self.lists.bulk);
        let longest = lists.copied().max_by_key(|index| (bytes(index), std::cmp::Reverse(*index)));
        let Some(flow) = longest.map(|index| &mut self.flows[index as usize]) else {
            return;
        };
        flow.cobalt.overflowed(&self.times, now);
        if let Some(packet) = flow.buffer.pop() {
            self.accounting.remove(packet, Reason::Evicted);
        }
    }

    /// The flow at the head of the rotation that is served next.
    fn head(&self) -> Option<(Set, u32)> {
        let Lists { sparse, bulk, decaying } = &self.lists;
        let first = |list: &VecDeque<u32>| list.front().copied();
        first(sparse)
            .map(|index| (Set::Sparse, index))
            .or_else(|| first(bulk).map(|index| (Set::Bulk, index)))
            .or_else(|| first(decaying).map(|index| (Set::Decaying, index)))
    }

    fn list(&mut self, set: Set) -> &mut VecDeque<u32> {
        match set {
            Set::Sparse => &mut self.lists.sparse,
            Set::Decaying => &mut self.lists.decaying,
            Set::None | Set::SparseWait | Set::Bulk => &mut self.lists.bulk,
        }
    }

    /// A flow without credit waits behind the bulk flows.
    fn recharge(&mut self, list: Set, index: u32) {
        let flow = &mut self.flows[index as usize];
        if flow.set == Set::Sparse {
            if flow.buffer.is_empty() {
                flow.set = Set::SparseWait;
            } else {
                flow.set = Set::Bulk;
                self.hosts.add(flow.ends);
            }
        }
        let ends = self.flows[index as usize].ends;
        let share = self.share(ends);
        self.flows[index as usize].deficit += share;
        self.list(list).pop_front();
        self.lists.bulk.push_back(index);
    }

    /// A flow that was found empty leaves the rotation when its AQM has come to rest.
    fn retire(&mut self, list: Set, index: u32, now: Time) {
        self.list(list).pop_front();
        let flow = &mut self.flows[index as usize];
        flow.cobalt.emptied(&self.times, now);
        if flow.set == Set::Bulk {
            self.hosts.remove(flow.ends);
        }
        if flow.cobalt.rests(now) {
            flow.set = Set::None;
        } else {
            flow.set = Set::Decaying;
            self.lists.decaying.push_back(index);
        }
    }

    /// The next packet of a flow that COBALT lets pass; the last one always passes.
    fn take_of(&mut self, index: u32, now: Time) -> Option<Packet<T>> {
        let flow = &mut self.flows[index as usize];
        loop {
            let mut packet = flow.buffer.pop()?;
            let head = Head { sojourn: now - packet.arrival, is_ect: packet.ecn.capable() };
            let rng = &mut self.rng;
            let reason = match flow.cobalt.judge(head, &self.times, now, || rng.unit()) {
                Verdict::DropSojourn => Reason::Sojourn,
                Verdict::DropBlue { is_marked } => {
                    if is_marked {
                        self.accounting.mark(&mut packet);
                    }
                    Reason::Blue
                }
                Verdict::Mark => {
                    self.accounting.mark(&mut packet);
                    return Some(packet);
                }
                Verdict::Keep => return Some(packet),
            };
            if flow.buffer.is_empty() {
                return Some(packet);
            }
            self.accounting.remove(packet, reason);
        }
    }

    /// The bytes of a packet as the link counts them.
    fn on_link(&self, bytes: u32) -> u64 {
        u64::from(bytes.saturating_add(self.config.overhead_bytes).max(self.config.smallest_bytes))
    }
}

impl<T> Queue<T> for Cake<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        let bytes = packet.bytes;
        self.accounting.offered(bytes);
        if u64::from(bytes) > self.limit_bytes {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        if self.accounting.backlog.packets == 0 {
            // no credit from idle times
            self.next = self.next.max(now);
        }
        let index = self.place(&packet);
        self.flows[index as usize].buffer.push(packet);
        self.accounting.queued(bytes);
        self.wake(index);
        while self.accounting.backlog.bytes > self.limit_bytes {
            self.shrink(now);
        }
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        if self.accounting.backlog.packets == 0 || now < self.next {
            return None;
        }
        // decaying flows stay in the rotation while they are empty: each is looked at once
        let mut looked_at = self.flows.len() * 2;
        while let Some((list, index)) = self.head() {
            if self.flows[index as usize].deficit <= 0 {
                self.recharge(list, index);
                continue;
            }
            if let Some(packet) = self.take_of(index, now) {
                self.flows[index as usize].deficit -= self.on_link(packet.bytes) as i64;
                let slot = self.pace.slot(self.on_link(packet.bytes));
                self.next += slot;
                self.accounting.taken(packet.bytes);
                return Some(packet);
            }
            self.retire(list, index, now);
            looked_at = looked_at.checked_sub(1)?;
        }
        None
    }

    fn due(&self, now: Time) -> Option<Time> {
        (self.accounting.backlog.packets > 0).then(|| now.max(self.next))
    }

    fn accounting(&self) -> &Accounting<T> {
        &self.accounting
    }

    fn accounting_mut(&mut self) -> &mut Accounting<T> {
        &mut self.accounting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32, source: u32) -> Packet<u32> {
        Packet { source, destination: flow, ..Packet::new(1000, flow, source) }
    }

    /// Keeps 7 flows of host 0 and one of host 1 busy for 2000 packets of a link of 100 Mbit/s.
    fn packets_of_host_1(config: Config) -> usize {
        let mut queue =
            Cake::new(config, &Bottleneck { limit_bytes: 1 << 20, bits_per_s: 100_000_000, seed: 5 });
        let mut now = Time::ZERO;
        let mut taken = Vec::new();
        while taken.len() < 2000 {
            for flow in 0..8 {
                queue.offer(packet(flow, u32::from(flow == 7)), now);
            }
            for _ in 0..8 {
                now = now.max(queue.due(now).unwrap_or(now));
                taken.extend(queue.take(now));
            }
            queue.dropped().clear();
        }
        taken.iter().skip(500).filter(|packet| packet.payload == 1).count()
    }

    #[test]
    fn hosts_share_before_their_flows_do() {
        let host_1 = packets_of_host_1(Config { target: Time::from_s(9), ..Config::default() });
        assert!(host_1 <= 250, "offered an eighth, taken {host_1} of 1500");
        // all flows are always backlogged: a half for each host
        let mut queue =
            Cake::new(Config::default(), &Bottleneck { limit_bytes: 1 << 24, bits_per_s: 1 << 30, seed: 5 });
        for i in 0..8000 {
            queue.offer(packet(i % 8, u32::from(i % 8 == 7)), Time::ZERO);
        }
        let mut now = Time::ZERO;
        let mut next = || {
            now = queue.due(now).unwrap_or(now);
            queue.take(Time::from_us(1).min(now).max(now))
        };
        let taken: Vec<u32> = (0..1600).filter_map(|_| next()).map(|packet| packet.payload).collect();
        let host_1 = taken.iter().filter(|&&host| host == 1).count();
        assert!((700..=900).contains(&host_1), "{host_1} of {}", taken.len());
    }

    #[test]
    fn the_shaper_counts_overhead_and_has_no_burst() {
        let config = Config { rate_bits_per_s: Some(8_000_000), overhead_bytes: 24, ..Config::default() };
        let mut queue = Cake::new(config, &Bottleneck { limit_bytes: 1 << 20, bits_per_s: 1 << 30, seed: 0 });
        let start = Time::from_s(5);
        for _ in 0..4 {
            queue.offer(packet(0, 0), start);
        }
        let mut departures = Vec::new();
        while let Some(due) = queue.due(start) {
            assert!(due == Time::ZERO || queue.take(due - Time::from_ps(1)).is_none(), "before its time");
            queue.take(due);
            departures.push((due - start).ns() / 1000);
        }
        assert_eq!(departures, [0, 1024, 2048, 3072]);
    }

    #[test]
    fn slow_links_have_longer_targets() {
        let times = |mtu_ms| Times::new(Time::from_ms(5), Time::from_ms(100), Time::from_ms(mtu_ms));
        assert_eq!((times(1).target, times(1).interval), (Time::from_ms(5), Time::from_ms(100)));
        assert_eq!((times(12).target, times(12).interval), (Time::from_ms(18), Time::from_ms(113)));
        assert_eq!((times(200).target, times(200).interval), (Time::from_ms(300), Time::from_ms(600)));
    }
}
