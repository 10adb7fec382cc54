//! The command line: what can be asked for, read once into types that cannot be wrong.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_lab::plan::{self, MIN_IPV6_FRAME_BYTES, Plan, PlanError};
use weir_lab::rate::{self, Rate};
use weir_packet::flow::{FlowOrder, IpVersion, MAX_FLOWS};
use weir_packet::size::FrameSizes;
use weir_testbed::setup::{Mode, Os};

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

Start with:  weir run quick";

impl Cli {
    /// Reads a command line, of which the first word is the program.
    ///
    /// # Errors
    /// A wrong line, or a request for help or the version; `exit` on it prints and ends as it should.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let cli = Cli::try_parse_from(words)?;
        if let Command::Generate(generate) = &cli.command {
            generate.check()?;
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
    /// csv: one line per trial. jsonl: one JSON object per line, each with its kind. prometheus: text format for
    /// the textfile collector of node_exporter. markdown, latex: the tables that the RFCs ask for.
    Export(Export),
    /// Say per point whether later runs are faster or slower than the first, or that it cannot be told
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
    /// reflector sends its frames back here. For round-trip times, run `weir receive --reflect` at the far end and
    /// `weir receive` beside `weir generate`, on the same interface.
    Receive(Receive),
    /// Print the complete set-up of a box that is to be measured, to paste there
    Setup(Setup),
    /// Say what this machine can measure and what is in the way
    Doctor(Doctor),
    /// Plant faults on a wire and see whether each is named, and nothing else
    ///
    /// Loss from 1e-2 to 1e-6, bursts of loss, reordering, duplicates, corruption, delay, standstills; then a tester
    /// that gets no CPU, and a second run beside it. It tells whether results of this machine can be believed.
    Check(Check),
    /// Undo what a killed run left behind
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
    /// Go on with a run that was interrupted, killed or has failed; what it has measured is not measured again
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
    /// Tell each trial as it is kept
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

/// Where records are.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// File with the records [default: weir/records.db in the XDG data folder]
    #[arg(long, value_name = "FILE", env = "WEIR_STORE")]
    pub(crate) store: Option<PathBuf>,
}

/// `weir plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Tell all mistakes of a plan, each with its line and remedy
    #[command(after_help = "Example:\n  weir plan check mine.toml --set traffic.ip=[4,6]")]
    Check {
        /// Plan that ships with weir or path of a plan
        #[arg(value_name = "NAME|FILE")]
        plan: String,
        #[command(flatten)]
        sets: Sets,
    },
    /// List the plans that ship with weir, with their questions
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

/// `weir list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) store: Store,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir show last\n  weir show 12 --csv > run.csv")]
pub(crate) struct Show {
    /// Number of the run (see `weir list`) or `last`
    #[arg(value_name = "ID|last")]
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Everything that was kept, as JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// One line per trial, as CSV
    #[arg(long)]
    pub(crate) csv: bool,
}

/// `weir report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir report last\n  weir report 3 7 -o before-and-after.html")]
pub(crate) struct Report {
    /// Numbers of the runs, or `last`; several are compared
    #[arg(value_name = "ID|last", required = true)]
    pub(crate) runs: Vec<RunId>,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Where to write it [default: weir-PLAN-ID.html]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `weir export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir export last --format markdown
  weir export 12 --format latex -o run.tex
  weir export last --format prometheus -o /var/lib/node_exporter/weir.prom")]
pub(crate) struct Export {
    /// Number of the run (see `weir list`) or `last`
    #[arg(value_name = "ID|last")]
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) store: Store,
    /// In which format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
    /// Where to write it, all at once or not at all [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What a run is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One line per trial
    Csv,
    /// One JSON object per line: run, point, trial, goal, comparison, procedure
    Jsonl,
    /// Prometheus text format
    Prometheus,
    /// Tables of the RFCs
    Markdown,
    /// Tables of the RFCs, as a document
    Latex,
}

/// `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir compare 3 7
  weir compare 3 last --across kernel
  weir compare 3 last --fail-on slower --json > compared.json")]
pub(crate) struct Compare {
    /// Numbers of the runs, or `last`: each later one is divided by the first
    #[arg(value_name = "ID|last", required = true, num_args = 2..)]
    pub(crate) runs: Vec<RunId>,
    #[command(flatten)]
    pub(crate) store: Store,
    /// What may differ between the runs because it is what they are to tell
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub(crate) across: Vec<AcrossKind>,
    /// End with exit code 4 if a point has this verdict
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VERDICT")]
    pub(crate) fail_on: Vec<FailOn>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir trend`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir trend quick
  weir trend quick --goal NDR --point frame_bytes=64 --point dut=kernel-nat
  weir trend nightly -o trend.html")]
pub(crate) struct Trend {
    /// Name of the plan, as `weir list` shows it
    #[arg(value_name = "PLAN")]
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Only this goal, as `weir show` names it; can be given more than once
    #[arg(long = "goal", value_name = "NAME")]
    pub(crate) goals: Vec<String>,
    /// Only points with this setting; can be given more than once
    #[arg(long = "point", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Write the series as drawings into one HTML file
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What may differ between runs that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcrossKind {
    /// The processor or its number of CPUs
    Machine,
    /// The kernel
    Kernel,
    /// How far the CPUs of tester and device are apart
    Placement,
}

/// What makes a comparison end with exit code 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A lower rate or a longer time
    Slower,
    /// A higher rate or a shorter time
    Faster,
    /// The two are not comparable, or too little is known
    CannotTell,
    /// A point that only one of the runs has, or no point at all in both
    Unmatched,
}

/// `weir generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir generate -i eth1 --rate 1M --duration 10
  weir generate -i eth1 --rate 10% --line 10G --frame imix --flows 1M --order unique
  weir generate -i eth1 --rate 100Mbit --ip 6 --frame 512 --count 1000000 --json")]
pub(crate) struct Generate {
    /// Interface that sends
    #[arg(short, long, value_name = "IF")]
    pub(crate) interface: String,
    /// Rate: 1M or 500kpps (frames/s), 100Mbit (bit/s of frames), 10% (of --line) [default: as fast as it goes]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Speed of the line in bit/s that a --rate in percent is of, for example 10G [default: that of the interface]
    #[arg(long, value_name = "BIT/S", value_parser = rate::line_bits_per_s)]
    pub(crate) line: Option<f64>,
    /// Frame size in bytes with FCS: 64, imix, imix:GENOME, mix:64,128 or random:64-1518
    #[arg(long, value_name = "SIZES", default_value = "64")]
    pub(crate) frame: FrameSizes,
    /// Number of flows, for example 1000 or 1M
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count)]
    pub(crate) flows: u32,
    /// Number of flow groups, which are counted apart: 1 to 64
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) groups: u16,
    /// Order of the flows: sequential, random (RFC 4814) or unique (each once before any comes again)
    #[arg(long, default_value = "sequential")]
    pub(crate) order: FlowOrder,
    /// IP version: 4 or 6
    #[arg(long, value_name = "VERSION", default_value = "4")]
    pub(crate) ip: IpVersion,
    #[command(flatten)]
    pub(crate) addresses: Addresses,
    /// Stop after this many frames, for example 1M
    #[arg(long, value_name = "N", value_parser = frame_count)]
    pub(crate) count: Option<u64>,
    /// Stop after this many seconds [default: at Ctrl-C, or after three days]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// How frames are sent
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    /// Write the result as one JSON document to standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Send even if the default route goes through the interface
    #[arg(long)]
    pub(crate) allow_default_route: bool,
}

