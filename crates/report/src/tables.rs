//! The tables that the benchmarking RFCs ask for, made from records: for the report, for papers, for the terminal.
//!
//! RFC 2544 26.1 (throughput), 26.2 (latency), 26.3 (frame loss rate), 26.4 as updated by RFC 9004 (back-to-back
//! frames), 26.5 (system recovery), 26.6 as updated by RFC 6201 (reset), RFC 8219 7 (latency, PDV, IPDV).
//! A procedure names its own figures and parameters: those that vary are columns, the others stand below.

use crate::at_load::AtLoad;
use crate::figure::{name, procedure, unit};
use crate::record::{Figure, ProcedureResult, Statistic};
use crate::run_data::{EXTERNAL, PointData, TESTER, latency};
use crate::stats::{mean, percentile};
use crate::view::format::{count, exact, full, or_dash, percent, tick, time_ns};
use crate::view::{Comparison, Rate, Series, Table, reasons};

/// A table with what must be known to read it.
pub(crate) struct Sheet {
    /// Name of the procedure: `throughput`, `frame-loss`.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Where the procedure is defined; empty if it cites nothing.
    pub cites: String,
    /// The figures.
    pub table: Table,
    /// Parameters and irregularities, one sentence each.
    pub notes: Vec<String>,
}

/// All sheets of the runs that are shown.
pub(crate) fn sheets(all: &Comparison<'_>) -> Vec<Sheet> {
    let first = [throughput(all), loads(all)];
    first.into_iter().chain(procedures(all)).filter(|sheet| !sheet.table.is_empty()).collect()
}

/// RFC 2544, section 26.1: maximum and result by frame size.
fn throughput(all: &Comparison<'_>) -> Sheet {
    let head = [
        "Frame",
        "Device",
        "Goal",
        "Maximum",
        "is that of",
        "Throughput",
        "95 % interval",
        "Mbit/s",
        "of maximum",
    ];
    let mut table = Table::new(&head);
    for (series, point) in all.all().into_iter().filter(|(s, _)| !s.is_ceiling()) {
        let maximum = maximum_fps(all, series, point);
        for goal in point.goals() {
            let rate = Rate::of(goal);
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                goal.goal.clone(),
                or_dash(maximum, |(fps, _)| full(fps)),
                maximum.map_or("–", |(_, of)| of).into(),
                or_dash(rate, |r| format!("{}{}", r.bound.sign(), full(r.fps))),
                or_dash(rate.and_then(|r| r.interval), |(a, b)| format!("{} – {}", full(a), full(b))),
                or_dash(rate, |r| exact(point.mbit_per_s(r.fps))),
                or_dash(rate.zip(maximum), |(r, (max, _))| percent(r.fps / max)),
            ]);
        }
    }
    let notes = vec![
        "Maximum and throughput in frames/s, all directions together. A virtual wire has no theoretical maximum: where \
         the plan names no line rate, it is what the tester reaches on the wire without a device, or what it sends \
         towards a device of its own."
            .into(),
    ];
    Sheet {
        name: "throughput".into(),
        title: "Throughput".into(),
        cites: "RFC 2544, section 26.1".into(),
        table,
        notes: notes.into_iter().chain(streams(all)).collect(),
    }
}

/// The highest rate that there can be, and what sets it: the line of the plan, else the tester as measured.
pub(crate) fn maximum_fps(
    all: &Comparison<'_>,
    series: &Series<'_>,
    point: &PointData,
) -> Option<(f64, &'static str)> {
    let wire = || {
        let here = all.at(&point.point.frame).into_iter();
        let mut wires = here.filter(|(s, p)| p.is_ceiling() && s.run.id == series.run.id);
        let found = wires.find_map(|(_, p)| Some((p, Rate::headline(p)?)));
        found.map(|(p, rate)| (rate.fps, if p.point.dut == TESTER { "the tester" } else { "the wire" }))
    };
    point.point.line_fps.map(|fps| (fps, "the line")).or_else(wire)
}

