//! A node from outside: opened with all privileges, started, asked, changed, ended.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use weir_packet::frame::Mac;
use weir_plane::{BATCH, Change, Count, Event, Plane};
use weir_port::duplex::{Pool, Port, Tap};
use weir_port::thread;

use crate::backend::{Backend, OpenError, Wanted};
use crate::config::{Config, Host, Settings};
use crate::counters::{Shown, Snapshot};
use crate::worker::{Machine, Request, Strings, Worker};

/// Chunks beside those that ports have with the kernel.
const SPARE_CHUNKS: u32 = 1024;
/// Ethernet header with two tags.
const ETHERNET: usize = 22;

/// What goes wrong with a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A port cannot be opened.
    #[error("port {port}: {source}")]
    Open {
        /// Its name in the text.
        port: String,
        /// Why.
        source: OpenError,
    },
    /// The node's thread.
    #[error("{step}: {source}")]
    Thread {
        /// What was to be done.
        step: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Another text.
    #[error("{0}")]
    Change(String),
    /// A port is of no more use.
    #[error("the node has stopped: {0}")]
    Stopped(io::Error),
}

fn thread_error(step: &'static str) -> impl Fn(io::Error) -> NodeError {
    move |source| NodeError::Thread { step, source }
}

/// What its plane is made of.
#[derive(Debug, Clone)]
struct Blueprint {
    backends: Vec<Backend>,
    settings: Settings,
    config: weir_plane::Config,
    macs: Vec<Mac>,
}

impl Blueprint {
    fn new(config: &Config, macs: Vec<Mac>) -> Blueprint {
        let Config { plane, backends, settings } = config.clone();
        Blueprint { backends, settings, config: plane, macs }
    }

    /// A plane that nobody can foretell the ports of.
    fn plane(&self) -> Plane {
        let mut config = self.config.clone();
        config.seed = RandomState::new().hash_one(0);
        Plane::new(&config, &self.macs)
    }
}

/// A node whose ports are open, and which does not run yet: the place to give privileges up.
pub struct Opened {
    worker: Worker,
    began: SystemTime,
    kind: Blueprint,
    methods: Vec<String>,
    obstacles: Vec<String>,
}

impl Opened {
    /// Opens the ports in the calling thread's network namespace.
    ///
    /// # Errors
    /// A port that cannot be opened.
    pub fn new(config: &Config) -> Result<Opened, NodeError> {
        let ports = &config.plane.ports;
        let named =
            |n: usize| move |source: OpenError| NodeError::Open { port: ports[n].name.clone(), source };
        let longest = ETHERNET + ports.iter().map(|port| usize::from(port.mtu)).max().unwrap_or(0);
        let mut chunks = SPARE_CHUNKS;
        let mut macs = Vec::new();
        for (n, backend) in config.backends.iter().enumerate() {
            chunks += backend.chunks().map_err(named(n))? + 2 * BATCH as u32;
            macs.push(ports[n].mac.map_or_else(|| backend.mac(n), Ok).map_err(named(n))?);
        }
        let mut pool = Pool::new(chunks, longest).map_err(thread_error("memory for frames"))?;
        let mut open = Vec::new();
        for (n, backend) in config.backends.iter().enumerate() {
            // A bump in the wire takes what is for others.
            let promiscuous =
                ports[n].addresses.is_empty() && matches!(backend, Backend::Xdp(_) | Backend::Packet(_));
            open.push(backend.open(&mut pool, Wanted { longest, promiscuous }).map_err(named(n))?);
        }
        let host = match &config.settings.host {
            Host::Kernel => Machine::Kernel,
            Host::Nobody => Machine::Nobody,
            Host::Tap(name) => {
                let failed = |source: weir_port::duplex::CaptureError| NodeError::Open {
                    port: name.clone(),
                    source: source.into(),
                };
                Machine::Tap(Box::new(Tap::open(name, Some(macs[0])).map_err(failed)?))
            }
        };
        Ok(Opened::of(Blueprint::new(config, macs), open, pool, host))
    }

