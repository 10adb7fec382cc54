//! What was measured, to read it: the runs of one machine or of many.

use super::StoreError;
use crate::record::{Point, PointKey, Run, RunId, RunSummary, Trial};
use crate::run_data::{PointData, RunData};

/// Where reports find records. Numbers of records are given by the archive, in the order in which they came to it. A record that
/// cannot be read hides nothing but itself, see [`Archive::damaged`].
pub trait Archive {
    /// Records that could not be read since this was last asked, in words, each with what it is.
    fn damaged(&self) -> Vec<String>;

    /// All runs, oldest first.
    fn runs(&self) -> Result<Vec<Run>, StoreError>;

    /// All runs, oldest first, without what only a single run needs.
    fn list(&self) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.runs()?.into_iter().map(RunSummary::from).collect())
    }

    /// All runs of a plan, oldest first, each with its points.
    fn of_plan(&self, plan: &str) -> Result<Vec<(Run, Vec<Point>)>, StoreError> {
        let runs = self.runs()?.into_iter().filter(|run| run.plan == plan);
        runs.map(|run| self.points(run.uuid).map(|points| (run, points))).collect()
    }

    /// The run with this number.
    fn numbered(&self, number: i64) -> Result<RunId, StoreError>;

    /// The newest run; `None` in an empty archive.
    fn newest(&self) -> Result<Option<RunId>, StoreError>;

    /// One run.
    fn run(&self, run: RunId) -> Result<Run, StoreError>;

    /// The points of a run, in order.
    fn points(&self, run: RunId) -> Result<Vec<Point>, StoreError>;

    /// The trials of a point, in order.
    fn trials(&self, point: PointKey) -> Result<Vec<Trial>, StoreError>;

    /// Adds a run that was measured elsewhere, all of it or nothing, and returns its number; the numbers in `data` are ignored.
    fn put(&self, data: &RunData) -> Result<i64, StoreError>;

    /// A run with all its points and trials, in which capacities that are bounds are marked.
    fn run_data(&self, id: RunId) -> Result<RunData, StoreError> {
        let run = self.run(id)?;
        let points = self.points(id)?.into_iter().map(|point| {
            let trials = self.trials(point.key(id))?;
            Ok(PointData { point, trials })
        });
        let mut data = RunData { run, points: points.collect::<Result<_, StoreError>>()? };
        data.mark_bounds();
        Ok(data)
    }
}

#[cfg(any(test, feature = "fixture"))]
#[path = "archive/contract.rs"]
pub mod contract;
