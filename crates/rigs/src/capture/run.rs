//! The experiment `capture`: the rate of each method in overload, and the highest rate that it captures without loss.
//!
//! ```text
//! rounds of overload, each step: warm-up > full speed: what is captured of too much
//! rounds of searches, each step: warm-up > full speed > search: loads, each three times > cost
//! ```
//! Another one is first in each round, so that all find the machine alike: a virtual one is fast at some times and slow at
//! others.

use std::time::Duration;

use weir_load::counts::Load;
use weir_measure::capacity::order;

use weir_testbed::journal::{self, Journal};
use weir_testbed::spread::{Spread, Spreading};

use super::bench::{self, Bench, Outcome, RING_FULL};
use super::observer::Look;
use super::overload::{Overload, Reference, placed};
use weir_lab::frames::mirror::BUFFERS_PER_TRIAL;

use crate::capture::plan::{Ladder, Offered, Receive, Step};
use weir_lab::error::RunError;
use weir_lab::run::Event;
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Patience, Series, worst};
use weir_measure::search::{GoalOutcome, Measured, Measurer, Search, Stop, rfc2544};
use weir_record::figure::goal_result;
use weir_record::record::{Cost, GoalValue, Point, PointResult, ProcedureResult, Purpose, Trial, Verdict};
use weir_record::run_data::{BUSY_POLL, MEASURES, Measures, RECEIVE, TRAFFIC};

/// Before the first trial of a step: memory in place, programs warm.
const WARM_UP: Duration = Duration::from_millis(50);
const WARM_UP_FPS: f64 = 10_000.0;
/// A search goes up to this share of what the generator sends at full speed: beyond it, departures cannot be paced.
const PACED_SHARE: f64 = 0.9;
/// At full speed the interface's ring of 256 frames may lose this share with any method, if its sender's CPU receives.
const RING_SHARE: f64 = 0.001;
/// The loads of the cost trial: this share of the highest rate without loss.
const COST_SHARE: f64 = 0.9;

/// Whether the method of a step can be opened here.
pub(super) fn opens(step: &Step, ladder: &Ladder) -> Result<(), RunError> {
    let mut journal = Journal::in_dir(&journal::default_dir());
    Bench::build(step, ladder, 1, &mut journal)?.buffer_frames().map(drop)
}

run_of!(
    /// A climb in progress.
    pub(super) Climb, Ladder
);

/// A step with what its turns gave.
struct Method<'c> {
    step: Step,
    point: Point,
    series: Series<'c>,
    overload: Overload,
    /// What each search found.
    lossless: Vec<GoalOutcome>,
}

impl Interleaved for Method<'_> {
    fn point(&self) -> &Point {
        &self.point
    }
}

impl<'c> Climb<'c> {
    pub(super) fn all_steps(mut self) -> Result<(), RunError> {
        let (steps, cpus) = (self.experiment.steps(), bench::all_cpus()?);
        let own: Vec<_> = steps.into_iter().enumerate().filter(|(index, _)| self.has(*index)).collect();
        for (_, step) in &own {
            Spreading { rps: step.rps.clone(), ..Spreading::default() }.rps_cpus(&cpus)?;
        }
        let mut methods = Vec::new();
        for (index, step) in own {
            methods.extend(self.method(step, index)?);
        }
        let mut rounds = self.rounds(self.experiment.rounds, methods.len());
        // All rounds of overload take about as long as one of searches.
        (rounds.done, rounds.count) = (methods.len(), rounds.count + methods.len());
        self.overload(&mut methods, rounds.count)?;
        interleave(&rounds, &mut methods, |method| {
            let found = self.search(method)?;
            method.lossless.push(found);
            Ok(())
        })?;
        let places = placed(&mut methods.iter_mut().map(|method| &mut method.overload).collect::<Vec<_>>());
        for (i, method) in methods.iter().enumerate() {
            let is_alike = |other: &&Method<'_>| other.step.is_compared_with(&method.step);
            let before = methods[..i].iter().filter(is_alike);
            let references: Vec<Reference<'_>> = before
                .map(|other| Reference { index: other.point.index, overload: &other.overload })
                .collect();
            let capacity = method.overload.result(&places, &references);
            self.close(&method.point, result(&method.lossless, capacity))?;
        }
        Ok(())
    }

