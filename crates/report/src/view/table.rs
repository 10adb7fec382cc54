//! Tables, as HTML and as plain text. Columns of numbers stand right.

use super::svg::escape;

/// Cells with more letters than this may be broken into lines.
const LONG: usize = 44;

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<S: ToString>(head: &[S]) -> Table {
        Table { head: head.iter().map(S::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row with one cell per column.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.head.len(), "cells in {row:?} for columns {:?}", self.head);
        self.rows.push(row);
    }

    /// The table without those of these columns that have nothing in them.
    pub fn without_empty(mut self, names: &[&str]) -> Table {
        let is_empty = |cell: &String| cell.is_empty() || cell == "–";
        let kept: Vec<bool> = (0..self.head.len())
            .map(|i| {
                !names.contains(&self.head[i].as_str()) || !self.rows.iter().all(|row| is_empty(&row[i]))
            })
            .collect();
        for row in std::iter::once(&mut self.head).chain(&mut self.rows) {
            let mut kept = kept.iter();
            row.retain(|_| *kept.next().expect("as many columns as headings"));
        }
        self
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Names of the columns.
    pub fn head(&self) -> &[String] {
        &self.head
    }

    /// The cells, row by row.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// As HTML, inside a box that scrolls where the page is narrow. Headings are broken before that.
    pub fn html(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let numeric = self.numeric();
        let cells = |row: &[String], tag: &str| {
            let cell = |(i, text): (usize, &String)| {
                let class = match (numeric[i], tag) {
                    (_, "td") if text.chars().count() > LONG => " class=\"w\"",
                    (true, _) => " class=\"n\"",
                    (false, _) => "",
                };
                format!("<{tag}{class}>{}</{tag}>", escape(text))
            };
            row.iter().enumerate().map(cell).collect::<String>()
        };
        // A line ends a group of rows, where there are any.
        let groups = self.rows.windows(2).any(|pair| pair[0][0] == pair[1][0]);
        let rows = self.rows.iter().enumerate().map(|(i, row)| {
            let ends = groups && self.rows.get(i + 1).is_some_and(|next| next[0] != row[0]);
            format!("<tr{}>{}</tr>\n", if ends { " class=\"g\"" } else { "" }, cells(row, "td"))
        });
        let rows: String = rows.collect();
        format!(
            "<div class=\"scroll\"><table><thead><tr>{}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n",
            cells(&self.head, "th")
        )
    }

    /// As aligned text, two spaces between columns, for a terminal. A number has no space in it, so that awk and its like
    /// see one field where people see one number.
    pub fn text(&self) -> String {
        let plain = |row: &Vec<String>| row.iter().map(|cell| without_spaces(cell)).collect::<Vec<_>>();
        let head = self.head.iter().map(|cell| cell.replace(NARROW, " ")).collect();
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(self.rows.iter().map(plain)).collect();
        let lines = || rows.iter();
        let width = |i: usize| lines().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.head.len()).map(width).collect();
        let numeric = self.numeric();
        let mut text = String::new();
        for row in lines() {
            let cells = row.iter().enumerate().map(|(i, cell)| {
                let w = widths[i];
                if numeric[i] { format!("{cell:>w$}") } else { format!("{cell:<w$}") }
            });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// Which columns are numeric. Each cell is read for that, so that it is asked once for all rows.
    fn numeric(&self) -> Vec<bool> {
        (0..self.head.len()).map(|i| self.is_numeric(i)).collect()
    }

    /// True if all cells of a column are numbers, with a unit or without, or missing.
    pub fn is_numeric(&self, column: usize) -> bool {
        let words =
            |cell: &str| cell.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).count();
        let begins = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || "−-–≥≤~+".contains(c));
        let number = |cell: &String| begins(cell) && words(cell) <= 1;
        !self.is_empty() && self.rows.iter().all(|row| row[column].is_empty() || number(&row[column]))
    }
}

/// Separates the digits of a number, and it from its unit, on a page.
const NARROW: char = '\u{202f}';

/// A cell for a terminal: `410k–415k` for `410 k – 415 k`.
fn without_spaces(cell: &str) -> String {
    let is_range = cell.starts_with(|c: char| c.is_ascii_digit()) && cell.contains(" – ");
    let cell = cell.replace(NARROW, "");
    if is_range { cell.replace(" – ", "–") } else { cell }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_number_is_one_field_on_a_terminal() {
        let mut table = Table::new(&["device", "frames/s", "interval"]);
        table.push(vec![
            "wire".into(),
            "≥\u{202f}4.12\u{202f}M".into(),
            "410\u{202f}k – 415\u{202f}k".into(),
        ]);
        table.push(vec!["a – b".into(), "412\u{202f}300".into(), "–".into()]);
        let text = table.text();
        assert_eq!(
            text,
            "device  frames/s  interval\n\
             wire      ≥4.12M  410k–415k\n\
             a – b     412300  –\n"
        );
    }

    use super::*;

    #[test]
    fn columns_are_aligned_and_escaped() {
        let mut table = Table::new(&["name", "frames/s"]);
        assert_eq!(table.html(), "");
        table.push(vec!["a<b".into(), "12".into()]);
        table.push(vec!["longer".into(), "≥ 1 000".into()]);
        assert_eq!(table.text(), "name    frames/s\na<b           12\nlonger   ≥ 1 000\n");
        assert_eq!(
            table.html(),
            "<div class=\"scroll\"><table><thead><tr><th>name</th><th class=\"n\">frames/s</th></tr></thead>\n\
             <tbody><tr><td>a&lt;b</td><td class=\"n\">12</td></tr>\n\
             <tr><td>longer</td><td class=\"n\">≥ 1 000</td></tr>\n</tbody></table></div>\n"
        );
        table.push(vec!["–".into(), "–".into()]);
        assert_eq!(
            table.without_empty(&["name", "frames/s"]).head(),
            ["name", "frames/s"],
            "there are others"
        );
        let rows = |names: [&str; 3]| {
            let mut table = Table::new(&["name"]);
            names.into_iter().for_each(|name| table.push(vec![name.into()]));
            table.html().matches("<tr class=\"g\">").count()
        };
        assert_eq!((rows(["a", "a", "b"]), rows(["a", "b", "c"])), (1, 0), "a line where a group ends");
        let mut table = Table::new(&["name", "remark", "spread"]);
        table.push(vec!["a".into(), String::new(), "–".into()]);
        let table = table.without_empty(&["remark"]);
        assert_eq!((table.head().join(" "), table.rows()[0].join(" ")), ("name spread".into(), "a –".into()));
        let mut table = Table::new(&["traffic", "size"]);
        table.push(vec!["64 bytes, 10 flows".into(), "1.5 MiB".into()]);
        assert_eq!([table.is_numeric(0), table.is_numeric(1)], [false, true]);
    }
}
