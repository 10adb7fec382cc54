//! HyStart++ (RFC 9406): leaves slow start when the round trip grows.

use super::{Ack, Connection};

const SMALLEST_S: f64 = 0.004;
const LARGEST_S: f64 = 0.016;
const DIVISOR: f64 = 8.0;
const SAMPLES: u32 = 8;
const GROWTH_DIVISOR: f64 = 4.0;
const ROUNDS: u32 = 5;

/// Round trips of slow start.
#[derive(Debug, Clone)]
pub(crate) struct HyStart {
    round_end: u64,
    last_min_s: f64,
    now_min_s: f64,
    samples: u32,
    /// In conservative slow start: the baseline, and how many rounds it has lasted.
    conservative: Option<(f64, u32)>,
}

/// What slow start does with an ACK.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Growth {
    /// Grows by this share of what was delivered.
    Share(f64),
    /// Ends here.
    End,
}

impl HyStart {
    pub(crate) fn new() -> HyStart {
        HyStart {
            round_end: 0,
            last_min_s: f64::INFINITY,
            now_min_s: f64::INFINITY,
            samples: 0,
            conservative: None,
        }
    }

    pub(crate) fn on_ack(&mut self, ack: &Ack, connection: &Connection) -> Growth {
        if connection.delivered >= self.round_end {
            self.round_end = connection.delivered + connection.in_flight;
            self.last_min_s = self.now_min_s;
            self.now_min_s = f64::INFINITY;
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= ROUNDS {
                    return Growth::End;
                }
            }
        }
        if let Some(rtt) = ack.rtt {
            self.now_min_s = self.now_min_s.min(rtt.secs());
            self.samples += 1;
        }
        let known = self.samples >= SAMPLES && self.now_min_s.is_finite() && self.last_min_s.is_finite();
        match self.conservative {
            Some((baseline_s, _)) if known && self.now_min_s < baseline_s => self.conservative = None,
            None if known => {
                let threshold_s = (self.last_min_s / DIVISOR).clamp(SMALLEST_S, LARGEST_S);
                if self.now_min_s >= self.last_min_s + threshold_s {
                    self.conservative = Some((self.now_min_s, 0));
                }
            }
            _ => {}
        }
        Growth::Share(if self.conservative.is_some() { 1.0 / GROWTH_DIVISOR } else { 1.0 })
    }
}
