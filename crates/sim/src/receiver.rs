//! The receiving end of a flow: which segments have arrived, and when an ACK is due (RFC 5681, section 4.2).

use std::collections::VecDeque;

use weir_queue::{Ecn, Time};

use crate::segment::AckMessage;

/// An ACK is delayed no longer than this; Linux's smallest value.
const DELAYED: Time = Time::from_ms(40);

/// The receiver of one flow.
#[derive(Debug)]
pub(crate) struct Receiver {
    flow: u32,
    ack_every: u32,
    next: u64,
    /// Whether `next + i` has arrived; begins with a gap, or is empty.
    beyond: VecDeque<bool>,
    /// In-order segments without an ACK.
    pending: u32,
    ce: u32,
    /// When the delayed ACK is due; never, if none is.
    pub(crate) deadline: Time,
}

impl Receiver {
    pub(crate) fn new(flow: u32, ack_every: u32) -> Receiver {
        Receiver { flow, ack_every, next: 0, beyond: VecDeque::new(), pending: 0, ce: 0, deadline: Time::MAX }
    }

    /// Segments that have arrived in order.
    pub(crate) fn delivered(&self) -> u64 {
        self.next
    }

    fn ack(&mut self, beyond: Option<u64>, duplicate: bool) -> AckMessage {
        self.pending = 0;
        self.deadline = Time::MAX;
        AckMessage { flow: self.flow, next: self.next, beyond, duplicate, ce: std::mem::take(&mut self.ce) }
    }

    /// A segment arrives; the ACK that it causes, unless it is delayed.
    pub(crate) fn arrived(&mut self, seq: u64, ecn: Ecn, now: Time) -> Option<AckMessage> {
        self.ce += u32::from(ecn == Ecn::Ce);
        if seq < self.next {
            return Some(self.ack(None, true));
        }
        if seq > self.next {
            let offset = (seq - self.next) as usize;
            if offset >= self.beyond.len() {
                self.beyond.resize(offset + 1, false);
            }
            let duplicate = std::mem::replace(&mut self.beyond[offset], true);
            return Some(self.ack((!duplicate).then_some(seq), duplicate));
        }
        let fills_gap = !self.beyond.is_empty();
        self.next += 1;
        self.beyond.pop_front();
        while self.beyond.front() == Some(&true) {
            self.beyond.pop_front();
            self.next += 1;
        }
        self.pending += 1;
        if fills_gap || self.pending >= self.ack_every {
            return Some(self.ack(None, false));
        }
        if self.deadline == Time::MAX {
            self.deadline = now + DELAYED;
        }
        None
    }

    /// The delayed ACK, if it is due.
    pub(crate) fn timer(&mut self, now: Time) -> Option<AckMessage> {
        (self.deadline <= now).then(|| self.ack(None, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_delayed_in_order_and_immediate_otherwise() {
        // arrivals, and "next beyond" of each ACK
        for (arrivals, expected) in [
            (vec![0, 1, 2, 3], vec!["2 -", "4 -"]),
            (vec![0, 2, 3, 1, 4, 5], vec!["1 2", "1 3", "4 -", "6 -"]),
            (vec![0, 1, 1, 3, 3, 2], vec!["2 -", "2 dup", "2 3", "2 dup", "4 -"]),
        ] {
            let mut receiver = Receiver::new(0, 2);
            let acks = arrivals.iter().filter_map(|&seq| receiver.arrived(seq, Ecn::NotEct, Time::ZERO));
            let got: Vec<String> = acks
                .map(|ack| match (ack.beyond, ack.duplicate) {
                    (_, true) => format!("{} dup", ack.next),
                    (Some(beyond), _) => format!("{} {beyond}", ack.next),
                    (None, _) => format!("{} -", ack.next),
                })
                .collect();
            assert_eq!(got, expected, "{arrivals:?}");
        }
    }

    #[test]
    fn a_single_segment_is_acknowledged_after_40_ms() {
        let mut receiver = Receiver::new(0, 2);
        assert!(receiver.arrived(0, Ecn::Ce, Time::ZERO).is_none());
        assert!(receiver.timer(Time::from_ms(39)).is_none());
        let ack = receiver.timer(Time::from_ms(40)).unwrap();
        assert_eq!((ack.next, ack.ce, receiver.deadline), (1, 1, Time::MAX));
    }
}
