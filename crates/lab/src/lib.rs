//! Experiments: plans, the engine that runs them, and trials with frames. The experiments themselves are `weir-rigs`.
//!
//! ```text
//! plan.toml > Rig::read > points > search <-> trial > record
//! ```
//! Each file uses only what stands further left; the engine begins a run, and the files of `run` are the means that rigs have:
//! ```text
//! error < frames < run < rig < plan < engine
//! ```
//! What is measured is kept by `weir_record` and read by `weir_report`. Searches and statistics (`weir_measure`) are pure: they
//! ask a [`weir_measure::search::Measurer`] for trials and never see a clock, a socket or a file. The same code drives real
//! frames and simulated devices.
//!
//! Files:
//! - `plan/`: plans; `plan/read.rs` reads `plans/options.toml`, and each rig its own `options.toml`
//! - `engine.rs`: begins, resumes and ends a run; `run/`: what the engine gives to rigs; `rig.rs`: what a rig is
//! - `frames/`: a trial with test frames: point, set-up, verdict
//! - `check.rs`: plants faults and checks that each is named; `check/capture.rs`: compares captures with what was sent, frame
//!   by frame; `check/delay.rs`: measures a known delay
//! - `machine.rs`: the facts of the machine in a record

pub mod check;
pub mod engine;
pub mod error;
pub mod frames;
pub mod interface;
pub mod machine;
pub mod plan;
pub mod rig;
pub mod run;
