//! The findings in plain words, taken from the data. Nothing is claimed that the records do not carry: lower
//! bounds are called so, differences come with their interval, and what weakens the result is said as well.

mod comparisons;

use super::answer::could_send_more;
use super::answer::headline;
use super::{Sections, interleaved, rules};
use crate::record::{CpuUse, GoalResult, Latency, RunState, Trial, Verdict};
use crate::run_data::{Measures, PointData, RunData, TESTER, is_near, latency};
use crate::search::Irregular;
use crate::view::format::{count, full, list, percent, si, time_ns, whole_percent};
use crate::view::{Bound, Comparison, Rate, Series, core_distance, frame_name, reasons};
use comparisons::{between_runs, comparisons};

/// Notes of test beds spelled out; the rest is under the method.
const NOTES: usize = 3;
/// From this share of the device's CPU time on, one CPU does all the work.
const ALL_ON_ONE: f64 = 0.9;
/// A CPU busier than this is full.
const FULL: f64 = 0.9;
/// The wire must be this much faster than the device, or the tester may be the limit.
const CEILING_MARGIN: f64 = 1.5;
/// Share of the flows that must have a connection, where connections are tracked.
const MOST_FLOWS: f64 = 0.95;
/// Unexplained share of the lost frames that is worth a sentence.
const UNEXPLAINED: f64 = 0.01;

/// Sentences about one run, or about what differs between runs.
pub(super) struct Findings {
    /// What they are about; empty in the report of a single run.
    pub heading: String,
    /// One or two sentences each, most important first.
    pub sentences: Vec<String>,
}

/// All findings: differences between runs first, then run by run.
pub(super) fn findings(all: &Comparison<'_>, of_rigs: &dyn Sections) -> Vec<Findings> {
    let mut found = vec![Findings { heading: "Between the runs".into(), sentences: between_runs(all) }];
    for data in all.runs {
        let heading = if all.runs.len() > 1 { format!("Run {}", data.run.id) } else { String::new() };
        let parts = [
            state(data).into_iter().collect(),
            rules::findings(all, data),
            interleaved::findings(all, data),
            results(all, data),
            of_rigs.findings(data),
            trust(data),
        ];
        found.push(Findings { heading, sentences: parts.concat() });
    }
    found.retain(|f| !f.sentences.is_empty());
    found
}

/// What was found out in one run.
fn results(all: &Comparison<'_>, data: &RunData) -> Vec<String> {
    let (wire, devices): (Vec<_>, Vec<_>) =
        all.series.iter().filter(|s| s.run.id == data.run.id).partition(|s| s.is_ceiling());
    let first = devices.iter().find(|s| s.points[0].point.dut == "kernel-forward").or(devices.first());
    let Some(base) = first.or(wire.first()) else { return Vec::new() };
    let frames: Vec<&str> = all.frames.iter().copied().filter(|f| base.at(f).is_some()).collect();
    let (Some(smallest), Some(largest)) = (frames.first(), frames.last()) else { return Vec::new() };
    let mut found = vec![
        reach(base, smallest) + &other_goals(base, smallest) + " Rates are those of all directions together.",
    ];
    if devices.is_empty() {
        found
            .push("Only the tester without a device was measured: nothing is known about any device.".into());
        return found;
    }
    found.extend(comparisons(base, &devices, smallest));
    if largest != smallest {
        found.push(reach(base, largest));
    }
    found.extend(lopsided(&devices, smallest));
    found.extend(full_cpu(base, smallest));
    found.extend(delay(all, base, smallest));
    found.push(ceiling(all, data));
    found
}

