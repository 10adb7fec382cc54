//! Commands for archives in PostgreSQL, which the program weir-archive executes.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{RunName, Store};

/// `weir push`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir push --to postgres://lab@db.example.org/weir              the last run
  weir push --all --to postgres://lab@db.example.org/weir        all runs that are not there yet
  weir push 12 14 --to postgres://lab@%2Frun%2Fpostgresql/weir   by a Unix socket")]
pub(crate) struct Push {
    /// Numbers of the runs (see `weir list`) or `last` [default: last]
    #[arg(value_name = "ID|last", conflicts_with = "all")]
    pub(crate) runs: Vec<RunName>,
    /// All runs that have ended
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) store: Store,
    /// The archive: `postgres://USER@HOST/DATABASE`, with the password in PGPASSWORD. The certificate of another host is checked, by
    /// the file of PGSSLROOTCERT if it is set
    #[arg(long, value_name = "URL", env = "WEIR_PUSH_TO")]
    pub(crate) to: String,
}

/// `weir serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir serve --from postgres://guest@db.example.org/weir
  weir serve --from postgres://guest@db.example.org/weir --listen 192.0.2.1:8080 --tokens tokens.txt")]
pub(crate) struct Serve {
    /// The archive: `postgres://USER@HOST/DATABASE`, with the password in PGPASSWORD
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// Address of the pages; one that other machines reach needs --tokens
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// File with a token in each line, of 16 or more letters and digits: who has one may read
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
}

/// An address to listen to, by number or name.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| format!("`{text}` is no address with a port: use 127.0.0.1:8080"))
}

/// `weir archive`.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Make the tables of an archive or bring them up to date, and give roles rights to it
    #[command(after_help = "\
Examples:
  weir archive setup --at postgres://postgres@%2Frun%2Fpostgresql/weir --writer lab --reader guest    after `createdb weir`")]
    Setup {
        /// The archive, with the role that owns the database
        #[arg(long, value_name = "URL")]
        at: String,
        /// Role that may push and read, and may not delete; repeatable
        #[arg(long, value_name = "ROLE")]
        writer: Vec<String>,
        /// Role that may read; repeatable
        #[arg(long, value_name = "ROLE")]
        reader: Vec<String>,
    },
    /// Delete old runs of an archive; without --delete, only count them
    #[command(after_help = "\
Examples:
  weir archive prune --at postgres://postgres@%2Frun%2Fpostgresql/weir --keep-days 730
  weir archive prune --at postgres://postgres@%2Frun%2Fpostgresql/weir --keep-days 90 --plan quick --delete")]
    Prune {
        /// The archive, with the role that owns its tables
        #[arg(long, value_name = "URL")]
        at: String,
        /// Keep runs that began in this many days
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        keep_days: u32,
        /// Only runs of this plan
        #[arg(long)]
        plan: Option<String>,
        /// Delete the runs
        #[arg(long)]
        delete: bool,
    },
}
