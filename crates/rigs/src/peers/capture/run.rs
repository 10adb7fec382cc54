//! Rounds of the experiment `peers-capture`.
//!
//! ```text
//! round 1: nothing  weir ring  weir xdp  tcpdump  dumpcap ...      each: full speed > loads below it, if frames were lost
//! round 2: weir ring  weir xdp  tcpdump  dumpcap ...  nothing
//! ```
//! All are started as users start them, by their command lines. The count of a program is compared with the frames that were sent
//! and those in its file; the smaller number counts.

use std::rc::Rc;
use std::time::Duration;

use weir_lab::error::RunError;
use weir_lab::frames::mirror::{BUFFERS_PER_TRIAL, RING_FULL};
use weir_lab::frames::verdict::{Accounting, rate_error};
use weir_lab::frames::{PointSpec, Settings};
use weir_lab::run::Running;
use weir_lab::run::series::{Asked, Patience, Series, worst};
use weir_load::Control;
use weir_load::counts::Load;
use weir_measure::search::{Measured, Measurer, Search, Stop, rfc2544};
use weir_packet::size::FrameSizes;
use weir_record::figure::goal_result;
use weir_record::record::{
    Capture, CaptureTime, Cost, DropCounter, GoalValue, Noise, Owner, Point, PointResult, Purpose, Trial,
    Verdict,
};
use weir_record::run_data::{MEASURES, Measures};
use weir_testbed::dut::DutKind;

use super::bench::{Bench, Outcome};
use super::program::{Statement, Tool};
use super::report::LEFT;
use super::{CapturePeers, Job, PROGRAMS, Place};
use crate::peers::contest::{self, Contest, Entrant, Kind, fault_of};

/// Load of the trial before the first round, which shows whether a program works here.
const TRY_OUT: (f64, Duration) = (10_000.0, Duration::from_millis(100));
/// The interface's ring of 256 frames may lose this share of them with every program: on a shared CPU the generator may go
/// on for a moment while the kernel's receive work waits for its turn, and fills the ring in 10 us.
const BED_SHARE: f64 = 0.05;
/// A search looks down to this share of the rate captured at full speed.
const LOWEST_SHARE: f64 = 0.05;
/// Memory that a frame of so many captured bytes takes in a ring of blocks, about.
const FRAME_HEAD_BYTES: f64 = 90.0;

/// A program with its job.
pub(super) struct Task {
    bench: Rc<Bench>,
    /// `None`: no program, for the cost of generator and wire.
    work: Option<(Tool, Job)>,
    /// Its command line, for the record.
    command: String,
    frame_bytes_mean: f64,
}

/// The rates of a round.
#[derive(Default)]
pub(super) struct Round {
    lossless: GoalValue,
    full_fps: Option<f64>,
}

impl Kind for CapturePeers {
    type Work = Task;
    type Round = Round;

    fn enter_all(contest: &mut Contest<'_, Self>) -> Result<(), RunError> {
        let experiment = contest.run.experiment;
        let works = works(experiment);
        for frame in &experiment.frames {
            let plain = PointSpec::plain(DutKind::WIRE, 64, experiment.flows);
            let spec = PointSpec { frame: frame.clone(), ..plain };
            if !contest.has_any(works.len()) {
                for _ in &works {
                    contest.skips();
                }
                continue;
            }
            let run = &mut contest.run;
            let bench = Rc::new(Bench::build(experiment, &spec, run.settings.seed, &mut run.journal)?);
            for work in &works {
                enter(contest, *work, frame, &bench)?;
            }
        }
        Ok(())
    }

    fn turn(
        run: &mut Running<'_, Self>,
        task: &mut Task,
        series: &mut Series<'_>,
        _: usize,
    ) -> Result<Round, RunError> {
        Trials { run, task, series, error: None }.round()
    }

