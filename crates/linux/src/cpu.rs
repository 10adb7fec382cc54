//! CPUs: the time that threads and CPUs have used, and sets of CPUs in the kernel's notation.

use std::collections::BTreeMap;
use std::fs;

/// A set of CPUs as the kernel takes it: 32-bit groups in hexadecimal, the highest first.
pub fn cpu_mask(cpus: &[usize]) -> String {
    let groups = cpus.iter().max().map_or(1, |max| max / 32 + 1);
    let group = |n: usize| cpus.iter().filter(|&&c| c / 32 == n).fold(0_u32, |bits, c| bits | 1 << (c % 32));
    (0..groups).rev().map(|n| format!("{:x}", group(n))).collect::<Vec<_>>().join(",")
}

/// Time of one thread in ns since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a CPU. Exact, not sampled: the scheduler's own clock.
    pub run_ns: u64,
    /// Time ready to run but waiting for a CPU.
    pub wait_ns: u64,
}

impl ThreadTimes {
    /// Reads /proc/PID/schedstat (proc_pid_schedstat(5), needs CONFIG_SCHED_INFO); None if the thread is
    /// gone or the kernel does not count.
    pub fn of(pid: u32) -> Option<ThreadTimes> {
        let text = weir_disk::kernel_text(format!("/proc/{pid}/schedstat")).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
        Some(ThreadTimes { run_ns: numbers.next()??, wait_ns: numbers.next()?? })
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &ThreadTimes) -> ThreadTimes {
        ThreadTimes {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
        }
    }
}

/// The kernel's threads that do the softirqs of these CPUs when there are too many of them (`ksoftirqd/N`).
pub fn softirq_threads(cpus: &[usize]) -> Vec<u32> {
    let names: Vec<String> = cpus.iter().map(|cpu| format!("ksoftirqd/{cpu}")).collect();
    let is_one = |pid: &u32| {
        weir_disk::kernel_text(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| names.iter().any(|n| n == name.trim()))
    };
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_one).collect()
}

/// Time of one CPU in ns since boot, sampled by the tick (4 ms or so): right in the mean over seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Everything but idle and waiting for I/O; softirq and steal are parts of it.
    pub busy_ns: u64,
    /// In software interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
}

/// Times of all CPUs by their number.
pub fn times() -> BTreeMap<usize, CpuTimes> {
    parse_stat(&weir_disk::kernel_text("/proc/stat").unwrap_or_default(), ns_per_tick())
}

fn ns_per_tick() -> u64 {
    // SAFETY: no pointers.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(ticks_per_s).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}

/// Reads the cpuN lines of /proc/stat: user nice system idle iowait irq softirq steal (proc_stat(5)).
/// Guest time is part of user and nice.
fn parse_stat(text: &str, ns_per_tick: u64) -> BTreeMap<usize, CpuTimes> {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        let ticks: Vec<u64> = rest.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        let times = CpuTimes {
            busy_ns: (user + nice + system + irq + softirq + steal) * ns_per_tick,
            softirq_ns: softirq * ns_per_tick,
            steal_ns: steal * ns_per_tick,
        };
        Some((name.parse().ok()?, times))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lines_are_read_without_the_sum_and_idle() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 0 0\ncpu12 0 0 0 7 0 0 0 0 0 0\nintr 5\n";
        let cpus = parse_stat(text, 10);
        assert_eq!(cpus.len(), 2);
        assert_eq!(cpus[&0], CpuTimes { busy_ns: 210, softirq_ns: 50, steal_ns: 60 });
        assert_eq!(cpus[&12], CpuTimes::default());
    }

    #[test]
    fn masks_are_groups_of_32() {
        for (cpus, mask) in
            [(&[][..], "0"), (&[0], "1"), (&[0, 1], "3"), (&[1, 33], "2,2"), (&[95], "80000000,0,0")]
        {
            assert_eq!(cpu_mask(cpus), mask, "{cpus:?}");
        }
        let first = |n: usize| cpu_mask(&(0..n).collect::<Vec<_>>());
        for (n, mask) in [
            (1, "1"),
            (2, "3"),
            (31, "7fffffff"),
            (32, "ffffffff"),
            (33, "1,ffffffff"),
            (64, "ffffffff,ffffffff"),
        ] {
            assert_eq!(first(n), mask, "{n}");
        }
    }
}
