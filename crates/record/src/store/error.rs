//! Errors of the store: what happened, where, and the remedy.

use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

use crate::record::{PointKey, RunState};
use crate::run_data::name;

/// An operation on the store failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Neither `XDG_DATA_HOME` nor `HOME` is an absolute path.
    #[error(
        "no folder for records: neither XDG_DATA_HOME nor HOME is an absolute path; give a file with --store"
    )]
    NoHome,
    /// The file is not there.
    #[error("there is no file {}: check the name in --store or WEIR_STORE; `weir run` creates it", .0.display())]
    NoFile(PathBuf),
    /// The directory of the file could not be made.
    #[error("cannot create the directory {}: {source}; create it, or use another file with --store", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Something else lies at the path.
    #[error("cannot use {}: {source}; use another file with --store", .path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// The error of the check.
        source: std::io::Error,
    },
    /// Records in memory end with the program.
    #[error("records in memory (:memory:) are lost when the program ends: give a file with --store")]
    Nowhere,
    /// The newest records are in a log that cannot be read where it is.
    #[error(
        "the newest records of {} are in {}-wal, which cannot be read where nothing can be written: copy both files to a writable folder with free \
         space, and use the copy with --store", .path.display(), .path.display()
    )]
    LogNeeded {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened, or not be written.
    #[error("cannot open {}: {source}; check its owner and permissions, or use another file with --store", .path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file is something else than weir's records.
    #[error("{} is no file of weir records, or is damaged: use another file with --store, or restore a copy", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer weir.
    #[error("{} has record format {found}, this weir supports formats up to {known}: use a newer weir, or another file with --store", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: i64,
        /// Newest format that this program knows.
        known: i64,
    },
    /// Another process holds the write lock.
    #[error("{} is locked by another process for more than {waited_s} s: wait until it ends, or use another file with --store", .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// Time waited, seconds.
        waited_s: f64,
    },
    /// No space left.
    #[error("the disk that holds {} is full: free some space; finished trials are kept", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A write has failed.
    #[error(
        "cannot write to {}: {source}; check the disk and the file size limit (ulimit -f); finished trials are kept", .path.display()
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// There is no such run.
    #[error("there is no run {run} in {}: `weir list` shows the runs", .path.display())]
    NoRun {
        /// The file.
        path: PathBuf,
        /// Number or UUID of the run.
        run: String,
    },
    /// A run that has ended cannot be changed.
    #[error("run {id} in {} has ended ({state}): records are append-only; start a new run", .path.display(), state = name(.state))]
    Ended {
        /// The file.
        path: PathBuf,
        /// Number of the run.
        id: i64,
        /// State in which it ended.
        state: RunState,
    },
    /// There is no such point, or it has its result already.
    #[error("point {point} in {} is missing or has a result already: results are written once", .path.display())]
    PointDone {
        /// The file.
        path: PathBuf,
        /// The point.
        point: PointKey,
    },
    /// A record does not fit to those that are there.
    #[error(
        "a record of table {table} does not fit into {}: {why}; this is a bug of weir, please report it", .path.display()
    )]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// Table.
        table: &'static str,
        /// What is in the way.
        why: String,
    },
    /// A record cannot be stored without loss, for instance because a number is not finite.
    #[error("a record of table {table} cannot be stored: {source}; this is a bug of weir, please report it")]
    Unstorable {
        /// Table.
        table: &'static str,
        /// Field and reason.
        source: serde_json::Error,
    },
    /// A stored record cannot be read.
    #[error("record {id} of table {table} in {} cannot be read: {source}; it was edited, or is of another version", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Table.
        table: &'static str,
        /// Number of the record.
        id: i64,
        /// Field and reason.
        source: serde_json::Error,
    },
    /// The server of an archive cannot be reached, or refuses.
    #[error("archive {archive}: {what}")]
    Server {
        /// Its address, without a password.
        archive: String,
        /// What happened, and what to do.
        what: String,
    },
    /// What another program answered in place of records.
    #[error("{0}")]
    Answered(String),
    /// Anything else that SQLite reports.
    #[error("{} cannot be used: {source}; check the disk, then try again", .path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Sorts what SQLite reports into the cases that have a remedy of their own.
    pub(super) fn from_sqlite(path: &Path, waited: std::time::Duration, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Locked { path, waited_s: waited.as_secs_f64() }
            }
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::SystemIoFailure) => StoreError::Unwritable { path, source },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Foreign { path },
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                StoreError::Access { path, source }
            }
            _ => StoreError::Sqlite { path, source },
        }
    }

    /// Whether a file cannot be opened because its folder is read-only, or because a full disk has no room for shared memory.
    pub(super) fn lacks_shared_memory(&self) -> bool {
        match self {
            StoreError::Access { .. } => true,
            StoreError::Unwritable { source, .. } => source.sqlite_error().is_some_and(|error| {
                [ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMSIZE].contains(&error.extended_code)
            }),
            _ => false,
        }
    }
}
