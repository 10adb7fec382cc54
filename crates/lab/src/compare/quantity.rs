//! What two points are compared by: the rates of their goals and the figures of their procedures.

use super::{Interval, Source, Verdict};
use crate::figure::unit::{FRAMES_PER_S, SECONDS};
use crate::record::{Figure, GoalResult, ProcedureResult};
use crate::run_data::PointData;
use crate::stats::{Sample, median, unpaired_ratio};

/// One quantity with all its repetitions.
pub(crate) struct Quantity {
    /// Goal (`NDR`) or procedure and figure (`latency: median`).
    pub(crate) name: String,
    /// Unit of the values.
    pub(crate) unit: String,
    values: Vec<f64>,
    /// Smallest lower and largest upper bound of the repetitions, where each has both.
    bounds: Option<(f64, f64)>,
    /// Largest upper / lower bound of a single repetition.
    open: f64,
    /// All that defines it.
    pub(crate) parameters: Vec<(String, String)>,
    /// Why it says less than it should.
    pub(crate) irregular: Vec<String>,
}

/// A ratio with what is known about it.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) value: f64,
    pub(crate) interval: Option<Interval>,
    pub(crate) p: Option<f64>,
}

/// All quantities of a point.
pub(crate) fn of(point: &PointData) -> Vec<Quantity> {
    let procedures = point.point.result.iter().flat_map(|r| &r.procedures);
    let figures = procedures.flat_map(|p| p.figures.iter().map(|f| figure(p, f)));
    point.goals().iter().map(goal).chain(figures).collect()
}

fn goal(goal: &GoalResult) -> Quantity {
    let repetitions = &goal.repetitions;
    let bounds: Option<Vec<(f64, f64)>> =
        repetitions.iter().map(|r| r.lower_fps.filter(|l| *l > 0.0).zip(r.upper_fps)).collect();
    let bounds = bounds.unwrap_or_default();
    let hull = bounds.iter().copied().reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
    let mut irregular: Vec<_> = repetitions.iter().filter_map(|r| r.irregular.clone()).collect();
    irregular.sort();
    irregular.dedup();
    Quantity {
        name: goal.goal.clone(),
        unit: FRAMES_PER_S.into(),
        values: repetitions.iter().filter_map(|r| r.fps).collect(),
        bounds: hull,
        open: bounds.iter().map(|(low, high)| high / low).fold(1.0, f64::max),
        // The range of loads follows from the ceiling that each run measures anew.
        parameters: without(&goal.parameters, &["min load", "max load"]),
        irregular,
    }
}

fn figure(procedure: &ProcedureResult, figure: &Figure) -> Quantity {
    Quantity {
        name: format!("{}: {}", procedure.procedure, figure.name),
        unit: figure.unit.clone(),
        values: figure.values.clone(),
        bounds: None,
        open: 1.0,
        // Loads follow from the throughput that each run finds anew.
        parameters: Vec::new(),
        irregular: Vec::new(),
    }
}

fn without(parameters: &[(String, String)], names: &[&str]) -> Vec<(String, String)> {
    parameters.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect()
}

impl Quantity {
    /// Median of the repetitions.
    pub(crate) fn median(&self) -> Option<f64> {
        median(&self.values)
    }

    fn sample(&self) -> Sample<'_> {
        Sample { values: &self.values, open: self.open }
    }
}

/// `other / base`: with the interval of the repetitions, or that of the bounds where there is one repetition.
pub(crate) fn ratio(base: &Quantity, other: &Quantity) -> Option<Found> {
    let found = unpaired_ratio(base.sample(), other.sample())?;
    let interval = match found.ratio.interval {
        Some((low, high)) => Some(Interval { low, high, source: Source::Repetitions }),
        None => base.bounds.zip(other.bounds).map(|((base_low, base_high), (low, high))| Interval {
            low: low / base_high,
            high: high / base_low,
            source: Source::Bounds,
        }),
    };
    Some(Found { value: found.ratio.value, interval, p: found.p })
}

/// Why two quantities of the same name cannot be compared.
pub(crate) fn apart(base: &Quantity, other: &Quantity) -> Option<String> {
    let value = |q: &Quantity, name: &str| {
        q.parameters.iter().find(|(n, _)| n == name).map_or("not set".to_string(), |(_, value)| value.clone())
    };
    let names = base.parameters.iter().chain(&other.parameters).map(|(name, _)| name.as_str());
    for name in names {
        let (a, b) = (value(base, name), value(other, name));
        if a != b {
            return Some(format!(
                "the goal is not the same: {name} is {a} in the first run and {b} in the other"
            ));
        }
    }
    for (which, q) in [("first", base), ("other", other)] {
        if q.values.is_empty() {
            return Some(format!("the {which} run found no value"));
        }
        if !q.irregular.is_empty() {
            return Some(format!(
                "in the {which} run the search ended irregularly ({})",
                q.irregular.join(", ")
            ));
        }
        if q.values.iter().any(|v| *v <= 0.0) {
            return Some(format!("the {which} run has a value of 0, which has no ratio"));
        }
    }
    None
}

/// What a ratio means in this unit.
pub(crate) fn direction(unit: &str, ratio: f64) -> Verdict {
    match (unit, ratio > 1.0) {
        (FRAMES_PER_S, true) | (SECONDS, false) => Verdict::Faster,
        (FRAMES_PER_S, false) | (SECONDS, true) => Verdict::Slower,
        (_, true) => Verdict::Larger,
        (_, false) => Verdict::Smaller,
    }
}
