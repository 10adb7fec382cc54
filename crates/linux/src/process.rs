//! Identifies the process that wrote a file, so that another one can check whether it still runs: its machine, the boot of that
//! machine, and its PID namespace.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

/// Where process numbers mean something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The machine.
    pub host: String,
    /// Its start.
    pub boot: String,
    /// Number of the PID namespace.
    pub pid_namespace: u64,
}

impl Origin {
    /// That of this process.
    pub fn here() -> Origin {
        let text = |path: &str| weir_disk::kernel_text(path).map(|text| text.trim().replace('-', "")).ok();
        let host = text("/etc/machine-id").filter(|id| !id.is_empty());
        let pid_namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino());
        Origin {
            host: host.or_else(|| text("/proc/sys/kernel/hostname")).unwrap_or_default(),
            boot: text("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            pid_namespace,
        }
    }
}

/// Lets the kernel kill the command when the thread that starts it ends.
pub fn dying_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: one prctl(2) between fork and exec: async-signal-safe, no allocation.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) }
}

/// Names this process so that it cannot be taken for a later one with the same number, or for one of another machine.
pub fn this_process() -> String {
    let pid = std::process::id();
    let start_time = start_time(pid).expect("this process runs");
    let Origin { host, boot, pid_namespace } = Origin::here();
    format!("{pid}-{start_time}-{pid_namespace}-{boot}-{host}")
}

/// Whether the process that [`this_process`] identified may still run. This includes any process in another PID namespace or on
/// another machine.
pub fn is_alive(process: &str) -> bool {
    let mut parts = process.splitn(5, '-');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (Some(pid), Some(started)) = (number(), number()) else { return false };
    let runs = || u32::try_from(pid).is_ok_and(|pid| start_time(pid).is_ok_and(|time| time == started));
    let namespace = number();
    let (Some(pid_namespace), Some(boot), Some(host)) = (namespace, parts.next(), parts.next()) else {
        return runs();
    };
    let here = Origin::here();
    if host != here.host {
        return true;
    }
    boot == here.boot && (pid_namespace != here.pid_namespace || runs())
}

/// Start time of a process in clock ticks since boot: proc(5), /proc/PID/stat, field 22. A zombie counts
/// as dead.
pub fn start_time(pid: u32) -> io::Result<u64> {
    let stat = weir_disk::kernel_text(format!("/proc/{pid}/stat"))?;
    // The second field is a name in parentheses that may hold spaces and parentheses.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return Err(ErrorKind::NotFound.into());
    }
    fields.nth(18).and_then(|field| field.parse().ok()).ok_or_else(|| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_that_of_its_machine_its_start_and_its_namespace() {
        let this = this_process();
        assert!(is_alive(&this), "{this}");
        let parts: Vec<&str> = this.splitn(5, '-').collect();
        let with = |n: usize, other: &str| {
            let mut parts = parts.clone();
            parts[n] = other;
            is_alive(&parts.join("-"))
        };
        assert!(!with(1, "7") && !with(3, "0"), "another process, or the machine was started again");
        assert!(
            with(2, "7") && with(4, "other"),
            "a process in another PID namespace or on another host may run"
        );
        let earlier_form = parts[..2].join("-");
        assert!(is_alive(&earlier_form) && !is_alive("1-7") && !is_alive("no process"));
    }
}
