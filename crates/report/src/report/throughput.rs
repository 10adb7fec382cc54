//! Throughput by frame size and device, in frames/s and in Mbit/s, under the ceilings of tester and line.

use super::answer::headline;
use super::bars::{Bar, BarChart, Group};
use super::block::Block;
use super::loss::drawn;
use crate::figure::name;
use crate::record::GoalResult;
use crate::run_data::{PointData, WIRE};
use crate::view::format::{exact, full, or_dash, percent, si, unprefixed};
use crate::view::page::{figure, note, section};
use crate::view::{Bound, Comparison, Rate, Series, Table, axes, frame_name};

/// Rows that one figure holds: about a printed page.
const ROWS: usize = 40;
/// And the one on the first screen.
const FIRST_ROWS: usize = 12;

/// The section; empty when no point was searched.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let searched = all.all().iter().any(|(_, p)| Rate::headline(p).is_some());
    let table = table(all);
    if table.is_empty() {
        return String::new();
    }
    let figures = if searched { figures(all) + &super::by_size::html(all) } else { String::new() };
    let interleaved = super::interleaved::html(all);
    let body = format!("{figures}{interleaved}<h3>All goals</h3>\n{}{}", table.html(), note(EXPLANATION));
    section("throughput", "Throughput by frame size and device", &body)
}

const EXPLANATION: &str = "Rates are frames per second of all directions together; Mbit/s count the bits of \
    frames with FCS, without preamble and gap. ≥: the search ended without an upper bound, or the tester was the limit: the device may be \
    faster; ~: the search ended early; ?: the interval is too wide for a result. “Of ceiling” relates to the tester without a device (its rate at full speed, where it was not searched; before an \
    external DUT, what it sends), “of line” to the theoretical \
    maximum of the plan's line rate. “Peak received” is the highest rate received in a valid trial, whatever \
    the loss.";

fn figures(all: &Comparison<'_>) -> String {
    let mut portions: Vec<Vec<&str>> = vec![Vec::new()];
    let mut rows = 0;
    for frame in &all.frames {
        let more = all.at(frame).len();
        if rows > 0 && rows + more > ROWS {
            portions.push(Vec::new());
            rows = 0;
        }
        rows += more;
        portions.last_mut().expect("never empty").push(frame);
    }
    portions.iter().map(|frames| one_figure(all, frames)).collect()
}

fn one_figure(all: &Comparison<'_>, frames: &[&str]) -> String {
    let points = drawn(all).into_iter().flat_map(|s| &s.points);
    let goals = points.filter_map(|p| p.goals().first().map(|g| g.goal.clone()));
    let mut goals: Vec<_> = goals.collect();
    goals.sort();
    goals.dedup();
    // Without a search the capacity is the rate of a device.
    let of: fn(&PointData) -> Option<Rate> = if goals.is_empty() { headline } else { Rate::headline };
    if goals.is_empty() {
        goals.push(name::CAPACITY.into());
    }
    let drawings = [Unit::Frames, Unit::Bits].map(|unit| {
        let title = format!("Throughput in {}", unit.name());
        let texts = frames.iter().flat_map(|f| all.at(f)).map(|(s, p)| {
            let rate = or_dash(of(p), |r| unit.text(p, &r));
            format!("{}, {}: {rate}", frame_name(&p.point.frame), s.label)
        });
        let description = texts.collect::<Vec<_>>().join("; ");
        chart(all, frames, (unit, of)).draw(&title, &description)
    });
    let caption = format!(
        "Median of the repetitions for the goal {}; whiskers: 95 % interval; thin ticks: the \
         other goals of the point. Bars of the tester that are much longer than those of the devices are cut.",
        goals.join(", ")
    );
    figure("pair", &drawings, &caption, &Table::default())
}

/// The one drawing of the first screen: rates with their intervals, of so many frame sizes as fit there.
pub(super) fn first(all: &Comparison<'_>) -> Option<Block> {
    let most = all.frames.iter().map(|frame| all.at(frame).len()).max().unwrap_or(0);
    let fits = if most * 2 <= FIRST_ROWS { 2 } else { 1 };
    let ends = [all.frames.first(), all.frames.last()];
    let mut frames: Vec<&str> = ends.into_iter().flatten().copied().take(fits).collect();
    frames.dedup();
    let rates = all.all().into_iter().filter_map(|(_, point)| headline(point));
    if rates.count() == 0 || most > ROWS {
        return None;
    }
    let drawing = chart(all, &frames, (Unit::Frames, headline));
    let drawing = drawing.draw("Frames/s", "The numbers are in the table below.");
    let caption = "Frames/s in steady overload, or where that was not measured those that meet the first goal, with 95 % \
                   intervals (whiskers). ≥: the tester was the limit, the device may forward more. The tester without a device is cut.";
    Some(Block::Wide(drawing, caption))
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Frames,
    Bits,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Frames => "frames/s",
            Unit::Bits => "Mbit/s",
        }
    }

    fn of(self, point: &PointData, fps: f64) -> f64 {
        match self {
            Unit::Frames => fps,
            Unit::Bits => point.mbit_per_s(fps),
        }
    }

    fn number(self) -> fn(f64) -> String {
        match self {
            Unit::Frames => si,
            Unit::Bits => unprefixed,
        }
    }

    fn text(self, point: &PointData, rate: &Rate) -> String {
        match rate.bound {
            Bound::NoResult => rate.sign(),
            bound => format!("{}{}", bound.sign(), (self.number())(self.of(point, rate.fps))),
        }
    }
}