/// What the device reaches at one frame size.
fn reach(series: &Series<'_>, frame: &str) -> String {
    let (size, label) = (frame_name(frame), &series.name);
    let Some(point) = series.at(frame) else { return String::new() };
    let Some(goal) = point.goals().first() else {
        if let Some(rate) = Rate::capacity(point) {
            let bits = si(point.mbit_per_s(rate.fps) * 1e6);
            return format!(
                "At {size} {label} forwards {} frames/s ({bits}bit/s) in steady overload{}.",
                rate.words(),
                cpus(point)
            );
        }
        return match point.peak_received_fps() {
            Some(fps) => format!(
                "At {size} {label} passed up to {} frames/s in single trials; no throughput was searched for.",
                si(fps)
            ),
            None => format!("At {size} no trial of {label} is valid."),
        };
    };
    let Some(rate) = Rate::of(goal) else {
        return format!("At {size} no rate was found at which {label} meets the goal {}.", goal.goal);
    };
    let line = point.point.line_fps.map(|line| format!(", {} of the line rate", percent(rate.fps / line)));
    format!(
        "At {size} {label} forwards {} frames/s ({}bit/s{}){} {} (goal {}).{}",
        rate.words(),
        si(point.mbit_per_s(rate.fps) * 1e6),
        line.unwrap_or_default(),
        cpus(point),
        allowed_loss(goal),
        goal.goal,
        why_bound(goal, rate.bound),
    )
}

/// The rates for the further goals of a point.
fn other_goals(series: &Series<'_>, frame: &str) -> String {
    let goals = series.at(frame).map_or(&[][..], |p| p.goals()).iter().skip(1);
    let rates = goals.filter_map(|goal| Rate::of(goal).map(|rate| (goal, rate)));
    let sentence = |(goal, rate): (&GoalResult, Rate)| {
        format!(" It is {} frames/s {} (goal {}).", rate.words(), allowed_loss(goal), goal.goal)
    };
    rates.map(sentence).collect()
}

/// What the goal allows, as far as its parameters say.
fn allowed_loss(goal: &GoalResult) -> String {
    let value = |name: &str| goal.parameters.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let loss = ["loss ratio", "loss tolerance", "mean loss of the kept trials"].into_iter().find_map(value);
    let loss = match loss {
        None => return "at a loss that is not recorded".into(),
        Some("0 %") => "without loss".into(),
        Some(loss) => format!("with at most {loss} of loss"),
    };
    match value("exceed ratio") {
        None | Some("0 %") => loss,
        Some("50 %") => format!("{loss} in at least half of the trial time"),
        Some(exceed) => format!("{loss}, exceeded in at most {exceed} of the trial time"),
    }
}

fn cpus(point: &PointData) -> String {
    match point.point.cpus.len() {
        0 => String::new(),
        1 => " on one CPU".into(),
        n => format!(" on {n} CPUs"),
    }
}

fn why_bound(goal: &GoalResult, bound: Bound) -> String {
    if bound == Bound::Exact { String::new() } else { format!(" The search {}.", ended(goal)) }
}

/// How the searches for a goal ended that did not end regularly.
fn ended(goal: &GoalResult) -> String {
    let mut reasons: Vec<_> = goal.repetitions.iter().filter_map(|r| r.irregular.clone()).collect();
    reasons.sort();
    reasons.dedup();
    if reasons.is_empty() {
        return "has an interval that is too wide for a result".into();
    }
    format!("ended irregularly ({})", list(&reasons))
}

/// A trial near the throughput of a point.
fn near_headline(point: &PointData) -> Option<&Trial> {
    let fps = point.headline_fps()?;
    point.at_headline().into_iter().find(|t| is_near(t, fps))
}

