//! Programs that detect attacks: how each is configured and called, and how it reports an attack.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::peers::contest::command;

/// Where attacked hosts are: side b of every bed.
const NETWORK: &str = "198.19.0.0/16";

/// A program that detects attacks. It watches until it gets SIGINT.
#[derive(Debug)]
pub(super) struct Detector {
    /// Name in plans, records and reports.
    pub(super) name: &'static str,
    /// Writes its configuration.
    pub(super) configure: fn(&Order<'_>) -> io::Result<()>,
    command: fn(&str, &str) -> Command,
    /// The file of its configuration.
    configuration: &'static str,
    /// Its words when frames arrive at it.
    pub(super) ready: &'static str,
    /// The file with its reports of attacks; its output is in `said`.
    pub(super) reports: &'static str,
    /// The rate of the first attack that was reported, frames/s.
    pub(super) stated_fps: fn(&str) -> Option<f64>,
}

/// The interface to watch, the limit of a host, and a folder for files.
pub(super) struct Order<'a> {
    pub(super) device: &'a str,
    pub(super) limit_fps: f64,
    pub(super) folder: &'a Path,
}

/// `weir detect`.
pub(super) const WEIR: Detector = Detector {
    name: "weir detect",
    configure: |order| {
        let text = format!("networks = [\"{NETWORK}\"]\n[in]\npps = {}\n", order.limit_fps);
        fs::write(order.folder.join("detect.toml"), text)
    },
    command: |device, file| {
        let arguments = "detect -i {device} --json --config {file}";
        command("weir", arguments, &[("{device}", device), ("{file}", file)])
    },
    configuration: "detect.toml",
    ready: "watching ",
    reports: "said",
    stated_fps: |reported| {
        reported.lines().find_map(|line| {
            let event: Value = serde_json::from_str(line).ok()?;
            (event["event"] == "start").then(|| event["rates"]["pps"].as_f64())?
        })
    },
};

/// FastNetMon, the community edition.
const FASTNETMON: Detector = Detector {
    name: "fastnetmon",
    configure: fastnetmon,
    // It writes about attacks below /var/log, whatever one says, and leaves shared memory behind: here both end with it. It
    // aborts when it is asked to end, and leaves no core.
    command: |_, file| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        command.arg(
            "mount -t tmpfs none /var/log && mkdir /var/log/fastnetmon_attacks && \
             mount -t tmpfs none /dev/shm && ulimit -c 0 && \
             exec fastnetmon --configuration_file \"$0\" --log_to_console --disable_pid_logic",
        );
        command.arg(file);
        command
    },
    configuration: "fastnetmon.conf",
    ready: "Start AF_PACKET worker",
    reports: "attacks",
    // The third argument of its script.
    stated_fps: |reported| {
        let line = reported.split_inclusive('\n').find(|line| line.ends_with(" ban\n"))?;
        line.split_whitespace().nth(2)?.parse().ok()
    },
};

/// Those of other projects.
pub(super) const PEERS: [&Detector; 1] = [&FASTNETMON];

impl PartialEq for Detector {
    fn eq(&self, other: &Detector) -> bool {
        self.name == other.name
    }
}

impl Detector {
    /// Its command line.
    pub(super) fn command(&self, order: &Order<'_>) -> Command {
        (self.command)(order.device, &order.folder.join(self.configuration).to_string_lossy())
    }
}

/// The configuration that it comes with, but for these options: nothing is reported to anybody, no port is opened.
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
        for (detector, reported, fps) in [
            (WEIR, "watching t1\n", None),
            (WEIR, "watching t1\n{\"event\":\"start\",\"rates\":{\"pps\":40012.0}}\n", Some(40_012.0)),
            (WEIR, "{\"event\":\"end\",\"rates\":{\"pps\":3.0}}\n", None),
            (WEIR, "{\"event\":\"start\",\"rates\":{\"pps\":400", None),
            (FASTNETMON, "", None),
            (FASTNETMON, "198.19.0.1 incoming 21939 ban", None),
            (
                FASTNETMON,
                "198.19.0.1 incoming 21939 ban\n198.19.0.1 incoming 21939 attack_details\n",
                Some(21_939.0),
            ),
        ] {
            assert_eq!((detector.stated_fps)(reported), fps, "{reported}");
        }
    }

    #[test]
    fn options_take_the_place_of_those_that_are_there() {
        let options = [("a", "1".to_string()), ("c", "3".to_string())];
        assert_eq!(with_options("# a = 9\na = 0\nab=5\n", &options), "# a = 9\nab=5\na = 1\nc = 3\n");
    }
}
