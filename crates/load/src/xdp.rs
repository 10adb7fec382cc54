//! The XDP tester: live frames out of an eBPF program (here), counted by another one where they arrive
//! ([`receiver`]).

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use weir_packet::checksum::{fold, pseudo_header, sum};
use weir_packet::flow::{Flow, IpVersion};
use weir_packet::frame::{self, Ends, MAGIC, Transport};
use weir_packet::size::{FCS_BYTES, FrameSizes};
use weir_port::bpf::{self, BpfError, Link, Memory, Mode, Program, SLOW_CALL, Slot, now_ns, object};
use weir_port::field;
use weir_port::shared::{self, GROUPS, Gen, Stream};
pub use weir_port::thread::pin_to;

use crate::counts::{GroupCounts, Load, Shape, StreamCounts, Traffic, empty_lateness};
use crate::schedule::Schedule;
use crate::tcp::Act;
use crate::{Control, Start, grace};

/// Largest frame that live-frames mode takes (one page less its overhead), FCS included.
pub const MAX_FRAME_BYTES: u16 = 3392 + FCS_BYTES as u16;

/// At full speed a frame's time stamp is at most eight frames old, 0.4 us.
const FULL_SPEED_CLOCK_MASK: u32 = 7;
/// Groups of one call of the generator, some milliseconds.
const GROUPS_PER_CALL: u32 = 256;

mod checker;
mod receiver;
mod tester;
mod translation;

pub use receiver::XdpReceiver;
pub use tester::XdpTester;
pub use translation::clashes;

/// An error of the XDP tester.
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
    /// Whether frames that are not the tester's go on to the kernel while a trial runs.
    pub pass: bool,
}

/// Sends live frames out of one or two interfaces.
pub struct XdpGenerator {
    program: Program,
    memory: Memory<Gen>,
    traffic: Traffic,
    ifindex: [u32; 2],
    /// Flows that each stream has room for.
    flow_room: u32,
    /// Flows of each stream.
    flow_count: [u32; 2],
    slot: Option<Link>,
    /// Taken in place of it, where that came when no slot was free.
    retaken: Option<Slot>,
    /// Where sequence numbers of TCP connections begin.
    salt: u32,
}

/// Where a program can be attached without doing anything, so that the kernel keeps its dispatcher slot and
/// starting the generator costs 20 us in place of 25 ms: a loopback interface that carries no traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleLoopback(pub u32);

impl XdpGenerator {
    /// Loads the program and its flows; stream i leaves at interface i.
    pub fn new(ifindex: [u32; 2], traffic: Traffic) -> Result<Self, XdpError> {
        if traffic.sizes.max() > MAX_FRAME_BYTES {
            return Err(XdpError::TooLong(traffic.sizes.max()));
        }
        let flows = traffic.flows.sequence();
        let streams = if traffic.sends(1) { 2 } else { 1 };
        let program =
            Program::load("generator", object::GENERATOR, &[("flows", flows.len() as u32 * streams)])?;
        let table = program.memory::<shared::Flow>("flows", flows.len() * streams as usize)?;
        for (i, flow) in flows.iter().enumerate() {
            table.set(i, &table_entry(*flow));
            if traffic.sends(1) {
                table.set(flows.len() + i, &table_entry(flow.reversed()));
            }
        }
        let memory = program.memory("bss", 1)?;
        let flow_room = flows.len() as u32;
        let flow_count = [flow_room; 2];
        Ok(XdpGenerator {
            program,
            memory,
            traffic,
            ifindex,
            flow_room,
            flow_count,
            slot: None,
            retaken: None,
            salt: 0,
        })
    }

    /// Keeps the dispatcher's slot; call this in the network namespace of that loopback interface.
    pub fn hold_slot(&mut self, lo: IdleLoopback) -> Result<(), XdpError> {
        self.slot = Some(self.program.attach(lo.0, Mode::Generic)?);
        Ok(())
    }

