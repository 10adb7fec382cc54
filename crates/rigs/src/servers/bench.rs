//! The test bed of a trial: a namespace with a server on some CPUs and a client on others.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_apps::client::{Demand, Mode, Outcome};
use weir_apps::server::{Architecture, BODY, Closing, Listening, Service};
use weir_apps::{Counts, command};
use weir_linux::Error;
use weir_linux::namespace::Namespace;
use weir_load::Control;
use weir_testbed::cpu::{CpuPlan, DutCpus};
use weir_testbed::journal::Journal;

use super::measured::Served;
use super::plan::{Servers, Who, Work};
use super::{counters, peer};
use weir_lab::error::RunError;
use weir_lab::run::folder::Folder;
use weir_lab::run::process::{Ended, Failed, LOOK, Process, failed};
use weir_lab::run::tree;

/// Where servers listen. Clients come from other addresses, whose ports may be the same.
const PORT: u16 = 8080;
/// Beyond what it was asked, a client ends within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Limits of the namespace: none of them is to be what a trial measures.
const SYSCTLS: [(&str, &str); 3] = [
    ("net/core/somaxconn", "65535"),
    ("net/ipv4/tcp_max_syn_backlog", "65535"),
    ("net/ipv4/ip_local_port_range", "1024 65000"),
];

/// What all trials share.
pub(super) struct Bench {
    pub(super) cpus: CpuPlan,
    folder: Folder,
}

/// A server that accepts connections.
struct Started {
    child: Process,
    listening: Listening,
    counts: Option<std::path::PathBuf>,
}

/// What was seen while the client worked.
#[derive(Default)]
struct Looks {
    count: u64,
    open_sum: u64,
    open_max: u64,
    waiting_max: u64,
}

impl Looks {
    fn look(&mut self, server: &Started) {
        let counts = server.counts.as_deref().and_then(|path| Counts::read(path).ok());
        let open = counts.map_or(0, |counts| counts.open());
        self.count += 1;
        self.open_sum += open;
        self.open_max = self.open_max.max(open);
        self.waiting_max = self.waiting_max.max(counters::waiting(server.child.pid()));
    }
}

impl Bench {
    pub(super) fn new() -> Result<Bench, RunError> {
        let cpus = weir_apps::sys::cpus();
        // The client has half of them, as it costs about as much as a fast server.
        let plan = CpuPlan::choose(DutCpus::Count((cpus / 2).max(1)))?;
        let others = (0..cpus).filter(|cpu| !plan.dut.contains(cpu)).collect();
        let plan = CpuPlan { tester: if plan.shared { plan.tester } else { others }, ..plan };
        let within = std::env::temp_dir();
        let what = format!("create a folder in {}; choose another one with TMPDIR", within.display());
        let folder = Folder::new(&within).map_err(Error::os(what))?;
        Ok(Bench { cpus: plan, folder })
    }

    /// Serves and asks once.
    pub(super) fn trial(
        &self,
        (plan, work): (&Servers, &Work),
        control: &Control,
        journal: &mut Journal,
    ) -> Result<Served, Failed> {
        let namespace = Namespace::new()?;
        let folder = Folder::new(self.folder.path()).map_err(|error| failed("make a folder", error))?;
        namespace.run(|| {
            set_limits()?;
            let server = self.server(plan, work, folder.path(), journal)?;
            match self.load((plan, work), &server, (folder.path(), control), journal) {
                Ok(served) => {
                    let served_by = server.child.usage();
                    let ended = server.child.end(Some(libc::SIGTERM), journal)?;
                    let Ended { usage, .. } = ended.map_err(Failed::Program)?;
                    // A server with a fixed set of processes and threads: starting and ending them is no part of a connection's
                    // cost.
                    let usage = if starts_tasks(work.who) { usage } else { served_by };
                    Ok(Served { server_cpu_ns: usage.cpu_ns, server_switches: usage.switches, ..served })
                }
                Err(Failed::Program(why)) => {
                    let server = server.child.end(Some(libc::SIGTERM), journal)?;
                    let why = server
                        .err()
                        .map_or(why.clone(), |server| format!("the server: {server}; the client: {why}"));
                    Err(Failed::Program(why))
                }
                Err(error) => Err(error),
            }
        })
    }

    fn server(
        &self,
        plan: &Servers,
        work: &Work,
        folder: &Path,
        journal: &mut Journal,
    ) -> Result<Started, Failed> {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
        let said = folder.join("server");
        let start = |mut command: Command, journal: &mut Journal| {
            Process::start(&mut command, &self.cpus.dut, &said, journal)
        };
        let (ready, child) = match work.who {
            Who::Weir(architecture) => {
                let closing = match work.mode {
                    Mode::Hold(_) => Closing::AfterClient,
                    _ => Closing::AfterReply,
                };
                let Servers { backlog, workers, reactors, .. } = *plan;
                let (reply, counts) = (work.reply, Some(folder.join("counts")));
                let service =
                    Service { architecture, reply, closing, listen: at, backlog, workers, reactors, counts };
                let mut child = start(command::server(&this_program()?, &service), journal)?;
                (child.await_ready(command::READY), child)
            }
            Who::Peer(peer) => {
                let descriptors = weir_apps::sys::raise_descriptor_limit();
                let loops = self.cpus.dut.len();
                let order = peer::Order { at, backlog: plan.backlog, loops, descriptors, folder };
                let command = peer::server(peer, &order);
                let mut child =
                    start(command.map_err(|error| failed("configure a server", error))?, journal)?;
                (await_reply(&mut child, at), child)
            }
        };
        match ready {
            Ok(line) => {
                let listening = serde_json::from_str(&line);
                let unknown = Listening { port: PORT, backlog: 0, sockets: 0 };
                let counts = matches!(work.who, Who::Weir(_)).then(|| folder.join("counts"));
                Ok(Started { child, listening: listening.unwrap_or(unknown), counts })
            }
            Err(why) => {
                child.signal(libc::SIGTERM);
                let _ = child.end(None, journal)?;
                Err(Failed::Program(why))
            }
        }
    }

