//! Which connection table a machine should have: the setting that holds the most flows and is fastest, and what others cost.

use super::super::figure::{rate, value};
use super::super::judged::{Seen, ended_entries};
use super::super::table::{EARLY_DROP, FORMULA, TABLE_DROP, command_for};
use super::{Bars, bounded};
use weir_record::run_data::PointData;
use weir_report::report::answer::Answer;
use weir_report::view::axes::{Axes, short_name, short_value};
use weir_report::view::format::{full, or_dash, si, significant};
use weir_report::view::{Rate, Table};

const BUCKETS: &str = "nf_conntrack_buckets";
const MAX: &str = "nf_conntrack_max";
/// What a plan can set.
pub(super) const SETTINGS: [&str; 3] = [BUCKETS, MAX, "nf_conntrack_udp_timeout"];
/// Lines that a first screen has room for.
const LINES: usize = 16;
/// A setting is as good as the fastest one if its rate is this share of it; the one with the smaller table is recommended.
const AS_GOOD: f64 = 0.95;

const COLUMNS: &str = "frames/s: translated there and back in overload, or where that was not measured at the loss that the plan \
    allows. of best: that rate by the best with as many flows. no entry: frames \
    that were dropped since the table had no entry for their flow. given up: entries that the kernel gave up early for others.";
const MATRIX: &str = "frames/s, translated there and back, with the most flows that were measured: a column for each nf_conntrack_max.";
const CAPTION: &str = "Frames/s there and back for each table, with 95 % intervals (whiskers).";

pub(super) fn answer(points: &[&PointData], axes: &Axes) -> Answer {
    let most = points.iter().map(|data| number(data, "flows")).max().unwrap_or(0);
    let asked: Vec<&PointData> =
        points.iter().copied().filter(|data| number(data, "flows") == most).collect();
    let (table, columns) =
        if points.len() > LINES { (matrix(&asked, axes), MATRIX) } else { (lines(points, axes), COLUMNS) };
    let shown = if points.len() > LINES { &asked[..] } else { points };
    Answer {
        sentences: sentences(&asked, most),
        table,
        columns: columns.into(),
        drawing: Bars { axes, by: &["flows"], unit: "frames/s", caption: CAPTION }.draw(shown, rate),
    }
}

fn number(data: &PointData, setting: &str) -> u64 {
    data.setting(setting).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Had the table an entry for each flow, all the time?
fn has_room(data: &PointData) -> bool {
    let is_enough = data.setting(MAX).is_none() || number(data, MAX) >= number(data, "flows");
    is_enough && [EARLY_DROP, TABLE_DROP].iter().all(|name| value(data, name).unwrap_or(0.0) == 0.0)
}

fn fps(data: &PointData) -> f64 {
    rate(data).map_or(0.0, |rate| rate.fps)
}

/// Among those that have room, the fastest, or one as good with a smaller table.
fn recommended<'p>(points: &[&'p PointData]) -> Option<&'p PointData> {
    let fit = || points.iter().copied().filter(|data| has_room(data) && rate(data).is_some());
    let best = fit().map(fps).reduce(f64::max)?;
    let size = |data: &&PointData| (number(data, BUCKETS), number(data, MAX));
    fit().filter(|data| fps(data) >= best * AS_GOOD).min_by_key(size)
}

/// `nf_conntrack_max 524288 with 262144 buckets`.
fn named(data: &PointData) -> String {
    let of = |name: &str, text: &str| data.setting(name).map(|value| text.replace("{}", value));
    let others = [of(BUCKETS, "{} buckets"), of(SETTINGS[2], "a UDP timeout of {} s")];
    let others = others.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let parts = [of(MAX, "nf_conntrack_max {}"), Some(others).filter(|others| !others.is_empty())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" with ")
}

fn sentences(points: &[&PointData], flows: u64) -> Vec<String> {
    let flows = short_value("flows", &flows.to_string());
    let Some(best) = recommended(points) else {
        let text = "no table that was tried had an entry for each of them all the time: try a larger nf_conntrack_max";
        return vec![format!("For {flows} flows {text}.")].into_iter().chain(full_tables(points)).collect();
    };
    let costs: Vec<String> = SETTINGS.iter().filter_map(|name| cost(best, points, name)).collect();
    let costs = if costs.is_empty() { String::new() } else { format!("; {}", costs.join(", ")) };
    let rate = rate(best).map_or(String::new(), |rate| format!(" ({} frames/s)", rate.words()));
    let mut sentences = vec![format!("For {flows} flows: {}{rate}{costs}.", named(best))];
    sentences.extend(command(best));
    sentences.extend(full_tables(points));
    sentences.extend(bounded(points));
    sentences
}

