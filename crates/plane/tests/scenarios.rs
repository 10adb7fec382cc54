//! Every scenario of `tests/` at the root of the project, against the plane in virtual time.

use std::path::Path;

use weir_plane::scenario::{VirtualNode, read};

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
    let mut run = 0;
    for (name, text) in files("tests") {
        for scenario in read(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}")) {
            run += 1;
            if let Err(text) = scenario.run(&mut VirtualNode::default()) {
                wrong.push(format!(
                    "{name}:{}: {}: {}: {text}",
                    scenario.line, scenario.reference, scenario.title
                ));
            }
        }
    }
    assert!(run > 0, "there are scenarios");
    assert!(wrong.is_empty(), "{} of {run} scenarios failed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scenarios_of_stages_to_come_can_be_read() {
    for (name, text) in files("tests/open") {
        read(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
    }
}
