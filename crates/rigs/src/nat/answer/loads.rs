//! Which NAT translates how many frames, and how long they take there and back at loads that are the same for all.

use super::super::figure::{LATE, cycles, loss_at, rate, round_trip_at, shared_loads, value};
use super::super::plan::Step;
use super::{Bars, beside, bounded, times};
use weir_record::run_data::PointData;
use weir_report::report::answer::Answer;
use weir_report::view::Table;
use weir_report::view::axes::Axes;
use weir_report::view::format::{full, list, or_dash, si, time_ns};

/// Loads that a first screen has room for.
const LOADS: usize = 3;
/// A NAT that loses more than this share at a load is in overload there: its round trips are those of a full queue.
const LOST: f64 = 0.01;

const COLUMNS: &str = "frames/s: translated there and back in overload, or where that was not measured at the loss that the plan \
    allows. cycles: reference cycles of a frame there and back. p99: 99 % of the round trips take no longer at this load, which is \
    the same for all.";
const CAPTION: &str = "Frames/s there and back, with 95 % intervals (whiskers).";
const NO_SHARED_LOAD: &str =
    "Round trips cannot be compared: the NATs had no load in common (nat.loads_fps gives them some).";

pub(super) fn answer(points: &[&PointData], axes: &Axes) -> Answer {
    let loads = chosen(points);
    let found = [translated(points, axes), trips(points, axes, &loads)].into_iter().flatten();
    let found: Vec<String> = found.collect();
    let mut sentences: Vec<String> =
        (!found.is_empty()).then(|| format!("{}.", found.join("; "))).into_iter().collect();
    sentences.extend(loads.is_empty().then(|| NO_SHARED_LOAD.to_string()));
    sentences.extend(bounded(points));
    Answer {
        sentences,
        table: table(points, axes, &loads),
        columns: COLUMNS.into(),
        drawing: Bars { axes, by: &[], unit: "frames/s", caption: CAPTION }.draw(points, rate),
    }
}

/// Loads at which most NATs were measured: the least, one in the middle and the highest of them.
fn chosen(points: &[&PointData]) -> Vec<f64> {
    let measured = |fps: f64| points.iter().filter(|data| late(data, fps).is_some()).count();
    let all = shared_loads(points);
    let most = all.iter().map(|fps| measured(*fps)).max().unwrap_or(0);
    let all: Vec<f64> = all.into_iter().filter(|fps| most > 0 && measured(*fps) == most).collect();
    if all.len() <= LOADS {
        return all;
    }
    [0, all.len() / 2, all.len() - 1].map(|at| all[at]).to_vec()
}

/// The 99th percentile of the round trip at this load, s.
fn late(data: &PointData, fps: f64) -> Option<f64> {
    value(data, &round_trip_at(LATE, Step::Fps(fps)))
}

/// How many frames the first NAT translates, and how many times as many the others.
fn translated(points: &[&PointData], axes: &Axes) -> Option<String> {
    let (base, others) = points.split_first()?;
    let first = rate(base)?;
    let other = |data: &&PointData| {
        let name = axes.name(&data.point);
        let ratio = beside(base, data).map(times);
        Some(format!("{name} {}", ratio.or_else(|| rate(data).map(|rate| rate.words()))?))
    };
    let others: Vec<String> = others.iter().filter_map(other).collect();
    let base = format!("{} translates {} frames/s there and back", axes.name(&base.point), first.words());
    Some(if others.is_empty() { base } else { format!("{base}, {}", list(&others)) })
}

/// How long round trips take at the highest load that all had and none was in overload at.
fn trips(points: &[&PointData], axes: &Axes, loads: &[f64]) -> Option<String> {
    let is_carried = |fps: &&f64| {
        points.iter().all(|data| value(data, &loss_at(Step::Fps(**fps))).is_none_or(|loss| loss <= LOST))
    };
    let fps = *loads.iter().rev().find(is_carried)?;
    let trip = |data: &&PointData| {
        Some(format!("{} through {}", time_ns(late(data, fps)? * 1e9), axes.name(&data.point)))
    };
    let trips: Vec<String> = points.iter().filter_map(trip).collect();
    Some(format!("at {} frames/s 99 % of the round trips take at most {}", si(fps), list(&trips)))
}

fn table(points: &[&PointData], axes: &Axes, loads: &[f64]) -> Table {
    let own = ["NAT", "frames/s", "95 % interval", "cycles"].map(String::from);
    let late_at = loads.iter().map(|fps| format!("p99 at {}", si(*fps)));
    let head: Vec<String> = axes.head().into_iter().chain(own).chain(late_at).collect();
    let mut table = Table::new(&head);
    for data in points {
        let found = rate(data);
        let interval = found.and_then(|rate| rate.interval);
        let mut row = axes.cells(&data.point.settings);
        row.extend([
            data.point.dut.clone(),
            or_dash(found, |rate| rate.sign()),
            or_dash(interval, |(low, high)| format!("{}–{}", si(low), si(high))),
            or_dash(cycles(data), full),
        ]);
        row.extend(loads.iter().map(|fps| or_dash(late(data, *fps), |seconds| time_ns(seconds * 1e9))));
        table.push(row);
    }
    table.without_empty(&["frames/s", "95 % interval", "cycles"])
}
