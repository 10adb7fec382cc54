//! The answer of a run with fixed loads: nothing was searched for, so that no rate is found. What comes through at each load, and
//! what a frame costs.

use super::answer::Answer;
use super::{loss, summary};
use crate::at_load::AtLoad;
use crate::run_data::{PointData, RunData, latency};
use crate::stats::median;
use crate::view::format::{count, full, or_dash, percent, si, time_ns};
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
    let first = all.frames.iter().find_map(|frame| losses(&points, frame))?;
    let sentences = [Some(first), Some(summary::ceiling(all, data)), summary::verdicts(data)];
    Some(Answer {
        sentences: sentences.into_iter().flatten().collect(),
        table: table(&points),
        columns: COLUMNS.into(),
        drawing: loss::first(all),
    })
}

/// What devices lose at one frame size.
fn losses(points: &[(&Series<'_>, &PointData)], frame: &str) -> Option<String> {
    let at_frame = points.iter().filter(|(_, point)| point.point.frame == frame);
    let said: Vec<String> =
        at_frame.filter_map(|(series, point)| loses(&series.name, &point.fixed_loads())).collect();
    let more = said.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; {} below", count(more, "more device")) } else { String::new() };
    let named: Vec<String> = said.into_iter().take(NAMED).collect();
    (!named.is_empty()).then(|| format!("At {} {}{more}.", frame_name(frame), named.join("; ")))
}

/// Up to which load a device loses nothing, and how much it loses at the highest one.
fn loses(name: &str, loads: &[AtLoad<'_>]) -> Option<String> {
    let known: Vec<_> =
        loads.iter().filter_map(|load| Some((load.offered_fps, load.loss_ratio()?))).collect();
    let (&first, &last) = (known.first()?, known.last()?);
    let clean = known.iter().take_while(|(_, loss)| *loss == 0.0).last();
    let at = |(fps, loss): (f64, f64)| format!("{} at {} frames/s", percent(loss), si(fps));
    Some(match clean {
        Some((fps, _)) if *fps >= last.0 => {
            format!("{name} loses nothing up to {} frames/s, the highest load", si(*fps))
        }
        Some((fps, _)) => format!("{name} loses nothing up to {} frames/s and {}", si(*fps), at(last)),
        None if known.len() == 1 => format!("{name} loses {}", at(first)),
        None => format!("{name} loses {} already and {}", at(first), at(last)),
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
