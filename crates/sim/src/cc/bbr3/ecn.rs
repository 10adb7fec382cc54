//! What CE does to BBR, as in google/bbr (branches v2alpha and v3; the draft has no ECN): on paths whose round trip is 5 ms at most
//!
//! - a round trip with marks lowers the short-term bound of the volume in flight, by a third of the share of marks at most;
//! - half of the segments marked, while it probes, sets the long-term bound; in two round trips of Startup, it ends that;
//! - version 3 probes again at once after marks without losses.

use weir_queue::{Ecn, Time};

use super::super::{Ack, Connection, RateSample};
use super::Bbr3;

const ALPHA_GAIN: f64 = 1.0 / 16.0;
const FACTOR: f64 = 1.0 / 3.0;
/// A larger share of marks says that too much is in flight.
const THRESH: f64 = 0.5;
const LONGEST_RTT: Time = Time::from_ms(5);
const STARTUP_ROUNDS: u32 = 2;

/// The marks of a connection.
#[derive(Debug)]
pub(super) struct Marks {
    /// Of its segments.
    pub(super) codepoint: Ecn,
    /// Whether it reacts.
    eligible: bool,
    /// Average share of marks.
    alpha: f64,
    acked: u64,
    marked: u64,
    pub(super) in_round: bool,
    in_cycle: bool,
    startup_rounds: u32,
}

impl Marks {
    pub(super) fn new(codepoint: Ecn) -> Marks {
        Marks {
            codepoint,
            eligible: false,
            alpha: 1.0,
            acked: 0,
            marked: 0,
            in_round: false,
            in_cycle: false,
            startup_rounds: 0,
        }
    }

    /// The share of the present round trip, which ends.
    fn end_round(&mut self) -> f64 {
        let share = self.marked as f64 / self.acked.max(1) as f64;
        (self.acked, self.marked) = (0, 0);
        self.alpha = (1.0 - ALPHA_GAIN) * self.alpha + ALPHA_GAIN * share;
        share
    }

    /// What remains of the volume in flight after a round trip with marks.
    pub(super) fn cut(&self) -> f64 {
        1.0 - self.alpha * FACTOR
    }

    /// Do the marks of this sample say that too much was in flight?
    pub(super) fn are_too_many(&self, rate: &RateSample) -> bool {
        self.eligible && rate.ce as f64 > rate.delivered as f64 * THRESH
    }

    pub(super) fn reset_cycle(&mut self) {
        (self.in_round, self.in_cycle) = (false, false);
    }

    /// After all that an ACK changes.
    pub(super) fn note_cycle(&mut self, rate: &RateSample) {
        self.in_cycle |= rate.ce > 0;
    }
}

impl Bbr3 {
    /// An ACK arrives.
    pub(super) fn update_marks(&mut self, ack: &Ack) {
        self.marks.acked += ack.delivered;
        self.marks.marked += ack.ce;
        if self.round_start {
            let uses_ecn = self.marks.codepoint != Ecn::NotEct;
            self.marks.eligible |= uses_ecn && self.model.min_rtt <= LONGEST_RTT;
            if self.marks.eligible {
                let share = self.marks.end_round();
                self.check_startup_marks(share);
            }
        }
        self.marks.in_round |= self.marks.eligible && ack.ce > 0;
    }

    fn check_startup_marks(&mut self, share: f64) {
        if self.full_bw_reached {
            return;
        }
        self.marks.startup_rounds = if share >= THRESH { self.marks.startup_rounds + 1 } else { 0 };
        if self.marks.startup_rounds >= STARTUP_ROUNDS {
            self.queue_too_high_in_startup();
        }
    }

    /// There were marks and no losses since the last probe: where a probe for more begins, as rounds of its growth.
    pub(super) fn probes_after_marks(&self, connection: &Connection) -> Option<u32> {
        let gain = self.rules.ecn_reprobe_gain?;
        let marks = &self.marks;
        let only_marks = marks.eligible && marks.in_cycle && !self.model.is_loss_in_cycle;
        let volume = self.model.inflight_longterm.min(f64::from(u32::MAX)) * gain;
        (only_marks && !connection.in_recovery).then(|| (volume.log2() as u32).min(30))
    }
}

