//! The configuration and command line of each detection program, and its report of an attack.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::detect_peers::plan::DetectPeer;

/// Where attacked hosts are: side b of every bed.
const NETWORK: &str = "198.19.0.0/16";

/// A program that watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detector {
    /// `weir detect`.
    Weir,
    /// Another one.
    Peer(DetectPeer),
}

/// What it is to watch, and where its files are.
pub(super) struct Order<'a> {
    /// The interface.
    pub(super) device: &'a str,
    /// What a host may get.
    pub(super) limit_fps: f64,
    /// A folder of its own.
    pub(super) folder: &'a Path,
}

impl Detector {
    /// Its name in records and reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Detector::Weir => "weir detect",
            Detector::Peer(peer) => peer.name(),
        }
    }

    /// Writes its configuration.
    pub(super) fn configure(self, order: &Order<'_>) -> io::Result<()> {
        match self {
            Detector::Weir => {
                let text = format!("networks = [\"{NETWORK}\"]\n[in]\npps = {}\n", order.limit_fps);
                fs::write(order.folder.join("detect.toml"), text)
            }
            Detector::Peer(DetectPeer::FastNetMon) => fastnetmon(order),
        }
    }

    /// Its command line: it watches until it gets SIGINT.
    pub(super) fn command(self, order: &Order<'_>) -> Command {
        match self {
            Detector::Weir => {
                let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "weir".into()));
                command.args(["detect", "-i", order.device, "--json", "--config"]);
                command.arg(order.folder.join("detect.toml"));
                command
            }
            // It writes about attacks below /var/log, whatever one says, and leaves shared memory behind: here both end with
            // it. It aborts when it is asked to end, and leaves no core.
            Detector::Peer(DetectPeer::FastNetMon) => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c"]);
                command.arg(
                    "mount -t tmpfs none /var/log && mkdir /var/log/fastnetmon_attacks && \
                     mount -t tmpfs none /dev/shm && ulimit -c 0 && \
                     exec fastnetmon --configuration_file \"$0\" --log_to_console --disable_pid_logic",
                );
                command.arg(order.folder.join("fastnetmon.conf"));
                command
            }
        }
    }

    /// The line that it prints once it receives frames.
    pub(super) fn ready(self) -> &'static str {
        match self {
            Detector::Weir => "watching ",
            Detector::Peer(DetectPeer::FastNetMon) => "Start AF_PACKET worker",
        }
    }

    /// Where it tells of attacks; `said` is what it writes to its output.
    pub(super) fn tells(self, said: &Path, folder: &Path) -> PathBuf {
        match self {
            Detector::Weir => said.into(),
            Detector::Peer(DetectPeer::FastNetMon) => folder.join("attacks"),
        }
    }

    /// The rate of the first attack that was reported, frames/s.
    pub(super) fn stated_fps(self, reported: &str) -> Option<f64> {
        match self {
            Detector::Weir => reported.lines().find_map(|line| {
                let event: Value = serde_json::from_str(line).ok()?;
                (event["event"] == "start").then(|| event["rates"]["pps"].as_f64())?
            }),
            // Of its script's arguments the third.
            Detector::Peer(DetectPeer::FastNetMon) => {
                let line = reported.split_inclusive('\n').find(|line| line.ends_with(" ban\n"))?;
                line.split_whitespace().nth(2)?.parse().ok()
            }
        }
    }
}

/// The configuration that it comes with, with these options in place of its own: nothing is reported over the network, no
/// port is opened.
fn fastnetmon(order: &Order<'_>) -> io::Result<()> {
    let path = |name: &str| order.folder.join(name).display().to_string();
    let options = [
        ("disable_usage_report", "on".to_string()),
        ("enable_api", "off".into()),
        ("prometheus", "off".into()),
        ("monitor_local_ip_addresses", "off".into()),
        ("mirror_afpacket", "on".into()),
        ("interfaces", order.device.into()),
        ("threshold_pps", format!("{:.0}", order.limit_fps)),
        ("networks_list_path", path("networks")),
        ("white_list_path", path("none")),
        ("notify_script_path", path("notify")),
        ("pid_path", path("pid")),
        ("cli_stats_file_path", path("stats")),
        ("cli_stats_ipv6_file_path", path("stats6")),
    ];
    let shipped = fs::read_to_string("/etc/fastnetmon.conf").unwrap_or_default();
    fs::write(path("fastnetmon.conf"), with_options(&shipped, &options))?;
    fs::write(path("networks"), format!("{NETWORK}\n"))?;
    fs::write(path("none"), "")?;
    let script = format!("#!/bin/sh\necho \"$*\" >> {}\ncat > /dev/null\n", path("attacks"));
    fs::write(path("notify"), script)?;
    fs::set_permissions(path("notify"), fs::Permissions::from_mode(0o755))?;
    // That of the last attack.
    match fs::remove_file(path("attacks")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_options(text: &str, options: &[(&str, String)]) -> String {
    let name = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_string());
    let kept =
        text.lines().filter(|line| name(line).is_none_or(|name| options.iter().all(|(o, _)| *o != name)));
    let lines =
        kept.map(str::to_string).chain(options.iter().map(|(name, value)| format!("{name} = {value}")));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attack_counts_and_only_when_it_is_reported_whole() {
        let (weir, fastnetmon) = (Detector::Weir, Detector::Peer(DetectPeer::FastNetMon));
        for (detector, reported, fps) in [
            (weir, "watching t1\n", None),
            (weir, "watching t1\n{\"event\":\"start\",\"rates\":{\"pps\":40012.0}}\n", Some(40_012.0)),
            (weir, "{\"event\":\"end\",\"rates\":{\"pps\":3.0}}\n", None),
            (weir, "{\"event\":\"start\",\"rates\":{\"pps\":400", None),
            (fastnetmon, "", None),
            (fastnetmon, "198.19.0.1 incoming 21939 ban", None),
            (
                fastnetmon,
                "198.19.0.1 incoming 21939 ban\n198.19.0.1 incoming 21939 attack_details\n",
                Some(21_939.0),
            ),
        ] {
            assert_eq!(detector.stated_fps(reported), fps, "{reported}");
        }
    }

    #[test]
    fn options_take_the_place_of_those_that_are_there() {
        let options = [("a", "1".to_string()), ("c", "3".to_string())];
        assert_eq!(with_options("# a = 9\na = 0\nab=5\n", &options), "# a = 9\nab=5\na = 1\nc = 3\n");
    }
}