impl Generate {
    /// What clap cannot see: options that do not go together.
    fn check(&self) -> Result<(), clap::Error> {
        let wrong = |text: String| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        for address in [self.addresses.src, self.addresses.dst].into_iter().flatten() {
            if address.is_ipv6() != (self.ip == IpVersion::V6) {
                return wrong(format!("{address} is no IPv{} address: change it, or --ip", self.ip));
            }
        }
        if self.ip == IpVersion::V6 && self.frame.min() < MIN_IPV6_FRAME_BYTES {
            let (frame, min) = (&self.frame, MIN_IPV6_FRAME_BYTES);
            return wrong(format!(
                "`{frame}` is too small for an IPv6 test frame: use --frame {min} or more"
            ));
        }
        Ok(())
    }
}

/// Addresses of test frames; flows count up from them.
#[derive(Debug, Args)]
pub(crate) struct Addresses {
    /// First source address [default: 198.18.0.1 or 2001:db8:18::1]
    #[arg(long, value_name = "IP")]
    pub(crate) src: Option<IpAddr>,
    /// First destination address; as many as there are flows, 4096 at most, follow it [default: 198.19.0.1 or 2001:db8:19::1]
    #[arg(long, value_name = "IP")]
    pub(crate) dst: Option<IpAddr>,
    /// Source MAC [default: that of the interface]
    #[arg(long, value_name = "MAC")]
    pub(crate) src_mac: Option<Mac>,
    /// Destination MAC [default: broadcast]
    #[arg(long, value_name = "MAC")]
    pub(crate) dst_mac: Option<Mac>,
}

