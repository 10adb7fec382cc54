//! Finding a server and gathering evidence.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant as Moment};

use crate::evidence::{Evidence, Instant, Outside, Step};
use crate::hold::{self, Held};
use crate::sockets::{self, Socket};
use crate::starts::Starts;
use crate::tasks::{Tasks, Wait, pids, socket_inodes};
use crate::verdict::{Verdict, from_greetings};

/// What is to be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process of this machine.
    Pid(u32),
    /// The name of a program that runs on this machine.
    Name(String),
    /// A server that is reached over the network, here or elsewhere.
    Address(SocketAddr),
}

/// A server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Where it is reached.
    pub address: SocketAddr,
    /// A process that holds its listening socket.
    pub pid: u32,
    /// The name of that process.
    pub name: String,
}

/// Why a server cannot be inspected.
#[derive(Debug)]
pub enum InspectError {
    /// No such process, or it listens nowhere.
    NotFound(String),
    /// It listens on several ports.
    Ports(BTreeSet<u16>),
    /// It is in another network namespace.
    Namespace(u32),
    /// It cannot be reached.
    Connect(SocketAddr, io::Error),
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InspectError::NotFound(what) => {
                write!(f, "{what}; `ss -ltnp` lists listening processes; root sees the sockets of all users")
            }
            InspectError::Ports(ports) => {
                let list: Vec<_> = ports.iter().map(u16::to_string).collect();
                write!(f, "it listens on the ports {}: choose one with --port", list.join(", "))
            }
            InspectError::Namespace(pid) => {
                write!(
                    f,
                    "process {pid} is in another network namespace: nsenter -t {pid} -n weir inspect {pid}"
                )
            }
            InspectError::Connect(address, error) => {
                write!(f, "cannot connect to {address}: {error}; is it the address of a TCP server?")
            }
        }
    }
}

impl std::error::Error for InspectError {}

/// Bytes of the kernel's name of a process, at most (TASK_COMM_LEN).
const COMM_BYTES: usize = 15;

