use super::*;
use crate::figure::{name, procedure, unit};
use crate::fixture;
use crate::record::{Figure, GoalValue, Point, PointResult, ProcedureResult};
use crate::rng::Rng;
use weir_testkit::golden;

/// Points of a run that only has results: enough to compare, fast enough for thousands.
fn bare(id: i64, rates: &[Vec<f64>]) -> RunData {
    let template = fixture::point(0, "kernel-forward", 64, 1e6);
    let points = rates.iter().enumerate().map(|(index, rates)| {
        let mut point = Point { index, run_id: id, ..template.point.clone() };
        point.settings.push(("flows".into(), index.to_string()));
        let goals = &mut point.result.as_mut().unwrap().goals;
        goals.truncate(1);
        goals[0].repetitions = rates.iter().map(|fps| value(*fps)).collect();
        PointData { point, trials: Vec::new() }
    });
    RunData { run: fixture::run(id), points: points.collect() }
}

fn value(fps: f64) -> GoalValue {
    GoalValue {
        fps: Some(fps),
        lower_fps: Some(fps),
        upper_fps: Some(fps * 1.005),
        irregular: None,
        trials: 30,
        trial_s: 30.0,
        ..GoalValue::default()
    }
}

/// Repetitions around `level` with noise of about 1 %.
fn noisy(rng: &mut Rng, level: f64, n: usize) -> Vec<f64> {
    let normal = |rng: &mut Rng| (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
    (0..n).map(|_| level * (0.01 * normal(rng)).exp()).collect()
}

fn verdicts(compared: &Compared) -> Vec<Verdict> {
    compared.rows.iter().map(|r| r.verdict).collect()
}

/// The verdict of the first row about two changed runs, and why.
fn check(change: impl Fn(&mut RunData), across: &[Across], verdict: Verdict, why: &str) {
    let (base, mut other) = (fixture::quick(), fixture::quick_again());
    change(&mut other);
    let row = &compare(&base, &other, across).rows[0];
    assert_eq!(row.verdict, verdict, "{row:?}");
    let said = row.why.as_deref().unwrap_or_default().replace('\u{202f}', " ");
    assert_eq!(said, why);
}

const TOO_FEW: &str =
    "fewer than two repetitions in a run, so the spread is unknown: repeat with `--set repeat.times=5`";

fn goals(data: &mut RunData) -> impl Iterator<Item = &mut crate::record::GoalResult> {
    data.points.iter_mut().flat_map(|p| &mut p.point.result.as_mut().unwrap().goals)
}

#[test]
fn equals_are_called_equal() {
    for (points, repetitions) in [(1, 3), (18, 3), (18, 7)] {
        let wrong = (0..1000).filter(|&seed| {
            let mut rng = Rng::new(seed);
            let mut run = |id| {
                let rates: Vec<_> = (0..points).map(|_| noisy(&mut rng, 1e6, repetitions)).collect();
                bare(id, &rates)
            };
            let compared = compare(&run(1), &run(2), &[]);
            assert_eq!(compared.rows.len(), points);
            verdicts(&compared).iter().any(|v| *v != Verdict::NoDifference)
        });
        let wrong = wrong.count();
        assert!(
            wrong <= 50,
            "{points} points, {repetitions} repetitions: wrong for {wrong} of seeds 0..1000"
        );
    }
}

#[test]
fn five_percent_are_found() {
    for (points, repetitions, factor, verdict) in
        [(1, 5, 0.95, Verdict::Slower), (1, 5, 1.05, Verdict::Faster), (18, 7, 0.95, Verdict::Slower)]
    {
        let found = (0..200).filter(|&seed| {
            let mut rng = Rng::new(seed);
            let mut rates = |level: f64| -> Vec<_> {
                (0..points).map(|i| noisy(&mut rng, if i == 0 { level } else { 1e6 }, repetitions)).collect()
            };
            let (base, other) = (bare(1, &rates(1e6)), bare(2, &rates(1e6 * factor)));
            let compared = compare(&base, &other, &[]);
            let row = &compared.rows[0];
            assert!(row.p <= row.p_holm, "{row:?}");
            row.verdict == verdict
        });
        let found = found.count();
        assert!(found >= 190, "{factor} at one of {points} points: found for {found} of seeds 0..200");
    }
}

#[test]
fn verdicts_of_two_runs() {
    let compared = compare(&fixture::quick(), &fixture::quick_again(), &[]);
    assert_eq!(compared.rows.len(), 5 * 3 * 2, "devices, sizes, goals; no wire");
    assert_eq!(compared.differences, [], "the same plan on the same machine");
    assert_eq!(compared.unmatched, []);
    for row in &compared.rows {
        let faster = row.device == "kernel-forward";
        let expected = if faster { Verdict::Faster } else { Verdict::NoDifference };
        assert_eq!(row.verdict, expected, "{row:?}");
        let (ratio, interval) = (row.ratio.unwrap(), row.interval.unwrap());
        assert!((ratio - if faster { 1.12 } else { 1.003 }).abs() < 1e-9, "{row:?}");
        assert!(interval.low < ratio && ratio < interval.high && interval.source == Source::Repetitions);
    }
}

#[test]
fn what_forbids_a_verdict() {
    let irregular = |why: &'static str| {
        move |data: &mut RunData| goals(data).for_each(|g| g.repetitions[1].irregular = Some(why.into()))
    };
    let core_distance = |ns: f64| {
        move |data: &mut RunData| {
            let trials = data.points.iter_mut().flat_map(|p| &mut p.trials);
            trials.for_each(|t| t.noise.handover_ns = Some(ns));
        }
    };
    let ask = |what| format!("the {what}s differ: to compare {what}s, use `--across {what}`");
    use Verdict::{CannotTell, Faster};
    check(|_| (), &[], Faster, "");
    check(|data| data.run.machine.cpus = 4, &[], CannotTell, &ask("machine"));
    check(|data| data.run.machine.cpus = 4, &[Across::Machine], Faster, "");
    check(|data| data.run.machine.kernel = "7.0".into(), &[], CannotTell, &ask("kernel"));
    check(|data| data.run.machine.kernel = "7.0".into(), &[Across::Kernel], Faster, "");
    check(
        irregular("tester-limited"),
        &[],
        CannotTell,
        "in the other run the search ended irregularly (tester-limited)",
    );
    check(core_distance(30.0), &[], Faster, "");
    check(
        |data| goals(data).for_each(|g| g.parameters[0].1 = "60 s".into()),
        &[],
        CannotTell,
        "the goals differ: final trial is 1 s in the first run and 60 s in the other",
    );
    check(
        |data| goals(data).for_each(|g| g.parameters.push(("max load".into(), "7".into()))),
        &[],
        Faster,
        "",
    );
    check(
        |data| data.points.iter_mut().for_each(|p| p.point.cpus_shared = vec![1]),
        &[],
        CannotTell,
        "tester and device share a CPU in one of the runs only",
    );
    check(
        |data| goals(data).for_each(|g| g.repetitions.clear()),
        &[],
        CannotTell,
        "the other run found no value",
    );
    check(|data| goals(data).for_each(|g| g.repetitions.truncate(1)), &[], CannotTell, TOO_FEW);

    let (mut base, mut other) = (fixture::quick(), fixture::quick_again());
    core_distance(30.0)(&mut base);
    core_distance(210.0)(&mut other);
    let row = &compare(&base, &other, &[]).rows[0];
    assert_eq!(
        row.why.as_ref().map(|why| why.replace('\u{202f}', " ")),
        Some("a cache line took 30 ns between the CPUs of one and 210 ns of the other".to_string())
    );
    assert_eq!(compare(&base, &other, &[Across::Placement]).rows[0].verdict, Faster);
}

