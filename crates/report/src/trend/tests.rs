use super::*;
use crate::fixture;
use crate::rng::Rng;
use weir_testkit::golden;

/// Runs of `quick` with two points, whose rate at 64 bytes follows `levels`.
fn runs(levels: &[f64]) -> Vec<(Run, Vec<Point>)> {
    let mut rng = Rng::new(7);
    let one = |(i, level): (usize, &f64)| {
        let mut run = fixture::run(i as i64 + 1);
        run.started = format!("2026-03-{:02}T10:00:00Z", i + 1);
        let point = |index, frame, fps: f64| fixture::point(index, "kernel-forward", frame, fps).point;
        let mut noise = || 1.0 + 0.01 * (rng.unit() - 0.5);
        (run, vec![point(0, 64, level * noise()), point(1, 1518, 3e5 * noise())])
    };
    levels.iter().enumerate().map(one).collect()
}

fn step() -> Vec<(Run, Vec<Point>)> {
    let mut all = runs(&[[4e5; 8], [3.6e5; 8]].concat());
    all[8..].iter_mut().for_each(|(run, _)| run.version = "0.2.0".into());
    all
}

#[test]
fn a_change_is_reported_with_what_changed() {
    let found = trend("quick", &step(), &Filter::default()).unwrap();
    let kinds: Vec<_> =
        found.tracks.iter().map(|t| format!("{} {} {}", t.frame, t.quantity, t.changes.len())).collect();
    assert_eq!(kinds, ["64 NDR 1", "64 PDR 0.5% 1", "1518 NDR 0", "1518 PDR 0.5% 0"]);
    let track = &found.tracks[0];
    let change = &track.changes[0];
    assert_eq!(
        (change.run, change.started.as_str(), change.version.as_str()),
        (9, "2026-03-09T10:00:00Z", "0.2.0")
    );
    let (low, high) = change.interval.unwrap();
    assert!(low < 0.9 && high > 0.9 && (change.factor - 0.9).abs() < 0.01, "{change:?}");
    assert_eq!(change.changed_with_it.len(), 1);
    assert_eq!(change.changed_with_it[0].what, "weir");
    assert!((track.level / 3.6e5 - 1.0).abs() < 0.01 && track.level_runs == 8, "{track:?}");
}

#[test]
fn filters_choose_points_and_goals() {
    let count = |goals: &[&str], settings: &[(&str, &str)]| {
        let filter = Filter {
            goals: goals.iter().map(|g| g.to_string()).collect(),
            settings: settings.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        };
        trend("quick", &step(), &filter).unwrap().tracks.len()
    };
    assert_eq!(count(&[], &[]), 4);
    assert_eq!(count(&["NDR"], &[]), 2);
    assert_eq!(count(&["NDR"], &[("frame_bytes", "64"), ("dut", "kernel-forward")]), 1);
    assert_eq!(count(&[], &[("frame_bytes", "99")]), 0);
}

#[test]
fn only_comparable_runs_count() {
    let mut all = step();
    all[0].0.plan = "router".into();
    all[1].0.state = RunState::Interrupted;
    all[2].0.machine.cpus = 64;
    all[3].1[0].result.as_mut().unwrap().goals[0].repetitions[0].irregular = Some("tester-limited".into());
    all[4].1[0].result.as_mut().unwrap().goals[0].parameters[0].1 = "60 s".into();
    let found = trend("quick", &all, &Filter::default()).unwrap();
    assert_eq!(found.runs.len(), 13);
    assert_eq!(
        found.left_out,
        [
            "1 runs did not end",
            "1 runs were made on another machine",
            "1 values of searches that ended irregularly"
        ]
    );
    let names: Vec<_> =
        found.tracks.iter().map(|t| format!("{} {} {}", t.device, t.quantity, t.values.len())).collect();
    assert_eq!(
        names,
        [
            "kernel-forward PDR 0.5% 13",
            "kernel-forward NDR 13",
            "kernel-forward PDR 0.5% 13",
            "kernel-forward · final trial 60 s NDR 1",
            "kernel-forward · final trial 1 s NDR 11",
        ]
    );
    assert_eq!(trend("nothing", &all, &Filter::default()), None);
}

#[test]
fn two_records_are_too_few() {
    let found = trend("quick", &runs(&[4e5, 1e5]), &Filter::default()).unwrap();
    assert_eq!(found.tracks[0].changes, []);
    golden!("src/trend/golden/too-few.txt", &text(&found));
}

#[test]
fn text_and_page_say_the_same() {
    let found = trend("quick", &step(), &Filter::default()).unwrap();
    let (text, page) = (text(&found), html(&found));
    golden!("src/trend/golden/step.txt", &text);
    let changes =
        found.tracks.iter().flat_map(|t| t.changes.iter().map(move |change| text::sentence(t, change)));
    for said in changes.chain([text::heading(&found)]) {
        assert!(page.contains(&crate::view::svg::escape(&said)), "{said}\n{page}");
    }
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("dot c1").count(), 64, "one per run and track");
    assert_eq!(page.matches("rule c2").count(), 2, "one per change");
    assert!(!page.contains("NaN") && !page.contains("<script"));
    html(&trend("quick", &runs(&[4e5]), &Filter::default()).unwrap());
}