    /// How long a call takes in which no frame is sent. A program that is to have a slot takes it again if the call is as slow as
    /// without one.
    pub(crate) fn ready(&mut self) -> Result<Duration, BpfError> {
        let call = self.call()?;
        if call < SLOW_CALL || (self.slot.is_none() && self.retaken.is_none()) {
            return Ok(call);
        }
        // The old link first: it has no slot, and would give up the new one.
        (self.slot, self.retaken) = (None, None);
        self.retaken = Slot::held(&self.program).ok();
        self.call()
    }

    /// The shorter one of two calls, if the first was slow: the host may have held the machine.
    fn call(&self) -> Result<Duration, BpfError> {
        self.memory.set_field(0, 0, field!(Gen, active));
        let frame = self.first_frame();
        let one = || -> Result<Duration, BpfError> {
            let begin = Instant::now();
            self.program.run_live(&frame, 2, 2)?;
            Ok(begin.elapsed())
        };
        let first = one()?;
        if first < SLOW_CALL { Ok(first) } else { Ok(first.min(one()?)) }
    }

    /// Sends `load` in the calling thread's network namespace and returns how long that took; `arrived` is
    /// what `control` gets beside what was sent.
    pub(crate) fn send(
        &self,
        load: &Load,
        start: Start,
        control: &Control,
        arrived: impl Fn() -> u64,
    ) -> Result<Duration, XdpError> {
        let mut state = self.armed(load, start.epoch);
        state.start_ns = start.at_ns;
        let grace = if load.fps.is_some() { grace(load.duration) } else { Duration::ZERO };
        state.stop_ns = state.start_ns + (load.duration + grace).as_nanos() as u64;
        let batch = Batch::of(load);
        (state.group, state.group_ns) = (batch.group, batch.group_ns);
        state.clock_mask = if at_full_speed(load) { FULL_SPEED_CLOCK_MASK } else { 0 };
        self.memory.set(0, &state);
        let frame = self.first_frame();
        while self.memory.field(0, field!(Gen, active)) != 0 && !control.stopped() {
            self.memory.set_field(0, 0, field!(Gen, run));
            self.program.run_live(&frame, batch.group * GROUPS_PER_CALL, batch.runs)?;
            control.report(self.sent(), arrived());
        }
        Ok(Duration::from_nanos(now_ns().saturating_sub(start.at_ns)))
    }

    /// Sends stream 0 of a steady load in turns: frames that became due since the last turn leave as fast as possible, and
    /// between turns the CPU is free for others, where [`XdpGenerator::send`] would spin.
    pub(crate) fn send_with_pauses(
        &self,
        load: &Load,
        turn: Duration,
        start: Start,
        control: &Control,
    ) -> Result<(), XdpError> {
        let Some(fps) = load.fps else { return self.send(load, start, control, || 0).map(drop) };
        let all = (fps * load.duration.as_secs_f64()).round() as u64;
        let unpaced = Load { max_frames: Some(0), ..Load::full_speed(load.duration) };
        let mut state = self.armed(&unpaced, start.epoch);
        state.start_ns = start.at_ns;
        // The last turn begins when the load ends.
        state.stop_ns = start.at_ns + (load.duration + 2 * turn).as_nanos() as u64;
        let batch = Batch::of(&unpaced);
        (state.group, state.clock_mask) = (batch.group, FULL_SPEED_CLOCK_MASK);
        self.memory.set(0, &state);
        let frame = self.first_frame();
        let (mut due, mut at) = (0, start.at_ns);
        while due < all && now_ns() < state.stop_ns && !control.stopped() {
            at = (at + turn.as_nanos() as u64).max(now_ns());
            sleep_until(at);
            let since_s = now_ns().saturating_sub(start.at_ns) as f64 / 1e9;
            let before = due;
            due = all.min((fps * since_s) as u64);
            self.memory.set_field(0, due, field!(Gen, stream).entry(0).then(field!(Stream, total)));
            self.memory.set_field(0, 1, field!(Gen, active));
            while self.memory.field(0, field!(Gen, active)) != 0 {
                self.memory.set_field(0, 0, field!(Gen, run));
                // One more run finds that all is sent.
                let runs = (due - before) as u32 + 1;
                self.program.run_live(&frame, runs.min(batch.group * GROUPS_PER_CALL), batch.runs)?;
            }
            control.report(self.sent(), 0);
        }
        // Frames that were not sent still count as offered.
        self.memory.set_field(0, all, field!(Gen, stream).entry(0).then(field!(Stream, total)));
        Ok(())
    }

