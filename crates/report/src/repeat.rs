//! How far several runs of one plan agree: for each figure the scatter between the runs, beside the intervals that each of
//! them claimed; and what `weir compare` says of runs between which nothing was changed.

use std::fmt::Write;

use weir_measure::repeat::{Agreement, Said, agreement};

use crate::compare::{CoreSteps, Verdict, compare};
use crate::figure::{name, procedure};
use crate::run_data::{PointData, RunData};
use crate::view::Table;
use crate::view::format::percent;

/// Goals: nine of ten pairs of runs are to agree within these, in capacity and in ratios of devices.
const CAPACITY_WITHIN: f64 = 0.10;
const RATIO_WITHIN: f64 = 0.05;

/// A figure of a point in several runs.
struct Row {
    frame: String,
    device: String,
    figure: String,
    unit: String,
    agreement: Agreement,
}

/// What the runs say of each other, as text for a terminal; the table alone is Markdown as well.
pub fn text(runs: &[RunData]) -> String {
    let rows = rows(runs);
    let mut text = format!("{} runs of {}\n\n", runs.len(), runs.first().map_or("", |r| r.run.plan.as_str()));
    text += &table(&rows).text();
    text + "\n" + &summary(runs)
}

/// The same for a page.
pub fn markdown(runs: &[RunData]) -> String {
    let table = table(&rows(runs));
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(table.head());
    text += &format!("|{}\n", "---|".repeat(table.head().len()));
    table.rows().iter().for_each(|row| text += &line(row));
    let summary = summary(runs);
    summary.lines().fold(text + "\n", |text, line| text + "- " + line + "\n")
}

fn rows(runs: &[RunData]) -> Vec<Row> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for point in first.points.iter().filter(|point| !point.is_ceiling()) {
        let all: Vec<&PointData> = runs.iter().filter_map(|run| partner(run, point)).collect();
        let mut names: Vec<(String, String)> = Vec::new();
        for (figure, unit, _) in all.iter().flat_map(|point| said(point)) {
            if !names.iter().any(|(name, _)| *name == figure) {
                names.push((figure, unit));
            }
        }
        for (figure, unit) in names {
            let of = |point: &&PointData| said(point).into_iter().find(|s| s.0 == figure).map(|s| s.2);
            let values: Vec<Said> = all.iter().filter_map(of).collect();
            let Some(agreement) = agreement(&values) else { continue };
            let (frame, device) = (point.point.frame.clone(), point.point.dut.clone());
            rows.push(Row { frame, device, figure, unit, agreement });
        }
    }
    rows
}

/// The same point in another run.
fn partner<'a>(run: &'a RunData, point: &PointData) -> Option<&'a PointData> {
    run.points.iter().find(|other| other.point.settings == point.point.settings && !other.is_ceiling())
}

/// All figures of a point: name, unit, what is said of it.
fn said(point: &PointData) -> Vec<(String, String, Said)> {
    let figures = point.point.result.iter().flat_map(|result| &result.procedures).flat_map(|p| {
        p.figures.iter().filter_map(move |f| {
            let of =
                if p.procedure == procedure::CAPACITY { String::new() } else { p.procedure.clone() + ": " };
            let said = Said { value: f.value?, interval: f.interval };
            Some((of + &f.name, f.unit.clone(), said))
        })
    });
    let goals = point.goals().iter().filter_map(|goal| {
        let single = match goal.repetitions.as_slice() {
            [one] => one.interval.as_ref().and_then(|interval| interval.low_fps.zip(interval.high_fps)),
            _ => None,
        };
        let said = Said { value: goal.fps_median?, interval: goal.fps_interval.or(single) };
        Some((goal.goal.clone(), crate::figure::unit::FRAMES_PER_S.to_string(), said))
    });
    figures.chain(goals).collect()
}

fn table(rows: &[Row]) -> Table {
    let head = [
        "Frame",
        "Device",
        "Figure",
        "Runs",
        "Median",
        "Range",
        "9 of 10 pairs within",
        "Claimed",
        "Intervals meet",
    ];
    let mut table = Table::new(&head);
    for Row { frame, device, figure, unit, agreement } in rows {
        let value = |value: f64| crate::compare::text::value(value, unit);
        table.push(vec![
            frame.clone(),
            device.clone(),
            figure.clone(),
            agreement.runs.to_string(),
            value(agreement.median),
            format!("{} – {}", value(agreement.low), value(agreement.high)),
            percent(agreement.pairs_within),
            agreement.claimed.map_or_else(|| "–".into(), |half| format!("± {}", percent(half))),
            agreement.overlap.map_or_else(|| "–".into(), percent),
        ]);
    }
    table
}

