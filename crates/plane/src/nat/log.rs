//! Events of the NAT, for the operator who must be able to say later which host had which address and port: a queue that the
//! caller drains.
//!
//! Names and numbers are those of RFC 8158 (natEvent). By default blocks are reported, not sessions, and never a
//! destination (RFC 6888 REQ-12). A full queue drops new events and counts them.

use std::collections::VecDeque;

use super::block_events::PortBlock;
use crate::time::Time;

/// The kind of an event; the number is natEvent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// NAT44 session create.
    SessionCreated = 4,
    /// NAT44 session delete.
    SessionDeleted = 5,
    /// NAT ports exhausted.
    PortsExhausted = 12,
    /// Quota exceeded.
    QuotaExceeded = 13,
    /// NAT port block allocation.
    BlockAllocated = 16,
    /// NAT port block de-allocation.
    BlockReleased = 17,
}

/// Something that happened to a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The time of the event.
    pub at: Time,
    /// Its kind.
    pub kind: EventKind,
    /// The host that had it, IPv4 mapped into IPv6, words from the left.
    pub inside: [u32; 4],
    /// Public address; 0 where there was none.
    pub outside: u32,
    /// First and last port: equal for a session, 0 where there was none.
    pub ports: (u16, u16),
    /// Protocol of a session, else 0.
    pub proto: u8,
}

impl PortBlock {
    /// The block that an event is about; `None` if it is about none.
    pub fn of(event: &Event) -> Option<PortBlock> {
        let is_block = matches!(event.kind, EventKind::BlockAllocated | EventKind::BlockReleased);
        is_block.then_some(PortBlock { inside: event.inside, outside: event.outside, ports: event.ports })
    }
}

/// Events that wait for the caller, at most.
const MOST: usize = 65_536;

/// Events since the queue was last drained.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: VecDeque<Event>,
    lost: u64,
}

impl Log {
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() < MOST { self.events.push_back(event) } else { self.lost += 1 }
    }

    /// The events since the last call, and how many were dropped since the start because the queue was full.
    pub(crate) fn drain(&mut self) -> (impl Iterator<Item = Event>, u64) {
        (self.events.drain(..), self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_loses_what_is_new_and_says_so() {
        let mut log = Log::default();
        let event = |port| Event {
            at: Time::default(),
            kind: EventKind::BlockAllocated,
            inside: [0; 4],
            outside: 1,
            ports: (port, port),
            proto: 0,
        };
        (0..MOST + 3).for_each(|n| log.push(event(n as u16)));
        let (events, lost) = log.drain();
        assert_eq!((events.count(), lost), (MOST, 3));
        assert_eq!((log.drain().0.count(), EventKind::BlockReleased as u8), (0, 17));
    }
}
