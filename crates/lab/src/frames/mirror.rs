//! A generator and a wire with a capture program at its other end. The frames are addressed to another host, as at a mirror
//! port: programs that tap the interface get them, and the kernel does nothing else with them.
//!
//! ```text
//! generator > [t0] ---- veth ---- [t1] > receive softirq > capture program
//! ```

use std::time::Duration;

use weir_linux::cpu::ThreadTimes;
use weir_load::counts::{Load, StreamCounts, Traffic};
use weir_load::generate::Generator;
use weir_load::xdp::{IdleLoopback, pin_to};
use weir_load::{Control, LoadError, TesterKind};
use weir_testbed::bed::Bed;
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::journal::Journal;
use weir_testbed::topology::Side;

use super::setup::{bed_spec, mirrored, own_times, traffic};
use crate::error::RunError;
use crate::frames::PointSpec;

/// Trials are so many times as long as what fits into the buffer.
pub const BUFFERS_PER_TRIAL: f64 = 2.0;
/// Frames that the interface's ring had no room for.
pub const RING_FULL: &str = "interface ring full";

/// Where frames of one kind are sent and listened to.
pub struct Mirror {
    // Dropped before the namespaces that hold its interface.
    generator: Generator,
    traffic: Traffic,
    bed: Bed,
    cpus: CpuPlan,
    /// Kernel threads that receive apart from the generator.
    receivers: Vec<u32>,
}

/// What was sent.
pub struct Sent {
    /// What was sent and received.
    pub stream: StreamCounts,
    /// The thread that sent, and the kernel as it received in it.
    pub times: ThreadTimes,
    /// Its number.
    pub thread: u32,
}

impl Mirror {
    /// Builds the test bed.
    pub fn build(spec: &PointSpec, seed: u64, journal: &mut Journal) -> Result<Mirror, RunError> {
        let cpus = CpuPlan::choose(DutCpus::Count(1))?;
        let bed = Bed::build(&bed_spec(spec, &cpus), journal)?;
        let ports = bed.ports();
        let traffic = mirrored(traffic(spec, &ports, seed));
        let generator = bed.tester().run(|| {
            let mut generator = Generator::new(TesterKind::Xdp, ports[0].ifindex, traffic.clone())?;
            generator.hold_slot(IdleLoopback(1))?;
            Ok::<_, LoadError>(generator)
        })?;
        Ok(Mirror { generator, traffic, bed, cpus, receivers: Vec::new() })
    }

    /// What is sent.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The test bed.
    pub fn bed(&self) -> &Bed {
        &self.bed
    }

    /// Names of the interface that sends and of the one that is listened to.
    pub fn wire(&self) -> [&'static str; 2] {
        self.bed.wire(Side::A)
    }

    /// Frames that found no room in the listener's ring so far.
    pub fn ring_full(&self) -> Result<u64, RunError> {
        Ok(self.bed.snapshot()?.devices[self.wire()[0]].link.tx_dropped)
    }

    /// The CPU of the generator, and of the kernel that receives unless it does so [apart](Self::receive_apart).
    pub fn sending_cpu(&self) -> usize {
        self.cpus.tester[0]
    }

    /// Has the other CPU receive, in kernel threads that share it with its programs. Returns them.
    pub fn receive_apart(&mut self) -> Vec<u32> {
        let threads = self.bed.receive_shared_on(Side::B, &self.cpus.dut);
        self.receivers = threads.into_iter().map(|thread| thread.pid).collect();
        self.receivers.clone()
    }

    /// Another one, where there is one.
    pub fn other_cpu(&self) -> usize {
        self.cpus.dut[0]
    }

    /// Sends, and returns when the kernel has received all; `pause`: with pauses of this length, for a program that shares the
    /// CPU.
    pub fn send(&self, load: &Load, pause: Option<Duration>, control: &Control) -> Result<Sent, RunError> {
        let cpu = self.sending_cpu();
        let (stream, times, thread) = self.bed.tester().run(|| {
            let placed = pin_to(cpu);
            debug_assert!(placed.is_ok(), "{placed:?}");
            let before = own_times();
            let stream = match pause {
                Some(pause) => self.generator.send_with_pauses(load, pause, control),
                None => self.generator.send(load, control).map(|(stream, _)| stream),
            };
            (stream, own_times().since(&before), weir_port::thread::number())
        });
        // On a busy machine the last frames wait in the interface's ring for milliseconds.
        while !control.stopped() && self.receivers.iter().any(|&thread| is_runnable(thread)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Sent { stream: stream?, times, thread })
    }
}

/// Whether a thread of the kernel has something to do, if perhaps no CPU for it; the state is behind the name in brackets.
fn is_runnable(thread: u32) -> bool {
    let stat = weir_disk::kernel_text(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}
