//! Sessions: commands and all that is said to them, as a person sees them.
//!
//! ```text
//! $ list --store typo.db
//! weir: there is no file typo.db: check the name in --store or WEIR_STORE; `weir run` makes it
//! [1]
//! ```
//! Below a command stand its output, its errors, and its exit code if that is not 0.

use std::path::Path;
use std::process::Output;

/// Runs the commands of a session, and checks that all is said that it says, and nothing else. This folder is written as `DIR`.
pub fn check_session(session: &str, folder: &Path, run: impl Fn(&str) -> Output) {
    let said: String = session
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|line| shown(line, &run(line)))
        .collect();
    let said = said.replace(&folder.display().to_string(), "DIR");
    assert!(said.trim_end() == session.trim(), "said is:\n{said}");
}

fn shown(line: &str, output: &Output) -> String {
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let end = match output.status.code() {
        Some(0) => String::new(),
        Some(code) => format!("[{code}]\n"),
        None => "[ended by a signal]\n".into(),
    };
    format!("$ {line}\n{out}{errors}{end}")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::Folder;

    fn check(session: &str) {
        let folder = Folder::new();
        let shell = |line: &str| Command::new("sh").args(["-c", line]).current_dir(&folder).output().unwrap();
        check_session(session, &folder, shell);
    }

    #[test]
    fn a_session_is_all_that_is_said() {
        check("$ pwd; echo no >&2; exit 3\nDIR\nno\n[3]\n$ true\n$ kill -9 $$\n[ended by a signal]\n");
    }

    #[test]
    #[should_panic(expected = "said is:\n$ echo a; echo b\na\nb\n")]
    fn what_it_does_not_say_is_shown() {
        check("$ echo a; echo b\na\n");
    }
}