#[test]
fn single_searches_have_the_interval_of_their_bounds() {
    let of = |a: f64, b: f64| compare(&bare(1, &[vec![a]]), &bare(2, &[vec![b]]), &[]).rows.remove(0);
    let row = of(1000.0, 1002.0);
    let interval = row.interval.unwrap();
    assert_eq!(interval.source, Source::Bounds);
    assert!((interval.low - 1.002 / 1.005).abs() < 1e-9 && (interval.high - 1.002 * 1.005).abs() < 1e-9);
    assert_eq!((row.verdict, row.why), (Verdict::NoDifference, None));
    let row = of(1000.0, 1100.0);
    assert_eq!(row.verdict, Verdict::CannotTell);
    assert!(row.ratio.is_some() && row.p.is_none());
    assert_eq!(row.why.as_deref(), Some(TOO_FEW));
}

#[test]
fn holm_corrects_step_by_step() {
    let p_values = [0.01, 0.04, 0.03, 0.005];
    let mut rows = compare(&fixture::quick(), &fixture::quick_again(), &[]).rows;
    rows.truncate(4);
    rows.iter_mut().zip(p_values).for_each(|(row, p)| row.p = Some(p));
    judge(&mut rows);
    let corrected: Vec<_> = rows.iter().map(|r| (r.p_holm.unwrap() * 1e3).round() / 1e3).collect();
    assert_eq!(corrected, [0.03, 0.06, 0.06, 0.02], "the example of many textbooks");
}

