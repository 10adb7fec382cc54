//! The store of records: append-only, each trial as it ends.
//!
//! A run is begun, gets points, points get trials and one result, and the run is ended; one that was cut short can
//! be reopened. Nothing else changes. A process that dies leaves its run `running`: everything up to its last trial is there, and
//! [`Store::mark_interrupted`] closes the run. A record that cannot be read hides nothing but itself, see [`Store::damaged`].

mod error;
#[cfg(any(test, feature = "fixture"))]
mod memory;
mod sqlite;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::record::{Point, PointResult, Run, RunState, Trial};
use crate::run_data::{PointData, RunData};
pub use error::StoreError;
#[cfg(any(test, feature = "fixture"))]
pub use memory::MemoryStore;
pub use sqlite::SqliteStore;

/// Where runs leave their records, and where reports find them. Numbers of records are given by the store.
pub trait Store {
    /// The folder for files that belong to records; `None`: none are kept.
    fn folder(&self) -> Option<&Path>;

    /// Stores a run that begins now and returns its number; `run.id` is ignored.
    fn begin_run(&self, run: &Run) -> Result<i64, StoreError>;

    /// Stores a point and returns its number; `point.id` is ignored.
    fn add_point(&self, point: &Point) -> Result<i64, StoreError>;

    /// Stores a finished trial and returns its number; `trial.id` is ignored.
    fn append_trial(&self, trial: &Trial) -> Result<i64, StoreError>;

    /// Stores the result of a point, once.
    fn finish_point(&self, id: i64, result: &PointResult) -> Result<(), StoreError>;

    /// Ends a run: `state` says how, `finished` when (UTC, RFC 3339).
    fn finish_run(&self, id: i64, state: RunState, finished: &str) -> Result<(), StoreError>;

    /// The same for a run that has failed, with the reason in `run`.
    fn fail_run(&self, run: &Run, finished: &str) -> Result<(), StoreError>;

    /// Lets a run that was interrupted or has failed go on, with the process and the times of `run`.
    fn reopen_run(&self, run: &Run) -> Result<(), StoreError>;

    /// Closes a run whose process died; its end is not known.
    fn mark_interrupted(&self, id: i64) -> Result<(), StoreError>;

    /// Records that could not be read since this was last asked, in words, each with what it is.
    fn damaged(&self) -> Vec<String>;

    /// All runs, oldest first.
    fn runs(&self) -> Result<Vec<Run>, StoreError>;

    /// One run.
    fn run(&self, id: i64) -> Result<Run, StoreError>;

    /// Number of the newest run; `None` in an empty store.
    fn last_run_id(&self) -> Result<Option<i64>, StoreError>;

    /// The points of a run, in order.
    fn points(&self, run_id: i64) -> Result<Vec<Point>, StoreError>;

    /// The trials of a point, in order.
    fn trials(&self, point_id: i64) -> Result<Vec<Trial>, StoreError>;

    /// A run with all its points and trials, in which capacities that are bounds are marked.
    fn run_data(&self, id: i64) -> Result<RunData, StoreError> {
        let run = self.run(id)?;
        let points = self.points(id)?.into_iter().map(|point| {
            let trials = self.trials(point.id)?;
            Ok(PointData { point, trials })
        });
        let mut data = RunData { run, points: points.collect::<Result<_, StoreError>>()? };
        data.mark_bounds();
        Ok(data)
    }
}

/// Where records are kept unless the user names a file: `$XDG_DATA_HOME/weir/records.db`, else
/// `~/.local/share/weir/records.db`. Relative paths are ignored, as the XDG base directory specification asks.
pub fn default_path(xdg_data_home: Option<&OsStr>, home: Option<&OsStr>) -> Result<PathBuf, StoreError> {
    let absolute = |dir: Option<&OsStr>| dir.map(PathBuf::from).filter(|dir| dir.is_absolute());
    absolute(xdg_data_home)
        .or_else(|| absolute(home).map(|home| home.join(".local/share")))
        .map(|data| data.join("weir/records.db"))
        .ok_or(StoreError::NoHome)
}

#[cfg(test)]
mod tests;
