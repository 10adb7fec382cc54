//! One plan over time: where the level of a rate or figure changed, by which factor, and what changed with it.
//!
//! ```text
//! complete runs of a plan on one machine > values per point and quantity > change points > levels
//! ```
//! A run is one value, the median of its repetitions: repetitions of one run share what disturbed them. Values of
//! irregular searches are bounds and no values; they are left out.

mod change;
mod kernels;
mod page;
mod text;

use serde::Serialize;

use crate::compare::difference::{self, Difference};
use crate::compare::quantity::{self, Quantity};
use crate::record::{Point, Run, RunState};
use crate::run_data::PointData;
use crate::stats::{median, median_interval};
use crate::view::axes;
use change::FEWEST;
pub use kernels::{Kernels, kernels};
pub use page::html;
pub use text::text;

/// Seed of the permutations and intervals, so that the same records have the same trend.
const SEED: u64 = 1;

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Goals or figures by name; all when empty.
    pub goals: Vec<String>,
    /// Settings that a point must have, as name and value.
    pub settings: Vec<(String, String)>,
}

/// A plan over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// Name of the plan.
    pub plan: String,
    /// Processor and CPUs that all runs were measured on.
    pub machine: String,
    /// The runs, oldest first.
    pub runs: Vec<Seen>,
    /// Runs and values that were left out, with the reason.
    pub left_out: Vec<String>,
    /// One entry per point and quantity.
    pub tracks: Vec<Track>,
}

/// A run of the trend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// Its number.
    pub run: i64,
    /// Its start, UTC, RFC 3339.
    pub started: String,
    /// Version of weir that measured.
    pub version: String,
}

/// One quantity at one point over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Track {
    /// Frame size as in the plan.
    pub frame: String,
    /// Device and the settings that vary.
    pub device: String,
    /// Goal or procedure and figure.
    pub quantity: String,
    /// Unit of the values.
    pub unit: String,
    /// Run and value, oldest first.
    pub values: Vec<(i64, f64)>,
    /// Where the level changed, oldest first.
    pub changes: Vec<Change>,
    /// The level since the last change.
    pub level: f64,
    /// Its 95 % interval, with six values or more.
    pub level_interval: Option<(f64, f64)>,
    /// Runs since the last change, or all.
    pub level_runs: usize,
    /// Why no change can be seen, if there are too few values.
    pub too_few: Option<String>,
}

/// A change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// First run with the new level.
    pub run: i64,
    /// Its start.
    pub started: String,
    /// Version of weir that measured it.
    pub version: String,
    /// Level before.
    pub before: f64,
    /// Level after.
    pub after: f64,
    /// `after / before`.
    pub factor: f64,
    /// 95 % interval of the factor.
    pub interval: Option<(f64, f64)>,
    /// What differs between this run and the one before.
    pub changed_with_it: Vec<Difference>,
}

/// The trend of a plan from all runs of a store, each with its points, oldest first. Only complete runs on the machine
/// of the newest one count. `None` without any.
pub fn trend(plan: &str, runs: &[(Run, Vec<Point>)], filter: &Filter) -> Option<Trend> {
    let of_plan: Vec<_> = runs.iter().filter(|(run, _)| run.plan == plan).collect();
    let complete: Vec<_> =
        of_plan.iter().copied().filter(|(run, _)| run.state == RunState::Complete).collect();
    let (newest, _) = complete.last()?;
    let machine = |run: &Run| (run.machine.cpu.clone(), run.machine.cpus);
    let here: Vec<_> = complete.iter().copied().filter(|(run, _)| machine(run) == machine(newest)).collect();
    let mut values = Values::default();
    for (index, (_, points)) in here.iter().enumerate() {
        values.add(index, points, filter);
    }
    let left_out = [
        (of_plan.len() - complete.len(), "did not end"),
        (complete.len() - here.len(), "were made on another machine"),
    ];
    let left_out = left_out.into_iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} runs {why}"));
    let irregular = (values.irregular > 0)
        .then(|| format!("{} values of searches that ended irregularly", values.irregular));
    Some(Trend {
        plan: plan.into(),
        machine: format!("{}, {} CPUs", newest.machine.cpu, newest.machine.cpus),
        runs: here.iter().map(|(run, _)| seen(run)).collect(),
        left_out: left_out.chain(irregular).collect(),
        tracks: values.lines.into_iter().map(|line| track(line, &here)).collect(),
    })
}

fn seen(run: &Run) -> Seen {
    Seen { run: run.id, started: run.started.clone(), version: run.version.clone() }
}

/// Values of one quantity by index of the run.
struct Line {
    settings: Vec<(String, String)>,
    parameters: Vec<(String, String)>,
    frame: String,
    dut: String,
    name: String,
    unit: String,
    label: String,
    values: Vec<(usize, f64)>,
}

