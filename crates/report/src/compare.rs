//! Two runs against each other: which points became faster or slower, and of which that cannot be said.
//!
//! ```text
//! runs > points with the same settings > quantities (goals, figures) > ratio, p > Holm > verdict
//! ```
//! A verdict needs repetitions on both sides, the same goal, and test beds that were alike. With many points
//! some differ by chance: verdicts use p values with Holm's correction (Scand. J. Stat. 6, 1979), which keeps
//! the probability of even one wrong verdict per comparison below 5 %.

mod core_speed;
pub mod difference;
pub mod quantity;
pub mod text;

use serde::Serialize;

use crate::record::{Better, Bound};
use crate::run_data::{PointData, RunData};
use crate::stats::CONFIDENCE;
use crate::view::{axes, core_distance};
pub use core_speed::CoreSteps;
pub use difference::Difference;
use quantity::{Found, Kind, Quantity};
pub use text::text;

/// A later run against an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Number of the run that the other one is divided by.
    pub base: i64,
    /// Number of the other run.
    pub other: i64,
    /// What is not the same in both: plan, version, machine, settings.
    pub differences: Vec<Difference>,
    /// How fast the device's core was; ratios of capacities are at equal speed of it.
    pub core_steps: Option<CoreSteps>,
    /// One entry per point and quantity that both runs have.
    pub rows: Vec<Row>,
    /// Points and quantities that only one run has.
    pub unmatched: Vec<Unmatched>,
}

/// One quantity at one point in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Frame size as in the plan.
    pub frame: String,
    /// Device and the settings that vary: `kernel-nat · cpus 2`.
    pub device: String,
    /// Goal (`NDR`) or procedure and figure (`latency: median`).
    pub quantity: String,
    /// Unit of the values.
    pub unit: String,
    /// Which of them are better.
    pub better: Better,
    /// Median in the base, or its only value; `None` if it has none.
    pub base: Option<f64>,
    /// The same of the other run.
    pub other: Option<f64>,
    /// How `base` relates to the true value: a capacity that the tester limits is a lower bound.
    pub base_bound: Bound,
    /// The same of the other run.
    pub other_bound: Bound,
    /// `other / base`; that of a capacity is at equal speed of the core, see [`Compared::core_steps`]. `None` where nothing
    /// follows from the two.
    pub ratio: Option<f64>,
    /// How `ratio` relates to the true one.
    pub ratio_bound: Bound,
    /// What the ratio may be.
    pub interval: Option<Interval>,
    /// Probability of such a ratio between equals, for this row alone.
    pub p: Option<f64>,
    /// The same with Holm's correction for the number of rows.
    pub p_holm: Option<f64>,
    /// What can be said.
    pub verdict: Verdict,
    /// Why nothing can be said.
    pub why: Option<String>,
}

/// An interval of a ratio and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How it was found.
    pub source: Source,
}

/// How an interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// 95 % interval from the scatter of the repetitions.
    Repetitions,
    /// The bounds of single searches: how exactly they ended, not how much they scatter.
    Bounds,
}

/// What can be said about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A higher rate or a shorter time.
    Faster,
    /// A lower rate or a longer time.
    Slower,
    /// A better value of what is neither rate nor time: less loss, less memory.
    Better,
    /// A worse value of such a figure.
    Worse,
    /// A larger value where neither is better.
    Larger,
    /// A smaller value where neither is better.
    Smaller,
    /// What differs may be chance.
    NoDifference,
    /// The two are not comparable, or too little is known.
    CannotTell,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Larger => "larger",
            Verdict::Smaller => "smaller",
            Verdict::NoDifference => "no difference shown",
            Verdict::CannotTell => "cannot tell",
        }
    }
}

/// A point or quantity without a partner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unmatched {
    /// The run that has it.
    pub run: i64,
    /// Frame size as in the plan.
    pub frame: String,
    /// Device and the settings that vary.
    pub device: String,
    /// The quantities that only this run has; empty if the other run has not got the point.
    pub quantities: Vec<String>,
}

/// What may differ between two runs because it is what they are to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// The processor or its number of CPUs.
    Machine,
    /// The kernel.
    Kernel,
    /// How far the CPUs of tester and device are apart.
    Placement,
}

