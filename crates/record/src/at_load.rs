//! Results at the fixed loads of a plan, without a search.

use crate::record::Trial;
use crate::run_data::{PointData, received_fps};

/// The valid trials of a point at one load.
#[derive(Debug)]
pub struct AtLoad<'a> {
    /// What was to be sent, in frames/s.
    pub offered_fps: f64,
    /// At least one.
    pub trials: Vec<&'a Trial>,
}

impl PointData {
    /// Whether its plan names loads, and searches for no rate.
    pub fn is_fixed(&self) -> bool {
        self.point.result.as_ref().is_some_and(|result| result.search == "fixed") && self.goals().is_empty()
    }

    /// The loads that the plan names, the lowest first; none where a rate was searched for.
    pub fn fixed_loads(&self) -> Vec<AtLoad<'_>> {
        let is_fixed = self.goals().is_empty();
        let mut trials: Vec<_> = self.chosen_loads().filter(|_| is_fixed).collect();
        trials.sort_by(|a, b| a.counts().offered_fps.total_cmp(&b.counts().offered_fps));
        let load = |trial: &Trial| trial.counts().offered_fps.round();
        let loads = trials.chunk_by(|a, b| load(a) == load(b));
        loads
            .map(|same| AtLoad { offered_fps: same[0].counts().offered_fps, trials: same.to_vec() })
            .collect()
    }
}

impl AtLoad<'_> {
    /// Frames lost in all trials.
    pub fn lost(&self) -> u64 {
        self.trials.iter().map(|trial| trial.counts().lost).sum()
    }

    /// Frames lost by frames sent, of all trials together; `None` if none was sent.
    pub fn loss_ratio(&self) -> Option<f64> {
        let sent: u64 = self.trials.iter().map(|trial| trial.counts().sent).sum();
        (sent > 0).then(|| self.lost() as f64 / sent as f64)
    }

    /// What each trial received, in frames/s.
    pub fn received_fps(&self) -> Vec<f64> {
        self.trials.iter().map(|trial| received_fps(trial)).collect()
    }

    /// What a frame cost the device in each trial, in reference cycles, where that is known.
    pub fn cycles_per_frame(&self) -> Vec<f64> {
        self.trials.iter().filter_map(|trial| trial.cost.cycles_per_frame).collect()
    }
}
