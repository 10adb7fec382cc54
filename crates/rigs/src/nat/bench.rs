//! A NAT under test: its test bed with checked flows, and its trials, which are recorded, and repeated until they are valid.

use std::collections::VecDeque;
use std::time::Duration;

use weir_load::Control;
use weir_load::counts::Load;
use weir_load::tcp::Part;
use weir_load::translation::NatFault;
use weir_load::xdp::clashes;
use weir_packet::flow::Flow;

use super::evidence;
use super::judged::{self, Seen};
use weir_lab::error::RunError;
use weir_lab::frames::setup::AddressRange;
use weir_lab::frames::verdict::measured;
use weir_lab::frames::{PointSpec, Setup};
use weir_lab::run::series::{Asked, Series, repeated};
use weir_lab::run::{Event, Running};
use weir_measure::search::{GoalOutcome, Measured, Measurer, Search, Stop};
use weir_record::record::{Point, Purpose, Translation, Trial};

/// A point in progress.
pub(super) struct Bench<'a> {
    pub(super) point: Point,
    pub(super) spec: PointSpec,
    pub(super) setup: Setup,
    series: Series<'a>,
    options: &'a weir_lab::run::Options<'a>,
    folder: Option<&'a std::path::Path>,
    run_uuid: String,
    /// Trials in which something was translated wrongly.
    pub(super) wrong: Vec<Seen>,
    /// Trials without frames so far.
    unframed: u32,
    /// How often a trial may be repeated.
    retries: u32,
    /// Rates may be off by this share.
    rate_error: f64,
}

/// As fast as the tester can, to know how fast that is.
const CEILING_TRIAL: Duration = Duration::from_millis(200);
/// Nothing is paced above this share of it.
pub(super) const CEILING_SHARE: f64 = 0.9;

/// What the flows of a point are.
pub(super) struct Given<'p> {
    /// In the order of sending.
    pub(super) flows: Vec<Flow>,
    /// There may be as many later.
    pub(super) room: u32,
    /// Public addresses of an external DUT.
    pub(super) public: &'p [AddressRange],
}

