//! The side that sends: connects all flows, starts them together, and puts together what both sides know.

mod iperf3;
mod worker;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::FlowsError;
use crate::info::Info;
use crate::ports::Taken;
use crate::preflight::{self, Limits};
use crate::result::{FlowOutcome, Interval, Outcome, jain, spread};
use crate::sys;
use crate::wire::{Answer, CONTROL, Lines, Order, say};
pub use iperf3::IPERF3_PORT;
use iperf3::Iperf3;
use worker::{Done, Flow, Greeting, Worker};

/// Time from the start order to the start of the flows: by then all threads have received it.
const BARRIER: Duration = Duration::from_millis(20);
/// A server answers within this time.
const ANSWER: Duration = Duration::from_secs(10);
/// A server waits a minute for flows; then it reports which ones are missing.
const CONNECTED: Duration = Duration::from_secs(70);
/// Connections that are being made at once, in all threads.
const AT_ONCE: u32 = 512;

/// Flows of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// How many.
    pub flows: u32,
    /// Their congestion control; that of the machine if none is given.
    pub cc: Option<String>,
    /// Their own address, which chooses their path; its port is 0.
    pub from: Option<SocketAddr>,
    /// When they start, after the barrier.
    pub start: Duration,
}

/// The task of the client.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server.
    pub to: SocketAddr,
    /// The flows.
    pub groups: Vec<Group>,
    /// From the barrier to the deadline of all flows.
    pub duration: Duration,
    /// Length of an interval.
    pub interval: Duration,
    /// Time in which late bytes may arrive.
    pub grace: Duration,
    /// Flows end by RST, in place of FIN.
    pub reset: bool,
    /// The server is iperf3.
    pub iperf3: bool,
    /// Rate of the bottleneck, if it is known, in bits/s: for notes on the memory of sockets.
    pub rate: Option<f64>,
}

/// The observer of a load, and the flag that ends it.
pub struct Observe<'a> {
    /// Ends it: all flows by RST.
    pub stop: &'a AtomicBool,
    /// Is shown each interval.
    pub see: &'a mut dyn FnMut(&Interval),
}

/// Times shared by all threads.
#[derive(Debug, Default)]
struct Common {
    /// The barrier.
    start: OnceLock<Instant>,
    stop: AtomicBool,
}

/// A sample of a thread's flows: number, TCP_INFO, whether it is stalled.
type Samples = Vec<(u32, Info, bool)>;

enum Word {
    Connected,
    Samples(Samples),
    /// Its flows, and how long the thread had no CPU while it wrote their first bytes.
    Done(Vec<Done>, Duration),
    Failed(FlowsError),
}

/// Sends, until the deadline.
///
/// # Errors
/// A limit, a server that is not there or refuses, flows that cannot be made.
pub fn run(load: &Load, observe: Observe<'_>) -> Result<Outcome, FlowsError> {
    let limits = Limits::here();
    let sources: Vec<_> =
        load.groups.iter().map(|group| (group.from.map(|from| from.ip()), u64::from(group.flows))).collect();
    limits.allow(&preflight::connections(load.to, &sources), &Taken::here(&limits.ports, load.to))?;
    let flows = flows(load);
    let mut server = Server::connect(load, flows.len() as u32, observe.stop)?;
    let rtt_s =
        sys::info(server.control()).map_or(0.0, |info| f64::from(info.min_rtt_us.min(info.rtt_us)) / 1e6);
    let count = flows.len().max(1) as u64;
    let notes = load.rate.map_or(Vec::new(), |rate| limits.notes((rate / 8.0 * rtt_s) as u64 / count));
    let common = Arc::new(Common::default());
    let (sender, words) = channel();
    let threads = start(load, flows, (&common, &sender), &server)?;
    drop(sender);
    let mut session = Session {
        load,
        words,
        common: common.clone(),
        threads: threads.len(),
        info: Vec::new(),
        ended: Vec::new(),
        without_cpu: Duration::ZERO,
    };
    let result = match &mut server {
        Server::Weir(control) => session.whole(control, observe),
        Server::Iperf3(control) => session.with_iperf3(control, observe),
    };
    if result.is_err() {
        common.stop.store(true, Ordering::Relaxed);
        // Release the threads that wait for the start.
        let _ = common.start.set(Instant::now());
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let mut outcome = result?;
    let _ = sys::close_by_fin(server.control());
    outcome.notes.extend(notes);
    Ok(outcome)
}

/// The other side.
enum Server {
    Weir(Control),
    Iperf3(Iperf3),
}

impl Server {
    fn connect(load: &Load, flows: u32, stop: &AtomicBool) -> Result<Server, FlowsError> {
        if load.iperf3 {
            Iperf3::connect(load, flows).map(Server::Iperf3)
        } else {
            Control::connect(load, flows, stop).map(Server::Weir)
        }
    }

    fn control(&self) -> &TcpStream {
        match self {
            Server::Weir(control) => &control.to,
            Server::Iperf3(control) => &control.to,
        }
    }

    /// The first bytes of each flow, and how many connections the server accepts at once.
    fn greeting(&self) -> (Greeting, u32) {
        match self {
            Server::Weir(control) => (Greeting::Test(control.test), control.backlog),
            Server::Iperf3(control) => (Greeting::Cookie(control.cookie), 2),
        }
    }
}

/// A number that no other test has.
fn test_number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64) ^ u64::from(std::process::id()) << 40
}

