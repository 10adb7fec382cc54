//! The test bed of a method: a generator, a wire, and capture threads on another CPU.
//!
//! ```text
//! CPU 0: generator > [t0] ---- veth ---- [t1] > the kernel receives > method's buffer > capture threads
//!                                                                               threads = 1: CPU 1; all: every CPU
//! ```
//! With `receive = "apart"` the kernel receives on CPU 1 in a separate thread, which runs at once and, when there is too much,
//! alternately with the capture threads, as ksoftirqd does; what it does not get to overflows the interface's ring. With
//! `"with-sender"` it receives where a veth does, on the CPU of the sender, unless RPS hands the frames to others: its work
//! alternates with the generator, which so never sends more than the kernel receives, and what is lost is lost in the buffer
//! of the method.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use weir_load::Control;
use weir_load::counts::{Load, Mark, StreamCounts};
use weir_measure::capacity::Window;
use weir_packet::flow::FlowOrder;
use weir_packet::frame::Transport;
use weir_port::capture::{Buffer, BufferSize, Method, Options, Queue};
use weir_port::perf::idle::Idles;
use weir_testbed::core_distance::core_distance_ns;
use weir_testbed::core_speed::core_step_ns;
use weir_testbed::counters::{BACKLOG, Delta};
use weir_testbed::cpu::{CostSample, CpuPlan, DutCpus};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::Journal;
use weir_testbed::spread::Spreading;
use weir_testbed::topology::Side;

use super::consumer;
use super::observer::{Look, Observer, Threads};
use super::reader::{Read, Watch};
use crate::capture::plan::{Ladder, Offered, Receive, Step};
use weir_lab::error::RunError;
pub(super) use weir_lab::frames::mirror::RING_FULL;
use weir_lab::frames::mirror::{Mirror, Sent};
use weir_lab::frames::verdict::{Accounting, rate_error};
use weir_lab::frames::witness::{Seen, Witness, in_windows, stopped};
use weir_lab::frames::{Cpus, PointSpec};
use weir_record::profile::Profile;
use weir_record::record::{Capture, CaptureTime, DropCounter, Noise, Owner};

/// A method with all that a trial needs.
pub(super) struct Bench {
    mirror: Mirror,
    method: Method,
    options: Options,
    /// CPUs of the capture threads, which are dealt alternately.
    readers: Vec<usize>,
    /// The kernel's threads that receive apart from the generator.
    receivers: Vec<u32>,
    /// CPUs that the kernel hands frames to; `None`: as it is.
    rps: Option<Vec<usize>>,
    /// Says when its CPUs have nothing to do; made for the first trial that asks.
    idles: OnceLock<Option<Arc<Idles>>>,
}

/// What a trial gave.
pub(super) struct Outcome {
    pub(super) accounting: Accounting,
    pub(super) noise: Noise,
    pub(super) capture: Capture,
    /// Frames/s that were really sent.
    pub(super) sent_fps: f64,
    /// What was captured, window by window, where stops were looked for.
    pub(super) windows: Vec<Window>,
}

/// Where the CPUs are, by probes: the time of a cache line between generator and reader, and of a step on the reader's core.
#[derive(Clone, Copy, Default)]
struct Probed {
    core_distance_ns: Option<f64>,
    core_step_ns: Option<f64>,
}

impl Bench {
    pub(super) fn build(
        step: &Step,
        ladder: &Ladder,
        seed: u64,
        journal: &mut Journal,
    ) -> Result<Bench, RunError> {
        let readers = match step.threads {
            Cpus::Count(n) => CpuPlan::choose(DutCpus::Count(n as usize))?.dut,
            Cpus::All => all_cpus()?,
        };
        let mut mirror = Mirror::build(&spec(step), seed, journal)?;
        let receivers = match step.receive {
            Receive::Apart => mirror.receive_apart(),
            Receive::WithSender => Vec::new(),
        };
        let spreading = Spreading { rps: step.rps.clone(), ..Spreading::default() };
        let cpus = all_cpus()?;
        mirror.bed().spread_port(Side::B, &spreading, &cpus)?;
        let rps = spreading.rps_cpus(&cpus)?;
        let options = options(step, ladder, readers.len());
        Ok(Bench { mirror, method: step.method, options, readers, receivers, rps, idles: OnceLock::new() })
    }

