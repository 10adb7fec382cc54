//! The agent of a device under test: `weir agent device`, see [`crate::external`].

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
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

/// Serves until the other host ends the connection; `machine` is what is said of this host.
pub fn serve(machine: impl Serialize) {
    let mut ports: Vec<String> = Vec::new();
    for request in Requests::open(machine) {
        match request {
            Request::SetUp { script, mut interfaces } => {
                interfaces.dedup();
                ports = interfaces;
                say(run(&script));
            }
            Request::Reset => say(conntrack::flush().map_err(|error| error.to_string())),
            Request::Read => say(read(&ports).map_err(|error| error.to_string())),
        }
    }
}

/// Runs a script of a root shell.
fn run(script: &str) -> std::result::Result<(), String> {
    let failed = |error: std::io::Error| format!("the set-up cannot be run: {error}");
    let mut command = Command::new("sh");
    command.arg("-e").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let complained = thread::spawn(move || stderr.map(ssh::end_of).unwrap_or_default());
    // A shell that ends early says why.
    drop(stdin.map(|mut stdin| stdin.write_all(script.as_bytes())));
    let status = child.wait().map_err(failed)?;
    let complained = complained.join().unwrap_or_default();
    if status.success() {
        return Ok(());
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
