use super::report::*;
use weir_record::fixture;
use weir_record::record::{Comparison, Departures, Noise, PointResult, Purpose, Trial};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::block::{self, terminal};
use weir_testkit::golden;

/// Point number `index` of a comparison: rates in its rounds, and what it is compared with.
fn generator(index: usize, name: &str, flows: &str, fps: Option<f64>, against: &[(usize, f64)]) -> PointData {
    let mut data = fixture::point(index, name, 64, fps.unwrap_or(1.0));
    data.point.index = index;
    data.point.settings = settings("generator", &[("generator", name), ("flows", flows)]);
    let goal = data.point.result.take().unwrap().goals.remove(0);
    let comparison = |(point_index, ratio): &(usize, f64)| Comparison {
        point_index: *point_index,
        ratio: *ratio,
        interval: Some((ratio * 0.9, ratio * 1.1)),
        rounds: 5,
        ..Comparison::default()
    };
    let comparisons = against.iter().map(comparison).collect();
    let goals = fps.map(|_| goal).into_iter().collect();
    data.point.result =
        Some(PointResult { search: "rounds".into(), goals, comparisons, ..PointResult::default() });
    data
}

fn settings(measures: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let all = std::iter::once(("measures", measures)).chain(more.iter().copied());
    all.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn pacing(index: usize, offered: f64, rates: &[f64]) -> PointData {
    let mut data = fixture::point(index, "wire", 64, offered);
    data.point.settings = settings("pacing", &[("offered_fps", &offered.to_string())]);
    let trial = data.trials[1].clone();
    let departures = |rate_fps: &f64| Departures {
        rate_fps: *rate_fps,
        count: 100,
        late_p50_ns: 20,
        late_p99_ns: 150,
        late_p999_ns: 4000,
        late_max_ns: 9000,
        buckets: vec![(20, 90), (150, 9), (9000, 1)],
    };
    let trials = rates.iter().map(|rate| Trial {
        purpose: Purpose::Pacing,
        overhead_s: 0.004,
        noise: Noise { departures: Some(departures(rate)), ..Noise::default() },
        ..trial.clone()
    });
    data.trials = trials.collect();
    data
}

fn run() -> RunData {
    let mut absent = generator(2, "tcpreplay", "1", None, &[]);
    absent.point.notes = vec!["tcpreplay is left out: it is not installed.".into()];
    absent.trials.clear();
    let points = vec![
        generator(0, "weir", "1", Some(12e6), &[(1, 6.0)]),
        generator(1, "trafgen", "1", Some(2e6), &[]),
        absent,
        generator(3, "weir", "1000000", Some(9e6), &[(0, 0.75), (1, 4.5)]),
        pacing(4, 1000.0, &[1000.0, 999.0]),
        pacing(5, 2e6, &[2e6, 2e6]),
    ];
    RunData { run: fixture::run(1), points }
}

#[test]
fn findings_say_how_many_times_and_who_is_missing_and_tables_hold_all_of_it() {
    let found = findings(&run()).join("\n");
    let shown = [found, terminal(&parts(&run()))].join("\n\n").replace('\u{202f}', " ");
    golden!("src/peers/generator/golden.txt", &shown);
}

/// One flow is compared, as others repeat one frame; what finds the ring full makes a rate a bound.
#[test]
fn the_first_screen_says_who_sends_most_and_by_how_much() {
    let mut data = run();
    data.points.push(generator(6, "xdp-trafficgen", "1", Some(13e6), &[]));
    let own = data.points[0].point.result.as_mut().unwrap();
    own.comparisons.push(Comparison {
        point_index: 6,
        ratio: 0.92,
        interval: Some((0.9, 0.94)),
        ..own.comparisons[0].clone()
    });
    let overrun = generator(7, "iperf3", "1", Some(1e6), &[]);
    data.points.push(overrun);
    let own = data.points[0].point.result.as_mut().unwrap();
    own.comparisons.push(Comparison {
        point_index: 7,
        ratio: 12.0,
        interval: Some((11.5, 12.5)),
        ..own.comparisons[0].clone()
    });
    for (point, lost) in data.points.iter_mut().zip([0, 0, 0, 0, 0, 0, 1, 60]) {
        let count =
            |trial: Trial| trial.counting(|c| (c.sent, c.received, c.lost) = (1000, 1000 - lost, lost));
        point.trials = point.trials.drain(..).map(count).collect();
    }
    let text = weir_report::export::answer(&data, crate::sections(), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    golden!("src/peers/generator/answer.txt", &text);
}

#[test]
fn the_histogram_is_counted_from_below() {
    let data = run();
    let pace = &paces(&data)[0];
    assert_eq!(
        (pace.share_within(100), pace.share_within(1000), pace.share_within(10_000)),
        (0.9, 0.99, 1.0)
    );
}

#[test]
fn the_page_has_these_sections_and_none_about_devices() {
    let page = weir_report::report::html(&[run()], crate::sections());
    for part in ["Generators compared", "Pacing", "Frames by lateness", "left out"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        !page.contains("Throughput by frame size") && !page.contains("not the limit"),
        "no device was measured"
    );
    assert_eq!(
        block::page(&parts(&fixture::quick())),
        "",
        "nothing about generators where none was compared"
    );
}
