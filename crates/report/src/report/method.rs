//! How it was measured: machine, tester, goals with all parameters, and how to repeat it.

use crate::record::Run;
use crate::run_data::{PointData, RunData, name};
use crate::view::format::{bytes, count};
use crate::view::page::{bullets, details, facts, paragraph, section};
use crate::view::svg::escape;
use crate::view::{Table, reasons};

/// A section per run, and one that says what the numbers mean.
pub(super) fn html(runs: &[RunData]) -> String {
    let sections = runs.iter().map(|data| {
        let of = if runs.len() > 1 { format!(" of run {}", data.run.id) } else { String::new() };
        section(&format!("machine-{}", data.run.id), &format!("Machine and tester{of}"), &machine(&data.run))
            + &section(&format!("method-{}", data.run.id), &format!("Method{of}"), &method(data))
    });
    sections.collect::<String>()
        + &section("meaning", "What the numbers mean and do not mean", &bullets(&MEANING))
}

const MEANING: [&str; 8] = [
    "A rate holds for this machine, this kernel, these settings and this goal. With other goal parameters the \
     same device has another rate.",
    "The rates of all directions are added up. A frame counts once per direction in which it was to travel.",
    "Frame sizes include the 4 bytes of FCS (RFC 2544, section 9). On virtual wires no such bytes exist, and the \
     line rate is a mark for comparison, not a limit.",
    "A trial in which the tester failed to offer its load is not used: it does not measure the device.",
    "The interval of a single search is that of the offered load at which its goal is just met, by a test over all of \
     its trials (see the parameters of the record); it assumes no model of the device.",
    "Other intervals are exact ones of the median over the repetitions of this run (order statistics). They do not \
     cover other machines, other kernels or another day.",
    "An interval of a difference is made from the ends of both intervals: it is wider than 95 %.",
    "Latency contains the tester's own sending and receiving path, which is the same for all devices.",
];

fn machine(run: &Run) -> String {
    let m = &run.machine;
    let mut pairs = vec![
        pair("Processor", &m.cpu),
        pair("Logical CPUs", &m.cpus.to_string()),
        pair("Memory", &bytes(m.memory_bytes as f64)),
        pair("Operating system", &m.os),
        pair("Kernel", &m.kernel),
        pair("Generator", &run.tester.generator),
        pair("Receiver", &run.tester.receiver),
        pair("CPUs of the tester", &cpu_list(&run.tester.cpus)),
    ];
    pairs.retain(|(_, value)| !value.is_empty());
    let limits = if run.tester.limits.is_empty() {
        String::new()
    } else {
        format!("<h3>Limits of this tester</h3>\n{}", bullets(&run.tester.limits))
    };
    let settings = if m.facts.is_empty() { String::new() } else { facts(&m.facts) };
    facts(&pairs) + &limits + &details("System settings", &settings)
}

fn method(data: &RunData) -> String {
    let run = &data.run;
    let deviations = if run.deviations.is_empty() {
        String::new()
    } else {
        format!("<h3>Deviations from the procedure</h3>\n{}", bullets(&run.deviations))
    };
    [
        facts(&[
            pair("Run", &format!("{} ({})", run.id, name(&run.state))),
            pair("Started", &run.started),
            pair("Finished", run.finished.as_deref().unwrap_or("not recorded")),
            pair("Version of weir", &run.version),
            pair("Seed", &run.seed.to_string()),
            pair("Warm-up trials left out", &warm_ups(data).to_string()),
        ]),
        deviations,
        format!("<h3>Goals</h3>\n{}", goals(data)),
        format!("<h3>CPU placement</h3>\n{}", placement(data).html()),
        test_beds(data),
        "<h3>Plan</h3>\n".into(),
        paragraph("Save it as plan.toml, then repeat the run:"),
        format!("<pre>weir run plan.toml --seed {}</pre>\n", run.seed),
        format!("<pre>{}</pre>\n", escape(&run.plan_toml)),
    ]
    .concat()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.into(), value.into())
}

fn warm_ups(data: &RunData) -> usize {
    data.points.iter().map(|p| p.trials.len() - p.measured().count()).sum()
}

fn cpu_list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Each distinct goal with its parameters, and the search that used it.
fn goals(data: &RunData) -> String {
    let mut table = Table::new(&["Goal", "Search", "Parameters"]);
    let mut seen: Vec<Vec<String>> = Vec::new();
    for result in data.points.iter().filter_map(|p| p.point.result.as_ref()) {
        for goal in &result.goals {
            let parameters = goal.parameters.iter().map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>();
            let row = vec![goal.goal.clone(), result.search.clone(), parameters.join("; ")];
            if !seen.contains(&row) {
                seen.push(row);
            }
        }
    }
    if seen.is_empty() {
        return paragraph("No goal was searched for.");
    }
    seen.into_iter().for_each(|row| table.push(row));
    table.html()
}

/// What the test beds had to say, with the number of points.
fn test_beds(data: &RunData) -> String {
    let notes = reasons::merged(data.points.iter().flat_map(|p| &p.point.notes).map(String::as_str));
    if notes.is_empty() {
        return String::new();
    }
    let notes: Vec<_> = notes.iter().map(|(note, n)| format!("{}: {note}", count(*n, "point"))).collect();
    format!("<h3>Test beds</h3>\n{}", bullets(&notes))
}

/// On which CPUs the devices ran, points with the same placement together.
fn placement(data: &RunData) -> Table {
    let mut table = Table::new(&["Device", "CPUs of the device", "Shared with the tester"]);
    let mut seen: Vec<Vec<String>> = Vec::new();
    for PointData { point, .. } in &data.points {
        let or_none = |cpus: &[usize]| if cpus.is_empty() { "none".into() } else { cpu_list(cpus) };
        let row = vec![point.dut.clone(), or_none(&point.cpus), or_none(&point.cpus_shared)];
        if !seen.contains(&row) {
            seen.push(row);
        }
    }
    seen.into_iter().for_each(|row| table.push(row));
    table
}
