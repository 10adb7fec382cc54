//! `weir run` and `weir plan`.

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
  weir run quick                                   a first result in one minute
  weir run router --set search.trial_s=5           a shipped plan with shorter trials
  weir run quick --set traffic.flows=[1,1000,1M]   add an axis
  weir run rfc2544 --short                         all procedures of RFC 2544 in minutes
  weir run mine.toml --seed 7 --report mine.html   your own plan
  weir run repeat quick --times 6                  how much six runs differ in each result
  weir run buffers --shard 3/8 --seed 7            one part of a grid; `weir merge` merges the parts
  weir run buffers --on hosts.toml                 on other hosts over SSH, in shards
  weir run quick --on hosts.toml --each            on each of these hosts; a table of their kernels
  weir run --resume last                           continue an interrupted run
  weir run quick --against 3 --fail-on slower      after a change: exit code 4 if a point is slower than in run 3
  weir run a.toml b.toml --compare                 two plans alternately, six times each
  weir run quick --push postgres://lab@db/weir     push the run to an archive, see `weir push`
  weir run quick --tester packet --quiet           without root, and without progress")]
pub(crate) struct Run {
    /// Shipped plan (see `weir plan list`) or plan file (see `weir plan options`); two plans with --compare; or the word
    /// `repeat` and a plan
    #[arg(value_name = "NAME|FILE", required_unless_present = "resume", num_args = 0..=2, value_parser = known::PlanName, hide_possible_values = true)]
    pub(crate) plans: Vec<OsString>,
    /// Compare the new run with this one: a number, `last` (the last complete run of the plan), or a file from `weir show ID
    /// --json`, for example of another machine
    #[arg(long, value_name = "ID|last|FILE", conflicts_with = "compare")]
    pub(crate) against: Option<Side>,
    /// Run two plans alternately, and compare the second with the first
    #[arg(long)]
    pub(crate) compare: bool,
    /// With `repeat` or --compare: number of runs of each plan; with fewer than 6 there are few verdicts
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) times: u32,
    /// With `repeat`: also use these earlier runs of the plan, such as 3,4
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    pub(crate) runs: Vec<RunName>,
    /// With --against or --compare: end with exit code 4 if a point has this verdict, or no point has a result in
    /// both runs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VERDICT")]
    pub(crate) fail_on: Vec<FailOn>,
    /// Continue an interrupted, killed or failed run; finished trials are not repeated
    #[arg(long, value_name = "ID|last", conflicts_with_all = ["plans", "sets", "short", "seed"])]
    pub(crate) resume: Option<RunName>,
    #[command(flatten)]
    pub(crate) sets: Sets,
    /// Measure only this part of the points, such as 3/8; `weir merge` merges the parts into one run. Points that are compared with
    /// each other are in the same part
    #[arg(long, value_name = "I/N", requires = "seed", conflicts_with_all = ["compare", "resume"])]
    pub(crate) shard: Option<String>,
    /// Measure on other hosts: a file with their addresses and roles, see docs/many-machines.md. weir is copied to hosts where it is
    /// missing or older. Workers share the plan in shards; a host that fails loses only its own trials
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compare", "resume", "shard"])]
    pub(crate) on: Option<PathBuf>,
    /// With --on: number of shards, at least one for each worker [default: one for each worker]
    #[arg(long, value_name = "N", requires = "on", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) shards: Option<u16>,
    /// With --on: each worker measures the whole plan; the result is a table of kernels and devices
    #[arg(long, requires = "on", conflicts_with_all = ["shards", "against", "report"])]
    pub(crate) each: bool,
    /// Seed of all random decisions; the same seed repeats a run [default: a new one, stored in the record]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Method to send and receive frames; frames of more than 3396 bytes always use packet sockets
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    #[command(flatten)]
    pub(crate) store: Store,
    /// File for the report, or a folder such as `.` for weir-PLAN-ID.html in it [default: the folder reports beside the
    /// records]
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "no_report")]
    pub(crate) report: Option<PathBuf>,
    /// Write no report
    #[arg(long)]
    pub(crate) no_report: bool,
    /// After the run, push all runs that are not there yet to this archive, see `weir push`. While it cannot be reached they stay in
    /// the file of the records, and are pushed after a later run
    #[arg(long, value_name = "URL", env = "WEIR_PUSH_TO")]
    pub(crate) push: Option<String>,
    /// Write the results as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// With `repeat`: write the table as Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// No progress: print only the answer and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print each trial when it is recorded, and at the end all tables, findings and notes
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

/// The word that may stand where the first plan is expected.
const REPEAT: &str = "repeat";

impl Run {
    /// The plan of `weir run repeat PLAN`.
    pub(crate) fn repeated(&self) -> Option<&OsStr> {
        match &self.plans[..] {
            [word, plan] if word == REPEAT && !self.compare => Some(plan),
            _ => None,
        }
    }

    /// The plan of a shard.
    pub(crate) fn shard(&self, shard: &str) -> Result<Plan, PlanError> {
        let name = self.plans.first().map_or(OsStr::new(""), OsString::as_os_str);
        Run { shard: Some(shard.into()), ..self.clone() }.changes().load(name)
    }

    /// The changes to the plans.
    pub(crate) fn changes(&self) -> Sets {
        let shard = self.shard.iter().map(|shard| format!("shard={shard}"));
        Sets { sets: self.sets.sets.iter().cloned().chain(shard).collect(), ..self.sets.clone() }
    }

    /// Checks combinations of options, which clap cannot express.
    pub(super) fn check(&self) -> Result<(), clap::Error> {
        let wrong = |text: &str| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.repeated().is_none() && (!self.runs.is_empty() || self.markdown) {
            return wrong("--runs and --markdown need `repeat`: `weir run repeat PLAN`");
        }
        match (self.plans.len(), self.compare) {
            (2, false) if self.repeated().is_some() && self.times >= 2 => Ok(()),
            (_, false) if self.plans.first().is_some_and(|word| word == REPEAT) => {
                wrong("`repeat` needs one plan and --times 2 or more: `weir run repeat quick --times 6`")
            }
            (2, false) => wrong(
                "two plans given: add --compare to run them alternately and compare them, or give one plan",
            ),
            (0 | 1, true) => wrong("--compare needs two plans: `weir run a.toml b.toml --compare`"),
            _ if !self.fail_on.is_empty() && self.against.is_none() && !self.compare => {
                wrong("--fail-on needs a comparison: add --against RUN, or --compare and two plans")
            }
            _ => Ok(()),
        }
    }
}

/// Changes to a plan.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sets {
    /// Set an option of the plan (see `weir plan options`); a list makes it an axis; repeatable
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Use the short form of the plan: minutes instead of hours; the report lists every difference. A plan without a short form
    /// does not change
    #[arg(long)]
    pub(crate) short: bool,
}

impl Sets {
    /// The plan with these changes. A plan without a short form does not change, and a note is printed.
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
    /// Report all mistakes in a plan, each with its line and remedy
    #[command(after_help = "Example:\n  weir plan check mine.toml --set traffic.ip=[4,6]")]
    Check {
        /// Shipped plan or plan file
        #[arg(value_name = "NAME|FILE", value_parser = known::PlanName, hide_possible_values = true)]
        plan: OsString,
        #[command(flatten)]
        sets: Sets,
    },
    /// List the shipped plans, with the question that each answers
    #[command(after_help = "Example:\n  weir plan list")]
    List,
    /// Print a shipped plan, as the start of your own
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
