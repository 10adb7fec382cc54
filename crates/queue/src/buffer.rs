//! Packets in the order of their arrival.

use std::collections::VecDeque;

use crate::accounting::Tally;
use crate::packet::Packet;
use crate::time::Time;

/// A list of packets that knows its size.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    packets: VecDeque<Packet<T>>,
    size: Tally,
}

impl<T> Buffer<T> {
    pub(crate) fn new() -> Buffer<T> {
        Buffer { packets: VecDeque::new(), size: Tally::default() }
    }

    pub(crate) fn push(&mut self, packet: Packet<T>) {
        self.size.add(packet.bytes);
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<Packet<T>> {
        let packet = self.packets.pop_front()?;
        self.size.remove(packet.bytes);
        Some(packet)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.size.bytes
    }

    pub(crate) fn packets(&self) -> u64 {
        self.size.packets
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How long the head has waited; none if there is no head.
    pub(crate) fn head_age(&self, now: Time) -> Time {
        self.packets.front().map_or(Time::ZERO, |head| now - head.arrival)
    }
}
