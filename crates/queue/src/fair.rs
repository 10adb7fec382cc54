//! Flow queueing (RFC 8290): a queue per hash of a flow, deficit round robin, and flows that are new before old ones.
//!
//! What drops within a flow's queue is its own AQM: CoDel for FQ-CoDel, PIE for FQ-PIE.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_rng::Rng;

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, ConfigError, Queue, codel, pie};

/// What can be set of the scheduler; the defaults are those of RFC 8290, section 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Queues that flows are hashed into.
    pub queues: u32,
    /// Bytes of a flow in a round.
    pub quantum_bytes: u32,
    /// Limit in packets beside the one in bytes; 0: none.
    pub limit_packets: u64,
    /// Packets that are dropped at once from the largest queue, at most.
    pub batch: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { queues: 1024, quantum_bytes: 1514, limit_packets: 10_240, batch: 64 }
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        if self.queues == 0 || self.queues > 65_536 {
            return Err(ConfigError("flow queues: queues must be 1 to 65536".into()));
        }
        if self.quantum_bytes == 0 || self.batch == 0 {
            return Err(ConfigError("flow queues: quantum_bytes and batch must be above 0".into()));
        }
        Ok(())
    }
}

/// What can be set of FQ-CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelConfig {
    /// The scheduler.
    pub fair: Config,
    /// Each queue.
    pub codel: codel::Config,
}

impl FqCodelConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.fair.check()
    }
}

/// What can be set of FQ-PIE.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqPieConfig {
    /// The scheduler.
    pub fair: Config,
    /// Each queue; it does not sleep by default, because its share of the limit is not known.
    pub pie: pie::Config,
}

impl Default for FqPieConfig {
    fn default() -> FqPieConfig {
        FqPieConfig {
            fair: Config::default(),
            pie: pie::Config { wake_share: 0.0, ..pie::Config::default() },
        }
    }
}

impl FqPieConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.fair.check()?;
        self.pie.check()
    }
}

/// What an arrival gets from the AQM of its flow.
type Verdict = pie::Verdict;

/// The AQM of one flow's queue.
trait FlowAqm {
    /// Judges an arrival.
    fn offer<T>(&mut self, packet: &Packet<T>, buffer: &Buffer<T>, now: Time) -> Verdict;
    /// The next packet; what it drops is in the accounting.
    fn take<T>(
        &mut self,
        buffer: &mut Buffer<T>,
        accounting: &mut Accounting<T>,
        now: Time,
    ) -> Option<Packet<T>>;
}

impl FlowAqm for codel::Law {
    fn offer<T>(&mut self, packet: &Packet<T>, _buffer: &Buffer<T>, _now: Time) -> Verdict {
        self.arrived(packet.bytes);
        Verdict::Accept
    }

    fn take<T>(
        &mut self,
        buffer: &mut Buffer<T>,
        accounting: &mut Accounting<T>,
        now: Time,
    ) -> Option<Packet<T>> {
        codel::Law::take(self, buffer, accounting, now)
    }
}

impl FlowAqm for pie::Controller {
    fn offer<T>(&mut self, packet: &Packet<T>, buffer: &Buffer<T>, now: Time) -> Verdict {
        self.advance(buffer.bytes(), now);
        self.arrived(packet.ecn.capable(), buffer.bytes())
    }

    fn take<T>(
        &mut self,
        buffer: &mut Buffer<T>,
        _ledger: &mut Accounting<T>,
        now: Time,
    ) -> Option<Packet<T>> {
        self.advance(buffer.bytes(), now);
        let packet = buffer.pop()?;
        self.departed(packet.bytes, now - packet.arrival, buffer.bytes(), now);
        Some(packet)
    }
}

/// What happens when the limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// The head of the largest queue is dropped (RFC 8290, section 4.1).
    Largest,
    /// The arrival is dropped (fq_pie of Linux).
    Arrival,
}

#[derive(Debug)]
struct Flow<T, A> {
    buffer: Buffer<T>,
    aqm: A,
    credit: i64,
    listed: bool,
}

/// Flow queues, each with its own AQM.
#[derive(Debug)]
struct Fair<T, A> {
    config: Config,
    overflow: Overflow,
    limit_bytes: u64,
    salt: u64,
    flows: Vec<Flow<T, A>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    accounting: Accounting<T>,
}

/// FQ-CoDel, RFC 8290.
#[derive(Debug)]
pub struct FqCodel<T>(Fair<T, codel::Law>);

/// FQ-PIE: the scheduler of RFC 8290, PIE in each queue.
#[derive(Debug)]
pub struct FqPie<T>(Fair<T, pie::Controller>);

impl<T> FqCodel<T> {
    /// An empty queue.
    pub fn new(config: FqCodelConfig, at: &Bottleneck) -> FqCodel<T> {
        FqCodel(Fair::new(config.fair, Overflow::Largest, at, |_| codel::Law::new(config.codel)))
    }
}

impl<T> FqPie<T> {
    /// An empty queue.
    pub fn new(config: FqPieConfig, at: &Bottleneck) -> FqPie<T> {
        let pie = |index| {
            pie::Controller::new(config.pie, at.limit_bytes, at.seed.wrapping_add(1 + u64::from(index)))
        };
        FqPie(Fair::new(config.fair, Overflow::Arrival, at, pie))
    }
}

