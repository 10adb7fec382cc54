//! Latency against load: one row of panels per frame size, one panel per percentile.

use super::lines::{Axis, Dot, DotKind, Line, Panel, range};
use super::loss::{drawn, load_range};
use crate::record::{Latency, Trial, Verdict};
use crate::run_data::{PointData, latency};
use crate::view::curve::{by_load, in_line};
use crate::view::format::{full, si, time_ns};
use crate::view::page::{figure, legend, note, portion_name, portions, section};
use crate::view::{Comparison, Series, Table, frame_name};

/// A value of a latency distribution, ns.
type Value = fn(&Latency) -> u64;

/// What is drawn.
const PERCENTILES: [(&str, Value); 3] =
    [("median", |l| l.p50_ns), ("99th percentile", |l| l.p99_ns), ("99.9th percentile", |l| l.p999_ns)];

/// The section; without timed trials it says so.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let timed: Vec<_> =
        drawn(all).into_iter().filter(|s| s.points.iter().any(|p| !timed(p).is_empty())).collect();
    if timed.is_empty() {
        let none =
            if all.series.is_empty() { String::new() } else { note("No valid trial measured latency.") };
        return section("latency", "Latency against load", &none);
    }
    let portions = portions(&timed);
    let figures = portions.iter().enumerate().map(|(i, series)| {
        let frames = all.frames.iter().filter(|f| series.iter().any(|s| s.at(f).is_some()));
        let panels: Vec<_> = frames.flat_map(|frame| panels(series, frame)).collect();
        let caption = format!("{CAPTION}{}", portion_name(i, portions.len()));
        legend(series) + &figure("multiples", &panels, &caption, &table(series, &all.frames))
    });
    section("latency", "Latency against load", &(note(EXPLANATION) + &figures.collect::<String>()))
}

const EXPLANATION: &str = "Time from departure to arrival of every frame, measured by the tester; the tester's \
    own path is part of it. Only valid trials; frames that were lost have no latency, so that the values at \
    overload are those of the frames that got through a full queue.";
const CAPTION: &str = "Logarithmic axes of time, the same for all percentiles of a frame size. Line: the curve, \
    median of the trials at a load; specks: steps of the search. Flag and dotted line: the throughput found.";

/// Valid trials with latency, ascending load.
fn timed(point: &PointData) -> Vec<(&Trial, Latency)> {
    let valid = point.at_loads().filter(|t| t.verdict == Verdict::Valid);
    let mut trials: Vec<_> = valid.filter_map(|t| latency(&t.streams).map(|l| (t, l))).collect();
    trials.sort_by(|a, b| a.0.counts().offered_fps.total_cmp(&b.0.counts().offered_fps));
    trials
}

fn panels(series: &[&Series<'_>], frame: &str) -> Vec<String> {
    let points: Vec<_> = series.iter().filter_map(|s| s.at(frame).map(|p| (*s, p, timed(p)))).collect();
    let all = || points.iter().flat_map(|(_, _, trials)| trials);
    if all().next().is_none() {
        return Vec::new();
    }
    let x_range = load_range(points.iter().map(|(_, point, _)| *point));
    let shown = all().filter(|(t, _)| (x_range.0..=x_range.1).contains(&t.counts().offered_fps));
    let y_range = range(shown.flat_map(|(_, l)| PERCENTILES.map(|(_, of)| of(l) as f64)));
    let panel = |(name, of): (&str, Value)| {
        let lines = points.iter().map(|(series, point, trials)| line(series, point, trials, of));
        let panel = Panel {
            heading: format!("{}, {name}", frame_name(frame)),
            x_name: "offered load, frames/s".into(),
            x_text: si,
            y_text: time_ns,
            x_range,
            y_range,
            y_axis: Axis::Log,
            lines: lines.collect(),
        };
        panel.draw(
            &format!("Latency against load, {}, {name}", frame_name(frame)),
            "The table has the values.",
        )
    };
    PERCENTILES.map(panel).to_vec()
}

fn line(series: &Series<'_>, point: &PointData, trials: &[(&Trial, Latency)], of: Value) -> Line {
    let dots = trials.iter().map(|(t, l)| {
        let (load, ns) = (t.counts().offered_fps, of(l) as f64);
        let kind = if in_line(point, t) { DotKind::Filled } else { DotKind::Faint };
        let title = format!("{}, {} frames/s: {}", series.label, full(load), time_ns(ns));
        Dot { at: (load, ns), kind, title }
    });
    let dots: Vec<_> = dots.collect();
    Line {
        style: series.style,
        line: by_load(dots.iter().filter(|d| d.kind == DotKind::Filled).map(|d| d.at)),
        dots,
        mark: point
            .headline_fps()
            .map(|fps| (fps, format!("{}: throughput {} frames/s", series.label, full(fps)))),
    }
}

fn table(series: &[&Series<'_>], frames: &[&str]) -> Table {
    let head = [
        "Frame",
        "Device",
        "Offered frames/s",
        "Frames timed",
        "min ns",
        "p50 ns",
        "p90 ns",
        "p99 ns",
        "p99.9 ns",
        "max ns",
    ];
    let mut table = Table::new(&head);
    let points = frames.iter().flat_map(|f| series.iter().filter_map(|s| s.at(f).map(|p| (*s, p))));
    for (series, point) in points {
        for (t, l) in timed(point) {
            let mut row = vec![point.point.frame.clone(), series.label.clone(), full(t.counts().offered_fps)];
            let values = [l.count, l.min_ns, l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns];
            row.extend(values.map(|v| full(v as f64)));
            table.push(row);
        }
    }
    table
}
