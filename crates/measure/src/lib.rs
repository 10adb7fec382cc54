//! Searches for a rate, and statistics of figures. Pure: a search asks a
//! [`search::Measurer`] for trials and never sees a clock, a socket or a file, so that the same code drives real frames and
//! simulated devices.

pub mod capacity;
pub mod histogram;
pub mod placement;
pub mod repeat;
pub mod search;
pub mod stats;
pub mod stops;

pub use weir_rng as rng;
