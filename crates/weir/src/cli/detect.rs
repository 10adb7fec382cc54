//! `weir detect`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::Log;
use super::capture::{MethodChoice, bytes, methods};
use super::frames::seconds;

/// `weir detect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir detect -i eth1 --config detect.toml
  weir detect -i eth1 -i eth2 --config detect.toml --json | tee attacks.jsonl
  weir detect --read attack.pcapng --config detect.toml     same events as on the interface
  weir detect -i eth1 --config detect.toml --prometheus 127.0.0.1:9105
  weir detect --example > detect.toml                       a configuration with all options, explained")]
pub(crate) struct Detect {
    /// Interface to watch; repeatable
    #[arg(short, long, value_name = "IF", required_unless_present_any = ["read", "example"])]
    pub(crate) interface: Vec<String>,
    /// Read a capture file (pcapng or pcap) instead, with the timestamps of its frames
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    pub(crate) read: Option<PathBuf>,
    /// With --read: send the announcements to the BGP daemon. By default they are only printed
    #[arg(long, requires = "read")]
    pub(crate) announce: bool,
    /// Configuration: the watched networks, the limits and the actions
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    pub(crate) config: Option<PathBuf>,
    /// Print a configuration with all options, each explained
    #[arg(long, exclusive = true)]
    pub(crate) example: bool,
    /// Method: auto, recv, recvmmsg, fanout, libpcap, ring, ring-fanout or xdp (the machine then gets no frames)
    #[arg(long, alias = "rung", value_name = "METHOD", default_value = "auto", value_parser = methods(), hide_possible_values = true)]
    pub(crate) method: MethodChoice,
    /// Size of the kernel's buffers per interface, for example 256MiB [default: a quarter of a second at 1 M frames/s]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) buffer: Option<u64>,
    /// Threads that receive from each interface, 1 to 64
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Keep all privileges, for a script or a daemon that needs them. By default root changes to the user who called sudo, or
    /// nobody, after the interfaces are open
    #[arg(long)]
    pub(crate) keep_privileges: bool,
    /// Serve the counters over HTTP at this address, in Prometheus text format
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "read", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) log: Log,
    /// Write one JSON object per event; the last line has the counters
    #[arg(long)]
    pub(crate) json: bool,
}
