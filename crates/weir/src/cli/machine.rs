//! Commands about this machine, an external device, or weir's own node.

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

The Linux configurations are tested by running them; the others follow the manuals and are untested.")]
pub(crate) struct Setup {
    /// System of the device: linux-nft, linux-iptables, freebsd-pf, freebsd-ipfw, openbsd-pf, routeros or vyos
    #[arg(long)]
    pub(crate) os: Os,
    /// forward (no filter), stateless (filter without state) or stateful (filter with connection tracking)
    #[arg(long, default_value = "forward")]
    pub(crate) mode: Mode,
    /// Translate source addresses towards side b as well
    #[arg(long)]
    pub(crate) nat: bool,
    /// Number of filter rules; only the last one accepts the test traffic
    #[arg(long, value_name = "N", default_value = "25")]
    pub(crate) rules: u32,
    /// Interfaces of the device on side a and side b, or one for both [default: the usual names of the system]
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

Without --for: what can be measured here. Each line is ok, weaker (measures, with less precision) or missing, with the remedy. \
The exit code is 0 if the plan quick can run here, and 1 if not.

With --for: the limits that the settings of kernel and NICs set to a load. Each line states what happens above the limit: \
stops (nothing works), loses (the excess is refused or lost) or slows; then the part of the load that fits, the setting with \
its value, and the value that the load needs. For slows, the part is an estimate. The exit code is 0 if the load fits, and 1 \
if not. --fix shows the commands and asks before it changes anything; the old values are kept in \
$XDG_STATE_HOME/weir/doctor-undo.json until --undo.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Role of the machine: show its limits under the load given by the options below
    #[arg(long = "for", value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
    /// Concurrent TCP connections
    #[arg(long, value_name = "N", default_value = "10k", value_parser = count, requires = "role")]
    pub(crate) connections: u64,
    /// Concurrent flows in a NAT or a stateful filter
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count, requires = "role")]
    pub(crate) flows: u64,
    /// Received frames per second and interface
    #[arg(long, value_name = "FRAMES/S", default_value = "1M", value_parser = rate::fps, requires = "role")]
    pub(crate) fps: f64,
    /// Rate of a TCP connection
    #[arg(long, value_name = "BIT/S", default_value = "1G", value_parser = rate::line_bits_per_s, requires = "role")]
    pub(crate) rate: f64,
    /// Round-trip time of a TCP connection
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = seconds, requires = "role")]
    pub(crate) rtt: Duration,
    /// Show the commands that raise the limits, and run them after confirmation
    #[arg(long, requires = "role", conflicts_with = "json")]
    pub(crate) fix: bool,
    /// With --fix: change only this setting; repeatable
    #[arg(long, value_name = "SETTING", requires = "fix")]
    pub(crate) only: Vec<String>,
    /// With --fix: do not ask for confirmation
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// With --fix: also after reboot (writes sysctl.d and systemd files)
    #[arg(long, requires = "fix")]
    pub(crate) persist: bool,
    /// Restore the values that --fix changed, and remove its files
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

TARGET is a process id, the name of a running program, or HOST:PORT. The command holds idle connections to the server and \
counts the server's processes and threads: inspect only servers that you may load in this way. Run it as root or as the \
user of the server: other users cannot see in which system call its threads wait. For a remote server only its limit of \
connections can be seen.
The exit code is 0 with a verdict, and 1 if the evidence is not sufficient.")]
pub(crate) struct Inspect {
    /// Process id, name of a program, or HOST:PORT
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Port to connect to, if the process listens on several
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Number of connections to hold
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(4..=10_000))]
    pub(crate) connections: u16,
    /// Write the result as JSON, with all evidence
    #[arg(long)]
    pub(crate) json: bool,
}

/// `weir check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir check                                each fault once, and latency: one minute on a quiet machine
  weir check --times 100 --fault loss       the faults with `loss` in their name, 100 times each
  weir check --fault latency                only the latency through a device that adds a known delay
  weir check --capture --frames 5M          does weir capture account for every frame, with each method?

Trials that the machine disturbed are repeated and counted. The exit code is 0 if each fault was found and nothing \
else, 1 if not, and 3 if the machine disturbed all trials of a fault.")]
pub(crate) struct Check {
    /// How often each fault is injected
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) times: u32,
    /// Only faults with this text in their name
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) fault: String,
    /// Method to send and receive frames
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    /// Test weir capture instead: capture numbered frames to files, at a steady rate, at full speed, and with a stop while
    /// frames arrive; compare each frame with the one that was sent
    #[arg(long, conflicts_with_all = ["times", "fault", "tester"])]
    pub(crate) capture: bool,
    /// With --capture: number of frames for each method and test, for example 5M
    #[arg(long, value_name = "N", default_value = "200k", value_parser = count, requires = "capture")]
    pub(crate) frames: u64,
    /// With --capture: test only this method
    #[arg(long, alias = "rung", value_name = "METHOD", value_parser = capturing_method, requires = "capture")]
    pub(crate) method: Option<Method>,
    /// With --capture: folder for the files, about 150 bytes per frame [default: the folder for temporary files]
    #[arg(long, value_name = "DIR", requires = "capture")]
    pub(crate) folder: Option<PathBuf>,
}

/// `weir conformance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir conformance                          weir's own node
  weir conformance --against kernel         also the NAT of this kernel, in namespaces
  weir conformance --against box.toml       also the external device of this plan; it must translate to its address on
                                            side b

The exit code is 0 if weir's own node meets all requirements, and 3 if not.")]
pub(crate) struct Conformance {
    /// Also test `kernel`, or the device in the section [external] of a plan
    #[arg(long, value_name = "BOX")]
    pub(crate) against: Option<String>,
    /// Write one JSON object per requirement
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Write a Markdown table
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// `weir bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Cycles per frame in weir's node: forwarding, filters, translation; in memory, on one core
    ///
    /// Cycles are reference cycles (TSC); the spread is over 15 rounds. `walk` is the cost of a dependent load from a memory
    /// area as large as the tables of the row: if other programs share the caches, compare a row with its walk.
    #[command(after_help = "\
Examples:
  weir bench plane                          all rows, about three minutes
  weir bench plane nat                      the rows with `nat` in their names
  weir bench plane --pages 2m --json        tables in pages of 2 MiB, one JSON object per row")]
    Plane {
        /// Only rows with this text in their names
        #[arg(default_value = "")]
        rows: String,
        /// Page size for the tables
        #[arg(long, value_enum, default_value_t)]
        pages: Pages,
        /// Write one JSON object per row
        #[arg(long)]
        json: bool,
    },
}

/// Pages of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pages {
    /// 4 KiB, or the kernel's default
    #[default]
    #[value(name = "4k")]
    Small,
    /// 2 MiB, requested through glibc's allocator (2.35 or later)
    #[value(name = "2m")]
    Large,
}
