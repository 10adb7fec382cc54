//! Trials with test frames: a point of a device under test, the test bed that is built for it, one trial, and its verdict. What
//! several rigs share; it knows none of them.
//!
//! ```text
//! PointSpec > Setup: tester > DUT > tester > Books > Trial with verdict and findings
//! ```

mod counted;
pub(crate) mod diagnosis;
pub(crate) mod disturbance;
pub mod far;
pub(crate) mod mirror;
pub(crate) mod outside;
pub(crate) mod point;
pub mod preflight;
pub(crate) mod setup;
mod spreading;
pub(crate) mod verdict;

pub(crate) use counted::load_parameters;
pub use disturbance::ResetKind;
pub use point::{Cpus, MIN_IPV6_FRAME_BYTES, PointSpec, Routing};
pub use setup::{Settings, Setup};

use crate::run::RunError;
