//! The AF_PACKET tester: frames built here, sent in batches through a socket, received through a ring.
//!
//! Slower and less exact than the XDP tester, but it needs no eBPF: an unprivileged user namespace will do,
//! and frames may be as long as the interface takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_packet::flow::{Direction, Flow};
use weir_packet::frame::{self, Parsed, Signature};
use weir_packet::size::{FCS_BYTES, FrameSizes};
use weir_port::bpf::now_ns;
use weir_port::packet::{BATCH, PacketError, Ring, Sender};

use crate::counts::{
    Counts, GroupCounts, Load, PortCounts, StreamCounts, TesterDrops, Traffic, empty_lateness,
};
use crate::sequence::{Arrival, Window};
use crate::{Control, grace};

/// MiB of each receive ring: half a second of small frames at 0.4 Mpps.
const RING_BLOCKS: u32 = 32;
/// Nothing arriving for this long means that nothing is under way any more; blocks are retired after 2 ms.
const QUIET: Duration = Duration::from_millis(20);

/// Sends from and counts at two ports. Everything must be called in the network namespace of the ports.
pub struct PacketTester {
    senders: [Option<Sender>; 2],
    rings: [Option<Ring>; 2],
    traffic: Traffic,
    flows: Vec<Flow>,
    epoch: u8,
}

impl PacketTester {
    /// Opens all sockets. A port with index 0 neither sends nor receives.
    pub fn new(ifindex: [u32; 2], traffic: Traffic) -> Result<Self, PacketError> {
        let open = |i: u32, wanted: bool| (i != 0 && wanted).then_some(i);
        let reflects = traffic.direction == Direction::Reflect;
        let senders = [
            open(ifindex[0], true).map(Sender::open).transpose()?,
            open(ifindex[1], traffic.sends(1) || reflects).map(Sender::open).transpose()?,
        ];
        let ring = |i: u32| open(i, true).map(|i| Ring::open(i, RING_BLOCKS)).transpose();
        let rings = [ring(ifindex[0])?, ring(ifindex[1])?];
        let flows = traffic.flows.sequence();
        Ok(PacketTester { senders, rings, traffic, flows, epoch: 0 })
    }

    /// Sends `load`, waits until all has arrived, returns what was counted.
    pub fn trial(&mut self, load: &Load, control: &Control) -> Result<Counts, PacketError> {
        self.epoch = self.epoch.wrapping_add(1);
        let (epoch, traffic) = (self.epoch, &self.traffic);
        let done = AtomicBool::new(false);
        let arrived = AtomicU64::new(0);
        let [ring_a, ring_b] = &mut self.rings;
        let reflector = self.senders[1].as_ref().filter(|_| traffic.direction == Direction::Reflect);
        let senders = &self.senders;
        let flows = &self.flows;
        let clock_offset_ns = realtime_ns() - now_ns() as i128;
        let (mut streams, sending, ports) = std::thread::scope(|scope| {
            let receive = |ring: &'_ mut Option<Ring>, port: usize, reflector| {
                let receiver = Receiver::new(port, epoch, traffic, clock_offset_ns, reflector);
                let ring = ring.take()?;
                let (done, arrived) = (&done, &arrived);
                Some(scope.spawn(move || receiver.run(ring, done, arrived)))
            };
            let handles = [receive(ring_a, 0, None), receive(ring_b, 1, reflector)];
            let start = Instant::now();
            let sent = Transmitter::new(traffic, flows, epoch, load).run(senders, control, &arrived);
            let sending = start.elapsed();
            if let Ok(streams) = &sent {
                wait_until_quiet(&arrived, streams.iter().map(|s| s.sent).sum());
            }
            done.store(true, Ordering::Release);
            let ports = handles.map(|h| h.map(|h| h.join().expect("a receiver does not panic")));
            (sent, sending, ports)
        });
        let mut counts = [PortCounts::default(); 2];
        let mut drops = Vec::new();
        for (port, result) in ports.into_iter().enumerate() {
            let Some(Received { ring, result }) = result else { continue };
            self.rings[port] = Some(ring);
            let receiver = result?;
            counts[port] = receiver.counts;
            if receiver.ring_drops > 0 {
                let source = format!("port {} PACKET_STATISTICS tp_drops", ["a", "b"][port]);
                drops.push(TesterDrops {
                    name: "tester ring full".into(),
                    frames: receiver.ring_drops,
                    source,
                });
            }
            if let Ok(streams) = &mut streams {
                receiver.report(streams);
            }
        }
        Ok(Counts { streams: streams?, ports: counts, sending, drops })
    }
}

fn wait_until_quiet(arrived: &AtomicU64, sent: u64) {
    let mut last = (arrived.load(Ordering::Relaxed), Instant::now());
    while last.0 < sent && last.1.elapsed() < QUIET {
        std::thread::sleep(Duration::from_micros(500));
        let now = arrived.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}

/// Builds frames and sends them when they are due.
struct Transmitter<'a> {
    traffic: &'a Traffic,
    flows: &'a [Flow],
    epoch: u8,
    duration: Duration,
    streams: Vec<Outgoing>,
    random: u64,
}

