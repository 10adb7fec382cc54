//! Mail as a load: an engine that delivers one message to many recipients, and what it is measured against.
//!
//! ```text
//! job > queue of domains > MX look-up > connect > [ MAIL > RCPT ... > RSET or DATA ] > QUIT     (an SMTP connection)
//!         ^ deferred: later                                  each recipient > outcome > log
//! ```
//! Each recipient has exactly one recorded outcome: delivered, failed or expired; after a crash the engine goes on with those
//! that have none. Engine and receivers are processes of their own, see [`command`].
//!
//! Files:
//! - `session.rs`, `reply.rs`: what an SMTP client sends, and what each reply means for a recipient
//! - `queue.rs`: which domain is delivered to next, how often, over how many connections; `engine.rs` runs it
//! - `log.rs`: outcomes on disk, and how a delivery continues after a crash
//! - `dns/`, `sink/`: the name server and the receivers; `flood.rs`: a client without logic
//! - `command.rs`: engine and receivers as processes

pub mod command;
mod connection;
pub mod dns;
pub mod engine;
pub mod flood;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod job;
mod latency;
mod limits;
pub mod log;
mod queue;
mod reply;
mod session;
pub mod sink;
mod tls;
mod usage;

pub use job::Job;
pub use latency::Latency;
pub use limits::{Descriptors, descriptors};
pub use session::{Cause, Ending, StartTls, Trouble, Verb};
