//! The answer to the question of a run, in one screen: sentences, a table and a drawing. A terminal and the first screen of a
//! report have the same. A rig answers the question of its plans; where it has no answer of its own, devices are compared by
//! their rates.

use super::block::Block;
use super::cost::median_cycles_per_frame;
use super::{Sections, summary, throughput};
use crate::figure::name;
use crate::record::Trial;
use crate::run_data::{PointData, RunData, latency};
use crate::view::format::{bracketed, full, or_dash, si, significant, time_ns};
use crate::view::{Bound, Comparison, Rate, Series, Table, frame_name};

/// What the others are divided by, where a run has it.
const PLAIN: &str = "kernel-forward";
/// Loads that count as half of the throughput, and what they should be.
const HALF: (f64, f64, f64) = (0.35, 0.65, 0.5);
/// Sentences; the others are among the findings.
const SENTENCES: usize = 3;

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
    let mut answer = of_rigs.answer(data).unwrap_or_else(|| by_rates(&all, data, of_rigs));
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
    let head = ["frame", "device", "frames/s", "95 % interval", "of plain", "cycles", "p99 at half"];
    let mut table = Table::new(&head);
    for (series, point) in all.all().into_iter().filter(|(series, _)| !series.is_ceiling()) {
        let rate = headline(point);
        table.push(vec![
            point.point.frame.clone(),
            series.label.clone(),
            or_dash(rate, |rate| rate.sign()),
            or_dash(rate.and_then(|rate| rate.interval), |(low, high)| format!("{}–{}", si(low), si(high))),
            or_dash(of_plain(all, series, point), |(ratio, _)| significant(ratio)),
            or_dash(cycles(point), full),
            or_dash(p99_at_half(point), time_ns),
        ]);
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
            let rates = fastest_and_slowest(all, base, own().collect(), frame);
            let ceiling = summary::ceiling(all, data);
            rates.into_iter().chain([ceiling]).chain(summary::verdicts(data)).collect()
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
    let capacity = || {
        let figure = point.capacity()?.figures.first()?;
        Some(Rate { fps: figure.value?, interval: figure.interval, bound: Bound::Exact })
    };
    capacity().or_else(|| Rate::headline(point))
}

/// Reference cycles of the device per frame, at that rate: figures of the placement that stands first come first.
fn cycles(point: &PointData) -> Option<f64> {
    let of_capacity = || {
        let figures = &point.capacity()?.figures;
        figures.iter().find(|figure| figure.name.starts_with(name::CYCLES))?.value
    };
    of_capacity().or_else(|| median_cycles_per_frame(point))
}

/// What the base reaches, and what the slowest of the others has of that.
fn fastest_and_slowest(
    all: &Comparison<'_>,
    base: &Series<'_>,
    own: Vec<&Series<'_>>,
    frame: &str,
) -> Option<String> {
    let point = base.at(frame)?;
    let size = frame_name(frame);
    let Some(rate) = headline(point) else {
        return Some(format!("At {size} no rate was found at which {} meets its goal.", base.name));
    };
    let goal = match point.capacity() {
        Some(_) => " (capacity, in overload)".to_string(),
        None => point.goals().first().map_or_else(String::new, |goal| format!(" ({})", goal.goal)),
    };
    let interval =
        rate.interval.map_or_else(String::new, |(low, high)| format!(", {} to {}", si(low), si(high)));
    let reach = format!("At {size} {} forwards {} frames/s{interval}{goal}", base.name, rate.words());
    let others = own.iter().filter(|series| series.name != base.name);
    let slowest = others
        .filter_map(|series| Some((series, of_plain(all, series, series.at(frame)?)?)))
        .min_by(|a, b| a.1.0.total_cmp(&b.1.0));
    Some(match slowest {
        Some((series, (ratio, interval))) => {
            let interval = interval.map_or_else(String::new, bracketed);
            format!("{reach}; {} has {}{interval} of that.", series.name, significant(ratio))
        }
        None => format!("{reach}."),
    })
}

/// The rate of a point divided by that of plain forwarding at the same frames in the same run, with its interval: round by
/// round where they alternated.
fn of_plain(
    all: &Comparison<'_>,
    series: &Series<'_>,
    point: &PointData,
) -> Option<(f64, Option<(f64, f64)>)> {
    let is_plain = |(other, plain): &(&Series<'_>, &PointData)| {
        other.run.id == series.run.id && plain.point.dut == PLAIN && is_alike(plain, point)
    };
    let (_, plain) = all.at(&point.point.frame).into_iter().find(is_plain)?;
    let rounds = point.capacity().map_or(point.comparisons(), |capacity| &capacity.comparisons);
    let by_rounds = rounds.iter().find(|c| c.point_index == plain.point.index);
    if let Some(comparison) = by_rounds {
        return Some((comparison.ratio, comparison.interval));
    }
    let ratio = headline(point)?.over(&headline(plain)?)?;
    Some((ratio.value, ratio.interval))
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
fn p99_at_half(point: &PointData) -> Option<f64> {
    let fps = headline(point).filter(|rate| rate.bound != Bound::Rough)?.fps;
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
    use crate::fixture;

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
    fn nothing_is_divided_by_another_kind_of_traffic() {
        let mut data = fixture::quick();
        let other = data.points.iter().position(|p| p.point.dut == "kernel-stateless").expect("a filter");
        data.points[other].point.settings.push(("flows".into(), "1".into()));
        let plain = data.points.iter().position(|p| p.point.dut == "kernel-forward").expect("a router");
        data.points[plain].point.settings.push(("flows".into(), "1000".into()));
        assert!(!is_alike(&data.points[plain], &data.points[other]));
    }
}
