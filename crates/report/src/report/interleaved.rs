//! Devices that alternated: how many times as fast one is as another, repetition by repetition.

use crate::record;
use crate::run_data::{PointData, RunData};
use crate::view::format::{bracketed, or_dash, range, significant};
use crate::view::page::note;
use crate::view::{Comparison, Rate, Ratio, Series, Table, frame_name};

/// The table with what must be known to read it; empty where no devices alternated.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let table = table(all);
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<h3>Devices in interleaved rounds</h3>\n{}{}",
        table.without_empty(&["95 % interval"]).html(),
        note(EXPLANATION)
    )
}

const EXPLANATION: &str = "These devices stood beside each other and were searched alternately, another one first in each round. \
    Ratios are formed round by round, so that what the machine does to both of a pair cancels out; shown are their median and its \
    exact 95 % interval, which needs six rounds. ≥, ≤: one of the two searches ended at the tester's limit; \
    where both did, or one ended early, there is no ratio.";

/// A line per device and the one that it is divided by.
pub fn table(all: &Comparison<'_>) -> Table {
    let mut table = Table::new(&["Frame", "Device", "by", "Goal", "Ratio", "95 % interval", "Rounds"]);
    for pair in pairs(all) {
        let record::Comparison { interval, rounds, .. } = *pair.comparison;
        table.push(vec![
            pair.own.1.point.frame.clone(),
            pair.own.0.label.clone(),
            pair.other.0.label.clone(),
            pair.own.1.goals().first().map_or_else(String::new, |goal| goal.goal.clone()),
            or_dash(pair.ratio(), |ratio| ratio.sign()),
            or_dash(interval, range),
            rounds.to_string(),
        ]);
    }
    table
}

/// A sentence for each pair of a run.
pub(super) fn findings(all: &Comparison<'_>, data: &RunData) -> Vec<String> {
    let pairs = pairs(all).into_iter().filter(|pair| pair.own.0.run.id == data.run.id);
    let sentence = |pair: Pair<'_>| {
        let Ratio { value, interval, bound } = pair.ratio()?;
        let interval = interval.map_or_else(String::new, bracketed);
        let rounds = match pair.comparison.rounds {
            1 => "one round".to_string(),
            rounds => format!("{rounds} rounds"),
        };
        let (own, other) = (&pair.own.0.name, &pair.other.0.name);
        let (words, ratio) = (bound.words(), significant(value));
        let frame = frame_name(&pair.own.1.point.frame);
        Some(format!(
            "Alternately at {frame}, {own} passes {words}{ratio} times{interval} as many frames as {other}, in {rounds}."
        ))
    };
    pairs.filter_map(sentence).collect()
}

type Placed<'a> = (&'a Series<'a>, &'a PointData);

/// Two that alternated.
struct Pair<'a> {
    own: Placed<'a>,
    other: Placed<'a>,
    comparison: &'a record::Comparison,
}

impl Pair<'_> {
    /// What the bounds of the two rates leave of their ratio; `None` where both are bounds, or one is rough.
    fn ratio(&self) -> Option<Ratio> {
        let [own, other] = [self.own, self.other].map(|(_, point)| Rate::headline(point));
        own?.over(&other?)?.of_rounds(self.comparison)
    }
}

fn pairs<'a>(all: &'a Comparison<'a>) -> Vec<Pair<'a>> {
    let placed = all.all();
    let other = |own: &Placed<'a>, index: usize| {
        let is_it =
            |(series, point): &&Placed<'a>| series.run.id == own.0.run.id && point.point.index == index;
        placed.iter().find(is_it).copied()
    };
    let of = |own: &Placed<'a>| -> Vec<Pair<'a>> {
        let pair = |comparison: &'a record::Comparison| {
            Some(Pair { own: *own, other: other(own, comparison.point_index)?, comparison })
        };
        own.1.comparisons().iter().filter_map(pair).collect()
    };
    placed.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// The run of the fixture, in which NAT was divided by forwarding, and what its search says.
    fn check(irregular: Option<&str>, row: &str, sentence: &str) {
        let mut data = fixture::quick();
        let index = |dut: &str, data: &RunData| {
            data.points.iter().position(|p| p.point.dut == dut && p.point.frame == "64").expect("it is there")
        };
        let (base, nat) = (index("kernel-forward", &data), index("kernel-nat", &data));
        let point_index = data.points[base].point.index;
        let result = data.points[nat].point.result.as_mut().expect("a result");
        result.comparisons = vec![record::Comparison {
            point_index,
            ratio: 0.59,
            interval: Some((0.55, 0.61)),
            rounds: 6,
            ..record::Comparison::default()
        }];
        result.goals[0].repetitions[0].irregular = irregular.map(String::from);
        let runs = [data];
        let all = Comparison::new(&runs);
        let plain = |text: &str| text.replace('\u{202f}', " ");
        let text = plain(&table(&all).text());
        let words: Vec<&str> = text.lines().last().expect("a row").split_whitespace().collect();
        assert_eq!(words.join(" "), row);
        assert_eq!(findings(&all, &runs[0]).iter().map(|s| plain(s)).collect::<Vec<_>>(), [sentence]);
        assert!(html(&all).contains("Devices in interleaved rounds"));
    }

    #[test]
    fn ratios_of_devices_that_took_turns() {
        check(
            None,
            "64 kernel-nat kernel-forward NDR 0.590 0.550–0.610 6",
            "Alternately at 64 bytes, kernel-nat passes 0.590 times (0.550 to 0.610) as many frames as kernel-forward, in 6 rounds.",
        );
        check(
            Some("tester-limited"),
            "64 kernel-nat kernel-forward NDR ≥0.590 0.550–0.610 6",
            "Alternately at 64 bytes, kernel-nat passes at least 0.590 times (0.550 to 0.610) as many frames as kernel-forward, in 6 rounds.",
        );
    }

    #[test]
    fn nobody_took_turns() {
        let runs = [fixture::quick()];
        let all = Comparison::new(&runs);
        assert!(html(&all).is_empty() && findings(&all, &runs[0]).is_empty());
    }
}
