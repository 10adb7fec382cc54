//! The agent of a device under test: `weir agent device`, see [`crate::external`].
//!
//! ```text
//! lock > undo what a killed agent has left > ask for what is there > write undo.sh > set up ... undo.sh at the end
//! ```
//! One agent at a time: the next one waits for the lock, so that the undoing of an earlier one does not change its set-up.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Serialize;
use weir_agent::serve::{Requests, say};
use weir_agent::ssh;
use weir_linux::{conntrack, cpu};

use crate::counters::{ip_counters, softnet_counters};
use crate::error::{Error, Result};
use crate::external::device::{CPU_NS, INTERFACE_DROPS, Reading, Request};
use crate::interface::read_device;
use crate::memory::KernelMemory;

/// Why a set-up is refused without root.
const NO_ROOT: &str =
    "it can be configured by root only: use `ssh = \"root@...\"`, or `weir = \"sudo -n weir\"`";

/// Serves until the other host ends the connection; `machine` is what is said of this host. The device is then as it was.
pub fn serve(machine: impl Serialize) {
    let mut ports: Vec<String> = Vec::new();
    let undo = Arc::new(Undo::default());
    let at_end = undo.clone();
    for request in Requests::open_with(machine, move || drop(at_end.run())) {
        match request {
            Request::SetUp { script, mut interfaces } => {
                interfaces.dedup();
                ports = interfaces;
                let ready = if weir_disk::is_root() { check(&ports) } else { Err(NO_ROOT.into()) };
                say(ready.and_then(|()| undo.prepare(&script)).and_then(|()| run(&script).map(drop)));
            }
            Request::Reset => say(conntrack::flush().map_err(|error| error.to_string())),
            Request::Read => say(read(&ports).map_err(|error| error.to_string())),
        }
    }
}

/// Refuses interfaces that the device does not have, before anything is changed.
fn check(ports: &[String]) -> std::result::Result<(), String> {
    let text = weir_disk::kernel_text("/proc/thread-self/net/dev").unwrap_or_default();
    let here: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    match ports.iter().find(|port| !here.contains(&port.as_str())) {
        Some(port) => Err(format!("it has no interface {port}: use {} in `ports`", here.join(", "))),
        None => Ok(()),
    }
}

/// What undoes the set-up: a script on disk, from before the set-up until it has run.
#[derive(Default)]
struct Undo {
    /// Held while there is something to undo.
    lock: Mutex<Option<File>>,
}

impl Undo {
    fn file() -> PathBuf {
        weir_disk::state_folder().join("device-undo.sh")
    }

    /// Undoes what is left of before, and writes down how to undo this set-up.
    fn prepare(&self, script: &str) -> std::result::Result<(), String> {
        let failed = |error: io::Error| format!("cannot write down how to undo the set-up: {error}");
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            let folder = weir_disk::state_folder();
            fs::create_dir_all(&folder).map_err(failed)?;
            let file = weir_disk::keep(&folder.join("device.lock"), 0o600).map_err(failed)?;
            file.lock().map_err(failed)?;
            *lock = Some(file);
        }
        undo()?;
        let lines = run(&looks(script))?;
        let undo: String = lines.lines().rev().map(|line| format!("{line}\n")).collect();
        weir_disk::replace(&Undo::file(), undo.as_bytes(), 0o600).map_err(failed)
    }

    /// Undoes the set-up, if there was one.
    fn run(&self) -> std::result::Result<(), String> {
        // Another agent has the lock otherwise, and the file is its own.
        match *self.lock.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => undo(),
            None => Ok(()),
        }
    }
}

/// Runs the script on disk, if there is one, and removes it.
fn undo() -> std::result::Result<(), String> {
    let file = Undo::file();
    let Ok(script) = fs::read_to_string(&file) else { return Ok(()) };
    // Each line by itself: what is gone already needs no undoing.
    script.lines().for_each(|line| drop(run(line)));
    fs::remove_file(&file).map_err(|error| format!("cannot remove {}: {error}", file.display()))
}

/// A script that prints the command which undoes each command of a set-up, if it changes anything here.
fn looks(script: &str) -> String {
    script.lines().filter_map(look).map(|line| line + "\n").collect()
}

fn look(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    Some(match words[..] {
        ["sysctl", "-q", "-w", change] => {
            let (name, _) = change.split_once('=')?;
            format!("echo \"sysctl -q -w {name}=$(cat /proc/sys/{name})\"")
        }
        ["ip", "link", "set", port, "up"] => {
            format!("ip -o link show dev {port} up | grep -q . || echo ip link set {port} down")
        }
        ["ip", "address", "replace", address, "dev", port, ..] => format!(
            "ip -o address show dev {port} | grep -qF ' {address} ' || echo ip address del {address} dev {port}"
        ),
        ["ip", "route", "replace", network, "via", gateway, "dev", port] => {
            let family = if network.contains(':') { "-6" } else { "-4" };
            format!(
                "ip {family} route show {network} | grep -q . || echo ip route del {network} via {gateway} dev {port}"
            )
        }
        ["add", "table", family, table] => format!(
            "nft list table {family} {table} >/dev/null 2>&1 || echo nft delete table {family} {table}"
        ),
        _ => return None,
    })
}

