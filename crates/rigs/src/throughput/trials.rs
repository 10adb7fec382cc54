//! The trials of one point: measured or taken from the record, repeated until they are valid, reported; and how a search asks
//! for them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_load::Control;
use weir_load::counts::Load;

use super::measuring::{Measuring, WARM_UP};
use crate::throughput::SearchLoss;
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::Setup;
use weir_lab::frames::disturbance::Disturbance;
use weir_lab::frames::verdict::{measured, tells_of_what_was_sent};
use weir_lab::run::Event;
use weir_lab::run::series::{Asked, Series, repeated};
use weir_measure::search::{Answers, GoalOutcome, Measured, Measurer, Search, Stop};
use weir_measure::stats;
use weir_record::figure::OUTSIDE_OF_STOPS;
use weir_record::record::{Point, Purpose, Trial};

/// The search of a point, and, where the plan asks for both, a second one without what was lost by stops: it takes the trials
/// of the first one, and makes others only where the two part.
pub(super) fn search_once(
    search: &Search,
    trials: &mut Trials,
    setup: &mut Setup,
) -> Result<Vec<GoalOutcome>, RunError> {
    trials.core_distances.clear();
    let loss = trials.run.experiment.search_loss;
    let (running, is_witnessed) = (Answers::default(), false);
    let mut measurer = PointMeasurer { trials, setup, loss, running, is_witnessed, error: None };
    let mut goals = measurer.search(search)?;
    // Without a witness nothing is known of stops.
    if loss == SearchLoss::Both && measurer.is_witnessed {
        measurer.loss = SearchLoss::Running;
        goals.extend(measurer.search(search)?.into_iter().map(outside_of_stops));
    }
    Ok(goals)
}

/// A goal that was met without what was lost by stops.
fn outside_of_stops(outcome: GoalOutcome) -> GoalOutcome {
    let goal = outcome.goal + OUTSIDE_OF_STOPS;
    let which = ("loss".to_string(), WHILE_RUNNING.to_string());
    GoalOutcome { goal, parameters: outcome.parameters.into_iter().chain([which]).collect(), ..outcome }
}

/// The value of the parameter `loss` of a goal in which losses by stops do not count.
pub(super) const WHILE_RUNNING: &str = "while tester and device ran";

/// The time of a cache line between two CPUs differs by more than this when one of them has been moved.
const MOVED_FACTOR: f64 = 2.0;
pub(super) const MOVED: &str = "The host moved a virtual CPU during this search (a cache line takes more than twice or less \
                     than half of the time between the tester's CPU and the DUT's): it is made once more.";

/// Highest rate of a warm-up before the rest of an interrupted point, frames/s.
const WARM_UP_FPS: f64 = 10_000.0;

/// Losses this far apart are periods of their own where a search asks when they were.
const DATED_MERGE: Duration = Duration::from_micros(100);

