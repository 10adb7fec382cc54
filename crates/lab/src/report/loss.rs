//! Loss against load, one panel per frame size.

use super::format::{full, percent};
use super::lines::{Dot, DotKind, Line, Panel, range};
use super::page::{figure, legend, note, portion_name, portions, section};
use super::series::{Comparison, Series, frame_name};
use super::table::Table;
use crate::record::{Purpose, Trial, Verdict};
use crate::run_data::{PointData, loss_ratio, name};

/// With fewer curve loads than this the line is drawn through all valid trials.
const CURVE_LOADS: usize = 3;
/// Loss below this is drawn at the low end of the axis.
const LEAST_LOSS: f64 = 1e-5;

/// The section; empty without trials.
pub(crate) fn html(all: &Comparison<'_>) -> String {
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

const EXPLANATION: &str = "Lost frames as a share of the frames that the tester really sent, at the load it was \
    asked to send. The axis of loss is logarithmic, so that 0.1 % and 50 % can both be read; trials without \
    any loss are on the line “none”.";
const CAPTION: &str = "Filled: loss curve (line: all valid trials at a load together); hollow: steps of the \
    search; crosses: trials that are not valid. Flag and dotted line: the throughput found.";

/// The devices; the wire only where there is nothing else, since its loads would squeeze all others.
pub(crate) fn drawn<'c, 'a>(all: &'c Comparison<'a>) -> Vec<&'c Series<'a>> {
    let devices: Vec<_> = all.series.iter().filter(|s| !s.is_wire()).collect();
    if devices.is_empty() { all.series.iter().collect() } else { devices }
}

fn has_trials(series: &Series<'_>) -> bool {
    series.points.iter().any(|p| p.measured().next().is_some())
}

fn panel(series: &[&Series<'_>], frame: &str) -> String {
    let points: Vec<_> = series.iter().filter_map(|s| s.at(frame).map(|p| (*s, p))).collect();
    let loads = points.iter().flat_map(|(_, p)| p.measured()).map(|t| t.offered_fps);
    let panel = Panel {
        heading: frame_name(frame),
        x_name: "offered load, frames/s".into(),
        y_text: percent,
        x_range: range(loads),
        y_range: (LEAST_LOSS, 1.0),
        zero: true,
        lines: points.iter().map(|(s, p)| line(s, p)).collect(),
    };
    let marks = points.iter().filter_map(|(s, p)| p.headline_fps().map(|fps| mark(s, fps)));
    panel.draw(&format!("Loss against load, {}", frame_name(frame)), &marks.collect::<Vec<_>>().join("; "))
}

fn mark(series: &Series<'_>, fps: f64) -> String {
    format!("{}: throughput {} frames/s", series.label, full(fps))
}

fn line(series: &Series<'_>, point: &PointData) -> Line {
    let curve = |t: &Trial| t.purpose == Purpose::Curve && t.verdict == Verdict::Valid;
    let has_curve = by_load(point.valid().filter(|t| curve(t))).len() >= CURVE_LOADS;
    let in_line = |t: &Trial| t.verdict == Verdict::Valid && (curve(t) || !has_curve);
    let dot = |t: &Trial| {
        let kind = match (t.verdict == Verdict::Valid, in_line(t)) {
            (true, true) => DotKind::Filled,
            (true, false) => DotKind::Hollow,
            (false, _) => DotKind::Cross,
        };
        Some(Dot { at: (t.offered_fps, loss_ratio(t)?), kind, title: title(series, t) })
    };
    Line {
        style: series.style,
        line: by_load(point.measured().filter(|t| in_line(t))),
        dots: point.measured().filter_map(dot).collect(),
        mark: point.headline_fps().map(|fps| (fps, mark(series, fps))),
    }
}

fn title(series: &Series<'_>, t: &Trial) -> String {
    let loss = loss_ratio(t).map_or_else(|| "nothing sent".into(), percent);
    let load = full(t.offered_fps);
    format!("{}, {load} frames/s: loss {loss}, {} ({})", series.label, t.verdict.name(), name(&t.purpose))
}

/// Loss at each load, trials at the same load together, ascending.
fn by_load<'t>(trials: impl Iterator<Item = &'t Trial>) -> Vec<(f64, f64)> {
    let mut sums: Vec<(f64, u64, u64)> = Vec::new();
    for t in trials.filter(|t| t.sent > 0) {
        match sums.iter_mut().find(|(load, _, _)| (*load / t.offered_fps - 1.0).abs() < 1e-6) {
            Some((_, sent, lost)) => (*sent, *lost) = (*sent + t.sent, *lost + t.lost),
            None => sums.push((t.offered_fps, t.sent, t.lost)),
        }
    }
    sums.sort_by(|a, b| a.0.total_cmp(&b.0));
    sums.into_iter().map(|(load, sent, lost)| (load, lost as f64 / sent as f64)).collect()
}

fn table(series: &[&Series<'_>], frames: &[&str]) -> Table {
    let head = ["Frame", "Device", "Offered frames/s", "For", "Sent", "Received", "Lost", "Loss", "Verdict"];
    let mut table = Table::new(&head);
    let points = frames.iter().flat_map(|f| series.iter().filter_map(|s| s.at(f).map(|p| (*s, p))));
    for (series, point) in points {
        let mut trials: Vec<_> = point.measured().collect();
        trials.sort_by(|a, b| a.offered_fps.total_cmp(&b.offered_fps));
        for t in trials {
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                full(t.offered_fps),
                name(&t.purpose),
                full(t.sent as f64),
                full(t.received as f64),
                full(t.lost as f64),
                loss_ratio(t).map_or_else(|| "–".into(), percent),
                t.verdict.name().into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn trials_at_one_load_are_one_point_of_the_line() {
        let point = fixture::point(0, "kernel-forward", 64, 1000.0);
        let mut trials = point.trials[..3].to_vec();
        for (trial, (load, sent, lost)) in
            trials.iter_mut().zip([(20.0, 100, 10), (10.0, 50, 0), (20.0, 300, 90)])
        {
            (trial.offered_fps, trial.sent, trial.lost) = (load, sent, lost);
        }
        assert_eq!(by_load(trials.iter()), [(10.0, 0.0), (20.0, 0.25)]);
        trials[0].sent = 0;
        assert_eq!(by_load(trials[..1].iter()), [], "nothing sent, nothing known");
    }
}
