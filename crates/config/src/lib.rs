//! Reads TOML files of users, option by option. Reading continues after a mistake, so that all mistakes of a file are reported
//! at once, each with its line and what to do about it. Rates and numbers as people write them.
//!
//! ```text
//! text > toml_edit > Section > values, each parsed once        notes > Mistakes
//! ```
#![forbid(unsafe_code)]

mod mistake;
mod plain;
pub mod rate;
mod section;
pub mod unit;
pub mod value;

pub use mistake::{Mistake, Mistakes, Notes, Place, closest, did_you_mean};
pub use plain::{plain, without_bom};
pub use section::{Section, shown};
