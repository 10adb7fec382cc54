//! A node before it runs: its ports are opened with all privileges, its threads share nothing from here on.

use std::sync::Arc;
use std::time::SystemTime;

use weir_packet::frame::Mac;
use weir_plane::{BATCH, NewBlocks, PortBlock, PortId, Time};
use weir_port::bpf::now_ns;
use weir_port::confined::Work;
use weir_port::descriptors::make_room;
use weir_port::duplex::{Choice, PacketOptions, Pool, Port, RedirectWatch, Tap, Xdp};
use weir_port::fast::{Fast, FastPort};

use crate::backend::{Backend, OpenError, Umems, Wanted, own_mac, taps};
use crate::bell::Bell;
use crate::config::{Config, Fast as Wish, Host, HostTap, RightToOpen};
use crate::fast::Table;
use crate::handover::{RING_BYTES, exchanges};
use crate::links::watches;
use crate::node::{ETHERNET, Node, NodeError, choice, rings, thread_error};
use crate::offload;
use crate::running_config::RunningConfig;
use crate::worker::{HitRate, IN_TURN, Machine, PORTS_AT_ONCE, Parts, Recipient, Worker};

/// Chunks beside those that ports have with the kernel.
const SPARE_CHUNKS: u32 = 1024;
/// Ports that may come while the node runs, and have memory of their own.
const PORTS_TO_COME: u32 = 8;
/// Receive queues of AF_XDP ports that may come where the node keeps the right to open them: 8 MiB for each.
const QUEUES_TO_COME: u32 = 2;
/// Chunks of a thread for frames that its plane keeps: for those that wait for a neighbour or a fragment, and at most for
/// those in queues and delays, 1 Gbit/s for 0.8 s.
const KEPT_CHUNKS: u32 = 1024;
const MOST_QUEUED_CHUNKS: u64 = 1 << 16;
/// A frame of full size in a queue.
const QUEUED_BYTES: u64 = 1514;

/// The longest frame of any port.
fn longest(ports: &[weir_plane::Port]) -> usize {
    ETHERNET + ports.iter().map(|port| usize::from(port.mtu)).max().unwrap_or(0)
}

/// How many frames that a plane keeps have chunks of their own.
fn kept_chunks(plane: &weir_plane::Config) -> u32 {
    KEPT_CHUNKS + (plane.queued_bytes() / QUEUED_BYTES).min(MOST_QUEUED_CHUNKS) as u32
}

/// Memory for each thread.
fn pools(threads: usize, chunks: u32, longest: usize) -> Result<Vec<Pool>, NodeError> {
    let pool = |_| Pool::new(chunks, longest).map_err(thread_error("memory for frames"));
    (0..threads).map(pool).collect()
}

fn umems(pools: &[Pool], for_xdp: bool) -> Umems {
    Umems { of_threads: pools.iter().map(|pool| pool.umem().clone()).collect(), for_xdp }
}

/// The maps of a fast path, if the node is to have one, or why it has none although it could be.
fn fast(config: &Config) -> Result<(Option<Arc<Fast>>, Option<String>), NodeError> {
    match (config.settings.fast, config.may_be_fast()) {
        (Wish::Off, _) | (Wish::Auto, Err(_)) => Ok((None, None)),
        (Wish::On, Err(why)) => Err(NodeError::Update(why)),
        (wanted, Ok(())) => match (Fast::new(config.settings.fast_entries), wanted) {
            (Ok(fast), _) => Ok((Some(Arc::new(fast)), None)),
            (Err(why), Wish::Auto) => Ok((None, Some(format!("there is no fast path: {why}")))),
            (Err(why), _) => Err(NodeError::Fast(why)),
        },
    }
}

/// The machine as each thread sees it: TAP devices where the text says so, with address and MTU of their port.
fn machines(config: &Config, macs: &[Mac]) -> Result<Vec<Machine>, NodeError> {
    let ports = &config.plane.ports;
    let by_default = match config.settings.host {
        Host::Kernel => Recipient::Kernel,
        Host::Tap(_) | Host::None => Recipient::None,
    };
    let threads = config.settings.threads.len();
    let mut machines: Vec<Machine> = (0..threads).map(|_| Machine::at(ports, by_default)).collect();
    for HostTap { name, port, takes } in config.host_taps() {
        let failed = |source: OpenError| NodeError::Open { port: name.to_string(), source };
        let tap = Tap::open(name, Some(macs[port])).map_err(|wrong| failed(wrong.into()))?;
        tap.set_mtu(ports[port].mtu).map_err(|wrong| failed(wrong.into()))?;
        for (machine, tap) in machines.iter_mut().zip(taps(tap, threads).map_err(failed)?) {
            machine.add_tap(Box::new(tap), PortId(port as u16), &takes);
        }
    }
    Ok(machines)
}

