//! Every search against every simulated device: does it find the truth, and admit where it can not?

use std::time::Duration;

use super::bracket::Resolution;
use super::mlr::Goal;
use super::sim::{Dut, Sim, Tester};
use super::*;
use crate::rng::Rng;

const SEEDS: u64 = 200;
const MIN_FPS: f64 = 9001.0;
const MAX_FPS: f64 = 14.88e6;
const WIDTH: f64 = 0.005;
const MINUTE: Duration = Duration::from_secs(60);

fn mlr() -> Search {
    Search::Mlr(mlr::Config {
        goals: vec![Goal::ndr(), Goal::pdr()],
        min_fps: MIN_FPS,
        max_fps: MAX_FPS,
        warm_up: Some(Duration::from_secs(1)),
        time_limit: 20 * MINUTE,
        preceding_targets: 2,
        expansion: 2,
        confident: false,
    })
}

fn rfc2544(search_trial: Option<Duration>, loss_tolerance: f64) -> Search {
    Search::Rfc2544(rfc2544::Config {
        min_fps: MIN_FPS,
        max_fps: MAX_FPS,
        final_trial: MINUTE,
        search_trial,
        loss_tolerance,
        resolution: Resolution { relative: WIDTH, absolute_fps: 0.0 },
    })
}

fn classic() -> Search {
    let resolution = Resolution { relative: WIDTH, absolute_fps: 0.0 };
    Search::Classic(classic::Config { resolution, ..classic::Config::published(MIN_FPS, MAX_FPS) })
}

/// Each search with the loss ratio and the length of the trial that decides each of its goals.
fn searches() -> Vec<(&'static str, Search, Vec<f64>, f64)> {
    let two_seconds = Some(Duration::from_secs(2));
    vec![
        ("mlrsearch", mlr(), vec![0.0, 0.005], 1.0),
        ("rfc2544", rfc2544(None, 1e-4), vec![1e-4], 60.0),
        ("rfc2544 short", rfc2544(two_seconds, 1e-4), vec![1e-4], 60.0),
        ("rfc2544 no loss", rfc2544(two_seconds, 0.0), vec![0.0], 60.0),
        // All kept trials are alike here, so the stricter of the two limits decides.
        ("classic", classic(), vec![0.001], 120.0),
    ]
}

/// A rate between 20 kfps and 5 Mfps, from the seed.
fn rate(seed: u64) -> f64 {
    2e4 * (250f64.ln() * Rng::new(seed).unit()).exp()
}

/// The bursts of all devices that have some: rare enough for at most 5 % of 1 s trials to be hit.
const BURSTS_PER_S: f64 = 0.05;

fn duts(seed: u64) -> [Dut; 4] {
    let capacity_fps = rate(seed);
    let (every, stall) = (Duration::from_millis(125), Duration::from_millis(1));
    [
        Dut::Step { capacity_fps },
        Dut::Soft { knee_fps: capacity_fps, loss_at_double: 0.5 },
        Dut::Spikes { capacity_fps, per_s: BURSTS_PER_S, frames: 1 },
        Dut::Stall { capacity_fps: 1e9, every, stall, buffer: capacity_fps as u64 / 1000 },
    ]
}

/// The range of the highest load that loses no more than `loss` in trials of `seconds`, which is a range
/// because whole frames are lost.
fn truth(dut: &Dut, loss: f64, seconds: f64) -> (f64, f64) {
    let rounding = |fps: f64| 2.0 / (fps * seconds);
    match *dut {
        Dut::Step { capacity_fps: c } => {
            (c / (1.0 - loss) * (1.0 - rounding(c)), c / (1.0 - loss) * (1.0 + rounding(c)))
        }
        Dut::Soft { knee_fps, loss_at_double } => {
            let load = |loss: f64| knee_fps * (1.0 + (loss / loss_at_double).sqrt());
            (load(loss) * (1.0 - rounding(knee_fps)), load(loss + rounding(knee_fps)))
        }
        Dut::Spikes { capacity_fps: c, .. } => {
            let bursts = if loss > 0.0 { (4.0 * BURSTS_PER_S * seconds + 10.0) / (c * seconds) } else { 0.0 };
            let slack = rounding(c) + bursts;
            (c / (1.0 - loss) * (1.0 - slack), c / (1.0 - loss) * (1.0 + slack))
        }
        Dut::Stall { every, stall, buffer, .. } => {
            let (every, stall) = (every.as_secs_f64(), stall.as_secs_f64());
            let load = |buffer: f64| buffer / (stall - loss * every);
            (load(buffer as f64), load(buffer as f64 + 1.0) * (1.0 + rounding(buffer as f64 / stall)))
        }
        ref other => panic!("{other:?} has a rate by chance only"),
    }
}

/// Bursts at any load leave no load without loss in a minute: no goal without tolerance can be met.
fn has_truth(name: &str, dut: &Dut) -> bool {
    !(name == "rfc2544 no loss" && matches!(dut, Dut::Spikes { .. }))
}

