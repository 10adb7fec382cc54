//! Programs that are installed beside this one and do what most commands do not need.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::outcome::Outcome;

/// The file of a program beside this one.
///
/// # Errors
/// It is not there.
pub(crate) fn path(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the folder of this program")?;
    let program = own.with_file_name(name);
    if !program.exists() {
        bail!(
            "there is no {}: build it with `cargo build --release -p {name}`, or copy it there",
            program.display()
        );
    }
    Ok(program)
}

/// Runs a program in place of this one; it has the same number of a process, so that signals reach it.
pub(crate) fn become_program(name: &str, words: &[OsString]) -> Result<Outcome> {
    let program = path(name)?;
    let error = Command::new(&program).args(words).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
