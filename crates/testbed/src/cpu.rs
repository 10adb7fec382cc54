//! CPUs: placement of tester and DUT, and CPU time.

use std::collections::BTreeMap;
use std::fs;

use crate::error::{Error, Result};
use crate::sys;

/// How many CPUs the DUT shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DutCpus {
    /// This many.
    Count(usize),
    /// All of the machine, the tester's included.
    All,
}

/// The CPUs of tester and DUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuPlan {
    /// CPUs of the generator and receiver.
    pub tester: Vec<usize>,
    /// CPUs of the DUT.
    pub dut: Vec<usize>,
    /// Whether both use the same CPU somewhere, so that each slows the other down: to be said with each
    /// result.
    pub shared: bool,
}

impl CpuPlan {
    /// Plans with the CPUs that this process may use.
    pub fn choose(want: DutCpus) -> Result<CpuPlan> {
        let online = sys::affinity(0).map_err(Error::os("list the CPUs of this process"))?;
        CpuPlan::from(&online, want)
    }

    /// The tester keeps the first CPU and the DUT gets the next ones. They share where there are too few.
    ///
    /// # Errors
    /// [`Error::Input`] for more CPUs than there are, or none.
    pub fn from(online: &[usize], want: DutCpus) -> Result<CpuPlan> {
        let (Some((&first, others)), all) = (online.split_first(), online.len()) else {
            return Err(Error::Input("no CPU to run on".into()));
        };
        let dut = match want {
            DutCpus::Count(0) => return Err(Error::Input("a DUT needs a CPU: use 1 or more, or all".into())),
            DutCpus::Count(count) if count > all => {
                return Err(Error::Input(format!(
                    "{count} CPUs for the DUT, but this process may use {all}: use 1 to {all}, or all"
                )));
            }
            DutCpus::Count(count) if count <= others.len() => others[..count].to_vec(),
            // The others and the tester's.
            DutCpus::Count(_) | DutCpus::All => online.to_vec(),
        };
        Ok(CpuPlan { tester: vec![first], shared: dut.contains(&first), dut })
    }
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

/// What a DUT used at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CostSample {
    threads: BTreeMap<u32, ThreadTimes>,
    cpus: BTreeMap<usize, CpuTimes>,
}

/// What a DUT used between two samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time of the DUT's threads on CPUs, in ns.
    pub dut_run_ns: u64,
    /// Time its threads waited for a CPU, in ns: large when something else runs on its CPUs.
    pub dut_wait_ns: u64,
    /// Time of each CPU, of all users.
    pub cpus: BTreeMap<usize, CpuTimes>,
}

impl CostSample {
    /// Samples these threads and all CPUs.
    pub fn take(threads: &[u32]) -> CostSample {
        let times = threads.iter().filter_map(|&pid| Some((pid, ThreadTimes::of(pid)?)));
        let stat = weir_disk::kernel_text("/proc/stat").unwrap_or_default();
        CostSample { threads: times.collect(), cpus: parse_stat(&stat, ns_per_tick()) }
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &CostSample) -> Cost {
        let mut cost = Cost::default();
        for (pid, now) in &self.threads {
            let before = earlier.threads.get(pid).copied().unwrap_or_default();
            let used = now.since(&before);
            cost.dut_run_ns += used.run_ns;
            cost.dut_wait_ns += used.wait_ns;
        }
        for (&cpu, now) in &self.cpus {
            let before = earlier.cpus.get(&cpu).copied().unwrap_or_default();
            cost.cpus.insert(
                cpu,
                CpuTimes {
                    busy_ns: now.busy_ns.saturating_sub(before.busy_ns),
                    softirq_ns: now.softirq_ns.saturating_sub(before.softirq_ns),
                    steal_ns: now.steal_ns.saturating_sub(before.steal_ns),
                },
            );
        }
        cost
    }
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
    fn the_tester_keeps_the_first_cpu_while_there_are_others() {
        let check = |online: &[usize], want, expected: &str| {
            let plan = match CpuPlan::from(online, want) {
                Ok(plan) => format!("tester {:?} dut {:?} shared {}", plan.tester, plan.dut, plan.shared),
                Err(error) => error.to_string(),
            };
            assert_eq!(plan, expected, "{online:?} {want:?}");
        };
        use DutCpus::{All, Count};
        check(&[0, 1], Count(1), "tester [0] dut [1] shared false");
        check(&[0, 1], Count(2), "tester [0] dut [0, 1] shared true");
        check(&[0, 1], All, "tester [0] dut [0, 1] shared true");
        check(&[3], Count(1), "tester [3] dut [3] shared true");
        check(&[3], All, "tester [3] dut [3] shared true");
        check(&[2, 4, 6, 8], Count(2), "tester [2] dut [4, 6] shared false");
        check(&[2, 4, 6, 8], Count(3), "tester [2] dut [4, 6, 8] shared false");
        check(&[0, 1], Count(3), "3 CPUs for the DUT, but this process may use 2: use 1 to 2, or all");
        check(&[0], Count(0), "a DUT needs a CPU: use 1 or more, or all");
        check(&[], All, "no CPU to run on");
    }

    #[test]
    fn a_thread_s_time_grows_with_its_work() {
        let pid = std::process::id();
        let Some(before) = ThreadTimes::of(pid) else {
            eprintln!("skipped: {} needs CONFIG_SCHED_INFO", module_path!());
            return;
        };
        let sample = CostSample::take(&[pid]);
        assert!(sample.threads[&pid].run_ns >= before.run_ns);
        assert_eq!(ThreadTimes::of(u32::MAX), None);
        assert_eq!(sample.since(&sample).dut_run_ns, 0);
    }

    #[test]
    fn cpu_lines_are_read_without_the_sum_and_idle() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 0 0\ncpu12 0 0 0 7 0 0 0 0 0 0\nintr 5\n";
        let cpus = parse_stat(text, 10);
        assert_eq!(cpus.len(), 2);
        assert_eq!(cpus[&0], CpuTimes { busy_ns: 210, softirq_ns: 50, steal_ns: 60 });
        assert_eq!(cpus[&12], CpuTimes::default());
    }
}
