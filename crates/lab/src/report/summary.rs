//! The findings in plain words, taken from the data. Nothing is claimed that the records do not carry: lower
//! bounds are called so, differences come with their interval, and what weakens the result is said as well.

use super::format::{count, list, percent, si, time_ns, whole_percent};
use super::generators;
use super::rate::{Bound, Rate, Ratio};
use super::series::{Comparison, Series, frame_name};
use crate::record::{CpuUse, GoalResult, RunState, Verdict};
use crate::run_data::{PointData, RunData, is_near, latency};

/// Comparisons spelled out; the rest is in the table.
const COMPARISONS: usize = 6;
/// From this share of the device's CPU time on, one CPU does all the work.
const ALL_ON_ONE: f64 = 0.9;
/// A CPU busier than this is full.
const FULL: f64 = 0.9;
/// The wire must be this much faster than the device, or the tester may be the limit.
const CEILING_MARGIN: f64 = 1.5;
/// Unexplained share of the lost frames that is worth a sentence.
const UNEXPLAINED: f64 = 0.01;

/// Sentences about one run, or about what differs between runs.
pub(crate) struct Findings {
    /// What they are about; empty in the report of a single run.
    pub(crate) heading: String,
    /// One or two sentences each, most important first.
    pub(crate) sentences: Vec<String>,
}

/// All findings: differences between runs first, then run by run.
pub(crate) fn findings(all: &Comparison<'_>) -> Vec<Findings> {
    let mut found = vec![Findings { heading: "Between the runs".into(), sentences: between_runs(all) }];
    for data in all.runs {
        let heading = if all.runs.len() > 1 { format!("Run {}", data.run.id) } else { String::new() };
        let parts =
            [state(data).into_iter().collect(), results(all, data), generators::findings(data), trust(data)];
        found.push(Findings { heading, sentences: parts.concat() });
    }
    found.retain(|f| !f.sentences.is_empty());
    found
}

/// What was found out in one run.
fn results(all: &Comparison<'_>, data: &RunData) -> Vec<String> {
    let (wire, devices): (Vec<_>, Vec<_>) =
        all.series.iter().filter(|s| s.run.id == data.run.id).partition(|s| s.is_wire());
    let first = devices.iter().find(|s| s.points[0].point.dut == "kernel-forward").or(devices.first());
    let Some(base) = first.or(wire.first()) else { return Vec::new() };
    let frames: Vec<&str> = all.frames.iter().copied().filter(|f| base.at(f).is_some()).collect();
    let (Some(smallest), Some(largest)) = (frames.first(), frames.last()) else { return Vec::new() };
    let mut found = vec![reach(base, smallest) + " Rates are those of all directions together."];
    if devices.is_empty() {
        found
            .push("Only the tester without a device was measured: nothing is known about any device.".into());
        return found;
    }
    found.extend(comparisons(base, &devices, smallest));
    if largest != smallest {
        found.push(reach(base, largest));
    }
    found.extend(one_cpu(base, smallest));
    found.extend(delay(base, smallest));
    found.push(ceiling(all, data));
    found
}

/// What the device reaches at one frame size.
fn reach(series: &Series<'_>, frame: &str) -> String {
    let (size, label) = (frame_name(frame), &series.name);
    let Some(point) = series.at(frame) else { return String::new() };
    let Some(goal) = point.goals().first() else {
        return match point.peak_received_fps() {
            Some(fps) => format!(
                "At {size} {label} passed up to {} frames/s in single trials; no throughput was searched for.",
                si(fps)
            ),
            None => format!("At {size} there is no valid trial of {label}: nothing can be said about it."),
        };
    };
    let Some(rate) = Rate::of(goal) else {
        return format!("At {size} no rate was found at which {label} meets the goal {}.", goal.goal);
    };
    let line = point.point.line_fps.map(|line| format!(", {} of the line rate", percent(rate.fps / line)));
    format!(
        "At {size} {label} forwards {} frames/s ({}bit/s{}){} with goal {}{}.{}",
        rate.words(),
        si(point.mbit_per_s(rate.fps) * 1e6),
        line.unwrap_or_default(),
        cpus(point),
        goal.goal,
        allowed_loss(goal),
        why_bound(point, rate.bound),
    )
}

/// What the goal allows, as far as its parameters say.
fn allowed_loss(goal: &GoalResult) -> String {
    let loss = goal.parameters.iter().find(|(name, _)| name.contains("loss"));
    loss.map_or_else(String::new, |(name, value)| format!(" ({name} {value})"))
}

fn cpus(point: &PointData) -> String {
    match point.point.cpus.len() {
        0 => String::new(),
        1 => " on one CPU".into(),
        n => format!(" on {n} CPUs"),
    }
}

fn why_bound(point: &PointData, bound: Bound) -> String {
    if bound == Bound::Exact {
        return String::new();
    }
    let reasons =
        point.goals().iter().take(1).flat_map(|g| &g.repetitions).filter_map(|r| r.irregular.clone());
    let mut reasons: Vec<_> = reasons.collect();
    reasons.sort();
    reasons.dedup();
    format!(" The search ended irregularly: {}.", list(&reasons))
}

