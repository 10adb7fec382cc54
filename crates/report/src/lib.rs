//! Output of runs for people and other programs: reports, comparisons, trends, exports, the terminal.
//!
//! ```text
//! RunData, Sections of its rig > view (numbers in words, tables, drawings) > page, text, Markdown, LaTeX, CSV, JSON
//! ```
//! Everything here is a pure function of records and of what a rig says about its own.
//!
//! Files:
//! - `report/`: the HTML report; `report/first.rs` and `report/answer.rs` are its first screen
//! - `compare.rs`: when a run is faster than another; `repeat.rs`: how far several runs agree
//! - `trend.rs`, `trend/change.rs`: since when the results of a plan differ
//! - `tables.rs`: the tables that the RFCs ask for; `export/`: all formats, `export/text.rs` for a terminal
//! - `view/`: numbers in words, tables, drawings, pages

#![forbid(unsafe_code)]

pub mod compare;
pub mod export;
pub mod repeat;
pub mod report;
mod tables;
pub mod trend;
pub mod view;

pub use report::Sections;

pub(crate) use weir_linux::time;
pub(crate) use weir_measure::{search, stats};
#[cfg(test)]
pub(crate) use weir_record::fixture;
pub(crate) use weir_record::{at_load, figure, profile, record, run_data, shards};
pub(crate) use weir_rng as rng;
