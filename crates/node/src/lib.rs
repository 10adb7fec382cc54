//! A node that runs: a plane, its ports, and the thread that leads frames from one to the other.
//!
//! ```text
//!   port > batch > [ plane ] > fates > port           all on one thread, which shares nothing
//!            counters > snapshot      text > change, between two batches
//! ```
//! Invariant: entered + own = left + held + local + dropped, in each snapshot and when the node has ended.
#![forbid(unsafe_code)]

mod backend;
mod config;
mod counters;
mod node;
mod worker;

pub use backend::{Backend, OpenError};
pub use config::{Config, Host, Settings, Wait};
pub use counters::{PortCounts, Snapshot};
pub use node::{Node, NodeError, Opened};
