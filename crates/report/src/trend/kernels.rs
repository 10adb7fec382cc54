//! One plan on several kernels: the rate or figure of each device by kernel, as a ratio to the oldest kernel, and the kernels
//! from which on it changed.
//!
//! ```text
//! complete runs of a plan > by kernel, oldest first > values per device and quantity > levels, ratios, change points
//! ```
//! A ratio between machines of different kinds contains the machine. Only runs on machines like that of the newest run count.

use serde::Serialize;

use super::{Filter, Line, SEED, Values, change};
use crate::compare::text::{ratio, value};
use crate::record::{Point, Run, RunState};
use crate::stats::{Sample, median, unpaired_ratio};
use crate::view::Table;
use crate::view::format::{count, or_dash};

/// A plan on several kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernels {
    /// Name of the plan.
    pub plan: String,
    /// Processor and CPUs of all machines.
    pub machine: String,
    /// Kernels, oldest first, with the number of runs.
    pub kernels: Vec<(String, usize)>,
    /// Runs and values that were left out, with the reason.
    pub left_out: Vec<String>,
    /// One entry per point, quantity and kernel, also where a kernel has no value.
    pub rows: Vec<Row>,
}

/// A quantity of a device on a kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Frame size as in the plan.
    pub frame: String,
    /// Device and the settings that vary.
    pub device: String,
    /// Goal or procedure and figure.
    pub quantity: String,
    /// The kernel.
    pub kernel: String,
    /// Runs with a value; 0: the device did not work there, or no run has measured it.
    pub runs: usize,
    /// Unit of the level.
    pub unit: String,
    /// Median of the runs with a value.
    pub level: Option<f64>,
    /// Level / that of the oldest kernel with a value; 1 for this one.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, with two runs of both kernels or more.
    pub interval: Option<(f64, f64)>,
    /// Factor of a change of the level that begins with this kernel.
    pub change: Option<f64>,
    /// Why no change can be seen, if there are too few values.
    pub too_few: Option<String>,
}

/// The table of all runs of a plan, each with its points, oldest first. `None` without a complete run.
pub fn kernels(plan: &str, runs: &[(Run, Vec<Point>)], filter: &Filter) -> Option<Kernels> {
    let of_plan = || runs.iter().filter(|(run, _)| run.plan == plan);
    let complete: Vec<_> = of_plan().filter(|(run, _)| run.state == RunState::Complete).collect();
    let (newest, _) = complete.last()?;
    let machine = |run: &Run| (run.machine.cpu.clone(), run.machine.cpus);
    let mut alike: Vec<_> =
        complete.iter().copied().filter(|(run, _)| machine(run) == machine(newest)).collect();
    alike.sort_by_cached_key(|(run, _)| version(&run.machine.kernel));
    let mut kernels: Vec<(String, usize)> = Vec::new();
    for (run, _) in &alike {
        match kernels.last_mut().filter(|(kernel, _)| *kernel == run.machine.kernel) {
            Some((_, runs)) => *runs += 1,
            None => kernels.push((run.machine.kernel.clone(), 1)),
        }
    }
    let mut values = Values::default();
    for (index, (_, points)) in alike.iter().enumerate() {
        values.add(index, points, filter);
    }
    let left_out = [
        (of_plan().count() - complete.len(), "did not end"),
        (complete.len() - alike.len(), "were made on another kind of machine"),
    ];
    let left_out = left_out.into_iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} runs {why}"));
    Some(Kernels {
        plan: plan.into(),
        machine: format!("{}, {} CPUs", newest.machine.cpu, newest.machine.cpus),
        left_out: left_out.collect(),
        rows: values.lines.iter().flat_map(|line| of_each(&kernels, rows(line, &alike))).collect(),
        kernels,
    })
}

/// To order kernels: the numbers of the version, then the text.
fn version(kernel: &str) -> (Vec<u64>, String) {
    let numbers = kernel.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    (numbers.collect(), kernel.to_string())
}

