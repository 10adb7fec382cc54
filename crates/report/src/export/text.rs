//! Runs for the terminal: aligned tables.

use crate::record::RunSummary;
use crate::report::faults::{self, Kind};
use crate::report::{Sections, answer, interleaved};
use crate::run_data::{RunData, latency, name};
use crate::tables::{self, Sheet};
use crate::view::format::{or_dash, si, time_ns, wrapped};
use crate::view::{Comparison, Rate, Table};

/// Runs as an aligned table for a terminal, oldest first.
pub fn list(runs: &[RunSummary]) -> String {
    if runs.is_empty() {
        return "no runs are recorded\n".into();
    }
    let mut table = Table::new(&["run", "started", "state", "plan", "version", "question"]);
    for run in runs {
        table.push(vec![
            run.id.to_string(),
            run.started.clone(),
            name(&run.state),
            run.plan.clone(),
            run.version.clone(),
            run.question.clone(),
        ]);
    }
    table.text()
}

/// The answer of a run for a terminal of so many columns: the question, the sentence that answers it, the numbers, further
/// sentences. Without a table of the answer, all tables of the run follow.
pub fn answer(data: &RunData, of_rigs: &dyn Sections, columns: usize) -> String {
    let answer = answer::of_run(data, of_rigs);
    let sentences: Vec<String> = answer.sentences.iter().map(|sentence| wrapped(sentence, columns)).collect();
    let Some((first, others)) = sentences.split_first() else { return show(data, of_rigs) };
    if answer.table.is_empty() {
        return format!("{}\n{}", sentences.concat(), show(data, of_rigs));
    }
    let question = wrapped(&data.run.question, columns);
    format!("{question}{first}\n{}\n{}", answer.table.text(), others.concat())
}

/// A run for a terminal: the answer of its rig, one line per point and goal, and all other tables.
pub fn show(data: &RunData, of_rigs: &dyn Sections) -> String {
    let run = &data.run;
    let end = run.finished.as_deref().map_or_else(String::new, |end| format!(" to {end}"));
    let head = format!(
        "run {} of {} ({}), {}{end}, weir {}, seed {}\n{}\n{}, {} CPUs, {}\n",
        run.id,
        run.plan,
        name(&run.state),
        run.started,
        run.version,
        run.seed,
        run.question,
        run.machine.cpu,
        run.machine.cpus,
        run.machine.kernel
    ) + &run.failure.as_ref().map_or_else(String::new, |why| format!("It failed: {why}\n"));
    let all = Comparison::new(std::slice::from_ref(data));
    let points = points(&all);
    // The first table has the throughput already.
    let sheets = tables::sheets(&all).into_iter().filter(|sheet| sheet.name != "throughput");
    let first = [points, interleaved(&all)].into_iter().filter(|table| !table.is_empty());
    let tables: Vec<String> = of_rigs
        .answer(data)
        .map(|answer| format!("{}\n\n{}", answer.sentences.join("\n"), answer.table.text()))
        .into_iter()
        .chain(first.map(|table| table.text()))
        .chain(sheets.map(sheet))
        .chain(of_rigs.parts(data).into_iter().flat_map(|part| part.text()))
        .collect();
    if tables.is_empty() {
        return head + "\nno points were measured\n";
    }
    format!("{head}\n{}{}", tables.join("\n"), findings(data))
}

/// What went wrong beside what a load explains: per point, the worst of each kind.
fn findings(data: &RunData) -> String {
    let mut lines = String::new();
    for point in &data.points {
        for Kind { trials, worst } in faults::kinds(point) {
            let place = format!("{} {}", point.point.dut, point.point.frame);
            lines += &format!("{place}: in {trials} trials, at worst {worst}\n");
        }
    }
    if lines.is_empty() { lines } else { format!("\nfindings\n{lines}") }
}

/// A procedure: its figures, and below them what must be known to read them.
fn sheet(sheet: Sheet) -> String {
    let cites = if sheet.cites.is_empty() { String::new() } else { format!(" ({})", sheet.cites) };
    let notes: String = sheet.notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{}{cites}\n{}{notes}", sheet.title, sheet.table.text())
}

