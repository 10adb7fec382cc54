//! Disks without room.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Watch;

/// Runs a command whose output cannot be written: it ends, reports that, and fails.
pub fn refuses_output(mut command: Command, what: &str) {
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let begun = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).spawn().expect("it starts");
    let _watch = Watch::new(&child);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{what}, after {:?}: {said}", begun.elapsed());
    assert!(said.contains("standard output") && said.contains("No space left on device"), "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
}

/// A shell that runs a script, before which a disk of this size is mounted at `disk` in its folder. The mount is private.
pub fn shell_with_disk(size: &str, script: &str) -> Command {
    let mut shell = Command::new("unshare");
    let script = format!("mkdir -p disk && mount -t tmpfs -o size={size} none disk || exit 99\n{script}");
    shell.args(["--mount", "sh", "-c", &script, "sh"]);
    shell
}
