//! Every scenario of `tests/` at the root of the project, against the plane in virtual time.

use std::path::Path;

use weir_plane::scenario::{VirtualNode, read, suites};

/// The scenario files of a folder, by name.
fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let paths = std::fs::read_dir(&folder).expect("the folder").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("readable"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_plane_does_as_the_scenarios_say() {
    let mut wrong = Vec::new();
    for (name, scenarios) in suites() {
        for scenario in scenarios {
            if let Err(text) = scenario.run(&mut VirtualNode::default()) {
                wrong.push(format!(
                    "{name}:{}: {}: {}: {text}",
                    scenario.line, scenario.reference, scenario.title
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} scenarios failed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_scenario_ships() {
    let files: Vec<_> = files("tests").into_iter().map(|(name, _)| name).collect();
    let mut shipped: Vec<_> = suites().into_iter().map(|(name, _)| name.to_string()).collect();
    shipped.sort();
    assert_eq!(shipped, files);
}

#[test]
fn scenarios_of_stages_to_come_can_be_read() {
    for (name, text) in files("tests/open") {
        read(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
    }
}
