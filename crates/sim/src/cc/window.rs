//! The window of a sender that grows slowly after a threshold and is reduced by a share: Reno, DCTCP, Prague.

use super::{INITIAL, SMALLEST};

/// Congestion window and slow start threshold, in segments.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) cwnd: f64,
    pub(super) ssthresh: f64,
    /// Both before the last reduction by a loss.
    undo: (f64, f64),
}

impl Window {
    /// RFC 6928's, in slow start.
    pub(super) fn new() -> Window {
        Window { cwnd: INITIAL, ssthresh: f64::INFINITY, undo: (0.0, 0.0) }
    }

    /// Slow start up to the threshold, then `per_rtt` segments in a round trip.
    pub(super) fn grow(&mut self, acked: u64, per_rtt: f64) {
        let mut acked = acked as f64;
        if self.cwnd < self.ssthresh {
            let slow_start = acked.min(self.ssthresh - self.cwnd);
            self.cwnd += slow_start;
            acked -= slow_start;
        }
        self.cwnd += per_rtt * acked / self.cwnd;
    }

    /// Gives up this share.
    pub(super) fn reduce(&mut self, share: f64) {
        self.ssthresh = (self.cwnd * (1.0 - share)).max(SMALLEST);
        self.cwnd = self.ssthresh;
    }

    /// A loss halves it.
    pub(super) fn lost(&mut self) {
        self.undo = (self.cwnd, self.ssthresh);
        self.reduce(0.5);
    }

    /// A timer that has expired leaves one segment.
    pub(super) fn expired(&mut self) {
        self.lost();
        self.cwnd = 1.0;
    }

    /// What was taken for lost was not.
    pub(super) fn undo(&mut self) {
        self.cwnd = self.cwnd.max(self.undo.0);
        self.ssthresh = self.ssthresh.max(self.undo.1);
    }

    pub(super) fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow start" } else { "avoidance" }
    }
}
