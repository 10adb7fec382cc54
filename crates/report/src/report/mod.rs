//! Reports: one HTML file from the records of one or more runs, readable without a network or a script.
//!
//! ```text
//! RunData -> series (what belongs together) -> summary, figures, tables -> page
//! ```
//! A report is a pure function of its records. The figures are SVG drawn here, so that they print, can be
//! read without colour and can be compared in tests.
//!
//! Files:
//! - `block.rs`: what a section consists of; one file for each kind of section and drawing
//! - `interleaved.rs`: ratios of devices from interleaved rounds

pub mod answer;
pub mod bars;
pub mod block;
pub mod boxes;
mod by_size;
mod columns;
mod cost;
mod drop_counters;
pub mod faults;
mod first;
mod fixed;
pub mod flame;
pub mod heat;
mod interleaved;
mod latency;
pub mod lines;
mod loss;
mod method;
mod procedures;
mod rules;
mod summary;
mod throughput;
pub mod timeline;

pub use interleaved::table as interleaved;

use crate::run_data::RunData;
use crate::view::svg::escape;
use crate::view::{Comparison, format, page};

/// What rigs add to what is said of their runs; each knows its own and says nothing of others.
pub trait Sections: Sync {
    /// Sentences for the summary.
    fn findings(&self, data: &RunData) -> Vec<String>;

    /// Sections of the report.
    fn parts(&self, data: &RunData) -> Vec<block::Part>;

    /// The answer to the question of the run; `None` where a comparison of devices by their rates answers it.
    fn answer(&self, _: &RunData) -> Option<answer::Answer> {
        None
    }
}

/// Where no rig is asked.
impl Sections for () {
    fn findings(&self, _: &RunData) -> Vec<String> {
        Vec::new()
    }

    fn parts(&self, _: &RunData) -> Vec<block::Part> {
        Vec::new()
    }
}

/// The report of one or more runs as an HTML document. Points of several runs are matched by their settings.
pub fn html(runs: &[RunData], of_rigs: &dyn Sections) -> String {
    let all = Comparison::new(runs);
    let title = title(runs);
    let body = [
        first::html(&all, &title, of_rigs),
        findings(&all, of_rigs),
        throughput::html(&all),
        rules::html(&all),
        procedures::html(&all),
        rigs(runs, of_rigs),
        loss::html(&all),
        latency::html(&all),
        cost::html(&all),
        drop_counters::html(&all),
        method::html(runs),
    ];
    page::document(&title, &body.concat())
}

/// The sections that the rigs of the runs have.
fn rigs(runs: &[RunData], of_rigs: &dyn Sections) -> String {
    let of = |data: &RunData| if runs.len() > 1 { format!(" of run {}", data.run.id) } else { String::new() };
    let section = |data| of_rigs.parts(data).into_iter().map(move |part| part.html(data.run.id, &of(data)));
    runs.iter().flat_map(section).collect()
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

fn findings(all: &Comparison<'_>, of_rigs: &dyn Sections) -> String {
    let found = summary::findings(all, of_rigs);
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
