//! Records on disk: one SQLite file, each trial committed as it ends. What was stored outlives a crash of the machine as well.

mod file;
mod table;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{Store, StoreError};
use crate::record::{Point, PointResult, Run, RunState, Trial};
use crate::run_data::name;
use table::{POINTS, RUNS, RowError, TRIALS, Table, Unreadable};

/// How long a write waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A file of records. Several processes may use the same file.
#[derive(Debug)]
pub struct SqliteStore {
    db: Connection,
    path: PathBuf,
    busy_timeout: Duration,
    /// Rows that could not be read, in words.
    damaged: RefCell<BTreeSet<String>>,
}

impl SqliteStore {
    /// Opens the file, and creates it and its directory where missing.
    pub fn open(path: &Path) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_waiting(path, BUSY_TIMEOUT)
    }

    /// Opens a file that is there, to read and to write it: a mistyped name makes no file.
    ///
    /// # Errors
    /// [`StoreError::NoFile`] without it, otherwise as [`SqliteStore::open`].
    pub fn open_existing(path: &Path) -> Result<SqliteStore, StoreError> {
        file::absolute(path)?;
        match path.try_exists() {
            Ok(false) => Err(StoreError::NoFile(path.to_path_buf())),
            _ => SqliteStore::open(path),
        }
    }

    fn open_waiting(path: &Path, busy_timeout: Duration) -> Result<SqliteStore, StoreError> {
        let file = file::absolute(path)?;
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)
                .map_err(|source| StoreError::Directory { path: dir.to_path_buf(), source })?;
        }
        file::check_plain(path)?;
        let error = |e| StoreError::from_sqlite(path, busy_timeout, e);
        let db = file::open_to_write(&file).map_err(error)?;
        let mut store = SqliteStore::over(db, path, busy_timeout)?;
        store.check_version()?;
        store.use_wal()?;
        // FULL: a commit is on disk when it is reported. There is one for each trial, so that it costs nothing.
        // A table that a migration makes anew is missing for a moment, which its rows' children must not see.
        store.db.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;").map_err(error)?;
        store.migrate()?;
        store.db.execute_batch("PRAGMA foreign_keys = ON;").map_err(error)?;
        Ok(store)
    }

    /// Opens a file that is there, to read it. Nothing is written to it: it may be on a file system that is read-only. The records
    /// of an older version are brought up to date in memory.
    ///
    /// # Errors
    /// [`StoreError::NoFile`] without it; a file that is no file of records, or of a newer version.
    pub fn open_to_read(path: &Path) -> Result<SqliteStore, StoreError> {
        let file = file::absolute(path)?;
        if let Ok(false) = path.try_exists() {
            return Err(StoreError::NoFile(path.to_path_buf()));
        }
        file::check_plain(path)?;
        let mut store = match SqliteStore::reading(path, file::open_to_read(&file)) {
            // The shared memory of the write-ahead log can be neither opened nor made.
            Err(StoreError::Access { .. }) if file::has_log(&file) => {
                return Err(StoreError::LogNeeded { path: path.to_path_buf() });
            }
            Err(StoreError::Access { .. }) => SqliteStore::reading(path, file::open_unchanging(&file))?,
            opened => opened?,
        };
        if store.pragma("user_version")? < table::MIGRATIONS.len() as i64 {
            store.db = file::in_memory(&store.db).map_err(|e| store.error(e))?;
            store.migrate()?;
        }
        Ok(store)
    }

    /// A store without runs, for a file that is not there yet. It is in memory, and makes no file.
    ///
    /// # Errors
    /// There is no memory.
    pub fn empty(path: &Path) -> Result<SqliteStore, StoreError> {
        let db = file::new_in_memory().map_err(|e| StoreError::from_sqlite(path, BUSY_TIMEOUT, e))?;
        let mut store = SqliteStore::over(db, path, BUSY_TIMEOUT)?;
        store.migrate()?;
        Ok(store)
    }

    fn reading(path: &Path, opened: rusqlite::Result<Connection>) -> Result<SqliteStore, StoreError> {
        let db = opened.map_err(|e| StoreError::from_sqlite(path, BUSY_TIMEOUT, e))?;
        let store = SqliteStore::over(db, path, BUSY_TIMEOUT)?;
        store.check_version()?;
        Ok(store)
    }

    fn over(db: Connection, path: &Path, busy_timeout: Duration) -> Result<SqliteStore, StoreError> {
        db.busy_timeout(busy_timeout).map_err(|e| StoreError::from_sqlite(path, busy_timeout, e))?;
        Ok(SqliteStore { db, path: path.to_path_buf(), busy_timeout, damaged: RefCell::default() })
    }

    fn end_run(&self, id: i64, state: RunState, finished: Option<&str>) -> Result<(), StoreError> {
        let changed =
            self.db.execute(table::END_RUN, (id, name(&state), finished)).map_err(|e| self.error(e))?;
        if changed == 0 {
            let state = self.run(id)?.state;
            return Err(StoreError::Ended { path: self.path.clone(), id, state });
        }
        Ok(())
    }

    /// Refuses files of other programs and of newer versions, before anything is changed in them.
    fn check_version(&self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let (found, known) = (self.pragma("user_version")?, table::MIGRATIONS.len() as i64);
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
        if self.pragma("user_version")? == table::MIGRATIONS.len() as i64 {
            return Ok(());
        }
        let error = |e| StoreError::from_sqlite(&self.path, self.busy_timeout, e);
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(error)?;
        // Read again under the lock: another process may have been faster.
        let from: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(error)?;
        for step in table::MIGRATIONS.iter().skip(from as usize) {
            change.execute_batch(step).map_err(error)?;
        }
        change.pragma_update(None, "application_id", table::APPLICATION_ID).map_err(error)?;
        change.pragma_update(None, "user_version", table::MIGRATIONS.len() as i64).map_err(error)?;
        change.commit().map_err(error)
    }

    fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        self.db.pragma_query_value(None, name, |row| row.get(0)).map_err(|e| self.error(e))
    }

    fn insert<R: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        table: &Table,
        record: &R,
    ) -> Result<i64, StoreError> {
        table.insert(&self.db, record).map_err(|e| self.row_error(table, e))
    }

    fn select<R: serde::de::DeserializeOwned>(
        &self,
        table: &Table,
        parent: Option<i64>,
    ) -> Result<Vec<R>, StoreError> {
        let mut records = Vec::new();
        for row in table.select(&self.db, parent).map_err(|e| self.error(e))? {
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

impl Store for SqliteStore {
    fn folder(&self) -> Option<&Path> {
        Some(self.path.parent().unwrap_or(Path::new(".")))
    }

    fn begin_run(&self, run: &Run) -> Result<i64, StoreError> {
        self.insert(&RUNS, run)
    }

    fn add_point(&self, point: &Point) -> Result<i64, StoreError> {
        self.insert(&POINTS, point)
    }

    fn append_trial(&self, trial: &Trial) -> Result<i64, StoreError> {
        self.insert(&TRIALS, trial)
    }

    fn finish_point(&self, id: i64, result: &PointResult) -> Result<(), StoreError> {
        let unstorable = |source| StoreError::Unstorable { table: POINTS.name, source };
        let json = serde_json::to_string(result).map_err(unstorable)?;
        serde_json::from_str::<PointResult>(&json).map_err(unstorable)?;
        match self.db.execute(table::FINISH_POINT, (id, json)).map_err(|e| self.error(e))? {
            0 => Err(StoreError::PointDone { path: self.path.clone(), id }),
            _ => Ok(()),
        }
    }

    fn finish_run(&self, id: i64, state: RunState, finished: &str) -> Result<(), StoreError> {
        self.end_run(id, state, Some(finished))
    }

    fn fail_run(&self, run: &Run, finished: &str) -> Result<(), StoreError> {
        let rest = RUNS.rest(run).map_err(|e| self.row_error(&RUNS, e))?;
        self.db.execute(table::NOTE_FAILURE, (run.id, rest)).map_err(|e| self.error(e))?;
        self.finish_run(run.id, RunState::Failed, finished)
    }

    fn reopen_run(&self, run: &Run) -> Result<(), StoreError> {
        let rest = RUNS.rest(run).map_err(|e| self.row_error(&RUNS, e))?;
        match self.db.execute(table::REOPEN_RUN, (run.id, rest)).map_err(|e| self.error(e))? {
            0 => {
                Err(StoreError::Ended { path: self.path.clone(), id: run.id, state: self.run(run.id)?.state })
            }
            _ => Ok(()),
        }
    }

    fn mark_interrupted(&self, id: i64) -> Result<(), StoreError> {
        self.end_run(id, RunState::Interrupted, None)
    }

    fn damaged(&self) -> Vec<String> {
        self.damaged.take().into_iter().collect()
    }

    fn runs(&self) -> Result<Vec<Run>, StoreError> {
        self.select(&RUNS, None)
    }

    fn run(&self, id: i64) -> Result<Run, StoreError> {
        let found = RUNS.select(&self.db, Some(id)).map_err(|e| self.error(e))?.pop();
        let found = found.ok_or_else(|| StoreError::NoRun { path: self.path.clone(), id })?;
        found.map_err(|unreadable| self.unreadable(&RUNS, unreadable))
    }

    fn last_run_id(&self) -> Result<Option<i64>, StoreError> {
        self.db.query_row(table::LAST_RUN, (), |row| row.get(0)).map_err(|e| self.error(e))
    }

    fn points(&self, run_id: i64) -> Result<Vec<Point>, StoreError> {
        self.select(&POINTS, Some(run_id))
    }

    fn trials(&self, point_id: i64) -> Result<Vec<Trial>, StoreError> {
        self.select(&TRIALS, Some(point_id))
    }
}

#[cfg(test)]
mod tests;
