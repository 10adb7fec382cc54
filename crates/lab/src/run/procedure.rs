//! From what a plan asks for to a search, and how far that is from the procedure which the plan cites.

use std::time::Duration;

use crate::plan::{Experiment, LoadRange, Plan, SearchSpec};
use crate::search::{Search, classic, mlr, rfc2544};

/// Without a limit in the plan, a search ends after this much trial time.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The search of a plan; `ceiling_fps` is the highest load where the plan names none.
///
/// # Panics
/// For [`SearchSpec::Fixed`], which is no search.
pub(super) fn search(spec: &SearchSpec, ceiling_fps: f64) -> Search {
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
        SearchSpec::Fixed(_) => panic!("fixed loads are not searched"),
    }
}

fn resolution(relative: f64) -> rfc2544::Resolution {
    rfc2544::Resolution { relative, absolute_fps: 0.0 }
}

/// Where a plan departs from the procedure that it uses, one sentence each.
pub(super) fn deviations(plan: &Plan) -> Vec<String> {
    let Experiment::Throughput(experiment) = &plan.experiment else { return Vec::new() };
    let mut list = vec![
        "Trial phases: frames are waited for until nothing has arrived for 10 to 20 ms, not 2 s; there is no \
         pause of 5 s between trials, and no routing update or learning frame, because routes and neighbours \
         are static (RFC 2544, section 23)."
            .to_string(),
        "The wires are veth pairs: there is no line rate, a receive queue holds 256 frames, and frames have no \
         preamble, gap or FCS; sizes are given as if they had."
            .to_string(),
    ];
    list.extend(search_deviations(&experiment.search));
    list
}

fn search_deviations(search: &SearchSpec) -> Vec<String> {
    let seconds = |d: Duration| format!("{} s", d.as_secs_f64());
    match search {
        SearchSpec::Mlrsearch(spec) => spec
            .goals
            .iter()
            .filter(|g| g.final_trial < Duration::from_secs(1) || g.duration_sum < Duration::from_secs(21))
            .map(|g| {
                format!(
                    "Goal {}: trials of {} and a duration sum of {}, where FD.io CSIT uses 1 s and 21 s.",
                    g.name,
                    seconds(g.final_trial),
                    seconds(g.duration_sum)
                )
            })
            .collect(),
        SearchSpec::Rfc2544(spec) => {
            let mut list = Vec::new();
            if spec.trial < Duration::from_secs(60) {
                list.push(format!(
                    "Trials of {}, where RFC 2544 section 24 wants 60 s.",
                    seconds(spec.trial)
                ));
            }
            if spec.loss_ratio > 0.0 {
                let percent = spec.loss_ratio * 100.0;
                list.push(format!("A loss of {percent} % passes; RFC 2544 section 26.1 allows none."));
            }
            list
        }
        SearchSpec::Classic(spec) => {
            let published = classic::Config::published(1.0, 2.0);
            let mut list = Vec::new();
            let mut differs = |what: &str, here: String, there: String| {
                if here != there {
                    list.push(format!("{what}: {here}, where the published procedure has {there}."));
                }
            };
            differs("Trial", seconds(spec.trial), seconds(published.trial));
            differs("Trials at each load", spec.trials.to_string(), published.trials.to_string());
            differs("Worst trials discarded", spec.discard.to_string(), published.discarded.to_string());
            differs("Mean loss", spec.mean_loss.to_string(), published.mean_loss.to_string());
            differs(
                "Loss of half of the trials",
                spec.half_loss.to_string(),
                published.typical_loss.to_string(),
            );
            list
        }
        SearchSpec::Fixed(_) => Vec::new(),
    }
}
