//! The control plane of a concentrator as a service: `weir-bngd` runs the pure `weir_bng::Bng` between a node, a disk and operators.
//!
//! ```text
//!  node (weir node run)                 bngd                                    weir bng, curl, billing
//!   punts ------ ring ----> +--------------------------+ <--- asks (bounded) --- REST server (rest/, tokio)
//!   injections < ring ----- | main loop (engine/): Bng | ---- answers ---------> one thread, Unix socket
//!   socket <-- node.rs <--- | polls rings and eventfds | ---- records ---------> store/: log, then SQLite
//!    one thread, in order   +--------------------------+ <--- committed ------- one thread, fdatasync
//! ```
//! - The main loop never waits for the node, the disk or a client: each has a thread of its own, and wakes the loop (`wake.rs`).
//! - A client gets its ACK after the record of its lease is on disk and the node has the session: records committed, then the
//!   commands of the node applied, then the frame injected.
//! - Nothing of an attachment to a node is used after it is lost: rings, lists of commands and waiting frames go with it. The next
//!   node is asked what it has, and gets what is missing.
#![forbid(unsafe_code)]

mod asks;
mod dynauth;
mod engine;
mod file;
mod metrics;
mod node;
mod passwords;
mod radius;
mod rest;
mod secrets;
mod service;
pub mod store;
mod table;
mod wake;

pub use file::File;
pub use service::{Settings, run};
