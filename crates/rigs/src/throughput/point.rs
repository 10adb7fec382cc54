//! A point of a plan: warm-up, search, curve, procedures, result. Its search is repeated at once, or alternately with those of
//! other devices that do the same job: a virtual machine is fast at some times and slow at others, and then each finds it as
//! the others do.
//!
//! ```text
//! repetition 1: kernel-nat  node-nat     warm-up > search
//! repetition 2: node-nat  kernel-nat               search        > curve, procedures, result: one after another
//! ```

use std::collections::{HashMap, VecDeque};

use weir_load::counts::Load;
use weir_testbed::dut::System;
use weir_testbed::link::LinkSpec;

use super::capacity::{self, Capacity, Overloaded};
use super::measuring::{CEILING_SHARE, CeilingKey, Measuring, WARM_UP, Wire, ceiling_key};
use super::procedure;
use super::trials::{MOVED, Trials, WHILE_RUNNING, search_once};
use crate::throughput::{CapacitySpec, SearchLoss, SearchSpec, Throughput};
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::Setup;
use weir_lab::run::Event;
use weir_lab::run::rounds::{Interleaved, Rated, Rounds, comparison, interleave};
use weir_measure::search::GoalOutcome;
use weir_record::figure::goal_result;
use weir_record::record::{Comparison, GoalResult, Point, PointResult, ProcedureResult, Purpose, Trial};
use weir_record::run_data::PointData;

/// A search goes up to this times the capacity.
const ABOVE_CAPACITY: f64 = 1.3;

/// A bottleneck is offered up to this times its rate: far above it, the frames that it drops take the time of those that are due.
const ABOVE_RATE: f64 = 2.0;

/// Points of a plan that are measured together, with their numbers in the plan.
pub(super) type Group<'p> = Vec<(usize, &'p PointSpec)>;

/// Devices that do the same job at the same traffic, in the order of the plan; each point alone if none alternate.
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
    /// Ceilings of the plan, which come before its points.
    pub(super) ceilings: usize,
    /// Turns of all points together.
    pub(super) interleaved: usize,
    /// Those of them that are the rounds of the capacity.
    pub(super) ahead: usize,
    /// Turns so far.
    pub(super) done: usize,
    /// Notes that the user has read.
    pub(super) reported: Vec<String>,
}

/// What a device is offered at most, whatever the tester could send, frames/s.
fn most_fps(spec: &PointSpec) -> f64 {
    let link_fps = |link: &LinkSpec| ABOVE_RATE * spec.frame.line_fps(link.highest_bits_per_s() as f64);
    spec.link.as_ref().map_or(f64::INFINITY, link_fps)
}

/// A point in progress.
struct Entrant<'a> {
    point: Point,
    spec: &'a PointSpec,
    setup: Setup,
    trials: Trials<'a>,
    ceiling_fps: f64,
    /// What it forwards in overload, where the plan asks for that.
    capacity: Capacity,
    /// The same as a result, and frames/s.
    forwards: Option<(ProcedureResult, Option<f64>)>,
    repetitions: u32,
    /// What each repetition of the search gave, by goal; nothing for fixed loads.
    found: Vec<Vec<GoalOutcome>>,
}

impl<'a> Entrant<'a> {
    /// As it takes part in the rounds of the capacity.
    fn overloaded(&mut self) -> Overloaded<'_, 'a> {
        let Entrant { point, setup, trials, ceiling_fps, capacity, .. } = self;
        Overloaded { point, setup, trials, ceiling_fps: *ceiling_fps, capacity }
    }
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }
}

/// A point with its test bed, its number in the store, and the trials that it has there.
type Bench<'p> = (&'p PointSpec, (Setup, Point, VecDeque<Trial>));

/// A group with its test beds, but for what an earlier part of this run has finished.
struct Opened<'p> {
    new: Vec<Bench<'p>>,
    first: Option<First>,
    /// Turns of the run before those of this group.
    done: usize,
}