/// All flows, with their groups, in the order of their numbers. Groups alternate, so that each thread has some of each.
fn flows(load: &Load) -> Vec<Flow> {
    let most = load.groups.iter().map(|group| group.flows).max().unwrap_or(0);
    let groups = || (0..).zip(&load.groups);
    let of_round = |round: u32| groups().filter(move |(_, group)| round < group.flows);
    let flow = |(number, (group, settings)): (u32, (u32, &Group))| Flow {
        number,
        group,
        cc: settings.cc.clone(),
        from: settings.from,
        start: settings.start,
    };
    (0..).zip((0..most).flat_map(of_round)).map(flow).collect()
}

fn start(
    load: &Load,
    flows: Vec<Flow>,
    (common, words): (&Arc<Common>, &Sender<Word>),
    server: &Server,
) -> Result<Vec<thread::JoinHandle<()>>, FlowsError> {
    let (greeting, backlog) = server.greeting();
    let cpus = thread::available_parallelism().map_or(1, usize::from).min(flows.len()).max(1);
    let mut shares: Vec<Vec<Flow>> = (0..cpus).map(|_| Vec::new()).collect();
    flows.into_iter().enumerate().for_each(|(i, flow)| shares[i % cpus].push(flow));
    let at_once = (AT_ONCE.min(backlog / 2) as usize / cpus).max(1);
    let spawn = |(number, share): (usize, Vec<Flow>)| {
        let (load, common, words) = (load.clone(), common.clone(), words.clone());
        let work = move || {
            let result = Worker::new(load, greeting, share, (common, words.clone()))
                .and_then(|worker| worker.work(at_once));
            let _ = words
                .send(result.map_or_else(Word::Failed, |(done, without_cpu)| Word::Done(done, without_cpu)));
        };
        thread::Builder::new().name(format!("flows {number}")).spawn(work)
    };
    let threads: std::io::Result<_> = shares.into_iter().enumerate().map(spawn).collect();
    threads.map_err(FlowsError::at("starting threads"))
}

/// Connects to a server, at which this program must run.
fn connect(to: SocketAddr, program: &'static str) -> Result<TcpStream, FlowsError> {
    TcpStream::connect_timeout(&to, Duration::from_secs(10)).map_err(|source| FlowsError::Unreachable {
        to,
        program,
        source,
    })
}

/// The control connection.
struct Control {
    to: TcpStream,
    from: Lines<TcpStream>,
    backlog: u32,
    test: u64,
}

