//! Every scenario of `dhcp4.txt`, and what real clients were recorded to say.

use std::fs;
use std::path::Path;

use weir_bng::scenario::read;

fn check(file: &str, text: &str) -> usize {
    let scenarios = read(text).unwrap_or_else(|wrong| panic!("{file}: {wrong}"));
    let failed: Vec<_> = scenarios
        .iter()
        .filter_map(|scenario| {
            let wrong = scenario.run().err()?;
            Some(format!("{} {} ({file}:{}): {wrong}", scenario.reference, scenario.title, scenario.line))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} fail:\n{}", failed.len(), scenarios.len(), failed.join("\n"));
    scenarios.len()
}

#[test]
fn every_scenario_holds() {
    assert!(check("tests/dhcp4.txt", include_str!("dhcp4.txt")) >= 30);
}

/// A file for each client, with the frames that it sent and what it was answered.
#[test]
fn recorded_clients_are_answered_as_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let entries = fs::read_dir(&folder).expect("the folder is part of the crate");
    let files: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        assert_eq!(check(&file.display().to_string(), &text), 1);
    }
}
