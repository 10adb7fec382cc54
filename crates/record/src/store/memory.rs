//! Records in memory, for tests of what runs and reads: they are gone with the store.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Store, StoreError};
use crate::record::{Point, PointResult, Run, RunState, Trial};

/// Records that no file holds. The number of a record is its place, from 1.
#[derive(Debug, Default)]
pub struct MemoryStore {
    runs: RefCell<Vec<Run>>,
    points: RefCell<Vec<Point>>,
    trials: RefCell<Vec<Trial>>,
}

impl MemoryStore {
    /// Changes a run that is in one of these states.
    fn change_run(
        &self,
        id: i64,
        states: &[RunState],
        change: impl FnOnce(&mut Run),
    ) -> Result<(), StoreError> {
        let state = self.run(id)?.state;
        if !states.contains(&state) {
            return Err(StoreError::Ended { path: path(), id, state });
        }
        change(&mut self.runs.borrow_mut()[place(id)]);
        Ok(())
    }
}

impl Store for MemoryStore {
    fn folder(&self) -> Option<&Path> {
        None
    }

    fn begin_run(&self, run: &Run) -> Result<i64, StoreError> {
        let mut runs = self.runs.borrow_mut();
        let id = runs.len() as i64 + 1;
        runs.push(Run { id, ..stored("runs", run)? });
        Ok(id)
    }

    fn add_point(&self, point: &Point) -> Result<i64, StoreError> {
        let mut points = self.points.borrow_mut();
        let is_there = points.iter().any(|p| (p.run_id, p.index) == (point.run_id, point.index));
        check_place("points", is_there, self.runs.borrow().get(place(point.run_id)).is_some())?;
        let id = points.len() as i64 + 1;
        points.push(Point { id, ..stored("points", point)? });
        Ok(id)
    }

    fn append_trial(&self, trial: &Trial) -> Result<i64, StoreError> {
        let mut trials = self.trials.borrow_mut();
        let is_there = trials.iter().any(|t| (t.point_id, t.index) == (trial.point_id, trial.index));
        check_place("trials", is_there, self.points.borrow().get(place(trial.point_id)).is_some())?;
        let id = trials.len() as i64 + 1;
        trials.push(Trial { id, ..stored("trials", trial)? });
        Ok(id)
    }

    fn finish_point(&self, id: i64, result: &PointResult) -> Result<(), StoreError> {
        match self.points.borrow_mut().get_mut(place(id)) {
            Some(point) if point.result.is_none() => {
                point.result = Some(stored("points", result)?);
                Ok(())
            }
            _ => Err(StoreError::PointDone { path: path(), id }),
        }
    }

    fn finish_run(&self, id: i64, state: RunState, finished: &str) -> Result<(), StoreError> {
        self.change_run(id, &[RunState::Running], |run| {
            (run.state, run.finished) = (state, Some(finished.into()))
        })
    }

    fn fail_run(&self, run: &Run, finished: &str) -> Result<(), StoreError> {
        let failed = Run { state: RunState::Failed, finished: Some(finished.into()), ..stored("runs", run)? };
        self.change_run(run.id, &[RunState::Running], |run| *run = failed)
    }

    fn reopen_run(&self, run: &Run) -> Result<(), StoreError> {
        let running = Run { state: RunState::Running, finished: None, ..stored("runs", run)? };
        self.change_run(run.id, &[RunState::Interrupted, RunState::Failed], |run| *run = running)
    }

    fn mark_interrupted(&self, id: i64) -> Result<(), StoreError> {
        self.change_run(id, &[RunState::Running], |run| run.state = RunState::Interrupted)
    }

    fn damaged(&self) -> Vec<String> {
        Vec::new()
    }

    fn runs(&self) -> Result<Vec<Run>, StoreError> {
        Ok(self.runs.borrow().clone())
    }

    fn run(&self, id: i64) -> Result<Run, StoreError> {
        self.runs.borrow().get(place(id)).cloned().ok_or_else(|| StoreError::NoRun { path: path(), id })
    }

    fn last_run_id(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.runs.borrow().last().map(|run| run.id))
    }

    fn points(&self, run_id: i64) -> Result<Vec<Point>, StoreError> {
        Ok(self.points.borrow().iter().filter(|point| point.run_id == run_id).cloned().collect())
    }

    fn trials(&self, point_id: i64) -> Result<Vec<Trial>, StoreError> {
        Ok(self.trials.borrow().iter().filter(|trial| trial.point_id == point_id).cloned().collect())
    }
}

/// What messages name in the place of a file.
fn path() -> PathBuf {
    "memory".into()
}

fn place(id: i64) -> usize {
    usize::try_from(id).unwrap_or(0).wrapping_sub(1)
}

fn check_place(table: &'static str, is_there: bool, has_parent: bool) -> Result<(), StoreError> {
    let why = match (is_there, has_parent) {
        (true, _) => "it is there already",
        (_, false) => "what it belongs to is missing",
        _ => return Ok(()),
    };
    Err(StoreError::Misplaced { path: path(), table, why: why.into() })
}

/// The record as it is read back.
fn stored<R: Serialize + DeserializeOwned>(table: &'static str, record: &R) -> Result<R, StoreError> {
    serde_json::to_value(record)
        .and_then(serde_json::from_value)
        .map_err(|source| StoreError::Unstorable { table, source })
}
