//! Tests that cannot run here say `skipped: REASON`, which `./test` counts and compares with tests/skips.

use std::process::{Command, Stdio};

/// Leaves a test, aloud, that needs root: with nothing, or with what a function that tests share `return`s then.
#[macro_export]
macro_rules! need_root {
    () => {
        $crate::need_root!(return)
    };
    (return $($value:expr)?) => {
        if !$crate::is_root() {
            println!("skipped: {} needs root", module_path!());
            return $($value)?;
        }
    };
}

/// Is this process root's, and may tests use that? `./test quick` sets `WEIR_TEST_WITHOUT_ROOT`.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root() && std::env::var_os("WEIR_TEST_WITHOUT_ROOT").is_none()
}

/// Is this program installed? If not, says so.
pub fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}
