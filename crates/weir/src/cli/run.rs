//! What runs a plan, and what looks at plans.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_lab::plan::{self, Plan, PlanError};

use super::{RunId, Store, TesterKind};

/// `weir run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir run quick                                   a first answer in two minutes
  weir run router --set search.trial_s=5           the same trials, but shorter
  weir run quick --set traffic.flows=[1,1000,1M]   one more axis
  weir run rfc2544 --short                         every procedure of RFC 2544 in minutes
  weir run mine.toml --seed 7 --report mine.html   my own plan
  weir run --resume last                           the rest of a run that was interrupted
  weir run quick --tester packet --quiet           as a plain user would, without progress")]
pub(crate) struct Run {
    /// Plan that ships with weir (see `weir plan list`) or path of a plan (see `weir plan options`)
    #[arg(value_name = "NAME|FILE", required_unless_present = "resume")]
    pub(crate) plan: Option<String>,
    /// Continue a run that was interrupted, killed or has failed; finished trials are not repeated
    #[arg(long, value_name = "ID|last", conflicts_with_all = ["plan", "sets", "short", "seed"])]
    pub(crate) resume: Option<RunId>,
    #[command(flatten)]
    pub(crate) sets: Sets,
    /// Seed of all randomness, so that a run can be repeated [default: a new one, kept in the record]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How frames are sent and received; those of more than 3396 bytes always go through packet sockets
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Where to write the report [default: weir-PLAN-ID.html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    pub(crate) report: Option<PathBuf>,
    /// Write no report
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Write the results as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, no notes: only the results, and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Report each trial as it is kept
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// Changes to a plan.
#[derive(Debug, Args)]
pub(crate) struct Sets {
    /// Change an option of the plan (see `weir plan options`); a list makes it an axis; can be given more than once
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub(crate) sets: Vec<String>,
    /// The short form that the plan declares: minutes in place of hours, and every departure stated
    #[arg(long)]
    pub(crate) short: bool,
}

impl Sets {
    /// The plan with these changes.
    pub(crate) fn load(&self, plan: &str) -> Result<Plan, PlanError> {
        if self.short { plan::load_short(plan, &self.sets) } else { plan::load(plan, &self.sets) }
    }
}

/// `weir plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Report all mistakes of a plan, each with its line and remedy
    #[command(after_help = "Example:\n  weir plan check mine.toml --set traffic.ip=[4,6]")]
    Check {
        /// Plan that ships with weir or path of a plan
        #[arg(value_name = "NAME|FILE")]
        plan: String,
        #[command(flatten)]
        sets: Sets,
    },
    /// List the plans that ship with weir, with their questions
    #[command(after_help = "Example:\n  weir plan list")]
    List,
    /// Print the text of a plan that ships with weir, to start one's own from
    #[command(after_help = "Example:\n  weir plan show quick > mine.toml")]
    Show {
        /// Name of the plan
        name: String,
    },
    /// Print a plan with every option, each explained
    #[command(after_help = "Example:\n  weir plan options > mine.toml")]
    Options,
}
