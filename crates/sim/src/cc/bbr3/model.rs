//! The model of the path: bandwidth, round trip, aggregation, and what losses say of the volume in flight.

use weir_queue::Time;

use super::super::{Ack, Connection, Lost};
use super::{
    BETA, Bbr3, EXTRA_ACKED_ROUNDS, LOSS_THRESH, MIN_RTT_FILTER, MaxFilter, Model, PROBE_RTT_INTERVAL, State,
};

impl Model {
    pub(super) fn new() -> Model {
        Model {
            bw_cycles: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            inflight_longterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            min_rtt: Time::MAX,
            min_rtt_stamp: Time::ZERO,
            probe_rtt_min_delay: Time::MAX,
            probe_rtt_min_stamp: Time::ZERO,
            probe_rtt_expired: false,
            extra_acked: MaxFilter::default(),
            extra_acked_start: Time::ZERO,
            extra_acked_delivered: 0.0,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            is_loss_in_cycle: false,
            loss_events: 0,
            last_lost: None,
        }
    }

    pub(super) fn max_bw(&self) -> f64 {
        self.bw_cycles[0].max(self.bw_cycles[1])
    }

    pub(super) fn bw(&self) -> f64 {
        self.max_bw().min(self.bw_shortterm)
    }

    /// `AdvanceMaxBwFilter`; a cycle without samples does not count.
    pub(super) fn advance_max_bw(&mut self) {
        if self.bw_cycles[1] > 0.0 {
            self.bw_cycles = [self.bw_cycles[1], 0.0];
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.is_loss_in_cycle = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn reset_shortterm(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }

    pub(super) fn advance_latest_signals(&mut self, ack: &Ack) {
        if self.loss_round_start {
            self.bw_latest = ack.rate.delivery_rate;
            self.inflight_latest = ack.rate.delivered as f64;
        }
    }

    pub(super) fn update_min_rtt(&mut self, ack: &Ack, now: Time) {
        self.probe_rtt_expired = now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt;
            self.probe_rtt_min_stamp = now;
        }
        let expired = now > self.min_rtt_stamp + MIN_RTT_FILTER;
        if self.probe_rtt_min_delay < self.min_rtt || expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }
}

/// `IsInflightTooHigh`.
fn is_too_high(lost: u64, tx_in_flight: u64) -> bool {
    lost as f64 > tx_in_flight as f64 * LOSS_THRESH
}

impl Bbr3 {
    pub(super) fn update_latest_signals(&mut self, ack: &Ack, connection: &Connection) {
        let model = &mut self.model;
        model.bw_latest = model.bw_latest.max(ack.rate.delivery_rate);
        model.inflight_latest = model.inflight_latest.max(ack.rate.delivered as f64);
        model.loss_round_start = ack.rate.prior_delivered >= model.loss_round_delivered;
        if model.loss_round_start {
            model.loss_round_delivered = connection.delivered;
        }
    }

    pub(super) fn update_congestion_signals(&mut self, ack: &Ack, connection: &Connection) {
        self.update_round(ack, connection);
        self.update_marks(ack);
        let rate = &ack.rate;
        if rate.delivery_rate > 0.0 && (rate.delivery_rate >= self.model.max_bw() || !rate.is_app_limited) {
            self.model.bw_cycles[1] = self.model.bw_cycles[1].max(rate.delivery_rate);
        }
        if self.model.loss_round_start {
            if !self.state.is_probing() {
                self.adapt_shortterm();
            }
            self.model.is_loss_in_round = false;
            self.marks.in_round = false;
        }
    }

    fn update_round(&mut self, ack: &Ack, connection: &Connection) {
        self.round_start = ack.rate.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(connection);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
    }

    pub(super) fn start_round(&mut self, connection: &Connection) {
        self.next_round_delivered = connection.delivered;
    }

    /// To the lower of what losses and what marks demand.
    fn adapt_shortterm(&mut self) {
        let inflight = self.model.inflight_shortterm;
        let inflight = if inflight.is_infinite() { self.cwnd } else { inflight };
        let by_marks = inflight * self.marks.cut();
        if self.model.is_loss_in_round {
            self.lower_shortterm();
        }
        if self.marks.in_round {
            self.model.inflight_shortterm = self.model.inflight_shortterm.min(by_marks);
        }
    }

    /// `InitLowerBounds` and `LossLowerBounds`.
    fn lower_shortterm(&mut self) {
        let (max_bw, cwnd) = (self.model.max_bw(), self.cwnd);
        let model = &mut self.model;
        if model.bw_shortterm.is_infinite() {
            model.bw_shortterm = max_bw;
        }
        if model.inflight_shortterm.is_infinite() {
            model.inflight_shortterm = cwnd;
        }
        model.bw_shortterm = model.bw_latest.max(BETA * model.bw_shortterm);
        model.inflight_shortterm = model.inflight_latest.max(BETA * model.inflight_shortterm);
    }

