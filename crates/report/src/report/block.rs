//! The blocks of a section of a report, for a page, a terminal, Markdown or LaTeX.

use crate::view::page::{bullets, details, figure, legend_of, note, paragraph, section};
use crate::view::svg::escape;
use crate::view::{Style, Table};

/// A section of a report.
pub struct Part {
    /// What links lead to; the number of the run is added.
    pub id: &'static str,
    /// Its heading.
    pub heading: String,
    /// From top to bottom; without any the section is left out.
    pub blocks: Vec<Block>,
}

/// A part of a section. A terminal shows sentences and tables, the others everything but drawings, a page all.
pub enum Block {
    /// A heading within the section.
    Heading(&'static str),
    /// What must be known to read what follows it.
    Sentence(String),
    /// A list of sentences.
    Bullets(Vec<String>),
    /// Numbers; left out without rows.
    Table(Table),
    /// SVG drawings side by side, and what they show.
    Drawing {
        /// One `<svg>` each.
        drawings: Vec<String>,
        /// Caption below the drawings.
        caption: &'static str,
    },
    /// Which line of the drawings that follow is what.
    Legend(Vec<(Style, String)>),
    /// One drawing over the whole width.
    Wide(String, &'static str),
    /// How the numbers were made.
    Note(String),
    /// What few readers want to see; the heading says what it is.
    Folded(String, Vec<Block>),
}

impl Part {
    /// Nothing to show?
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// As a section of a page; `of` names the run where there are several.
    pub fn html(&self, run: i64, of: &str) -> String {
        let body: String = self.blocks.iter().map(Block::html).collect();
        section(&format!("{}-{run}", self.id), &format!("{}{of}", self.heading), &body)
    }

    /// For a terminal, one text for each table with the sentences before it.
    pub fn text(&self) -> Vec<String> {
        let mut texts = vec![String::new()];
        self.blocks.iter().for_each(|block| block.text(&mut texts));
        texts.retain(|text| !text.is_empty());
        texts
    }
}

impl Block {
    /// Sentences with a table each.
    pub fn named(tables: Vec<(String, Table)>) -> impl Iterator<Item = Block> {
        tables
            .into_iter()
            .flat_map(|(name, table)| [Block::Sentence(format!("{name}:")), Block::Table(table)])
    }

    pub(super) fn html(&self) -> String {
        match self {
            Block::Heading(text) => format!("<h3>{}</h3>\n", escape(text)),
            Block::Sentence(text) => paragraph(text),
            Block::Bullets(items) => bullets(items),
            Block::Table(table) => table.html(),
            Block::Drawing { drawings, caption } => {
                let class = if drawings.len() > 2 { "multiples" } else { "pair" };
                figure(class, drawings, caption, &Table::default())
            }
            Block::Legend(lines) => legend_of(lines.iter().map(|(style, name)| (*style, name.as_str()))),
            Block::Wide(drawing, caption) => {
                figure("", std::slice::from_ref(drawing), caption, &Table::default())
            }
            Block::Note(text) => note(text),
            Block::Folded(summary, blocks) => {
                details(summary, &blocks.iter().map(Block::html).collect::<String>())
            }
        }
    }

    fn text(&self, texts: &mut Vec<String>) {
        match self {
            Block::Sentence(text) => *last(texts) += &format!("{text}\n"),
            Block::Table(table) if !table.is_empty() => {
                *last(texts) += &table.text();
                texts.push(String::new());
            }
            Block::Folded(_, blocks) => blocks.iter().for_each(|block| block.text(texts)),
            _ => {}
        }
    }
}

fn last(texts: &mut [String]) -> &mut String {
    texts.last_mut().expect("there is always one that is being written")
}

/// Sections of a run as a page has them, for tests.
#[cfg(any(test, feature = "blocks"))]
pub fn page(parts: &[Part]) -> String {
    parts.iter().map(|part| part.html(1, "")).collect()
}

/// Sections of a run as a terminal has them, for tests.
#[cfg(any(test, feature = "blocks"))]
pub fn terminal(parts: &[Part]) -> String {
    parts.iter().flat_map(Part::text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::golden;

    fn table(cell: &str) -> Block {
        let mut table = Table::new(&["name"]);
        table.push(vec![cell.into()]);
        Block::Table(table)
    }

    #[test]
    fn a_terminal_has_the_numbers_and_a_page_everything() {
        let blocks = vec![
            Block::Heading("Rates"),
            Block::Sentence("One flow:".into()),
            table("a"),
            Block::Table(Table::new(&["no row"])),
            Block::Note("By the median.".into()),
            Block::Folded("More".into(), vec![table("b<")]),
        ];
        let part = Part { id: "rates", heading: "Rates & costs".into(), blocks };
        assert_eq!(part.text(), ["One flow:\nname\na\n", "name\nb<\n"]);
        let page = part.html(7, " of run 7");
        golden!("src/report/golden/part.html", &page);
        let empty = Part { id: "x", heading: "X".into(), blocks: Vec::new() };
        assert!(empty.is_empty() && empty.html(1, "").is_empty() && empty.text().is_empty());
    }
}
