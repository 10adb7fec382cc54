//! The XDP tester: live frames out of an eBPF program, counted by another one where they arrive.

use std::io;
use std::time::{Duration, Instant};

use weir_packet::checksum::{fold, pseudo_header, sum};
use weir_packet::flow::{Flow, IpVersion};
use weir_packet::frame::{self, Ends, MAGIC};
use weir_packet::size::{FCS_BYTES, FrameSizes};
use weir_port::bpf::{BpfError, Link, Memory, Mode, Program, now_ns, object};
use weir_port::shared::{self, EMPTY_GROUP, GROUPS, Gen, Group, LATENCY_BUCKETS, Recv, Stream, Window};

use crate::counts::{Counts, GroupCounts, Load, PortCounts, StreamCounts, Traffic, empty_lateness};
use crate::{Control, grace};

/// Largest frame that live-frames mode takes (one page less its overhead), FCS included.
pub const MAX_FRAME_BYTES: u16 = 3392 + FCS_BYTES as u16;

/// Time from arming the generator to the first frame: all programs must be running by then.
const LEAD: Duration = Duration::from_micros(500);
/// Nothing arriving for this long means that nothing is under way any more.
const QUIET: Duration = Duration::from_millis(10);
/// Program runs in one call of the generator while it waits for due times (some milliseconds).
const RUNS_PER_CALL: u32 = 1 << 16;

/// Pointer to a field of shared memory, without making a reference.
macro_rules! field {
    ($pointer:expr, $($path:tt)+) => {
        // SAFETY: the address of a field inside the structure that the pointer points to; nothing is read.
        unsafe { std::ptr::addr_of_mut!((*$pointer).$($path)+) }
    };
}
/// What can go wrong with the XDP tester.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// An eBPF program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The frames are too long.
    #[error(
        "frames of {0} bytes do not fit into live frames (at most {MAX_FRAME_BYTES}): use the AF_PACKET tester"
    )]
    TooLong(u16),
}

/// A network interface of the tester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Index in the namespace where the tester runs.
    pub ifindex: u32,
    /// How XDP programs are attached to it.
    pub mode: Mode,
}

/// Sends from and counts at two ports. Everything must be called in the network namespace of the ports.
pub struct XdpTester {
    generator: Program,
    memory: Memory<Gen>,
    receivers: [Receiver; 2],
    traffic: Traffic,
    ifindex: [u32; 2],
    flow_count: u32,
    epoch: u8,
    _slot: Option<Link>,
}

struct Receiver {
    program: Program,
    memory: Memory<Recv>,
    _link: Option<Link>,
}

/// Where a program can be attached without doing anything, so that the kernel keeps its dispatcher slot and
/// starting the generator costs 20 us in place of 25 ms: a loopback interface that carries no traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleLoopback(pub u32);

impl XdpTester {
    /// Loads and attaches everything. A port without ifindex (0) neither sends nor receives.
    pub fn new(
        ports: [Interface; 2],
        traffic: Traffic,
        slot: Option<IdleLoopback>,
    ) -> Result<Self, XdpError> {
        if traffic.sizes.max() > MAX_FRAME_BYTES {
            return Err(XdpError::TooLong(traffic.sizes.max()));
        }
        let flows = traffic.flows.sequence();
        let streams = if traffic.sends(1) { 2 } else { 1 };
        let generator =
            Program::load("generator", object::GENERATOR, &[("flows", flows.len() as u32 * streams)])?;
        let table = generator.memory::<shared::Flow>("flows", flows.len() * streams as usize)?;
        for (i, flow) in flows.iter().enumerate() {
            table.set(i, &table_entry(*flow));
            if traffic.sends(1) {
                table.set(flows.len() + i, &table_entry(flow.reversed()));
            }
        }
        let memory = generator.memory("bss", 1)?;
        let slot = slot.map(|lo| generator.attach(lo.0, Mode::Generic)).transpose()?;
        let groups = u32::from(traffic.flows.groups);
        let receivers = [Receiver::new(ports[0], groups)?, Receiver::new(ports[1], groups)?];
        let ifindex = [ports[0].ifindex, ports[1].ifindex];
        let flow_count = flows.len() as u32;
        Ok(XdpTester { generator, memory, receivers, traffic, ifindex, flow_count, epoch: 0, _slot: slot })
    }

