//! `weir` as a test runs it in a namespace: to its end, or until it says that it is ready.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use weir_linux::namespace::Namespace;
use weir_testkit::{Started, output};

/// The program.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A copy of the program, which every user may run: the checkout may be closed to others. A separate process writes it:
/// a file cannot be started while it is open for writing in a child of this process (`ETXTBSY`), started by another test.
pub(crate) fn copy_to(path: PathBuf) -> String {
    let copied =
        output(Command::new("install").arg("--mode=755").arg(WEIR).arg(&path)).expect("install starts");
    assert!(copied.status.success(), "{copied:?}");
    path.into_os_string().into_string().expect("a plain path")
}

/// Runs `weir LINE` to its end.
pub(crate) fn run(namespace: &Namespace, line: &str) -> Output {
    let mut command = Command::new(WEIR);
    namespace.run(|| output(command.args(line.split_whitespace()))).unwrap()
}

/// `weir LINE` is refused with these words, the last that it says.
pub(crate) fn refused(namespace: &Namespace, line: &str, message: &str) {
    let output = run(namespace, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}: {said}");
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert_eq!(last, format!("weir: {message}"), "{line}: {said}");
}

/// Starts `weir LINE`, and returns when it has said that it is `ready`.
pub(crate) fn start(namespace: &Namespace, line: &str, ready: &str) -> Started {
    // It hears of a terminal that closes also where the tests were begun by nohup.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", WEIR]);
    start_by(command, namespace, line, ready)
}

/// The same, run by a command that takes its words.
pub(crate) fn start_by(mut command: Command, namespace: &Namespace, line: &str, ready: &str) -> Started {
    command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut started = Started::of(namespace.run(|| command.spawn()).unwrap());
    started.await_words(ready);
    started
}