/// The release of a kernel, without its build: `6.1.0-50-amd64` of `6.1.0-50-amd64 #1 SMP ...`.
fn release(kernel: &str) -> &str {
    kernel.split(' ').next().unwrap_or(kernel)
}

/// The rows of a quantity, one for each of all kernels.
fn of_each(kernels: &[(String, usize)], rows: Vec<Row>) -> Vec<Row> {
    let Some(first) = rows.first() else { return rows };
    let row = |(kernel, _): &(String, usize)| {
        let found = rows.iter().find(|row| row.kernel == *kernel).cloned();
        found.unwrap_or_else(|| Row {
            kernel: kernel.clone(),
            runs: 0,
            level: None,
            ratio: None,
            interval: None,
            change: None,
            ..first.clone()
        })
    };
    kernels.iter().map(row).collect()
}

/// The rows of a quantity, one for each kernel with a value.
fn rows(line: &Line, runs: &[&(Run, Vec<Point>)]) -> Vec<Row> {
    let kernel_of =
        |place: usize| runs.get(line.values[place].0).map_or("", |(run, _)| run.machine.kernel.as_str());
    let values: Vec<f64> = line.values.iter().map(|(_, value)| *value).collect();
    let changes = change::changes(&values, SEED);
    let few = values.len() < change::FEWEST;
    let too_few = few.then(|| format!("{} of {} runs", values.len(), change::FEWEST));
    let mut rows: Vec<Row> = Vec::new();
    let (mut from, mut base) = (0, 0..0);
    while from < values.len() {
        let kernel = kernel_of(from);
        let to = (from..values.len()).find(|&place| kernel_of(place) != kernel).unwrap_or(values.len());
        if from == 0 {
            base = 0..to;
        }
        let sample = |values| Sample { values, open: 1.0 };
        let to_base = unpaired_ratio(sample(&values[base.clone()]), sample(&values[from..to]));
        // Within the runs of one kernel the level may change as well: that is not the kernel's doing.
        let change = changes.iter().find(|change| change.at == from);
        rows.push(Row {
            frame: line.frame.clone(),
            device: line.label.clone(),
            quantity: line.name.clone(),
            kernel: kernel.to_string(),
            runs: to - from,
            unit: line.unit.clone(),
            level: median(&values[from..to]),
            ratio: to_base.as_ref().map(|to_base| to_base.ratio.value),
            interval: to_base.filter(|_| from > 0).and_then(|to_base| to_base.ratio.interval),
            change: change.map(|change| change.step.ratio.value),
            too_few: too_few.clone(),
        });
        from = to;
    }
    rows
}

