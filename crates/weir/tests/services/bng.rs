//! The first subscriber online: `examples/bng/run` with the client udhcpc, as a user runs it.

use std::path::Path;
use std::process::Command;

use weir_testkit::{need_root, output};

use crate::weir::WEIR;

#[test]
fn the_first_subscriber_is_online() {
    need_root!();
    if !Path::new(WEIR).with_file_name("weir-bngd").exists() {
        return println!("skipped: weir-bngd is not built (cargo build -p weir-bngd)");
    }
    for (program, package) in [("busybox", "busybox"), ("curl", "curl"), ("jq", "jq")] {
        if output(Command::new("which").arg(program)).is_ok_and(|found| !found.status.success()) {
            return println!("skipped: no program {program} (apt install {package})");
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bng/run");
    let ran = output(Command::new(script).env("WEIR", WEIR)).expect("bash starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.ends_with("all steps passed\n"), "{said}");
}
