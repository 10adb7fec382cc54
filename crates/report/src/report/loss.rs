//! Loss against load, one panel per frame size.

use super::block::Block;
use super::lines::{Axis, Dot, DotKind, Line, Panel, range};
use crate::record::{Trial, Verdict};
use crate::run_data::{PointData, loss_ratio, name};
use crate::view::curve::{by_load, in_line};
use crate::view::format::{full, percent, si};
use crate::view::page::{figure, legend, note, portion_name, portions, section};
use crate::view::{Comparison, Series, Table, frame_name};

/// Loss below this is drawn at the low end of the axis.
const LEAST_LOSS: f64 = 1e-5;

/// The section; empty without trials.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let drawn: Vec<_> = drawn(all).into_iter().filter(|s| has_trials(s)).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let portions = portions(&drawn);
    let figures = portions.iter().enumerate().map(|(i, series)| {
        let panels = all.frames.iter().filter(|f| series.iter().any(|s| s.at(f).is_some()));
        let panels: Vec<_> = panels.map(|frame| panel(series, frame)).collect();
        let caption = format!("{CAPTION}{}", portion_name(i, portions.len()));
        legend(series) + &figure("multiples", &panels, &caption, &table(series, &all.frames))
    });
    section("loss", "Loss against load", &(note(EXPLANATION) + &figures.collect::<String>()))
}

/// The drawing of the first frame size alone.
pub(super) fn first(all: &Comparison<'_>) -> Option<Block> {
    let drawn: Vec<_> = drawn(all).into_iter().filter(|series| has_trials(series)).collect();
    let portion = portions(&drawn).into_iter().next()?;
    let frame = all.frames.iter().find(|frame| portion.iter().any(|series| series.at(frame).is_some()))?;
    Some(Block::Drawing { drawings: vec![panel(&portion, frame)], caption: CAPTION })
}

const EXPLANATION: &str = "Lost frames as a share of the frames that the tester really sent, at the load it was \
    asked to send. The axis of loss is logarithmic, so that 0.1 % and 50 % can both be read; trials without \
    any loss are on the line “none”.";
const CAPTION: &str = "Line: the loss curve, median of the valid trials at a load (without a curve: of all valid \
    trials). Specks: steps of the search; crosses: trials that are not valid; those beyond the axis are in the \
    table. Flag and dotted line: the throughput found.";

/// The devices; the wire only where there is nothing else, since its loads would squeeze all others.
pub(super) fn drawn<'c, 'a>(all: &'c Comparison<'a>) -> Vec<&'c Series<'a>> {
    let devices: Vec<_> = all.series.iter().filter(|s| !s.is_ceiling()).collect();
    if devices.is_empty() { all.series.iter().collect() } else { devices }
}

fn has_trials(series: &Series<'_>) -> bool {
    series.points.iter().any(|p| p.measured().next().is_some())
}

fn panel(series: &[&Series<'_>], frame: &str) -> String {
    let points: Vec<_> = series.iter().filter_map(|s| s.at(frame).map(|p| (*s, p))).collect();
    let panel = Panel {
        heading: frame_name(frame),
        x_name: "offered load, frames/s".into(),
        x_text: si,
        y_text: percent,
        x_range: load_range(points.iter().map(|(_, p)| *p)),
        y_range: (LEAST_LOSS, 1.0),
        y_axis: Axis::LogWithZero,
        lines: points.iter().map(|(s, p)| line(s, p)).collect(),
    };
    let marks = points.iter().filter_map(|(s, p)| p.headline_fps().map(|fps| mark(s, fps)));
    panel.draw(&format!("Loss against load, {}", frame_name(frame)), &marks.collect::<Vec<_>>().join("; "))
}

fn mark(series: &Series<'_>, fps: f64) -> String {
    format!("{}: throughput {} frames/s", series.label, full(fps))
}

fn line(series: &Series<'_>, point: &PointData) -> Line {
    let dot = |t: &Trial| {
        let kind = match (t.verdict == Verdict::Valid, in_line(point, t)) {
            (_, true) => DotKind::Filled,
            (true, false) => DotKind::Faint,
            (false, false) => DotKind::Cross,
        };
        Some(Dot { at: (t.counts().offered_fps, loss_ratio(t)?), kind, title: title(series, t) })
    };
    let values = point.measured().filter(|t| in_line(point, t));
    Line {
        style: series.style,
        line: by_load(values.filter_map(|t| Some((t.counts().offered_fps, loss_ratio(t)?)))),
        dots: point.at_loads().filter_map(dot).collect(),
        mark: point.headline_fps().map(|fps| (fps, mark(series, fps))),
    }
}

/// Loads of the lines and the rates found. A search begins far above all of them, where nothing is to be seen.
pub(super) fn load_range<'p>(points: impl Iterator<Item = &'p PointData>) -> (f64, f64) {
    range(points.flat_map(|p| {
        let line = p.measured().filter(|t| in_line(p, t)).map(|t| t.counts().offered_fps);
        line.chain(p.headline_fps())
    }))
}

fn title(series: &Series<'_>, t: &Trial) -> String {
    let loss = loss_ratio(t).map_or_else(|| "nothing sent".into(), percent);
    let load = full(t.counts().offered_fps);
    format!("{}, {load} frames/s: loss {loss}, {} ({})", series.label, t.verdict.name(), name(&t.purpose))
}

fn table(series: &[&Series<'_>], frames: &[&str]) -> Table {
    let head = ["Frame", "Device", "Offered frames/s", "For", "Sent", "Received", "Lost", "Loss", "Verdict"];
    let mut table = Table::new(&head);
    let points = frames.iter().flat_map(|f| series.iter().filter_map(|s| s.at(f).map(|p| (*s, p))));
    for (series, point) in points {
        let mut trials: Vec<_> = point.at_loads().collect();
        trials.sort_by(|a, b| a.counts().offered_fps.total_cmp(&b.counts().offered_fps));
        for t in trials {
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                full(t.counts().offered_fps),
                name(&t.purpose),
                full(t.counts().sent as f64),
                full(t.counts().received as f64),
                full(t.counts().lost as f64),
                loss_ratio(t).map_or_else(|| "–".into(), percent),
                t.verdict.name().into(),
            ]);
        }
    }
    table
}
