//! The experiment `capture`: for each method the highest rate that is captured without loss, and what happens beyond it.
//!
//! ```text
//! each step alternately: warm-up > full speed: what is captured of too much > search: loads, each three times > cost
//! ```
//! Another one is first in each round, so that all find the machine alike: a virtual one is fast at some times and slow at others.

use std::time::Duration;

use weir_load::counts::Load;

use weir_testbed::journal::{self, Journal};
use weir_testbed::spread::{Spread, Spreading};

use super::bench::{self, Bench, Outcome, RING_FULL};
use super::observer::Look;
use crate::frames::mirror::BUFFERS_PER_TRIAL;

use crate::figure::goal_result;
use crate::record::{Cost, GoalValue, Point, PointResult, Purpose, Trial, Verdict};
use crate::rigs::capture::plan::{Ladder, Offered, Receive, Step};
use crate::run::rounds::{Interleaved, interleave};
use crate::run::series::{Asked, Patience, Series, worst};
use crate::run::{Event, RunError, Running};
use crate::run_data::{BUSY_POLL, MEASURES, Measures, RECEIVE, TRAFFIC};
use crate::search::{GoalOutcome, Measured, Measurer, Search, Stop, rfc2544};

/// Before the first trial of a step: memory in place, programs warm.
const WARM_UP: Duration = Duration::from_millis(50);
const WARM_UP_FPS: f64 = 10_000.0;
/// A search goes up to this share of what the generator sends at full speed: beyond it, departures cannot be paced.
const PACED_SHARE: f64 = 0.9;
/// At full speed the interface's ring of 256 frames may lose this share, whoever captures, if its sender's CPU receives.
const RING_SHARE: f64 = 0.001;
/// The loads of the cost trial: this share of the highest rate without loss.
const COST_SHARE: f64 = 0.9;

/// Whether the method of a step can be opened here.
pub(super) fn opens(step: &Step, ladder: &Ladder) -> Result<(), RunError> {
    let mut journal = Journal::in_dir(&journal::default_dir());
    Bench::build(step, ladder, 1, &mut journal)?.buffer_frames().map(drop)
}

/// A climb in progress.
type Climb<'a> = Running<'a, Ladder>;

/// A step with what its turns gave.
struct Method<'c> {
    step: Step,
    point: Point,
    series: Series<'c>,
    rounds: Vec<Round>,
}

/// What one turn gave.
struct Round {
    lossless: GoalOutcome,
    saturated: GoalValue,
    /// What the generator sent at full speed, frames/s.
    offered_fps: f64,
}

impl Interleaved for Method<'_> {
    fn point(&self) -> &Point {
        &self.point
    }
}

impl<'c> Climb<'c> {
    pub(super) fn all_steps(mut self) -> Result<(), RunError> {
        let (steps, cpus) = (self.experiment.steps(), bench::all_cpus()?);
        for step in &steps {
            Spreading { rps: step.rps.clone(), ..Spreading::default() }.rps_cpus(&cpus)?;
        }
        let rounds = self.rounds(self.experiment.rounds, steps.len());
        let mut methods = Vec::new();
        for (index, step) in steps.into_iter().enumerate() {
            methods.extend(self.method(step, index)?);
        }
        interleave(&rounds, &mut methods, |method| {
            let found = self.turn(method)?;
            method.rounds.push(found);
            Ok(())
        })?;
        methods.iter().try_for_each(|method| self.close(&method.point, result(&method.rounds)))
    }

