use super::*;
use crate::fixture;
use weir_testkit::golden;

/// All sentences with plain spaces.
fn said(runs: &[RunData]) -> String {
    let found = findings(&Comparison::new(runs), &());
    let lines = found.into_iter().flat_map(|f| std::iter::once(f.heading).chain(f.sentences));
    lines.collect::<Vec<_>>().join("\n").replace('\u{202f}', " ")
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

fn goals(point: &mut PointData) -> impl Iterator<Item = &mut crate::record::GoalResult> {
    point.point.result.iter_mut().flat_map(|result| &mut result.goals)
}

fn irregular(data: &mut RunData, dut: &str, why: &str) {
    headline(data, dut).for_each(|g| g.repetitions[0].irregular = Some(why.into()));
}

fn flows(data: &mut RunData, n: &str) {
    devices(data).for_each(|p| p.point.settings.push(("flows".into(), n.into())));
}

type Change = fn(&mut RunData);

/// What is changed about the run of the fixture, one after the other and each alone.
const CHANGES: &[(&str, Change)] = &[
    ("no device has a rate", |data| {
        devices(data).flat_map(goals).for_each(|g| g.fps_median = None);
    }),
    ("10 thousand flows, as many as are tracked", |data| flows(data, "10000")),
    ("a million flows, of which 10 thousand are tracked", |data| flows(data, "1000000")),
    ("the search of kernel-forward ended at a lower bound", |data| {
        irregular(data, "kernel-forward", "max load is not an upper bound");
    }),
    ("the search of kernel-stateful ended at a lower bound", |data| {
        irregular(data, "kernel-stateful", "max load is not an upper bound");
    }),
    ("the searches of two devices ended at lower bounds", |data| {
        irregular(data, "kernel-stateful", "max load is not an upper bound");
        irregular(data, "kernel-nat", "time limit");
    }),
    ("the tester was the limit of kernel-forward", |data| {
        irregular(data, "kernel-forward", "tester-limited")
    }),
    ("the CPUs of kernel-nat were farther apart", |data| {
        for p in &mut data.points {
            let ns = if p.point.dut == "kernel-nat" { 210.0 } else { 32.0 };
            p.trials.iter_mut().for_each(|t| t.noise.handover_ns = Some(ns));
        }
    }),
    ("another shard measured kernel-nat", |data| {
        for p in &mut data.points {
            p.point.shards = if p.point.dut == "kernel-nat" { vec![2] } else { vec![1, 3] };
        }
    }),
    ("kernel-nat is nearly as fast as kernel-forward", |data| {
        headline(data, "kernel-nat").for_each(|g| {
            (g.fps_median, g.fps_interval) = (Some(410e3), Some((405e3, 415e3)));
        });
    }),
    ("one repetition each", |data| {
        for goal in data.points.iter_mut().flat_map(goals) {
            goal.repetitions.truncate(1);
            goal.fps_interval = None;
        }
    }),
    ("two CPUs may be used", |data| devices(data).for_each(|p| p.point.cpus = vec![0, 1])),
    ("no CPU is full", |data| {
        for t in devices(data).flat_map(|p| &mut p.trials) {
            t.cost.cpus.iter_mut().for_each(|c| (c.busy, c.dut) = (0.4, 0.4));
        }
    }),
    ("the ceiling is only a little higher than the fastest device", |data| {
        headline(data, "wire").for_each(|g| g.fps_median = Some(1.7e6));
    }),
    ("no ceiling", |data| data.points.retain(|p| !p.is_ceiling())),
    ("only the ceiling", |data| data.points.retain(PointData::is_ceiling)),
    ("each trial was limited by the tester", |data| {
        for p in devices(data) {
            p.trials.iter_mut().for_each(|t| t.verdict = Verdict::TesterLimited);
            goals(p).for_each(|g| (g.fps_median, g.fps_interval) = (None, None));
        }
    }),
    ("tester and device share a CPU", |data| devices(data).for_each(|p| p.point.cpus_shared = vec![1])),
    ("tester and device share a CPU at four points, which note it", |data| {
        for (i, p) in devices(data).enumerate().take(4) {
            p.point.cpus_shared = vec![1];
            p.point.notes = vec![format!("Tester and DUT share CPU [{i}].")];
        }
    }),
    ("losses that no counter explains", |data| {
        let counts = devices(data).flat_map(|p| &mut p.trials).filter_map(|t| t.frames.as_mut());
        counts.for_each(|counts| counts.unexplained = -(counts.lost as i64) / 20);
    }),
    ("no points", |data| data.points.clear()),
    ("interrupted at the fifth point", |data| {
        data.run.state = RunState::Interrupted;
        data.points.truncate(5);
        data.points[4].point.result = None;
    }),
];

/// The lines that only one of two texts has; of the lines that are gone, the beginning.
fn difference(before: &str, after: &str) -> String {
    let only = |text: &str, other: &str| -> Vec<String> {
        text.lines().filter(|line| !other.lines().any(|o| o == *line)).map(String::from).collect()
    };
    let gone = only(before, after).into_iter().map(|line| format!("- {:.64}…\n", line));
    gone.chain(only(after, before).into_iter().map(|line| format!("+ {line}\n"))).collect()
}

#[test]
fn each_change_of_a_run_changes_its_sentences() {
    let whole = said(&[fixture::quick()]);
    let mut text = whole.clone() + "\n";
    for (what, change) in CHANGES {
        let mut data = fixture::quick();
        change(&mut data);
        text += &format!("\n# {what}\n{}", difference(&whole, &said(&[data])));
    }
    golden!("src/report/summary/golden/run.txt", &text);
}

#[test]
fn runs_are_compared() {
    let alike = said(&[fixture::quick(), fixture::quick_again()]);
    let mut second = fixture::quick_again();
    irregular(&mut second, "kernel-nat", "tester-limited");
    second.run.machine.kernel = "7.0".into();
    let apart = difference(&alike, &said(&[fixture::quick(), second]));
    let text = format!("{alike}\n\n# another kernel, and the tester was the limit of kernel-nat\n{apart}");
    golden!("src/report/summary/golden/two-runs.txt", &text);
}
