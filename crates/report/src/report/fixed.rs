//! The answer of a run with fixed loads: nothing was searched for, so that no rate is found. What comes through at each load, and
//! what a frame costs.

use super::answer::Answer;
use super::{loss, summary};
use crate::at_load::AtLoad;
use crate::run_data::{PointData, RunData, latency};
use crate::stats::median;
use crate::view::format::{count, full, list, or_dash, percent, si, time_ns};
use crate::view::{Comparison, Series, Table, frame_name};

/// Devices that a sentence names.
const NAMED: usize = 4;

const COLUMNS: &str = "received: median frames/s of the valid trials; loss: frames lost by frames sent; cycles: reference cycles \
    of the device per frame; p99: 99th percentile of the latency.";

/// The answer; `None` if a rate was searched for, or nothing was measured.
pub(super) fn answer(all: &Comparison<'_>, data: &RunData) -> Option<Answer> {
    let points: Vec<_> = all.all().into_iter().filter(|(series, _)| !series.is_ceiling()).collect();
    if !points.iter().all(|(_, point)| point.is_fixed()) {
        return None;
    }
    let first = all.frames.iter().find_map(|frame| at_highest(&points, frame))?;
    let sentences = [Some(first), Some(summary::ceiling(all, data)), summary::verdicts(data)];
    Some(Answer {
        sentences: sentences.into_iter().flatten().collect(),
        table: table(&points),
        columns: COLUMNS.into(),
        drawing: loss::first(all),
    })
}

/// What comes through at the highest load of a frame size, the most first, and what at the lowest.
fn at_highest(points: &[(&Series<'_>, &PointData)], frame: &str) -> Option<String> {
    let at_frame = || points.iter().filter(|(_, point)| point.point.frame == frame);
    let loads = |(series, point): &(&Series<'_>, &PointData)| {
        let loads = point.fixed_loads().into_iter();
        loads.map(|load| (load.offered_fps, load.loss_ratio(), series.name.clone())).collect::<Vec<_>>()
    };
    let all: Vec<(f64, f64, String)> =
        at_frame().flat_map(loads).filter_map(|(load, loss, name)| Some((load, loss?, name))).collect();
    let of = |edge: fn(f64, f64) -> f64| all.iter().map(|(load, ..)| *load).reduce(edge);
    let (lowest, highest) = (of(f64::min)?, of(f64::max)?);
    let passed = |load: f64| {
        let mut here: Vec<_> = all.iter().filter(|(at, ..)| at.round() == load.round()).collect();
        here.sort_by(|a, b| a.1.total_cmp(&b.1));
        let more = here.len().saturating_sub(NAMED);
        let words = here.iter().take(NAMED).map(|(_, loss, name)| format!("{name} loses {}", percent(*loss)));
        let more = (more > 0).then(|| format!("{} more", count(more, "device")));
        list(&words.chain(more).collect::<Vec<_>>())
    };
    let size = frame_name(frame);
    let sentence = format!("At {size} and {} frames/s {}", si(highest), passed(highest));
    Some(match lowest.round() < highest.round() {
        true => format!("{sentence}; at {} frames/s {}.", si(lowest), passed(lowest)),
        false => format!("{sentence}."),
    })
}

/// A line for each load.
fn table(points: &[(&Series<'_>, &PointData)]) -> Table {
    let mut table =
        Table::new(&["frame", "device", "offered", "received", "loss", "cycles", "p99", "trials"]);
    for (series, point) in points {
        for load in point.fixed_loads() {
            table.push([vec![point.point.frame.clone(), series.label.clone()], cells(&load)].concat());
        }
    }
    table.without_empty(&["cycles", "p99"])
}

fn cells(load: &AtLoad<'_>) -> Vec<String> {
    let streams: Vec<_> = load.trials.iter().flat_map(|trial| trial.streams.clone()).collect();
    vec![
        si(load.offered_fps),
        or_dash(median(&load.received_fps()), si),
        or_dash(load.loss_ratio(), percent),
        or_dash(median(&load.cycles_per_frame()), full),
        or_dash(latency(&streams), |latency| time_ns(latency.p99_ns as f64)),
        load.trials.len().to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use weir_testkit::golden;

    use crate::fixture;
    use crate::record::RunState;

    /// The points of a run with a search, as if its loads were those of the plan.
    fn fixed() -> crate::run_data::RunData {
        let mut data = fixture::quick();
        for point in data.points.iter_mut().filter(|point| !point.is_ceiling()) {
            let result = point.point.result.as_mut().expect("a result");
            (result.search, result.goals) = ("fixed".into(), Vec::new());
            result.procedures.clear();
            result.comparisons.clear();
            let loads = [41_230.0, 618_450.0];
            point.trials.retain(|trial| loads.contains(&trial.counts().offered_fps.round()));
        }
        data.points.retain(|point| point.is_ceiling() || !point.trials.is_empty());
        data
    }

    #[test]
    fn the_answer_of_fixed_loads_is_what_comes_through() {
        let mut data = fixed();
        golden!("src/report/golden/fixed.txt", &crate::export::answer(&data, &(), 80));
        data.run.state = RunState::Interrupted;
        let answer = super::super::answer::of_run(&data, &());
        assert!(answer.sentences[0].starts_with("The run was interrupted"), "{:?}", answer.sentences);
        assert!(super::answer(&crate::view::Comparison::new(&[fixture::quick()]), &data).is_none());
    }
}
