//! The figures of a NAT: frames translated, round trips at each step, memory of a flow.

use super::capacity::IS_LOWER_BOUND;
use super::plan::Step;
use weir_record::figure::{figure, name, unit};
use weir_record::record::{Figure, Latency, ProcedureResult, Statistic, Translation, Trial, Verdict};
use weir_record::run_data::{PointData, latency, loss_ratio};
use weir_report::report::answer::headline;
use weir_report::view::{Bound, Rate};

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
pub(super) const LATE: &str = "99th percentile";
pub(super) const PERCENTILES: [Percentile; 4] = [
    ("minimum", |l| l.min_ns),
    ("median", |l| l.p50_ns),
    (LATE, |l| l.p99_ns),
    ("99.9th percentile", |l| l.p999_ns),
];

/// Frames/s there and back: in overload where that was measured, else that of the search; a lower bound where the tester could
/// offer no more.
pub(super) fn rate(data: &PointData) -> Option<Rate> {
    let rate = headline(data)?;
    let irregular = data.capacity().map_or(&[][..], |capacity| &capacity.irregular);
    let is_lower = irregular.iter().any(|text| text.contains(IS_LOWER_BOUND));
    Some(if is_lower { Rate { bound: Bound::AtLeast, ..rate } } else { rate })
}

/// The same without what it bounds.
pub(super) fn rate_fps(data: &PointData) -> Option<f64> {
    rate(data).map(|rate| rate.fps)
}

/// Reference cycles of a frame there and back, at that rate.
pub(super) fn cycles(data: &PointData) -> Option<f64> {
    let of_capacity = || {
        let figures = &data.capacity()?.figures;
        figures.iter().find(|figure| figure.name.starts_with(name::CYCLES))?.value
    };
    let near = || {
        let near = data.at_headline().into_iter().filter_map(|trial| trial.cost.cycles_per_frame);
        weir_measure::stats::median(&near.collect::<Vec<_>>())
    };
    of_capacity().or_else(|| value(data, CYCLES)).or_else(near)
}

/// All figures of a point.
pub(super) fn figures(data: &PointData) -> impl Iterator<Item = &Figure> {
    let procedures = data.point.result.iter().flat_map(|result| &result.procedures);
    procedures.flat_map(|procedure| &procedure.figures)
}

/// A figure of a point by its name.
pub(super) fn value(data: &PointData, name: &str) -> Option<f64> {
    figures(data).find(|figure| figure.name == name)?.value
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

/// Loads in frames/s that were the same for all devices, the least first.
pub(super) fn shared_loads(points: &[&PointData]) -> Vec<f64> {
    let of_figure = |figure: &Figure| -> Option<f64> {
        let load = figure.name.strip_prefix(LOSS_AT)?.strip_suffix(unit::FRAMES_PER_S)?;
        load.trim_end().parse().ok()
    };
    let mut loads: Vec<f64> = points.iter().flat_map(|data| figures(data).filter_map(of_figure)).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
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

/// Frames/s that returned to the right inside host.
pub(super) fn inside_fps(trial: &Trial) -> f64 {
    let inside = trial.detail::<Translation>().map_or(trial.counts().received, |seen| seen.inside);
    if trial.duration_s > 0.0 { inside as f64 / trial.duration_s } else { 0.0 }
}