/// How long the bars are: in this unit, and which rate of a point.
type Length = (Unit, fn(&PointData) -> Option<Rate>);

fn chart(all: &Comparison<'_>, frames: &[&str], length: Length) -> BarChart {
    let unit = length.0;
    let mut groups: Vec<Group> = Vec::new();
    for (series, point) in frames.iter().flat_map(|frame| all.at(frame)) {
        let shared = shared(all, point);
        let size = (!point.point.frame.is_empty()).then(|| frame_name(&point.point.frame));
        let label = size.into_iter().chain(shared.clone()).collect::<Vec<_>>().join(axes::DOT);
        let own = series.label.split(axes::DOT).filter(|part| Some(*part) != shared.as_deref());
        let own = own.collect::<Vec<_>>().join(axes::DOT);
        let bar = Bar { label: own, ..bar(series, point, length) };
        let limit = point.point.line_fps.map(|line| unit.of(point, line));
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => {
                group.bars.push(bar);
                group.limit = [group.limit, limit].into_iter().flatten().reduce(f64::max);
            }
            None => groups.push(Group { label, bars: vec![bar], limit }),
        }
    }
    let limit_name = "line rate".into();
    BarChart { groups, unit: unit.name().into(), number: unit.number(), limit_name }
}

/// What the bars of a group have in common beside the frame size: where points differ in several axes, the first of them.
fn shared(all: &Comparison<'_>, point: &PointData) -> Option<String> {
    let first = all.axes.names().next().filter(|_| all.axes.len() > 1)?;
    Some(axes::part(first, point.setting(first)?))
}

fn bar(series: &Series<'_>, point: &PointData, (unit, headline): Length) -> Bar {
    let rate = headline(point);
    let others = point.goals().iter().skip(1).filter_map(Rate::of);
    let text = match &rate {
        Some(rate) => unit.text(point, rate),
        None if point.goals().is_empty() => "not searched".into(),
        None => "no rate meets the goal".into(),
    };
    Bar {
        label: series.label.clone(),
        value: rate.filter(|r| r.bound != Bound::NoResult).map(|r| unit.of(point, r.fps)),
        parts: Vec::new(),
        interval: rate.and_then(|r| r.interval).map(|(a, b)| (unit.of(point, a), unit.of(point, b))),
        ticks: others.map(|r| unit.of(point, r.fps)).collect(),
        title: format!("{}, {}: {text} {}", series.label, frame_name(&point.point.frame), unit.name()),
        text,
        style: series.style,
        fits: !series.is_ceiling(),
    }
}

fn table(all: &Comparison<'_>) -> Table {
    let own = [
        "Goal",
        "frames/s",
        "95 % interval",
        "Mbit/s",
        "Of line",
        "Of ceiling",
        "Repetitions",
        "Peak received",
        "Remark",
    ];
    let device = all.device_head("Device");
    let head = std::iter::once("Frame".to_string()).chain(device).chain(own.map(String::from));
    let mut table = Table::new(&head.collect::<Vec<_>>());
    for (series, point) in all.all() {
        let wire = |goal: &GoalResult| {
            let same_run =
                |(s, p): &(&Series<'_>, &PointData)| s.run.id == series.run.id && p.point.dut == WIRE;
            let (_, wire) = all.at(&point.point.frame).into_iter().find(same_run)?;
            let goals = wire.goals();
            goals.iter().find(|g| g.goal == goal.goal).or(goals.first())?.fps_median
        };
        if point.goals().is_empty() {
            table.push(row(all.device_cells(series, point), point, None, None));
        }
        for goal in point.goals() {
            table.push(row(all.device_cells(series, point), point, Some(goal), wire(goal)));
        }
    }
    table.without_empty(&["95 % interval", "Of line", "Remark"])
}

fn row(device: Vec<String>, point: &PointData, goal: Option<&GoalResult>, wire: Option<f64>) -> Vec<String> {
    let rate = goal.map_or_else(|| headline(point), Rate::of);
    let share = |of: Option<f64>| or_dash(rate.zip(of), |(r, of)| percent(r.fps / of));
    let mut row = vec![point.point.frame.clone()];
    row.extend(device);
    row.extend([
        goal.map_or_else(|| unsearched(point), |g| g.goal.clone()),
        or_dash(rate, |r| format!("{}{}", r.bound.sign(), full(r.fps))),
        or_dash(rate.and_then(|r| r.interval), |(a, b)| format!("{} – {}", full(a), full(b))),
        or_dash(rate, |r| exact(point.mbit_per_s(r.fps))),
        share(point.point.line_fps),
        share(wire),
        goal.map_or_else(|| "–".into(), |g| g.repetitions.len().to_string()),
        or_dash(point.peak_received_fps(), full),
        goal.map_or_else(String::new, remark),
    ]);
    row
}

/// What stands in place of a goal.
fn unsearched(point: &PointData) -> String {
    if point.capacity().is_some() { name::CAPACITY.into() } else { "not searched".into() }
}

fn remark(goal: &GoalResult) -> String {
    let mut reasons: Vec<_> = goal.repetitions.iter().filter_map(|r| r.irregular.clone()).collect();
    reasons.sort();
    reasons.dedup();
    reasons.join("; ")
}
