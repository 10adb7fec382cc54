//! When the buffer is full, the packet of the lowest value makes room.
//!
//! The patent's histograms move bytes between "in" and "drop" and discard packets when they reach the head. Here whole
//! packets are taken out at once, the oldest of the lowest value first: the buffer is exact to the byte at any time.

use serde::{Deserialize, Serialize};

use super::histogram::level;
use super::store::Store;
use crate::accounting::{Accounting, Reason};
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, Queue};

/// There is nothing to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropMinConfig {}

/// A FIFO that drops by value.
#[derive(Debug)]
pub struct DropMin<T> {
    limit_bytes: u64,
    store: Store<T>,
    accounting: Accounting<T>,
}

impl<T> DropMin<T> {
    /// An empty queue.
    pub fn new(_config: DropMinConfig, at: &Bottleneck) -> DropMin<T> {
        DropMin { limit_bytes: at.limit_bytes, store: Store::new(), accounting: Accounting::new() }
    }

    /// Makes room for `bytes` of a value, at the cost of lower values; whether it fits.
    fn make_room(&mut self, value: u16, bytes: u32) -> bool {
        if u64::from(bytes) > self.limit_bytes {
            return false;
        }
        while self.accounting.backlog.bytes + u64::from(bytes) > self.limit_bytes {
            if self.store.lowest().is_none_or(|lowest| lowest >= level(value)) {
                return false;
            }
            if let Some(packet) = self.store.pop_lowest() {
                self.accounting.remove(packet, Reason::Evicted);
            }
        }
        true
    }
}

impl<T> Queue<T> for DropMin<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        if !self.make_room(packet.value, packet.bytes) {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        self.accounting.queued(packet.bytes);
        self.store.push(packet);
    }

    fn take(&mut self, _now: Time) -> Option<Packet<T>> {
        let packet = self.store.pop()?;
        self.accounting.taken(packet.bytes);
        Some(packet)
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

    /// Packets of 1000 bytes with these values into room for 3; what was dropped, then what leaves.
    fn check(values: &[u16], dropped: &[u16], leaves: &[u16]) {
        let at = Bottleneck { limit_bytes: 3000, bits_per_s: 1, seed: 0 };
        let mut queue = DropMin::new(DropMinConfig {}, &at);
        for &value in values {
            queue.offer(Packet { value, ..Packet::new(1000, 0, ()) }, Time::ZERO);
        }
        let got: Vec<u16> = queue.dropped().drain(..).map(|drop| drop.packet.value).collect();
        assert_eq!(got, dropped, "{values:?}");
        let got: Vec<u16> =
            std::iter::from_fn(|| queue.take(Time::ZERO)).map(|packet| packet.value).collect();
        assert_eq!(got, leaves, "{values:?}");
    }

    #[test]
    fn the_lowest_value_makes_room_and_the_rest_keeps_its_order() {
        check(&[5, 7, 6], &[], &[5, 7, 6]);
        check(&[5, 7, 6, 8], &[5], &[7, 6, 8]);
        check(&[5, 7, 6, 4], &[4], &[5, 7, 6]);
        check(&[5, 7, 6, 5], &[5], &[5, 7, 6]);
        check(&[1, 1000, 2, 999, 5000], &[1, 2], &[1000, 999, 5000]);
    }
}
