//! Applications to measure a machine with: servers of each architecture that give the same reply, the client that loads
//! them, and many small files.
//!
//! ```text
//! client > connect > [ accept > (request) > reply > close ] > end of stream > client
//! ```
//! A server or a client is a process: [`command::run_if_asked`] makes any program one, so that its CPU time, memory and
//! context switches are those of its process tree.
//!
//! Files:
//! - `server/`: one file for each server architecture; `client/`: the client in a closed and an open loop
//! - `files/`: makes and reads small files
//! - `command.rs`: servers and clients as processes

pub mod client;
pub mod command;
pub mod files;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod server;
pub mod sys;
mod tally;

pub use tally::{Counts, Tally};
