//! Do results hold the truth as often as they say? Each search against simulated devices whose rate is known, a
//! hundred times each, from seeds; with `COVERAGE=full` a thousand times. The tables that come of it are kept in
//! `coverage-short.txt` and `coverage.txt`; run with `BLESS=1` to write one anew.
//!
//! The truth of a goal is the load up to which a trial of its length exceeds its loss ratio with at most its exceed
//! ratio as the probability. Where a procedure names no such share, it is one half: of the trials for RFC 2544, of the
//! verdicts on a load for the classic one.

use std::fmt::Write;
use std::time::Duration;

use weir_measure::search::mlr::{self, Goal};
use weir_measure::search::rfc2544::Resolution;
use weir_measure::search::sim::{Dut, Sim, Tester};
use weir_measure::search::{Measured, Measurer, Search, classic, rfc2544};
use weir_measure::stats;
use weir_record::record::GoalValue;
use weir_rng::Rng;

/// How often each search is run, where its table is kept, and how many percent of its intervals have to hold the truth: of
/// a hundred that do so at 95 %, 89 or less hold it once in a hundred times.
struct Form {
    seeds: u64,
    file: &'static str,
    least: f64,
}

const SHORT: Form = Form { seeds: 100, file: "coverage-short.txt", least: 90.0 };
const FULL: Form = Form { seeds: 1000, file: "coverage.txt", least: 95.0 };
/// All devices are of this size, frames/s; the highest load offered varies.
const FPS: f64 = 1e6;
const MIN_FPS: f64 = 1e3;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Trials that find out how often one of them loses too much.
const TRUTH_TRIALS: u64 = 1000;

/// A search as it is run here.
struct Row {
    name: &'static str,
    search: fn(f64) -> Search,
}

const ROWS: [Row; 8] = [
    Row { name: "quick, bounds alone", search: |max| mlrsearch(quick(), max, false) },
    Row { name: "quick", search: |max| mlrsearch(quick(), max, true) },
    Row { name: "CSIT, bounds alone", search: |max| mlrsearch(vec![Goal::ndr(), Goal::pdr()], max, false) },
    Row { name: "CSIT", search: |max| mlrsearch(vec![Goal::ndr(), Goal::pdr()], max, true) },
    Row { name: "CSIT, 60 s", search: |max| mlrsearch(vec![Goal::rfc2544()], max, false) },
    Row { name: "bisection 1 s", search: |max| bisection(SECOND, max) },
    Row { name: "RFC 2544", search: |max| bisection(MINUTE, max) },
    Row { name: "classic", search: |max| Search::Classic(classic::Config::published(MIN_FPS, max)) },
];

fn mlrsearch(goals: Vec<Goal>, max_fps: f64, confident: bool) -> Search {
    Search::Mlr(mlr::Config {
        goals,
        min_fps: MIN_FPS,
        max_fps,
        warm_up: None,
        time_limit: 60 * MINUTE,
        preceding_targets: 2,
        expansion: 2,
        confident,
    })
}

/// Goals of short trials.
fn quick() -> Vec<Goal> {
    let goal = |loss_ratio| Goal {
        name: Goal::name_of(loss_ratio),
        loss_ratio,
        exceed_ratio: 0.5,
        initial_trial: Duration::from_millis(100),
        final_trial: Duration::from_millis(250),
        duration_sum: Duration::from_millis(1250),
        width: 0.05,
    };
    vec![goal(0.005), goal(0.0)]
}

fn bisection(trial: Duration, max_fps: f64) -> Search {
    Search::Rfc2544(rfc2544::Config {
        min_fps: MIN_FPS,
        max_fps,
        final_trial: trial,
        search_trial: None,
        loss_tolerance: 0.0,
        resolution: Resolution { relative: 0.005, absolute_fps: 0.0 },
    })
}

