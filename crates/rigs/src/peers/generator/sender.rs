//! A frame generator, of weir or of another project, that sends into an XDP drop as fast as one CPU can.
//!
//! ```text
//! [t0] generator ---- veth ----> [t1] XDP drop        iperf3: [t0] client ---- veth ----> [d0] server
//!      one CPU, the receiving end included                     one CPU       the server has another one
//! ```
//! Frames are counted by the receiving interface, never by the program itself.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::setup::{bed_spec, traffic};
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{Failed, Process, failed};
use weir_linux::rtnl::Rtnl;
use weir_load::counts::Load;
use weir_load::xdp::{IdleLoopback, Interface, pin_to};
use weir_load::{Control, Tester, TesterKind};
use weir_packet::flow::{Flow, IpVersion};
use weir_packet::frame::Signature;
use weir_port::bpf::{Link, Mode, Program};
use weir_testbed::bed::Bed;
use weir_testbed::cpu::{CostSample, CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::interface::Device;
use weir_testbed::journal::Journal;
use weir_testbed::topology::Side;

use super::program::{Peer, Target, remedy};
use crate::peers::contest::drop_all;

/// A peer must send within this time after its start.
const START: Duration = Duration::from_secs(5);
/// So many frames show that it sends test frames, not only those of iperf3's control connection.
const SENDING: u64 = 1000;
/// After its first frames a peer gets up to speed.
const SETTLE: Duration = Duration::from_millis(200);
/// iperf3's server before its client.
const SERVER_START: Duration = Duration::from_millis(150);
/// For the end of a killed peer, before another generator sends.
const AFTERMATH: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(20);

/// A generator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Generator {
    /// A part of weir.
    Weir(TesterKind),
    /// A program of another project.
    Peer(&'static Peer),
}

impl Generator {
    /// Its name in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Generator::Weir(TesterKind::Xdp) => "weir",
            Generator::Weir(TesterKind::Packet) => "weir-packet",
            Generator::Peer(peer) => peer.name,
        }
    }

    /// How it sends, for the record.
    pub(super) fn how(self) -> &'static str {
        match self {
            Generator::Weir(TesterKind::Xdp) => {
                "live frames from an XDP program, each with flow, number, time and checksums"
            }
            Generator::Weir(TesterKind::Packet) => "frames built one by one, sendmmsg on an AF_PACKET socket",
            Generator::Peer(peer) => peer.how,
        }
    }

    /// Where its frames end.
    pub(super) fn sink(self) -> &'static str {
        if self.has_server() { "iperf3 server" } else { "xdp drop" }
    }

    fn has_server(self) -> bool {
        matches!(self, Generator::Peer(peer) if peer.has_server())
    }
}

/// A generator on its test bed.
pub(super) struct Sender {
    // Dropped in this order: programs and sockets before the namespaces that hold their interfaces.
    means: Means,
    _sink: Option<(Link, Program)>,
    bed: Bed,
    cpus: CpuPlan,
}

