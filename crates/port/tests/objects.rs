//! The committed eBPF objects are what their sources make, and what the kernel refuses is kept for the reader.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use weir_port::bpf::{BpfError, Program, object};

/// Reads a frame without a look at its length, which no verifier accepts.
const WRONG: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp") int wrong(struct xdp_md *ctx) { return *(int *)(long)ctx->data; }
char LICENSE[] SEC("license") = "Dual MIT/GPL";
"#;

#[test]
fn what_the_verifier_says_is_in_a_file_that_the_error_names() {
    weir_testkit::need_root!();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("wrong.bpf.c"), WRONG).expect("room");
    let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new("clang");
    clang.args([
        "-O2",
        "-g",
        "-target",
        "bpf",
        "-mcpu=v3",
        &include,
        "-c",
        "wrong.bpf.c",
        "-o",
        "wrong.bpf.o",
    ]);
    match clang.current_dir(&folder).status() {
        Ok(status) => assert!(status.success(), "it compiles"),
        Err(_) => return println!("skipped: clang is not installed"),
    }
    let object = std::fs::read(folder.join("wrong.bpf.o")).expect("an object");
    static ALIGNED: OnceLock<object::Aligned<[u8; 1 << 16]>> = OnceLock::new();
    let aligned = ALIGNED.get_or_init(|| {
        let mut aligned = object::Aligned([0; 1 << 16]);
        aligned.0[..object.len()].copy_from_slice(&object);
        aligned
    });
    let error = Program::load("wrong program", aligned, &[]).err().expect("it is refused");
    let BpfError::Load { report: Some(path), .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    let text = std::fs::read_to_string(path).expect("it is there");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("proc");
    assert!(text.contains(release.trim()) && text.contains("invalid access to packet"), "{text}");
    std::fs::remove_file(path).expect("it is ours");
}

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
