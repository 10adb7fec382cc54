//! Runs the experiment: the tester's own ceiling, then the NATs, those that are compared alternately.
//!
//! ```text
//! wire > for each NAT: each flow once > search > steps of load  > the other NAT > .. again, as often as there are rounds
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use weir_linux::conntrack::ConntrackStats;
use weir_load::counts::Load;
use weir_measure::capacity::Round;
use weir_testbed::dut::DutKind;
use weir_testbed::memory::KernelMemory;

use super::bench::{Bench, CEILING_SHARE};
use super::capacity::Capacity;
use super::figure::{self, Footprint};
use super::plan::{NatLoad, NatPoint, Step};
use super::table::{self, TableSettings};
use weir_lab::error::RunError;
use weir_lab::frames::{PointSpec, Setup};
use weir_lab::run::Event;
use weir_lab::run::rounds::{Interleaved, Rated, Rounds, comparison, interleave};
use weir_measure::search::GoalOutcome;
use weir_record::figure::goal_result;
use weir_record::record::{Figure, GoalValue, Point, PointResult, Purpose, Translation, Trial};
use weir_record::run_data::{PointData, WIRE};

run_of!(
    /// An experiment in progress.
    pub(super) Measuring, NatLoad
);

/// Trials of the wire: their median is the ceiling.
const CEILING_TRIALS: usize = 3;
const CEILING_TRIAL: Duration = Duration::from_millis(200);
/// Paced trials after that: what the tester itself adds to each round trip, at shares of the ceiling.
const WIRE_PERCENT: [f64; 3] = [1.0, 10.0, 50.0];
const WIRE_TRIAL: Duration = Duration::from_millis(100);
/// For how long flows are sent until all are answered, at most, in times that it takes to send them once as fast as the plan
/// says.
const ESTABLISHMENTS: f64 = 12.0;
/// Where fewer than this share is answered, they are sent half as fast the next time.
const ANSWERED: f64 = 0.9;

/// A NAT in progress.
struct Entrant<'a> {
    bench: Bench<'a>,
    ceiling_fps: f64,
    /// What each round found.
    found: Vec<Vec<GoalOutcome>>,
    /// The highest load of the first round: steps are percentages of it in all rounds.
    maximum_fps: Option<f64>,
    steps: Vec<(Step, Trial)>,
    footprint: Option<Footprint>,
    capacity: Capacity,
    /// What the kernel's connection table counted in the last round.
    table: Vec<Figure>,
    /// Why it is not measured.
    absent: Option<String>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.bench.point
    }

    fn takes_part(&self) -> bool {
        self.absent.is_none()
    }
}

impl Entrant<'_> {
    /// What the kernel's connection table has counted, if the device is the kernel's NAT.
    fn conntrack(&self) -> Result<Option<ConntrackStats>, RunError> {
        let is_kernels = self.bench.spec.dut == DutKind::KERNEL_NAT;
        Ok(if is_kernels { Some(self.bench.setup.bed().snapshot()?.conntrack) } else { None })
    }
}