impl<'a> Bench<'a> {
    /// Builds the device of a point and begins with the trials that an earlier part of the run kept; `None` if that part
    /// finished the point.
    pub(super) fn open<E>(
        run: &mut Running<'a, E>,
        spec: &PointSpec,
        (index, count): (usize, usize),
        given: Given<'_>,
    ) -> Result<Option<Bench<'a>>, RunError> {
        let observe = run.options.observe;
        if let Some(data) = run.resumed.finished(index) {
            observe(Event::Point { index: Some(index), count, point: &data.point });
            data.trials.iter().for_each(|trial| observe(Event::Ended(trial)));
            data.point.result.iter().for_each(|result| observe(Event::Result(&data.point, result)));
            return Ok(None);
        }
        let room = PointSpec { flows: given.room, ..spec.clone() };
        let mut setup = Setup::build(&room, &run.settings, &Default::default(), &mut run.journal)?;
        setup.check_translation(given.flows, given.public)?;
        let cpus = if spec.dut.has_cpus() { setup.cpus().dut.clone() } else { Vec::new() };
        let mut point = Point {
            run_id: run.record.id,
            index,
            settings: spec.settings(),
            dut: spec.dut.to_string(),
            frame: spec.frame.to_string(),
            frame_bytes_mean: spec.frame.mean(),
            cpus_shared: cpus.iter().copied().filter(|cpu| setup.cpus().tester.contains(cpu)).collect(),
            cpus,
            notes: setup.notes().to_vec(),
            ..Point::default()
        };
        let kept = run.resumed.enter(&mut point, run.log)?;
        observe(Event::Point { index: Some(index), count, point: &point });
        Ok(Some(Bench::new(run, (point, spec.clone()), setup, kept)))
    }

    /// Frames/s that the tester can pace, whether or not they arrive. Only from inside: an unsolicited frame from outside may
    /// become a separate connection.
    pub(super) fn ceiling(&mut self, tcp: Option<Part>) -> Result<f64, RunError> {
        let load = Load { only: Some(0), tcp, ..Load::full_speed(CEILING_TRIAL) };
        let trial = self.one(&load, Purpose::FullSpeed)?;
        Ok((trial.counts().sent as f64 / trial.duration_s * CEILING_SHARE).max(1.0))
    }

    /// Deletes all connections, unless the next trial is a kept one.
    pub(super) fn forget(&self) -> Result<(), RunError> {
        if self.is_new() { self.setup.reset() } else { Ok(()) }
    }

    /// Of a point with the trials that an earlier part of the run kept.
    pub(super) fn new<E>(
        run: &Running<'a, E>,
        (point, spec): (Point, PointSpec),
        setup: Setup,
        kept: VecDeque<Trial>,
    ) -> Bench<'a> {
        let series = Series::new(run, &point, kept);
        let limits = &run.settings.limits;
        Bench {
            point,
            spec,
            setup,
            series,
            options: run.options,
            folder: run.log.folder(),
            run_uuid: run.record.uuid.to_string(),
            wrong: Vec::new(),
            unframed: 0,
            retries: limits.retries,
            rate_error: limits.rate_error,
        }
    }

    /// Are there no kept trials left, so that the next one is measured?
    pub(super) fn is_new(&self) -> bool {
        self.series.is_new()
    }

    /// How often a trial may be repeated.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    /// A trial without frames, known by its name and how many there were before it.
    pub(super) fn named(
        &mut self,
        name: &str,
        measure: impl FnOnce(&Setup) -> Result<Trial, RunError>,
    ) -> Result<Trial, RunError> {
        self.unframed += 1;
        let asked = Asked::Named(format!("{name} {}", self.unframed), Purpose::Procedure, Duration::ZERO);
        let setup = &self.setup;
        self.series.one(&asked, |_| measure(setup))
    }

    /// One trial, whatever its verdict.
    pub(super) fn one(&mut self, load: &Load, purpose: Purpose) -> Result<Trial, RunError> {
        if let Some(trial) = self.series.replay(&Asked::Load(load, purpose)) {
            self.wrong.extend(Seen::wrong(&trial));
            return Ok(trial);
        }
        let (observe, stop) = (self.options.observe, self.options.stop);
        observe(Event::Trial { offered_fps: load.fps, duration: load.duration });
        let progress = |sent, received| observe(Event::Progress { sent, received });
        // What cannot be repaired makes this trial invalid too, and says why.
        let _ = self.setup.repair();
        let trial = self.setup.trial(load, purpose, &Control::new(stop, &progress))?;
        let trial = self.with_all_clashes(trial);
        let trial = self.with_evidence(trial);
        self.wrong.extend(Seen::wrong(&trial));
        self.series.keep(trial)
    }

    /// The trial with all flows that share an outside tuple, where each flow was sent once: the program looks at a few
    /// entries of its table, and may miss one where that is crowded.
    fn with_all_clashes(&self, trial: Trial) -> Trial {
        let Some(mut seen) = trial.detail::<Translation>().filter(|_| trial.purpose == Purpose::WarmUp)
        else {
            return trial;
        };
        let all = clashes(self.setup.flows(), &self.setup.outside_tuples()).len() as u64;
        let is_known = seen.faults.iter().any(|(fault, n)| *fault == NatFault::Clashed && *n >= all);
        if all == 0 || is_known {
            return trial;
        }
        seen.faults.retain(|(fault, _)| *fault != NatFault::Clashed);
        seen.faults.push((NatFault::Clashed, all));
        trial.with_detail(&seen)
    }

    /// The trial with the file that shows what was wrong in it.
    fn with_evidence(&self, trial: Trial) -> Trial {
        let (Some(mut translation), Some(folder)) = (trial.detail::<Translation>(), self.folder) else {
            return trial;
        };
        if translation.faults.is_empty() {
            return trial;
        }
        let name = format!("nat-{}-{}-{}.pcapng", self.run_uuid, self.point.index, trial.started);
        match evidence::write(&folder.join("evidence"), &name, &self.setup.evidence()) {
            Ok(path) => translation.evidence = Some(path.display().to_string()),
            Err(error) => (self.options.observe)(Event::Note(&format!(
                "The frames that show what is wrong could not be written to {}: {error}",
                folder.display()
            ))),
        }
        trial.with_detail(&translation)
    }

    /// A trial, repeated while it cannot be believed and as often as the plan allows. The last one counts.
    pub(super) fn believed(&mut self, load: &Load, purpose: Purpose) -> Result<Trial, RunError> {
        repeated(self.retries, || self.one(load, purpose))
    }

    /// Searches for the highest rates.
    pub(super) fn search(&mut self, search: &Search) -> Result<Vec<GoalOutcome>, RunError> {
        search.validate().map_err(|mistakes| {
            let list: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            RunError::Search(list.join("; "))
        })?;
        let mut measurer = BenchMeasurer { bench: self, error: None };
        search.run(&mut measurer).map_err(|Stop(why)| measurer.error.unwrap_or(RunError::Search(why)))
    }
}

impl Bench<'_> {
    /// What was irregular about the translations of all trials.
    pub(super) fn irregular(&self) -> Vec<String> {
        let ended = judged::ended_entries(self.wrong.iter().cloned());
        judged::mistakes(self.wrong.iter().cloned()).into_iter().chain(ended).collect()
    }
}

/// Answers a search with trials.
struct BenchMeasurer<'b, 'a> {
    bench: &'b mut Bench<'a>,
    /// What ended the search, since a search only knows that it was stopped.
    error: Option<RunError>,
}

impl Measurer for BenchMeasurer<'_, '_> {
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop> {
        let load = Load::steady(load_fps, duration);
        let trial = self.bench.believed(&load, Purpose::Search).map_err(|error| {
            let stop = Stop(error.to_string());
            self.error = Some(error);
            stop
        })?;
        Ok(measured(&trial, trial.dut_loss_ratio(), duration, self.bench.rate_error))
    }
}
