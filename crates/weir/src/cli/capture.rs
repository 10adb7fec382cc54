//! What captures frames of any kind on an interface.

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

/// Largest snap length, that of libpcap.
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

At the end it says where all frames went: offered = captured + drops by reason + unexplained. Lost frames are also noted in
the file: at the gap, and in the statistics of each interface, of which every queue has one.")]
pub(crate) struct Capture {
    /// Interface to capture from, or any: all that are up; can be given more than once
    #[arg(short, long = "interface", value_name = "IF", required_unless_present = "list")]
    pub(crate) interfaces: Vec<String>,
    /// List the interfaces
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
    /// How: auto, recv, recvmmsg, fanout, libpcap, ring, ring-fanout or xdp (which takes the frames from the machine)
    #[arg(long, alias = "rung", value_name = "METHOD", default_value = "auto", value_parser = methods(), hide_possible_values = true)]
    pub(crate) method: MethodChoice,
    /// Only frames that this expression of tcpdump's language matches (`man pcap-filter`)
    #[arg(short, long, value_name = "EXPR", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Bytes kept of a frame
    #[arg(short, long, value_name = "BYTES", default_value_t = MOST_SNAP as u32, value_parser = clap::value_parser!(u32).range(1..=MOST_SNAP))]
    pub(crate) snap: u32,
    /// File to write, which must not be there yet: pcapng, or pcap if it ends in .pcap; compressed if it ends in .zst; - is
    /// standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Begin a new file after so many bytes or seconds: 1GB, 60s; the files are numbered, behind those that are there
    #[arg(long, value_name = "SIZE|TIME", requires = "write", value_parser = rotation)]
    pub(crate) rotate: Option<Rotation>,
    /// Keep only the last N files of this capture
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep: Option<u64>,
    /// Write nothing until the trigger, then begin with the frames of this time before it
    #[arg(long, value_name = "TIME", requires_all = ["write", "trigger"], value_parser = seconds)]
    pub(crate) ring_before: Option<Duration>,
    /// What starts the writing: signal (SIGUSR1), 'pps>100k' or 'bps>1G', rates being those of a second
    #[arg(long, value_name = "TRIGGER", requires = "ring_before")]
    pub(crate) trigger: Option<Trigger>,
    /// Memory for frames that wait for the disk or the trigger
    #[arg(long, value_name = "SIZE", default_value = "256MB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Memory of the kernel's buffers for frames that wait for this program, per interface [default: a quarter of a
    /// second at 1 M frames/s, as much as that is on the method]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) buffer: Option<u64>,
    /// Threads per interface that share its frames [default: one for each CPU, four at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// Have this program run the driver's receive routine, in place of interrupts; takes a CPU (method xdp only)
    #[arg(long)]
    pub(crate) busy_poll: bool,
    /// Do not have the interface take frames for other machines
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
    /// Show each second: rates and drops per queue, protocols, sizes, who sends most
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write a line of JSON per second to standard output, and where all frames went as the last one
    #[arg(long)]
    pub(crate) json: bool,
    /// Answer at this address with the counters in Prometheus' text format
    #[arg(long, value_name = "ADDR:PORT", value_parser = super::host::end)]
    pub(crate) prometheus: Option<SocketAddr>,
}

impl Capture {
    /// What clap cannot see: options that do not go together.
    pub(super) fn check(&self) -> Result<(), clap::Error> {
        let wrong = |text: &str| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
        if self.to_stdout() && (self.rotate.is_some() || self.json) {
            return wrong(
                "standard output cannot take the file and --rotate or --json: write to a file with -w",
            );
        }
        if self.memory < 4 << 20 {
            return wrong("too little memory for frames that wait: use --memory 4MiB or more");
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
    /// Only frames that this expression of tcpdump's language matches
    #[arg(short, long, value_name = "EXPR", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Stop after this time: 10 or 10s, 500ms, 5m, 2h [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
}

/// A way to capture, or the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodChoice {
    Auto,
    This(Method),
}

impl MethodChoice {
    /// The method that is asked for; `None` for the best one.
    pub(crate) fn asked(self) -> Option<Method> {
        match self {
            MethodChoice::Auto => None,
            MethodChoice::This(method) => Some(method),
        }
    }
}

/// The ways, for an option.
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

/// A method that hands frames on.
pub(super) fn capturing_method(text: &str) -> Result<Method, String> {
    match text.parse::<Method>().map_err(|error| error.to_string())? {
        Method::Count => Err("count captures no frame: use another one, or `weir pps`".into()),
        method => Ok(method),
    }
}

fn rotation(text: &str) -> Result<Rotation, String> {
    let time = unit::time(text, Duration::from_secs(1), Duration::from_secs(86_400)).ok();
    // A number alone would be seconds for one and bytes for the next.
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
