//! Fixes in a report: each setting before and after, what it gained, and which gained nothing.

use super::plan::{Fix, Quantity};
use super::run::{Found, ID};
use crate::record::Trial;
use crate::report::block::{Block, Part};
use crate::run_data::{MEASURES, PointData, RunData};
use crate::stats::{self, Ratio};
use crate::view::Table;
use crate::view::format::{or_dash, range, si, significant};

/// Without an interval, a change below this says nothing.
const LEAST: f64 = 0.05;

const METHOD: &str = "Each trial has namespaces of its own, in which the setting has the value before or the value after; nothing of the machine \
    itself is changed. Both alternate in each round, and the gain is the median of the ratios within the rounds, above 1 where the \
    setting helps. Values before are the defaults of the kernel; of net.core.somaxconn that of Linux before 5.4. An interval needs six \
    rounds; with fewer, a fix is said to gain where it does by 5 % in every round. A setting that gains nothing here may be needed \
    under another load, or on a machine with more CPUs.";

/// What became of a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Gains,
    Costs,
    Nothing,
}

/// A fix with its trials.
struct Row<'a> {
    fix: Fix,
    before: Side<'a>,
    after: Side<'a>,
}

/// The setting in one state.
struct Side<'a> {
    data: &'a PointData,
    /// By round.
    found: Vec<(String, f64)>,
}

impl Side<'_> {
    fn setting(&self, name: &str) -> String {
        self.data.setting(name).unwrap_or("–").into()
    }

    fn median(&self) -> Option<f64> {
        stats::median(&self.found.iter().map(|(_, value)| *value).collect::<Vec<_>>())
    }
}

impl Row<'_> {
    fn quantity(&self) -> Quantity {
        self.fix.quantity()
    }

    /// Ratios within rounds, above 1 where the fix helps.
    fn gains(&self) -> Vec<(f64, f64)> {
        let of =
            |round: &str| self.before.found.iter().find(|(other, _)| other == round).map(|(_, value)| *value);
        let pairs = self.after.found.iter().filter_map(|(round, after)| Some((*after, of(round)?)));
        match self.quantity().is_cost {
            true => pairs.map(|(after, before)| (before, after)).collect(),
            false => pairs.collect(),
        }
    }

    fn gain(&self) -> Option<Ratio> {
        stats::ratio(&self.gains())
    }

    fn effect(&self) -> Option<Effect> {
        let (low, high) = match self.gain()?.interval {
            Some(interval) => interval,
            None => {
                let ratios: Vec<f64> = self.gains().iter().map(|(one, other)| one / other).collect();
                let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let most = ratios.iter().copied().fold(0.0, f64::max);
                (least - LEAST, most + LEAST)
            }
        };
        Some(match () {
            () if low > 1.0 => Effect::Gains,
            () if high < 1.0 => Effect::Costs,
            () => Effect::Nothing,
        })
    }

    fn value(&self, value: Option<f64>) -> String {
        or_dash(value, |value| match self.quantity().unit {
            "bit/s" => format!("{}bit/s", si(value)),
            "s" => format!("{} s", significant(value)),
            _ => format!("{}/s", significant(value)),
        })
    }
}

fn rows(data: &RunData) -> Vec<Row<'_>> {
    let side = |fix: Fix, state: &str| {
        let of = |name| move |point: &&PointData, value: &str| point.setting(name) == Some(value);
        let point = data.points.iter().find(|point| {
            of(MEASURES)(point, ID) && of("fix")(point, fix.name()) && of("state")(point, state)
        })?;
        let found = |trial: &Trial| Some((trial.key.clone()?, trial.believed::<Found>()?.0));
        Some(Side { data: point, found: point.measured().filter_map(found).collect() })
    };
    let all = Fix::ALL.into_iter();
    all.filter_map(|(fix, _)| Some(Row { fix, before: side(fix, "before")?, after: side(fix, "after")? }))
        .collect()
}

/// Its section of a report.
pub(super) fn parts(data: &RunData) -> Vec<Part> {
    let rows = rows(data);
    if rows.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[
        "Setting",
        "Load",
        "What is measured",
        "Value before",
        "Value after",
        "Before",
        "After",
        "Gain",
        "95 % interval",
        "Says",
    ]);
    for row in &rows {
        let gain = row.gain();
        table.push(vec![
            row.before.setting("setting"),
            row.before.setting("load"),
            row.quantity().name.into(),
            row.before.setting("value"),
            row.after.setting("value"),
            row.value(row.before.median()),
            row.value(row.after.median()),
            or_dash(gain.as_ref(), |gain| format!("{}\u{202f}×", significant(gain.value))),
            or_dash(gain.and_then(|gain| gain.interval), range),
            row.effect().map_or("–", word).into(),
        ]);
    }
    let blocks = vec![Block::Table(table.without_empty(&["95 % interval"])), Block::Note(METHOD.into())];
    vec![Part { id: ID, heading: "What settings gain".into(), blocks }]
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Gains => "gains",
        Effect::Costs => "costs",
        Effect::Nothing => "gained nothing",
    }
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let rows = rows(data);
    let mut said = Vec::new();
    for row in &rows {
        if let (Some(Effect::Gains | Effect::Costs), Some(gain)) = (row.effect(), row.gain()) {
            said.push(format!(
                "{} {} in place of {}: {} {} in place of {}, {} times.",
                row.before.setting("setting"),
                row.after.setting("value"),
                row.before.setting("value"),
                row.quantity().name,
                row.value(row.after.median()),
                row.value(row.before.median()),
                significant(gain.value),
            ));
        }
    }
    let nothing = rows.iter().filter(|row| row.effect() == Some(Effect::Nothing));
    let names: Vec<String> = nothing.map(|row| row.before.setting("setting")).collect();
    if !names.is_empty() {
        said.push(format!("Gained nothing that shows: {}.", names.join("; ")));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_gains_where_every_round_says_so() {
        let data = PointData { point: crate::record::Point::default(), trials: Vec::new() };
        let row = |fix: Fix, before: &[f64], after: &[f64]| {
            let side = |values: &[f64]| Side {
                data: &data,
                found: (1..).zip(values).map(|(n, value)| (format!("round {n}"), *value)).collect(),
            };
            let row = Row { fix, before: side(before), after: side(after) };
            (row.effect(), row.gain().map(|gain| gain.value))
        };
        assert_eq!(row(Fix::Rps, &[100.0, 200.0], &[200.0, 400.0]), (Some(Effect::Gains), Some(2.0)));
        assert_eq!(
            row(Fix::Backlog, &[2.0, 2.0], &[1.0, 1.0]),
            (Some(Effect::Gains), Some(2.0)),
            "less is better"
        );
        assert_eq!(row(Fix::Idle, &[1.0, 1.0], &[4.0, 4.0]).0, Some(Effect::Costs));
        assert_eq!(row(Fix::Rps, &[100.0, 100.0], &[103.0, 150.0]).0, Some(Effect::Nothing));
        assert_eq!(row(Fix::Rps, &[], &[]), (None, None));
        let (before, after) = ([100.0; 6], [101.0; 6]);
        assert_eq!(row(Fix::Rps, &before, &after).0, Some(Effect::Gains), "an interval is exact");
    }
}