/// Protocol, stream format and media, as RFC 2544 asks for.
fn streams(all: &Comparison<'_>) -> Vec<String> {
    let points = || all.all().into_iter().map(|(_, p)| p).filter(|p| !p.is_ceiling());
    let wanted =
        [("ip", "IP version"), ("flows", "flows"), ("flow_order", "order"), ("direction", "direction")];
    let parts = wanted.into_iter().filter_map(|(setting, name)| {
        let mut values: Vec<_> = points().filter_map(|p| p.setting(setting)).collect();
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then(|| format!("{name} {}", values.join(" or ")))
    });
    let parts: Vec<_> = parts.collect();
    let mut transports: Vec<_> =
        points().map(|p| if p.setting("transport").is_some() { "TCP SYN" } else { "UDP" }).collect();
    transports.sort_unstable();
    transports.dedup();
    // What stands between the ports of an external DUT is for its owner to say.
    let outside = points().any(|p| p.point.dut == EXTERNAL);
    let media = if outside { "that of the ports" } else { "virtual Ethernet" };
    (!parts.is_empty())
        .then(|| format!("Streams: {}, {}. Media: {media}.", transports.join(" or "), parts.join(", ")))
        .into_iter()
        .collect()
}

/// Frames received at the loads that the plan names.
fn loads(all: &Comparison<'_>) -> Sheet {
    let head = [
        "Frame",
        "Device",
        "Offered",
        "Received",
        "Lost",
        "Loss",
        "Median latency",
        "P99",
        "P99.9",
        "Cycles",
        "Trials",
    ];
    let mut table = Table::new(&head);
    for (series, point) in all.all() {
        for load in chosen_loads(point) {
            table.push([vec![point.point.frame.clone(), series.label.clone()], load].concat());
        }
    }
    Sheet {
        name: "loads".into(),
        title: "Loads of the plan".into(),
        cites: String::new(),
        table,
        notes: vec![
            "Frames/s offered and received, frames lost, of the valid trials at each load together; reference cycles of the device per frame."
                .into(),
        ],
    }
}

/// Cells per load that was not searched for. A curve has its own figure; a plan with fixed loads has nothing but these.
fn chosen_loads(point: &PointData) -> Vec<Vec<String>> {
    let cells = |load: &AtLoad<'_>| {
        let streams: Vec<_> = load.trials.iter().flat_map(|t| t.streams.clone()).collect();
        let latency = latency(&streams);
        let time =
            |of: fn(&crate::record::Latency) -> u64| or_dash(latency.as_ref(), |l| time_ns(of(l) as f64));
        vec![
            full(load.offered_fps),
            or_dash(crate::stats::median(&load.received_fps()), full),
            full(load.lost() as f64),
            or_dash(load.loss_ratio(), percent),
            time(|l| l.p50_ns),
            time(|l| l.p99_ns),
            time(|l| l.p999_ns),
            or_dash(crate::stats::median(&load.cycles_per_frame()), full),
            load.trials.len().to_string(),
        ]
    };
    point.fixed_loads().iter().map(cells).collect()
}

/// A point and what one procedure found there.
pub(crate) struct Found<'c, 'a> {
    /// Device and settings.
    pub series: &'c Series<'a>,
    /// The point.
    pub point: &'a PointData,
    /// What was found.
    pub result: &'a ProcedureResult,
}

/// Procedures by name, in the order of the plan, with all points that have them.
pub(crate) fn by_procedure<'c, 'a>(all: &'c Comparison<'a>) -> Vec<(&'a str, Vec<Found<'c, 'a>>)> {
    let mut found: Vec<(&str, Vec<Found<'_, '_>>)> = Vec::new();
    for (series, point) in all.all() {
        for result in point.point.result.iter().flat_map(|r| &r.procedures) {
            let name = result.procedure.as_str();
            let index = found.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
                found.push((name, Vec::new()));
                found.len() - 1
            });
            found[index].1.push(Found { series, point, result });
        }
    }
    found
}

fn procedures(all: &Comparison<'_>) -> Vec<Sheet> {
    by_procedure(all).iter().map(|(name, found)| procedure_sheet(name, found)).collect()
}

