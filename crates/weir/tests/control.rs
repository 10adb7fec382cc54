//! The socket of a node as other programs use it: docs/control.md.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use weir_control::client::{Client, Notice};
use weir_control::request::{Hello, Request, Topic};
use weir_testkit::{PATIENCE, need_root, output, schema};

use crate::street::Street;
use crate::weir::WEIR;

const NAT: &str = "node lan(198.18.0.1/24, on n0) > nat(public 192.0.2.1, log sessions) > route > wan(192.0.2.1/24, on n1) run(io packet)\n";

/// A client of the node of a street, line by line, after the greetings.
pub(crate) struct Talk {
    lines: BufReader<UnixStream>,
}

impl Talk {
    pub(crate) fn new(street: &Street) -> Talk {
        let stream = UnixStream::connect(street.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut talk = Talk { lines: BufReader::new(stream) };
        talk.say("{\"protocol\": 1}\n");
        assert_eq!(talk.line()["protocol"], 1);
        talk
    }

    pub(crate) fn say(&mut self, words: &str) {
        self.lines.get_mut().write_all(words.as_bytes()).unwrap();
    }

    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

/// A file of the repository.
fn text_of(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The lines of JSON in the blocks of the page.
fn lines_of_page() -> Vec<Value> {
    let page = text_of("docs/control.md");
    // Commands stand alone on the page, and go as a list.
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|line| serde_json::from_str(line).unwrap());
    let is_line = |line: &Value| LINES.iter().any(|key| line.get(key).is_some());
    let (mut lines, commands): (Vec<Value>, Vec<Value>) = lines.partition(is_line);
    lines.push(json!({ "id": 99, "commands": commands }));
    lines
}

/// Keys of lines.
const LINES: [&str; 4] = ["id", "protocol", "error", "subscription"];

/// Whether a program sends this line; the node sends all others.
fn is_of_program(line: &Value) -> bool {
    ["query", "apply", "commands", "control", "subscribe", "unsubscribe"]
        .iter()
        .any(|key| line.get(key).is_some())
        || line.get("protocol").is_some() && line.get("weir").is_none()
}

#[test]
fn each_line_of_the_page_fits_the_schema_and_the_program() {
    let schema = serde_json::from_str(&text_of("docs/schemas/control.schema.json")).unwrap();
    let (programs, nodes): (Vec<Value>, Vec<Value>) = lines_of_page().into_iter().partition(is_of_program);
    assert!(programs.len() >= 6 && nodes.len() >= 6, "{programs:?} {nodes:?}");
    for line in programs.iter().chain(&nodes) {
        assert_eq!(schema::mistakes(&schema, line), [""; 0], "{line}");
    }
    for line in programs {
        let text = line.to_string();
        let read = match line.get("protocol") {
            Some(_) => serde_json::to_value(Hello::read(text.as_bytes()).expect(&text)),
            None => serde_json::to_value(Request::read(text.as_bytes()).expect(&text)),
        };
        assert_eq!(read.unwrap(), line);
    }
}

#[test]
fn a_node_answers_the_requests_of_the_page() {
    need_root!();
    let street = Street::new();
    let node = street.run(NAT);
    let schema = serde_json::from_str(&text_of("docs/schemas/control.schema.json")).unwrap();
    let mut talk = Talk::new(&street);
    for request in lines_of_page().iter().filter(|line| is_of_program(line) && line.get("id").is_some()) {
        talk.say(&format!("{request}\n"));
        let mut lines = std::iter::repeat_with(|| talk.line());
        // Lines of subscriptions may come before it.
        let answer = lines.find(|line| {
            assert_eq!(schema::mistakes(&schema, line), [""; 0], "{line}");
            line.get("subscription").is_none()
        });
        let answer = answer.expect("it answers");
        assert_eq!(answer["id"], request["id"], "{answer}");
        // The ports of the page are others, and so are its stages.
        let is_of_another = request.get("apply").is_some() || request.get("commands").is_some();
        assert_eq!(answer.get("error").is_some(), is_of_another, "{request}: {answer}");
    }
    node.end();
}

#[test]
fn the_example_adds_64000_routes_in_one_list_and_pages_through_them() {
    need_root!();
    let street = Street::new();
    let node = street.run(NAT);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/routes.py");
    let mut command = Command::new("python3");
    command.arg(&example).args(["--add", "64000"]).arg(street.socket());
    let output = output(&mut command).expect("python3 starts");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("'commands': 64000") && said.contains("'turns': 250"), "{said}");
    assert!(said.ends_with("0 sessions\n64000 routes\n"), "{said}");
    let shown = street.show("routes");
    assert_eq!(shown["routes"].as_array().map(Vec::len), Some(64_000));
    node.end();
}

#[test]
fn a_subscriber_gets_the_events_and_counters_from_then_on() {
    need_root!();
    let street = Street::new();
    let mut command = Command::new(WEIR);
    // Without a file of events.
    command.args(["node", "run"]).arg(street.file(NAT)).arg("--json");
    let node = street.run_command(command);
    let peer = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let send = |port: u16| {
        let socket = street.left.run(|| UdpSocket::bind(("198.18.0.2", port)).unwrap());
        socket.send_to(b"hello", "192.0.2.2:9").unwrap();
        peer.recv_from(&mut [0; 16]).unwrap().1.port()
    };
    let before = send(4000);
    let connect = || Client::connect(&street.socket()).unwrap();
    let mut clients = [connect(), connect()].map(|client| client.subscribe(Topic::Events).unwrap());
    let seen = send(4001);
    assert_ne!(before, seen);
    let mut events = Vec::new();
    for notices in &mut clients {
        let Notice::Event(event) = notices.next().unwrap().unwrap() else { panic!("an event") };
        assert_eq!(event["inside"], "198.18.0.2", "{event}");
        assert_eq!(
            (&event["event"], &event["first_port"]),
            (&json!("NAT44 session create"), &json!(seen)),
            "{event}"
        );
        events.push(event);
    }
    assert_eq!(events[0], events[1]);
    // A list of commands ends with an event that has its revision, for all who have subscribed.
    let mut talk = Talk::new(&street);
    let route = |n: u8| json!({ "route": { "set": { "prefix": format!("203.0.113.{n}/32"), "target": "blackhole" } } });
    talk.say(&format!("{}\n", json!({ "id": 1, "commands": [route(1), route(2)] })));
    let done = talk.line()["ok"].clone();
    for notices in &mut clients {
        let applied = notices.find_map(|notice| match notice.unwrap() {
            Notice::Event(event) if event["event"] == "applied" => Some(event),
            _ => None,
        });
        let applied = applied.expect("it comes");
        assert_eq!((&applied["revision"], &applied["commands"]), (&done["revision"], &json!(2)), "{applied}");
    }
    let mut counters = connect().subscribe(Topic::Counters { interval_ms: 100 }).unwrap();
    let entered = |notice| match notice {
        Notice::Counters(counters) => counters["entered"].as_u64().unwrap(),
        other => panic!("{other:?}"),
    };
    let first = entered(counters.next().unwrap().unwrap());
    send(4002);
    let mut lines =
        counters.map(|notice| notice.unwrap()).filter(|notice| !matches!(notice, Notice::LeftOut(_)));
    assert!(lines.any(|notice| entered(notice) > first));
    node.end();
}

#[test]
fn a_socket_is_opened_to_a_group_and_never_to_all() {
    need_root!();
    let street = Street::new();
    let run = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(["node", "run"]).arg(street.file(NAT)).arg("--json").args(words);
        command
    };
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let (name, number) = groups
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(':').collect();
            Some((*words.first()?, words.get(2)?.parse::<u32>().ok()?))
        })
        .find(|(_, number)| *number != 0)
        .expect("a group that is not root's");
    for (words, mode, group) in [
        (&[][..], 0o600, 0),
        (&["--socket-group", name], 0o660, number),
        (&["--socket-group", name, "--socket-mode", "0640"], 0o640, number),
        (&["--socket-mode", "770"], 0o770, 0),
    ] {
        let node = street.run_command(run(words));
        let found = std::fs::metadata(street.socket()).unwrap();
        assert_eq!((found.mode() & 0o777, found.gid()), (mode, group), "{words:?}");
        node.end();
    }
    for (words, code, has) in [
        (
            ["--socket-mode", "0666"],
            2,
            "lets every user of this machine change the node: use 0660 with --socket-group NAME",
        ),
        (["--socket-mode", "rw"], 2, "`rw` is no mode of a socket: write 0600"),
        (
            ["--socket-group", "no-such-group"],
            1,
            "no group has the name `no-such-group`: create it (`groupadd no-such-group`)",
        ),
    ] {
        let output =
            street.node.run(|| output(run(&words).env("WEIR_NODE_SOCKET", street.socket())).unwrap());
        let reported = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && reported.contains(has), "{words:?}: {reported}");
    }
}
