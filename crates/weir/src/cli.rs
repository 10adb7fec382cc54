//! The command line: what can be asked for, read once into types that cannot be wrong. One file for each family of
//! commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_record::store;

mod bottleneck;
mod capture;
mod detect;
#[cfg(test)]
mod documents;
mod flows;
mod frames;
mod host;
mod known;
mod machine;
mod mail;
mod node;
mod records;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use bottleneck::Bottleneck;
pub(crate) use capture::{Capture, Pps};
pub(crate) use detect::Detect;
pub(crate) use flows::Flows;
pub(crate) use frames::{Generate, Receive};
pub(crate) use host::Host;
pub(crate) use machine::{Bench, Check, Conformance, Doctor, Inspect, Pages, Setup};
pub(crate) use mail::Mail;
pub(crate) use node::{BlocksFailure, NodeApply, NodeCommand, NodeRun, NodeShow, Shown};
pub(crate) use records::{
    AcrossKind, Compare, Export, ExportFormat, FailOn, List, Merge, Report, RunName, Show, Side, Trend,
};
pub(crate) use run::{PlanCommand, Run, Sets};

/// Measures how fast this machine is as a node of a network, and where it stops.
///
/// A plan says what to vary and what to measure. `weir run` builds the test bed, runs the trials, keeps every
/// one of them, and writes a report. All that it changes on the machine is undone at the end.
#[derive(Debug, Parser)]
#[command(name = "weir", version, arg_required_else_help = true, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How `weir` ends; `main` keeps to it.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    error; the message says what to do next
  2    wrong command line
  3    measured, but a point has no trial that can be believed: see the reasons in the report
  4    compared, and a point has a verdict that --fail-on names
  130  interrupted; what was measured is kept

Examples:
  weir run quick           measure: a first answer in a minute
  weir doctor              what this machine can measure
  weir plan list           all plans";

