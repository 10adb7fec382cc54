//! The detector as a service: interfaces, or a capture of one, are watched for attacks.
//!
//! ```text
//! queue > thread: headers --batches--> engine > events > acted upon > lines > main thread: output
//!                                           \-> captures > thread: files
//! ```
//! What is done about an attack waits neither for a disk nor for the program that reads the output.

mod actions;
mod announcer;
mod captures;
mod metrics;
mod program;
mod replay;
mod reported;
mod webhook;
mod writer;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use tracing::{info, warn};
use weir_capture::privilege::{User, to_become};
use weir_detect::{ClockStep, Config, Engine, Event, Status};
use weir_packet::encapsulation::{Link, Unread};
use weir_packet::headers::{self, Headers};
use weir_port::capture::{Frame, Queue};
use weir_port::confined::{Work, confine};

use actions::Actions;
use captures::Captures;
use replay::replay;
use reported::{Page, Teller};
use weir_service::prometheus::{Server, listen};
use weir_service::signals::Hangup;

/// Bytes of a frame that are looked at: Ethernet, four tags, IPv6 with extensions, TCP.
pub const SNAP: u32 = 192;
/// Frames in a batch for the engine.
const BATCH: usize = 256;
/// Longest wait for frames.
const WAIT: Duration = Duration::from_millis(50);
/// A time slot counts as complete this long after its end, even without a newer frame: rings deliver late.
const LAG: Duration = Duration::from_millis(100);

/// Output lines that may wait for the reader. More are dropped, with a note.
const LINES: usize = 10_000;

/// The engine and the captures: both get each frame.
struct Judge {
    engine: Engine,
    events: Vec<Event>,
    captures: Option<Captures>,
}

impl Judge {
    fn frame(&mut self, headers: Headers, frame: &Frame<'_>) {
        self.engine.frame(headers, frame.wire_len, frame.at, &mut self.events);
        if let Some(captures) = &mut self.captures {
            captures.see(frame, &headers);
        }
    }

    /// Judges the slots that ended before this time; returns the events.
    fn take(&mut self, now_ns: u64) -> Taken {
        self.engine.advance(now_ns, &mut self.events);
        let captures = &mut self.captures;
        let events = std::mem::take(&mut self.events).into_iter().map(|event| {
            let path = captures.as_mut().and_then(|captures| captures.of(&event));
            (event, path)
        });
        let events = events.collect();
        if let Some(captures) = captures {
            captures.hand_over();
        }
        Taken { events, steps: self.engine.take_steps(), status: self.engine.status(), now_ns }
    }
}

/// Events of ended slots.
struct Taken {
    /// Events, with the captures that began.
    events: Vec<(Event, Option<PathBuf>)>,
    steps: Vec<ClockStep>,
    status: Status,
    now_ns: u64,
}

impl Taken {
    /// Runs the actions; returns the output lines.
    fn act(&self, teller: &mut Teller) -> Vec<String> {
        let events = self.events.iter().map(|(event, capture)| teller.event(event, capture.as_deref()));
        let mut lines: Vec<_> = events.collect();
        lines.extend(self.steps.iter().filter_map(|step| teller.clock_step(step)));
        lines.extend(teller.gaps(&self.status, self.now_ns));
        lines
    }
}

/// How a detector runs.
#[derive(Debug)]
pub struct Settings<'a> {
    /// Names of the interfaces, for people.
    pub interfaces: &'a [String],
    /// A capture that is judged in place of interfaces.
    pub read: Option<&'a Path>,
    /// Announces what is found in a capture.
    pub announces_replay: bool,
    /// Ends after this time.
    pub duration: Option<Duration>,
    /// Where Prometheus is answered.
    pub prometheus: Option<SocketAddr>,
    /// Root stays root.
    pub keeps_privileges: bool,
    /// Events as JSON, one per line.
    pub json: bool,
}

/// How a detector has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As it was to end.
    Done,
    /// By a signal, before its time.
    Interrupted,
}

/// A detector whose sockets and folders are open: from here on it needs no privileges.
pub struct Prepared<'a> {
    settings: Settings<'a>,
    config: Config,
    scraped: Option<TcpListener>,
}