enum Means {
    Weir(Tester),
    Peer { peer: &'static Peer, folder: Folder, frame_bytes: u16 },
}

/// What a trial sent.
pub(super) struct Sent {
    /// Frames that the generator was to send, by its own count; for peers those that left.
    pub(super) offered: u64,
    /// Frames that left, by the counters of the receiving end.
    pub(super) sent: u64,
    /// Frames that arrived at the other end.
    pub(super) received: u64,
    /// Frames that found the ring of the other end full.
    pub(super) ring_full: u64,
    /// Time between the two readings.
    pub(super) elapsed: Duration,
    /// Time that the hypervisor took, as a share, 0..1.
    pub(super) steal: f64,
}

/// Counters of the wire at one moment.
struct Sample {
    sender: Device,
    receiver: Device,
    cost: CostSample,
    at: Instant,
}

impl Sender {
    /// Builds the bed, and writes the files of the generator.
    pub(super) fn build(
        generator: Generator,
        spec: &PointSpec,
        seed: u64,
        journal: &mut Journal,
    ) -> Result<Sender, RunError> {
        let cpus = CpuPlan::choose(DutCpus::Count(1))?;
        // Both ends of a wire are in one namespace, where the kernel would not send to itself over it.
        let dut = if generator.has_server() { DutKind::KERNEL_FORWARD } else { DutKind::WIRE };
        let bed = Bed::build(&bed_spec(&PointSpec { dut, ..spec.clone() }, &cpus), journal)?;
        let ports = bed.ports();
        let traffic = traffic(spec, &ports, seed);
        let sink = if dut == DutKind::WIRE { Some(drop_all(&bed)?) } else { None };
        let means = match generator {
            Generator::Weir(kind) => {
                let interface = |ifindex| Interface { ifindex, mode: Mode::Native, pass: false };
                let interfaces = [interface(ports[0].ifindex), interface(0)];
                let slot = Some(IdleLoopback(1));
                Means::Weir(bed.tester().run(|| Tester::new(kind, interfaces, traffic, slot))?)
            }
            Generator::Peer(peer) => {
                let frame_bytes = spec.frame.max();
                let flow: Flow = traffic.flows.sequence()[0];
                let frame = traffic.ends[0].frame(&flow, frame_bytes, Signature::default());
                let folder = Folder::new(&std::env::temp_dir());
                let folder = folder.map_err(|error| failed("a temporary directory", error))?;
                let written = peer.prepare(&frame, &folder.path().join("input"));
                written.map_err(|error| failed("a file for a peer", error))?;
                Means::Peer { peer, folder, frame_bytes }
            }
        };
        let sender = Sender { means, _sink: sink, bed, cpus };
        if dut != DutKind::WIRE {
            sender.give_tester_an_address()?;
        }
        Ok(sender)
    }

    /// Makes the tester's namespace a host that reaches the other end.
    fn give_tester_an_address(&self) -> Result<(), RunError> {
        let (port, ip) = (&self.bed.ports()[0], IpVersion::V4);
        let remote = self.bed.dut_address(Side::A);
        self.bed.tester().run(|| {
            let mut rtnl = Rtnl::open()?;
            rtnl.add_address(port.ifindex, Side::A.tester(ip), Side::A.network(ip).1)?;
            rtnl.add_neighbour(port.ifindex, remote, port.next_hop_mac)
        })?;
        Ok(())
    }

    /// The CPU that sends, and the CPUs of the other end that are not the sender's.
    pub(super) fn cpus(&self) -> Vec<usize> {
        let others = self.bed.dut().map(|_| &self.cpus.dut);
        std::iter::once(self.cpu()).chain(others.into_iter().flatten().copied()).collect()
    }

    fn cpu(&self) -> usize {
        self.cpus.tester[0]
    }

    /// Sends at full speed for `duration`.
    pub(super) fn trial(
        &mut self,
        duration: Duration,
        control: &Control,
        journal: &mut Journal,
    ) -> Result<Sent, Failed> {
        let (before, cpu) = (self.sample()?, self.cpu());
        if let Means::Weir(tester) = &mut self.means {
            let counts = self.bed.tester().run(|| {
                place(cpu);
                tester.trial(&Load::full_speed(duration), control)
            })?;
            let offered = counts.streams.iter().map(|stream| stream.sent).sum();
            // Sending ends by the clock; then the tester waits for frames that never come back.
            return Ok(Sent { offered, elapsed: duration, ..self.sample()?.since(&before) });
        }
        let processes = self.start(duration, journal)?;
        let sent = self.watch(&before, &processes, duration, control);
        for process in processes.into_iter().rev() {
            // Killed: there is no status to learn from.
            let _ = process.kill(journal)?;
        }
        // Its children end after it.
        thread::sleep(AFTERMATH);
        sent
    }

