//! The command line, parsed once into types that cannot be wrong. One file for each family of commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{Resettable, StyledStr};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_record::store;

mod archive;
mod bng;
mod bottleneck;
mod capture;
mod cpe;
mod detect;
#[cfg(test)]
mod documents;
mod flows;
mod frames;
mod groups;
mod host;
mod known;
mod log;
mod machine;
mod mail;
mod node;
mod records;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use archive::{ArchiveCommand, Push, Serve};
pub(crate) use bng::{
    BngCommand, BngRun, BngSocket, Listing, NewSubscriber, Said, SessionCommand, SubscriberChange,
    SubscriberCommand, Trace, Why,
};
pub(crate) use bottleneck::Bottleneck;
pub(crate) use capture::{Capture, Pps};
pub(crate) use cpe::Cpe;
pub(crate) use detect::Detect;
pub(crate) use flows::Flows;
pub(crate) use frames::{Generate, Receive};
pub(crate) use host::Host;
pub(crate) use log::Log;
pub(crate) use machine::{Bench, Check, Conformance, Doctor, Inspect, Pages, Setup};
pub(crate) use mail::Mail;
pub(crate) use node::{BlocksFailure, NodeApply, NodeCommand, NodeRun, NodeShow, Shown, Top};
pub(crate) use records::{
    AcrossKind, Compare, Export, ExportFormat, FailOn, List, Merge, Report, RunName, Show, Side, Trend,
    TrendOrder,
};
pub(crate) use run::{PlanCommand, Run, Sets};

/// Measures routers, filters, NATs, concentrators (BNG) and servers, on this machine or beside it: how fast they are, and what limits them.
///
/// A plan states what to vary and what to measure. `weir run` builds the test bed, runs the trials, records each
/// trial, and writes a report. At the end it undoes its changes to the machine.
#[derive(Debug, Parser)]
#[command(name = "weir", version, arg_required_else_help = true, help_template = groups::help_template())]
#[command(after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The exit codes that `main` returns.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    error; the message says what to do next
  2    wrong command line
  3    measured, but a point has no valid trial; the report gives the reasons
  4    compared, and at least one point has a verdict that --fail-on lists
  130  interrupted; finished trials are kept

Examples:
  weir run quick           measure for a minute, and report a first result
  weir doctor              show what this machine can measure
  weir plan list           list all plans";

impl Cli {
    /// Parses a command line; its first word is the program.
    ///
    /// # Errors
    /// A wrong line, or a request for help or the version: call `exit` on it to print the text and end.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = with_literal_braces(Cli::command());
        let mut matches = command.try_get_matches_from_mut(words)?;
        let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        match &cli.command {
            Command::Run(run) => run.check()?,
            Command::Generate(generate) => generate.check()?,
            Command::Capture(capture) => capture.check()?,
            _ => {}
        }
        Ok(cli)
    }
}

