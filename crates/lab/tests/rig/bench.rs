//! A rig with a plain point, and trials that a busy machine may spoil but not falsify.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_lab::plan::{Limits, PointSpec};
use weir_lab::record::{Owner, Purpose, Trial, Verdict};
use weir_lab::run::{Rig, RunError, Settings};
use weir_load::counts::Load;
use weir_load::{Control, TesterKind};
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;
use weir_testbed::journal::Journal;
use weir_testbed::rules::RuleForm;

use crate::crowd::is_crowded;

/// How long a machine may be too busy to let one trial alone, at least one attempt.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same while there is a crowd.
const MOST_PATIENCE: Duration = Duration::from_secs(300);

/// The first attempt that the machine left alone; the others say what they were disturbed by. Panics with the last of
/// those if it takes too long.
pub(crate) fn undisturbed<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    let too_long = || begin.elapsed() > PATIENCE && (!is_crowded() || begin.elapsed() > MOST_PATIENCE);
    loop {
        match attempt() {
            Ok(calm) => return calm,
            Err(disturbed) if too_long() => {
                panic!("the machine has disturbed every attempt, the last one: {disturbed}")
            }
            Err(_) => {}
        }
    }
}

/// One rig at a time: two would take each other's CPUs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves a test, aloud, where rigs with XDP cannot be built or nothing can be measured; else waits for its turn.
macro_rules! need_rig {
    () => {{
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: {} needs root (network namespaces, XDP)", module_path!());
            return;
        }
        let turn = $crate::bench::alone();
        if $crate::crowd::is_crowded() {
            println!("skipped: {} found this machine too busy to measure on", module_path!());
            return;
        }
        turn
    }};
}
pub(crate) use need_rig;

/// A point of small frames from a to b, in 10 flows.
pub(crate) fn point(dut: DutKind) -> PointSpec {
    PointSpec { rules: Some(25), form: Some(RuleForm::NftChain), ..PointSpec::plain(dut, 128, 10) }
}

/// Not one frame may be unexplained; what the hypervisor takes is not the business of these tests.
pub(crate) fn settings(tester: TesterKind) -> Settings {
    let limits = Limits { unexplained: 0.0, steal: 1.0, ..Limits::default() };
    Settings { tester, seed: 1, limits, external: None, tsc_hz: None }
}

/// A rig and how to use it.
pub(crate) struct Bench {
    pub(crate) rig: Rig,
}

impl Bench {
    pub(crate) fn new(point: &PointSpec, tester: TesterKind, faults: &str) -> Bench {
        let faults: Faults = faults.parse().expect("written as faults are");
        let mut journal = Journal::in_dir(&std::env::temp_dir());
        let rig = Rig::build(point, &settings(tester), &faults, &mut journal).expect("root builds rigs");
        Bench { rig }
    }

    /// `frames` in `ms` milliseconds, whatever comes of it.
    pub(crate) fn trial(&mut self, frames: u64, ms: u64) -> Result<Trial, RunError> {
        let duration = Duration::from_millis(ms);
        let load = Load::steady(frames as f64 / duration.as_secs_f64(), duration);
        self.offer(&load)
    }

    pub(crate) fn offer(&mut self, load: &Load) -> Result<Trial, RunError> {
        self.watched(load, &|_, _| {})
    }

    /// `watch` is told frames sent and received so far, ten times a second.
    pub(crate) fn watched(
        &mut self,
        load: &Load,
        watch: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Trial, RunError> {
        let stop = AtomicBool::new(false);
        let trial = self.rig.trial(load, Purpose::Search, &Control::new(&stop, watch))?;
        let loss = trial.dut_loss_ratio();
        let own = trial.dropped_by(Owner::Tester);
        assert_eq!(loss, trial.lost.saturating_sub(own) as f64 / trial.sent.max(1) as f64, "{trial:#?}");
        Ok(trial)
    }

    /// A trial in which all frames were sent in time and all arrived. Others may come before it, but whatever
    /// they lost has a name.
    pub(crate) fn calm(&mut self, frames: u64, ms: u64) -> Trial {
        let duration = Duration::from_millis(ms);
        self.calm_load(&Load::steady(frames as f64 / duration.as_secs_f64(), duration), frames)
    }

    /// The same of a load that has `frames`.
    pub(crate) fn calm_load(&mut self, load: &Load, frames: u64) -> Trial {
        undisturbed(|| {
            let trial = self.offer(load).expect("a trial");
            assert_books_close(&trial);
            if trial.verdict == Verdict::Valid && trial.lost == 0 {
                assert_eq!(trial.offered, frames, "{trial:#?}");
                assert_eq!((trial.sent, trial.received), (frames, frames), "{trial:#?}");
                assert_eq!(trial.ledger, [], "nothing was lost");
                return Ok(trial);
            }
            println!("not calm: {:?} {:?} {:?}", trial.verdict, trial.reasons, trial.ledger);
            Err(shown(&trial))
        })
    }
}

/// Every frame is received, or lost with a name.
pub(crate) fn assert_books_close(trial: &Trial) {
    let named = trial.dropped_by(Owner::Tester) + trial.dropped_by(Owner::Dut);
    assert_eq!(trial.sent, trial.received + named, "{:#?}", brief(trial));
    assert_eq!((trial.lost, trial.unexplained), (named, 0), "{:#?}", brief(trial));
    assert_ne!(trial.verdict, Verdict::Invalid, "{:#?}", trial.reasons);
}

/// A trial as messages show it.
pub(crate) fn shown(trial: &Trial) -> String {
    format!("{:#?}", brief(trial))
}

/// A trial without its histograms, for messages.
pub(crate) fn brief(trial: &Trial) -> Trial {
    let mut trial = trial.clone();
    trial.streams.iter_mut().for_each(|stream| stream.latency.buckets.clear());
    trial
}

/// Is this when a frame left that was due then? It may have been late.
pub(crate) fn left(trial: &Trial, sent_ns: u64, due_ns: u64) -> bool {
    (due_ns..=due_ns + trial.noise.late_max_ns).contains(&sent_ns)
}

pub(crate) fn for_both_testers(check: impl Fn(TesterKind)) {
    for tester in [TesterKind::Xdp, TesterKind::Packet] {
        println!("{tester:?}");
        check(tester);
    }
}
