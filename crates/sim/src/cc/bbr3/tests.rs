//! The test cases of the appendix of draft-ietf-ccwg-bbr, in the order of the draft.

use weir_queue::{Config, Ecn, Time};

use super::super::{Ack, CongestionControl, Connection, Lost, Name, RateSample};
use super::{Bbr3, RULES, State};
use crate::scenario::{Buffer, Group, Loss, Policer, Scenario};
use crate::world::World;

const LINK: u64 = 50_000_000;
const RTT: Time = Time::from_ms(40);
const STEP: Time = Time::from_ms(1);

/// Segments/s of a link.
fn segments_per_s(bits_per_s: u64) -> f64 {
    bits_per_s as f64 / 8.0 / 1514.0
}

/// One flow of BBR.
struct Bed {
    world: World,
}

impl Bed {
    fn new(buffer: Buffer, group: Group) -> Bed {
        let fifo = Config::Fifo(weir_queue::fifo::Config::default());
        let scenario = Scenario::new(fifo, LINK, buffer, vec![group], Time::from_s(1000));
        Bed { world: World::new(&scenario).unwrap() }
    }

    /// A flow that always has data, behind a buffer of 4 bandwidth-delay products.
    fn bulk() -> Bed {
        Bed::new(Buffer::Bdp(4.0), Group::new(1, Name::Bbr3, RTT))
    }

    /// A flow whose application has so many bits/s from so many seconds on.
    fn limited(steps: &[(u64, f64)]) -> Bed {
        let application = steps.iter().map(|&(s, rate)| (Time::from_s(s), rate)).collect();
        Bed::new(Buffer::Bdp(4.0), Group { application, ..Group::new(1, Name::Bbr3, RTT) })
    }

    fn bbr(&self) -> &Bbr3 {
        self.world.flows[0].sender.cc.as_bbr3().unwrap()
    }

    fn in_flight(&self) -> f64 {
        self.world.flows[0].sender.in_flight() as f64
    }

    fn step(&mut self) {
        let next = self.world.now + STEP;
        self.world.run_until(next);
    }

    fn run_s(&mut self, s: u64) {
        let until = self.world.now + Time::from_s(s);
        self.world.run_until(until);
    }

    /// Runs until it is in a state; how long that took.
    fn until(&mut self, state: State) -> Time {
        self.until_that(|bbr| bbr.state == state, &format!("{state:?}"))
    }

    fn until_that(&mut self, condition: impl Fn(&Bbr3) -> bool, what: &str) -> Time {
        let start = self.world.now;
        while !condition(self.bbr()) {
            self.step();
            let (waited, state) = (self.world.now - start, self.bbr().state);
            assert!(waited < Time::from_s(60), "not {what} after {} s, but {state:?}", waited.secs());
        }
        self.world.now - start
    }

    /// Runs until the state changes; the new one.
    fn leave(&mut self, state: State) -> State {
        self.until_that(|bbr| bbr.state != state, "another state");
        self.bbr().state
    }
}

#[test]
fn startup_ends_on_a_plateau() {
    let mut bed = Bed::bulk();
    assert_eq!(bed.leave(State::Startup), State::Drain);
    let share = bed.bbr().model.max_bw() / segments_per_s(LINK);
    assert!((share - 1.0).abs() < 0.02, "the estimate is {share:.3} of the link");
    assert!(bed.bbr().full_bw_now && bed.bbr().full_bw_reached && bed.bbr().full_bw_count == 3);
}

#[test]
fn startup_ends_on_loss_when_the_application_limits() {
    let mut group = Group::new(1, Name::Bbr3, Time::from_ms(100));
    group.application = vec![(Time::ZERO, 20e6)];
    let mut bed = Bed::new(Buffer::Bdp(4.0), group);
    bed.run_s(2);
    assert_eq!(bed.bbr().state, State::Startup);
    bed.world.paths[0].impairment.loss = Some(Loss::Random(0.1));
    // little is in flight: Drain and Down may be over within the same step
    bed.leave(State::Startup);
    assert!(
        bed.bbr().full_bw_reached
            && bed.bbr().full_bw_count < 3
            && bed.bbr().model.inflight_longterm.is_finite()
    );
}

#[test]
fn drain_ends_when_little_is_in_flight() {
    let mut bed = Bed::bulk();
    bed.until(State::Drain);
    assert_eq!(bed.bbr().pacing_gain(), 0.5);
    bed.leave(State::Drain);
    let (bbr, in_flight) = (bed.bbr(), bed.in_flight());
    assert!(in_flight <= bbr.inflight(bbr.model.bw(), 1.0) + 2.0, "{in_flight} in flight");
    assert!(bbr.round_count <= bbr.drain_start_round + 4);
}