/// `other` against `base`; what is in `across` may differ.
pub fn compare(base: &RunData, other: &RunData, across: &[Across]) -> Compared {
    let free = difference::settings_across(base, other);
    let sides = [base, other].map(|data| points(data, &free));
    let varying = varying(&sides);
    let pairs = pairs(&sides);
    let runs_apart = difference::machine_apart(base, other, across);
    let mut compared = Compared {
        base: base.run.id,
        other: other.run.id,
        differences: difference::all(base, other),
        core_steps: CoreSteps::of(base, other, across),
        rows: Vec::new(),
        unmatched: Vec::new(),
    };
    for (a, b) in pairs {
        let point = a.or(b).expect("a pair has a point");
        let (frame, device) = (point.data.point.frame.clone(), point.label(&varying));
        let lone =
            |run, quantities| Unmatched { run, frame: frame.clone(), device: device.clone(), quantities };
        let (Some(a), Some(b)) = (a, b) else {
            let run = if a.is_some() { base.run.id } else { other.run.id };
            compared.unmatched.push(lone(run, Vec::new()));
            continue;
        };
        let apart = runs_apart.clone().or_else(|| points_apart(a.data, b.data, across));
        let placed = runs_apart.clone().or_else(|| cpus_apart(a.data, b.data, across));
        let (of_a, of_b) = quantities(a.data, b.data);
        for q in &of_a {
            let Some(partner) = of_b.iter().find(|p| p.name == q.name && p.unit == q.unit) else { continue };
            // A capacity is known for each placement of the CPUs: like is compared with like.
            let apart = if q.kind == Kind::Capacity { &placed } else { &apart };
            let found = quantity::ratio(q, partner, compared.core_steps);
            compared.rows.push(row((&frame, &device), (q, partner), found, apart.as_deref()));
        }
        if let Some((q, partner)) = quantity::placed_ratios(&of_a, &of_b) {
            let found = quantity::ratio(&q, &partner, compared.core_steps);
            compared.rows.push(row((&frame, &device), (&q, &partner), found, placed.as_deref()));
        }
        for (run, own, others) in [(base.run.id, &of_a, &of_b), (other.run.id, &of_b, &of_a)] {
            let missing = own.iter().filter(|q| !others.iter().any(|p| p.name == q.name && p.unit == q.unit));
            let missing: Vec<_> = missing.map(|q| q.name.clone()).collect();
            if !missing.is_empty() {
                compared.unmatched.push(lone(run, missing));
            }
        }
    }
    judge(&mut compared.rows);
    compared
}

/// What is compared of a point in two runs. Where both have its capacity, single searches are left out: one stop of the host
/// decides them.
fn quantities(a: &PointData, b: &PointData) -> (Vec<Quantity>, Vec<Quantity>) {
    let (mut of_a, mut of_b) = (quantity::of(a), quantity::of(b));
    if a.capacity().is_some() && b.capacity().is_some() {
        let single = |q: &Quantity, others: &[Quantity]| {
            q.is_single_search() || others.iter().any(|p| p.name == q.name && p.is_single_search())
        };
        let names: Vec<String> = of_a
            .iter()
            .filter(|q| single(q, &of_b))
            .chain(of_b.iter().filter(|q| single(q, &of_a)))
            .map(|q| q.name.clone())
            .collect();
        of_a.retain(|q| !names.contains(&q.name));
        of_b.retain(|q| !names.contains(&q.name));
    }
    (of_a, of_b)
}

/// A point and the settings that its partner must have too.
struct Keyed<'a> {
    data: &'a PointData,
    key: Vec<(&'a str, &'a str)>,
}

impl Keyed<'_> {
    /// Device and the settings that vary.
    fn label(&self, varying: &[&str]) -> String {
        let shown = self.key.iter().filter(|(name, _)| varying.contains(name));
        let parts = shown.map(|(name, value)| axes::part(name, value));
        std::iter::once(self.data.point.dut.clone()).chain(parts).collect::<Vec<_>>().join(axes::DOT)
    }
}

/// The points of a run that are compared. The wire is the tester's own ceiling and no device, unless the run
/// has nothing else.
fn points<'a>(data: &'a RunData, free: &[String]) -> Vec<Keyed<'a>> {
    let only_wire = data.points.iter().all(PointData::is_ceiling);
    let chosen = data.points.iter().filter(|p| only_wire || !p.is_ceiling());
    let key = |point: &'a PointData| {
        let mut key: Vec<_> =
            point.point.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        key.retain(|(name, _)| !free.iter().any(|f| f == name));
        key.sort_unstable();
        key
    };
    chosen.map(|data| Keyed { data, key: key(data) }).collect()
}

/// Names of the settings that differ between points, without those of which device or frame size already tell.
fn varying<'a>(sides: &[Vec<Keyed<'a>>; 2]) -> Vec<&'a str> {
    let all = || sides.iter().flatten();
    let mut names: Vec<&str> = all().flat_map(|p| p.key.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names.dedup();
    let value = |p: &Keyed<'a>, name: &str| p.key.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    names.retain(|name| {
        let first = all().find_map(|p| value(p, name));
        let repeats = |of: fn(&PointData) -> &String| {
            all().all(|p| value(p, name).is_none_or(|value| value == of(p.data)))
        };
        let differs = all().filter_map(|p| value(p, name)).any(|v| Some(v) != first);
        differs && !repeats(|p| &p.point.dut) && !repeats(|p| &p.point.frame)
    });
    names
}

