//! `weir agent ROLE`: what this program does for another host that started it over SSH. See `weir_agent`.

use anyhow::Result;

use crate::cli::AgentRole;
use crate::hosts::worker;
use crate::outcome::Outcome;

/// Serves until the other host ends the connection.
pub(crate) fn serve(role: AgentRole) -> Result<Outcome> {
    match role {
        AgentRole::Tester => weir_lab::frames::remote::serve()?,
        AgentRole::Device => weir_testbed::agent::serve(weir_lab::machine::gather()),
        AgentRole::Worker => worker::serve(),
    }
    Ok(Outcome::Done)
}
