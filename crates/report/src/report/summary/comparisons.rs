//! Differences in words: devices of one run against each other, runs against the first one.

use super::ended;
use crate::compare::{self, Across, Row, Verdict};
use crate::record::GoalResult;
use crate::run_data::{PointData, RunData};
use crate::shards;
use crate::view::format::{count, list, si, whole_percent};
use crate::view::{Bound, Comparison, Rate, Ratio, Series, core_distance};

/// Comparisons spelled out; the rest is in the table.
const COMPARISONS: usize = 6;

/// The other devices of a run against the base, at one frame size.
pub(super) fn comparisons(base: &Series<'_>, series: &[&Series<'_>], frame: &str) -> Vec<String> {
    // Those that alternated are reported with the ratios of their rounds.
    let alone = |s: &Series<'_>| s.at(frame).is_none_or(|point| point.comparisons().is_empty());
    let others = || series.iter().filter(|s| s.name != base.name && alone(s));
    let base_result = result(base, frame).filter(|(_, _, rate)| rate.bound != Bound::Exact);
    match base_result {
        Some((_, goal, _)) => side_by_side(base, goal, others().copied(), frame).into_iter().collect(),
        None => {
            let (ended, regular): (Vec<&Series<'_>>, Vec<_>) =
                others().copied().partition(|other| is_irregular(base, other, frame));
            // Several that cannot be compared are one sentence.
            let (ended, alone) = if ended.len() > 1 { (ended, Vec::new()) } else { (Vec::new(), ended) };
            let compare = |other: &Series<'_>| compared((&base.name, base), (&what(other), other), frame);
            let found = regular.into_iter().chain(alone).filter_map(compare);
            at_most(found.collect()).into_iter().chain(all_irregular(base, &ended, frame)).collect()
        }
    }
}

/// Was the same goal searched, and did the search end irregularly?
fn is_irregular(base: &Series<'_>, other: &Series<'_>, frame: &str) -> bool {
    let Some(((_, base_goal, _), (_, goal, rate))) = result(base, frame).zip(result(other, frame)) else {
        return false;
    };
    goal.goal == base_goal.goal && rate.bound != Bound::Exact
}

/// The rates of devices whose searches ended irregularly; `None` without any.
fn all_irregular(base: &Series<'_>, others: &[&Series<'_>], frame: &str) -> Option<String> {
    let found = others.iter().filter_map(|other| Some((other, result(other, frame)?)));
    let found: Vec<_> = found.collect();
    let first = COMPARISONS.min(found.len());
    let mut rates: Vec<String> = found[..first]
        .iter()
        .map(|(other, (_, _, rate))| format!("{} {}", other.name, rate.words()))
        .collect();
    rates.extend((found.len() > first).then(|| format!("{} more in the table below", found.len() - first)));
    let mut reasons: Vec<String> = found
        .iter()
        .flat_map(|(_, (_, goal, _))| &goal.repetitions)
        .filter_map(|r| r.irregular.clone())
        .collect();
    reasons.sort();
    reasons.dedup();
    (!rates.is_empty()).then(|| {
        format!(
            "Frames/s of those whose searches ended irregularly ({}): {}. They cannot be compared with {}.",
            list(&reasons),
            list(&rates),
            base.name
        )
    })
}

/// The rates of the other devices where the base allows no comparison.
fn side_by_side<'s>(
    base: &Series<'_>,
    base_goal: &GoalResult,
    others: impl Iterator<Item = &'s Series<'s>>,
    frame: &str,
) -> Option<String> {
    let rates = others.filter_map(|s| {
        let goal = s.at(frame)?.goals().first().filter(|g| g.goal == base_goal.goal)?;
        Some(format!("{} {}", s.name, Rate::of(goal)?.words()))
    });
    let mut rates: Vec<_> = rates.collect();
    let more = rates.split_off(rates.len().min(COMPARISONS)).len();
    rates.extend((more > 0).then(|| format!("{more} more in the table below")));
    (!rates.is_empty()).then(|| {
        format!(
            "Frames/s of the others: {}. They cannot be compared with {}, whose search {}.",
            list(&rates),
            base.name,
            ended(base_goal)
        )
    })
}

/// The first comparisons, and how many more there are.
fn at_most(mut found: Vec<String>) -> Vec<String> {
    if found.len() > COMPARISONS {
        let more = found.len() - COMPARISONS;
        found.truncate(COMPARISONS);
        found.push(format!("The table below allows {}.", count(more, "further comparison")));
    }
    found
}

