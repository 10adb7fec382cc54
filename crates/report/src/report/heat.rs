//! A map of numbers from 0 to 1: rows and columns have names, and the darker a cell, the larger its number, which stands in it.

use crate::view::svg::{Anchor, Svg, text_width};

const CELL: (f64, f64) = (46.0, 26.0);
const HEAD: f64 = 44.0;
const GAP: f64 = 8.0;
/// Shades, of which the page's style has as many.
const SHADES: f64 = 9.0;

/// A map in the making.
pub struct HeatMap {
    title: String,
    rows: Vec<String>,
    columns: Vec<String>,
    cells: Vec<(usize, usize, f64)>,
}

impl HeatMap {
    /// Without cells.
    pub fn new(title: String) -> HeatMap {
        HeatMap { title, rows: Vec::new(), columns: Vec::new(), cells: Vec::new() }
    }

    /// The number of a cell, 0 to 1; rows and columns stand in the order in which they come.
    pub fn set(&mut self, row: &str, column: &str, value: Option<f64>) {
        let (row, column) = (place(&mut self.rows, row), place(&mut self.columns, column));
        self.cells.extend(value.map(|value| (row, column, value.clamp(0.0, 1.0))));
    }

    /// The drawing.
    pub fn draw(&self) -> String {
        let names = self.rows.iter().map(|name| text_width(name)).fold(0.0, f64::max) + GAP;
        let (width, height) = (self.columns.len() as f64 * CELL.0, self.rows.len() as f64 * CELL.1);
        let mut svg = Svg::new((names + width).max(text_width(&self.title)), HEAD + height);
        svg.text((0.0, 14.0), Anchor::Start, "", &self.title);
        for (i, column) in self.columns.iter().enumerate() {
            let x = names + (i as f64 + 0.5) * CELL.0;
            svg.text((x, HEAD - GAP), Anchor::Middle, "tick", column);
        }
        for (i, row) in self.rows.iter().enumerate() {
            svg.text((names - GAP, middle(i)), Anchor::End, "tick", row);
        }
        let mut said = Vec::new();
        for &(row, column, value) in &self.cells {
            let corner = (names + column as f64 * CELL.0, HEAD + row as f64 * CELL.1);
            let title = format!("{}, buffer {}: {value:.2}", self.rows[row], self.columns[column]);
            svg.rect(corner, CELL, &format!("heat h{}", (value * SHADES).round()), &title);
            svg.text((corner.0 + CELL.0 / 2.0, middle(row)), Anchor::Middle, "", &format!("{value:.2}"));
            said.push(title);
        }
        svg.finish(&self.title, &said.join("; "))
    }
}

/// The baseline of the text in a row.
fn middle(row: usize) -> f64 {
    HEAD + (row as f64 + 0.5) * CELL.1 + 4.0
}

fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    })
}
