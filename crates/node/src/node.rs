//! A node from outside: opened with all privileges, started, asked, changed, ended.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use weir_packet::frame::Mac;
use weir_plane::{BATCH, Plane};
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
    config: weir_plane::Config,
    macs: Vec<Mac>,
}

impl Blueprint {
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
    kind: Blueprint,
    cpu: Option<usize>,
    methods: Vec<String>,
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
                Machine::Tap(Box::new(Tap::open(name).map_err(failed)?))
            }
        };
        Ok(Opened::of(Blueprint { config: config.plane.clone(), macs }, open, pool, host, &config.settings))
    }

    /// A node between ports that are open.
    pub fn between(config: &Config, ports: Vec<Box<dyn Port>>) -> Result<Opened, NodeError> {
        let mac = |n: usize| config.plane.ports[n].mac.unwrap_or([2, 0, 0, 0, 0x77, n as u8]);
        let macs: Vec<_> = (0..ports.len()).map(mac).collect();
        let longest =
            ETHERNET + config.plane.ports.iter().map(|port| usize::from(port.mtu)).max().unwrap_or(0);
        let pool = Pool::new(SPARE_CHUNKS, longest).map_err(thread_error("memory for frames"))?;
        let kind = Blueprint { config: config.plane.clone(), macs };
        Ok(Opened::of(kind, ports, pool, Machine::Nobody, &config.settings))
    }

    fn of(
        kind: Blueprint,
        ports: Vec<Box<dyn Port>>,
        pool: Pool,
        host: Machine,
        settings: &Settings,
    ) -> Opened {
        let methods = ports.iter().map(|port| port.method()).collect();
        let worker = Worker::new(kind.plane(), ports, pool, host, settings.wait);
        Opened { worker, kind, cpu: settings.cpu, methods }
    }

    /// How frames come and go, by port.
    pub fn methods(&self) -> &[String] {
        &self.methods
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
        let Opened { mut worker, kind, cpu, .. } = self;
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
        Ok(Node { kind, requests: Some(requests), asked, wake, shown, thread: Some(thread), number })
    }
}

/// A node that runs. Dropping it ends it.
pub struct Node {
    kind: Blueprint,
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

    /// Begins anew with its plane: sessions, neighbours and counters are gone.
    ///
    /// # Errors
    /// It has ended.
    pub fn forget(&self) -> Result<(), NodeError> {
        let kind = self.kind.clone();
        self.ask(move |worker| worker.plane = kind.plane())
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
