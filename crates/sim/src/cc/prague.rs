//! Like TCP Prague (draft-briscoe-iccrg-prague-congestion-control): ECT(1), DCTCP's reduction, pacing, and a growth that
//! is that of a round trip of 25 ms where it is shorter. A loss halves the window. It does not fall back to a classic
//! response when the bottleneck has no L4S queue.

use weir_queue::Ecn;

use super::dctcp::Marks;
use super::reno::grow;
use super::{Ack, CongestionControl, Connection, INITIAL, SMALLEST};

/// Shorter round trips grow as if they were this long, in s.
const VIRTUAL_S: f64 = 0.025;

/// A scalable sender.
#[derive(Debug)]
pub struct Prague {
    cwnd: f64,
    ssthresh: f64,
    /// Window and threshold before the last reduction by a loss.
    undo: (f64, f64),
    srtt_s: f64,
    marks: Marks,
}

impl Prague {
    pub(crate) fn new() -> Prague {
        Prague { cwnd: INITIAL, ssthresh: f64::INFINITY, undo: (0.0, 0.0), srtt_s: 0.0, marks: Marks::new() }
    }

    fn reduce(&mut self, share: f64) {
        self.ssthresh = (self.cwnd * (1.0 - share)).max(SMALLEST);
        self.cwnd = self.ssthresh;
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        self.srtt_s = connection.srtt_s;
        if self.marks.reacts(ack, connection) {
            return self.reduce(self.marks.alpha / 2.0);
        }
        if !connection.in_recovery && connection.cwnd_limited && !self.marks.reduced() {
            let slower = (self.srtt_s / VIRTUAL_S).min(1.0);
            grow(&mut self.cwnd, self.ssthresh, ack.delivered, slower * slower);
        }
    }

    fn on_recovery(&mut self, _connection: &Connection) {
        self.undo = (self.cwnd, self.ssthresh);
        self.reduce(0.5);
    }

    fn on_timeout(&mut self, _connection: &Connection) {
        self.undo = (self.cwnd, self.ssthresh);
        self.reduce(0.5);
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

    fn pacing(&self) -> Option<f64> {
        // as Linux paces: twice the window in slow start, so that it can double; a little more than it later
        let gain = if self.cwnd < self.ssthresh { 2.0 } else { 1.05 };
        (self.srtt_s > 0.0).then(|| gain * self.cwnd / self.srtt_s)
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow start" } else { "avoidance" }
    }
}
