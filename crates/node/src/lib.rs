//! A node that runs: a plane, its ports, and the thread that leads frames from one to the other; or several of these,
//! which share nothing.
//!
//! ```text
//!   port > batch > [ plane ] > verdicts > port           one thread, with its own queue of each port
//!                     | handed over                   what belongs to another thread, by a ring
//!   port > batch > [ plane ] > verdicts > port           that thread
//!            counters > snapshot      text > change, between two batches
//! ```
//! Invariant: entered + originated = left + kept + local + dropped over all threads when the node has ended; the accounting
//! of a thread has what it handed over and what it took beside.
#![forbid(unsafe_code)]

mod backend;
mod bell;
mod config;
mod counters;
mod fast;
mod handover;
mod kept;
mod node;
mod opened;
mod running_config;
mod termination;
#[cfg(test)]
mod threads_tests;
mod word;
mod worker;

pub use backend::{Backend, OpenError};
pub use config::Fast;
pub use config::{Config, Host, Settings, Wait, cpus_of};
pub use counters::{PortCounts, Snapshot};
pub use fast::Table;
pub use node::{Ended, Node, NodeError, Sessions};
pub use opened::Opened;
pub use worker::PanicReport;
