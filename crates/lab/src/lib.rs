//! Experiments: plans, the engine that runs them, trials with frames, and rigs.
//!
//! ```text
//! plan.toml > Rig::read > points > search <-> trial > record
//! ```
//! Each uses only what stands further left; `run` begins a run, and its other files are the means that rigs have:
//! ```text
//! error < frames < run/* < rig < plan < run < rigs/* < rigs
//! ```
//! What is measured is kept by `weir_record` and read by `weir_report`. Searches and statistics (`weir_measure`) are pure: they
//! ask a [`search::Measurer`] for trials and never see a clock, a socket or a file. The same code drives real frames and
//! simulated devices.

pub mod bench;
pub mod check;
pub mod conformance;
pub mod error;
pub mod frames;
pub mod interface;
pub mod machine;
pub mod plan;
pub mod rig;
pub mod rigs;
pub mod run;

pub use weir_measure::{search, stats};
#[cfg(test)]
pub(crate) use weir_record::fixture;
pub use weir_record::{figure, merged, profile, record, run_data, shards, store, time};
pub use weir_report::{compare, export, repeat, report, trend, view};
pub use weir_rng as rng;
