//! The test bed of a fix: two namespaces with a wire, or with a bottleneck between them.
//!
//! ```text
//! sender - veth - receiver            backlog, ports, rps
//! sender - veth - [ weir-bottleneck ] - veth - receiver            window, idle
//! ```

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_apps::client::{Demand, Mode, Outcome};
use weir_apps::command;
use weir_apps::server::{Architecture, Closing, Reply, Service};
use weir_bottleneck::Settings;
use weir_flows::{Group, Load};
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::graph::{BOTTLENECK, DIRECT, Graph};
use weir_testbed::journal::Journal;

use super::plan::{Fix, Fixes, LINK, State};
use weir_lab::error::RunError;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{Failed, Process, failed};
use weir_lab::run::wires::{self, INTERVAL, Link};

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
const PORT: u16 = 8080;
/// Beyond its time a client ends within this.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limits that are not to be what a trial measures; a fix is written after them.
const ROOM: [(&str, &str); 3] = [
    ("core/somaxconn", "65535"),
    ("ipv4/tcp_max_syn_backlog", "65535"),
    ("ipv4/ip_local_port_range", "1024 65535"),
];
/// What is sent after each pause.
const BURST: usize = 1_000_000;
/// Longer than a retransmission timeout, after which a connection starts slowly again (RFC 2861).
const PAUSE: Duration = Duration::from_secs(1);

/// What all trials share.
pub(super) struct Bench {
    cpus: CpuPlan,
    folder: Folder,
}

/// A sender and a receiver with the settings of a fix, and a bottleneck between them where that needs one.
fn connected(fix: Fix, state: State) -> Result<Graph, RunError> {
    let graph = Graph::connected(if matches!(fix, Fix::Window | Fix::Idle) { BOTTLENECK } else { DIRECT })?;
    let own = fix.sysctls().iter().map(|(name, values)| (*name, values[state as usize]));
    let all: Vec<(&str, &str)> = ROOM.into_iter().chain(own).collect();
    for (end, address) in [("s0", CLIENT), ("r0", SERVER)] {
        graph.end(end).add_address(address.into(), 24)?;
        graph
            .end(end)
            .namespace
            .run(|| all.iter().try_for_each(|(name, value)| set(&format!("/proc/sys/net/{name}"), value)))?;
    }
    Ok(graph)
}

fn set(path: &str, value: &str) -> Result<(), RunError> {
    fs::write(path, value).map_err(|error| failed(&format!("set {path} in a namespace to {value}"), error))
}

impl Bench {
    pub(super) fn new() -> Result<Bench, RunError> {
        let cpus = weir_apps::sys::cpus();
        let plan = CpuPlan::choose(DutCpus::Count((cpus / 2).max(1)))?;
        let others = (0..cpus).filter(|cpu| !plan.dut.contains(cpu)).collect();
        let plan = CpuPlan { tester: if plan.shared { plan.tester } else { others }, ..plan };
        let folder = Folder::new(&std::env::temp_dir()).map_err(|error| failed("make a folder", error))?;
        Ok(Bench { cpus: plan, folder })
    }

    /// What is found with the setting in this state.
    pub(super) fn trial(
        &self,
        (plan, fix, state): (&Fixes, Fix, State),
        stop: &AtomicBool,
        journal: &mut Journal,
    ) -> Result<f64, Failed> {
        let (graph, length) = (connected(fix, state)?, plan.length(fix));
        match fix {
            Fix::Window => window(&graph, length, stop),
            Fix::Idle => idle(&graph, length),
            Fix::Backlog | Fix::Ports | Fix::Rps => {
                if (fix, state) == (Fix::Rps, State::After) {
                    let all = weir_linux::cpu::cpu_mask(&(0..weir_apps::sys::cpus()).collect::<Vec<_>>());
                    graph.host("receiver").run(|| set("/sys/class/net/r0/queues/rx-0/rps_cpus", &all))?;
                }
                let outcome = self.served(&graph, fix, length, journal)?;
                Ok(match fix {
                    Fix::Backlog => outcome.latency.p999 as f64 / 1e9,
                    _ => outcome.in_window as f64 / outcome.window_s.max(1e-9),
                })
            }
        }
    }

    /// Connections to an event loop.
    fn served(
        &self,
        graph: &Graph,
        fix: Fix,
        length: Duration,
        journal: &mut Journal,
    ) -> Result<Outcome, Failed> {
        let folder = Folder::new(self.folder.path()).map_err(|error| failed("make a folder", error))?;
        let closing = if fix == Fix::Ports { Closing::AfterClient } else { Closing::AfterReply };
        let service = Service {
            architecture: Architecture::Epoll,
            reply: Reply::Busy,
            closing,
            listen: SocketAddrV4::new(SERVER, PORT),
            backlog: 65_535,
            workers: 1,
            reactors: 1,
            counts: None,
        };
        let seconds = length.as_secs_f64();
        let clients = match fix {
            Fix::Backlog => 1000,
            Fix::Ports => 50,
            _ => 200,
        };
        let demand = Demand {
            to: SocketAddrV4::new(SERVER, PORT),
            reply: Reply::Busy,
            mode: Mode::Closed(clients),
            seconds,
            warm_up_s: 0.0,
            threads: u32::try_from(self.cpus.tester.len()).unwrap_or(1),
            sources: 1,
            closing,
        };
        let weir = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let said = |name: &str| folder.path().join(name);
        let mut server = graph.host("receiver").run(|| {
            Process::start(&mut command::server(&weir, &service), &self.cpus.dut, &said("server"), journal)
        })?;
        let ready = server.await_ready(command::READY);
        let outcome = match ready {
            Ok(_) => {
                let client = || self.asked(&weir, &demand, &said("client"), journal);
                graph.host("sender").run(client)
            }
            Err(why) => Err(Failed::Program(why)),
        };
        let ended = server.end(Some(libc::SIGTERM), journal)?;
        ended.map_err(Failed::Program)?;
        outcome
    }

