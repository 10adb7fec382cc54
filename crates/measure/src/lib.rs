//! Searches for a rate, and statistics of figures. Pure: a search asks a
//! [`search::Measurer`] for trials and never sees a clock, a socket or a file, so that the same code drives real frames and
//! simulated devices.
//!
//! Files:
//! - `search/`: how a rate is found; `search/interval.rs`: the interval of a rate, whose coverage is in
//!   `crates/lab/tests/coverage.txt`
//! - `capacity.rs`: the forwarding capacity of a device in overload
//! - `placement.rs`: how close the CPUs of tester and device are; `stops.rs`: when a CPU did not run, and what was lost by that
//! - `stats.rs`: medians, intervals, tests; `stats/unpaired.rs` decides whether a run is faster than another; `repeat.rs`: how
//!   far runs agree
//! - `histogram.rs`: latencies

pub mod capacity;
pub mod histogram;
pub mod placement;
pub mod repeat;
pub mod search;
pub mod stats;
pub mod stops;

pub use weir_rng as rng;