impl Measuring<'_> {
    pub(super) fn all_points(mut self) -> Result<(), RunError> {
        self.settings.external = self.experiment.external.clone();
        let points = self.experiment.points();
        // What is missing is reported before anything is measured.
        let mut groups = groups(&points);
        groups.iter_mut().for_each(|group| group.retain(|(index, _)| self.has(*index)));
        groups.retain(|group| !group.is_empty());
        let own = || groups.iter().flatten();
        own().try_for_each(|(_, point)| Setup::check(&point.spec, &self.settings))?;
        let rounds = self.experiment.rounds;
        let (count, mut done) = (own().count() * rounds as usize, 0);
        if count == 0 {
            return Ok(());
        }
        let ceiling_fps = self.wire(&points)?;
        for group in groups {
            let rounds = Rounds { observe: self.options.observe, rounds, done, count };
            let _host = group[0].1.table.set_on_host(self.journal.another())?;
            self.group(&group, &rounds, ceiling_fps)?;
            done += group.len() * rounds.rounds as usize;
        }
        Ok(())
    }

    /// Those that differ in their device alone.
    fn group(
        &mut self,
        points: &[(usize, &NatPoint)],
        rounds: &Rounds<'_>,
        ceiling_fps: f64,
    ) -> Result<(), RunError> {
        let mut opened = Vec::new();
        let mut earlier = None;
        let mut base: Option<(usize, Vec<Round>)> = None;
        for &(index, point) in points {
            // The wire is the first point.
            match self.finished(index + 1, rounds) {
                Some(data) => earlier = earlier.or_else(|| Earlier::of(data)),
                None => opened.push(self.open(point, point.spec.dut.to_string(), index + 1)?),
            }
        }
        let this = &*self;
        let entrant = |(point, spec, setup, kept): (Point, PointSpec, Setup, _)| {
            let absent = this.too_many(&spec);
            let bench = Bench::new(this, (point, spec), setup, kept);
            let (found, steps, table) = (Vec::new(), Vec::new(), Vec::new());
            let capacity = Capacity::default();
            Entrant {
                bench,
                ceiling_fps,
                found,
                maximum_fps: None,
                steps,
                footprint: None,
                capacity,
                table,
                absent,
            }
        };
        let mut entrants: Vec<_> = opened.into_iter().map(entrant).collect();
        interleave(rounds, &mut entrants, |entrant| this.turn(entrant))?;
        for entrant in &entrants {
            let mut result = this.result(entrant, earlier.as_ref());
            let reference = base.as_ref().map(|(index, trials)| (*index, &trials[..]));
            result.procedures.extend(entrant.capacity.result(this.experiment.capacity_trial, reference));
            base = base.or_else(|| Some((entrant.bench.point.index, entrant.capacity.trials.clone())));
            earlier = earlier.or_else(|| Earlier::new(entrant.bench.point.index, &result));
            this.close(&entrant.bench.point, result)?;
        }
        Ok(())
    }

    /// Shows the result of a point that was finished before the run was interrupted, and returns it.
    fn finished(&self, index: usize, rounds: &Rounds<'_>) -> Option<&PointData> {
        let data = self.resumed.finished(index)?;
        let observe = self.options.observe;
        observe(Event::Point { index: Some(rounds.done), count: rounds.count, point: &data.point });
        data.trials.iter().for_each(|trial| observe(Event::Ended(trial)));
        data.point.result.iter().for_each(|result| observe(Event::Result(&data.point, result)));
        Some(data)
    }

    fn open(
        &mut self,
        nat: &NatPoint,
        dut: String,
        index: usize,
    ) -> Result<(Point, PointSpec, Setup, VecDeque<Trial>), RunError> {
        let NatPoint { spec, table } = nat;
        let NatLoad { faults, public, .. } = self.experiment;
        let mut setup = Setup::build(spec, &self.0.settings, faults, &mut self.0.journal)?;
        let flows = self.experiment.ranges(spec).list(spec.order, self.settings.seed);
        setup.check_translation(flows, public)?;
        setup.bed().dut().map_or(Ok(()), |device| table.set_in(device))?;
        setup.notes().iter().for_each(|note| (self.options.observe)(Event::Note(note)));
        let cpus = if spec.dut.has_cpus() { setup.cpus().dut.clone() } else { Vec::new() };
        let shared = cpus.iter().copied().filter(|cpu| setup.cpus().tester.contains(cpu)).collect();
        let mut point = Point {
            run_id: self.record.id,
            index,
            settings: nat.settings(),
            dut,
            frame: spec.frame.to_string(),
            frame_bytes_mean: spec.frame.mean(),
            cpus,
            cpus_shared: shared,
            notes: setup.notes().to_vec(),
            ..Point::default()
        };
        point.notes.extend(self.too_many(spec));
        let kept = self.resumed.enter(&mut point, self.log)?;
        Ok((point, spec.clone(), setup, kept))
    }

    /// Why a device has no room for the flows, if that is known.
    fn too_many(&self, spec: &PointSpec) -> Option<String> {
        // Where the plan sets the table's size, it may be too small on purpose.
        let is_tried = !self.experiment.tables.max.is_empty();
        let most = table::now("nf_conntrack_max").filter(|_| spec.dut == DutKind::KERNEL_NAT && !is_tried)?;
        (u64::from(spec.flows) > most).then(|| {
            format!(
                "{} flows were not measured: they do not fit into the kernel's connection table of {most} entries; raise \
                 net.netfilter.nf_conntrack_max.",
                spec.flows
            )
        })
    }

    /// What the tester manages there and back with nothing in between, all checks included.
    fn wire(&mut self, points: &[NatPoint]) -> Result<f64, RunError> {
        let spec = points.first().expect("a plan has a point").spec.over_the_wire();
        let wire = NatPoint { spec, table: TableSettings::default() };
        if let Some(data) = self.resumed.finished(0) {
            return Ok(data.headline_fps().unwrap_or(0.0));
        }
        let (point, spec, setup, kept) = self.open(&wire, WIRE.into(), 0)?;
        (self.options.observe)(Event::Point { index: None, count: points.len(), point: &point });
        let mut bench = Bench::new(self, (point, spec), setup, kept);
        let mut rates = Vec::new();
        for _ in 0..CEILING_TRIALS {
            let trial = bench.one(&Load::full_speed(CEILING_TRIAL), Purpose::Ceiling)?;
            rates.push(trial.counts().received as f64 / trial.duration_s);
        }
        let trial_s = CEILING_TRIAL.as_secs_f64();
        let value = |fps: &f64| GoalValue { fps: Some(*fps), trials: 1, trial_s, ..GoalValue::default() };
        let parameters = vec![("trial".to_string(), format!("{trial_s} s"))];
        let goal = goal_result("ceiling", parameters, rates.iter().map(value).collect());
        let ceiling_fps = goal.fps_median.unwrap_or(0.0);
        for percent in WIRE_PERCENT.into_iter().filter(|_| ceiling_fps > 0.0) {
            bench.believed(&Load::steady(ceiling_fps * percent / 100.0, WIRE_TRIAL), Purpose::Curve)?;
        }
        let result = PointResult { search: "fixed".into(), goals: vec![goal], ..PointResult::default() };
        self.close(&bench.point, result)?;
        Ok(ceiling_fps)
    }

    /// A round of one device.
    fn turn(&self, entrant: &mut Entrant<'_>) -> Result<(), RunError> {
        let before = entrant.conntrack()?;
        self.establish(entrant)?;
        let Entrant { capacity, bench, ceiling_fps, .. } = &mut *entrant;
        capacity.round(self.experiment, bench, *ceiling_fps)?;
        self.load(entrant)?;
        if let Some((before, after)) = before.zip(entrant.conntrack()?) {
            entrant.table = table::figures(entrant.bench.spec.flows, &before, &after);
        }
        Ok(())
    }

    /// The search, and steps of load.
    fn load(&self, entrant: &mut Entrant<'_>) -> Result<(), RunError> {
        let search = self.experiment.search.up_to(entrant.ceiling_fps * CEILING_SHARE);
        let goals = entrant.bench.search(&search)?;
        let found = goals.first().and_then(|goal| goal.value.fps);
        entrant.found.push(goals);
        entrant.maximum_fps = entrant.maximum_fps.or(found);
        for &step in &self.experiment.steps {
            let fps = step.fps(entrant.maximum_fps).filter(|fps| *fps <= entrant.ceiling_fps * CEILING_SHARE);
            let Some(fps) = fps else { continue };
            let load = Load::steady(fps, self.experiment.trial);
            entrant.steps.push((step, entrant.bench.believed(&load, Purpose::Curve)?));
        }
        Ok(())
    }

    /// Sends a frame of each flow, until all are established and known, or for long enough.
    fn establish(&self, entrant: &mut Entrant<'_>) -> Result<(), RunError> {
        let bench = &mut entrant.bench;
        if !bench.is_new() {
            return Ok(());
        }
        let (flows, fps) = (u64::from(bench.spec.flows), self.experiment.establish_fps);
        let fps = fps.min(entrant.ceiling_fps * CEILING_SHARE).max(1.0);
        if entrant.footprint.is_none() {
            bench.setup.reset()?;
        }
        // A fast path, as the flow offload of a device, learns a flow by its second frame.
        let kind = bench.spec.dut;
        let mut passes = if kind.is_fast() || kind == DutKind::EXTERNAL { 2 } else { 1 };
        let (before, mut turns, mut each) = (Memory::now(), ESTABLISHMENTS, 1.0);
        while passes > 0 && each <= turns {
            turns -= each;
            let fps = fps / each;
            let duration = Duration::from_secs_f64(flows as f64 / fps) + Duration::from_millis(100);
            let load = Load { max_frames: Some(flows), ..Load::steady(fps, duration) };
            let trial = bench.one(&load, Purpose::WarmUp)?;
            let inside = trial.detail::<Translation>().map_or(0, |seen| seen.flows_inside);
            passes -= u32::from(inside >= flows);
            if (inside as f64) < flows as f64 * ANSWERED {
                each *= 2.0;
            }
        }
        let entries = bench.setup.bed().dut().map(|_| flows);
        entrant.footprint = entrant.footprint.or(entries.map(|flows| before.growth(flows)));
        Ok(())
    }

    fn result(&self, entrant: &Entrant<'_>, earlier: Option<&Earlier>) -> PointResult {
        let goals: Vec<_> = entrant.found.first().map_or(Vec::new(), |first| {
            let goal = |(g, first): (usize, &GoalOutcome)| {
                let values = entrant.found.iter().map(|goals| goals[g].value.clone()).collect();
                goal_result(&first.goal, first.parameters.clone(), values)
            };
            first.iter().enumerate().map(goal).collect()
        });
        let rates = |goal: &weir_record::record::GoalResult| {
            goal.repetitions.iter().map(|r| r.fps).collect::<Vec<_>>()
        };
        let comparisons = earlier
            .zip(goals.first())
            .and_then(|(earlier, goal)| {
                comparison(rates(goal), Rated { point_index: earlier.index, rates: earlier.fps.clone() })
            })
            .into_iter()
            .collect();
        let (max, ceiling_fps) = (entrant.maximum_fps, entrant.ceiling_fps);
        let procedures = match &entrant.absent {
            None => {
                let mut procedure = figure::procedure(&entrant.steps, entrant.footprint);
                procedure.figures.extend(entrant.table.iter().cloned());
                procedure.irregular = entrant.bench.irregular();
                vec![procedure]
            }
            Some(_) => Vec::new(),
        };
        let mut result = PointResult { search: "mlrsearch".into(), goals, comparisons, procedures };
        let mut loads = self.experiment.steps.iter().filter_map(|step| step.fps(max));
        if loads.any(|fps| fps > ceiling_fps * CEILING_SHARE) {
            let text = format!(
                "the tester ends the steps of load: it manages {ceiling_fps:.0} frames/s there and back"
            );
            result.procedures.iter_mut().for_each(|procedure| procedure.irregular.push(text.clone()));
        }
        result
    }
}