    /// A node between ports that are open.
    pub fn between(config: &Config, ports: Vec<Box<dyn Port>>) -> Result<Opened, NodeError> {
        let mac = |n: usize| config.plane.ports[n].mac.unwrap_or([2, 0, 0, 0, 0x77, n as u8]);
        let macs: Vec<_> = (0..ports.len()).map(mac).collect();
        let longest =
            ETHERNET + config.plane.ports.iter().map(|port| usize::from(port.mtu)).max().unwrap_or(0);
        let pool = Pool::new(SPARE_CHUNKS, longest).map_err(thread_error("memory for frames"))?;
        let kind = Blueprint::new(config, macs);
        Ok(Opened::of(kind, ports, pool, Machine::Nobody))
    }

    fn of(kind: Blueprint, ports: Vec<Box<dyn Port>>, pool: Pool, host: Machine) -> Opened {
        let methods = ports.iter().map(|port| port.method()).collect();
        let obstacles = ports.iter().filter_map(|port| port.obstacle()).collect();
        let worker = Worker::new(kind.plane(), ports, pool, host, kind.settings.wait);
        Opened { worker, began: SystemTime::now(), kind, methods, obstacles }
    }

    /// How frames come and go, by port.
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    /// What is in the way of frames, and what to do about it.
    pub fn obstacles(&self) -> &[String] {
        &self.obstacles
    }

    /// Capabilities that its thread needs, as bits of capabilities(7): to give frames of AF_XDP to the machine.
    pub fn needs(&self) -> u64 {
        const CAP_BPF: u64 = 1 << 39;
        let by_xdp = self.kind.backends.iter().any(|backend| matches!(backend, Backend::Xdp(_)));
        if by_xdp && self.kind.settings.host == Host::Kernel { CAP_BPF } else { 0 }
    }

    /// Starts its thread, in the namespaces of the calling one.
    ///
    /// # Errors
    /// There is no such CPU, or no thread.
    pub fn start(mut self) -> Result<Node, NodeError> {
        let first = self.worker.snapshot().map_err(thread_error("asking the ports"))?;
        let shown = Arc::new(Shown::new(&first));
        let (wake, woken) = UnixStream::pair().map_err(thread_error("making a socket"))?;
        wake.set_nonblocking(true).map_err(thread_error("making a socket"))?;
        let (requests, queue) = channel();
        let asked = Arc::new(AtomicBool::new(false));
        let strings = Strings { requests: queue, asked: asked.clone(), wake: woken, shown: shown.clone() };
        let (ready, placed) = channel();
        let Opened { mut worker, began, kind, .. } = self;
        let cpu = kind.settings.cpu;
        let run = move || {
            let done = cpu.map_or(Ok(()), thread::pin_to).map(|()| thread::number());
            let failed = done.is_err();
            // Whoever starts us waits for it.
            let _ = ready.send(done);
            if failed { Ok(first) } else { worker.run(strings) }
        };
        let thread = std::thread::Builder::new().name("node".into()).spawn(run);
        let thread = thread.map_err(thread_error("starting the node's thread"))?;
        let number = placed.recv().expect("the thread says how it began");
        let number = number.map_err(thread_error("moving the node's thread to its CPU"))?;
        Ok(Node {
            began,
            kind: Mutex::new(kind),
            requests: Some(requests),
            asked,
            wake,
            shown,
            thread: Some(thread),
            number,
        })
    }
}

/// A node that runs. Dropping it ends it.
pub struct Node {
    began: SystemTime,
    kind: Mutex<Blueprint>,
    requests: Option<Sender<Request>>,
    asked: Arc<AtomicBool>,
    wake: UnixStream,
    shown: Arc<Shown>,
    thread: Option<JoinHandle<io::Result<Snapshot>>>,
    number: u32,
}

impl Node {
    /// The number of its thread.
    pub fn thread(&self) -> u32 {
        self.number
    }

    /// Its counters, not older than some 50 ms.
    pub fn snapshot(&self) -> Snapshot {
        self.shown.look()
    }

    /// Its counters now.
    ///
    /// # Errors
    /// It has ended, or a port is of no more use.
    pub fn count(&self) -> Result<Snapshot, NodeError> {
        self.ask(Worker::snapshot)?.map_err(NodeError::Stopped)
    }