/// `weir receive`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir receive -i eth2
  weir receive -i eth2 --duration 10 --json
  weir receive -i eth2 --reflect            send each frame back, for round-trip times")]
pub(crate) struct Receive {
    /// Interface that receives
    #[arg(short, long, value_name = "IF")]
    pub(crate) interface: String,
    /// Send each test frame back to where it came from
    #[arg(long)]
    pub(crate) reflect: bool,
    /// Stop after this many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many test frames, for example 1M
    #[arg(long, value_name = "N", value_parser = frame_count)]
    pub(crate) count: Option<u64>,
    /// How frames are received
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    /// Write the result as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir setup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir setup --os linux-nft --mode stateful > box.sh
  weir setup --os freebsd-pf --mode stateless --rules 100 --interfaces ix0,ix1
  weir setup --os linux-iptables --mode forward --nat --interfaces eth1      one port for both sides

The Linux texts are tested by running them; the others follow the manuals and are not.")]
pub(crate) struct Setup {
    /// linux-nft, linux-iptables, freebsd-pf, freebsd-ipfw, openbsd-pf, routeros or vyos
    #[arg(long)]
    pub(crate) os: Os,
    /// forward, stateless or stateful: no filter, one without state, one with it
    #[arg(long, default_value = "forward")]
    pub(crate) mode: Mode,
    /// Translate source addresses towards side b as well
    #[arg(long)]
    pub(crate) nat: bool,
    /// Number of filter rules, of which only the last accepts the test traffic
    #[arg(long, value_name = "N", default_value = "25")]
    pub(crate) rules: u32,
    /// Interfaces of the box on side a and side b, or one for both [default: what the system often calls them]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1..=2)]
    pub(crate) interfaces: Vec<String>,
    /// IP version of the test traffic: 4 or 6
    #[arg(long, value_name = "VERSION", default_value = "4")]
    pub(crate) ip: IpVersion,
}

/// `weir doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each line is ok, weaker (measures, but less well) or missing, with the remedy.
The exit code is 0 if the plan quick can run here, and 1 if not.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: Store,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir check                                each fault once, in about half a minute
  weir check --times 100 --fault loss       all faults whose name has `loss` in it, a hundred times each

Trials that the machine disturbed are repeated and counted. The exit code is 0 if each fault was named and nothing
else, and 1 if not.")]
pub(crate) struct Check {
    /// How often each fault is planted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) times: u32,
    /// Only faults with this in their name
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) fault: String,
    /// How to send and receive
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
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

/// Which run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunId {
    /// The one that began last.
    Last,
    /// By its number, from 1.
    Number(i64),
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "last" => Ok(RunId::Last),
            Ok(number @ 1..) => Ok(RunId::Number(number)),
            _ => Err(format!("`{text}` is no run: use its number from `weir list`, or last")),
        }
    }
}

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let octet = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
        let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
        let octets = octets.and_then(|octets| octets.try_into().ok());
        octets.map(Mac).ok_or_else(|| format!("`{text}` is no MAC address: use 02:00:00:00:00:01"))
    }
}

fn flow_count(text: &str) -> Result<u32, String> {
    let count =
        rate::quantity(text).ok().filter(|n| n.fract() == 0.0 && (1.0..=f64::from(MAX_FLOWS)).contains(n));
    count.map(|n| n as u32).ok_or_else(|| format!("`{text}` is no number of flows: use 1 to {MAX_FLOWS}"))
}

fn frame_count(text: &str) -> Result<u64, String> {
    let count = rate::quantity(text).ok().filter(|n| n.fract() == 0.0 && (1.0..=1e15).contains(n));
    count.map(|n| n as u64).ok_or_else(|| format!("`{text}` is no number of frames: use 1000 or 1M"))
}