#[test]
fn every_search_finds_the_truth_within_its_width() {
    let mut regular = 0;
    for seed in 0..SEEDS {
        for (dut, (name, search, losses, seconds)) in
            duts(seed).iter().flat_map(|dut| searches().into_iter().map(move |search| (dut, search)))
        {
            if !has_truth(name, dut) {
                continue;
            }
            // Between the device and the highest load, the tester's limit must not show.
            let limit = 1.05 * truth(dut, losses[losses.len() - 1], seconds).1;
            let max_fps = if seed % 2 == 0 { f64::INFINITY } else { limit };
            let tester = Tester { max_fps, unusable: 0.02, overhead: Duration::from_millis(100) };
            let mut sim = Sim::new(dut.clone(), tester, seed);
            let outcomes = search.run(&mut sim).expect("a simulation does not stop");
            for (outcome, loss) in outcomes.iter().zip(losses) {
                let (low, high) = truth(dut, loss, seconds);
                let GoalValue { lower_fps: Some(lower), upper_fps: Some(upper), .. } = outcome.value else {
                    panic!("seed {seed} {name} {dut:?}: {outcome:?}");
                };
                let found = lower <= high && upper >= low && (upper - lower) / upper <= WIDTH;
                assert!(
                    found && outcome.value.irregular.is_none(),
                    "seed {seed} {name} {dut:?} {low}: {outcome:?}"
                );
                regular += 1;
            }
        }
    }
    println!("{regular} regular results");
}

/// All goals of a search on one device end with `reason`.
fn check(name: &str, search: &Search, mut sim: Sim, reason: Irregular) -> Vec<GoalOutcome> {
    let outcomes = search.run(&mut sim).expect("a simulation does not stop");
    for outcome in &outcomes {
        assert_eq!(outcome.value.irregular, Some(reason.to_string()), "{name} {sim:?}: {outcome:?}");
    }
    outcomes
}

