//! Charts of the grid: maps, boxes, and the course over time of the most extreme points.

use super::answer::Group;
use super::{CONVERGENCE, Cell, JAIN, SOJOURN, UTILISATION, maps};
use crate::buffers::history::{self, History};
use weir_report::report::block::Block;
use weir_report::report::boxes::BoxPlot;
use weir_report::report::heat::HeatMap;
use weir_report::report::lines::{Axis, Line, Panel};
use weir_report::view::Style;
use weir_report::view::format::{bytes, si, significant, time_ns};

/// Points of which the course is drawn.
const COURSES: usize = 5;

const BOXES: &str = "How the figures scatter over the points of a queue: least, lower quartile, median, upper quartile, largest. \
    Flows have converged at the first of five seconds in a row in which Jain's index is at least 0.9.";

const COURSE: &str = "Of the first repetition, from its start on. Rates of a simulation are those at the bottleneck, rates of a real \
    bed those of the payload at the receiver; each value is the mean of a step of the drawing.";

pub(super) fn heat(cells: &[Cell<'_>], figure: &str) -> Vec<String> {
    let draw = |(name, map): (String, Vec<&Cell<'_>>)| {
        let mut heat = HeatMap::new(format!("{figure}: {name}"));
        for cell in map {
            heat.set(cell.setting("queue"), cell.setting("buffer_bdp"), cell.value(figure));
        }
        heat.draw()
    };
    maps(cells).into_iter().map(draw).collect()
}

/// A heat map: a number for each group of points, by row and column.
pub(super) fn map(title: &str, groups: &[Group<'_, '_>], value: fn(&Group<'_, '_>) -> Option<f64>) -> String {
    let mut heat = HeatMap::new(title.into());
    for group in groups {
        heat.set(group.key[0], group.key[1], value(group));
    }
    heat.draw()
}

/// Boxes of fairness, delay and convergence by queue, of each bed.
pub(super) fn boxes(cells: &[Cell<'_>]) -> Vec<Block> {
    let kind =
        |cell: &Cell<'_>| format!("{}{}", cell.setting("queue"), if cell.is_real() { ", real" } else { "" });
    let mut kinds: Vec<String> = Vec::new();
    cells.iter().map(kind).for_each(|kind| {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    });
    let of = |title: &str, figure: &'static str, number: fn(f64) -> String, log: bool| {
        let values = |name: &String| {
            let own =
                cells.iter().filter(|cell| kind(cell) == *name && (figure != JAIN || cell.flows() > 1.0));
            (name.clone(), own.filter_map(|cell| cell.value(figure)).collect())
        };
        BoxPlot { title: title.into(), rows: kinds.iter().map(values).collect(), number, log }.draw()
    };
    let drawings: Vec<String> = [
        of("Jain's index", JAIN, significant, false),
        of("Utilisation", UTILISATION, significant, false),
        of("Sojourn, p99", SOJOURN, |s| time_ns(s * 1e9), true),
        of("Convergence, s", CONVERGENCE, significant, false),
    ]
    .into_iter()
    .flatten()
    .collect();
    vec![Block::Heading("Scatter by queue"), Block::Drawing { drawings, caption: BOXES }]
}

/// The points that stand out, each by a word; and with a point of a real bed its simulated twin.
fn standing_out<'c, 'a>(cells: &'c [Cell<'a>]) -> Vec<(&'static str, &'c Cell<'a>)> {
    let with = || cells.iter().filter(|cell| cell.detail::<History>().is_some());
    let by = |figure: &'static str| {
        let mut own: Vec<(&Cell<'_>, f64)> =
            with().filter_map(|cell| Some((cell, cell.value(figure)?))).collect();
        own.sort_by(|a, b| a.1.total_cmp(&b.1));
        own
    };
    let (fair, full, delay) = (by(JAIN), by(UTILISATION), by(SOJOURN));
    let several = |of: &&(&Cell<'_>, f64)| of.0.flows() > 1.0;
    let found = [
        ("least fair", fair.iter().find(several)),
        ("fairest", fair.iter().rev().find(several)),
        ("lowest utilisation", full.first()),
        ("longest queue", delay.last()),
    ];
    let mut chosen: Vec<(&'static str, &Cell<'_>)> = Vec::new();
    for (word, cell) in found.into_iter().filter_map(|(word, found)| Some((word, found?.0))) {
        // What stands out on a real bed stands beside the same point in the simulator.
        let twin =
            cells.iter().find(|other| other.is_real() != cell.is_real() && other.is_same_traffic(cell));
        for (word, cell) in [(word, Some(cell)), ("the same on the other bed", twin)] {
            let Some(cell) = cell else { continue };
            if chosen.len() < COURSES && !chosen.iter().any(|(_, known)| std::ptr::eq(*known, cell)) {
                chosen.push((word, cell));
            }
        }
    }
    chosen
}

/// The course of points that stand out.
pub(super) fn courses(cells: &[Cell<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (word, cell) in standing_out(cells) {
        let Some(history) = cell.detail::<History>() else { continue };
        let name = format!("{}, {}", cell.setting("queue"), cell.name());
        blocks.push(Block::Sentence(format!("{name}: {word}.")));
        blocks.push(Block::Legend(
            (0..).zip(&history.lines).map(|(i, line)| (style(i), line.name.clone())).collect(),
        ));
        blocks.push(Block::Drawing {
            drawings: panels(&history, &name),
            caption: "Rates, congestion windows and the queue over time.",
        });
    }
    if !blocks.is_empty() {
        blocks.insert(0, Block::Heading("The course of points that stand out"));
        blocks.push(Block::Note(COURSE.into()));
    }
    blocks
}

fn style(number: usize) -> Style {
    Style { colour: 1 + number % 7, marker: number % 4, pattern: number / 7 % 4 }
}

fn panels(history: &History, name: &str) -> Vec<String> {
    let end_s = history.queue_bytes.len() as f64 * history.interval_s;
    let panel = |heading: &str, y_text: fn(f64) -> String, lines: Vec<Line>| {
        let highest = lines.iter().flat_map(|line| &line.line).map(|(_, y)| *y).fold(0.0, f64::max);
        let panel = Panel {
            heading: heading.into(),
            x_name: "s".into(),
            x_text: significant,
            y_text,
            x_range: (0.0, end_s),
            y_range: (0.0, highest),
            y_axis: Axis::Linear,
            lines,
        };
        panel.draw(&format!("{heading}: {name}"), "The record has the values.")
    };
    let line = |number: usize, values: &[f64]| {
        let at = |i: usize| (i as f64 + 0.5) * history.interval_s;
        let line = values.iter().enumerate().map(|(i, value)| (at(i), *value)).collect();
        Line { style: style(number), line, dots: Vec::new(), mark: None }
    };
    let all = |of: fn(&history::Line) -> &[f64]| {
        history.lines.iter().enumerate().map(|(number, own)| line(number, of(own))).collect::<Vec<_>>()
    };
    vec![
        panel("Rate, bit/s", si, all(|line| &line.bits_per_s)),
        panel("Congestion window, segments", si, all(|line| &line.cwnd)),
        panel("Queue", bytes, vec![line(0, &history.queue_bytes)]),
    ]
}
