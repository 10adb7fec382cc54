//! CUBIC (RFC 9438): the window is a cubic function of the time since the last reduction, flat where it was before.
//!
//! ```text
//! W(t) = C (t - K)^3 + W_max,   K = cbrt((W_max - cwnd_epoch) / C),   C = 0.4, beta = 0.7
//! ```

use weir_queue::{Ecn, Time};

use super::hystart::{Growth, HyStart};
use super::{Ack, ClassicEcn, CongestionControl, Connection, INITIAL, SMALLEST};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Additive increase of a Reno that decreases to [`BETA`] and is as fast as a standard one.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Cubic growth, decrease to 0.7.
#[derive(Debug)]
pub struct Cubic {
    cwnd: f64,
    ssthresh: f64,
    /// Window and threshold before the last reduction by a loss.
    undo: (f64, f64),
    w_max: f64,
    prior_cwnd: f64,
    epoch: Option<Epoch>,
    hystart: HyStart,
    ecn: Ecn,
    classic: ClassicEcn,
}

/// Congestion avoidance since the last reduction.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Time,
    k_s: f64,
    w_max: f64,
    w_est: f64,
}

impl Cubic {
    pub(crate) fn new(ecn: Ecn) -> Cubic {
        Cubic {
            cwnd: INITIAL,
            ssthresh: f64::INFINITY,
            undo: (0.0, 0.0),
            w_max: 0.0,
            prior_cwnd: 0.0,
            epoch: None,
            hystart: HyStart::new(),
            ecn,
            classic: ClassicEcn::default(),
        }
    }

    fn reduce(&mut self) {
        self.prior_cwnd = self.cwnd;
        // fast convergence: a flow that did not reach its last maximum leaves room for a new one
        self.w_max = if self.cwnd < self.w_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.ssthresh = (self.cwnd * BETA).max(SMALLEST);
        self.cwnd = self.ssthresh;
        self.epoch = None;
    }

    fn avoid(&mut self, acked: f64, connection: &Connection) {
        let (cwnd, w_max) = (self.cwnd, self.w_max);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: connection.now,
            k_s: k_s(cwnd, w_max),
            w_max: w_max.max(cwnd),
            w_est: cwnd,
        });
        let t_s = (connection.now - epoch.start).secs();
        let w = |t_s: f64| C * (t_s - epoch.k_s).powi(3) + epoch.w_max;
        let alpha = if epoch.w_est < self.prior_cwnd { ALPHA } else { 1.0 };
        epoch.w_est += alpha * acked / self.cwnd;
        if w(t_s) < epoch.w_est {
            self.cwnd = self.cwnd.max(epoch.w_est);
        } else {
            let target = w(t_s + connection.srtt_s).clamp(self.cwnd, 1.5 * self.cwnd);
            self.cwnd += (target - self.cwnd) / self.cwnd * acked;
        }
    }
}

/// Time from the start of an epoch to the plateau, in s; 0 if the window is there already.
fn k_s(cwnd: f64, w_max: f64) -> f64 {
    ((w_max - cwnd).max(0.0) / C).cbrt()
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        if self.classic.reacts(ack, connection) {
            return self.reduce();
        }
        if connection.in_recovery || !connection.cwnd_limited {
            return;
        }
        let mut acked = ack.delivered as f64;
        if self.cwnd < self.ssthresh {
            // only the first slow start probes: after a timeout the threshold is known
            let growth = if self.ssthresh.is_finite() {
                Growth::Share(1.0)
            } else {
                self.hystart.on_ack(ack, connection)
            };
            let Growth::Share(share) = growth else {
                self.ssthresh = self.cwnd;
                return;
            };
            let grown = (acked * share).min(self.ssthresh - self.cwnd);
            self.cwnd += grown;
            acked -= grown / share;
        }
        if acked > 0.0 && self.cwnd >= self.ssthresh {
            self.avoid(acked, connection);
        }
    }

    fn on_recovery(&mut self, _connection: &Connection) {
        self.undo = (self.cwnd, self.ssthresh);
        self.reduce();
    }

    fn on_timeout(&mut self, _connection: &Connection) {
        self.undo = (self.cwnd, self.ssthresh);
        self.reduce();
        self.cwnd = 1.0;
        // the plateau is where avoidance begins then, with K = 0 (section 4.8)
        self.w_max = 0.0;
    }

    fn on_spurious(&mut self, _connection: &Connection) {
        self.cwnd = self.cwnd.max(self.undo.0);
        self.ssthresh = self.ssthresh.max(self.undo.1);
        self.epoch = None;
    }

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn reduces_to(&self) -> Option<f64> {
        Some(self.ssthresh)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow start" } else { "avoidance" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::RateSample;

    fn at(s: f64) -> Connection {
        Connection {
            now: Time::from_secs(s),
            in_flight: 0,
            delivered: 0,
            lost: 0,
            srtt_s: 0.1,
            in_recovery: false,
            cwnd_limited: true,
        }
    }

    #[test]
    fn k_is_that_of_the_rfc() {
        // W_max 1000 and a decrease to 700: cbrt(300 / 0.4)
        assert!((k_s(700.0, 1000.0) - 9.0856).abs() < 1e-4);
        assert_eq!(k_s(700.0, 700.0), 0.0);
    }

    #[test]
    fn the_window_is_back_at_its_maximum_after_k() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        cubic.cwnd = 1000.0;
        cubic.on_recovery(&at(0.0));
        assert_eq!((cubic.cwnd, cubic.w_max), (700.0, 1000.0));
        let mut reached_s = None;
        for round in 0..120 {
            let s = f64::from(round) / 10.0;
            let ack = Ack { delivered: 1, ce: 0, rtt: None, rate: RateSample::default() };
            for _ in 0..cubic.cwnd as u32 {
                cubic.on_ack(&ack, &at(s));
            }
            if cubic.cwnd >= 999.0 && reached_s.is_none() {
                reached_s = Some(s);
            }
        }
        // the plateau is flat: 999 is reached 1.4 s before K
        let reached_s = reached_s.unwrap();
        assert!((reached_s - (9.0856 - 2.5f64.cbrt())).abs() < 0.3, "{reached_s} s");
        assert!(cubic.cwnd > 1005.0, "beyond the plateau it grows again: {}", cubic.cwnd);
    }

    #[test]
    fn after_a_timeout_the_plateau_is_where_avoidance_begins() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        cubic.cwnd = 100.0;
        cubic.on_timeout(&at(0.0));
        assert_eq!((cubic.cwnd, cubic.ssthresh), (1.0, 70.0));
        let ack = Ack { delivered: 1, ce: 0, rtt: None, rate: RateSample::default() };
        // slow start up to the threshold, then avoidance from 1 s on
        for _ in 0..70 {
            cubic.on_ack(&ack, &at(1.0));
        }
        let epoch = cubic.epoch.unwrap();
        assert_eq!((epoch.k_s, epoch.w_max, epoch.w_est.floor()), (0.0, 70.0, 70.0));
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut cubic = Cubic::new(Ecn::NotEct);
        cubic.cwnd = 1000.0;
        cubic.on_recovery(&at(0.0));
        cubic.cwnd = 800.0;
        cubic.on_recovery(&at(1.0));
        assert!((cubic.w_max - 680.0).abs() < 1e-9);
    }
}
