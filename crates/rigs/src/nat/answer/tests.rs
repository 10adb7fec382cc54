//! A small run for each question, and the screen that answers it.

use weir_load::translation::NatFault;
use weir_testkit::golden;

use super::super::figure::{ID, LATE, MEMORY, round_trip_at};
use super::super::plan::Step;
use super::super::table::{EARLY_DROP, TABLE_DROP};
use weir_record::figure::{figure, name, procedure, unit};
use weir_record::fixture;
use weir_record::record::{Comparison, Figure, PointResult, ProcedureResult, Statistic, Translation, Trial};
use weir_record::run_data::{PointData, RunData};
use weir_report::export;

fn one(name: &str, unit: &str, value: f64) -> Figure {
    figure(name, unit, Statistic::Median, vec![value])
}

/// A NAT with a capacity in overload that was measured in the rounds of point 0.
fn nat(index: usize, dut: &str, settings: &[(&str, &str)], fps: f64, figures: Vec<Figure>) -> PointData {
    let mut data = fixture::point(index, dut, 128, fps);
    data.trials.clear();
    data.point.settings =
        settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut rate = one(name::CAPACITY, unit::FRAMES_PER_S, fps);
    rate.interval = Some((fps * 0.98, fps * 1.02));
    let cycles = one(name::CYCLES, unit::CYCLES, 2e9 / fps);
    let ratio = fps / 250e3;
    let in_rounds = Comparison {
        point_index: 0,
        ratio,
        interval: Some((ratio * 0.97, ratio * 1.03)),
        rounds: 10,
        ..Comparison::default()
    };
    let capacity = ProcedureResult {
        procedure: procedure::CAPACITY.into(),
        figures: vec![rate, cycles],
        comparisons: if index > 0 && settings.is_empty() { vec![in_rounds] } else { Vec::new() },
        ..ProcedureResult::default()
    };
    let nat = ProcedureResult { procedure: ID.into(), figures, ..ProcedureResult::default() };
    data.point.result = Some(PointResult { procedures: vec![nat, capacity], ..PointResult::default() });
    data
}

/// The first screen of a terminal with 80 columns.
fn screen(points: Vec<PointData>) -> String {
    let mut data = RunData { run: fixture::run_of("nat"), points };
    data.run.question = "What is asked?".into();
    let text = export::answer(&data, crate::sections(), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

#[test]
fn round_trips_are_beside_each_other_at_equal_loads() {
    let trips = |times: [f64; 2]| -> Vec<Figure> {
        let at = |(fps, ms): (f64, f64)| {
            let step = Step::Fps(fps);
            let late = one(&round_trip_at(LATE, step), unit::SECONDS, ms / 1e3);
            [late, one(&super::super::figure::loss_at(step), unit::RATIO, 0.0)]
        };
        [50e3, 100e3].into_iter().zip(times).flat_map(at).collect()
    };
    let kernel = nat(0, "kernel-nat", &[], 250e3, trips([0.05, 0.14]));
    let node = nat(1, "node-nat", &[], 550e3, trips([0.07, 0.08]));
    let mut fast = nat(2, "node-nat-fast", &[], 1.2e6, trips([0.04, 0.05]));
    let mut result = fast.point.result.take().unwrap();
    result.procedures[1].irregular =
        vec!["In 2 of 5 trials the tester could not offer more: the capacity is a lower bound.".into()];
    fast.point.result = Some(result);
    let without =
        vec![nat(0, "kernel-nat", &[], 250e3, Vec::new()), nat(1, "node-nat", &[], 550e3, Vec::new())];
    golden!("src/nat/answer/loads.txt", &[screen(vec![kernel, node, fast]), screen(without)].join("\n"));
}

#[test]
fn flows_cost_rate_cycles_and_memory() {
    let mut points = Vec::new();
    for (flows, kernel, node) in [("1", 500e3, 900e3), ("10000", 400e3, 890e3), ("100000", 300e3, 850e3)] {
        for order in ["sequential", "unique"] {
            for (dut, fps, bytes) in [("kernel-nat", kernel, 320.0), ("node-nat", node, 96.0)] {
                let memory = if flows == "1" { vec![] } else { vec![one(MEMORY, "bytes", bytes)] };
                let settings = [("flows", flows), ("flow_order", order)];
                points.push(nat(points.len(), dut, &settings, fps, memory));
            }
        }
    }
    golden!("src/nat/answer/flows.txt", &screen(points));
}

/// A table with so many entries, and what it forwards with 10,000 and with 200,000 flows.
fn table(points: &mut Vec<PointData>, buckets: &str, max: &str, rates: [f64; 2]) {
    for (flows, fps) in ["10000", "200000"].into_iter().zip(rates) {
        let settings = [("flows", flows), ("nf_conntrack_buckets", buckets), ("nf_conntrack_max", max)];
        let is_full = flows == "200000" && max == "65536";
        let drops = if is_full { [7e5, 9e3] } else { [0.0; 2] };
        let figures = vec![one(TABLE_DROP, unit::FRAMES, drops[0]), one(EARLY_DROP, unit::FRAMES, drops[1])];
        let mut data = nat(points.len(), "kernel-nat", &settings, fps, figures);
        if is_full {
            let seen = Translation {
                flows: 200_000,
                faults: vec![(NatFault::Clashed, 7185)],
                ..Translation::default()
            };
            data.trials.push(Trial::default().with_detail(&seen));
        }
        points.push(data);
    }
}

#[test]
fn a_connection_table_is_recommended() {
    let mut points = Vec::new();
    for (buckets, max, rates) in [
        ("16384", "65536", [400e3, 90e3]),
        ("16384", "524288", [395e3, 160e3]),
        ("262144", "65536", [401e3, 95e3]),
        ("262144", "524288", [402e3, 330e3]),
    ] {
        table(&mut points, buckets, max, rates);
    }
    let full_only: Vec<PointData> =
        points.iter().filter(|data| data.setting("nf_conntrack_max") == Some("65536")).cloned().collect();
    let mut many = points.clone();
    for (buckets, max) in [
        ("65536", "524288"),
        ("65536", "65536"),
        ("16384", "1048576"),
        ("65536", "1048576"),
        ("262144", "1048576"),
    ] {
        table(&mut many, buckets, max, [401e3, 329e3]);
    }
    many.iter_mut().enumerate().for_each(|(index, data)| data.point.index = index);
    golden!("src/nat/answer/table.txt", &[screen(points), screen(full_only), screen(many)].join("\n"));
}

#[test]
fn a_run_without_rates_says_so() {
    let mut data = nat(0, "kernel-nat", &[], 250e3, Vec::new());
    data.point.result = data.point.result.map(|mut result| {
        result.procedures.truncate(1);
        result
    });
    let text = screen(vec![data]);
    assert!(
        text.contains("\nThis run has no result: no rate was found for any NAT; 0 of 0 trials are valid.\n"),
        "{text}"
    );
}

#[test]
fn a_broken_nat_is_said_before_its_rate() {
    let mut data = nat(0, "prefix-nat", &[], 250e3, Vec::new());
    let seen = Translation { flows: 9, faults: vec![(NatFault::Leaked, 20)], ..Translation::default() };
    data.trials.push(Trial::default().with_detail(&seen));
    let text = screen(vec![data]);
    assert!(text.contains("\nprefix-nat: broken NAT: 20 frames left untranslated.\n"), "{text}");
}
