//! Reno: RFC 5681 with appropriate byte counting and without a limit (as in Linux), recovery by RFC 6675 and PRR.

use weir_queue::Ecn;

use super::window::Window;
use super::{Ack, ClassicEcn, CongestionControl, Connection};

/// Additive increase by 1 in a round trip, multiplicative decrease to a half.
#[derive(Debug)]
pub struct Reno {
    window: Window,
    ecn: Ecn,
    classic: ClassicEcn,
}

impl Reno {
    pub(crate) fn new(ecn: Ecn) -> Reno {
        Reno { window: Window::new(), ecn, classic: ClassicEcn::default() }
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack, connection: &Connection) {
        if self.classic.reacts(ack, connection) {
            return self.window.reduce(0.5);
        }
        if !connection.in_recovery && connection.cwnd_limited {
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
        self.ecn
    }

    fn phase(&self) -> &'static str {
        self.window.phase()
    }
}