    /// A step that is to be measured; one that an earlier part of this run has finished is reported.
    fn method(&mut self, step: Step, index: usize) -> Result<Option<Method<'c>>, RunError> {
        if let Some(data) = self.resumed.finished(index) {
            let tell = |result| (self.options.observe)(Event::Result(&data.point, result));
            data.point.result.iter().for_each(tell);
            return Ok(None);
        }
        let bench = Bench::build(&step, self.experiment, self.settings.seed, &mut self.journal)?;
        let mut point = self.point_of(&step, index, &bench);
        let kept = self.resumed.enter(&mut point, self.store)?;
        let series = Series::new(self, &point, kept);
        Ok(Some(Method { step, point, series, rounds: Vec::new() }))
    }

    /// With a bench for this turn alone: those of all steps at once would take the memory of all their buffers.
    fn turn(&mut self, method: &mut Method<'c>) -> Result<Round, RunError> {
        let bench = Bench::build(&method.step, self.experiment, self.settings.seed, &mut self.journal)?;
        let hidden = bench.buffer_frames()?;
        Trials { climb: self, bench, hidden, series: &mut method.series, error: None }.all()
    }

    fn point_of(&self, step: &Step, index: usize, bench: &Bench) -> Point {
        let settings = [
            (MEASURES, Measures::Capture.name().to_string()),
            ("method", step.method.to_string()),
            ("threads", step.threads.to_string()),
            ("frame_bytes", step.frame.to_string()),
            ("flows", step.flows.to_string()),
        ];
        // Those that not every point has.
        let apart = (step.receive == Receive::Apart).then(|| (RECEIVE, "apart".to_string()));
        let rps = (step.rps != Spread::AsIs).then(|| ("rps", step.rps.to_string()));
        let flood = (step.offered == Offered::SynFlood).then(|| (TRAFFIC, Offered::SynFlood.to_string()));
        let polls = step.busy_poll.then(|| (BUSY_POLL, true.to_string()));
        let settings = settings.into_iter().chain(apart).chain(rps).chain(flood).chain(polls);
        Point {
            frame: step.frame.to_string(),
            frame_bytes_mean: step.frame.mean(),
            cpus: bench.cpus(),
            cpus_shared: bench.shared(),
            notes: std::iter::once(bench.placement()).chain(bench.notes().to_vec()).collect(),
            ..self.point(index, &step.method.to_string(), settings.collect())
        }
    }
}

/// The trials of one step.
struct Trials<'a, 'c> {
    climb: &'a Climb<'c>,
    bench: Bench,
    /// Frames that the buffers hold: a trial of fewer could hide its loss in them.
    hidden: u64,
    series: &'a mut Series<'c>,
    /// Why the search was stopped.
    error: Option<RunError>,
}

impl Trials<'_, '_> {
    fn all(&mut self) -> Result<Round, RunError> {
        let ladder = self.climb.experiment;
        self.one(&Load::steady(WARM_UP_FPS, WARM_UP), Purpose::WarmUp)?;
        let full = self.one(&Load::full_speed(ladder.trial), Purpose::FullSpeed)?;
        let at_full_speed = self.at_full_speed(&full)?;
        // Where full speed is no more than a method takes, paced loads end below it.
        let all = at_full_speed.as_ref().map(|_| Load::full_speed(ladder.trial));
        let mut lossless = match at_full_speed {
            Some(found) => found,
            None => self.search(full.counts().offered_fps * PACED_SHARE)?,
        };
        lossless.parameters.push(("trials without loss".into(), Ladder::TRIALS.to_string()));
        lossless.parameters.push(("frames in the buffers".into(), self.hidden.to_string()));
        if let Some(fps) = lossless.value.fps {
            self.one(&all.unwrap_or(self.steady(fps * COST_SHARE)), Purpose::Curve)?;
        }
        let trial_s = ladder.trial.as_secs_f64();
        let fps = Some(full.counts().received as f64 / full.duration_s);
        let saturated = GoalValue { fps, trials: 1, trial_s, ..GoalValue::default() };
        Ok(Round { lossless, saturated, offered_fps: full.counts().offered_fps })
    }

    /// The rate at full speed, if nothing is lost in it: a bound, since the generator sends no more. `None` if frames are lost, so that loads below it are worth looking at.
    fn at_full_speed(&mut self, first: &Trial) -> Result<Option<GoalOutcome>, RunError> {
        let ladder = self.climb.experiment;
        let trial_s = ladder.trial.as_secs_f64();
        if ladder.max_fps.is_some() || !self.keeps_up(first) {
            return Ok(None);
        }
        let mut least = first.counts().received;
        for _ in 1..Ladder::TRIALS {
            let trial = self.one(&Load::full_speed(ladder.trial), Purpose::Search)?;
            if !self.keeps_up(&trial) {
                return Ok(None);
            }
            least = least.min(trial.counts().received);
        }
        let value = GoalValue {
            fps: Some(least as f64 / trial_s),
            irregular: Some("max load is not an upper bound".into()),
            trials: Ladder::TRIALS as usize,
            trial_s: trial_s * f64::from(Ladder::TRIALS),
            ..GoalValue::default()
        };
        let parameters = vec![("load".to_string(), "full speed".to_string())];
        Ok(Some(GoalOutcome { goal: "without loss".into(), parameters, value }))
    }

