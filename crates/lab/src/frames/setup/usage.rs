//! Resources of a trial: counters before and after, CPU time, memory, and disturbances.

use std::time::Duration;

use weir_linux::cpu::{CpuTimes, ThreadTimes};
use weir_load::counts::{Counts, Load};
use weir_packet::flow::Direction;
use weir_testbed::counters::{Delta, Snapshot};
use weir_testbed::cpu;
use weir_testbed::dut::System;
use weir_testbed::link::Late;
use weir_testbed::memory::KernelMemory;
use weir_testbed::updates::Made;

use super::Setup;
use crate::error::RunError;
use crate::frames::lateness::Lateness;
use crate::frames::remote::Elsewhere;
use crate::frames::verdict::Accounting;
use crate::frames::witness::Seen;
use crate::frames::{counted, outside};
use weir_linux::time::Clocks;
use weir_record::record::{Cost, CpuUse, Noise};

/// All counters at one moment.
pub(crate) struct Sample {
    snapshot: Snapshot,
    cost: cpu::CostSample,
    memory: KernelMemory,
    /// By name, since the device's start.
    device_drops: Vec<(String, u64)>,
    /// How late frames left its link, since its start.
    late: Option<Late>,
    /// Time of the softirq threads of the device's CPUs, ns.
    softirq_ns: u64,
    clocks: Clocks,
}

/// What was used between two samples.
pub(crate) struct Used {
    pub(crate) before: Sample,
    pub(crate) after: Sample,
    /// What the tester's thread used.
    pub(crate) tester: ThreadTimes,
    /// What is known of the tester on another host.
    pub(crate) elsewhere: Elsewhere,
    /// Time of sending and draining.
    pub(crate) elapsed: Duration,
    /// Time that sending should have taken.
    pub(crate) duration: Duration,
    /// Time of a cache line between tester and device before and after it.
    pub(crate) core_distances_ns: [Option<f64>; 2],
    /// Time of a step on the device's core before and after it.
    pub(crate) core_steps_ns: Option<[f64; 2]>,
    /// What the clocks of the CPUs said, if they were asked.
    pub(crate) seen: Option<Vec<Seen>>,
    /// Number of the thread that sent.
    pub(crate) sender: u32,
    /// What the DUT's control plane did meanwhile.
    pub(crate) routes: Option<Made>,
}

impl Used {
    pub(crate) fn delta(&self) -> Delta {
        self.after.snapshot.since(&self.before.snapshot)
    }

    /// Frames that the device says it has dropped, by name.
    pub(crate) fn device_drops(&self) -> impl Iterator<Item = (&str, u64)> {
        let before = &self.before.device_drops;
        self.after.device_drops.iter().map(|(name, frames)| {
            let earlier = before.iter().find(|(known, _)| known == name);
            (name.as_str(), frames - earlier.map_or(0, |(_, frames)| *frames))
        })
    }

    /// How late frames left the link of the device, if it has one.
    pub(crate) fn late(&self) -> Option<Lateness> {
        let late = self.after.late.as_ref()?.since(self.before.late.as_ref()?);
        Some(Lateness::of(&late.ns, late.slot_ns))
    }

    pub(crate) fn clock_jump(&self) -> Duration {
        self.after.clocks.jump_since(&self.before.clocks)
    }

    fn memory(&self, conntrack_entries: u64) -> Vec<(String, i64)> {
        let conntrack = self.after.memory.conntrack_bytes(conntrack_entries);
        let slab = self.after.memory.slab_bytes.zip(self.before.memory.slab_bytes);
        let growth = slab.map(|(after, before)| ("slab growth".to_string(), after as i64 - before as i64));
        growth.into_iter().chain(conntrack.map(|bytes| ("conntrack".to_string(), bytes as i64))).collect()
    }
}

impl Setup {
    pub(crate) fn sample(&self) -> Result<Sample, RunError> {
        Ok(Sample {
            snapshot: self.bed.snapshot()?,
            cost: self.bed.cost(&self.device.threads()),
            memory: KernelMemory::now(),
            device_drops: self.device.drops()?,
            late: self.device.late()?,
            softirq_ns: self
                .softirq_threads
                .iter()
                .filter_map(|pid| Some(ThreadTimes::of(*pid)?.run_ns))
                .sum(),
            clocks: Clocks::now(),
        })
    }