#[test]
fn points_of_one_run_only_are_listed() {
    let (base, mut other) = (fixture::quick(), fixture::quick());
    other.run.id = 2;
    other.points.remove(3);
    goals(&mut other).last().unwrap().goal = "PDR 1%".into();
    let compared = compare(&base, &other, &[]);
    let lone: Vec<_> = compared
        .unmatched
        .iter()
        .map(|u| format!("{} {} {} {:?}", u.run, u.frame, u.device, u.quantities))
        .collect();
    assert_eq!(
        lone,
        ["1 64 kernel-forward []", "1 1518 xdp-forward [\"PDR 0.5%\"]", "2 1518 xdp-forward [\"PDR 1%\"]",]
    );
    assert_eq!(compared.rows.len(), 5 * 3 * 2 - 3);
}

#[test]
fn a_setting_of_some_devices_may_be_changed_too() {
    let with_rules = |id: i64, rules: &str| {
        let mut data = fixture::quick();
        data.run.id = id;
        for point in data.points.iter_mut().filter(|p| p.point.dut == "kernel-stateless") {
            point.point.settings.push(("rules".into(), rules.into()));
        }
        data
    };
    let compared = compare(&with_rules(1, "25"), &with_rules(2, "45"), &[]);
    let alone: Vec<_> = compared.unmatched.iter().map(|lone| &lone.device).collect();
    assert!(alone.is_empty(), "{alone:?}");
    assert!(compared.rows.iter().any(|row| row.device == "kernel-stateless"));
}

#[test]
fn what_was_changed_on_purpose_is_compared() {
    let (base, mut other) = (fixture::quick(), fixture::quick());
    other.run.id = 2;
    other.run.plan_toml = other.run.plan_toml.replace("[64,", "[  64,") + "[dut]\ncpus = 2 # more\n";
    other.run.version = "0.2.0".into();
    other.run.machine.facts[0].1 = "none".into();
    other.run.machine.facts.push(("cpu_mhz".into(), "2600".into()));
    for p in other.points.iter_mut() {
        p.point.settings[2].1 = "2".into();
        if p.is_ceiling() && p.point.frame == "64" {
            p.point.result.as_mut().unwrap().goals[0].fps_median = Some(2e6);
        }
    }
    let compared = compare(&base, &other, &[]);
    let differences: Vec<_> = compared
        .differences
        .iter()
        .map(|d| format!("{}: {} > {}", d.what, d.base, d.other).replace('\u{202f}', " "))
        .collect();
    assert_eq!(
        differences,
        [
            "weir: 0.1.0 > 0.2.0",
            "plan dut.cpus:  > 2",
            "virtualisation: kvm > none",
            "setting cpus: 1 > 2",
            "ceiling of the tester at 64: 4.12 Mpps > 2.00 Mpps",
        ]
    );
    assert!(compared.unmatched.is_empty() && compared.rows.len() == 30);
    assert_eq!(compared.rows[0].device, "kernel-forward");
}

