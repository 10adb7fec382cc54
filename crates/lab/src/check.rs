//! Injects known faults, and checks that a trial finds each of them and nothing else. It shows whether a tester is reliable on
//! this machine.
//!
//! ```text
//! plant: faulty device, CPU hog, second run > trial > findings = what was planted?
//! ```

mod capture;
mod delay;

pub use capture::{CaptureCheckError, CaptureChecker, Proof as CaptureProof, Way};
pub use delay::{DELAYS, DelayCheck, GAP, Pair, Proof, RESOLUTION};

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_load::counts::Load;
use weir_load::{Control, TesterKind};
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;
use weir_testbed::hog::Hog;
use weir_testbed::journal::{self, Journal};

use crate::error::RunError;
use crate::frames::{Limits, PointSpec, Settings, Setup};
use weir_record::record::{CpuUse, DropCounter, Fault, Finding, Purpose, Trial, Verdict};

/// How long the machine may disturb what is planted.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What a faulty device and its tester pass without loss on a slow machine, frames/s.
const FPS: f64 = 50e3;
/// For losses that take long to see.
const FAST_FPS: f64 = 200e3;

/// Something that is made to go wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plant {
    /// Its name in words.
    pub name: &'static str,
    /// What the device does; see [`Faults`].
    faults: &'static str,
    /// What else goes on.
    beside: Beside,
    /// Frames of the trial.
    pub frames: u64,
    fps: f64,
    /// Name of what must be found, and the range of its figure; `None` = nothing.
    expected: Option<(&'static str, u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    /// Something has the tester's CPU.
    Hog,
    /// A run that does not alternate with others.
    SecondRun,
}

const CLEAN: Plant =
    Plant { name: "no fault", faults: "", beside: Beside::Nothing, frames: 20_000, fps: FPS, expected: None };

const fn fault(
    name: &'static str,
    faults: &'static str,
    found: &'static str,
    least: u64,
    most: u64,
) -> Plant {
    Plant { name, faults, expected: Some((found, least, most)), ..CLEAN }
}

const fn rare(name: &'static str, faults: &'static str, frames: u64, lost: u64) -> Plant {
    Plant { frames, fps: FAST_FPS, ..fault(name, faults, "loss", lost, lost) }
}

const fn beside(name: &'static str, beside: Beside) -> Plant {
    Plant { beside, ..fault(name, "", "tester-starved", 0, 0) }
}

/// Everything that can be planted. Faults hit none of the last frames, so that what is held back gets out.
pub const PLANTS: [Plant; 19] = [
    CLEAN,
    fault("loss 1e-2", "drop=1/101", "loss", 198, 198),
    fault("loss 1e-3", "drop=1/1001", "loss", 19, 19),
    rare("loss 1e-4", "drop=1/10001", 60_000, 5),
    rare("loss 1e-5", "drop=1/100001", 600_000, 5),
    rare("loss 1e-6", "drop=1/1000001", 3_100_000, 3),
    fault("bursts of 5", "burst=5/1001", "loss-bursts", 5, 5),
    fault("bursts of 40", "burst=40/5001", "loss-bursts", 40, 40),
    fault("reordered by 1", "reorder=1/101", "reordered", 1, 1),
    fault("reordered by 7", "reorder=7/103", "reordered", 7, 7),
    fault("reordered by 50", "reorder=50/301", "reordered", 50, 50),
    fault("duplicated", "duplicate=1/501", "duplicated", 39, 39),
    fault("corrupted", "corrupt=1/251", "corrupted", 79, 79),
    fault("delay 0.5 ms", "delay=500us", "delayed", 500_000, 1_000_000),
    fault("delay 5 ms", "delay=5ms", "delayed", 5_000_000, 5_500_000),
    fault("stall 2 ms", "stall=2ms@5000", "stall", 1_900_000, 12_000_000),
    fault("stall 50 ms", "stall=50ms@5000", "stall", 49_000_000, 60_000_000),
    beside("CPU hog", Beside::Hog),
    beside("second run", Beside::SecondRun),
];

/// The outcome of a planted bottleneck.
#[derive(Debug)]
pub enum Answer {
    /// It was named, and nothing else.
    Named,
    /// It was not, or something else was.
    Wrong(Box<Trial>),
    /// No trial was left in peace by the machine; the last one.
    Disturbed(Box<Trial>),
    /// It cannot be planted here, for this reason.
    Impossible(&'static str),
}

/// What is needed to plant something.
pub struct Checker {
    settings: Settings,
    /// What the fastest frame takes on a wire, ns.
    wire_min_ns: u64,
}

impl Checker {
    /// Measures the wire, which delays are compared to.
    ///
    /// # Errors
    /// Without the right to build test beds.
    pub fn new(tester: TesterKind, seed: u64) -> Result<Checker, RunError> {
        let limits = Limits { unexplained: 0.0, ..Limits::default() };
        let settings = Settings { tester, seed, limits, external: None, tsc_hz: None };
        let mut checker = Checker { settings, wire_min_ns: 0 };
        let mut wire = checker.setup(DutKind::WIRE, "")?;
        let trial = trial(&mut wire, &CLEAN)?;
        checker.wire_min_ns = trial.streams[0].latency.min_ns;
        Ok(checker)
    }

    /// What the fastest frame takes on a wire, ns: the tester's own share of each latency.
    pub fn wire_min_ns(&self) -> u64 {
        self.wire_min_ns
    }

