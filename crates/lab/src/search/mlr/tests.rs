//! Whole searches against simulated devices.

use super::*;
use crate::search::Search;
use crate::search::sim::{Dut, Sim, Tester};

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
