//! Reno: RFC 5681 with appropriate byte counting and without a limit (as in Linux), recovery by RFC 6675 and PRR.

use weir_queue::Ecn;

use super::{Ack, ClassicEcn, CongestionControl, Connection, INITIAL, SMALLEST};

/// Additive increase by 1 in a round trip, multiplicative decrease to a half.
#[derive(Debug)]
pub struct Reno {
    cwnd: f64,
    ssthresh: f64,
    /// Window and threshold before the last reduction by a loss.
    undo: (f64, f64),
    ecn: Ecn,
    classic: ClassicEcn,
}

impl Reno {
    pub(crate) fn new(ecn: Ecn) -> Reno {
        Reno { cwnd: INITIAL, ssthresh: f64::INFINITY, undo: (0.0, 0.0), ecn, classic: ClassicEcn::default() }
    }

    fn halve(&mut self) {
        self.ssthresh = (self.cwnd / 2.0).max(SMALLEST);
        self.cwnd = self.ssthresh;
    }
}

/// Slow start up to a threshold, then `per_rtt` segments in a round trip.
pub(super) fn grow(cwnd: &mut f64, ssthresh: f64, acked: u64, per_rtt: f64) {
    let mut acked = acked as f64;
    if *cwnd < ssthresh {
        let slow_start = acked.min(ssthresh - *cwnd);
        *cwnd += slow_start;
        acked -= slow_start;
    }
    *cwnd += per_rtt * acked / *cwnd;
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        if self.classic.reacts(ack, connection) {
            return self.halve();
        }
        if !connection.in_recovery && connection.cwnd_limited {
            grow(&mut self.cwnd, self.ssthresh, ack.delivered, 1.0);
        }
    }

    fn on_recovery(&mut self, _connection: &Connection) {
        self.undo = (self.cwnd, self.ssthresh);
        self.halve();
    }

    fn on_timeout(&mut self, _connection: &Connection) {
        self.undo = (self.cwnd, self.ssthresh);
        self.halve();
        self.cwnd = 1.0;
    }

    fn on_spurious(&mut self, _connection: &Connection) {
        self.cwnd = self.cwnd.max(self.undo.0);
        self.ssthresh = self.ssthresh.max(self.undo.1);
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
