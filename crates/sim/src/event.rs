//! The event queue: a heap of timers. Equal times are served in the order in which they were set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_queue::Time;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A flow begins.
    Start(u32),
    /// A flow's pacing lets it send again, or its application has data.
    Send(u32),
    /// A sender's timer may be due: reordering, probe or retransmission.
    Sender(u32),
    /// A receiver's delayed ACK may be due.
    Receiver(u32),
    /// A segment that was overtaken arrives.
    Late(u32),
    /// The link's rate changes.
    Rate,
    /// A sample of all flows is taken.
    Sample,
}

/// Timers in the order of their time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Time, event: Event) {
        self.set += 1;
        self.heap.push(Reverse((at, self.set, event)));
    }

    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::MAX, |Reverse((at, ..))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((_, _, event))| event)
    }
}
