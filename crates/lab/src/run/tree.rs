//! A process and all that it has started, as /proc shows them.

use std::collections::BTreeSet;
use std::fs;

use weir_apps::sys::{Usage, process_time_ns};

/// The kernel's stack of a task (THREAD_SIZE of x86-64 and arm64).
const KERNEL_STACK_KIB: u64 = 16;

/// Memory of a process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Pages of data, shared ones in equal parts, with the tables that map pages and the kernel's stacks, KiB. Without what
    /// sockets take, and without the program's text, which other processes share too.
    pub kib: u64,
    /// Threads of all processes.
    pub tasks: u64,
}

fn processes(root: u32) -> BTreeSet<u32> {
    let (mut found, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(pid) = next.pop() {
        if found.insert(pid) {
            let children = |thread: u32| {
                let text =
                    weir_disk::kernel_text(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
                text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
            };
            next.extend(threads(pid).into_iter().flat_map(children));
        }
    }
    found
}

fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// What those that live have used so far.
pub(crate) fn usage(root: u32) -> Usage {
    let mut usage = Usage::default();
    for pid in processes(root) {
        usage.cpu_ns += process_time_ns(pid).unwrap_or(0);
        for thread in threads(pid) {
            let status =
                weir_disk::kernel_text(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
            usage.switches += sum(&status, &["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"]);
        }
    }
    usage
}

/// The memory of those that live.
pub fn memory(root: u32) -> Memory {
    let mut memory = Memory::default();
    for pid in processes(root) {
        let read = |file| weir_disk::kernel_text(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let tasks = threads(pid).len() as u64;
        let pages = sum(&read("smaps_rollup"), &["Pss_Anon:"]);
        memory.kib += pages + sum(&read("status"), &["VmPTE:"]) + tasks * KERNEL_STACK_KIB;
        memory.tasks += tasks;
    }
    memory
}

/// The sum of the numbers behind these names at the beginning of a line.
fn sum(text: &str, names: &[&str]) -> u64 {
    let number = |line: &str| -> Option<u64> {
        let mut words = line.split_whitespace();
        names.contains(&words.next()?).then(|| words.next()?.parse().ok())?
    };
    text.lines().filter_map(number).sum()
}

/// CPU time of a process tree.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgramTime {
    /// Exact.
    pub run_ns: u64,
    /// How that is divided.
    system_ticks: u64,
    user_ticks: u64,
}

impl ProgramTime {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &ProgramTime) -> ProgramTime {
        let [run_ns, system_ticks, user_ticks] = [
            (self.run_ns, earlier.run_ns),
            (self.system_ticks, earlier.system_ticks),
            (self.user_ticks, earlier.user_ticks),
        ]
        .map(|(now, before)| now.saturating_sub(before));
        ProgramTime { run_ns, system_ticks, user_ticks }
    }

    /// The part of it in the kernel.
    pub fn system_ns(&self) -> u64 {
        let ticks = (self.system_ticks + self.user_ticks).max(1);
        (self.run_ns as f64 * self.system_ticks as f64 / ticks as f64) as u64
    }
}

/// CPU time of those that live, so far.
pub(crate) fn time(root: u32) -> ProgramTime {
    let mut time = ProgramTime::default();
    for pid in processes(root) {
        time.run_ns += process_time_ns(pid).unwrap_or(0);
        let (user, system) = ticks(pid).unwrap_or_default();
        (time.user_ticks, time.system_ticks) = (time.user_ticks + user, time.system_ticks + system);
    }
    time
}

/// Ticks of a process in user mode and in the kernel: proc(5), /proc/PID/stat, fields 14 and 15.
fn ticks(pid: u32) -> Option<(u64, u64)> {
    let stat = weir_disk::kernel_text(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Has it ended without having been waited for, or is it gone?
pub(crate) fn is_zombie(pid: u32) -> bool {
    let stat = weir_disk::kernel_text(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may have any characters.
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "Name:\tvoluntary_ctxt_switches: 9\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\nVmPTE:\t  44 kB\n";
        assert_eq!(sum(text, &["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"]), 12);
        assert_eq!((sum(text, &["VmPTE:"]), sum(text, &["Pss_Anon:"])), (44, 0));
    }

    #[test]
    fn a_tree_has_all_its_processes() {
        let script = "sleep 60 & a=$!; sleep 60 & read line; kill $a $!";
        let mut command = std::process::Command::new("sh");
        let command = command.args(["-c", script]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        while processes(child.id()).len() < 3 {
            assert!(!is_zombie(child.id()));
            std::thread::yield_now();
        }
        let found = memory(child.id());
        assert!(found.tasks == 3 && found.kib > 3 * KERNEL_STACK_KIB, "{found:?}");
        assert!(usage(child.id()).cpu_ns > 0);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_zombie(child.id()), "it is gone");
    }
}
