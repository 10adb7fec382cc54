//! Records of many machines in PostgreSQL: runs are pushed exactly once and read by queries.
//!
//! ```text
//! run log of a host > push > PostgreSQL > PostgresArchive > list, show, compare, trend, report, export, merge
//! ```
//! A run is known by its UUID, and a push of a run is one transaction: it is there as a whole or not at all, whatever is cut or killed.
//!
//! Files:
//! - `address.rs`: which server, and how its certificate is checked
//! - `server.rs`, `schema.rs`: connections; the tables, their migrations and rights
//! - `table.rs`: records as rows; `archive.rs`: the archive as queries; `push.rs`: runs of a run log that are copied
//! - `retention.rs`: old runs that are deleted
//! - `browse.rs`, `serve/`: pages of runs for readers with a browser; the program `weir` draws their reports

#![forbid(unsafe_code)]

mod address;
mod archive;
mod browse;
mod push;
mod retention;
mod schema;
mod serve;
mod server;
mod table;

pub use address::Address;
pub use archive::PostgresArchive;
pub use push::{Pushed, Which, push};
pub use retention::{Old, count_old, delete_old};
pub use schema::{Rights, set_up};
pub use serve::{Tokens, serve};
pub use server::{Server, runtime};
