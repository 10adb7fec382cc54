//! `weir run repeat PLAN`: repeats a plan, and shows how much the runs differ.

use std::ffi::OsStr;
use std::io::Write;

use anyhow::{Result, ensure};
use weir_record::record::RunState;
use weir_record::run_data::RunData;
use weir_report::repeat;

use super::once;
use crate::outcome::Outcome;
use crate::{cli, records};
use weir_service::say;

/// Makes the missing runs, and prints how much all of them differ.
pub(super) fn run(arguments: &cli::Run, plan: &OsStr, out: &mut impl Write) -> Result<Outcome> {
    let shown = plan.display();
    let log = records::open(&arguments.store)?;
    let archive = log.archive();
    let mut runs =
        arguments.runs.iter().map(|&run| records::find(archive, run)).collect::<Result<Vec<_>>>()?;
    for run in &runs {
        let RunData { run, .. } = run;
        let (id, name) = (run.id, &run.plan);
        ensure!(
            run.state == RunState::Complete,
            "run {id} is not complete: continue it with `weir run --resume {id}`"
        );
        ensure!(
            plan == name.as_str(),
            "run {id} is of the plan {name}, not of {shown}: remove it from --runs"
        );
    }
    drop(log);
    while runs.len() < arguments.times as usize {
        say::say(&format!("repeat {shown}: run {} of {}", runs.len() + 1, arguments.times));
        let single = cli::Run {
            plans: vec![plan.to_os_string()],
            runs: Vec::new(),
            markdown: false,
            ..arguments.clone()
        };
        let (data, outcome) = once(&single, &mut std::io::sink())?;
        if let Outcome::Interrupted = outcome {
            let ids: Vec<String> = runs.iter().map(|data| data.run.id.to_string()).collect();
            let kept = if ids.is_empty() { String::new() } else { format!(" --runs {}", ids.join(",")) };
            say::say(&format!("continue with `weir run repeat {shown} --times {}{kept}`", arguments.times));
            return Ok(Outcome::Interrupted);
        }
        runs.extend(data);
    }
    let text = if arguments.markdown { repeat::markdown(&runs) } else { repeat::text(&runs) };
    write!(out, "{text}")?;
    Ok(Outcome::Done)
}