impl<'a> Prepared<'a> {
    /// Opens what takes privileges.
    ///
    /// # Errors
    /// A socket or a folder cannot be made.
    pub fn new(settings: Settings<'a>, mut config: Config) -> Result<Prepared<'a>> {
        if let (Some(announce), Some(_), false) =
            (&mut config.actions.announce, settings.read, settings.announces_replay)
        {
            announce.withheld.get_or_insert("read from a file: --announce sends it");
        }
        let scraped = settings.prometheus.map(listen).transpose()?;
        if let (Some(spec), false) = (&config.actions.captures, settings.keeps_privileges) {
            Captures::prepare(spec, to_become())?;
        }
        Ok(Prepared { settings, config, scraped })
    }

    /// Watches the queues, or judges the capture, and writes lines to `out`; `user` is what root has become.
    ///
    /// # Errors
    /// A queue had to be given up, or a file or an action cannot be used.
    pub fn run(self, queues: Vec<Box<dyn Queue>>, user: Option<User>, out: &mut impl Write) -> Result<End> {
        let Prepared { settings, config, scraped } = self;
        let actions = Actions::start(&config.actions).map_err(|error| as_user(error, user))?;
        let random = RandomState::new();
        let captures =
            config.actions.captures.clone().map(|spec| Captures::new(spec, settings.read.is_some()));
        let captures = captures.transpose().map_err(|error| as_user(error, user))?;
        let (captures, written) = captures.unzip();
        let engine = Engine::new(config, [random.hash_one(1), random.hash_one(2)]);
        let mut judge = Judge { engine, events: Vec::new(), captures };
        let teller = Teller::new(settings.json, actions);
        let mut page = Page::new(out);
        let server = scraped.map(Server::start).transpose()?;
        let end = match settings.read {
            Some(file) => replay(file, &mut judge, teller, &mut page).map(|()| End::Done),
            None => watch(&settings, queues, (&mut judge, server), teller, &mut page),
        };
        if let (Some(captures), Some(written)) = (judge.captures, written) {
            captures.finish();
            written.wait(reported::LAST_WAIT);
        }
        // A broken output is reported only if nothing else failed.
        page.finish().and(end)
    }
}

/// State that the threads of a watch share.
struct Shared<'a> {
    judge: Mutex<&'a mut Judge>,
    /// Captures need the bytes of the frames.
    keeps_bytes: bool,
    stop: AtomicBool,
    /// The thread that runs the actions.
    teller: Thread,
}

/// Output lines on their way to the main thread.
struct Lines {
    lines: SyncSender<String>,
    /// The reader of the output has gone.
    broken: Arc<AtomicBool>,
}

impl Lines {
    /// Never waits.
    fn give(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            warn!("note: output is blocked: an event was handled but not printed");
        }
    }
}

/// Watches until the end, and withdraws the announcements; an error if a queue failed.
fn watch(
    settings: &Settings<'_>,
    queues: Vec<Box<dyn Queue>>,
    (judge, server): (&mut Judge, Option<Server>),
    teller: Teller,
    page: &mut Page<'_, impl Write>,
) -> Result<End> {
    let hangup = Hangup::of_service()?;
    let interfaces = settings.interfaces.join(", ");
    info!(interfaces, "watching {interfaces}");
    let (sender, receiver) = sync_channel(LINES);
    let broken = Arc::new(AtomicBool::new(false));
    let lines = Lines { lines: sender, broken: broken.clone() };
    let worked = std::thread::scope(|scope| {
        let act = || act(settings, queues, (judge, server), teller, &hangup, lines);
        let actor = std::thread::Builder::new().name("actor".into()).spawn_scoped(scope, act)?;
        for line in receiver {
            page.write(&line);
            broken.store(page.is_broken(), Ordering::Relaxed);
        }
        actor.join().expect("the actor does not panic")
    });
    let early = hangup.ends() && settings.duration.is_some();
    worked.map(|()| if early { End::Interrupted } else { End::Done })
}