    fn asked(
        &self,
        weir: &Path,
        demand: &Demand,
        said: &Path,
        journal: &mut Journal,
    ) -> Result<Outcome, Failed> {
        let client = Process::start(&mut command::client(weir, demand), &self.cpus.tester, said, journal)?;
        let patience = Duration::from_secs_f64(demand.seconds) + PATIENCE;
        let line = client.await_line(command::DONE, patience, || false);
        let ended = client.end(None, journal)?;
        let line = line.and_then(|line| ended.map(|_| line)).map_err(Failed::Program)?;
        serde_json::from_str(&line).map_err(|error| Failed::Program(error.to_string()))
    }
}

/// A trial that is none.
fn program(error: impl ToString) -> Failed {
    Failed::Program(error.to_string())
}

/// With a bottleneck between both.
fn linked(graph: &Graph, load: impl FnOnce() -> Result<f64, Failed>) -> Result<f64, Failed> {
    let (bits_per_s, one_way_ms) = LINK;
    let mut settings = Settings::default();
    let delay = format!("{one_way_ms}ms");
    let values = [
        ("rate", bits_per_s.to_string()),
        ("back-rate", "none".into()),
        ("delay", delay),
        ("buffer", "1bdp".into()),
    ];
    for (name, value) in values {
        settings.set(name, &value).map_err(wires::failed)?;
    }
    let link = Link::start(graph, settings, None)?;
    let found = load();
    link.end()?;
    found
}

/// Goodput of one connection in the second half of its time, bit/s.
fn window(graph: &Graph, length: Duration, stop: &AtomicBool) -> Result<f64, Failed> {
    linked(graph, || {
        let to = SocketAddr::from((SERVER, weir_flows::PORT));
        let server = graph.host("receiver").run(|| weir_flows::Server::start(to)).map_err(wires::failed)?;
        let load = Load {
            to,
            groups: vec![Group { flows: 1, cc: None, from: None, start: Duration::ZERO }],
            duration: length,
            interval: INTERVAL,
            grace: Duration::from_secs(5),
            reset: true,
            iperf3: false,
            rate: None,
        };
        let mut rates = Vec::new();
        let mut see = |interval: &weir_flows::Interval| rates.push(interval.sum_bits_per_s);
        let ran =
            graph.host("sender").run(|| weir_flows::run(&load, weir_flows::Observe { stop, see: &mut see }));
        drop(server);
        ran.map_err(program)?;
        let late = &rates[rates.len() / 2..];
        Ok(late.iter().sum::<f64>() / late.len().max(1) as f64)
    })
}

/// Seconds for a burst after a pause, the median.
fn idle(graph: &Graph, length: Duration) -> Result<f64, Failed> {
    linked(graph, || {
        graph.host("sender").run(|| set("/proc/sys/net/ipv4/tcp_congestion_control", "reno"))?;
        let listener =
            graph.host("receiver").run(|| TcpListener::bind((SERVER, PORT))).map_err(wires::failed)?;
        let receiver = graph.host("receiver").spawn("receiver", move || receive(&listener))?;
        let sent = graph.host("sender").run(|| bursts(length));
        // Without a connection the receiver waits for one: it ends with the program.
        let times = sent.map_err(program)?;
        receiver.join().map_err(|_| program("the receiver has panicked"))?.map_err(program)?;
        weir_measure::stats::median(&times)
            .ok_or_else(|| program("no burst was sent: use a longer fixes.trial_s"))
    })
}

/// Answers each burst with a byte, until the connection ends.
fn receive(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut burst = vec![0; BURST];
    while stream.read_exact(&mut burst).is_ok() {
        stream.write_all(&[1])?;
    }
    Ok(())
}

/// Bursts with pauses between them; how long each took, without the first, whose connection was new.
fn bursts(length: Duration) -> io::Result<Vec<f64>> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect((SERVER, PORT))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (burst, mut times) = (vec![0; BURST], Vec::new());
    loop {
        let sent = Instant::now();
        stream.write_all(&burst)?;
        stream.read_exact(&mut [0])?;
        times.push(sent.elapsed().as_secs_f64());
        if begin.elapsed() + PAUSE > length && times.len() > 1 {
            return Ok(times.split_off(1));
        }
        std::thread::sleep(PAUSE);
    }
}
