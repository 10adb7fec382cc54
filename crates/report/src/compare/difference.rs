//! The differences between two runs, which are shown before any ratio.

use std::collections::BTreeMap;

use serde::Serialize;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use super::Across;
use crate::record::{Machine, Run};
use crate::run_data::{PointData, RunData};
use crate::view::Rate;
use crate::view::format::si;

/// Facts that are measured anew by each run and never quite the same.
const MEASURED: [&str; 2] = ["cpu_mhz", "tsc_hz"];
/// Ceilings of the tester that differ by more than this share are worth a line.
const CEILING: f64 = 0.1;

/// Something that is not the same in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// What it is: `kernel`, `plan search.trial_s`.
    pub what: String,
    /// Its value in the base; empty if it has none.
    pub base: String,
    /// Its value in the other run.
    pub other: String,
}

/// All differences, those that matter most first.
pub(super) fn all(base: &RunData, other: &RunData) -> Vec<Difference> {
    let mut found = Differences(runs(&base.run, &other.run));
    for name in settings_across(base, other) {
        let value = |data| setting(data, &name).unwrap_or_default();
        found.add(format!("setting {name}"), value(base), value(other));
    }
    found.0.extend(ceilings(base, other));
    found.0
}

/// Differences that the runs themselves tell: plan, version, tester, machine.
pub fn runs(a: &Run, b: &Run) -> Vec<Difference> {
    let mut found = Differences(Vec::new());
    found.named("", &run_facts(a), &run_facts(b));
    found.named("plan ", &plan_options(a), &plan_options(b));
    found.named("", &machine_facts(&a.machine), &machine_facts(&b.machine));
    found.0
}

struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, what: String, base: String, other: String) {
        if base != other {
            self.0.push(Difference { what, base, other });
        }
    }

    /// Values of the same name that differ, in the order of the first list.
    fn named(&mut self, prefix: &str, a: &[(String, String)], b: &[(String, String)]) {
        let value = |list: &[(String, String)], name: &str| {
            list.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()).unwrap_or_default()
        };
        for (name, here) in a {
            self.add(format!("{prefix}{name}"), here.clone(), value(b, name));
        }
        for (name, there) in b.iter().filter(|(name, _)| !a.iter().any(|(n, _)| n == name)) {
            self.add(format!("{prefix}{name}"), String::new(), there.clone());
        }
    }
}

fn pair(name: &str, value: impl ToString) -> (String, String) {
    (name.into(), value.to_string())
}

fn run_facts(run: &Run) -> Vec<(String, String)> {
    let cpus: Vec<_> = run.tester.cpus.iter().map(usize::to_string).collect();
    vec![
        pair("plan", &run.plan),
        pair("state", crate::run_data::name(&run.state)),
        pair("weir", &run.version),
        pair("generator", &run.tester.generator),
        pair("receiver", &run.tester.receiver),
        pair("CPUs of the tester", cpus.join(", ")),
        pair("limits of the tester", run.tester.limits.join(" ")),
    ]
}

fn machine_facts(machine: &Machine) -> Vec<(String, String)> {
    let own = [
        pair("processor", &machine.cpu),
        pair("logical CPUs", machine.cpus),
        pair("kernel", &machine.kernel),
        pair("operating system", &machine.os),
        pair("memory in MiB", machine.memory_bytes >> 20),
    ];
    let facts = machine.facts.iter().filter(|(name, _)| !MEASURED.contains(&name.as_str()));
    own.into_iter().chain(facts.cloned()).collect()
}

/// All options of a plan by their path; the whole text where it cannot be read.
fn plan_options(run: &Run) -> Vec<(String, String)> {
    let mut options = BTreeMap::new();
    match run.plan_toml.parse::<DocumentMut>() {
        Ok(document) => flatten("", document.as_table(), &mut options),
        Err(_) => drop(options.insert("text".into(), run.plan_toml.clone())),
    }
    options.into_iter().collect()
}

fn flatten(path: &str, table: &dyn TableLike, options: &mut BTreeMap<String, String>) {
    for (name, item) in table.iter() {
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match item {
            Item::ArrayOfTables(list) => {
                for (table, number) in list.iter().zip(1..) {
                    flatten(&format!("{path}.{number}"), table, options);
                }
            }
            item => match item.as_table_like() {
                Some(table) => flatten(&path, table, options),
                None => drop(options.insert(path, item.as_value().map_or_else(String::new, plain))),
            },
        }
    }
}

/// A value without the spaces and comments around its parts.
fn plain(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(", ")),
        value => value.clone().decorated("", "").to_string(),
    }
}

/// Names of the settings that each run has one value of, and not the same one: points are matched without them.
pub(super) fn settings_across(base: &RunData, other: &RunData) -> Vec<String> {
    let mut names: Vec<&String> = [base, other]
        .into_iter()
        .flat_map(devices)
        .flat_map(|p| p.point.settings.iter().map(|(n, _)| n))
        .collect();
    names.sort();
    names.dedup();
    let across = names.into_iter().filter(|name| match (setting(base, name), setting(other, name)) {
        (Some(a), Some(b)) => a != b,
        _ => false,
    });
    across.cloned().collect()
}

/// The value of a setting, if all devices that have it have the same: a router has no rules.
fn setting(data: &RunData, name: &str) -> Option<String> {
    let mut values = devices(data).filter_map(|p| p.setting(name));
    let first = values.next()?;
    values.all(|value| value == first).then(|| first.to_string())
}

fn devices(data: &RunData) -> impl Iterator<Item = &PointData> {
    let only_wire = data.points.iter().all(PointData::is_ceiling);
    data.points.iter().filter(move |p| only_wire || !p.is_ceiling())
}

/// The tester's own ceiling at each frame size, where it is not about the same.
fn ceilings(base: &RunData, other: &RunData) -> Vec<Difference> {
    let wires = |data: &RunData| -> Vec<(String, Rate)> {
        let wires = data.points.iter().filter(|p| p.is_ceiling());
        wires.filter_map(|p| Some((p.point.frame.clone(), Rate::headline(p)?))).collect()
    };
    let (a, b) = (wires(base), wires(other));
    let differ = a.iter().filter_map(|(frame, rate)| {
        let (_, there) = b.iter().find(|(f, _)| f == frame)?;
        let apart = (there.fps / rate.fps).ln().abs() > (1.0 + CEILING).ln();
        apart.then(|| Difference {
            what: format!("ceiling of the tester at {frame}"),
            base: si(rate.fps) + "pps",
            other: si(there.fps) + "pps",
        })
    });
    differ.collect()
}

/// Were both runs made on a machine of this kind?
pub fn is_one_machine(base: &RunData, other: &RunData) -> bool {
    let (a, b) = (&base.run.machine, &other.run.machine);
    (&a.cpu, a.cpus) == (&b.cpu, b.cpus)
}

/// Why no point of two runs can be compared.
pub(super) fn machine_apart(base: &RunData, other: &RunData, across: &[Across]) -> Option<String> {
    let (a, b) = (&base.run.machine, &other.run.machine);
    if !across.contains(&Across::Machine) && !is_one_machine(base, other) {
        return Some("the machines differ: to compare machines, use `--across machine`".into());
    }
    if !across.contains(&Across::Kernel) && a.kernel != b.kernel {
        return Some("the kernels differ: to compare kernels, use `--across kernel`".into());
    }
    None
}