#[test]
fn drain_ends_after_three_rounds() {
    let mut bed = Bed::bulk();
    bed.until(State::Drain);
    bed.world.set_rate(LINK / 2);
    assert_eq!(bed.leave(State::Drain), State::Down);
    let bbr = bed.bbr();
    assert_eq!(bbr.round_count, bbr.drain_start_round + 4);
    assert!(bed.in_flight() > bbr.inflight(bbr.model.bw(), 1.0), "the time is not what ended it");
}

#[test]
fn up_ends_on_a_plateau() {
    let mut bed = Bed::bulk();
    bed.until(State::Up);
    assert_eq!(bed.bbr().cwnd_gain(), 2.25);
    assert_eq!(bed.leave(State::Up), State::Down);
    assert!(bed.bbr().full_bw_now && bed.bbr().full_bw_count == 3 && !bed.bbr().prev_probe_too_high);
}

#[test]
fn up_ends_on_loss_when_the_application_limits() {
    // twice the link for a second, so that Startup ends; then less than the link
    let mut bed = Bed::limited(&[(0, 2.0 * LINK as f64), (1, 0.6 * LINK as f64)]);
    bed.run_s(5);
    bed.until(State::Refill);
    bed.until(State::Up);
    let longterm = bed.bbr().model.inflight_longterm;
    bed.world.paths[0].impairment.loss = Some(Loss::Random(0.2));
    assert!(matches!(bed.leave(State::Up), State::Down | State::Cruise));
    assert!(bed.bbr().prev_probe_too_high, "loss is what ended it");
    assert_eq!(bed.bbr().model.inflight_longterm, longterm, "a limited sample must not set a bound");
}

#[test]
fn startup_lasts_while_the_application_limits_and_nothing_is_lost() {
    let mut bed = Bed::limited(&[(0, 0.5 * LINK as f64)]);
    for _ in 0..20_000 {
        bed.step();
        assert!(matches!(bed.bbr().state, State::Startup | State::ProbeRtt), "{:?}", bed.bbr().state);
    }
    assert!(!bed.bbr().full_bw_reached);
}

#[test]
fn down_ends_when_little_is_in_flight() {
    let mut bed = Bed::bulk();
    bed.until(State::Up);
    bed.until(State::Down);
    assert_eq!(bed.bbr().pacing_gain(), 0.9);
    assert_eq!(bed.leave(State::Down), State::Cruise);
    let bbr = bed.bbr();
    let most = bbr.inflight_with_headroom().min(bbr.inflight(bbr.model.max_bw(), 1.0));
    assert!(bed.in_flight() <= most + 2.0, "{} in flight, {most:.1} expected", bed.in_flight());
}

#[test]
fn down_ends_after_its_longest_time() {
    let mut bed = Bed::bulk();
    bed.until(State::Up);
    // one that ends before ProbeRTT would end it
    let early = |bbr: &Bbr3| {
        let end = bbr.cycle_stamp + bbr.bw_probe_wait + Time::from_ms(200);
        bbr.state == State::Down && end < bbr.model.probe_rtt_min_stamp + super::PROBE_RTT_INTERVAL
    };
    bed.until_that(early, "early");
    bed.world.set_rate(LINK * 85 / 100);
    let start = bed.bbr().cycle_stamp;
    assert_eq!(bed.leave(State::Down), State::Refill);
    let lasted = bed.world.now - start;
    assert!(lasted >= Time::from_s(2) && lasted < Time::from_s(4), "{} s", lasted.secs());
}

#[test]
fn probe_rtt_comes_after_five_seconds_and_lasts_a_fifth_of_one() {
    let mut bed = Bed::bulk();
    bed.until(State::Down);
    bed.until(State::ProbeRtt);
    let since = bed.world.now - bed.bbr().model.probe_rtt_min_stamp;
    assert_eq!(bed.bbr().cwnd_gain(), 0.5);
    let entered = bed.world.now;
    assert_eq!(bed.leave(State::ProbeRtt), State::Cruise);
    let lasted = bed.world.now - entered;
    assert!(lasted >= Time::from_ms(200) && lasted < Time::from_ms(400), "{} s", lasted.secs());
    assert!(since <= Time::from_ms(50), "its first sample is that of the queue: {} s", since.secs());
    bed.run_s(1);
    assert!(bed.in_flight() > 100.0, "it sends again");
}

