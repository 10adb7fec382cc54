//! BBR version 1, as in Linux (draft-cardwell-iccrg-bbr-congestion-control-00), without the detection of policers.

use weir_queue::Time;
use weir_rng::Rng;

use super::filter::MaxFilter;
use super::{Ack, CongestionControl, Connection, INITIAL, Lost};

/// 2 / ln 2: the smallest gain that doubles the rate in each round trip.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
const MIN_CWND: f64 = 4.0;
const BW_ROUNDS: u64 = 10;
/// Round trips that the most of aggregation is kept for, and the time at the estimated rate that it counts for at most.
const AGGREGATION_ROUNDS: u64 = 10;
const AGGREGATION: Time = Time::from_ms(100);
const MIN_RTT_WINDOW: Time = Time::from_s(10);
const PROBE_RTT: Time = Time::from_ms(200);
/// Paced 1 % slower than the estimate, so that queues drain.
const MARGIN: f64 = 0.99;
/// 1.2 Mbit/s, in segments/s.
const SLOW: f64 = 1.2e6 / 8.0 / 1448.0;
/// 64 KiB, in segments.
const LARGEST_QUANTUM: f64 = 45.0;
/// Before the first round trip is known it counts as 1 ms.
const FIRST_PACING: f64 = HIGH_GAIN * INITIAL / 1e-3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Whether the window is that of packet conservation, in the first round of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conservation {
    Off,
    On,
}

/// The sender.
#[derive(Debug)]
pub struct Bbr1 {
    mode: Mode,
    cwnd: f64,
    prior_cwnd: f64,
    pacing: Option<f64>,
    pacing_gain: f64,
    cwnd_gain: f64,
    bw: MaxFilter,
    min_rtt: Time,
    /// Stands for the smallest round trip where the window follows from it.
    assumed_min_rtt: Option<Time>,
    min_rtt_at: Time,
    round_end: u64,
    rounds: u64,
    full_bw: f64,
    full_bw_rounds: u32,
    filled: bool,
    phase: usize,
    phase_at: Time,
    probe_done_at: Option<Time>,
    probe_round_done: bool,
    in_recovery: bool,
    conservation: Conservation,
    /// Segments that the present ACK has shown lost.
    lost: u64,
    /// Segments that ACKs delivered above the estimated rate ..
    aggregation: MaxFilter,
    /// .. since then, ..
    epoch: Time,
    /// .. when so many have been delivered.
    epoch_acked: f64,
    rng: Rng,
}

impl Bbr1 {
    pub(crate) fn new(seed: u64, assumed_min_rtt: Option<Time>) -> Bbr1 {
        Bbr1 {
            mode: Mode::Startup,
            cwnd: INITIAL,
            prior_cwnd: 0.0,
            pacing: None,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            bw: MaxFilter::default(),
            min_rtt: Time::MAX,
            assumed_min_rtt,
            min_rtt_at: Time::ZERO,
            round_end: 0,
            rounds: 0,
            full_bw: 0.0,
            full_bw_rounds: 0,
            filled: false,
            phase: 0,
            phase_at: Time::ZERO,
            probe_done_at: None,
            probe_round_done: false,
            in_recovery: false,
            conservation: Conservation::Off,
            lost: 0,
            aggregation: MaxFilter::default(),
            epoch: Time::ZERO,
            epoch_acked: 0.0,
            rng: Rng::new(seed),
        }
    }

    /// The volume in flight for a gain.
    fn inflight(&self, gain: f64) -> f64 {
        self.window(gain, 0.0)
    }

    /// Segments that are handed to the interface at once: a ms at the pacing rate, two at least above 1.2 Mbit/s.
    fn quantum(&self) -> f64 {
        let pacing = self.pacing.unwrap_or(FIRST_PACING);
        let least = if pacing < SLOW { 1.0 } else { 2.0 };
        (pacing * 1e-3).floor().clamp(least, LARGEST_QUANTUM)
    }

    /// The same and so many more: with room for three such quanta, even, two more while probing.
    fn window(&self, gain: f64, more: f64) -> f64 {
        if self.min_rtt == Time::MAX {
            return INITIAL;
        }
        let bdp = self.bw.get() * self.assumed_min_rtt.unwrap_or(self.min_rtt).secs();
        let mut window = (gain * bdp + more).ceil() + 3.0 * self.quantum();
        window += window % 2.0;
        if self.mode == Mode::ProbeBw && self.phase == 0 { window + 2.0 } else { window }
    }

    /// Counts rounds and takes the delivery rate; whether a round begins.
    fn update_bw(&mut self, ack: &Ack, connection: &Connection) -> bool {
        let starts = ack.rate.prior_delivered >= self.round_end;
        if starts {
            self.round_end = connection.delivered;
            self.rounds += 1;
            self.conservation = Conservation::Off;
        }
        let rate = ack.rate.delivery_rate;
        if rate > 0.0 && (!ack.rate.is_app_limited || rate >= self.bw.get()) {
            self.bw.update(self.rounds, rate, BW_ROUNDS);
        }
        starts
    }

    /// ACKs that come in groups deliver more for a while than the estimated rate: the window has room for that.
    fn update_aggregation(&mut self, ack: &Ack, connection: &Connection) {
        let mut expected = self.bw.get() * (connection.now - self.epoch).secs();
        if self.epoch_acked <= expected {
            (self.epoch, self.epoch_acked, expected) = (connection.now, 0.0, 0.0);
        }
        self.epoch_acked += ack.delivered as f64;
        let extra = (self.epoch_acked - expected).min(self.cwnd);
        self.aggregation.update(self.rounds, extra, AGGREGATION_ROUNDS);
    }

