//! The committed eBPF objects are what their sources make.

use std::path::Path;
use std::process::Command;

#[test]
fn the_committed_objects_are_what_their_sources_make() {
    let here = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !here("clang") || !here("llvm-strip") {
        return println!(
            "skipped: eBPF objects are not compared, because clang or llvm-strip is not installed"
        );
    }
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let status = Command::new(bpf.join("build")).arg(fresh).status().expect("bpf/build starts");
    assert!(status.success(), "bpf/build fails");
    let objects = std::fs::read_dir(&bpf).expect("bpf").map(|file| file.expect("a file").file_name());
    let objects: Vec<_> = objects.filter(|name| name.to_string_lossy().ends_with(".o")).collect();
    assert!(!objects.is_empty());
    for name in objects {
        let read = |folder: &Path| std::fs::read(folder.join(&name)).expect("an object");
        assert!(
            read(&bpf) == read(fresh),
            "{name:?} is not what its source makes: run bpf/build and commit it"
        );
    }
}