#[cfg(test)]
mod tests {
    use weir_queue::{Config, red};

    use super::super::{RULES, Rules, State};
    use super::*;
    use crate::cc::{CongestionControl, Name, bbr2};
    use crate::scenario::{Buffer, Group, Scenario};
    use crate::world::World;

    fn connection() -> Connection {
        Connection {
            now: Time::from_s(1),
            in_flight: 100,
            delivered: 1000,
            lost: 0,
            srtt_s: 0.004,
            in_recovery: false,
            cwnd_limited: true,
        }
    }

    /// An ACK of 10 segments that ends a round trip, of which so many have CE.
    fn ack(ce: u64) -> Ack {
        let rate = RateSample {
            delivery_rate: 25_000.0,
            delivered: 100,
            prior_delivered: 1000,
            tx_in_flight: 110,
            ce: 10 * ce,
            ..RateSample::default()
        };
        Ack { delivered: 10, ce, rtt: Some(Time::from_ms(4)), rate }
    }

    /// In this state, at 25,000 segments/s and 4 ms.
    fn sender(rules: Rules, state: State) -> Bbr3 {
        let mut bbr = Bbr3::new(rules, Ecn::Ect0, 1);
        bbr.model.bw_cycles = [25_000.0; 2];
        bbr.model.min_rtt = Time::from_ms(4);
        bbr.full_bw_reached = state != State::Startup;
        bbr.state = state;
        bbr.cwnd = 200.0;
        bbr.cycle_stamp = Time::from_s(1);
        bbr.bw_probe_wait = Time::from_s(3);
        bbr.model.min_rtt_stamp = Time::from_s(1);
        bbr.model.probe_rtt_min_stamp = Time::from_s(1);
        bbr.model.probe_rtt_min_delay = Time::from_ms(4);
        bbr
    }

    #[test]
    fn a_round_with_marks_lowers_the_short_term_bound_by_a_third_of_their_share() {
        for (ce, alpha) in [(10, 1.0), (2, 0.95), (0, 0.9375)] {
            let mut bbr = sender(bbr2::RULES, State::Cruise);
            bbr.on_ack(&ack(ce), &connection());
            assert!((bbr.marks.alpha - alpha).abs() < 1e-9, "{ce} of 10: {}", bbr.marks.alpha);
            let expected = if ce > 0 { 200.0 * (1.0 - alpha / 3.0) } else { f64::INFINITY };
            assert_eq!(bbr.model.inflight_shortterm, expected, "{ce} of 10");
            assert!(bbr.model.bw_shortterm.is_infinite(), "marks say nothing of the bandwidth");
        }
    }

    #[test]
    fn marks_do_not_lower_it_while_probing_or_on_a_long_path() {
        let mut up = sender(RULES, State::Up);
        up.on_ack(&ack(2), &connection());
        let mut long = sender(RULES, State::Cruise);
        long.model.min_rtt = LONGEST_RTT + Time::from_us(1);
        long.model.probe_rtt_min_delay = long.model.min_rtt;
        long.on_ack(&Ack { rtt: Some(long.model.min_rtt), ..ack(10) }, &connection());
        for bbr in [up, long] {
            assert!(bbr.model.inflight_shortterm.is_infinite(), "{:?}", bbr.state);
        }
    }

    #[test]
    fn many_marks_end_the_probe_and_set_the_long_term_bound() {
        for (ce, state, bound) in [(5, State::Up, f64::INFINITY), (6, State::Down, 110.0)] {
            let mut bbr = sender(RULES, State::Up);
            bbr.is_bw_probe_sample = true;
            bbr.on_ack(&ack(ce), &connection());
            assert_eq!((bbr.state, bbr.model.inflight_longterm), (state, bound), "{ce} of 10");
            assert!(bbr.undo.state.is_none(), "a spurious recovery undoes no marks");
        }
    }