    fn result(&self, task: &Task, rounds: &[Round], _: &[Entrant<'_, Self>]) -> PointResult {
        let trial_s = self.trial.as_secs_f64();
        let order = || ("order".to_string(), "all alternately, rotated from round to round".to_string());
        let full =
            |round: &Round| GoalValue { fps: round.full_fps, trials: 1, trial_s, ..GoalValue::default() };
        let full = goal_result("full speed", vec![order()], rounds.iter().map(full).collect());
        let parameters = vec![
            ("trial".to_string(), format!("{trial_s} s")),
            ("trials without loss".to_string(), self.trials.to_string()),
            ("resolution".to_string(), format!("{:.0} %", self.resolution * 100.0)),
            order(),
        ];
        let lossless = rounds.iter().map(|round| round.lossless.clone()).collect();
        let goals = match task.work {
            None => vec![full],
            Some(_) => vec![goal_result("without loss", parameters, lossless), full],
        };
        PointResult { search: "rounds".into(), goals, ..PointResult::default() }
    }
}

/// Programs with their jobs at each frame size, and nothing.
pub(super) fn works(experiment: &CapturePeers) -> Vec<Option<(Tool, Job)>> {
    let own = experiment.methods.iter().map(|&method| Tool::weir(method));
    let tools: Vec<_> = own.chain(experiment.names.iter().map(|&peer| Tool::peer(peer))).collect();
    let all = experiment.jobs.iter().flat_map(|&job| tools.iter().map(move |&tool| (tool, job)));
    let works = all.filter(|(tool, job)| tool.program.does(*job));
    std::iter::once(None).chain(works.map(Some)).collect()
}

fn enter(
    contest: &mut Contest<'_, CapturePeers>,
    work: Option<(Tool, Job)>,
    frame: &FrameSizes,
    bench: &Rc<Bench>,
) -> Result<(), RunError> {
    if contest.skips() {
        return Ok(());
    }
    let experiment = contest.run.experiment;
    let name = work.map_or("nothing".into(), |(tool, _)| tool.name());
    let mut settings = vec![
        (MEASURES, Measures::CaptureTool.name().to_string()),
        ("program", name.clone()),
        ("job", work.map_or("-", |(_, job)| job.name()).to_string()),
        ("frame_bytes", frame.to_string()),
        ("flows", experiment.flows.to_string()),
        ("place", experiment.place.name().to_string()),
    ];
    let (mut absent, mut command, mut notes) = (None, String::new(), vec![bench.placement()]);
    if let Some((tool, job)) = work {
        absent = contest::missing(tool.program.name, PROGRAMS);
        if absent.is_none() {
            settings.push(("version", contest::version(tool.program.name, PROGRAMS)));
            absent = contest.try_out(|control, journal| {
                let load = Load::steady(TRY_OUT.0, TRY_OUT.1);
                let said = bench.trial((tool, job), &load, control, journal)?.said;
                Ok((said.captured + said.left == 0).then(|| "it captured nothing".into()))
            })?;
        }
        command = bench.command_line((tool, job));
        settings.push(("command", command.clone()));
        if let Some(why) = &absent {
            notes = vec![contest.left_out(&name, why)];
        }
    }
    let cpus = vec![bench.cpu()];
    let shared = experiment.place == Place::Together || bench.cpu() == bench.sending_cpu();
    let cpus_shared = if shared { cpus.clone() } else { Vec::new() };
    let point = Point { cpus_shared, cpus, notes, ..contest.point(&name, frame, settings) };
    let task = Task { bench: bench.clone(), work, command, frame_bytes_mean: frame.mean() };
    contest.enter(point, absent.is_none().then_some(task))
}

/// The trials of a program in a round.
struct Trials<'t, 'r, 's> {
    run: &'t mut Running<'r, CapturePeers>,
    task: &'t Task,
    series: &'t mut Series<'s>,
    /// Why a search was stopped.
    error: Option<RunError>,
}

