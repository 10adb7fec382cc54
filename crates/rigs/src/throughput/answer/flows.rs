//! The number of flows at which a device gets slower.

use super::axes::{Axes, Group};
use super::bars::{self, Group as Bars};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::{Answer, cycles, headline, times, trust};
use weir_report::view::format::{full, list, or_dash, significant};
use weir_report::view::{Bound, Ratio, Table};

/// A device with less than this of its rate at few flows is slower.
const SLOWER: f64 = 0.9;
/// Columns of the table.
const COLUMNS: &str = "frames/s by number of flows; slower from: the first number of flows at which, and at all larger ones, the \
    device has less than 90 % of its rate at the fewest flows.";
const AXIS: &str = "flows";

/// `None` where the plan does not vary the number of flows.
pub(super) fn answer(data: &RunData) -> Option<Answer> {
    let axes = Axes::without(data, &[AXIS]);
    let groups = axes.groups(data);
    let all: Vec<ByFlows> = groups.iter().filter_map(ByFlows::of).collect();
    let counts = counts(&all);
    let (fewest, most) = (counts.first()?, counts.last()?);
    let (unknown, known): (Vec<_>, Vec<_>) = all.iter().partition(|of| matches!(of.knee(), Knee::Unknown));
    let mut found: Vec<String> = known.into_iter().map(ByFlows::sentence).collect();
    let unknown: Vec<String> = unknown.iter().map(|of| of.group.label.clone()).collect();
    if !unknown.is_empty() {
        found
            .push(format!("for {} this is unknown, because rates are missing or are bounds", list(&unknown)));
    }
    let first = format!("From {} to {}: {}.", named(*fewest), named(*most), found.join("; "));
    let table = table(&axes, &all, &counts);
    let bars = all.iter().map(|of| Bars {
        label: of.group.label.clone(),
        points: of.points.iter().map(|(n, point)| (named(*n), *point)).collect(),
    });
    Some(Answer {
        sentences: std::iter::once(first).chain(trust(data)).collect(),
        table,
        columns: COLUMNS.into(),
        drawing: bars::of_rates(bars.collect()),
    })
}

/// A device at several numbers of flows.
struct ByFlows<'g, 'a> {
    group: &'g Group<'a>,
    /// The fewest first.
    points: Vec<(f64, &'a PointData)>,
}

/// A number of flows, and what part of the rate at the fewest flows a device has there.
type AtFlows = (f64, Ratio);

/// What more flows do to a rate.
enum Knee {
    /// From a number on it is slower; and what it has at the most flows.
    From(AtFlows, AtFlows),
    /// It is not slower at the most flows.
    None(AtFlows),
    /// A rate is a bound or is missing.
    Unknown,
}

impl<'g, 'a> ByFlows<'g, 'a> {
    fn of(group: &'g Group<'a>) -> Option<Self> {
        let points = group.along(AXIS);
        (points.len() > 1).then_some(ByFlows { group, points })
    }

    fn knee(&self) -> Knee {
        let Some(ratios) = self.by_rates().or_else(|| self.by_cycles()) else { return Knee::Unknown };
        let last = ratios.last().copied();
        let slower = ratios.into_iter().rev().take_while(|(_, ratio)| is_slower(ratio)).last();
        match (slower, last) {
            (Some(from), Some(last)) => Knee::From(from, last),
            (None, Some(last)) => Knee::None(last),
            (_, None) => Knee::Unknown,
        }
    }

    /// The rates by that at the fewest flows; `None` where one of them is missing or a bound.
    fn by_rates(&self) -> Option<Vec<AtFlows>> {
        let ((_, base), others) = self.points.split_first()?;
        let known = |ratio: &Ratio| match ratio.bound {
            Bound::Exact => true,
            // Of a bound it is known on one side only.
            Bound::AtMost => ratio.value < SLOWER,
            Bound::AtLeast => ratio.value >= SLOWER,
            Bound::Rough | Bound::NoResult => false,
        };
        others.iter().map(|(n, point)| Some((*n, times(point, base).filter(known)?))).collect()
    }

