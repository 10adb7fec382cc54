//! Runs the experiment: ceilings of the wire first, then point by point.
//!
//! ```text
//! ceilings of the wire > for each point: setup > search <-> trial > curve > procedures > result
//! ```

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use weir_load::counts::Load;
use weir_packet::flow::{Direction, IpVersion};
use weir_packet::frame::Transport;
use weir_testbed::dut::DutKind;

use super::Throughput;
use super::point::{Course, groups};
use super::trials::Trials;
use crate::figure::goal_result;
use crate::frames::{PointSpec, Setup, outside};
use crate::record::{GoalResult, GoalValue, Point, PointResult, Purpose, Trial, Verdict};
use crate::run::{Event, RunError, Running};
use crate::run_data::{self, PointData};

/// An experiment in progress.
pub(super) type Measuring<'a> = Running<'a, Throughput>;

/// Trials of the wire alone before a run: their median is the ceiling.
pub(super) const CEILING_TRIALS: usize = 3;
pub(super) const CEILING_TRIAL: Duration = Duration::from_millis(200);
/// Paced trials of the wire after that: what the tester itself adds to each latency, at shares of the ceiling.
pub(super) const WIRE_PERCENT: [f64; 3] = [1.0, 10.0, 50.0];
pub(super) const WIRE_TRIAL: Duration = Duration::from_millis(100);
/// A search goes up to this share of the ceiling: beyond it, departures cannot be paced.
pub(super) const CEILING_SHARE: f64 = 0.9;
/// Before the first trial of a point: caches warm, connections made.
pub(super) const WARM_UP: Duration = Duration::from_millis(100);

/// What the tester manages with nothing in between.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    /// Frames/s.
    pub(super) ceiling_fps: f64,
    /// Latency of the fastest frame, ns; `None` where no paced trial was valid.
    pub(super) min_ns: Option<u64>,
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
pub(super) type CeilingKey = (String, IpVersion, Transport, Direction, bool);

pub(super) fn ceiling_key(spec: &PointSpec) -> CeilingKey {
    (spec.frame.to_string(), spec.ip, spec.transport, spec.direction, spec.dut == DutKind::EXTERNAL)
}

impl Measuring<'_> {
    pub(super) fn all_points(mut self, specs: &[PointSpec]) -> Result<(), RunError> {
        self.settings.external = self.experiment.external.clone();
        // What is missing is reported before anything is measured.
        specs.iter().try_for_each(|spec| Setup::check(spec, &self.settings))?;
        outside::check_remote(specs, self.settings.external.as_ref())?;
        let repeat = self.experiment.repeat;
        let interleaved = specs.len() * if repeat.in_turn { repeat.times as usize } else { 1 };
        let ahead = self.experiment.turns_of_capacity(specs, interleaved);
        let interleaved = ahead + interleaved;
        let mut course =
            Course { wires: HashMap::new(), interleaved, ahead, done: ahead, reported: Vec::new() };
        for spec in specs {
            if !course.wires.contains_key(&ceiling_key(spec)) {
                let wire = self.wire(spec, course.wires.len(), interleaved, &mut course.reported)?;
                course.wires.insert(ceiling_key(spec), wire);
            }
        }
        self.groups(&groups(specs, repeat.in_turn), course)
    }

    /// Measures what the tester manages with nothing in between. Before an external DUT that is what leaves the
    /// tester, whatever becomes of it, and the tester's own latency is not known.
    fn wire(
        &mut self,
        spec: &PointSpec,
        index: usize,
        count: usize,
        reported: &mut Vec<String>,
    ) -> Result<Wire, RunError> {
        let outside = spec.dut == DutKind::EXTERNAL;
        let spec = if outside {
            PointSpec { broadcast_every: None, spreading: None, ..spec.clone() }
        } else {
            spec.over_the_wire()
        };
        if let Some(data) = self.finished(index, None, count) {
            return Ok(Wire::of(data.goals(), &data.trials));
        }
        let name = if outside { run_data::TESTER.into() } else { spec.dut.to_string() };
        let (mut setup, point, kept) = self.open(&spec, name, index, reported)?;
        (self.options.observe)(Event::Point { index: None, count, point: &point });
        let mut trials = Trials::new(self, (&point, &spec), kept);
        let load = Load::full_speed(CEILING_TRIAL);
        let mut rates = Vec::new();
        for _ in 0..CEILING_TRIALS {
            let trial = trials.one(&mut setup, &load, Purpose::Ceiling)?;
            let frames = if outside { trial.counts().sent } else { trial.counts().received };
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
                paced.push(trials.valid(&mut setup, fps, WIRE_TRIAL, Purpose::Curve)?);
            }
        }
        let goals = vec![goal];
        let wire = Wire::of(&goals, &paced);
        self.close(&point, PointResult { search: "fixed".into(), goals, ..PointResult::default() })?;
        Ok(wire)
    }

    /// Tells the result of a point that was finished before the run was interrupted, and returns it.
    pub(super) fn finished(&self, index: usize, of_plan: Option<usize>, count: usize) -> Option<&PointData> {
        let data = self.resumed.finished(index)?;
        (self.options.observe)(Event::Point { index: of_plan, count, point: &data.point });
        data.trials.iter().for_each(|trial| (self.options.observe)(Event::Ended(trial)));
        data.point
            .result
            .iter()
            .for_each(|result| (self.options.observe)(Event::Result(&data.point, result)));
        Some(data)
    }

    /// The setup of a point, the point with its number in the store, and the trials that it has there.
    pub(super) fn open(
        &mut self,
        spec: &PointSpec,
        dut: String,
        index: usize,
        reported: &mut Vec<String>,
    ) -> Result<(Setup, Point, VecDeque<Trial>), RunError> {
        let setup = Setup::build(spec, &self.settings, &self.experiment.faults, &mut self.journal)?;
        for note in setup.notes() {
            if !reported.contains(note) {
                (self.options.observe)(Event::Note(note));
                reported.push(note.clone());
            }
        }
        let cpus = if spec.dut.has_cpus() { setup.cpus().dut.clone() } else { Vec::new() };
        let shared = cpus.iter().copied().filter(|cpu| setup.cpus().tester.contains(cpu)).collect();
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
            notes: setup.notes().to_vec(),
            result: None,
        };
        let kept = self.resumed.enter(&mut point, self.store)?;
        Ok((setup, point, kept))
    }
}
