//! `weir detect`: an interface, or a capture of one, is watched for attacks.
//!
//! ```text
//! queue > thread: headers --batches--> engine > events > told, and acted upon
//! ```

mod actions;
mod told;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use weir_detect::{Config, Engine, Event, Status};
use weir_packet::headers::{self, Headers};
use weir_port::capture::{Options, Queue, Rung};
use weir_port::pcapng::ETHERNET;
use weir_port::pcapng::read::{Item, Reader};

use crate::run::stop_flag;
use crate::{Outcome, cli, say};
use actions::Actions;
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

/// A frame as the engine wants it: headers, bytes on the wire, time.
type Seen = (Headers, u32, u64);

/// Watches, and tells.
pub(crate) fn run(arguments: &cli::Detect, out: &mut impl Write) -> Result<Outcome> {
    let Some(config) = arguments.config.as_deref().filter(|_| !arguments.example) else {
        out.write_all(EXAMPLE.as_bytes())?;
        return Ok(Outcome::Done);
    };
    let config = read_config(config)?;
    let actions = Actions::start(&config.actions)?;
    let random = RandomState::new();
    let engine = Engine::new(config, [random.hash_one(1), random.hash_one(2)]);
    let mut told = Told { out, json: arguments.json, actions };
    let (status, outcome) = match &arguments.read {
        Some(file) => (replay(file, engine, &mut told)?, Outcome::Done),
        None => watch(arguments, engine, &mut told)?,
    };
    told.finish(&status)?;
    Ok(outcome)
}

fn read_config(path: &Path) -> Result<Config> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read the configuration {name} (write one with `weir detect --example > {name}`)")
    })?;
    Ok(Config::read(&name.to_string(), &text)?)
}

/// Judges the frames of a file, by their times.
fn replay(path: &Path, mut engine: Engine, told: &mut Told<impl Write>) -> Result<Status> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read the capture {name}"))?;
    let mut reader = Reader::open(BufReader::new(file)).with_context(|| name.to_string())?;
    let (mut events, mut last_ns) = (Vec::new(), 0);
    while let Some(item) = reader.next_item().with_context(|| name.to_string())? {
        let Item::Packet(packet) = item else { continue };
        engine.lost(packet.dropped);
        if let Some(headers) = headers::read(packet.bytes) {
            engine.frame(headers, packet.wire_len, packet.at_ns, &mut events);
        }
        last_ns = last_ns.max(packet.at_ns);
        told.tell(&mut events)?;
    }
    let foreign = reader.interfaces().iter().find(|interface| interface.link_type != ETHERNET);
    if let Some(interface) = foreign {
        return Err(anyhow!("{name}: link type {} is not Ethernet", interface.link_type));
    }
    // What was whole in the file is judged; what would have come after it is not known.
    engine.advance(last_ns, &mut events);
    told.tell(&mut events)?;
    Ok(engine.status())
}

/// What the threads of a watch share.
struct Shared {
    engine: Mutex<(Engine, Vec<Event>)>,
    stop: AtomicBool,
}

fn watch(arguments: &cli::Detect, engine: Engine, told: &mut Told<impl Write>) -> Result<(Status, Outcome)> {
    let stop = stop_flag()?;
    let mut queues = Vec::new();
    for interface in &arguments.interface {
        queues.extend(open(interface, arguments.threads)?);
    }
    let shared = Shared { engine: Mutex::new((engine, Vec::new())), stop: AtomicBool::new(false) };
    say::say(&format!("watching {}", arguments.interface.join(", ")));
    let begin = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = queues.into_iter().map(|queue| scope.spawn(|| work(queue, &shared))).collect();
        let is_over = || {
            stop.load(Ordering::Relaxed)
                || arguments.duration.is_some_and(|duration| begin.elapsed() >= duration)
                || workers.iter().all(|worker| worker.is_finished())
        };
        let mut result = Ok(());
        while result.is_ok() && !is_over() {
            std::thread::sleep(WAIT);
            result = judge(&shared, told);
        }
        shared.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            let worked = worker.join().expect("a worker does not panic");
            result = result.and(worked);
        }
        result.and_then(|()| judge(&shared, told))
    })?;
    let status = shared.engine.lock().expect("nobody panics with it").0.status();
    let early = stop.load(Ordering::Relaxed) && arguments.duration.is_some();
    Ok((status, if early { Outcome::Interrupted } else { Outcome::Done }))
}

fn open(interface: &str, threads: u16) -> Result<Vec<Box<dyn Queue>>> {
    let link = weir_lab::interface::find(interface)?;
    let rung = if threads > 1 { Rung::RingFanout } else { Rung::Ring };
    let options = Options { snap: SNAP, sockets: threads, promiscuous: true, ..Options::default() };
    Ok(rung.open(&link.name, &options)?)
}

/// Slots that have ended are judged, and what came of it is told.
fn judge(shared: &Shared, told: &mut Told<impl Write>) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(LAG);
    let mut events = {
        let mut engine = shared.engine.lock().expect("nobody panics with it");
        let (engine, events) = &mut *engine;
        engine.advance(now.as_nanos() as u64, events);
        std::mem::take(events)
    };
    told.tell(&mut events)
}

/// Takes the frames of a queue until the end.
fn work(mut queue: Box<dyn Queue>, shared: &Shared) -> Result<()> {
    let mut batch: Vec<Seen> = Vec::with_capacity(BATCH);
    let mut lost = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        queue.take(WAIT, &mut |frame| {
            if let Some(headers) = headers::read(frame.bytes) {
                batch.push((headers, frame.wire_len, frame.at));
                if batch.len() == BATCH {
                    hand_on(&mut batch, shared);
                }
            }
        })?;
        hand_on(&mut batch, shared);
        let dropped = queue.account()?.dropped();
        if dropped > lost {
            shared.engine.lock().expect("nobody panics with it").0.lost(dropped - lost);
            lost = dropped;
        }
    }
    Ok(())
}

fn hand_on(batch: &mut Vec<Seen>, shared: &Shared) {
    if !batch.is_empty() {
        let mut engine = shared.engine.lock().expect("nobody panics with it");
        let (engine, events) = &mut *engine;
        for (headers, wire_bytes, at_ns) in batch.drain(..) {
            engine.frame(headers, wire_bytes, at_ns, events);
        }
    }
}
