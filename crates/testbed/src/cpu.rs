//! CPUs: placement of tester and DUT, and CPU time.

use std::collections::BTreeMap;

use weir_linux::cpu::{CpuTimes, ThreadTimes, times};
use weir_linux::sys;

use crate::error::{Error, Result};

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
        let threads = threads.iter().filter_map(|&pid| Some((pid, ThreadTimes::of(pid)?)));
        CostSample { threads: threads.collect(), cpus: times() }
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
}