#[test]
fn figures_of_procedures_are_compared() {
    let procedure = |latency: [f64; 3], burst: [f64; 3]| {
        let figure = |name: &str, unit: &str, values: [f64; 3]| Figure {
            name: name.into(),
            unit: unit.into(),
            value: Some(values[1]),
            values: values.to_vec(),
            ..Figure::default()
        };
        let figures = vec![
            figure("median", "s", latency),
            figure("burst", "frames", burst),
            figure("loss", "ratio", [0.0; 3]),
        ];
        ProcedureResult { procedure: "latency".into(), figures, ..ProcedureResult::default() }
    };
    let run = |id, procedure| {
        let mut data = bare(id, &[Vec::new()]);
        data.points[0].point.result =
            Some(PointResult { procedures: vec![procedure], ..PointResult::default() });
        data
    };
    let base = run(1, procedure([1.00e-5, 1.01e-5, 1.02e-5], [100.0, 101.0, 102.0]));
    let other = run(2, procedure([2.00e-5, 2.01e-5, 2.02e-5], [200.0, 201.0, 202.0]));
    let compared = compare(&base, &other, &[]);
    let rows: Vec<_> = compared.rows.iter().map(|r| (r.quantity.as_str(), r.verdict)).collect();
    assert_eq!(
        rows,
        [
            ("latency: median", Verdict::Slower),
            ("latency: burst", Verdict::Larger),
            ("latency: loss", Verdict::CannotTell),
        ]
    );
    assert_eq!(compared.rows[2].why.as_deref(), Some("the first run has a value of 0, which has no ratio"));
}

