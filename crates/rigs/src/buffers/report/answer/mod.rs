//! The answer of a grid: one rule for each kind of grid, selected by the settings that vary. The most specific rule comes first.

mod beds;
mod changes;
mod delay;
mod root;
mod shares;
mod sizes;

use super::{Cell, cells};
use weir_measure::stats::median;
use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::view::format::or_dash;

/// A link counts as full from here on.
const FULL: f64 = 0.95;
/// Rows that a first screen has room for.
const ROWS: usize = 16;

/// What one kind of grid answers; `None` for all other kinds.
type Rule = fn(&[Cell<'_>]) -> Option<Answer>;

/// The last one takes every grid.
const RULES: [Rule; 6] =
    [beds::answer, changes::answer, root::answer, shares::answer, delay::answer, sizes::answer];

/// The answer to the question of a run.
pub(in super::super) fn answer(data: &RunData) -> Option<Answer> {
    let cells = cells(data);
    RULES.iter().find_map(|rule| rule(&cells))
}

/// Cells with the same values of some settings.
pub(super) struct Group<'c, 'a> {
    pub(super) key: Vec<&'c str>,
    cells: Vec<&'c Cell<'a>>,
}

impl Group<'_, '_> {
    fn values(&self, figure: &str) -> Vec<f64> {
        self.cells.iter().filter_map(|cell| cell.value(figure)).collect()
    }

    fn median(&self, figure: &str) -> Option<f64> {
        median(&self.values(figure))
    }

    fn least(&self, figure: &str) -> Option<f64> {
        self.values(figure).into_iter().reduce(f64::min)
    }

    fn most(&self, figure: &str) -> Option<f64> {
        self.values(figure).into_iter().reduce(f64::max)
    }
}

/// The cells by the values of these settings, in the order of the plan.
fn grouped<'c, 'a>(cells: impl IntoIterator<Item = &'c Cell<'a>>, settings: &[&str]) -> Vec<Group<'c, 'a>>
where
    'a: 'c,
{
    let mut groups: Vec<Group<'c, 'a>> = Vec::new();
    for cell in cells {
        let key: Vec<&str> = settings.iter().map(|name| cell.setting(name)).collect();
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group { key, cells: vec![cell] }),
        }
    }
    groups
}

/// The values of a setting, in the order of the plan.
fn levels<'c>(cells: &'c [Cell<'_>], setting: &str) -> Vec<&'c str> {
    grouped(cells, &[setting]).into_iter().map(|group| group.key[0]).collect()
}

/// The values of a setting that is a number, ascending.
fn ascending<'c>(cells: &'c [Cell<'_>], setting: &str) -> Vec<&'c str> {
    let mut levels = levels(cells, setting);
    levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
    levels
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// Those of these settings that vary; the last ones are left out where that makes more rows than a first screen has room for.
fn row_settings<'s>(cells: &[Cell<'_>], settings: &[&'s str]) -> Vec<&'s str> {
    let mut varying: Vec<&str> =
        settings.iter().copied().filter(|name| levels(cells, name).len() > 1).collect();
    while varying.len() > 1 && grouped(cells, &varying).len() > ROWS {
        varying.pop();
    }
    varying
}

/// The heading of the column of a setting.
fn heading(setting: &str) -> &str {
    match setting {
        "buffer_bdp" => "BDP",
        "rtt_ms" => "RTT, ms",
        name => name,
    }
}

/// `2 flows`.
fn flows(number: &str) -> String {
    format!("{number} flow{}", if number == "1" { "" } else { "s" })
}

/// Jain's index in a table.
fn index(value: Option<f64>) -> String {
    or_dash(value, |jain| format!("{jain:.2}"))
}

#[cfg(test)]
mod tests;
