//! Errors of the store: what happened, where, and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rustix::io::Errno;

/// An operation on the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder could not be made or opened.
    #[error("cannot use the folder {}: {source}; create it, or name another one with `store PATH`", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process uses the folder.
    #[error("{} is in use by process {pid}: stop that process, or name another folder with `store PATH`", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process, as it wrote it down.
        pid: String,
    },
    /// There is no space left.
    #[error("the disk that holds {} is full: free some space", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}; check the disk and the permissions", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file of the log cannot be read.
    #[error(
        "the log {} is damaged at byte {offset}: {why}; restore the folder from a copy, or move the files log-* of the folder away to \
         start without what changed after record {filled}", .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// First byte that cannot be read.
        offset: usize,
        /// What is wrong.
        why: String,
        /// The last record that the database has.
        filled: u64,
    },
    /// Records are missing before a file of the log.
    #[error(
        "the records {} to {after} are missing before the log {}; restore the folder from a copy, or move the files log-* of the \
         folder away to start without what changed after record {filled}", .known + 1, .path.display()
    )]
    Missing {
        /// The file behind them.
        path: PathBuf,
        /// The last record before them.
        known: u64,
        /// The last one of them.
        after: u64,
        /// The last record that the database has.
        filled: u64,
    },
    /// The disk does not keep up.
    #[error("the disk that holds {} does not keep up: {records} records wait; check the disk", .path.display())]
    Slow {
        /// The folder.
        path: PathBuf,
        /// How many wait.
        records: usize,
    },
    /// The database is of another program.
    #[error("{} is no database of a BNG, or is damaged: restore it from a copy", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The database was written by a newer weir.
    #[error("{} has version {found}, this program reads versions up to {known}: use a newer weir", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Newest version that this program knows.
        known: i64,
    },
    /// A row of the database cannot be read.
    #[error("a row of {} in {} cannot be read: {why}; it was edited: restore the folder from a copy", .table, .path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Anything else that SQLite reports.
    #[error("cannot use {}: {source}; check the disk and the permissions", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// What the system says of a file.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
        let path = path.to_path_buf();
        move |source| match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => StoreError::Full { path },
            _ => StoreError::Io { path, source },
        }
    }

    /// What SQLite says of the database.
    pub(super) fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> StoreError + use<> {
        let path = path.to_path_buf();
        move |source| match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Foreign { path },
            _ => StoreError::Database { path, source },
        }
    }
}
