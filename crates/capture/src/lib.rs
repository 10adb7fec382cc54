//! Capturing frames to files and counters, with accounting that balances.
//!
//! ```text
//!  interface > queue > thread: counts, writes blocks --buffers--> writer > file 1, file 2, ...
//!              queue > thread                        <--empty----
//!                        \--readings--> session: limits, trigger, what is shown each second
//! ```
//! A [`source::Source`] is an interface with its queues, a [`session::Session`] what becomes of their frames, a
//! [`accounting::Accounting`] where all frames of an interface went. Privileges are needed for the source only: see
//! [`privilege`].
//!
//! Files:
//! - `source.rs`, `interface.rs`, `filter.rs`: interfaces, their queues, and filters in the language of tcpdump
//! - `worker.rs`: a thread that captures; `recorder.rs`, `pool.rs`, `disk.rs`: a frame on its way to a file; `trigger.rs`: when
//!   it begins
//! - `mix.rs`: protocols, sizes and senders that `--stats` shows
//! - `files.rs`: makes files after privileges are gone; `privilege.rs`, `syscalls.rs`: privileges and system calls that remain

pub mod accounting;
mod disk;
pub mod files;
pub mod filter;
mod interface;
pub mod mix;
mod pool;
pub mod privilege;
mod recorder;
pub mod session;
pub mod source;
mod sys;
mod syscalls;
pub mod trigger;
mod worker;

pub use disk::{Rotation, Written};
pub use recorder::Format;

/// The time now, in ns since 1970, on the clock of the frames' stamps.
fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
