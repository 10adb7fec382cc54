//! `weir capture` and `weir pps`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use weir_capture::Rotation;
use weir_capture::trigger::Trigger;
use weir_config::unit;
use weir_port::capture::Method;

use super::Cli;
use super::frames::{count, seconds};
use super::known::Known;

/// Largest snap length, as in libpcap.
const MOST_SNAP: i64 = 262_144;

/// `weir capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir capture -i eth1 -w x.pcapng
  weir capture -i eth1 -i eth2 --filter udp --snap 96 -w x.pcapng.zst --rotate 1GB --keep 10
  weir capture -i eth1 -w x.pcapng --ring-before 30s --trigger signal     kill -USR1 writes the last 30 s
  weir capture -i any --stats --duration 60
  weir capture --list
  weir capture -i eth1 --json --prometheus 127.0.0.1:9104

At the end it accounts for all frames: offered = captured + drops by reason + unexplained. Lost frames are also recorded in \
the file: at the gap, and in the statistics of the interface; each queue is an interface of the file.")]
pub(crate) struct Capture {
    /// Interface to capture from, or any (all interfaces that are up); repeatable
    #[arg(short, long = "interface", value_name = "IF", required_unless_present = "list")]
    pub(crate) interfaces: Vec<String>,
    /// List the interfaces
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
    /// Method: auto, recv, recvmmsg, fanout, libpcap, ring, ring-fanout or xdp (the machine then gets no frames)
    #[arg(long, alias = "rung", value_name = "METHOD", default_value = "auto", value_parser = methods(), hide_possible_values = true)]
    pub(crate) method: MethodChoice,
    /// Capture only frames that match this tcpdump expression (`man pcap-filter`)
    #[arg(short, long, value_name = "EXPR", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Bytes to capture of each frame
    #[arg(short, long, value_name = "BYTES", default_value_t = MOST_SNAP as u32, value_parser = clap::value_parser!(u32).range(1..=MOST_SNAP))]
    pub(crate) snap: u32,
    /// File to write; it must not exist. pcapng, or pcap if the name ends in .pcap; compressed if it ends in .zst; - is standard
    /// output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Begin a new file after this size or time: 1GB, 60s; numbers continue after those of existing files
    #[arg(long, value_name = "SIZE|TIME", requires = "write", value_parser = rotation)]
    pub(crate) rotate: Option<Rotation>,
    /// Keep only the last N files of this capture
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep: Option<u64>,
    /// Write nothing before the trigger; then write the frames of this time before it and all later ones
    #[arg(long, value_name = "TIME", requires_all = ["write", "trigger"], value_parser = seconds)]
    pub(crate) ring_before: Option<Duration>,
    /// What starts the writing: signal (SIGUSR1), 'pps>100k' or 'bps>1G' (rate of one second)
    #[arg(long, value_name = "TRIGGER", requires = "ring_before")]
    pub(crate) trigger: Option<Trigger>,
    /// Memory of this program for frames that wait for the disk or the trigger
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Size of the kernel's buffers per interface [default: a quarter of a second at 1 M frames/s; the size depends on the
    /// method]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) buffer: Option<u64>,
    /// Threads that share the frames of an interface [default: one for each CPU, four at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// Poll the driver instead of waiting for interrupts; uses one CPU fully (method xdp only)
    #[arg(long)]
    pub(crate) busy_poll: bool,
    /// Do not set the interface to promiscuous mode
    #[arg(long)]
    pub(crate) no_promiscuous: bool,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many frames, for example 1M
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    /// Stop when this much has been written, for example 10GB
    #[arg(long, value_name = "SIZE", requires = "write", value_parser = bytes)]
    pub(crate) size: Option<u64>,
    /// Show every second: rates and drops per queue, protocols, sizes, top senders
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write one JSON object per second to standard output; the last line accounts for all frames
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve the counters over HTTP at this address, in Prometheus text format
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
}

impl Capture {
    /// Checks combinations of options, which clap cannot express.
    pub(super) fn check(&self) -> Result<(), clap::Error> {
        let wrong = |text: &str| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.to_stdout() && (self.rotate.is_some() || self.json) {
            return wrong(
                "-w - cannot be combined with --rotate or --json: standard output holds one capture; use -w FILE",
            );
        }
        if self.memory < 4 << 20 {
            return wrong("--memory is too small: use --memory 4MiB or more");
        }
        Ok(())
    }

    /// `-w -`.
    pub(crate) fn to_stdout(&self) -> bool {
        self.write.as_ref().is_some_and(|path| path.as_os_str() == "-" || path.as_os_str() == "/dev/stdout")
    }
}

/// `weir pps`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir pps eth1")]
pub(crate) struct Pps {
    /// Interface
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// Count only frames that match this tcpdump expression (`man pcap-filter`)
    #[arg(short, long, value_name = "EXPR", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
}

/// A capture method, or the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodChoice {
    Auto,
    This(Method),
}

impl MethodChoice {
    /// The requested method; `None` for the best one.
    pub(crate) fn asked(self) -> Option<Method> {
        match self {
            MethodChoice::Auto => None,
            MethodChoice::This(method) => Some(method),
        }
    }
}

/// The methods, as the values of an option.
pub(super) fn methods() -> Known<MethodChoice> {
    let names = || {
        let own = Method::ALL.iter().filter(|(method, _)| *method != Method::Count).map(|(_, name)| *name);
        ["auto"].into_iter().chain(own).collect()
    };
    Known { read: method, names }
}

pub(super) fn method(text: &str) -> Result<MethodChoice, String> {
    if text == "auto" {
        return Ok(MethodChoice::Auto);
    }
    match text.parse::<Method>() {
        Ok(_) => capturing_method(text).map(MethodChoice::This),
        Err(error) => Err(format!("{error}, and auto")),
    }
}

/// A method that delivers frames.
pub(super) fn capturing_method(text: &str) -> Result<Method, String> {
    match text.parse::<Method>().map_err(|error| error.to_string())? {
        Method::Count => Err("count captures no frame: use another one, or `weir pps`".into()),
        method => Ok(method),
    }
}

fn rotation(text: &str) -> Result<Rotation, String> {
    let time = unit::time(text, Duration::from_secs(1), Duration::from_secs(86_400)).ok();
    // A bare number could be seconds or bytes.
    let time = time.filter(|_| text.ends_with(|c: char| c.is_alphabetic()));
    let size = bytes(text).ok().filter(|&bytes| bytes >= 1_000_000);
    time.map(Rotation::Time).or(size.map(Rotation::Bytes)).ok_or_else(|| {
        format!("`{text}` is neither a size nor a time: use 1MB or more (100MB, 1GiB), or 1s or more (60s, 5m, 1h)")
    })
}

/// A size in bytes.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    unit::bytes(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_distinguished() {
        assert_eq!(rotation("1GB"), Ok(Rotation::Bytes(1_000_000_000)));
        assert_eq!(rotation("1.5MiB"), Ok(Rotation::Bytes(1_572_864)));
        assert_eq!(rotation("60s"), Ok(Rotation::Time(Duration::from_secs(60))));
        assert_eq!(rotation("5m"), Ok(Rotation::Time(Duration::from_secs(300))));
        for text in ["", "0s", "10kB", "60", "s", "-1GB", "1gb", "nanGB"] {
            assert!(rotation(text).unwrap_err().contains("use 1MB or more"), "{text}");
        }
    }
}
