//! The verdicts of weir-inspect for servers of known architecture: with held connections, and with connections that the
//! server closes at once.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, Stdio};

use weir_apps::command;
use weir_apps::server::{Architecture as Built, Closing, Listening, Reply, Service};
use weir_inspect::{Architecture as Seen, Mechanism, Target, decide, find, from_inside};

const PROGRAM: &str = env!("CARGO_BIN_EXE_weir-app");
/// Processes or threads that wait for connections.
const WORKERS: u32 = 8;
/// Event loops.
const REACTORS: u32 = 2;

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(architecture: Built, closing: Closing) -> Server {
        let service = Service {
            architecture,
            reply: Reply::Busy,
            closing,
            listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            backlog: 1024,
            workers: WORKERS,
            reactors: REACTORS,
            counts: None,
        };
        let mut command = command::server(Path::new(PROGRAM), &service);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.strip_prefix(command::READY).unwrap_or_else(|| panic!("{architecture:?}: {line:?}"));
        let listening: Listening = serde_json::from_str(rest).unwrap();
        Server { child, port: listening.port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: no pointers; the child has not been waited for. It ends all of its group.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// What is to be seen of it.
fn expected(built: Built) -> Seen {
    let workers = WORKERS as usize;
    let loops = |by, loops: u32| Seen::EventLoop { by, loops: loops as usize };
    match built {
        Built::Fork | Built::ForkExec => Seen::ProcessPerConnection,
        Built::Prefork => Seen::Prefork { workers },
        Built::Thread => Seen::ThreadPerConnection,
        Built::Pool => Seen::ThreadPool { workers },
        Built::Poll => loops(Mechanism::Poll, 1),
        Built::Epoll => loops(Mechanism::Epoll, 1),
        Built::EpollExclusive | Built::Reuseport => loops(Mechanism::Epoll, REACTORS),
        Built::IoUring => loops(Mechanism::IoUring, 1),
        // One of its threads waits for events, the others for that one.
        Built::Tokio => loops(Mechanism::Epoll, 1),
    }
}

#[test]
fn each_architecture_is_recognized() {
    for closing in [Closing::AfterClient, Closing::AfterReply] {
        std::thread::scope(|scope| {
            for (built, name) in Built::ALL {
                match built.obstacle() {
                    Some(obstacle) => println!("skipped: {name}: {obstacle}"),
                    None => drop(scope.spawn(move || is_recognized(built, name, closing))),
                }
            }
        });
    }
}

fn is_recognized(built: Built, name: &str, closing: Closing) {
    let server = Server::start(built, closing);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let listener = find(&Target::Address(address), None).unwrap().expect("it is here");
    let by_pid = find(&Target::Pid(server.child.id()), None).unwrap().expect("it is here");
    assert_eq!(listener.address, by_pid.address);
    let evidence = from_inside(&listener, 40).unwrap();
    assert_eq!(evidence.instant.is_some(), closing == Closing::AfterReply, "{name}: {evidence:#?}");
    let verdict = decide(&evidence);
    assert_eq!(verdict.architecture, expected(built), "{name}, {closing:?}: {verdict:#?} {evidence:#?}");
}

#[test]
fn what_is_no_server_is_refused_with_a_remedy() {
    let wrong = |target: Target, port| find(&target, port).unwrap_err().to_string();
    assert!(
        wrong(Target::Name("no-such-program".into()), None).contains("there is no process `no-such-program`")
    );
    assert!(wrong(Target::Pid(std::process::id()), Some(1)).contains("listens on no visible TCP port"));
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    assert_eq!(find(&Target::Address(nobody), None).unwrap(), None);
    let refused = weir_inspect::from_outside(nobody, 4).unwrap_err().to_string();
    assert!(refused.starts_with("cannot connect to 127.0.0.1:1: "), "{refused}");
}
