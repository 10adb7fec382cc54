//! The time of an input, by two clocks.

use std::time::Duration;

/// The time of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// By a clock that never goes back and that no operator sets (CLOCK_MONOTONIC): leases end by it.
    pub at: Duration,
    /// By the clock on the wall, s since 1970: only written into records, and compared with it after a restart.
    pub wall_s: u64,
}