    /// Plants something and looks whether it is found. Trials that the machine disturbed are repeated for as long as
    /// `patience` lasts, see [`PATIENCE`]; returns their number, too.
    ///
    /// # Errors
    /// When a trial could not be made.
    pub fn plant(&self, plant: &Plant, patience: Duration) -> Result<(Answer, usize), RunError> {
        let begin = Instant::now();
        for disturbed in 0.. {
            let answer = self.attempt(plant)?;
            match answer {
                Answer::Disturbed(_) if begin.elapsed() < patience => {}
                _ => return Ok((answer, disturbed)),
            }
        }
        unreachable!("patience has an end")
    }

    fn attempt(&self, plant: &Plant) -> Result<Answer, RunError> {
        let mut setup = self.setup(DutKind::FAULTY, plant.faults)?;
        setup.compare_to_wire(self.wire_min_ns);
        if plant.beside != Beside::Nothing && setup.cpus().shared {
            return Ok(Answer::Impossible("tester and device share a CPU"));
        }
        let trial = match plant.beside {
            Beside::Nothing => trial(&mut setup, plant)?,
            Beside::Hog => {
                let Some(_hog) = Hog::on(setup.cpus().tester[0]) else {
                    return Ok(Answer::Impossible("real-time threads are not allowed"));
                };
                trial(&mut setup, plant)?
            }
            Beside::SecondRun => self.beside_another(&mut setup, plant)?,
        };
        Ok(if plant.beside == Beside::Nothing && is_disturbed(&trial) {
            Answer::Disturbed(Box::new(trial))
        } else if plant.is_named_by(&trial) {
            Answer::Named
        } else {
            Answer::Wrong(Box::new(trial))
        })
    }

    /// A trial while another run sends as fast as it can on the same CPUs.
    fn beside_another(&self, setup: &mut Setup, plant: &Plant) -> Result<Trial, RunError> {
        let (stop, started) = (AtomicBool::new(false), AtomicBool::new(false));
        let goes_on = |sent, _| started.store(sent > 0, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Result<(), RunError> {
                let mut setup = self.setup(DutKind::KERNEL_FORWARD, "")?;
                let long = Load::full_speed(Duration::from_secs(60));
                setup.out_of_turn(&long, &Control::new(&stop, &goes_on)).map(drop)
            });
            while !started.load(Ordering::Relaxed) && !other.is_finished() {
                std::thread::yield_now();
            }
            let trial = trial(setup, plant);
            stop.store(true, Ordering::Relaxed);
            other.join().expect("the other run does not panic")?;
            trial
        })
    }

    fn setup(&self, dut: DutKind, faults: &str) -> Result<Setup, RunError> {
        let point = PointSpec::plain(dut, 128, 10);
        let faults: Faults = faults.parse().expect("written as faults are");
        Setup::build(&point, &self.settings, &faults, &mut Journal::in_dir(&journal::default_dir()))
    }
}

impl Plant {
    /// The same, sent no faster than this, frames/s.
    pub fn at_most(self, fps: f64) -> Plant {
        Plant { fps: self.fps.min(fps), ..self }
    }

    fn is_named_by(&self, trial: &Trial) -> bool {
        match (self.expected, &trial.findings[..]) {
            (None, []) => true,
            (Some((name, least, most)), [finding]) => {
                // Frames that left late find the end of a stall sooner.
                let late_ns = if name == "stall" { trial.noise.late_max_ns } else { 0 };
                let least = least.saturating_sub(late_ns);
                finding.fault.name() == name && range(least, most).contains(&figure(&finding.fault))
            }
            // A run beside takes both CPUs.
            (Some(("tester-starved", ..)), [first, second]) => {
                [first.fault.name(), second.fault.name()] == ["tester-starved", "device-starved"]
            }
            _ => false,
        }
    }
}

fn range(least: u64, most: u64) -> RangeInclusive<u64> {
    least..=most
}

/// What is known of a planted fault beforehand.
fn figure(fault: &Fault) -> u64 {
    match *fault {
        Fault::Loss { frames, .. } | Fault::Duplicated { frames } | Fault::Corrupted { frames } => frames,
        Fault::LossBursts { longest, .. } => longest,
        Fault::Stall { longest_ns, .. } => longest_ns,
        Fault::Reordered { by, .. } => by,
        Fault::Delayed { by_ns } => by_ns,
        Fault::TesterLost { frames } => frames,
        Fault::TesterStarved { .. } | Fault::DeviceStarved { .. } => 0,
    }
}

/// Share of a CPU that others may have beside tester and device: more, and a stall is as long as theirs.
const OTHERS: f64 = 0.25;

/// The machine may lose frames too, be too busy to send, or have the device wait: then the verdict, the drop counters or the CPUs
/// say so.
fn is_disturbed(trial: &Trial) -> bool {
    let crowded = |cpu: &CpuUse| cpu.busy - cpu.dut - cpu.tester > OTHERS;
    let starved = |finding: &Finding| finding.fault.name().ends_with("starved");
    let lost = |line: &DropCounter| line.name.contains("full");
    trial.verdict != Verdict::Valid
        || trial.findings.iter().any(starved)
        || trial.drop_counters.iter().any(lost)
        || trial.cost.cpus.iter().any(crowded)
}

fn trial(setup: &mut Setup, plant: &Plant) -> Result<Trial, RunError> {
    let load = Load::steady(plant.fps, Duration::from_secs_f64(plant.frames as f64 / plant.fps));
    let stop = AtomicBool::new(false);
    setup.trial(&load, Purpose::Procedure, &Control::new(&stop, &|_, _| {}))
}
