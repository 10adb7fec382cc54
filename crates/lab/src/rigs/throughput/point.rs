//! A point of a plan: warm-up, search, curve, procedures, result. Its search is repeated at once, or in turn with those
//! of other devices that do the same job: a virtual machine is fast and slow by turns, and then each finds it as the
//! others do.
//!
//! ```text
//! repetition 1: kernel-nat  node-nat     warm-up > search
//! repetition 2: node-nat  kernel-nat               search        > curve, procedures, result: one after another
//! ```

use std::collections::HashMap;

use weir_load::counts::Load;

use super::procedure;
use super::run::{CEILING_SHARE, CeilingKey, Measuring, WARM_UP, Wire, ceiling_key};
use super::trials::{MOVED, Trials, search_once};
use crate::frames::PointSpec;
use crate::frames::Setup;
use crate::record::{Comparison, GoalResult, Point, PointResult, Purpose};
use crate::rigs::throughput::SearchSpec;
use crate::run::rounds::{Rounds, TakesTurns, comparison, take_turns};
use crate::run::{Event, RunError, goal_result};
use crate::run_data::PointData;
use crate::search::GoalOutcome;

/// Points of a plan that are measured together, with their numbers in the plan.
pub(super) type Group<'p> = Vec<(usize, &'p PointSpec)>;

/// Devices that do the same job at the same traffic, in the order of the plan; each point alone if none take turns.
pub(super) fn groups(specs: &[PointSpec], in_turn: bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        match groups.iter_mut().find(|group| in_turn && group[0].1.is_rival(spec)) {
            Some(group) => group.push((i, spec)),
            None => groups.push(vec![(i, spec)]),
        }
    }
    groups
}

/// What a run has to do, and what was done of it.
pub(super) struct Course {
    /// What the tester manages, by what that depends on.
    pub(super) wires: HashMap<CeilingKey, Wire>,
    /// Turns of all points together.
    pub(super) turns: usize,
    /// Turns so far.
    pub(super) done: usize,
    /// Notes that the user has read.
    pub(super) told: Vec<String>,
}

/// A point in progress.
struct Entrant<'a> {
    point: Point,
    spec: &'a PointSpec,
    setup: Setup,
    trials: Trials<'a>,
    ceiling_fps: f64,
    repetitions: u32,
    /// What each repetition of the search gave, by goal; nothing for fixed loads.
    found: Vec<Vec<GoalOutcome>>,
}

impl TakesTurns for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }
}

impl Measuring<'_> {
    /// Measures a group, but for what an earlier part of this run has finished.
    pub(super) fn group(&mut self, group: &Group<'_>, course: &mut Course) -> Result<(), RunError> {
        let (repeat, ceilings) = (self.experiment.repeat, course.wires.len());
        let (rounds, in_a_turn) = if repeat.in_turn { (repeat.times, 1) } else { (1, repeat.times) };
        let turns = Rounds { observe: self.options.observe, rounds, done: course.done, count: course.turns };
        course.done += group.len() * rounds as usize;
        let (mut opened, mut first) = (Vec::new(), None);
        for &(i, spec) in group {
            if let Some(data) = self.finished(ceilings + i, Some(turns.done), turns.count) {
                first = first.or_else(|| First::of(data));
                continue;
            }
            opened.push((spec, self.open(spec, spec.dut.to_string(), ceilings + i, &mut course.told)?));
        }
        let this = &*self;
        let entrant = |(spec, (mut setup, point, kept))| {
            let wire = course.wires[&ceiling_key(spec)];
            wire.min_ns.iter().for_each(|min_ns| Setup::compare_to_wire(&mut setup, *min_ns));
            let trials = Trials::new(this, (&point, spec), kept);
            let ceiling_fps = wire.ceiling_fps;
            Entrant { point, spec, setup, trials, ceiling_fps, repetitions: 0, found: Vec::new() }
        };
        let mut entrants: Vec<_> = opened.into_iter().map(entrant).collect();
        take_turns(&turns, &mut entrants, |entrant| {
            (0..in_a_turn).try_for_each(|_| this.repetition(entrant))
        })?;
        for entrant in &mut entrants {
            let result = this.rest(entrant, first.as_ref())?;
            first = first.or_else(|| First::new(entrant.point.index, &result));
        }
        Ok(())
    }

    /// One more repetition of the search.
    fn repetition(&self, entrant: &mut Entrant<'_>) -> Result<(), RunError> {
        let Entrant { setup, trials, ceiling_fps, found, .. } = entrant;
        if entrant.repetitions == 0 {
            let min = self.experiment.search.min_fps().min(*ceiling_fps);
            trials.one(setup, &Load::steady(min, WARM_UP), Purpose::WarmUp)?;
        } else {
            setup.reset()?;
        }
        entrant.repetitions += 1;
        if let SearchSpec::Fixed(fixed) = &self.experiment.search {
            for fps in &fixed.loads_fps {
                trials.valid(setup, *fps, fixed.trial, Purpose::Search)?;
            }
            return Ok(());
        }
        let search = procedure::search(&self.experiment.search, *ceiling_fps * CEILING_SHARE);
        search.validate().map_err(|mistakes| {
            let list: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            RunError::Search(list.join("; "))
        })?;
        let mut goals = search_once(&search, trials, setup)?;
        if trials.cpus_moved() {
            (self.options.observe)(Event::Note(MOVED));
            goals = search_once(&search, trials, setup)?;
        }
        found.push(goals);
        Ok(())
    }

    /// What follows the search, and the result.
    fn rest(&self, entrant: &mut Entrant<'_>, first: Option<&First>) -> Result<PointResult, RunError> {
        let goals = goals(&entrant.found);
        self.curve(entrant, &goals)?;
        let known = self.known(entrant, &goals);
        let mut bench =
            procedure::Bench { trials: &mut entrant.trials, setup: &mut entrant.setup, known: &known };
        let procedures = procedure::measure(&self.experiment.procedures, &mut bench)?;
        let search = self.experiment.search.name().to_string();
        let comparisons = first.and_then(|first| first.against(&goals)).into_iter().collect();
        let result = PointResult { search, goals, comparisons, procedures };
        self.close(&entrant.point, result.clone())?;
        Ok(result)
    }

    fn known<'s>(&self, entrant: &Entrant<'s>, goals: &[GoalResult]) -> procedure::Known<'s> {
        let throughput_fps = match &self.experiment.search {
            SearchSpec::Fixed(fixed) => fixed.loads_fps.first().copied(),
            _ => goals.first().and_then(|goal| goal.fps_median),
        };
        let Entrant { spec, ceiling_fps, .. } = *entrant;
        let smallest = spec.is_smallest(&self.experiment.traffic.frame_bytes);
        procedure::Known {
            spec,
            throughput_fps,
            ceiling_fps,
            paced_fps: ceiling_fps * CEILING_SHARE,
            smallest,
        }
    }

    /// Loss and latency at shares of the throughput that was found.
    fn curve(&self, entrant: &mut Entrant<'_>, goals: &[GoalResult]) -> Result<(), RunError> {
        let Some(curve) = &self.experiment.curve else { return Ok(()) };
        let Some(found) = goals.iter().filter_map(|g| g.fps_median).reduce(f64::max) else { return Ok(()) };
        for percent in &curve.percent {
            let fps = found * percent / 100.0;
            if fps <= entrant.ceiling_fps * CEILING_SHARE {
                entrant.trials.valid(&mut entrant.setup, fps, curve.trial, Purpose::Curve)?;
            }
        }
        Ok(())
    }
}

