//! Trials with test frames: a point of a device under test, the test bed that is built for it, one trial, and its verdict. What
//! several rigs share; it knows none of them.
//!
//! ```text
//! PointSpec > Setup: tester > DUT > tester > Accounting > Trial with verdict and findings
//! ```
//!
//! Files:
//! - `point.rs`, `setup.rs`, `verdict.rs`: a point, its test set-up, the verdict of a trial
//! - `diagnosis.rs`: names what went wrong in a trial; `witness.rs`: stops of CPUs; `disturbance.rs`: changes to a device
//!   during a trial
//! - `preflight.rs`: checks before a run begins
//! - `link_axes.rs`, `lateness.rs`: the device `bottleneck`, and when it was too late
//! - `spread_axes.rs`, `spreading.rs`: CPUs of interrupts, RPS and XPS as axes
//! - `mirror.rs`: frames on an interface for a program that captures them
//! - `remote/`: a tester on two hosts; `remote/heard.rs` checks what the other host says
//! - `outside.rs`, `read_external.rs`: the device `external`

mod counted;
pub(crate) mod diagnosis;
pub mod disturbance;
pub mod lateness;
mod link_axes;
pub mod mirror;
pub mod outside;
pub mod point;
pub mod preflight;
pub mod read_external;
pub mod remote;
pub mod setup;
mod spread_axes;
mod spreading;
pub mod verdict;
pub mod witness;

pub use counted::load_parameters;
pub use disturbance::ResetKind;
pub use link_axes::LinkAxes;
pub use point::{Cpus, MIN_IPV6_FRAME_BYTES, PointSpec, Routing};
pub use setup::{Settings, Setup};
pub use spread_axes::SpreadAxes;
pub use verdict::Limits;