    /// Becomes what another text says, between two batches; sessions stay.
    ///
    /// # Errors
    /// What differs cannot change while it runs, or it has ended.
    pub fn apply(&self, config: &Config) -> Result<(), NodeError> {
        let mut kind = self.kind.lock().expect("nobody panics with it");
        if config.backends != kind.backends || config.settings != kind.settings {
            return Err(NodeError::Change(
                "a port or how it is run changes only when the node begins anew".into(),
            ));
        }
        let change = Change::prepare(&kind.config, &config.plane).map_err(NodeError::Change)?;
        let (accepted, mut change) = self.ask(move |worker| (worker.plane.accept(&change), change))?;
        accepted.map_err(NodeError::Change)?;
        let mut more = true;
        while more {
            // The thread gives back what it needs no more, so that it is freed here.
            (more, change) = self.ask(move |worker| (worker.commit(&mut change), change))?;
        }
        kind.config = config.plane.clone();
        Ok(())
    }

    /// Its routes as its text says them.
    pub fn routes(&self) -> Vec<String> {
        let kind = self.kind.lock().expect("nobody panics with it");
        kind.config.routes.iter().flatten().map(ToString::to_string).collect()
    }

    /// What the rules of its filters held for, a list for each filter, in frames.
    ///
    /// # Errors
    /// It has ended.
    pub fn rules(&self) -> Result<Vec<Vec<(String, u64)>>, NodeError> {
        let frames = |(rule, count): (String, Count)| (rule, count.frames);
        let counts = self.ask(|worker| worker.plane.filter_counts())?;
        Ok(counts.into_iter().map(|filter| filter.into_iter().map(frames).collect()).collect())
    }

    /// Frames that rules of its filters have written down since the last call, in words.
    ///
    /// # Errors
    /// It has ended.
    pub fn logged(&self) -> Result<Vec<String>, NodeError> {
        self.ask(|worker| worker.plane.logged().iter().map(ToString::to_string).collect())
    }

    /// How many sessions there are, and the first of them, at most `most`, in words.
    ///
    /// # Errors
    /// It has ended.
    pub fn sessions(&self, most: usize) -> Result<(u64, Vec<String>), NodeError> {
        self.ask(move |worker| {
            let plane = &worker.plane;
            (u64::from(plane.nat_usage().sessions) + u64::from(plane.connections()), plane.sessions(most))
        })
    }

    /// What its NATs wrote down since the last call, and how many events there was no room for, ever.
    ///
    /// # Errors
    /// It has ended.
    pub fn events(&self) -> Result<(Vec<Event>, u64), NodeError> {
        self.ask(|worker| worker.plane.events())
    }

    /// When its time began.
    pub fn began(&self) -> SystemTime {
        self.began
    }

    /// Begins anew with its plane: sessions, neighbours and counters are gone.
    ///
    /// # Errors
    /// It has ended.
    pub fn forget(&self) -> Result<(), NodeError> {
        let plane = self.kind.lock().expect("nobody panics with it").plane();
        self.ask(move |worker| worker.plane = plane)
    }

    /// Has its thread do something between two batches, and waits for what comes of it.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, NodeError> {
        let (reply, answer) = channel();
        let request: Request = Box::new(move |worker| {
            // Whoever asked may have gone.
            let _ = reply.send(what(worker));
        });
        let requests = self.requests.as_ref().expect("until the end");
        if requests.send(request).is_ok() {
            self.tell();
            if let Ok(answer) = answer.recv() {
                return Ok(answer);
            }
        }
        Err(NodeError::Stopped(io::Error::other("its thread has ended")))
    }

    /// Whether it has ended by itself: its files are at their end, or a port is gone.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it: nothing new comes in, what is there leaves. Its last counters.
    ///
    /// # Errors
    /// A port was of no more use.
    pub fn stop(mut self) -> Result<Snapshot, NodeError> {
        self.let_go().expect("it runs until now").map_err(NodeError::Stopped)
    }

    fn tell(&self) {
        self.asked.store(true, Ordering::Release);
        // When the socket is full the thread has reason enough to wake.
        let _ = (&self.wake).write(&[0]);
    }

    fn let_go(&mut self) -> Option<io::Result<Snapshot>> {
        self.requests = None;
        self.tell();
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.let_go();
        }
    }
}
