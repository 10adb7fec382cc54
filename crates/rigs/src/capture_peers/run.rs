//! The experiment `peers-capture`: `weir capture` and other programs that capture, alternately, round by round.
//!
//! ```text
//! round 1: nothing  weir ring  weir xdp  tcpdump  dumpcap ...      each: full speed > loads below it, if frames were lost
//! round 2: weir ring  weir xdp  tcpdump  dumpcap ...  nothing
//! ```
//! All are started as users start them, by their command lines. What a program says of itself is held against what was
//! sent and what is in its file; the smaller number counts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_linux::lock::measuring_lock;
use weir_load::Control;
use weir_load::counts::Load;
use weir_testbed::dut::DutKind;

use super::bench::{Bench, Outcome};
use super::program::{CaptureTool, Statement};

use crate::capture_peers::plan::{CapturePeers, CapturePlace, Job};
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::Settings;
use weir_lab::frames::mirror::{BUFFERS_PER_TRIAL, RING_FULL};
use weir_lab::frames::verdict::{Accounting, rate_error};
use weir_lab::run::process::Failed;
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Patience, Series, worst};
use weir_lab::run::{Event, programs};
use weir_measure::search::{Measured, Measurer, Search, Stop, rfc2544};
use weir_record::figure::goal_result;
use weir_record::record::{
    Capture, CaptureTime, Cost, DropCounter, GoalValue, Noise, Owner, Point, PointResult, Purpose, Trial,
    Verdict,
};
use weir_record::run_data::{MEASURES, Measures};

/// To see whether a program works here: what it gets, before the first round.
const TRY_OUT: (f64, Duration) = (10_000.0, Duration::from_millis(100));
/// The interface's ring of 256 frames may lose this share of them with any program: on a shared CPU the generator may go
/// on for a moment while the kernel's receive work waits for its turn, and fills the ring in 10 us.
pub(crate) const BED_SHARE: f64 = 0.05;
/// A search looks down to this share of what was captured at full speed.
const LOWEST_SHARE: f64 = 0.05;
/// Frames that are left in a buffer when the program ends: neither captured nor lost for lack of speed.
const LEFT: &str = "left in the buffer at the end";
/// Memory that a frame of so many captured bytes takes in a ring of blocks, about.
const FRAME_HEAD_BYTES: f64 = 90.0;

run_of!(
    /// A comparison in progress.
    pub(super) Contest, CapturePeers
);

/// One point, and what it needs in each round.
struct Entrant<'a> {
    point: Point,
    /// The program and its job; `None`: no program, for the cost of generator and wire.
    work: Option<(CaptureTool, Job)>,
    /// Index of its frame size, which has a bench of its own.
    bench: usize,
    /// It cannot take part; the point's notes say why.
    absent: bool,
    /// One per round.
    rounds: Vec<Round>,
    series: Series<'a>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        !self.absent
    }
}

/// What a round gave.
#[derive(Default)]
struct Round {
    lossless: GoalValue,
    full_fps: Option<f64>,
}

impl<'a> Contest<'a> {
    pub(super) fn all_rounds(mut self) -> Result<(), RunError> {
        let (mut benches, mut entrants) = self.entrants()?;
        let rounds = self.rounds(self.experiment.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| {
            let bench = &mut benches[entrant.bench];
            let found = Trials { contest: &mut self, entrant, bench, error: None }.round()?;
            entrant.rounds.push(found);
            Ok(())
        })?;
        for entrant in &entrants {
            self.close(&entrant.point, self.result(entrant))?;
        }
        Ok(())
    }

    /// The programs that take part, and those that cannot.
    fn entrants(&mut self) -> Result<(Vec<Bench>, Vec<Entrant<'a>>), RunError> {
        let experiment = self.experiment;
        let own = experiment.methods.iter().map(|&method| CaptureTool::Weir(method));
        let tools: Vec<_> = own.chain(experiment.names.iter().map(|&peer| CaptureTool::Peer(peer))).collect();
        let (mut benches, mut list) = (Vec::new(), Vec::new());
        for frame in &experiment.frames {
            let plain = PointSpec::plain(DutKind::WIRE, 64, experiment.flows);
            let spec = PointSpec { frame: frame.clone(), ..plain };
            benches.push(Bench::build(experiment, &spec, self.settings.seed, &mut self.journal)?);
            let bench = benches.len() - 1;
            let all = experiment.jobs.iter().flat_map(|&job| tools.iter().map(move |&tool| (tool, job)));
            let jobs = all.filter(|(tool, job)| tool.does(*job));
            for work in std::iter::once(None).chain(jobs.map(Some)) {
                let entrant = self.enter(work, &spec, bench, list.len(), &mut benches[bench])?;
                list.push(entrant);
            }
        }
        Ok((benches, list))
    }

