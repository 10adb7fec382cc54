//! Actions on a device during a trial, and their times.
//!
//! ```text
//! trial:      wait for its turn > send .......................... > complete the accounting
//! beside it:                      begins > wait > act > done
//! ```
//! A trial may have to wait before it sends; hence the time counts from its first sign of life.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_testbed::bed::{Bed, Receivers};
use weir_testbed::device::FaultSwitch;
use weir_testbed::dut::{DutKind, Function, System};

use crate::error::RunError;

/// What a reset does to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetKind {
    /// Both interfaces are set down, then up, and routed again.
    Links,
    /// The rules are installed anew, and tracked connections forgotten.
    Rules,
    /// The faulty device drops all frames for a while.
    Stall,
}

impl ResetKind {
    /// All kinds with their names.
    pub const ALL: [(ResetKind, &'static str); 3] =
        [(ResetKind::Links, "links"), (ResetKind::Rules, "rules"), (ResetKind::Stall, "stall")];

    /// The name in plans and records.
    pub fn name(self) -> &'static str {
        ResetKind::ALL.iter().find(|(kind, _)| *kind == self).expect("every kind is in ALL").1
    }

    /// Can it be done to this device?
    pub fn fits(self, dut: DutKind) -> bool {
        match (self, dut.system()) {
            (ResetKind::Links, System::Kernel) => dut.function() != Function::Bridge,
            (ResetKind::Links, system) => matches!(system, System::Xdp | System::External),
            (ResetKind::Rules, system) => system == System::Kernel && (dut.has_rules() || dut.translates()),
            (ResetKind::Stall, system) => system == System::Faulty,
        }
    }
}

/// A disturbance of one trial.
pub struct Disturbance {
    kind: ResetKind,
    after: Duration,
    stall: Duration,
    clock: Mutex<Clock>,
    news: Condvar,
}

#[derive(Default)]
struct Clock {
    /// When the trial began to send.
    began: Option<Instant>,
    /// It has ended.
    over: bool,
}

impl Disturbance {
    /// Does `kind` so long `after` the beginning of a trial; only a stall has a length.
    pub fn new(kind: ResetKind, after: Duration, stall: Duration) -> Disturbance {
        Disturbance { kind, after, stall, clock: Mutex::default(), news: Condvar::new() }
    }

    /// Whether frames are lost without a counter of the device: its links are down, and a wire that ends there counts nothing.
    pub(crate) fn hides_frames(&self) -> bool {
        self.kind == ResetKind::Links
    }

    /// Frames are being sent.
    pub fn sending(&self) {
        let mut clock = self.lock();
        if clock.began.is_none() {
            clock.began = Some(Instant::now());
            self.news.notify_all();
        }
    }

    /// The trial is over; what has not been done by now will not be.
    pub(crate) fn over(&self) {
        self.lock().over = true;
        self.news.notify_all();
    }

    /// Waits until it is time, and acts. Returns the device's receive threads, if they are new ones; nothing is done to
    /// a trial that ends before its time.
    pub(crate) fn act(&self, bed: &Bed, switch: Option<&FaultSwitch>) -> Result<Option<Receivers>, RunError> {
        if !self.is_time() {
            return Ok(None);
        }
        match self.kind {
            ResetKind::Links => Ok(Some(bed.cycle_links()?)),
            ResetKind::Rules => bed.reset().map(|()| None).map_err(RunError::from),
            ResetKind::Stall => {
                switch.into_iter().for_each(|switch| switch.stall(self.stall));
                Ok(None)
            }
        }
    }

    fn is_time(&self) -> bool {
        let mut clock = self.lock();
        while !clock.over {
            let left =
                clock.began.map(|began| (began + self.after).saturating_duration_since(Instant::now()));
            clock = match left {
                Some(Duration::ZERO) => return true,
                Some(left) => {
                    self.news.wait_timeout(clock, left).expect("no thread panics while it holds the lock").0
                }
                None => self.news.wait(clock).expect("no thread panics while it holds the lock"),
            };
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().expect("no thread panics while it holds the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_after_the_first_sign_of_life_and_never_after_the_end() {
        let due = Disturbance::new(ResetKind::Rules, Duration::ZERO, Duration::ZERO);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| due.is_time());
            due.sending();
            assert!(waiting.join().expect("no panic"));
        });
        let never = Disturbance::new(ResetKind::Rules, Duration::from_secs(3600), Duration::ZERO);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| never.is_time());
            never.sending();
            never.over();
            assert!(!waiting.join().expect("no panic"));
        });
    }
}
