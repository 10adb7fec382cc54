//! Devices under test that are programs of weir: started in an existing bed, and stopped when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_packet::flow::IpVersion;
use weir_port::bpf::{BpfError, Link, Mode, Program, now_ns, object};
use weir_port::packet::{BATCH, PacketError, Receiver, Sender};

use crate::bed::Bed;
use crate::dut::{Function, System};
use crate::fault::{FaultLine, Faults};
use crate::interface::Port;
use crate::link::Late;
use weir_node::{Node, NodeError, Snapshot};

mod node;
mod prefix;

/// Bytes of the receive buffer of a faulty device, in the kernel's own counting: some 100,000 small frames.
const BUFFER_BYTES: i32 = 128 << 20;
/// A faulty device looks this often whether it is to stop, ns.
const LOOK_NS: u64 = 5_000_000;

/// What keeps a device working.
pub enum Device {
    /// The kernel does the work.
    Kernel,
    /// An XDP program on both ports.
    Xdp {
        /// The program on port a and on port b.
        links: [Link; 2],
        /// Kept loaded.
        program: Program,
    },
    /// A thread for each direction.
    Faulty(Pumps),
    /// A node of ours, in a thread.
    Node(Box<Node>),
}

/// What can go wrong when a device is started.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Loading or attaching the XDP program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Opening the node, or asking it.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Opening the packet sockets.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

impl Device {
    /// Starts the device of `bed`.
    pub fn start(bed: &Bed, faults: &Faults) -> Result<Device, DeviceError> {
        let (Some(ports), Some(namespace)) = (bed.dut_ports(), bed.dut()) else { return Ok(Device::Kernel) };
        match bed.spec().dut.system() {
            System::Xdp if bed.spec().dut.function() == Function::Nat => {
                namespace.run(|| prefix::start(&ports, faults))
            }
            System::Xdp => namespace.run(|| {
                let program = Program::load("router", object::FORWARD, &[])?;
                let attach = |port: &Port| program.attach(port.ifindex, Mode::Native);
                let links = [attach(&ports[0])?, attach(&ports[1])?];
                Ok(Device::Xdp { links, program })
            }),
            System::Faulty => namespace.run(|| {
                stop_forwarding(bed.spec().ip);
                Ok(Device::Faulty(Pumps::start(&ports, faults, &bed.spec().dut_cpus)?))
            }),
            System::Node(io) => namespace.run(|| {
                stop_forwarding(bed.spec().ip);
                Ok(Device::Node(Box::new(node::start(bed, io, &ports)?)))
            }),
            System::Wire | System::Kernel | System::External => Ok(Device::Kernel),
        }
    }

    /// The threads that work for it, beside the kernel's.
    pub fn threads(&self) -> Vec<u32> {
        match self {
            Device::Node(node) => node.threads(),
            Device::Faulty(pumps) => pumps.threads.iter().map(|(number, _)| *number).collect(),
            Device::Kernel | Device::Xdp { .. } => Vec::new(),
        }
    }

    /// What a reader must know about it, one sentence each.
    ///
    /// # Errors
    /// A node that has ended.
    pub fn notes(&self) -> Result<Vec<String>, DeviceError> {
        let Device::Node(node) = self else { return Ok(Vec::new()) };
        let waits = node.fast()?.is_some_and(|fast| !fast.on);
        let text = "The fast path of the node is off, because not all of its ports accept redirected frames: use --tester xdp.";
        Ok(waits.then(|| text.to_string()).into_iter().collect())
    }

    /// What makes the device do wrong from outside; only a faulty one has it.
    pub fn fault_switch(&self) -> Option<FaultSwitch> {
        match self {
            Device::Faulty(pumps) => Some(pumps.switch.clone()),
            _ => None,
        }
    }

    /// Forgets all that it has learned or tracks; for what is not the kernel's.
    ///
    /// # Errors
    /// A node that has ended.
    pub fn reset(&self) -> Result<(), DeviceError> {
        match self {
            Device::Node(node) => Ok(node.forget()?),
            _ => Ok(()),
        }
    }

    /// How late frames left a link of the device since its start; `None` if it has none.
    ///
    /// # Errors
    /// A node that has ended.
    pub fn late(&self) -> Result<Option<Late>, DeviceError> {
        let Device::Node(node) = self else { return Ok(None) };
        Ok(Late::of(&node.queues()?))
    }

    /// Frames that the device says it has dropped since its start, by name; the kernel has counters of its own.
    ///
    /// # Errors
    /// A node that has ended.
    pub fn drops(&self) -> Result<Vec<(String, u64)>, DeviceError> {
        Ok(match self {
            Device::Faulty(pumps) => {
                let dropped = pumps.dropped.iter().map(|n| n.load(Ordering::Relaxed)).sum();
                vec![("dropped by the faulty device".to_string(), dropped)]
            }
            Device::Node(node) => node::drops(&Snapshot::sum(&node.count()?)),
            Device::Kernel | Device::Xdp { .. } => Vec::new(),
        })
    }
}

