//! docs/subscriber-tests.md names tests that there are, for each requirement.

use std::collections::BTreeSet;
use std::path::Path;

/// Names of functions of all sources below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).expect("a text");
            let names = text.split("\nfn ").skip(1).chain(text.split(" fn ").skip(1));
            found.extend(names.filter_map(|rest| rest.split('(').next()).map(String::from));
        }
    }
}

#[test]
fn each_requirement_names_tests_that_there_are() {
    let page = include_str!("../../../docs/subscriber-tests.md");
    let mut known = BTreeSet::new();
    functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut known);
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let named = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(|name| !name.contains(' '));
    let missing: Vec<&str> = named.filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "there is no such test: {missing:#?}");
    let numbers = [("P", 11), ("L", 11), ("R", 15)]
        .map(|(kind, most)| (1..=most).map(move |n| format!("| {kind}{n} ")));
    for number in numbers.into_iter().flatten() {
        assert!(page.lines().any(|line| line.starts_with(&number)), "the page has no row `{number}`");
    }
}
