//! Rounds of the experiment `peers-detect`.
//!
//! ```text
//! round 1: weir detect  fastnetmon      each: start > calm > attack ... reported > end
//! round 2: fastnetmon  weir detect
//! ```
//! All are started as users start them. The clock runs from the attack's first frame until the program has reported the
//! attack; the rate in its report is compared with the rate that arrived.

use std::fs;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_lab::error::RunError;
use weir_lab::frames::mirror::{Mirror, RING_FULL};
use weir_lab::frames::verdict::Accounting;
use weir_lab::frames::{Limits, PointSpec};
use weir_lab::rig::Experiment;
use weir_lab::run::Running;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{Failed, Process};
use weir_lab::run::series::{Asked, Series};
use weir_load::Control;
use weir_load::counts::{Load, StreamCounts};
use weir_record::figure::{figure, unit};
use weir_record::record::{
    Better, Detection, Figure, Noise, Owner, Point, PointResult, ProcedureResult, Purpose, Statistic, Trial,
};
use weir_record::run_data::{MEASURES, Measures};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::Journal;

use super::program::{Detector, Order, WEIR};
use super::{DetectPeers, PROGRAMS, report};
use crate::peers::contest::{self, Contest, Entrant, Kind, drop_counters, fault_of};

/// A program watches for so long before the attack.
const CALM: Duration = Duration::from_secs(1);
/// Time between two looks at its reports.
const LOOK: Duration = Duration::from_millis(2);

/// A program and its attacks.
pub(super) struct Attack {
    bench: Rc<Bench>,
    detector: &'static Detector,
    attack_fps: f64,
}

impl Kind for DetectPeers {
    type Work = Attack;
    /// `None`: it cannot be believed.
    type Round = Option<Detection>;

    fn enter_all(contest: &mut Contest<'_, Self>) -> Result<(), RunError> {
        let experiment = contest.run.experiment;
        if !contest.has_any(experiment.bases().len()) {
            return Ok(());
        }
        let bench = Rc::new(Bench::build(&mut contest.run)?);
        let mut detectors = Vec::new();
        for detector in std::iter::once(&WEIR).chain(experiment.names.iter().copied()) {
            let absent = match contest::missing(detector.name, PROGRAMS) {
                Some(why) => Some(why),
                None => contest.try_out(|_, journal| {
                    Ok(bench.started(detector, experiment, journal)?.interrupt(journal)?.err())
                })?,
            };
            detectors.push((detector, absent.map(|why| contest.left_out(detector.name, &why))));
        }
        for &attack_fps in &experiment.attacks_fps {
            for (detector, absent) in &detectors {
                if contest.skips() {
                    continue;
                }
                let mut point = bench.point(contest, detector.name, attack_fps);
                if absent.is_none() {
                    let version = contest::version(detector.name, PROGRAMS);
                    point.settings.push(("version".into(), version));
                }
                point.notes.extend(absent.clone());
                let attack = Attack { bench: bench.clone(), detector, attack_fps };
                contest.enter(point, absent.is_none().then_some(attack))?;
            }
        }
        Ok(())
    }

    fn turn(
        run: &mut Running<'_, Self>,
        attack: &mut Attack,
        series: &mut Series<'_>,
        _: usize,
    ) -> Result<Option<Detection>, RunError> {
        let load = Load::steady(attack.attack_fps, run.experiment.attack);
        let measure = |control: &Control| {
            let found =
                attack.bench.attack(attack.detector, run.experiment, (&load, control), &mut run.journal);
            Ok(match fault_of(found)? {
                Ok(outcome) => judged(&outcome, &load, &run.settings.limits),
                Err(why) => contest::invalid(why, &load, &run.settings.limits),
            })
        };
        Ok(series.one(&Asked::Load(&load, Purpose::Procedure), measure)?.believed())
    }

    fn result(&self, attack: &Attack, found: &[Option<Detection>], _: &[Entrant<'_, Self>]) -> PointResult {
        let of = |value: fn(&Detection) -> Option<f64>| found.iter().flatten().filter_map(value).collect();
        let error = figure("error of the stated rate", unit::RATIO, Statistic::Median, of(Detection::error));
        let figures = vec![
            figure("time to detection", unit::SECONDS, Statistic::Median, of(|found| found.after_s)),
            Figure { better: Some(Better::Lower), ..error },
        ];
        let parameters = vec![("attack".to_string(), format!("{} frames/s", attack.attack_fps))];
        let procedure =
            ProcedureResult { procedure: report::ID.into(), parameters, figures, ..Default::default() };
        PointResult::without_search("rounds", procedure)
    }
}

/// Where attacks take place.
struct Bench {
    mirror: Mirror,
    folder: Folder,
}

/// The outcome of an attack.
struct Outcome {
    stream: StreamCounts,
    ring_full: u64,
    detection: Detection,
}

impl Bench {
    fn build(run: &mut Running<'_, DetectPeers>) -> Result<Bench, RunError> {
        // One flow, hence one host.
        let plain = PointSpec::plain(DutKind::WIRE, 64, 1);
        let spec = PointSpec { frame: run.experiment.frame.clone(), ..plain };
        let mirror = Mirror::build(&spec, run.settings.seed, &mut run.journal)?;
        Ok(Bench { mirror, folder: contest::folder(&std::env::temp_dir(), "TMPDIR")? })
    }

