//! Records for other programs, for papers and for the terminal: one file per format.

mod csv;
mod figures;
mod jsonl;
mod latex;
mod markdown;
mod prometheus;
mod svg;
mod text;

use crate::run_data::{RunData, name};
pub use csv::{CSV_COLUMNS, csv};
pub use figures::{FIGURE_COLUMNS, figures};
pub use jsonl::jsonl;
pub use latex::{latex, tabular};
pub use markdown::markdown;
pub use prometheus::prometheus;
pub use svg::svg;
pub use text::{answer, list, show};

/// A whole run as one JSON document: the run, its points, their trials.
pub fn json(data: &RunData) -> String {
    serde_json::to_string_pretty(data).expect("records are plain data with text keys")
}

/// What a document is about.
fn title(data: &RunData) -> String {
    format!("weir: {}, run {}", data.run.plan, data.run.id)
}

/// What a reader of tables must know: question, machine, tester, and how far the procedures were kept to.
fn facts(data: &RunData) -> Vec<String> {
    let (run, machine) = (&data.run, &data.run.machine);
    let head = [
        run.question.clone(),
        format!("{} ({}), weir {}, seed {}", run.started, name(&run.state), run.version, run.seed),
        format!("{}, {} CPUs, {}, {}", machine.cpu, machine.cpus, machine.os, machine.kernel),
        format!("Tester: {}, {}", run.tester.generator, run.tester.receiver),
    ];
    let deviations = run.deviations.iter().map(|deviation| format!("Deviation: {deviation}"));
    head.into_iter().chain(deviations).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn json_is_the_whole_run_and_can_be_read_back() {
        let data = fixture::quick();
        assert_eq!(serde_json::from_str::<RunData>(&json(&data)).unwrap(), data);
    }
}