/// Runs a script of a root shell; returns what it prints.
fn run(script: &str) -> std::result::Result<String, String> {
    let failed = |error: std::io::Error| format!("the set-up cannot be run: {error}");
    let mut command = Command::new("sh");
    command.arg("-e").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let complained = thread::spawn(move || stderr.map(ssh::end_of).unwrap_or_default());
    let said = thread::spawn(move || {
        let mut said = String::new();
        // What came before an error counts.
        let _ = stdout.map(|mut stdout| stdout.read_to_string(&mut said));
        said
    });
    // A shell that ends early says why.
    drop(stdin.map(|mut stdin| stdin.write_all(script.as_bytes())));
    let status = child.wait().map_err(failed)?;
    let (said, complained) = (said.join().unwrap_or_default(), complained.join().unwrap_or_default());
    if status.success() {
        return Ok(said);
    }
    Err(format!("the set-up failed: {}", ssh::why(status, &complained)))
}

fn read(ports: &[String]) -> Result<Reading> {
    let mut reading = Reading::default();
    let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    for name in ports {
        let link = read_device(name)?.link;
        let values = [link.rx_missed, link.rx_errors, link.rx_dropped, link.tx_errors, link.tx_dropped];
        let named = INTERFACE_DROPS.iter().zip(values);
        reading.counters.extend(named.map(|(drop, value)| (format!("{name} {drop}"), count(value))));
    }
    let table = conntrack::stats().map_err(Error::from)?;
    let ip = ip_counters();
    let sum = |names: &[&str]| names.iter().filter_map(|name| ip.get(*name)).sum::<u64>();
    let busy_ns: u64 = cpu::times().values().map(|times| times.busy_ns).sum();
    reading.counters.extend(
        [
            ("backlog full", softnet_counters().values().map(|cpu| cpu.dropped).sum()),
            ("conntrack", table.drop + table.chain_too_long),
            ("discarded", sum(&["Ip.InDiscards", "Ip.OutDiscards", "Ip6InDiscards", "Ip6OutDiscards"])),
            ("no route", sum(&["IpExt.InNoRoutes", "Ip.OutNoRoutes", "Ip6InNoRoutes", "Ip6OutNoRoutes"])),
            (CPU_NS, busy_ns),
        ]
        .map(|(name, value)| (name.to_string(), count(value))),
    );
    reading.memory =
        memory(table.entries).into_iter().map(|(name, bytes)| (name.into(), count(bytes))).collect();
    Ok(reading)
}

/// Memory of the kernel, bytes.
fn memory(entries: u64) -> BTreeMap<&'static str, u64> {
    let kernel = KernelMemory::now();
    let slab = kernel.slab_bytes.map(|bytes| ("slab", bytes));
    slab.into_iter().chain(kernel.conntrack_bytes(entries).map(|bytes| ("conntrack", bytes))).collect()
}

#[cfg(test)]
mod tests {
    use weir_packet::flow::IpVersion;

    use super::*;
    use crate::setup::{Mode, Os, Setup};

    #[test]
    fn each_command_of_a_set_up_has_one_that_undoes_it() {
        for ip in [IpVersion::V4, IpVersion::V6] {
            let interfaces = ["eth1", "eth2"].map(String::from);
            let setup =
                Setup { os: Os::LinuxNft, mode: Mode::Stateful, nat: false, rules: 25, interfaces, ip };
            let script = setup.text().expect("right");
            let is_change = |line: &&str| {
                ["sysctl", "ip ", "add table"].iter().any(|start| line.starts_with(start))
                    && !line.contains("saddr")
            };
            let changes: Vec<&str> = script.lines().filter(is_change).collect();
            let wrong: Vec<_> = changes.iter().filter(|line| look(line).is_none()).collect();
            assert!(wrong.is_empty() && changes.len() >= 8, "{wrong:?} of {changes:?}");
        }
    }

    #[test]
    fn interfaces_that_are_not_there_are_refused() {
        assert_eq!(check(&["lo".into()]), Ok(()));
        let unknown = check(&["eth 7".into()]).unwrap_err();
        assert!(
            unknown.starts_with("it has no interface eth 7: use ") && unknown.contains("lo"),
            "{unknown}"
        );
    }

    #[test]
    fn what_was_there_before_stays() {
        let route = look("ip route replace 198.18.0.0/16 via 198.18.1.2 dev eth1").expect("a change");
        let expected = "ip -4 route show 198.18.0.0/16 | grep -q . || echo ip route del 198.18.0.0/16 via 198.18.1.2 dev eth1";
        assert_eq!(route, expected);
        assert_eq!(run("echo one; echo two"), Ok("one\ntwo\n".into()));
        assert!(run("echo no >&2; exit 3").unwrap_err().ends_with("exit code 3: no"));
        assert_eq!(looks("# a comment\n chain forwarding {\n"), "");
    }
}
