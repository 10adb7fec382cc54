//! Records on disk: one SQLite file, each trial committed as it ends. What was stored outlives a crash of the machine as well.

mod file;
mod migrations;
mod run_log;
mod table;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row, Transaction, TransactionBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Archive, StoreError};
use crate::record::{Point, PointKey, Run, RunId, Trial};
use crate::run_data::{PointData, RunData};
use migrations::MIGRATIONS;
pub use run_log::RunLog;
use table::{Key, POINTS, RUNS, RowError, TRIALS, Table, Unreadable, of_point, of_run};

/// How long a write waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A file of records as an archive. Several processes may use the same file.
#[derive(Debug)]
pub struct SqliteArchive {
    db: Connection,
    path: PathBuf,
    busy_timeout: Duration,
    /// Rows that could not be read, in words.
    damaged: RefCell<BTreeSet<String>>,
}

impl SqliteArchive {
    /// Opens the file, and creates it and its directory where missing.
    pub(super) fn open(path: &Path) -> Result<SqliteArchive, StoreError> {
        SqliteArchive::open_waiting(path, BUSY_TIMEOUT)
    }

    fn open_waiting(path: &Path, busy_timeout: Duration) -> Result<SqliteArchive, StoreError> {
        let file = file::absolute(path)?;
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)
                .map_err(|source| StoreError::Directory { path: dir.to_path_buf(), source })?;
        }
        file::check_plain(path)?;
        let error = |e| StoreError::from_sqlite(path, busy_timeout, e);
        let db = file::open_to_write(&file).map_err(error)?;
        let mut archive = SqliteArchive::over(db, path, busy_timeout)?;
        archive.check_version()?;
        archive.use_wal()?;
        // FULL: a commit is on disk when it is reported. There is one for each trial, so that it costs nothing.
        archive.db.execute_batch("PRAGMA synchronous = FULL").map_err(error)?;
        archive.migrate()?;
        Ok(archive)
    }

    /// Opens a file that is there, to read it. Nothing is written to it: it may be on a file system that is read-only. The records
    /// of an older version are brought up to date in memory.
    ///
    /// # Errors
    /// [`StoreError::NoFile`] without it; a file that is no file of records, or of a newer version.
    pub fn open_to_read(path: &Path) -> Result<SqliteArchive, StoreError> {
        let file = file::absolute(path)?;
        if let Ok(false) = path.try_exists() {
            return Err(StoreError::NoFile(path.to_path_buf()));
        }
        file::check_plain(path)?;
        let mut archive = match SqliteArchive::reading(path, file::open_to_read(&file)) {
            // The shared memory of the write-ahead log can be neither opened nor made: so no other process has the file open.
            Err(error) if error.lacks_shared_memory() && file::has_log(&file) => {
                return Err(StoreError::LogNeeded { path: path.to_path_buf() });
            }
            Err(error) if error.lacks_shared_memory() => {
                SqliteArchive::reading(path, file::open_unchanging(&file))?
            }
            opened => opened?,
        };
        if archive.pragma("user_version")? < MIGRATIONS.len() as i64 {
            archive.db = file::in_memory(&archive.db).map_err(|e| archive.error(e))?;
            archive.migrate()?;
        }
        Ok(archive)
    }

    /// An archive without runs, for a file that is not there yet. It is in memory, and makes no file.
    ///
    /// # Errors
    /// There is no memory.
    pub fn empty(path: &Path) -> Result<SqliteArchive, StoreError> {
        let db = Connection::open_in_memory().map_err(|e| StoreError::from_sqlite(path, BUSY_TIMEOUT, e))?;
        let mut archive = SqliteArchive::over(db, path, BUSY_TIMEOUT)?;
        archive.migrate()?;
        Ok(archive)
    }

    fn reading(path: &Path, opened: rusqlite::Result<Connection>) -> Result<SqliteArchive, StoreError> {
        let db = opened.map_err(|e| StoreError::from_sqlite(path, BUSY_TIMEOUT, e))?;
        let archive = SqliteArchive::over(db, path, BUSY_TIMEOUT)?;
        archive.check_version()?;
        Ok(archive)
    }

    fn over(db: Connection, path: &Path, busy_timeout: Duration) -> Result<SqliteArchive, StoreError> {
        let set = db.busy_timeout(busy_timeout).and_then(|()| db.pragma_update(None, "foreign_keys", true));
        set.map_err(|e| StoreError::from_sqlite(path, busy_timeout, e))?;
        Ok(SqliteArchive { db, path: path.to_path_buf(), busy_timeout, damaged: RefCell::default() })
    }

    fn run_id(&self, sql: &str, number: impl Params) -> Result<Option<RunId>, StoreError> {
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?));
        let found = self.db.query_row(sql, number, row).optional().map_err(|e| self.error(e))?;
        let read = |(id, uuid): (i64, String)| {
            serde_json::from_value(uuid.into())
                .map_err(|source| self.unreadable(&RUNS, Unreadable { id, source }))
        };
        found.map(read).transpose()
    }

    fn no_run(&self, run: impl ToString) -> StoreError {
        StoreError::NoRun { path: self.path.clone(), run: run.to_string() }
    }

    /// Refuses files of other programs and of newer versions, before anything is changed in them.
    fn check_version(&self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let (found, known) = (self.pragma("user_version")?, MIGRATIONS.len() as i64);
        let tables: i64 = self
            .db
            .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
            .map_err(|e| self.error(e))?;
        if tables > 0 && self.pragma("application_id")? != table::APPLICATION_ID {
            return Err(StoreError::Foreign { path });
        }
        if found > known {
            return Err(StoreError::Newer { path, found, known });
        }
        Ok(())
    }

    /// Turns on the write-ahead log, so that readers never wait. The change needs the file for itself, and
    /// SQLite does not wait for that, whatever its busy timeout.
    fn use_wal(&self) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            match self.db.execute_batch("PRAGMA journal_mode = WAL").map_err(|e| self.error(e)) {
                Err(StoreError::Locked { .. }) if begun.elapsed() < self.busy_timeout => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                done => return done,
            }
        }
    }

    /// Brings the schema up to date.
    fn migrate(&mut self) -> Result<(), StoreError> {
        if self.pragma("user_version")? == MIGRATIONS.len() as i64 {
            return Ok(());
        }
        let error = |e| StoreError::from_sqlite(&self.path, self.busy_timeout, e);
        // A table that a migration makes anew is missing for a moment, which its rows' children must not see.
        self.db.pragma_update(None, "foreign_keys", false).map_err(error)?;
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        // Read again under the lock: another process may have been faster.
        let from: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(error)?;
        for step in MIGRATIONS.iter().skip(from as usize) {
            change.execute_batch(step).map_err(error)?;
        }
        change.pragma_update(None, "application_id", table::APPLICATION_ID).map_err(error)?;
        change.pragma_update(None, "user_version", MIGRATIONS.len() as i64).map_err(error)?;
        change.commit().map_err(error)?;
        self.db.pragma_update(None, "foreign_keys", true).map_err(error)
    }

    fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        self.db.pragma_query_value(None, name, |row| row.get(0)).map_err(|e| self.error(e))
    }

    fn insert<R: Serialize + DeserializeOwned>(
        &self,
        table: &Table,
        parent: &Key,
        record: &R,
    ) -> Result<i64, StoreError> {
        table.insert(&self.db, parent, record).map_err(|e| self.row_error(table, e))
    }

    fn select<R: DeserializeOwned>(&self, table: &Table, key: &Key) -> Result<Vec<R>, StoreError> {
        let mut records = Vec::new();
        for row in table.select(&self.db, key).map_err(|e| self.error(e))? {
            match row {
                Ok(record) => records.push(record),
                Err(unreadable) => {
                    self.damaged.borrow_mut().insert(self.unreadable(table, unreadable).to_string());
                }
            }
        }
        Ok(records)
    }

    fn unreadable(&self, table: &Table, Unreadable { id, source }: Unreadable) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), table: table.name, id, source }
    }

    fn row_error(&self, table: &Table, error: RowError) -> StoreError {
        match error {
            RowError::Sql(source) => match source.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => StoreError::Misplaced {
                    path: self.path.clone(),
                    table: table.name,
                    why: source.to_string(),
                },
                _ => self.error(source),
            },
            RowError::Record(source) => StoreError::Unstorable { table: table.name, source },
        }
    }

    fn error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(&self.path, self.busy_timeout, source)
    }
}