    /// The streams that are sent here.
    pub(crate) fn sends(&self) -> impl Iterator<Item = usize> {
        (0..2).filter(|&i| self.traffic.sends(i) && self.ifindex[i] != 0)
    }

    /// Frames sent so far, all streams together.
    pub(crate) fn sent(&self) -> u64 {
        (0..2).map(|i| self.memory.field(0, field!(Gen, stream).entry(i).then(field!(Stream, sent)))).sum()
    }

    /// Frames sent here, per stream and per group.
    pub fn streams(&self) -> Vec<StreamCounts> {
        let state = self.memory.get(0);
        let sent = self.sends().filter(|&i| state.stream[i].ifindex != 0);
        sent.map(|i| self.stream_counts(i, &state)).collect()
    }

    fn stream_counts(&self, i: usize, state: &Gen) -> StreamCounts {
        let sent = &state.stream[i];
        let groups = usize::from(self.traffic.flows.groups);
        // A group's number has 32 bits; where there is one group, the stream's count has 64.
        let count = |seq: u32| if groups == 1 { sent.sent } else { u64::from(seq) };
        let group = |&seq: &u32| GroupCounts { sent: count(seq), ..GroupCounts::empty() };
        let mut late = empty_lateness();
        late.add(&sent.late);
        let paced = sent.paced != 0;
        StreamCounts {
            stream: i,
            offered: if sent.total == u64::MAX { sent.sent } else { sent.total },
            sent: sent.sent,
            sent_bytes: sent.bytes,
            late,
            late_max_ns: sent.late_max_ns,
            late_end_ns: sent.late_end_ns,
            start_ns: state.start_ns,
            // Nothing looks at the clock after the last frame.
            last_ns: if paced { sent.last_ns } else { state.clock_ns.saturating_sub(state.start_ns) },
            broadcasts: sent.casts,
            turned_ns: (paced && sent.turned_ns > 0).then_some(sent.turned_ns),
            groups: sent.seq[..groups].iter().map(group).collect(),
            marks: Vec::new(),
        }
    }

    /// The generator's memory at the start of a trial.
    fn armed(&self, load: &Load, epoch: u8) -> Gen {
        let mut state = self.memory.get(0);
        state.epoch = epoch;
        state.active = 1;
        state.seed = self.traffic.seed;
        state.size_max = self.traffic.sizes.max() - FCS_BYTES as u16;
        (state.size_count, state.size) = size_table(&self.traffic.sizes);
        for i in 0..2 {
            state.stream[i] = self.armed_stream(i, epoch, load);
        }
        state
    }

    fn armed_stream(&self, i: usize, epoch: u8, load: &Load) -> Stream {
        let ends = &self.traffic.ends[i];
        let mut header = [0; 64];
        let template = ends.header(self.traffic.transport, &NO_FLOW, self.traffic.sizes.max());
        let header_bytes = frame::transport_at(ends.ip);
        header[..header_bytes].copy_from_slice(&template[..header_bytes]);
        let (ip_sum, transport_sum) = constant_sums(ends, self.traffic.transport, (i as u8, epoch));
        let schedule = Schedule::of(load, i, self.traffic.streams());
        let sends = self.traffic.sends(i) && load.only.is_none_or(|only| only == i);
        let unpaced = Schedule { total: load.max_frames.unwrap_or(u64::MAX), ..Schedule::default() };
        let Schedule { phases, total, first_q16 } = schedule.unwrap_or(unpaced);
        let syn = u32::from(self.traffic.transport == Transport::Syn);
        let part = load.tcp.filter(|_| i == 0);
        let flags = load.tcp.map(|part| if i == 0 { part.act.flags() } else { Act::Hold.flags() });
        Stream {
            ifindex: if sends { self.ifindex[i] } else { 0 },
            header_bytes: header_bytes as u32,
            header,
            ip_sum,
            transport_sum: load.tcp.map_or(transport_sum, |_| self.salt),
            phase: phases.map(|phase| shared::Phase { frames: phase.frames, gap_q16: phase.gap_q16 }),
            total,
            flow_first: if i == 1 { self.flow_room } else { part.map_or(0, |part| part.first) },
            flow_count: part.map_or(self.flow_count[i], |part| part.count),
            paced: u32::from(schedule.is_some()),
            phase_now: 0,
            phase_end: phases[0].frames,
            gap_q16: phases[0].gap_q16,
            turned_ns: 0,
            sent: 0,
            due_q16: first_q16,
            allowed_q16: 0,
            last_ns: 0,
            late_sum_ns: 0,
            late_max_ns: 0,
            late_end_ns: 0,
            cast_next: load.broadcast_every.map_or(u64::MAX, |n| u64::from(n.get()) - 1),
            casts: 0,
            cast_every: load.broadcast_every.map_or(0, NonZeroU32::get),
            syn: flags.unwrap_or(syn),
            noted_q16: u64::MAX,
            flow_next: 0,
            size_next: 0,
            bytes: 0,
            seq: [0; GROUPS],
            late: [0; shared::LATE_BUCKETS],
        }
    }

