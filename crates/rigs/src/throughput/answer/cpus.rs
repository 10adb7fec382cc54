//! The gain of more CPUs, and the cost of a firewall.

use super::axes::{Axes, Group, words};
use super::bars::{self, Group as Bars};
use super::functions::by_forwarding;
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::{Answer, headline, times, trust};
use weir_report::view::format::{list, or_dash, range};
use weir_report::view::{Ratio, Table};

const AXIS: &str = "cpus";
const COLUMNS: &str =
    "frames/s by number of CPUs; gain: the rate with the most CPUs by that with the fewest.";

/// `None` where the plan does not vary the number of CPUs.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[AXIS]);
    let groups = axes.groups(data);
    let all: Vec<ByCpus> = groups.iter().filter_map(ByCpus::of).collect();
    let mut counts: Vec<f64> = all.iter().flat_map(|of| &of.points).map(|(n, _)| *n).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let (fewest, most) = (counts.first()?, counts.last()?);
    let found: Vec<String> = all.iter().map(ByCpus::sentence).collect();
    let first = format!("With {} in place of {}: {}.", named(*most), named(*fewest), list(&found));
    let bars = all.iter().map(|of| Bars {
        label: of.group.label.clone(),
        points: of.points.iter().map(|(n, point)| (named(*n), *point)).collect(),
    });
    let bars = bars::of_rates(bars.collect());
    Some(Answer {
        sentences: std::iter::once(first).chain(by_forwarding(data)).chain(trust(data)).collect(),
        table: table(&axes, &all, &counts),
        columns: COLUMNS.into(),
        drawing: bars,
    })
}

/// A device with several numbers of CPUs.
struct ByCpus<'g, 'a> {
    group: &'g Group<'a>,
    /// The fewest first.
    points: Vec<(f64, &'a PointData)>,
}

impl<'g, 'a> ByCpus<'g, 'a> {
    fn of(group: &'g Group<'a>) -> Option<Self> {
        let points = group.along(AXIS);
        (points.len() > 1).then_some(ByCpus { group, points })
    }

    /// The rate with the most CPUs by that with the fewest.
    fn gain(&self) -> Option<Ratio> {
        times(self.points.last()?.1, self.points.first()?.1)
    }

    fn sentence(&self) -> String {
        let label = &self.group.label;
        match self.gain() {
            Some(gain) => {
                format!("{label} forwards {} times as much", gain.words())
            }
            None => format!("for {label} this is unknown, because a rate is missing or is a bound"),
        }
    }
}

fn named(cpus: f64) -> String {
    words(AXIS, &cpus.to_string()).unwrap_or_default()
}

fn table(axes: &Axes, all: &[ByCpus<'_, '_>], counts: &[f64]) -> Table {
    let head = axes.head().into_iter().chain(counts.iter().map(|n| named(*n)));
    let mut table = Table::new(&head.chain(["gain".into(), "95 % interval".into()]).collect::<Vec<_>>());
    for of in all {
        let rate = |n: &f64| {
            let point = of.points.iter().find(|(other, _)| other == n);
            or_dash(point.and_then(|(_, point)| headline(point)), |rate| rate.sign())
        };
        let gain = of.gain();
        let cells = of.group.cells.iter().cloned().chain(counts.iter().map(rate));
        let value = or_dash(gain, |gain| gain.sign());
        let interval = or_dash(gain.and_then(|gain| gain.interval), range);
        table.push(cells.chain([value, interval]).collect());
    }
    table.without_empty(&["95 % interval"])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run, shown};

    #[test]
    fn what_a_second_cpu_brings() {
        let of = |dut, cpus, fps| Measured { dut, frame: 64, settings: vec![("cpus", cpus)], fps };
        let (one, two) = ("1", "all");
        let text = shown(&run(&[
            of("kernel-forward", one, 400e3),
            of("kernel-stateful", one, 300e3),
            of("kernel-forward", two, 600e3),
            of("kernel-stateful", two, 300e3),
        ]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "With 4 CPUs in place of 1 CPU: kernel-forward forwards 1.50 (1.48 to 1.52) times as much and kernel-stateful \
             forwards 1.00 (0.987 to 1.01) times as much."
        );
        assert_eq!(
            lines[1],
            "With 1 CPU: kernel-stateful has 0.750 (0.740 to 0.760) of what kernel-forward forwards."
        );
    }
}