impl Control {
    fn connect(load: &Load, flows: u32, stop: &AtomicBool) -> Result<Control, FlowsError> {
        let failed = || FlowsError::at(format!("control connection to {}", load.to));
        let mut to = connect(load.to, "weir flows --serve")?;
        to.set_nodelay(true).map_err(failed())?;
        // As the flows: nothing stays behind if this program is killed.
        sys::close_by_reset(&to).map_err(failed())?;
        to.write_all(&CONTROL).map_err(failed())?;
        let from = to.try_clone().and_then(Lines::of).map_err(failed())?;
        let ms = |time: Duration| time.as_millis() as u64;
        let test = test_number();
        let order = Order::Hello {
            test,
            flows,
            duration_ms: ms(load.duration),
            interval_ms: ms(load.interval),
            grace_ms: ms(load.grace),
        };
        say(&mut to, &order).map_err(failed())?;
        let mut control = Control { to, from, backlog: 128, test };
        match hear(&mut control.from, ANSWER, stop)? {
            Answer::Ready { backlog, .. } => control.backlog = backlog.max(2),
            other => return Err(unexpected(other)),
        }
        Ok(control)
    }
}

fn hear(from: &mut Lines<impl Read>, patience: Duration, stop: &AtomicBool) -> Result<Answer, FlowsError> {
    from.next(patience, stop)?.ok_or(FlowsError::Gone)
}

fn unexpected(answer: Answer) -> FlowsError {
    match answer {
        Answer::Refused(why) => FlowsError::Limit(format!("the server refuses: {why}")),
        other => {
            FlowsError::Answer(serde_json::to_string(&other).unwrap_or_default().chars().take(80).collect())
        }
    }
}

/// The server's result of two flows, after the start: figures, or why there are none.
#[cfg(feature = "fuzz")]
pub(crate) fn hear_all(answers: &[u8]) -> Result<Outcome, FlowsError> {
    let group = Group { flows: 2, cc: None, from: None, start: Duration::ZERO };
    let second = Duration::from_secs(1);
    let to = SocketAddr::from(([127, 0, 0, 1], 1));
    let load = Load {
        to,
        groups: vec![group],
        duration: second,
        interval: second / 4,
        grace: second,
        reset: false,
        iperf3: false,
        rate: None,
    };
    let (common, words, ended) = (Arc::default(), channel().1, Vec::new());
    let without_cpu = Duration::ZERO;
    let mut session =
        Session { load: &load, words, common, threads: 0, info: Vec::new(), ended, without_cpu };
    let observe = Observe { stop: &AtomicBool::new(false), see: &mut |_| {} };
    let received = session.intervals(&mut Lines::over(answers), observe)?;
    let done = flows(&load).into_iter().map(|flow| Done::unsent(flow, (String::new(), String::new())));
    Ok(session.outcome(&received, done.collect()))
}

/// The server's results: the window, and of each flow the bytes in it, those after it, and when the first byte arrived.
#[derive(Debug, Default)]
struct Received {
    window_ns: u64,
    bytes: Vec<u64>,
    late: Vec<u64>,
    first_ns: Vec<Option<i64>>,
}

struct Session<'a> {
    load: &'a Load,
    words: Receiver<Word>,
    common: Arc<Common>,
    threads: usize,
    /// The last sample of each flow.
    info: Vec<(Info, bool)>,
    /// Messages of threads that have ended.
    ended: Vec<Word>,
    /// The longest time in which a thread had no CPU while it wrote the first bytes of its flows.
    without_cpu: Duration,
}

