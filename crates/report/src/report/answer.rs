//! The answer to the question of a run, in one screen: sentences, a table and a drawing. A terminal and the first screen of a
//! report have the same. A rig answers the question of its plans; where it has no answer of its own, devices are compared by
//! their rates.

use super::block::Block;
use super::cost::median_cycles_per_frame;
use super::{Sections, fixed, summary, throughput};
use crate::figure::name;
use crate::record::{self, Trial};
use crate::run_data::{PointData, RunData, SearchLosses, latency};
use crate::view::format::{full, list, or_dash, si, time_ns};
use crate::view::{Bound, Comparison, Rate, Ratio, Series, Table, frame_name};

/// What the others are divided by, where a run has it.
const PLAIN: &str = "kernel-forward";
/// Loads that count as half of the throughput, and what they should be.
const HALF: (f64, f64, f64) = (0.35, 0.65, 0.5);
/// Sentences; the others are among the findings.
const SENTENCES: usize = 3;

/// A tester that sends so many times what a device forwards is not its limit.
const MORE_THAN_ENOUGH: f64 = 1.5;

/// Devices that a sentence compares with another one; of more, the fastest and the slowest.
const NAMED: usize = 4;

/// The answer to the question of a run.
#[derive(Default)]
pub struct Answer {
    /// The first one answers the question; the others say what limits that answer. A first screen shows three of them.
    pub sentences: Vec<String>,
    /// The numbers that the answer was taken from, at most 80 characters wide on a terminal.
    pub table: Table,
    /// What the columns of the table are.
    pub columns: String,
    /// The same numbers as a drawing, for pages.
    pub drawing: Option<Block>,
}

/// The answer of one run: that of its rig, or its devices compared by their rates.
pub fn of_run(data: &RunData, of_rigs: &dyn Sections) -> Answer {
    let all = Comparison::new(std::slice::from_ref(data));
    let of_rig = of_rigs.answer(data).or_else(|| fixed::answer(&all, data));
    let mut answer = of_rig.unwrap_or_else(|| by_rates(&all, data, of_rigs));
    answer.sentences = summary::state(data).into_iter().chain(answer.sentences).take(SENTENCES).collect();
    answer
}

/// The devices of one run compared by the rates that they forward.
fn by_rates(all: &Comparison<'_>, data: &RunData, of_rigs: &dyn Sections) -> Answer {
    Answer { sentences: sentences(all, data, of_rigs), ..rates(all) }
}

/// Rates of all devices of all runs, without a sentence.
pub(super) fn rates(all: &Comparison<'_>) -> Answer {
    let (table, drawing) = (table(all), throughput::first(all));
    Answer { sentences: Vec::new(), table, columns: COLUMNS.into(), drawing }
}

/// What the columns of the table are.
const COLUMNS: &str = "of plain: the rate divided by that of kernel-forward; cycles: reference cycles of the device \
    per frame; p99: 99th percentile of the latency at about half of the rate.";

/// A line for each device and frame size; empty where no device was measured.
fn table(all: &Comparison<'_>) -> Table {
    let own = ["frames/s", "95 % interval", "of plain", "cycles", "p99 at half"].map(String::from);
    let device = all.device_head("device");
    let head: Vec<String> = std::iter::once("frame".to_string()).chain(device).chain(own).collect();
    let mut table = Table::new(&head);
    for (series, point) in all.all().into_iter().filter(|(series, _)| !series.is_ceiling()) {
        let rate = headline(point);
        let mut row = vec![point.point.frame.clone()];
        row.extend(all.device_cells(series, point));
        row.extend([
            or_dash(rate, |rate| rate.sign()),
            or_dash(rate.and_then(|rate| rate.interval), |(low, high)| format!("{}–{}", si(low), si(high))),
            or_dash(of_plain(all, series, point), |ratio| ratio.sign()),
            or_dash(cycles(point), full),
            or_dash(p99_at_half(point), time_ns),
        ]);
        table.push(row);
    }
    table.without_empty(&["frames/s", "95 % interval", "of plain", "cycles", "p99 at half"])
}

