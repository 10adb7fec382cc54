//! The answer to the question of a run, in one screen: a file for each kind of question. Which one it is follows from what was
//! varied and measured, not from the plan's name. Where none fits, devices are compared by their rates.

use toml_edit::DocumentMut;

use weir_record::run_data::RunData;
use weir_report::report::answer::Answer;
use weir_report::view::Table;

mod axes;
mod bars;
mod benchmarks;
mod cpus;
mod flows;
mod functions;
mod invalid;
mod rules;
mod soak;
#[cfg(test)]
mod testing;

/// The first that fits answers.
const QUESTIONS: [fn(&RunData) -> Option<Answer>; 6] =
    [soak::answer, rules::answer, flows::answer, cpus::answer, functions::answer, benchmarks::answer];

/// The answer of a run; `None` if it is of another rig or asks something else.
pub(super) fn of_run(data: &RunData) -> Option<Answer> {
    if !is_of_rig(&data.run.plan_toml) {
        return None;
    }
    let mut answer = QUESTIONS.iter().find_map(|of| of(data))?;
    if let Some(none) = invalid::sentence(data) {
        answer.sentences = vec![none];
    }
    Some(answer)
}

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Is a table no wider than a terminal?
fn fits(table: &Table) -> bool {
    table.text().lines().all(|line| line.chars().count() <= WIDTH)
}

/// Is a plan of this rig, which is that of plans that name none?
fn is_of_rig(plan: &str) -> bool {
    let named =
        plan.parse::<DocumentMut>().ok().and_then(|plan| Some(plan.get("experiment")?.as_str()?.to_string()));
    named.is_none_or(|named| named == super::NAME)
}
