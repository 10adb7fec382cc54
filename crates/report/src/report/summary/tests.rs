use super::*;
use crate::fixture;

/// All sentences with plain spaces.
fn said(runs: &[RunData]) -> String {
    let found = findings(&Comparison::new(runs), &());
    let lines = found.into_iter().flat_map(|f| std::iter::once(f.heading).chain(f.sentences));
    lines.collect::<Vec<_>>().join("\n").replace('\u{202f}', " ")
}

/// Checks that each row is said (or, with a `!` before it, not said) about a changed fixture.
fn check(change: impl Fn(&mut RunData), rows: &[&str]) {
    let mut data = fixture::quick();
    change(&mut data);
    let text = said(&[data]);
    for row in rows {
        match row.strip_prefix('!') {
            Some(absent) => assert!(!text.contains(absent), "said: {absent}\n{text}"),
            None => assert!(text.contains(row), "not said: {row}\n{text}"),
        }
    }
}

fn devices(data: &mut RunData) -> impl Iterator<Item = &mut PointData> {
    data.points.iter_mut().filter(|p| !p.is_ceiling())
}

fn headline<'a>(
    data: &'a mut RunData,
    dut: &'a str,
) -> impl Iterator<Item = &'a mut crate::record::GoalResult> {
    let points = data.points.iter_mut().filter(move |p| p.point.dut == dut);
    points.map(|p| &mut p.point.result.as_mut().unwrap().goals[0])
}

#[test]
fn a_complete_run() {
    check(
        |_| (),
        &[
            "At 64 bytes kernel-forward forwards 412 k frames/s (211 Mbit/s, 1.39 % of the line rate) on one CPU without loss in at least half of the trial time (goal NDR). It is 421 k frames/s with at most 0.5 % of loss in at least half of the trial time (goal PDR 0.5%). Rates are",
            "Stateful filtering (kernel-stateful) costs 31 % against kernel-forward (285 k frames/s; 30 % to 32 % by the repetitions).",
            "xdp-forward is 3.95 times as fast as kernel-forward (1.63 M frames/s; 3.90 to 4.01 times by the repetitions).",
            "At 1518 bytes kernel-forward forwards 355 k frames/s (4.31 Gbit/s",
            "the CPU of kernel-forward is full: CPU 1 is 99 % busy",
            "At 64 bytes and 50 % of the throughput a frame takes",
            "The tester itself reaches at least 4.12 M frames/s at 64 bytes with no device in between, 2.5 times the fastest device: it is not the limit.",
            "Rates rest on as few as 3 repetitions: the intervals are rough.",
            "15 of 255 trials of devices are not valid (15 noisy) and were not used.",
            "!The run",
            "!irregular",
        ],
    );
}

#[test]
fn a_ceiling_without_a_rate_to_compare_it_with_is_reported_all_the_same() {
    let nothing_found = |data: &mut RunData| {
        devices(data).for_each(|p| {
            p.point.result.as_mut().unwrap().goals.iter_mut().for_each(|g| g.fps_median = None)
        });
    };
    check(nothing_found, &["with no device in between; there is no rate of a device", "!was not measured"]);
}

#[test]
fn flows_without_a_connection_are_reported() {
    let flows = |n: &'static str| {
        move |data: &mut RunData| {
            devices(data).for_each(|p| p.point.settings.push(("flows".into(), n.into())))
        }
    };
    check(flows("10000"), &["!tracked fewer"]);
    check(
        flows("1000000"),
        &["15 points the device tracked fewer connections than there are flows (10 000 of 1 000 000)"],
    );
}

#[test]
fn a_lower_bound_is_called_so() {
    let irregular = |data: &mut RunData, dut: &str| {
        headline(data, dut)
            .for_each(|g| g.repetitions[1].irregular = Some("max load is not an upper bound".into()));
    };
    check(
        |data| irregular(data, "kernel-forward"),
        &[
            "kernel-forward forwards at least 412 k frames/s",
            "The search ended irregularly (max load is not an upper bound).",
            "kernel-stateful 285 k, kernel-nat 243 k and xdp-forward 1.63 M. They cannot be compared with kernel-forward, whose search ended irregularly (max",
            "!costs",
        ],
    );
    check(
        |data| irregular(data, "kernel-stateful"),
        &[
            "(kernel-stateful) reaches at least 285 k frames/s; it cannot be compared with kernel-forward: the search of",
            "(kernel-stateless) costs 20 %",
        ],
    );
}

#[test]
fn points_are_not_compared_across_a_move_of_the_cpus() {
    check(
        |data| {
            for p in data.points.iter_mut() {
                let ns = if p.point.dut == "kernel-nat" { 210.0 } else { 32.0 };
                p.trials.iter_mut().for_each(|t| t.noise.handover_ns = Some(ns));
            }
        },
        &[
            "(kernel-nat) reaches 243 k frames/s; it cannot be compared with kernel-forward: a cache line took 32 ns",
            "(kernel-stateful) costs 31 %",
            "a cache line took 32 to 210 ns between them, in 51 of 306 trials more than 1.5 times",
        ],
    );
}