/// clap replaces `{n}` in help texts by a new line, but here it stands for the number of a device or recipient: a colour reset
/// between the brace and the letter prevents that.
fn with_literal_braces(command: clap::Command) -> clap::Command {
    let literal = |text: &StyledStr| StyledStr::from(text.ansi().to_string().replace("{n}", "{\u{1b}[0mn}"));
    let command = command.mut_args(|argument| {
        let [short, long] =
            [argument.get_help(), argument.get_long_help()].map(|text| Resettable::from(text.map(literal)));
        argument.help(short).long_help(long)
    });
    let after = Resettable::from(command.get_after_help().map(literal));
    let command = command.after_help(after);
    command.mut_subcommands(with_literal_braces)
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure: run a plan and write its report
    Run(Run),
    /// Check, list and print plans
    #[command(subcommand)]
    Plan(PlanCommand),
    /// List the recorded runs
    List(List),
    /// Show the results of one run
    Show(Show),
    /// Write an HTML report of one or more runs
    Report(Report),
    /// Export one run: CSV, JSON, Prometheus, Markdown, LaTeX or SVG
    ///
    /// csv: one line per trial. figures: CSV with one line per rate or other result. jsonl: one JSON object per line, with a
    /// field for its kind. prometheus: text format for the textfile collector of node_exporter. markdown, latex, tabular: the
    /// tables that the RFCs require. svg: the charts of the report.
    Export(Export),
    /// Merge the shards of a plan into one run
    ///
    /// `weir run --shard` measures a shard, here or on another machine. All shards must have the same plan, seed and version,
    /// and none may be missing. The merged run is recorded like any other.
    Merge(Merge),
    /// Compare runs: each point is faster, slower, or not different
    ///
    /// Points are matched by their settings; a setting with a single value in each run may differ. The ratio of the medians
    /// has a confidence interval from the repetitions; the verdicts are corrected for the number of points (Holm). With a
    /// single repetition the interval comes from the bounds of the search, and no difference is claimed.
    Compare(Compare),
    /// Show when the results of a plan changed, and by how much
    ///
    /// Uses all complete runs of the plan that were made on the machine of the newest run. Each point and goal is a series with
    /// one value per run, and needs eight runs. A change is reported if a permutation test finds chance unlikely; single
    /// outliers are ignored. The report also lists what changed on the machine at the same time.
    Trend(Trend),
    /// Copy runs to an archive of many machines, each exactly once
    ///
    /// A run is known by its UUID and is stored as a whole or not at all: the same command may be repeated after any failure, on any
    /// host. A run that was interrupted and has gone on since it was pushed is completed. The archive is a database of PostgreSQL, whose
    /// tables the first push makes.
    Push(Push),
    /// Show an archive in browsers: runs, reports, comparisons, trends
    ///
    /// Nothing can be changed by it. It speaks HTTP without TLS: put a proxy with TLS before it where other machines reach it.
    Serve(Serve),
    /// Set up an archive that many machines share
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Send test frames on an interface
    Generate(Box<Generate>),
    /// Receive test frames: loss, order, duplicates, latency
    ///
    /// Start it before `weir generate`, and restart it for each `weir generate`: sequence numbers begin at 0. A missing number
    /// below the highest received one counts as lost. To see frames that were lost after that, compare with the count of
    /// `weir generate`.
    ///
    /// Latency is the difference between the clocks of receiver and sender: it is valid only if the sender runs on this
    /// machine, or if a reflector returns the frames to it. For round-trip times, run `weir receive --reflect` at the remote
    /// end, and `weir receive` and `weir generate` here on the same interface.
    Receive(Receive),
    /// Emulate customers' devices in front of a concentrator (BNG)
    ///
    /// Each device has a MAC address, VLAN tags and a DHCPv4 client: DISCOVER, OFFER, REQUEST, ACK, ARP for the gateway, then a first
    /// packet to the far end. The time to the first packet begins with the first DISCOVER and ends when the packet is received behind
    /// the BNG. Sessions can be held with renewals, and with numbered traffic in both directions. It needs root, and works with any
    /// BNG.
    Cpe(Box<Cpe>),
    /// Detect attacks: hosts above a configured or learned rate
    ///
    /// The traffic of each host in the watched networks is counted in both directions. An attack is reported when it starts,
    /// while it continues, and when it ends, with the properties that its frames share. Reports can also go to a script, a web
    /// service or a BGP daemon. Rates are measured over one second; the first event already has the full rate of the attack.
    Detect(Detect),
    /// Capture frames to files, and account for every frame
    ///
    /// `--method auto` selects the fastest method that the interface and the privileges allow, and prints the reason. All
    /// privileges are dropped after the sockets and files are open.
    Capture(Box<Capture>),
    /// Count the frames that an interface receives, per second
    Pps(Pps),
    /// Emulate a bottleneck link between two interfaces
    ///
    /// Emulates rate, buffer (exact to the byte), queue discipline, delay and loss. It replaces tc's netem and tbf without kernel
    /// modules, and adds: a buffer of any size at any rate, fifteen queue disciplines, a delay for each path, and a rate that
    /// changes over time. Departure times are computed exactly, and the result shows how late frames really left. Frames pass
    /// unchanged except for ECN marks; the senders may keep their offloads.
    Bottleneck(Box<Bottleneck>),
    /// Load a path with TCP flows, and measure their goodput
    ///
    /// Each flow can have its own congestion control, source address and start time. All flows are connected before the first
    /// one sends; the spread of their start times is reported. Goodput is the number of bytes that the receiver got in an
    /// interval, divided by the measured length of the interval. Flows without progress for five retransmission timeouts are
    /// listed.
    Flows(Box<Flows>),
    /// Load a mail server, and measure the latency of each SMTP step
    ///
    /// Use it only with the consent of the server's owner. Transactions end with RSET, or with a message (--message). Each
    /// recipient has exactly one outcome: delivered, failed or expired. With --log the outcomes are written to a file, and the
    /// same command continues an interrupted one.
    Mail(Box<Mail>),
    /// Test a NAT against the requirements of the RFCs
    ///
    /// Each requirement is a scenario: packets in, packets out, packets dropped with a reason. All scenarios run against weir's
    /// own node in virtual time. Those that can be observed from outside also run against an external device.
    Conformance(Conformance),
    /// Measure the cost of weir's own code
    #[command(subcommand)]
    Bench(Bench),
    /// Run a router, filter or NAT that a text file describes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Control the subscribers of a node: customers, sessions, addresses
    #[command(subcommand)]
    Bng(BngCommand),
    /// Print the configuration for an external device under test
    Setup(Setup),
    /// Show what this machine can measure, and what prevents the rest
    Doctor(Doctor),
    /// Find out how a server works: processes, threads, event loops
    Inspect(Inspect),
    /// Test the tester: inject known faults, and check the findings
    ///
    /// The faults are loss from 1e-2 to 1e-6, bursts of loss, reordering, duplicates, corruption, delay and standstills; then a
    /// tester that gets no CPU, and a second run at the same time. The last test measures the latency through a device that adds
    /// a known delay. The result states whether measurements on this machine can be trusted.
    Check(Check),
    /// Serve requests of another host: `weir run` starts it over SSH, see `weir run --on` and `remote` in `weir plan options`
    #[command(hide = true)]
    Agent {
        /// What it does for the other host
        #[arg(value_enum)]
        role: AgentRole,
    },
    /// Undo the changes that a killed run left on the machine
    #[command(after_help = "Example:\n  weir clean")]
    Clean(Store),
    /// Print the completion script for a shell
    #[command(after_help = "Example:\n  weir completions bash > /etc/bash_completion.d/weir")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page of weir, or write those of all commands
    #[command(after_help = "Examples:\n  weir man > weir.1\n  weir man -o /usr/local/share/man/man1")]
    Man {
        /// Write the pages of all commands to this folder
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

/// The file of the records.
#[derive(Debug, Clone, Args)]
pub(crate) struct Store {
    /// File of the records [default: weir/records.db in the XDG data folder]
    #[arg(long, value_name = "FILE", env = "WEIR_STORE")]
    pub(crate) store: Option<PathBuf>,
}

impl Store {
    /// The file of --store, or the default one.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.store {
            return Ok(path.clone());
        }
        let variable = |name| std::env::var_os(name);
        Ok(store::default_path(variable("XDG_DATA_HOME").as_deref(), variable("HOME").as_deref())?)
    }
}

/// Where runs are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct Source {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Read runs of an archive that many machines push to, in place of the file: `postgres://USER@HOST/DATABASE`, with the
    /// password in PGPASSWORD
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
}

/// What this program does for another host, or for `weir serve`, that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentRole {
    /// Has port b of a tester on two hosts
    Tester,
    /// Is a device under test
    Device,
    /// Runs plans and shards
    Worker,
    /// Draws the report of runs: their records as JSON come in, a page goes out
    Report,
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
