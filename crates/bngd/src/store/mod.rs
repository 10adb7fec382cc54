//! What must outlive the program: a log of records, and a database that is filled from it.
//!
//! ```text
//!  append (never waits)       groups of >= 1 ms, fdatasync        every 100 ms
//!  caller > inbox > thread > log-0000000007, log-0000000008 > thread > bng.db (SQLite, WAL)
//!         < reports, eventfd                                  deletes files of the log that the database has whole
//!
//!  open: database > files of the log behind it > both in the database > records for `Bng::input` (Input::Adopt)
//! ```
//! - A record that was reported as stored is there after any crash, and a power failure.
//! - A record that was reported as failed is not there later: see [`Report::Failed`].
//! - Other programs read the database while this one runs; the tables are described in `database/schema.sql`. A transaction that
//!   reads for long lets the file `bng.db-wal` grow meanwhile.
//!
//! Files: `frame.rs` bytes of the log; `log.rs` its files; `inbox.rs`, `progress.rs` what the threads hand over; `database.rs` and
//! its folder the tables; `lock.rs`; `error.rs`.

mod database;
mod error;
mod filler;
mod frame;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod inbox;
mod lock;
mod log;
mod progress;
mod writer;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_bng::{Record, Subscriber};

use database::Database;
pub use error::StoreError;
use filler::{Filler, Position};
pub use inbox::Report;
use inbox::{Inbox, Outbox};
use lock::Lock;
use log::{Folder, Log, Start};
use progress::Progress;
use writer::Writer;

/// How a store works.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size of a file of the log, bytes.
    pub segment_bytes: u64,
    /// Records that come within this time are written together.
    pub gather: Duration,
    /// Time between two transactions of the database.
    pub fill_every: Duration,
    /// How long nothing is written after a write failed.
    pub retry_after: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 8 << 20,
            gather: Duration::from_millis(1),
            fill_every: Duration::from_millis(100),
            retry_after: Duration::from_millis(500),
        }
    }
}

/// The store of a BNG. Its file descriptor can be read when there are reports.
#[derive(Debug)]
pub struct Store {
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    progress: Arc<Progress>,
    /// Revision of the last record.
    last: u64,
    /// The thread that writes the log, and the one that fills the database.
    log: Option<JoinHandle<Ended>>,
    fill: Option<JoinHandle<Ended>>,
    _lock: Lock,
}

/// How a thread has ended.
type Ended = Result<(), StoreError>;

impl Store {
    /// Opens the store in a folder, which is made where missing, with the records for `Input::Adopt`, in their order.
    ///
    /// # Errors
    /// Another process has the folder; a file is damaged; the disk is full, read-only or fails.
    pub fn open(folder: &Path, options: Options) -> Result<(Store, Vec<Record>), StoreError> {
        Store::open_sealed(folder, options, &mut |_| Vec::new())
    }

    /// The same; `seal` takes the records, and returns subscribers whose passwords are to be replaced by these in all files.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open_sealed(
        folder: &Path,
        options: Options,
        seal: &mut dyn FnMut(&[Record]) -> Vec<Subscriber>,
    ) -> Result<(Store, Vec<Record>), StoreError> {
        let folder = Arc::new(Folder::open(folder)?);
        let lock = Lock::take(&folder)?;
        let mut database = Database::open(&folder)?;
        let contents = log::read(&folder, database.filled())?;
        // All of the log goes into the database, and all of that into its main file, before a new log begins: what was read of both
        // from the kernel's cache need not be on disk if a write of the process before failed.
        database.fill(&contents.groups)?;
        database.checkpoint()?;
        for number in &contents.segments {
            folder.remove_segment(*number)?;
        }
        let records = database.records()?;
        database.replace_passwords(&seal(&records))?;
        let last = database.filled();
        let segment = contents.segments.last().map_or(1, |number| number + 1);
        let start = Start { segment, last, segment_bytes: options.segment_bytes };
        let progress = Arc::new(Progress::default());
        let log = Log::begin(folder.clone(), progress.clone(), start)?;
        let error = |source| StoreError::io(folder.path())(source);
        let inbox = Arc::new(Inbox::default());
        let outbox = Arc::new(Outbox::new().map_err(error)?);
        let writer = Writer { log, folder: folder.clone(), inbox: inbox.clone(), outbox: outbox.clone() };
        let read = Position::default();
        let (to_fill, to_report) = (progress.clone(), outbox.clone());
        let filler = Filler { database, folder: folder.clone(), progress: to_fill, outbox: to_report, read };
        let mut store = Store { inbox, outbox, progress, last, log: None, fill: None, _lock: lock };
        store.log = Some(spawn("store-log", move || writer.run(options)).map_err(error)?);
        store.fill = Some(spawn("store-fill", move || filler.run(options)).map_err(error)?);
        Ok((store, records))
    }

    /// Writes a record; [`Store::reports`] says when it is on disk. Never waits for the disk.
    ///
    /// # Panics
    /// Its revision is not above that of the record before.
    pub fn append(&mut self, record: Record) {
        assert!(record.revision > self.last, "record {} follows record {}", record.revision, self.last);
        self.last = record.revision;
        self.inbox.append(record);
    }

    /// What was not reported yet. Before this all records that the control plane has returned must be appended: if one of the
    /// reports is a failure, it holds for them, too.
    pub fn reports(&mut self) -> Vec<Report> {
        let reports = self.outbox.take();
        if reports.iter().any(|report| matches!(report, Report::Failed(_))) {
            self.inbox.accept();
        }
        reports
    }

    /// Writes all records into the log and the database, and ends.
    ///
    /// # Errors
    /// Some could not be written.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.inbox.end();
        let written = self.log.take().map(JoinHandle::join);
        self.progress.end();
        let filled = self.fill.take().map(JoinHandle::join);
        for ended in [written, filled].into_iter().flatten() {
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    }
}

fn spawn(name: &str, run: impl FnOnce() -> Ended + Send + 'static) -> std::io::Result<JoinHandle<Ended>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

impl Drop for Store {
    fn drop(&mut self) {
        // Errors are for the caller of `close`.
        let _ = self.end();
    }
}

impl AsFd for Store {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outbox.as_fd()
    }
}
