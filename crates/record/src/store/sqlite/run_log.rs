//! What a run writes while it measures: always a local file, so that no trial waits for a network or fails with it.
//!
//! ```text
//! begin > add_point > append_trial .. > finish_point .. > finish_run | fail_run | mark_interrupted > reopen_run
//! ```
//! Append-only: nothing else changes. A process that dies leaves its run `running`: everything up to its last trial is there, and
//! [`RunLog::mark_interrupted`] closes the run.

use std::path::{Path, PathBuf};

use rusqlite::Params;

use super::table::{self, POINTS, RUNS, TRIALS, of_point, of_run};
use super::{SqliteArchive, file};
use crate::record::{Point, PointKey, PointResult, Run, RunId, RunState, Trial};
use crate::run_data::name;
use crate::store::{Archive, StoreError};

/// The file that runs on this machine write. Several processes may write to the same file.
#[derive(Debug)]
pub struct RunLog {
    file: SqliteArchive,
    folder: Option<PathBuf>,
}

impl RunLog {
    /// Opens the file, and creates it and its directory where missing.
    ///
    /// # Errors
    /// A file that is no file of records, is of a newer version, or cannot be written.
    pub fn open(path: &Path) -> Result<RunLog, StoreError> {
        let folder = path.parent().unwrap_or(Path::new(".")).to_path_buf();
        Ok(RunLog { file: SqliteArchive::open(path)?, folder: Some(folder) })
    }

    /// Opens a file that is there: a mistyped name makes no file.
    ///
    /// # Errors
    /// [`StoreError::NoFile`] without it, otherwise as [`RunLog::open`].
    pub fn open_existing(path: &Path) -> Result<RunLog, StoreError> {
        file::absolute(path)?;
        match path.try_exists() {
            Ok(false) => Err(StoreError::NoFile(path.to_path_buf())),
            _ => RunLog::open(path),
        }
    }

    /// A log in memory, for tests of what runs: it is gone with the process.
    #[cfg(any(test, feature = "fixture"))]
    pub fn in_memory() -> RunLog {
        let file = SqliteArchive::empty(Path::new("memory")).expect("there is memory");
        RunLog { file, folder: None }
    }

    /// What was written, to read it.
    pub fn archive(&self) -> &dyn Archive {
        &self.file
    }

    /// The folder for files that belong to records; `None`: none are kept.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Stores a run that begins now and returns its number in the file; `run.id` is ignored.
    pub fn begin(&self, run: &Run) -> Result<i64, StoreError> {
        self.file.insert(&RUNS, &[], run)
    }

    /// Stores a point and returns its number in the file; `point.id` and `point.run_id` are ignored.
    pub fn add_point(&self, run: RunId, point: &Point) -> Result<i64, StoreError> {
        self.file.insert(&POINTS, &of_run(run), point)
    }

    /// Stores a finished trial and returns its number in the file; `trial.id` and `trial.point_id` are ignored.
    pub fn append_trial(&self, point: PointKey, trial: &Trial) -> Result<i64, StoreError> {
        self.file.insert(&TRIALS, &of_point(point), trial)
    }

    /// Stores the result of a point, once.
    pub fn finish_point(&self, point: PointKey, result: &PointResult) -> Result<(), StoreError> {
        let unstorable = |source| StoreError::Unstorable { table: POINTS.name, source };
        let json = serde_json::to_string(result).map_err(unstorable)?;
        serde_json::from_str::<PointResult>(&json).map_err(unstorable)?;
        let place = (point.run.to_string(), point.index as i64, json);
        match self.file.db.execute(table::FINISH_POINT, place).map_err(|e| self.file.error(e))? {
            0 => Err(StoreError::PointDone { path: self.file.path.clone(), point }),
            _ => Ok(()),
        }
    }

    /// Ends a run: `state` says how, `finished` when (UTC, RFC 3339).
    pub fn finish_run(&self, run: RunId, state: RunState, finished: &str) -> Result<(), StoreError> {
        self.change(run, table::END_RUN, (run.to_string(), name(&state), finished))
    }

    /// The same for a run that has failed, with the reason in `run`.
    pub fn fail_run(&self, run: &Run, finished: &str) -> Result<(), StoreError> {
        let rest = RUNS.rest(run).map_err(|e| self.file.row_error(&RUNS, e))?;
        self.change(run.uuid, table::FAIL_RUN, (run.uuid.to_string(), finished, rest))
    }

    /// Lets a run that was interrupted or has failed go on, with the process and the times of `run`.
    pub fn reopen_run(&self, run: &Run) -> Result<(), StoreError> {
        let rest = RUNS.rest(run).map_err(|e| self.file.row_error(&RUNS, e))?;
        self.change(run.uuid, table::REOPEN_RUN, (run.uuid.to_string(), rest))
    }

    /// Closes a run whose process died; its end is not known.
    pub fn mark_interrupted(&self, run: RunId) -> Result<(), StoreError> {
        self.change(run, table::END_RUN, (run.to_string(), name(&RunState::Interrupted), None::<String>))
    }

    /// Changes a run, if it is in a state that allows it.
    fn change(&self, run: RunId, sql: &str, values: impl Params) -> Result<(), StoreError> {
        match self.file.db.execute(sql, values).map_err(|e| self.file.error(e))? {
            0 => {
                let Run { id, state, .. } = self.file.run(run)?;
                Err(StoreError::Ended { path: self.file.path.clone(), id, state })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