#[test]
fn probe_rtt_is_skipped_after_an_idle_time() {
    let link = LINK as f64;
    let mut bed = Bed::limited(&[(0, 2.0 * link), (1, 0.0), (12, 0.5 * link)]);
    bed.run_s(11);
    assert!(bed.in_flight() == 0.0 && bed.bbr().full_bw_reached, "idle, after Startup");
    let state = bed.bbr().state;
    bed.until_that(|bbr| bbr.idle_restart, "restarted");
    for _ in 0..300 {
        bed.step();
        assert_ne!(bed.bbr().state, State::ProbeRtt, "it was {state:?}");
    }
}

/// A path whose ACKs come every 20 ms.
fn aggregated() -> Bed {
    let mut group = Group::new(1, Name::Bbr3, RTT);
    group.impairment.ack_every = Time::from_ms(20);
    Bed::new(Buffer::Bdp(4.0), group)
}

#[test]
fn startup_finds_the_bandwidth_in_spite_of_aggregation() {
    let mut bed = aggregated();
    bed.leave(State::Startup);
    let (bbr, bdp) = (bed.bbr(), segments_per_s(LINK) * RTT.secs());
    assert!(bbr.model.extra_acked.get() > 10.0, "{} extra", bbr.model.extra_acked.get());
    assert!(bbr.cwnd > 2.0 * bdp, "a window of {}", bbr.cwnd);
    let share = bbr.model.max_bw() / segments_per_s(LINK);
    assert!((0.95..1.1).contains(&share), "the estimate is {share:.3} of the link");
}

#[test]
fn aggregation_does_not_stall_the_cruise() {
    let mut bed = aggregated();
    bed.until(State::Cruise);
    let (bytes, start) = (bed.world.link.bytes, bed.world.now);
    bed.run_s(1);
    let share = (bed.world.link.bytes - bytes) as f64 * 8.0 / (bed.world.now - start).secs() / LINK as f64;
    assert!(bed.bbr().model.extra_acked.get() > 10.0 && share > 0.97, "{share:.3} of the link");
}

#[test]
fn less_than_a_packet_of_bandwidth_delay_product() {
    let fifo = Config::Fifo(weir_queue::fifo::Config::default());
    let group = Group::new(1, Name::Bbr3, RTT);
    let scenario = Scenario::new(fifo, 64_000, Buffer::Bytes(30_000), vec![group], Time::from_s(100));
    let mut bed = Bed { world: World::new(&scenario).unwrap() };
    bed.until(State::Cruise);
    bed.run_s(60);
    let expected = segments_per_s(64_000);
    assert!(bed.bbr().cwnd >= 4.0 && bed.bbr().cwnd <= 10.0, "a window of {}", bed.bbr().cwnd);
    let share = bed.bbr().model.max_bw() / expected;
    assert!((0.95..1.1).contains(&share), "the estimate is {share:.3} of the link");
    assert!(bed.world.link.busy.secs() / bed.world.now.secs() > 0.95);
}

#[test]
fn ten_times_the_bandwidth_is_found() {
    let mut bed = Bed::bulk();
    bed.world.set_rate(LINK / 10);
    bed.until(State::Cruise);
    bed.world.set_rate(LINK);
    let found =
        bed.until_that(|bbr| bbr.model.max_bw() > 0.95 * segments_per_s(LINK), "at the new bandwidth");
    // a probe begins within 3 s, then the estimate grows by a quarter a round: 11 rounds of 40 ms and more
    assert!(found < Time::from_s(8), "{} s", found.secs());
}

#[test]
fn a_tenth_of_the_bandwidth_is_found() {
    let mut bed = Bed::new(Buffer::Bdp(0.5), Group::new(1, Name::Bbr3, RTT));
    bed.until(State::Cruise);
    bed.world.set_rate(LINK / 10);
    let less = segments_per_s(LINK / 10);
    let shortterm = bed.until_that(|bbr| bbr.model.bw() < 2.0 * less, "adapted by the short-term bound");
    assert!(shortterm < Time::from_s(3), "{} s", shortterm.secs());
    bed.until_that(|bbr| bbr.model.max_bw() < 1.1 * less, "at the new bandwidth");
}

#[test]
fn a_policer_is_obeyed() {
    let mut group = Group::new(1, Name::Bbr3, RTT);
    group.impairment.policer = Some(Policer { bits_per_s: LINK as f64 / 5.0, burst_bytes: 100_000.0 });
    let mut bed = Bed::new(Buffer::Bdp(4.0), group);
    bed.until_that(|bbr| bbr.model.inflight_shortterm.is_finite(), "bounded by losses");
    bed.run_s(10);
    let before = (bed.world.flows[0].receiver.delivered(), bed.world.flows[0].sender.counts.sent);
    bed.run_s(30);
    let arrived = (bed.world.flows[0].receiver.delivered() - before.0) as f64 / 30.0;
    let sent = (bed.world.flows[0].sender.counts.sent - before.1) as f64 / 30.0;
    let share = arrived / segments_per_s(LINK / 5);
    assert!(share > 0.75 && share < 1.01, "{share:.3} of the policer's rate arrive");
    assert!(sent / arrived < 1.15, "{:.3} lost", 1.0 - arrived / sent);
}