    fn enter(
        &mut self,
        work: Option<(CaptureTool, Job)>,
        spec: &PointSpec,
        bench_index: usize,
        index: usize,
        bench: &mut Bench,
    ) -> Result<Entrant<'a>, RunError> {
        let mut point = self.point_of(work, spec, index, bench);
        let mut absent = None;
        if let Some((tool, job)) = work {
            absent = missing(tool);
            if absent.is_none() {
                point.settings.push(("version".into(), version(tool)));
                absent = self.try_out((tool, job), bench)?;
            }
            point.settings.push(("command".into(), bench.command_line(tool, job)));
            if let Some(why) = &absent {
                let note = format!("{} is left out: {why}.", tool.name());
                (self.options.observe)(Event::Note(&note));
                point.notes = vec![note];
            }
        }
        let kept = self.resumed.enter(&mut point, self.store)?;
        let series = Series::new(self, &point, kept);
        let absent = absent.is_some();
        Ok(Entrant { point, work, bench: bench_index, absent, rounds: Vec::new(), series })
    }

    fn point_of(
        &self,
        work: Option<(CaptureTool, Job)>,
        spec: &PointSpec,
        index: usize,
        bench: &Bench,
    ) -> Point {
        let name = work.map_or("nothing".into(), |(tool, _)| tool.name());
        let settings = [
            (MEASURES, Measures::CaptureTool.name().to_string()),
            ("program", name.clone()),
            ("job", work.map_or("-", |(_, job)| job.name()).to_string()),
            ("frame_bytes", spec.frame.to_string()),
            ("flows", spec.flows.to_string()),
            ("place", self.experiment.place.name().to_string()),
        ];
        let cpus = vec![bench.cpu()];
        let shared = self.experiment.place == CapturePlace::Together || bench.cpu() == bench.sending_cpu();
        Point {
            frame: spec.frame.to_string(),
            frame_bytes_mean: spec.frame.mean(),
            cpus_shared: if shared { cpus.clone() } else { Vec::new() },
            cpus,
            notes: vec![bench.placement()],
            ..self.point(index, &name, settings.to_vec())
        }
    }

    /// Runs a program for a moment: some are installed and do not work with this kernel. Returns why it cannot take part.
    fn try_out(&mut self, work: (CaptureTool, Job), bench: &mut Bench) -> Result<Option<String>, RunError> {
        let stop = self.options.stop;
        let load = Load::steady(TRY_OUT.0, TRY_OUT.1);
        let Some(_turn) = measuring_lock(|| stop.load(Ordering::Relaxed))? else {
            return Err(RunError::Interrupted(self.record.id));
        };
        match bench.trial(work, &load, &Control::new(stop, &|_, _| ()), &mut self.journal) {
            Err(Failed::Run(error)) => Err(error),
            Err(Failed::Program(why)) => Ok(Some(why)),
            Ok(outcome) if outcome.said.captured + outcome.said.left == 0 => {
                Ok(Some("it captured nothing".into()))
            }
            Ok(_) => Ok(None),
        }
    }

    fn result(&self, entrant: &Entrant) -> PointResult {
        if entrant.absent {
            return PointResult { search: "left out".into(), ..PointResult::default() };
        }
        let trial_s = self.experiment.trial.as_secs_f64();
        let order = || ("order".to_string(), "all alternately, rotated from round to round".to_string());
        let full =
            |round: &Round| GoalValue { fps: round.full_fps, trials: 1, trial_s, ..GoalValue::default() };
        let full: Vec<_> = entrant.rounds.iter().map(full).collect();
        let parameters = vec![
            ("trial".to_string(), format!("{trial_s} s")),
            ("trials without loss".to_string(), self.experiment.trials.to_string()),
            ("resolution".to_string(), format!("{:.0} %", self.experiment.resolution * 100.0)),
            order(),
        ];
        let full = goal_result("full speed", vec![order()], full);
        let lossless = entrant.rounds.iter().map(|round| round.lossless.clone()).collect();
        let goals = match entrant.work {
            None => vec![full],
            Some(_) => vec![goal_result("without loss", parameters, lossless), full],
        };
        PointResult { search: "rounds".into(), goals, ..PointResult::default() }
    }
}