/// The devices of which one CPU does all the work although they may use several.
fn lopsided(devices: &[&Series<'_>], frame: &str) -> Option<String> {
    let found = devices.iter().filter_map(|series| {
        let point = series.at(frame).filter(|p| p.point.cpus.len() > 1)?;
        let cpus = &near_headline(point)?.cost.cpus;
        let total: f64 = cpus.iter().map(|c| c.dut).sum();
        let most = cpus.iter().max_by(|a, b| a.dut.total_cmp(&b.dut))?;
        (total > 0.0 && most.dut / total >= ALL_ON_ONE).then(|| {
            let (given, busy) = (point.point.cpus.len(), whole_percent(most.busy));
            format!("{} (CPU {} of {given} is {busy} busy)", series.name, most.cpu)
        })
    });
    let found: Vec<_> = found.collect();
    (!found.is_empty()).then(|| {
        format!("Near the throughput one CPU does all the work although more may be used: {}.", list(&found))
    })
}

/// Whether a device has a CPU that is full, at its throughput.
fn full_cpu(series: &Series<'_>, frame: &str) -> Option<String> {
    let point = series.at(frame)?;
    let cpus = &near_headline(point)?.cost.cpus;
    let most = cpus.iter().filter(|c| c.dut > 0.0).max_by(|a, b| a.dut.total_cmp(&b.dut))?;
    let busy = format!("CPU {} is {} busy", most.cpu, whole_percent(most.busy));
    Some(if is_full(cpus, &point.point.cpus) {
        format!("Near its throughput the CPU of {} is full: {busy}.", series.name)
    } else {
        format!("Near its throughput {} does not fill a CPU ({busy}): something else limits it.", series.name)
    })
}

/// True if a CPU of the device had no time left.
fn is_full(use_of: &[CpuUse], own: &[usize]) -> bool {
    use_of.iter().any(|c| (own.is_empty() || own.contains(&c.cpu)) && c.busy >= FULL)
}

/// Latency at about half of the throughput.
fn delay(all: &Comparison<'_>, series: &Series<'_>, frame: &str) -> Option<String> {
    let point = series.at(frame)?;
    let fps = point.headline_fps()?;
    let timed = point.valid().filter_map(|t| latency(&t.streams).map(|l| (t.counts().offered_fps / fps, l)));
    let (share, l): (f64, Latency) = timed
        .filter(|(s, _)| (0.25..=0.75).contains(s))
        .min_by(|a, b| (a.0 - 0.5).abs().total_cmp(&(b.0 - 0.5).abs()))?;
    Some(format!(
        "At {} and {} of the throughput a frame takes {} (median), {} (99th percentile) and {} (99.9th) through {}.{}",
        frame_name(frame),
        whole_percent(share),
        time_ns(l.p50_ns as f64),
        time_ns(l.p99_ns as f64),
        time_ns(l.p999_ns as f64),
        series.name,
        bias(all, series, frame, share * fps).unwrap_or_default()
    ))
}

/// What of a latency is the tester's own: that of the wire at the rate closest to this one.
fn bias(all: &Comparison<'_>, series: &Series<'_>, frame: &str, fps: f64) -> Option<String> {
    let wire = all.series.iter().find(|s| s.is_ceiling() && s.run.id == series.run.id)?.at(frame)?;
    let paced = wire.valid().filter(|t| !t.purpose.is_full_speed());
    let away = |t: &Trial| (t.counts().offered_fps / fps).ln().abs();
    let (closest, l) = paced
        .filter_map(|t| Some((t, latency(&t.streams)?)))
        .min_by(|a, b| away(a.0).total_cmp(&away(b.0)))?;
    Some(format!(
        " The tester's own share of that, not subtracted: on a wire it takes {} (median) and {} (99.9th) at {} frames/s.",
        time_ns(l.p50_ns as f64),
        time_ns(l.p999_ns as f64),
        si(closest.counts().offered_fps)
    ))
}

/// Whether the tester could be the limit.
pub(super) fn ceiling(all: &Comparison<'_>, data: &RunData) -> String {
    let mut closest: Option<(f64, &PointData, Rate)> = None;
    for frame in &all.frames {
        let here = || data.points.iter().filter(|p| p.point.frame == *frame);
        let ceilings = here().filter(|p| p.is_ceiling()).filter_map(|p| Some((p, Rate::headline(p)?)));
        let ceiling = ceilings.max_by(|a, b| a.1.fps.total_cmp(&b.1.fps));
        let rates = here().filter(|p| !p.is_ceiling()).filter_map(headline);
        let known = rates.filter(|rate| rate.bound != Bound::NoResult);
        let fastest = known.map(|rate| rate.fps).max_by(f64::total_cmp);
        let Some(((point, rate), fastest)) = ceiling.zip(fastest.filter(|fps| *fps > 0.0)) else { continue };
        let margin = rate.fps / fastest;
        if closest.is_none_or(|(m, _, _)| margin < m) {
            closest = Some((margin, point, rate));
        }
    }
    let Some((margin, point, rate)) = closest else {
        let mut ceilings = data.points.iter().filter(|p| p.is_ceiling());
        if let Some((point, rate)) = ceilings.find_map(|p| Some((p, Rate::headline(p)?))) {
            let reach = reach_of_tester(point, &rate);
            return format!("{reach}; there is no rate of a device to compare it with.");
        }
        return "The tester's own ceiling (dut `wire`) was not measured in this run: whether the tester is the limit is unknown.".into();
    };
    let reach = reach_of_tester(point, &rate);
    let limited = data.points.iter().filter(|p| !p.is_ceiling() && tester_limited(data, p)).count();
    if limited > 0 {
        let why = match point.point.dut.as_str() {
            TESTER => "It",
            _ => "With a device on another CPU a frame costs it more: it",
        };
        format!(
            "{reach}, {margin:.1} times the fastest device. {why} was the limit at {limited} of the points, whose rates \
             are marked ≥."
        )
    } else if margin >= CEILING_MARGIN {
        format!("{reach}, {margin:.1} times the fastest device: it is not the limit.")
    } else {
        format!("{reach}, only {margin:.2} times the fastest device: there the tester may be the limit.")
    }
}

/// What the tester can do by itself.
fn reach_of_tester(ceiling: &PointData, rate: &Rate) -> String {
    let (rate, frame) = (rate.words(), frame_name(&ceiling.point.frame));
    match ceiling.point.dut.as_str() {
        TESTER => format!("The tester itself sends {rate} frames/s at {frame} towards the device"),
        _ => format!("The tester itself reaches {rate} frames/s at {frame} with no device in between"),
    }
}

/// What helps where the tester is the limit.
pub(super) fn remedy(data: &RunData) -> &'static str {
    match data.run.tester.receiver.as_str() {
        "af-packet" => "run weir as root, whose XDP tester sends several times as much",
        _ => "this machine's tester sends no more",
    }
}

