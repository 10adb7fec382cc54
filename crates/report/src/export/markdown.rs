//! The tables of the RFCs as Markdown.

use super::{facts, title};
use crate::report::Sections;
use crate::report::block::{Block, Part};
use crate::run_data::RunData;
use crate::tables::{self, Sheet};
use crate::view::{Comparison, Table};

/// A document with a table per procedure.
pub fn markdown(data: &RunData, of_rigs: &dyn Sections) -> String {
    let all = Comparison::new(std::slice::from_ref(data));
    let facts: String = facts(data).iter().map(|fact| format!("- {}\n", escape(fact))).collect();
    let sheets: String = tables::sheets(&all).iter().map(sheet).collect();
    let parts: String = of_rigs.parts(data).iter().map(section).collect();
    format!("# {}\n\n{facts}{sheets}{parts}", escape(&title(data)))
}

fn section(part: &Part) -> String {
    let blocks: String = part.blocks.iter().map(block).collect();
    format!("\n## {}\n{blocks}", escape(&part.heading))
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(text) => format!("\n### {}\n", escape(text)),
        Block::Sentence(text) | Block::Note(text) => format!("\n{}\n", escape(text)),
        Block::Bullets(items) => {
            items.iter().map(|item| format!("\n- {}", escape(item))).collect::<String>() + "\n"
        }
        Block::Table(own) => table(own),
        Block::Folded(heading, blocks) => {
            format!("\n### {}\n{}", escape(heading), blocks.iter().map(self::block).collect::<String>())
        }
        // A text has no drawings.
        Block::Drawing { .. } | Block::Wide(..) | Block::Legend(_) => String::new(),
    }
}

fn sheet(sheet: &Sheet) -> String {
    let cites = if sheet.cites.is_empty() { String::new() } else { format!(" ({})", sheet.cites) };
    let notes: String = sheet.notes.iter().map(|note| format!("\n{}\n", escape(note))).collect();
    format!("\n## {}\n{}{notes}", escape(&(sheet.title.clone() + &cites)), table(&sheet.table))
}

/// Empty without rows.
fn table(table: &Table) -> String {
    if table.is_empty() {
        return String::new();
    }
    let numeric = |i: usize| if table.is_numeric(i) { "---:" } else { "---" };
    let rule: Vec<_> = (0..table.head().len()).map(numeric).collect();
    let rows: String = table.rows().iter().map(|row| line(row)).collect();
    format!("\n{}|{}|\n{rows}", line(table.head()), rule.join("|"))
}

fn line(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| escape(cell)).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Text that means nothing in Markdown (CommonMark: a backslash before punctuation), on one line.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push(' '),
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '|' | '#' | '~' | '&' => {
                escaped.extend(['\\', c])
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use weir_testkit::golden;

    #[test]
    fn letters_that_mean_something_are_escaped() {
        assert_eq!(escape("a|b *c*\n<d> [e](f) #1_x"), r"a\|b \*c\* \<d\> \[e\](f) \#1\_x");
    }

    #[test]
    fn tables_have_as_many_cells_in_each_line() {
        let mut data = fixture::procedures();
        data.points[3].point.dut = "a|b *c*\n<d>".into();
        let text = markdown(&data, &());
        let mut columns = None;
        for line in text.lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            if !line.starts_with('|') {
                columns = None;
            } else {
                assert_eq!(*columns.get_or_insert(cells), cells, "{line}");
            }
        }
        assert_eq!(text.matches("\n## ").count(), 1 + fixture::PROCEDURES.len(), "{text}");
        data.points.retain(|p| p.point.frame == "64" && !p.is_ceiling());
        data.points.truncate(2);
        golden!("src/export/golden/markdown.md", &markdown(&data, &()).replace('\u{202f}', " "));
    }
}
