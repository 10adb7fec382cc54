//! What captures frames of any kind on an interface.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use weir_capture::Rotation;
use weir_capture::trigger::Trigger;
use weir_port::capture::Rung;

use super::Cli;
use super::frames::{frame_count, seconds};

/// Largest snap length, that of libpcap.
const MOST_SNAP: i64 = 262_144;

/// `weir capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir capture -i eth1 -w x.pcapng
  weir capture -i eth1 -i eth2 --filter udp --snap 96 -w x.pcapng.zst --rotate 1GB --keep 10
  weir capture -i eth1 -w x.pcapng --ring-before 30s --trigger signal     kill -USR1 writes the last 30 s
  weir capture -i eth1 --stats --duration 60
  weir capture -i eth1 --json --prometheus 127.0.0.1:9104

At the end it says where all frames went: offered = captured + drops by reason + unexplained. Lost frames are also noted in
the file: at the gap, and in the statistics of each interface, of which every queue has one.")]
pub(crate) struct Capture {
    /// Interface to capture from; can be given more than once
    #[arg(short, long = "interface", value_name = "IF", required = true)]
    pub(crate) interfaces: Vec<String>,
    /// How: auto, recv, recvmmsg, fanout, libpcap, ring, ring-fanout or xdp (which takes the frames from the machine)
    #[arg(long, value_name = "RUNG", default_value = "auto", value_parser = rung)]
    pub(crate) rung: RungChoice,
    /// Only frames that this expression of tcpdump's language matches (`man pcap-filter`)
    #[arg(short, long, value_name = "EXPR", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Bytes kept of a frame
    #[arg(short, long, value_name = "BYTES", default_value_t = MOST_SNAP as u32, value_parser = clap::value_parser!(u32).range(1..=MOST_SNAP))]
    pub(crate) snap: u32,
    /// File to write, which must not be there yet; compressed if it ends in .zst; - is standard output
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
    /// second at 1 M frames/s, as much as that is on the rung]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) buffer: Option<u64>,
    /// Threads per interface that share its frames [default: one for each CPU, four at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// Have this program run the driver's receive routine, in place of interrupts; takes a CPU (rung xdp only)
    #[arg(long)]
    pub(crate) busy_poll: bool,
    /// Do not have the interface take frames for other machines
    #[arg(long)]
    pub(crate) no_promiscuous: bool,
    /// Stop after this many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many frames, for example 1M
    #[arg(long, value_name = "N", value_parser = frame_count)]
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
    #[arg(long, value_name = "ADDR:PORT")]
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
        self.write.as_ref().is_some_and(|path| path.as_os_str() == "-")
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
    /// Stop after this many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
}

/// A way to capture, or the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RungChoice {
    Auto,
    This(Rung),
}

impl RungChoice {
    /// The rung that is asked for; `None` for the best one.
    pub(crate) fn asked(self) -> Option<Rung> {
        match self {
            RungChoice::Auto => None,
            RungChoice::This(rung) => Some(rung),
        }
    }
}

pub(super) fn rung(text: &str) -> Result<RungChoice, String> {
    if text == "auto" {
        return Ok(RungChoice::Auto);
    }
    match text.parse::<Rung>() {
        Ok(_) => capturing_rung(text).map(RungChoice::This),
        Err(error) => Err(format!("{error}, and auto")),
    }
}

/// A rung that hands frames on.
pub(super) fn capturing_rung(text: &str) -> Result<Rung, String> {
    match text.parse::<Rung>().map_err(|error| error.to_string())? {
        Rung::Count => Err("count captures no frame: use another one, or `weir pps`".into()),
        rung => Ok(rung),
    }
}

fn rotation(text: &str) -> Result<Rotation, String> {
    let time = text.strip_suffix('s').and_then(|_| seconds(text).ok()).filter(|time| time.as_secs() > 0);
    let size = bytes(text).ok().filter(|&bytes| bytes >= 1_000_000);
    time.map(Rotation::Time)
        .or(size.map(Rotation::Bytes))
        .ok_or_else(|| format!("`{text}` is neither a size nor a time: use 1MB or more, or 1s or more"))
}

/// A size in bytes: powers of ten, or of two with an i.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1));
    let size = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0).map(|n| n * unit as f64);
    size.filter(|size| *size < 1e18)
        .map(|size| size as u64)
        .ok_or_else(|| format!("`{text}` is no size: use 100MB, 1GB or 1GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_told_apart() {
        assert_eq!(rotation("1GB"), Ok(Rotation::Bytes(1_000_000_000)));
        assert_eq!(rotation("1.5MiB"), Ok(Rotation::Bytes(1_572_864)));
        assert_eq!(rotation("60s"), Ok(Rotation::Time(Duration::from_secs(60))));
        assert_eq!(bytes("512"), Ok(512));
        for text in ["", "0s", "10kB", "60", "s", "-1GB", "1gb", "nanGB"] {
            assert!(rotation(text).unwrap_err().contains("use 1MB or more"), "{text}");
        }
    }
}
