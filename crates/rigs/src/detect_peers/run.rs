//! The experiment `peers-detect`: `weir detect` and other programs that watch for attacks, alternately, round by round.
//!
//! ```text
//! round 1: weir detect  fastnetmon      each: start > calm > attack ... reported > end
//! round 2: fastnetmon  weir detect
//! ```
//! All are started as users start them. The clock runs from the attack's first frame until the program has said that there
//! is an attack; what it says of its rate is held against what arrived.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_linux::Error;
use weir_linux::lock::measuring_lock;
use weir_load::Control;
use weir_load::counts::Load;
use weir_testbed::dut::DutKind;
use weir_testbed::journal::Journal;

use super::program::{Detector, Order};

use super::report;
use crate::detect_peers::plan::DetectPeers;
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::Settings;
use weir_lab::frames::mirror::RING_FULL;
use weir_lab::frames::mirror::{Mirror, Sent};
use weir_lab::frames::verdict::Accounting;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{Failed, Process};
use weir_lab::run::rounds::{Interleaved, interleave};
use weir_lab::run::series::{Asked, Series};
use weir_lab::run::{Event, programs};
use weir_record::figure::{figure, unit};
use weir_record::record::{
    Better, Detection, DropCounter, Figure, Noise, Owner, Point, PointResult, ProcedureResult, Purpose,
    Statistic, Trial, Verdict,
};
use weir_record::run_data::{MEASURES, Measures};

/// A program watches for so long before the attack.
const CALM: Duration = Duration::from_secs(1);
/// Time between two looks at what it says.
const LOOK: Duration = Duration::from_millis(2);

run_of!(
    /// A comparison in progress.
    pub(super) Contest, DetectPeers
);

/// One point.
struct Entrant<'a> {
    point: Point,
    detector: Detector,
    attack_fps: f64,
    /// It cannot take part; the point's notes say why.
    absent: bool,
    series: Series<'a>,
    /// The outcomes of the attacks that are valid.
    found: Vec<Detection>,
}

impl Interleaved for Entrant<'_> {
    fn point(&self) -> &Point {
        &self.point
    }

    fn takes_part(&self) -> bool {
        !self.absent
    }
}

impl Entrant<'_> {
    fn result(&self) -> PointResult {
        if self.absent {
            return PointResult { search: "left out".into(), ..PointResult::default() };
        }
        let of = |value: fn(&Detection) -> Option<f64>| self.found.iter().filter_map(value).collect();
        let figures = vec![
            figure("time to detection", unit::SECONDS, Statistic::Median, of(|found| found.after_s)),
            Figure {
                better: Some(Better::Lower),
                ..figure("error of the stated rate", unit::RATIO, Statistic::Median, of(Detection::error))
            },
        ];
        let parameters = vec![("attack".to_string(), format!("{} frames/s", self.attack_fps))];
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
    sent: Sent,
    ring_full: u64,
    detection: Detection,
}

impl<'a> Contest<'a> {
    pub(super) fn all_rounds(mut self) -> Result<(), RunError> {
        let bench = self.bench()?;
        let mut entrants = self.entrants(&bench)?;
        let rounds = self.rounds(self.experiment.rounds, entrants.len());
        interleave(&rounds, &mut entrants, |entrant| self.attack(entrant, &bench))?;
        for entrant in &entrants {
            self.close(&entrant.point, entrant.result())?;
        }
        Ok(())
    }

    fn bench(&mut self) -> Result<Bench, RunError> {
        // One flow, hence one host.
        let plain = PointSpec::plain(DutKind::WIRE, 64, 1);
        let spec = PointSpec { frame: self.experiment.frame.clone(), ..plain };
        let mirror = Mirror::build(&spec, self.settings.seed, &mut self.journal)?;
        let within = std::env::temp_dir();
        let what = format!("create a folder in {}; choose another one with TMPDIR", within.display());
        let folder = Folder::new(&within).map_err(Error::os(what))?;
        Ok(Bench { mirror, folder })
    }

