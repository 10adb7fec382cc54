//! A rig with a plain point, and trials that a busy machine may spoil but not falsify.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_lab::error::RunError;
use weir_lab::frames::{Limits, PointSpec, Settings, Setup};
use weir_load::counts::Load;
use weir_load::{Control, TesterKind};
use weir_packet::flow::Direction;
use weir_record::record::{Owner, Purpose, Trial, Verdict};
use weir_testbed::dut::DutKind;
use weir_testbed::fault::Faults;
use weir_testbed::journal::Journal;
use weir_testbed::rules::RuleForm;
use weir_testkit::need_root;

use crate::crowd::is_crowded;

/// How long a machine may be too busy to let one trial alone, and all tests together.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_OF_ALL: Duration = Duration::from_secs(30);
/// The same for one trial when that is spent, or where there is a crowd, beside which nothing is ever in time.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);
/// Frames that do not arrive for so long are not under way any more, though the device may wait for a CPU.
const DRAIN: Duration = Duration::from_millis(200);
/// Share of its time that a device waits for a CPU which something else uses: beyond it, the machine disturbs it.
const STARVED: f64 = 0.02;

/// Ends a test that needs a calm machine and finds none: that is no finding about weir.
struct Disturbed(String);

/// The first attempt that the machine left alone; the others say what they were disturbed by. The test ends as not tested
/// with the last of those if it takes too long.
pub(crate) fn undisturbed<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    static SPENT_S: AtomicU64 = AtomicU64::new(0);
    let begin = Instant::now();
    let too_long = || {
        let time = begin.elapsed();
        let spent = time + Duration::from_secs(SPENT_S.load(Ordering::Relaxed)) > PATIENCE_OF_ALL;
        time > PATIENCE || time > LEAST_PATIENCE && (spent || is_crowded())
    };
    loop {
        match attempt() {
            Ok(calm) => return calm,
            Err(disturbed) if too_long() => {
                SPENT_S.fetch_add(begin.elapsed().as_secs(), Ordering::Relaxed);
                not_tested(disturbed)
            }
            Err(_) => {}
        }
    }
}

/// Ends the test: the machine has disturbed every attempt, the last one so.
pub(crate) fn not_tested(disturbed: String) -> ! {
    resume_unwind(Box::new(Disturbed(disturbed)))
}

/// Runs a test that builds rigs: one at a time, since two would take each other's CPUs; where that cannot be, or the machine
/// leaves no trial alone, it says so in a separate line, which the summary of all tests shows.
pub(crate) fn on_rig(test: impl FnOnce()) {
    static TURN: Mutex<()> = Mutex::new(());
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    need_root!();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // What the test has borrowed is not used after it.
    let Err(panic) = catch_unwind(AssertUnwindSafe(test)) else { return };
    match panic.downcast::<Disturbed>() {
        Ok(disturbed) => println!("{}\nnot tested: machine disturbed: {name}", disturbed.0),
        Err(panic) => resume_unwind(panic),
    }
}

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
    pub(crate) rig: Setup,
    streams: u64,
}

impl Bench {
    pub(crate) fn new(point: &PointSpec, tester: TesterKind, faults: &str) -> Bench {
        let faults: Faults = faults.parse().expect("written as faults are");
        let mut journal = Journal::in_dir(&std::env::temp_dir());
        let rig = Setup::build(point, &settings(tester), &faults, &mut journal).expect("root builds rigs");
        Bench { rig, streams: if point.direction == Direction::Both { 2 } else { 1 } }
    }

    /// `frames` at the pace of so many in `ms` milliseconds, whatever comes of it.
    pub(crate) fn trial(&mut self, frames: u64, ms: u64) -> Result<Trial, RunError> {
        self.offer(&self.all_of(frames, ms))
    }

    /// `frames` of all streams at the pace of so many in `ms` milliseconds. All of them are sent, however late: what becomes
    /// of each is no question of time, so that a busy machine does not change it.
    fn all_of(&self, frames: u64, ms: u64) -> Load {
        let pace = frames as f64 / Duration::from_millis(ms).as_secs_f64();
        let of_each = frames / self.streams;
        Load { max_frames: Some(of_each), drain: Some(DRAIN), ..Load::steady(pace, PATIENCE) }
    }

    pub(crate) fn offer(&mut self, load: &Load) -> Result<Trial, RunError> {
        self.watched(load, &|_, _| {})
    }

    /// `watch` gets frames sent and received so far, ten times a second.
    pub(crate) fn watched(
        &mut self,
        load: &Load,
        watch: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Trial, RunError> {
        let stop = AtomicBool::new(false);
        let trial = self.rig.trial(load, Purpose::Search, &Control::new(&stop, watch))?;
        let loss = trial.dut_loss_ratio();
        let own = trial.dropped_by(Owner::Tester);
        assert_eq!(
            loss,
            trial.counts().lost.saturating_sub(own) as f64 / trial.counts().sent.max(1) as f64,
            "{trial:#?}"
        );
        Ok(trial)
    }

    /// A trial in which all frames arrived. Others may come before it, but whatever they lost has a name.
    pub(crate) fn calm(&mut self, frames: u64, ms: u64) -> Trial {
        self.undisturbed_load(&self.all_of(frames, ms), frames, |_| true)
    }

    /// The same of a load that has `frames`, all of which were sent in time.
    pub(crate) fn calm_load(&mut self, load: &Load, frames: u64) -> Trial {
        self.undisturbed_load(load, frames, |trial| trial.verdict == Verdict::Valid)
    }

    fn undisturbed_load(&mut self, load: &Load, frames: u64, is_good: impl Fn(&Trial) -> bool) -> Trial {
        // A device that gets no CPU still has frames when the tester has waited for long enough: the next trial gets them.
        let mut has_frames = false;
        undisturbed(|| {
            let trial = self.offer(load).expect("a trial");
            let gets_frames = mem::take(&mut has_frames) && trial.verdict == Verdict::Invalid;
            has_frames = trial.noise.dut_wait > STARVED && trial.counts().unexplained > 0;
            if has_frames || gets_frames {
                return Err(shown(&trial));
            }
            assert_accounting_close(&trial);
            if is_good(&trial) && trial.counts().sent == frames && trial.counts().lost == 0 {
                assert_eq!((trial.counts().offered, trial.counts().received), (frames, frames), "{trial:#?}");
                assert_eq!(trial.drop_counters, [], "nothing was lost");
                return Ok(trial);
            }
            println!("not calm: {:?} {:?} {:?}", trial.verdict, trial.reasons, trial.drop_counters);
            Err(shown(&trial))
        })
    }
}

/// Every frame is received, or lost with a name.
pub(crate) fn assert_accounting_close(trial: &Trial) {
    let named = trial.dropped_by(Owner::Tester) + trial.dropped_by(Owner::Dut);
    assert_eq!(trial.counts().sent, trial.counts().received + named, "{:#?}", brief(trial));
    assert_eq!((trial.counts().lost, trial.counts().unexplained), (named, 0), "{:#?}", brief(trial));
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
