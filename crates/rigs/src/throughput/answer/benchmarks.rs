//! All benchmarks of an RFC in one table: throughput, latency, delay variation, frame loss, back-to-back frames, system
//! recovery, reset, forwarding rates.

use super::axes::{Axes, Group, devices};
use super::bars::{self, Group as Bars};
use weir_record::figure::{name, procedure, unit};
use weir_record::record::Figure;
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::{Answer, headline, outside_of_stops, times, trust};
use weir_report::view::format::{full, list, or_dash, percent, si, time_ns};
use weir_report::view::{Rate, Table, frame_name};

const FRAME: &str = "frame_bytes";
const COLUMNS: &str = "frames/s: throughput, of all directions together; outside stops: the highest load without loss while tester and \
    device ran; latency and its 99.9th percentile at that load; no loss to: \
    the highest load of the frame loss rate without loss; at most: loss at the highest load that was offered; burst: back-to-back \
    frames; MFR: maximum forwarding rate; FRMOL: forwarding rate at maximum offered load.";

/// A figure of a procedure as a column and in a sentence.
struct Benchmark {
    procedure: &'static str,
    figure: &'static str,
    column: &'static str,
    /// What it is in a sentence, before its value.
    words: &'static str,
}

const fn benchmark(
    procedure: &'static str,
    figure: &'static str,
    column: &'static str,
    words: &'static str,
) -> Benchmark {
    Benchmark { procedure, figure, column, words }
}

/// Of the frame loss rate, the loss at the highest load: the first figure of this kind.
const LOSS_AT: &str = "loss at ";

const BENCHMARKS: [Benchmark; 11] = [
    benchmark(procedure::LATENCY, name::TYPICAL_LATENCY, "latency", "latency"),
    benchmark(procedure::LATENCY, name::WORST_CASE_LATENCY, "99.9 %", "99.9 % of the frames within"),
    benchmark(procedure::PDV, name::PDV, "PDV", "delay variation (PDV)"),
    benchmark(procedure::FRAME_LOSS, name::LOAD_WITHOUT_LOSS, "no loss to", "no loss at loads up to"),
    benchmark(procedure::FRAME_LOSS, LOSS_AT, "at most", "at the highest load"),
    benchmark(procedure::BACK_TO_BACK, name::BURST, "burst", "back-to-back frames"),
    benchmark(procedure::RECOVERY, name::RECOVERY_TIME, "recovery", "recovery from overload in"),
    benchmark(procedure::RESET, name::RESET_BY_LOSS, "reset", "reset in"),
    benchmark(procedure::FORWARDING, name::MFR, "MFR", "maximum forwarding rate"),
    benchmark(procedure::FORWARDING, name::FRMOL, "FRMOL", "under maximum offered load (FRMOL)"),
    benchmark(procedure::FORWARDING, name::MAXIMUM_LOAD, "of load", "of an offered load of"),
];

/// `None` where no procedure of a benchmark was made.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[FRAME]);
    let groups = axes.groups(data);
    let made: Vec<&Benchmark> = BENCHMARKS
        .iter()
        .filter(|benchmark| groups.iter().flat_map(|group| &group.points).any(|p| benchmark.is_made(p)))
        .collect();
    if made.is_empty() {
        return None;
    }
    let each = groups.iter().map(|group| profile(group, &made));
    let bars = groups.iter().map(|group| Bars {
        label: group.label.clone(),
        points: group.points.iter().map(|point| (frame_name(&point.point.frame), *point)).collect(),
    });
    let bars = bars::of_rates(bars.collect());
    let stops = devices(data).find_map(outside_of_stops);
    let sentences = compared(&groups).into_iter().chain(each).chain(stops).chain(trust(data));
    Some(Answer {
        sentences: sentences.collect(),
        table: table(&axes, &groups, &made),
        columns: COLUMNS.into(),
        drawing: bars,
    })
}