impl Measuring<'_> {
    /// Measures all points, group by group; their capacities before, if the plan asks for them.
    pub(super) fn groups(&mut self, groups: &[Group<'_>], mut course: Course) -> Result<(), RunError> {
        let Some(spec) = self.experiment.capacity.clone() else {
            return groups.iter().try_for_each(|group| {
                let opened = self.opened(group, &mut course)?;
                let mut entrants = self.entrants(opened.new, &course);
                self.group(&mut entrants, opened.first, (opened.done, &course))
            });
        };
        let opened = groups.iter().map(|group| self.opened(group, &mut course));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let this = &*self;
        let mut all = Vec::new();
        for Opened { new, first, done } in opened {
            all.push((this.entrants(new, &course), first, done));
        }
        let entrants = all.iter_mut().flat_map(|(entrants, ..)| entrants).collect();
        this.capacities(&spec, entrants, &course)?;
        for (mut entrants, first, done) in all {
            this.group(&mut entrants, first, (done, &course))?;
        }
        Ok(())
    }

    fn opened<'p>(&mut self, group: &Group<'p>, course: &mut Course) -> Result<Opened<'p>, RunError> {
        let (repeat, ceilings) = (self.experiment.repeat, course.ceilings);
        let mut opened = Opened { new: Vec::new(), first: None, done: course.done };
        course.done += group.len() * if repeat.in_turn { repeat.times as usize } else { 1 };
        for &(i, spec) in group {
            if let Some(data) = self.finished(ceilings + i, Some(opened.done), course.interleaved) {
                opened.first = opened.first.or_else(|| First::of(data));
                continue;
            }
            let new = self.open(spec, spec.dut.to_string(), ceilings + i, &mut course.reported)?;
            opened.new.push((spec, new));
        }
        Ok(opened)
    }

    fn entrants<'s>(&'s self, new: Vec<Bench<'s>>, course: &Course) -> Vec<Entrant<'s>> {
        let entrant = |(spec, (mut setup, point, kept)): (&'s PointSpec, (Setup, Point, _))| {
            let wire = course.wires[&ceiling_key(spec)];
            wire.min_ns.iter().for_each(|min_ns| Setup::compare_to_wire(&mut setup, *min_ns));
            let trials = Trials::new(self, (&point, spec), kept);
            let ceiling_fps = most_fps(spec).min(wire.ceiling_fps);
            let (capacity, forwards) = (Capacity::default(), None);
            Entrant {
                point,
                spec,
                setup,
                trials,
                ceiling_fps,
                capacity,
                forwards,
                repetitions: 0,
                found: Vec::new(),
            }
        };
        new.into_iter().map(entrant).collect()
    }

    /// What all points forward in overload.
    fn capacities(
        &self,
        spec: &CapacitySpec,
        mut all: Vec<&mut Entrant<'_>>,
        course: &Course,
    ) -> Result<(), RunError> {
        let mut overloaded: Vec<_> = all.iter_mut().map(|entrant| entrant.overloaded()).collect();
        self.capacity(spec, &mut overloaded, (course.ahead, course.interleaved))?;
        let specs = self.experiment.points();
        let of = |data: &PointData| Capacity::of_kept(spec, &data.trials);
        let before = self.resumed.points().filter(|data| data.point.result.is_some());
        let mut before: Vec<(usize, Capacity)> = before.map(|data| (data.point.index, of(data))).collect();
        let kept = before.iter_mut().map(|(_, capacity)| capacity);
        let mut known: Vec<&mut Capacity> = all.iter_mut().map(|e| &mut e.capacity).chain(kept).collect();
        let shortest = known.iter().filter_map(|capacity| capacity.shortest_step_ns()).reduce(f64::min);
        known.iter_mut().for_each(|capacity| capacity.place(shortest.unwrap_or(f64::INFINITY)));
        let headline =
            capacity::headline(all.iter().map(|e| &e.capacity).chain(before.iter().map(|(_, c)| c)));
        let rounds: Vec<(usize, Capacity)> =
            all.iter().map(|e| (e.point.index, e.capacity.clone())).chain(before).collect();
        for entrant in all {
            // The ceilings come before the points of the plan.
            let own = specs.iter().position(|spec| spec == entrant.spec).unwrap_or(0);
            let indices = references(&specs, entrant.spec).into_iter().filter(|other| *other != own);
            let indices = indices.filter_map(|other| (entrant.point.index + other).checked_sub(own));
            let found = indices.filter_map(|index| rounds.iter().find(|(i, _)| *i == index));
            let found: Vec<_> =
                found.map(|(index, c)| capacity::Reference { index: *index, rounds: &c.rounds }).collect();
            let result = entrant.capacity.result(spec, &headline, &found);
            entrant.forwards = Some((result, entrant.capacity.fps(&headline)));
        }
        Ok(())
    }

    /// Measures a group.
    fn group(
        &self,
        entrants: &mut [Entrant<'_>],
        mut first: Option<First>,
        (done, course): (usize, &Course),
    ) -> Result<(), RunError> {
        let repeat = self.experiment.repeat;
        let (rounds, in_a_turn) = if repeat.in_turn { (repeat.times, 1) } else { (1, repeat.times) };
        let interleaved = Rounds { observe: self.options.observe, rounds, done, count: course.interleaved };
        interleave(&interleaved, entrants, |entrant| {
            (0..in_a_turn).try_for_each(|_| self.repetition(entrant))
        })?;
        for entrant in entrants {
            let result = self.rest(entrant, first.as_ref())?;
            first = first.or_else(|| First::new(entrant.point.index, &result));
        }
        Ok(())
    }

    /// One more repetition of the search.
    fn repetition(&self, entrant: &mut Entrant<'_>) -> Result<(), RunError> {
        let Entrant { setup, trials, ceiling_fps, found, .. } = entrant;
        if entrant.repetitions == 0 && entrant.forwards.is_none() {
            let min = self.experiment.search.min_fps().min(*ceiling_fps);
            trials.one(setup, &Load::steady(min, WARM_UP), Purpose::WarmUp)?;
        } else {
            setup.reset()?;
        }
        entrant.repetitions += 1;
        match &self.experiment.search {
            SearchSpec::None => return Ok(()),
            SearchSpec::Fixed(fixed) => {
                for fps in &fixed.loads_fps {
                    trials.valid(setup, *fps, fixed.trial, Purpose::Search)?;
                }
                return Ok(());
            }
            _ => {}
        }
        // Nothing is found far above what it forwards in overload.
        let forwards = entrant.forwards.as_ref().and_then(|(_, fps)| *fps);
        let most_fps = forwards.map_or(f64::INFINITY, |fps| fps * ABOVE_CAPACITY);
        let most_fps = most_fps.min(*ceiling_fps * CEILING_SHARE);
        let search = procedure::search(&self.experiment.search, most_fps);
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
        let mut goals = goals(&entrant.found);
        if self.experiment.search_loss == SearchLoss::Running {
            let which = ("loss".to_string(), WHILE_RUNNING.to_string());
            goals.iter_mut().for_each(|goal| goal.parameters.push(which.clone()));
        }
        self.curve(entrant, &goals)?;
        let known = self.known(entrant, &goals);
        let mut bench =
            procedure::Bench { trials: &mut entrant.trials, setup: &mut entrant.setup, known: &known };
        let mut procedures = procedure::measure(&self.experiment.procedures, &mut bench)?;
        if let Some((capacity, _)) = entrant.forwards.take() {
            procedures.insert(0, capacity);
        }
        let search = self.experiment.search.name().to_string();
        let comparisons = first.and_then(|first| first.against(&goals)).into_iter().collect();
        let result = PointResult { search, goals, comparisons, procedures };
        self.close(&entrant.point, result.clone())?;
        Ok(result)
    }

    fn known<'s>(&self, entrant: &Entrant<'s>, goals: &[GoalResult]) -> procedure::Known<'s> {
        let throughput_fps = match &self.experiment.search {
            SearchSpec::Fixed(fixed) => fixed.loads_fps.first().copied(),
            SearchSpec::None => entrant.forwards.as_ref().and_then(|(_, fps)| *fps),
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

    /// Loss and latency at shares of the capacity, or else of the throughput that was found.
    fn curve(&self, entrant: &mut Entrant<'_>, goals: &[GoalResult]) -> Result<(), RunError> {
        let Some(curve) = &self.experiment.curve else { return Ok(()) };
        let forwards = entrant.forwards.as_ref().and_then(|(_, fps)| *fps);
        let found = forwards.or_else(|| goals.iter().filter_map(|g| g.fps_median).reduce(f64::max));
        let Some(found) = found else { return Ok(()) };
        for percent in &curve.percent {
            let fps = found * percent / 100.0;
            if fps <= entrant.ceiling_fps * CEILING_SHARE {
                entrant.trials.valid(&mut entrant.setup, fps, curve.trial, Purpose::Curve)?;
            }
        }
        Ok(())
    }
}