/// Where the unit cases below begin: a connection with this much in flight.
fn connection(in_flight: u64) -> Connection {
    Connection {
        now: Time::from_s(1),
        in_flight,
        delivered: 1000,
        lost: 10,
        srtt_s: 0.04,
        in_recovery: false,
        cwnd_limited: true,
    }
}

fn probing() -> Bbr3 {
    let mut bbr = Bbr3::new(RULES, Ecn::NotEct, 1);
    bbr.model.bw_cycles = [4000.0; 2];
    bbr.model.min_rtt = RTT;
    bbr.full_bw_reached = true;
    bbr.state = State::Up;
    bbr.is_bw_probe_sample = true;
    bbr.cwnd = 200.0;
    bbr.model.inflight_longterm = 180.0;
    bbr
}

#[test]
fn a_spurious_recovery_is_undone() {
    for timeout in [false, true] {
        let mut bbr = probing();
        let lost = Lost { seq: 5, tx_in_flight: 150, lost_since: 10, is_app_limited: false };
        bbr.on_lost(&lost, &connection(150));
        assert_eq!((bbr.state, bbr.undo.inflight_longterm), (State::Down, 180.0));
        assert!(bbr.model.inflight_longterm < 150.0);
        if timeout {
            bbr.on_timeout(&connection(0));
            assert_eq!(bbr.cwnd, 1.0);
            // the timeout saves the state anew: the probe is not returned to, the window is
            bbr.on_spurious(&connection(0));
            assert_eq!(bbr.cwnd, 200.0);
            continue;
        }
        bbr.on_spurious(&connection(150));
        assert_eq!((bbr.state, bbr.model.inflight_longterm, bbr.cwnd), (State::Refill, 180.0, 200.0));
    }
}

#[test]
fn probe_rtt_in_startup_returns_to_it() {
    let mut bed = Bed::limited(&[(0, 0.5 * LINK as f64)]);
    bed.until(State::ProbeRtt);
    assert_eq!(bed.leave(State::ProbeRtt), State::Startup);
}

#[test]
fn loss_in_up_lowers_the_longterm_bound() {
    let mut bed = Bed::bulk();
    bed.until(State::Up);
    bed.world.paths[0].impairment.loss = Some(Loss::Random(0.05));
    assert_eq!(bed.leave(State::Up), State::Down);
    bed.world.paths[0].impairment.loss = None;
    let first = bed.bbr().model.inflight_longterm;
    assert!(bed.bbr().prev_probe_too_high && first.is_finite());
    bed.until(State::Up);
    bed.world.paths[0].impairment.loss = Some(Loss::Random(0.2));
    assert_eq!(bed.leave(State::Up), State::Down);
    assert!(bed.bbr().model.inflight_longterm.is_finite());
}

#[test]
fn a_limited_refill_does_not_lower_the_estimate() {
    let mut bbr = probing();
    bbr.state = State::Refill;
    let rate =
        RateSample { delivery_rate: 100.0, delivered: 4, is_app_limited: true, ..RateSample::default() };
    let before = bbr.model.max_bw();
    bbr.next_round_delivered = 0;
    bbr.on_ack(&Ack { delivered: 4, ce: 0, rtt: Some(RTT), rate }, &connection(4));
    assert_eq!((bbr.model.max_bw(), bbr.state), (before, State::Up));
}

#[test]
fn a_plateau_is_three_rounds_of_less_than_a_quarter_more() {
    let mut bbr = Bbr3::new(RULES, Ecn::NotEct, 1);
    let ack = |delivery_rate: f64, is_app_limited: bool| Ack {
        delivered: 1,
        ce: 0,
        rtt: None,
        rate: RateSample { delivery_rate, is_app_limited, ..RateSample::default() },
    };
    for (rate, limited, round_start, count, full) in [
        (100.0, false, true, 0, false),
        (124.0, false, true, 1, false),
        (125.0, false, true, 0, false),
        (150.0, false, true, 1, false),
        (150.0, false, false, 1, false),
        (150.0, true, true, 1, false),
        (156.0, false, true, 2, false),
        (130.0, false, true, 3, true),
    ] {
        bbr.round_start = round_start;
        bbr.check_full_bw(&ack(rate, limited));
        assert_eq!((bbr.full_bw_count, bbr.full_bw_now), (count, full), "{rate}");
    }
}