/// The results of all repetitions, goal by goal.
fn goals(found: &[Vec<GoalOutcome>]) -> Vec<GoalResult> {
    let Some(first) = found.first() else { return Vec::new() };
    let result = |(g, first): (usize, &GoalOutcome)| {
        let values = found.iter().map(|goals| goals[g].value.clone()).collect();
        goal_result(&first.goal, first.parameters.clone(), values)
    };
    first.iter().enumerate().map(result).collect()
}

/// The first point of a group, which the others are compared with.
struct First {
    index: usize,
    goal: GoalResult,
}

impl First {
    fn of(data: &PointData) -> Option<First> {
        data.point.result.as_ref().and_then(|result| First::new(data.point.index, result))
    }

    fn new(index: usize, result: &PointResult) -> Option<First> {
        Some(First { index, goal: result.goals.first()?.clone() })
    }

    /// Another point's first goal by that of this one, repetition by repetition.
    fn against(&self, goals: &[GoalResult]) -> Option<Comparison> {
        let rates = |goal: &GoalResult| -> Vec<_> { goal.repetitions.iter().map(|r| r.fps).collect() };
        comparison(rates(goals.first()?), (self.index, rates(&self.goal)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    /// Who takes turns with whom in the plan `node`, changed so.
    fn check(sets: &[&str], expected: &[&[&str]]) {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_string()).collect();
        let specs = plan::load("node", &sets).expect("it ships").points();
        let names = |group: &Group| group.iter().map(|(_, spec)| spec.dut.to_string()).collect::<Vec<_>>();
        assert_eq!(groups(&specs, true).iter().map(names).collect::<Vec<_>>(), expected, "{sets:?}");
        assert!(groups(&specs, false).iter().all(|group| group.len() == 1));
    }

    #[test]
    fn devices_of_the_same_job_at_the_same_traffic_are_a_group() {
        let forward: &[&str] = &["kernel-forward", "node-forward", "node-forward-packet"];
        let filters: [&[&str]; 2] =
            [&["kernel-stateless", "node-stateless"], &["kernel-stateful", "node-stateful"]];
        let nat: &[&str] = &["kernel-nat", "node-nat"];
        check(&["traffic.frame_bytes=64"], &[forward, filters[0], filters[1], nat]);
        let two = r#"dut.kind=["node-nat","kernel-nat"]"#;
        check(&[two], &[&["node-nat", "kernel-nat"], &["node-nat", "kernel-nat"]]);
        // Only the kernel's routes are changed.
        check(
            &[two, "dut.route_changes_per_s=10"],
            &[&["node-nat"], &["node-nat"], &["kernel-nat"], &["kernel-nat"]],
        );
    }
}
