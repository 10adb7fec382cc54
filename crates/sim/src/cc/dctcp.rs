//! DCTCP (RFC 8257): reduces the window by the share of marks, not by a half. ECT(0), as its RFC says.

use weir_queue::Ecn;

use super::window::Window;
use super::{Ack, CongestionControl, Connection};

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
    window: Window,
    marks: Marks,
}

impl Dctcp {
    pub(crate) fn new() -> Dctcp {
        Dctcp { window: Window::new(), marks: Marks::new() }
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        if self.marks.reacts(ack, connection) {
            return self.window.reduce(self.marks.alpha / 2.0);
        }
        if !connection.in_recovery && connection.cwnd_limited && !self.marks.reduced() {
            self.window.grow(ack.delivered, 1.0);
        }
    }

    fn on_recovery(&mut self, _connection: &Connection) {
        self.window.lost();
    }

    fn on_timeout(&mut self, _connection: &Connection) {
        self.window.expired();
    }

    fn on_spurious(&mut self, _connection: &Connection) {
        self.window.undo();
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn reduces_to(&self) -> Option<f64> {
        Some(self.window.ssthresh)
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect0
    }

    fn phase(&self) -> &'static str {
        self.window.phase()
    }
}
