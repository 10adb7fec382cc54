//! Loss by time (RACK, RFC 8985): a segment is lost if one that was sent later was delivered long enough ago.

use std::collections::VecDeque;

use weir_queue::Time;

use super::Segment;

/// Segments in the order of their transmission, and the newest delivery.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// Sequence number and number of the transmission.
    order: VecDeque<(u64, u64)>,
    newest: u64,
    rtt: Time,
    highest: u64,
    reordering: bool,
    /// Quarters of the smallest round trip that are waited.
    quarters: u64,
    /// Recoveries until `quarters` is 1 again.
    persist: u32,
}

/// What is needed to judge whether a wait for reordering makes sense.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) now: Time,
    pub(super) min_rtt: Time,
    pub(super) in_recovery: bool,
    pub(super) sacked: u64,
}

impl Rack {
    pub(super) fn new() -> Rack {
        Rack { quarters: 1, ..Rack::default() }
    }

    pub(super) fn sent(&mut self, seq: u64, number: u64) {
        self.order.push_back((seq, number));
    }

    pub(super) fn delivered(&mut self, seq: u64, segment: &Segment, now: Time, min_rtt: Time) {
        let rtt = now - segment.sent;
        if segment.retransmitted {
            if rtt < min_rtt {
                return; // an ACK of the first transmission
            }
        } else if seq < self.highest {
            self.reordering = true;
        }
        self.highest = self.highest.max(seq);
        if segment.number >= self.newest {
            self.newest = segment.number;
            self.rtt = rtt;
        }
    }

    /// A retransmission was not necessary: wait longer.
    pub(super) fn duplicate(&mut self) {
        self.quarters = (self.quarters + 1).min(20);
        self.persist = 16;
        self.reordering = true;
    }

    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    fn window(&self, waiting: &Waiting, srtt_s: f64) -> Time {
        if !self.reordering && (waiting.in_recovery || waiting.sacked >= 3) {
            return Time::ZERO;
        }
        if waiting.min_rtt == Time::MAX {
            return Time::ZERO;
        }
        (waiting.min_rtt / 4 * self.quarters).min(Time::from_secs(srtt_s))
    }

    /// The next segment that is lost by now, or when the next one may be.
    pub(super) fn next_lost<'a>(
        &mut self,
        waiting: &Waiting,
        srtt_s: f64,
        segment: impl Fn(u64) -> Option<&'a Segment>,
    ) -> Result<u64, Time> {
        let window = self.window(waiting, srtt_s);
        while let Some(&(seq, number)) = self.order.front() {
            let open = segment(seq).filter(|segment| segment.number == number && segment.outstanding);
            let Some(open) = open else {
                self.order.pop_front();
                continue;
            };
            if number >= self.newest {
                break;
            }
            let deadline = open.sent + self.rtt + window;
            if deadline > waiting.now {
                return Err(deadline);
            }
            self.order.pop_front();
            return Ok(seq);
        }
        Err(Time::MAX)
    }
}
