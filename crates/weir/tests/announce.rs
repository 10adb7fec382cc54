//! What `weir detect` has announced is taken back, whatever happens: with a pipe and a program that stand for BGP daemons.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use weir_testkit::{Folder, PATIENCE, Started, output};

use crate::attack::{self, capture, limited, many_hosts, text};
use crate::weir::{self, WEIR};
use weir_testkit::pair::Pair;

const ANNOUNCE: &str = "announce route 198.19.0.9/32 next-hop 192.0.2.1 community [65535:666]\n";
const WITHDRAW: &str = "withdraw route 198.19.0.9/32 next-hop 192.0.2.1\n";

/// A pipe with a name.
fn pipe(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    path
}

/// The end of a pipe that ExaBGP reads.
struct ExaBgp(BufReader<File>);

impl ExaBgp {
    /// It has no end as long as this is there.
    fn at(path: &Path) -> ExaBgp {
        ExaBgp(BufReader::new(OpenOptions::new().read(true).write(true).open(path).unwrap()))
    }

    fn line(&mut self) -> String {
        let mut poll = libc::pollfd { fd: self.0.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd that lives through the call.
        let came = unsafe { libc::poll(&raw mut poll, 1, PATIENCE.as_millis() as i32) };
        assert!(!self.0.buffer().is_empty() || came == 1, "no more lines");
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }
}

/// A configuration that announces through a pipe; attacks end after `end_s`.
fn config(folder: &Folder, exabgp: &Path, end_s: u32) -> PathBuf {
    let contents = format!(
        "networks = [\"198.19.0.0/16\"]\n[in]\npps = 20_000\n[events]\nend_s = {end_s}\n[announce]\ndaemon = \"exabgp\"\n\
         next_hop = \"192.0.2.1\"\nsend = true\nhold_s = 0\npipe = \"{}\"\nstate = \"{}\"\n",
        text(exabgp),
        text(&state(folder))
    );
    folder.file("announce.toml", contents)
}

fn state(folder: &Folder) -> PathBuf {
    folder.join("deep/announced")
}

/// Waits until the file of what is announced holds what is expected.
fn await_state(folder: &Folder, expected: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = fs::read_to_string(state(folder)).unwrap_or_default();
        if expected(&found) {
            return;
        }
        assert!(Instant::now() < deadline, "{found}");
        std::thread::yield_now();
    }
}

/// A detector that reads what is written into a pipe, as a wire brings it.
fn started(pair: &Pair, wire: &Path, config: &Path) -> Started {
    let line = format!("detect --read {} --announce --config {} --json", text(wire), text(config));
    weir::start(&pair.there, &line, "")
}

#[test]
fn what_a_killed_detector_has_announced_is_withdrawn_by_the_next() {
    let Some(pair) = Pair::new() else { return };
    let folder = Folder::new();
    let exabgp = pipe(&folder, "exabgp.in");
    let mut daemon = ExaBgp::at(&exabgp);
    let (wire, config) = (pipe(&folder, "wire"), config(&folder, &exabgp, 3600));
    let watching = started(&pair, &wire, &config);
    let mut sender = OpenOptions::new().write(true).open(&wire).unwrap();
    sender.write_all(&capture(30_000, 7)).unwrap();
    assert_eq!(daemon.line(), ANNOUNCE);
    await_state(&folder, |state| state.contains(WITHDRAW.trim()));
    // No other process may withdraw it meanwhile.
    let calm = folder.file("calm.pcapng", capture(100, 5));
    let line = format!("detect --read {} --announce --config {}", text(&calm), text(&config));
    let kept = state(&folder).display().to_string();
    let why = format!("another `weir detect` uses {kept}: set announce.state to a file of its own");
    weir::refused(&pair.there, &line, &why);
    watching.signal(libc::SIGKILL);
    assert_eq!(watching.end().code, None);
    let after = weir::run(&pair.there, &line);
    let said = String::from_utf8_lossy(&after.stderr);
    assert!(after.status.success() && said.contains("1 announcements in"), "{said}");
    assert_eq!(daemon.line(), WITHDRAW);
    assert_eq!(fs::read_to_string(state(&folder)).unwrap(), "");
    // A command that weir did not write is not sent to a daemon.
    fs::write(state(&folder), "exabgp\t/x\tshutdown\n").unwrap();
    let why = format!(
        "line 1 of {kept} is no announcement of weir: withdraw the routes in the file by hand and remove it, or set \
         announce.state to another file"
    );
    weir::refused(&pair.there, &line, &why);
}