    /// All rounds of overload, as part of so many turns of the run.
    fn overload(&mut self, methods: &mut [Method<'c>], count: usize) -> Result<(), RunError> {
        let (n, rounds) = (methods.len(), self.experiment.overload_rounds as usize);
        let observe = self.options.observe;
        for round in 0..rounds {
            for (turn, i) in order(self.record.seed, round, n).into_iter().enumerate() {
                let method = &mut methods[i];
                let done = (round * n + turn) as f64 / rounds as f64;
                observe(Event::Round { number: round + 1, of: rounds, done, count, point: &method.point });
                let trial = self.trials(method)?.overload()?;
                method.overload.note(&trial);
                let so_far = method.overload.so_far_fps();
                so_far.into_iter().for_each(|fps| observe(Event::SoFar(&method.point, fps)));
            }
        }
        Ok(())
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
        let kept = self.resumed.enter(&mut point, self.log)?;
        let series = Series::new(self, &point, kept);
        let overload = Overload::default();
        Ok(Some(Method { step, point, series, overload, lossless: Vec::new() }))
    }

    fn search(&mut self, method: &mut Method<'c>) -> Result<GoalOutcome, RunError> {
        let mut trials = self.trials(method)?;
        trials.hidden = trials.bench.buffer_frames()?;
        trials.all()
    }

    /// With a bench for this turn alone: those of all steps at once would take the memory of all their buffers.
    fn trials<'a>(&'a mut self, method: &'a mut Method<'c>) -> Result<Trials<'a, 'c>, RunError> {
        let bench = Bench::build(&method.step, self.experiment, self.settings.seed, &mut self.journal)?;
        Ok(Trials { climb: self, bench, hidden: 0, series: &mut method.series, error: None })
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
    /// What is captured of too much.
    fn overload(&mut self) -> Result<Trial, RunError> {
        self.one(&Load::steady(WARM_UP_FPS, WARM_UP), Purpose::WarmUp)?;
        self.one(&Load::full_speed(self.climb.experiment.trial), Purpose::FullSpeed)
    }

    /// The rate without loss, and what a frame costs.
    fn all(&mut self) -> Result<GoalOutcome, RunError> {
        let ladder = self.climb.experiment;
        let full = self.overload()?;
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
        Ok(lossless)
    }

    /// The rate at full speed, if nothing is lost in it: a bound, since the generator sends no more. `None` if frames are lost,
    /// so that loads below it are worth looking at.
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
        let look = match purpose {
            Purpose::Curve => Look::Closely,
            Purpose::FullSpeed if climb.settings.limits.witness => Look::ForStops,
            _ => Look::Away,
        };
        series.one(&Asked::Load(load, purpose), |control| {
            let Outcome { accounting, noise, capture, sent_fps, windows } =
                bench.trial(load, control, look)?;
            let cost = Cost::per_frame(capture.time.capture_ns(), accounting.received, climb.settings.tsc_hz);
            let trial = accounting.trial(load, sent_fps, noise, &climb.settings.limits);
            Ok(Trial { cost, windows, ..trial }.with_detail(&capture))
        })
    }
}

/// What all rounds of a step say together.
fn result(lossless: &[GoalOutcome], capacity: ProcedureResult) -> PointResult {
    let parameters = lossless.first().map(|found| found.parameters.clone()).unwrap_or_default();
    let values = lossless.iter().map(|found| found.value.clone()).collect();
    let goals = vec![goal_result("without loss", parameters, values)];
    let procedures = if capacity.figures.is_empty() { Vec::new() } else { vec![capacity] };
    PointResult { search: "rfc2544".into(), goals, procedures, ..PointResult::default() }
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