/// The sheet of one procedure.
pub(crate) fn procedure_sheet(name: &str, found: &[Found<'_, '_>]) -> Sheet {
    let has_loads = found.iter().any(|f| losses(f.result).next().is_some());
    Sheet {
        name: name.into(),
        title: title(name),
        cites: found[0].result.cites.clone(),
        table: match has_loads {
            true => by_load(found),
            false if has_headline(found) && !wants_percentiles(name) => figures(found),
            false => by_figure(found, wants_percentiles(name)),
        },
        notes: notes(found, wants_percentiles(name)),
    }
}

/// RFC 8219, sections 7.2 and 7.3: the median of each figure, and as its dispersion the first and the 99th percentile.
fn wants_percentiles(name: &str) -> bool {
    matches!(name, procedure::LATENCY | procedure::PDV)
}

/// True unless a procedure has so many figures that the first one is not what it is about: they have a row each.
pub(crate) fn has_headline(found: &[Found<'_, '_>]) -> bool {
    const WIDEST: usize = 6;
    found.iter().all(|f| f.result.figures.len() <= WIDEST)
}

/// `back-to-back` as a heading.
fn title(name: &str) -> String {
    let known = [
        (procedure::RECOVERY, "System recovery"),
        (procedure::PDV, "Delay variation"),
        (procedure::FRAME_LOSS, "Frame loss rate"),
        (procedure::BACK_TO_BACK, "Back-to-back frames"),
    ];
    if let Some((_, title)) = known.iter().find(|(n, _)| *n == name) {
        return title.to_string();
    }
    let mut letters = name.replace('-', " ").chars().collect::<Vec<_>>();
    if let Some(first) = letters.first_mut() {
        first.make_ascii_uppercase();
    }
    letters.into_iter().collect()
}

/// Loss by load: percent of the maximum rate and loss ratio.
pub(crate) fn losses(result: &ProcedureResult) -> impl Iterator<Item = (f64, &Figure)> {
    let percent = |f: &Figure| name::percent_of_loss_at(&f.name);
    result.figures.iter().filter_map(move |f| Some((percent(f)?, f)))
}

/// RFC 2544, section 26.3: one column per load, the highest first; with very many loads one row for each load of a point.
fn by_load(found: &[Found<'_, '_>]) -> Table {
    let mut loads: Vec<f64> = found.iter().flat_map(|f| losses(f.result)).map(|(load, _)| load).collect();
    loads.sort_by(|a, b| b.total_cmp(a));
    loads.dedup();
    let loss = |f: &Found<'_, '_>, at: f64| {
        losses(f.result).find(|(load, _)| *load == at).and_then(|(_, g)| g.value)
    };
    let share = |load: &f64| tick(&percent(load / 100.0));
    let clean = |f: &Found<'_, '_>| {
        let figure = f.result.figures.iter().find(|g| g.name == name::LOAD_WITHOUT_LOSS);
        or_dash(figure.and_then(|g| g.value), full)
    };
    let varying = Varying::of(found);
    let mut head = ["Frame", "Device"].map(String::from).to_vec();
    head.extend(varying.head().chain(["No loss at, frames/s".into()]));
    if loads.len() <= MOST_LOADS {
        head.extend(loads.iter().map(|load| format!("Loss at {}", share(load))));
    } else {
        head.extend(["Load, of maximum", "Loss"].map(String::from));
    }
    let mut table = Table::new(&head);
    for f in found {
        let mut begin = vec![f.point.point.frame.clone(), f.series.label.clone()];
        begin.extend(varying.cells(f).chain([clean(f)]));
        if loads.len() <= MOST_LOADS {
            let cells = loads.iter().map(|load| or_dash(loss(f, *load), percent));
            table.push(begin.into_iter().chain(cells).collect());
        } else {
            for (load, figure) in losses(f.result) {
                let row = vec![share(&load), or_dash(figure.value, percent)];
                table.push([begin.clone(), row].concat());
            }
        }
    }
    table
}

/// Loads that have a column each.
const MOST_LOADS: usize = 11;

