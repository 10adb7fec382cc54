//! Results from before an interruption: a resumed run uses them and measures the rest.
//!
//! A search follows from its trials alone. Given the trials of its first part again, in their order, it comes to
//! where it was, and asks for the first one that is missing.

use std::collections::VecDeque;

use weir_load::counts::Load;

use crate::error::RunError;
use crate::machine;
use weir_record::record::{Point, Purpose, Run, RunId, RunState, Tester, Trial};
use weir_record::run_data::{PointData, RunData};
use weir_record::store::RunLog;

/// Points and trials that were kept; none in a new run.
#[derive(Debug)]
pub struct KeptTrials {
    run: RunId,
    points: Vec<PointData>,
}

impl KeptTrials {
    /// Those of a new run.
    pub(crate) fn none(run: RunId) -> KeptTrials {
        KeptTrials { run, points: Vec::new() }
    }

    /// The past of a run that goes on with this generator, if it has one.
    ///
    /// # Errors
    /// [`RunError::Resume`] if what is measured now could not stand beside what was measured then.
    pub(crate) fn of(data: RunData, generator: &str) -> Result<(Run, KeptTrials), RunError> {
        let run = data.run;
        obstacle(&run, generator).map_or(Ok(()), |why| Err(RunError::Resume { id: run.id, why }))?;
        let kept = KeptTrials { run: run.uuid, points: data.points };
        Ok((run, kept))
    }

    /// The point of this number with its result, if it was finished.
    pub fn finished(&self, index: usize) -> Option<&PointData> {
        self.points.iter().find(|data| data.point.index == index && data.point.result.is_some())
    }

    /// All points that an earlier part of this run has begun.
    pub fn points(&self) -> impl Iterator<Item = &PointData> {
        self.points.iter()
    }

    /// Gives `point` its number in the log, where it is put if it is new, and returns its trials so far.
    pub fn enter(&self, point: &mut Point, log: &RunLog) -> Result<VecDeque<Trial>, RunError> {
        let Some(data) = self.points.iter().find(|data| data.point.index == point.index) else {
            point.id = log.add_point(self.run, point)?;
            return Ok(VecDeque::new());
        };
        if data.point.settings != point.settings {
            let why = format!("its point {} had other settings: start a new run", point.index);
            return Err(RunError::Resume { id: point.run_id, why });
        }
        point.id = data.point.id;
        Ok(data.trials.iter().cloned().collect())
    }
}

/// Why a run cannot go on here and now.
fn obstacle(run: &Run, own_generator: &str) -> Option<String> {
    let (now, then) = (machine::gather(), &run.machine);
    let differs = |what: &str, then: &str, now: &str| {
        (then != now).then(|| {
            format!(
                "it was measured with {what} {then}, and this is {now}: start a new run, and compare the runs"
            )
        })
    };
    match run.state {
        RunState::Complete => Some("it is complete: start a new one with `weir run`".into()),
        RunState::Running => Some("it is still running: wait until it has ended".into()),
        RunState::Interrupted | RunState::Failed => differs("weir", &run.version, env!("CARGO_PKG_VERSION"))
            .or_else(|| differs("the processor", &then.cpu, &now.cpu))
            .or_else(|| differs("the kernel", &then.kernel, &now.kernel))
            .or_else(|| match &run.tester {
                // Without frames there is no tester.
                Tester { generator, receiver, cpus, .. } if generator == receiver && cpus.is_empty() => None,
                tester => differs("the tester", &tester.generator, own_generator),
            }),
    }
}

/// Is this kept trial what is asked for? A burst has a number of frames in each direction, and takes as long as it
/// takes.
pub(super) fn is_same(trial: &Trial, load: &Load, purpose: Purpose) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    let as_long = match load.max_frames {
        Some(frames) => [frames, 2 * frames].contains(&trial.counts().offered),
        None => close(trial.duration_s, load.duration.as_secs_f64()),
    };
    let (same, parameters) = (trial.purpose == purpose, crate::frames::load_parameters(load));
    same && as_long
        && trial.load == parameters
        && load.fps.is_none_or(|fps| close(trial.counts().offered_fps, fps))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use weir_record::fixture;

    #[test]
    fn a_trial_is_the_same_if_it_asks_for_the_same() {
        let data = fixture::quick();
        let trial =
            data.points.iter().flat_map(|p| &p.trials).find(|t| t.purpose == Purpose::Search).unwrap();
        let load = |fps, duration_s| Load { fps, ..Load::full_speed(Duration::from_secs_f64(duration_s)) };
        let (fps, s) = (trial.counts().offered_fps, trial.duration_s);
        for (load, purpose, same) in [
            (load(Some(fps), s), Purpose::Search, true),
            (load(None, s), Purpose::Search, true),
            (load(Some(fps * 1.001), s), Purpose::Search, false),
            (load(Some(fps), s * 2.0), Purpose::Search, false),
            (load(Some(fps), s), Purpose::Curve, false),
            (Load { max_frames: Some(100), ..load(Some(fps), s) }, Purpose::Search, false),
        ] {
            assert_eq!(is_same(trial, &load, purpose), same, "{load:?} {purpose:?}");
        }
        let burst = |frames| Load { max_frames: Some(frames), ..Load::full_speed(Duration::from_secs(9)) };
        assert!(is_same(trial, &burst(trial.counts().offered), Purpose::Search));
        assert!(!is_same(trial, &burst(trial.counts().offered + 1), Purpose::Search));
    }
}