/// The process that listens at a target; `None` for an address without a listener on this machine.
///
/// # Errors
/// No such process, or one that listens nowhere or on several ports, of which `port` chooses one.
pub fn find(target: &Target, port: Option<u16>) -> Result<Option<Listener>, InspectError> {
    match target {
        Target::Address(address) => Ok(who_listens(*address)),
        Target::Pid(pid) => of_process(*pid, port).map(Some),
        Target::Name(name) => {
            let named =
                pids().into_iter().filter(|pid| name_of(*pid).is_some_and(|comm| is_called(&comm, name)));
            let mut last = InspectError::NotFound(format!("there is no process `{name}`"));
            for pid in named {
                match of_process(pid, port) {
                    Ok(listener) => return Ok(Some(listener)),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// The listening socket of a process.
fn of_process(pid: u32, port: Option<u16>) -> Result<Listener, InspectError> {
    let name = name_of(pid).ok_or_else(|| InspectError::NotFound(format!("there is no process {pid}")))?;
    let ports = sockets::ports(&sockets::of(pid), &socket_inodes(pid));
    let wanted: BTreeSet<u16> =
        ports.iter().copied().filter(|one| port.is_none_or(|port| port == *one)).collect();
    match (wanted.first(), wanted.len()) {
        (Some(port), 1) => {
            let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
            if namespace(&pid.to_string()) != namespace("self") {
                return Err(InspectError::Namespace(pid));
            }
            // Where it is bound is not asked for: a server is reached at the loopback unless it listens elsewhere only.
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), *port);
            Ok(Listener { address, pid, name })
        }
        (None, _) => {
            Err(InspectError::NotFound(format!("process {pid} ({name}) listens on no visible TCP port")))
        }
        _ => Err(InspectError::Ports(wanted)),
    }
}

/// A process in this network namespace that listens on a port of an address of this machine.
fn who_listens(address: SocketAddr) -> Option<Listener> {
    let mut own = address;
    own.set_port(0);
    let is_here = std::net::UdpSocket::bind(own).is_ok();
    let inodes = sockets::listening(&sockets::of(std::process::id()), address.port());
    if !is_here || inodes.is_empty() {
        return None;
    }
    let holders = pids().into_iter().filter(|pid| !socket_inodes(*pid).is_disjoint(&inodes));
    holders.min().and_then(|pid| Some(Listener { address, pid, name: name_of(pid)? }))
}

/// Whether the kernel's name of a process, which is cut after 15 bytes, is that of this program.
fn is_called(comm: &str, name: &str) -> bool {
    let cut = name.as_bytes().get(..COMM_BYTES).unwrap_or(name.as_bytes());
    comm == name || comm == String::from_utf8_lossy(cut)
}

fn name_of(pid: u32) -> Option<String> {
    Some(weir_disk::kernel_text(format!("/proc/{pid}/comm")).ok()?.trim().to_string())
}

/// Gathers evidence of a server on this machine, with up to so many connections at once (at least 4).
///
/// # Errors
/// It cannot be reached.
pub fn from_inside(listener: &Listener, connections: usize) -> Result<Evidence, InspectError> {
    let probe = Probe { listener };
    let failed = |error| InspectError::Connect(listener.address, error);
    let inodes = || sockets::listening(&sockets::of(listener.pid), listener.address.port());
    let idle = probe.tasks().idle(inodes().len());
    let mut held = Held::none(listener.address);
    let mut steps = Vec::new();
    for part in [1, 2, 4] {
        let count = connections * part / 4;
        held.up_to(count).map_err(failed)?;
        let patience = if part == 4 { AFTER_WORK } else { QUIET };
        let mut step = probe.settled(&mut held, patience);
        if step.held > 0 && step.accepted == 0 {
            held.speak();
            step = probe.settled(&mut held, patience);
        }
        if step.held * 2 < count && part == 1 {
            drop(held);
            let instant = probe.instant(connections);
            return Ok(Evidence { idle, steps: Vec::new(), after: None, instant: Some(instant) });
        }
        steps.push(step);
    }
    drop(held);
    let after = probe.settled(&mut Held::none(listener.address), QUIET);
    Ok(Evidence { idle, steps, after: Some(after), instant: None })
}

/// What a server elsewhere shows, and what follows from it.
///
/// # Errors
/// It cannot be reached.
pub fn from_outside(address: SocketAddr, connections: usize) -> Result<(Outside, Verdict), InspectError> {
    let mut held = Held::none(address);
    held.up_to(connections).map_err(|error| InspectError::Connect(address, error))?;
    let until = Moment::now() + LONGEST;
    let mut calm = Calm::default();
    loop {
        let open = held.look();
        let seen = Outside { held: open + held.closed, greeted: held.greeted(), closed: held.closed };
        if calm.for_so_long((open, seen.greeted)) >= AFTER_WORK || Moment::now() > until {
            return Ok((seen, from_greetings(&seen)));
        }
        thread::sleep(BETWEEN);
    }
}

/// Between two looks at a server, which announces nothing.
const BETWEEN: Duration = Duration::from_millis(50);
/// A server is settled when nothing has changed for so long,
const QUIET: Duration = Duration::from_millis(400);
/// and for so long if connections wait for it in the end: some start their processes one second after another.
const AFTER_WORK: Duration = Duration::from_millis(2500);
/// Until then it is as it will be.
const LONGEST: Duration = Duration::from_secs(20);

/// Connections between two looks at the newest process id.
const BATCH: usize = 25;

struct Probe<'a> {
    listener: &'a Listener,
}

impl Probe<'_> {
    fn tasks(&self) -> Tasks {
        self.tasks_of(&sockets::of(self.listener.pid))
    }

    /// Those that have one of these sockets.
    fn tasks_of(&self, all: &[Socket]) -> Tasks {
        let port = self.listener.address.port();
        Tasks::of(&sockets::listening(all, port), &sockets::connections(all, port))
    }

    /// Looks until the server does not change any more; for `patience` while connections wait for it.
    fn settled(&self, held: &mut Held, patience: Duration) -> Step {
        let until = Moment::now() + LONGEST;
        let mut calm = Calm::default();
        loop {
            let open = held.look();
            let all = sockets::of(self.listener.pid);
            let accepted = sockets::accepted(&all, self.listener.address.port(), &held.ports());
            let tasks = self.tasks_of(&all);
            let step = Step {
                held: open,
                accepted,
                processes: tasks.0.len(),
                threads: tasks.threads(),
                reading: tasks.waiting_in(Wait::Read),
                loops: tasks.loops(),
            };
            let wanted = if accepted < open { patience } else { QUIET };
            if calm.for_so_long((open, accepted, step.processes, step.threads)) >= wanted
                || Moment::now() > until
            {
                return step;
            }
            thread::sleep(BETWEEN);
        }
    }

    /// So many connections, one after another, to a server that closes them.
    fn instant(&self, connections: usize) -> Instant {
        let tasks = self.tasks();
        let (faults, starts) = (tasks.child_faults(), Starts::of(&tasks.thread_ids()));
        let (mut answered, mut least) = (0, f64::INFINITY);
        // What others on this machine start meanwhile only adds to a batch.
        for _ in 0..connections.div_ceil(BATCH) {
            let before = Ids::now();
            let of_batch =
                (0..BATCH).filter(|_| hold::whole(self.listener.address, Duration::from_secs(2))).count();
            let ids = before.until(Ids::now()) as f64;
            answered += of_batch;
            if of_batch > 0 {
                least = least.min(ids / of_batch as f64);
            }
        }
        let faults = self.tasks().child_faults().saturating_sub(faults);
        Instant {
            connections: answered,
            ids_per_connection: if answered > 0 { least } else { 0.0 },
            starts_per_connection: starts.map(|mut starts| starts.count() as f64 / answered.max(1) as f64),
            child_faults_per_connection: faults as f64 / answered.max(1) as f64,
        }
    }
}

/// Since when something has not changed.
struct Calm<T> {
    last: Option<(T, Moment)>,
}

impl<T> Default for Calm<T> {
    fn default() -> Calm<T> {
        Calm { last: None }
    }
}

impl<T: PartialEq + Copy> Calm<T> {
    fn for_so_long(&mut self, now: T) -> Duration {
        match self.last {
            Some((last, since)) if last == now => since.elapsed(),
            _ => {
                self.last = Some((now, Moment::now()));
                Duration::ZERO
            }
        }
    }
}

/// The newest process id of this namespace (proc_loadavg(5)).
struct Ids(u64);

impl Ids {
    fn now() -> Ids {
        let text = weir_disk::kernel_text("/proc/loadavg").unwrap_or_default();
        Ids(text.split_ascii_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or(0))
    }

    /// Ids that were given out; after the largest the kernel begins anew.
    fn until(&self, later: Ids) -> u64 {
        let most = weir_disk::kernel_text("/proc/sys/kernel/pid_max").unwrap_or_default();
        let most = most.trim().parse().unwrap_or(32_768_u64);
        if later.0 >= self.0 { later.0 - self.0 } else { (later.0 + most).saturating_sub(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_cut_within_a_character_are_names() {
        // The 15th byte is the first half of a letter.
        let name = "\u{e4}\u{f6}\u{fc}\u{e4}\u{f6}\u{fc}\u{e4}\u{f6}";
        fs::write("/proc/self/comm", name).unwrap();
        let own = std::process::id();
        let comm = name_of(own).unwrap();
        assert!(comm.starts_with("\u{e4}\u{f6}\u{fc}") && comm.ends_with('\u{fffd}'), "{comm}");
        for (text, expected) in [(name, true), (comm.as_str(), true), ("\u{e4}\u{f6}", false), ("", false)] {
            assert_eq!(is_called(&comm, text), expected, "{text}");
        }
        assert!(is_called("systemd-network", "systemd-networkd") && !is_called("systemd-network", "systemd"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for target in [Target::Pid(own), Target::Name(name.to_string())] {
            let found = find(&target, Some(port)).unwrap().unwrap();
            assert_eq!((found.pid, found.name), (own, comm.clone()), "{target:?}");
        }
        // Its state and its threads are read as well.
        let tasks = Tasks::of(&socket_inodes(own), &BTreeSet::new());
        assert!(tasks.threads() > 0 && tasks.child_faults() < u64::MAX);
    }
}