/// The other devices of a run against the base, at one frame size.
fn comparisons(base: &Series<'_>, series: &[&Series<'_>], frame: &str) -> Vec<String> {
    let others = series.iter().filter(|s| s.name != base.name);
    let compare = |other: &&Series<'_>| compared((&base.name, base), (&what(other), other), frame);
    at_most(others.filter_map(compare).collect())
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
    let rate = |s: &Series<'_>| s.at(frame)?.goals().first().map(|goal| (goal.goal.clone(), Rate::of(goal)));
    let ((base_goal, base_rate), (goal, other_rate)) = (rate(base.1)?, rate(other.1)?);
    let (base_rate, other_rate) = (base_rate?, other_rate?);
    if goal != base_goal {
        return None;
    }
    let Some(ratio) = other_rate.over(&base_rate) else {
        return Some(format!(
            "{} reaches {} frames/s; it cannot be compared with {}, whose rate is not exact.",
            other.0,
            other_rate.words(),
            base.0
        ));
    };
    Some(sentence(other.0, base.0, &other_rate, &ratio))
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
    let (words, at) = (ratio.bound.words(), format!("{} frames/s", rate.words()));
    let spread = |text: fn((f64, f64)) -> String| match ratio.interval {
        Some(interval) => format!("; {} by the repetitions", text(interval)),
        None => "; too few repetitions for an interval".into(),
    };
    if ratio.bound == Bound::Exact && ratio.interval.is_some_and(|(low, high)| low <= 1.0 && high >= 1.0) {
        return format!("{other} reaches {at}: no difference from {base} could be shown.");
    }
    if ratio.value >= 1.5 {
        let text = |(low, high)| format!("{low:.2} to {high:.2} times");
        return format!(
            "{other} is {words}{:.2} times as fast as {base} ({at}{}).",
            ratio.value,
            spread(text)
        );
    }
    if ratio.value >= 1.0 {
        let text = |(low, high): (f64, f64)| {
            format!("{} to {}", whole_percent(low - 1.0), whole_percent(high - 1.0))
        };
        let gain = whole_percent(ratio.value - 1.0);
        return format!("{other} is {words}{gain} faster than {base} ({at}{}).", spread(text));
    }
    let text =
        |(low, high): (f64, f64)| format!("{} to {}", whole_percent(1.0 - high), whole_percent(1.0 - low));
    // At least this fast is at most this much slower.
    let words = if ratio.bound == Bound::AtLeast { "at most " } else { words };
    format!(
        "{other} costs {words}{} against {base} ({at}{}).",
        whole_percent(1.0 - ratio.value),
        spread(text)
    )
}

/// Whether one CPU does all the work, at the throughput of a point.
fn one_cpu(series: &Series<'_>, frame: &str) -> Option<String> {
    let point = series.at(frame)?;
    let fps = point.headline_fps()?;
    let trial = point.at_headline().into_iter().find(|t| is_near(t, fps))?;
    let cpus = &trial.cost.cpus;
    let total: f64 = cpus.iter().map(|c| c.dut).sum();
    let most = cpus.iter().max_by(|a, b| a.dut.total_cmp(&b.dut)).filter(|_| total > 0.0)?;
    let given = point.point.cpus.len();
    let busy = format!("CPU {} is {} busy", most.cpu, whole_percent(most.busy));
    if most.dut / total >= ALL_ON_ONE && given > 1 {
        return Some(format!(
            "One CPU does all the work of {} although it may use {given}: near the throughput {busy}.",
            series.name
        ));
    }
    Some(match full(cpus, &point.point.cpus) {
        true => format!("Near its throughput the CPU of {} is full: {busy}.", series.name),
        false => format!(
            "Near its throughput {} does not fill a CPU ({busy}): something else limits it.",
            series.name
        ),
    })
}

/// True if a CPU of the device had no time left.
fn full(use_of: &[CpuUse], own: &[usize]) -> bool {
    use_of.iter().any(|c| (own.is_empty() || own.contains(&c.cpu)) && c.busy >= FULL)
}

/// Latency at about half of the throughput.
fn delay(series: &Series<'_>, frame: &str) -> Option<String> {
    let point = series.at(frame)?;
    let fps = point.headline_fps()?;
    let timed = point.valid().filter_map(|t| latency(&t.streams).map(|l| (t.offered_fps / fps, l)));
    let (share, l) = timed
        .filter(|(s, _)| (0.25..=0.75).contains(s))
        .min_by(|a, b| (a.0 - 0.5).abs().total_cmp(&(b.0 - 0.5).abs()))?;
    Some(format!(
        "At {} of that rate a frame takes {} (median), {} (99th percentile) and {} (99.9th) through {}.",
        whole_percent(share),
        time_ns(l.p50_ns as f64),
        time_ns(l.p99_ns as f64),
        time_ns(l.p999_ns as f64),
        series.name
    ))
}