    /// What a CPU could forward by the cycles of a frame, by the same at the fewest flows.
    fn by_cycles(&self) -> Option<Vec<AtFlows>> {
        let ((_, base), others) = self.points.split_first()?;
        let base = cycles(base)?;
        let ratio = |point: &PointData| {
            let value = base / cycles(point)?;
            Some(Ratio { value, interval: None, bound: Bound::Exact })
        };
        others.iter().map(|(n, point)| Some((*n, ratio(point)?))).collect()
    }

    fn sentence(&self) -> String {
        let label = &self.group.label;
        let by = if self.by_rates().is_none() { " by its cycles per frame" } else { "" };
        match self.knee() {
            Knee::From((from, ratio), (most, last)) => {
                let more = if most > from {
                    format!(", and {} with {}", significant(last.value), full(most))
                } else {
                    String::new()
                };
                let (from, ratio) = (named(from), ratio.words());
                format!("{label} is slower from {from} on, where it has {ratio} of its rate{by}{more}")
            }
            Knee::None((most, last)) => {
                let (kept, most) = (significant(last.value), full(most));
                format!("{label} does not get slower ({kept} of its rate with {most}{by})")
            }
            Knee::Unknown => format!("for {label} this is unknown"),
        }
    }
}

/// Surely, where there is an interval.
fn is_slower(ratio: &Ratio) -> bool {
    ratio.value < SLOWER && ratio.interval.is_none_or(|(_, high)| high < 1.0)
}

fn named(flows: f64) -> String {
    super::axes::words(AXIS, &flows.to_string()).unwrap_or_default()
}

/// All numbers of flows, the fewest first.
fn counts(all: &[ByFlows<'_, '_>]) -> Vec<f64> {
    let mut counts: Vec<f64> = all.iter().flat_map(|of| &of.points).map(|(n, _)| *n).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    counts
}

fn table(axes: &Axes, all: &[ByFlows<'_, '_>], counts: &[f64]) -> Table {
    let short = |n: &f64| match *n {
        n if n >= 1e6 && n % 1e6 == 0.0 => format!("{}M", n / 1e6),
        n if n >= 1e3 && n % 1e3 == 0.0 => format!("{}k", n / 1e3),
        n => n.to_string(),
    };
    let head = axes.head().into_iter().chain(counts.iter().map(short)).chain(["slower from".into()]);
    let mut table = Table::new(&head.collect::<Vec<_>>());
    for of in all {
        let rate = |n: &f64| {
            let point = of.points.iter().find(|(other, _)| other == n);
            or_dash(point.and_then(|(_, point)| headline(point)), |rate| rate.sign())
        };
        let knee = match of.knee() {
            Knee::From((n, _), _) => short(&n),
            Knee::None(_) => "none".into(),
            Knee::Unknown => "–".into(),
        };
        let cells = of.group.cells.iter().cloned().chain(counts.iter().map(rate)).chain([knee]);
        table.push(cells.collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Measured, run, shown};

    #[test]
    fn the_number_of_flows_from_which_a_device_is_slower() {
        let of = |dut, rates: [f64; 3]| {
            [("1", rates[0]), ("1000", rates[1]), ("100000", rates[2])].map(|(flows, fps)| (dut, flows, fps))
        };
        let all = [
            of("kernel-forward", [500e3, 498e3, 460e3]),
            of("kernel-stateful", [400e3, 320e3, 200e3]),
            of("kernel-nat", [300e3, 250e3, 295e3]),
        ];
        let points = all.concat();
        let points = points.iter().map(|(dut, flows, fps)| Measured {
            dut,
            frame: 64,
            settings: vec![("flows", *flows)],
            fps: *fps,
        });
        let points: Vec<_> = points.collect();
        let text = shown(&run(&points));
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(
            first,
            "From 1 flow to 100 000 flows: kernel-forward does not get slower (0.920 of its rate with 100 000); \
             kernel-stateful is slower from 1 000 flows on, where it has 0.800 (0.790 to 0.810) of its rate, and 0.500 with \
             100 000; kernel-nat does not get slower (0.983 of its rate with 100 000)."
        );
        assert!(
            rest.ends_with(
                "device              1    1k  100k  slower from\n\
                 kernel-forward   500k  498k  460k  none\n\
                 kernel-stateful  400k  320k  200k  1k\n\
                 kernel-nat       300k  250k  295k  none\n"
            ),
            "{rest}"
        );
    }
}
