//! The cost of a frame for the device: CPU time, balance between CPUs, memory.

use super::bars::{Bar, BarChart, Group};
use super::columns;
use super::loss::drawn;
use crate::record::{Cost, Trial};
use crate::run_data::PointData;
use crate::view::format::{exact, full, or_dash, percent, time_ns};
use crate::view::page::{figure, fill_legend, note, section};
use crate::view::{Comparison, Series, Table, core_distance, frame_name};

/// The section; empty when no cost is known.
pub(super) fn html(all: &Comparison<'_>) -> String {
    let body = per_frame(all) + &balance(all) + &core_distance::html(all) + &memory(all);
    let body = if body.is_empty() { body } else { note(EXPLANATION) + &body };
    section("cost", "What it costs the device", &body)
}

const EXPLANATION: &str = "From the valid trials at the throughput (loads within 5 %, else the closest one; \
    without a search the one that received most per second): the median of their values. Reference cycles are CPU time times the rate of the time stamp counter, not \
    cycles of a core at its momentary clock.";

/// Median of a cost over the trials near the throughput.
fn median(point: &PointData, of: fn(&Cost) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<_> = point.at_headline().iter().filter_map(|t| of(&t.cost)).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

/// CPU time of the device per frame at the throughput, ns.
pub(super) fn median_ns_per_frame(point: &PointData) -> Option<f64> {
    median(point, |cost| cost.ns_per_frame)
}

/// Reference cycles of the device per frame at the throughput.
pub(super) fn median_cycles_per_frame(point: &PointData) -> Option<f64> {
    median(point, |cost| cost.cycles_per_frame)
}

/// With longer names of devices the table would not fit beside the chart.
const BESIDE: usize = 20;

fn per_frame(all: &Comparison<'_>) -> String {
    let mut table = Table::new(&["Frame", "Device", "ns per frame", "ref. cycles", "at frames/s", "trials"]);
    let mut groups = Vec::new();
    for frame in &all.frames {
        let known = all.at(frame).into_iter().filter_map(|(s, p)| Some((s, p, median_ns_per_frame(p)?)));
        let known: Vec<_> = known.collect();
        for (series, point, ns) in &known {
            let trials = point.at_headline();
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                exact(*ns),
                or_dash(median_cycles_per_frame(point), full),
                or_dash(trials.first(), |t| full(t.counts().offered_fps)),
                trials.len().to_string(),
            ]);
        }
        let bars: Vec<_> = known.iter().map(|(series, point, ns)| bar(series, point, *ns)).collect();
        if !bars.is_empty() {
            groups.push(Group { label: frame_name(frame), bars, limit: None });
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let chart = BarChart {
        groups,
        unit: "CPU time per received frame".into(),
        number: time_ns,
        limit_name: String::new(),
    };
    let drawing = chart.draw("CPU time of the device per frame", "The table has the values.");
    let widest = all.all().iter().map(|(series, _)| series.label.chars().count()).max().unwrap_or(0);
    if widest > BESIDE {
        let chart = figure("pair", &[drawing], "", &Table::default());
        return format!("<h3>CPU time per frame</h3>\n{chart}{}", table.html());
    }
    let side = format!("<div>{}</div>", table.html());
    format!("<h3>CPU time per frame</h3>\n{}", figure("pair", &[drawing, side], "", &Table::default()))
}

fn bar(series: &Series<'_>, point: &PointData, ns: f64) -> Bar {
    let cycles = or_dash(median(point, |c| c.cycles_per_frame), |c| format!("{} cycles", full(c)));
    Bar {
        label: series.label.clone(),
        value: Some(ns),
        parts: Vec::new(),
        interval: None,
        ticks: Vec::new(),
        text: time_ns(ns),
        title: format!("{}: {} per frame, {cycles}", series.label, time_ns(ns)),
        style: series.style,
        fits: true,
    }
}

/// The trial that shows how the CPUs were used near the throughput.
fn witness(point: &PointData) -> Option<&Trial> {
    point.at_headline().into_iter().find(|t| !t.cost.cpus.is_empty())
}

fn balance(all: &Comparison<'_>) -> String {
    let Some(smallest) = all.frames.first() else { return String::new() };
    let mut table = Table::new(&["Frame", "Device", "CPU", "Busy", "Device's share", "Tester's share"]);
    for (series, point) in all.all() {
        for cpu in witness(point).iter().flat_map(|t| &t.cost.cpus) {
            table.push(vec![
                point.point.frame.clone(),
                series.label.clone(),
                cpu.cpu.to_string(),
                percent(cpu.busy),
                percent(cpu.dut),
                percent(cpu.tester),
            ]);
        }
    }
    let panels = drawn(all).into_iter().filter_map(|series| {
        let trial = witness(series.at(smallest)?)?;
        Some(columns::draw(&series.label, &trial.cost.cpus))
    });
    let panels: Vec<_> = panels.collect();
    if panels.is_empty() {
        return String::new();
    }
    let caption = format!(
        "Share of the time that each CPU was busy in a trial near the throughput, {}; other sizes are in the table.",
        frame_name(smallest)
    );
    let legend = fill_legend(&columns::PARTS);
    format!("<h3>CPU balance</h3>\n{legend}{}", figure("small", &panels, &caption, &table))
}

fn memory(all: &Comparison<'_>) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for (what, _) in all.all().iter().flat_map(|(_, p)| p.valid()).flat_map(|t| &t.cost.memory_bytes) {
        if !kinds.contains(&what.as_str()) {
            kinds.push(what);
        }
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut head: Vec<String> = ["Frame", "Device"].map(String::from).to_vec();
    head.extend(kinds.iter().map(|what| format!("{what}, bytes")));
    head.push("Conntrack entries".into());
    let mut table = Table::new(&head);
    for (series, point) in all.all() {
        let entries = point.valid().filter_map(|t| t.cost.conntrack_entries).max();
        let mut row = vec![point.point.frame.clone(), series.label.clone()];
        row.extend(kinds.iter().map(|what| or_dash(most_memory(point, what), |n| full(n as f64))));
        row.push(or_dash(entries, |n| full(n as f64)));
        table.push(row);
    }
    format!("<h3>Memory</h3>\n{}{}", note("The largest values of all valid trials."), table.html())
}

/// Largest value of a kind of memory over the valid trials, bytes.
fn most_memory(point: &PointData, what: &str) -> Option<i64> {
    let all = point.valid().flat_map(|t| &t.cost.memory_bytes);
    all.filter(|(name, _)| name == what).map(|(_, bytes)| *bytes).max()
}