    /// The frame with which the kernel fills its pages; the program overwrites headers and signature each time.
    fn first_frame(&self) -> Vec<u8> {
        vec![0; usize::from(self.traffic.sizes.max()) - FCS_BYTES]
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

/// Checksums over the parts that are the same in all frames of a stream: IPv4 header, and the fields that the transport's
/// checksum covers.
fn constant_sums(ends: &Ends, transport: Transport, (stream, epoch): (u8, u8)) -> (u32, u32) {
    let header = ends.header(transport, &NO_FLOW, frame::min_frame_bytes(ends.ip));
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
    let above_ip = pseudo_header(addresses, transport.protocol(), 0) + u64::from(transport.fixed_sum());
    (ip_sum, native(above_ip) + signature)
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

/// How frames are sent in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    /// Program runs of a batch of the kernel, which are the pages that it keeps.
    runs: u32,
    /// Runs of a group: the whole batch, or a part that the kernel passes on before its end.
    group: u32,
    /// From the first frame of a group to its last, for which the first run waits.
    group_ns: u64,
}

/// Up to this rate each frame is sent alone, at its time.
const ALONE_FPS: f64 = 80e3;
/// From this rate on there is no time to hold frames back, and a receiver hardly sleeps.
const STEADY_FPS: f64 = 3e6;
/// Longest batch of the kernel, in runs.
const LONGEST_BATCH: u32 = 256;
/// So many frames to one interface the kernel passes on before the end of a batch.
const BULK: u32 = 16;
/// Frames that become due in this time leave as a group.
const ROUND_S: f64 = 11.5e-6;
/// A batch of frames that each wait for their time.
const STEADY_BATCH_S: f64 = 20e-6;

impl Batch {
    /// Frames that leave alone depart exactly; groups wake a sleeping receiver less often.
    fn of(load: &Load) -> Batch {
        let fps = match load.shape {
            Shape::Bursts { frames, .. } if load.fps.is_some() => return Batch::of_bursts(frames),
            // The faster part fits into no smaller room.
            Shape::Step { fps, .. } => load.fps.map(|first| first.max(fps)),
            _ => load.fps,
        };
        match fps {
            Some(fps) if fps < ALONE_FPS => Batch::whole(1, 0),
            // A device in overload gives many pages back at once: those that the kernel has no room for are freed, which
            // takes the device's CPU a third of the time of a frame that an XDP program redirects.
            Some(fps) if fps < STEADY_FPS && load.overload => {
                let group_ns = (f64::from(BULK) / fps * 1e9) as u64;
                Batch { runs: LONGEST_BATCH, group: BULK, group_ns }
            }
            Some(fps) if fps < STEADY_FPS => {
                let later = (fps * ROUND_S) as u32;
                Batch::whole(later + 1, (f64::from(later) / fps * 1e9) as u64)
            }
            Some(fps) => Batch::whole(LONGEST_BATCH.min((fps * STEADY_BATCH_S) as u32), 0),
            None => Batch::whole(LONGEST_BATCH, 0),
        }
    }

    /// A batch that is one group.
    fn whole(runs: u32, group_ns: u64) -> Batch {
        Batch { runs, group: runs, group_ns }
    }

    /// A burst leaves as a whole, and without waiting for more.
    fn of_bursts(frames: u32) -> Batch {
        Batch::whole(frames.min(LONGEST_BATCH).next_power_of_two().max(FULL_SPEED_CLOCK_MASK + 1), 0)
    }
}

fn sleep_until(at_ns: u64) {
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
}

/// Does this load have frames that leave as fast as the program can send them?
fn at_full_speed(load: &Load) -> bool {
    load.fps.is_none() || matches!(load.shape, Shape::Bursts { within_fps: None, .. })
}

/// Is the XDP tester possible at all? Tries one by one what it needs of the kernel: both programs, and live frames.
///
/// # Errors
/// The kernel feature that is missing.
pub fn probe() -> Result<(), BpfError> {
    Program::load("generator", object::GENERATOR, &[])?;
    Program::load("receiver", object::RECEIVER, &[])?;
    bpf::try_live_frames()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::flow::{Direction, FlowOrder, FlowSpec, HOSTS};

    fn traffic() -> Traffic {
        let order = FlowOrder::Sequential;
        let flows =
            FlowSpec { count: 1, order, groups: 1, hosts: HOSTS, networks: 1, src: 1, dst: 2, seed: 1 };
        let ends = [Ends::v4([2; 6], [4; 6]); 2];
        let (transport, direction) = (Transport::Udp, Direction::Forward);
        Traffic { sizes: FrameSizes::Fixed(64), transport, direction, flows, ends, seed: 1 }
    }

    #[test]
    fn a_generator_that_has_no_slot_takes_one_before_a_trial() {
        let Ok(mut generator) = XdpGenerator::new([0; 2], traffic()) else {
            return println!("skipped: {} needs root", module_path!());
        };
        // Where all slots are in use, a call is quick without one.
        if generator.call().expect("it runs") < SLOW_CALL {
            return;
        }
        generator.ready().expect("it runs");
        assert!(generator.retaken.is_none(), "it is to have none");
        // In place of its own, the link of a program that has no slot.
        let other = Program::load("sink", object::DROP, &[]).expect("it loads");
        generator.retaken = Some(Slot::held(&other).expect("a namespace"));
        generator.ready().expect("it runs");
        let call = (0..20).map(|_| generator.call().expect("it runs")).min();
        assert!(call < Some(SLOW_CALL), "{call:?}");
    }

    #[test]
    fn a_batch_has_room_for_the_frames_that_are_due_in_it() {
        for fps in [1e3, 79e3, 80e3, 1e6, 2.99e6, 3e6, 1e7] {
            let batch = Batch::of(&Load::steady(fps, Duration::from_secs(1)));
            assert!((1..=LONGEST_BATCH).contains(&batch.runs), "{fps}: {batch:?}");
            if fps >= STEADY_FPS {
                assert_eq!(batch.group_ns, 0, "{fps}: no frame is held back");
                continue;
            }
            let due = 1.0 + fps * batch.group_ns as f64 / 1e9;
            assert!((due - f64::from(batch.runs)).abs() < 0.01, "{fps}: {batch:?}");
            let overload = Batch::of(&Load::overload(fps, Duration::from_secs(1)));
            let due = fps * overload.group_ns as f64 / 1e9;
            assert!(
                fps < ALONE_FPS && overload == batch || (due - f64::from(BULK)).abs() < 0.01,
                "{fps}: {overload:?}"
            );
            assert_eq!(overload.runs % overload.group, 0, "the end of a batch parts no group");
        }
        for frames in [1, 2, 16, 17, 64, 256, 1024, u32::MAX] {
            let batch = Batch::of_bursts(frames);
            assert_eq!(
                batch.runs & FULL_SPEED_CLOCK_MASK,
                0,
                "{frames}: each batch begins with a look at the clock"
            );
        }
    }
}