/// What is to be true of all figures of a kind, a line each.
fn summary(runs: &[RunData]) -> String {
    let mut text = String::new();
    let pairs: Vec<(&RunData, &RunData)> =
        runs.iter().enumerate().flat_map(|(i, a)| runs[..i].iter().map(move |b| (b, a))).collect();
    let within = |figure: &str, most: f64, speed_up: SpeedUp| {
        let known = pairs.iter().filter_map(|(a, b)| Some((a, b, speed_up(a, b)?)));
        let found: Vec<f64> = known.flat_map(|(a, b, core)| apart(a, b, figure, core)).collect();
        let good = found.iter().filter(|apart| **apart <= most).count();
        (!found.is_empty()).then(|| (good as f64 / found.len() as f64, found.len()))
    };
    let as_measured: SpeedUp = |_, _| Some(1.0);
    let of_cores: SpeedUp = |a, b| Some(CoreSteps::of(a, b, &[])?.speed_up());
    for (figure, words, most, speed_up) in [
        (name::CAPACITY, "Capacity", CAPACITY_WITHIN, as_measured),
        (name::CAPACITY, "Capacity at equal speed of the cores", CAPACITY_WITHIN, of_cores),
        (name::CAPACITY_RATIO, "Ratio of devices", RATIO_WITHIN, as_measured),
    ] {
        if let Some((share, n)) = within(figure, most, speed_up) {
            let _ = writeln!(
                text,
                "{words}: {} of {n} pairs of runs at a point agree within {}.",
                percent(share),
                percent(most)
            );
        }
    }
    let orders: Vec<Vec<String>> = runs.iter().map(order).collect();
    let usual = orders.iter().max_by_key(|order| orders.iter().filter(|other| other == order).count());
    if let Some(usual) = usual.filter(|order| !order.is_empty()) {
        let same = orders.iter().filter(|order| *order == usual).count();
        let _ =
            writeln!(text, "Order of the devices by capacity: the same in {same} of {} runs.", runs.len());
    }
    let verdicts: Vec<Verdict> = pairs
        .iter()
        .flat_map(|(a, b)| compare(a, b, &[]).rows)
        .filter(|row| row.quantity.starts_with(procedure::CAPACITY))
        .map(|row| row.verdict)
        .collect();
    if !verdicts.is_empty() {
        let share = |is: &dyn Fn(Verdict) -> bool| {
            percent(verdicts.iter().filter(|v| is(**v)).count() as f64 / verdicts.len() as f64)
        };
        let _ = writeln!(
            text,
            "Between these runs, which are alike, `weir compare` has a verdict for {} of {} capacities and ratios, and \
             reports a difference in {}.",
            share(&|v| v != Verdict::CannotTell),
            verdicts.len(),
            share(&|v| !matches!(v, Verdict::CannotTell | Verdict::NoDifference)),
        );
    }
    text
}

/// How many times as fast the second of two runs may be without a difference, where that is known.
type SpeedUp = fn(&RunData, &RunData) -> Option<f64>;

/// Larger / smaller - 1 of a figure of the capacity in two runs, at each point, in each placement that both have, where the
/// cores were `core` times as fast in the second.
fn apart(a: &RunData, b: &RunData, figure: &str, core: f64) -> Vec<f64> {
    let points = a.points.iter().filter(|point| !point.is_ceiling());
    let both = points.filter_map(|point| Some((point, partner(b, point)?)));
    let figures = both.flat_map(|(a, b)| {
        let others = said(b);
        said(a).into_iter().filter_map(move |(name, _, one)| {
            let other = others.iter().find(|other| other.0 == name)?.2;
            Some((name, (one.value / other.value * core).ln().abs().exp_m1()))
        })
    });
    figures.filter(|(name, _)| name.starts_with(figure)).map(|(_, apart)| apart).collect()
}

/// The devices from the fastest to the slowest, for each frame size, by their first capacity.
fn order(run: &RunData) -> Vec<String> {
    let mut all: Vec<(&str, &str, f64)> = run
        .points
        .iter()
        .filter_map(|point| {
            let fps = point.capacity()?.figures.first()?.value?;
            Some((point.point.frame.as_str(), point.point.dut.as_str(), fps))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(b.0).then(b.2.total_cmp(&a.2)));
    all.into_iter().map(|(frame, device, _)| format!("{frame} {device}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{figure, unit};
    use crate::fixture;
    use crate::record::{PointResult, ProcedureResult, Statistic};

    /// A run of two devices with these capacities in frames/s, each from rounds 1 % apart.
    fn run(id: i64, speeds: [f64; 2]) -> RunData {
        let devices = ["kernel-forward", "kernel-nat"].into_iter().enumerate().zip(speeds);
        let points = devices.map(|((index, device), fps)| {
            let mut data = fixture::point(index, device, 64, fps);
            let rounds = |value: f64| (0..9).map(|i| value * (0.96 + f64::from(i) / 100.0)).collect();
            let capacity = figure(name::CAPACITY, unit::FRAMES_PER_S, Statistic::Median, rounds(fps));
            let ratio = figure(name::CAPACITY_RATIO, unit::TIMES, Statistic::Median, rounds(fps / speeds[0]));
            let figures = if index == 0 { vec![capacity] } else { vec![capacity, ratio] };
            let procedure = procedure::CAPACITY.into();
            let procedures = vec![ProcedureResult { procedure, figures, ..ProcedureResult::default() }];
            data.point.result = Some(PointResult { procedures, ..PointResult::default() });
            data
        });
        RunData { run: fixture::run(id), points: points.collect() }
    }

    #[test]
    fn runs_are_compared_in_each_figure() {
        let runs = [run(1, [1.0e6, 0.5e6]), run(2, [1.02e6, 0.52e6]), run(3, [1.2e6, 0.6e6])];
        let text = text(&runs).replace('\u{202f}', " ");
        // Of three pairs the first agrees; the ratios are 0.5, 0.51 and 0.5.
        let page = markdown(&runs).replace('\u{202f}', " ");
        weir_testkit::golden!("src/golden/repeat.txt", &format!("{text}\n{page}"));
    }
}
