//! Fixes in a report: each setting before and after, what it gained, and which gained nothing.

use super::plan::{Fix, Quantity};
use super::run::{Found, ID};
use weir_measure::stats::{self, Ratio};
use weir_record::record::Trial;
use weir_record::run_data::{MEASURES, PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::report::bars::{Bar, BarChart};
use weir_report::report::block::{Block, Part};
use weir_report::view::Table;
use weir_report::view::format::{bracketed, count, list, or_dash, range, si, significant};

/// Without an interval, a change below this says nothing.
const LEAST: f64 = 0.05;

const METHOD: &str = "Each trial has namespaces of its own, in which the setting has the value before or the value after; nothing of the machine \
    itself is changed. Both alternate in each round, and the gain is the median of the ratios within the rounds, above 1 where the \
    setting helps. Values before are the defaults of the kernel; of net.core.somaxconn that of Linux before 5.4. An interval needs six \
    rounds; with fewer, a fix is said to gain where it does by 5 % in every round. A setting that gains nothing here may be needed \
    under another load, or on a machine with more CPUs.";

const CAPTION: &str = "How many times as good a setting is after the fix as before it, median of the rounds: beyond the line it is better, \
    before the line worse.";

/// The outcome of a fix.
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
        if self.quantity().is_cost {
            pairs.map(|(after, before)| (before, after)).collect()
        } else {
            pairs.collect()
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
        Effect::Gains => "better",
        Effect::Costs => "worse",
        Effect::Nothing => "no change",
    }
}

impl Row<'_> {
    /// `1.4 times the connections/s`, `the time of 1 MB is shorter by a factor of 3.1`, with its interval.
    fn change(&self) -> Option<String> {
        let (gain, quantity) = (self.gain()?, self.quantity());
        if !quantity.is_cost {
            let interval = gain.interval.map_or_else(String::new, bracketed);
            return Some(format!("{} times the {}{interval}", significant(gain.value), quantity.subject));
        }
        let (word, factor, interval) = match gain.value {
            value if value >= 1.0 => ("shorter", value, gain.interval),
            value => ("longer", 1.0 / value, gain.interval.map(|(low, high)| (1.0 / high, 1.0 / low))),
        };
        let interval = interval.map_or_else(String::new, bracketed);
        Some(format!("{} is {word} by a factor of {}{interval}", quantity.subject, significant(factor)))
    }

    /// The whole of it in a sentence.
    fn sentence(&self) -> Option<String> {
        let word = match self.effect()? {
            Effect::Gains => "is better",
            Effect::Costs => "is worse",
            Effect::Nothing => return None,
        };
        Some(format!(
            "{} {word} with {} than with {}: {} {}, before {}; {}.",
            self.before.setting("setting"),
            self.after.setting("value"),
            self.before.setting("value"),
            self.quantity().name,
            self.value(self.after.median()),
            self.value(self.before.median()),
            self.change()?,
        ))
    }
}

/// Which settings gain something, and how much.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let rows = rows(data);
    let measured: Vec<(&Row<'_>, Effect)> =
        rows.iter().filter_map(|row| Some((row, row.effect()?))).collect();
    if measured.is_empty() {
        return None;
    }
    let mut chart = BarChart::plain("times as good as before", significant);
    let bars = measured.iter().map(|(row, _)| {
        let value = row.gain().map(|gain| gain.value);
        let text =
            or_dash(value, |times| format!("{}, {}", significant(times), row.effect().map_or("", word)));
        Bar { interval: row.gain().and_then(|gain| gain.interval), ..Bar::plain(row.fix.name(), value, text) }
    });
    chart.group("After the fix", bars.collect());
    chart.groups.iter_mut().for_each(|group| group.limit = Some(1.0));
    chart.limit_name = "before:".into();
    chart.cut_outliers();
    Some(Answer {
        sentences: std::iter::once(verdict(&measured)).chain(without_intervals(&rows)).collect(),
        table: short_table(&rows),
        columns: columns(&rows),
        drawing: Some(Block::Wide(
            chart.draw("What settings gain", "The numbers are in the table below."),
            CAPTION,
        )),
    })
}