impl Cli {
    /// Reads a command line, of which the first word is the program.
    ///
    /// # Errors
    /// A wrong line, or a request for help or the version; `exit` on it prints and ends as it should.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let cli = Cli::try_parse_from(words)?;
        match &cli.command {
            Command::Run(run) => run.check()?,
            Command::Generate(generate) => generate.check()?,
            Command::Capture(capture) => capture.check()?,
            _ => {}
        }
        Ok(cli)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure: run a plan and write its report
    Run(Run),
    /// Check plans and look at those that ship
    #[command(subcommand)]
    Plan(PlanCommand),
    /// List the runs that were kept
    List(List),
    /// Show the figures of one run
    Show(Show),
    /// Write a report of one or more runs as one HTML file
    Report(Report),
    /// Write one run for other programs or for a paper
    ///
    /// csv: one line per trial. figures: one line per rate or other figure, as CSV. jsonl: one JSON object per line, each with its kind. prometheus: text format for
    /// the textfile collector of node_exporter. markdown, latex, tabular: the tables that the RFCs ask for. svg: the drawings of
    /// the report.
    Export(Export),
    /// Make one run of the shards of a plan that `weir run --shard` measured, here or on other machines
    ///
    /// The shards must have the same plan, seed and version, and none may be missing. The whole run is kept like any other.
    Merge(Merge),
    /// Say for each point whether later runs are faster or slower than the first, or that no difference is shown
    ///
    /// Points are matched by their settings; a setting that each run has a single value of may differ. The ratio of
    /// the medians has an interval from the repetitions; verdicts are corrected for the number of points (Holm).
    /// With a single repetition the interval is that of the bounds of the search, and no difference is claimed.
    Compare(Compare),
    /// Show where the results of a plan changed over time, by how much, and what changed with them
    ///
    /// All complete runs of the plan count that were made on the machine of the newest one. Each point and goal is a
    /// series, with one value per run; it needs eight. A change is claimed where chance is unlikely (a permutation
    /// test); single outliers do not count.
    Trend(Trend),
    /// Send test frames on an interface
    Generate(Box<Generate>),
    /// Count test frames on an interface: loss, order, duplicates, latency
    ///
    /// Start it before `weir generate`, and anew for each: sequence numbers begin at 0. Lost are the numbers
    /// below the highest one that arrived; what was lost after that one shows only beside the count of
    /// `weir generate`.
    ///
    /// Latency is the difference of two clocks: it has a meaning where the sender runs on this machine, or a
    /// reflector sends its frames back here. For round-trip times, run `weir receive --reflect` at the remote end and
    /// `weir receive` beside `weir generate`, on the same interface.
    Receive(Receive),
    /// Watch an interface for attacks: hosts that receive or send more than a configured or learned limit
    ///
    /// Each host of the watched networks is counted in both directions. An attack is reported when it starts, while it
    /// continues, and when it ends, with what its frames have in common; it can also be reported to a script, a web service or
    /// a BGP daemon. Rates are those of one second, and the first event has the attack's true rate.
    Detect(Detect),
    /// Capture frames of any kind to files, or count them, and account for each of them
    ///
    /// `--method auto` takes the fastest method that the interface and the privileges allow, and says which and why. All
    /// privileges are given up once everything is open.
    Capture(Box<Capture>),
    /// Count the frames that arrive at an interface: one line per second
    Pps(Pps),
    /// Be a bottleneck between two interfaces: a rate, a buffer exact to the byte, a queue, delays and losses
    ///
    /// What tc's netem and tbf do together, without kernel modules, and what they cannot: a buffer of any size at any rate, fifteen
    /// queues, a delay for each path, a schedule of rates. Departures are computed on an exact clock; how late frames really left
    /// is part of the result. Frames pass unchanged but for ECN marks; the senders' offloads may stay on.
    Bottleneck(Box<Bottleneck>),
    /// Load a path with TCP flows, and count them where they arrive: each has a congestion control, a path and a start of its own
    ///
    /// All flows are connected before the first one sends; how far apart they began is reported. Goodput is what arrived in an
    /// interval, over the interval as it was. A flow without progress for five retransmission timeouts is named.
    Flows(Box<Flows>),
    /// Load a mail server: SMTP transactions up to RSET or with messages, and the latency of each step
    ///
    /// Only with the consent of the server's owner. Each recipient has exactly one outcome: delivered, failed or expired. With
    /// --log outcomes are kept in a file, and the same command goes on where an earlier one was ended.
    Mail(Box<Mail>),
    /// Try the requirements that the RFCs have for a NAT, and print which are met
    ///
    /// Each requirement is a scenario: packets in, packets out, dropped with a reason. All of them run against weir's
    /// own node in virtual time, and those that are possible from outside against a box over its wires.
    Conformance(Conformance),
    /// Measure parts of weir itself
    #[command(subcommand)]
    Bench(Bench),
    /// Run a network node (router, filter, NAT) that a text file describes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Print the complete configuration of an external device that is to be measured, to paste there
    Setup(Setup),
    /// Say what this machine can measure, and what prevents it
    Doctor(Doctor),
    /// Say how a server is built: processes, threads or event loops
    Inspect(Inspect),
    /// Plant faults on a wire and see whether each is named, and nothing else
    ///
    /// Loss from 1e-2 to 1e-6, bursts of loss, reordering, duplicates, corruption, delay, standstills; then a tester
    /// that gets no CPU, and a second run beside it. At last the latency through a device that adds a known delay. The
    /// result says whether measurements on this machine can be trusted.
    Check(Check),
    /// Be the remote end of a tester on two hosts: started over SSH by `weir run`, see `remote` in `weir plan options`
    #[command(hide = true)]
    PortAgent,
    /// Undo what a killed run left behind
    #[command(after_help = "Example:\n  weir clean")]
    Clean(Store),
    /// Write the completions of a shell
    #[command(after_help = "Example:\n  weir completions bash > /etc/bash_completion.d/weir")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man page of weir, or of all its commands
    #[command(after_help = "Examples:\n  weir man > weir.1\n  weir man -o /usr/local/share/man/man1")]
    Man {
        /// Folder for the pages of all commands
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

/// Where records are.
#[derive(Debug, Clone, Args)]
pub(crate) struct Store {
    /// File with the records [default: weir/records.db in the XDG data folder]
    #[arg(long, value_name = "FILE", env = "WEIR_STORE")]
    pub(crate) store: Option<PathBuf>,
}

impl Store {
    /// The file that the user names, or the one in the data folder.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.store {
            return Ok(path.clone());
        }
        let variable = |name| std::env::var_os(name);
        Ok(store::default_path(variable("XDG_DATA_HOME").as_deref(), variable("HOME").as_deref())?)
    }
}

/// How the tester sends and receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TesterKind {
    /// XDP where the machine allows it, otherwise packet sockets
    #[default]
    Auto,
    /// XDP programs: fastest, needs root
    Xdp,
    /// Packet sockets (AF_PACKET): slower, works in an unprivileged user namespace
    Packet,
}
