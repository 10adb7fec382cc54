//! The means that the engine gives a rig while a run proceeds: rounds, trials that are kept and resumed, wires, programs and
//! processes of others, folders.
//!
//! Files:
//! - `running.rs`: what the engine gives to a rig
//! - `resume.rs`, `series.rs`: kept trials, and how a run continues from them
//! - `rounds.rs`: interleaved rounds
//! - `process.rs`, `programs.rs`, `tree.rs`: processes of a rig, programs of other projects, process trees
//! - `wires.rs`, `folder.rs`: a bottleneck between two hosts; a folder for the files of a run

pub mod folder;
pub mod process;
pub mod programs;
pub(crate) mod resume;
pub mod rounds;
pub mod running;
pub mod series;
pub mod tree;
pub mod wires;

pub use running::{Event, Options, Running};