/// A node that does not run yet, with open ports: the place to drop privileges.
pub struct Opened {
    workers: Vec<Worker>,
    bells: Vec<Arc<Bell>>,
    watches: Vec<RedirectWatch>,
    began: SystemTime,
    running: RunningConfig,
    methods: Vec<String>,
    obstacles: Vec<String>,
    start_ns: u64,
    is_fast: bool,
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
        let threads = config.settings.threads.len();
        let mut chunks = SPARE_CHUNKS + PORTS_TO_COME * 2 * BATCH as u32 + kept_chunks(&config.plane);
        let mut macs = Vec::new();
        for (n, backend) in config.backends.iter().enumerate() {
            chunks += backend.chunks(threads).map_err(named(n))?;
            if n < PORTS_AT_ONCE {
                chunks += 2 * BATCH as u32;
            }
            if n < PORTS_AT_ONCE && threads > 1 {
                // As many come by other threads as by the port.
                chunks += (IN_TURN * BATCH) as u32;
            }
            macs.push(ports[n].mac.map_or_else(|| backend.mac(n), Ok).map_err(named(n))?);
        }
        let for_xdp = config.backends.iter().any(|backend| matches!(backend, Backend::Xdp(_)));
        let keeps_right = config.settings.right_to_open == RightToOpen::Kept;
        let queues_to_come = if for_xdp && keeps_right { QUEUES_TO_COME } else { 0 };
        chunks += queues_to_come * Xdp::CHUNKS_OF_QUEUE;
        let descriptors: u64 = config.backends.iter().map(Backend::descriptors).sum();
        make_room(descriptors * threads as u64).map_err(thread_error("opening so many ports"))?;
        let (fast, no_fast) = fast(config)?;
        let mut pools = pools(threads, chunks, longest(ports))?;
        let longest = pools.iter().map(Pool::longest).min().unwrap_or_default();
        pools.iter().for_each(|pool| pool.umem().add_queues(queues_to_come));
        let all: Vec<Option<Backend>> = config.backends.iter().cloned().map(Some).collect();
        let mut open: Vec<Vec<Box<dyn Port>>> = pools.iter().map(|_| Vec::new()).collect();
        for (n, backend) in config.backends.iter().enumerate() {
            let router = config.plane.routes.is_some().then(|| macs[n]);
            let fast = fast.as_ref().map(|fast| FastPort { fast: fast.clone(), number: n as u8, router });
            let Choice { mode, tags } = choice(&config.plane, &all, n);
            let packet = PacketOptions { longest, mode, tags, rings: rings(&all) * threads };
            let wanted = Wanted { packet, spread: config.plane.spread(n), fast };
            let parts = backend.open(&mut pools, wanted).map_err(named(n))?.into_iter();
            open.iter_mut().zip(parts).for_each(|(thread, part)| thread.push(part));
        }
        let machines = machines(config, &macs)?;
        let running = RunningConfig::new(config, &macs, longest, umems(&pools, for_xdp));
        let mut opened = Opened::of(running, open, pools, machines)?;
        opened.obstacles.extend(no_fast);
        opened.obstacles.extend(offload::obstacles(config));
        opened.obstacles.extend(offload::short_interfaces(config));
        if let Some(fast) = fast {
            opened.be_fast(fast);
        }
        Ok(opened)
    }

    /// Has programs pass frames on.
    fn be_fast(&mut self, fast: Arc<Fast>) {
        (self.is_fast, self.running.is_fast) = (true, true);
        let [worker] = &mut self.workers[..] else { unreachable!("a fast path is one thread's") };
        let hit_rate = (self.running.settings.fast == Wish::Auto).then(HitRate::default);
        if !worker.be_fast(Table::new(fast, self.start_ns, self.running.backends.len()), hit_rate) {
            let text = "not all ports take frames that XDP programs redirect: the fast path waits until they do (a veth does where \
                        its other end has GRO or a native XDP program, a network card where its driver has it)";
            self.obstacles.push(text.into());
        }
    }

    /// A node between ports that are open: for each thread its part of each port.
    ///
    /// # Errors
    /// No memory, or no descriptors.
    pub fn between(config: &Config, ports: Vec<Vec<Box<dyn Port>>>) -> Result<Opened, NodeError> {
        let mac = |n: usize| config.plane.ports[n].mac.unwrap_or_else(|| own_mac(n));
        let macs: Vec<_> = (0..config.plane.ports.len()).map(mac).collect();
        let chunks = SPARE_CHUNKS + kept_chunks(&config.plane);
        let pools = pools(ports.len(), chunks, longest(&config.plane.ports))?;
        let longest = pools.iter().map(Pool::longest).min().unwrap_or_default();
        let machines = pools.iter().map(|_| Machine::at(&config.plane.ports, Recipient::None)).collect();
        let running = RunningConfig::new(config, &macs, longest, umems(&pools, false));
        Opened::of(running, ports, pools, machines)
    }

    fn of(
        running: RunningConfig,
        mut ports: Vec<Vec<Box<dyn Port>>>,
        pools: Vec<Pool>,
        machines: Vec<Machine>,
    ) -> Result<Opened, NodeError> {
        assert_eq!(ports.len(), running.settings.threads.len(), "each thread has its part of the ports");
        let methods = ports[0].iter().map(|port| port.method()).collect();
        let obstacles = ports[0].iter().filter_map(|port| port.obstacle()).collect();
        let watches = watches(&mut ports);
        let (wait, start_ns) = (running.settings.wait, now_ns());
        let exchanges = exchanges(ports.len(), RING_BYTES).map_err(thread_error("making a socket"))?;
        let bells = exchanges.iter().map(|exchange| exchange.bell()).collect();
        let most_chunks = kept_chunks(&running.config) as usize;
        let all = running.planes().into_iter().zip(ports).zip(pools).zip(machines).zip(exchanges);
        let worker = |((((plane, ports), pool), machine), exchange)| {
            Worker::new(Parts { plane, ports, pool, most_chunks, machine, exchange, wait, start_ns })
        };
        let workers = all.map(worker).collect();
        let began = SystemTime::now();
        Ok(Opened { workers, bells, watches, began, running, methods, obstacles, start_ns, is_fast: false })
    }

    /// How frames come and go, by port.
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    /// What is in the way of frames, and what to do about it.
    pub fn obstacles(&self) -> &[String] {
        &self.obstacles
    }

    /// Gives hosts back the blocks of ports that they had before the node ended. Returns those that were given.
    pub fn restore(&mut self, kept: &[PortBlock]) -> Vec<PortBlock> {
        let of_thread = |worker: &mut Worker| worker.plane.restore(Time::default(), kept);
        self.workers.iter_mut().flat_map(of_thread).collect()
    }

    /// Whether hosts are given further port blocks from now on, see [`weir_plane::Plane::set_new_blocks`].
    pub fn set_new_blocks(&mut self, new_blocks: NewBlocks) {
        self.workers.iter_mut().for_each(|worker| worker.plane.set_new_blocks(new_blocks));
    }

    /// Capabilities that it needs while it runs, as bits of capabilities(7): to give frames of AF_XDP to the machine, and to open ports
    /// that come.
    pub fn needs(&self) -> u64 {
        const CAP_NET_ADMIN: u64 = 1 << 12;
        const CAP_NET_RAW: u64 = 1 << 13;
        const CAP_BPF: u64 = 1 << 39;
        // Entries of a fast path come and go while it runs.
        let bpf = if self.is_fast || self.leaves_frames_of_xdp() { CAP_BPF } else { 0 };
        let open = match self.running.settings.right_to_open {
            RightToOpen::Kept if self.is_by_xdp() => CAP_NET_RAW | CAP_NET_ADMIN | CAP_BPF,
            RightToOpen::Kept => CAP_NET_RAW,
            RightToOpen::Dropped => 0,
        };
        bpf | open
    }

    /// Whether the stack of this machine gets frames that came in by AF_XDP.
    fn leaves_frames_of_xdp(&self) -> bool {
        let ports = &self.running.config.ports;
        let is_of_kernel = |(port, backend): (&weir_plane::Port, &Option<Backend>)| {
            port.tap.is_none() && matches!(backend, Some(Backend::Xdp(_)))
        };
        self.running.settings.host == Host::Kernel
            && ports.iter().zip(&self.running.backends).any(is_of_kernel)
    }

    fn is_by_xdp(&self) -> bool {
        self.running.backends.iter().any(|backend| matches!(backend, Some(Backend::Xdp(_))))
    }

    /// Starts its threads, in the namespaces of the calling one. The kernel refuses them whatever their work does not take, see
    /// [`weir_port::confined`].
    ///
    /// # Errors
    /// There is no such CPU, or no thread.
    pub fn start(self) -> Result<Node, NodeError> {
        let work = if self.is_fast || self.is_by_xdp() { Work::ForwardByPrograms } else { Work::Forward };
        let Opened { workers, bells, watches, began, running, .. } = self;
        let node = Node::start(running, began, work, workers.into_iter().zip(bells))?;
        node.links.lock().expect("no thread panics with it").add(watches);
        Ok(node)
    }
}
