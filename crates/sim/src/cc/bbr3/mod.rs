//! BBR version 3, after draft-ietf-ccwg-bbr: the pseudo-code's functions with its names, in segments and seconds.
//!
//! ECN, which the draft lacks, is that of google/bbr (`ecn.rs`). Left out: connections without SACK. The offload budget is that
//! of TCP although the simulator has no offloads. Version 2 is other [`Rules`] on the same engine.

mod ecn;
mod model;
mod state;
#[cfg(test)]
mod tests;

use weir_queue::{Ecn, Time};
use weir_rng::Rng;

use super::filter::MaxFilter;
use super::{Ack, CongestionControl, Connection, INITIAL, Lost};
use ecn::Marks;

const LOSS_THRESH: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
const MIN_PIPE_CWND: f64 = 4.0;
const DEFAULT_CWND_GAIN: f64 = 2.0;
const UP_GAIN: f64 = 1.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
const PROBE_RTT_DURATION: Time = Time::from_ms(200);
const PROBE_RTT_INTERVAL: Time = Time::from_s(5);
const MIN_RTT_FILTER: Time = Time::from_s(10);
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Paced 1 % slower than the estimate, so that queues drain.
const MARGIN: f64 = 0.99;
/// 64 KiB, in segments.
const LARGEST_QUANTUM: f64 = 45.0;

/// Which bandwidth shows that the path is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plateau {
    /// That of the present sample.
    Sample,
    /// The largest one of the window.
    MaxBw,
}

/// What ends the probe upward, beside losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UpEnds {
    /// A delivery rate that does not grow any more.
    Plateau,
    /// So many bandwidth-delay products in flight, a round trip after its start.
    InFlight(f64),
}

/// What differs between versions 2 and 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Pacing gain of Startup.
    pub startup_pacing_gain: f64,
    /// Window gain of Startup.
    pub startup_cwnd_gain: f64,
    /// Gaps in a round trip that end Startup if more than 2 % are lost.
    pub startup_loss_events: u32,
    /// Which bandwidth shows that the path is full.
    pub plateau: Plateau,
    /// Pacing gain of Drain.
    pub drain_gain: f64,
    /// Drain ends after so many round trips.
    pub drain_rounds: Option<u64>,
    /// Pacing gain of ProbeBW_DOWN.
    pub down_gain: f64,
    /// Window gain of ProbeBW_UP.
    pub up_cwnd_gain: f64,
    /// What ends ProbeBW_UP.
    pub up_ends: UpEnds,
    /// The part of the long-term bound by which a probe after marks begins to grow; none without such probes.
    pub ecn_reprobe_gain: Option<f64>,
}

/// Version 3.
pub const RULES: Rules = Rules {
    startup_pacing_gain: 2.77,
    startup_cwnd_gain: 2.0,
    startup_loss_events: 6,
    plateau: Plateau::Sample,
    drain_gain: 0.5,
    drain_rounds: Some(3),
    down_gain: 0.9,
    up_cwnd_gain: 2.25,
    up_ends: UpEnds::Plateau,
    ecn_reprobe_gain: Some(0.5),
};

/// States of the draft's section 5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Sends faster than it has measured, or is about to.
    fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// What the ACKs of the present mean for the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The path: what the draft calls its network path model.
#[derive(Debug)]
pub(crate) struct Model {
    /// Largest rates of the present and the last probing cycle, in segments/s.
    bw_cycles: [f64; 2],
    bw_shortterm: f64,
    inflight_longterm: f64,
    inflight_shortterm: f64,
    min_rtt: Time,
    min_rtt_stamp: Time,
    probe_rtt_min_delay: Time,
    probe_rtt_min_stamp: Time,
    probe_rtt_expired: bool,
    extra_acked: MaxFilter,
    extra_acked_start: Time,
    extra_acked_delivered: f64,
    bw_latest: f64,
    inflight_latest: f64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    is_loss_in_cycle: bool,
    loss_events: u32,
    last_lost: Option<u64>,
}

/// What is restored if a recovery was not necessary.
#[derive(Debug, Clone, Copy)]
struct Undo {
    state: Option<State>,
    bw_shortterm: f64,
    inflight_shortterm: f64,
    inflight_longterm: f64,
}

/// The sender.
#[derive(Debug)]
pub struct Bbr3 {
    rules: Rules,
    state: State,
    model: Model,
    marks: Marks,
    cwnd: f64,
    prior_cwnd: f64,
    pacing: Option<f64>,
    next_round_delivered: u64,
    round_start: bool,
    round_count: u64,
    full_bw: f64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u64,
    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    probe_up_acked_per_inc: f64,
    bw_probe_up_acked: f64,
    bw_probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    bw_probe_wait: Time,
    cycle_stamp: Time,
    up_stamp: Time,
    probe_rtt_done_stamp: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    undo: Undo,
    rng: Rng,
}

impl Bbr3 {
    pub(crate) fn new(rules: Rules, ecn: Ecn, seed: u64) -> Bbr3 {
        Bbr3 {
            rules,
            state: State::Startup,
            model: Model::new(),
            marks: Marks::new(ecn),
            cwnd: INITIAL,
            prior_cwnd: 0.0,
            pacing: None,
            next_round_delivered: 0,
            round_start: false,
            round_count: 0,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_up_acked_per_inc: f64::INFINITY,
            bw_probe_up_acked: 0.0,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            bw_probe_wait: Time::ZERO,
            cycle_stamp: Time::ZERO,
            up_stamp: Time::ZERO,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            undo: Undo {
                state: None,
                bw_shortterm: f64::INFINITY,
                inflight_shortterm: f64::INFINITY,
                inflight_longterm: f64::INFINITY,
            },
            rng: Rng::new(seed),
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => self.rules.startup_pacing_gain,
            State::Drain => self.rules.drain_gain,
            State::Down => self.rules.down_gain,
            State::Up => UP_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::Startup => self.rules.startup_cwnd_gain,
            State::Up => self.rules.up_cwnd_gain,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            State::Drain | State::Down | State::Cruise | State::Refill => DEFAULT_CWND_GAIN,
        }
    }