/// What the slowest other value of a setting has of the rate, with all others as recommended: `16384 buckets have 0.49 of that`.
fn cost(best: &PointData, points: &[&PointData], name: &str) -> Option<String> {
    let is_alike = |other: &&&PointData| {
        other
            .point
            .settings
            .iter()
            .all(|(known, value)| known == name || best.setting(known) == Some(value.as_str()))
    };
    let others = points.iter().filter(is_alike).filter(|other| other.setting(name) != best.setting(name));
    let worst = others
        .filter(|other| has_room(other) && rate(other).is_some())
        .min_by(|a, b| fps(a).total_cmp(&fps(b)))?;
    let ratio = rate(worst)?.over(&rate(best)?)?.value;
    let value = worst.setting(name)?;
    let what = match name {
        BUCKETS => format!("{value} buckets"),
        name => format!("{} {value}", short_name(name)),
    };
    (ratio < AS_GOOD)
        .then(|| format!("{what} with the same other settings: {} of that rate", significant(ratio)))
}

/// What to type.
fn command(best: &PointData) -> Option<String> {
    let command = command_for([BUCKETS, MAX].map(|name| (name, best.setting(name))))?;
    let size = value(best, FORMULA)
        .map_or(String::new(), |bytes| format!(" ({:.0} MB with so many flows)", bytes / 1e6));
    Some(format!("To set it: {command}{size}."))
}

/// The fate of flows for which the table had no room.
fn full_tables(points: &[&PointData]) -> Option<String> {
    let full = points.iter().filter(|data| !has_room(data)).max_by(|a, b| fps(a).total_cmp(&fps(b)))?;
    let rate = rate(full)?.words();
    let ended = ended_entries(Seen::of_point(full));
    let ended = ended.map_or(String::new(), |text| format!("; {text}"));
    Some(format!("A table without room for all flows has at best {rate} frames/s ({}){ended}.", named(full)))
}

/// A line for each point.
fn lines(points: &[&PointData], axes: &Axes) -> Table {
    let own = ["frames/s", "95 % interval", "of best", "no entry", "given up"].map(String::from);
    let mut table = Table::new(&axes.head().into_iter().chain(own).collect::<Vec<_>>());
    for data in points {
        let alike = points.iter().filter(|other| number(other, "flows") == number(data, "flows"));
        let best = alike.filter_map(|data| rate(data)).max_by(|a, b| a.fps.total_cmp(&b.fps));
        let found = rate(data);
        let share = found.zip(best).and_then(|(own, best)| own.over(&best));
        let mut row = axes.cells(&data.point.settings);
        row.extend([
            or_dash(found, |rate| rate.sign()),
            or_dash(found.and_then(|rate| rate.interval), |(low, high)| format!("{}–{}", si(low), si(high))),
            or_dash(share, |ratio| significant(ratio.value)),
            or_dash(value(data, TABLE_DROP), full),
            or_dash(value(data, EARLY_DROP), full),
        ]);
        table.push(row);
    }
    table.without_empty(&["95 % interval", "no entry", "given up"])
}

/// A line for each combination of the other settings, a column for each nf_conntrack_max.
fn matrix(points: &[&PointData], axes: &Axes) -> Table {
    let others = axes.clone().without(&[MAX, "flows"]);
    let mut most: Vec<u64> = points.iter().map(|data| number(data, MAX)).collect();
    most.sort_unstable();
    most.dedup();
    let columns = most.iter().map(|max| format!("max {max}"));
    let mut table = Table::new(&others.head().into_iter().chain(columns).collect::<Vec<_>>());
    let mut rows: Vec<Vec<String>> = Vec::new();
    for data in points {
        let row = others.cells(&data.point.settings);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for row in rows {
        let at = |max: &u64| {
            let is_here =
                |data: &&&PointData| number(data, MAX) == *max && others.cells(&data.point.settings) == row;
            or_dash(points.iter().find(is_here).and_then(|data| rate(data)), |rate: Rate| rate.sign())
        };
        let cells: Vec<String> = most.iter().map(at).collect();
        table.push(row.into_iter().chain(cells).collect());
    }
    table
}
