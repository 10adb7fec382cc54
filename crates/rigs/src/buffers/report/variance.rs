//! Causes of a result: the share of its variance over the grid that each setting explains.

use super::{Cell, JAIN, SOJOURN, UTILISATION};
use weir_measure::stats::mean;
use weir_report::view::Table;
use weir_report::view::format::{or_dash, percent};

/// Settings that may explain a figure.
const FACTORS: [(&str, &str); 5] = [
    ("queue", "queue"),
    ("buffer_bdp", "buffer"),
    ("flows", "flows"),
    ("mix", "mix"),
    ("rtt_ms", "round trips"),
];

/// Share of the variance of a figure that goes with the mean of each value of a setting (eta squared); `None` where the figure
/// or the setting is the same everywhere.
pub(super) fn share_explained(cells: &[&Cell<'_>], figure: &str, factor: &str) -> Option<f64> {
    let values: Vec<(&str, f64)> =
        cells.iter().filter_map(|cell| Some((cell.setting(factor), cell.value(figure)?))).collect();
    let all = mean(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())?.mean;
    let total: f64 = values.iter().map(|(_, value)| (value - all).powi(2)).sum();
    let mut levels: Vec<&str> = values.iter().map(|(level, _)| *level).collect();
    levels.sort_unstable();
    levels.dedup();
    if levels.len() < 2 || total <= f64::EPSILON {
        return None;
    }
    let between = levels.iter().filter_map(|level| {
        let own: Vec<f64> = values.iter().filter(|(of, _)| of == level).map(|(_, value)| *value).collect();
        Some(own.len() as f64 * (mean(&own)?.mean - all).powi(2))
    });
    Some(between.sum::<f64>() / total)
}

pub(super) fn explained(cells: &[Cell<'_>]) -> Table {
    let cells: Vec<&Cell<'_>> = cells.iter().collect();
    let names: Vec<&str> = std::iter::once("Figure").chain(FACTORS.map(|(_, name)| name)).collect();
    let mut table = Table::new(&names);
    for figure in [JAIN, UTILISATION, SOJOURN] {
        let shares = FACTORS.map(|(factor, _)| or_dash(share_explained(&cells, figure, factor), percent));
        table.push(std::iter::once(figure.to_string()).chain(shares).collect());
    }
    table.without_empty(&names[1..])
}
