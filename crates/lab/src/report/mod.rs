//! Reports: one HTML file from the records of one or more runs, readable without a network or a script.
//!
//! ```text
//! RunData -> series (what belongs together) -> summary, figures, tables -> page
//! ```
//! A report is a pure function of its records. The figures are SVG drawn here, so that they print, can be
//! read without colour and can be compared in tests.

pub(crate) mod answer;
pub(crate) mod bars;
pub(crate) mod block;
pub(crate) mod boxes;
mod by_size;
mod columns;
mod cost;
pub(crate) mod faults;
mod first;
pub(crate) mod flame;
pub(crate) mod heat;
mod interleaved;
mod latency;
mod ledger;
pub(crate) mod lines;
mod loss;
mod method;
mod procedures;
mod rules;
mod summary;
mod throughput;
mod timeline;

pub(crate) use interleaved::table as interleaved;

use crate::run_data::RunData;
use crate::view::svg::escape;
use crate::view::{Comparison, format, page};

/// The report of one or more runs as an HTML document. Points of several runs are matched by their settings.
pub fn html(runs: &[RunData]) -> String {
    let all = Comparison::new(runs);
    let title = title(runs);
    let body = [
        first::html(&all, &title),
        findings(&all),
        throughput::html(&all),
        rules::html(&all),
        procedures::html(&all),
        rigs(runs),
        loss::html(&all),
        latency::html(&all),
        cost::html(&all),
        ledger::html(&all),
        method::html(runs),
    ];
    page::document(&title, &body.concat())
}

/// The sections that the rigs of the runs have.
fn rigs(runs: &[RunData]) -> String {
    let of = |data: &RunData| if runs.len() > 1 { format!(" of run {}", data.run.id) } else { String::new() };
    let section = |data| parts(data).map(move |part| part.html(data.run.id, &of(data)));
    runs.iter().flat_map(section).collect()
}

/// The sections of a run, from the rig that it is of.
pub(crate) fn parts(data: &RunData) -> impl Iterator<Item = block::Part> {
    crate::rigs::all().flat_map(|rig| rig.parts(data))
}

fn title(runs: &[RunData]) -> String {
    match runs {
        [] => "weir: no runs".into(),
        [one] => format!("weir: {}, run {}", one.run.plan, one.run.id),
        [first, ..] => {
            let ids: Vec<_> = runs.iter().map(|r| r.run.id.to_string()).collect();
            format!("weir: {}, runs {}", first.run.plan, format::list(&ids))
        }
    }
}

fn findings(all: &Comparison<'_>) -> String {
    let found = summary::findings(all);
    if found.is_empty() {
        return page::paragraph("There is nothing to report: no run was given.");
    }
    let groups = found.iter().map(|group| {
        let heading =
            if group.heading.is_empty() { "" } else { &format!("<h2>{}</h2>\n", escape(&group.heading)) };
        format!("{heading}{}", page::bullets(&group.sentences))
    });
    let body = format!("<div class=\"findings\">\n{}</div>\n", groups.collect::<String>());
    page::section("findings", "All findings", &body)
}

#[cfg(test)]
mod tests;
