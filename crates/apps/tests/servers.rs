//! Each architecture as a process, with the client: every connection is answered and accounted for.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::de::DeserializeOwned;
use weir_apps::client::{Demand, Mode, Outcome};
use weir_apps::server::{Architecture, Closing, Listening, Reply, Service};
use weir_apps::sys::{self, Usage, process_time_ns};
use weir_apps::{Counts, command};
use weir_testkit::Folder;

const PROGRAM: &str = env!("CARGO_BIN_EXE_weir-app");
/// What a server counts, in its folder.
const COUNTS: &str = "counts";

/// A process whose lines are read; it ends with the test.
struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Running { child, said }
    }

    /// Waits for a line that begins so; what follows.
    fn await_line<T: DeserializeOwned>(&mut self, word: &str) -> T {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        let rest = line.strip_prefix(word).unwrap_or_else(|| panic!("{word} expected: {line:?}"));
        serde_json::from_str(rest).unwrap()
    }

    fn signal(&self, signal: i32) {
        sys::signal(&self.child, signal);
    }

    fn end(self) -> Usage {
        self.signal(libc::SIGTERM);
        let ended = sys::wait_for(&self.child, Duration::from_secs(60)).unwrap();
        let (_, usage) = ended.expect("it ends when it is asked to");
        // There is nothing left that dropping could kill.
        std::mem::forget(self);
        usage
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Server {
    process: Running,
    listening: Listening,
    folder: Folder,
}

fn service(architecture: Architecture, reply: Reply, closing: Closing) -> Service {
    Service {
        architecture,
        reply,
        closing,
        listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
        backlog: 128,
        workers: 4,
        reactors: 2,
        counts: None,
    }
}

impl Server {
    fn start(service: &Service) -> Server {
        let folder = Folder::new();
        let service = Service { counts: Some(folder.join(COUNTS)), ..service.clone() };
        let mut process = Running::start(command::server(Path::new(PROGRAM), &service));
        let listening = process.await_line(command::READY);
        Server { process, listening, folder }
    }

    /// Ends it; what it has counted and used.
    fn end(self) -> (Counts, Usage) {
        (Counts::read(&self.folder.join(COUNTS)).unwrap(), self.process.end())
    }
}

fn client(port: u16, reply: Reply, mode: Mode) -> Running {
    Running::start(command::client(Path::new(PROGRAM), &demand(port, reply, mode)))
}

fn demand(port: u16, reply: Reply, mode: Mode) -> Demand {
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let closing = Closing::AfterReply;
    Demand { to, reply, mode, seconds: 0.2, warm_up_s: 0.0, threads: 1, sources: 2, closing }
}

/// Those that this kernel lets run.
fn architectures() -> impl Iterator<Item = Architecture> {
    Architecture::ALL.into_iter().map(|(architecture, _)| architecture).filter(|architecture| {
        let obstacle = architecture.obstacle();
        obstacle.inspect(|why| println!("skipped: {}: {why}", architecture.name())).is_none()
    })
}

#[test]
fn each_architecture_answers_every_connection() {
    for architecture in architectures() {
        for (reply, name) in Reply::ALL {
            let server = Server::start(&service(architecture, reply, Closing::AfterReply));
            let outcome: Outcome =
                client(server.listening.port, reply, Mode::Closed(8)).await_line(command::DONE);
            let context = format!("{} {name}: {outcome:?}", architecture.name());
            assert!(outcome.failed.is_empty(), "{context}");
            assert!(outcome.answered > 0 && outcome.answered == outcome.begun, "{context}");
            assert!(outcome.in_flight_max <= 8 && outcome.in_flight_mean <= 8.0, "{context}");
            let (counts, usage) = server.end();
            assert_eq!(counts.accepted(), outcome.begun, "{context}");
            assert!(usage.cpu_ns > 0, "{context}");
        }
    }
}

#[test]
fn connections_are_held_until_the_client_ends() {
    for architecture in architectures() {
        // As many as there are workers that can each hold one.
        let server = Server::start(&service(architecture, Reply::Busy, Closing::AfterClient));
        let mut client = client(server.listening.port, Reply::Busy, Mode::Hold(4));
        let held: u64 = client.await_line(command::HOLDING);
        assert_eq!(held, 4, "{}", architecture.name());
        let counts = Counts::read(&server.folder.join(COUNTS)).unwrap();
        assert_eq!((counts.accepted(), counts.open()), (4, 4), "{}", architecture.name());
        assert!(process_time_ns(server.process.child.id()).unwrap() > 0);
        client.signal(libc::SIGINT);
        let outcome: Outcome = client.await_line(command::DONE);
        assert_eq!((outcome.held, outcome.failed.len()), (4, 0), "{}: {outcome:?}", architecture.name());
        server.end();
    }
}

#[test]
fn an_open_loop_begins_every_connection_of_its_schedule() {
    let server = Server::start(&service(Architecture::Epoll, Reply::Echo, Closing::AfterReply));
    let outcome: Outcome =
        client(server.listening.port, Reply::Echo, Mode::Open(500.0)).await_line(command::DONE);
    assert_eq!((outcome.begun, outcome.answered), (100, 100), "{outcome:?}");
    let (latency, from_start, late) = (outcome.latency, outcome.from_start.unwrap(), outcome.late.unwrap());
    assert_eq!((latency.count, from_start.count, late.count), (100, 100, 100));
    assert!(latency.max >= from_start.max && latency.max >= late.max, "{outcome:?}");
    server.end();
}

#[test]
fn the_backlog_that_the_kernel_gives_is_told() {
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let most: u32 = somaxconn.trim().parse().unwrap();
    for (backlog, given) in [(7, 7.min(most)), (1 << 30, most)] {
        let order = service(Architecture::Reuseport, Reply::Busy, Closing::AfterReply);
        let server = Server::start(&Service { backlog, ..order });
        assert_eq!((server.listening.backlog, server.listening.sockets), (given, 2));
        server.end();
    }
}

#[test]
fn what_cannot_be_reached_is_counted_by_its_cause() {
    // A port below those that the kernel hands out, on which nothing listens here.
    let port = 1;
    let outcome: Outcome = client(port, Reply::Busy, Mode::Open(50.0)).await_line(command::DONE);
    assert_eq!((outcome.begun, outcome.answered), (10, 0), "{outcome:?}");
    assert_eq!(outcome.failed.into_iter().collect::<Vec<_>>(), [("refused".to_string(), 10)]);
}

#[test]
fn a_server_whose_address_is_taken_says_so() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut order = service(Architecture::Poll, Reply::Busy, Closing::AfterClient);
    order.listen.set_port(taken.local_addr().unwrap().port());
    let output = command::server(Path::new(PROGRAM), &order).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Address already in use"), "{said}");
}

#[test]
fn a_client_that_closes_first_counts_every_reply() {
    let closing = Closing::AfterClient;
    for reply in [Reply::Busy, Reply::Echo] {
        let server = Server::start(&service(Architecture::Epoll, reply, closing));
        let demand = Demand { closing, ..demand(server.listening.port, reply, Mode::Closed(8)) };
        let outcome: Outcome =
            Running::start(command::client(Path::new(PROGRAM), &demand)).await_line(command::DONE);
        assert!(outcome.answered > 0 && outcome.answered == outcome.begun, "{outcome:?}");
        assert_eq!((outcome.failed.len(), server.end().0.accepted()), (0, outcome.begun));
    }
}