/// One line per point and goal. Points without a goal have their loads or procedures in tables of their own.
fn points(all: &Comparison<'_>) -> Table {
    let own =
        ["goal", "frames/s", "bit/s", "95 % interval", "p99 near it", "trials", "valid"].map(String::from);
    let device = all.device_head("device");
    let head: Vec<String> = std::iter::once("frame".to_string()).chain(device).chain(own).collect();
    let mut table = Table::new(&head);
    for (series, point) in all.all() {
        let untold = point.chosen_loads().next().is_none();
        let goals = point.goals().iter().map(|goal| (goal.goal.as_str(), Rate::of(goal)));
        let goals: Vec<_> =
            if point.goals().is_empty() && untold { vec![("–", None)] } else { goals.collect() };
        let near = point.at_headline();
        let near = near.first().and_then(|t| latency(&t.streams));
        for (i, (goal, rate)) in goals.into_iter().enumerate() {
            // The trials near the headline rate say nothing about the rate of another goal.
            let near = near.as_ref().filter(|_| i == 0);
            let mut row = vec![point.point.frame.clone()];
            row.extend(all.device_cells(series, point));
            row.extend([
                goal.into(),
                or_dash(rate, |r| r.sign()),
                or_dash(rate, |r| si(point.mbit_per_s(r.fps) * 1e6)),
                or_dash(rate.and_then(|r| r.interval), |(a, b)| format!("{} – {}", si(a), si(b))),
                or_dash(near, |l| time_ns(l.p99_ns as f64)),
                point.measured().count().to_string(),
                point.valid().count().to_string(),
            ]);
            table.push(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::{Fault, Finding};
    use weir_testkit::golden;

    #[test]
    fn faults_that_no_load_explains_are_told() {
        let mut data = fixture::quick();
        assert!(!show(&data, &()).contains("findings"));
        let point = data.points.iter_mut().find(|p| p.point.dut == "kernel-forward").expect("a device");
        let faults = [Fault::Loss { frames: 5, ratio: 0.1 }, Fault::Duplicated { frames: 3 }];
        let findings = faults.map(|fault| Finding { direction: "a>b".into(), fault });
        point.trials.iter_mut().for_each(|trial| trial.findings = findings.to_vec());
        let fps = point.headline_fps().expect("a throughput");
        let (trials, below) =
            (point.measured().count(), point.measured().filter(|t| t.counts().offered_fps <= fps).count());
        let end = format!(
            "\nfindings\nkernel-forward 64: in {trials} trials, at worst a>b duplicated: 3 frames\n\
             kernel-forward 64: in {below} trials, at worst a>b loss: 5 single frames, 1.0e-1 of all\n"
        );
        assert!(show(&data, &()).ends_with(&end), "{}", show(&data, &()));
    }

    #[test]
    fn the_answer_fits_a_terminal_of_80_columns() {
        let text = answer(&fixture::quick(), &(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\u{202f}'), "{text}");
        golden!("src/export/golden/answer.txt", &text);
        let empty = RunData { points: Vec::new(), ..fixture::quick() };
        assert!(answer(&empty, &(), 80).ends_with("no points were measured\n"));
    }

    #[test]
    fn tables_for_the_terminal() {
        let data = fixture::quick();
        let shown = |data: &RunData| show(data, &()).replace('\u{202f}', " ");
        golden!("src/export/golden/procedures.txt", &shown(&fixture::procedures()));
        let mut fixed = data.clone();
        fixed.points.retain(|p| (p.point.dut.as_str(), p.point.frame.as_str()) == ("kernel-forward", "64"));
        fixed.points.iter_mut().for_each(|p| p.point.result.as_mut().unwrap().goals.clear());
        golden!("src/export/golden/fixed.txt", &shown(&fixed));
        golden!("src/export/golden/list.txt", &list(&[data.run.clone().into()]));
        assert_eq!(list(&[]), "no runs are recorded\n");
        let empty = RunData { run: data.run, points: Vec::new() };
        assert!(show(&empty, &()).ends_with("\nno points were measured\n"));
    }
}
