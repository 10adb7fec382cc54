//! `[search]`: which search a plan asks for, with all parameters, and how long it can take at most.

use std::time::Duration;

use weir_measure::search::mlr::Goal;

/// The search of a plan. Rates are frames/s, all directions together.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchSpec {
    /// Multiple Loss Ratio search (draft-ietf-bmwg-mlrsearch).
    Mlrsearch(MlrSpec),
    /// Throughput by bisection (RFC 2544, section 26.1).
    Rfc2544(Rfc2544Spec),
    /// Halving and doubling with repeated trials, of which the worst are discarded.
    Classic(ClassicSpec),
    /// No search: one trial per load.
    Fixed(FixedSpec),
    /// No search: the rounds of `[capacity]` are all.
    None,
}

/// Which lost frames count in a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchLoss {
    /// All that the tester did not lose itself, as the RFCs want it.
    #[default]
    All,
    /// Those that were lost while tester and device ran, as far as a witness saw when they did not.
    Running,
    /// Both: the first search counts all, and a second one with the same trials, and more where the two part, those while tester and
    /// device ran.
    Both,
}

impl SearchLoss {
    /// With the names in plans.
    pub(super) const ALL: [(SearchLoss, &str); 3] =
        [(SearchLoss::All, "all"), (SearchLoss::Running, "running"), (SearchLoss::Both, "both")];

    /// Searches at a point.
    pub(in crate::throughput) fn searches(self) -> u32 {
        if self == SearchLoss::Both { 2 } else { 1 }
    }
}

/// Where a search looks and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadRange {
    /// Lowest load in frames/s, above 0.
    pub min_fps: f64,
    /// Highest load in frames/s, above `min_fps`; `None`: the ceiling of the wire as measured.
    pub max_fps: Option<f64>,
    /// The search ends after this much trial time, found or not.
    pub time_limit: Option<Duration>,
}

/// Parameters of a search with [`SearchSpec::Mlrsearch`].
#[derive(Debug, Clone, PartialEq)]
pub struct MlrSpec {
    /// Where it looks; the time limit is always set.
    pub range: LoadRange,
    /// At least one.
    pub goals: Vec<Goal>,
    /// The search goes on until each rate lies in a 95 % interval, or its time is up.
    pub interval: bool,
}

/// Parameters of a search with [`SearchSpec::Rfc2544`].
#[derive(Debug, Clone, PartialEq)]
pub struct Rfc2544Spec {
    /// Where it looks.
    pub range: LoadRange,
    /// Length of a trial; the RFC wants 60 s.
    pub trial: Duration,
    /// The search ends when the bounds are this close, relative to the upper one.
    pub resolution: f64,
    /// Loss that still counts as none; the RFC wants 0.
    pub loss_ratio: f64,
}

/// Parameters of a search with [`SearchSpec::Classic`].
#[derive(Debug, Clone, PartialEq)]
pub struct ClassicSpec {
    /// Where it looks.
    pub range: LoadRange,
    /// Length of a trial.
    pub trial: Duration,
    /// Trials at each load.
    pub trials: u32,
    /// Trials with the highest loss that are left out, below `trials`.
    pub discard: u32,
    /// Highest mean loss of the others at which a load is accepted, 0..1.
    pub mean_loss: f64,
    /// At least half of the others must not lose more than this, 0..1.
    pub half_loss: f64,
    /// The search ends when the bounds are this close, relative to the upper one.
    pub resolution: f64,
}

/// Parameters of [`SearchSpec::Fixed`].
#[derive(Debug, Clone, PartialEq)]
pub struct FixedSpec {
    /// Loads in frames/s, in the order of the plan, at least one.
    pub loads_fps: Vec<f64>,
    /// Length of a trial.
    pub trial: Duration,
}

/// The first load of a point that is not searched, frames/s.
const WARM_UP_FPS: f64 = 5000.0;
/// The ceiling that an estimate assumes before the wire is measured, frames/s.
const ASSUMED_CEILING_FPS: f64 = 20e6;

impl SearchSpec {
    /// The name in plans and records.
    pub fn name(&self) -> &'static str {
        match self {
            SearchSpec::Mlrsearch(_) => "mlrsearch",
            SearchSpec::Rfc2544(_) => "rfc2544",
            SearchSpec::Classic(_) => "classic",
            SearchSpec::Fixed(_) => "fixed",
            SearchSpec::None => "rounds",
        }
    }

    /// Lowest load that is offered, frames/s.
    pub fn min_fps(&self) -> f64 {
        match self {
            SearchSpec::Mlrsearch(spec) => spec.range.min_fps,
            SearchSpec::Rfc2544(spec) => spec.range.min_fps,
            SearchSpec::Classic(spec) => spec.range.min_fps,
            SearchSpec::Fixed(spec) => spec.loads_fps.iter().copied().fold(f64::INFINITY, f64::min),
            SearchSpec::None => WARM_UP_FPS,
        }
    }

    /// Upper bound of the trial time of one search, repeated noisy trials not counted. Without a `max_fps`
    /// a ceiling of 20 M frames/s is assumed.
    pub fn estimate(&self) -> Duration {
        match self {
            SearchSpec::Mlrsearch(spec) => spec.range.capped(Duration::MAX),
            SearchSpec::Rfc2544(spec) => {
                // First the maximum, then bisection, which takes longest when the result is the minimum.
                let loads = 1 + (spec.range.ratio() / spec.resolution).log2().ceil() as u32;
                spec.range.capped(spec.trial * loads)
            }
            SearchSpec::Classic(spec) => {
                let halvings = 1 + spec.range.ratio().log2().ceil() as u32;
                let loads = halvings + (1.0 / spec.resolution).log2().ceil() as u32;
                spec.range.capped(spec.trial * spec.trials * loads)
            }
            SearchSpec::Fixed(spec) => spec.trial * spec.loads_fps.len() as u32,
            SearchSpec::None => Duration::ZERO,
        }
    }
}

impl LoadRange {
    fn ratio(&self) -> f64 {
        (self.max_fps.unwrap_or(ASSUMED_CEILING_FPS) / self.min_fps).max(2.0)
    }

    fn capped(&self, time: Duration) -> Duration {
        self.time_limit.map_or(time, |limit| limit.min(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(time_limit_s: Option<u64>) -> LoadRange {
        LoadRange { min_fps: 1e3, max_fps: Some(1.024e6), time_limit: time_limit_s.map(Duration::from_secs) }
    }

    #[test]
    fn estimates_are_upper_bounds() {
        let seconds = Duration::from_secs;
        let classic = ClassicSpec {
            range: range(None),
            trial: seconds(120),
            trials: 10,
            discard: 3,
            mean_loss: 0.0015,
            half_loss: 0.001,
            resolution: 0.01,
        };
        // 1024 is 2^10: the maximum, 10 halvings, then 7 bisections to 1 %.
        assert_eq!(SearchSpec::Classic(classic).estimate(), seconds(18 * 1200));
        let mut spec =
            Rfc2544Spec { range: range(None), trial: seconds(60), resolution: 0.01, loss_ratio: 0.0 };
        assert_eq!(SearchSpec::Rfc2544(spec.clone()).estimate(), seconds(18 * 60));
        spec.range = range(Some(300));
        assert_eq!(SearchSpec::Rfc2544(spec).estimate(), seconds(300));
        let fixed = FixedSpec { loads_fps: vec![1e3, 1e6], trial: seconds(2) };
        assert_eq!(SearchSpec::Fixed(fixed).estimate(), seconds(4));
    }
}