    /// Starts the peer, after its receiver at the other end. The sender is the last process.
    fn start(&self, duration: Duration, journal: &mut Journal) -> Result<Vec<Process>, RunError> {
        let Means::Peer { peer, folder, frame_bytes } = &self.means else { return Ok(Vec::new()) };
        let (port, path) = (&self.bed.ports()[0], folder.path());
        let target = Target {
            device: &port.ifname,
            server: self.bed.dut_address(Side::A),
            frame_bytes: *frame_bytes,
            most_s: (duration + START + SETTLE).as_secs() + 5,
            input: &path.join("input"),
        };
        let (cpu, elsewhere) = (self.cpu(), self.cpus.dut[0]);
        let mut processes = Vec::new();
        if let (Some(dut), Some(mut command)) = (self.bed.dut(), peer.server(&target)) {
            processes.push(dut.run(|| {
                place(elsewhere);
                Process::start(&mut command, &[elsewhere], &path.join("server"), journal)
            })?);
            thread::sleep(SERVER_START);
        }
        processes.push(self.bed.tester().run(|| {
            // The thread that reads the counters must not take turns with the sender.
            place(elsewhere);
            Process::start(&mut peer.sender(&target), &[cpu], &path.join("output"), journal)
        })?);
        Ok(processes)
    }

    /// Waits until the peer sends, and counts for `duration`.
    fn watch(
        &self,
        before: &Sample,
        processes: &[Process],
        duration: Duration,
        control: &Control,
    ) -> Result<Sent, Failed> {
        let sender = processes.last().expect("the sender is the last process");
        let deadline = Instant::now() + START;
        while self.sample()?.since(before).received < SENDING {
            if sender.has_ended() || Instant::now() > deadline {
                let how = if sender.has_ended() { "it ended" } else { "it sent nothing within 5 s" };
                return Err(self.fault(how, sender));
            }
            if control.stopped() {
                break;
            }
            thread::sleep(LOOK);
        }
        thread::sleep(SETTLE);
        let start = self.sample()?;
        while start.at.elapsed() < duration && !control.stopped() {
            thread::sleep(LOOK.min(duration.saturating_sub(start.at.elapsed())));
        }
        let sent = self.sample()?.since(&start);
        if sender.has_ended() { Err(self.fault("it ended too early", sender)) } else { Ok(sent) }
    }

    /// A failure with the last line that the peer wrote, and a known remedy.
    fn fault(&self, how: &str, sender: &Process) -> Failed {
        let said = match &self.means {
            Means::Peer { folder, .. } => fs::read(folder.path().join("output")).unwrap_or_default(),
            Means::Weir(_) => Vec::new(),
        };
        let remedy = remedy(&String::from_utf8_lossy(&said));
        Failed::Program(format!("{how}: {}{remedy}", sender.last_words()))
    }

    fn sample(&self) -> Result<Sample, RunError> {
        let mut snapshot = self.bed.snapshot()?;
        let [sender, receiver] = self
            .bed
            .wire(Side::A)
            .map(|name| snapshot.devices.remove(name).expect("each bed has both ends of side a's wire"));
        Ok(Sample { sender, receiver, cost: self.bed.cost(&[]), at: Instant::now() })
    }
}

impl Sample {
    fn since(&self, before: &Sample) -> Sent {
        let elapsed = self.at - before.at;
        let steal = self.cost.since(&before.cost).cpus.values().map(|cpu| cpu.steal_ns).max();
        let difference = |of: fn(&Sample) -> u64| of(self).saturating_sub(of(before));
        let received = difference(received);
        let ring_full = difference(|s| s.sender.link.tx_dropped);
        // Nothing lies between: what left has arrived or found the ring full. The two readings of a sender
        // that goes on would differ by what it sends between them.
        let sent = received + ring_full;
        let steal = steal.unwrap_or(0) as f64 / elapsed.as_nanos().max(1) as f64;
        Sent { offered: sent, sent, received, ring_full, elapsed, steal }
    }
}

/// Frames that ended in the XDP drop, or, without one, that the interface received.
fn received(sample: &Sample) -> u64 {
    let driver = &sample.receiver.driver;
    let dropped =
        driver.iter().filter(|(name, _)| name.starts_with("rx_queue_") && name.ends_with("_xdp_drops"));
    match dropped.map(|(_, frames)| *frames).sum() {
        0 => sample.receiver.link.rx_packets,
        dropped => dropped,
    }
}

/// Keeps the calling thread on a CPU.
fn place(cpu: usize) {
    let placed = pin_to(cpu);
    debug_assert!(placed.is_ok(), "{placed:?}");
}