    fn keeps_up(&self, trial: &Trial) -> bool {
        keeps_up(trial, if self.bench.receives_apart() { 0.0 } else { RING_SHARE })
    }

    fn search(&mut self, ceiling_fps: f64) -> Result<GoalOutcome, RunError> {
        let ladder = self.climb.experiment;
        let max_fps = ladder.max_fps.map_or(ceiling_fps, |max_fps| max_fps.min(ceiling_fps));
        let search = Search::Rfc2544(rfc2544::Config {
            min_fps: ladder.min_fps.min(max_fps / 2.0),
            max_fps,
            final_trial: ladder.trial,
            search_trial: None,
            loss_tolerance: 0.0,
            resolution: rfc2544::Resolution { relative: ladder.resolution, absolute_fps: 0.0 },
        });
        match search.run(self) {
            Ok(mut found) => Ok(found.remove(0)),
            Err(Stop(why)) => Err(self.error.take().unwrap_or(RunError::Search(why))),
        }
    }

    /// A load for as long as it takes to see what the buffers hide.
    fn steady(&self, fps: f64) -> Load {
        let hidden = Duration::from_secs_f64(BUFFERS_PER_TRIAL * self.hidden as f64 / fps);
        Load::steady(fps, self.climb.experiment.trial.max(hidden))
    }

    fn one(&mut self, load: &Load, purpose: Purpose) -> Result<Trial, RunError> {
        let Trials { climb, bench, series, .. } = self;
        let look = if purpose == Purpose::Curve { Look::Closely } else { Look::Away };
        series.one(&Asked::Load(load, purpose), |control| {
            let Outcome { accounting, noise, capture, sent_fps } = bench.trial(load, control, look)?;
            let cost = Cost::per_frame(capture.time.capture_ns(), accounting.received, climb.settings.tsc_hz);
            let trial = accounting.trial(load, sent_fps, noise, &climb.settings.limits);
            Ok(Trial { cost, ..trial }.with_detail(&capture))
        })
    }
}

/// What all turns of a step say together.
fn result(rounds: &[Round]) -> PointResult {
    let Some(Round { lossless, offered_fps, .. }) = rounds.first() else { return PointResult::default() };
    let offered = ("offered".to_string(), format!("{offered_fps:.0} frames/s"));
    let values = rounds.iter().map(|round| round.lossless.value.clone());
    let goals = vec![
        goal_result("without loss", lossless.parameters.clone(), values.collect()),
        goal_result("saturated", vec![offered], rounds.iter().map(|r| r.saturated.clone()).collect()),
    ];
    PointResult { search: "rfc2544".into(), goals, ..PointResult::default() }
}

/// Was nothing lost at full speed but the few frames with which the generator fills the interface's ring before the
/// kernel gets to receive on the same CPU, no more than this share?
fn keeps_up(trial: &Trial, ring_share: f64) -> bool {
    let ring = trial.dropped_at(RING_FULL);
    trial.verdict != Verdict::Invalid
        && trial.counts().lost == ring
        && ring as f64 <= ring_share * trial.counts().sent as f64
}

impl Measurer for Trials<'_, '_> {
    fn measure(&mut self, load_fps: f64, _: Duration) -> Result<Measured, Stop> {
        let load = self.steady(load_fps);
        let patience = Patience { trials: Ladder::TRIALS, retries: self.climb.settings.limits.retries };
        let found = worst(patience, || {
            let trial = self.one(&load, Purpose::Search)?;
            let lost = trial.counts().lost;
            Ok((trial, lost))
        });
        found.map_err(|error| {
            let why = error.to_string();
            self.error = Some(error);
            Stop(why)
        })
    }
}

#[cfg(test)]
mod tests;
