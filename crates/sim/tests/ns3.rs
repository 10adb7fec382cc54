//! The same small grid in ns-3 (`ns3/grid.py`, its output `ns3/grid.txt`) and here: how far are the two apart?

use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Scenario};

/// A point of the grid: what ns-3 found.
struct Row<'t> {
    point: &'t str,
    cc: Name,
    queue: &'t str,
    flows: u32,
    bdp: f64,
    found: Found,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    utilisation: f64,
    jain: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn row(line: &str) -> Row<'_> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize| words[i].parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
    Row {
        point: line,
        cc: Name::ALL.into_iter().find(|cc| cc.text() == words[0]).unwrap_or_else(|| panic!("{line}")),
        queue: words[1],
        flows: number(2) as u32,
        bdp: number(3),
        found: Found { utilisation: number(4), jain: number(5), p50_ms: number(6), p99_ms: number(7) },
    }
}

/// The median of three runs of 30 s, as in ns-3.
fn simulated(row: &Row<'_>) -> Found {
    let runs: Vec<Found> = (1..=3)
        .map(|seed| {
            let rtt = Time::from_ms(20);
            let group = Group { spread: rtt, ..Group::new(row.flows, row.cc, rtt) };
            let queue = Config::named(row.queue).expect("in the catalogue");
            let mut scenario =
                Scenario::new(queue, 20_000_000, Buffer::Bdp(row.bdp), vec![group], Time::from_s(30));
            (scenario.warm_up, scenario.seed) = (Time::from_s(10), seed);
            let outcome = scenario.run().unwrap();
            let ms = |s: f64| s * 1e3;
            Found {
                utilisation: outcome.utilisation,
                jain: outcome.jain,
                p50_ms: ms(outcome.sojourn.p50_s),
                p99_ms: ms(outcome.sojourn.p99_s),
            }
        })
        .collect();
    let middle = |of: fn(&Found) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[1]
    };
    Found {
        utilisation: middle(|found| found.utilisation),
        jain: middle(|found| found.jain),
        p50_ms: middle(|found| found.p50_ms),
        p99_ms: middle(|found| found.p99_ms),
    }
}

#[test]
fn ns3_finds_the_same_within_bounds() {
    let text = include_str!("ns3/grid.txt");
    let rows: Vec<Row<'_>> = text.lines().filter(|line| !line.starts_with('#')).map(row).collect();
    assert_eq!(rows.len(), 48, "three congestion controls, four queues, two numbers of flows, two buffers");
    for row in rows {
        let (theirs, ours) = (row.found, simulated(&row));
        println!(
            "{}: {:.4} {:.4} {:.2} {:.2}",
            row.point, ours.utilisation, ours.jain, ours.p50_ms, ours.p99_ms
        );
        let near = |ours: f64, theirs: f64, by: f64| (ours - theirs).abs() <= by;
        assert!(near(ours.utilisation, theirs.utilisation, 0.05), "utilisation, {}: {ours:?}", row.point);
        assert!(near(ours.jain, theirs.jain, 0.08), "fairness, {}: {ours:?}", row.point);
        // ns-3's BBR leaves less room for offloads and aggregation than Linux does.
        let part = if row.cc == Name::Bbr1 { 0.5 } else { 0.2 };
        let by = part * theirs.p50_ms + 3.0;
        assert!(near(ours.p50_ms, theirs.p50_ms, by), "time in the queue, {}: {ours:?}", row.point);
    }
}
