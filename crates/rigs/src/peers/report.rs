//! What the reports of all three comparisons share: one bar and one row per point, points in groups, and ratios to weir.

use weir_measure::stats;
use weir_record::record::Bound;
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart, Group};
use weir_report::report::block::Block;
use weir_report::view::format::or_dash;
use weir_report::view::{Ratio, Style, Table};

use super::contest::is_own;

/// Items with the same key, in the order of their first one.
pub(super) fn grouped<T, K: PartialEq>(
    all: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in all {
        match groups.iter_mut().find(|group| key(&group[0]) == key(&item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Each text once, in the order of its first occurrence.
pub(super) fn unique<'s>(texts: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    grouped(texts, |text| *text).into_iter().map(|same| same[0]).collect()
}

/// The bar of a program; `text` stands behind it.
pub(super) fn bar(name: &str, value: Option<f64>, interval: Option<(f64, f64)>, text: String) -> Bar {
    let own = is_own(name);
    let style = Style { colour: if own { 1 } else { 2 }, marker: 0, pattern: usize::from(!own) };
    let (label, title) = (name.to_string(), format!("{name}: {text}"));
    Bar { label, value, parts: Vec::new(), interval, ticks: Vec::new(), text, title, style, fits: true }
}

/// A bar chart: its heading, the unit of its axis, and how a bar is read aloud after the label of its group.
pub(super) struct Chart {
    pub(super) heading: &'static str,
    pub(super) unit: &'static str,
    pub(super) number: fn(f64) -> String,
    pub(super) said: fn(&str, &Bar) -> String,
}

impl Chart {
    /// Draws a bar for each item, in groups with the same label.
    pub(super) fn draw<T: Copy>(
        &self,
        items: impl IntoIterator<Item = T>,
        label: impl Fn(&T) -> String,
        bar: impl Fn(T) -> Bar,
    ) -> String {
        let group = |items: Vec<T>| {
            let bars = items.iter().map(|item| bar(*item)).collect();
            Group { label: label(&items[0]), bars, limit: None }
        };
        let groups: Vec<Group> = grouped(items, &label).into_iter().map(group).collect();
        let said =
            |group: &Group| group.bars.iter().map(|bar| (self.said)(&group.label, bar)).collect::<Vec<_>>();
        let texts = groups.iter().flat_map(said).collect::<Vec<_>>().join("; ");
        let (unit, number) = (self.unit.into(), self.number);
        BarChart { groups, unit, number, limit_name: String::new() }.draw(self.heading, &texts)
    }
}

/// A drawing and what it shows.
pub(super) fn drawing(chart: String, caption: &'static str) -> Block {
    Block::Drawing { drawings: vec![chart], caption }
}

/// The answer of a comparison.
pub(super) fn answer(sentences: Vec<String>, table: Table, columns: &str, drawing: Block) -> Answer {
    Answer { sentences, table, columns: columns.into(), drawing: Some(drawing) }
}

/// A table with these columns, separated by ` | `.
pub(super) fn table(columns: &str) -> Table {
    Table::new(&columns.split(" | ").collect::<Vec<_>>())
}

/// An interval as a cell of a table.
pub(super) fn span(interval: Option<(f64, f64)>, number: fn(f64) -> String) -> String {
    or_dash(interval, |(low, high)| format!("{} – {}", number(low), number(high)))
}

/// The ratio of two series of values, round by round; rounds in which one of the two has no value are left out.
pub(super) fn by_rounds(
    own: impl IntoIterator<Item = Option<f64>>,
    other: impl IntoIterator<Item = Option<f64>>,
) -> Option<stats::Ratio> {
    let pairs = own.into_iter().zip(other).filter_map(|(own, other)| own.zip(other));
    stats::ratio(&pairs.collect::<Vec<_>>())
}

/// A ratio of rounds with what it bounds; `None` where nothing follows because both rates are bounds.
pub(super) fn bounded(value: f64, interval: Option<(f64, f64)>, [own, other]: [Bound; 2]) -> Option<Ratio> {
    let bound = own.over(other);
    (bound != Bound::NoResult).then_some(Ratio { value, interval, bound })
}

/// Does a ratio leave open which of the two is faster?
pub(super) fn is_open(interval: Option<(f64, f64)>) -> bool {
    interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
}
