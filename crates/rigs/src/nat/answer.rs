//! The first screen of each question that is asked of NATs. What was measured and which settings differ decides which one it is,
//! not the plan's name.
//!
//! ```text
//! RFC 9693         rates of each NAT: established, forwarded, deleted, held      sessions/answer.rs
//! TCP              connections/s, and what a SYN flood leaves of them            tcp/answer.rs
//! table settings   the setting to use, and what the others cost                  answer/table.rs
//! flows differ     what they cost: rate, memory, cycles                          answer/flows.rs
//! anything else    rates, and round trips at equal loads                         answer/loads.rs
//! ```

use super::figure::rate;
use super::judged::{Seen, mistakes};
use super::{report, sessions, tcp};
use weir_record::record::Comparison;
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{self, BarChart};
use weir_report::report::block::Block;
use weir_report::view::axes::Axes;
use weir_report::view::format::{bracketed, count, list, si, significant};
use weir_report::view::{Bound, Rate, Ratio};

mod flows;
mod loads;
mod table;
#[cfg(test)]
mod tests;

/// The answer of a run of this rig.
pub(super) fn of(data: &RunData) -> Option<Answer> {
    let found = sessions::answer::of(data).or_else(|| tcp::answer::of(data)).or_else(|| of_loads(data));
    let mut answer = found?;
    if answer.drawing.is_none() {
        answer.sentences.insert(0, no_rates(data));
    }
    Some(answer)
}

/// Why a run has no answer.
fn no_rates(data: &RunData) -> String {
    let devices = || data.points.iter().filter(|data| !data.is_ceiling());
    let (trials, valid) = (devices().flat_map(PointData::measured), devices().flat_map(PointData::valid));
    format!(
        "This run has no result: no rate was found for any NAT; {} of {} are valid.",
        valid.count(),
        count(trials.count(), "trial")
    )
}

fn of_loads(data: &RunData) -> Option<Answer> {
    let points = report::points(data);
    let axes = Axes::of(points.iter().map(|data| &data.point));
    let differs = |names: &[&str]| axes.names().any(|name| names.contains(&name));
    let mut answer = match &points[..] {
        [] => return None,
        _ if differs(&table::SETTINGS) => table::answer(&points, &axes),
        _ if differs(&["flows"]) => flows::answer(data, &points, &axes),
        _ => loads::answer(&points, &axes),
    };
    // How fast a NAT is that does wrong is no answer.
    let broken = by_name(&Axes::default(), points.iter().copied()).into_iter().flat_map(broken);
    answer.sentences = broken.chain(std::mem::take(&mut answer.sentences)).collect();
    Some(answer)
}

/// What a NAT did wrong at all of its points.
fn broken((name, points): (String, Vec<&PointData>)) -> Vec<String> {
    let found = mistakes(points.iter().flat_map(|data| Seen::of_point(data)));
    found.into_iter().map(|text| format!("{name}: {text}.")).collect()
}

/// Bars of rates in groups that agree in the axes `by`.
pub(super) struct Bars<'a> {
    pub(super) axes: &'a Axes,
    pub(super) by: &'a [&'a str],
    pub(super) unit: &'static str,
    pub(super) caption: &'static str,
}

impl Bars<'_> {
    /// A bar for each point; `None` where none has a rate.
    pub(super) fn draw(
        &self,
        points: &[&PointData],
        rate: impl Fn(&PointData) -> Option<Rate>,
    ) -> Option<Block> {
        let groups = bars::of_points(self.axes, self.by, points, rate);
        let chart = BarChart { groups, unit: self.unit.into(), number: si, limit_name: String::new() };
        let has_bars = chart.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.value.is_some());
        let drawing = || chart.draw(self.unit, "The numbers are in the table.");
        has_bars.then(|| Block::Wide(drawing(), self.caption))
    }
}

/// A value for each of several NATs: the first in a whole sentence, the others in as few words as can be.
pub(super) fn one_by_one(of: impl Iterator<Item = (String, Vec<String>)>, verbs: &[&str]) -> String {
    let phrase = |(i, (name, values)): (usize, (String, Vec<String>))| {
        let said: Vec<String> = match i {
            0 => values.iter().zip(verbs).map(|(value, verb)| verb.replace("{}", value)).collect(),
            _ => values,
        };
        format!("{name} {}", list(&said))
    };
    of.enumerate().map(phrase).collect::<Vec<_>>().join("; ")
}

/// The smallest and the largest of these values, or one where both read the same.
pub(super) fn ends(values: &[f64], text: impl Fn(f64) -> String) -> Option<String> {
    let low = values.iter().copied().reduce(f64::min).map(&text)?;
    let high = values.iter().copied().reduce(f64::max).map(&text)?;
    Some(if low == high { low } else { format!("{low} to {high}") })
}

/// Points by what names them but for these axes, in their order.
pub(super) fn by_name<'p>(
    axes: &Axes,
    points: impl IntoIterator<Item = &'p PointData>,
) -> Vec<(String, Vec<&'p PointData>)> {
    let mut groups: Vec<(String, Vec<&PointData>)> = Vec::new();
    for data in points {
        let name = axes.name(&data.point);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(data),
            None => groups.push((name, vec![data])),
        }
    }
    groups
}

/// How the rate of a point relates to that of the base: round by round where both were measured in the same rounds. A bound where one
/// of them is one; `None` where nothing follows.
fn beside(base: &PointData, data: &PointData) -> Option<Ratio> {
    let (own, other) = (rate(data)?, rate(base)?);
    let of_base = |comparison: &&Comparison| comparison.point_index == base.point.index;
    let ratio = own.over(&other)?;
    let rounds = data.capacity().map_or(data.comparisons(), |capacity| &capacity.comparisons);
    Some(match rounds.iter().find(of_base) {
        Some(rounds) => Ratio { value: rounds.ratio, interval: rounds.interval, bound: ratio.bound },
        None => Ratio { interval: None, ..ratio },
    })
}

/// `2.20 times (2.10 to 2.31)`; `at least 2.20 times`.
fn times(ratio: Ratio) -> String {
    let interval = ratio.interval.filter(|_| ratio.bound == Bound::Exact);
    let interval = interval.map_or_else(String::new, bracketed);
    format!("{}{} times{interval}", ratio.bound.words(), significant(ratio.value))
}

/// Is a lower bound among these rates?
pub(super) fn is_bounded(mut rates: impl Iterator<Item = Option<Rate>>) -> bool {
    rates.any(|rate| rate.is_some_and(|rate| rate.bound == Bound::AtLeast))
}

/// What a lower bound among the rates of these points means.
fn bounded(points: &[&PointData]) -> Option<String> {
    let text = "Rates with ≥ are lower bounds: the tester could not offer more.";
    is_bounded(points.iter().map(|data| rate(data))).then(|| text.to_string())
}