fn setting(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts
        .map(|(name, value)| (name.into(), value.into()))
        .ok_or_else(|| format!("`{text}` is no setting: use frame_bytes=64"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.trim_end_matches('s').parse().ok().filter(|s| (0.001..=86_400.0).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("`{text}` is no time: use 0.001 to 86400 seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::read(line.split_whitespace().map(Into::into)).map(|cli| cli.command)
    }

    /// All commands below `command` with their full names.
    fn each(command: &mut clap::Command, name: &str, visit: &mut impl FnMut(&str, &mut clap::Command)) {
        visit(name, command);
        for sub in command.get_subcommands_mut() {
            let name = format!("{name} {}", sub.get_name());
            each(sub, &name, visit);
        }
    }

    #[test]
    fn every_command_has_help() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let mut names = Vec::new();
        each(&mut command, "weir", &mut |name, command| {
            if name.contains(" help") {
                return;
            }
            let help = command.render_long_help().to_string();
            assert!(help.contains("Usage:"), "{name}: {help}");
            assert!(command.get_about().is_some(), "{name} says nothing about itself");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name} {} has no help", argument.get_id());
            }
            names.push(name.to_string());
        });
        for name in
            ["weir run", "weir plan check", "weir generate", "weir receive", "weir doctor", "weir man"]
        {
            assert!(names.iter().any(|n| n == name), "{name} is missing in {names:?}");
        }
        assert!(Cli::command().render_long_help().to_string().contains("130  interrupted"));
    }

    #[test]
    fn examples_in_help_texts_are_valid() {
        let mut command = Cli::command();
        command.build();
        let mut examples = 0;
        each(&mut command, "weir", &mut |_, command| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter_map(|line| line.find("weir ").map(|start| &line[start..])) {
                // What follows two spaces explains, what follows `>` is the shell's.
                let line = line.split("  ").next().and_then(|line| line.split(" >").next()).unwrap();
                parse(line).unwrap_or_else(|error| panic!("`{line}`: {error}"));
                examples += 1;
            }
        });
        assert!(examples >= 12, "only {examples} examples found");
    }

    #[test]
    fn a_run_is_read() {
        let Command::Run(run) =
            parse("weir run quick --set a.b=1 --set c=[1,2] --seed 7 --tester packet --no-report -q")
                .unwrap()
        else {
            panic!()
        };
        assert_eq!(run.plan.as_deref(), Some("quick"));
        assert_eq!(run.sets.sets, ["a.b=1", "c=[1,2]"]);
        assert_eq!((run.seed, run.tester), (Some(7), TesterKind::Packet));
        assert_eq!((run.no_report, run.json, run.quiet), (true, false, true));
    }

    #[test]
    fn a_generator_is_read() {
        let line = "weir generate -i veth0 --rate 500kpps --frame 512 --flows 1M --order unique --ip 6 \
                    --src-mac 02:00:00:00:00:0a --dst 2001:db8::1 --duration 2.5 --tester packet";
        let Command::Generate(generate) = parse(line).unwrap() else { panic!() };
        assert_eq!(generate.rate, Some(Rate::Fps(5e5)));
        assert_eq!(
            (generate.flows, generate.order, generate.ip),
            (1_000_000, FlowOrder::Unique, IpVersion::V6)
        );
        assert_eq!(generate.addresses.src_mac, Some(Mac([2, 0, 0, 0, 0, 10])));
        assert_eq!(generate.duration, Some(Duration::from_millis(2500)));
        assert_eq!(generate.tester, TesterKind::Packet);
    }

    #[test]
    fn wrong_lines_are_refused_with_a_remedy() {
        for (line, message) in [
            ("weir run", "NAME|FILE"),
            ("weir runn quick", "'run'"),
            ("weir show 0", "use its number from `weir list`"),
            ("weir show last --json --csv", "cannot be used with"),
            ("weir report", "ID|last"),
            ("weir export last", "--format"),
            ("weir export last --format xml", "[possible values: csv, jsonl, prometheus, markdown, latex]"),
            ("weir compare 3", "2 values required"),
            ("weir trend quick --point 64", "use frame_bytes=64"),
            ("weir trend quick --json -o x", "cannot be used with"),
            ("weir compare 3 4 --fail-on slow", "[possible values: slower, faster, cannot-tell, unmatched]"),
            ("weir run quick --report x --no-report", "cannot be used with"),
            ("weir run quick --tester dpdk", "[possible values: auto, xdp, packet]"),
            ("weir generate", "--interface"),
            ("weir generate -i x --rate 1m", "use 1M or 500kpps"),
            ("weir generate -i x --rate 0%", "more than 0%"),
            ("weir generate -i x --ip 6", "use --frame 84"),
            ("weir generate -i x --dst 2001:db8::1", "2001:db8::1 is no IPv4 address"),
            ("weir generate -i x --frame 63", "use 64 to 9018"),
            ("weir generate -i x --flows 0", "use 1 to 16000000"),
            ("weir generate -i x --src-mac 2:0:0:0:0:1", "use 02:00:00:00:00:01"),
            ("weir generate -i x --ip 6 --frame 84 --src 10.0.0.1", "10.0.0.1 is no IPv6 address"),
            ("weir receive -i x --duration 0", "use 0.001 to 86400"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(message), "{line}: {error}");
        }
    }
}
