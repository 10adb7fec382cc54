//! DCTCP (RFC 8257): reduces the window by the share of marks, not by a half. ECT(0), as its RFC says.

use weir_queue::Ecn;

use super::reno::grow;
use super::{Ack, CongestionControl, Connection, INITIAL, SMALLEST};

const G: f64 = 1.0 / 16.0;

/// The share of marks, as DCTCP and Prague see it: an average over round trips, and one reduction in each.
#[derive(Debug, Clone)]
pub(super) struct Marks {
    pub(super) alpha: f64,
    end: u64,
    acked: u64,
    marked: u64,
    reduced: bool,
}

impl Marks {
    pub(super) fn new() -> Marks {
        Marks { alpha: 1.0, end: 0, acked: 0, marked: 0, reduced: false }
    }

    /// Whether this ACK demands a reduction by alpha / 2.
    pub(super) fn reacts(&mut self, ack: &Ack, connection: &Connection) -> bool {
        self.acked += ack.delivered;
        self.marked += ack.ce;
        if connection.delivered >= self.end {
            let share = self.marked as f64 / self.acked.max(1) as f64;
            self.alpha = (1.0 - G) * self.alpha + G * share.min(1.0);
            self.end = connection.delivered + connection.in_flight;
            (self.acked, self.marked, self.reduced) = (0, 0, false);
        }
        let reacts = ack.ce > 0 && !self.reduced && !connection.in_recovery;
        self.reduced |= reacts;
        reacts
    }

    /// Growth pauses in a round trip with a reduction.
    pub(super) fn reduced(&self) -> bool {
        self.reduced
    }
}

/// Reno whose decrease is proportional to the share of marks.
#[derive(Debug)]
pub struct Dctcp {
    cwnd: f64,
    ssthresh: f64,
    /// Window and threshold before the last reduction by a loss.
    undo: (f64, f64),
    marks: Marks,
}

impl Dctcp {
    pub(crate) fn new() -> Dctcp {
        Dctcp { cwnd: INITIAL, ssthresh: f64::INFINITY, undo: (0.0, 0.0), marks: Marks::new() }
    }

    fn reduce(&mut self, share: f64) {
        self.ssthresh = (self.cwnd * (1.0 - share)).max(SMALLEST);
        self.cwnd = self.ssthresh;
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        if self.marks.reacts(ack, connection) {
            return self.reduce(self.marks.alpha / 2.0);
        }
        if !connection.in_recovery && connection.cwnd_limited && !self.marks.reduced() {
            grow(&mut self.cwnd, self.ssthresh, ack.delivered, 1.0);
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

    fn ecn(&self) -> Ecn {
        Ecn::Ect0
    }

    fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow start" } else { "avoidance" }
    }
}