impl Session<'_> {
    fn whole(&mut self, control: &mut Control, observe: Observe<'_>) -> Result<Outcome, FlowsError> {
        self.all_connected()?;
        match hear(&mut control.from, CONNECTED, observe.stop)? {
            Answer::Connected { missing } if missing.is_empty() => {}
            Answer::Connected { missing } => {
                let text = format!(
                    "{} flows did not connect within a minute, for example flow {}",
                    missing.len(),
                    missing[0]
                );
                return Err(FlowsError::Limit(text));
            }
            other => return Err(unexpected(other)),
        }
        let after_us = self.begin().saturating_duration_since(Instant::now()).as_micros() as u64;
        say(&mut control.to, &Order::Start { after_us }).map_err(FlowsError::at("control connection"))?;
        let received = self.intervals(&mut control.from, observe)?;
        let done = self.done()?;
        Ok(self.outcome(&received, done))
    }

    fn all_connected(&self) -> Result<(), FlowsError> {
        let mut connected = 0;
        while connected < self.threads {
            match self.words.recv() {
                Ok(Word::Connected) => connected += 1,
                Ok(Word::Failed(error)) => return Err(error),
                Ok(_) => {}
                Err(_) => return Err(FlowsError::Answer("threads that ended".into())),
            }
        }
        Ok(())
    }

    /// Starts all flows; returns the time of the start.
    fn begin(&self) -> Instant {
        *self.common.start.get_or_init(|| Instant::now() + BARRIER)
    }

    /// Shows each interval; returns what the server has received.
    fn intervals(
        &mut self,
        from: &mut Lines<impl Read>,
        observe: Observe<'_>,
    ) -> Result<Received, FlowsError> {
        let load = self.load;
        let flows: usize = load.groups.iter().map(|group| group.flows as usize).sum();
        let of_all = |counts: usize| {
            if counts == flows {
                Ok(())
            } else {
                Err(FlowsError::Answer(format!("counts of {counts} flows, not of {flows}")))
            }
        };
        let most = load.duration.as_nanos() / load.interval.as_nanos().max(1) + 2;
        for _ in 0..=most {
            match hear(from, load.interval.max(load.grace) + ANSWER, observe.stop)? {
                Answer::Interval { number, from_ns, to_ns, bytes } => {
                    of_all(bytes.len())?;
                    self.take_samples();
                    let interval = self.interval(number, (from_ns, to_ns), &bytes);
                    (observe.see)(&interval);
                }
                Answer::End { window_ns, bytes, late, first_ns, .. } => {
                    of_all(bytes.len().max(late.len()))?;
                    return Ok(Received { window_ns, bytes, late, first_ns });
                }
                other => return Err(unexpected(other)),
            }
        }
        Err(FlowsError::Answer(format!("more than {most} intervals")))
    }

    fn take_samples(&mut self) {
        while let Ok(word) = self.words.try_recv() {
            self.take(word);
        }
    }

    fn take(&mut self, word: Word) {
        match word {
            Word::Samples(samples) => {
                for (flow, info, stalled) in samples {
                    if self.info.len() <= flow as usize {
                        self.info.resize(flow as usize + 1, Default::default());
                    }
                    self.info[flow as usize] = (info, stalled);
                }
            }
            ended => self.ended.push(ended),
        }
    }

    fn interval(&self, number: u32, (from_ns, to_ns): (u64, u64), bytes: &[u64]) -> Interval {
        let (from_s, to_s) = (from_ns as f64 / 1e9, to_ns as f64 / 1e9);
        let rate = |bytes: &u64| *bytes as f64 * 8.0 / (to_s - from_s).max(1e-9);
        let goodput_bits_per_s: Vec<f64> = bytes.iter().map(rate).collect();
        let flows = flows(self.load);
        let begun =
            goodput_bits_per_s.iter().zip(&flows).filter(|(_, flow)| flow.start.as_secs_f64() <= from_s);
        let stalled =
            (0..).zip(&self.info).filter(|(_, (_, stalled))| *stalled).map(|(flow, _)| flow).collect();
        Interval {
            number,
            from_s,
            to_s,
            sum_bits_per_s: goodput_bits_per_s.iter().sum(),
            jain: jain(begun.map(|(rate, _)| *rate)),
            goodput_bits_per_s,
            stalled,
            info: self.info.iter().map(|(info, _)| *info).collect(),
        }
    }

    fn done(&mut self) -> Result<Vec<Done>, FlowsError> {
        let (mut done, mut ended) = (Vec::new(), 0);
        let mut heard = std::mem::take(&mut self.ended).into_iter();
        while ended < self.threads {
            match heard.next().map_or_else(|| self.words.recv(), Ok) {
                Ok(Word::Done(own, without_cpu)) => {
                    done.extend(own);
                    self.without_cpu = self.without_cpu.max(without_cpu);
                    ended += 1;
                }
                Ok(Word::Failed(error)) => return Err(error),
                Ok(_) => {}
                Err(_) => return Err(FlowsError::Answer("threads that ended".into())),
            }
        }
        done.sort_by_key(|one| one.flow.number);
        Ok(done)
    }

    fn outcome(&self, received: &Received, done: Vec<Done>) -> Outcome {
        let window_s = received.window_ns as f64 / 1e9;
        let min_rtts = done.iter().map(|one| one.info.min_rtt_us).filter(|&rtt| rtt > 0 && rtt < u32::MAX);
        let min_rtt_s = min_rtts.min().map_or(0.0, |rtt| f64::from(rtt) / 1e6);
        let after_plan = |at: Option<f64>, flow: &Flow| Some(at? - flow.start.as_secs_f64());
        let start_spread_s =
            spread(done.iter().filter_map(|one| after_plan(one.started_s, &one.flow))).unwrap_or(0.0);
        let arrivals = done.iter().filter_map(|one| after_plan(received.arrived_s(&one.flow), &one.flow));
        let arrival_spread_s = spread(arrivals);
        let flows: Vec<FlowOutcome> = done.into_iter().map(|one| received.of(one)).collect();
        let (stalled, incomplete) = (
            flows.iter().filter(|flow| !flow.stalls.is_empty() || flow.started_s.is_none()),
            flows.iter().filter(|flow| flow.received_bytes != flow.sent_bytes),
        );
        let notes = [limited(&flows, window_s), self.apart(flows.len(), start_spread_s, min_rtt_s)];
        let bytes = received.bytes.iter().map(|&bytes| bytes as f64);
        Outcome {
            window_s,
            sum_bits_per_s: bytes.sum::<f64>() * 8.0 / window_s.max(1e-9),
            jain: jain(flows.iter().map(|flow| flow.goodput_bits_per_s)),
            start_spread_s,
            arrival_spread_s,
            min_rtt_s,
            stalled: stalled.map(|flow| flow.flow).collect(),
            incomplete: incomplete.map(|flow| flow.flow).collect(),
            notes: notes.into_iter().flatten().collect(),
            flows,
        }
    }

    /// Why flows did not begin within a round trip.
    fn apart(&self, flows: usize, spread_s: f64, min_rtt_s: f64) -> Option<String> {
        let each = flows.div_ceil(self.threads.max(1));
        (spread_s > min_rtt_s && min_rtt_s > 0.0 && each > 1).then(|| {
            format!(
                "the first bytes of all flows took longer than a round trip: {} threads wrote to {each} flows each, \
                 {:.1} us per flow; a thread had no CPU for up to {:.1} ms",
                self.threads,
                spread_s * 1e6 / each as f64,
                self.without_cpu.as_secs_f64() * 1e3
            )
        })
    }
}

