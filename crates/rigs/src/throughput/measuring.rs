//! A run of this rig: the state shared by its points, and how a point begins, or is taken from an earlier part of the run.

use std::collections::VecDeque;
use std::time::Duration;

use weir_packet::flow::{Direction, IpVersion};
use weir_packet::frame::Transport;
use weir_testbed::dut::DutKind;

use super::Throughput;
use weir_lab::error::RunError;
use weir_lab::frames::{PointSpec, Setup};
use weir_lab::run::Event;
use weir_record::record::{GoalResult, Point, Purpose, Trial, Verdict};
use weir_record::run_data::PointData;

run_of!(
    /// An experiment in progress.
    pub(super) Measuring, Throughput
);

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
    pub(super) fn of(goals: &[GoalResult], trials: &[Trial]) -> Wire {
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
    /// Reports the result of a point that was finished before the run was interrupted, and returns it.
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
        let setup = Setup::build(spec, &self.0.settings, &self.0.experiment.faults, &mut self.0.journal)?;
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
            ..Point::default()
        };
        let kept = self.resumed.enter(&mut point, self.log)?;
        Ok((setup, point, kept))
    }
}
