//! `weir node` as a user runs it: between two hosts with stacks of their own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testkit::{PATIENCE, accept, be_patient, confined, need_root, output};

use crate::control::Talk;
use crate::street::{LEFT4, NODE, RIGHT4, Street, WAYS, echo_over_tcp, sessions};
use crate::weir::WEIR;

pub(crate) const ROUTER: &str = "node lan(198.18.0.1/24, on n0) > route > wan(192.0.2.1/24, on n1)\n";
pub(crate) const NAT: &str =
    "node lan(198.18.0.1/24, on n0) > nat(public 192.0.2.1) > route > wan(192.0.2.1/24, on n1)\n";

#[test]
fn stacks_talk_through_a_nat_that_is_shown_and_ended() {
    need_root!();
    for (io, threads) in WAYS {
        let street = Street::for_threads(threads, &[LEFT4], &[RIGHT4]);
        if io == "packet" {
            let reported = street.node.run(|| output(&mut street.command(&["run", "/dev/stdin"])));
            assert!(!reported.unwrap().status.success(), "an empty file is no node");
        }
        let node = street.run(&format!("{NAT}run(io {io}, threads {threads})"));
        echo_over_tcp(&street, 300_000);
        let kept = if io == "xdp" { confined::CAP_BPF } else { 0 };
        confined::check(&confined::statuses(node.child.as_ref().unwrap().id()), kept, Some("node"));
        let peer = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
        let socket = street.left.run(|| UdpSocket::bind("198.18.0.2:4000").unwrap());
        socket.send_to(b"hello", "192.0.2.2:9").unwrap();
        let mut bytes = [0; 16];
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let (length, from) = peer.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..length], from.ip().to_string().as_str()), (&b"hello"[..], "192.0.2.1"), "{io}");
        let shown = sessions(&street.show("sessions"));
        let line = format!("udp 198.18.0.2:4000 as 192.0.2.1:{} with", from.port());
        assert!(shown.iter().any(|one| one.starts_with(&line)), "{io}: {shown:?}");
        let counters = street.show("counters");
        assert!(counters["left"].as_u64().unwrap() > 400, "{io}: {counters}");
        let text = String::from_utf8(street.weir(&["show"]).stdout).unwrap();
        assert!(text.contains("\nport lan\n Received "), "{io}: {text}");
        let deadline = Instant::now() + PATIENCE;
        let events = || std::fs::read_to_string(street.folder.join("events")).unwrap();
        while events().is_empty() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let first: Value = serde_json::from_str(events().lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["inside"], &first["nat_event"]),
            (&"198.18.0.2".into(), &16.into()),
            "{io}: {first}"
        );
        let accounting = node.end();
        assert_eq!(accounting["kept"], 0, "{io}: {accounting}");
    }
}

/// A server in `server`, asked from the left: what it says comes.
fn ask_over_tcp(street: &Street, server: &Namespace, address: &str) {
    let listener = server.run(|| TcpListener::bind(address).unwrap());
    let said = std::thread::spawn(move || accept(&listener).0.write_all(b"hello").unwrap());
    let client = street.left.run(|| TcpStream::connect_timeout(&address.parse().unwrap(), PATIENCE));
    let mut client = client.unwrap_or_else(|error| panic!("{error}: {}", street.show("counters")));
    be_patient(&client);
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    said.join().unwrap();
    assert_eq!(heard, "hello", "{address}");
}

#[test]
fn services_of_the_machine_are_reached_at_the_addresses_of_the_node() {
    need_root!();
    for ((io, threads), host) in WAYS.iter().flat_map(|way| [(way, "kernel"), (way, "tap0")]) {
        let street = Street::for_threads(*threads, &[LEFT4], &[RIGHT4]);
        if *io == "xdp" {
            street.merge();
        }
        let add = |name: &str| {
            let mut rtnl = Rtnl::open().unwrap();
            let index = rtnl.link(name).unwrap().ifindex;
            rtnl.add_address(index, "198.18.0.1".parse().unwrap(), 24).unwrap();
        };
        if host == "kernel" {
            // As before the node came.
            street.node.run(|| add(NODE[0]));
        }
        let lan = "lan(198.18.0.1/24, on n0)";
        let node = street.run(&format!(
            "{lan} > nat(public 192.0.2.1) > route > wan(192.0.2.1/24, on n1)\nrun(io {io}, threads {threads}, host {host})"
        ));
        if host == "tap0" {
            street.node.run(|| {
                std::fs::write("/proc/sys/net/ipv6/conf/tap0/disable_ipv6", "1").unwrap();
                add("tap0");
            });
        }
        ask_over_tcp(&street, &street.node, "198.18.0.1:22");
        echo_over_tcp(&street, 1000);
        let accounting = node.end();
        assert!(accounting["local"].as_u64().unwrap() >= 4, "{io}, {threads} threads, {host}: {accounting}");
    }
}

