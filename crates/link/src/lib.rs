//! A link in virtual time: a queue in front of a rate that may change, and delays, losses and reordering behind it. Pure: no
//! clock, no frames.
//!
//! ```text
//! arrive(packet, at) > [ queue | rate ] > Departure > put(at, path) > [ loss | delay, jitter, reordering ] > take(now)
//!                            |   Link                                     |   Behind
//!                            +-> dropped                                  +-> lost
//! ```
//! - Times follow from arrivals, the rate and the seed alone, in ps. A late caller gets the same departures.
//! - A packet in service is outside of the buffer. It keeps the rate that the link had at its start.
//! - What is behind the link loses nothing but what it is asked to lose, and keeps the order of a path unless it is asked to
//!   reorder.
//!
//! What people write of all this is read here as well: [`Rate`], [`Buffer`], [`Aqm`], [`Paths`], [`Impairment`].
//!
//! Files:
//! - `link.rs`: when a packet leaves the link; `behind.rs`: delay, loss and reordering behind it
//! - `line.rs`: a delay line; `rate.rs`: rates that change; `aqm.rs`, `buffer.rs`, `paths.rs`: the other settings
#![forbid(unsafe_code)]

mod aqm;
mod behind;
mod buffer;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod line;
mod link;
mod paths;
mod rate;

pub use aqm::Aqm;
pub use behind::Behind;
pub use buffer::{Buffer, time};
pub use link::{Departure, Link, LinkCounts};
pub use paths::{Paths, Prefix};
pub use rate::{Model, Rate, Trace};
