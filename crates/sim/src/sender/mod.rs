//! The sending end of a flow: segments in flight, losses, and the next segment to send.
//!
//! Loss is found by RACK (RFC 8985) with its tail loss probe, and by the retransmission timer (RFC 6298). A window is
//! reduced by PRR (RFC 6937). Pacing is by segment. All segments have one size; sequence numbers count segments.

mod prr;
mod rack;
mod rate;
mod rtt;

use std::collections::VecDeque;

use weir_queue::{Ecn, Time};

use crate::cc::{Ack, CongestionControl, Connection, Lost};
use crate::segment::AckMessage;
use crate::supply::Supply;
use prr::Prr;
use rack::{Rack, Waiting};
use rate::Sampler;
use rtt::Rtt;

/// A segment that has been sent and is not acknowledged by all before it.
#[derive(Debug, Clone)]
struct Segment {
    /// Which transmission of the flow it was, from 1.
    number: u64,
    sent: Time,
    first_sent: Time,
    delivered_time: Time,
    delivered: u64,
    lost_before: u64,
    ce_before: u64,
    tx_in_flight: u32,
    /// Counted as in flight.
    outstanding: bool,
    sacked: bool,
    retransmitted: bool,
    app_limited: bool,
}

/// What losses have done to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repair {
    None,
    /// Fast recovery until this segment is acknowledged.
    Recovery(u64),
    /// After a timeout, likewise.
    Timeout(u64),
}

/// What was counted of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SenderCounts {
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
    pub(crate) recoveries: u64,
    pub(crate) timeouts: u64,
    pub(crate) probes: u64,
    pub(crate) lost: u64,
}

/// Why nothing more is sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// The window is used; an ACK will open it.
    Window,
    /// The pacing allows the next segment then.
    Until(Time),
    /// The application has nothing.
    Application(Option<Time>),
}

/// The sender of one flow.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) cc: Box<dyn CongestionControl>,
    supply: Supply,
    una: u64,
    next: u64,
    segments: VecDeque<Segment>,
    retransmit: VecDeque<u64>,
    in_flight: u64,
    sacked: u64,
    transmissions: u64,
    sampler: Sampler,
    rack: Rack,
    rtt: Rtt,
    prr: Prr,
    repair: Repair,
    /// Retransmissions of this recovery, and how many of them were duplicates for the receiver.
    repaired: u64,
    duplicates: u64,
    next_send: Time,
    cwnd_limited: bool,
    limited_until: u64,
    probe_sent: bool,
    reorder_deadline: Time,
    loss_deadline: Time,
    pub(crate) counts: SenderCounts,
}

impl Sender {
    pub(crate) fn new(cc: Box<dyn CongestionControl>, supply: Supply) -> Sender {
        Sender {
            cc,
            supply,
            una: 0,
            next: 0,
            segments: VecDeque::new(),
            retransmit: VecDeque::new(),
            in_flight: 0,
            sacked: 0,
            transmissions: 0,
            sampler: Sampler::default(),
            rack: Rack::new(),
            rtt: Rtt::new(),
            prr: Prr::default(),
            repair: Repair::None,
            repaired: 0,
            duplicates: 0,
            next_send: Time::ZERO,
            cwnd_limited: false,
            limited_until: 0,
            probe_sent: false,
            reorder_deadline: Time::MAX,
            loss_deadline: Time::MAX,
            counts: SenderCounts::default(),
        }
    }

