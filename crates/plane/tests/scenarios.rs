//! Every scenario of `tests/` at the root of the project, against the plane in virtual time.

use std::path::Path;

use weir_plane::scenario::{VirtualNode, read};

#[test]
fn the_plane_does_as_the_scenarios_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut wrong = Vec::new();
    let mut run = 0;
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt")) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let scenarios = read(&std::fs::read_to_string(path).expect("readable"));
        for scenario in scenarios.unwrap_or_else(|mistakes| panic!("{name}: {mistakes}")) {
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
