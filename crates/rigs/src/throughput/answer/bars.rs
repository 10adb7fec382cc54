//! The drawing of an answer: the rates that it compares, in groups.

use weir_record::run_data::PointData;
use weir_report::report::answer::headline;
use weir_report::report::bars::{Bar, BarChart, Group as Rows};
use weir_report::report::block::Block;
use weir_report::view::Style;
use weir_report::view::format::si;

/// Bars that a first screen holds.
const MOST: usize = 28;
const CAPTION: &str = "Frames/s in steady overload, or where that was not measured those that meet the first goal, with 95 % \
    intervals (whiskers).";

/// Bars with a heading.
pub(super) struct Group<'a> {
    pub(super) label: String,
    /// With the name of each.
    pub(super) points: Vec<(String, &'a PointData)>,
}

/// The rates of some points; `None` where there are none, or too many.
pub(super) fn of_rates(groups: Vec<Group<'_>>) -> Option<Block> {
    let bars: usize = groups.iter().map(|group| group.points.len()).sum();
    let any = groups.iter().flat_map(|group| &group.points).any(|(_, point)| headline(point).is_some());
    if !any || bars > MOST {
        return None;
    }
    let rows = groups.into_iter().map(|group| {
        let bars = group.points.iter().enumerate().map(|(i, (label, point))| bar(i, label, point)).collect();
        Rows { label: group.label, bars, limit: None }
    });
    let (unit, limit_name) = ("frames/s".into(), String::new());
    let chart = BarChart { groups: rows.collect(), unit, number: si, limit_name };
    Some(Block::Wide(chart.draw("Frames/s", "The numbers are in the table."), CAPTION))
}

fn bar(index: usize, label: &str, point: &PointData) -> Bar {
    let rate = headline(point);
    let text = rate.map_or_else(|| "no rate".into(), |rate| rate.sign());
    Bar {
        label: label.to_string(),
        value: rate.map(|rate| rate.fps),
        parts: Vec::new(),
        interval: rate.and_then(|rate| rate.interval),
        ticks: Vec::new(),
        title: format!("{label}: {text} frames/s"),
        text,
        style: Style { colour: 1 + index % 7, marker: index, pattern: index / 7 },
        fits: true,
    }
}
