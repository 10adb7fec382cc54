//! `weir agent ROLE`: what this program does for another host that started it over SSH, see `weir_agent`, or for `weir serve`.

use std::io::{BufReader, Write, stdin, stdout};

use anyhow::{Context, Result};
use weir_record::run_data::RunData;
use weir_report::report;

use crate::cli::AgentRole;
use crate::hosts::worker;
use crate::outcome::Outcome;

/// Serves until the other host ends the connection.
pub(crate) fn serve(role: AgentRole) -> Result<Outcome> {
    match role {
        AgentRole::Tester => weir_lab::frames::remote::serve()?,
        AgentRole::Device => weir_testbed::agent::serve(weir_lab::machine::gather()),
        AgentRole::Worker => worker::serve(),
        AgentRole::Report => {
            let runs: Vec<RunData> = serde_json::from_reader(BufReader::new(stdin().lock()))
                .context("the runs on standard input cannot be read")?;
            stdout().write_all(report::html(&runs, weir_rigs::sections()).as_bytes())?;
        }
    }
    Ok(Outcome::Done)
}
