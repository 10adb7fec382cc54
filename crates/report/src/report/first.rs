//! The first screen: the question, the answer, one drawing, one table, and in three lines how it was measured, how far to
//! trust it, and where. Everything else is below.

use super::Sections;
use super::answer::{self, Answer};
use super::block::Block;
use crate::run_data::{RunData, name};
use crate::view::format::{count, list, whole_percent};
use crate::view::page::{note, paragraph};
use crate::view::svg::escape;
use crate::view::{Comparison, Table};

/// Rows of the table; a run with more has them below.
const ROWS: usize = 16;

/// Everything above the findings.
pub(super) fn html(all: &Comparison<'_>, title: &str, of_rigs: &dyn Sections) -> String {
    let mut questions: Vec<&str> = all.runs.iter().map(|data| data.run.question.as_str()).collect();
    questions.dedup();
    let question = if questions.is_empty() { title.to_string() } else { questions.join(" ") };
    let kickers = all.runs.iter().map(|data| format!("<p class=\"kicker\">{}</p>\n", escape(&kicker(data))));
    let of_runs: Vec<Answer> = all.runs.iter().map(|data| answer::of_run(data, of_rigs)).collect();
    let shown = match &of_runs[..] {
        [one] => numbers(one),
        _ => numbers(&answer::rates(all)),
    };
    format!(
        "<header>\n{}<h1>{}</h1>\n{}</header>\n{shown}{}",
        kickers.collect::<String>(),
        escape(&question),
        sentences(all, &of_runs),
        in_short(all)
    )
}

/// Which run it is.
fn kicker(data: &RunData) -> String {
    let run = &data.run;
    format!("weir: {}, run {} ({}), {}", run.plan, run.id, name(&run.state), run.started)
}

/// The first sentence of each run, larger.
fn sentences(all: &Comparison<'_>, of_runs: &[Answer]) -> String {
    let of = |(data, answer): (&RunData, &Answer)| {
        let sentence = answer.sentences.first()?;
        let run = if all.runs.len() > 1 { format!("Run {}: ", data.run.id) } else { String::new() };
        Some(format!("<p class=\"answer\">{}</p>\n", escape(&format!("{run}{sentence}"))))
    };
    all.runs.iter().zip(of_runs).filter_map(of).collect()
}

/// Drawing and table of an answer.
fn numbers(answer: &Answer) -> String {
    let drawing = answer.drawing.as_ref().map_or_else(String::new, Block::html);
    format!("<div class=\"first\">\n{drawing}<div>\n{}</div>\n</div>\n", table(answer))
}

fn table(answer: &Answer) -> String {
    let table = &answer.table;
    if table.rows().len() > ROWS {
        let more = table.rows().len() - ROWS;
        let mut first = Table::new(table.head());
        table.rows().iter().take(ROWS).for_each(|row| first.push(row.clone()));
        return first.html() + &paragraph(&format!("{} below.", count(more, "further line")));
    }
    if table.is_empty() { String::new() } else { table.html() + &note(&answer.columns) }
}

/// Method, trust and machine, a line each, with links.
fn in_short(all: &Comparison<'_>) -> String {
    let lines = all.runs.iter().flat_map(|data| {
        let id = data.run.id;
        let of = if all.runs.len() > 1 { format!(" of run {id}") } else { String::new() };
        [
            line(&format!("method-{id}"), &format!("Method{of}"), &method(data)),
            line("findings", &format!("Trust{of}"), &trust(data)),
            line(&format!("machine-{id}"), &format!("Machine{of}"), &machine(data)),
        ]
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("<div class=\"short\">\n{lines}</div>\n") }
}

fn line(target: &str, heading: &str, text: &str) -> String {
    format!("<p><a href=\"#{target}\">{}</a> {}</p>\n", escape(heading), escape(text))
}

fn method(data: &RunData) -> String {
    let (absent, points): (Vec<_>, Vec<_>) =
        data.points.iter().filter(|point| !point.is_ceiling()).partition(|point| point.is_left_out());
    let trials: usize = data.points.iter().map(|point| point.measured().count()).sum();
    let measured = data.points.iter().filter(|point| !point.is_left_out());
    let mut searches: Vec<String> =
        measured.filter_map(|p| p.point.result.as_ref()).map(|r| r.search.clone()).collect();
    searches.sort();
    searches.dedup();
    let by = if searches.is_empty() { String::new() } else { format!(" by {}", list(&searches)) };
    let absent = if absent.is_empty() { String::new() } else { format!("; {} left out", absent.len()) };
    format!(
        "{} in {}{by}{absent}; seed {}.",
        count(points.len(), "point"),
        count(trials, "trial"),
        data.run.seed
    )
}

fn trust(data: &RunData) -> String {
    let trials: usize = data.points.iter().map(|point| point.measured().count()).sum();
    let valid: usize = data.points.iter().map(|point| point.valid().count()).sum();
    let deviations = match data.run.deviations.len() {
        0 => String::new(),
        n => format!("; {} from the procedure", count(n, "deviation")),
    };
    let share = if trials == 0 { "none".into() } else { whole_percent(valid as f64 / trials as f64) };
    format!("{share} of the trials are valid{deviations}. The findings list further limitations.")
}

fn machine(data: &RunData) -> String {
    let machine = &data.run.machine;
    let tester = &data.run.tester;
    let limits = match tester.limits.len() {
        0 => String::new(),
        n => format!(", {} of the tester", count(n, "limit")),
    };
    format!(
        "{}, {}, {}; {}{limits}.",
        machine.cpu,
        count(machine.cpus, "CPU"),
        machine.kernel,
        tester.generator
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_first_screen_has_the_answer_one_drawing_and_one_table() {
        let runs = [fixture::quick()];
        let page = html(&Comparison::new(&runs), "weir", &());
        for (what, times) in
            [("<h1>", 1), ("class=\"answer\"", 1), ("<figure>", 1), ("<table>", 1), ("class=\"short\"", 1)]
        {
            assert_eq!(page.matches(what).count(), times, "{what} in {page}");
        }
        let whole = crate::report::html(&runs, &());
        for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(whole.contains(&format!("id=\"{link}\"")), "#{link} leads nowhere");
        }
        assert!(whole.find("class=\"short\"") < whole.find("id=\"findings\""), "the findings are below");
    }
}
