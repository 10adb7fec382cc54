//! A frame generator, of weir or another project, that sends into an XDP drop as fast as one CPU can.
//!
//! ```text
//! [t0] generator ---- veth ----> [t1] XDP drop        iperf3: [t0] client ---- veth ----> [d0] server
//!      one CPU, the receiving end included                     one CPU       the server has another one
//! ```
//! What counts is what the receiving interface has counted, never what a program says of itself.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_linux::rtnl::Rtnl;
use weir_load::counts::Load;
use weir_load::xdp::{IdleLoopback, Interface, pin_to};
use weir_load::{Control, Tester, TesterKind};
use weir_packet::flow::Flow;
use weir_packet::frame::Signature;
use weir_port::bpf::{Link, Mode, Program, object};
use weir_testbed::bed::Bed;
use weir_testbed::cpu::{CostSample, CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::interface::Device;
use weir_testbed::journal::{EntryId, Journal};
use weir_testbed::topology::Side;

use super::command::{self, Files, Target};
use crate::generators::plan::Peer;
use weir_lab::error::RunError;
use weir_lab::frames::PointSpec;
use weir_lab::frames::setup::{bed_spec, traffic};

/// A peer must send within this time after its start.
const START: Duration = Duration::from_secs(5);
/// Frames that show that it sends, not only talks (iperf3's control connection).
const SENDING: u64 = 1000;
/// After its first frames a peer gets up to speed.
const SETTLE: Duration = Duration::from_millis(200);
/// iperf3's server before its client.
const SERVER_START: Duration = Duration::from_millis(150);
/// For the end of a killed peer, before anyone else sends.
const AFTERMATH: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(20);

/// The sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Generator {
    /// This program.
    Weir(TesterKind),
    /// Another one.
    Peer(Peer),
}

impl Generator {
    /// Its name in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Generator::Weir(TesterKind::Xdp) => "weir",
            Generator::Weir(TesterKind::Packet) => "weir-packet",
            Generator::Peer(peer) => peer.name(),
        }
    }

    /// Where its frames end.
    pub(super) fn sink(self) -> &'static str {
        if self == Generator::Peer(Peer::Iperf3) { "iperf3 server" } else { "xdp drop" }
    }
}

/// A generator with everything that it needs.
pub(super) struct Contestant {
    // Dropped in this order: programs and sockets before the namespaces that hold their interfaces.
    means: Means,
    _sink: Option<(Link, Program)>,
    bed: Bed,
    cpus: CpuPlan,
}

enum Means {
    Weir(Tester),
    Peer { peer: Peer, files: Files, frame_bytes: u16 },
}

/// One trial.
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

/// What a trial has to do with the rest of the run.
pub(super) struct Outside<'a> {
    pub(super) journal: &'a mut Journal,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// A trial gave nothing: the run cannot go on, or this generator cannot.
pub(super) enum Failed {
    Run(RunError),
    Generator(String),
}

impl<E: Into<RunError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed::Run(error.into())
    }
}

/// Counters of the wire at one moment.
struct Sample {
    sender: Device,
    receiver: Device,
    cost: CostSample,
    at: Instant,
}

impl Contestant {
    /// Builds the bed, and all that the generator reads.
    pub(super) fn build(
        generator: Generator,
        spec: &PointSpec,
        seed: u64,
        journal: &mut Journal,
    ) -> Result<Contestant, RunError> {
        let cpus = CpuPlan::choose(DutCpus::Count(1))?;
        // Both ends of a wire are in one namespace, where the kernel would not send to itself over it.
        let dut =
            if generator == Generator::Peer(Peer::Iperf3) { DutKind::KERNEL_FORWARD } else { DutKind::WIRE };
        let bed = Bed::build(&bed_spec(&PointSpec { dut, ..spec.clone() }, &cpus), journal)?;
        let ports = bed.ports();
        let traffic = traffic(spec, &ports, seed);
        let sink = if dut == DutKind::WIRE { Some(sink(&bed)?) } else { None };
        let means = match generator {
            Generator::Weir(kind) => {
                let mode = Mode::Native;
                let interfaces = [
                    Interface { ifindex: ports[0].ifindex, mode, pass: false },
                    Interface { ifindex: 0, mode, pass: false },
                ];
                let slot = Some(IdleLoopback(1));
                Means::Weir(bed.tester().run(|| Tester::new(kind, interfaces, traffic, slot))?)
            }
            Generator::Peer(peer) => {
                let frame_bytes = spec.frame.max();
                let flow: Flow = traffic.flows.sequence()[0];
                let frame = traffic.ends[0].frame(&flow, frame_bytes, Signature::default());
                let files = Files::new().map_err(|error| io("a temporary directory", error))?;
                files.prepare(peer, &frame).map_err(|error| io("a file for a peer", error))?;
                Means::Peer { peer, files, frame_bytes }
            }
        };
        let contestant = Contestant { means, _sink: sink, bed, cpus };
        if dut != DutKind::WIRE {
            contestant.give_tester_an_address()?;
        }
        Ok(contestant)
    }

    /// Makes the tester's namespace a host that reaches the other end.
    fn give_tester_an_address(&self) -> Result<(), RunError> {
        let (port, ip) = (&self.bed.ports()[0], weir_packet::flow::IpVersion::V4);
        let remote = self.bed.dut_address(Side::A);
        self.bed.tester().run(|| {
            let mut rtnl = Rtnl::open()?;
            rtnl.add_address(port.ifindex, Side::A.tester(ip), Side::A.network(ip).1)?;
            rtnl.add_neighbour(port.ifindex, remote, port.next_hop_mac)
        })?;
        Ok(())
    }

