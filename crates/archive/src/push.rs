//! Runs of a run log that are copied to an archive, each in one transaction and once.

use std::fmt;

use weir_record::record::{Run, RunId, RunState};
use weir_record::run_data::{PointData, RunData};
use weir_record::store::{Archive, StoreError};

use crate::archive::{PostgresArchive, Stored};

/// Runs whose states are asked for at once.
const AT_ONCE: usize = 5000;

/// Which runs of the run log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All that have ended.
    All,
    /// The one that began last.
    Last,
    /// Those with these numbers.
    Numbered(Vec<i64>),
}

/// What became of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Not there before.
    pub new: usize,
    /// Only a part was there before: they have gone on since then.
    pub continued: usize,
    /// There before.
    pub present: usize,
    /// Not ended yet.
    pub running: usize,
    /// Not pushed, with the reason.
    pub refused: Vec<String>,
}

impl fmt::Display for Pushed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} new", self.new)?;
        let others = [
            (self.continued, "continued"),
            (self.present, "there before"),
            (self.running, "still running"),
            (self.refused.len(), "not pushed"),
        ];
        others.into_iter().filter(|(n, _)| *n > 0).try_for_each(|(n, what)| write!(f, ", {n} {what}"))
    }
}

/// Copies runs. Those before an error stay copied; a second call continues with the others.
///
/// # Errors
/// A run is not in the log; the connection is lost; the server refuses.
pub fn push(log: &dyn Archive, which: &Which, archive: &PostgresArchive) -> Result<Pushed, StoreError> {
    let wanted = match which {
        Which::All => log.list()?.into_iter().map(|run| (run.uuid, run.state)).collect(),
        Which::Last => log.newest()?.map(|run| state(log, run)).transpose()?.into_iter().collect(),
        Which::Numbered(numbers) => {
            let found = numbers.iter().map(|number| state(log, log.numbered(*number)?));
            found.collect::<Result<Vec<_>, StoreError>>()?
        }
    };
    let mut pushed = Pushed::default();
    for some in wanted.chunks(AT_ONCE) {
        let ids: Vec<RunId> = some.iter().map(|(id, _)| *id).collect();
        let there = archive.states(&ids)?;
        for (id, state) in some {
            match (state, there.get(id)) {
                (RunState::Running, _) => pushed.running += 1,
                (_, Some(RunState::Complete)) => pushed.present += 1,
                _ => push_one(log, *id, archive, &mut pushed)?,
            }
        }
    }
    Ok(pushed)
}

fn state(log: &dyn Archive, id: RunId) -> Result<(RunId, RunState), StoreError> {
    log.run(id).map(|run: Run| (id, run.state))
}

fn push_one(
    log: &dyn Archive,
    id: RunId,
    archive: &PostgresArchive,
    pushed: &mut Pushed,
) -> Result<(), StoreError> {
    let data = as_recorded(log, id)?;
    if let Some(damaged) = log.damaged().first() {
        pushed.refused.push(format!("run {} is not pushed: {damaged}", data.run.id));
        return Ok(());
    }
    match archive.store(&data) {
        Ok((Stored::New, _)) => pushed.new += 1,
        Ok((Stored::Grown, _)) => pushed.continued += 1,
        Ok((Stored::Present, _)) => pushed.present += 1,
        Err(error @ (StoreError::Misplaced { .. } | StoreError::Unstorable { .. })) => {
            pushed.refused.push(format!("run {} is not pushed: {error}", data.run.id));
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A run as it is in the log: [`Archive::run_data`] adds what follows from its trials.
fn as_recorded(log: &dyn Archive, id: RunId) -> Result<RunData, StoreError> {
    let with_trials = |point| {
        log.trials(weir_record::record::Point::key(&point, id)).map(|trials| PointData { point, trials })
    };
    let points = log.points(id)?.into_iter().map(with_trials).collect::<Result<_, _>>()?;
    Ok(RunData { run: log.run(id)?, points })
}
