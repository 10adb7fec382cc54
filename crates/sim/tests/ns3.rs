//! The same small grid in ns-3 (`ns3/grid.py`, its output `ns3/grid.txt`) and here: where the two are apart is in `ns3/apart.txt`, so that a
//! change of the simulator shows there.

use std::fmt::Write;

use weir_queue::{Config, Time};
use weir_sim::cc::Name;
use weir_sim::{Buffer, Group, Outcome, Scenario};

/// A figure, and how far one run of ours may be from the median of ns-3's: by so much, and by this part of it.
struct Figure {
    name: &'static str,
    of: fn(&Outcome) -> f64,
    by: f64,
    part: f64,
}

const FIGURES: [Figure; 6] = [
    Figure { name: "utilisation", of: |outcome| outcome.utilisation, by: 0.02, part: 0.0 },
    Figure { name: "Jain's index", of: |outcome| outcome.jain, by: 0.05, part: 0.0 },
    Figure { name: "share of the first group", of: |outcome| outcome.groups[0].share, by: 0.05, part: 0.0 },
    Figure { name: "median sojourn", of: |outcome| outcome.sojourn.p50_s, by: 0.003, part: 0.2 },
    Figure { name: "p99 of the sojourn", of: |outcome| outcome.sojourn.p99_s, by: 0.003, part: 0.2 },
    Figure { name: "loss", of: Outcome::loss, by: 0.002, part: 0.5 },
];

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// A point of the grid as ns-3 has seen it: a value a seed of each figure.
struct Row {
    point: String,
    scenario: Scenario,
    theirs: Vec<Vec<f64>>,
}

fn row(line: &str) -> Row {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [queue, bdp, flows, mix, rtt_ms, rate, duration_s, warm_up_s] = words[..8] else { panic!("{line}") };
    let number = |word: &str| word.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
    let time = |word: &str| Time::from_secs(number(word));
    let ccs: Vec<Name> = mix.split('+').map(named).collect();
    let group = |cc: &Name| {
        let rtt = Time::from_secs(number(rtt_ms) / 1e3);
        Group { spread: rtt, ..Group::new(number(flows) as u32 / ccs.len() as u32, *cc, rtt) }
    };
    let queue = Config::named(queue).expect("in the catalogue");
    let (buffer, groups) = (Buffer::Bdp(number(bdp)), ccs.iter().map(group).collect());
    let mut scenario = Scenario::new(queue, number(rate) as u64, buffer, groups, time(duration_s));
    (scenario.warm_up, scenario.seed) = (time(warm_up_s), 1);
    let values = |word: &&str| word.split(',').map(number).collect();
    Row { point: words[..4].join(" "), scenario, theirs: words[8..].iter().map(values).collect() }
}

fn named(text: &str) -> Name {
    Name::ALL.into_iter().find(|cc| cc.text() == text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn differences_from_ns3_are_those_that_are_known() {
    let text = include_str!("ns3/grid.txt");
    let rows: Vec<Row> = text.lines().filter(|line| !line.starts_with('#')).map(row).collect();
    assert_eq!(rows.len(), 88, "40 points with a FIFO, 48 with AQMs");
    let mut apart = String::from(
        "# Beyond the bounds of ns3.rs: point (queue, buffer in BDP, flows, mix), figure, ours and ns-3's\n",
    );
    for row in &rows {
        let outcome = row.scenario.run().unwrap();
        for (figure, theirs) in FIGURES.iter().zip(&row.theirs) {
            let (ours, theirs) = ((figure.of)(&outcome), median(theirs));
            if (ours - theirs).abs() > figure.by + figure.part * theirs {
                writeln!(apart, "{}: {} {ours:.3}, ns-3 {theirs:.3}", row.point, figure.name).unwrap();
            }
        }
    }
    weir_testkit::golden!("tests/ns3/apart.txt", &apart);
}