    /// Sends `load`, waits until all has arrived, returns what was counted.
    pub fn trial(&mut self, load: &Load, control: &Control) -> Result<Counts, XdpError> {
        self.epoch = self.epoch.wrapping_add(1);
        self.arm_receivers()?;
        let mut state = self.armed(load);
        let started = Instant::now();
        state.start_ns = now_ns() + LEAD.as_nanos() as u64;
        let grace = if load.fps.is_some() { grace(load.duration) } else { Duration::ZERO };
        state.stop_ns = state.start_ns + (load.duration + grace).as_nanos() as u64;
        self.memory.set(0, &state);
        let frame = self.first_frame();
        let batch = batch(load.fps);
        while self.memory.field(0, |g| field!(g, active)) != 0 && !control.stopped() {
            self.generator.run_live(&frame, RUNS_PER_CALL, batch)?;
            let (sent, received) = self.progress();
            control.report(sent, received);
        }
        let sending = started.elapsed().saturating_sub(LEAD);
        self.wait_until_quiet();
        self.collect(sending)
    }

    /// Frames sent so far by both streams and received so far,.
    fn progress(&self) -> (u64, u64) {
        let sent = (0..2).map(|i| self.memory.field(0, |g| field!(g, stream[i].sent))).sum();
        (sent, self.arrived())
    }

    fn arm_receivers(&self) -> Result<(), BpfError> {
        for (port, receiver) in self.receivers.iter().enumerate() {
            let stream = (0..2).find(|&s| self.traffic.sends(s) && self.traffic.arrival(s) == port);
            let reflects = self.traffic.direction == weir_packet::flow::Direction::Reflect && port == 1;
            receiver.arm(self.epoch, stream.unwrap_or(0) as u8, reflects, self.traffic.flows.groups)?;
        }
        Ok(())
    }

    /// The generator's memory at the start of a trial.
    fn armed(&self, load: &Load) -> Gen {
        let mut state = self.memory.get(0);
        state.epoch = self.epoch;
        state.active = 1;
        state.seed = self.traffic.seed;
        state.size_max = self.traffic.sizes.max() - FCS_BYTES as u16;
        (state.size_count, state.size) = size_table(&self.traffic.sizes);
        let streams = self.traffic.streams() as f64;
        for i in 0..2 {
            state.stream[i] = self.armed_stream(i, load, load.fps.map(|fps| fps / streams));
        }
        // Both directions are interleaved, not simultaneous.
        state.stream[1].due_q16 = state.stream[1].gap_q16 / 2;
        state
    }

    fn armed_stream(&self, i: usize, load: &Load, fps: Option<f64>) -> Stream {
        let ends = &self.traffic.ends[i];
        let mut header = [0; 64];
        let bytes = ends.header(&NO_FLOW, self.traffic.sizes.max());
        header[..bytes.len()].copy_from_slice(&bytes);
        let (ip_sum, udp_sum) = constant_sums(ends, i as u8, self.epoch);
        let paced = fps.map(|fps| (fps * load.duration.as_secs_f64()).round() as u64);
        Stream {
            ifindex: if self.traffic.sends(i) { self.ifindex[i] } else { 0 },
            header_bytes: bytes.len() as u32,
            header,
            ip_sum,
            udp_sum,
            gap_q16: fps.map_or(0, |fps| (65_536e9 / fps).round() as u64),
            total: paced.unwrap_or(u64::MAX).min(load.max_frames.unwrap_or(u64::MAX)),
            flow_first: if i == 1 { self.flow_count } else { 0 },
            flow_count: self.flow_count,
            sent: 0,
            due_q16: 0,
            last_ns: 0,
            late_sum_ns: 0,
            late_max_ns: 0,
            flow_next: 0,
            size_next: 0,
            bytes: 0,
            seq: [0; GROUPS],
            late: [0; shared::LATE_BUCKETS],
        }
    }