#[test]
fn small_differences_and_few_repetitions() {
    check(
        |data| {
            headline(data, "kernel-nat").for_each(|g| {
                (g.fps_median, g.fps_interval) = (Some(410e3), Some((405e3, 415e3)));
            })
        },
        &[
            "Source NAT (kernel-nat) reaches 410 k frames/s: no difference from kernel-forward could be shown.",
        ],
    );
    check(
        |data| {
            for point in &mut data.points {
                for goal in &mut point.point.result.as_mut().unwrap().goals {
                    goal.repetitions.truncate(1);
                    goal.fps_interval = None;
                }
            }
        },
        &[
            "costs 31 % against kernel-forward (285 k frames/s; too few repetitions for an interval)",
            "Some rates rest on 1 repetition only: their spread is not known",
        ],
    );
}

#[test]
fn one_cpu_of_several_does_all_the_work() {
    let rows = [
        "one CPU does all the work although more may be used: kernel-forward (CPU 1 of 2 is 99 % busy), kernel-stateless (",
    ];
    check(|data| devices(data).for_each(|p| p.point.cpus = vec![0, 1]), &rows);
    check(
        |data| {
            for t in devices(data).flat_map(|p| &mut p.trials) {
                t.cost.cpus.iter_mut().for_each(|c| (c.busy, c.dut) = (0.4, 0.4));
            }
        },
        &["Near its throughput kernel-forward does not fill a CPU", "!CPU of kernel-forward is full"],
    );
}

#[test]
fn the_tester_may_be_the_limit() {
    check(
        |data| headline(data, "wire").for_each(|g| g.fps_median = Some(1.7e6)),
        &["only 1.04 times the fastest device: there the tester may be the limit", "!it is not the limit"],
    );
    check(
        |data| data.points.retain(|p| !p.is_ceiling()),
        &["was not measured in this run: whether the tester is the limit is not known"],
    );
    check(
        |data| data.points.retain(PointData::is_ceiling),
        &["At 64 bytes wire forwards at least 4.12 M", "nothing is known about any device"],
    );
    check(
        |data| {
            for p in devices(data) {
                p.trials.iter_mut().for_each(|t| t.verdict = Verdict::TesterLimited);
                p.point
                    .result
                    .as_mut()
                    .unwrap()
                    .goals
                    .iter_mut()
                    .for_each(|g| (g.fps_median, g.fps_interval) = (None, None));
            }
        },
        &[
            "At 64 bytes no rate was found at which kernel-forward meets the goal NDR.",
            "255 of 255 trials of devices are not valid (255 tester-limited)",
            "No trial of a device is valid: the rates are not to be believed.",
            "!costs",
        ],
    );
}

#[test]
fn what_weakens_the_result() {
    check(
        |data| devices(data).for_each(|p| p.point.cpus_shared = vec![1]),
        &["At 15 points tester and device share a CPU"],
    );
    check(
        |data| {
            for (i, p) in devices(data).enumerate().take(4) {
                p.point.cpus_shared = vec![1];
                p.point.notes = vec![format!("Tester and DUT share CPU [{i}].")];
            }
        },
        &["At 4 points: Tester and DUT share CPU [0 to 3].", "!tester and device share a CPU"],
    );
    check(
        |data| {
            let counts = devices(data).flat_map(|p| &mut p.trials).filter_map(|t| t.frames.as_mut());
            counts.for_each(|counts| counts.unexplained = -(counts.lost as i64) / 20);
        },
        &["of all lost frames are not explained by any counter"],
    );
    check(|data| data.points.clear(), &["The run has no points: nothing was measured"]);
    check(
        |data| {
            data.run.state = RunState::Interrupted;
            data.points.truncate(5);
            data.points[4].point.result = None;
        },
        &["The run was interrupted: 4 of 5 points have a result"],
    );
}

#[test]
fn runs_are_compared() {
    let text = said(&[fixture::quick(), fixture::quick_again()]);
    for row in [
        "Between the runs\nkernel-forward · run 2 is 12 % faster than kernel-forward · run 1 (462 k frames/s",
        "kernel-nat · run 2 reaches 244 k frames/s: no difference from kernel-nat · run 1 could be shown.",
        "Run 2\nAt 64 bytes kernel-forward forwards 462 k",
    ] {
        assert!(text.contains(row), "not said: {row}\n{text}");
    }
}

#[test]
fn runs_that_cannot_be_compared_say_why() {
    let (first, mut second) = (fixture::quick(), fixture::quick_again());
    headline(&mut second, "kernel-nat")
        .for_each(|g| g.repetitions[0].irregular = Some("tester-limited".into()));
    second.run.machine.kernel = "7.0".into();
    let text = said(&[first, second]);
    for row in [
        "kernel-nat · run 2 cannot be compared with kernel-nat · run 1 (244 k and 243 k frames/s): in the other run \
         the search ended irregularly (tester-limited).",
        "kernel-forward · run 2 is 12 % faster than kernel-forward · run 1",
    ] {
        assert!(text.contains(row), "not said: {row}\n{text}");
    }
}

#[test]
fn a_tester_that_was_the_limit_is_said_to_be() {
    check(
        |data| {
            headline(data, "kernel-forward")
                .for_each(|g| g.repetitions[0].irregular = Some("tester-limited".into()));
        },
        &["it was the limit at", "!it is not the limit"],
    );
}