    pub(super) fn update_aggregation(&mut self, ack: &Ack, connection: &Connection) {
        let bw = self.model.bw();
        let model = &mut self.model;
        let mut expected = bw * (connection.now - model.extra_acked_start).secs();
        if model.extra_acked_delivered <= expected {
            model.extra_acked_delivered = 0.0;
            model.extra_acked_start = connection.now;
            expected = 0.0;
        }
        model.extra_acked_delivered += ack.delivered as f64;
        let extra = (model.extra_acked_delivered - expected).min(self.cwnd);
        let window = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        model.extra_acked.update(self.round_count, extra, window);
    }

    /// `NoteLoss`, and the gaps that end Startup.
    pub(super) fn note_loss(&mut self, lost: &Lost, connection: &Connection) {
        if !self.model.is_loss_in_round {
            self.model.loss_round_delivered = connection.delivered;
            self.model.loss_events = 0;
            self.model.last_lost = None;
            self.save_state(connection);
        }
        self.model.is_loss_in_round = true;
        self.model.is_loss_in_cycle = true;
        if self.model.last_lost.is_none_or(|last| lost.seq != last + 1) {
            self.model.loss_events += 1;
        }
        self.model.last_lost = Some(lost.seq);
    }

    /// `HandleLostPacket`.
    pub(super) fn handle_lost(&mut self, lost: &Lost, connection: &Connection) {
        if !self.is_bw_probe_sample || !is_too_high(lost.lost_since, lost.tx_in_flight) {
            return;
        }
        // InflightAtLoss: where within the volume in flight did losses cross the threshold?
        let inflight_prev = lost.tx_in_flight as f64 - 1.0;
        let lost_prev = lost.lost_since as f64 - 1.0;
        let prefix = (LOSS_THRESH * inflight_prev - lost_prev) / (1.0 - LOSS_THRESH);
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
        }
        self.handle_inflight_too_high(inflight_prev + prefix.max(0.0), lost.is_app_limited, connection);
    }

    fn handle_inflight_too_high(&mut self, tx_in_flight: f64, is_app_limited: bool, connection: &Connection) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !is_app_limited {
            self.model.inflight_longterm = tx_in_flight.max(self.target_inflight() * BETA);
        }
        if self.state == State::Up {
            self.start_down(connection);
        }
    }

    /// `TargetInflight`.
    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp(self.model.bw(), 1.0).min(self.cwnd)
    }

    /// `AdaptLongTermModel`: whether it decided on a state.
    pub(super) fn adapt_longterm(&mut self, ack: &Ack, connection: &Connection) -> bool {
        use super::AckPhase::{Init, ProbeFeedback, ProbeStarting, ProbeStopping};
        if self.ack_phase == ProbeStarting && self.round_start {
            self.ack_phase = ProbeFeedback;
        }
        if self.ack_phase == ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = Init;
            if self.state.is_probe_bw() && !ack.rate.is_app_limited {
                self.model.advance_max_bw();
            }
            let safe = self.prev_probe_precautionary && !self.prev_probe_too_high;
            if self.state.is_probe_bw() && safe {
                self.start_refill(connection);
                return true;
            }
        }
        if self.marks.are_too_many(&ack.rate) {
            if self.is_bw_probe_sample {
                let (volume, is_app_limited) = (ack.rate.tx_in_flight as f64, ack.rate.is_app_limited);
                self.handle_inflight_too_high(volume, is_app_limited, connection);
            }
        } else if !is_too_high(ack.rate.lost, ack.rate.tx_in_flight)
            && self.model.inflight_longterm.is_finite()
        {
            self.model.inflight_longterm = self.model.inflight_longterm.max(ack.rate.tx_in_flight as f64);
            if self.state == State::Up {
                self.probe_longterm_upward(ack, connection);
            }
        }
        false
    }

    fn probe_longterm_upward(&mut self, ack: &Ack, connection: &Connection) {
        if !connection.cwnd_limited || self.cwnd < self.model.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += ack.delivered as f64;
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc {
            let steps = (self.bw_probe_up_acked / self.probe_up_acked_per_inc).floor();
            self.bw_probe_up_acked -= steps * self.probe_up_acked_per_inc;
            self.model.inflight_longterm += steps;
        }
        if self.round_start {
            self.raise_longterm_slope();
        }
    }

    pub(super) fn raise_longterm_slope(&mut self) {
        let growth = f64::from(1u32 << self.bw_probe_up_rounds);
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (self.cwnd / growth).max(1.0);
    }

    /// `CheckStartupHighLoss`.
    pub(super) fn check_startup_high_loss(&mut self, ack: &Ack, connection: &Connection) {
        if !self.model.loss_round_start {
            return;
        }
        let many = self.model.loss_events >= self.rules.startup_loss_events;
        let high = connection.in_recovery && is_too_high(ack.rate.lost, ack.rate.tx_in_flight);
        self.model.loss_events = 0;
        if self.full_bw_reached || self.state != State::Startup || !many || !high {
            return;
        }
        self.undo.state = Some(State::Startup);
        self.queue_too_high_in_startup();
    }

    /// Startup ends, with what is in flight now as the bound.
    pub(super) fn queue_too_high_in_startup(&mut self) {
        self.full_bw_reached = true;
        self.full_bw_now = true;
        let bdp = self.bdp(self.model.max_bw(), 1.0);
        self.model.inflight_longterm = bdp.max(self.model.inflight_latest);
    }
}