/// What the run says, the answer to its question first.
fn sentences(all: &Comparison<'_>, data: &RunData, of_rigs: &dyn Sections) -> Vec<String> {
    let own = || all.series.iter().filter(|series| series.run.id == data.run.id && !series.is_ceiling());
    let of_rigs = of_rigs.findings(data);
    let has_rates = || own().any(|series| series.points.iter().any(|point| headline(point).is_some()));
    match (base(own()), all.frames.first()) {
        (Some(base), Some(frame)) if of_rigs.is_empty() || has_rates() => {
            let rates = beside_base(base, own().collect(), frame);
            let points: Vec<&PointData> = own().flat_map(|series| series.points.iter().copied()).collect();
            let limit = tester_is_limit(data, &points);
            let stops = points.iter().find_map(|point| outside_of_stops(point));
            let ceiling = summary::ceiling(all, data);
            rates
                .into_iter()
                .chain(limit)
                .chain(stops)
                .chain([ceiling])
                .chain(summary::verdicts(data))
                .collect()
        }
        _ => of_rigs,
    }
}

/// The device that forwards only, or the first one.
fn base<'s, 'a>(mut series: impl Iterator<Item = &'s Series<'a>> + Clone) -> Option<&'s Series<'a>>
where
    'a: 's,
{
    let first = series.clone().next();
    series.find(|series| series.points.iter().any(|point| point.point.dut == PLAIN)).or(first)
}

/// The rate that stands first: what is forwarded in steady overload where that was measured, else that of the first goal.
pub fn headline(point: &PointData) -> Option<Rate> {
    Rate::capacity(point).or_else(|| Rate::headline(point))
}

/// Reference cycles of the device per frame, at that rate: figures of the placement that stands first come first.
pub fn cycles(point: &PointData) -> Option<f64> {
    let of_capacity = || {
        let figures = &point.capacity()?.figures;
        figures.iter().find(|figure| figure.name.starts_with(name::CYCLES))?.value
    };
    of_capacity().or_else(|| median_cycles_per_frame(point))
}

/// What the base reaches, and what the others have of that.
fn beside_base(base: &Series<'_>, own: Vec<&Series<'_>>, frame: &str) -> Option<String> {
    let point = base.at(frame)?;
    let size = frame_name(frame);
    let Some(rate) = headline(point) else {
        return Some(format!("At {size} no rate was found at which {} meets its goal.", base.name));
    };
    let goal = match point.capacity() {
        Some(_) => " (capacity, in overload)".to_string(),
        None => point.goals().first().map_or_else(String::new, |goal| format!(" ({})", goal.goal)),
    };
    if rate.bound == Bound::NoResult {
        let rounds = rate
            .interval
            .map_or_else(String::new, |(low, high)| format!(": {} to {} frames/s", si(low), si(high)));
        return Some(format!(
            "At {size} there is no result for {}, whose interval is too wide{rounds}.",
            base.name
        ));
    }
    let interval =
        rate.interval.map_or_else(String::new, |(low, high)| format!(", {} to {}", si(low), si(high)));
    let reach = format!("At {size} {} forwards {} frames/s{interval}{goal}", base.name, rate.words());
    let others = own.iter().filter(|series| series.name != base.name);
    // Not those with other traffic.
    let alike = others
        .filter_map(|series| Some((&series.name, series.at(frame).filter(|other| is_alike(point, other))?)));
    let found = alike.filter_map(|(name, other)| Some((name, times(other, point)?)));
    let mut found: Vec<(&String, Ratio)> = found.collect();
    found.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    if found.len() > NAMED {
        // The fastest and the slowest one.
        found.drain(1..found.len() - 1);
    }
    let parts = found.iter().enumerate().map(|(i, (name, ratio))| {
        let has = if i == 0 { " has" } else { "" };
        format!("{name}{has} {}", ratio.words())
    });
    let parts: Vec<String> = parts.collect();
    Some(if parts.is_empty() { format!("{reach}.") } else { format!("{reach}; {} of that.", list(&parts)) })
}