/// Progress of one stream that is being sent.
struct Outgoing {
    counts: StreamCounts,
    gap_ns: f64,
    total: u64,
    seq: Vec<u32>,
    last_ns: u64,
}

impl Outgoing {
    fn due_ns(&self) -> u64 {
        (self.counts.sent as f64 * self.gap_ns) as u64
    }

    /// How many frames may leave now. Late, it catches up at 1.25 times the nominal rate.
    fn allowed(&self, now_ns: u64) -> u64 {
        let left = self.total - self.counts.sent;
        if self.gap_ns == 0.0 {
            return left.min(BATCH as u64);
        }
        if now_ns < self.due_ns() {
            return 0;
        }
        let due = ((now_ns - self.due_ns()) as f64 / self.gap_ns) as u64 + 1;
        let since_last = (now_ns - self.last_ns) as f64 * 1.25 / self.gap_ns;
        due.min((since_last as u64).max(1)).min(left).min(BATCH as u64)
    }
}

impl<'a> Transmitter<'a> {
    fn new(traffic: &'a Traffic, flows: &'a [Flow], epoch: u8, load: &Load) -> Self {
        let per_stream = load.fps.map(|fps| fps / traffic.streams() as f64);
        let total = per_stream.map_or(u64::MAX, |fps| (fps * load.duration.as_secs_f64()).round() as u64);
        let total = total.min(load.max_frames.unwrap_or(u64::MAX));
        let outgoing = |stream| Outgoing {
            counts: StreamCounts {
                stream,
                offered: total,
                sent: 0,
                sent_bytes: 0,
                late: empty_lateness(),
                late_max_ns: 0,
                last_ns: 0,
                groups: vec![GroupCounts::empty(); usize::from(traffic.flows.groups)],
            },
            gap_ns: per_stream.map_or(0.0, |fps| 1e9 / fps),
            total,
            seq: vec![0; usize::from(traffic.flows.groups)],
            last_ns: 0,
        };
        let streams = (0..2).filter(|&i| traffic.sends(i)).map(outgoing).collect();
        Transmitter { traffic, flows, epoch, duration: load.duration, streams, random: traffic.seed }
    }

    fn run(
        mut self,
        senders: &[Option<Sender>; 2],
        control: &Control,
        arrived: &AtomicU64,
    ) -> Result<Vec<StreamCounts>, PacketError> {
        let start = now_ns();
        let paced = self.streams.iter().all(|s| s.gap_ns > 0.0);
        let limit = self.duration + if paced { grace(self.duration) } else { Duration::ZERO };
        let mut frames = vec![Vec::new(); BATCH];
        while self.streams.iter().any(|s| s.counts.sent < s.total) && !control.stopped() {
            let elapsed = now_ns() - start;
            if elapsed >= limit.as_nanos() as u64 {
                break;
            }
            for i in 0..self.streams.len() {
                let n = self.streams[i].allowed(elapsed) as usize;
                if let (Some(sender), true) = (&senders[self.streams[i].counts.stream], n > 0) {
                    self.build(i, &mut frames[..n], start + elapsed);
                    let sent = sender.send(&frames[..n])?;
                    self.note(i, &frames[..sent], elapsed);
                }
            }
            control.report(self.streams.iter().map(|s| s.counts.sent).sum(), arrived.load(Ordering::Relaxed));
        }
        Ok(self.streams.into_iter().map(finished).collect())
    }

    /// Builds the next frames of stream `i`; numbers are only used up when they are sent.
    fn build(&mut self, i: usize, frames: &mut [Vec<u8>], time_ns: u64) {
        let stream = &self.streams[i];
        let ends = &self.traffic.ends[stream.counts.stream];
        let mut seq = stream.seq.clone();
        for (k, frame) in frames.iter_mut().enumerate() {
            let n = stream.counts.sent + k as u64;
            let mut flow = self.flows[(n % self.flows.len() as u64) as usize];
            if stream.counts.stream == 1 {
                flow = flow.reversed();
            }
            let next = &mut seq[usize::from(flow.group)];
            let signature = Signature {
                stream: stream.counts.stream as u8,
                epoch: self.epoch,
                group: flow.group,
                seq: *next,
                time_ns,
            };
            *next += 1;
            *frame = ends.frame(&flow, size_of_frame(&self.traffic.sizes, n, &mut self.random), signature);
        }
    }

    fn note(&mut self, i: usize, sent: &[Vec<u8>], elapsed_ns: u64) {
        let stream = &mut self.streams[i];
        for frame in sent {
            if stream.gap_ns > 0.0 {
                let late = elapsed_ns.saturating_sub(stream.due_ns());
                stream.counts.late.record(late);
                stream.counts.late_max_ns = stream.counts.late_max_ns.max(late);
            }
            let flow = &self.flows[(stream.counts.sent % self.flows.len() as u64) as usize];
            stream.seq[usize::from(flow.group)] += 1;
            stream.counts.sent += 1;
            stream.counts.sent_bytes += (frame.len() + FCS_BYTES) as u64;
            stream.last_ns = elapsed_ns;
        }
    }
}

