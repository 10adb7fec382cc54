//! What two points are compared by: the rates of their goals and the figures of their procedures.

use weir_measure::placement::{Place, Placement};

use super::{CoreSteps, Interval, Source, Verdict};
use crate::at_load::AtLoad;
use crate::figure::unit::{CYCLES, FRAMES_PER_S, SECONDS, TIMES};
use crate::figure::{name, procedure};
use crate::record::{Better, Bound, Figure, GoalResult, ProcedureResult};
use crate::run_data::PointData;
use crate::stats::{Sample, median, unpaired_ratio};
use crate::view::Rate;
use crate::view::format::si;

/// What a quantity is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Rounds of the forwarding capacity, which are kept apart by the placement of the CPUs.
    Capacity,
    /// Repetitions of a search.
    Goal,
    /// Repetitions of a procedure.
    Figure,
}

/// One quantity with all its repetitions.
#[derive(Clone)]
pub struct Quantity {
    /// What it is measured by.
    pub kind: Kind,
    /// Goal (`NDR`) or procedure and figure (`latency: median`).
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Which of them are better.
    pub better: Better,
    values: Vec<f64>,
    /// Smallest lower and largest upper bound of the repetitions, where each has both.
    bounds: Option<(f64, f64)>,
    /// Largest upper / lower bound of a single repetition.
    open: f64,
    /// All that defines it.
    pub parameters: Vec<(String, String)>,
    /// How its median relates to the true value.
    pub bound: Bound,
    /// Why it says less than it should.
    pub irregular: Vec<String>,
}

/// A ratio with what is known about it.
#[derive(Clone, Copy)]
pub struct Found {
    /// The later by the earlier.
    pub value: f64,
    /// 95 %.
    pub interval: Option<Interval>,
    /// How likely such a difference is between runs that are alike.
    pub p: Option<f64>,
}

/// All quantities of a point.
pub fn of(point: &PointData) -> Vec<Quantity> {
    let procedures = point.point.result.iter().flat_map(|r| &r.procedures);
    let figures = procedures.flat_map(|p| p.figures.iter().map(|f| figure(p, f)));
    point.goals().iter().map(goal).chain(figures).chain(at_fixed_loads(point)).collect()
}

/// What comes through at the loads that a plan names, and what a frame costs there.
fn at_fixed_loads(point: &PointData) -> Vec<Quantity> {
    let quantity = |name: String, unit: &str, better, values| Quantity {
        kind: Kind::Figure,
        name,
        unit: unit.into(),
        better,
        values,
        bounds: None,
        open: 1.0,
        parameters: Vec::new(),
        bound: Bound::Exact,
        irregular: Vec::new(),
    };
    let of_load = |load: AtLoad<'_>| {
        let at = si(load.offered_fps).replace('\u{202f}', "");
        let received =
            quantity(format!("received of {at} frames/s"), FRAMES_PER_S, Better::Higher, load.received_fps());
        let cycles = quantity(
            format!("cycles per frame at {at} frames/s"),
            CYCLES,
            Better::Lower,
            load.cycles_per_frame(),
        );
        [received, cycles].into_iter().filter(|quantity| !quantity.values.is_empty())
    };
    if point.is_fixed() { point.fixed_loads().into_iter().flat_map(of_load).collect() } else { Vec::new() }
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
        kind: Kind::Goal,
        name: goal.goal.clone(),
        unit: FRAMES_PER_S.into(),
        better: Better::Higher,
        values: repetitions.iter().filter_map(|r| r.fps).collect(),
        bounds: hull,
        open: bounds.iter().map(|(low, high)| high / low).fold(1.0, f64::max),
        // The range of loads follows from the ceiling that each run measures anew.
        parameters: without(&goal.parameters, &["min load", "max load"]),
        bound: Rate::of(goal).map_or(Bound::Exact, |rate| rate.bound),
        irregular,
    }
}

fn figure(procedure: &ProcedureResult, figure: &Figure) -> Quantity {
    let is_capacity = procedure.procedure == procedure::CAPACITY;
    Quantity {
        kind: if is_capacity { Kind::Capacity } else { Kind::Figure },
        name: format!("{}: {}", procedure.procedure, figure.name),
        unit: figure.unit.clone(),
        better: figure.better(),
        values: figure.values.clone(),
        bounds: None,
        open: if is_capacity { between_runs(&figure.name) } else { 1.0 },
        // Loads follow from the throughput that each run finds anew.
        parameters: Vec::new(),
        bound: figure.bound,
        irregular: Vec::new(),
    }
}