    #[test]
    fn two_rounds_of_half_marks_end_startup() {
        for (rounds, ends) in [([5, 0, 5], false), ([4, 4, 4], false), ([0, 5, 5], true)] {
            let mut bbr = sender(RULES, State::Startup);
            for (ce, at) in rounds.into_iter().zip([1000, 2000, 3000]) {
                let mut ack = ack(ce);
                // The rate still grows: no plateau.
                (ack.rate.prior_delivered, ack.rate.delivery_rate) = (at, 10.0 * at as f64 * at as f64);
                bbr.on_ack(&ack, &Connection { delivered: at + 1000, ..connection() });
            }
            assert_eq!(bbr.full_bw_reached, ends, "{rounds:?}");
            assert_eq!(bbr.model.inflight_longterm.is_finite(), ends, "{rounds:?}");
        }
    }

    #[test]
    fn version_3_probes_at_once_after_marks_without_losses() {
        for (rules, lost, state) in
            [(RULES, false, State::Refill), (RULES, true, State::Cruise), (bbr2::RULES, false, State::Cruise)]
        {
            let mut bbr = sender(rules, State::Cruise);
            bbr.model.inflight_longterm = 160.0;
            bbr.model.is_loss_in_cycle = lost;
            bbr.on_ack(&ack(1), &connection());
            assert_eq!(bbr.state, State::Cruise, "marks are seen by the next ACK");
            bbr.on_ack(&ack(0), &connection());
            let rounds = if state == State::Refill { 6 } else { 0 };
            assert_eq!((bbr.state, bbr.bw_probe_up_rounds), (state, rounds), "2^6 <= 160 / 2");
        }
    }

    /// A flow on a path of so long a round trip, with a queue that marks from 5 kB on, all at 100 kB, and drops at 200 kB: whether
    /// marks have bounded it by the end of any ms, time in the queue at the 99th percentile in ms, and the part of the link that
    /// is used.
    fn run(cc: Name, rtt: Time) -> (bool, f64, f64) {
        let config = red::Config {
            min_bytes: Some(5_000),
            max_bytes: Some(100_000),
            max_p: 1.0,
            weight: Some(1.0),
            mean_bytes: 1514,
            ..red::Config::default()
        };
        let group = Group { ecn: true, ..Group::new(1, cc, rtt) };
        let (rate, buffer, end) = (100_000_000, Buffer::Bytes(400_000), Time::from_s(10));
        let mut scenario = Scenario::new(Config::Red(config), rate, buffer, vec![group], end);
        scenario.warm_up = Time::from_s(2);
        let mut world = World::new(&scenario).unwrap();
        let mut bounded = false;
        while world.now < end {
            let next = world.now + Time::from_ms(1);
            world.run_until(next);
            let model = &world.flows[0].sender.cc.as_bbr3().unwrap().model;
            bounded |= model.inflight_shortterm.is_finite();
        }
        let outcome = scenario.run().unwrap();
        assert_eq!(outcome.queue.dropped_packets(), 0, "{}: losses bound it, too", cc.text());
        assert!(outcome.groups[0].marks > 0.001, "{}: no marks", cc.text());
        (bounded, outcome.sojourn.p99_s * 1e3, outcome.utilisation)
    }

    #[test]
    fn a_flow_reacts_to_a_queue_that_marks_on_a_short_path() {
        for cc in [Name::Bbr2, Name::Bbr3] {
            let [short, long] = [4, 6].map(|ms| run(cc, Time::from_ms(ms)));
            println!("{}: {short:?} {long:?}", cc.text());
            assert!(short.0 && !long.0, "{}: {short:?} {long:?}", cc.text());
            assert!(short.2 > 0.9, "{}: {short:?}", cc.text());
        }
    }
}
