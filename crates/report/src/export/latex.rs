//! The tables of the RFCs as a LaTeX document, to compile or to take tables from. It needs booktabs, longtable and
//! geometry, which every distribution has; all text is plain ASCII.

use super::{facts, title};
use crate::report::block::{Block, Part};
use crate::report::{self, Sections};
use crate::run_data::RunData;
use crate::tables::{self, Sheet};
use crate::view::{Comparison, Table};

const HEAD: &str = r"\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\usepackage[landscape,margin=12mm]{geometry}
\usepackage{booktabs}
\usepackage{longtable}
\setlength{\parindent}{0pt}
\setlength{\tabcolsep}{3.5pt}
\begin{document}
";

/// A document with a table per procedure.
pub fn latex(data: &RunData, of_rigs: &dyn Sections) -> String {
    let all = Comparison::new(std::slice::from_ref(data));
    let facts: String = facts(data).iter().map(|fact| format!("{}\n\n", escape(fact))).collect();
    let sheets: String = tables::sheets(&all).iter().map(sheet).collect();
    let parts: String = of_rigs.parts(data).iter().map(section).collect();
    format!("{HEAD}\\section*{{{}}}\n{facts}{sheets}{parts}\\end{{document}}\n", escape(&title(data)))
}

/// Each table of the run as a bare `tabular`, to be taken into a document of one's own; above each stands what it is, as a
/// comment. It needs booktabs.
pub fn tabular(data: &RunData, of_rigs: &dyn Sections) -> String {
    let all = Comparison::new(std::slice::from_ref(data));
    let sheets = tables::sheets(&all).into_iter().map(|sheet| (sheet.title, sheet.table));
    let parts = of_rigs.parts(data).into_iter().flat_map(|part| {
        let heading = part.heading;
        let tables = part.blocks.into_iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        tables.map(move |table| (heading.clone(), table)).collect::<Vec<_>>()
    });
    let first = [("Answer".to_string(), report::answer::of_run(data, of_rigs).table)];
    let tables = first.into_iter().chain(sheets).chain(parts).filter(|(_, table)| !table.is_empty());
    tables.map(|(title, table)| format!("% {}\n{}", title.replace('\n', " "), bare(&table))).collect()
}

fn bare(table: &Table) -> String {
    let rows: String = table.rows().iter().map(|row| line(row)).collect();
    format!(
        "\\begin{{tabular}}{{{}}}\n\\toprule\n{}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}\n\n",
        columns(table),
        line(table.head())
    )
}

/// Numbers stand right.
fn columns(table: &Table) -> String {
    (0..table.head().len()).map(|i| if table.is_numeric(i) { 'r' } else { 'l' }).collect()
}

fn section(part: &Part) -> String {
    let blocks: String = part.blocks.iter().map(block).collect();
    format!("\\subsection*{{{}}}\n{blocks}", escape(&part.heading))
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(text) => format!("\\subsubsection*{{{}}}\n", escape(text)),
        Block::Sentence(text) | Block::Note(text) => format!("{}\\par\n", escape(text)),
        Block::Bullets(items) => items.iter().map(|item| format!("{}\\par\n", escape(item))).collect(),
        Block::Table(own) => table(own, ""),
        Block::Folded(heading, blocks) => {
            let blocks: String = blocks.iter().map(self::block).collect();
            format!("\\subsubsection*{{{}}}\n{blocks}", escape(heading))
        }
        // Drawings are for pages.
        Block::Drawing { .. } | Block::Wide(..) | Block::Legend(_) => String::new(),
    }
}

fn sheet(sheet: &Sheet) -> String {
    let cites = if sheet.cites.is_empty() { String::new() } else { format!(" ({})", sheet.cites) };
    let notes: String = sheet.notes.iter().map(|note| format!("{}\\par\n", escape(note))).collect();
    format!("\\subsection*{{{}}}\n{}", escape(&(sheet.title.clone() + &cites)), table(&sheet.table, &notes))
}

/// With what stands below it, in small letters; empty without rows.
fn table(table: &Table, notes: &str) -> String {
    if table.is_empty() {
        return String::new();
    }
    let columns = columns(table);
    let rows: String = table.rows().iter().map(|row| line(row)).collect();
    format!(
        "{{\\scriptsize\n\\begin{{longtable}}{{{columns}}}\n\\toprule\n{}\\midrule\n\\endhead\n\
         {rows}\\bottomrule\n\\end{{longtable}}\n{notes}}}\n",
        line(table.head())
    )
}

