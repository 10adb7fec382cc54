//! The state machine: Startup, Drain, the cycle that probes for bandwidth, ProbeRTT.

use weir_queue::Time;

use super::super::{Ack, Connection};
use super::{AckPhase, Bbr3, PROBE_RTT_DURATION, Plateau, State, UpEnds};

impl Bbr3 {
    fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// `CheckFullBWReached`.
    pub(super) fn check_full_bw(&mut self, ack: &Ack) {
        if self.full_bw_now || !self.round_start || ack.rate.is_app_limited {
            return;
        }
        let bw = match self.rules.plateau {
            Plateau::Sample => ack.rate.delivery_rate,
            Plateau::MaxBw => self.model.max_bw(),
        };
        if bw >= self.full_bw * 1.25 {
            self.reset_full_bw();
            self.full_bw = bw;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    pub(super) fn check_startup_done(&mut self, ack: &Ack, connection: &Connection) {
        self.check_startup_high_loss(ack, connection);
        if self.state == State::Startup && self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    pub(super) fn check_drain_done(&mut self, connection: &Connection) {
        if self.state != State::Drain {
            return;
        }
        let empty = connection.in_flight as f64 <= self.inflight(self.model.bw(), 1.0);
        let long =
            self.rules.drain_rounds.is_some_and(|rounds| self.round_count > self.drain_start_round + rounds);
        if empty || long {
            self.start_down(connection);
        }
    }

    /// `StartProbeBW_DOWN`.
    pub(super) fn start_down(&mut self, connection: &Connection) {
        self.model.reset_congestion_signals();
        self.marks.reset_cycle();
        self.probe_up_acked_per_inc = f64::INFINITY;
        self.rounds_since_probe_up = self.rng.below(2) as u64;
        self.bw_probe_wait = Time::from_secs(2.0 + self.rng.unit());
        self.cycle_stamp = connection.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(connection);
        self.state = State::Down;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self, connection: &Connection) {
        self.model.reset_shortterm();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0.0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(connection);
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, ack: &Ack, connection: &Connection) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(connection);
        self.reset_full_bw();
        self.full_bw = ack.rate.delivery_rate;
        self.up_stamp = connection.now;
        self.state = State::Up;
        self.raise_longterm_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, ack: &Ack, connection: &Connection) {
        if !self.full_bw_reached || self.adapt_longterm(ack, connection) {
            return;
        }
        let ends_up = self.state == State::Up && self.is_time_to_go_down(ack, connection);
        let after_marks = self.probes_after_marks(connection);
        match self.state {
            State::Down | State::Cruise if let Some(rounds) = after_marks => {
                self.start_refill(connection);
                self.bw_probe_up_rounds = rounds;
            }
            State::Down | State::Cruise if self.is_time_to_probe(connection) => self.start_refill(connection),
            State::Down if self.is_time_to_cruise(connection) => self.state = State::Cruise,
            State::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_up(ack, connection);
            }
            State::Up if ends_up => {
                self.prev_probe_too_high = false;
                self.start_down(connection);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, connection: &Connection) -> bool {
        let reno_rounds = self.target_inflight().min(63.0);
        connection.now > self.cycle_stamp + self.bw_probe_wait
            || self.rounds_since_probe_up as f64 >= reno_rounds
    }

    fn is_time_to_cruise(&self, connection: &Connection) -> bool {
        let in_flight = connection.in_flight as f64;
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.model.max_bw(), 1.0)
    }

    fn is_time_to_go_down(&mut self, ack: &Ack, connection: &Connection) -> bool {
        let in_flight = connection.in_flight as f64;
        if self.prev_probe_too_high && in_flight >= self.model.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        match self.rules.up_ends {
            UpEnds::InFlight(bdps) => {
                connection.now > self.up_stamp + self.model.min_rtt
                    && in_flight >= self.inflight(self.model.max_bw(), bdps)
            }
            UpEnds::Plateau if connection.cwnd_limited && self.cwnd >= self.model.inflight_longterm => {
                self.reset_full_bw();
                self.full_bw = ack.rate.delivery_rate;
                false
            }
            UpEnds::Plateau => self.full_bw_now,
        }
    }

    pub(super) fn check_probe_rtt(&mut self, ack: &Ack, connection: &Connection) {
        if self.state != State::ProbeRtt && self.model.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(connection);
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(connection);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(connection);
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, connection: &Connection) {
        match self.probe_rtt_done_stamp {
            None if connection.in_flight as f64 <= self.probe_rtt_cwnd() => {
                self.probe_rtt_done_stamp = Some(connection.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.start_round(connection);
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(connection);
                }
            }
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, connection: &Connection) {
        if self.probe_rtt_done_stamp.is_none_or(|done| connection.now <= done) {
            return;
        }
        self.model.probe_rtt_min_stamp = connection.now;
        self.restore_cwnd();
        self.model.reset_shortterm();
        if self.full_bw_reached {
            self.start_down(connection);
            self.state = State::Cruise;
        } else {
            self.enter_startup();
        }
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn handle_spurious(&mut self, connection: &Connection) {
        self.restore_cwnd();
        self.model.is_loss_in_round = false;
        self.reset_full_bw();
        let (model, undo) = (&mut self.model, self.undo);
        model.bw_shortterm = model.bw_shortterm.max(undo.bw_shortterm);
        model.inflight_shortterm = model.inflight_shortterm.max(undo.inflight_shortterm);
        model.inflight_longterm = model.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill(connection);
            }
            _ => {}
        }
        self.undo.state = None;
    }
}