/// The points that each point is compared with.
pub(super) fn bases(specs: &[PointSpec], experiment: &Throughput) -> Vec<Vec<usize>> {
    let mut bases = vec![Vec::new(); specs.len()];
    if experiment.capacity.is_some() {
        for (own, spec) in specs.iter().enumerate() {
            bases[own] = references(specs, spec).into_iter().filter(|other| *other != own).collect();
        }
    } else {
        for group in groups(specs, experiment.repeat.in_turn) {
            group[1..].iter().for_each(|(own, _)| bases[*own].push(group[0].0));
        }
    }
    bases
}

/// The points whose capacity that of this one is divided by: the first one with the same traffic, and that of the kernel's
/// device with the same job.
fn references(specs: &[PointSpec], own: &PointSpec) -> Vec<usize> {
    let first = specs.iter().position(|spec| spec.has_traffic_of(own));
    let is_kernel = |spec: &PointSpec| spec.dut.system() == System::Kernel && spec.is_rival(own);
    let kernel = specs.iter().position(is_kernel).filter(|kernel| Some(*kernel) != first);
    first.into_iter().chain(kernel).collect()
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
        comparison(rates(goals.first()?), Rated { point_index: self.index, rates: rates(&self.goal) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;

    /// The devices that alternate in the plan `node` with these changes.
    fn check(sets: &[&str], expected: &[&[&str]]) {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_string()).collect();
        let specs = crate::throughput::points(&PLANS.load("node", &sets).expect("it ships"));
        let names = |group: &Group| group.iter().map(|(_, spec)| spec.dut.to_string()).collect::<Vec<_>>();
        assert_eq!(groups(&specs, true).iter().map(names).collect::<Vec<_>>(), expected, "{sets:?}");
        assert!(groups(&specs, false).iter().all(|group| group.len() == 1));
    }

    #[test]
    fn devices_of_the_same_job_at_the_same_traffic_are_a_group() {
        let forward: &[&str] = &["xdp-forward", "kernel-forward", "node-forward", "node-forward-fast"];
        let stateful: &[&str] = &["kernel-stateful", "node-stateful", "node-stateful-fast"];
        let nat: &[&str] = &["kernel-nat", "node-nat", "node-nat-fast"];
        check(&["traffic.frame_bytes=64"], &[forward, stateful, nat]);
        let two = r#"dut.kind=["node-nat","kernel-nat"]"#;
        check(&[two], &[&["node-nat", "kernel-nat"], &["node-nat", "kernel-nat"]]);
        // Only the kernel's routes are changed.
        check(
            &[two, "dut.route_changes_per_s=10"],
            &[&["node-nat"], &["node-nat"], &["kernel-nat"], &["kernel-nat"]],
        );
    }

    #[test]
    fn capacities_are_divided_by_the_first_device_and_by_the_kernels_of_the_same_job() {
        let specs = crate::throughput::points(
            &PLANS.load("node", &["traffic.frame_bytes=64".into()]).expect("it ships"),
        );
        let of = |dut: &str| {
            let own = specs.iter().find(|spec| spec.dut.to_string() == dut).expect("it is in the plan");
            references(&specs, own).into_iter().map(|i| specs[i].dut.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("node-nat-fast"), ["xdp-forward", "kernel-nat"]);
        assert_eq!(of("node-forward"), ["xdp-forward", "kernel-forward"]);
        assert_eq!(of("xdp-forward"), ["xdp-forward", "kernel-forward"]);
    }

    #[test]
    fn a_bottleneck_is_offered_little_more_than_its_rate() {
        let link = r#"dut.kind=["kernel-forward","bottleneck"]"#;
        let sets = [link, "dut.rate=lte:10Mbit", "traffic.frame_bytes=1518", "repeat.in_turn=false"]
            .map(str::to_string);
        let specs = crate::throughput::points(&PLANS.load("node", &sets).expect("it ships"));
        // A model goes up to 4 times its mean, and a frame takes 1538 bytes of a line.
        assert_eq!(
            specs.iter().map(|spec| most_fps(spec).round()).collect::<Vec<_>>(),
            [f64::INFINITY, 6502.0]
        );
    }
}
