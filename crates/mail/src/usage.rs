//! CPU time and memory of a process, from /proc.

use std::fs;

/// CPU time of all threads of a process that live, ns (proc(5), /proc/PID/task/TID/schedstat); 0 if there is none.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |path: std::path::PathBuf| -> Option<u64> {
        weir_disk::kernel_text(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    threads.filter_map(|entry| of(entry.path())).sum()
}

/// Memory of this process in KiB: now (`VmRSS`), or at most so far (`VmHWM`).
pub(crate) fn memory_kib(field: &str) -> u64 {
    let status = weir_disk::kernel_text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        assert!(cpu_ns(std::process::id()) > 0);
        assert!(memory_kib("VmRSS") > 100 && memory_kib("VmHWM") >= memory_kib("VmRSS"));
        assert_eq!((memory_kib("VmNothing"), cpu_ns(u32::MAX)), (0, 0));
    }
}