/// A series against another, each with the name it has in the sentence.
fn compared(base: (&str, &Series<'_>), other: (&str, &Series<'_>), frame: &str) -> Option<String> {
    let ((base_point, base_goal, base_rate), (point, goal, rate)) =
        (result(base.1, frame)?, result(other.1, frame)?);
    if goal.goal != base_goal.goal {
        return None;
    }
    let irregular = [(base.0, base_goal, base_rate), (other.0, goal, rate)]
        .into_iter()
        .find(|(_, _, rate)| rate.bound != Bound::Exact)
        .map(|(name, goal, _)| format!("the search of {name} {}", ended(goal)));
    let shards = || shards::apart(&base_point.point, &point.point);
    match irregular.or_else(shards).or_else(|| core_distance::apart(base_point, point)) {
        Some(why) => Some(format!(
            "{} reaches {} frames/s; it cannot be compared with {}: {why}.",
            other.0,
            rate.words(),
            base.0,
        )),
        None => rate.over(&base_rate).map(|ratio| sentence(other.0, base.0, &rate, &ratio)),
    }
}

/// A point with its first goal and the rate for it.
fn result<'a>(series: &Series<'a>, frame: &str) -> Option<(&'a PointData, &'a GoalResult, Rate)> {
    let point = series.at(frame)?;
    let goal = point.goals().first()?;
    Some((point, goal, Rate::of(goal)?))
}

/// What a device does, where its name alone would need explaining.
fn what(series: &Series<'_>) -> String {
    let name = &series.name;
    match series.points[0].point.dut.as_str() {
        "kernel-stateless" => format!("Stateless filtering ({name})"),
        "kernel-stateful" => format!("Stateful filtering ({name})"),
        "kernel-nat" => format!("Source NAT ({name})"),
        _ => name.clone(),
    }
}

fn sentence(other: &str, base: &str, rate: &Rate, ratio: &Ratio) -> String {
    let at = format!("{} frames/s", rate.words());
    let spread = |text: fn((f64, f64)) -> String| match ratio.interval {
        Some(interval) => format!("; {} by the repetitions", text(interval)),
        None => "; too few repetitions for an interval".into(),
    };
    if ratio.interval.is_some_and(|(low, high)| low <= 1.0 && high >= 1.0) {
        return no_difference(other, base, rate);
    }
    if ratio.value >= 1.5 {
        let spread = spread(|(low, high)| format!("{low:.2} to {high:.2} times"));
        return format!("{other} is {:.2} times as fast as {base} ({at}{spread}).", ratio.value);
    }
    if ratio.value >= 1.0 {
        let text = |(low, high): (f64, f64)| {
            format!("{} to {}", whole_percent(low - 1.0), whole_percent(high - 1.0))
        };
        let gain = whole_percent(ratio.value - 1.0);
        return format!("{other} is {gain} faster than {base} ({at}{}).", spread(text));
    }
    let text =
        |(low, high): (f64, f64)| format!("{} to {}", whole_percent(1.0 - high), whole_percent(1.0 - low));
    format!("{other} costs {} against {base} ({at}{}).", whole_percent(1.0 - ratio.value), spread(text))
}

fn no_difference(other: &str, base: &str, rate: &Rate) -> String {
    format!("{other} reaches {} frames/s: no difference from {base} could be shown.", rate.words())
}

/// Later runs against the first one, at the smallest frame size and for the first goal of each point: as
/// `weir compare` has it, with which machine and kernel may differ.
pub(super) fn between_runs(all: &Comparison<'_>) -> Vec<String> {
    let (Some((first, later)), Some(frame)) = (all.runs.split_first(), all.frames.first()) else {
        return Vec::new();
    };
    at_most(later.iter().flat_map(|run| between(first, run, frame)).collect())
}

fn between(first: &RunData, later: &RunData, frame: &str) -> Vec<String> {
    // Where the machine is not what differs, what its cores differ by is no difference.
    let is_one = compare::difference::is_one_machine(first, later);
    let across = if is_one { &[Across::Kernel][..] } else { &[Across::Machine, Across::Kernel] };
    let compared = compare::compare(first, later, across);
    let rows = &compared.rows;
    let mut reported: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| row.frame == frame) {
        if !reported.contains(&row.device.as_str()) {
            reported.push(&row.device);
            found.extend(of_run(row, (first.run.id, later.run.id)));
        }
    }
    found.extend(compare::text::core_speed(&compared).filter(|_| !reported.is_empty()));
    found
}

fn of_run(row: &Row, (first, later): (i64, i64)) -> Option<String> {
    let (base, other) = (format!("{} · run {first}", row.device), format!("{} · run {later}", row.device));
    let rate = Rate { fps: row.other?, interval: None, bound: Bound::Exact };
    Some(match (&row.why, row.verdict) {
        // A rate that says less than it seems to is not claimed to be reached.
        (Some(why), _) => {
            format!(
                "{other} cannot be compared with {base} ({} and {} frames/s): {why}.",
                si(rate.fps),
                si(row.base?)
            )
        }
        (None, Verdict::NoDifference) => no_difference(&other, &base, &rate),
        (None, _) => {
            let interval = row.interval.map(|i| (i.low, i.high));
            sentence(&other, &base, &rate, &Ratio { value: row.ratio?, interval, bound: row.ratio_bound })
        }
    })
}
