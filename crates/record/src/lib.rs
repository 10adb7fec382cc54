//! Records of measurements: runs, points, trials and figures, in one SQLite file.
//!
//! ```text
//! Run > Point > Trial, PointResult > Store > RunData
//! ```
//! A record is plain data that only grows: what a later version adds has a default, and what it cannot read it leaves alone.

#![forbid(unsafe_code)]

pub mod at_load;
mod bounds;
pub mod figure;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod merged;
pub mod profile;
pub mod record;
pub mod run_data;
pub mod shards;
pub mod store;
pub mod time;

pub use merged::merged;