    fn load(
        &self,
        (plan, work): (&Servers, &Work),
        server: &Started,
        (folder, control): (&Path, &Control),
        journal: &mut Journal,
    ) -> Result<Served, Failed> {
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.listening.port);
        let seconds = plan.seconds(work.mode).as_secs_f64();
        let threads = self.cpus.tester.len();
        let mut command = match work.client {
            Some(client) => peer::client(client, (to, work.mode), seconds),
            None => {
                let (reply, mode, sources) = (work.reply, work.mode, plan.sources);
                let warm_up_s = if matches!(mode, Mode::Hold(_)) { 0.0 } else { seconds / 5.0 };
                let threads = threads as u32;
                let closing = Closing::AfterReply;
                let demand = Demand { to, reply, mode, seconds, warm_up_s, threads, sources, closing };
                command::client(&this_program()?, &demand)
            }
        };
        let idle = tree::memory(server.child.pid());
        let client = Process::start(&mut command, &self.cpus.tester, &folder.join("client"), journal)?;
        let (mut looks, mut held) = (Looks::default(), None);
        let patience = Duration::from_secs_f64(seconds) + PATIENCE;
        if let Mode::Hold(_) = work.mode {
            let holding = client.await_line(command::HOLDING, patience, || {
                looks.look(server);
                control.stopped()
            });
            if let Err(why) = holding {
                client.signal(libc::SIGKILL);
                let _ = client.end(None, journal)?;
                return Err(Failed::Program(why));
            }
            looks.look(server);
            let now = tree::memory(server.child.pid());
            held = Some((now.kib.saturating_sub(idle.kib), now.tasks.saturating_sub(idle.tasks)));
            client.signal(libc::SIGINT);
        }
        let deadline = Instant::now() + patience;
        while !client.has_ended() && !control.stopped() && Instant::now() < deadline {
            looks.look(server);
            std::thread::sleep(LOOK);
        }
        let counts = server.counts.as_deref().and_then(|path| Counts::read(path).ok());
        let counters = counters::read(server.child.pid());
        if !client.has_ended() {
            client.signal(libc::SIGKILL);
        }
        let ended = client.end(None, journal)?.map_err(Failed::Program)?;
        let outcome = self.outcome(work, &ended)?;
        Ok(Served {
            mode: work.mode,
            client_cpu_ns: if work.client.is_some() { ended.usage.cpu_ns } else { outcome.cpu_ns },
            outcome,
            server_cpu_ns: 0,
            server_switches: 0,
            server_cpus: self.cpus.dut.len(),
            client_cpus: threads,
            backlog: server.listening.backlog,
            sockets: server.listening.sockets,
            open: server
                .counts
                .as_ref()
                .map(|_| (looks.open_sum as f64 / looks.count.max(1) as f64, looks.open_max)),
            waiting_max: looks.waiting_max,
            shares: counts.iter().flat_map(|counts| counts.0.iter().map(|(accepted, _)| *accepted)).collect(),
            gini: counts.as_ref().and_then(Counts::gini),
            held_kib: held.map(|(kib, _)| kib),
            held_tasks: held.map(|(_, tasks)| tasks),
            counters,
        })
    }

    fn outcome(&self, work: &Work, ended: &Ended) -> Result<Outcome, Failed> {
        if let Some(client) = work.client {
            return peer::outcome(client, &ended.said).map_err(Failed::Program);
        }
        let line = ended.said.lines().find_map(|line| line.strip_prefix(command::DONE));
        let outcome = line.and_then(|line| serde_json::from_str(line).ok());
        outcome.ok_or_else(|| {
            let said = ended.said.lines().last().unwrap_or("it printed nothing");
            Failed::Program(format!("the client gave no result: {said}"))
        })
    }
}

/// Has it a process or thread for each connection? What those used that have ended only the end of the server tells.
fn starts_tasks(who: Who) -> bool {
    use Architecture::{Fork, ForkExec, Thread};
    matches!(who, Who::Weir(Fork | ForkExec | Thread))
}

fn this_program() -> Result<std::path::PathBuf, RunError> {
    std::env::current_exe().map_err(|error| failed("find this program", error))
}

fn set_limits() -> Result<(), RunError> {
    SYSCTLS.iter().try_for_each(|(name, value)| {
        let path = Path::new("/proc/sys").join(name);
        std::fs::write(&path, value).map_err(|error| failed(&format!("set {name} in the namespace"), error))
    })
}

/// Waits until there is a reply: a listening socket may not have a server yet.
fn await_reply(child: &mut Process, at: SocketAddrV4) -> Result<String, String> {
    let deadline = Instant::now() + PATIENCE;
    while !has_reply(at).unwrap_or(false) {
        if child.has_ended() || Instant::now() > deadline {
            return Err(child.last_words());
        }
        std::thread::sleep(LOOK);
    }
    child.is_ready();
    Ok(String::new())
}

fn has_reply(at: SocketAddrV4) -> io::Result<bool> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply.ends_with(BODY))
}
