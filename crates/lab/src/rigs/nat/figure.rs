//! The figures of a NAT: frames translated, round trips at each step, memory of a flow.

use weir_load::translation::NatFault;

use super::plan::Step;
use crate::figure::{figure, unit};
use crate::record::{Figure, Latency, ProcedureResult, Statistic, Translation, Trial, Verdict};
use crate::run_data::{PointData, latency, loss_ratio};

/// Of the procedure in records and of the section in reports.
pub(super) const ID: &str = "nat";
/// Frames/s that came back inside as they should, at most.
pub(super) const TRANSLATED: &str = "translated frames, most";
pub(super) const MEMORY: &str = "memory of a flow";
pub(super) const CYCLES: &str = "cycles of a frame";
/// Units that only this rig has.
pub(super) const BYTES: &str = "bytes";
pub(super) const CYCLES_UNIT: &str = "cycles";

/// Percentiles of the round trip, and their names.
pub(super) type Percentile = (&'static str, fn(&Latency) -> u64);
pub(super) const PERCENTILES: [Percentile; 4] = [
    ("minimum", |l| l.min_ns),
    ("median", |l| l.p50_ns),
    ("99th percentile", |l| l.p99_ns),
    ("99.9th percentile", |l| l.p999_ns),
];

/// Frames/s there and back: in overload where that was measured, else that of the search.
pub(super) fn rate_fps(data: &PointData) -> Option<f64> {
    let capacity = data.capacity().and_then(|capacity| capacity.figures.first()?.value);
    capacity.or_else(|| data.headline_fps())
}

/// What the table of flows takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Footprint {
    /// Flows.
    pub(super) flows: u64,
    /// Memory that came with them.
    pub(super) bytes: f64,
}

/// From this many flows on the memory of one can be seen among everything else.
const VISIBLE_FLOWS: u64 = 10_000;

/// Round trip at a step of load: `round trip at 50 %, median`.
pub(super) fn round_trip_at(percentile: &str, step: Step) -> String {
    format!("round trip at {step}, {percentile}")
}

/// Frames that were lost at a step of load, there and back.
pub(super) fn loss_at(step: Step) -> String {
    format!("{LOSS_AT}{step}")
}

const LOSS_AT: &str = "loss at ";

/// The load in frames/s of such a figure, by its name, if it is the same for all devices.
pub(super) fn shared_load(name: &str) -> Option<f64> {
    name.strip_prefix(LOSS_AT)?.strip_suffix(unit::FRAMES_PER_S)?.trim_end().parse().ok()
}

/// The result of the steps of load.
pub(super) fn procedure(steps: &[(Step, Trial)], footprint: Option<Footprint>) -> ProcedureResult {
    let mut figures = Vec::new();
    let valid: Vec<&(Step, Trial)> =
        steps.iter().filter(|(_, trial)| trial.verdict == Verdict::Valid).collect();
    let most = valid.iter().map(|(_, trial)| inside_fps(trial)).reduce(f64::max);
    figures.extend(most.map(|fps| one(TRANSLATED, unit::FRAMES_PER_S, vec![fps])));
    if let Some(Footprint { flows, bytes }) = footprint.filter(|print| print.flows >= VISIBLE_FLOWS) {
        figures.push(one(MEMORY, BYTES, vec![bytes / flows as f64]));
    }
    let mut planned: Vec<Step> = Vec::new();
    for (step, _) in steps {
        if !planned.contains(step) {
            planned.push(*step);
        }
    }
    for step in &planned {
        let at = || valid.iter().filter(|(other, _)| other == step).map(|(_, trial)| trial);
        let of = |value: fn(&Latency) -> u64| -> Vec<f64> {
            at().filter_map(|t| latency(&t.streams)).map(|l| value(&l) as f64 / 1e9).collect()
        };
        figures.extend(
            PERCENTILES.map(|(name, value)| one(round_trip_at(name, *step), unit::SECONDS, of(value))),
        );
        figures.push(one(loss_at(*step), unit::RATIO, at().filter_map(loss_ratio).collect()));
        if *step == Step::Percent(100.0) {
            let cycles = at().filter_map(|t| t.cost.cycles_per_frame).collect();
            figures.push(one(CYCLES, CYCLES_UNIT, cycles));
        }
    }
    figures.retain(|figure| !figure.values.is_empty());
    let parameters = vec![("flows are established".to_string(), "before each round".to_string())];
    ProcedureResult { procedure: ID.into(), parameters, figures, ..ProcedureResult::default() }
}

fn one(name: impl Into<String>, unit: &str, values: Vec<f64>) -> Figure {
    figure(name, unit, Statistic::Median, values)
}

/// Frames/s that came back inside to whom they belong.
pub(super) fn inside_fps(trial: &Trial) -> f64 {
    let inside = trial.detail::<Translation>().map_or(trial.counts().received, |seen| seen.inside);
    if trial.duration_s > 0.0 { inside as f64 / trial.duration_s } else { 0.0 }
}

/// What a NAT did wrong over several trials, one sentence each.
pub(super) fn mistakes(trials: impl IntoIterator<Item = Translation>) -> Vec<String> {
    let mut sums: Vec<(NatFault, u64)> = Vec::new();
    let mut file = None;
    for seen in trials {
        for (fault, n) in &seen.faults {
            match sums.iter_mut().find(|(known, _)| known == fault) {
                Some((_, sum)) => *sum += n,
                None => sums.push((*fault, *n)),
            }
        }
        file = file.or(seen.evidence);
    }
    let file = file.map_or(String::new(), |file| format!(" (frames in {file})"));
    sums.into_iter().map(|(fault, n)| format!("broken NAT: {n} {}{file}", fault.text())).collect()
}
