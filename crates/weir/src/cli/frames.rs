//! `weir generate` and `weir receive`.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use weir_config::rate::{self, Rate};
use weir_config::unit;
use weir_lab::frames::MIN_IPV6_FRAME_BYTES;
use weir_packet::flow::{FlowOrder, HOSTS, IpVersion, MAX_FLOWS};
use weir_packet::frame::Transport;
use weir_packet::size::FrameSizes;

use super::{Cli, TesterKind};

/// `weir generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir generate -i eth1 --rate 1M --duration 10
  weir generate -i eth1 --rate 10% --line 10G --frame imix --flows 1M --order unique
  weir generate -i eth1 --transport syn --flows 1M --hosts 65536 --order unique      a SYN flood
  weir generate -i eth1 --rate 100Mbit --ip 6 --frame 512 --count 1000000 --json")]
pub(crate) struct Generate {
    /// Interface to send on
    #[arg(short, long, value_name = "IF")]
    pub(crate) interface: String,
    /// Rate: 1M or 500kpps (frames/s), 10Gbit (bit/s of frames), 10% (of --line) [default: as fast as possible]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// Line rate in bit/s to which a --rate in percent refers, for example 10G [default: that of the interface]
    #[arg(long, value_name = "BIT/S", value_parser = rate::line_bits_per_s)]
    pub(crate) line: Option<f64>,
    /// Frame size in bytes with FCS: 64, imix, imix:GENOME, mix:64,128 or random:64-1518
    #[arg(long, value_name = "SIZES", default_value = "64")]
    pub(crate) frame: FrameSizes,
    /// Number of flows, for example 1000 or 1M
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count)]
    pub(crate) flows: u32,
    /// Number of source hosts of the flows, for example 1M; at most one per flow. Destinations are not more than hosts
    #[arg(long, value_name = "N", default_value_t = HOSTS, value_parser = host_count)]
    pub(crate) hosts: u32,
    /// Number of flow groups with separate counters: 1 to 64
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) groups: u16,
    /// Order of the flows: sequential, random (RFC 4814) or unique (all flows once before one repeats)
    #[arg(long, default_value = "sequential")]
    pub(crate) order: FlowOrder,
    /// IP version: 4 or 6
    #[arg(long, value_name = "VERSION", default_value = "4")]
    pub(crate) ip: IpVersion,
    /// Payload of the frames: udp, or syn (the first segment of a TCP connection)
    #[arg(long, default_value = "udp")]
    pub(crate) transport: Transport,
    #[command(flatten)]
    pub(crate) addresses: Addresses,
    /// Stop after this many frames, for example 1M
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C, or after three days]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Method to send frames
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
    /// Checks combinations of options, which clap cannot express.
    pub(super) fn check(&self) -> Result<(), clap::Error> {
        let wrong = |text: String| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        for address in [self.addresses.src, self.addresses.dst].into_iter().flatten() {
            if address.is_ipv6() != (self.ip == IpVersion::V6) {
                return wrong(format!("{address} is no IPv{} address: change it, or change --ip", self.ip));
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

/// First addresses of the test frames; flows count up from them.
#[derive(Debug, Args)]
pub(crate) struct Addresses {
    /// First source address [default: 198.18.0.1 or 2001:db8:18::1]
    #[arg(long, value_name = "IP")]
    pub(crate) src: Option<IpAddr>,
    /// First destination address; one per flow, at most --hosts, count up from it [default: 198.19.0.1 or 2001:db8:19::1]
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
  weir receive -i eth2 --reflect            return each frame, for round-trip times")]
pub(crate) struct Receive {
    /// Interface to receive on
    #[arg(short, long, value_name = "IF")]
    pub(crate) interface: String,
    /// Return each test frame to its sender
    #[arg(long)]
    pub(crate) reflect: bool,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many test frames, for example 1M
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    /// Method to receive frames
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tester: TesterKind,
    /// Write the result as JSON to standard output
    #[arg(long)]
    pub(crate) json: bool,
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
    number_of("flows", text)
}

fn host_count(text: &str) -> Result<u32, String> {
    number_of("hosts", text)
}

fn number_of(what: &str, text: &str) -> Result<u32, String> {
    let count =
        unit::quantity(text).ok().filter(|n| n.fract() == 0.0 && (1.0..=f64::from(MAX_FLOWS)).contains(n));
    count.map(|n| n as u32).ok_or_else(|| format!("`{text}` is no number of {what}: use 1 to {MAX_FLOWS}"))
}

/// A whole number such as 10k: frames, connections, flows.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let count = unit::quantity(text).ok().filter(|n| n.fract() == 0.0 && (1.0..=1e15).contains(n));
    count
        .map(|n| n as u64)
        .ok_or_else(|| format!("`{text}` is no whole number of 1 or more: use 1000, 10k or 4M"))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    unit::time(text, Duration::from_millis(1), Duration::from_secs(86_400))
}