impl Archive for SqliteArchive {
    fn damaged(&self) -> Vec<String> {
        self.damaged.take().into_iter().collect()
    }

    fn runs(&self) -> Result<Vec<Run>, StoreError> {
        self.select(&RUNS, &[])
    }

    fn numbered(&self, number: i64) -> Result<RunId, StoreError> {
        self.run_id(table::NUMBERED, [number])?.ok_or_else(|| self.no_run(number))
    }

    fn newest(&self) -> Result<Option<RunId>, StoreError> {
        self.run_id(table::NEWEST, [])
    }

    fn run(&self, run: RunId) -> Result<Run, StoreError> {
        let key = [("uuid", run.to_string().into())];
        let found = RUNS.select(&self.db, &key).map_err(|e| self.error(e))?.pop();
        found.ok_or_else(|| self.no_run(run))?.map_err(|unreadable| self.unreadable(&RUNS, unreadable))
    }

    fn points(&self, run: RunId) -> Result<Vec<Point>, StoreError> {
        self.select(&POINTS, &of_run(run))
    }

    fn trials(&self, point: PointKey) -> Result<Vec<Trial>, StoreError> {
        self.select(&TRIALS, &of_point(point))
    }

    fn put(&self, data: &RunData) -> Result<i64, StoreError> {
        let error = |e| self.error(e);
        let change = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate).map_err(error)?;
        let number = self.insert(&RUNS, &[], &data.run)?;
        for PointData { point, trials } in &data.points {
            let key = point.key(data.run.uuid);
            self.insert(&POINTS, &of_run(key.run), point)?;
            for trial in trials {
                self.insert(&TRIALS, &of_point(key), trial)?;
            }
        }
        change.commit().map_err(error)?;
        Ok(number)
    }
}

#[cfg(test)]
mod tests;
