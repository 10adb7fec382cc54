//! Building blocks of reports, comparisons, trends and exports: numbers as text, rates with their bounds, points that
//! belong together, tables, and the pages and drawings that show them.

pub mod axes;
pub mod core_distance;
pub mod curve;
pub mod format;
pub mod page;
mod rate;
pub mod reasons;
pub mod scale;
mod series;
pub mod svg;
mod table;

pub use axes::Axes;
pub use rate::{Bound, Rate, Ratio};
pub use series::{COLOURS, Comparison, Series, Style, frame_name};
pub use table::Table;