impl Trials<'_, '_, '_> {
    fn round(mut self) -> Result<Round, RunError> {
        let experiment = self.run.experiment;
        let full = self.one(&Load::full_speed(experiment.trial), Purpose::FullSpeed)?;
        let usable = full.verdict != Verdict::Invalid && full.counts().received > 0;
        let full_fps = usable.then(|| sustained_fps(&full));
        let Some(fps) = full_fps.filter(|_| self.task.work.is_some()) else {
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
        let retries = self.run.settings.limits.retries;
        let patience = Patience { trials: self.run.experiment.trials, retries };
        worst(patience, || {
            let trial = made.take().map_or_else(|| self.one(load, Purpose::Search), Ok)?;
            let lost = lost(&trial);
            Ok((trial, lost))
        })
    }

    fn one(&mut self, load: &Load, purpose: Purpose) -> Result<Trial, RunError> {
        let (run, Task { bench, work, command, .. }) = (&mut *self.run, self.task);
        let measure = |control: &Control| {
            let outcome = match work {
                None => Ok(bench.nothing(load, control)?),
                Some(work) => fault_of(bench.trial(*work, load, control, &mut run.journal))?,
            };
            let (method, buffer_bytes) = (command.clone(), bench.buffer_bytes());
            let capture = Capture { method, buffer_bytes, ..Capture::default() };
            Ok(match outcome {
                Err(why) => contest::invalid(why, load, &run.settings.limits).with_detail(&capture),
                Ok(outcome) => judged(&outcome, load, capture, &run.settings),
            })
        };
        self.series.one(&Asked::Load(load, purpose), measure)
    }
}

impl Measurer for Trials<'_, '_, '_> {
    fn measure(&mut self, load_fps: f64, _: Duration) -> Result<Measured, Stop> {
        let frame = self.task.frame_bytes_mean + FRAME_HEAD_BYTES;
        // Shorter, the buffer could hide a loss.
        let hidden = BUFFERS_PER_TRIAL * self.task.bench.buffer_bytes() as f64 / frame / load_fps;
        let duration = self.run.experiment.trial.max(Duration::from_secs_f64(hidden));
        self.worst(&Load::steady(load_fps, duration), None).map_err(|error| {
            let why = error.to_string();
            self.error = Some(error);
            Stop(why)
        })
    }
}

fn judged(outcome: &Outcome, load: &Load, capture: Capture, settings: &Settings) -> Trial {
    let sent = &outcome.sent;
    let noise = Noise {
        steal: outcome.steal,
        rate_error: rate_error(sent, load),
        late_p999_ns: sent.late.percentile(0.999),
        late_max_ns: sent.late_max_ns,
        ..Noise::default()
    };
    let (received, drop_counters) = drop_counters(outcome.said, outcome.in_file, outcome.ring_full);
    let accounting = Accounting {
        offered: sent.offered,
        sent: sent.sent,
        received,
        drop_counters,
        ..Accounting::default()
    };
    let sent_fps = sent.sent as f64 / load.duration.as_secs_f64();
    let trial = accounting.trial(load, sent_fps, noise, &settings.limits);
    let (time, drain_s) = (times(outcome), outcome.drain.as_secs_f64());
    // The cost of the same generator without a program is measured beside it.
    let all =
        Cost::per_frame(time.generator_ns + time.capture_ns(), trial.counts().received, settings.tsc_hz);
    let cost = Cost { dut_cpu_ns: Some(time.capture_ns()), ..all };
    Trial { cost, ..trial }.with_detail(&Capture { drain_s, time, ..capture })
}

/// Frames captured per second, the time included in which a program caught up: a buffer hides how slow it is.
fn sustained_fps(trial: &Trial) -> f64 {
    let drain_s = trial.detail::<Capture>().map_or(0.0, |capture| capture.drain_s);
    trial.counts().received as f64 / (trial.duration_s + drain_s)
}

/// Frames that were lost for lack of speed: neither those left in the buffer in the end nor those that the test bed lost.
fn lost(trial: &Trial) -> u64 {
    trial.counts().lost.saturating_sub(trial.dropped_at(LEFT) + excused(trial))
}

/// Frames that are excused as the test bed's loss.
pub(super) fn excused(trial: &Trial) -> u64 {
    let ring_full = trial.dropped_at(RING_FULL);
    if ring_full as f64 <= BED_SHARE * trial.counts().sent as f64 { ring_full } else { 0 }
}

/// Frames that were captured, and where the others are.
fn drop_counters(said: Statement, in_file: Option<u64>, ring_full: u64) -> (u64, Vec<DropCounter>) {
    let received = in_file.map_or(said.captured, |frames| frames.min(said.captured));
    let own = "the program's own count";
    let places = [
        (RING_FULL, ring_full, "tx_dropped of t0"),
        ("buffer full", said.dropped, own),
        (LEFT, said.left, own),
        ("captured, and not in the file", said.captured - received, "the program's own count and its file"),
    ];
    (received, contest::drop_counters(Owner::Dut, &places))
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