fn duts() -> Vec<(&'static str, Dut)> {
    let (capacity_fps, knee_fps, loss_at_double) = (FPS, FPS, 0.5);
    let ms = Duration::from_millis;
    vec![
        ("step", Dut::Step { capacity_fps }),
        ("soft", Dut::Soft { knee_fps, loss_at_double }),
        ("binomial", Dut::Binomial { knee_fps, loss_at_double }),
        ("spikes", Dut::Spikes { capacity_fps, per_s: 0.05, frames: 10 }),
        ("stall", Dut::Stall { capacity_fps: 4.0 * FPS, every: ms(125), stall: ms(1), buffer: 1000 }),
        ("noisy 1 %", Dut::Noisy { capacity_fps, sigma: 0.01 }),
        ("noisy 5 %", Dut::Noisy { capacity_fps, sigma: 0.05 }),
        ("moods 10 %", Dut::Moods { capacity_fps, bad: 0.1, left: 0.5 }),
        ("moods 40 %", Dut::Moods { capacity_fps, bad: 0.4, left: 0.5 }),
        ("buffered", Dut::Buffered { capacity_fps, sigma: 0.1, moment: ms(125), buffer: 2e4 }),
        ("wave", Dut::Wave { capacity_fps, amplitude: 0.05, period: 2 * MINUTE }),
    ]
}

/// Trials of a wave are not independent of each other: no interval here can be right about it.
const BEYOND: &str = "wave";

/// What a load is judged by.
enum Verdict {
    Trial { loss_ratio: f64, exceed_ratio: f64, trial: Duration },
    Classic(classic::Config),
}

impl Verdict {
    /// Those of each goal, in order.
    fn of(search: &Search) -> Vec<Verdict> {
        match search {
            Search::Mlr(config) => config
                .goals
                .iter()
                .map(|goal| Verdict::Trial {
                    loss_ratio: goal.loss_ratio,
                    exceed_ratio: goal.exceed_ratio,
                    trial: goal.final_trial,
                })
                .collect(),
            Search::Rfc2544(config) => {
                let loss_ratio = config.loss_tolerance;
                vec![Verdict::Trial { loss_ratio, exceed_ratio: 0.5, trial: config.final_trial }]
            }
            Search::Classic(config) => vec![Verdict::Classic(config.clone())],
        }
    }

    /// The rate, frames/s; `None` where loss can not be had as seldom as wanted.
    fn truth(&self, dut: &Dut) -> Option<f64> {
        let (mut low, mut high) = (0.3 * FPS, 3.0 * FPS);
        if self.missed(dut, low) {
            return None;
        }
        for _ in 0..20 {
            let middle = (low + high) / 2.0;
            *(if self.missed(dut, middle) { &mut high } else { &mut low }) = middle;
        }
        Some(low)
    }

    /// Is the load above the rate?
    fn missed(&self, dut: &Dut, load_fps: f64) -> bool {
        let mut sim = Sim::new(dut.clone(), Tester::default(), 0);
        let mut loss = |trial| match sim.measure(load_fps, trial) {
            Ok(Measured::Loss { loss_ratio, .. }) => loss_ratio,
            other => panic!("{other:?}"),
        };
        match self {
            Verdict::Trial { loss_ratio, exceed_ratio, trial } => {
                let high = (0..TRUTH_TRIALS).filter(|_| loss(*trial) > *loss_ratio).count();
                high as f64 > *exceed_ratio * TRUTH_TRIALS as f64
            }
            Verdict::Classic(config) => {
                let refused = |_: &u64| {
                    let losses = (0..config.trials).map(|_| loss(config.trial)).collect();
                    !config.accepts(losses)
                };
                (0..TRUTH_TRIALS / 10).filter(refused).count() as u64 > TRUTH_TRIALS / 20
            }
        }
    }
}

/// All results for one goal on one device.
#[derive(Default)]
struct Results {
    values: Vec<GoalValue>,
}

impl Results {
    fn percent(&self, holds: impl Fn(&GoalValue) -> bool) -> f64 {
        100.0 * self.values.iter().filter(|value| holds(value)).count() as f64 / self.values.len() as f64
    }

    fn median(&self, of: impl Fn(&GoalValue) -> Option<f64>) -> Option<f64> {
        stats::median(&self.values.iter().filter_map(of).collect::<Vec<_>>())
    }

