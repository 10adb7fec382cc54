use super::*;
use crate::fixture;
use crate::record::{RunState, Verdict};
use crate::run_data::PointData;

/// The report with what must hold for any report checked.
fn report(runs: &[RunData]) -> String {
    let text = html(runs, &());
    for absent in ["<script", "http://", "https://", "NaN", "inf\"", "url(", "<link", "@import", "<img"] {
        assert!(!text.contains(absent), "{absent} in the report");
    }
    for tag in ["svg", "figure", "section", "table", "ul", "details", "div", "dl", "pre"] {
        let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "<{tag}> is not closed");
    }
    text
}

#[test]
fn numbers_are_those_of_the_records() {
    let data = fixture::quick();
    let text = report(std::slice::from_ref(&data));
    for PointData { point, trials } in &data.points {
        let goal = &point.result.as_ref().unwrap().goals[0];
        let rate = format::full(goal.fps_median.unwrap());
        assert!(text.contains(&format!("{rate}</td>")), "rate of {} {}", point.dut, point.frame);
        let lost: u64 = trials.iter().skip(1).map(|t| t.counts().lost).sum();
        assert!(text.contains(&format!("<td class=\"n\">{}</td>", format::full(lost as f64))), "lost frames");
    }
    let trial = &data.points[4].trials[3];
    for n in
        [trial.counts().sent, trial.counts().received, trial.counts().lost, trial.streams[0].latency.max_ns]
    {
        assert!(text.contains(&format::full(n as f64)), "{n}");
    }
    for text_of in
        ["final trial 1 s; duration sum 21 s; loss ratio 0 %", "--seed 18446744073709551574", "kvm"]
    {
        assert!(text.contains(text_of), "{text_of}");
    }
}

#[test]
fn text_from_plans_is_escaped() {
    let mut data = fixture::quick();
    data.run.question = "<script>alert(1)</script> & more".into();
    data.run.tester.limits.push("a < b".into());
    data.points[3].point.dut = "<b>".into();
    data.points[3].trials[1].reasons.push("<i>\"x\"".into());
    let text = report(&[data]);
    assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"));
    assert!(text.contains("does &lt;this&gt; kernel forward &amp; filter?"));
    assert!(!text.contains("<b>") && !text.contains("<i>"));
}

#[test]
fn runs_with_little_in_them() {
    assert!(report(&[]).contains("no run was given"));
    let empty = RunData { run: fixture::run(1), points: Vec::new() };
    assert!(report(&[empty]).contains("nothing was measured"));

    let single = fixture::point(0, "kernel-forward", 64, 400e3);
    let text = report(&[RunData { run: fixture::run(1), points: vec![single.clone()] }]);
    assert!(text.contains("400\u{202f}k") && text.contains("ceiling (dut `wire`) was not measured"));

    let begun = PointData { trials: Vec::new(), ..single };
    report(&[RunData { run: fixture::run(1), points: vec![begun] }]);
}

#[test]
fn runs_that_went_wrong() {
    let mut data = fixture::quick();
    data.run.state = RunState::Interrupted;
    data.run.finished = None;
    data.points.truncate(7);
    data.points[6].point.result = None;
    data.points[6].trials.truncate(2);
    let text = report(&[data]);
    assert!(text.contains("6 of 7 points have a result") && text.contains("not recorded"));
    assert!(text.contains("not searched"));

    let mut data = fixture::quick();
    for t in data.points.iter_mut().flat_map(|p| &mut p.trials) {
        (t.verdict, t.frames) = (Verdict::TesterLimited, None);
    }
    assert!(report(&[data]).contains("No trial of a device is valid"));
}

#[test]
fn a_run_without_latency_and_cost() {
    let mut data = fixture::quick();
    for t in data.points.iter_mut().flat_map(|p| &mut p.trials) {
        t.streams.iter_mut().for_each(|s| s.latency = Default::default());
        t.cost = Default::default();
        t.drop_counters.clear();
    }
    let text = report(&[data]);
    assert!(text.contains("No valid trial measured latency."));
    assert!(!text.contains("What it costs the device"));
}

#[test]
fn a_table_that_is_longer_than_a_page_is_folded() {
    let folded = |figures: usize| {
        let mut data = fixture::procedures();
        let results = data.points.iter_mut().filter_map(|point| point.point.result.as_mut());
        let procedure = results.flat_map(|result| &mut result.procedures).next().expect("a procedure");
        let one = procedure.figures[0].clone();
        let numbered = |i| crate::record::Figure { name: format!("{} {i}", one.name), ..one.clone() };
        procedure.figures = (0..figures).map(numbered).collect();
        report(&[data]).matches(" rows</summary>").count()
    };
    assert_eq!(folded(50), folded(5) + 1);
}

#[test]
fn procedures_and_their_irregularities_are_in_the_report() {
    let text = report(&[fixture::procedures()]);
    for of in [
        "Back-to-back frames",
        "System recovery",
        "As in RFC 8219, section 7.3.",
        "Throughput against frame size",
    ] {
        assert!(text.contains(of), "{of}");
    }
}

#[test]
fn two_hundred_points() {
    let points = (0..200).map(|i| {
        let frame = [64, 128, 256, 512, 1024, 1280, 1518, 2112, 4096, 9000][i % 10];
        let mut point = fixture::point(i, "kernel-forward", frame, 1e5 + i as f64 * 1e3);
        point.point.settings[2].1 = (i / 10).to_string();
        point
    });
    let data = RunData { run: fixture::run(1), points: points.collect() };
    let text = report(&[data]);
    assert!(text.contains("kernel-forward · cpus 19") && text.contains("Part 3 of 3."));
    assert!(text.len() < 20_000_000, "{} bytes", text.len());
}
