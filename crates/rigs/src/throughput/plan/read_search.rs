//! Reads `[search]`.

use std::time::Duration;

use super::capacity::CapacitySpec;
use super::search_spec::{ClassicSpec, FixedSpec, LoadRange, MlrSpec, Rfc2544Spec, SearchLoss, SearchSpec};
use weir_config::Section;
use weir_config::value;
use weir_measure::search::mlr::Goal;

#[derive(Clone, Copy)]
enum Kind {
    Mlrsearch,
    Rfc2544,
    Classic,
    Fixed,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Mlrsearch, "mlrsearch"),
    (Kind::Rfc2544, "rfc2544"),
    (Kind::Classic, "classic"),
    (Kind::Fixed, "fixed"),
];

/// Lowest load of a search, frames/s, unless the plan says otherwise.
const DEFAULT_MIN_FPS: f64 = 1000.0;
/// Longest MLRsearch unless the plan says otherwise; FD.io CSIT gives up then, too.
const DEFAULT_MLR_LIMIT: Duration = Duration::from_secs(1200);

/// Reads the search; each kind knows its own options only. It may be left out where the capacity is measured.
pub(super) fn read_search(
    section: Section<'_>,
    capacity: Option<&CapacitySpec>,
) -> Option<(SearchSpec, SearchLoss)> {
    if capacity.is_some() && !section.is_present() {
        return Some((SearchSpec::None, SearchLoss::default()));
    }
    let spec = match section.required("kind", "\"mlrsearch\"", value::choice("search", &KINDS))? {
        Kind::Mlrsearch => read_mlr(&section).map(SearchSpec::Mlrsearch),
        Kind::Rfc2544 => Some(SearchSpec::Rfc2544(read_rfc2544(&section))),
        Kind::Classic => Some(SearchSpec::Classic(read_classic(&section))),
        Kind::Fixed => read_fixed(&section).map(SearchSpec::Fixed),
    };
    // Loads that are not searched are judged by nothing.
    let loss = match spec {
        Some(SearchSpec::Fixed(_)) => None,
        _ => section.one("loss", value::choice("kind of loss", &SearchLoss::ALL)),
    };
    section.finish();
    spec.map(|spec| (spec, loss.unwrap_or_default()))
}

fn read_range(section: &Section<'_>) -> LoadRange {
    let min_fps = section.one("min_fps", value::fps).unwrap_or(DEFAULT_MIN_FPS);
    let max_fps = section.one("max_fps", value::fps);
    if max_fps.is_some_and(|max| max <= min_fps) {
        section.wrong("max_fps", format!("is not above min_fps, {min_fps} frames/s: raise it or omit it"));
    }
    LoadRange { min_fps, max_fps, time_limit: section.one("time_limit_s", value::seconds) }
}

fn read_mlr(section: &Section<'_>) -> Option<MlrSpec> {
    let mut range = read_range(section);
    range.time_limit = range.time_limit.or(Some(DEFAULT_MLR_LIMIT));
    let interval = section.one("interval", value::flag).unwrap_or(false);
    let sections = section.sections("goal");
    if !section.has("goal") {
        section.wrong("goal", "is missing: add [[search.goal]] with a loss_ratio".to_string());
    }
    let mut goals: Vec<Goal> = Vec::new();
    let count = sections.len();
    for goal_section in sections {
        let goal = read_goal(&goal_section);
        if let Some(goal) = &goal {
            check_goal(&goal_section, goal, &goals);
        }
        goal_section.finish();
        goals.extend(goal);
    }
    (count > 0 && goals.len() == count).then_some(MlrSpec { range, goals, interval })
}

/// What is left out is as in FD.io CSIT: trials of 1 s that sum up to 21 s, half of which may exceed.
fn read_goal(section: &Section<'_>) -> Option<Goal> {
    let loss_ratio = section.required("loss_ratio", "\"0.5%\"", value::ratio);
    let name = section.one("name", value::text).or_else(|| loss_ratio.map(Goal::name_of));
    let exceed_ratio = section.one("exceed_ratio", value::ratio).unwrap_or(0.5);
    let final_trial = section.one("final_trial_s", value::seconds).unwrap_or(Duration::from_secs(1));
    let duration_sum = section.one("duration_sum_s", value::seconds).unwrap_or(final_trial * 21);
    let initial_trial = section.one("initial_trial_s", value::seconds).unwrap_or(final_trial);
    let width = section.one("width", value::width).unwrap_or(0.005);
    Some(Goal {
        name: name?,
        loss_ratio: loss_ratio?,
        exceed_ratio,
        final_trial,
        duration_sum,
        initial_trial,
        width,
    })
}

fn check_goal(section: &Section<'_>, goal: &Goal, earlier: &[Goal]) {
    let final_s = goal.final_trial.as_secs_f64();
    if goal.duration_sum < goal.final_trial {
        section.wrong("duration_sum_s", format!("is below final_trial_s: use {final_s} or more"));
    }
    if goal.initial_trial > goal.final_trial {
        section.wrong("initial_trial_s", format!("is above final_trial_s: use {final_s} or less"));
    }
    if earlier.iter().any(|other| other.name == goal.name) {
        section.wrong(
            "name",
            format!("`{}` is the name of an earlier goal: give each goal its own name", goal.name),
        );
    }
}

fn read_rfc2544(section: &Section<'_>) -> Rfc2544Spec {
    Rfc2544Spec {
        range: read_range(section),
        trial: section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(60)),
        resolution: section.one("resolution", value::width).unwrap_or(0.01),
        loss_ratio: section.one("loss_ratio", value::ratio).unwrap_or(0.0),
    }
}

fn read_classic(section: &Section<'_>) -> ClassicSpec {
    let trials = section.one("trials", value::count(1..=1000)).unwrap_or(10);
    let discard = section.one("discard", value::count(0..=999)).unwrap_or(trials * 3 / 10);
    if discard >= trials {
        section.wrong("discard", format!("leaves none of {trials} trials: use {} or less", trials - 1));
    }
    ClassicSpec {
        range: read_range(section),
        trial: section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(120)),
        trials,
        discard,
        mean_loss: section.one("mean_loss", value::ratio).unwrap_or(0.0015),
        half_loss: section.one("half_loss", value::ratio).unwrap_or(0.001),
        resolution: section.one("resolution", value::width).unwrap_or(0.01),
    }
}

fn read_fixed(section: &Section<'_>) -> Option<FixedSpec> {
    let loads_fps = section.required_axis("loads_fps", "[\"100k\", \"1M\"]", value::fps);
    let trial = section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(1));
    Some(FixedSpec { loads_fps: loads_fps?, trial })
}