    fn mean(&self, of: impl Fn(&GoalValue) -> f64) -> f64 {
        self.values.iter().map(of).sum::<f64>() / self.values.len() as f64
    }

    /// Does the interval hold the truth? An open end does.
    fn covered(&self, truth: f64) -> Option<f64> {
        self.values.iter().all(|value| value.interval.is_some()).then(|| {
            self.percent(|value| {
                let interval = value.interval.as_ref().expect("all have one");
                within(truth, interval.low_fps, interval.high_fps)
            })
        })
    }
}

/// Loads this close are one, as whole frames are lost.
const SLACK: f64 = 2e-5;

fn within(truth: f64, low: Option<f64>, high: Option<f64>) -> bool {
    low.is_none_or(|low| low <= truth * (1.0 + SLACK))
        && high.is_none_or(|high| truth * (1.0 - SLACK) <= high)
}

fn closed(value: &GoalValue) -> Option<f64> {
    let interval = value.interval.as_ref()?;
    Some((interval.high_fps? - interval.low_fps?) / FPS * 100.0)
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.decimals$}"))
}

const HEAD: &str = "\
simulated runs of each search on each device of 1 M frames/s. Percentages but for trials and seconds.

  truth       the rate sought, M frames/s
  error       median distance of the reported rate from it
  bounds      runs whose lower and upper bound have it between them
  closed      runs that state both ends of a 95 % interval
  width       its median width
  covers      runs whose interval holds the truth (an open end does); not promised for a wave, where a trial is like
              the one before it
  trials, s   mean number and time of all trials of the search

search              goal       device     truth   error bounds closed  width covers trials       s
";

fn table(form: &Form, failures: &mut Vec<String>) -> String {
    let mut table = format!("{} {HEAD}", form.seeds);
    for row in &ROWS {
        for (kind, dut) in duts() {
            let mut goals: Vec<(String, Results)> = Vec::new();
            for seed in 0..form.seeds {
                let max_fps = 14.88e6 * (0.5 + Rng::new(!seed).unit());
                let mut sim = Sim::new(dut.clone(), Tester::default(), seed);
                let outcomes = (row.search)(max_fps).run(&mut sim).expect("a simulation does not stop");
                goals.resize_with(outcomes.len(), Default::default);
                for ((name, results), outcome) in goals.iter_mut().zip(outcomes) {
                    *name = outcome.goal;
                    results.values.push(outcome.value);
                }
            }
            for ((goal, results), verdict) in goals.iter().zip(Verdict::of(&(row.search)(1e7))) {
                let truth = verdict.truth(&dut);
                let covered = truth.and_then(|truth| results.covered(truth));
                if kind != BEYOND && covered.is_some_and(|covered| covered < form.least) {
                    failures.push(format!("{} {goal} on {kind}: {covered:?}", row.name));
                }
                let error = truth
                    .and_then(|truth| results.median(|value| Some(100.0 * (value.fps? / truth - 1.0).abs())));
                let bounds = truth.map(|truth| {
                    results.percent(|v| v.irregular.is_none() && within(truth, v.lower_fps, v.upper_fps))
                });
                writeln!(
                    table,
                    "{:<19} {goal:<10} {kind:<10} {:>5} {:>7} {:>6} {:>6.1} {:>6} {:>6} {:>6.1} {:>7.1}",
                    row.name,
                    cell(truth.map(|truth| truth / 1e6), 3),
                    cell(error, 2),
                    cell(bounds, 1),
                    results.percent(|value| closed(value).is_some()),
                    cell(results.median(closed), 2),
                    cell(covered, 1),
                    results.mean(|value| value.trials as f64),
                    results.mean(|value| value.trial_s),
                )
                .expect("a string takes all");
            }
        }
    }
    table
}

#[test]
fn stated_intervals_hold_the_truth() {
    let mut failures = Vec::new();
    let form = if std::env::var("COVERAGE").is_ok_and(|form| form == "full") { FULL } else { SHORT };
    let table = table(&form, &mut failures);
    assert_eq!(failures, Vec::<String>::new(), "too few of the intervals hold the truth");
    weir_testkit::golden!(format!("tests/{}", form.file), &table);
}