    pub(crate) fn ecn(&self) -> Ecn {
        self.cc.ecn()
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn srtt_s(&self) -> f64 {
        self.rtt.smoothed_s()
    }

    /// When [`Sender::timer`] has something to do; [`Time::MAX`] if nothing.
    pub(crate) fn deadline(&self) -> Time {
        self.reorder_deadline.min(self.loss_deadline)
    }

    /// What may be in flight now.
    pub(crate) fn window(&self) -> f64 {
        match (self.repair, self.cc.reduces_to()) {
            (Repair::Recovery(_), Some(_)) => self.prr.window(),
            _ => self.cc.cwnd(),
        }
    }

    fn connection(&self, now: Time) -> Connection {
        Connection {
            now,
            in_flight: self.in_flight,
            delivered: self.sampler.delivered,
            lost: self.sampler.lost,
            srtt_s: self.rtt.smoothed_s(),
            in_recovery: self.repair != Repair::None,
            cwnd_limited: self.cwnd_limited,
        }
    }

    fn segment(&mut self, seq: u64) -> Option<&mut Segment> {
        let offset = seq.checked_sub(self.una)?;
        self.segments.get_mut(offset as usize)
    }

    /// The next segment to send, or why there is none.
    pub(crate) fn send(&mut self, now: Time) -> Result<u64, Idle> {
        if self.in_flight as f64 + 1.0 > self.window().max(1.0) {
            self.note_limit(true);
            return Err(Idle::Window);
        }
        let pacing = self.cc.pacing();
        if pacing.is_some() && now < self.next_send {
            self.note_limit(false);
            return Err(Idle::Until(self.next_send));
        }
        let seq = match self.next_retransmission() {
            Some(seq) => seq,
            None if self.supply.has(self.next, now) => self.next,
            None => {
                self.note_limit(false);
                self.sampler.app_limited = (self.sampler.delivered + self.in_flight).max(1);
                return Err(Idle::Application(self.supply.when(self.next, now)));
            }
        };
        self.transmit(seq, now);
        if let Some(rate) = pacing {
            self.next_send = self.next_send.max(now) + Time::from_secs(1.0 / rate.max(1e-3));
        }
        Ok(seq)
    }

    /// Linux's `tcp_cwnd_validate`: the window counts as the limit for a round trip after it was.
    fn note_limit(&mut self, limited: bool) {
        if self.una >= self.limited_until || limited && !self.cwnd_limited {
            self.cwnd_limited = limited;
            self.limited_until = self.next;
        }
    }

    fn next_retransmission(&mut self) -> Option<u64> {
        while let Some(&seq) = self.retransmit.front() {
            if self.segment(seq).is_some_and(|segment| !segment.sacked && !segment.outstanding) {
                return Some(seq);
            }
            self.retransmit.pop_front();
        }
        None
    }

    /// Sends a segment, for the first time or again.
    fn transmit(&mut self, seq: u64, now: Time) {
        let connection = self.connection(now);
        self.cc.on_send(&connection, self.sampler.app_limited != 0);
        self.transmissions += 1;
        let again = seq < self.next;
        if !again {
            self.next += 1;
            self.segments.push_back(Segment {
                number: 0,
                sent: now,
                first_sent: now,
                delivered_time: now,
                delivered: 0,
                lost_before: 0,
                ce_before: 0,
                tx_in_flight: 0,
                outstanding: false,
                sacked: false,
                retransmitted: false,
                app_limited: false,
            });
        }
        let Some(segment) = self.segments.get_mut((seq - self.una) as usize) else {
            return;
        };
        segment.number = self.transmissions;
        segment.sent = now;
        segment.retransmitted = again;
        if !segment.outstanding {
            segment.outstanding = true;
            self.in_flight += 1;
        }
        self.sampler.sent(segment, self.in_flight);
        self.rack.sent(seq, self.transmissions);
        self.prr.sent();
        self.counts.sent += 1;
        if again {
            self.counts.retransmitted += 1;
            self.repaired += 1;
        }
        if self.loss_deadline == Time::MAX {
            self.arm(now);
        }
    }

    /// An ACK arrives.
    pub(crate) fn acked(&mut self, message: &AckMessage, now: Time) {
        let before = self.sampler.delivered;
        self.sampler.ce += u64::from(message.ce);
        let mut rtt = None;
        while self.una < message.next {
            let Some(segment) = self.segments.pop_front() else { break };
            let seq = self.una;
            self.una += 1;
            if segment.outstanding {
                self.in_flight -= 1;
            }
            if segment.sacked {
                self.sacked -= 1;
            } else {
                self.deliver(seq, &segment, now, &mut rtt);
            }
            self.rtt.progress();
            self.probe_sent = false;
        }
        if let Some(seq) = message.beyond {
            self.sack(seq, now, &mut rtt);
        }
        if message.duplicate {
            self.duplicates += 1;
            self.rack.duplicate();
            if self.repair == Repair::None {
                self.undo_if_spurious(now);
            }
        }
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        let delivered = self.sampler.delivered - before;
        self.after_ack(delivered, u64::from(message.ce), rtt, now);
    }

    fn sack(&mut self, seq: u64, now: Time, rtt: &mut Option<Time>) {
        let Some(segment) = self.segment(seq) else { return };
        if segment.sacked {
            return;
        }
        segment.sacked = true;
        let outstanding = std::mem::replace(&mut segment.outstanding, false);
        let copy = segment.clone();
        self.sacked += 1;
        self.in_flight -= u64::from(outstanding);
        self.deliver(seq, &copy, now, rtt);
    }

    fn deliver(&mut self, seq: u64, segment: &Segment, now: Time, rtt: &mut Option<Time>) {
        self.sampler.delivers(segment, now);
        if !segment.retransmitted {
            *rtt = Some(now - segment.sent);
        }
        self.rack.delivered(seq, segment, now, self.rtt.smallest());
    }

    fn after_ack(&mut self, delivered: u64, ce: u64, rtt: Option<Time>, now: Time) {
        self.leave_repair(now);
        let lost_before = self.sampler.lost;
        self.detect(now);
        let lost = self.sampler.lost - lost_before;
        if delivered > 0
            && let Some(rate) = self.sampler.sample(self.rtt.smallest())
        {
            if self.cc.ignores_rates() {
                self.sampler.app_limited = (self.sampler.delivered + self.in_flight).max(1);
            }
            let connection = self.connection(now);
            self.cc.on_ack(&Ack { delivered, ce, rtt, rate }, &connection);
        }
        if let (Repair::Recovery(_), Some(target)) = (self.repair, self.cc.reduces_to()) {
            self.prr.acked(delivered, self.in_flight, target, lost == 0);
        }
        self.arm(now);
    }

    fn leave_repair(&mut self, now: Time) {
        let (Repair::Recovery(point) | Repair::Timeout(point)) = self.repair else { return };
        if self.una < point {
            return;
        }
        self.repair = Repair::None;
        self.rack.recovered();
        let connection = self.connection(now);
        self.cc.on_recovered(&connection);
        self.undo_if_spurious(now);
    }

    /// All retransmissions of the recovery were duplicates: nothing had been lost (RFC 3708).
    fn undo_if_spurious(&mut self, now: Time) {
        if self.repaired > 0 && self.duplicates >= self.repaired {
            let connection = self.connection(now);
            self.cc.on_spurious(&connection);
            self.repaired = 0;
        }
    }

    /// RACK: marks what is lost by now.
    fn detect(&mut self, now: Time) {
        loop {
            let waiting = Waiting {
                now,
                min_rtt: self.rtt.smallest(),
                in_recovery: self.repair != Repair::None,
                sacked: self.sacked,
            };
            let (una, segments) = (self.una, &self.segments);
            let find = |seq: u64| segments.get(usize::try_from(seq.checked_sub(una)?).ok()?);
            match self.rack.next_lost(&waiting, self.rtt.smoothed_s(), find) {
                Ok(seq) => self.lose(seq, now),
                Err(deadline) => {
                    self.reorder_deadline = deadline;
                    return;
                }
            }
        }
    }

    fn lose(&mut self, seq: u64, now: Time) {
        let first = self.repair == Repair::None;
        self.sampler.lost += 1;
        self.counts.lost += 1;
        let lost_after = self.sampler.lost;
        let Some(segment) = self.segment(seq) else { return };
        let lost = Lost {
            seq,
            tx_in_flight: u64::from(segment.tx_in_flight),
            lost_since: lost_after - segment.lost_before,
            is_app_limited: segment.app_limited,
        };
        segment.outstanding = false;
        self.in_flight -= 1;
        self.retransmit.push_back(seq);
        let connection = self.connection(now);
        self.cc.on_lost(&lost, &connection);
        if first {
            self.counts.recoveries += 1;
            (self.repaired, self.duplicates) = (0, 0);
            let connection = self.connection(now);
            self.cc.on_recovery(&connection);
            self.repair = Repair::Recovery(self.next);
            self.prr.begin(self.next - self.una, self.in_flight);
        }
    }

    /// Sets the timer for a tail loss probe, else for a retransmission.
    fn arm(&mut self, now: Time) {
        if self.in_flight == 0 && self.retransmit.is_empty() {
            self.loss_deadline = Time::MAX;
            return;
        }
        let timeout = self.rtt.timeout();
        let probes = self.repair == Repair::None && !self.probe_sent && self.rtt.smoothed_s() > 0.0;
        let wait = if probes {
            // with a single segment in flight its ACK may be delayed: Linux adds 2 ms and the delay of ACKs
            let delayed_s = if self.in_flight <= 1 { 0.2 } else { 0.002 };
            Time::from_secs(2.0 * self.rtt.smoothed_s() + delayed_s).min(timeout)
        } else {
            timeout
        };
        self.loss_deadline = now + wait;
    }

    /// A timer is due. What it sends at once is returned; call [`Sender::send`] afterwards.
    pub(crate) fn timer(&mut self, now: Time) -> Option<u64> {
        if self.reorder_deadline <= now {
            self.detect(now);
        }
        if self.loss_deadline > now {
            return None;
        }
        let probes = self.repair == Repair::None && !self.probe_sent && self.rtt.smoothed_s() > 0.0;
        if probes && self.in_flight > 0 {
            return self.probe(now);
        }
        self.time_out(now);
        None
    }

    /// A tail loss probe: new data, else the last segment again.
    fn probe(&mut self, now: Time) -> Option<u64> {
        self.probe_sent = true;
        self.counts.probes += 1;
        let last = self.una + self.segments.iter().rposition(|segment| !segment.sacked)? as u64;
        let seq = if self.supply.has(self.next, now) { self.next } else { last };
        self.transmit(seq, now);
        self.arm(now);
        Some(seq)
    }

    fn time_out(&mut self, now: Time) {
        self.counts.timeouts += 1;
        self.rtt.back_off();
        self.retransmit.clear();
        for (seq, segment) in (self.una..).zip(&mut self.segments) {
            if segment.sacked {
                continue;
            }
            if std::mem::replace(&mut segment.outstanding, false) {
                self.sampler.lost += 1;
                self.counts.lost += 1;
            }
            self.retransmit.push_back(seq);
        }
        self.in_flight = 0;
        (self.repaired, self.duplicates) = (0, 0);
        let connection = self.connection(now);
        self.cc.on_timeout(&connection);
        self.repair = Repair::Timeout(self.next);
        self.next_send = now;
        self.arm(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Name;

    fn ack(next: u64, beyond: Option<u64>) -> AckMessage {
        AckMessage { flow: 0, next, beyond, duplicate: false, ce: 0 }
    }

    fn ms(ms: u64) -> Time {
        Time::from_ms(ms)
    }

    /// A sender that has sent its first ten segments at 0 ms.
    fn sender(cc: Name) -> Sender {
        let mut sender = Sender::new(cc.build(Ecn::NotEct, 1, None), Supply::default());
        for seq in 0..10 {
            assert_eq!(sender.send(sender.next_send), Ok(seq));
        }
        sender.next_send = Time::ZERO;
        assert_eq!(sender.send(ms(1)), Err(Idle::Window));
        sender
    }

    #[test]
    fn a_lost_segment_is_sent_again_when_three_later_ones_have_arrived() {
        let mut sender = sender(Name::Reno);
        for (seq, lost) in [(1, 0), (2, 0), (3, 1)] {
            sender.acked(&ack(0, Some(seq)), ms(100));
            assert_eq!(sender.counts.lost, lost, "after segment {seq}");
        }
        assert_eq!(sender.send(ms(100)), Ok(0));
        assert_eq!((sender.counts.recoveries, sender.counts.retransmitted), (1, 1));
    }

    #[test]
    fn after_reordering_a_loss_is_believed_a_quarter_of_a_round_trip_later() {
        let mut sender = sender(Name::Reno);
        sender.acked(&ack(0, Some(1)), ms(100));
        sender.acked(&ack(2, None), ms(100));
        for seq in 3..=6 {
            sender.acked(&ack(2, Some(seq)), ms(100));
        }
        assert_eq!((sender.counts.lost, sender.deadline()), (0, ms(125)));
        sender.timer(ms(125));
        assert_eq!((sender.counts.lost, sender.counts.recoveries), (1, 1));
    }

    #[test]
    fn a_recovery_that_was_not_necessary_is_undone() {
        for cc in [Name::Reno, Name::Cubic, Name::Dctcp, Name::Prague, Name::Bbr3] {
            let mut sender = sender(cc);
            let before = sender.cc.cwnd();
            for seq in 1..=3 {
                sender.acked(&ack(0, Some(seq)), ms(100));
            }
            assert_eq!(sender.send(ms(100)), Ok(0));
            // the first transmission arrives after all, then the second one
            sender.acked(&ack(4, None), ms(110));
            sender.acked(&ack(10, None), ms(111));
            sender.acked(&AckMessage { duplicate: true, ..ack(10, None) }, ms(200));
            assert!(sender.cc.cwnd() >= before, "{}: {} after {before}", cc.text(), sender.cc.cwnd());
        }
    }

    #[test]
    fn a_tail_is_probed_then_the_timer_expires() {
        let mut sender = sender(Name::Reno);
        sender.acked(&ack(2, None), ms(100));
        // two round trips and 2 ms: the probe sends new data
        assert_eq!(sender.deadline(), ms(302));
        assert!(sender.timer(ms(301)).is_none() && sender.counts.probes == 0);
        assert_eq!(sender.timer(ms(302)), Some(10));
        // 100 ms, and four times its variance of 50 ms
        assert_eq!(sender.deadline(), ms(302 + 300));
        assert!(sender.timer(ms(602)).is_none());
        assert_eq!((sender.counts.probes, sender.counts.timeouts), (1, 1));
        assert_eq!((sender.in_flight(), sender.send(ms(602))), (0, Ok(2)));
        assert_eq!(sender.deadline(), ms(602 + 600), "it backs off");
    }
}
