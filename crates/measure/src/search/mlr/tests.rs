//! Whole searches against simulated devices.

use super::*;
use crate::search::Search;
use crate::search::sim::{Dut, Sim, Tester};
use crate::search::{Measurer, rfc2544};

const MPPS: f64 = 1e6;

fn config(goals: &[Goal], min_fps: f64, max_fps: f64) -> Config {
    Config {
        goals: goals.to_vec(),
        min_fps,
        max_fps,
        warm_up: None,
        time_limit: Duration::from_secs(1200),
        preceding_targets: 2,
        expansion: 2,
        confident: false,
    }
}

fn run(config: Config, mut sim: Sim) -> Vec<GoalValue> {
    let outcomes = Search::Mlr(config).run(&mut sim).expect("a simulation does not stop");
    outcomes.into_iter().map(|outcome| outcome.value).collect()
}

fn close(got: Option<f64>, expected: f64) -> bool {
    got.is_some_and(|got| (got / expected - 1.0).abs() < 1e-9)
}

/// The example of the reference library's README: a device that forwards a million whole frames/s.
#[test]
fn example_of_the_reference_library() {
    let strict = |goal: Goal| Goal { exceed_ratio: 0.005, ..goal };
    let goals = [strict(Goal::ndr()), strict(Goal::pdr())];
    let values =
        run(config(&goals, 1e3, 1e9), Sim::new(Dut::Step { capacity_fps: MPPS }, Tester::default(), 0));
    let [ndr, pdr] = &values[..] else { panic!("{values:?}") };
    assert!(close(ndr.fps, 997497.6029392382), "{ndr:?}");
    assert!(close(pdr.fps, 1000000.6730730429), "{pdr:?}");
    assert!(close(pdr.lower_fps, 1002508.6747611101), "{pdr:?}");
    assert_eq!((ndr.trials, ndr.irregular.as_deref()), (45, None));
}

/// Trials and seconds of the reference library for the same device and goals.
#[test]
fn no_more_trial_time_than_the_reference_library() {
    for (goals, trials, trial_s) in
        [(vec![Goal::ndr(), Goal::pdr()], 35, 35.0), (vec![Goal::rfc2544()], 7, 138.5)]
    {
        let sim = Sim::new(Dut::Step { capacity_fps: MPPS }, Tester::default(), 0);
        let values = run(config(&goals, 9001.0, 14.88 * MPPS), sim);
        let value = &values[0];
        println!("{}: {} trials, {} s", goals[0].name, value.trials, value.trial_s);
        assert!(value.trials <= trials && value.trial_s <= trial_s, "{value:?}");
        assert_eq!(value.irregular, None);
    }
}

/// A device that stands still for a moment every 20 s: short trials promise a hundred times what a minute
/// without loss allows, and steps of a fixed size would take a thousand minutes to get there.
#[test]
fn a_rate_far_below_what_short_trials_promise_is_found() {
    let (every, stall) = (Duration::from_secs(20), Duration::from_millis(1));
    let dut = Dut::Stall { capacity_fps: 1e7, every, stall, buffer: 100 };
    let hour = Duration::from_secs(3600);
    let mlr = Search::Mlr(Config { time_limit: hour, ..config(&[Goal::rfc2544()], 9001.0, 14.88 * MPPS) });
    let bisection = Search::Rfc2544(rfc2544::Config {
        min_fps: 9001.0,
        max_fps: 14.88 * MPPS,
        final_trial: Duration::from_secs(60),
        search_trial: Some(Duration::from_secs(1)),
        loss_tolerance: 0.0,
        resolution: rfc2544::Resolution { relative: 0.005, absolute_fps: 0.0 },
    });
    for search in [mlr, bisection] {
        let mut sim = Sim::new(dut.clone(), Tester::default(), 0);
        let value = &search.run(&mut sim).expect("a simulation does not stop")[0].value;
        println!("{} trials, {} s", value.trials, value.trial_s);
        let (lower, upper) = (value.lower_fps.expect("found"), value.upper_fps.expect("found"));
        assert!(lower < 101e3 && upper >= 100e3 && (upper - lower) / upper <= 0.005, "{value:?}");
        assert!(value.trial_s < 1800.0 && value.irregular.is_none(), "{value:?}");
    }
}

/// A tester that always says it managed almost what was asked for.
struct Optimist {
    max_fps: f64,
}

impl Measurer for Optimist {
    fn measure(&mut self, load_fps: f64, duration: Duration) -> Result<Measured, Stop> {
        if load_fps > self.max_fps {
            return Ok(Measured::TesterLimited { achieved_fps: 0.9999 * load_fps });
        }
        Ok(Measured::Loss { loss_ratio: 0.0, effective: duration })
    }
}

#[test]
fn a_tester_that_misjudges_itself_is_found_out_in_few_trials() {
    let search = Search::Mlr(config(&[Goal::ndr()], 9001.0, 14.88 * MPPS));
    let value = &search.run(&mut Optimist { max_fps: 1e5 }).expect("it does not stop")[0].value;
    assert_eq!(value.irregular.as_deref(), Some("tester-limited"));
    assert!(value.trials <= 80 && value.fps.is_some_and(|fps| fps > 0.99e5 && fps <= 1e5), "{value:?}");
}