/// Parameters that vary from point to point: their names as headings, and the cells of a point.
struct Varying<'c, 'r> {
    found: &'c [Found<'c, 'r>],
    names: Vec<&'r str>,
}

impl<'c, 'r> Varying<'c, 'r> {
    fn of(found: &'c [Found<'c, 'r>]) -> Self {
        Varying { found, names: parameters(found, |values| values > 1) }
    }

    fn head(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| capital(name))
    }

    fn cells(&self, f: &Found<'_, '_>) -> impl Iterator<Item = String> {
        let cell = |name: &&str| {
            let value = parameter(f.result, name).map_or("–", |v| own_part(self.found, name, v));
            let fps = value.strip_suffix(" frames/s").and_then(|number| number.parse().ok());
            fps.map_or(value.into(), |fps| format!("{} frames/s", full(fps)))
        };
        self.names.iter().map(cell)
    }
}

/// One row per point: parameters that vary, the headline with its spread, the other figures.
fn figures(found: &[Found<'_, '_>]) -> Table {
    let varying = Varying::of(found);
    let mut names: Vec<(&str, &str)> = Vec::new();
    for figure in found.iter().flat_map(|f| &f.result.figures) {
        if !names.contains(&(figure.name.as_str(), figure.unit.as_str())) {
            names.push((&figure.name, &figure.unit));
        }
    }
    let mut head: Vec<String> = ["Frame", "Device"].map(String::from).to_vec();
    head.extend(varying.head());
    // What was measured once has no spread.
    let repeated = found.iter().filter_map(|f| f.result.figures.first()).any(|g| g.values.len() > 1);
    let has_spread = |i| repeated && i == 0;
    for (i, (name, unit)) in names.iter().enumerate() {
        head.push(capital(name) + &behind(unit, ", "));
        head.extend(SPREAD.map(String::from).into_iter().filter(|_| has_spread(i)));
    }
    let mut table = Table::new(&head);
    for f in found {
        let mut row = vec![f.point.point.frame.clone(), f.series.label.clone()];
        row.extend(varying.cells(f));
        for (i, (name, unit)) in names.iter().enumerate() {
            let figure =
                f.result.figures.iter().find(|g| (g.name.as_str(), g.unit.as_str()) == (*name, *unit));
            row.push(or_dash(figure.and_then(|g| g.value), |v| cell(v, unit)));
            row.extend(spread(figure, unit).into_iter().filter(|_| has_spread(i)));
        }
        table.push(row);
    }
    table
}

/// One row per figure, for procedures with many and those that want the dispersion of each.
fn by_figure(found: &[Found<'_, '_>], percentiles: bool) -> Table {
    let varying = Varying::of(found);
    let dispersion: &[(&str, f64)] = if percentiles { &[("P1", 1.0), ("P99", 99.0)] } else { &[] };
    let mut head: Vec<String> = ["Frame", "Device"].map(String::from).to_vec();
    head.extend(varying.head());
    head.extend(["Figure", "Value", "95 % interval"].map(String::from));
    head.extend(dispersion.iter().map(|(name, _)| name.to_string()).chain(["N".into()]));
    let mut table = Table::new(&head);
    for f in found {
        for figure in &f.result.figures {
            let [interval, .., n] = spread(Some(figure), &figure.unit);
            let mut row = vec![f.point.point.frame.clone(), f.series.label.clone()];
            row.extend(varying.cells(f));
            row.push(capital(&figure.name));
            row.push(or_dash(figure.value, |v| cell(v, &figure.unit) + &behind(&figure.unit, " ")));
            row.push(interval);
            let percentile =
                |(_, p): &(&str, f64)| or_dash(percentile(&figure.values, *p), |v| cell(v, &figure.unit));
            row.extend(dispersion.iter().map(percentile));
            row.push(n);
            table.push(row);
        }
    }
    table
}

/// Columns after the headline.
const SPREAD: [&str; 5] = ["95 % interval", "Min", "Max", "Std dev", "N"];