impl Kernels {
    /// A kernel in the table: its release, and all of it only where two builds have the same release.
    fn name<'a>(&self, kernel: &'a str) -> &'a str {
        let same = self.kernels.iter().filter(|(other, _)| release(other) == release(kernel));
        if same.count() > 1 { kernel } else { release(kernel) }
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        let runs = self
            .kernels
            .iter()
            .map(|(kernel, runs)| format!("{} ({})", self.name(kernel), count(*runs, "run")));
        let runs = runs.collect::<Vec<_>>().join(", ");
        let mut text = format!("{} on {}: kernels {runs}\n", self.plan, self.machine);
        text.extend(self.left_out.iter().map(|what| format!("left out: {what}\n")));
        if self.rows.is_empty() {
            return text + "\nno point has such a goal or setting\n";
        }
        let head =
            ["frame", "device", "quantity", "kernel", "runs", "level", "ratio", "95 % interval", "change"];
        let mut table = Table::new(&head);
        for row in &self.rows {
            table.push(vec![
                row.frame.clone(),
                row.device.clone(),
                row.quantity.clone(),
                self.name(&row.kernel).into(),
                row.runs.to_string(),
                or_dash(row.level, |level| value(level, &row.unit)),
                or_dash(row.ratio, ratio),
                or_dash(row.interval, |(low, high)| format!("{} – {}", ratio(low), ratio(high))),
                match (row.change, &row.too_few) {
                    _ if row.level.is_none() => "–".into(),
                    (Some(factor), _) => format!("{} times", ratio(factor)),
                    (None, Some(_)) => "too few".into(),
                    (None, None) => "none".into(),
                },
            ]);
        }
        text += &format!("\n{}", table.text());
        let few = self.rows.iter().find_map(|row| row.too_few.as_ref());
        text + &match few {
            Some(few) => format!("\nratio: to the oldest kernel with a value. Too few values to find changes: {few}\n"),
            None => "\nratio: to the oldest kernel with a value. A change is reported if a permutation test has p < 5 %\n"
                .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::rng::Rng;
    use weir_testkit::golden;

    /// Five runs of `quick` with each of these kernels, whose rate is this.
    fn runs(kernels: &[(&str, f64)], of_each: i64) -> Vec<(Run, Vec<Point>)> {
        let mut rng = Rng::new(7);
        let mut all = Vec::new();
        // The newest kernel is measured first.
        for (kernel, fps) in kernels.iter().rev() {
            for _ in 0..of_each {
                let mut run = fixture::run(all.len() as i64 + 1);
                run.machine.kernel = kernel.to_string();
                let mut noise = || 1.0 + 0.01 * (rng.unit() - 0.5);
                let [forward, nat] = ["kernel-forward", "nft-stateful"].map(|dut| {
                    let fps = if dut == "nft-stateful" { fps * 0.5 } else { 4e5 };
                    fixture::point(usize::from(dut == "nft-stateful"), dut, 64, fps * noise()).point
                });
                all.push((run, vec![forward, nat]));
            }
        }
        all
    }

    fn text(runs: &[(Run, Vec<Point>)]) -> String {
        let filter = Filter { goals: vec!["NDR".into()], ..Filter::default() };
        kernels("quick", runs, &filter).expect("complete runs").text()
    }

    #[test]
    fn kernels_are_in_the_order_of_their_versions_with_ratio_and_change() {
        let all = runs(&[("6.1.0-9", 4e5), ("6.12.3", 4e5), ("6.18.44", 3.6e5)], 5);
        golden!("src/trend/golden/kernels.txt", &text(&all));
    }

    /// Records of emulated guests with two kernels, without trials and facts: their rates are worth nothing.
    const GUESTS: &str = include_str!("golden/guests.jsonl");

    #[test]
    fn records_of_guests_with_two_kernels_are_one_table() {
        let read = |line: &str| {
            let data: crate::run_data::RunData = serde_json::from_str(line).expect("a record");
            (data.run, data.points.into_iter().map(|data| data.point).collect())
        };
        let all: Vec<(Run, Vec<Point>)> = GUESTS.lines().map(read).collect();
        let filter = Filter { goals: vec!["capacity: forwarding capacity".into()], ..Filter::default() };
        let table = kernels(&all[0].0.plan, &all, &filter).expect("complete runs");
        golden!("src/trend/golden/kernels-guests.txt", &table.text());
        // Two builds with one release are told apart.
        let mut rebuilt = all.clone();
        rebuilt
            .iter_mut()
            .for_each(|(run, _)| run.machine.kernel = run.machine.kernel.replace(" #1 ", " #2 "));
        let both = [all, rebuilt].concat();
        let text = kernels(&both[0].0.plan, &both, &filter).expect("complete runs").text();
        assert!(text.contains("6.1.0-50-amd64 #1 SMP") && text.contains("6.1.0-50-amd64 #2 SMP"), "{text}");
    }

    #[test]
    fn with_one_run_of_each_there_is_a_ratio_without_an_interval() {
        let mut all = runs(&[("6.1.0-9", 4e5), ("6.18.44", 3.6e5)], 1);
        all.push(all[0].clone());
        all[0].0.machine.cpu = "another one".into();
        all[1].0.state = RunState::Failed;
        all.extend(runs(&[("6.1.0-9", 4e5)], 1));
        golden!("src/trend/golden/kernels-few.txt", &text(&all));
        assert_eq!(kernels("other", &all, &Filter::default()), None);
    }
}
