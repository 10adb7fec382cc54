//! How a server is built: a process or a thread for each connection, pools of them, or event loops; found without its
//! source and without stopping it.
//!
//! ```text
//! server > listening process, system calls of its threads > 0, 50, 100, 200 connections held > tasks per connection > verdict
//!                                                \ it closes at once: tasks that it starts per connection /
//! ```
//! Facts come from /proc; the [verdict](decide) is a pure function of the [`Evidence`] and carries its reasons. What
//! cannot be read is no evidence: the verdict is then less certain, or unknown.
//!
//! Files:
//! - `probe.rs`: collects evidence; `sockets.rs`, `tasks.rs`, `hold.rs`, `starts.rs`: listening sockets, threads, connections
//!   that stay open, and tasks that a server starts
//! - `evidence.rs`, `verdict.rs`: the evidence, and the verdict
//! - tests against known servers: `crates/apps/tests/inspect.rs`; against installed ones: `crates/weir/tests/services/inspect.rs`

mod evidence;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod hold;
mod probe;
mod sockets;
mod starts;
mod tasks;
mod verdict;

pub use evidence::{Evidence, Instant, Outside, Step};
pub use probe::{InspectError, Listener, Target, find, from_inside, from_outside};
pub use tasks::{Idle, Wait};
pub use verdict::{Architecture, Confidence, Mechanism, Verdict, decide};
