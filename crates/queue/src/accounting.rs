//! What became of every packet: offered = taken + dropped + queued, in packets and in bytes.

use serde::{Deserialize, Serialize};

use crate::packet::{Ecn, Packet};

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It arrived and did not fit into the buffer.
    Overflow,
    /// It was in the buffer and made room for another one.
    Evicted,
    /// By the probability of RED, PIE or PI2.
    Early,
    /// By CoDel's law.
    Sojourn,
    /// The first drop of an interval of GSP.
    Protection,
    /// Its value was below the congestion threshold.
    Value,
    /// By the probability of BLUE.
    Blue,
}

impl Reason {
    /// All reasons, in the order of [`Counters::dropped`].
    pub const ALL: [Reason; 7] = [
        Reason::Overflow,
        Reason::Evicted,
        Reason::Early,
        Reason::Sojourn,
        Reason::Protection,
        Reason::Value,
        Reason::Blue,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Overflow => "overflow",
            Reason::Evicted => "evicted",
            Reason::Early => "early",
            Reason::Sojourn => "sojourn",
            Reason::Protection => "protection",
            Reason::Value => "value",
            Reason::Blue => "blue",
        }
    }
}

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Tally {
    /// Counts a packet of `bytes`.
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Removes a packet of `bytes` that was counted.
    pub fn remove(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }
}

/// What a queue has done since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that arrived.
    pub offered: Tally,
    /// Packets that left towards the link.
    pub taken: Tally,
    /// Of these, packets that got CE here.
    pub marked: u64,
    /// Packets that were dropped, by [`Reason::ALL`].
    pub dropped: [Tally; Reason::ALL.len()],
}

impl Counters {
    /// All packets that were dropped.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|tally| tally.packets).sum()
    }
}

/// A packet that will not leave, for its owner to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped<T> {
    /// The packet.
    pub packet: Packet<T>,
    /// Why.
    pub reason: Reason,
}

/// Counters, what is queued, and the dropped packets that the owner has not taken back yet.
#[derive(Debug)]
pub struct Accounting<T> {
    pub(crate) counters: Counters,
    pub(crate) backlog: Tally,
    pub(crate) dropped: Vec<Dropped<T>>,
}

impl<T> Accounting<T> {
    pub(crate) fn new() -> Accounting<T> {
        Accounting { counters: Counters::default(), backlog: Tally::default(), dropped: Vec::new() }
    }

    pub(crate) fn offered(&mut self, bytes: u32) {
        self.counters.offered.add(bytes);
    }

    /// A packet was put into the queue.
    pub(crate) fn queued(&mut self, bytes: u32) {
        self.backlog.add(bytes);
    }

    /// A queued packet leaves towards the link.
    pub(crate) fn taken(&mut self, bytes: u32) {
        self.backlog.remove(bytes);
        self.counters.taken.add(bytes);
    }

    /// Drops a packet that is not, or no longer, in the queue.
    pub(crate) fn reject(&mut self, packet: Packet<T>, reason: Reason) {
        self.counters.dropped[reason as usize].add(packet.bytes);
        self.dropped.push(Dropped { packet, reason });
    }

    /// Drops a packet that was queued.
    pub(crate) fn remove(&mut self, packet: Packet<T>, reason: Reason) {
        self.backlog.remove(packet.bytes);
        self.reject(packet, reason);
    }

    /// Sets CE if the packet's endpoints know ECN; whether they do.
    pub(crate) fn mark(&mut self, packet: &mut Packet<T>) -> bool {
        if packet.ecn.capable() {
            packet.ecn = Ecn::Ce;
            self.counters.marked += 1;
            true
        } else {
            false
        }
    }
}
