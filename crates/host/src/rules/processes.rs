//! How many descriptors, processes and threads there can be.

use super::count;
use crate::{Ceiling, Effect, Fix, Host, Load};

/// Descriptors that a server has beside those of its connections.
const SPARE: f64 = 64.0;

/// Rules for servers.
pub(super) fn examine(host: &Host, load: &Load) -> Vec<Ceiling> {
    [own_files(host, load), files_of_one(host, load), files_of_all(host, load), tasks(host, load)]
        .into_iter()
        .flatten()
        .collect()
}

/// RLIMIT_NOFILE of this process, which a server started from the same shell would have (proc_pid_limits(5)).
fn own_files(host: &Host, load: &Load) -> Option<Ceiling> {
    let text = host.text("/proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_ascii_whitespace();
    let soft = number(words.next()?);
    let hard = words.next()?;
    let wanted = load.connections as f64 + SPARE;
    let why = format!(
        "A process started from this shell has {soft:.0} descriptors, one for each connection: above this accept() fails with \
         EMFILE, and a server that retries at once spins. The hard limit is {hard}."
    );
    let ceiling = count("open files of a process", soft, wanted, why);
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling.raise(
            format!("{wanted:.0}"),
            format!("No cost until they are used. In the shell: ulimit -n {wanted:.0}; for a service: LimitNOFILE={wanted:.0}."),
        ),
    })
}

/// Up to which a process may raise its own limit.
fn files_of_one(host: &Host, load: &Load) -> Option<Ceiling> {
    let limit = host.sysctl_one("fs.nr_open")?;
    let wanted = load.connections as f64 + SPARE;
    let ceiling = count(
        "fs.nr_open",
        limit,
        wanted,
        "No process can have more descriptors than this, whatever its own limit is.",
    );
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling
            .raise(format!("{wanted:.0}"), "Nothing.")
            .by(Fix::sysctl("fs.nr_open", format!("{wanted:.0}"))),
    })
}

/// Of all processes together.
fn files_of_all(host: &Host, load: &Load) -> Option<Ceiling> {
    let limit = host.sysctl_one("fs.file-max")?;
    // Both ends of a connection may be here, and what else runs has some.
    let wanted = 2.0 * load.connections as f64 + 4096.0;
    let ceiling = count(
        "fs.file-max",
        limit,
        wanted,
        "Most open files of all processes together: above this calls fail with ENFILE.",
    );
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ => ceiling
            .raise(format!("{wanted:.0}"), "About 256 bytes for each open file.")
            .by(Fix::sysctl("fs.file-max", format!("{wanted:.0}"))),
    })
}

/// Processes or threads, for servers that have one for each connection. The least of several limits decides.
fn tasks(host: &Host, load: &Load) -> Option<Ceiling> {
    let limits = [
        ("kernel.pid_max", host.sysctl_one("kernel.pid_max")),
        ("kernel.threads-max", host.sysctl_one("kernel.threads-max")),
        // A thread has a stack and a guard page: two mappings of its process.
        ("vm.max_map_count", host.sysctl_one("vm.max_map_count").map(|maps| maps / 2.0)),
        ("cgroup pids.max", host.number("/sys/fs/cgroup/pids.max")),
    ];
    let known = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
    let (name, limit) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let wanted = load.connections as f64;
    let why = format!(
        "A server with a process or a thread for each connection is limited to {limit:.0}: fork() and pthread_create() then \
         fail with EAGAIN. Servers with an event loop do not reach this limit."
    );
    let mut ceiling = count(name, limit, wanted, why);
    if name == "vm.max_map_count" {
        ceiling.now = format!("{:.0}", 2.0 * limit);
    }
    Some(match ceiling.effect {
        Effect::Fits => ceiling,
        _ if name.starts_with("cgroup") => {
            ceiling.raise(format!("{wanted:.0}"), "Its cgroup sets the limit: TasksMax= of the unit.")
        }
        _ => {
            let value = if name == "vm.max_map_count" { 2.0 * wanted + 1024.0 } else { wanted + 4096.0 };
            ceiling
                .raise(
                    format!("{value:.0}"),
                    "About 10 KiB of kernel memory for each task, plus the used part of its stack.",
                )
                .by(Fix::sysctl(name, format!("{value:.0}")))
        }
    })
}

/// A limit in /proc/self/limits.
fn number(word: &str) -> f64 {
    word.parse().unwrap_or(f64::INFINITY)
}
