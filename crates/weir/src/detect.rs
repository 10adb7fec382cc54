//! `weir detect`: an interface, or a capture of one, is watched for attacks.
//!
//! ```text
//! queue > thread: headers --batches--> engine > events > told, and acted upon
//! ```

mod actions;
mod captures;
mod replay;
mod told;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use weir_capture::privilege::User;
use weir_capture::source::{Source, Wanted};
use weir_detect::{Config, Engine, Event, Status};
use weir_packet::headers::{self, Headers};
use weir_port::capture::{Frame, Options, Queue};

use crate::run::stop_flag;
use crate::{Outcome, capture, cli, say};
use actions::Actions;
use captures::{Captures, Job};
use replay::replay;
use told::Told;

const EXAMPLE: &str = include_str!("../../../examples/detect.toml");
/// Headers are all that is looked at: Ethernet, four tags, IPv6 with extensions, TCP.
const SNAP: u32 = 192;
/// Frames that are handed to the engine together.
const BATCH: usize = 256;
/// Longest wait for frames.
const WAIT: Duration = Duration::from_millis(50);
/// A slot is taken to be complete so long after its end though no frame says so: rings hand over later.
const LAG: Duration = Duration::from_millis(100);

/// What frames are for.
struct Judge {
    engine: Engine,
    events: Vec<Event>,
    captures: Option<Captures>,
}

impl Judge {
    fn frame(&mut self, headers: Headers, bytes: &[u8], (wire_len, at_ns): (u32, u64)) {
        self.engine.frame(headers, wire_len, at_ns, &mut self.events);
        if let Some(captures) = &mut self.captures {
            captures.see(bytes, &headers, (wire_len, at_ns));
        }
    }

    /// Slots that have ended at this time are judged; what came of it, with the captures that were begun, and what
    /// there is to write.
    fn take(&mut self, now_ns: u64) -> (Vec<(Event, Option<PathBuf>)>, Vec<Job>) {
        self.engine.advance(now_ns, &mut self.events);
        let events = std::mem::take(&mut self.events).into_iter();
        let Some(captures) = &mut self.captures else {
            return (events.map(|event| (event, None)).collect(), Vec::new());
        };
        let events = events.map(|event| {
            let path = captures.of(&event);
            (event, path)
        });
        (events.collect(), captures.jobs())
    }
}

/// Watches, and tells.
pub(crate) fn run(arguments: &cli::Detect, out: &mut impl Write) -> Result<Outcome> {
    let Some(config) = arguments.config.as_deref().filter(|_| !arguments.example) else {
        out.write_all(EXAMPLE.as_bytes())?;
        return Ok(Outcome::Done);
    };
    let config = read_config(config)?;
    let queues = if arguments.read.is_none() { open(arguments)? } else { Vec::new() };
    // What looks at frames, and what acts upon them, has no privileges any more.
    let keep = arguments.keep_privileges || arguments.read.is_some();
    let user = if keep { None } else { capture::give_up_privileges()? };
    let actions = Actions::start(&config.actions).map_err(|error| as_user(error, user))?;
    let random = RandomState::new();
    let captures = config.actions.captures.clone().map(Captures::new).transpose();
    let captures = captures.map_err(|error| as_user(error, user))?;
    let engine = Engine::new(config, [random.hash_one(1), random.hash_one(2)]);
    let judge = Judge { engine, events: Vec::new(), captures };
    let mut told = Told::new(out, arguments.json, actions);
    let (status, outcome) = match &arguments.read {
        Some(file) => (replay(file, judge, &mut told)?, Ok(Outcome::Done)),
        None => watch(arguments, queues, judge, &mut told)?,
    };
    told.finish(&status)?;
    outcome
}

fn read_config(path: &Path) -> Result<Config> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read the configuration {name} (write one with `weir detect --example > {name}`)")
    })?;
    Ok(Config::read(&name.to_string(), &text)?)
}

fn tell((events, jobs): (Vec<(Event, Option<PathBuf>)>, Vec<Job>), told: &mut Told<impl Write>) {
    jobs.iter().for_each(Job::write);
    events.iter().for_each(|(event, capture)| told.tell(event, capture.as_deref()));
}

/// What the threads of a watch share.
struct Shared {
    judge: Mutex<Judge>,
    /// Captures want the frames themselves.
    keeps_bytes: bool,
    stop: AtomicBool,
    /// Who tells what was found.
    teller: Thread,
}

