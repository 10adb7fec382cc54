//! What runs a plan, and what looks at plans.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Subcommand};
use weir_lab::plan::{Plan, PlanError};
use weir_rigs::PLANS;

use weir_service::say;

use super::{Cli, FailOn, RunName, Side, Store, TesterKind, known};

/// `weir run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  weir run quick                                   a first answer in a minute
  weir run router --set search.trial_s=5           the same trials, but shorter
  weir run quick --set traffic.flows=[1,1000,1M]   one more axis
  weir run rfc2544 --short                         every procedure of RFC 2544 in minutes
  weir run mine.toml --seed 7 --report mine.html   my own plan
  weir run repeat quick --times 6                  how far six runs agree in each figure
  weir run buffers --shard 3/8 --seed 7            a part of a grid; `weir merge` puts the parts together
  weir run --resume last                           the rest of a run that was interrupted
  weir run quick --against 3 --fail-on slower      after a change: exit code 4 if a point is slower than in run 3
  weir run a.toml b.toml --compare                 two plans alternately, six times each
  weir run quick --tester packet --quiet           as a plain user would, without progress")]
pub(crate) struct Run {
    /// Plan that ships with weir (see `weir plan list`) or path of a plan (see `weir plan options`); two with --compare; or the
    /// word `repeat` and a plan
    #[arg(value_name = "NAME|FILE", required_unless_present = "resume", num_args = 0..=2, value_parser = known::PlanName, hide_possible_values = true)]
    pub(crate) plans: Vec<OsString>,
    /// Compare the new run with this one: a number, `last` (the last complete run of the plan), or a file of another machine's
    /// that `weir show ID --json` wrote
    #[arg(long, value_name = "ID|last|FILE", conflicts_with = "compare")]
    pub(crate) against: Option<Side>,
    /// Run two plans alternately, and compare the second with the first
    #[arg(long)]
    pub(crate) compare: bool,
    /// With `repeat` or --compare: how often a plan is run; fewer than 6 give few verdicts
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) times: u32,
    /// With `repeat`: runs of the plan that were made before and count as well, such as 3,4
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    pub(crate) runs: Vec<RunName>,
    /// With --against or --compare: end with exit code 4 if a point has this verdict, or no point has a result in
    /// both runs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VERDICT")]
    pub(crate) fail_on: Vec<FailOn>,
    /// Continue a run that was interrupted, killed or has failed; finished trials are not repeated
    #[arg(long, value_name = "ID|last", conflicts_with_all = ["plans", "sets", "short", "seed"])]
    pub(crate) resume: Option<RunName>,
    #[command(flatten)]
    pub(crate) sets: Sets,
    /// Measure only this part of the points, such as 3/8, of an experiment that is cut into shards (`buffers`); `weir merge` makes
    /// one run of all parts
    #[arg(long, value_name = "I/N", requires = "seed", conflicts_with_all = ["compare", "resume"])]
    pub(crate) shard: Option<String>,
    /// Seed of all randomness, so that a run can be repeated [default: a new one, kept in the record]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How frames are sent and received; those of more than 3396 bytes always go through packet sockets
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Where to write the report: a file, or a folder such as `.` for weir-PLAN-ID.html in it [default: the folder reports
    /// beside the records]
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "no_report")]
    pub(crate) report: Option<PathBuf>,
    /// Write no report
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Write the results as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// With `repeat`: write the table as Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// No progress: only the answer, and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Report each trial as it is kept, and at the end all tables, findings and notes
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// The word in place of a first plan.
const REPEAT: &str = "repeat";

impl Run {
    /// The plan of `weir run repeat PLAN`.
    pub(crate) fn repeated(&self) -> Option<&OsStr> {
        match &self.plans[..] {
            [word, plan] if word == REPEAT && !self.compare => Some(plan),
            _ => None,
        }
    }

    /// The changes to its plans.
    pub(crate) fn changes(&self) -> Sets {
        let shard = self.shard.iter().map(|shard| format!("buffers.shard={shard}"));
        Sets { sets: self.sets.sets.iter().cloned().chain(shard).collect(), ..self.sets.clone() }
    }

    /// What clap cannot see: options that do not go together.
    pub(super) fn check(&self) -> Result<(), clap::Error> {
        let wrong = |text: &str| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.repeated().is_none() && (!self.runs.is_empty() || self.markdown) {
            return wrong("--runs and --markdown are of `weir run repeat PLAN`");
        }
        match (self.plans.len(), self.compare) {
            (2, false) if self.repeated().is_some() && self.times >= 2 => Ok(()),
            (_, false) if self.plans.first().is_some_and(|word| word == REPEAT) => {
                wrong("`repeat` what, and how often? For example `weir run repeat quick --times 6`")
            }
            (2, false) => {
                wrong("two plans are run alternately and compared: add --compare, or name one plan")
            }
            (0 | 1, true) => wrong("--compare needs two plans: `weir run a.toml b.toml --compare`"),
            _ if !self.fail_on.is_empty() && self.against.is_none() && !self.compare => wrong(
                "--fail-on needs something to compare with: add --against RUN, or --compare and two plans",
            ),
            _ => Ok(()),
        }
    }
}

/// Changes to a plan.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sets {
    /// Change an option of the plan (see `weir plan options`); a list makes it an axis; can be given more than once
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub(crate) sets: Vec<String>,
    /// The short form that the plan declares: minutes in place of hours, and every departure stated; a plan without one stays as it
    /// is
    #[arg(long)]
    pub(crate) short: bool,
}

impl Sets {
    /// The plan with these changes. One without a short form is told, and stays as it is.
    pub(crate) fn load(&self, plan: &OsStr) -> Result<Plan, PlanError> {
        let full = PLANS.load(plan, &self.sets)?;
        match (self.short, full.short) {
            (false, _) => Ok(full),
            (true, Some(_)) => PLANS.load_short(plan, &self.sets),
            (true, None) => {
                say::notes(&[format!("the plan {} has no short form: --short changes nothing", full.name)]);
                Ok(full)
            }
        }
    }
}

/// `weir plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Report all mistakes of a plan, each with its line and remedy
    #[command(after_help = "Example:\n  weir plan check mine.toml --set traffic.ip=[4,6]")]
    Check {
        /// Plan that ships with weir or path of a plan
        #[arg(value_name = "NAME|FILE", value_parser = known::PlanName, hide_possible_values = true)]
        plan: OsString,
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
        #[arg(value_parser = known::PlanName, hide_possible_values = true)]
        name: OsString,
    },
    /// Print a plan with every option, each explained
    #[command(after_help = "Example:\n  weir plan options > mine.toml")]
    Options,
}
