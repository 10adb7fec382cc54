//! A node that runs: a plane, its ports, and the thread that leads frames from one to the other; or several of these,
//! which share nothing.
//!
//! ```text
//!   port > batch > [ plane ] > verdicts > port           one thread, with its own queue of each port
//!                     | handed over                   what belongs to another thread, by a ring
//!   port > batch > [ plane ] > verdicts > port           that thread
//!            counters > snapshot      text > change, between two batches
//! ```
//! Invariant: entered + originated + injected = left + kept + local + control + dropped over all threads when the node has ended; the accounting
//! of a thread has what it handed over and what it took beside.
//!
//! Files:
//! - `applied.rs`: what a change cost the threads
//! - `node.rs`: a running node as its caller sees it: snapshots, updates, shutdown
//! - `query.rs`, `answers.rs`: what a node is asked, and how it answers
//! - `worker.rs`: the loop of a thread; `worker/host.rs`: frames for and from the machine; `worker/control.rs`: frames to and from the
//!   control program, which `node/control.rs` attaches; `worker/panics.rs`: a panic of the plane; `worker/fast.rs`: whether the fast
//!   path is used
//! - `bell.rs`, `termination.rs`: wake a thread that sleeps; decide that all threads have finished. loom tries all interleavings
//! - `handover.rs`: rings that carry frames to the thread that they belong to; the plane (`crates/plane/src/steer.rs`)
//!   decides which one
//! - `grace.rs`, `carrier.rs`, `node/links.rs`: sessions of subscribers end when their access port has had no link for a time
//! - `links.rs`: a thread that asks the kernel whether interfaces take frames of XDP programs
//! - `kept.rs`: memory of frames that a stage keeps
//! - `fast.rs`: loads the entries of the fast path into the XDP programs and reads their counters
//! - `config.rs`, `running_config.rs`, `backend.rs`, `opened.rs`: the node's text, its ports, and opening them
//! - `node/apply.rs`, `node/ports.rs`, `worker/ports.rs`: another text, and ports that come, change and go with it
//! - `offload.rs`: VLAN tags that interfaces hide from AF_XDP; what is switched off for that is switched on again
//! - `tests/fast.rs`: a node with the fast path beside one without; `tests/rules.rs`: filter rules beside nft
#![forbid(unsafe_code)]

mod answers;
mod applied;
mod backend;
mod bell;
mod carrier;
mod config;
mod counters;
mod fast;
mod grace;
mod handover;
mod kept;
mod links;
mod node;
pub mod offload;
mod opened;
mod query;
mod running_config;
mod termination;
#[cfg(test)]
mod threads_tests;
mod word;
mod worker;

pub use applied::{Applied, Turns};
pub use backend::{Backend, OpenError};
pub use config::Fast;
pub use config::{Config, Host, RightToOpen, Settings, Wait, cpus_of};
pub use counters::{PortCounts, Snapshot};
pub use fast::Table;
pub use node::{Attachment, CONTROL_SLOTS, Ended, Node, NodeError, PartsOfPort, Rings};
pub use opened::Opened;
pub use query::{
    Answer, Counters, EndedSubscribers, EndedSubscribersQuery, Fast as FastAnswer, Forwards, ForwardsQuery,
    Groups, Log, Neighbours, NeighboursQuery, OneToOne, OneToOneQuery, Plans, Police, PortCounters,
    PortState, Ports, Query, Queues, RemovedSubscribers, RemovedSubscribersQuery, Routes, RoutesQuery, Rules,
    Sessions, SessionsCursor, SessionsQuery, SubscriberCounts, Subscribers, SubscribersQuery, ThreadCounters,
};
pub use worker::{AttachmentId, ControlState, PanicReport};
