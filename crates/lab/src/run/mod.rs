//! Runs a plan: ceilings first, then point by point, trial by trial, each kept as it ends.
//!
//! ```text
//! plan > ceilings of the wire > for each point: rig > search <-> trial > curve > result
//!                                                             |
//!                                                             +> store
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_load::counts::Load;
use weir_load::{LoadError, TesterKind};
use weir_packet::flow::{Direction, IpVersion};
use weir_packet::frame::Transport;
use weir_port::capture::{CaptureError, Rung};
use weir_testbed::device::DeviceError;
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};
use weir_testbed::process::{is_alive, this_process};

use crate::machine;
use crate::plan::{Experiment, Plan, PointSpec, Throughput};
use crate::record::{
    GoalResult, GoalValue, Point, PointResult, Purpose, Run, RunState, Tester, Trial, Verdict,
};
use crate::run_data::{self, PointData, RunData};
use crate::stats;
use crate::store::{Store, StoreError};
use crate::time;

pub(crate) mod captors;
mod capture;
mod counted;
mod detectors;
mod diagnosis;
mod disturbance;
pub mod far;
pub(crate) mod folder;
mod mirror;
mod outside;
mod past;
mod peers;
mod point;
pub mod preflight;
mod procedure;
mod process;
mod programs;
mod rig;
mod rounds;
mod series;
#[cfg(test)]
mod testing;
mod trials;
mod verdict;

pub use folder::sweep_folders;
pub(crate) use mirror::Mirror;
use past::Past;
use point::{Course, groups};
pub use rig::{Rig, Settings};
use trials::Trials;

/// Trials of the wire alone before a run: their median is the ceiling.
const CEILING_TRIALS: usize = 3;
const CEILING_TRIAL: Duration = Duration::from_millis(200);
/// Paced trials of the wire after that: what the tester itself adds to each latency, at shares of the ceiling.
const WIRE_PERCENT: [f64; 3] = [1.0, 10.0, 50.0];
const WIRE_TRIAL: Duration = Duration::from_millis(100);
/// A search goes up to this share of the ceiling: beyond it, departures cannot be paced.
const CEILING_SHARE: f64 = 0.9;
/// Before the first trial of a point: caches warm, connections made.
const WARM_UP: Duration = Duration::from_millis(100);