impl<T, A: FlowAqm> Fair<T, A> {
    fn new(config: Config, overflow: Overflow, at: &Bottleneck, aqm: impl Fn(u32) -> A) -> Fair<T, A> {
        let flow = |index| Flow { buffer: Buffer::new(), aqm: aqm(index), credit: 0, listed: false };
        Fair {
            config,
            overflow,
            limit_bytes: at.limit_bytes,
            salt: at.seed,
            flows: (0..config.queues).map(flow).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            accounting: Accounting::new(),
        }
    }

    /// The queue of a flow: a hash with a salt, so that a sender cannot choose flows that collide.
    fn index(&self, flow: u32) -> u32 {
        let mixed = Rng::new(self.salt ^ u64::from(flow)).next_u64();
        ((u128::from(mixed) * u128::from(self.config.queues)) >> 64) as u32
    }

    fn fits(&self, bytes: u64, packets: u64) -> bool {
        let Accounting { backlog, .. } = &self.accounting;
        backlog.bytes + bytes <= self.limit_bytes
            && (self.config.limit_packets == 0 || backlog.packets + packets <= self.config.limit_packets)
    }

    /// Drops half of the packets of the largest queue, from its head, but no more than a batch.
    fn shrink(&mut self) {
        let largest = self.new.iter().chain(&self.old).copied().max_by_key(|&index| {
            // of equal queues the one of the lowest index
            (self.flows[index as usize].buffer.bytes(), std::cmp::Reverse(index))
        });
        let Some(flow) = largest.map(|index| &mut self.flows[index as usize]) else {
            return;
        };
        let drops = flow.buffer.packets().div_ceil(2).min(self.config.batch);
        for _ in 0..drops {
            if let Some(packet) = flow.buffer.pop() {
                self.accounting.remove(packet, Reason::Evicted);
            }
        }
    }

    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        let bytes = packet.bytes;
        self.accounting.offered(bytes);
        let too_large = u64::from(bytes) > self.limit_bytes;
        if too_large || self.overflow == Overflow::Arrival && !self.fits(u64::from(bytes), 1) {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        let index = self.index(packet.flow);
        let flow = &mut self.flows[index as usize];
        match flow.aqm.offer(&packet, &flow.buffer, now) {
            Verdict::Drop => return self.accounting.reject(packet, Reason::Early),
            Verdict::Mark => {
                self.accounting.mark(&mut packet);
            }
            Verdict::Accept => {}
        }
        flow.buffer.push(packet);
        self.accounting.queued(bytes);
        if !flow.listed {
            flow.listed = true;
            flow.credit = i64::from(self.config.quantum_bytes);
            self.new.push_back(index);
        }
        while !self.fits(0, 0) {
            self.shrink();
        }
    }

    fn take(&mut self, now: Time) -> Option<Packet<T>> {
        loop {
            let (index, is_new) = match self.new.front() {
                Some(&index) => (index, true),
                None => (*self.old.front()?, false),
            };
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += i64::from(self.config.quantum_bytes);
                self.pop_list(is_new);
                self.old.push_back(index);
                continue;
            }
            if let Some(packet) = flow.aqm.take(&mut flow.buffer, &mut self.accounting, now) {
                flow.credit -= i64::from(packet.bytes);
                self.accounting.taken(packet.bytes);
                return Some(packet);
            }
            // a new flow that has become empty must not be new again at once: it would starve the old ones
            self.pop_list(is_new);
            if is_new {
                self.old.push_back(index);
            } else {
                self.flows[index as usize].listed = false;
            }
        }
    }

    fn pop_list(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
    }
}

macro_rules! queue {
    ($name:ident) => {
        impl<T> Queue<T> for $name<T> {
            fn offer(&mut self, packet: Packet<T>, now: Time) {
                self.0.offer(packet, now);
            }

            fn take(&mut self, now: Time) -> Option<Packet<T>> {
                self.0.take(now)
            }

            fn accounting(&self) -> &Accounting<T> {
                &self.0.accounting
            }

            fn accounting_mut(&mut self) -> &mut Accounting<T> {
                &mut self.0.accounting
            }
        }
    };
}

queue!(FqCodel);
queue!(FqPie);

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows "aab.." of 1000 bytes each, in order; what leaves.
    fn order(config: Config, arrivals: &str, limit_bytes: u64) -> String {
        let at = Bottleneck { limit_bytes, bits_per_s: 1, seed: 1 };
        let mut queue = FqCodel::new(FqCodelConfig { fair: config, ..Default::default() }, &at);
        for flow in arrivals.chars() {
            queue.offer(Packet::new(1000, u32::from(flow), flow), Time::ZERO);
        }
        std::iter::from_fn(|| queue.take(Time::ZERO)).map(|packet| packet.payload).collect()
    }

    #[test]
    fn flows_alternate_and_new_ones_are_first() {
        for (quantum_bytes, arrivals, leaves) in [
            (1000, "aaaabbcc", "abcabcaa"),
            (2000, "aaaabbcc", "aabbccaa"),
            // deficits: 1514 bytes are one packet, then two
            (1514, "aaaabbbb", "aabbaabb"),
            (1000, "aaaa", "aaaa"),
        ] {
            let config = Config { quantum_bytes, ..Config::default() };
            assert_eq!(order(config, arrivals, 1 << 20), leaves, "quantum {quantum_bytes}, {arrivals}");
        }
    }

    #[test]
    fn the_largest_queue_loses_half_of_its_packets_when_there_is_no_room() {
        for (batch, leaves) in [(64, "abca"), (1, "abcaa")] {
            let config = Config { batch, quantum_bytes: 1000, ..Config::default() };
            assert_eq!(order(config, "aaaabc", 5000), leaves, "batch {batch}");
        }
    }
}
