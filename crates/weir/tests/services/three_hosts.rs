//! A plan on three hosts and an archive: `examples/three-hosts/run`, as a user runs it.

use std::path::Path;
use std::process::Command;

use weir_testkit::{need_root, output};

use crate::outside::has_sshd;
use crate::weir::WEIR;

#[test]
fn three_hosts_measure_and_one_archive_keeps_it() {
    need_root!();
    if !Path::new(WEIR).with_file_name("weir-archive").exists() {
        return println!("skipped: weir-archive is not built (cargo build -p weir-archive)");
    }
    if !has_sshd() {
        return;
    }
    if !Path::new("/usr/lib/postgresql").exists() {
        return println!("skipped: PostgreSQL is not installed (apt install postgresql)");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/three-hosts/run");
    let ran = output(Command::new(script).env("WEIR", WEIR)).expect("bash starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.ends_with("three hosts work\n"), "{said}");
}
