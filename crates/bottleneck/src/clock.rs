//! The clock: that of the machine, or one that a test sets.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_queue::Time;

/// Time since the start.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// Since this instant, on the machine's monotonic clock.
    Machine(Instant),
    /// It does not advance until it is set.
    Set(Time),
}

impl Clock {
    /// The machine's clock, from now on.
    pub fn start() -> Clock {
        Clock::Machine(Instant::now())
    }

    /// Now.
    pub fn now(&self) -> Time {
        match self {
            Clock::Machine(start) => Time::from_ns(start.elapsed().as_nanos() as u64),
            Clock::Set(now) => *now,
        }
    }

    /// What the clock of the kernel's stamps showed at time 0, in ns since 1970. That clock may be set while we run, so that the
    /// result is good for stamps of just now only.
    pub(crate) fn epoch_ns(&self) -> u64 {
        match self {
            Clock::Machine(start) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                (since.as_nanos() as u64).saturating_sub(start.elapsed().as_nanos() as u64)
            }
            Clock::Set(_) => 0,
        }
    }
}