/// The device passes frames on itself; the kernel must not do so as well.
fn stop_forwarding(ip: IpVersion) {
    let path = match ip {
        IpVersion::V4 => "/proc/sys/net/ipv4/ip_forward",
        IpVersion::V6 => "/proc/sys/net/ipv6/conf/all/forwarding",
    };
    std::fs::write(path, "0").expect("forwarding was switched on through the same file");
}

/// Makes a faulty device do wrong while it works. Clones are of the same device.
#[derive(Debug, Clone)]
pub struct FaultSwitch {
    stalled_until_ns: Arc<AtomicU64>,
    /// [`OWN_DELAY`]: that of its faults.
    delay_ns: Arc<AtomicU64>,
}

const OWN_DELAY: u64 = u64::MAX;

impl FaultSwitch {
    fn new() -> FaultSwitch {
        FaultSwitch { stalled_until_ns: Arc::default(), delay_ns: Arc::new(OWN_DELAY.into()) }
    }

    /// Drops all frames that arrive, from now on and for so long.
    pub fn stall(&self, time: Duration) {
        self.stalled_until_ns.store(now_ns() + time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Holds each frame that arrives from now on so long, in place of the delay of the device's faults, and to the
    /// microsecond: before a frame is due the device stays awake for [`AWAKE_NS`].
    pub fn delay(&self, time: Duration) {
        self.delay_ns.store(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn exact_delay(&self) -> Option<Duration> {
        let delay_ns = self.delay_ns.load(Ordering::Relaxed);
        (delay_ns != OWN_DELAY).then_some(Duration::from_nanos(delay_ns))
    }
}

/// So long before a frame is due a device with an exact delay sleeps no more, ns: a virtual CPU that has to be woken comes
/// late by tens of microseconds.
pub const AWAKE_NS: u64 = 50_000;

/// The two directions of a faulty device.
pub struct Pumps {
    stop: Arc<AtomicBool>,
    switch: FaultSwitch,
    /// By each direction.
    dropped: [Arc<AtomicU64>; 2],
    /// With their numbers.
    threads: Vec<(u32, JoinHandle<()>)>,
}

impl Pumps {
    fn start(ports: &[Port; 2], faults: &Faults, cpus: &[usize]) -> Result<Pumps, PacketError> {
        let stop = Arc::new(AtomicBool::new(false));
        let dropped = <[Arc<AtomicU64>; 2]>::default();
        let mut pumps = Pumps { stop, switch: FaultSwitch::new(), dropped, threads: Vec::new() };
        for (from, to) in [(0, 1), (1, 0)] {
            let receiver = Receiver::open(ports[from].ifindex, BUFFER_BYTES)?;
            let sender = Sender::open(ports[to].ifindex)?;
            let line = FaultLine::new(faults.clone());
            let (stop, dropped, cpu) = (pumps.stop.clone(), pumps.dropped[from].clone(), cpus[0]);
            let switch = pumps.switch.clone();
            let (number, started) = sync_channel(1);
            let thread = std::thread::spawn(move || {
                let _ = number.send(weir_port::thread::number());
                // Without the right to move to that CPU it runs where the scheduler puts it.
                let _ = weir_port::thread::pin_to(cpu);
                let _ = weir_port::thread::exact_waits();
                pump(receiver, &sender, line, &switch, &stop, &dropped);
            });
            pumps.threads.push((started.recv().expect("it says its number first"), thread));
        }
        Ok(pumps)
    }
}

impl Drop for Pumps {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.threads.drain(..) {
            // A pump that panicked has printed why; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

fn pump(
    mut from: Receiver,
    to: &Sender,
    mut line: FaultLine,
    switch: &FaultSwitch,
    stop: &AtomicBool,
    dropped: &AtomicU64,
) {
    let mut leaving = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let early_ns = if switch.exact_delay().is_some() { AWAKE_NS } else { 0 };
        let wait = line.next_ns().map_or(LOOK_NS, |due| due.saturating_sub(now_ns() + early_ns).min(LOOK_NS));
        let received = from.receive(Duration::from_nanos(wait), |frame| {
            line.stall_until(switch.stalled_until_ns.load(Ordering::Relaxed));
            switch.exact_delay().into_iter().for_each(|delay| line.delay_by(delay));
            line.push(now_ns(), frame.to_vec());
        });
        if received.is_err() {
            return;
        }
        dropped.store(line.dropped(), Ordering::Relaxed);
        let now = now_ns();
        loop {
            leaving.extend(std::iter::from_fn(|| line.pop(now)).take(BATCH));
            let mut left = &leaving[..];
            while !left.is_empty() {
                let Ok(sent) = to.send(left) else { return };
                left = &left[sent..];
            }
            if std::mem::take(&mut leaving).len() < BATCH {
                break;
            }
        }
    }
}