/// The first device of a group, which the others are compared with.
struct Earlier {
    index: usize,
    fps: Vec<Option<f64>>,
}

impl Earlier {
    fn of(data: &PointData) -> Option<Earlier> {
        Earlier::new(data.point.index, data.point.result.as_ref()?)
    }

    fn new(index: usize, result: &PointResult) -> Option<Earlier> {
        let fps = result.goals.first()?.repetitions.iter().map(|r| r.fps).collect();
        Some(Earlier { index, fps })
    }
}

/// Points that differ in their device alone, in the order of the plan.
fn groups(points: &[NatPoint]) -> Vec<Vec<(usize, &NatPoint)>> {
    let mut groups: Vec<Vec<(usize, &NatPoint)>> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let alike = |one: &NatPoint| {
            let spec = PointSpec { dut: one.spec.dut, ..point.spec.clone() };
            NatPoint { spec, table: point.table } == *one
        };
        match groups.last_mut().filter(|group| alike(group[0].1)) {
            Some(group) => group.push((index, point)),
            None => groups.push(vec![(index, point)]),
        }
    }
    groups
}

/// The points that each point is compared with: the first of its group.
pub(super) fn bases(points: &[NatPoint]) -> Vec<Vec<usize>> {
    let mut bases = vec![Vec::new(); points.len()];
    for group in groups(points) {
        group[1..].iter().for_each(|(own, _)| bases[*own].push(group[0].0));
    }
    bases
}