/// Is the capacity a lower bound, or did a search end at what the tester can do?
fn tester_limited(data: &RunData, point: &PointData) -> bool {
    if let Some(rate) = Rate::capacity(point) {
        return rate.bound == Bound::AtLeast && !could_send_more(data, point, rate);
    }
    let goals = point.point.result.iter().flat_map(|result| &result.goals);
    let irregular = goals.flat_map(|goal| &goal.repetitions).filter_map(|r| r.irregular.as_deref());
    irregular.into_iter().any(|reason| reason == Irregular::TesterLimited.to_string())
}

/// How the run ended, unless it is complete.
pub(super) fn state(data: &RunData) -> Option<String> {
    if data.points.is_empty() {
        return Some("The run has no points: nothing was measured, and nothing can be concluded.".into());
    }
    let measured = data.points.iter().filter(|p| p.point.result.is_some()).count();
    let of = format!("{measured} of {} have a result", count(data.points.len(), "point"));
    match data.run.state {
        RunState::Complete => None,
        RunState::Running => Some(format!("The run has not ended: {of} so far.")),
        RunState::Interrupted => Some(format!("The run was interrupted: {of}; what was measured is shown.")),
        RunState::Failed => {
            let why = data.run.failure.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            Some(format!("The run failed{why}: {of}; what was measured is shown."))
        }
    }
}

/// What weakens the result.
fn trust(data: &RunData) -> Vec<String> {
    let sentences = [
        core_distance::moved(data),
        repetitions(data),
        verdicts(data),
        unexplained(data),
        untracked(data),
        shared(data),
    ];
    sentences.into_iter().flatten().chain(notes(data)).collect()
}

/// What the test beds had to say.
fn notes(data: &RunData) -> Vec<String> {
    let texts = data.points.iter().flat_map(|p| &p.point.notes).map(String::as_str);
    let merged = reasons::merged(texts);
    let more = merged.len().saturating_sub(NOTES);
    let mut notes: Vec<_> = merged
        .iter()
        .take(NOTES)
        .map(|(note, n)| {
            if *n == data.points.len() { note.clone() } else { format!("At {}: {note}", count(*n, "point")) }
        })
        .collect();
    notes.extend((more > 0).then(|| format!("Under “Test beds”: {}.", count(more, "further note"))));
    notes
}