/// Time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Trials of one point.
pub(super) struct Trials<'a> {
    run: &'a Measuring<'a>,
    spec: &'a PointSpec,
    series: Series<'a>,
    /// Is the device to be warmed up before the next trial, since all trials so far were kept ones?
    cold: bool,
    /// Time of a cache line between tester and DUT before each trial of the present search, ns.
    core_distances: Vec<f64>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(
        run: &'a Measuring<'a>,
        (point, spec): (&Point, &'a PointSpec),
        kept: VecDeque<Trial>,
    ) -> Trials<'a> {
        let cold = !kept.is_empty();
        Trials { run, spec, series: Series::new(run, point, kept), cold, core_distances: Vec::new() }
    }

    /// Did the search begin and end on the same pair of CPUs, as far as the probe can tell? Single odd values
    /// do not count.
    pub(super) fn cpus_moved(&self) -> bool {
        let quantiles = [10.0, 90.0].map(|p| stats::percentile(&self.core_distances, p));
        matches!(quantiles, [Some(low), Some(high)] if high > MOVED_FACTOR * low)
    }

    /// Tells that the trials of this procedure come next.
    pub(super) fn begin(&self, procedure: &'static str) {
        let done = self.run.experiment.share_before(self.spec, procedure);
        (self.run.options.observe)(Event::Procedure { name: procedure, done });
    }

    /// One trial, whatever its verdict.
    pub(super) fn one(
        &mut self,
        setup: &mut Setup,
        load: &Load,
        purpose: Purpose,
    ) -> Result<Trial, RunError> {
        self.next(setup, load, purpose, None)
    }

    fn next(
        &mut self,
        setup: &mut Setup,
        load: &Load,
        purpose: Purpose,
        disturbance: Option<&Disturbance>,
    ) -> Result<Trial, RunError> {
        let load = &Load { broadcast_every: self.spec.broadcast_every, ..*load };
        if let Some(trial) = self.kept(load, purpose) {
            return Ok(trial);
        }
        if std::mem::take(&mut self.cold) && purpose != Purpose::WarmUp {
            let fps = load.fps.map(|fps| fps.min(WARM_UP_FPS));
            self.measured(setup, &Load { fps, ..Load::full_speed(WARM_UP) }, Purpose::WarmUp, None)?;
        }
        self.measured(setup, load, purpose, disturbance)
    }

    /// The trial that an earlier part of this run made at this place.
    fn kept(&mut self, load: &Load, purpose: Purpose) -> Option<Trial> {
        let trial = self.series.replay(&Asked::Load(load, purpose))?;
        self.core_distances.extend(trial.noise.handover_ns);
        Some(trial)
    }

    fn measured(
        &mut self,
        setup: &mut Setup,
        load: &Load,
        purpose: Purpose,
        disturbance: Option<&Disturbance>,
    ) -> Result<Trial, RunError> {
        let options = self.run.options;
        let (observe, stop) = (options.observe, options.stop);
        observe(Event::Trial { offered_fps: load.fps, duration: load.duration });
        let progress = |sent, received| {
            disturbance.into_iter().for_each(Disturbance::sending);
            observe(Event::Progress { sent, received });
        };
        // What cannot be repaired makes this trial invalid too, and says why.
        let _ = setup.repair();
        let trial = setup.disturbed(load, purpose, &Control::new(stop, &progress), disturbance)?;
        let trial = self.series.keep(trial)?;
        self.core_distances.extend(trial.noise.handover_ns);
        Ok(trial)
    }

    /// A trial, repeated while it cannot be believed and as often as the plan allows. The last one counts.
    pub(super) fn valid(
        &mut self,
        setup: &mut Setup,
        fps: f64,
        duration: Duration,
        purpose: Purpose,
    ) -> Result<Trial, RunError> {
        self.believed(setup, &Load::steady(fps, duration), purpose)
    }

    /// The same with any load.
    pub(super) fn believed(
        &mut self,
        setup: &mut Setup,
        load: &Load,
        purpose: Purpose,
    ) -> Result<Trial, RunError> {
        self.repeated(|trials| trials.one(setup, load, purpose))
    }

    /// The same, with something that is done to the device in each trial.
    pub(super) fn disturbed(
        &mut self,
        setup: &mut Setup,
        load: &Load,
        purpose: Purpose,
        disturbance: impl Fn() -> Disturbance,
    ) -> Result<Trial, RunError> {
        self.repeated(|trials| trials.next(setup, load, purpose, Some(&disturbance())))
    }

    fn repeated(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<Trial, RunError>,
    ) -> Result<Trial, RunError> {
        repeated(self.retries(), || one(self))
    }

    /// Is what the device did in this trial to be believed of the load that was really sent?
    pub(super) fn tells_of_what_was_sent(&self, trial: &Trial) -> bool {
        tells_of_what_was_sent(trial, &self.run.settings.limits)
    }

    /// CPUs of the tester.
    pub(super) fn tester_cpus(&self) -> &[usize] {
        &self.run.record.tester.cpus
    }

    /// How often a trial may be repeated.
    pub(super) fn retries(&self) -> u32 {
        self.run.settings.limits.retries
    }

    /// Lets the device rest before the next trial, unless that was made long ago.
    pub(super) fn pause(&self, time: Duration) -> Result<(), RunError> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|_| self.series.is_new()) {
            if self.run.options.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted(self.run.record.id));
            }
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }
}

/// Answers a search with trials of a setup.
struct PointMeasurer<'m, 't, 'a> {
    trials: &'m mut Trials<'a>,
    setup: &'t mut Setup,
    loss: SearchLoss,
    /// What the trials of the first search say without what was lost by stops.
    running: Answers,
    /// Did a witness see when tester and device stood still?
    is_witnessed: bool,
    /// What ended the search, since a search only knows that it was stopped.
    error: Option<RunError>,
}

impl PointMeasurer<'_, '_, '_> {
    fn search(&mut self, search: &Search) -> Result<Vec<GoalOutcome>, RunError> {
        search.run(self).map_err(|Stop(why)| self.error.take().unwrap_or(RunError::Search(why)))
    }
}

impl Measurer for PointMeasurer<'_, '_, '_> {
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop> {
        let earlier = (self.loss == SearchLoss::Running).then(|| self.running.take(load_fps, duration));
        if let Some(measured) = earlier.flatten() {
            return Ok(measured);
        }
        let mut load = Load::steady(load_fps, duration);
        if self.loss != SearchLoss::All {
            // The more exactly losses are dated, the better they are laid to stops.
            load.merge = DATED_MERGE;
        }
        let trial = self.trials.believed(self.setup, &load, Purpose::Search).map_err(|error| {
            let stop = Stop(error.to_string());
            self.error = Some(error);
            stop
        })?;
        let rate_error = self.trials.run.settings.limits.rate_error;
        let of = |loss_ratio| measured(&trial, loss_ratio, duration, rate_error);
        let (all, running) = (of(trial.dut_loss_ratio()), of(trial.running_loss_ratio()));
        match self.loss {
            SearchLoss::All => Ok(all),
            SearchLoss::Running => Ok(running),
            SearchLoss::Both => {
                self.is_witnessed |= trial.witnessed.is_some();
                self.running.keep(load_fps, duration, running);
                Ok(all)
            }
        }
    }
}