impl Benchmark {
    fn is_made(&self, point: &PointData) -> bool {
        point
            .point
            .result
            .iter()
            .flat_map(|result| &result.procedures)
            .any(|made| made.procedure == self.procedure)
    }

    fn figure<'p>(&self, point: &'p PointData) -> Option<&'p Figure> {
        let procedures = point.point.result.iter().flat_map(|result| &result.procedures);
        let figures =
            procedures.filter(|made| made.procedure == self.procedure).flat_map(|made| &made.figures);
        let mut found = figures.filter(|figure| match self.figure {
            LOSS_AT => figure.name.starts_with(LOSS_AT),
            name => figure.name == name,
        });
        found.find(|figure| figure.value.is_some())
    }

    /// `latency 21.0 to 30.4 µs`, over all frame sizes; `None` where it was not made or found nothing.
    fn words(&self, points: &[&PointData]) -> Option<String> {
        let figures: Vec<&Figure> = points.iter().filter_map(|point| self.figure(point)).collect();
        let values: Vec<f64> = figures.iter().filter_map(|figure| figure.value).collect();
        let unit = figures.first().map_or("", |figure| figure.unit.as_str());
        let behind = match (self.figure, unit) {
            (_, unit::FRAMES_PER_S) => " frames/s",
            (LOSS_AT, _) => " of loss",
            _ => "",
        };
        span(&values, |value| written(value, unit)).map(|span| format!("{} {span}{behind}", self.words))
    }
}

/// The smallest and the largest of some values, or the only one.
fn span(values: &[f64], text: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    if values.is_empty() {
        return None;
    }
    let (low, high) = (text(low), text(high));
    Some(if low == high { low } else { format!("{low} to {high}") })
}

fn written(value: f64, of: &str) -> String {
    match of {
        unit::SECONDS => time_ns(value * 1e9),
        unit::RATIO => percent(value),
        unit::FRAMES => full(value),
        _ => si(value),
    }
}

/// All benchmarks of points that differ in the frame size, in one sentence.
fn profile(group: &Group<'_>, made: &[&Benchmark]) -> String {
    let frames: Vec<&str> = group.points.iter().map(|point| point.point.frame.as_str()).collect();
    let frames = match &frames[..] {
        [] => String::new(),
        [one] => frame_name(one),
        [first, .., last] => format!("{first} to {}", frame_name(last)),
    };
    let rates: Vec<f64> = group.points.iter().filter_map(|p| Some(headline(p)?.fps)).collect();
    let throughput = match span(&rates, si) {
        Some(span) => format!("throughput {span} frames/s{}", goal(&group.points)),
        None => "no throughput was found".into(),
    };
    let parts = made.iter().filter_map(|benchmark| benchmark.words(&group.points));
    let parts: Vec<String> = std::iter::once(throughput).chain(parts).collect();
    format!("{}, {frames}: {}.", group.label, parts.join(", "))
}

/// What its throughput allows.
fn goal(points: &[&PointData]) -> String {
    let name = points.iter().flat_map(|point| point.goals()).map(|goal| goal.goal.as_str()).next();
    match name {
        Some("throughput" | "NDR") => " without loss".into(),
        Some(name) => format!(" ({name})"),
        None => String::new(),
    }
}

/// The throughput of the groups beside each other, at the smallest frames that all have.
fn compared(groups: &[Group<'_>]) -> Option<String> {
    let (first, others) = groups.split_first()?;
    let has_all = |frame: &str| others.iter().all(|group| group.at(frame).is_some());
    let base = *first.points.iter().find(|point| has_all(&point.point.frame))?;
    let frame = &base.point.frame;
    let rate = |point: &PointData| headline(point).map(|rate| rate.words());
    let other = |group: &Group<'_>| {
        let point = group.at(frame)?;
        let ratio =
            times(point, base).map_or_else(String::new, |ratio| format!(", {} times as many", ratio.words()));
        Some(format!("{} {}{ratio}", group.label, rate(point)?))
    };
    let others: Vec<String> = others.iter().filter_map(other).collect();
    (!others.is_empty()).then(|| rate(base)).flatten().map(|own| {
        format!(
            "At {} {} forwards {own} frames/s{}; {}.",
            frame_name(frame),
            first.label,
            goal(&[base]),
            list(&others)
        )
    })
}