    /// The CPU that sends.
    pub(super) fn cpu(&self) -> usize {
        self.cpus.tester[0]
    }

    /// CPUs of the other end that are not the sender's.
    pub(super) fn other_cpus(&self) -> Vec<usize> {
        if self.bed.dut().is_some() { self.cpus.dut.clone() } else { Vec::new() }
    }

    /// Sends at full speed for `duration`.
    pub(super) fn trial(&mut self, duration: Duration, outside: &mut Outside<'_>) -> Result<Sent, Failed> {
        if matches!(self.means, Means::Weir(_)) {
            return Ok(self.own_trial(duration, outside)?);
        }
        let before = self.sample()?;
        let mut children = self.start(duration, outside.journal)?;
        let sent = self.watch(&before, &mut children, duration, outside);
        for (mut child, entry) in children.into_iter().rev() {
            outside.journal.undo(entry)?;
            // Killed: there is no status to learn from.
            let _ = child.wait();
        }
        // What it has started dies after it.
        thread::sleep(AFTERMATH);
        sent
    }

    fn own_trial(&mut self, duration: Duration, outside: &Outside<'_>) -> Result<Sent, RunError> {
        let before = self.sample()?;
        let (cpu, bed) = (self.cpu(), &self.bed);
        let Means::Weir(tester) = &mut self.means else { unreachable!("asked by trial") };
        let load = Load::full_speed(duration);
        let control = Control::new(outside.stop, outside.progress);
        let counts = bed.tester().run(|| {
            let placed = pin_to(cpu);
            debug_assert!(placed.is_ok(), "{placed:?}");
            tester.trial(&load, &control)
        })?;
        let mut sent = self.sample()?.since(&before);
        sent.offered = counts.streams.iter().map(|s| s.sent).sum();
        // Sending ends by the clock; after that it waits for frames that are never returned.
        sent.elapsed = duration;
        Ok(sent)
    }

    /// Starts the peer, with what it needs at the other end.
    fn start(&self, duration: Duration, journal: &mut Journal) -> Result<Vec<(Child, EntryId)>, RunError> {
        let Means::Peer { peer, files, frame_bytes } = &self.means else { unreachable!("asked by trial") };
        let ports = self.bed.ports();
        let server = self.bed.dut_address(Side::A);
        let most_s = (duration + START + SETTLE).as_secs() + 5;
        let target = Target { device: &ports[0].ifname, server, frame_bytes: *frame_bytes, most_s };
        let (sender, elsewhere) = (self.cpu(), self.cpus.dut[0]);
        let mut children = Vec::new();
        if let Some(dut) = self.bed.dut() {
            let mut command = command::iperf3_server(server);
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
            command.stderr(std::process::Stdio::null());
            children.push(dut.run(|| spawn_on(elsewhere, &mut command, journal))?);
            thread::sleep(SERVER_START);
        }
        let mut command = command::sender(*peer, &target, files);
        files.collect(&mut command).map_err(|error| io("a file for a peer", error))?;
        children.push(self.bed.tester().run(|| {
            let child = spawn_on(sender, &mut command, journal);
            // The reader of the counters must not share the sender's CPU.
            let placed = pin_to(elsewhere);
            debug_assert!(placed.is_ok(), "{placed:?}");
            child
        })?);
        Ok(children)
    }

    /// Waits until the peer sends, and counts for `duration`.
    fn watch(
        &self,
        before: &Sample,
        children: &mut [(Child, EntryId)],
        duration: Duration,
        outside: &Outside<'_>,
    ) -> Result<Sent, Failed> {
        let Means::Peer { files, .. } = &self.means else { unreachable!("asked by trial") };
        let sender = &mut children.last_mut().expect("the sender is the last one").0;
        let deadline = Instant::now() + START;
        while self.sample()?.since(before).received < SENDING {
            if ended(sender) || Instant::now() > deadline {
                let how = if ended(sender) { "it ended" } else { "it sent nothing within 5 s" };
                return Err(Failed::Generator(format!("{how}: {}", files.last_words())));
            }
            if outside.stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(LOOK);
        }
        thread::sleep(SETTLE);
        let start = self.sample()?;
        while start.at.elapsed() < duration && !outside.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK.min(duration.saturating_sub(start.at.elapsed())));
        }
        let sent = self.sample()?.since(&start);
        if ended(sender) {
            return Err(Failed::Generator(format!("it ended too early: {}", files.last_words())));
        }
        (outside.progress)(sent.sent, sent.received);
        Ok(sent)
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

fn sink(bed: &Bed) -> Result<(Link, Program), RunError> {
    let port = &bed.ports()[1];
    let attached = bed.tester().run(|| {
        let program = Program::load("sink", object::DROP, &[])?;
        Ok((program.attach(port.ifindex, Mode::Native)?, program))
    });
    attached.map_err(|error: weir_port::bpf::BpfError| {
        RunError::Load(weir_load::xdp::XdpError::from(error).into())
    })
}

/// Starts a command on one CPU: it inherits the CPUs of the thread that starts it.
fn spawn_on(
    cpu: usize,
    command: &mut std::process::Command,
    journal: &mut Journal,
) -> Result<(Child, EntryId), RunError> {
    pin_to(cpu).map_err(|error| io("place a peer on its CPU", error))?;
    Ok(journal.spawn(command)?)
}

fn ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

fn io(what: &str, source: std::io::Error) -> RunError {
    RunError::Linux(weir_linux::Error::os(what)(source))
}