    pub(crate) fn noise(&self, counts: &Counts, load: &Load, used: &Used) -> Noise {
        let cost = used.after.cost.since(&used.before.cost);
        let cpus = self.cpus_used();
        let steal: u64 = cpus.iter().filter_map(|cpu| cost.cpus.get(cpu)).map(|c| c.steal_ns).sum();
        let elapsed = used.elapsed.as_nanos() as f64;
        // Two directions on one CPU wait for each other: that is the DUT's own doing. Those of a faulty device wait for its
        // receive threads, too.
        let routes_ns = used.routes.map_or(0, |routes| routes.run_ns);
        let own_wait = match (self.bed.spec().dut.system(), self.traffic.direction) {
            (System::Faulty, _) => cost.dut_wait_ns,
            // Its thread and those that receive for it share the CPU: two of them, or three where frames come from both
            // sides.
            (System::Node(_), Direction::Forward) => cost.dut_run_ns,
            (System::Node(_), _) => 2 * cost.dut_run_ns,
            (_, Direction::Forward) => routes_ns,
            _ => cost.dut_run_ns + routes_ns,
        };
        // What frames cost beyond the time of an interrupt, the reflection of the tester above all, waits for this thread.
        let own_wait = own_wait + used.after.softirq_ns.saturating_sub(used.before.softirq_ns);
        let foreign_wait = if self.cpus.shared { 0 } else { cost.dut_wait_ns.saturating_sub(own_wait) };
        Noise {
            steal: steal as f64 / (elapsed * cpus.len() as f64),
            dut_wait: foreign_wait as f64 / elapsed,
            tester_wait: used.tester.wait_ns.max(used.elsewhere.wait_ns) as f64 / elapsed,
            start_skew: used.elsewhere.skew_ns.map(|ns| ns as f64 / used.duration.as_nanos() as f64),
            rate_error: counted::rate_error(counts, load),
            late_p999_ns: counts.streams.iter().map(|s| s.late.percentile(0.999)).max().unwrap_or(0),
            late_max_ns: counts.streams.iter().map(|s| s.late_max_ns).max().unwrap_or(0),
            call_ns: self.tester.call().map(|call| call.as_nanos() as u64),
            handover_ns: used.core_distances_ns[0],
            handover_after_ns: used.core_distances_ns[1],
            core_step_ns: used.core_steps_ns,
            departures: None,
        }
    }

    /// The users of a CPU. The time of the DUT's threads is exact to the ns. Where it works outside of them, in softirqs that
    /// RPS spreads over several CPUs, it is the time that the tester did not use, from the tick's samples.
    fn cpu_use(&self, cpu: usize, times: &CpuTimes, cost: &cpu::Cost, used: &Used) -> CpuUse {
        let elapsed = used.elapsed.as_nanos() as f64;
        let busy = (times.busy_ns as f64 / elapsed).min(1.0);
        let testers = if self.cpus.tester[0] == cpu { used.tester.run_ns } else { 0 };
        let tester = (testers as f64 / elapsed).min(1.0);
        let threads_only = !self.bed.threads().is_empty() && self.cpus.dut.len() == 1;
        let dut = match self.cpus.dut.contains(&cpu) && self.bed.dut().is_some() {
            false => 0.0,
            true if threads_only => {
                let routes_ns = used.routes.map_or(0, |routes| routes.run_ns);
                (cost.dut_run_ns + routes_ns) as f64 / elapsed
            }
            true => (busy - tester).max(0.0),
        };
        CpuUse { cpu, busy, dut, tester }
    }

    pub(crate) fn cost(&self, accounting: &Accounting, used: &Used) -> Cost {
        let cost = used.after.cost.since(&used.before.cost);
        let elapsed = used.elapsed.as_nanos() as f64;
        let cpus: Vec<CpuUse> =
            cost.cpus.iter().map(|(&cpu, times)| self.cpu_use(cpu, times, &cost, used)).collect();
        let dut_share: f64 = cpus.iter().map(|cpu| cpu.dut).sum();
        let delta = used.delta().0.external;
        let dut_cpu_ns = match &delta {
            Some(delta) => outside::cpu_ns(delta),
            None => self.bed.dut().map(|_| (dut_share * elapsed) as u64),
        };
        let per_frame =
            dut_cpu_ns.filter(|_| accounting.received > 0).map(|ns| ns as f64 / accounting.received as f64);
        let entries = used.after.snapshot.conntrack.entries;
        Cost {
            dut_cpu_ns,
            ns_per_frame: per_frame,
            cycles_per_frame: per_frame.zip(self.settings.tsc_hz).map(|(ns, hz)| ns * hz / 1e9),
            cpus,
            conntrack_entries: self.bed.dut().map(|_| entries),
            route_changes: used.routes.map(|routes| routes.changes),
            memory_bytes: match &delta {
                Some(delta) => delta.memory.clone().into_iter().collect(),
                None => used.memory(entries),
            },
            box_counters: delta.map(|delta| delta.counters.into_iter().collect()).unwrap_or_default(),
        }
    }

    pub(crate) fn cpus_used(&self) -> Vec<usize> {
        let mut cpus = self.cpus.tester.clone();
        cpus.extend(self.cpus.dut.iter().filter(|cpu| !self.cpus.tester.contains(cpu)));
        cpus
    }
}

/// Times of the calling thread so far.
pub(crate) fn own_times() -> ThreadTimes {
    ThreadTimes::of(weir_port::thread::number()).unwrap_or_default()
}
