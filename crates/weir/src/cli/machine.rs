//! What is asked of this machine, of the box that is to be measured, or of weir's own node.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use weir_config::rate;
use weir_host::Role;
use weir_packet::flow::IpVersion;
use weir_port::capture::Method;
use weir_testbed::setup::{Mode, Os};

use super::capture::capturing_method;
use super::frames::{count, seconds};
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
  weir doctor --for servers --connections 50k
  weir doctor --for nat --flows 4M
  weir doctor --for tcp --rate 10G --rtt 0.1
  weir doctor --for servers --fix --only net.core.somaxconn
  weir doctor --undo

Without --for: what can be measured here. Each line is ok, weaker (measures, but less well) or missing, with the remedy. \
The exit code is 0 if the plan quick can run here, and 1 if not.

With --for: what the machine will do under a load, as the settings of its kernel and NICs have it. Each line says what \
happens above the ceiling: stops (nothing works), loses (what is above is refused or lost), slows; then the part of the \
load that fits, the setting and its value, and the value that the load needs. Parts of what slows are estimates. The \
exit code is 0 if the load fits, and 1 if not. --fix shows the commands and asks before anything is changed; values before \
are kept in $XDG_STATE_HOME/weir/doctor-undo.json until --undo.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: Store,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What the machine is to do: its ceilings under load
    #[arg(long = "for", value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
    /// TCP connections at the same time
    #[arg(long, value_name = "N", default_value = "10k", value_parser = count, requires = "role")]
    pub(crate) connections: u64,
    /// Flows that a NAT or a stateful filter knows at the same time
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count, requires = "role")]
    pub(crate) flows: u64,
    /// Frames per second that an interface receives
    #[arg(long, value_name = "FRAMES/S", default_value = "1M", value_parser = rate::fps, requires = "role")]
    pub(crate) fps: f64,
    /// Rate of a TCP connection
    #[arg(long, value_name = "BIT/S", default_value = "1G", value_parser = rate::line_bits_per_s, requires = "role")]
    pub(crate) rate: f64,
    /// Its round-trip time
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = seconds, requires = "role")]
    pub(crate) rtt: Duration,
    /// Show the commands that raise the ceilings, and run them if you agree
    #[arg(long, requires = "role", conflicts_with = "json")]
    pub(crate) fix: bool,
    /// With --fix: only this setting; may be repeated
    #[arg(long, value_name = "SETTING", requires = "fix")]
    pub(crate) only: Vec<String>,
    /// With --fix: agree beforehand
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// With --fix: for each start of the machine, too, by files of sysctl.d and systemd
    #[arg(long, requires = "fix")]
    pub(crate) persist: bool,
    /// Set back what --fix has changed, and remove its files
    #[arg(long, conflicts_with_all = ["role", "json"])]
    pub(crate) undo: bool,
}

/// A role by its name.
fn role(text: &str) -> Result<Role, String> {
    let names: Vec<_> = Role::ALL.iter().map(|role| role.name()).collect();
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("there is no role `{text}`: use {}", names.join(", ")))
}

/// `weir inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir inspect nginx --port 80
  weir inspect 4711
  weir inspect 127.0.0.1:25 --json

TARGET is a process id, the name of a running program, or HOST:PORT. The server gets connections that say nothing, held at the \
same time, and its processes and threads are counted: inspect only servers that you may load so. One that is on this machine \
should be inspected by root, or by its own user: what its threads wait in cannot be seen by others. Of a server elsewhere \
only a limit shows.
The exit code is 0 with a verdict, and 1 if the evidence does not say.")]
pub(crate) struct Inspect {
    /// Process id, name of a program, or HOST:PORT
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Which port, of a process that listens on several
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Connections that are held at the same time
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(4..=10_000))]
    pub(crate) connections: u16,
    /// As JSON, with all evidence
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
  weir check --capture --frames 5M          does weir capture account for every frame, on each method?

Trials that the machine disturbed are repeated and counted. The exit code is 0 if each fault was named and nothing \
else, 1 if not, and 3 if the machine disturbed every trial of one.")]
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
    /// With --capture: frames for each method and way, for example 5M
    #[arg(long, value_name = "N", default_value = "200k", value_parser = count, requires = "capture")]
    pub(crate) frames: u64,
    /// With --capture: this method only
    #[arg(long, alias = "rung", value_name = "METHOD", value_parser = capturing_method, requires = "capture")]
    pub(crate) method: Option<Method>,
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
