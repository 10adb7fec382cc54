//! The cost of flows in each NAT: frames/s, cycles per frame and memory per flow, by the number of flows.

use super::super::figure::{MEMORY, cycles, rate, value};
use super::{Bars, bounded, by_name, one_by_one};
use weir_record::run_data::{PointData, RunData};
use weir_report::report::answer::Answer;
use weir_report::view::axes::{Axes, short_value};
use weir_report::view::format::{bytes, full, or_dash, significant};
use weir_report::view::{Rate, Table};

/// Lines that a first screen has room for.
const LINES: usize = 16;
const TRAFFIC: [&str; 2] = ["flows", "flow_order"];

const COLUMNS: &str = "frames/s: translated there and back in overload, or where that was not measured at the loss that the plan \
    allows. of fewest: that rate by the one with the fewest flows. cycles: reference cycles of a frame there and back. memory: of a \
    flow; fewer than 10,000 cannot be seen.";
const CAPTION: &str = "Frames/s there and back by the number of flows, with 95 % intervals (whiskers).";

pub(super) fn answer(data: &RunData, points: &[&PointData], axes: &Axes) -> Answer {
    let random = in_one_order(points);
    let names = axes.clone().without(&TRAFFIC);
    let ends: Vec<Ends<'_>> = by_name(&names, random.iter().copied())
        .into_iter()
        .filter_map(|(name, all)| Ends::of(name, &all))
        .collect();
    let mut sentences: Vec<String> = sentence(&ends).into_iter().collect();
    sentences.extend(left_out(data));
    sentences.extend(bounded(points));
    let shown = if points.len() > LINES { &random[..] } else { points };
    Answer {
        sentences,
        table: table(shown, axes),
        columns: COLUMNS.into(),
        drawing: Bars { axes, by: &TRAFFIC, unit: "frames/s", caption: CAPTION }.draw(shown, rate),
    }
}

/// The points in one order of the flows, that in which caches help least, where several were measured.
fn in_one_order<'p>(points: &[&'p PointData]) -> Vec<&'p PointData> {
    let order = |data: &PointData| data.setting("flow_order").unwrap_or_default().to_string();
    let last = points.last().map(|data| order(data)).unwrap_or_default();
    let wanted = if points.iter().any(|data| order(data) == "unique") { "unique".into() } else { last };
    points.iter().copied().filter(|data| order(data) == wanted).collect()
}

fn flows(data: &PointData) -> u64 {
    data.setting("flows").and_then(|flows| flows.parse().ok()).unwrap_or(0)
}

/// A NAT with the fewest and with the most flows that it was measured with.
struct Ends<'p> {
    name: String,
    fewest: &'p PointData,
    most: &'p PointData,
    rates: (Rate, Rate),
}

impl<'p> Ends<'p> {
    fn of(name: String, points: &[&'p PointData]) -> Option<Ends<'p>> {
        let measured = || points.iter().copied().filter(|data| rate(data).is_some());
        let (fewest, most) =
            (measured().min_by_key(|data| flows(data))?, measured().max_by_key(|data| flows(data))?);
        Some(Ends { name, fewest, most, rates: (rate(fewest)?, rate(most)?) })
    }

    /// `500 k to 300 k frames/s (0.600 of that)`, cycles, memory.
    fn values(&self) -> Vec<String> {
        let (first, last) = self.rates;
        if flows(self.fewest) == flows(self.most) {
            let cycles = cycles(self.most).map(|cycles| format!("{} cycles a frame", full(cycles)));
            let memory = value(self.most, MEMORY).map(|of| format!("{} a flow", bytes(of)));
            return [Some(format!("{} frames/s", last.words())), cycles, memory]
                .into_iter()
                .flatten()
                .collect();
        }
        let share =
            last.over(&first).map_or(String::new(), |ratio| format!(" ({} of it)", significant(ratio.value)));
        let mut values = vec![format!("{} frames/s, {}{share}", first.words(), last.words())];
        let both = cycles(self.fewest).zip(cycles(self.most));
        values.extend(both.map(|(few, many)| format!("{} and {} cycles a frame", full(few), full(many))));
        values.extend(value(self.most, MEMORY).map(|of| format!("{} a flow", bytes(of))));
        values
    }
}

fn sentence(ends: &[Ends<'_>]) -> Option<String> {
    let first = ends.first()?;
    let numbers =
        |ends: &Ends<'_>| [ends.fewest, ends.most].map(|data| short_value("flows", &flows(data).to_string()));
    let [few, many] = numbers(first);
    let range = if few == many { format!("{few} flows") } else { format!("{few} flows and with {many}") };
    let name = |ends: &Ends<'_>| match numbers(ends) {
        same if same == [few.clone(), many.clone()] => ends.name.clone(),
        [few, many] => format!("{} (with {few} and {many})", ends.name),
    };
    let each =
        one_by_one(ends.iter().map(|ends| (name(ends), ends.values())), &["has {}", "needs {}", "takes {}"]);
    Some(format!("With {range}: {each}."))
}

/// The NATs that were not measured with so many flows, and why.
fn left_out(data: &RunData) -> Option<String> {
    let absent = data.points.iter().filter(|data| data.is_left_out());
    let mut texts = absent.flat_map(|data| data.point.notes.iter().map(move |note| (&data.point.dut, note)));
    let (dut, note) = texts.find(|(_, note)| note.contains("do not fit"))?;
    Some(format!("{dut}: {note}"))
}

fn table(points: &[&PointData], axes: &Axes) -> Table {
    let settings = axes.head().into_iter();
    let own = ["NAT", "frames/s", "of fewest", "cycles", "memory"].map(String::from);
    let mut table = Table::new(&settings.chain(own).collect::<Vec<_>>());
    let names = axes.clone().without(&["flows"]);
    for data in points {
        let alike = points.iter().filter(|other| names.name(&other.point) == names.name(&data.point));
        let fewest = alike.min_by_key(|other| flows(other)).and_then(|data| rate(data));
        let found = rate(data);
        let share = found.zip(fewest).and_then(|(own, fewest)| own.over(&fewest));
        let mut row = axes.cells(&data.point.settings);
        row.extend([
            data.point.dut.clone(),
            or_dash(found, |rate| rate.sign()),
            or_dash(share, |ratio| significant(ratio.value)),
            or_dash(cycles(data), full),
            or_dash(value(data, MEMORY), bytes),
        ]);
        table.push(row);
    }
    table.without_empty(&["cycles", "memory"])
}
