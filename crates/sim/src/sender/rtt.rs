//! Round-trip times and the retransmission timeout (RFC 6298, with Linux's smallest timeout).

use weir_queue::Time;

const SHORTEST: f64 = 0.2;
const LONGEST: f64 = 120.0;

/// What is known of the round trip.
#[derive(Debug, Clone)]
pub(super) struct Rtt {
    smoothed_s: f64,
    variance_s: f64,
    smallest: Time,
    backoff: u32,
}

impl Rtt {
    pub(super) fn new() -> Rtt {
        Rtt { smoothed_s: 0.0, variance_s: 0.0, smallest: Time::MAX, backoff: 0 }
    }

    pub(super) fn sample(&mut self, rtt: Time) {
        let rtt_s = rtt.secs();
        self.smallest = self.smallest.min(rtt);
        if self.smoothed_s == 0.0 {
            self.smoothed_s = rtt_s;
            self.variance_s = rtt_s / 2.0;
        } else {
            self.variance_s = 0.75 * self.variance_s + 0.25 * (self.smoothed_s - rtt_s).abs();
            self.smoothed_s = 0.875 * self.smoothed_s + 0.125 * rtt_s;
        }
    }

    /// In seconds; 0 before the first sample.
    pub(super) fn smoothed_s(&self) -> f64 {
        self.smoothed_s
    }

    /// The smallest sample; [`Time::MAX`] before the first one.
    pub(super) fn smallest(&self) -> Time {
        self.smallest
    }

    pub(super) fn timeout(&self) -> Time {
        let base = if self.smoothed_s == 0.0 {
            1.0
        } else {
            // Linux: the variance counts as no less than the smallest timeout
            self.smoothed_s + (4.0 * self.variance_s).max(SHORTEST)
        };
        Time::from_secs((base * f64::from(1u32 << self.backoff)).min(LONGEST))
    }

    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(10);
    }

    pub(super) fn progress(&mut self) {
        self.backoff = 0;
    }
}