    /// What the kernel fills its pages with; the program overwrites headers and signature each time.
    fn first_frame(&self) -> Vec<u8> {
        vec![0; usize::from(self.traffic.sizes.max()) - FCS_BYTES]
    }

    fn arrived(&self) -> u64 {
        let received = |r: &Receiver| r.memory.field(0, |m| field!(m, received));
        match self.traffic.direction {
            weir_packet::flow::Direction::Reflect => received(&self.receivers[0]),
            _ => self.receivers.iter().map(received).sum(),
        }
    }

    /// Returns when all that was sent has arrived, or nothing more does.
    fn wait_until_quiet(&self) {
        let mut last = (self.arrived(), Instant::now());
        while last.1.elapsed() < QUIET {
            let (sent, now) = (self.progress().0, self.arrived());
            if now >= sent {
                return;
            }
            if now != last.0 {
                last = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn collect(&self, sending: Duration) -> Result<Counts, XdpError> {
        let state = self.memory.get(0);
        let streams = (0..2).filter(|&i| self.traffic.sends(i));
        let streams = streams.map(|i| self.stream_counts(i, &state.stream[i])).collect::<Result<_, _>>()?;
        let ports = [self.receivers[0].port_counts(), self.receivers[1].port_counts()];
        Ok(Counts { streams, ports, sending, drops: Vec::new() })
    }

    fn stream_counts(&self, i: usize, sent: &Stream) -> Result<StreamCounts, BpfError> {
        let receiver = &self.receivers[self.traffic.arrival(i)];
        let groups = (0..self.traffic.flows.groups)
            .map(|g| receiver.group(u32::from(g), u64::from(sent.seq[usize::from(g)])))
            .collect::<Result<_, _>>()?;
        let mut late = empty_lateness();
        late.add(&sent.late);
        let offered = if sent.total == u64::MAX { sent.sent } else { sent.total };
        Ok(StreamCounts {
            stream: i,
            offered,
            sent: sent.sent,
            sent_bytes: sent.bytes,
            late,
            late_max_ns: sent.late_max_ns,
            last_ns: sent.last_ns,
            groups,
        })
    }
}

impl Receiver {
    fn new(port: Interface, groups: u32) -> Result<Self, BpfError> {
        let program =
            Program::load("receiver", object::RECEIVER, &[("groups", groups), ("windows", groups)])?;
        let memory = program.memory("bss", 1)?;
        let link = (port.ifindex != 0).then(|| program.attach(port.ifindex, port.mode)).transpose()?;
        Ok(Receiver { program, memory, _link: link })
    }

    /// Forgets the last trial and expects `stream` of the next.
    fn arm(&self, epoch: u8, stream: u8, reflects: bool, groups: u16) -> Result<(), BpfError> {
        for group in 0..u32::from(groups) {
            self.program.write_per_cpu("groups", group, &EMPTY_GROUP)?;
            self.program.write("windows", group, &Window { next: 0, word: [(0, 0); 1024] })?;
        }
        let mut state = self.memory.get(0);
        (state.epoch, state.stream, state.reflect) = (epoch, stream, u32::from(reflects));
        (state.received, state.corrupted, state.stale) = (0, 0, 0);
        (state.misdelivered, state.other, state.reflected) = (0, 0, 0);
        self.memory.set(0, &state);
        Ok(())
    }

    fn group(&self, group: u32, sent: u64) -> Result<GroupCounts, BpfError> {
        let mut counts = GroupCounts { sent, ..GroupCounts::empty() };
        for cpu in self.program.read_per_cpu::<Group>("groups", group)? {
            add_cpu(&mut counts, &cpu);
        }
        Ok(counts)
    }

    fn port_counts(&self) -> PortCounts {
        let state = self.memory.get(0);
        PortCounts {
            corrupted: state.corrupted,
            stale: state.stale,
            misdelivered: state.misdelivered,
            other: state.other,
            reflected: state.reflected,
        }
    }
}

fn add_cpu(counts: &mut GroupCounts, cpu: &Group) {
    let seen_before = counts.latency_min_ns != 0;
    counts.received += cpu.received - cpu.duplicated;
    counts.duplicated += cpu.duplicated;
    counts.reordered += cpu.reordered;
    counts.latency.add(&cpu.latency[..LATENCY_BUCKETS]);
    counts.latency_sum_ns += cpu.latency_sum_ns;
    counts.latency_max_ns = counts.latency_max_ns.max(cpu.latency_max_ns);
    if cpu.latency_min_ns != 0 && (!seen_before || cpu.latency_min_ns < counts.latency_min_ns) {
        counts.latency_min_ns = cpu.latency_min_ns;
    }
}

const NO_FLOW: Flow = Flow { src: 0, dst: 0, sport: 0, dport: 0, group: 0 };

/// A flow as the program reads it. Sums are native-endian there: the checksum does not mind (RFC 1071).
fn table_entry(flow: Flow) -> shared::Flow {
    let (src, dst) = (flow.src.to_be(), flow.dst.to_be());
    let (sport, dport) = (flow.sport.to_be(), flow.dport.to_be());
    let halves = [src & 0xffff, src >> 16, dst & 0xffff, dst >> 16, u32::from(sport), u32::from(dport)];
    let sum = fold(halves.iter().map(|&h| u64::from(h)).sum());
    shared::Flow { src, dst, sport, dport, group: flow.group, sum }
}

/// Sums over what is the same in all frames of a stream: IPv4 header, and what UDP's checksum covers.
fn constant_sums(ends: &Ends, stream: u8, epoch: u8) -> (u32, u32) {
    let header = ends.header(&NO_FLOW, frame::min_frame_bytes(ends.ip));
    let native = |sum: u64| u32::from(fold(sum).swap_bytes());
    let (ip_sum, addresses) = match ends.ip {
        IpVersion::V4 => {
            let mut ip = header[14..34].to_vec();
            ip[2..4].fill(0);
            ip[10..12].fill(0);
            (native(sum(&ip)), &header[26..34])
        }
        IpVersion::V6 => (0, &header[22..54]),
    };
    let signature = u32::from(MAGIC) + (u32::from(stream) | u32::from(epoch) << 8);
    (ip_sum, native(pseudo_header(addresses, 0)) + signature)
}

fn size_table(sizes: &FrameSizes) -> (u32, [u16; weir_packet::size::MAX_CYCLE]) {
    let mut table = [0; weir_packet::size::MAX_CYCLE];
    let fcs = FCS_BYTES as u16;
    match sizes {
        FrameSizes::Fixed(size) => {
            table[0] = size - fcs;
            (1, table)
        }
        FrameSizes::Cycle { sizes, .. } => {
            for (entry, size) in table.iter_mut().zip(sizes) {
                *entry = size - fcs;
            }
            (sizes.len() as u32, table)
        }
        FrameSizes::Random { min, max } => {
            (table[0], table[1]) = (min - fcs, max - fcs);
            (0, table)
        }
    }
}

/// Frames per batch. A frame leaves at the end of its batch of program runs, some 45 ns each: a small batch
/// gives exact departures; a large one wakes a sleeping receiver less often, which costs a microsecond. At
/// high rates the time between two batches makes frames late, and catching up has its limit: a batch must be
/// long against that time, or the rate stays below what was asked.
fn batch(fps: Option<f64>) -> u32 {
    match fps {
        Some(fps) if fps < 1e5 => 4,
        Some(fps) if fps < 5e5 => 16,
        Some(fps) if fps > 1.5e6 => 256,
        _ => 64,
    }
}

/// Is the XDP tester possible at all: may this process load eBPF programs? Says why not.
pub fn probe() -> Result<(), BpfError> {
    Program::load("generator", object::GENERATOR, &[]).map(drop)
}

/// Pins the calling thread to one CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is valid; CPU_SET stays within it because the kernel's CPU numbers do.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        if libc::sched_setaffinity(0, size_of_val(&set), &set) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
