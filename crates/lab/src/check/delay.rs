//! Latency through a device with a known delay: the error of the tester's measurement.
//!
//! ```text
//! trial without the delay > trial with it > without it > with it ...
//!        median                 median - median = the delay + error
//! ```
//! The trials without it are the baseline: the tester's own share and the way through a device that does nothing. Both
//! are taken with one device alternately, so that what the machine does meanwhile meets both.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_load::Control;
use weir_load::counts::Load;
use weir_testbed::dut::DutKind;

use super::{Checker, is_disturbed};
use crate::error::RunError;
use crate::frames::Setup;
use weir_measure::stats::{median, percentile};
use weir_record::record::{Latency, Purpose};

/// The delays that are added, to be multiples of the time between two frames and a third of it: no frame arrives while
/// the device is awake for another.
pub const DELAYS: [Duration; 3] =
    [Duration::from_micros(100), Duration::from_millis(1), Duration::from_millis(10)];
/// Frames are so far apart.
pub const GAP: Duration = Duration::from_micros(300);
/// Frames of a trial.
const FRAMES: u32 = 1000;
/// A median is the middle of a bucket of the tester's histogram, and within this share of the true one.
pub const RESOLUTION: f64 = 0.008;

/// A trial without a delay and one with it, latencies in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// What the device adds.
    pub added_ns: u64,
    /// Median without.
    pub without_ns: u64,
    /// Median with it.
    pub with_ns: u64,
    /// The fastest frame without and with it, to the ns.
    pub fastest_ns: [u64; 2],
}

impl Pair {
    /// How much the tester is wrong about the delay, ns.
    pub fn error_ns(&self) -> i64 {
        self.with_ns as i64 - self.without_ns as i64 - self.added_ns as i64
    }

    /// The same of the fastest frames: without the resolution of a histogram, and of one frame only.
    fn fastest_error_ns(&self) -> i64 {
        let [without_ns, with_ns] = self.fastest_ns.map(|ns| ns as i64);
        with_ns - without_ns - self.added_ns as i64
    }
}

/// What several pairs say of one delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proof {
    /// What the device adds, ns.
    pub added_ns: f64,
    /// Median of the medians without it, ns.
    pub without_ns: f64,
    /// The same with it, ns.
    pub with_ns: f64,
    /// Median of the errors of the pairs, ns.
    pub error_ns: f64,
    /// The least and the greatest of these, ns.
    pub errors_ns: (f64, f64),
    /// Median of the errors of the fastest frames, ns.
    pub fastest_error_ns: f64,
    /// Was no frame faster than the delay?
    pub possible: bool,
}

/// An error beyond the resolution that the machine may be to blame for, ns: a thread may have to be woken, or not.
const LATE_NS: f64 = 20_000.0;

impl Proof {
    /// `None` without pairs.
    pub fn of(pairs: &[Pair]) -> Option<Proof> {
        let values = |value: fn(&Pair) -> f64| -> Vec<f64> { pairs.iter().map(value).collect() };
        let errors = values(|pair| pair.error_ns() as f64);
        Some(Proof {
            added_ns: pairs.first()?.added_ns as f64,
            without_ns: median(&values(|pair| pair.without_ns as f64))?,
            with_ns: median(&values(|pair| pair.with_ns as f64))?,
            error_ns: median(&errors)?,
            errors_ns: (percentile(&errors, 0.0)?, percentile(&errors, 100.0)?),
            fastest_error_ns: median(&values(|pair| pair.fastest_error_ns() as f64))?,
            possible: pairs.iter().all(|pair| pair.fastest_ns[1] >= pair.added_ns),
        })
    }

    /// Is the tester right, as far as it can be on this machine? Its best pair counts: whatever disturbs one of them makes
    /// frames later.
    pub fn holds(&self) -> bool {
        let (least, greatest) = self.errors_ns;
        let best = if least > 0.0 { least } else { greatest.min(0.0) };
        self.possible && best.abs() <= RESOLUTION * (self.with_ns + self.without_ns) + LATE_NS
    }
}

/// A device that adds a delay, and a tester that measures it.
pub struct DelayCheck {
    setup: Setup,
}

impl Checker {
    /// # Errors
    /// When the test bed cannot be built.
    pub fn delays(&self) -> Result<DelayCheck, RunError> {
        Ok(DelayCheck { setup: self.setup(DutKind::FAULTY, "")? })
    }
}

impl DelayCheck {
    /// Measures without `added` and with it. Trials that the machine disturbed are repeated for as long as `patience`
    /// lasts, see [`PATIENCE`](super::PATIENCE).
    ///
    /// # Errors
    /// When a trial could not be made.
    pub fn pair(&mut self, added: Duration, patience: Duration) -> Result<Pair, RunError> {
        let without = self.latency(Duration::ZERO, patience)?;
        let with = self.latency(added, patience)?;
        Ok(Pair {
            added_ns: added.as_nanos() as u64,
            without_ns: without.p50_ns,
            with_ns: with.p50_ns,
            fastest_ns: [without.min_ns, with.min_ns],
        })
    }

    fn latency(&mut self, added: Duration, patience: Duration) -> Result<Latency, RunError> {
        self.setup.delay_frames(added);
        let load = Load::steady(1.0 / GAP.as_secs_f64(), GAP * FRAMES);
        let stop = AtomicBool::new(false);
        let begin = Instant::now();
        loop {
            let trial = self.setup.trial(&load, Purpose::Procedure, &Control::new(&stop, &|_, _| {}))?;
            if begin.elapsed() > patience || !is_disturbed(&trial) {
                return Ok(trial.streams[0].latency.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(without_ns: u64, with_ns: u64, fastest_ns: u64) -> Pair {
        Pair { added_ns: 100_000, without_ns, with_ns, fastest_ns: [4_000, fastest_ns] }
    }

    #[test]
    fn a_proof_is_the_median_of_the_errors_and_their_range() {
        let pairs =
            [pair(5_000, 106_000, 103_000), pair(6_000, 104_000, 103_000), pair(5_000, 905_000, 103_000)];
        let proof = Proof::of(&pairs).expect("three pairs");
        assert_eq!((proof.without_ns, proof.with_ns), (5_000.0, 106_000.0));
        assert_eq!((proof.error_ns, proof.errors_ns), (1_000.0, (-2_000.0, 800_000.0)));
        assert_eq!(proof.fastest_error_ns, -1_000.0);
        assert!(proof.holds(), "a machine may disturb a pair");
        assert_eq!(Proof::of(&[]), None);
    }

    #[test]
    fn a_tester_that_is_wrong_does_not_hold() {
        let holds = |pairs: &[Pair]| Proof::of(pairs).expect("pairs").holds();
        assert!(
            !holds(&[pair(5_000, 105_000, 103_000), pair(5_000, 105_000, 99_999)]),
            "faster than it can be"
        );
        assert!(!holds(&[pair(5_000, 130_000, 103_000), pair(5_000, 170_000, 103_000)]), "always too slow");
        assert!(!holds(&[pair(25_000, 100_000, 100_000), pair(60_000, 100_000, 100_000)]), "always too fast");
        assert!(holds(&[pair(5_000, 105_000, 103_000)]));
    }
}
