//! What watches an interface for attacks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::capture::{MethodChoice, bytes, methods};
use super::frames::seconds;

/// `weir detect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir detect -i eth1 --config detect.toml
  weir detect -i eth1 -i eth2 --config detect.toml --json | tee attacks.jsonl
  weir detect --read attack.pcapng --config detect.toml     the same events as on the wire
  weir detect -i eth1 --config detect.toml --prometheus 127.0.0.1:9105
  weir detect --example > detect.toml                       a configuration with all options, explained")]
pub(crate) struct Detect {
    /// Interface to watch; more than one if given again
    #[arg(short, long, value_name = "IF", required_unless_present_any = ["read", "example"])]
    pub(crate) interface: Vec<String>,
    /// Watch a capture file (pcapng or pcap) instead, by the times of its frames
    #[arg(long, value_name = "FILE", conflicts_with = "interface")]
    pub(crate) read: Option<PathBuf>,
    /// Let the BGP daemon announce what is found in the file of --read. Without this the file's attacks are reported, and the
    /// commands are only shown
    #[arg(long, requires = "read")]
    pub(crate) announce: bool,
    /// What is watched, what is too much, and what is done about it
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    pub(crate) config: Option<PathBuf>,
    /// Print a configuration with all options, each explained
    #[arg(long, exclusive = true)]
    pub(crate) example: bool,
    /// How: auto, recv, recvmmsg, fanout, libpcap, ring, ring-fanout or xdp (which takes the frames from the machine)
    #[arg(long, alias = "rung", value_name = "METHOD", default_value = "auto", value_parser = methods(), hide_possible_values = true)]
    pub(crate) method: MethodChoice,
    /// Memory of the kernel's buffers for each interface, for example 256MiB [default: what arrives in a quarter of a
    /// second at 1 M frames/s]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) buffer: Option<u64>,
    /// Threads that take frames from each interface, 1 to 64
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: u16,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Keep all privileges, for a script or a daemon that needs them. Without this root becomes who called sudo, or
    /// nobody, once the interfaces are open
    #[arg(long)]
    pub(crate) keep_privileges: bool,
    /// Answer at this address with the counters in Prometheus' text format
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "read", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
    /// Write each event, and at the end what was counted, as one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}
