//! Runs the experiment: ceilings of the wire first, then point by point.
//!
//! ```text
//! ceilings of the wire > for each point: setup > search <-> trial > curve > procedures > result
//! ```

use std::collections::HashMap;
use std::time::Duration;

use weir_load::counts::Load;
use weir_testbed::dut::DutKind;

use super::measuring::{Measuring, Wire, ceiling_key};
use super::point::{Course, groups};
use super::trials::Trials;
use weir_lab::error::RunError;
use weir_lab::frames::{PointSpec, Setup, outside};
use weir_lab::run::Event;
use weir_record::figure::goal_result;
use weir_record::record::{GoalValue, PointResult, Purpose};
use weir_record::run_data;

/// Trials of the wire alone before a run: their median is the ceiling.
pub(super) const CEILING_TRIALS: usize = 3;
pub(super) const CEILING_TRIAL: Duration = Duration::from_millis(200);
/// Paced trials of the wire after that: what the tester itself adds to each latency, at shares of the ceiling.
pub(super) const WIRE_PERCENT: [f64; 3] = [1.0, 10.0, 50.0];
pub(super) const WIRE_TRIAL: Duration = Duration::from_millis(100);

impl Measuring<'_> {
    pub(super) fn all_points(mut self, specs: &[PointSpec]) -> Result<(), RunError> {
        self.settings.external = self.experiment.external.clone();
        // What is missing is reported before anything is measured.
        let own: Vec<(usize, &PointSpec)> =
            specs.iter().enumerate().filter(|(index, _)| self.has(*index)).collect();
        own.iter().try_for_each(|(_, spec)| Setup::check(spec, &self.settings))?;
        outside::check_remote(specs, self.settings.external.as_ref())?;
        let repeat = self.experiment.repeat;
        let interleaved = own.len() * if repeat.in_turn { repeat.times as usize } else { 1 };
        let ahead = self.experiment.turns_of_capacity(&own, interleaved);
        let interleaved = ahead + interleaved;
        // Numbers and settings of ceilings are the same in all shards.
        let ceilings = ceilings(specs);
        let mut course = Course {
            wires: HashMap::new(),
            ceilings: ceilings.len(),
            interleaved,
            ahead,
            done: ahead,
            reported: Vec::new(),
        };
        for (index, spec) in ceilings.into_iter().enumerate() {
            let key = ceiling_key(spec);
            if own.iter().any(|(_, own)| ceiling_key(own) == key) {
                let wire = self.wire(spec, index, interleaved, &mut course.reported)?;
                course.wires.insert(key, wire);
            }
        }
        let mut groups = groups(specs, repeat.in_turn);
        groups.iter_mut().for_each(|group| group.retain(|(index, _)| self.has(*index)));
        groups.retain(|group| !group.is_empty());
        self.groups(&groups, course)
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
}

/// The first point of each ceiling.
fn ceilings(specs: &[PointSpec]) -> Vec<&PointSpec> {
    let mut found: Vec<&PointSpec> = Vec::new();
    for spec in specs {
        if found.iter().all(|other| ceiling_key(other) != ceiling_key(spec)) {
            found.push(spec);
        }
    }
    found
}