#[test]
fn a_limited_tester_is_never_the_throughput_of_the_device() {
    for seed in 0..SEEDS {
        for (name, search, losses, seconds) in searches() {
            for dut in duts(seed).iter().filter(|dut| has_truth(name, dut)) {
                let max_fps = truth(dut, losses[0], seconds).0 * (0.6 + 0.3 * Rng::new(!seed).unit());
                let sim = Sim::new(dut.clone(), Tester { max_fps, ..Tester::default() }, seed);
                for outcome in check(name, &search, sim, Irregular::TesterLimited) {
                    let fps = outcome.value.fps.expect("the tester reaches some load");
                    let at_least = (1.0 - 2.0 * WIDTH) * max_fps..=max_fps;
                    assert!(at_least.contains(&fps), "seed {seed} {name} {dut:?} {max_fps}: {outcome:?}");
                    assert_eq!(outcome.value.upper_fps, None, "seed {seed} {name} {dut:?}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_found_is_said() {
    let behind = |tester, capacity_fps| Sim::new(Dut::Step { capacity_fps }, tester, 1);
    let step = |capacity_fps| behind(Tester::default(), capacity_fps);
    for (name, search, ..) in searches() {
        for outcome in check(name, &search, step(2e7), Irregular::MaxIsNotUpper) {
            assert_eq!((outcome.value.fps, outcome.value.upper_fps), (Some(MAX_FPS), None), "{name}");
        }
        for outcome in check(name, &search, step(5e3), Irregular::MinIsLossy) {
            assert_eq!((outcome.value.fps, outcome.value.upper_fps), (None, Some(MIN_FPS)), "{name}");
        }
        let slow = behind(Tester { max_fps: 1e3, ..Tester::default() }, 1e6);
        for outcome in check(name, &search, slow, Irregular::TesterLimited) {
            assert_eq!((outcome.value.fps, outcome.value.upper_fps), (None, None), "{name}");
        }
        let noisy = behind(Tester { unusable: 1.0, ..Tester::default() }, 1e6);
        for outcome in check(name, &search, noisy, Irregular::NoValidTrial) {
            assert_eq!((outcome.value.fps, outcome.value.upper_fps), (None, None), "{name}");
            assert!(outcome.value.trials <= 20, "{name}: {} trials", outcome.value.trials);
        }
    }
    let bursts = Dut::Spikes { capacity_fps: 1e6, per_s: 1.0, frames: 10 };
    check("rfc2544", &rfc2544(None, 0.0), Sim::new(bursts, Tester::default(), 1), Irregular::MinIsLossy);
}

#[test]
fn the_time_limit_is_kept_and_one_stop_ends_all() {
    let Search::Mlr(config) = mlr() else { unreachable!() };
    let brief = Search::Mlr(mlr::Config { time_limit: Duration::from_secs(12), ..config });
    let sim = Sim::new(Dut::Step { capacity_fps: 1e6 }, Tester::default(), 1);
    for outcome in check("mlrsearch", &brief, sim, Irregular::TimeLimit) {
        assert_eq!(outcome.value.trial_s, 12.0);
    }

    struct Interrupted;
    impl Measurer for Interrupted {
        fn measure(&mut self, _: f64, _: Duration) -> Result<Measured, Stop> {
            Err(Stop("interrupted".into()))
        }
    }
    for (name, search, ..) in searches() {
        assert_eq!(search.run(&mut Interrupted), Err(Stop("interrupted".into())), "{name}");
    }
}

#[test]
fn parameters_carry_their_units() {
    let text = |search: Search| {
        let mut sim = Sim::new(Dut::Step { capacity_fps: 1e6 }, Tester::default(), 1);
        let outcome = search.run(&mut sim).expect("a simulation does not stop").pop().expect("one goal");
        let pairs = outcome.parameters.iter().map(|(name, value)| format!("{name} {value}"));
        format!("{}: {}", outcome.goal, pairs.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        text(mlr()),
        "PDR 0.5%: loss ratio 0.5 %, exceed ratio 50 %, final trial 1 s, duration sum 21 s, initial trial 1 s, \
         width 0.5 %, min load 9001 frames/s, max load 14880000 frames/s, warm-up 1 s, time limit 1200 s, \
         preceding targets 2, expansion 2, until the interval is closed no"
    );
    assert_eq!(
        text(rfc2544(None, 1e-4)),
        "throughput: final trial 60 s, search trial 60 s, loss tolerance 0.01 %, resolution 0.5 %, \
         resolution at least 0 frames/s, min load 9001 frames/s, max load 14880000 frames/s"
    );
    assert_eq!(
        text(classic()),
        "classic: trials per load 10, discarded (highest loss) 3, trial 120 s, mean loss of the kept trials \
         0.15 %, loss of at least half of the kept trials 0.1 %, resolution 0.5 %, resolution at least 0 \
         frames/s, min load 9001 frames/s, start load 14880000 frames/s, max load 14880000 frames/s"
    );
}

/// Rows: a change that makes no sense, and the first words of each complaint.
fn check_invalid(search: Search, complaints: &[&str]) {
    let mistakes = search.validate().err().unwrap_or_default();
    let texts: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let alike =
        texts.len() == complaints.len() && texts.iter().zip(complaints).all(|(t, c)| t.starts_with(c));
    assert!(alike, "expected {complaints:?}, got {texts:#?}");
}

#[test]
fn senseless_parameters_are_refused() {
    let mlr_with = |change: fn(&mut mlr::Config)| {
        let Search::Mlr(mut config) = mlr() else { unreachable!() };
        change(&mut config);
        Search::Mlr(config)
    };
    check_invalid(mlr_with(|_| {}), &[]);
    check_invalid(mlr_with(|c| c.goals.clear()), &["there is no goal"]);
    check_invalid(mlr_with(|c| c.goals[1].name = "NDR".into()), &["goal \"NDR\" is there twice"]);
    check_invalid(mlr_with(|c| (c.min_fps, c.max_fps) = (2.0, 1.0)), &["loads from 2 to 1 frames/s"]);
    check_invalid(mlr_with(|c| c.min_fps = 0.0), &["loads from 0 to"]);
    check_invalid(mlr_with(|c| c.max_fps = f64::INFINITY), &["loads from 9001 to inf"]);
    check_invalid(mlr_with(|c| c.min_fps = f64::NAN), &["loads from NaN"]);
    check_invalid(mlr_with(|c| c.goals[0].width = 0.0), &["width of goal \"NDR\" is 0:"]);
    check_invalid(mlr_with(|c| c.goals[0].width = 1.0), &["width of goal \"NDR\" is 1:"]);
    check_invalid(mlr_with(|c| c.goals[0].loss_ratio = 1.0), &["loss ratio of goal \"NDR\" is 1:"]);
    check_invalid(mlr_with(|c| c.goals[0].exceed_ratio = -0.1), &["exceed ratio of goal \"NDR\" is -0.1:"]);
    check_invalid(
        mlr_with(|c| c.goals[0].initial_trial = MINUTE),
        &[
            "initial trial of goal \"NDR\" is 60s, more than the final",
            "initial trial of goal \"NDR\" is 60s",
        ],
    );
    check_invalid(mlr_with(|c| c.time_limit = Duration::ZERO), &["time limit is 0 s"]);
    check_invalid(mlr_with(|c| c.expansion = 1), &["expansion is 1: set at least 2"]);
    check_invalid(mlr_with(|c| c.preceding_targets = 99), &["preceding targets is 99: set at most 10"]);
    check_invalid(rfc2544(Some(2 * MINUTE), 0.0), &["search trial is 120s, more than the final trial"]);
    check_invalid(rfc2544(Some(Duration::ZERO), 2.0), &["search trial is 0 s", "loss tolerance is 2:"]);
    let Search::Classic(config) = classic() else { unreachable!() };
    let resolution = Resolution { relative: 0.0, absolute_fps: -1.0 };
    let senseless = classic::Config { discarded: 10, start_fps: 1.0, resolution, ..config };
    check_invalid(
        Search::Classic(senseless),
        &[
            "start load is 1 ",
            "discarded trials is 10: set at most 9",
            "relative resolution is 0",
            "absolute",
        ],
    );
}