/// Columns that a narrow terminal does without, the first of them first.
const DISPENSABLE: [&str; 4] = ["of load", "at most", "reset", "99.9 %"];

fn table(axes: &Axes, groups: &[Group<'_>], made: &[&Benchmark]) -> Table {
    let mut made = made.to_vec();
    let mut table = table_of(axes, groups, &made);
    for column in DISPENSABLE {
        if super::fits(&table) {
            break;
        }
        made.retain(|benchmark| benchmark.column != column);
        table = table_of(axes, groups, &made);
    }
    table
}

fn table_of(axes: &Axes, groups: &[Group<'_>], made: &[&Benchmark]) -> Table {
    const OUTSIDE: &str = "outside stops";
    let columns = made.iter().map(|benchmark| benchmark.column.to_string());
    let begin = axes.head().into_iter().chain(["frame", "frames/s", OUTSIDE].map(String::from));
    let mut table = Table::new(&begin.chain(columns).collect::<Vec<_>>());
    for (group, point) in
        groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, *point)))
    {
        let cells = made.iter().map(|benchmark| {
            let figure = benchmark.figure(point);
            or_dash(figure.and_then(|f| Some((f.value?, f.unit.as_str()))), |(value, unit)| {
                written(value, unit)
            })
        });
        let rate = or_dash(headline(point), |rate| rate.sign());
        let outside = point.goals().first().and_then(|goal| point.outside_of_stops(goal));
        let outside = or_dash(outside.and_then(Rate::of), |rate| rate.sign());
        let begin = group.cells.iter().cloned().chain([point.point.frame.clone(), rate, outside]);
        table.push(begin.chain(cells).collect());
    }
    let all: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.column).chain([OUTSIDE]).collect();
    table.without_empty(&all)
}

#[cfg(test)]
mod tests {
    use super::super::testing::shown;
    use weir_record::fixture;
    use weir_record::run_data::RunData;

    /// The run of the fixture with all procedures but the soak at the points of a router.
    fn all_benchmarks() -> RunData {
        let mut data = fixture::procedures();
        data.run.plan_toml = "question = \"?\"\n".into();
        data.points.retain(|point| ["wire", "kernel-forward"].contains(&point.point.dut.as_str()));
        for result in data.points.iter_mut().filter_map(|point| point.point.result.as_mut()) {
            result.procedures.retain(|made| made.procedure != "soak");
        }
        data
    }

    #[test]
    fn all_benchmarks_stand_in_one_sentence_and_one_table() {
        weir_testkit::golden!("src/throughput/answer/benchmarks.txt", &shown(&all_benchmarks()));
    }

    #[test]
    fn versions_of_ip_stand_beside_each_other_at_the_same_frames() {
        let mut data = all_benchmarks();
        let mut six: Vec<_> = data.points.iter().filter(|point| point.point.frame != "64").cloned().collect();
        for (i, point) in six.iter_mut().enumerate() {
            point.point.index = 100 + i;
            point
                .point
                .settings
                .iter_mut()
                .filter(|(name, _)| name == "ip")
                .for_each(|(_, value)| *value = "6".into());
            let goals = point.point.result.as_mut().map(|result| &mut result.goals);
            for goal in goals.into_iter().flatten() {
                goal.fps_median = goal.fps_median.map(|fps| fps * 0.74);
                goal.fps_interval = goal.fps_interval.map(|(low, high)| (low * 0.74, high * 0.74));
            }
        }
        data.points.extend(six);
        let text = shown(&data);
        assert!(
            text.starts_with(
                "At 512 bytes kernel-forward, IPv4 forwards 393 k frames/s without loss; kernel-forward, IPv6 291 k, 0.740 \
                 (0.730 to 0.750) times as many."
            ),
            "{text}"
        );
    }
}