/// Memory that grows with the flows of a device.
#[derive(Clone, Copy)]
struct Memory {
    kernel_bytes: Option<u64>,
    own_bytes: Option<u64>,
}

impl Memory {
    fn now() -> Memory {
        Memory { kernel_bytes: KernelMemory::now().slab_bytes, own_bytes: own_bytes() }
    }

    /// What was added for so many flows.
    fn growth(self, flows: u64) -> Footprint {
        let now = Memory::now();
        let grown = |after: Option<u64>, before: Option<u64>| Some(after? as f64 - before? as f64);
        let bytes = grown(now.kernel_bytes, self.kernel_bytes).unwrap_or(0.0)
            + grown(now.own_bytes, self.own_bytes).unwrap_or(0.0);
        Footprint { flows, bytes: bytes.max(0.0) }
    }
}

/// Anonymous memory of this process, of which a node is a part.
fn own_bytes() -> Option<u64> {
    let status = weir_disk::kernel_text("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;

    #[test]
    fn devices_at_the_same_traffic_are_a_group() {
        let plan = PLANS.load("nat-flows", &["nat.flows=[1,10]".into()]).unwrap();
        let points = plan.experiment.of::<NatLoad>().unwrap().points();
        let name = |(_, point): &(usize, &NatPoint)| format!("{} {}", point.spec.dut, point.spec.flows);
        let names: Vec<Vec<String>> =
            groups(&points).iter().map(|group| group.iter().map(name).collect()).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert_eq!(names[0], ["kernel-nat 1", "node-nat 1"]);
    }
}