    /// `BDPMultiple`.
    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        if self.model.min_rtt == Time::MAX { INITIAL } else { gain * bw * self.model.min_rtt.secs() }
    }

    /// `QuantizationBudget`.
    fn quantized(&self, inflight: f64) -> f64 {
        let quantum = (self.pacing.unwrap_or(0.0) * 1e-3).clamp(2.0, LARGEST_QUANTUM);
        let inflight = inflight.max(3.0 * quantum).max(MIN_PIPE_CWND);
        if self.state == State::Up { inflight + 2.0 } else { inflight }
    }

    /// `Inflight`.
    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.quantized(self.bdp(bw, gain))
    }

    /// `InflightWithHeadroom`.
    fn inflight_with_headroom(&self) -> f64 {
        let longterm = self.model.inflight_longterm;
        if longterm.is_infinite() {
            return longterm;
        }
        (longterm - (HEADROOM * longterm).max(1.0)).max(MIN_PIPE_CWND)
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.model.bw(), PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    /// `SetPacingRateWithGain`.
    fn set_pacing(&mut self, gain: f64, connection: &Connection) {
        let rate = gain * self.model.bw() * MARGIN;
        match self.pacing {
            None if connection.srtt_s > 0.0 => {
                self.pacing = Some(self.rules.startup_pacing_gain * INITIAL / connection.srtt_s);
            }
            Some(pacing) if rate > 0.0 && (self.full_bw_reached || rate > pacing) => self.pacing = Some(rate),
            _ => {}
        }
    }

    /// `SetCwnd`.
    fn set_cwnd(&mut self, ack: &Ack, connection: &Connection) {
        let acked = ack.delivered as f64;
        let most = self.quantized(self.bdp(self.model.bw(), self.cwnd_gain()) + self.model.extra_acked.get());
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + acked).min(most);
        } else if self.cwnd < most || (connection.delivered as f64) < INITIAL {
            self.cwnd += acked;
        }
        self.cwnd = self.cwnd.max(MIN_PIPE_CWND);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.cwnd.min(self.cwnd_cap());
    }

    /// `BoundCwndForModel`.
    fn cwnd_cap(&self) -> f64 {
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.model.inflight_longterm,
            State::ProbeRtt | State::Cruise => self.inflight_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        cap.min(self.model.inflight_shortterm).max(MIN_PIPE_CWND)
    }

    fn save_cwnd(&mut self, connection: &Connection) {
        if connection.in_recovery || self.state == State::ProbeRtt {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        } else {
            self.prior_cwnd = self.cwnd;
        }
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// `SaveStateUponLoss`.
    fn save_state(&mut self, connection: &Connection) {
        self.save_cwnd(connection);
        self.undo = Undo {
            state: None,
            bw_shortterm: self.model.bw_shortterm,
            inflight_shortterm: self.model.inflight_shortterm,
            inflight_longterm: self.model.inflight_longterm,
        };
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        self.update_latest_signals(ack, connection);
        self.update_congestion_signals(ack, connection);
        self.update_aggregation(ack, connection);
        self.check_full_bw(ack);
        self.check_startup_done(ack, connection);
        self.check_drain_done(connection);
        self.update_cycle(ack, connection);
        self.model.update_min_rtt(ack, connection.now);
        self.check_probe_rtt(ack, connection);
        self.model.advance_latest_signals(ack);
        self.set_pacing(self.pacing_gain(), connection);
        self.set_cwnd(ack, connection);
        self.marks.note_cycle(&ack.rate);
    }

    fn on_lost(&mut self, lost: &Lost, connection: &Connection) {
        self.note_loss(lost, connection);
        self.handle_lost(lost, connection);
    }

    fn on_recovery(&mut self, connection: &Connection) {
        self.save_state(connection);
    }

    fn on_recovered(&mut self, _connection: &Connection) {
        self.restore_cwnd();
    }

    fn on_timeout(&mut self, connection: &Connection) {
        self.save_state(connection);
        self.cwnd = connection.in_flight as f64 + 1.0;
    }

    fn on_spurious(&mut self, connection: &Connection) {
        self.handle_spurious(connection);
    }

    fn on_send(&mut self, connection: &Connection, app_limited: bool) {
        if connection.in_flight > 0 || !app_limited {
            return;
        }
        self.idle_restart = true;
        self.model.extra_acked_start = connection.now;
        if self.state.is_probe_bw() {
            self.set_pacing(1.0, connection);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(connection);
        }
    }

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn reduces_to(&self) -> Option<f64> {
        None
    }

    fn pacing(&self) -> Option<f64> {
        // before the first round trip is known it counts as 1 ms
        Some(self.pacing.unwrap_or(self.rules.startup_pacing_gain * INITIAL / 1e-3))
    }

    fn ignores_rates(&self) -> bool {
        self.state == State::ProbeRtt
    }

    fn ecn(&self) -> Ecn {
        self.marks.codepoint
    }

    fn phase(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "down",
            State::Cruise => "cruise",
            State::Refill => "refill",
            State::Up => "up",
            State::ProbeRtt => "probe rtt",
        }
    }

    fn as_bbr3(&self) -> Option<&Bbr3> {
        Some(self)
    }
}
