//! Time as the plane sees it: it has no clock, it is an argument.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since the node began; 584 years of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(u64);

impl Time {
    /// So many nanoseconds after the beginning.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }

    /// So many milliseconds after the beginning.
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Nanoseconds since the beginning.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the beginning.
    pub const fn ms(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(duration.as_nanos() as u64))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// What has passed since; nothing if `earlier` is later.
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