fn spread(figure: Option<&Figure>, unit: &str) -> [String; SPREAD.len()] {
    let values = figure.map_or(&[][..], |f| &f.values);
    let some = |v: Option<f64>| or_dash(v, |v| cell(v, unit));
    let deviation = mean(values).map(|m| m.standard_deviation).filter(|_| values.len() > 1);
    [
        or_dash(figure.and_then(|f| f.interval), |(a, b)| format!("{} – {}", cell(a, unit), cell(b, unit))),
        some(percentile(values, 0.0)),
        some(percentile(values, 100.0)),
        some(deviation),
        values.len().to_string(),
    ]
}

/// A value with its unit, in all digits that matter.
pub(crate) fn cell(value: f64, unit: &str) -> String {
    match unit {
        unit::SECONDS => time_ns(value * 1e9),
        unit::RATIO => percent(value),
        unit::FRAMES | unit::FRAMES_PER_S => exact(value),
        unit => format!("{} {unit}", exact(value)),
    }
}

/// A unit that stands at the head of a column, and not behind each value.
fn behind(of: &str, separator: &str) -> String {
    match of {
        unit::FRAMES_PER_S => format!("{separator}{of}"),
        // The name says frames itself, as in back-to-back frames.
        _ => String::new(),
    }
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
}

fn parameter<'r>(result: &'r ProcedureResult, name: &str) -> Option<&'r str> {
    result.parameters.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

/// What all values of a parameter begin with, up to a comma: `100 % of the throughput`.
fn shared_part<'r>(found: &[Found<'_, 'r>], name: &str) -> Option<&'r str> {
    let values = found.iter().filter_map(|f| parameter(f.result, name));
    let mut begins = values.map(|value| value.split_once(", ").map(|(begin, _)| begin));
    let first = begins.next()??;
    begins.all(|begin| begin == Some(first)).then_some(first)
}

/// The rest of a value, which stands in the table.
fn own_part<'v>(found: &[Found<'_, '_>], name: &str, value: &'v str) -> &'v str {
    shared_part(found, name).map_or(value, |shared| &value[shared.len() + 2..])
}

/// Names of the parameters with a number of different values that is `wanted`. Points without any, where the procedure
/// could not be made, do not count.
fn parameters<'a>(found: &[Found<'_, 'a>], wanted: fn(usize) -> bool) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in found.iter().flat_map(|f| &f.result.parameters) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.retain(|name| {
        let mut values: Vec<_> = found.iter().filter_map(|f| parameter(f.result, name)).collect();
        values.sort_unstable();
        values.dedup();
        wanted(values.len())
    });
    names
}

/// Parameters that all points share, how the headline follows from its repetitions, irregularities.
fn notes(found: &[Found<'_, '_>], percentiles: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let shared = parameters(found, |values| values == 1);
    let value = |name| found.iter().find_map(|f| parameter(f.result, name));
    let shared = shared.iter().filter_map(|name| Some(format!("{name} {}", value(name)?)));
    let begun = parameters(found, |values| values > 1);
    let begun = begun.iter().filter_map(|name| Some(format!("{name} {}", shared_part(found, name)?)));
    let shared: Vec<_> = begun.chain(shared).collect();
    notes.extend((!shared.is_empty()).then(|| format!("Parameters: {}.", shared.join("; "))));
    if let Some(figure) = found.iter().find_map(|f| f.result.figures.first().filter(|g| g.values.len() > 1)) {
        let statistic = match figure.statistic {
            Statistic::Average => "average",
            Statistic::Median => "median",
        };
        let each = if percentiles {
            "; P1 and P99: percentiles of these, the least and the greatest where N is below 100"
        } else {
            ""
        };
        notes.push(format!("{}: {statistic} of the N repetitions{each}.", capital(&figure.name)));
    }
    let irregular = found.iter().flat_map(|f| &f.result.irregular).map(String::as_str);
    for (text, n) in reasons::merged(irregular) {
        notes.push(if n == found.len() { text } else { format!("At {}: {text}", count(n, "point")) });
    }
    notes
}

#[cfg(test)]
mod tests;