/// Whether the tester could be the limit.
fn ceiling(all: &Comparison<'_>, data: &RunData) -> String {
    let mut closest: Option<(f64, &str, Rate)> = None;
    for frame in &all.frames {
        let here = || data.points.iter().filter(|p| p.point.frame == *frame);
        let wire =
            here().filter(|p| p.is_wire()).filter_map(Rate::headline).max_by(|a, b| a.fps.total_cmp(&b.fps));
        let fastest =
            here().filter(|p| !p.is_wire()).filter_map(PointData::headline_fps).max_by(f64::total_cmp);
        let Some((wire, fastest)) = wire.zip(fastest).filter(|(_, fastest)| *fastest > 0.0) else { continue };
        let margin = wire.fps / fastest;
        if closest.is_none_or(|(m, _, _)| margin < m) {
            closest = Some((margin, frame, wire));
        }
    }
    let Some((margin, frame, wire)) = closest else {
        return "The tester's own ceiling (dut `wire`) was not measured in this run: whether the tester is the limit is not known.".into();
    };
    let reach = format!(
        "The tester itself reaches {} frames/s at {} with no device in between",
        wire.words(),
        frame_name(frame)
    );
    if margin >= CEILING_MARGIN {
        format!("{reach}, {margin:.1} times the fastest device: it is not the limit.")
    } else {
        format!("{reach}, only {margin:.2} times the fastest device: there the tester may be the limit.")
    }
}

/// The same points in later runs against the first run, at the smallest frame size.
fn between_runs(all: &Comparison<'_>) -> Vec<String> {
    let (Some(first), Some(frame)) = (all.runs.first(), all.frames.first()) else { return Vec::new() };
    let later = all.series.iter().filter(|s| !s.is_wire() && s.run.id != first.run.id);
    let compare = |series: &Series<'_>| {
        let twin = all.series.iter().find(|s| s.run.id == first.run.id && s.name == series.name)?;
        compared((&twin.label, twin), (&series.label, series), frame)
    };
    at_most(later.filter_map(compare).collect())
}

/// How the run ended, unless it is complete.
fn state(data: &RunData) -> Option<String> {
    if data.points.is_empty() {
        return Some("The run has no points: nothing was measured, and nothing can be concluded.".into());
    }
    let measured = data.points.iter().filter(|p| p.point.result.is_some()).count();
    let of = format!("{measured} of {} have a result", count(data.points.len(), "point"));
    match data.run.state {
        RunState::Complete => None,
        RunState::Running => Some(format!("The run has not ended: {of} so far.")),
        RunState::Interrupted => Some(format!("The run was interrupted: {of}; what was measured is shown.")),
        RunState::Failed => Some(format!("The run failed: {of}; what was measured is shown.")),
    }
}

/// What weakens the result.
fn trust(data: &RunData) -> Vec<String> {
    [repetitions(data), verdicts(data), unexplained(data), shared(data)].into_iter().flatten().collect()
}

fn repetitions(data: &RunData) -> Option<String> {
    let goals = data.points.iter().flat_map(PointData::goals);
    match goals.map(|g| g.repetitions.len()).min()? {
        n @ 0..3 => Some(format!(
            "Some rates rest on {} only: their spread is not known, and small differences may be chance.",
            if n == 0 { "no finished repetition".into() } else { count(n, "repetition") }
        )),
        n @ 3..5 => Some(format!("Rates rest on as few as {n} repetitions: the intervals are rough.")),
        _ => None,
    }
}

fn verdicts(data: &RunData) -> Option<String> {
    let trials = || data.points.iter().filter(|p| !p.is_wire()).flat_map(PointData::measured);
    let (all, valid) = (trials().count(), trials().filter(|t| t.verdict == Verdict::Valid).count());
    if all == valid {
        return None;
    }
    let kinds = [Verdict::TesterLimited, Verdict::Noisy, Verdict::Invalid].map(|verdict| {
        let n = trials().filter(|t| t.verdict == verdict).count();
        (n > 0).then(|| format!("{n} {}", verdict.name()))
    });
    let kinds: Vec<_> = kinds.into_iter().flatten().collect();
    let none =
        if valid == 0 { " No trial of a device is valid: the rates are not to be believed." } else { "" };
    Some(format!(
        "{} of {} of devices are not valid ({}) and were not used.{none}",
        all - valid,
        count(all, "trial"),
        list(&kinds)
    ))
}

fn unexplained(data: &RunData) -> Option<String> {
    let trials = || data.points.iter().flat_map(PointData::valid);
    let lost: u64 = trials().map(|t| t.lost).sum();
    let open: u64 = trials().map(|t| t.unexplained.unsigned_abs()).sum();
    (lost > 0 && open as f64 / lost as f64 > UNEXPLAINED).then(|| {
        format!("{} of all lost frames are not explained by any counter.", percent(open as f64 / lost as f64))
    })
}

fn shared(data: &RunData) -> Option<String> {
    let points = data.points.iter().filter(|p| !p.is_wire() && !p.point.cpus_shared.is_empty());
    let n = points.count();
    (n > 0).then(|| {
        format!("At {} tester and device share a CPU: the device alone would be faster.", count(n, "point"))
    })
}

#[cfg(test)]
mod tests;