#[derive(Default)]
struct Values {
    lines: Vec<Line>,
    irregular: usize,
}

impl Values {
    /// Adds what the points of run `index` have.
    fn add(&mut self, index: usize, points: &[Point], filter: &Filter) {
        let has = |point: &Point, wanted: &(String, String)| point.settings.contains(wanted);
        for point in points.iter().filter(|p| filter.settings.iter().all(|wanted| has(p, wanted))) {
            let data = PointData { point: point.clone(), trials: Vec::new() };
            if data.is_ceiling() {
                continue;
            }
            for q in quantity::of(&data) {
                if filter.goals.is_empty() || filter.goals.contains(&q.name) {
                    self.add_one(index, point, &q);
                }
            }
        }
        self.name();
    }

    fn add_one(&mut self, index: usize, point: &Point, q: &Quantity) {
        let Some(value) = q.median().filter(|v| *v > 0.0) else { return };
        if !q.irregular.is_empty() {
            self.irregular += 1;
            return;
        }
        let is_same = |line: &&mut Line| {
            (&line.settings, &line.parameters, &line.name, &line.unit)
                == (&point.settings, &q.parameters, &q.name, &q.unit)
                // A run may have a point twice.
                && line.values.last().is_none_or(|(last, _)| *last != index)
        };
        match self.lines.iter_mut().find(is_same) {
            Some(line) => line.values.push((index, value)),
            None => self.lines.push(Line {
                settings: point.settings.clone(),
                parameters: q.parameters.clone(),
                frame: point.frame.clone(),
                dut: point.dut.clone(),
                name: q.name.clone(),
                unit: q.unit.clone(),
                label: String::new(),
                values: vec![(index, value)],
            }),
        }
    }

    /// Names each line by its device and by what tells it from the others.
    fn name(&mut self) {
        let varies = |of: fn(&Line) -> &Vec<(String, String)>, name: &str| {
            let mut values = self.lines.iter().filter_map(|l| of(l).iter().find(|(n, _)| n == name));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let labels: Vec<String> = self
            .lines
            .iter()
            .map(|line| {
                let settings = line.settings.iter().filter(|(_, v)| *v != line.dut && *v != line.frame);
                let settings = settings.filter(|(name, _)| varies(|l| &l.settings, name));
                let twins =
                    self.lines.iter().filter(|l| (&l.settings, &l.name) == (&line.settings, &line.name));
                let others: Vec<_> = twins.filter(|l| l.parameters != line.parameters).collect();
                let differ =
                    line.parameters.iter().filter(|p| others.iter().any(|l| !l.parameters.contains(p)));
                let parts = settings.chain(differ).map(|(name, value)| axes::part(name, value));
                std::iter::once(line.dut.clone()).chain(parts).collect::<Vec<_>>().join(axes::DOT)
            })
            .collect();
        self.lines.iter_mut().zip(labels).for_each(|(line, label)| line.label = label);
    }
}

fn track(line: Line, runs: &[&(Run, Vec<Point>)]) -> Track {
    let values: Vec<f64> = line.values.iter().map(|(_, value)| *value).collect();
    let run = |i: usize| &runs[line.values[i].0].0;
    let found = change::changes(&values, SEED);
    let cuts: Vec<usize> = found.iter().map(|c| c.at).chain([values.len()]).collect();
    let level = |from: usize, to: usize| median(&values[from..to]).unwrap_or_default();
    let changes = found.iter().enumerate().map(|(i, change)| {
        let from = if i == 0 { 0 } else { cuts[i - 1] };
        let first = run(change.at);
        Change {
            run: first.id,
            started: first.started.clone(),
            version: first.version.clone(),
            before: level(from, change.at),
            after: level(change.at, cuts[i + 1]),
            factor: change.step.ratio.value,
            interval: change.step.ratio.interval,
            changed_with_it: difference::runs(run(change.at - 1), first),
        }
    });
    let changes: Vec<_> = changes.collect();
    let since = found.last().map_or(0, |c| c.at);
    let too_few = (values.len() < FEWEST)
        .then(|| format!("{} of {FEWEST} runs that a trend needs: use `weir compare`", values.len()));
    Track {
        frame: line.frame,
        device: line.label,
        quantity: line.name,
        unit: line.unit,
        changes,
        level: level(since, values.len()),
        level_interval: median_interval(&values[since..]),
        level_runs: values.len() - since,
        too_few,
        values: line.values.iter().map(|(i, value)| (runs[*i].0.id, *value)).collect(),
    }
}

#[cfg(test)]
mod tests;
