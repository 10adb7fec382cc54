//! Each drawing of a report as a separate file, for papers and slides: what it needs of the page's style is in it.

use crate::report::{self, Sections};
use crate::run_data::RunData;

/// How a drawing begins on the page, and what only those say that are no sign in a legend.
const BEGIN: &str = "<svg viewBox";
const DRAWING: &str = "role=\"img\"";
const END: &str = "</svg>";
const STYLE: &str = include_str!("../view/style.css");

/// Name (`throughput-1.svg`, after its section) and text of each drawing, in the order of the report.
pub fn svg(data: &RunData, of_rigs: &dyn Sections) -> Vec<(String, String)> {
    let page = report::html(std::slice::from_ref(data), of_rigs);
    let mut drawings: Vec<(String, String)> = Vec::new();
    // What stands before the first section is the first screen.
    let (mut section, mut number) = ("answer", 0);
    let mut rest = page.as_str();
    while let Some(at) = rest.find(BEGIN) {
        if let Some(id) = last_section(&rest[..at]) {
            (section, number) = (id, 0);
        }
        let Some(end) = rest[at..].find(END).map(|end| at + end + END.len()) else { break };
        if rest[at..end].split('>').next().is_some_and(|open| open.contains(DRAWING)) {
            number += 1;
            drawings.push((format!("{section}-{number}.svg"), alone(&rest[at..end])));
        }
        rest = &rest[end..];
    }
    drawings
}

/// The last section that begins in a part of the page.
fn last_section(part: &str) -> Option<&str> {
    let (_, behind) = part.rsplit_once("<section id=\"")?;
    behind.split('"').next()
}

/// A drawing that needs no page around it.
fn alone(drawing: &str) -> String {
    let open = drawing.find('>').map_or(drawing.len(), |at| at + 1);
    let head = drawing[..open].replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1);
    // A paper is white, whatever the screen of its reader is.
    let light: String = STYLE.split("@media").next().unwrap_or_default().to_string();
    let rules = STYLE.lines().filter(|line| {
        [
            "svg ", "line.", ".c0", ".c4", ".bar", ".line", ".dot", ".flame", ".faint", ".cross", ".cut",
            ".heat", ".h0",
        ]
        .iter()
        .any(|begin| line.starts_with(begin))
    });
    let rules: String = rules.map(|line| format!("{line}\n")).collect();
    let font = "svg { font-family: sans-serif; background: #fff; }\n";
    format!("{head}\n<style>\n{light}{font}{rules}</style>\n{}\n", &drawing[open..])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture;

    #[test]
    fn each_drawing_stands_alone() {
        let data = fixture::procedures();
        let drawings = svg(&data, &());
        let names: BTreeSet<_> = drawings.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), drawings.len(), "a name each: {names:?}");
        assert!(names.iter().any(|name| name.starts_with("throughput-")), "{names:?}");
        assert!(drawings.len() >= 4, "{names:?}");
        for (name, text) in &drawings {
            assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{name}: {text:.200}");
            assert_eq!(text.matches("<svg").count(), 1, "{name}");
            assert!(text.contains("--c1: #0072b2") && !text.contains("prefers-color-scheme"), "{name}");
            assert!(text.trim_end().ends_with("</svg>"), "{name}");
        }
    }
}