type Pair<'p, 'a> = (Option<&'p Keyed<'a>>, Option<&'p Keyed<'a>>);

/// Points with the same key, in the order of the base; twins are paired in their order.
fn pairs<'p, 'a>([a, b]: &'p [Vec<Keyed<'a>>; 2]) -> Vec<Pair<'p, 'a>> {
    let mut left: Vec<Option<&Keyed<'a>>> = b.iter().map(Some).collect();
    let mut pairs: Vec<Pair<'p, 'a>> = Vec::new();
    for point in a {
        let partner = left.iter_mut().find(|p| p.is_some_and(|p| p.key == point.key));
        pairs.push((Some(point), partner.and_then(Option::take)));
    }
    pairs.extend(left.into_iter().flatten().map(|point| (None, Some(point))));
    pairs
}

/// Why two points cannot be compared although their runs can.
fn points_apart(a: &PointData, b: &PointData, across: &[Across]) -> Option<String> {
    let alike = || core_distance::apart(a, b).filter(|_| !across.contains(&Across::Placement));
    cpus_apart(a, b, across).or_else(alike)
}

/// The same of figures that are kept apart by the placement of the CPUs.
fn cpus_apart(a: &PointData, b: &PointData, across: &[Across]) -> Option<String> {
    let differ = a.point.cpus_shared.is_empty() != b.point.cpus_shared.is_empty();
    (differ && !across.contains(&Across::Placement))
        .then(|| "tester and device share a CPU in one of the runs only".into())
}

fn row(
    (frame, device): (&str, &str),
    (base, other): (&Quantity, &Quantity),
    found: Option<Found>,
    apart: Option<&str>,
) -> Row {
    let why = apart.map(String::from).or_else(|| quantity::apart(base, other));
    let bound = other.bound.over(base.bound);
    let found = found.filter(|_| bound != Bound::NoResult);
    Row {
        frame: frame.into(),
        device: device.into(),
        quantity: base.name.clone(),
        unit: base.unit.clone(),
        better: base.better,
        base: base.median(),
        other: other.median(),
        base_bound: base.bound,
        other_bound: other.bound,
        ratio: found.map(|f| f.value),
        ratio_bound: bound,
        interval: found.and_then(|f| f.interval),
        p: found.and_then(|f| f.p),
        p_holm: None,
        verdict: Verdict::CannotTell,
        why,
    }
}

/// Gives each row its verdict, with Holm's correction for the number of rows that were tested.
fn judge(rows: &mut [Row]) {
    let is_tested = |row: &Row| row.why.is_none() && row.p.is_some();
    let mut order: Vec<usize> = (0..rows.len()).filter(|&i| is_tested(&rows[i])).collect();
    order.sort_by(|&a, &b| rows[a].p.unwrap_or(1.0).total_cmp(&rows[b].p.unwrap_or(1.0)));
    let mut corrected: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        let factor = (order.len() - rank) as f64;
        corrected = corrected.max(rows[i].p.unwrap_or(1.0) * factor).min(1.0);
        rows[i].p_holm = Some(corrected);
    }
    for row in rows.iter_mut().filter(|row| row.why.is_none()) {
        (row.verdict, row.why) = verdict(row);
    }
}

fn verdict(row: &Row) -> (Verdict, Option<String>) {
    let (Some(ratio), Some(interval)) = (row.ratio, row.interval) else {
        return (Verdict::CannotTell, Some(NO_SCATTER.into()));
    };
    let contains_one = (interval.low..=interval.high).contains(&1.0);
    let shown = row.p_holm.is_some_and(|p| p < 1.0 - CONFIDENCE);
    let is_known = match row.ratio_bound {
        Bound::AtLeast => shown && ratio > 1.0,
        Bound::AtMost => shown && ratio < 1.0,
        _ => true,
    };
    match (interval.source, contains_one, shown) {
        _ if !is_known => (Verdict::CannotTell, Some(LIMITED.into())),
        (Source::Bounds, true, _) | (Source::Repetitions, _, false) => (Verdict::NoDifference, None),
        (Source::Bounds, false, _) => (Verdict::CannotTell, Some(NO_SCATTER.into())),
        (Source::Repetitions, _, true) => (quantity::direction(row.better, &row.unit, ratio), None),
    }
}

/// Why a lower bound does not tell.
const LIMITED: &str = "the tester was the limit in one of the runs (≥): its value is a lower bound";

/// Why a single search is not enough, and the remedy.
const NO_SCATTER: &str = "fewer than two repetitions in a run, so the spread is unknown: repeat with \
    `--set repeat.times=5`";

#[cfg(test)]
mod tests;
