//! Hosts with stacks of their own, and `weir node` between them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use serde_json::Value;
use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_plane::SessionRecord;
use weir_testkit::wires::{End, Wire, address, default_route, join, set_up, without_ipv6};
use weir_testkit::{Folder, PATIENCE, Watch, accept, be_patient, output};

use crate::weir::WEIR;

/// How frames come and go, and how many threads the node has.
pub(crate) const WAYS: [(&str, u32); 4] = [("xdp", 1), ("packet", 1), ("xdp", 2), ("packet", 2)];
/// The node's interfaces.
pub(crate) const NODE: [&str; 2] = ["n0", "n1"];

/// Host left - node - host right, in namespaces of their own: 198.18.0.2 - n0 [ ] n1 - 192.0.2.2.
pub(crate) struct Street {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    pub(crate) node: Namespace,
    pub(crate) folder: Folder,
}

/// An address of a host, and its gateway, the node's.
pub(crate) type At = (&'static str, &'static str);
pub(crate) const LEFT4: At = ("198.18.0.2", "198.18.0.1");
pub(crate) const RIGHT4: At = ("192.0.2.2", "192.0.2.1");

impl Street {
    /// With IPv4 on both sides.
    pub(crate) fn new() -> Street {
        Street::for_threads(1, &[LEFT4], &[RIGHT4])
    }

    /// With these addresses of the hosts, and wires whose ends have a queue for each of so many threads.
    pub(crate) fn for_threads(threads: u32, left: &[At], right: &[At]) -> Street {
        let new = || Namespace::new().unwrap();
        let street = Street { left: new(), right: new(), node: new(), folder: Folder::new() };
        wire((&street.left, "l0"), (&street.node, NODE[0]), Wire { number: 0, queues: threads });
        wire((&street.right, "r0"), (&street.node, NODE[1]), Wire { number: 1, queues: threads });
        settle((&street.left, "l0"), left);
        settle((&street.right, "r0"), right);
        street
    }

    /// Has all ends of the wires put segments together that arrive. Without that, AF_XDP sends frames one by one.
    pub(crate) fn merge(&self) {
        let ends = [(&self.node, NODE[0]), (&self.node, NODE[1]), (&self.left, "l0"), (&self.right, "r0")];
        for (host, name) in ends {
            host.run(|| set_offload(name, Offload::Gro, true).unwrap());
        }
    }

    pub(crate) fn file(&self, text: &str) -> PathBuf {
        self.folder.file("test.node", text)
    }

    /// Runs `weir node ...` in the node's namespace.
    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        self.node.run(|| output(&mut self.command(arguments)).unwrap())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(WEIR);
        command.arg("node").args(arguments).env("WEIR_NODE_SOCKET", self.socket());
        command
    }

    /// Where the node answers.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("node.sock")
    }

    /// A node that answers.
    pub(crate) fn run(&self, text: &str) -> Running<'_> {
        self.run_by(Command::new(WEIR), text)
    }

    /// The same, run by a command that takes its words.
    pub(crate) fn run_by(&self, mut command: Command, text: &str) -> Running<'_> {
        command.args(["node", "run"]).arg(self.file(text)).args(["--json", "--events"]);
        command.arg(self.folder.join("events")).arg("--blocks").arg(self.folder.join("blocks"));
        self.run_command(command)
    }

    /// The same, run by a command that has all its words.
    pub(crate) fn run_command(&self, mut command: Command) -> Running<'_> {
        command.env("WEIR_NODE_SOCKET", self.socket());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut node = Running { street: self, child: Some(self.node.run(|| command.spawn().unwrap())) };
        let deadline = Instant::now() + PATIENCE;
        while !self.weir(&["show"]).status.success() {
            let ended = node.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "the node answers: {ended:?}");
            std::thread::yield_now();
        }
        node
    }

    pub(crate) fn show(&self, what: &str) -> Value {
        let output = self.weir(&["show", what, "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The sessions of an answer, in words.
pub(crate) fn sessions(shown: &Value) -> Vec<String> {
    let all: Vec<SessionRecord> = serde_json::from_value(shown["sessions"].clone()).unwrap();
    all.iter().map(ToString::to_string).collect()
}

/// A wire whose ends are up, without IPv6 until one of them gets such an address.
pub(crate) fn wire(one: End<'_>, other: End<'_>, kind: Wire) {
    join([one, other], kind);
    [one, other].into_iter().for_each(without_ipv6);
    [one, other].into_iter().for_each(|end| set_up(end, true));
}

/// Gives an interface of a host these addresses, and default routes.
pub(crate) fn settle(end: End<'_>, all: &[At]) {
    for (own, gateway) in all {
        address(end, own);
        default_route(end, gateway);
    }
}

/// A node that runs.
pub(crate) struct Running<'a> {
    street: &'a Street,
    pub(crate) child: Option<Child>,
}

impl Running<'_> {
    pub(crate) fn signal(&self, signal: i32) {
        let child = self.child.as_ref().unwrap();
        // SAFETY: the process id of a child that has not been reaped.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn crash(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it as Ctrl-C does; its accounting.
    pub(crate) fn end(self) -> Value {
        self.end_by(libc::SIGINT)
    }

    /// Ends it by a signal; its accounting.
    pub(crate) fn end_by(mut self, signal: i32) -> Value {
        self.signal(signal);
        let child = self.child.take().unwrap();
        let _watch = Watch::new(&child);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let accounting: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(accounting["balance"], true, "{accounting}");
        let threads = accounting["threads"].as_array().cloned().unwrap_or_default();
        let sum = |what: &str| threads.iter().map(|thread| thread[what].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("handed"), sum("taken"), "nothing is between two threads: {accounting}");
        accounting
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let output = child.wait_with_output();
            eprintln!("the node in {}: {output:?}", self.street.folder.display());
        }
    }
}

/// A server at the right, a client at the left: what the client sends comes back.
pub(crate) fn echo_over_tcp(street: &Street, bytes: usize) {
    let listener = street.right.run(|| TcpListener::bind("192.0.2.2:7").unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, from) = accept(&listener);
        let mut all = vec![0; bytes];
        stream.read_exact(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        from
    });
    let mut client = street.left.run(|| TcpStream::connect("192.0.2.2:7").unwrap());
    be_patient(&client);
    let sent: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut writer = client.try_clone().unwrap();
    let (echo, from) = std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&sent).unwrap());
        let mut echo = vec![0; bytes];
        client.read_exact(&mut echo).unwrap();
        (echo, server.join().unwrap())
    });
    assert!(echo == sent, "what was sent comes back");
    eprintln!("the client was seen as {from}");
}
