//! Throughput against frame size: the graph that RFC 2544, section 26.1, asks for.

use super::lines::{Axis, Dot, DotKind, Line, Panel, range};
use super::loss::drawn;
use crate::run_data::PointData;
use crate::tables::maximum_fps;
use crate::view::format::{full, si};
use crate::view::page::{figure, legend_of};
use crate::view::{Comparison, Rate, Series, Style, Table, frame_name};

/// How the maximum is drawn.
const MAXIMUM: Style = Style { colour: 0, marker: 5, pattern: 1 };

/// The figure; empty with fewer than two frame sizes.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let series: Vec<_> = drawn(all).into_iter().filter(|s| line(s).line.len() > 1).collect();
    let Some((maximum, name)) = series.iter().find_map(|s| maximum(all, s)) else { return String::new() };
    let lines: Vec<Line> = std::iter::once(maximum).chain(series.iter().map(|s| line(s))).collect();
    let values = || lines.iter().flat_map(|l| l.line.iter().copied());
    let panel = Panel {
        heading: "frames/s by frame size".into(),
        x_name: "frame size, bytes".into(),
        x_text: full,
        y_text: si,
        x_range: range(values().map(|(bytes, _)| bytes)),
        y_range: range(values().map(|(_, fps)| fps)),
        y_axis: Axis::Log,
        lines,
    };
    let labels = series.iter().map(|s| (s.style, s.label.as_str()));
    let legend = legend_of(std::iter::once((MAXIMUM, name)).chain(labels));
    let drawing = panel.draw("Throughput against frame size", "The table below has the values.");
    legend + &figure("multiples", &[drawing], CAPTION, &Table::default())
}

const CAPTION: &str = "Frames/s of the first goal against frame size (RFC 2544, section 26.1), and the most that there \
    can be. Logarithmic axes.";

/// Frame size, where it is a single one, and rate.
fn at(point: &PointData, fps: f64) -> Option<(f64, f64)> {
    point.point.frame.parse().ok().map(|bytes| (bytes, fps))
}

fn line(series: &Series<'_>) -> Line {
    let mut dots: Vec<Dot> = series
        .points
        .iter()
        .filter_map(|p| {
            let rate = p.goals().first().and_then(Rate::of)?;
            let size = frame_name(&p.point.frame);
            let title = format!("{}, {size}: {}{} frames/s", series.label, rate.bound.sign(), full(rate.fps));
            Some(Dot { at: at(p, rate.fps)?, kind: DotKind::Filled, title })
        })
        .collect();
    dots.sort_by(|a, b| a.at.0.total_cmp(&b.at.0));
    Line { style: series.style, line: dots.iter().map(|d| d.at).collect(), dots, mark: None }
}

/// The maximum at each frame size of a series, and what it is that of.
fn maximum(all: &Comparison<'_>, series: &Series<'_>) -> Option<(Line, &'static str)> {
    let found = series.points.iter().filter_map(|p| {
        let (fps, of) = maximum_fps(all, series, p)?;
        Some((at(p, fps)?, of))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    let (_, of) = *found.first()?;
    let name = match of {
        "the line" => "theoretical maximum of the line",
        "the tester" => "what the tester sends",
        _ => "the wire without a device",
    };
    let line = Line {
        style: MAXIMUM,
        line: found.iter().map(|(at, _)| *at).collect(),
        dots: Vec::new(),
        mark: None,
    };
    Some((line, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_graph_has_a_line_per_device_and_the_maximum() {
        let mut data = fixture::quick();
        let lines = |data: &crate::run_data::RunData| {
            let text = html(&Comparison::new(std::slice::from_ref(data)));
            (
                text.matches("<polyline").count(),
                text.contains("theoretical maximum"),
                text.contains("without a device"),
            )
        };
        assert_eq!(lines(&data), (6, true, false), "five devices and the line");
        data.points.iter_mut().for_each(|p| p.point.line_fps = None);
        assert_eq!(lines(&data), (6, false, true), "five devices and the wire");
        data.points.retain(|p| p.point.frame == "64");
        assert_eq!(lines(&data), (0, false, false), "one size is no graph");
    }
}