#[test]
fn loads_of_a_plan_without_a_search_are_compared() {
    let run = |id, lost: u64| {
        let mut data = fixture::quick();
        data.run.id = id;
        data.points.retain(|point| {
            (point.point.dut.as_str(), point.point.frame.as_str()) == ("kernel-forward", "64")
        });
        let point = &mut data.points[0];
        let again =
            point.trials.iter().filter(|trial| trial.counts().offered_fps.round() == 437_038.0).cloned();
        point.trials = again.cycle().take(4).collect();
        for (n, trial) in (0..).zip(&mut point.trials) {
            *trial = trial.clone().counting(|counts| {
                counts.lost += lost + 10 * n;
                counts.received -= lost + 10 * n;
            });
        }
        point.point.result = Some(PointResult { search: "fixed".into(), ..PointResult::default() });
        data
    };
    let compared = compare(&run(1, 0), &run(2, 200_000), &[]);
    let found: Vec<_> = compared.rows.iter().map(|row| (row.quantity.as_str(), row.verdict)).collect();
    let expected = [
        ("received of 437k frames/s", Verdict::Slower),
        ("cycles per frame at 437k frames/s", Verdict::NoDifference),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_text_has_differences_first_and_reasons_once() {
    let (base, mut other) = (fixture::quick(), fixture::quick_again());
    other.run.version = "0.2.0".into();
    for goal in goals(&mut other).skip(6).take(3) {
        goal.repetitions[0].irregular = Some("time limit".into());
    }
    other.points.pop();
    let text = text(&compare(&base, &other, &[])).replace('\u{202f}', " ");
    golden!("src/compare/golden/quick.txt", &text);
}

/// Two devices of a run whose rounds scatter by 3 %: what all of a run has in common scatters by 2 %, what a device has by 1 %.
/// `speeds` are those of the devices in frames/s, `place` the placement in the names of the figures.
fn rounds(rng: &mut Rng, id: i64, speeds: [f64; 2], place: &str) -> RunData {
    let mut data = bare(id, &[vec![1e6], vec![1e6]]);
    let common = (0.02 * rng.normal()).exp();
    let together: Vec<f64> = (0..20).map(|_| common * (0.03 * rng.normal()).exp()).collect();
    let mut rates: Vec<Vec<f64>> = Vec::new();
    for (point, speed) in data.points.iter_mut().zip(speeds) {
        let own = speed * (0.01 * rng.normal()).exp();
        let fps: Vec<f64> = together.iter().map(|f| own * f * (0.02 * rng.normal()).exp()).collect();
        let figure = |name: &str, unit: &str, values: Vec<f64>| {
            crate::figure::figure(format!("{name} ({place})"), unit, crate::record::Statistic::Median, values)
        };
        let mut figures = vec![figure(name::CAPACITY, unit::FRAMES_PER_S, fps.clone())];
        if let Some(first) = rates.first() {
            let ratios = fps.iter().zip(first).map(|(a, b)| a / b).collect();
            figures.push(figure(name::CAPACITY_RATIO, unit::TIMES, ratios));
        }
        rates.push(fps);
        let capacity =
            ProcedureResult { procedure: procedure::CAPACITY.into(), figures, ..ProcedureResult::default() };
        point.point.result.as_mut().unwrap().procedures = vec![capacity];
    }
    data
}

#[test]
fn capacities_are_judged_as_runs_scatter() {
    let (mut wrong, mut missed, mut seen, mut all) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let base = rounds(&mut rng, 1, [1e6, 0.8e6], "near cores");
        let same = rounds(&mut rng, 2, [1e6, 0.8e6], "near cores");
        let slower = rounds(&mut rng, 3, [1e6, 0.72e6], "near cores");
        let alike = compare(&base, &same, &[]);
        assert_eq!(alike.rows.len(), 3, "single searches are left out");
        wrong += alike.rows.iter().filter(|row| row.verdict != Verdict::NoDifference).count();
        all += alike.rows.len();
        let changed = compare(&base, &slower, &[]);
        let by_ratio = &changed.rows[2];
        assert_eq!(by_ratio.quantity, "capacity: capacity by the reference (near cores)");
        seen += usize::from(by_ratio.verdict == Verdict::Slower);
        missed += changed.rows.iter().filter(|row| row.verdict == Verdict::CannotTell).count();
    }
    assert!(wrong * 20 <= all, "{wrong} of {all} alike are called different");
    assert!(seen >= 270, "{seen} of 300 slow-downs by a tenth are seen");
    assert_eq!(missed, 0);
}

#[test]
fn capacities_are_compared_in_a_placement_that_both_runs_have() {
    let mut rng = Rng::new(1);
    let mut near = rounds(&mut rng, 1, [1e6, 0.8e6], "near cores");
    let far = rounds(&mut rng, 2, [0.5e6, 0.4e6], "far cores");
    let apart = compare(&near, &far, &[]);
    assert_eq!(verdicts(&apart), [Verdict::NoDifference], "a ratio to the reference: {:?}", apart.rows);
    let [near_rate, far_rate] =
        ["near", "far"].map(|at| format!("capacity: forwarding capacity ({at} cores)"));
    assert_eq!(apart.unmatched[0].quantities, [near_rate]);
    for (point, other) in near.points.iter_mut().zip(&far.points) {
        let figures = other.capacity().unwrap().figures.clone();
        point.point.result.as_mut().unwrap().procedures[0].figures.extend(figures);
    }
    let common = compare(&near, &far, &[]);
    let quantities: Vec<_> = common.rows.iter().map(|row| row.quantity.as_str()).collect();
    assert_eq!(quantities, [&far_rate, &far_rate, "capacity: capacity by the reference (far cores)"]);
    assert!(common.rows.iter().all(|row| row.verdict == Verdict::NoDifference));
}

#[test]
fn a_ratio_to_the_reference_is_compared_where_placements_differ() {
    let (mut wrong, mut seen) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let near = rounds(&mut rng, 1, [1e6, 0.8e6], "near cores");
        // What is known of the reference machine: a ratio is larger there by 1 to 3.5 %.
        let far = rounds(&mut rng, 2, [0.9e6, 0.9e6 * 0.8 * 1.02], "far cores");
        let slower = rounds(&mut rng, 3, [0.9e6, 0.9e6 * 0.7 * 1.02], "far cores");
        let is = |other: &RunData, verdict| usize::from(verdicts(&compare(&near, other, &[])) == [verdict]);
        wrong += 1 - is(&far, Verdict::NoDifference);
        seen += is(&slower, Verdict::Slower);
    }
    assert!(wrong <= 15, "{wrong} of 300 alike are called different");
    assert!(seen >= 270, "{seen} of 300 slow-downs by an eighth are seen");
}

