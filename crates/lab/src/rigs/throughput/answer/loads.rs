//! Loads that the plan names, without a search: what came through, what was lost, and what it cost.

use super::axes::{Axes, Group};
use crate::record::{Latency, Purpose, Trial};
use crate::report::answer::{Answer, trust};
use crate::run_data::{PointData, RunData, latency};
use crate::stats::median;
use crate::view::Table;
use crate::view::format::{full, or_dash, percent, si, time_ns};

const COLUMNS: &str = "offered, received: frames/s; lost: share of the frames sent; cycles: reference cycles of the device per frame; \
    p99: 99th percentile of the latency. Medians of the valid trials.";
const FIXED: &str = "fixed";

/// `None` where rates were searched for.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[]);
    let groups = axes.groups(data);
    let all: Vec<(&Group<'_>, Vec<AtLoad>)> =
        groups.iter().map(|group| (group, loads(group.points.first().copied()))).collect();
    if all.iter().all(|(_, loads)| loads.is_empty()) {
        return None;
    }
    let sentences = all.iter().map(|(group, loads)| sentence(&group.label, loads)).chain(trust(data));
    Some(Answer {
        sentences: sentences.collect(),
        table: table(&axes, &all),
        columns: COLUMNS.into(),
        drawing: None,
    })
}

/// What happened at a load.
struct AtLoad {
    offered_fps: f64,
    received_fps: Option<f64>,
    /// Lost by sent, 0..=1; `None` where no trial is valid.
    loss_ratio: Option<f64>,
    cycles: Option<f64>,
    latency: Option<Latency>,
}

/// The loads of a point that was not searched, the lowest first.
fn loads(point: Option<&PointData>) -> Vec<AtLoad> {
    let is_fixed =
        |point: &&PointData| point.point.result.as_ref().is_some_and(|result| result.search == FIXED);
    let Some(point) = point.filter(is_fixed) else { return Vec::new() };
    let mut trials: Vec<&Trial> = point.measured().filter(|trial| trial.purpose == Purpose::Search).collect();
    trials.sort_by(|a, b| a.counts().offered_fps.total_cmp(&b.counts().offered_fps));
    let is_same = |a: &&Trial, b: &&Trial| a.counts().offered_fps.round() == b.counts().offered_fps.round();
    trials.chunk_by(is_same).map(at_load).collect()
}

fn at_load(trials: &[&Trial]) -> AtLoad {
    let valid: Vec<&Trial> =
        trials.iter().filter(|t| t.verdict == crate::record::Verdict::Valid).copied().collect();
    let values = |of: fn(&Trial) -> Option<f64>| {
        median(&valid.iter().filter_map(|trial| of(trial)).collect::<Vec<_>>())
    };
    let streams: Vec<_> = valid.iter().flat_map(|trial| trial.streams.clone()).collect();
    AtLoad {
        offered_fps: trials.first().map_or(0.0, |trial| trial.counts().offered_fps),
        received_fps: values(|trial| Some(crate::run_data::received_fps(trial))),
        loss_ratio: values(|trial| Some(trial.dut_loss_ratio())),
        cycles: values(|trial| trial.cost.cycles_per_frame),
        latency: latency(&streams),
    }
}

/// Up to which load nothing is lost, and what happens at the highest one.
fn sentence(label: &str, loads: &[AtLoad]) -> String {
    let known: Vec<&AtLoad> = loads.iter().filter(|load| load.loss_ratio.is_some()).collect();
    let (Some(first), Some(last)) = (known.first(), known.last()) else {
        return format!("{label}: no load has a valid trial.");
    };
    let cycles = |load: &AtLoad| {
        load.cycles.map_or_else(String::new, |cycles| format!(" at {} cycles a frame", full(cycles)))
    };
    let clean = known.iter().take_while(|load| load.loss_ratio == Some(0.0)).last();
    let loss = |load: &AtLoad| or_dash(load.loss_ratio, percent);
    match clean {
        Some(clean) if clean.offered_fps >= last.offered_fps => {
            format!(
                "{label} loses nothing at the offered loads, up to {} frames/s{}.",
                si(last.offered_fps),
                cycles(last)
            )
        }
        Some(clean) => format!(
            "{label} loses nothing up to {} frames/s{}, and {} at {} frames/s{}.",
            si(clean.offered_fps),
            cycles(clean),
            loss(last),
            si(last.offered_fps),
            cycles(last)
        ),
        None if known.len() == 1 => {
            format!("{label} loses {} at {} frames/s{}.", loss(first), si(first.offered_fps), cycles(first))
        }
        None => format!(
            "{label} loses {} already at {} frames/s{}, and {} at {} frames/s.",
            loss(first),
            si(first.offered_fps),
            cycles(first),
            loss(last),
            si(last.offered_fps)
        ),
    }
}

fn table(axes: &Axes, all: &[(&Group<'_>, Vec<AtLoad>)]) -> Table {
    let own = ["offered", "received", "lost", "cycles", "median", "p99"];
    let mut table = Table::new(&axes.head().into_iter().chain(own.map(String::from)).collect::<Vec<_>>());
    for (group, load) in all.iter().flat_map(|(group, loads)| loads.iter().map(move |load| (group, load))) {
        let time =
            |of: fn(&Latency) -> u64| or_dash(load.latency.as_ref(), |latency| time_ns(of(latency) as f64));
        let cells = [
            si(load.offered_fps),
            or_dash(load.received_fps, si),
            or_dash(load.loss_ratio, percent),
            or_dash(load.cycles, full),
            time(|latency| latency.p50_ns),
            time(|latency| latency.p99_ns),
        ];
        table.push(group.cells.iter().cloned().chain(cells).collect());
    }
    table.without_empty(&["cycles", "median", "p99"])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run, shown};

    #[test]
    fn loads_losses_and_cycles_without_a_search() {
        let mut data =
            run(&[Measured { dut: "kernel-forward", frame: 64, settings: Vec::new(), fps: 400e3 }]);
        let result = data.points[0].point.result.as_mut().unwrap();
        (result.search, result.goals) = ("fixed".into(), Vec::new());
        let text = shown(&data);
        assert_eq!(
            text.lines().next().unwrap(),
            "kernel-forward loses nothing up to 360 k frames/s at 6 370 cycles a frame, and 33.3 % at 600 k frames/s at 6 370 \
             cycles a frame."
        );
        assert!(text.contains("\noffered  received     lost  cycles  median     p99\n"), "{text}");
    }
}
