//! The program weir-bngd, which takes the place of this one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cli::BngRun;
use crate::outcome::Outcome;

const NAME: &str = "weir-bngd";

pub(super) fn check(file: &Path) -> Result<Outcome> {
    become_program(&["--check".into(), file.into()])
}

pub(super) fn run(arguments: &BngRun) -> Result<Outcome> {
    let mut words: Vec<OsString> = vec![arguments.file.clone().into()];
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            words.extend([name.into(), value]);
        }
    };
    option("--socket", arguments.socket.socket.clone().map(Into::into));
    option("--socket-mode", arguments.socket_mode.clone().map(Into::into));
    option("--socket-group", arguments.socket_group.clone().map(Into::into));
    option("--node-socket", arguments.node_socket.clone().map(Into::into));
    option("--store", arguments.store.clone().map(Into::into));
    option("--prometheus", arguments.prometheus.map(|address| address.to_string().into()));
    let (format, level) = arguments.log.words();
    option("--log-format", format.map(Into::into));
    option("--log-level", level.map(Into::into));
    become_program(&words)
}

/// Runs the program in place of this one; it has the same number of a process, so that signals reach it.
fn become_program(words: &[OsString]) -> Result<Outcome> {
    let own = std::env::current_exe().context("cannot find the folder of this program")?;
    let program = own.with_file_name(NAME);
    if !program.exists() {
        bail!(
            "there is no {}: build it with `cargo build --release -p {NAME}`, or copy it there",
            program.display()
        );
    }
    let error = Command::new(&program).args(words).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