fn repetitions(data: &RunData) -> Option<String> {
    let goals = data.points.iter().flat_map(PointData::goals);
    match goals.map(|g| g.repetitions.len()).min()? {
        n @ 0..3 => Some(format!(
            "Some rates have {} only: their spread is unknown, and small differences may be chance.",
            if n == 0 { "no finished repetition".into() } else { count(n, "repetition") }
        )),
        n @ 3..5 => Some(format!("Some rates have only {n} repetitions: their intervals are wide.")),
        _ => None,
    }
}

pub(super) fn verdicts(data: &RunData) -> Option<String> {
    // What was captured, or reported, in spite of a disturbance counts.
    let listens = |p: &PointData| {
        matches!(p.measures(), Some(Measures::Capture | Measures::CaptureTool | Measures::Detector))
    };
    let points = data.points.iter().filter(|p| !p.is_ceiling());
    let all: Vec<_> = points.flat_map(|p| p.measured().map(move |t| (t.verdict, listens(p)))).collect();
    let odd = all.iter().filter(|(verdict, _)| *verdict != Verdict::Valid);
    let (counted, unused): (Vec<_>, Vec<_>) =
        odd.partition(|(verdict, listens)| *listens && *verdict == Verdict::Noisy);
    let kinds = [Verdict::TesterLimited, Verdict::Noisy, Verdict::Invalid].map(|verdict| {
        let n = unused.iter().filter(|(other, _)| *other == verdict).count();
        (n > 0).then(|| format!("{n} {}", verdict.name()))
    });
    let (kinds, trials): (Vec<_>, _) = (kinds.into_iter().flatten().collect(), count(all.len(), "trial"));
    let mut sentences = Vec::new();
    if !unused.is_empty() {
        let (n, kinds) = (unused.len(), list(&kinds));
        sentences.push(format!("{n} of {trials} of devices are not valid ({kinds}) and were not used."));
    }
    if !all.is_empty() && unused.len() == all.len() {
        sentences.push("No trial of a device is valid: the rates cannot be used.".into());
    }
    if !counted.is_empty() {
        let n = counted.len();
        sentences.push(format!("{n} of {trials} are noisy; of these, only the ones without loss count."));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn unexplained(data: &RunData) -> Option<String> {
    let trials = || data.points.iter().flat_map(PointData::valid);
    let lost: u64 = trials().map(|t| t.counts().lost).sum();
    let open: u64 = trials().map(|t| t.counts().unexplained.unsigned_abs()).sum();
    (lost > 0 && open as f64 / lost as f64 > UNEXPLAINED).then(|| {
        format!("{} of all lost frames are not explained by any counter.", percent(open as f64 / lost as f64))
    })
}

/// Whether the trials were too short to make a connection of each flow.
pub(super) fn untracked(data: &RunData) -> Option<String> {
    let found = data.points.iter().filter_map(|point| {
        let flows: u64 = point.setting("flows")?.parse().ok()?;
        let most = point.valid().filter_map(|t| t.cost.conntrack_entries).max()?;
        let few = most > 0 && (most as f64) < MOST_FLOWS * flows as f64;
        few.then(|| format!("{} of {}", full(most as f64), full(flows as f64)))
    });
    let mut found: Vec<_> = found.collect();
    let points = found.len();
    found.sort();
    found.dedup();
    (points > 0).then(|| {
        format!(
            "At {} the device tracked fewer connections than there are flows ({}): the cost of all of them is unknown; \
             longer trials establish more.",
            count(points, "point"),
            list(&found)
        )
    })
}

fn shared(data: &RunData) -> Option<String> {
    let silent = |p: &&PointData| !p.point.cpus_shared.is_empty() && p.point.notes.is_empty();
    let points = data.points.iter().filter(|p| !p.is_ceiling()).filter(silent);
    let n = points.count();
    (n > 0).then(|| {
        format!("At {} tester and device share a CPU: the device alone would be faster.", count(n, "point"))
    })
}

#[cfg(test)]
mod tests;