    /// The programs that take part, and those that cannot.
    fn entrants(&mut self, bench: &Bench) -> Result<Vec<Entrant<'a>>, RunError> {
        let peers = self.experiment.names.iter().map(|&peer| Detector::Peer(peer));
        let detectors: Vec<_> = std::iter::once(Detector::Weir).chain(peers).collect();
        let mut absent = Vec::new();
        for &detector in &detectors {
            let why = match missing(detector) {
                Some(why) => Some(why),
                None => self.try_out(detector, bench)?,
            };
            let note = why.map(|why| format!("{} is left out: {why}.", detector.name()));
            note.iter().for_each(|note| (self.options.observe)(Event::Note(note)));
            absent.push(note);
        }
        let mut list = Vec::new();
        for &attack_fps in &self.experiment.attacks_fps {
            for (&detector, absent) in detectors.iter().zip(&absent) {
                let mut point = self.point_of((detector, attack_fps), list.len(), bench);
                if absent.is_none() {
                    point.settings.push(("version".into(), version(detector)));
                }
                point.notes.extend(absent.clone());
                let kept = self.resumed.enter(&mut point, self.store)?;
                let series = Series::new(self, &point, kept);
                let absent = absent.is_some();
                list.push(Entrant { point, detector, attack_fps, absent, series, found: Vec::new() });
            }
        }
        Ok(list)
    }

    fn point_of(&self, (detector, attack_fps): (Detector, f64), index: usize, bench: &Bench) -> Point {
        let experiment = self.experiment;
        let settings = [
            (MEASURES, Measures::Detector.name().to_string()),
            ("program", detector.name().to_string()),
            ("attack_fps", attack_fps.to_string()),
            ("limit_fps", experiment.limit_fps.to_string()),
            ("frame_bytes", experiment.frame.to_string()),
        ];
        let (sending, other) = (bench.mirror.sending_cpu(), bench.mirror.other_cpu());
        let place = format!(
            "The kernel receives on CPU {sending}, which sends; programs are started on CPU {other}."
        );
        Point {
            frame: experiment.frame.to_string(),
            frame_bytes_mean: experiment.frame.mean(),
            cpus: vec![other],
            cpus_shared: if other == sending { vec![other] } else { Vec::new() },
            notes: vec![place],
            ..self.point(index, detector.name(), settings.to_vec())
        }
    }

    /// Starts a program and ends it: some are installed and do not work here. Returns why it cannot take part.
    fn try_out(&mut self, detector: Detector, bench: &Bench) -> Result<Option<String>, RunError> {
        let stop = self.options.stop;
        let Some(_turn) = measuring_lock(|| stop.load(Ordering::Relaxed))? else {
            return Err(RunError::Interrupted(self.record.id));
        };
        let order = bench.order(self.experiment);
        match bench.started(detector, &order, &mut self.journal) {
            Err(Failed::Run(error)) => Err(error),
            Err(Failed::Program(why)) => Ok(Some(why)),
            Ok(process) => Ok(process.interrupt(&mut self.journal)?.err()),
        }
    }

    fn attack(&mut self, entrant: &mut Entrant<'a>, bench: &Bench) -> Result<(), RunError> {
        let load = Load::steady(entrant.attack_fps, self.experiment.attack);
        let order = bench.order(self.experiment);
        let (journal, settings) = (&mut self.0.journal, &self.0.settings);
        let measure =
            |control: &Control| match bench.attack(entrant.detector, &order, (&load, control), journal) {
                Err(Failed::Run(error)) => Err(error),
                Err(Failed::Program(why)) => {
                    let trial = Accounting::default().trial(&load, 0.0, Noise::default(), &settings.limits);
                    Ok(Trial { verdict: Verdict::Invalid, reasons: vec![why], ..trial })
                }
                Ok(outcome) => Ok(judged(&outcome, &load, settings)),
            };
        let trial = entrant.series.one(&Asked::Load(&load, Purpose::Procedure), measure)?;
        entrant.found.extend(trial.believed::<Detection>());
        Ok(())
    }
}

impl Bench {
    /// What a program is to watch.
    fn order(&self, plan: &DetectPeers) -> Order<'_> {
        Order { device: self.mirror.wire()[1], limit_fps: plan.limit_fps, folder: self.folder.path() }
    }

    /// A program that watches.
    fn started(
        &self,
        detector: Detector,
        order: &Order<'_>,
        journal: &mut Journal,
    ) -> Result<Process, Failed> {
        let written = detector.configure(order);
        written.map_err(|error| Failed::Program(format!("its configuration cannot be written: {error}")))?;
        let (mut command, said) = (detector.command(order), order.folder.join("said"));
        let (bed, cpu) = (self.mirror.bed(), self.mirror.other_cpu());
        let process = bed.tester().run(|| Process::start(&mut command, &[cpu], &said, journal))?;
        match process.await_words(detector.ready()) {
            Ok(()) => Ok(process),
            Err(why) => {
                // It may be there still.
                let _ = process.interrupt(journal)?;
                Err(Failed::Program(why))
            }
        }
    }

    /// Starts a program, attacks until it tells, and ends it.
    fn attack(
        &self,
        detector: Detector,
        order: &Order<'_>,
        (load, control): (&Load, &Control),
        journal: &mut Journal,
    ) -> Result<Outcome, Failed> {
        let process = self.started(detector, order, journal)?;
        thread::sleep(CALM);
        let tells = detector.tells(&order.folder.join("said"), order.folder);
        let stated = || detector.stated_fps(&fs::read_to_string(&tells).unwrap_or_default());
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
        let sent = sent?;
        ended.map_err(Failed::Program)?;
        let arrived = sent.stream.sent.saturating_sub(ring_full);
        let detection = Detection {
            after_s: reported.map(|(after, _)| after.as_secs_f64()),
            stated_fps: reported.map(|(_, fps)| fps),
            true_fps: arrived as f64 / (sent.stream.last_ns.max(1) as f64 / 1e9),
        };
        Ok(Outcome { sent, ring_full, detection })
    }
}

fn judged(outcome: &Outcome, load: &Load, settings: &Settings) -> Trial {
    let (stream, detection) = (&outcome.sent.stream, outcome.detection);
    let full = DropCounter {
        name: RING_FULL.into(),
        owner: Owner::Tester,
        frames: outcome.ring_full,
        source: "tx_dropped of t0".into(),
    };
    // An attack ends when it is reported: the sent frames are also the intended ones.
    let accounting = Accounting {
        offered: stream.sent,
        sent: stream.sent,
        received: stream.sent.saturating_sub(outcome.ring_full),
        drop_counters: Some(full).into_iter().filter(|line| line.frames > 0).collect(),
        ..Accounting::default()
    };
    // An attack that comes in bursts is none the less one.
    let rate_error = load.fps.map_or(0.0, |fps| detection.true_fps / fps - 1.0);
    let noise = Noise { rate_error, ..Noise::default() };
    accounting.trial(load, detection.true_fps, noise, &settings.limits).with_detail(&detection)
}

/// Why a program cannot take part, as far as can be said without trying.
fn missing(detector: Detector) -> Option<String> {
    match detector {
        Detector::Weir => programs::not_weir(),
        Detector::Peer(peer) => programs::missing(peer.name(), super::PROGRAMS),
    }
}

fn version(detector: Detector) -> String {
    match detector {
        Detector::Weir => env!("CARGO_PKG_VERSION").into(),
        Detector::Peer(peer) => programs::version(peer.name(), super::PROGRAMS),
    }
}