#[test]
fn a_path_with_a_narrow_link_is_found() {
    need_root!();
    let street = Street::new();
    // The far link takes less than the hosts know.
    let narrow = NAT.replace("on n1", "mtu 1300, on n1");
    let node = street.run(&narrow);
    let socket = street.left.run(|| UdpSocket::bind("198.18.0.2:0").unwrap());
    socket.connect("192.0.2.2:9").unwrap();
    echo_over_tcp(&street, 200_000);
    let accounting = node.end();
    assert!(accounting["drops"]["too_big"].as_u64().unwrap_or(0) > 0, "the host had to learn: {accounting}");
}

#[test]
fn hosts_ping_each_other_and_the_node_and_see_it_on_the_way() {
    need_root!();
    let street = Street::new();
    let node = street.run(ROUTER);
    let at_left = |program: &str, arguments: &[&str]| {
        street.left.run(|| output(Command::new(program).args(arguments)).ok())
    };
    for target in ["192.0.2.2", "198.18.0.1", "192.0.2.1"] {
        match at_left("ping", &["-c", "3", "-i", "0.01", "-w", "100", target]) {
            Some(output) => assert!(output.status.success(), "{target}: {output:?}"),
            None => eprintln!("skipped: ping is not installed"),
        }
    }
    match at_left("traceroute", &["-n", "-q", "1", "-w", "5", "192.0.2.2"]) {
        Some(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let hops: Vec<&str> =
                text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
            assert_eq!(hops, ["198.18.0.1", "192.0.2.2"], "{text}");
        }
        None => eprintln!("skipped: traceroute is not installed"),
    }
    node.end();
}

#[test]
fn silent_clients_delay_neither_others_nor_the_log_and_hostile_ones_do_not_end_the_node() {
    need_root!();
    let street = Street::new();
    let node = street.run(NAT);
    let mut silent: Vec<_> = (0..5).map(|_| Talk::new(&street)).collect();
    silent[0].say("{\"id\": 1");
    echo_over_tcp(&street, 1000);
    let deadline = Instant::now() + PATIENCE;
    let events = || std::fs::read_to_string(street.folder.join("events")).unwrap();
    while events().is_empty() && Instant::now() < deadline {
        street.show("counters");
    }
    assert!(!events().is_empty());
    let mut client = Talk::new(&street);
    for hostile in [
        "\n",
        "[[[[\n",
        "{\"id\": 1, \"query\": \"\u{1b}[2J\"}\n",
        "{\"id\": 1, \"apply\": {\"file\": \"x\", \"text\": \"\"}}\n",
    ] {
        client.say(hostile);
        assert!(client.line()["error"]["message"].is_string(), "{hostile}");
    }
    // The first clients were not dropped: they can still send requests.
    silent[0].say(", \"query\": {\"routes\": {}}}\n");
    silent[1..].iter_mut().for_each(|client| client.say("{\"id\": 1, \"query\": \"drops\"}\n"));
    silent.iter_mut().for_each(|client| assert!(client.line()["ok"].is_object()));
    node.end();
    assert_eq!(client.line()["error"]["message"], "connection closed: the node has ended");
}

#[test]
fn a_node_goes_on_in_a_new_file_of_events_at_a_hangup() {
    need_root!();
    let street = Street::new();
    // The tests may have been begun by nohup.
    let text = NAT.replace("public 192.0.2.1", "public 192.0.2.1, log sessions");
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", WEIR]);
    let node = street.run_by(command, &text);
    let (path, old) = (street.folder.join("events"), street.folder.join("events.1"));
    let await_lines = |path: &std::path::Path| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.ends_with('\n') {
                return text;
            }
            assert!(Instant::now() < deadline, "lines in {}", path.display());
            std::thread::yield_now();
        }
    };
    echo_over_tcp(&street, 1000);
    await_lines(&path);
    std::fs::rename(&path, &old).unwrap();
    node.signal(libc::SIGHUP);
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "a new file");
        std::thread::yield_now();
    }
    let before = std::fs::read_to_string(&old).unwrap();
    echo_over_tcp(&street, 1000);
    let behind = await_lines(&path);
    let accounting = node.end();
    assert!(accounting["left"].as_u64() > Some(8), "{accounting}");
    assert_eq!(std::fs::read_to_string(&old).unwrap(), before, "nothing follows in the old one");
    assert!(behind.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{behind}");
}

