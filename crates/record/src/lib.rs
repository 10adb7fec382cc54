//! Records of measurements: runs, points, trials and figures, in one SQLite file.
//!
//! ```text
//! Run > Point > Trial, PointResult > RunLog > Archive > RunData
//! ```
//! A record is plain data that only grows: what a later version adds has a default, and what it cannot read it leaves alone.
//!
//! Files:
//! - `record.rs`: the types; `run_data.rs`: a whole run
//! - `store.rs`, `store/archive.rs`, `store/archive/contract.rs`: what every archive promises; `store/sqlite.rs`,
//!   `store/sqlite/table.rs`: the file and its migrations; `store/piped.rs`: an archive of another process; `store/fields.rs`: records as
//!   rows
//! - `merged.rs`, `shards.rs`: several runs as one; shards of a grid as one run
//! - `at_load.rs`, `bounds.rs`, `figure.rs`: figures at fixed loads, figures that are bounds, figures in general
//! - `profile.rs`: where the time of a trial goes, folded into named causes

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

pub use merged::merged;
