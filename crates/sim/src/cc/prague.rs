//! Like TCP Prague (draft-briscoe-iccrg-prague-congestion-control): ECT(1), DCTCP's reduction, pacing, and a growth that
//! is that of a round trip of 25 ms where it is shorter. A loss halves the window. It does not fall back to a classic
//! response when the bottleneck has no L4S queue.

use weir_queue::Ecn;

use super::dctcp::Marks;
use super::window::Window;
use super::{Ack, CongestionControl, Connection};

/// Shorter round trips grow as if they were this long, in s.
const VIRTUAL_S: f64 = 0.025;

/// A scalable sender.
#[derive(Debug)]
pub struct Prague {
    window: Window,
    srtt_s: f64,
    marks: Marks,
}

impl Prague {
    pub(crate) fn new() -> Prague {
        Prague { window: Window::new(), srtt_s: 0.0, marks: Marks::new() }
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        self.srtt_s = connection.srtt_s;
        if self.marks.reacts(ack, connection) {
            return self.window.reduce(self.marks.alpha / 2.0);
        }
        if !connection.in_recovery && connection.cwnd_limited && !self.marks.reduced() {
            let slower = (self.srtt_s / VIRTUAL_S).min(1.0);
            self.window.grow(ack.delivered, slower * slower);
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

    fn pacing(&self) -> Option<f64> {
        // as Linux paces: twice the window in slow start, so that it can double; a little more than it later
        let gain = if self.window.cwnd < self.window.ssthresh { 2.0 } else { 1.05 };
        (self.srtt_s > 0.0).then(|| gain * self.window.cwnd / self.srtt_s)
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    fn phase(&self) -> &'static str {
        self.window.phase()
    }
}