/// All fixes by what became of them.
fn verdict(measured: &[(&Row<'_>, Effect)]) -> String {
    let of = |effect: Effect| measured.iter().filter(move |(_, of)| *of == effect).map(|(row, _)| *row);
    let told = |effect| -> Vec<String> {
        of(effect).filter_map(|row| Some(format!("{} ({})", row.fix.name(), row.change()?))).collect()
    };
    let nothing: Vec<String> = of(Effect::Nothing).map(|row| row.fix.name().to_string()).collect();
    let (gains, costs) = (told(Effect::Gains), told(Effect::Costs));
    let gains = match gains.len() {
        0 => format!("None of the {} gains anything on this machine", count(measured.len(), "setting")),
        n => format!("{n} of {} gain something: {}", count(measured.len(), "setting"), list(&gains)),
    };
    let costs = if costs.is_empty() { None } else { Some(format!("worse is {}", list(&costs))) };
    let nothing =
        if nothing.is_empty() { None } else { Some(format!("no change shows with {}", list(&nothing))) };
    format!("{}.", std::iter::once(gains).chain(costs).chain(nothing).collect::<Vec<_>>().join("; "))
}

/// What few rounds cannot say.
fn without_intervals(rows: &[Row<'_>]) -> Option<String> {
    let rounds = rows.iter().map(|row| row.gains().len()).max()?;
    (rounds < stats::FEWEST_FOR_INTERVAL).then(|| {
        format!(
            "There are only {}: a setting counts as better or worse where it is so by 5 % in each of them; six rounds give intervals.",
            count(rounds, "round")
        )
    })
}

fn short_table(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(&["fix", "measured", "before", "after", "times", "95 % interval", "so it is"]);
    for row in rows {
        let gain = row.gain();
        table.push(vec![
            row.fix.name().into(),
            row.quantity().short.into(),
            row.value(row.before.median()),
            row.value(row.after.median()),
            or_dash(gain.as_ref(), |gain| significant(gain.value)),
            or_dash(gain.and_then(|gain| gain.interval), range),
            row.effect().map_or("not measured", word).into(),
        ]);
    }
    table.without_empty(&["95 % interval"])
}

fn columns(rows: &[Row<'_>]) -> String {
    let of = |row: &Row<'_>| {
        let [setting, before, after] =
            [row.before.setting("setting"), row.before.setting("value"), row.after.setting("value")];
        format!("{}: {setting}, before {before}, after {after}", row.fix.name())
    };
    let all: Vec<String> = rows.iter().map(of).collect();
    format!("{}. times: how many times as good as before, above 1 the fix helps.", all.join("; "))
}

/// What a run says, for the summary.
pub(super) fn findings(data: &RunData) -> Vec<String> {
    let answer = answer(data).map_or_else(Vec::new, |answer| answer.sentences);
    answer.into_iter().chain(rows(data).iter().filter_map(Row::sentence)).collect()
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::super::plan::State;
    use super::*;
    use crate::first_screen;
    use weir_record::fixture;
    use weir_record::record::PointResult;

    /// A fix with what its rounds have found before and after.
    fn points(fix: Fix, found: [&[f64]; 2]) -> Vec<PointData> {
        let of = |(state, values): (State, &&[f64])| {
            let mut data = fixture::point(0, ID, 64, 1.0);
            let (setting, value) = fix.text(state);
            let settings = [
                (MEASURES, ID),
                ("fix", fix.name()),
                ("state", state.name()),
                ("setting", &setting),
                ("value", &value),
                ("load", &fix.load()),
            ];
            data.point.settings =
                settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
            data.point.result = Some(PointResult { search: "rounds".into(), ..PointResult::default() });
            let trial = data.trials[1].clone();
            let trial = |(i, value): (usize, &f64)| {
                let mut trial = trial.clone().with_detail(&Found(*value));
                trial.key = Some(format!("round {}", i + 1));
                trial
            };
            data.trials = values.iter().enumerate().map(trial).collect();
            data
        };
        let states = [State::Before, State::After];
        states.into_iter().zip(&found).map(of).collect()
    }

    #[test]
    fn the_first_screen_says_better_and_worse_in_words() {
        let run = |rounds: usize| {
            let of = |fix, [before, after]: [f64; 2]| {
                let spread = |value: f64| (0..rounds).map(|i| value * (1.0 + i as f64 / 100.0)).collect();
                let (before, after): (Vec<f64>, Vec<f64>) = (spread(before), spread(after));
                points(fix, [&before, &after])
            };
            let points = [
                of(Fix::Backlog, [0.0037, 0.0118]),
                of(Fix::Ports, [4000.0, 5400.0]),
                of(Fix::Window, [120e6, 121e6]),
                of(Fix::Idle, [1.2, 0.4]),
            ];
            RunData { run: fixture::run(1), points: points.concat() }
        };
        let found = findings(&run(6)).join("\n");
        let text = [first_screen(&run(2)), first_screen(&run(6)), found].join("\n----\n");
        golden!("src/fixes/report.txt", &text.replace('\u{202f}', " "));
    }

    #[test]
    fn a_fix_gains_where_every_round_says_so() {
        let data = PointData { point: weir_record::record::Point::default(), trials: Vec::new() };
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