fn line(cells: &[String]) -> String {
    // An empty group: a row must not begin with a bracket, which would belong to the line break before.
    let cells: Vec<_> = cells.iter().map(|cell| format!("{{}}{}", escape(cell))).collect();
    format!("{} \\\\\n", cells.join(" & "))
}

/// Text that means nothing in LaTeX. What LaTeX knows no sign for becomes its code point.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        let known = match c {
            '\\' => r"\textbackslash{}",
            '{' => r"\{",
            '}' => r"\}",
            '$' => r"\$",
            '&' => r"\&",
            '#' => r"\#",
            '%' => r"\%",
            '_' => r"\_",
            '^' => r"\textasciicircum{}",
            '~' => r"\textasciitilde{}",
            '<' => r"\textless{}",
            '>' => r"\textgreater{}",
            '|' => r"\textbar{}",
            '"' => r"\textquotedbl{}",
            '\'' => r"\textquotesingle{}",
            '`' => r"\textasciigrave{}",
            '-' => "-{}",
            '\u{202f}' => r"\,",
            '\u{a0}' => "~",
            '–' => "--{}",
            '−' => "$-$",
            '≥' => r"$\geq$",
            '≤' => r"$\leq$",
            'µ' => r"\textmu{}",
            '·' => r"\textperiodcentered{}",
            '×' => r"\texttimes{}",
            '…' => r"\dots{}",
            '“' => "``",
            '”' => "''",
            '\n' | '\r' | '\t' => " ",
            c if c.is_ascii() && !c.is_ascii_control() => {
                escaped.push(c);
                continue;
            }
            c => {
                escaped += &format!("[U+{:04X}]", c as u32);
                continue;
            }
        };
        escaped += known;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::fixture;

    /// A run whose texts hold everything that LaTeX takes for its own.
    fn odd() -> RunData {
        let mut data = fixture::procedures();
        data.run.question =
            r#"\input{x} $a^2$ & 5 % of #1_b ~ <c> "q" 'r' `s` – − ≥ ≤ µ · × … “t” 中"#.into();
        data.points[3].point.dut = "[b]--{c}".into();
        data
    }

    #[test]
    fn a_table_for_a_document_of_ones_own() {
        let text = tabular(&odd(), &());
        assert!(!text.contains("documentclass") && !text.contains("longtable"), "{text}");
        let tables = text.matches("\\begin{tabular}").count();
        assert!(tables >= 2 && tables == text.matches("\\end{tabular}").count(), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("% ")).count(), tables, "{text}");
    }

    #[test]
    fn each_letter_that_means_something_is_escaped() {
        assert_eq!(
            escape(&odd().run.question),
            r#"\textbackslash{}input\{x\} \$a\textasciicircum{}2\$ \& 5 \% of \#1\_b \textasciitilde{} "#
                .to_string()
                + r#"\textless{}c\textgreater{} \textquotedbl{}q\textquotedbl{} \textquotesingle{}r\textquotesingle{} "#
                + r#"\textasciigrave{}s\textasciigrave{} --{} $-$ $\geq$ $\leq$ \textmu{} \textperiodcentered{} "#
                + r#"\texttimes{} \dots{} ``t'' [U+4E2D]"#
        );
        assert_eq!(escape("[b]--{c}"), r"[b]-{}-{}\{c\}");
    }

    #[test]
    fn tables_are_closed_and_nothing_is_taken_for_a_command() {
        let text = latex(&odd(), &());
        assert!(text.is_ascii(), "{:?}", text.chars().find(|c| !c.is_ascii()));
        for begun in ["document", "longtable"] {
            let (begin, end) = (format!("\\begin{{{begun}}}"), format!("\\end{{{begun}}}"));
            assert_eq!(text.matches(&begin).count(), text.matches(&end).count(), "{begun}");
        }
        let plain = text.replace("\\{", "").replace("\\}", "");
        assert_eq!(plain.matches('{').count(), plain.matches('}').count());
        let mut columns = 0;
        for line in text.lines() {
            if let Some(spec) = line.strip_prefix("\\begin{longtable}{") {
                columns = spec.trim_end_matches('}').len();
            }
            if line.ends_with(" \\\\") {
                assert_eq!(line.replace("\\&", "").matches('&').count() + 1, columns, "{line}");
            }
        }
    }

    #[test]
    fn it_compiles() {
        if !weir_testkit::has("pdflatex") {
            return;
        }
        let dir = weir_testkit::Folder::new();
        std::fs::write(dir.join("run.tex"), latex(&odd(), &())).expect("room");
        let made = Command::new("pdflatex").args(["-halt-on-error", "run.tex"]).current_dir(&dir).output();
        let made = made.expect("it was there before");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    }
}