impl Received {
    /// When the first byte of a flow arrived, in s since the start.
    fn arrived_s(&self, flow: &Flow) -> Option<f64> {
        let first_ns = *self.first_ns.get(flow.number as usize)?;
        first_ns.map(|ns| ns as f64 / 1e9)
    }

    /// The outcome of a flow, from the records of both sides.
    fn of(&self, one: Done) -> FlowOutcome {
        let count = |counts: &[u64]| counts.get(one.flow.number as usize).copied().unwrap_or(0);
        let (in_time, late) = (count(&self.bytes), count(&self.late));
        let own_s = (self.window_ns as f64 / 1e9 - one.flow.start.as_secs_f64()).max(1e-9);
        FlowOutcome {
            flow: one.flow.number,
            group: one.flow.group,
            cc: one.cc,
            from: one.from,
            started_s: one.started_s,
            arrived_s: self.arrived_s(&one.flow),
            sent_bytes: one.sent_bytes,
            received_bytes: in_time.saturating_add(late),
            late_bytes: late,
            goodput_bits_per_s: in_time as f64 * 8.0 / own_s,
            info: one.info,
            stalls: one.stalls,
            end: one.end,
        }
    }
}

/// How many flows had too little memory, for long.
fn limited(flows: &[FlowOutcome], window_s: f64) -> Option<String> {
    let for_long = |flow: &&FlowOutcome| {
        let limited = flow.info.window_limited_us.max(flow.info.buffer_limited_us) as f64 / 1e6;
        limited > window_s / 2.0
    };
    let limited = flows.iter().filter(for_long).count();
    (limited > 0).then(|| {
        format!(
            "{limited} flows were limited by their socket memory for more than half of the time: raise net.ipv4.tcp_wmem \
             here, net.ipv4.tcp_rmem at the server"
        )
    })
}
