//! The side that receives and counts: any number of tests at once.
//!
//! ```text
//!  listener, shared by all threads > thread: connections in an epoll, each adds what it reads to its flow's count
//!  control connection > a separate thread: reads all counts at the end of each interval, by its clock
//! ```

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::FlowsError;
use crate::epoll::{Epoll, Events, ONE_OF_US, READ};
use crate::preflight::Limits;
use crate::sys::{close_by_fin, close_by_reset, set_congestion_control, widen_backlog};
use crate::wire::{Answer, CONTROL, FLOW, FLOW_HEADER, Lines, MOST_FLOWS, Order, read_flow_header, say};

/// The default port of a server.
pub const PORT: u16 = 5301;
/// Tests at once.
const MOST_TESTS: usize = 64;
/// Control connections at once, each of which has a thread: of those above the tests, some may wait for theirs.
const MOST_CONTROLS: usize = 2 * MOST_TESTS;
/// Time limit for a client to identify itself.
const INTRODUCTION: Duration = Duration::from_secs(5);
/// Without descriptors for one more connection it is tried again after this time.
const NO_ROOM: Duration = Duration::from_millis(10);
/// Flows have connected after this time, or never will.
const CONNECTING: Duration = Duration::from_secs(60);
/// Flows begin this long after the order at most.
const LONGEST_BARRIER: Duration = Duration::from_secs(1);
/// The longest test.
const LONGEST: u64 = 86_400_000;
/// Bytes of one read, at most.
const CHUNK: usize = 1 << 20;
/// Reads in a row of one connection, before others have their turn.
const TURNS: usize = 4;
/// Connections are looked through this often for those of tests that are over.
const SWEEP: Duration = Duration::from_millis(500);
/// Interval at which a waiting thread checks whether to end.
const LOOK: Duration = Duration::from_millis(100);
const LISTENER: u64 = u64::MAX;

/// Of a flow that is closed: by FIN.
const CLOSED: u8 = 2;
/// Of a flow that is closed: otherwise.
const RESET: u8 = 3;
/// Of a flow that has connected.
const THERE: u8 = 1;

/// The counts of a test.
struct Test {
    since: Instant,
    bytes: Vec<AtomicU64>,
    /// When the first of them were read, in ns after `since`; 0: not yet.
    first_ns: Vec<AtomicU64>,
    state: Vec<AtomicU8>,
    there: AtomicU32,
    over: AtomicBool,
}

type Tests = Arc<Mutex<HashMap<u64, Arc<Test>>>>;

fn locked(tests: &Tests) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Test>>> {
    tests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens at `address`, in the network namespace of the calling thread. Connections have the congestion control `cc`, which
/// matters to receivers where it needs both ends, as DCTCP does.
///
/// # Errors
/// The address, or the congestion control, is not to be had.
pub fn listen(address: SocketAddr, cc: Option<&str>) -> Result<TcpListener, FlowsError> {
    let failed = || FlowsError::at(format!("listening at {address}"));
    let listener = TcpListener::bind(address).map_err(failed())?;
    if let Some(cc) = cc {
        set_congestion_control(&listener, cc)
            .map_err(FlowsError::at(format!("congestion control {cc} at {address}")))?;
    }
    widen_backlog(&listener).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    Ok(listener)
}

/// A server that runs in threads of its own until it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    tests: Tests,
}

impl Server {
    /// Listens at `address`, in the network namespace of the calling thread, with a thread for each CPU.
    ///
    /// # Errors
    /// The address is not to be had.
    pub fn start(address: SocketAddr) -> Result<Server, FlowsError> {
        Server::over(listen(address, None)?)
    }