/// Starts a thread for each queue, and runs the actions until the end.
fn act(
    settings: &Settings<'_>,
    queues: Vec<Box<dyn Queue>>,
    (judge, server): (&mut Judge, Option<Server>),
    mut teller: Teller,
    hangup: &Hangup,
    lines: Lines,
) -> Result<()> {
    let keeps_bytes = judge.captures.is_some();
    let stopping = AtomicBool::new(false);
    let shared =
        Shared { judge: Mutex::new(judge), keeps_bytes, stop: stopping, teller: std::thread::current() };
    let begin = Instant::now();
    let worked = std::thread::scope(|scope| {
        let worker = |queue| {
            let worker = std::thread::Builder::new().name("queue".into());
            worker.spawn_scoped(scope, || work(queue, &shared))
        };
        let mut workers = queues.into_iter().map(worker).collect::<std::io::Result<Vec<_>>>()?;
        let is_over = || {
            let is_late = settings.duration.is_some_and(|duration| begin.elapsed() >= duration);
            hangup.ends() || is_late || lines.broken.load(Ordering::Relaxed)
        };
        let mut worked = Ok(());
        while !workers.is_empty() && !is_over() {
            std::thread::park_timeout(WAIT);
            judge_now(&shared, &mut teller, &lines);
            if let Some(server) = &server {
                server.publish(metrics::page(&shared.judge().engine.status()));
            }
            while let Some(n) = workers.iter().position(|worker| worker.is_finished()) {
                let ended = workers.swap_remove(n).join().expect("a worker does not panic");
                if let Err(error) = &ended
                    && !workers.is_empty()
                {
                    warn!("note: {error:#}; the other queues continue");
                }
                worked = worked.and(ended);
            }
        }
        shared.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worked = worked.and(worker.join().expect("a worker does not panic"));
        }
        judge_now(&shared, &mut teller, &lines);
        worked
    });
    let status = shared.judge().engine.status();
    lines.give(teller.status(&status));
    teller.finish();
    worked
}

/// An error after root changed to another user.
fn as_user(error: anyhow::Error, user: Option<User>) -> anyhow::Error {
    let denied =
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
    match user.filter(|_| denied) {
        Some(User { uid, .. }) => error.context(format!(
            "user {uid}, to which root changed, has no permission: grant it (`chown {uid} ...`), or use --keep-privileges"
        )),
        None => error,
    }
}

/// Judges the ended slots, and runs the actions for their events.
fn judge_now(shared: &Shared<'_>, teller: &mut Teller, lines: &Lines) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(LAG);
    // The lock is released before the slow part.
    let taken = shared.judge().take(now.as_nanos() as u64);
    taken.act(teller).into_iter().for_each(|line| lines.give(line));
}

/// Receives the frames of a queue until the end.
fn work(mut queue: Box<dyn Queue>, shared: &Shared<'_>) -> Result<()> {
    // A kernel without seccomp filters can watch, too.
    let _ = confine(Work::Capture);
    let mut batch = Batch::default();
    let (mut lost, mut asked) = (0, Instant::now());
    loop {
        let is_last = shared.stop.load(Ordering::Relaxed);
        let taken = queue.take(WAIT, &mut |frame| {
            match headers::read_link(Link::Ethernet, frame.bytes) {
                Ok(headers) => batch.add(headers, if shared.keeps_bytes { frame.bytes } else { &[] }, frame),
                Err(unread) => batch.unread.push(unread),
            }
            if batch.frames.len() + batch.unread.len() == BATCH {
                batch.hand_on(shared);
            }
        });
        batch.hand_on(shared);
        taken?;
        // Reading the counters for each frame would cost more than the frame.
        if is_last || asked.elapsed() >= WAIT {
            asked = Instant::now();
            let dropped = queue.account()?.dropped();
            if dropped > lost {
                shared.judge().engine.lost(dropped - lost);
                lost = dropped;
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Frames of a queue that wait for the lock of the judge.
#[derive(Default)]
struct Batch {
    /// Headers, captured bytes, bytes on the wire and time.
    frames: Vec<(Headers, usize, u32, u64)>,
    bytes: Vec<u8>,
    /// Frames without a readable IP packet.
    unread: Vec<Unread>,
}

impl Batch {
    fn add(&mut self, headers: Headers, bytes: &[u8], frame: &Frame<'_>) {
        self.frames.push((headers, bytes.len(), frame.wire_len, frame.at));
        self.bytes.extend_from_slice(bytes);
    }

    fn hand_on(&mut self, shared: &Shared<'_>) {
        if self.frames.is_empty() && self.unread.is_empty() {
            return;
        }
        let mut judge = shared.judge();
        self.unread.drain(..).for_each(|unread| judge.engine.unread(unread));
        let mut rest = &self.bytes[..];
        for (headers, length, wire_len, at_ns) in self.frames.drain(..) {
            let (bytes, others) = rest.split_at(length);
            judge.frame(headers, &Frame { bytes, wire_len, at: at_ns, lost_before: 0 });
            rest = others;
        }
        if !judge.events.is_empty() {
            shared.teller.unpark();
        }
        self.bytes.clear();
    }
}

impl<'a> Shared<'a> {
    fn judge(&self) -> MutexGuard<'_, &'a mut Judge> {
        self.judge.lock().expect("no thread panics while it holds the lock")
    }
}
