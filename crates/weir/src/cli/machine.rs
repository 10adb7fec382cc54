//! What is asked of this machine, of the box that is to be measured, or of weir's own node.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_packet::flow::IpVersion;
use weir_port::capture::Rung;
use weir_testbed::setup::{Mode, Os};

use super::capture::capturing_rung;
use super::frames::frame_count;
use super::{Store, TesterKind};

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
Examples:
  weir doctor
  weir doctor --json

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
  weir check                                each fault once, and latency: a minute on a quiet machine
  weir check --times 100 --fault loss       all faults whose name has `loss` in it, a hundred times each
  weir check --fault latency                only the latency through a device that adds a known delay
  weir check --capture --frames 5M          does weir capture account for every frame, on each rung?

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
    /// Instead of faults: captures numbered frames to files, at a steady rate, at full speed and ended in midstream, and
    /// holds each against the one that was sent
    #[arg(long, conflicts_with_all = ["times", "fault", "tester"])]
    pub(crate) capture: bool,
    /// With --capture: frames for each rung and way, for example 5M
    #[arg(long, value_name = "N", default_value = "200k", value_parser = frame_count, requires = "capture")]
    pub(crate) frames: u64,
    /// With --capture: this rung only
    #[arg(long, value_name = "RUNG", value_parser = capturing_rung, requires = "capture")]
    pub(crate) rung: Option<Rung>,
    /// With --capture: where the files go, some 150 bytes a frame [default: that for temporary files]
    #[arg(long, value_name = "DIR", requires = "capture")]
    pub(crate) folder: Option<PathBuf>,
}

/// `weir conformance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir conformance                          weir's own node
  weir conformance --against kernel         and the NAT of this kernel, in namespaces
  weir conformance --against box.toml       and the external device of this plan, which translates to its address on
                                            side b

The exit code is 0 if weir's own node meets all requirements, and 3 if not.")]
pub(crate) struct Conformance {
    /// A second column: `kernel`, or a plan with a section [external]
    #[arg(long, value_name = "BOX")]
    pub(crate) against: Option<String>,
    /// One JSON object per requirement
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// As a table for documentation
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// `weir bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// What a frame costs in weir's node: forwarding, filters, translation; in memory, on one core
    ///
    /// Cycles are reference cycles (TSC); the spread is that of 15 rounds. `walk` is the cost of a dependent load in as much
    /// memory as the tables of the row take: on a machine whose caches are shared, compare a row with its walk.
    #[command(after_help = "\
Examples:
  weir bench plane                          all rows, about three minutes
  weir bench plane nat                      the rows with this in their names
  weir bench plane --pages 2m --json        tables in pages of 2 MiB, a JSON object per row")]
    Plane {
        /// Only rows with this in their names
        #[arg(default_value = "")]
        rows: String,
        /// Pages that the tables lie in
        #[arg(long, value_enum, default_value_t)]
        pages: Pages,
        /// A JSON object per row
        #[arg(long)]
        json: bool,
    },
}

/// Pages of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pages {
    /// 4 KiB, or what the kernel gives without being asked
    #[default]
    #[value(name = "4k")]
    Small,
    /// 2 MiB, asked for by glibc's allocator (2.35 or later)
    #[value(name = "2m")]
    Large,
}
