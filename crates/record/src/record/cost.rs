//! The cost of a trial, and possible disturbances.

use serde::{Deserialize, Serialize};

/// What a trial cost the device under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the DUT during the trial, ns: that of its threads, or, on several CPUs, whatever the tester did
    /// not use of them. `None` for a wire.
    pub dut_cpu_ns: Option<u64>,
    /// DUT CPU time per received frame, ns.
    pub ns_per_frame: Option<f64>,
    /// The same in reference cycles (TSC).
    pub cycles_per_frame: Option<f64>,
    /// Per CPU: number, busy share 0..1 of the trial, and its users.
    pub cpus: Vec<CpuUse>,
    /// Conntrack entries of the DUT at the end of the trial.
    pub conntrack_entries: Option<u64>,
    /// Routes that were added or removed meanwhile, if the plan asks for that; the time is part of `dut_cpu_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_changes: Option<u64>,
    /// Memory in use by the DUT by name, bytes (`conntrack`, `slab growth`, `rss`).
    pub memory_bytes: Vec<(String, i64)>,
    /// What an external DUT counted during the trial, by name.
    #[serde(default)]
    pub box_counters: Vec<(String, i64)>,
}

impl Cost {
    /// The CPU time of some frames; none where there were no frames.
    pub fn per_frame(cpu_ns: u64, frames: u64, tsc_hz: Option<f64>) -> Cost {
        let ns_per_frame = (frames > 0).then(|| cpu_ns as f64 / frames as f64);
        let cycles_per_frame = ns_per_frame.zip(tsc_hz).map(|(ns, hz)| ns * hz / 1e9);
        Cost { dut_cpu_ns: Some(cpu_ns), ns_per_frame, cycles_per_frame, ..Cost::default() }
    }
}

/// Use of one CPU during a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Logical CPU.
    pub cpu: usize,
    /// Share of the trial that it was busy, 0..1.
    pub busy: f64,
    /// Share of the trial that DUT threads ran on it, 0..1.
    pub dut: f64,
    /// Share of the trial that tester threads ran on it, 0..1.
    pub tester: f64,
}

/// How quiet the machine and how exact the tester was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Share of time stolen by the hypervisor on the CPUs used, 0..1.
    pub steal: f64,
    /// Share of the trial in which DUT threads wanted to run but a foreign task had the CPU, 0..1.
    pub dut_wait: f64,
    /// Share of the trial in which the tester wanted to run but something else had its CPU, 0..1.
    #[serde(default)]
    pub tester_wait: f64,
    /// Of two directions that are sent by two hosts: share of the trial by which one began before the other, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_skew: Option<f64>,
    /// (sent rate - offered rate) / offered rate, from what was not sent and how late the last frame left.
    pub rate_error: f64,
    /// Departure lateness, 99.9th percentile, ns.
    pub late_p999_ns: u64,
    /// Largest departure lateness, ns.
    pub late_max_ns: u64,
    /// How long a call of the generator took just before the trial in which it sent nothing, ns; `None` where sockets send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_ns: Option<u64>,
    /// Time of a cache line from the tester's CPU to the DUT's just before the trial, ns. On a virtual machine
    /// it tells where the host had put the virtual CPUs.
    #[serde(default)]
    pub handover_ns: Option<f64>,
    /// The same just after it, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover_after_ns: Option<f64>,
    /// Time of a step on the DUT's core before and after the trial, ns, where that was measured: it is longer while another guest
    /// uses the other thread of that core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_step_ns: Option<[f64; 2]>,
    /// When frames left, in a trial that was made to find this out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departures: Option<Departures>,
}

/// How exactly the frames of a paced trial left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Departures {
    /// Frames/s between the due time of the first frame and the departure of the last one.
    pub rate_fps: f64,
    /// Frames.
    pub count: u64,
    /// Lateness: median.
    pub late_p50_ns: u64,
    /// 99th percentile.
    pub late_p99_ns: u64,
    /// 99.9th percentile.
    pub late_p999_ns: u64,
    /// Largest value.
    pub late_max_ns: u64,
    /// The histogram: (upper bound of bucket in ns, frames), empty buckets left out.
    pub buckets: Vec<(u64, u64)>,
}
