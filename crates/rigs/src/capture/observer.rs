//! Samples all CPUs during a trial, and assigns the samples to generator, kernel and capture threads.

use std::collections::HashMap;
use std::ops::Range;

use weir_port::perf::{Sample, Sampler};
use weir_testbed::cpu::{CpuPlan, DutCpus};

use weir_record::profile::{Profile, Stacks, Symbols};

/// Samples a second: not a multiple of the tick, so that it is not always the tick that is seen.
const HZ: u64 = 1999;
/// Functions in which an idle CPU waits.
const IDLE: [&str; 8] = [
    "pv_native_safe_halt",
    "native_safe_halt",
    "default_idle",
    "acpi_",
    "mwait_idle",
    "intel_idle",
    "poll_idle",
    "do_idle",
];

/// What runs when the kernel receives.
const RECEIVING: &str = "net_rx_action";

/// What runs when a CPU receives what another one hands to it.
const HANDED_OVER: &str = "process_backlog";

/// How a trial is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Its CPUs are sampled.
    Closely,
    /// Clocks of its CPUs say when one of them stood still.
    ForStops,
    /// It is left alone.
    Away,
}

/// The roles of the threads of a trial.
pub(super) struct Threads {
    pub(super) generator: u32,
    /// Threads of the kernel that receive.
    pub(super) receivers: Vec<u32>,
    pub(super) readers: Vec<u32>,
    /// Addresses of what readers do with a frame once they have it.
    pub(super) consumer: Range<u64>,
}

impl Threads {
    /// All of them.
    pub(super) fn all(&self) -> Vec<u32> {
        let others = self.receivers.iter().chain(&self.readers).copied();
        std::iter::once(self.generator).chain(others).collect()
    }

    /// The role that runs these functions of a thread.
    fn name(&self, thread: u32, functions: &[&str]) -> &'static str {
        match thread {
            // The kernel receives in the thread that sends.
            _ if thread == self.generator && functions.contains(&RECEIVING) => Profile::RECEIVE,
            _ if thread == self.generator => Profile::GENERATOR,
            _ if self.receivers.contains(&thread) => Profile::RECEIVE_ELSEWHERE,
            _ if functions.contains(&HANDED_OVER) => Profile::RECEIVE_ELSEWHERE,
            _ if self.readers.contains(&thread) => Profile::CAPTURE,
            _ => Profile::OTHER,
        }
    }
}

/// A sampler at work.
pub(super) struct Observer {
    sampler: Sampler,
    /// Read while the eBPF programs are loaded.
    symbols: Symbols,
}

/// Time of receiving what the generator's CPU hands to others, by samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HandedOver {
    pub(super) all_ns: u64,
    /// The part of it that the kernel takes from the threads that capture, and counts as theirs.
    pub(super) in_readers_ns: u64,
}

/// Stacks of each thread, by address.
pub(super) struct Seen {
    samples: HashMap<Sample, u64>,
    symbols: Symbols,
    lost: u64,
}

impl Observer {
    /// Starts, where that is wanted and the kernel allows it.
    pub(super) fn start(look: Look) -> Option<Observer> {
        if look != Look::Closely {
            return None;
        }
        let symbols = Symbols::of_kernel();
        let cpus = CpuPlan::choose(DutCpus::All).ok()?.dut;
        Some(Observer { sampler: Sampler::start(&cpus, HZ).ok()?, symbols })
    }

    pub(super) fn stop(self) -> Option<Seen> {
        let mut samples = HashMap::new();
        let lost = self.sampler.take(|sample| *samples.entry(sample.clone()).or_default() += 1).ok()?;
        Some(Seen { samples, symbols: self.symbols, lost })
    }
}

impl Seen {
    /// What other CPUs than the generator's do to receive, beyond the threads of the kernel that do nothing else.
    pub(super) fn handed_over(&self, threads: &Threads) -> HandedOver {
        let mut found = HandedOver::default();
        for (sample, n) in self.samples.iter().filter(|(sample, _)| sample.user.is_none()) {
            let names: Vec<_> = sample.stack.iter().map(|&address| self.symbols.name(address)).collect();
            let is_receiver = threads.receivers.contains(&sample.thread);
            if !is_receiver && threads.name(sample.thread, &names) == Profile::RECEIVE_ELSEWHERE {
                let ns = n * (1_000_000_000 / HZ);
                found.all_ns += ns;
                found.in_readers_ns += if threads.readers.contains(&sample.thread) { ns } else { 0 };
            }
        }
        found
    }

    /// The profile of a trial of these threads.
    pub(super) fn profile(&self, threads: &Threads) -> Profile {
        let mut stacks = Stacks::default();
        for (sample, n) in &self.samples {
            let names: Vec<_> = sample.stack.iter().map(|&address| self.symbols.name(address)).collect();
            let idle = |name: &&str| IDLE.iter().any(|start| name.starts_with(start));
            if sample.thread == 0 && names.first().is_none_or(idle) {
                continue;
            }
            let names = match sample.user {
                Some(at) if threads.consumer.contains(&at) => &[Profile::CONSUMER][..],
                Some(_) => &[],
                None => &names[..],
            };
            stacks.add(threads.name(sample.thread, names), names.iter().copied(), *n);
        }
        Profile { hz: HZ, lost: self.lost, stacks: stacks.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_cpus_receive_is_no_work_of_those_that_it_interrupts() {
        let threads = Threads { generator: 1, receivers: vec![3], readers: vec![2], consumer: 0..0 };
        let backlog = ["memcpy", "process_backlog", RECEIVING];
        for (thread, functions, name) in [
            (1, &["bpf_test_run"][..], Profile::GENERATOR),
            (1, &["veth_poll", RECEIVING], Profile::RECEIVE),
            (1, &backlog, Profile::RECEIVE),
            (2, &backlog, Profile::RECEIVE_ELSEWHERE),
            (0, &backlog, Profile::RECEIVE_ELSEWHERE),
            (3, &["veth_poll", "napi_threaded_poll"], Profile::RECEIVE_ELSEWHERE),
            (2, &["do_syscall_64"], Profile::CAPTURE),
            (0, &["virtnet_poll", RECEIVING], Profile::OTHER),
        ] {
            assert_eq!(threads.name(thread, functions), name, "{thread} {functions:?}");
        }
    }
}
