//! A node as a service: it opens the ports, gives its privileges up, runs the node, and answers the clients of its socket.
//!
//! ```text
//!   run:   open ports > give privileges up > threads of the node
//!          this thread: counters for Prometheus, panics of the node, signals
//!          another one: events of NATs and port blocks > files (notes), events also > clients (hub); ends sessions without a link
//!          threads for the clients of the socket (clients, socket): lines of JSON there, lines back
//! ```
//! [`request`] has the lines of the protocol, [`answers`] what is answered, [`client`] is the other end; [`reported`] is the JSON of
//! the answers, and the same as text and for Prometheus. [`blocks`] keeps the port blocks of each subscriber, [`panics`] what a panic of the node leaves.

mod answers;
mod blocks;
pub mod client;
mod clients;
mod hub;
mod notes;
mod panics;
pub mod reported;
pub mod request;
pub mod schema;
pub mod socket;
pub mod texts;

pub use answers::{Done, Reason, Rings};

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use tracing::{info, warn};
use weir_capture::privilege;
use weir_node::offload::{self, SwitchedOff};
use weir_node::{Config, Node, Opened};
use weir_service::prometheus::{self, Server};
use weir_service::signals::Hangup;
use weir_service::systemd;

use answers::Service;
use clients::Served;
use hub::Hub;
use notes::{Events, EventsFile, KeptBlocks, Notes};
use panics::PanicLog;
use reported::Unwritten;
use socket::{Access, Control, LIMITS};

/// Longest age of the counters for Prometheus.
const TELL: Duration = Duration::from_secs(1);
/// Interval between checks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// What becomes of hosts without a port block while blocks cannot be written to their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlocksFailure {
    /// No new port blocks are assigned.
    Refuse,
    /// They get one, which is forgotten by a crash.
    Give,
}

/// The file of port blocks.
#[derive(Debug, Clone, Copy)]
pub struct BlocksFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// While it cannot be written.
    pub failure: BlocksFailure,
}

/// How a node is run.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The node.
    pub config: Config,
    /// Runs a thread on each of these CPUs, whatever the text says, and other texts that are applied later.
    pub cpus: Option<Vec<usize>>,
    /// Where clients are answered.
    pub socket: PathBuf,
    /// Who may be a client.
    pub access: Access,
    /// Where Prometheus is answered.
    pub prometheus: Option<SocketAddr>,
    /// The file to which events of NATs are appended.
    pub events: Option<&'a Path>,
    /// The file of port blocks.
    pub blocks: Option<BlocksFile<'a>>,
    /// Root stays root.
    pub keeps_privileges: bool,
}

/// A node that has ended.
#[derive(Debug)]
pub struct Over {
    /// The frame accounting, as [`reported::counters`] has it.
    pub accounting: Value,
    /// Why it ended before it was asked to, a line each.
    pub reasons: Vec<String>,
}

/// The node with a thread on each of these CPUs, if there are any.
fn placed(mut config: Config, cpus: Option<&[usize]>) -> Config {
    if let Some(cpus) = cpus {
        config.settings.threads = cpus.iter().copied().map(Some).collect();
    }
    config
}