    /// CPUs of generator, kernel and readers, each once.
    fn cpus_used(&self) -> Vec<usize> {
        let receiving = (!self.receivers.is_empty()).then(|| self.mirror.other_cpu());
        let handed = self.rps.iter().flatten().copied();
        let own = self.readers.iter().copied();
        let mut all: Vec<usize> =
            own.chain([self.mirror.sending_cpu()]).chain(receiving).chain(handed).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn witness(&self, load: &Load) -> Option<Witness> {
        let idles = self.idles.get_or_init(|| Idles::new(&self.cpus_used()).ok().map(Arc::new));
        idles.as_ref().and_then(|idles| Witness::start(idles, load.duration))
    }

    fn probe(&self) -> Probed {
        let (sending, reading) = (self.mirror.sending_cpu(), self.mirror.other_cpu());
        Probed { core_distance_ns: core_distance_ns(sending, reading), core_step_ns: core_step_ns(reading) }
    }

    /// The CPUs of generator, kernel and capture threads, for the record.
    pub(super) fn placement(&self) -> String {
        let list = |cpus: &[usize]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (sending, readers) = (self.mirror.sending_cpu(), list(&self.readers));
        let handed = match &self.rps {
            Some(cpus) if !cpus.is_empty() => format!(", and hands frames to CPU {}", list(cpus)),
            _ => String::new(),
        };
        if self.receivers.is_empty() {
            return format!(
                "The generator and the kernel's receive softirq have CPU {sending}{handed}; capture threads have CPU {readers}."
            );
        }
        let receiving = self.mirror.other_cpu();
        format!(
            "The generator has CPU {sending}; the kernel receives on CPU {receiving}{handed}, alternately with the capture threads, \
             which have CPU {readers}."
        )
    }

    /// Does the kernel receive apart from the generator?
    pub(super) fn receives_apart(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// What the machine did not allow, and what it means.
    pub(super) fn notes(&self) -> &[String] {
        self.mirror.bed().notes()
    }

    pub(super) fn cpus(&self) -> Vec<usize> {
        self.readers.clone()
    }

    /// Do generator and capture share a CPU?
    pub(super) fn shared(&self) -> Vec<usize> {
        self.cpus().into_iter().filter(|&cpu| cpu == self.mirror.sending_cpu()).collect()
    }

    /// Frames that fit into the buffers, as the kernel granted them.
    pub(super) fn buffer_frames(&self) -> Result<u64, RunError> {
        Ok(self.open()?.iter().map(|queue| queue.granted().frames).sum())
    }

    fn open(&self) -> Result<Vec<Box<dyn Queue>>, RunError> {
        let bed = self.mirror.bed();
        let name = &bed.ports()[1].ifname;
        Ok(bed.tester().run(|| self.method.open(name, &self.options))?)
    }

    /// Opens the method, sends, takes all frames, completes the accounting.
    pub(super) fn trial(&mut self, load: &Load, control: &Control, look: Look) -> Result<Outcome, RunError> {
        let probe = || if look == Look::ForStops { self.probe() } else { Probed::default() };
        let probed_before = probe();
        let queues = self.open()?;
        let watch = Arc::new(Watch::new(queues.len()));
        let sample = || -> Result<_, RunError> {
            Ok((self.mirror.bed().snapshot()?, CostSample::take(&self.receivers), Instant::now()))
        };
        let (reads, sent, before, after, seen, stops_seen) = std::thread::scope(|scope| {
            let readers: Vec<_> = queues
                .into_iter()
                .enumerate()
                .map(|(i, queue)| {
                    let (watch, cpu) = (watch.clone(), self.readers[i % self.readers.len()]);
                    scope.spawn(move || watch.read(i, cpu, queue))
                })
                .collect();
            watch.begin();
            let observer = Observer::start(look);
            let witness = (look == Look::ForStops).then(|| self.witness(load)).flatten();
            let before = sample();
            let sent = self.mirror.send(load, None, control);
            let stops_seen = witness.and_then(Witness::seen);
            let seen = observer.and_then(Observer::stop);
            watch.end(|| control.stopped());
            let after = sample();
            let reads: Vec<_> =
                readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")).collect();
            (reads, sent, before, after, seen, stops_seen)
        });
        let probed_after = probe();
        let reads = reads
            .into_iter()
            .collect::<Result<Vec<Read>, _>>()
            .map_err(|source| RunError::Reading { method: self.method, source })?;
        let Sent { stream, times, thread: generator } = sent?;
        let ((before, cost, from), (after, cost_after, to)) = (before?, after?);
        let cost = cost_after.since(&cost);
        let accounting = accounting(&stream, &reads, &after.since(&before), self.mirror.wire()[0]);
        let cpus = cost.cpus.values();
        let steal = cpus.map(|cpu| cpu.steal_ns).max().unwrap_or(0) as f64;
        let noise = Noise {
            steal: steal / (to - from).as_nanos() as f64,
            tester_wait: times.wait_ns as f64 / load.duration.as_nanos() as f64,
            rate_error: rate_error(&stream, load),
            late_p999_ns: stream.late.percentile(0.999),
            late_max_ns: stream.late_max_ns,
            handover_ns: probed_before.core_distance_ns,
            handover_after_ns: probed_after.core_distance_ns,
            core_step_ns: probed_before.core_step_ns.zip(probed_after.core_step_ns).map(<[f64; 2]>::from),
            ..Noise::default()
        };
        let readers = reads.iter().map(|read| read.thread).collect();
        let receivers = self.receivers.clone();
        let threads = Threads { generator, receivers, readers, consumer: consumer::addresses() };
        let windows = match look {
            Look::ForStops => windows(&stops_seen.unwrap_or_default(), &reads, (&stream, load), &threads),
            Look::Closely | Look::Away => Vec::new(),
        };
        let handed_over = seen.as_ref().map(|seen| seen.handed_over(&threads)).unwrap_or_default();
        let profile = seen.map(|seen| seen.profile(&threads));
        let receive_ns =
            profile.as_ref().map_or(0.0, |profile| profile.receive_share() * times.run_ns as f64) as u64;
        let system_ns: u64 = reads.iter().map(|read| read.system_ns).sum();
        let user_ns: u64 = reads.iter().map(|read| read.user_ns).sum();
        let share = profile.as_ref().and_then(Profile::consumer_share);
        let consumer_ns = share.map(|share| (share * user_ns as f64) as u64);
        let time = CaptureTime {
            generator_ns: times.run_ns - receive_ns,
            receive_ns: receive_ns + handed_over.all_ns + cost.dut_run_ns,
            system_ns: system_ns.saturating_sub(handed_over.in_readers_ns),
            user_ns: user_ns - consumer_ns.unwrap_or(0),
            consumer_ns,
        };
        let sent_fps = stream.sent as f64 / (stream.last_ns.max(1) as f64 / 1e9);
        let capture = Capture { profile, ..capture(&reads, time) };
        Ok(Outcome { accounting, noise, capture, sent_fps, windows })
    }
}

/// CPUs that a receive queue may hand its frames to.
pub(super) fn all_cpus() -> Result<Vec<usize>, RunError> {
    Ok(CpuPlan::choose(DutCpus::All)?.dut)
}

/// What is sent over the wire.
fn spec(step: &Step) -> PointSpec {
    let plain = PointSpec::plain(DutKind::WIRE, 64, step.flows);
    let plain = PointSpec { frame: step.frame.clone(), ..plain };
    match step.offered {
        Offered::SynFlood => PointSpec { transport: Transport::Syn, order: FlowOrder::Unique, ..plain },
        Offered::Udp => plain,
    }
}

/// The same buffer for every method, of frames as they come.
fn options(step: &Step, ladder: &Ladder, threads: usize) -> Options {
    let captured = (step.frame.mean() - 4.0).min(f64::from(ladder.snap)).ceil() as u32;
    Options {
        snap: ladder.snap,
        buffer: Buffer { size: ladder.buffer, frame_bytes: captured },
        block_bytes: block_bytes(ladder, captured, threads),
        sockets: threads as u16,
        fanout: ladder.fanout,
        busy_poll: step.busy_poll,
        ..Options::default()
    }
}

/// Blocks such that even a small buffer has some of them: a ring of few large ones freezes early.
fn block_bytes(ladder: &Ladder, frame_bytes: u32, threads: usize) -> u32 {
    const BLOCKS: f64 = 16.0;
    const FRAME_HEAD_BYTES: f64 = 90.0;
    let all = match ladder.buffer {
        BufferSize::Time { rate, time } => {
            rate * time.as_secs_f64() * (f64::from(frame_bytes) + FRAME_HEAD_BYTES)
        }
        BufferSize::Memory(bytes) => bytes as f64,
    };
    let wanted = (all / threads as f64 / BLOCKS) as u32;
    let largest = Options::default().block_bytes;
    wanted.clamp(1 << 16, largest).next_power_of_two().min(largest)
}

/// What all readers took together, window by window, while frames were sent. Without clocks, no stop is known.
fn windows(
    seen: &[Seen],
    reads: &[Read],
    (stream, load): (&StreamCounts, &Load),
    threads: &Threads,
) -> Vec<Window> {
    let start_ns = stream.start_ns;
    let since = |mark: &Mark| Mark { at_ns: mark.at_ns.saturating_sub(start_ns), frames: mark.frames };
    let marks: Vec<Vec<Mark>> = reads.iter().map(|read| read.marks.iter().map(since).collect()).collect();
    let marks: Vec<&[Mark]> = marks.iter().map(Vec::as_slice).collect();
    let stops = stopped(seen, start_ns, load.duration, &threads.all());
    in_windows(&marks, load.duration, &stops)
}

/// Where all frames are.
fn accounting(stream: &StreamCounts, reads: &[Read], delta: &Delta, sender: &str) -> Accounting {
    let line = |name: &str, frames, source: &str| DropCounter {
        name: name.into(),
        owner: Owner::Dut,
        frames,
        source: source.into(),
    };
    let ring_full = delta.0.devices[sender].link.tx_dropped;
    let mut drop_counters = vec![line(RING_FULL, ring_full, &format!("tx_dropped of {sender}"))];
    // Where RPS hands frames to another CPU.
    let backlog = delta.drops().into_iter().filter(|drop| drop.name == BACKLOG);
    drop_counters.extend(backlog.map(|drop| line("backlog full", drop.frames, &drop.source)));
    for drops in reads.iter().flat_map(|read| &read.account.drops) {
        match drop_counters.iter_mut().find(|line| line.name == drops.name) {
            Some(line) => line.frames += drops.frames,
            None => drop_counters.push(line(drops.name, drops.frames, "the capturing socket")),
        }
    }
    drop_counters.retain(|line| line.frames > 0);
    Accounting {
        offered: stream.offered,
        sent: stream.sent,
        received: reads.iter().map(|read| read.account.taken).sum(),
        drop_counters,
        ..Accounting::default()
    }
}

fn capture(reads: &[Read], time: CaptureTime) -> Capture {
    let sum = |of: fn(&Read) -> u64| reads.iter().map(of).sum::<u64>();
    let method = reads.first().map(|read| read.granted.method.clone()).unwrap_or_default();
    let times = if reads.len() > 1 { format!("{} times ", reads.len()) } else { String::new() };
    Capture {
        method: times + &method,
        buffer_bytes: sum(|read| read.granted.memory),
        buffer_frames: sum(|read| read.granted.frames),
        calls: sum(|read| read.account.calls),
        wakeups: sum(|read| read.wakeups),
        freezes: sum(|read| read.account.freezes),
        drain_s: 0.0,
        time,
        profile: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_packet::size::FrameSizes;
    use weir_port::capture::Fanout;
    use weir_testbed::spread::Spread;

    use super::*;

    fn ladder(rate: f64) -> Ladder {
        Ladder {
            methods: vec![Method::Ring],
            threads: vec![Cpus::Count(1)],
            receive: vec![Receive::Apart],
            rps: vec![Spread::AsIs],
            busy_poll: vec![false],
            fanout: Fanout::Hash,
            traffic: vec![Offered::Udp],
            frames: vec![FrameSizes::Fixed(64)],
            flows: vec![1],
            snap: 40,
            buffer: BufferSize::Time { rate, time: Duration::from_millis(100) },
            overload_rounds: 0,
            rounds: 1,
            trial: Duration::from_secs(1),
            min_fps: 1e3,
            max_fps: None,
            resolution: 0.1,
        }
    }

    #[test]
    fn blocks_are_small_where_the_buffer_is() {
        let (method, threads, rps, offered) = (Method::Ring, Cpus::Count(1), Spread::AsIs, Offered::Udp);
        let (frame, receive) = (FrameSizes::Fixed(64), Receive::Apart);
        let step = Step { method, threads, receive, rps, busy_poll: false, offered, frame, flows: 1 };
        let sizes = [1e4, 1e6, 1e8].map(|rate| options(&step, &ladder(rate), 1).block_bytes);
        assert_eq!(sizes, [1 << 16, 1 << 20, 1 << 20]);
        let one = options(&step, &ladder(1e6), 4);
        assert_eq!((one.buffer.frame_bytes, one.sockets, one.block_bytes), (40, 4, 1 << 18));
    }
}
