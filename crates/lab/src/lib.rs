//! Plans, searches, trials, statistics, records and reports.
//!
//! ```text
//! plan.toml > points > search <-> trial > record > report.html
//! ```
//! Searches and statistics are pure: they ask a [`search::Measurer`] for trials and never see a clock,
//! a socket or a file. The same code drives real frames and simulated devices.

pub mod bench;
pub mod check;
pub mod compare;
pub mod conformance;
pub mod export;
mod figure;
#[cfg(test)]
mod fixture;
pub mod frames;
pub mod interface;
pub mod machine;
mod merged;
pub mod plan;
pub mod profile;
pub mod record;
pub mod repeat;
pub mod report;
pub mod rig;
pub mod rigs;
pub mod run;
pub mod run_data;
pub mod shards;
pub mod store;
mod tables;
pub mod time;
pub mod trend;
mod view;

pub use merged::merged;
pub use weir_rng as rng;

pub use weir_measure::{search, stats};