/// Runs a node until a signal ends it, or its ports have gone.
///
/// # Errors
/// A port, a file or a socket cannot be opened, or privileges cannot be given up.
pub fn run(settings: Settings<'_>) -> Result<Over> {
    let cpus = settings.cpus;
    let config = placed(settings.config, cpus.as_deref());
    config.check_threads().map_err(anyhow::Error::msg)?;
    let hangup = Hangup::of_service()?;
    let events = settings.events.map(EventsFile::open).transpose()?;
    let prometheus = settings.prometheus.map(prometheus::listen).transpose()?;
    let mut blocks = settings.blocks.map(|file| KeptBlocks::open(file.path, file.failure)).transpose()?;
    let control = Control::listen(&settings.socket, &settings.access)?;
    let _tags = show_tags(&config);
    let mut opened = Opened::new(&config)?;
    if let Some(blocks) = &mut blocks {
        restore(&mut opened, blocks);
    }
    for (port, method) in config.plane.ports.iter().zip(opened.methods()) {
        let (name, interface) = (&port.name, &port.interface);
        info!(port = %name, %method, %interface, "{name}: {method} on {interface}");
    }
    opened.obstacles().iter().for_each(|obstacle| warn!("note: {obstacle}"));
    let mut panics = PanicLog::open();
    if !settings.keeps_privileges {
        privilege::drop_all_but(opened.needs()).context("cannot drop privileges")?;
        privilege::run_no_program();
    }
    let node = opened.start()?;
    panics.begin(node.began());
    let events = events.zip(settings.events);
    let events = events.map(|(file, path)| Events::new(file, path, node.began()));
    let unwritten = Unwritten::default();
    let reopens = AtomicBool::new(false);
    let (hub, has_file) = (Hub::default(), events.is_some());
    let mut notes = Notes { events, blocks, unwritten: &unwritten, hub: &hub, reopens: &reopens };
    let prometheus = prometheus.map(Server::start).transpose()?;
    let page = |node: &Node| {
        let plans = node.plans().map(|plans| reported::plans(&plans)).unwrap_or_default();
        reported::prometheus(&node.snapshots(), &node.port_names())
            + &plans
            + &reported::unwritten(&unwritten)
    };
    systemd::notify_ready()?;
    // Clients have their own threads, so that none of them delays the recording of events.
    let (alive, over) = UnixStream::pair().context("cannot create the socket that ends the clients")?;
    let placed = |config| placed(config, cpus.as_deref());
    let service = Service { node: &node, hub: &hub, placed: &placed };
    // Those from before the first client subscribes are for the file, or for nobody.
    let before_events = || drop((!has_file).then(|| node.events()));
    let served = Served {
        answer: &|ask| answers::answer(&service, ask),
        counters: &|| Ok(reported::counters(&node.count()?, &node.port_names())),
        hub: &hub,
        before_events: &before_events,
        limits: LIMITS,
    };
    let publish = || {
        if let Some(server) = &prometheus {
            server.publish(page(&node));
        }
    };
    std::thread::scope(|scope| {
        let (noting, is_over) = channel();
        {
            let (node, notes) = (&node, &mut notes);
            scope.spawn(move || notes.run(node, &is_over));
        }
        let serve = || control.serve(&over, &served);
        let serving = std::thread::Builder::new().name("control".into()).spawn_scoped(scope, serve);
        if serving.is_ok() {
            watch(&node, &mut panics, publish, (&hangup, &reopens));
        }
        drop::<Sender<()>>(noting);
        drop(alive);
        serving.map(drop)
    })?;
    end(node, &mut notes)
}

/// Has interfaces show VLAN tags to the ports of a node, until that is dropped. Without it the node runs, and says what hides them.
fn show_tags(config: &Config) -> Option<SwitchedOff> {
    let failed = |step: &str, error: std::io::Error| {
        warn!(%error, "note: cannot {step}: {error}");
    };
    let mut off = match SwitchedOff::new(config, &offload::folder()) {
        Ok(off) => off?,
        Err(error) => {
            failed("write down which VLAN offloads are on, so that they stay on", error);
            return None;
        }
    };
    let guarded = std::env::current_exe().and_then(|program| off.guarded_by(&program));
    if let Err(error) = guarded {
        failed("start the process that switches VLAN offloads on again", error);
    }
    Some(off)
}

/// Reports panics of the node, and publishes its counters, until it ends or a signal ends it.
fn watch(node: &Node, panics: &mut PanicLog, publish: impl Fn(), (hangup, reopens): (&Hangup, &AtomicBool)) {
    publish();
    let mut reported = Instant::now();
    while !hangup.ends() && !node.has_ended() {
        std::thread::sleep(LOOK);
        reopens.fetch_or(hangup.asks_to_reopen(), Ordering::Relaxed);
        panics.look(node);
        if reported.elapsed() >= TELL {
            reported = Instant::now();
            publish();
        }
    }
}

/// Gives hosts their port blocks back.
fn restore(opened: &mut Opened, kept: &mut KeptBlocks) {
    let before = kept.blocks.live();
    let restored = opened.restore(&before);
    if !before.is_empty() {
        let (restored, kept) = (restored.len(), before.len());
        info!(restored, kept, "restored {restored} of {kept} port blocks");
    }
    kept.blocks.set(&restored);
    kept.sync();
    opened.set_new_blocks(kept.new_blocks());
}

/// Drains the node and returns the accounting.
fn end(node: Node, notes: &mut Notes<'_>) -> Result<Over> {
    let names = node.port_names();
    let mut ended = node.stop();
    // Also if a port has failed.
    notes.end(&mut ended);
    let accounting = reported::counters(&ended.threads?, &names);
    Ok(Over { accounting, reasons: ended.ended_early })
}