    fn point(&self, contest: &Contest<'_, DetectPeers>, name: &str, attack_fps: f64) -> Point {
        let experiment = contest.run.experiment;
        let settings = vec![
            (MEASURES, Measures::Detector.name().to_string()),
            ("program", name.to_string()),
            ("attack_fps", attack_fps.to_string()),
            ("limit_fps", experiment.limit_fps.to_string()),
            ("frame_bytes", experiment.frame.to_string()),
        ];
        let (sending, other) = (self.mirror.sending_cpu(), self.mirror.other_cpu());
        let place = format!(
            "The kernel receives on CPU {sending}, which sends; programs are started on CPU {other}."
        );
        Point {
            cpus: vec![other],
            cpus_shared: if other == sending { vec![other] } else { Vec::new() },
            notes: vec![place],
            ..contest.point(name, &experiment.frame, settings)
        }
    }

    /// A program that watches.
    fn started(
        &self,
        detector: &Detector,
        plan: &DetectPeers,
        journal: &mut Journal,
    ) -> Result<Process, Failed> {
        let folder = self.folder.path();
        let order = Order { device: self.mirror.wire()[1], limit_fps: plan.limit_fps, folder };
        let written = (detector.configure)(&order);
        written.map_err(|error| Failed::Program(format!("its configuration cannot be written: {error}")))?;
        let program = (&mut (detector.command)(&order), detector.ready);
        contest::started(&self.mirror, self.mirror.other_cpu(), program, &folder.join("said"), journal)
    }

    /// Starts a program, attacks until it reports the attack, and ends it.
    fn attack(
        &self,
        detector: &Detector,
        plan: &DetectPeers,
        (load, control): (&Load, &Control),
        journal: &mut Journal,
    ) -> Result<Outcome, Failed> {
        let process = self.started(detector, plan, journal)?;
        thread::sleep(CALM);
        let reports = self.folder.path().join(detector.reports);
        let stated = || (detector.stated_fps)(&fs::read_to_string(&reports).unwrap_or_default());
        let (before, over, begin) = (self.mirror.ring_full()?, AtomicBool::new(false), Instant::now());
        let (sent, reported) = thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let sent = self.mirror.send(load, None, &Control::new(&over, &|_, _| ()));
                over.store(true, Ordering::Relaxed);
                sent
            });
            let reported = loop {
                let reported = stated().map(|fps| (begin.elapsed(), fps));
                if reported.is_some() || over.load(Ordering::Relaxed) || control.stopped() {
                    break reported;
                }
                thread::sleep(LOOK);
            };
            over.store(true, Ordering::Relaxed);
            (sending.join().expect("it does not panic"), reported)
        });
        let ring_full = self.mirror.ring_full()? - before;
        let ended = process.interrupt(journal)?;
        let stream = sent?.stream;
        ended.map_err(Failed::Program)?;
        let arrived = stream.sent.saturating_sub(ring_full);
        let detection = Detection {
            after_s: reported.map(|(after, _)| after.as_secs_f64()),
            stated_fps: reported.map(|(_, fps)| fps),
            true_fps: arrived as f64 / (stream.last_ns.max(1) as f64 / 1e9),
        };
        Ok(Outcome { stream, ring_full, detection })
    }
}

fn judged(outcome: &Outcome, load: &Load, limits: &Limits) -> Trial {
    let Outcome { stream, ring_full, detection } = outcome;
    // An attack ends when it is reported: the sent frames are also the intended ones.
    let accounting = Accounting {
        offered: stream.sent,
        sent: stream.sent,
        received: stream.sent.saturating_sub(*ring_full),
        drop_counters: drop_counters(Owner::Tester, &[(RING_FULL, *ring_full, "tx_dropped of t0")]),
        ..Accounting::default()
    };
    // An attack that comes in bursts is an attack as well.
    let rate_error = load.fps.map_or(0.0, |fps| detection.true_fps / fps - 1.0);
    let noise = Noise { rate_error, ..Noise::default() };
    accounting.trial(load, detection.true_fps, noise, limits).with_detail(detection)
}
