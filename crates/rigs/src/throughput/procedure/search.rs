//! Creates the search that a plan describes.

use std::time::Duration;

use crate::throughput::{LoadRange, SearchSpec};
use weir_measure::search::{Search, classic, mlr, rfc2544};

/// Without a limit in the plan, a search ends after this much trial time.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The search of a plan; `ceiling_fps` is the highest load where the plan names none.
///
/// # Panics
/// For [`SearchSpec::Fixed`], which is no search.
pub(in crate::throughput) fn search(spec: &SearchSpec, ceiling_fps: f64) -> Search {
    let bounds = |range: &LoadRange| {
        let max = range.max_fps.map_or(ceiling_fps, |max| max.min(ceiling_fps));
        (range.min_fps.min(max / 2.0), max)
    };
    match spec {
        SearchSpec::Mlrsearch(spec) => {
            let (min_fps, max_fps) = bounds(&spec.range);
            Search::Mlr(mlr::Config {
                goals: spec.goals.clone(),
                min_fps,
                max_fps,
                warm_up: None,
                time_limit: spec.range.time_limit.unwrap_or(TIME_LIMIT),
                preceding_targets: 2,
                expansion: 2,
                confident: spec.interval,
            })
        }
        SearchSpec::Rfc2544(spec) => {
            let (min_fps, max_fps) = bounds(&spec.range);
            Search::Rfc2544(rfc2544::Config {
                min_fps,
                max_fps,
                final_trial: spec.trial,
                search_trial: None,
                loss_tolerance: spec.loss_ratio,
                resolution: resolution(spec.resolution),
            })
        }
        SearchSpec::Classic(spec) => {
            let (min_fps, max_fps) = bounds(&spec.range);
            Search::Classic(classic::Config {
                trials: spec.trials,
                discarded: spec.discard,
                trial: spec.trial,
                mean_loss: spec.mean_loss,
                typical_loss: spec.half_loss,
                resolution: resolution(spec.resolution),
                ..classic::Config::published(min_fps, max_fps)
            })
        }
        SearchSpec::Fixed(_) | SearchSpec::None => panic!("nothing is searched"),
    }
}

fn resolution(relative: f64) -> rfc2544::Resolution {
    rfc2544::Resolution { relative, absolute_fps: 0.0 }
}
