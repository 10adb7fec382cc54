//! How many TCP connections a second each NAT carries, and which share of them succeeds under a SYN flood.

use super::super::answer::{Bars, by_name, ends, is_bounded, one_by_one};
use super::super::section::{Measured, find, points};
use super::name;
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::view::axes::{Axes, short_value};
use weir_report::view::format::{full, list, or_dash, percent, si, significant, time_ns};
use weir_report::view::{Bound, Rate, Table};

/// Connections that are open meanwhile.
const HELD: &str = "flows";
/// Floods that have a column each.
const FLOODS: usize = 2;
/// Floods are measured at this rate.
const AT_HALF: &str = "at half of these rates";

const CAPTION: &str =
    "Connections/s that are established, used and closed, all of them, while others are held.";
const BOUNDED: &str = "Rates with ≥ are lower bounds: the search ended before the NAT did.";

pub(in crate::nat) fn of(data: &RunData) -> Option<Answer> {
    let points = points(data, name::ID);
    let all: Vec<&PointData> = points.iter().map(|(data, _)| *data).collect();
    let axes = Axes::of(all.iter().map(|data| &data.point));
    if points.is_empty() {
        return None;
    }
    let floods = floods(&points);
    let mut sentences: Vec<String> = carried(&points, &axes, floods.first()).into_iter().collect();
    sentences.extend(held(&points, &axes));
    sentences.extend(is_bounded(points.iter().map(connections)).then(|| BOUNDED.to_string()));
    sentences.extend(repetitions(&points));
    let columns = columns(&floods);
    Some(Answer {
        sentences,
        table: table(&points, &axes, &floods),
        columns,
        drawing: Bars { axes: &axes, by: &[HELD], unit: "connections/s", caption: CAPTION }
            .draw(&all, |data| {
                connections(points.iter().find(|(other, _)| other.point.index == data.point.index)?)
            }),
    })
}

/// Connections/s from the first to the last segment.
fn connections((_, procedure): &Measured<'_>) -> Option<Rate> {
    let figure = find(procedure, name::WHOLE)?;
    let is_open = |text: &String| name::OPEN_ENDS.iter().any(|end| text.contains(end));
    let bound = if procedure.irregular.iter().any(is_open) { Bound::AtLeast } else { Bound::Exact };
    Some(Rate { fps: figure.value?, interval: figure.interval, bound })
}

