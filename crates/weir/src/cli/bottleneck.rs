//! A bottleneck between two interfaces.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_bottleneck::Settings;

use super::frames::seconds;

/// The example of the help, which a test runs as it is printed.
pub(crate) const EXAMPLE: &str = r"  ip netns add left; ip netns add mid; ip netns add right
  ip link add l0 netns left type veth peer m0 netns mid
  ip link add r0 netns right type veth peer m1 netns mid
  ip -n left addr add 198.18.0.1/24 dev l0; ip -n right addr add 198.18.0.2/24 dev r0
  ip -n left link set l0 up; ip -n mid link set m0 up
  ip -n right link set r0 up; ip -n mid link set m1 up
  ip netns exec mid weir bottleneck m0 m1 --rate 100mbit --delay 20ms --buffer 1bdp --aqm pie &
  link=$!
  ip netns exec right python3 -m http.server --directory /usr/bin 8000 > /dev/null 2>&1 &
  server=$!
  ip netns exec left curl -so /dev/null -w '%{speed_download} bytes/s\n' \
    --retry 9 --retry-all-errors http://198.18.0.2:8000/curl
  kill -INT $link; wait $link; kill $server
  ip netns del left; ip netns del mid; ip netns del right";

const BEFORE: &str = "\
Examples:
  weir bottleneck eth1 eth2 --rate 100mbit --delay 20ms --buffer 1bdp --aqm pie
  weir bottleneck eth1 eth2 --rate 1gbit --delay 50ms --path 198.18.1.0/24=5ms --buffer 0.1bdp --aqm gsp
  weir bottleneck eth1 eth2 --rate lte:20mbit --back-rate none --aqm codel:target_s=0.01 --loss 0.1% --json

Two namespaces and curl (as root):
";

const AFTER: &str = "

Lines on standard input change the settings at run time. They have the names of the options: `rate 50mbit`, `delay 5ms`, `aqm \
codel`, `buffer 0.5bdp`, `path 198.18.1.0/24=5ms`, `loss 1%`. A buffer in bdp or ms is converted to bytes with the rate and delay \
at that moment.

A trace file has a line `SECONDS RATE` for each change: `0 100mbit`, `2.5 10mbit`, `3 0` (a pause); a last line `10 repeat` starts \
it again. wifi:RATE and lte:RATE are random schedules with this mean rate; the same --seed gives the same schedule.

Queue disciplines (--aqm): fifo, red, ared, pie-basic, pie, codel, fq-codel, fq-pie, gsp, gsp-adaptive, dualpi2, cake, \
ppv-drop-min, pvpie, core-stateless; with settings: pie:target_s=0.005,update_s=0.01. The length of a frame includes its Ethernet \
header, not the FCS.

A result is invalid (exit code 3) if the 99th percentile of lateness is more than one slot (the time that 1514 bytes take at the \
rate), or if this program lost frames.";

/// The text below the options.
pub(crate) fn after_help() -> String {
    format!("{BEFORE}{EXAMPLE}{AFTER}")
}

/// `weir bottleneck`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Bottleneck {
    /// First interface; its frames go to IF2
    #[arg(value_name = "IF1")]
    pub(crate) one: String,
    /// Second interface; its frames go to IF1
    #[arg(value_name = "IF2")]
    pub(crate) other: String,
    /// Rate of the link: 100mbit, wifi:50mbit, lte:20mbit or trace:FILE
    #[arg(long, default_value = "100mbit", value_parser = setting("rate"))]
    rate: String,
    /// Rate from IF2 to IF1: as for --rate; same (as --rate); or none (no rate limit, no queue)
    #[arg(long, value_name = "RATE", default_value = "same", value_parser = setting("back-rate"))]
    back_rate: String,
    /// One-way delay after the queue, in each direction: adds twice this to the round-trip time
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = setting("delay"))]
    delay: String,
    /// One-way delay of frames from or to a prefix: 198.18.1.0/24=5ms; repeatable, the first match counts
    #[arg(long, value_name = "PREFIX=TIME", value_parser = setting("path"))]
    path: Vec<String>,
    /// Buffer of each direction: 1bdp (rate times the longest round-trip time), 20ms, 64kB or 1500 (bytes)
    #[arg(long, value_name = "SIZE", default_value = "1bdp", value_parser = setting("buffer"))]
    buffer: String,
    /// Queue discipline of each direction, with optional settings: pie, codel:target_s=0.01
    #[arg(long, value_name = "QUEUE", default_value = "fifo", value_parser = setting("aqm"))]
    aqm: String,
    /// Loss ratio after the queue: 0.1%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = setting("loss"))]
    loss: String,
    /// Mean length of a loss burst, in frames
    #[arg(long, value_name = "FRAMES", default_value = "1", value_parser = setting("burst"))]
    burst: String,
    /// Maximum extra delay, uniformly distributed; frames keep their order
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = setting("jitter"))]
    jitter: String,
    /// Share of frames that are delayed by --reorder-by, so that later frames overtake them
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = setting("reorder"))]
    reorder: String,
    /// Extra delay of the frames that --reorder selects
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = setting("reorder-by"))]
    reorder_by: String,
    /// Seed of all random decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this many seconds [default: at Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// Seconds between two lines of output
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// At the end, write the arrival and the fate of each frame to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Run on this CPU
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
    /// Write one JSON object per interval to standard output; the last line is the result
    #[arg(long)]
    pub(crate) json: bool,
}

/// Checks the value of a setting; an error has the option's name.
fn setting(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |value| Settings::default().set(name, value).map(|()| value.to_string())
}

impl Bottleneck {
    /// Its settings.
    ///
    /// # Errors
    /// The first invalid option, with its name.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let mut settings = Settings { seed: self.seed, ..Settings::default() };
        let paths = self.path.iter().map(|path| ("path", path));
        let all = [
            ("rate", &self.rate),
            ("back-rate", &self.back_rate),
            ("delay", &self.delay),
            ("buffer", &self.buffer),
            ("aqm", &self.aqm),
            ("loss", &self.loss),
            ("burst", &self.burst),
            ("jitter", &self.jitter),
            ("reorder", &self.reorder),
            ("reorder-by", &self.reorder_by),
        ];
        for (name, value) in all.into_iter().chain(paths) {
            settings.set(name, value).map_err(|error| format!("--{name}: {error}"))?;
        }
        (0..2)
            .try_for_each(|way| settings.bottleneck(way).map(drop))
            .map_err(|error| format!("--buffer: {error}"))?;
        Ok(settings)
    }
}