/// A run on a core of this speed: all that it does takes so much longer, but for the third probe, which another guest disturbed.
fn on_core(mut data: RunData, step_ns: f64) -> RunData {
    for point in &mut data.points {
        let of = |steps: [f64; 2]| {
            let mut trial = fixture::clean_trial();
            trial.noise.core_step_ns = Some(steps);
            trial
        };
        point.trials = vec![of([step_ns; 2]), of([step_ns * 1.6, step_ns])];
        for figure in &mut point.point.result.as_mut().unwrap().procedures[0].figures {
            let is_rate = figure.unit == unit::FRAMES_PER_S;
            figure.values.iter_mut().filter(|_| is_rate).for_each(|fps| *fps /= step_ns);
        }
    }
    data
}

#[test]
fn capacities_are_compared_at_equal_speed_of_the_core() {
    let mut rng = Rng::new(3);
    let base = on_core(rounds(&mut rng, 1, [1e6, 0.8e6], "near cores"), 1.12);
    let same = on_core(rounds(&mut rng, 2, [1e6, 0.8e6], "near cores"), 1.0);
    let compared = compare(&base, &same, &[]);
    assert_eq!(compared.core_steps, Some(CoreSteps { base_ns: 1.12, other_ns: 1.0 }));
    assert_eq!(verdicts(&compared), [Verdict::NoDifference; 3], "{:?}", compared.rows);
    assert!(compared.rows[0].other > compared.rows[0].base, "values are those that were measured");
    let text = text(&compared).replace('\u{202f}', " ");
    golden!("src/compare/golden/core-speed.txt", &text);

    // A device that became slower is not hidden by a core that became faster.
    let slower = on_core(rounds(&mut rng, 3, [0.88e6, 0.70e6], "near cores"), 1.0);
    let found = compare(&base, &slower, &[]);
    assert_eq!(verdicts(&found)[..2], [Verdict::Slower; 2], "{:?}", found.rows);
    assert_eq!(compare(&base, &same, &[Across::Machine]).core_steps, None);
}

#[test]
fn the_limit_of_the_tester_is_no_value_of_the_device() {
    use Bound::{AtLeast, AtMost, Exact, NoResult};
    for (bounds, speeds, ratio, verdict) in [
        ([Exact, Exact], [1e6, 1e6], Exact, Verdict::NoDifference),
        ([AtLeast, AtLeast], [1e6, 1.2e6], NoResult, Verdict::CannotTell),
        ([Exact, AtLeast], [1e6, 1.2e6], AtLeast, Verdict::Faster),
        ([Exact, AtLeast], [1e6, 0.8e6], AtLeast, Verdict::CannotTell),
        ([AtLeast, Exact], [1e6, 0.8e6], AtMost, Verdict::Slower),
        ([AtLeast, Exact], [1e6, 1e6], AtMost, Verdict::CannotTell),
        ([Exact, NoResult], [1e6, 0.8e6], NoResult, Verdict::CannotTell),
    ] {
        let mut rng = Rng::new(7);
        let run = |id, speed, bound, rng: &mut Rng| {
            let mut data = rounds(rng, id, [speed; 2], "near cores");
            data.points.truncate(1);
            data.points[0].point.result.as_mut().unwrap().procedures[0].figures[0].bound = bound;
            data
        };
        let base = run(1, speeds[0], bounds[0], &mut rng);
        let other = run(2, speeds[1], bounds[1], &mut rng);
        let compared = compare(&base, &other, &[]);
        let row = &compared.rows[0];
        assert_eq!((row.ratio_bound, row.verdict), (ratio, verdict), "{bounds:?}: {row:?}");
        assert_eq!(row.ratio.is_none(), ratio == NoResult, "{bounds:?}: {row:?}");
        let text = text(&compared).replace("≤ 0.001", "");
        for bound in [AtLeast, AtMost] {
            let times = bounds.iter().chain([&ratio]).filter(|b| **b == bound).count();
            let found = text
                .lines()
                .filter(|line| line.contains("capacity"))
                .flat_map(|line| line.matches(bound.sign().trim_end()));
            assert_eq!(found.count(), times, "{text}");
        }
        let json = serde_json::to_value(row).unwrap();
        assert_eq!(json["other_bound"], serde_json::to_value(bounds[1]).unwrap());
    }
}