fn finished(stream: Outgoing) -> StreamCounts {
    let mut counts = stream.counts;
    for (group, sent) in counts.groups.iter_mut().zip(stream.seq) {
        group.sent = u64::from(sent);
    }
    if stream.gap_ns > 0.0 {
        counts.last_ns = stream.last_ns;
    }
    if counts.offered == u64::MAX {
        counts.offered = counts.sent;
    }
    counts
}

fn size_of_frame(sizes: &FrameSizes, n: u64, random: &mut u64) -> u16 {
    match sizes {
        FrameSizes::Fixed(size) => *size,
        FrameSizes::Cycle { sizes, .. } => sizes[(n % sizes.len() as u64) as usize],
        FrameSizes::Random { min, max } => {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            min + ((*random >> 33) % u64::from(max - min + 1)) as u16
        }
    }
}

/// Counts what arrives at one port.
struct Receiver<'a> {
    epoch: u8,
    stream: Option<u8>,
    clock_offset_ns: i128,
    reflector: Option<&'a Sender>,
    groups: Vec<(GroupCounts, Window)>,
    counts: PortCounts,
    ring_drops: u64,
}

/// A receiver's thread gives the ring back for the next trial.
struct Received<'a> {
    ring: Ring,
    result: Result<Receiver<'a>, PacketError>,
}

impl<'a> Receiver<'a> {
    fn new(
        port: usize,
        epoch: u8,
        traffic: &Traffic,
        clock_offset_ns: i128,
        reflector: Option<&'a Sender>,
    ) -> Self {
        let stream =
            (0..2).find(|&s| traffic.sends(s) && (reflector.is_some() || traffic.arrival(s) == port));
        Receiver {
            epoch,
            stream: stream.map(|s| s as u8),
            clock_offset_ns,
            reflector,
            groups: vec![(GroupCounts::empty(), Window::default()); usize::from(traffic.flows.groups)],
            counts: PortCounts::default(),
            ring_drops: 0,
        }
    }

    fn run(mut self, mut ring: Ring, done: &AtomicBool, arrived: &AtomicU64) -> Received<'a> {
        ring.stats();
        let result = loop {
            let last = done.load(Ordering::Acquire);
            let before = self.counted();
            match ring.receive(Duration::from_millis(5), |frame, time| self.take(frame, time)) {
                Err(error) => break Err(error),
                Ok(0) if last => break Ok(()),
                Ok(_) => arrived.fetch_add(self.counted() - before, Ordering::Relaxed),
            };
        };
        self.ring_drops = ring.stats().drops;
        Received { ring, result: result.map(|()| self) }
    }

    fn counted(&self) -> u64 {
        self.groups.iter().map(|(g, _)| g.received + g.duplicated).sum()
    }

    fn take(&mut self, frame: &[u8], realtime_ns: u64) {
        let signature = match frame::parse(frame) {
            Parsed::Test(signature) => signature,
            Parsed::Corrupted => return self.counts.corrupted += 1,
            Parsed::Other => return self.counts.other += 1,
        };
        if signature.epoch != self.epoch {
            self.counts.stale += 1;
        } else if Some(signature.stream) != self.stream {
            self.counts.misdelivered += 1;
        } else if let Some(sender) = self.reflector {
            let mut back = vec![frame.to_vec()];
            frame::reflect(&mut back[0]);
            self.counts.reflected += sender.send(&back).unwrap_or(0) as u64;
        } else if let Some((group, window)) = self.groups.get_mut(usize::from(signature.group)) {
            let now = i128::from(realtime_ns) - self.clock_offset_ns;
            count(group, window, signature, now.saturating_sub(signature.time_ns.into()).max(0) as u64);
        }
    }

    fn report(&self, streams: &mut [StreamCounts]) {
        let Some(stream) = streams.iter_mut().find(|s| Some(s.stream as u8) == self.stream) else { return };
        if self.reflector.is_some() {
            return;
        }
        for (to, (from, _)) in stream.groups.iter_mut().zip(&self.groups) {
            *to = GroupCounts { sent: to.sent, ..from.clone() };
        }
    }
}

fn count(group: &mut GroupCounts, window: &mut Window, signature: Signature, latency_ns: u64) {
    match window.arrive(signature.seq) {
        Arrival::Duplicate => return group.duplicated += 1,
        Arrival::Reordered => group.reordered += 1,
        Arrival::InOrder => {}
    }
    if group.received == 0 || latency_ns < group.latency_min_ns {
        group.latency_min_ns = latency_ns;
    }
    group.received += 1;
    group.latency.record(latency_ns);
    group.latency_sum_ns += latency_ns;
    group.latency_max_ns = group.latency_max_ns.max(latency_ns);
}

/// CLOCK_REALTIME, the clock of the ring's time stamps.
fn realtime_ns() -> i128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as i128)
}