    fn next_phase(&mut self, now: Time) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_at = now;
        self.pacing_gain = CYCLE[self.phase];
    }

    fn update_cycle(&mut self, connection: &Connection, lost: bool) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let long = connection.now - self.phase_at > self.min_rtt;
        let in_flight = connection.in_flight as f64;
        let done = match self.pacing_gain {
            gain if gain > 1.0 => long && (lost || in_flight >= self.inflight(gain)),
            gain if gain < 1.0 => long || in_flight <= self.inflight(1.0),
            _ => long,
        };
        if done {
            self.next_phase(connection.now);
        }
    }

    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.cwnd_gain = CWND_GAIN;
        // any phase but the one that drains
        self.phase = CYCLE.len() - 1 - self.rng.below(7);
        self.next_phase(now);
    }

    fn check_full(&mut self, starts: bool, ack: &Ack) {
        if self.filled || !starts || ack.rate.is_app_limited {
            return;
        }
        if self.bw.get() >= self.full_bw * 1.25 {
            self.full_bw = self.bw.get();
            self.full_bw_rounds = 0;
        } else {
            self.full_bw_rounds += 1;
            self.filled = self.full_bw_rounds >= 3;
        }
    }

    fn check_drain(&mut self, connection: &Connection) {
        if self.mode == Mode::Startup && self.filled {
            self.mode = Mode::Drain;
            self.pacing_gain = 1.0 / HIGH_GAIN;
            self.cwnd_gain = HIGH_GAIN;
        }
        if self.mode == Mode::Drain && connection.in_flight as f64 <= self.inflight(1.0) {
            self.enter_probe_bw(connection.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack, connection: &Connection, starts: bool) {
        let now = connection.now;
        let expired = now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (rtt <= self.min_rtt || expired)
        {
            self.min_rtt = rtt;
            self.min_rtt_at = now;
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            (self.pacing_gain, self.cwnd_gain) = (1.0, 1.0);
            self.save_cwnd();
            self.probe_done_at = None;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_done_at {
            None if connection.in_flight as f64 <= MIN_CWND => {
                self.probe_done_at = Some(now + PROBE_RTT);
                self.probe_round_done = false;
                self.round_end = connection.delivered;
            }
            None => {}
            Some(done_at) => {
                self.probe_round_done |= starts;
                if self.probe_round_done && now > done_at {
                    self.leave_probe_rtt(now);
                }
            }
        }
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        self.min_rtt_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.filled {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
            (self.pacing_gain, self.cwnd_gain) = (HIGH_GAIN, HIGH_GAIN);
        }
    }

    fn save_cwnd(&mut self) {
        if self.in_recovery || self.mode == Mode::ProbeRtt && self.probe_done_at.is_some() {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        } else {
            self.prior_cwnd = self.cwnd;
        }
    }

    fn set_pacing(&mut self, connection: &Connection) {
        let rate = self.pacing_gain * self.bw.get() * MARGIN;
        match self.pacing {
            None if connection.srtt_s > 0.0 => self.pacing = Some(HIGH_GAIN * self.cwnd / connection.srtt_s),
            Some(pacing) if rate > 0.0 && (self.filled || rate > pacing) => self.pacing = Some(rate),
            _ => {}
        }
    }

    fn set_cwnd(&mut self, ack: &Ack, connection: &Connection) {
        let acked = ack.delivered as f64;
        self.cwnd = (self.cwnd - self.lost as f64).max(1.0);
        if self.conservation == Conservation::On {
            self.cwnd = self.cwnd.max(connection.in_flight as f64 + acked);
        } else {
            let most = self.bw.get() * AGGREGATION.secs();
            let extra = if self.filled { self.aggregation.get().min(most) } else { 0.0 };
            let target = self.window(self.cwnd_gain, extra);
            if self.filled {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || (connection.delivered as f64) < INITIAL {
                self.cwnd += acked;
            }
        }
        self.cwnd = self.cwnd.max(MIN_CWND);
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionControl for Bbr1 {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        let starts = self.update_bw(ack, connection);
        self.update_aggregation(ack, connection);
        self.update_cycle(connection, self.lost > 0);
        self.check_full(starts, ack);
        self.check_drain(connection);
        self.update_min_rtt(ack, connection, starts);
        self.set_pacing(connection);
        self.set_cwnd(ack, connection);
        self.lost = 0;
    }

    fn on_lost(&mut self, _lost: &Lost, _connection: &Connection) {
        self.lost += 1;
    }

    fn on_recovery(&mut self, connection: &Connection) {
        self.save_cwnd();
        self.in_recovery = true;
        self.conservation = Conservation::On;
        self.round_end = connection.delivered;
        self.cwnd = connection.in_flight as f64 + 1.0;
    }

    fn on_recovered(&mut self, _connection: &Connection) {
        self.in_recovery = false;
        self.conservation = Conservation::Off;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn on_timeout(&mut self, _connection: &Connection) {
        self.save_cwnd();
        self.in_recovery = true;
        self.full_bw = 0.0;
        self.cwnd = 1.0;
    }

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn reduces_to(&self) -> Option<f64> {
        None
    }

    fn pacing(&self) -> Option<f64> {
        Some(self.pacing.unwrap_or(FIRST_PACING))
    }

    fn ignores_rates(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn phase(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe bw",
            Mode::ProbeRtt => "probe rtt",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn flows_begin_the_cycle_in_any_phase_but_the_one_that_drains() {
        let phases: BTreeSet<usize> = (0..200)
            .map(|seed| {
                let mut bbr = Bbr1::new(seed, None);
                bbr.enter_probe_bw(Time::ZERO);
                assert_eq!(bbr.pacing_gain, CYCLE[bbr.phase]);
                bbr.phase
            })
            .collect();
        assert_eq!(phases.into_iter().collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 7]);
    }
}