/// The rounds of a run do not tell how another run would scatter: memory lies elsewhere, the host has other work. So much
/// is assumed (standard deviation) at equal speed of the core; `weir run repeat` tells what it is on a machine.
const RUNS_DIFFER: f64 = 0.02;
/// The same of ratios of devices that were measured in the same rounds.
const RATIOS_DIFFER: f64 = 0.015;
/// The same of such ratios, one with near and one with far cores: docs/measurements.md.
const PLACED_RATIOS_DIFFER: f64 = 0.022;

/// What the rounds of a run leave open.
fn between_runs(figure: &str) -> f64 {
    width(if figure.starts_with(name::CAPACITY_RATIO) { RATIOS_DIFFER } else { RUNS_DIFFER })
}

/// Of a uniform distribution with this standard deviation.
fn width(deviation: f64) -> f64 {
    (deviation * 12f64.sqrt()).exp()
}

fn without(parameters: &[(String, String)], names: &[&str]) -> Vec<(String, String)> {
    parameters.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect()
}

impl Quantity {
    /// Median of the repetitions.
    pub fn median(&self) -> Option<f64> {
        median(&self.values)
    }

    /// Whether it is a single search, with an unknown spread.
    pub fn is_single_search(&self) -> bool {
        self.kind == Kind::Goal && self.values.len() < 2
    }

    fn sample(&self) -> Sample<'_> {
        Sample { values: &self.values, open: self.open }
    }
}

/// The ratios of a device to the reference where one run has them with near cores only and the other with far cores only. A
/// capacity changes by a tenth with that, but so does that of the reference in the same rounds.
pub fn placed_ratios(base: &[Quantity], other: &[Quantity]) -> Option<(Quantity, Quantity)> {
    let ratios = |all: &[Quantity]| {
        [Placement::NearCores, Placement::FarCores].map(|placement| {
            let place = Some(Place { placement, disturbed: false });
            let name = format!("{}: {}", procedure::CAPACITY, name::at_place(name::CAPACITY_RATIO, place));
            all.iter().find(|q| q.name == name).cloned()
        })
    };
    let (base, other) = match (ratios(base), ratios(other)) {
        ([Some(near), None], [None, Some(far)]) => (near, far),
        ([None, Some(far)], [Some(near), None]) => (far, near),
        _ => return None,
    };
    let named = |q: Quantity| Quantity {
        name: format!("{}: {} (near against far cores)", procedure::CAPACITY, name::CAPACITY_RATIO),
        open: width(PLACED_RATIOS_DIFFER),
        ..q
    };
    Some((named(base), named(other)))
}

/// `other / base`: with the interval of the repetitions, or that of the bounds where there is one repetition. Of a capacity,
/// without what it owes to the speed of the core.
pub fn ratio(base: &Quantity, other: &Quantity, core: Option<CoreSteps>) -> Option<Found> {
    let core =
        core.filter(|_| base.kind == Kind::Capacity).map_or(1.0, |steps| steps.share_of_core(&base.unit));
    let at_equal_speed: Vec<f64> = other.values.iter().map(|value| value / core).collect();
    let found = unpaired_ratio(base.sample(), Sample { values: &at_equal_speed, open: other.open })?;
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
pub fn apart(base: &Quantity, other: &Quantity) -> Option<String> {
    let value = |q: &Quantity, name: &str| {
        q.parameters.iter().find(|(n, _)| n == name).map_or("not set".to_string(), |(_, value)| value.clone())
    };
    let names = base.parameters.iter().chain(&other.parameters).map(|(name, _)| name.as_str());
    for name in names {
        let (a, b) = (value(base, name), value(other, name));
        if a != b {
            return Some(format!("the goals differ: {name} is {a} in the first run and {b} in the other"));
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
        if q.bound == Bound::NoResult {
            return Some(format!(
                "the {which} run has no result: its interval is too wide, or both rates of a ratio are bounds"
            ));
        }
        if q.values.iter().any(|v| *v <= 0.0) {
            return Some(format!("the {which} run has a value of 0, which has no ratio"));
        }
    }
    let is_limited = |q: &Quantity| q.bound == Bound::AtLeast;
    (is_limited(base) && is_limited(other))
        .then(|| "the tester was the limit in both runs: each value is a lower bound".into())
}

/// What a ratio means of a figure that is better this way.
pub fn direction(better: Better, unit: &str, ratio: f64) -> Verdict {
    let is_speed = unit.ends_with("/s") || [TIMES, SECONDS, CYCLES, "us"].contains(&unit);
    let is_more = ratio > 1.0;
    match (better, is_more == (better == Better::Higher), is_speed) {
        (Better::Neither, ..) if is_more => Verdict::Larger,
        (Better::Neither, ..) => Verdict::Smaller,
        (_, true, true) => Verdict::Faster,
        (_, false, true) => Verdict::Slower,
        (_, true, false) => Verdict::Better,
        (_, false, false) => Verdict::Worse,
    }
}