/// What ended a run before its time.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The test bed could not be built or read.
    #[error(transparent)]
    Testbed(#[from] weir_testbed::error::Error),
    /// Sending or receiving failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device under test could not be started.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A rung of the capture ladder could not be opened.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Capturing ended early.
    #[error("capturing by {rung} ended early: {source}")]
    Reading {
        /// Which rung.
        rung: Rung,
        /// Why.
        source: std::io::Error,
    },
    /// A device that was tried before the run.
    #[error("none of {0} frames came through it")]
    NothingPasses(u64),
    /// What the plan needs does not work here; nothing was recorded.
    #[error(transparent)]
    Unfit(#[from] preflight::Unfit),
    /// The record could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan asks for a search that cannot work.
    #[error("the search of the plan cannot work: {0}")]
    Search(String),
    /// The run cannot go on.
    #[error("run {id} cannot be resumed: {why}")]
    Resume {
        /// Its number.
        id: i64,
        /// Why not, and what to do.
        why: String,
    },
    /// Stopped by the user.
    #[error("interrupted; finished trials are kept in run {0}")]
    Interrupted(i64),
}

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run has its number in the store.
    Run(&'a Run),
    /// A point begins.
    Point {
        /// Its number from 0; ceilings come before the points and have none.
        index: Option<usize>,
        /// Points of the plan.
        count: usize,
        /// The point.
        point: &'a Point,
    },
    /// A procedure begins at the point.
    Procedure {
        /// Its name, that of its section in the plan.
        name: &'static str,
        /// The share of the time at the point that has gone by, as far as the plan tells, 0..=1.
        done: f64,
    },
    /// A trial begins.
    Trial {
        /// Frames/s; `None`: as fast as possible.
        offered_fps: Option<f64>,
        /// How long it sends.
        duration: Duration,
    },
    /// Frames so far in this trial.
    Progress {
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// A trial has ended and is kept.
    Ended(&'a Trial),
    /// A point has its result.
    Result(&'a Point, &'a PointResult),
    /// Something that the user should know.
    Note(&'a str),
}

/// How to run a plan.
pub struct Options<'a> {
    /// Seed of all randomness.
    pub seed: u64,
    /// How to send and receive.
    pub tester: TesterKind,
    /// What is weaker than it could be, for the record.
    pub tester_limits: Vec<String>,
    /// Set to end the run.
    pub stop: &'a AtomicBool,
    /// Told what goes on.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

/// Runs the experiment of a plan; returns the number of the run in the store.
///
/// # Errors
/// See [`RunError`]. Trials that ended before are kept in any case, and the run is marked accordingly.
pub fn run(plan: &Plan, store: &Store, options: &Options) -> Result<i64, RunError> {
    preflight::preflight(plan, options.tester)?;
    let mut record = begin(plan, options);
    record.id = store.begin_run(&record)?;
    execute(plan, record, &Past::default(), store, options)
}

/// Goes on with a run that was interrupted or has failed; `plan` is the one of its record. Its own seed counts, and
/// no trial that was kept is made again.
///
/// # Errors
/// [`RunError::Resume`] if it cannot go on here; otherwise as [`run()`].
pub fn resume(plan: &Plan, data: RunData, store: &Store, options: &Options) -> Result<i64, RunError> {
    let (mut record, past) = Past::of(data, options)?;
    preflight::preflight(plan, options.tester)?;
    record.process = this_process();
    record.resumed.push(time::now());
    store.reopen_run(&record)?;
    execute(plan, record, &past, store, options)
}

fn execute(plan: &Plan, record: Run, past: &Past, store: &Store, options: &Options) -> Result<i64, RunError> {
    (options.observe)(Event::Run(&record));
    let settings = Settings {
        tester: options.tester,
        seed: record.seed,
        limits: plan.limits.clone(),
        external: match &plan.experiment {
            Experiment::Throughput(experiment) => experiment.external.clone(),
            _ => None,
        },
        tsc_hz: machine::tsc_hz(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
    };
    let journal = Journal::in_dir(&journal::default_dir());
    let run = Running { record: &record, past, experiment: &(), store, options, settings, journal };
    let result = match &plan.experiment {
        Experiment::Throughput(experiment) => run.of(experiment).all_points(&plan.points()),
        Experiment::PeersGenerator(experiment) => run.of(experiment).all_rounds(),
        Experiment::Capture(ladder) => run.of(ladder).all_steps(),
        Experiment::PeersCapture(experiment) => run.of(experiment).all_rounds(),
        Experiment::PeersDetect(experiment) => run.of(experiment).all_rounds(),
    };
    let state = match &result {
        Ok(()) => RunState::Complete,
        Err(RunError::Interrupted(_)) => RunState::Interrupted,
        Err(_) => RunState::Failed,
    };
    store.finish_run(record.id, state, &time::now())?;
    result.map(|()| record.id)
}

/// Marks runs as interrupted whose process is gone without having ended them; returns their numbers.
pub fn mark_dead_runs(store: &Store) -> Result<Vec<i64>, StoreError> {
    let dead = |run: &Run| run.state == RunState::Running && !is_alive(&run.process);
    let numbers: Vec<i64> = store.runs()?.iter().filter(|run| dead(run)).map(|run| run.id).collect();
    for &id in &numbers {
        store.mark_interrupted(id)?;
    }
    Ok(numbers)
}

fn begin(plan: &Plan, options: &Options) -> Run {
    let receiver = match options.tester {
        TesterKind::Xdp => "xdp",
        TesterKind::Packet => "af-packet",
    };
    let cpus = weir_testbed::cpu::CpuPlan::choose(weir_testbed::cpu::DutCpus::Count(1));
    Run {
        id: 0,
        plan: plan.name.clone(),
        question: plan.question.clone(),
        plan_toml: plan.text.clone(),
        started: time::now(),
        finished: None,
        state: RunState::Running,
        seed: options.seed,
        version: env!("CARGO_PKG_VERSION").to_string(),
        process: this_process(),
        machine: machine::gather(),
        tester: Tester {
            generator: generator_name(options.tester).into(),
            receiver: receiver.into(),
            cpus: cpus.map(|c| c.tester).unwrap_or_default(),
            limits: options.tester_limits.clone(),
        },
        deviations: procedure::deviations(plan),
        resumed: Vec::new(),
    }
}

fn generator_name(tester: TesterKind) -> &'static str {
    match tester {
        TesterKind::Xdp => "xdp-live-frames",
        TesterKind::Packet => "af-packet",
    }
}

/// A run in progress, of this experiment.
struct Running<'a, E = Throughput> {
    record: &'a Run,
    past: &'a Past,
    experiment: &'a E,
    store: &'a Store,
    options: &'a Options<'a>,
    settings: Settings,
    journal: Journal,
}

impl<'a> Running<'a, ()> {
    fn of<E>(self, experiment: &'a E) -> Running<'a, E> {
        let Running { record, past, experiment: (), store, options, settings, journal } = self;
        Running { record, past, experiment, store, options, settings, journal }
    }
}

impl<E> Running<'_, E> {
    /// Tells the result of a point, and keeps it unless an earlier part of this run has.
    fn close(&self, point: &Point, result: PointResult) -> Result<(), RunError> {
        if self.past.finished(point.index).is_none() {
            self.store.finish_point(point.id, &result)?;
        }
        (self.options.observe)(Event::Result(point, &result));
        Ok(())
    }
}

/// What the tester manages with nothing in between.
#[derive(Clone, Copy)]
struct Wire {
    /// Frames/s.
    ceiling_fps: f64,
    /// Latency of the fastest frame, ns; `None` where no paced trial was valid.
    min_ns: Option<u64>,
}

impl Wire {
    fn of(goals: &[GoalResult], trials: &[Trial]) -> Wire {
        let paced = trials.iter().filter(|t| t.purpose == Purpose::Curve && t.verdict == Verdict::Valid);
        let latencies = paced.flat_map(|t| &t.streams).map(|s| &s.latency).filter(|l| l.count > 0);
        Wire {
            ceiling_fps: goals.first().and_then(|goal| goal.fps_median).unwrap_or(0.0),
            min_ns: latencies.map(|l| l.min_ns).min(),
        }
    }
}

/// What a ceiling depends on.
type CeilingKey = (String, IpVersion, Transport, Direction, bool);

fn ceiling_key(spec: &PointSpec) -> CeilingKey {
    (spec.frame.to_string(), spec.ip, spec.transport, spec.direction, spec.dut == DutKind::External)
}

impl Running<'_> {
    fn all_points(mut self, specs: &[PointSpec]) -> Result<(), RunError> {
        // What is missing is told before anything is measured.
        specs.iter().try_for_each(|spec| Rig::check(spec, &self.settings))?;
        outside::check_far(specs, self.settings.external.as_ref())?;
        let repeat = self.experiment.repeat;
        let turns = specs.len() * if repeat.in_turn { repeat.times as usize } else { 1 };
        let mut course = Course { wires: HashMap::new(), turns, done: 0, told: Vec::new() };
        for spec in specs {
            if !course.wires.contains_key(&ceiling_key(spec)) {
                let wire = self.wire(spec, course.wires.len(), turns, &mut course.told)?;
                course.wires.insert(ceiling_key(spec), wire);
            }
        }
        groups(specs, repeat.in_turn).iter().try_for_each(|group| self.group(group, &mut course))
    }

    /// Measures what the tester manages with nothing in between. Before a machine of its own that is what leaves the
    /// tester, whatever becomes of it, and the tester's own latency is not known.
    fn wire(
        &mut self,
        spec: &PointSpec,
        index: usize,
        count: usize,
        told: &mut Vec<String>,
    ) -> Result<Wire, RunError> {
        let outside = spec.dut == DutKind::External;
        let spec = if outside {
            PointSpec { broadcast_every: None, spreading: None, ..spec.clone() }
        } else {
            spec.over_the_wire()
        };
        if let Some(data) = self.finished(index, None, count) {
            return Ok(Wire::of(data.goals(), &data.trials));
        }
        let name = if outside { run_data::TESTER.into() } else { spec.dut.to_string() };
        let (mut rig, point, kept) = self.open(&spec, name, index, told)?;
        (self.options.observe)(Event::Point { index: None, count, point: &point });
        let mut trials = Trials::new(self, (&point, &spec), kept);
        let load = Load::full_speed(CEILING_TRIAL);
        let mut rates = Vec::new();
        for _ in 0..CEILING_TRIALS {
            let trial = trials.one(&mut rig, &load, Purpose::Ceiling)?;
            let frames = if outside { trial.sent } else { trial.received };
            rates.push(frames as f64 / trial.duration_s);
        }
        let value = |fps: &f64| GoalValue {
            fps: Some(*fps),
            trials: 1,
            trial_s: CEILING_TRIAL.as_secs_f64(),
            ..GoalValue::default()
        };
        let parameters = vec![("trial".to_string(), format!("{} s", CEILING_TRIAL.as_secs_f64()))];
        let goal = goal_result("ceiling", parameters, rates.iter().map(value).collect());
        let ceiling_fps = goal.fps_median.unwrap_or(0.0);
        let mut paced = Vec::new();
        for percent in WIRE_PERCENT {
            let fps = ceiling_fps * percent / 100.0;
            if fps > 0.0 && !outside {
                paced.push(trials.valid(&mut rig, fps, WIRE_TRIAL, Purpose::Curve)?);
            }
        }
        let goals = vec![goal];
        let wire = Wire::of(&goals, &paced);
        self.close(&point, PointResult { search: "fixed".into(), goals, ..PointResult::default() })?;
        Ok(wire)
    }

    /// Tells the result of a point that was finished before the run was interrupted, and returns it.
    fn finished(&self, index: usize, of_plan: Option<usize>, count: usize) -> Option<&PointData> {
        let data = self.past.finished(index)?;
        (self.options.observe)(Event::Point { index: of_plan, count, point: &data.point });
        data.trials.iter().for_each(|trial| (self.options.observe)(Event::Ended(trial)));
        data.point
            .result
            .iter()
            .for_each(|result| (self.options.observe)(Event::Result(&data.point, result)));
        Some(data)
    }

    /// The rig of a point, the point with its number in the store, and the trials that it has there.
    fn open(
        &mut self,
        spec: &PointSpec,
        dut: String,
        index: usize,
        told: &mut Vec<String>,
    ) -> Result<(Rig, Point, VecDeque<Trial>), RunError> {
        let rig = Rig::build(spec, &self.settings, &self.experiment.faults, &mut self.journal)?;
        for note in rig.notes() {
            if !told.contains(note) {
                (self.options.observe)(Event::Note(note));
                told.push(note.clone());
            }
        }
        let cpus = if matches!(spec.dut, DutKind::Wire | DutKind::External) {
            Vec::new()
        } else {
            rig.cpus().dut.clone()
        };
        let shared = cpus.iter().copied().filter(|cpu| rig.cpus().tester.contains(cpu)).collect();
        let directions = if spec.direction == Direction::Both { 2.0 } else { 1.0 };
        let mut point = Point {
            id: 0,
            run_id: self.record.id,
            index,
            settings: spec.settings(),
            dut,
            frame: spec.frame.to_string(),
            frame_bytes_mean: spec.frame.mean(),
            cpus,
            cpus_shared: shared,
            line_fps: spec.line_bits_per_s.map(|bits| spec.frame.line_fps(bits) * directions),
            notes: rig.notes().to_vec(),
            result: None,
        };
        let kept = self.past.enter(&mut point, self.store)?;
        Ok((rig, point, kept))
    }
}

fn goal_result(goal: &str, parameters: Vec<(String, String)>, repetitions: Vec<GoalValue>) -> GoalResult {
    let values: Vec<f64> = repetitions.iter().filter_map(|r| r.fps).collect();
    let all = values.len() == repetitions.len();
    GoalResult {
        goal: goal.to_string(),
        parameters,
        fps_median: stats::median(&values),
        fps_interval: stats::median_interval(&values).filter(|_| all),
        repetitions,
    }
}