    /// Serves the clients of a listener, with a thread for each CPU.
    ///
    /// # Errors
    /// A limit of this machine.
    pub fn over(listener: TcpListener) -> Result<Server, FlowsError> {
        let address = listener.local_addr().map_err(FlowsError::at("address of the listener"))?;
        let failed = |step: &str| FlowsError::at(format!("{step} at {address}"));
        let limits = Limits::here();
        let (stop, tests) = (Arc::new(AtomicBool::new(false)), Tests::default());
        let (listener, controls) = (Arc::new(listener), Arc::new(AtomicUsize::new(0)));
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let start = |number: usize| {
            let mut worker = Worker {
                epoll: Epoll::new()?,
                events: Events::default(),
                listener: listener.clone(),
                connections: HashMap::new(),
                next: 0,
                tests: tests.clone(),
                controls: controls.clone(),
                limits: limits.clone(),
                room: vec![0; CHUNK],
            };
            worker.epoll.add(&*listener, READ | ONE_OF_US, LISTENER)?;
            let stop = stop.clone();
            thread::Builder::new().name(format!("flows {number}")).spawn(move || worker.work(&stop))
        };
        let threads = (0..cpus).map(start).collect::<io::Result<_>>().map_err(failed("starting threads"))?;
        Ok(Server { address, stop, threads, tests })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Flows that are connected now.
    pub fn connected(&self) -> u64 {
        let tests = locked(&self.tests);
        let open = |test: &Arc<Test>| {
            test.state.iter().filter(|state| state.load(Ordering::Relaxed) == THERE).count()
        };
        tests.values().map(open).sum::<usize>() as u64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        locked(&self.tests).values().for_each(|test| test.over.store(true, Ordering::Relaxed));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// What a connection is.
enum Kind {
    /// Not yet identified: its first bytes.
    New([u8; FLOW_HEADER], usize, Instant),
    Flow(Arc<Test>, usize),
}

struct Connection {
    stream: TcpStream,
    kind: Kind,
}

/// What becomes of a connection that was looked at.
enum Next {
    Stays,
    Ends,
    IsControl,
}

struct Worker {
    epoll: Epoll,
    events: Events,
    listener: Arc<TcpListener>,
    connections: HashMap<u64, Connection>,
    next: u64,
    tests: Tests,
    controls: Arc<AtomicUsize>,
    limits: Limits,
    /// Where reads of flows go.
    room: Vec<u8>,
}

impl Worker {
    fn work(&mut self, stop: &AtomicBool) {
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let Ok(ready) = self.epoll.wait(&mut self.events, Some(LOOK)) else { return };
            for (token, _) in ready.collect::<Vec<_>>() {
                if token == LISTENER { self.accept() } else { self.look(token) }
            }
            if swept.elapsed() > SWEEP {
                swept = Instant::now();
                self.connections.retain(|_, one| match &one.kind {
                    Kind::Flow(test, _) => !test.over.load(Ordering::Relaxed),
                    Kind::New(_, _, since) => since.elapsed() < INTRODUCTION,
                });
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..64 {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Others end, and give back what they have.
                Err(_) => return thread::sleep(NO_ROOM),
            };
            let ready = stream.set_nonblocking(true).and_then(|()| close_by_reset(&stream));
            let token = self.next;
            self.next += 1;
            if ready.and_then(|()| self.epoll.add(&stream, READ, token)).is_ok() {
                let kind = Kind::New([0; FLOW_HEADER], 0, Instant::now());
                self.connections.insert(token, Connection { stream, kind });
            }
        }
    }

    /// Attends to a control connection in a separate thread; above the limit it is closed.
    fn serve(&self, stream: TcpStream) {
        let counted = Counted(self.controls.clone());
        if self.controls.fetch_add(1, Ordering::Relaxed) >= MOST_CONTROLS {
            return;
        }
        let (tests, limits) = (self.tests.clone(), self.limits.clone());
        let serve = move || {
            let _counted = counted;
            drop(control(stream, &tests, &limits));
        };
        let _ = thread::Builder::new().name("flows control".into()).spawn(serve);
    }

    fn look(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let next = match connection.kind {
            Kind::New(..) => begin(connection, &self.tests),
            Kind::Flow(..) => Next::Stays,
        };
        let next = match (next, &connection.kind) {
            (Next::Stays, Kind::Flow(test, flow)) => count(&connection.stream, &mut self.room, (test, *flow)),
            (next, _) => next,
        };
        match next {
            Next::Stays => {}
            // Dropped, which closes it: by FIN if both sides have ended, else by RST.
            Next::Ends => {
                if let Some(Connection { kind: Kind::Flow(test, flow), .. }) = self.connections.remove(&token)
                    && let Some(state) = test.state.get(flow)
                {
                    let _ = state.compare_exchange(THERE, RESET, Ordering::Release, Ordering::Relaxed);
                }
            }
            Next::IsControl => {
                if let Some(connection) = self.connections.remove(&token) {
                    let _ = self.epoll.remove(&connection.stream);
                    self.serve(connection.stream);
                }
            }
        }
    }
}

/// A control connection that is counted until it ends.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads the first bytes of a connection, which say what it is.
fn begin(connection: &mut Connection, tests: &Tests) -> Next {
    let Kind::New(header, have, _) = &mut connection.kind else { return Next::Stays };
    loop {
        // A control connection has no more in front of its lines than its word.
        let wanted = if header.starts_with(&FLOW) { FLOW_HEADER } else { FLOW.len() };
        if *have == wanted {
            break;
        }
        let Some(room) = header.get_mut(*have..wanted) else { return Next::Ends };
        match connection.stream.read(room) {
            Ok(0) => return Next::Ends,
            Ok(bytes) => *have += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Stays,
            Err(_) => return Next::Ends,
        }
        if *have == FLOW.len() && header.starts_with(&CONTROL) {
            return Next::IsControl;
        }
        if *have == FLOW.len() && !header.starts_with(&FLOW) {
            return Next::Ends;
        }
    }
    let (number, flow) = read_flow_header(header);
    let Some(test) = locked(tests).get(&number).cloned() else { return Next::Ends };
    match test.state.get(flow as usize) {
        Some(state) if state.swap(THERE, Ordering::Relaxed) == 0 => {
            test.there.fetch_add(1, Ordering::Release);
            connection.kind = Kind::Flow(test, flow as usize);
            Next::Stays
        }
        // There is no such flow, or it is there already.
        _ => Next::Ends,
    }
}

/// Reads and counts what has arrived of a flow. It is copied although it is not used: the copy is a part of receiving.
fn count(mut stream: &TcpStream, room: &mut [u8], (test, flow): (&Test, usize)) -> Next {
    let (Some(count), Some(state)) = (test.bytes.get(flow), test.state.get(flow)) else { return Next::Ends };
    for _ in 0..TURNS {
        match stream.read(room) {
            Ok(0) => {
                // The client waits for our FIN, which follows from closing: nothing is left to be read.
                let _ = close_by_fin(stream);
                state.store(CLOSED, Ordering::Release);
                return Next::Ends;
            }
            Ok(bytes) => {
                if count.fetch_add(bytes as u64, Ordering::Relaxed) == 0
                    && let Some(first) = test.first_ns.get(flow)
                {
                    first.store(test.since.elapsed().as_nanos() as u64, Ordering::Relaxed);
                }
                if bytes < room.len() {
                    return Next::Stays;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Stays,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Next::Ends,
        }
    }
    Next::Stays
}

/// A test, from its client's first word to the last.
fn control(stream: TcpStream, tests: &Tests, limits: &Limits) -> Result<(), FlowsError> {
    let failed = || FlowsError::at("control connection");
    stream.set_nonblocking(false).map_err(failed())?;
    stream.set_nodelay(true).map_err(failed())?;
    stream.set_write_timeout(Some(CONNECTING)).map_err(failed())?;
    // The last answer may wait behind the flows in a bottleneck: closing must not discard it.
    close_by_fin(&stream).map_err(failed())?;
    let mut to = stream.try_clone().map_err(failed())?;
    let mut from = Lines::of(stream).map_err(failed())?;
    let hello = from.next(INTRODUCTION, &AtomicBool::new(false))?;
    let Some(Order::Hello { test: number, flows, duration_ms, interval_ms, grace_ms }) = hello else {
        return Ok(());
    };
    let possible = (1..=MOST_FLOWS).contains(&flows)
        && (1..=LONGEST).contains(&duration_ms)
        && (10..=LONGEST).contains(&interval_ms)
        && grace_ms <= LONGEST;
    if !possible || u64::from(flows) + 64 > limits.descriptors {
        let most = MOST_FLOWS.min(limits.descriptors.saturating_sub(64) as u32);
        return say(
            &mut to,
            &Answer::Refused(format!("this server accepts 1 to {most} flows, for at most a day")),
        )
        .map_err(failed());
    }
    let zeros = |_| AtomicU64::new(0);
    let test = Arc::new(Test {
        since: Instant::now(),
        bytes: (0..flows).map(zeros).collect(),
        first_ns: (0..flows).map(zeros).collect(),
        state: (0..flows).map(|_| AtomicU8::new(0)).collect(),
        there: AtomicU32::new(0),
        over: AtomicBool::new(false),
    });
    {
        let mut all = locked(tests);
        if all.len() >= MOST_TESTS || all.contains_key(&number) {
            return say(&mut to, &Answer::Refused(format!("the server is busy with {MOST_TESTS} tests")))
                .map_err(failed());
        }
        all.insert(number, test.clone());
    }
    let plan = Plan {
        duration: Duration::from_millis(duration_ms),
        interval: Duration::from_millis(interval_ms),
        grace: Duration::from_millis(grace_ms),
    };
    let result = attend(&test, &plan, limits, (&mut from, &mut to));
    test.over.store(true, Ordering::Relaxed);
    locked(tests).remove(&number);
    result
}

struct Plan {
    duration: Duration,
    interval: Duration,
    grace: Duration,
}

fn attend(
    test: &Test,
    plan: &Plan,
    limits: &Limits,
    (from, to): (&mut Lines<TcpStream>, &mut TcpStream),
) -> Result<(), FlowsError> {
    let failed = || FlowsError::at("control connection");
    let (backlog, descriptors, receive_buffer) = (limits.backlog, limits.descriptors, limits.receive_buffer);
    say(to, &Answer::Ready { backlog, descriptors, receive_buffer }).map_err(failed())?;
    let until = Instant::now() + CONNECTING;
    let flows = test.state.len() as u32;
    while test.there.load(Ordering::Acquire) < flows && Instant::now() < until && !is_closed(to) {
        thread::sleep(Duration::from_millis(1));
    }
    let missing = |(flow, state): (u32, &AtomicU8)| (state.load(Ordering::Relaxed) == 0).then_some(flow);
    let missing: Vec<u32> = (0..).zip(&test.state).filter_map(missing).collect();
    let complete = missing.is_empty();
    say(to, &Answer::Connected { missing }).map_err(failed())?;
    if !complete {
        return Ok(());
    }
    let Some(Order::Start { after_us }) = from.next(CONNECTING, &test.over)? else { return Ok(()) };
    let start = Instant::now() + Duration::from_micros(after_us).min(LONGEST_BARRIER);
    let window = intervals(test, plan, start, to)?;
    // Late bytes, and the ends of all flows.
    let until = Instant::now() + plan.grace;
    let ended = |state: &AtomicU8| state.load(Ordering::Acquire) >= CLOSED;
    while !test.state.iter().all(ended) && Instant::now() < until && !is_closed(to) {
        thread::sleep(Duration::from_millis(2));
    }
    let all = counts(test);
    let late = all.iter().zip(&window.1).map(|(all, window)| all - window).collect();
    let closed = test.state.iter().map(|state| state.load(Ordering::Acquire) == CLOSED).collect();
    let first_ns = first_bytes(test, start);
    say(to, &Answer::End { window_ns: window.0, bytes: window.1, late, closed, first_ns }).map_err(failed())
}

/// When the first bytes of each flow were read, in ns after `start`.
fn first_bytes(test: &Test, start: Instant) -> Vec<Option<i64>> {
    let start_ns = start.duration_since(test.since).as_nanos() as i64;
    let first = test.first_ns.iter().map(|first| first.load(Ordering::Relaxed));
    first.map(|first| (first > 0).then(|| first as i64 - start_ns)).collect()
}

fn counts(test: &Test) -> Vec<u64> {
    test.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect()
}

/// Whether the client is gone.
fn is_closed(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let closed = matches!(stream.peek(&mut [0]), Ok(0))
        || stream.peek(&mut [0]).is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
    let _ = stream.set_nonblocking(false);
    closed
}

/// Reads all counts at the end of each interval; the window as it was, in ns, and what arrived in it.
fn intervals(
    test: &Test,
    plan: &Plan,
    start: Instant,
    to: &mut TcpStream,
) -> Result<(u64, Vec<u64>), FlowsError> {
    let (mut number, mut from_ns, mut before) = (0, 0, vec![0; test.bytes.len()]);
    loop {
        let end = (plan.interval * (number + 1)).min(plan.duration);
        if let Some(wait) = (start + end).checked_duration_since(Instant::now()) {
            thread::sleep(wait);
        }
        let (to_ns, now) = (start.elapsed().as_nanos() as u64, counts(test));
        let bytes = now.iter().zip(&before).map(|(now, before)| now - before).collect();
        say(to, &Answer::Interval { number, from_ns, to_ns, bytes })
            .map_err(FlowsError::at("control connection"))?;
        if end == plan.duration {
            return Ok((to_ns, now));
        }
        (number, from_ns, before) = (number + 1, to_ns, now);
    }
}
