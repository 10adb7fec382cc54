//! The scenarios that ship with the program.

use super::text::{Scenario, read};

/// The files of `tests/` at the root of the project, by name.
const FILES: &[(&str, &str)] = &[
    ("bump.txt", include_str!("../../../../tests/bump.txt")),
    ("forward.txt", include_str!("../../../../tests/forward.txt")),
];

/// All scenarios, each with the file it stands in.
pub fn suites() -> Vec<(&'static str, Vec<Scenario>)> {
    FILES.iter().map(|(name, text)| (*name, read(text).expect("the tests have read it"))).collect()
}
