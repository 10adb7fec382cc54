//! Changes of the rate: how long the queue is after a drop, and how soon the link is full after a rise.

use super::super::{Cell, UTILISATION};
use super::{Group, grouped, heading, row_settings};
use crate::buffers::history::Response;
use weir_measure::stats::median;
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart};
use weir_report::report::block::Block;
use weir_report::view::Table;
use weir_report::view::format::{or_dash, si, significant, time_ns};

const CAPTION: &str = "What follows each change of the rate, median. Shorter is better. A bar with a gap is longer than the axis, and \
    ≥ says that the link was not full before the next change.";

/// A change of the rate.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    at: String,
    to: String,
    is_drop: bool,
    /// Time until the next change, or the end.
    lasts_s: f64,
}

/// Times after a change; what did not happen before the next one took infinitely long.
struct Times<'k> {
    key: Vec<&'k str>,
    median_s: f64,
    worst_s: f64,
}

pub(super) fn answer(cells: &[Cell<'_>]) -> Option<Answer> {
    let changes = changes(cells.first()?);
    let sentences: Vec<String> = [("queue", "mix"), ("mix", "queue")]
        .into_iter()
        .filter_map(|(of_drops, of_rises)| sentence(cells, &changes, (of_drops, of_rises)))
        .collect();
    if sentences.is_empty() {
        return None;
    }
    Some(Answer {
        sentences,
        table: table(cells, &changes),
        columns: columns(&changes),
        drawing: Some(drawing(cells, &changes)),
    })
}

/// The changes that a point records: `20 s: 5000000, 40 s: 20000000`.
fn changes(cell: &Cell<'_>) -> Vec<Change> {
    let list = cell.data.setting("rate_changes").unwrap_or_default();
    let steps: Vec<(&str, f64)> = list
        .split(", ")
        .filter_map(|step| step.split_once(" s: "))
        .filter_map(|(at, rate)| Some((at, rate.parse().ok()?)))
        .collect();
    let rates = std::iter::once(cell.number("rate")).chain(steps.iter().map(|(_, rate)| *rate));
    let ends = steps.iter().skip(1).filter_map(|(at, _)| at.parse().ok()).chain([cell.number("duration_s")]);
    let of = |((&(at, rate), before), end): ((&(&str, f64), f64), f64)| Change {
        at: at.into(),
        to: format!("{}bit/s", si(rate)),
        is_drop: rate < before,
        lasts_s: end - at.parse().unwrap_or(0.0),
    };
    steps.iter().zip(rates).zip(ends).map(of).collect()
}

impl Change {
    /// What matters after it: the queue after a drop, and the idle link after a rise.
    fn figure(&self) -> String {
        let what = if self.is_drop { Response::LONGEST_QUEUE } else { Response::FILLED };
        Response::name(what, &self.at)
    }

    /// Times of this group after it; `None` where the record has none.
    fn times<'k>(&self, group: &Group<'k, '_>) -> Option<Times<'k>> {
        let mut all = Vec::new();
        for cell in &group.cells {
            let figure = cell.figures.iter().find(|figure| figure.name == self.figure())?;
            let trials = cell.figures.iter().find(|figure| figure.name == UTILISATION)?.values.len();
            let never = trials.saturating_sub(figure.values.len());
            all.extend(figure.values.iter().copied().chain(std::iter::repeat_n(f64::INFINITY, never)));
        }
        let worst_s = all.iter().copied().reduce(f64::max)?;
        Some(Times { key: group.key.clone(), median_s: median(&all)?, worst_s })
    }

    fn text(&self, s: f64) -> String {
        if s.is_finite() { time_ns(s * 1e9) } else { format!("≥\u{202f}{}", time_ns(self.lasts_s * 1e9)) }
    }

    /// Of the values of a setting, the shortest median first.
    fn ranking<'c>(&self, cells: &'c [Cell<'_>], setting: &str) -> Vec<Times<'c>> {
        let groups = grouped(cells, &[setting]);
        let mut times: Vec<Times<'_>> = groups.iter().filter_map(|group| self.times(group)).collect();
        times.sort_by(|a, b| {
            (a.median_s, a.worst_s).partial_cmp(&(b.median_s, b.worst_s)).unwrap_or(std::cmp::Ordering::Equal)
        });
        times
    }
}

/// What follows drops by the values of one setting, and what follows rises by those of another one.
fn sentence(cells: &[Cell<'_>], changes: &[Change], (of_drops, of_rises): (&str, &str)) -> Option<String> {
    let of = |change: &Change| {
        let times = change.ranking(cells, if change.is_drop { of_drops } else { of_rises });
        let (best, rest) = times.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let joint = if change.is_drop { "to" } else { "after" };
        let others: Vec<String> = rest
            .iter()
            .map(|other| format!("{} {joint} {}", other.key[0], change.text(other.median_s)))
            .collect();
        let (name, time, worst) = (best.key[0], change.text(best.median_s), change.text(best.worst_s));
        let (to, at, others) = (&change.to, &change.at, others.join(", "));
        Some(if change.is_drop {
            format!(
                "after the drop to {to} at {at} s the queue grows least with {name}, to {time} (median; at worst {worst}), with {others}"
            )
        } else {
            format!(
                "after the rise to {to} at {at} s {name} fills the link soonest, after {time} (median; at worst {worst}), {others}"
            )
        })
    };
    let said = changes.iter().filter_map(of).collect::<Vec<_>>().join("; ");
    let mut letters = said.chars();
    let first = letters.next()?;
    Some(format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// The heading of a change's column.
fn column(change: &Change) -> String {
    if change.is_drop { format!("queue, {} s", change.at) } else { format!("full, {} s", change.at) }
}

fn table(cells: &[Cell<'_>], changes: &[Change]) -> Table {
    let rows = row_settings(cells, &["queue", "mix", "buffer_bdp", "flows", "rtt_ms"]);
    let head = rows.iter().map(|setting| heading(setting).to_string());
    let of_changes = changes.iter().flat_map(|change| [column(change), "worst".into()]);
    let mut table = Table::new(&head.chain(of_changes).collect::<Vec<_>>());
    for group in grouped(cells, &rows) {
        let times = changes.iter().flat_map(|change| {
            let times = change.times(&group);
            let median = or_dash(times.as_ref(), |times| change.text(times.median_s));
            [median, or_dash(times, |times| change.text(times.worst_s))]
        });
        table.push(group.key.iter().map(|name| name.to_string()).chain(times).collect());
    }
    table
}

fn columns(changes: &[Change]) -> String {
    let of = |change: &Change| {
        let what = if change.is_drop {
            "the longest time that the queue needs at the new rate"
        } else {
            "the time until the flows have filled 90 % of the link for half a second"
        };
        format!("{}: {what}, after the change to {}", column(change), change.to)
    };
    let all: Vec<String> = changes.iter().map(of).collect();
    format!("{}; median of the repetitions and of all traffic, and worst.", all.join("; "))
}

fn drawing(cells: &[Cell<'_>], changes: &[Change]) -> Block {
    let rows = row_settings(cells, &["queue", "mix"]);
    let groups = grouped(cells, &rows);
    let draw = |change: &Change| {
        let bars = groups.iter().map(|group| {
            let times = change.times(group);
            let text = or_dash(times.as_ref(), |times| change.text(times.median_s));
            let value = times.map(|times| times.median_s.min(change.lasts_s));
            Bar::plain(&group.key.join(", "), value, text)
        });
        let what = if change.is_drop { "longest queue after the drop" } else { "link full after the rise" };
        let mut chart = BarChart::plain("s", significant);
        chart.group(&format!("{what} to {} at {} s", change.to, change.at), bars.collect());
        chart.cut_outliers();
        chart.draw(what, "The numbers are in the table below.")
    };
    Block::Drawing { drawings: changes.iter().map(draw).collect(), caption: CAPTION }
}