/// Watches until the end; what was counted, and how it ended: where a queue had to be given up, with its error.
fn watch(
    arguments: &cli::Detect,
    queues: Vec<Box<dyn Queue>>,
    judge: Judge,
    told: &mut Told<impl Write>,
) -> Result<(Status, Result<Outcome>)> {
    let stop = stop_flag()?;
    let keeps_bytes = judge.captures.is_some();
    let shared = Shared {
        judge: Mutex::new(judge),
        keeps_bytes,
        stop: AtomicBool::new(false),
        teller: std::thread::current(),
    };
    say::say(&format!("watching {}", arguments.interface.join(", ")));
    let begin = Instant::now();
    let worked = std::thread::scope(|scope| {
        let mut workers: Vec<_> =
            queues.into_iter().map(|queue| scope.spawn(|| work(queue, &shared))).collect();
        let is_over = || {
            stop.load(Ordering::Relaxed)
                || arguments.duration.is_some_and(|duration| begin.elapsed() >= duration)
        };
        let mut worked = Ok(());
        while !told.is_broken() && !workers.is_empty() && !is_over() {
            std::thread::park_timeout(WAIT);
            judge_now(&shared, told);
            while let Some(n) = workers.iter().position(|worker| worker.is_finished()) {
                let ended = workers.swap_remove(n).join().expect("a worker does not panic");
                if let Err(error) = &ended
                    && !workers.is_empty()
                {
                    say::say(&format!("note: {error:#}; the watch goes on with what is left"));
                }
                worked = worked.and(ended);
            }
        }
        shared.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worked = worked.and(worker.join().expect("a worker does not panic"));
        }
        judge_now(&shared, told);
        worked
    });
    let status = shared.judge().engine.status();
    let early = stop.load(Ordering::Relaxed) && arguments.duration.is_some();
    Ok((status, worked.map(|()| if early { Outcome::Interrupted } else { Outcome::Done })))
}

/// An error of somebody who was root before.
fn as_user(error: anyhow::Error, user: Option<User>) -> anyhow::Error {
    let denied =
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
    match user.filter(|_| denied) {
        Some(User { uid, .. }) => error.context(format!(
            "user {uid}, who acts in place of root, may not: give it the right (`chown {uid} ...`), or use --keep-privileges"
        )),
        None => error,
    }
}

/// All queues.
fn open(arguments: &cli::Detect) -> Result<Vec<Box<dyn Queue>>> {
    let links = capture::ethernet(&arguments.interface)?;
    capture::check_permission()?;
    let mut queues = Vec::new();
    for link in &links {
        let options =
            Options { snap: SNAP, sockets: arguments.threads, promiscuous: true, ..Options::default() };
        let options = capture::with_buffer(options, arguments.buffer);
        let wanted = Wanted { rung: arguments.rung.asked(), options, filter: String::new() };
        let source = Source::open(link, wanted)?;
        say::say(&format!("{}: {}, {}", link.name, source.rung, source.reason));
        say::notes(&source.obstacles);
        queues.extend(source.into_queues());
    }
    Ok(queues)
}

/// Slots that have ended are judged, and what came of it is told.
fn judge_now(shared: &Shared, told: &mut Told<impl Write>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(LAG);
    // What takes long is done when others may judge again.
    let taken = shared.judge().take(now.as_nanos() as u64);
    tell(taken, told);
}

/// Takes the frames of a queue until the end.
fn work(mut queue: Box<dyn Queue>, shared: &Shared) -> Result<()> {
    let mut batch = Batch::default();
    let (mut lost, mut asked) = (0, Instant::now());
    loop {
        let is_last = shared.stop.load(Ordering::Relaxed);
        let taken = queue.take(WAIT, &mut |frame| {
            if let Some(headers) = headers::read(frame.bytes) {
                batch.add(headers, if shared.keeps_bytes { frame.bytes } else { &[] }, frame);
                if batch.frames.len() == BATCH {
                    batch.hand_on(shared);
                }
            }
        });
        batch.hand_on(shared);
        taken?;
        // A question to the kernel for each frame would cost more than the frame.
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

/// Frames of a queue that wait for the judge, who has time for one queue at a time.
#[derive(Default)]
struct Batch {
    /// Headers, bytes kept, bytes on the wire and time.
    frames: Vec<(Headers, usize, u32, u64)>,
    bytes: Vec<u8>,
}

impl Batch {
    fn add(&mut self, headers: Headers, bytes: &[u8], frame: &Frame<'_>) {
        self.frames.push((headers, bytes.len(), frame.wire_len, frame.at));
        self.bytes.extend_from_slice(bytes);
    }

    fn hand_on(&mut self, shared: &Shared) {
        if self.frames.is_empty() {
            return;
        }
        let mut judge = shared.judge();
        let mut rest = &self.bytes[..];
        for (headers, length, wire_len, at_ns) in self.frames.drain(..) {
            let (bytes, others) = rest.split_at(length);
            judge.frame(headers, bytes, (wire_len, at_ns));
            rest = others;
        }
        if !judge.events.is_empty() {
            shared.teller.unpark();
        }
        self.bytes.clear();
    }
}

impl Shared {
    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().expect("nobody panics with it")
    }
}
