//! Commands for recorded runs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::Source;

/// A recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunName {
    /// The run that began last.
    Last,
    /// By its number, from 1.
    Number(i64),
}

impl FromStr for RunName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "last" => Ok(RunName::Last),
            Ok(number @ 1..) => Ok(RunName::Number(number)),
            _ => Err(format!("`{text}` is no run: use its number from `weir list`, or last")),
        }
    }
}

/// A side of a comparison: a run recorded here, or one that another machine exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Side {
    /// The last complete run of the same plan.
    Last,
    /// By its number, from 1.
    Number(i64),
    /// A file that `weir show --json` wrote.
    File(PathBuf),
}

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<RunName>() {
            Ok(RunName::Last) => Ok(Side::Last),
            Ok(RunName::Number(number)) => Ok(Side::Number(number)),
            Err(_) if text.contains(['.', '/']) => Ok(Side::File(text.into())),
            Err(_) => Err(format!(
                "`{text}` is no run: use its number from `weir list`, last, or a file such as baseline.json from \
                 `weir show ID --json`"
            )),
        }
    }
}

/// `weir list`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir list\n  weir list --store paper.db --json\n  weir list --from postgres://lab@db.example.org/weir"
)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir show last\n  weir show 12 --csv > run.csv")]
pub(crate) struct Show {
    /// Number of the run (see `weir list`) or `last`
    #[arg(value_name = "ID|last")]
    pub(crate) run: RunName,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the complete record as JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Write one line per trial, as CSV
    #[arg(long)]
    pub(crate) csv: bool,
}

/// `weir report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir report last\n  weir report 3 7 -o before-and-after.html")]
pub(crate) struct Report {
    /// Numbers of the runs (see `weir list`) or `last`; several runs are compared
    #[arg(value_name = "ID|last", required = true)]
    pub(crate) runs: Vec<RunName>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// File for the report, or a folder such as `.` for weir-PLAN-ID.html in it [default: the folder reports beside the
    /// records]
    #[arg(short, long, value_name = "FILE|DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// `weir export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir export last --format markdown
  weir export 12 --format latex -o run.tex
  weir export 12 --format svg -o figures/
  weir export last --format prometheus -o /var/lib/node_exporter/weir.prom")]
pub(crate) struct Export {
    /// Number of the run (see `weir list`) or `last`
    #[arg(value_name = "ID|last")]
    pub(crate) run: RunName,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
    /// File to write, or folder with svg; it is replaced only when the export is complete [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// An output format of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One line per trial
    Csv,
    /// One line per result: value, unit, confidence interval, repetitions
    Figures,
    /// One JSON object per line: run, point, trial, goal, comparison, procedure
    Jsonl,
    /// Prometheus text format
    Prometheus,
    /// Tables of the RFCs in Markdown
    Markdown,
    /// Tables of the RFCs, as a LaTeX document
    Latex,
    /// Each table as a bare LaTeX tabular
    Tabular,
    /// Each chart of the report as a file, in the folder given by -o
    Svg,
}

/// `weir merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir run buffers --shard 3/8 --seed 7 --store 3.db --no-report --json > 3.json     one of eight parts
  weir merge *.json                                                                 merge all parts into one run
  weir merge 31 32 33 --from postgres://lab@db.example.org/weir                     parts that are in an archive
  weir merge 31 --others --from postgres://lab@db.example.org/weir                  this one, and all others of its grid")]
pub(crate) struct Merge {
    /// The shards: JSON files from `weir run --shard I/N --json` or `weir show ID --json`, or numbers of runs
    #[arg(value_name = "FILE|ID", required = true)]
    pub(crate) shards: Vec<Side>,
    /// Also merge the other shards of the same plan, seed and version that are recorded: of each the newest complete run
    #[arg(long)]
    pub(crate) others: bool,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Write the merged run as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir compare 3 7
  weir compare 3 last --across kernel
  weir compare baseline.json last --fail-on slower        baseline.json was written by `weir show ID --json`
  weir compare 3 last --fail-on slower --json > compared.json")]
pub(crate) struct Compare {
    /// Runs to compare; each is compared with the first: a number, `last` (the last complete run of the same plan), or a file
    /// from `weir show ID --json`, for example of another machine
    #[arg(value_name = "ID|last|FILE", required = true, num_args = 2..)]
    pub(crate) runs: Vec<Side>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Difference between the runs that is intended, so that they are comparable
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) across: Vec<AcrossKind>,
    /// End with exit code 4 if a point has this verdict, or if no point has a result in both runs
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VERDICT")]
    pub(crate) fail_on: Vec<FailOn>,
    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir trend`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir trend quick
  weir trend rfc2544 --goal throughput --point frame_bytes=64
  weir trend nightly -o trend.html
  weir trend quick --by kernel       kernels beside each other, whenever they were measured")]
pub(crate) struct Trend {
    /// Name of the plan, as `weir list` shows it
    #[arg(value_name = "PLAN")]
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Only this goal, as `weir show` names it; repeatable
    #[arg(long = "goal", value_name = "NAME")]
    pub(crate) goals: Vec<String>,
    /// Only points with this setting; repeatable
    #[arg(long = "point", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// What the values are ordered by
    #[arg(long, value_enum, default_value_t, value_name = "ORDER")]
    pub(crate) by: TrendOrder,
    /// Write charts of the series to one HTML file
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the values of a trend are ordered by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrendOrder {
    /// The start of the runs
    #[default]
    Date,
    /// The kernel: a table of kernels and devices with ratios to the oldest kernel
    Kernel,
}

/// An intended difference between compared runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcrossKind {
    /// The processor or its number of CPUs
    Machine,
    /// The kernel
    Kernel,
    /// The distance between the CPUs of tester and DUT
    Placement,
}

/// A verdict that makes a comparison end with exit code 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A lower rate, a longer time, or another worse result
    Slower,
    /// A higher rate, a shorter time, or another better result
    Faster,
    /// The runs are not comparable, or have too little data
    CannotTell,
    /// The point exists in only one of the runs
    Unmatched,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts
        .map(|(name, value)| (name.into(), value.into()))
        .ok_or_else(|| format!("`{text}` is no setting: use frame_bytes=64"))
}
