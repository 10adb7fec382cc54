//! Several runs of one plan as one: their repetitions together. Two plans that were run alternately, A B B A and so on, are
//! compared by this: what the machine does in an hour then meets both alike.

use crate::figure::{figure, goal_result};
use crate::record::{GoalResult, PointResult, ProcedureResult};
use crate::run_data::{PointData, RunData};

/// The runs with the repetitions of all; the number, the dates and the notes are those of the first. Points are matched by
/// their settings; a point that only some have has the repetitions of these. `None` of no run.
pub fn merged(runs: &[RunData]) -> Option<RunData> {
    let (first, later) = runs.split_first()?;
    let mut all = first.clone();
    for point in later.iter().flat_map(|data| &data.points) {
        match all.points.iter_mut().find(|own| is_same(own, point)) {
            Some(own) => add(own, point),
            None => all.points.push(point.clone()),
        }
    }
    all.mark_bounds();
    Some(all)
}

pub(crate) fn is_same(a: &PointData, b: &PointData) -> bool {
    a.point.dut == b.point.dut && a.point.settings == b.point.settings
}

fn add(own: &mut PointData, other: &PointData) {
    own.trials.extend(other.trials.iter().cloned());
    match (&mut own.point.result, &other.point.result) {
        (Some(own), Some(other)) => add_results(own, other),
        (own @ None, other) => own.clone_from(other),
        (Some(_), None) => {}
    }
}

/// Adds what another shard has measured of the same point: other repetitions, and comparisons with other points.
pub(crate) fn add_shard(own: &mut PointData, other: &PointData) {
    let [first, second] = [&*own, other].map(|data| data.point.result.clone().unwrap_or_default());
    let trials = own.trials.len();
    add(own, other);
    // The place of a trial is its key.
    (trials..).zip(&mut own.trials[trials..]).for_each(|(index, trial)| trial.index = index);
    let Some(result) = &mut own.point.result else { return };
    result.comparisons = [first.comparisons.clone(), second.comparisons.clone()].concat();
    for procedure in &mut result.procedures {
        let same = |result: &PointResult| {
            let procedures = result.procedures.iter().filter(|one| one.procedure == procedure.procedure);
            procedures.flat_map(|one| one.comparisons.clone()).collect::<Vec<_>>()
        };
        procedure.comparisons = [same(&first), same(&second)].concat();
    }
}

fn add_results(own: &mut PointResult, other: &PointResult) {
    // Rounds of single runs: their ratios are not those of all.
    own.comparisons.clear();
    for goal in &mut own.goals {
        let same = other.goals.iter().find(|other| other.goal == goal.goal);
        let repetitions = same.into_iter().flat_map(|same| same.repetitions.iter().cloned());
        let repetitions = std::mem::take(&mut goal.repetitions).into_iter().chain(repetitions).collect();
        let GoalResult { goal: name, parameters, .. } = &*goal;
        *goal = goal_result(name, parameters.clone(), repetitions);
    }
    for procedure in &mut own.procedures {
        let same = other.procedures.iter().find(|other| other.procedure == procedure.procedure);
        same.into_iter().for_each(|same| add_figures(procedure, same));
    }
}

fn add_figures(own: &mut ProcedureResult, other: &ProcedureResult) {
    own.comparisons.clear();
    for own in &mut own.figures {
        let same = other.figures.iter().filter(|other| other.name == own.name && other.unit == own.unit);
        let values = own.values.iter().chain(same.flat_map(|same| &same.values)).copied().collect();
        *own = figure(own.name.clone(), &own.unit, own.statistic, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn repetitions_of_all_runs_count() {
        let runs = [fixture::procedures(), fixture::procedures(), fixture::procedures()];
        let all = merged(&runs).expect("there are some");
        assert_eq!(all.points.len(), runs[0].points.len(), "the same points");
        for (own, first) in all.points.iter().zip(&runs[0].points) {
            assert_eq!(own.trials.len(), 3 * first.trials.len());
            for (own, first) in own.goals().iter().zip(first.goals()) {
                assert_eq!(own.repetitions.len(), 3 * first.repetitions.len(), "{}", own.goal);
                let found: Vec<f64> =
                    own.repetitions.iter().filter_map(|repetition| repetition.fps).collect();
                assert_eq!(own.fps_median, weir_measure::stats::median(&found), "of all repetitions");
            }
            let figures = |point: &PointData| {
                let procedures = point.point.result.iter().flat_map(|result| result.procedures.clone());
                procedures.flat_map(|procedure| procedure.figures).collect::<Vec<_>>()
            };
            for (own, first) in figures(own).iter().zip(figures(first)) {
                assert_eq!(own.values.len(), 3 * first.values.len(), "{}", own.name);
            }
        }
        assert_eq!(merged(&[]), None);
    }

    #[test]
    fn a_point_of_one_run_alone_stays() {
        let (whole, mut part) = (fixture::quick(), fixture::quick());
        part.points.truncate(1);
        assert_eq!(merged(&[part, whole.clone()]).map(|all| all.points.len()), Some(whole.points.len()));
    }
}
