//! `weir clean`: undoes the changes of killed runs. Each `weir run` begins with it, too.

use std::io::Write;

use anyhow::Result;
use weir_lab::engine;
use weir_record::store::RunLog;
use weir_testbed::journal;

use crate::{cli, records};

pub(crate) fn run(store: &cli::Store, out: &mut impl Write) -> Result<()> {
    let done = undo(&records::open_existing(store)?)?;
    if done.is_empty() {
        writeln!(out, "nothing to do: no killed run left changes")?;
    }
    for line in done {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Undoes the changes in the journals of dead processes and marks their runs; returns a line for each.
pub(crate) fn undo(log: &RunLog) -> Result<Vec<String>> {
    weir_lab::run::folder::sweep_folders();
    let cleaned = journal::clean(&journal::default_dir())?;
    let undone = cleaned.undone.iter().map(|change| format!("undone after a killed run: {change}"));
    let mut done: Vec<String> = undone.chain(cleaned.left).collect();
    for id in engine::mark_dead_runs(log)? {
        done.push(format!(
            "run {id} was killed; its finished trials are kept; continue it with `weir run --resume {id}`"
        ));
    }
    Ok(done)
}
