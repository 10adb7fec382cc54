//! What reports, comparisons, trends and exports are made of: numbers in words, rates with their bounds, points that
//! belong together, tables, and the pages and drawings that show them.

pub(crate) mod curve;
pub(crate) mod format;
pub(crate) mod handover;
pub(crate) mod page;
mod rate;
pub(crate) mod reasons;
pub(crate) mod scale;
mod series;
pub(crate) mod svg;
mod table;

pub(crate) use rate::{Bound, Rate, Ratio};
pub(crate) use series::{Comparison, Series, Style, frame_name};
pub(crate) use table::Table;