#[test]
fn a_withdrawal_is_repeated_until_exabgp_reads_again() {
    let Some(pair) = Pair::new() else { return };
    let folder = Folder::new();
    let exabgp = pipe(&folder, "exabgp.in");
    let mut daemon = ExaBgp::at(&exabgp);
    let (wire, config) = (pipe(&folder, "wire"), config(&folder, &exabgp, 1));
    let mut watching = started(&pair, &wire, &config);
    let mut sender = OpenOptions::new().write(true).open(&wire).unwrap();
    let all = capture(30_000, 9);
    // The attack goes on at the half.
    let (first, rest) = all.split_at(all.len() / 2);
    sender.write_all(first).unwrap();
    assert_eq!(daemon.line(), ANNOUNCE);
    assert_eq!(watching.json::<Value>("")["announcement"]["sent"], true);
    drop(daemon);
    sender.write_all(rest).unwrap();
    watching.await_words("retrying: withdraw route 198.19.0.9/32");
    await_state(&folder, |state| state.contains(WITHDRAW.trim()));
    let mut daemon = ExaBgp::at(&exabgp);
    assert_eq!(daemon.line(), WITHDRAW);
    await_state(&folder, str::is_empty);
    drop(sender);
    assert_eq!(watching.end().code, Some(0));
}

#[test]
fn what_is_announced_is_withdrawn_at_the_end_by_a_program_that_fails_at_first() {
    let folder = Folder::new();
    let said = folder.join("said");
    let first = folder.join("first");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {0}\n[ \"$5\" = add ] || [ -e {1} ] || {{ touch {1}; exit 1; }}\n",
        text(&said),
        text(&first)
    );
    fs::set_permissions(folder.file("gobgp", script), fs::Permissions::from_mode(0o755)).unwrap();
    let config = folder.file(
        "announce.toml",
        format!(
            "networks = [\"198.19.0.0/16\"]\n[in]\npps = 20_000\n[events]\nend_s = 3600\n[announce]\ndaemon = \"gobgp\"\n\
             next_hop = \"192.0.2.1\"\nsend = true\nstate = \"{}\"\n",
            text(&state(&folder))
        ),
    );
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let path = format!("{}:{}", text(&folder), std::env::var("PATH").unwrap());
    let command = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(["detect", "--read", text(&file), "--config", text(&config), "--json"]).args(words);
        output(command.env("PATH", &path)).unwrap()
    };
    // A file of yesterday is no reason to drop traffic today.
    let shown = String::from_utf8(command(&[]).stdout).unwrap();
    assert!(shown.contains(r#""reason":"read from a file: --announce sends it","sent":false"#), "{shown}");
    assert!(!said.exists() && !state(&folder).exists());
    let ended = command(&["--announce"]);
    let notes = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && notes.contains("retrying: gobgp global rib"), "{notes}");
    let del = "global rib -a ipv4 del 198.19.0.9/32\n";
    let add = "global rib -a ipv4 add 198.19.0.9/32 nexthop 192.0.2.1 community 65535:666\n";
    assert_eq!(fs::read_to_string(said).unwrap(), [add, del, del].concat());
    assert_eq!(fs::read_to_string(state(&folder)).unwrap(), "");
}

#[test]
fn why_an_attack_is_not_announced_stands_in_its_event() {
    let folder = Folder::new();
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    for (option, reason) in [
        ("never = [\"198.19.0.0/24\"]", "198.19.0.0/24 is never announced: announce.never"),
        ("send = false", "send = false"),
    ] {
        let announce = format!("[announce]\ndaemon = \"gobgp\"\nnext_hop = \"192.0.2.1\"\n{option}\n");
        let config = limited(&folder, 20_000, &announce);
        let mut command = Command::new(WEIR);
        command.args(["detect", "--read", text(&file), "--config", text(&config), "--json"]);
        let lines = output(&mut command).unwrap().stdout;
        let start: Value =
            serde_json::from_slice(lines.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        let announcement = &start["announcement"];
        assert_eq!(
            (&announcement["sent"], &announcement["reason"]),
            (&false.into(), &reason.into()),
            "{start}"
        );
    }
}

#[test]
fn a_script_that_does_not_end_is_killed() {
    let folder = Folder::new();
    let script = folder.file("script", "#!/bin/sh\nsleep 3600 & wait\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config =
        limited(&folder, 20_000, &format!("[actions]\nscript = \"{}\"\nscript_s = 0.1\n", text(&script)));
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let mut command = Command::new(WEIR);
    let ended = output(command.args(["detect", "--read", text(&file), "--config", text(&config)])).unwrap();
    let notes = String::from_utf8_lossy(&ended.stderr);
    let killed = notes.matches("did not end within 100ms and was killed, with its child processes").count();
    assert_eq!((ended.status.code(), killed), (Some(0), 2), "{notes}");
}

#[test]
fn hosts_that_are_not_watched_are_reported_when_that_begins() {
    let folder = Folder::new();
    let file = folder.file("many.pcapng", many_hosts(5000));
    let config = limited(&folder, 100, "");
    let mut command = Command::new(WEIR);
    command.args(["detect", "--read", text(&file), "--config", text(&config), "--json"]);
    let ended = output(&mut command).unwrap();
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let [gap, status] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&gap["event"], &gap["gap"]), (&"gap".into(), &"unwatched".into()), "{gap}");
    assert!(gap["time_ns"].as_u64().unwrap() < attack::BEGIN_NS + 500_000_000, "{gap}");
    // In each slot but the first.
    assert_eq!(status["unwatched"], 2 * (5000 - 4096), "{status}");
    let mut said = String::new();
    (&ended.stderr[..]).read_to_string(&mut said).unwrap();
    assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""));
}