/// The floods that were tried, the hardest first: that under which the fewest connections succeed through any NAT.
fn floods(points: &[Measured<'_>]) -> Vec<String> {
    let mut floods: Vec<(f64, String)> = Vec::new();
    for figure in points.iter().flat_map(|(_, procedure)| &procedure.figures) {
        let (Some(flood), Some(share)) = (figure.name.strip_prefix(name::FLOODED), figure.value) else {
            continue;
        };
        match floods.iter_mut().find(|(_, known)| known == flood) {
            Some((least, _)) => *least = least.min(share),
            None => floods.push((share, flood.to_string())),
        }
    }
    floods.sort_by(|a, b| a.0.total_cmp(&b.0));
    floods.into_iter().map(|(_, flood)| flood).collect()
}

/// The share of connections that succeeds under a flood.
fn share((_, procedure): &Measured<'_>, flood: &str) -> Option<f64> {
    find(procedure, &format!("{}{flood}", name::FLOODED))?.value
}

/// What each NAT carries, without a flood and under the hardest one, the fastest first.
fn carried(points: &[Measured<'_>], axes: &Axes, flood: Option<&String>) -> Option<String> {
    let of = |data: &PointData| points.iter().find(|(other, _)| other.point.index == data.point.index);
    let names = axes.clone().without(&[HELD]);
    let mut found = Vec::new();
    for (name, members) in by_name(&names, points.iter().map(|(data, _)| *data)) {
        let rates: Vec<Rate> = members.iter().filter_map(|data| connections(of(data)?)).collect();
        let values: Vec<f64> = rates.iter().map(|rate| rate.fps).collect();
        let Some(carried) = ends(&values, si) else { continue };
        let sign = if is_bounded(rates.iter().copied().map(Some)) { Bound::AtLeast.words() } else { "" };
        let mut said = vec![format!("{sign}{carried}")];
        let shares: Vec<f64> = members.iter().filter_map(|data| share(of(data)?, flood?)).collect();
        said.extend(ends(&shares, percent));
        found.push((values.iter().copied().fold(0.0, f64::max), name, said));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let verbs = ["carries {} TCP connections/s", "{} of the connections succeed under the flood"];
    let each = one_by_one(found.into_iter().map(|(_, name, said)| (name, said)), &verbs);
    let text = match flood {
        _ if each.is_empty() => return None,
        Some(flood) => format!("{each} (flood: {}; connections begin {AT_HALF}).", spelled(flood)),
        None => format!("{each}."),
    };
    Some(text)
}

/// What connections that are held cost: the rate beside the most of them by that beside the fewest.
fn held(points: &[Measured<'_>], axes: &Axes) -> Option<String> {
    let number = |(data, _): &Measured<'_>| data.setting(HELD).and_then(|held| held.parse::<u64>().ok());
    let (fewest, most) = (points.iter().filter_map(number).min()?, points.iter().filter_map(number).max()?);
    let names = axes.clone().without(&[HELD]);
    let shares: Vec<String> = by_name(&names, points.iter().map(|(data, _)| *data))
        .into_iter()
        .filter_map(|(name, members)| {
            let at = |held: u64| {
                let is_here = |point: &&Measured<'_>| {
                    number(point) == Some(held)
                        && members.iter().any(|data| data.point.index == point.0.point.index)
                };
                points.iter().find(is_here).and_then(connections)
            };
            Some(format!("{name} {}", significant(at(most)?.over(&at(fewest)?)?.value)))
        })
        .collect();
    let [few, many] = [fewest, most].map(|held| short_value(HELD, &held.to_string()));
    (fewest < most && !shares.is_empty())
        .then(|| format!("Rates beside {many} open connections by those beside {few}: {}.", list(&shares)))
}

fn repetitions(points: &[Measured<'_>]) -> Option<String> {
    let once = |(_, procedure): &Measured<'_>| {
        find(procedure, name::WHOLE).is_some_and(|figure| figure.values.len() == 1)
    };
    points.iter().all(once).then(|| {
        "Each rate rests on one repetition, so that its spread is not known: the plan without --short has several.".into()
    })
}

/// `100 000 SYN/s from both sides`.
fn spelled(flood: &str) -> String {
    let split = flood.split_once(' ').and_then(|(rate, rest)| Some((rate.parse().ok()?, rest)));
    split.map_or_else(|| flood.to_string(), |(rate, rest)| format!("{} {rest}", full(rate)))
}

/// `100k both`, for a column.
fn short(flood: &str) -> String {
    let rate = flood.split_once(' ').map_or(flood, |(rate, _)| rate);
    let from = flood.rsplit_once("from ").map_or("", |(_, from)| from);
    let from = from.split(' ').next().unwrap_or_default();
    format!("{} {from}", short_value("flood", rate))
}

fn columns(floods: &[String]) -> String {
    let shown = floods.iter().take(FLOODS).map(|flood| {
        format!(
            " {}: share of connections whose SYN is answered under {}, {AT_HALF}.",
            short(flood),
            spelled(flood)
        )
    });
    let shown: String = shown.collect();
    format!(
        "held: connections that are open meanwhile. connections/s: established, used and closed, all of them. opened/s: only \
         established. p99: from SYN to the last segment, at half of the rate.{shown}"
    )
}

fn table(points: &[Measured<'_>], axes: &Axes, floods: &[String]) -> Table {
    let others = axes.clone().without(&[HELD]);
    let own = ["held", "NAT", "connections/s", "opened/s", "p99"].map(String::from);
    let under = floods.iter().take(FLOODS).map(|flood| short(flood));
    let mut table = Table::new(&others.head().into_iter().chain(own).chain(under).collect::<Vec<_>>());
    let mut sorted: Vec<&Measured<'_>> = points.iter().collect();
    sorted.sort_by_key(|(data, _)| data.setting(HELD).and_then(|held| held.parse::<u64>().ok()));
    for point in sorted {
        let (data, procedure) = point;
        let number = |name: &str, text: &dyn Fn(f64) -> String| {
            or_dash(find(procedure, name).and_then(|figure| figure.value), text)
        };
        let mut row = others.cells(&data.point.settings);
        row.extend([
            data.setting(HELD).map_or_else(|| "–".into(), |held| short_value(HELD, held)),
            data.point.dut.clone(),
            or_dash(connections(point), |rate| rate.sign()),
            number(name::ESTABLISHED, &si),
            number(name::TOOK_P99, &|seconds| time_ns(seconds * 1e9)),
        ]);
        row.extend(floods.iter().take(FLOODS).map(|flood| or_dash(share(point, flood), percent)));
        table.push(row);
    }
    table.without_empty(&["opened/s", "p99"])
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use super::super::plan::{Flood, Side};
    use super::*;
    use weir_record::figure::{figure, unit};
    use weir_record::fixture;
    use weir_record::record::{PointResult, ProcedureResult, Statistic};
    use weir_report::export;

    /// A NAT beside so many connections: its rate, and the shares under floods of 10,000 and 100,000 SYN/s.
    fn point(index: usize, (dut, held): (&str, &str), cps: f64, shares: [f64; 2]) -> PointData {
        let mut data = fixture::point(index, dut, 66, 1.0);
        let settings = [("cpus", "1"), ("flows", held)];
        data.point.settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        data.trials.clear();
        let of = |name: &str, unit, value: f64| figure(name, unit, Statistic::Median, vec![value]);
        let flood = |fps, share| of(&name::flooded(&Flood { fps, from: Side::Both }), unit::RATIO, share);
        let mut figures = vec![
            of(name::WHOLE, name::CPS, cps),
            of(name::TOOK_P99, unit::SECONDS, 0.0005),
            flood(1e4, shares[0]),
            flood(1e5, shares[1]),
        ];
        figures.extend((held != "1").then(|| of(name::ESTABLISHED, name::CPS, cps * 2.0)));
        let procedure = ProcedureResult { procedure: name::ID.into(), figures, ..Default::default() };
        data.point.result = Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        data
    }

    fn screen(points: Vec<PointData>) -> String {
        let data = RunData { run: fixture::run_of("nat"), points };
        let text = export::answer(&data, crate::sections(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    }

    #[test]
    fn the_first_screen_says_what_a_flood_leaves() {
        let points = vec![
            point(0, ("kernel-nat", "1"), 71e3, [0.99, 0.56]),
            point(1, ("kernel-nat", "20000"), 68e3, [0.98, 0.53]),
            point(2, ("node-nat", "1"), 119e3, [1.0, 0.999]),
            point(3, ("node-nat", "20000"), 118.9e3, [1.0, 0.9991]),
        ];
        let mut open = vec![point(0, ("node-nat", "1"), 119e3, [1.0, 1.0])];
        let procedures = open[0].point.result.iter_mut().flat_map(|result| &mut result.procedures);
        procedures.for_each(|procedure| {
            procedure.figures.retain(|figure| !figure.name.starts_with(name::FLOODED));
            procedure
                .irregular
                .push(format!("{}: it begins 119000 connections/s at most", name::TESTER_ENDS));
        });
        golden!("src/nat/tcp/answer.txt", &[screen(points), screen(open)].join("\n"));
    }
}