/// Says so where rates of these points of a run are lower bounds: why, and what helps.
pub fn tester_is_limit(data: &RunData, points: &[&PointData]) -> Option<String> {
    let bounds: Vec<bool> = points
        .iter()
        .filter_map(|point| Some((point, headline(point).filter(|rate| rate.bound == Bound::AtLeast)?)))
        .map(|(point, rate)| could_send_more(data, point, rate))
        .collect();
    let too_low = bounds.iter().filter(|could| **could).count();
    let at = |count: usize| match points.len() {
        n if n == count => String::new(),
        n => format!(" at {count} of {n} points"),
    };
    let because = match bounds.len() - too_low {
        0 if too_low == 0 => return None,
        0 => {
            let at = at(too_low);
            let why = "the speed of this machine changed from round to round: more rounds help";
            return Some(format!("Loads were too low for a rate{at}, which ≥ marks, since {why}."));
        }
        limited => format!("The tester is the limit{}", at(limited)),
    };
    Some(format!("{because}: devices may forward more than rates with ≥ say; {}.", summary::remedy(data)))
}

/// Was the tester not the limit of a rate that is a lower bound? Far below what the tester sends without a device, the load was too
/// low: it follows from what the device forwarded in the round before.
pub(super) fn could_send_more(data: &RunData, point: &PointData, rate: Rate) -> bool {
    data.ceiling_fps(point).is_some_and(|ceiling| rate.fps * MORE_THAN_ENOUGH < ceiling)
}

/// How many of the frames that the searches of a point lost fell into stops of the host, and its rate without those; `None` where the
/// plan does not ask for that, or no stop lost any.
pub fn outside_of_stops(point: &PointData) -> Option<String> {
    let goal = point.goals().first()?;
    let outside = Rate::of(point.outside_of_stops(goal)?)?;
    let SearchLosses { lost, by_stops, .. } = point.search_losses().filter(|losses| losses.by_stops > 0)?;
    Some(format!(
        "At {} {} of {} frames that its searches lost fell into stops of the host: without them {} meets its goal at {} frames/s.",
        frame_name(&point.point.frame),
        full(by_stops as f64),
        full(lost as f64),
        point.point.dut,
        outside.words()
    ))
}

/// The rate of a point divided by that of plain forwarding at the same frames in the same run, with its interval: round by
/// round where they alternated. `None` where the tester was the limit of both.
fn of_plain(all: &Comparison<'_>, series: &Series<'_>, point: &PointData) -> Option<Ratio> {
    let is_plain = |(other, plain): &(&Series<'_>, &PointData)| {
        other.run.id == series.run.id && plain.point.dut == PLAIN && is_alike(plain, point)
    };
    let (_, plain) = all.at(&point.point.frame).into_iter().find(is_plain)?;
    times(point, plain)
}

/// How many times as much one point of a run forwards as another one: round by round where they alternated, else by their
/// rates. `None` where nothing follows from the two.
pub fn times(point: &PointData, base: &PointData) -> Option<Ratio> {
    let rounds = |point: &PointData, other: &PointData| {
        let all = point.capacity().map_or(point.comparisons(), |capacity| &capacity.comparisons);
        all.iter().find(|c| c.point_index == other.point.index).cloned()
    };
    let turned = |c: record::Comparison| record::Comparison {
        ratio: 1.0 / c.ratio,
        interval: c.interval.map(|(low, high)| (1.0 / high, 1.0 / low)),
        ..c
    };
    let by_rounds = rounds(point, base).or_else(|| rounds(base, point).filter(|c| c.ratio > 0.0).map(turned));
    let whole = headline(point)?.over(&headline(base)?)?;
    by_rounds.map_or(Some(whole), |rounds| whole.of_rounds(&rounds))
}