#[test]
fn all_mistakes_of_a_file_are_reported() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("wrong.node");
    std::fs::write(&file, "node lan(mtu 1)\n> ruote\nrun(cpu x)").unwrap();
    let node = |word: &str| output(Command::new(WEIR).args(["node", word]).arg(&file)).unwrap();
    let check = node("check");
    let reported = String::from_utf8(check.stderr).unwrap();
    assert_eq!(check.status.code(), Some(1), "{reported}");
    let said = reported.replace(&folder.display().to_string(), "DIR");
    assert_eq!(
        said,
        "weir: DIR/wrong.node:1: mtu takes bytes from 68 to 9216\n\
         DIR/wrong.node:3: `x` is no CPU: write its number, from 0, or the first and the last: 2-5\n"
    );
    let unit = node("unit");
    assert_eq!(unit.status.code(), Some(1), "{unit:?}");
}

/// The unit of a node with this text, which stands in `file`.
fn unit(file: &Path, text: &str) -> String {
    std::fs::write(file, text).unwrap();
    let unit = output(Command::new(WEIR).args(["node", "unit"]).arg(file)).unwrap();
    assert!(unit.status.success(), "{unit:?}");
    String::from_utf8(unit.stdout).unwrap()
}

#[test]
fn systemd_takes_the_unit() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("unit.node");
    let text = unit(&file, "node lan(on br-lan) > route > wan(on packet:eth0) run(host tap0)");
    let devices = r"sys-subsystem-net-devices-br\x2dlan.device sys-subsystem-net-devices-eth0.device";
    assert!(text.contains(&format!("After=network-pre.target {devices}\n")), "{text}");
    assert!(text.contains(&format!(" node run {} --socket %t/weir/%N/node.sock ", file.display())), "{text}");
    let path = folder.join("weir-node-test.service");
    std::fs::write(&path, text).unwrap();
    match output(Command::new("systemd-analyze").arg("verify").arg(&path)) {
        Ok(verified) => assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}"),
        Err(_) => eprintln!("skipped: systemd-analyze is not installed"),
    }
}

#[test]
fn a_node_runs_with_the_capabilities_of_its_unit() {
    need_root!();
    if output(Command::new("setpriv").arg("--version")).is_err() {
        return eprintln!("skipped: setpriv is not installed");
    }
    let street = Street::new();
    let text = unit(&street.folder.join("unit.node"), NAT);
    let bounds = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let bounds: String =
        bounds.split(' ').map(|name| format!(",+{}", &name["CAP_".len()..].to_lowercase())).collect();
    for run in ["io xdp", "io packet, host tap0"] {
        let mut command = Command::new("setpriv");
        command.args(["--no-new-privs", "--bounding-set", &format!("-all{bounds}"), WEIR]);
        let node = street.run_by(command, &format!("{NAT}run({run})"));
        echo_over_tcp(&street, 10_000);
        let applied = street.weir(&["apply", street.file(&format!("{NAT}run({run})")).to_str().unwrap()]);
        assert!(applied.status.success(), "{run}: {applied:?}");
        node.end();
    }
}

#[test]
fn the_examples_can_be_run() {
    for (name, ports) in [("home", "lan, wan"), ("carrier", "lan, wan"), ("isp", "access1, access2, wan")] {
        let example = format!("{}/../../examples/{name}.node", env!("CARGO_MANIFEST_DIR"));
        let output = output(Command::new(WEIR).args(["node", "check", &example])).expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, format!("{example} is a node with the ports {ports}\n"));
    }
}

/// The left host becomes several: their addresses.
pub(crate) fn more_hosts(street: &Street) -> Vec<String> {
    let hosts: Vec<String> = (2..10).map(|n| format!("198.18.0.{n}")).collect();
    street.left.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.link("l0").unwrap().ifindex;
        hosts[1..].iter().for_each(|host| rtnl.add_address(index, host.parse().unwrap(), 24).unwrap());
    });
    hosts
}