/// The trials of an entrant in a round.
struct Trials<'a, 'c> {
    contest: &'a mut Contest<'c>,
    entrant: &'a mut Entrant<'c>,
    bench: &'a mut Bench,
    /// Why a search was stopped.
    error: Option<RunError>,
}

impl Trials<'_, '_> {
    fn round(mut self) -> Result<Round, RunError> {
        let experiment = self.contest.experiment;
        let full = self.one(&Load::full_speed(experiment.trial), Purpose::FullSpeed)?;
        let usable = full.verdict != Verdict::Invalid && full.counts().received > 0;
        let full_fps = usable.then(|| sustained_fps(&full));
        let Some(fps) = full_fps.filter(|_| self.entrant.work.is_some()) else {
            return Ok(Round { full_fps, ..Round::default() });
        };
        let trial_s = experiment.trial.as_secs_f64();
        let at_full_speed = self.worst(&Load::full_speed(experiment.trial), Some(full))?;
        if matches!(at_full_speed, Measured::Loss { loss_ratio: 0.0, .. }) {
            let irregular = Some("max load is not an upper bound".to_string());
            let lossless =
                GoalValue { fps: Some(fps), irregular, trials: 1, trial_s, ..GoalValue::default() };
            return Ok(Round { lossless, full_fps });
        }
        let search = Search::Rfc2544(rfc2544::Config {
            min_fps: fps * LOWEST_SHARE,
            max_fps: fps,
            final_trial: experiment.trial,
            search_trial: None,
            loss_tolerance: 0.0,
            resolution: rfc2544::Resolution { relative: experiment.resolution, absolute_fps: 0.0 },
        });
        match search.run(&mut self) {
            Ok(mut found) => Ok(Round { lossless: found.remove(0).value, full_fps }),
            Err(Stop(why)) => Err(self.error.take().unwrap_or(RunError::Search(why))),
        }
    }

    /// The worst of as many trials as count for no loss, of which one may have been made.
    fn worst(&mut self, load: &Load, mut made: Option<Trial>) -> Result<Measured, RunError> {
        let retries = self.contest.settings.limits.retries;
        let patience = Patience { trials: self.contest.experiment.trials, retries };
        worst(patience, || {
            let trial = made.take().map_or_else(|| self.one(load, Purpose::Search), Ok)?;
            let lost = lost(&trial);
            Ok((trial, lost))
        })
    }

    fn one(&mut self, load: &Load, purpose: Purpose) -> Result<Trial, RunError> {
        let Trials { contest, entrant, bench, .. } = self;
        let command = entrant.point.settings.iter().find(|(name, _)| name == "command");
        let method = command.map(|(_, line)| line.clone()).unwrap_or_default();
        let measure = |control: &Control| {
            let outcome = match entrant.work {
                None => Ok(bench.nothing(load, control)?),
                Some(work) => match bench.trial(work, load, control, &mut contest.journal) {
                    Err(Failed::Run(error)) => return Err(error),
                    Err(Failed::Program(why)) => Err(why),
                    Ok(outcome) => Ok(outcome),
                },
            };
            let capture = Capture { method, buffer_bytes: bench.buffer_bytes(), ..Capture::default() };
            Ok(match outcome {
                Err(why) => failed(why, load, capture, &contest.settings),
                Ok(outcome) => judged(&outcome, load, capture, &contest.settings),
            })
        };
        entrant.series.one(&Asked::Load(load, purpose), measure)
    }
}

fn judged(outcome: &Outcome, load: &Load, capture: Capture, settings: &Settings) -> Trial {
    let noise = Noise {
        steal: outcome.steal,
        rate_error: rate_error(&outcome.sent, load),
        late_p999_ns: outcome.sent.late.percentile(0.999),
        late_max_ns: outcome.sent.late_max_ns,
        ..Noise::default()
    };
    let (time, drain_s) = (times(outcome), outcome.drain.as_secs_f64());
    let trial = accounting(outcome).trial(
        load,
        outcome.sent.sent as f64 / load.duration.as_secs_f64(),
        noise,
        &settings.limits,
    );
    // The same generator without a capture program is measured, too.
    let all =
        Cost::per_frame(time.generator_ns + time.capture_ns(), trial.counts().received, settings.tsc_hz);
    let cost = Cost { dut_cpu_ns: Some(time.capture_ns()), ..all };
    Trial { cost, ..trial }.with_detail(&Capture { drain_s, time, ..capture })
}