/// What limits the answers of a run: flows that were not tracked, the tester, trials that are not valid. These come first
/// where no device has a rate.
pub fn trust(data: &RunData) -> Vec<String> {
    let all = Comparison::new(std::slice::from_ref(data));
    let devices: Vec<&PointData> = data.points.iter().filter(|p| p.is_device() && !p.is_ceiling()).collect();
    let limits = [
        summary::untracked(data),
        tester_is_limit(data, &devices),
        Some(summary::ceiling(&all, data)),
        summary::verdicts(data),
    ];
    let has_rates = devices.iter().any(|point| headline(point).is_some());
    let mut limits: Vec<String> = limits.into_iter().flatten().collect();
    if !has_rates {
        limits.reverse();
    }
    limits
}

/// Do two points differ in the device and its filter alone?
fn is_alike(a: &PointData, b: &PointData) -> bool {
    const OF_DEVICE: [&str; 3] = ["dut", "rules", "filter"];
    let same = |(name, value): &(String, String)| {
        OF_DEVICE.contains(&name.as_str()) || b.setting(name).is_none_or(|other| other == value)
    };
    a.point.settings.iter().all(same)
}

/// 99th percentile of the latency at about half of the throughput, ns.
pub fn p99_at_half(point: &PointData) -> Option<f64> {
    let fps = headline(point).filter(|rate| !matches!(rate.bound, Bound::Rough | Bound::NoResult))?.fps;
    let (from, to, half) = HALF;
    let share = |trial: &Trial| trial.counts().offered_fps / fps;
    let timed = point.valid().filter(|trial| (from..=to).contains(&share(trial)));
    let closest = timed.filter_map(|trial| Some((share(trial), latency(&trial.streams)?)));
    let closest = closest.min_by(|a, b| (a.0 - half).abs().total_cmp(&(b.0 - half).abs()));
    closest.map(|(_, latency)| latency.p99_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::OUTSIDE_OF_STOPS;
    use crate::fixture;
    use crate::record::{GoalResult, Purpose, Witnessed};

    #[test]
    fn cycles_are_those_of_the_rate_beside_them() {
        use crate::figure::{figure, procedure, unit};
        use crate::record::{ProcedureResult, Statistic};
        let mut data = fixture::quick();
        let point = data.points.iter_mut().find(|p| p.point.dut == "kernel-forward").expect("a router");
        let without = cycles(point);
        let of = |name: &str, unit, value| figure(name, unit, Statistic::Median, vec![value]);
        let figures = vec![
            of("forwarding capacity (near cores)", unit::FRAMES_PER_S, 9e5),
            of("cycles per frame (near cores)", unit::CYCLES, 1234.0),
            of("forwarding capacity (far cores)", unit::FRAMES_PER_S, 8e5),
            of("cycles per frame (far cores)", unit::CYCLES, 4321.0),
        ];
        let result = point.point.result.as_mut().expect("a result");
        let capacity =
            ProcedureResult { procedure: procedure::CAPACITY.into(), figures, ..ProcedureResult::default() };
        result.procedures.push(capacity);
        assert!(without != Some(1234.0) && cycles(point) == Some(1234.0), "{without:?}");
    }

    #[test]
    fn what_stops_lost_stands_beside_the_rate_without_them() {
        let mut data = fixture::quick();
        let point = data.points.iter_mut().find(|p| p.point.dut == "kernel-forward").expect("a router");
        assert_eq!(outside_of_stops(point), None, "the plan did not ask for it");
        let goals = &mut point.point.result.as_mut().expect("a result").goals;
        let goal = GoalResult { goal: format!("{}{OUTSIDE_OF_STOPS}", goals[0].goal), ..goals[0].clone() };
        goals.push(GoalResult { fps_median: Some(640e3), fps_interval: None, ..goal });
        assert_eq!(outside_of_stops(point), None, "no clock told of stops");
        let lost: u64 = point
            .trials
            .iter_mut()
            .filter(|trial| trial.purpose == Purpose::Search)
            .map(|trial| {
                let lost_by_stops = trial.counts().lost / 2;
                trial.witnessed = Some(Witnessed { stops: Vec::new(), lost_by_stops });
                trial.counts().lost
            })
            .sum();
        let said = outside_of_stops(point).expect("a sentence").replace('\u{202f}', "");
        assert!(said.contains(&format!("of {lost} frames")) && said.contains("at 640k frames/s"), "{said}");
        let runs = [data];
        assert!(sentences(&Comparison::new(&runs), &runs[0], &())[1].contains("stops of the host"));
    }

    /// The run of the fixture with these capacities and ceiling at 64 bytes, of a tester of sockets.
    fn limited(ceiling: f64, capacities: &[(&str, f64)]) -> RunData {
        use crate::figure::{figure, procedure, unit};
        use crate::record::{ProcedureResult, Statistic};
        let mut data = fixture::quick();
        data.run.tester.receiver = "af-packet".into();
        data.points.retain(|p| {
            p.point.frame == "64" && (p.is_ceiling() || capacities.iter().any(|(dut, _)| p.point.dut == *dut))
        });
        for point in &mut data.points {
            let result = point.point.result.as_mut().expect("a result");
            match capacities.iter().find(|(dut, _)| point.point.dut == *dut) {
                Some((_, fps)) => {
                    let figures =
                        vec![figure(name::CAPACITY, unit::FRAMES_PER_S, Statistic::Median, vec![*fps; 6])];
                    let procedure = procedure::CAPACITY.into();
                    result.procedures =
                        vec![ProcedureResult { procedure, figures, ..ProcedureResult::default() }];
                }
                None => result.goals[0].fps_median = Some(ceiling),
            }
        }
        data.mark_bounds();
        data
    }

    #[test]
    fn a_load_that_was_too_low_is_no_limit_of_the_tester() {
        let mut data = limited(331e3, &[("kernel-forward", 200e3), ("kernel-nat", 100e3)]);
        for point in data.points.iter_mut().filter(|point| point.point.dut == "kernel-nat") {
            point.point.result.as_mut().expect("a result").procedures[0].figures[0].bound = Bound::AtLeast;
        }
        let points: Vec<&PointData> = data.points.iter().filter(|point| !point.is_ceiling()).collect();
        let said = tester_is_limit(&data, &points).expect("a bound");
        assert!(said.starts_with("Loads were too low for a rate at 1 of 2 points"), "{said}");
        let runs = [data];
        assert!(!summary::ceiling(&Comparison::new(&runs), &runs[0]).contains("it was the limit"));
    }

    #[test]
    fn the_limit_of_the_tester_is_no_capacity_of_the_device() {
        let all = [("kernel-forward", 323e3), ("kernel-stateful", 317e3), ("kernel-nat", 325e3)];
        let some = [("kernel-forward", 323e3), ("kernel-nat", 100e3)];
        for (capacities, rates, ratios, said) in [
            (&all[..], "≥ 323 k, ≥ 317 k, ≥ 325 k", "", "The tester is the limit: devices"),
            (&some, "≥ 323 k, 100 k", "≤ 0.310", "The tester is the limit at 1 of 2 points: devices"),
        ] {
            let runs = [limited(331e3, capacities)];
            let comparison = Comparison::new(&runs);
            let plain = |text: &str| text.replace('\u{202f}', " ");
            let table = table(&comparison);
            let column = |name: &str| {
                let at = table.head().iter().position(|head| head == name);
                let cells = table.rows().iter().filter_map(|row| Some(plain(&row[at?])));
                cells.filter(|cell| cell != "–").collect::<Vec<_>>()
            };
            assert_eq!(column("frames/s").join(", "), rates);
            let others = column("of plain").into_iter().filter(|cell| cell.starts_with('≤'));
            assert_eq!(others.collect::<Vec<_>>().join(", "), ratios);
            let found = sentences(&comparison, &runs[0], &());
            assert!(plain(&found[0]).contains("forwards at least 323 k frames/s"), "{found:?}");
            assert!(found[1].starts_with(said) && found[1].contains("run weir as root"), "{found:?}");
            assert!(!found[0].contains("1.00"), "{found:?}");
            let Some(Block::Wide(drawing, _)) = throughput::first(&comparison) else { panic!("no drawing") };
            assert!(plain(&drawing).contains("≥ 323 k"), "{drawing}");
        }
    }

    #[test]
    fn a_wide_interval_is_said_to_be_no_result() {
        let mut data = limited(4e6, &[("kernel-forward", 163e3)]);
        let point = data.points.iter_mut().find(|p| p.point.dut == "kernel-forward").expect("it is there");
        let figure = &mut point.point.result.as_mut().expect("a result").procedures[0].figures[0];
        figure.interval = Some((5.7e3, 327e3));
        data.mark_bounds();
        let runs = [data];
        let comparison = Comparison::new(&runs);
        let found = sentences(&comparison, &runs[0], &());
        assert!(found[0].contains("no result for kernel-forward"), "{found:?}");
        assert_eq!(table(&comparison).rows()[0][2], "no result");
    }

    #[test]
    fn a_run_that_did_not_end_says_so_first() {
        let mut data = fixture::quick();
        data.run.state = crate::record::RunState::Interrupted;
        let runs = [data];
        let found = of_run(&runs[0], &()).sentences;
        assert!(found[0].starts_with("The run was interrupted"), "{found:?}");
    }

    #[test]
    fn a_rig_answers_in_place_of_rates() {
        struct OfRig;
        impl Sections for OfRig {
            fn findings(&self, _: &RunData) -> Vec<String> {
                vec!["A finding.".into()]
            }

            fn parts(&self, _: &RunData) -> Vec<crate::report::block::Part> {
                Vec::new()
            }

            fn answer(&self, _: &RunData) -> Option<Answer> {
                let mut table = Table::new(&["rules"]);
                table.push(vec!["25".into()]);
                Some(Answer { sentences: vec!["A rule costs 9 cycles.".into()], table, ..Answer::default() })
            }
        }
        let data = fixture::quick();
        let answer = of_run(&data, &OfRig);
        assert_eq!((answer.sentences.len(), answer.table.rows().len()), (1, 1));
        let text = crate::export::answer(&data, &OfRig, 80);
        assert!(text.contains("A rule costs 9 cycles.\n\nrules\n"), "{text}");
        let page = crate::report::html(&[data], &OfRig);
        let first = page.split("id=\"findings\"").next().unwrap();
        assert!(
            first.contains("A rule costs 9 cycles.") && first.contains("<th class=\"n\">rules"),
            "{first}"
        );
        assert!(!first.contains("<figure>"), "no drawing of rates");
    }

    #[test]
    fn a_device_with_other_traffic_has_no_part_of_the_first_one() {
        let mut data = fixture::quick();
        data.points.retain(|p| p.point.frame == "64" && p.point.dut == "kernel-forward");
        let mut six = data.points[0].clone();
        six.point.index += 1;
        six.point.settings.iter_mut().filter(|(name, _)| name == "ip").for_each(|(_, ip)| *ip = "6".into());
        data.points.push(six);
        let said = of_run(&data, &()).sentences;
        assert!(said[0].starts_with("At 64 bytes kernel-forward · ip 4 forwards"), "{said:?}");
        assert!(!said[0].contains("of that"), "{said:?}");
    }

    #[test]
    fn nothing_is_divided_by_another_kind_of_traffic() {
        let mut data = fixture::quick();
        let other = data.points.iter().position(|p| p.point.dut == "kernel-stateless").expect("a filter");
        data.points[other].point.settings.push(("flows".into(), "1".into()));
        let plain = data.points.iter().position(|p| p.point.dut == "kernel-forward").expect("a router");
        data.points[plain].point.settings.push(("flows".into(), "1000".into()));
        assert!(!is_alike(&data.points[plain], &data.points[other]));
    }
}