/// The record of a trial in which a program did not do what it was to.
fn failed(why: String, load: &Load, capture: Capture, settings: &Settings) -> Trial {
    let trial = Accounting::default().trial(load, 0.0, Noise::default(), &settings.limits);
    Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial }.with_detail(&capture)
}

impl Measurer for Trials<'_, '_> {
    fn measure(&mut self, load_fps: f64, _: Duration) -> Result<Measured, Stop> {
        let frame = self.entrant.point.frame_bytes_mean + FRAME_HEAD_BYTES;
        // Shorter, the buffer could hide a loss.
        let hidden = BUFFERS_PER_TRIAL * self.bench.buffer_bytes() as f64 / frame / load_fps;
        let duration = self.contest.experiment.trial.max(Duration::from_secs_f64(hidden));
        self.worst(&Load::steady(load_fps, duration), None).map_err(|error| {
            let why = error.to_string();
            self.error = Some(error);
            Stop(why)
        })
    }
}

/// What was captured per second, the time included in which a program caught up: a buffer hides how slow it is.
fn sustained_fps(trial: &Trial) -> f64 {
    let drain_s = trial.detail::<Capture>().map_or(0.0, |capture| capture.drain_s);
    trial.counts().received as f64 / (trial.duration_s + drain_s)
}

/// Frames that were lost for lack of speed: what is left over in the end was not, nor what the test bed lost.
fn lost(trial: &Trial) -> u64 {
    let ring_full = trial.dropped_at(RING_FULL);
    let excused = if ring_full as f64 <= BED_SHARE * trial.counts().sent as f64 { ring_full } else { 0 };
    trial.counts().lost.saturating_sub(trial.dropped_at(LEFT) + excused)
}

/// Where all frames are.
fn accounting(outcome: &Outcome) -> Accounting {
    let (received, drop_counters) = drop_counters(outcome.said, outcome.in_file, outcome.ring_full);
    Accounting {
        offered: outcome.sent.offered,
        sent: outcome.sent.sent,
        received,
        drop_counters,
        ..Accounting::default()
    }
}

/// Frames that were captured, and where the others are.
fn drop_counters(said: Statement, in_file: Option<u64>, ring_full: u64) -> (u64, Vec<DropCounter>) {
    let line = |name: &str, frames, source: &str| DropCounter {
        name: name.into(),
        owner: Owner::Dut,
        frames,
        source: source.into(),
    };
    let received = in_file.map_or(said.captured, |frames| frames.min(said.captured));
    let mut drop_counters = vec![
        line(RING_FULL, ring_full, "tx_dropped of t0"),
        line("buffer full", said.dropped, "the program's own count"),
        line(LEFT, said.left, "the program's own count"),
        line(
            "captured, and not in the file",
            said.captured - received,
            "the program's own count and its file",
        ),
    ];
    drop_counters.retain(|line| line.frames > 0);
    (received, drop_counters)
}

fn times(outcome: &Outcome) -> CaptureTime {
    let system_ns = outcome.program.system_ns();
    CaptureTime {
        generator_ns: outcome.generator.run_ns,
        receive_ns: outcome.softirqs.run_ns,
        system_ns,
        user_ns: outcome.program.run_ns - system_ns,
        consumer_ns: None,
    }
}

/// Why a program cannot take part, as far as can be said without trying.
fn missing(tool: CaptureTool) -> Option<String> {
    match tool {
        CaptureTool::Weir(_) => programs::not_weir(),
        CaptureTool::Peer(peer) => programs::missing(peer.name(), super::PROGRAMS),
    }
}

/// The version of a program that is here.
fn version(tool: CaptureTool) -> String {
    match tool {
        CaptureTool::Weir(_) => env!("CARGO_PKG_VERSION").into(),
        CaptureTool::Peer(peer) => programs::version(peer.name(), super::PROGRAMS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_statement_and_file_counts() {
        let said = Statement { captured: 90, dropped: 5, left: 3 };
        for (in_file, received, missing) in [(None, 90, 0), (Some(80), 80, 10), (Some(95), 90, 0)] {
            let (captured, drop_counters) = drop_counters(said, in_file, 2);
            let not_in_file = drop_counters.iter().find(|line| line.name.contains("not in the file"));
            assert_eq!((captured, not_in_file.map_or(0, |line| line.frames)), (received, missing));
            let all: u64 = captured + drop_counters.iter().map(|line| line.frames).sum::<u64>();
            assert_eq!(all, 100, "{in_file:?}");
        }
    }
}
