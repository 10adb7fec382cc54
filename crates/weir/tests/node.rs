//! `weir node` as a user runs it: between two hosts with stacks of their own.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testkit::{PATIENCE, accept, be_patient, need_root, output};

use crate::control::Talk;
use crate::street::{LEFT4, NODE, RIGHT4, Running, Street, WAYS, echo_over_tcp, sessions};
use crate::weir::WEIR;
use weir_port::packet;
use weir_testkit::confined;

const ROUTER: &str = "node lan(198.18.0.1/24, on n0) > route > wan(192.0.2.1/24, on n1)\n";
const NAT: &str =
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

#[test]
fn hosts_have_their_ports_again_after_a_crash() {
    need_root!();
    for threads in [1, 2] {
        let street = Street::for_threads(threads, &[LEFT4], &[RIGHT4]);
        let hosts = more_hosts(&street);
        let peer = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        // The port that the outside sees.
        let seen = |host: &str, port: u16| {
            let socket = street.left.run(|| UdpSocket::bind((host, port)).unwrap());
            socket.send_to(b"hello", "192.0.2.2:9").unwrap();
            peer.recv_from(&mut [0; 16]).unwrap().1.port()
        };
        let text = format!("{NAT}run(io packet, threads {threads})");
        let node = street.run(&text);
        let first: Vec<u16> = hosts.iter().map(|host| seen(host, 4000)).collect();
        // The lines of blocks that were given.
        let written = || {
            let text = std::fs::read_to_string(street.folder.join("blocks")).unwrap();
            text.lines()
                .filter(|line| line.starts_with("+ "))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let deadline = Instant::now() + PATIENCE;
        while written().lines().count() < hosts.len() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let blocks = written();
        let ports = |host: &str| {
            let block = blocks.lines().find_map(|line| line.strip_prefix(&format!("+ {host} 192.0.2.1 ")));
            let block = block.unwrap_or_else(|| panic!("{host}: {blocks}"));
            let (low, high) = block.split(' ').next().unwrap().split_once('-').unwrap();
            low.parse::<u16>().unwrap()..=high.parse().unwrap()
        };
        node.crash();
        let node = street.run(&text);
        let sorted = |text: &str| text.lines().map(String::from).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&written()), sorted(&blocks), "{threads} threads");
        for (host, first) in hosts.iter().zip(first) {
            let again = seen(host, 4001);
            assert!(
                [first, again].iter().all(|port| ports(host).contains(port)),
                "{host}, {again}: {blocks}"
            );
        }
        node.end();
    }
}

/// Only the last assignments, since the last write of the file, are missing after a crash: none in between.
#[test]
fn a_crash_takes_no_block_that_was_given_before_one_it_leaves() {
    need_root!();
    let street = Street::for_threads(1, &[LEFT4], &[RIGHT4]);
    let hosts = more_hosts(&street);
    let peer = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let blocks = street.folder.join("blocks");
    for most in 1..=hosts.len() {
        let _ = std::fs::remove_file(&blocks);
        let node = street.run(&format!("{NAT}run(io packet, threads 1)"));
        for host in &hosts[..most] {
            let socket = street.left.run(|| UdpSocket::bind((host.as_str(), 4000)).unwrap());
            socket.send_to(b"hello", "192.0.2.2:9").unwrap();
            // It has been given a block and has used it.
            peer.recv_from(&mut [0; 16]).unwrap();
        }
        node.crash();
        let text = std::fs::read_to_string(&blocks).unwrap();
        let kept: Vec<bool> =
            hosts.iter().map(|host| text.contains(&format!("+ {host} 192.0.2.1 "))).collect();
        assert!(kept.is_sorted_by(|earlier, later| earlier >= later), "{hosts:?}: {text}");
        assert!(!kept[most..].contains(&true), "{text}");
    }
}

#[test]
fn a_full_disk_does_not_end_a_node_and_it_catches_up() {
    need_root!();
    for failure in ["refuse", "give"] {
        full_disk(failure);
    }
}

/// The disk is full from the start; later it has room.
fn full_disk(failure: &str) {
    let street = Street::new();
    let hosts = more_hosts(&street);
    let peer = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let disk = street.folder.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let (events, blocks, ballast) = (disk.join("events"), disk.join("blocks"), disk.join("ballast"));
    // In the namespace of mounts that the node shares.
    street.node.run(|| {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&disk).status();
        assert!(mounted.unwrap().success());
    });
    let fill = || {
        let mut file = std::fs::File::create(&ballast).unwrap();
        while file.write(&[7; 512]).is_ok() {}
    };
    street.node.run(fill);
    let mut command = Command::new(WEIR);
    command.args(["node", "run"]).arg(street.file(&format!("{NAT}run(io packet)"))).arg("--json");
    command.arg("--events").arg(&events).arg("--blocks").arg(&blocks);
    command.args(["--blocks-failure", failure]);
    let mut node = street.run_command(command);
    let bind = |host: &String| street.left.run(|| UdpSocket::bind((host.as_str(), 4000)).unwrap());
    let sockets: Vec<UdpSocket> = hosts.iter().map(bind).collect();
    let send = |socket: &UdpSocket| socket.send_to(b"hello", "192.0.2.2:9").unwrap();
    let deadline = Instant::now() + PATIENCE;
    if failure == "refuse" {
        // No host has a block, and none gets one.
        for socket in &sockets {
            send(socket);
        }
        let dropped = || street.show("drops")["nat_withheld"].as_u64().unwrap_or(0);
        while dropped() < sockets.len() as u64 {
            assert!(Instant::now() < deadline, "{}", street.show("drops"));
            std::thread::yield_now();
        }
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.recv_from(&mut [0; 16]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        peer.set_nonblocking(false).unwrap();
    } else {
        for socket in &sockets {
            send(socket);
            peer.recv_from(&mut [0; 16]).unwrap();
        }
    }
    let read = |path: &Path| street.node.run(|| std::fs::read_to_string(path).unwrap());
    assert_eq!(read(&blocks), "", "there is no room");
    street.node.run(|| std::fs::remove_file(&ballast).unwrap());
    if failure == "refuse" {
        peer.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        for socket in &sockets {
            // Until it has been tried again.
            while {
                send(socket);
                peer.recv_from(&mut [0; 16]).is_err()
            } {
                assert!(Instant::now() < deadline, "there is room: {}", read(&blocks));
            }
        }
    }
    while !hosts.iter().all(|host| read(&blocks).contains(&format!("+ {host} "))) {
        assert!(Instant::now() < deadline, "there is room: {}", read(&blocks));
        std::thread::yield_now();
    }
    let (ended, said) = end_with_words(&mut node);
    assert!(ended, "{said}");
    assert_eq!(said.matches("blocks: No space left on device").count(), 1, "once: {said}");
    assert!(said.contains("blocks is written again"), "{said}");
}

/// Ends a node as Ctrl-C does; whether that went well, and what it said beside its output.
fn end_with_words(node: &mut Running<'_>) -> (bool, String) {
    let child = node.child.take().unwrap();
    // SAFETY: the process id of a child that has not been reaped.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let ended = child.wait_with_output().unwrap();
    (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn a_panic_costs_its_batch_and_not_the_node() {
    need_root!();
    for (io, threads) in WAYS {
        let street = Street::for_threads(threads, &[LEFT4], &[RIGHT4]);
        let state = street.folder.join("state");
        let mut command = Command::new(WEIR);
        command.env("XDG_STATE_HOME", &state).args(["node", "run", "--json"]);
        command.arg(street.file(&format!("{NAT}run(io {io}, threads {threads})")));
        let mut node = street.run_command(command);
        let peer = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let client = street.left.run(|| UdpSocket::bind("198.18.0.2:4000").unwrap());
        let send = |bytes: &[u8]| client.send_to(bytes, "192.0.2.2:9").unwrap();
        let arrives = |expected: &[u8]| {
            let mut bytes = [0; 64];
            let length = peer.recv_from(&mut bytes).unwrap().0;
            assert_eq!(&bytes[..length], expected, "{io}, {threads} threads");
        };
        for n in 1..=3 {
            send(b"before");
            arrives(b"before");
            send(weir_plane::faults::DATAGRAM);
            let deadline = Instant::now() + PATIENCE;
            while street.show("counters")["panics"] != n {
                assert!(Instant::now() < deadline, "{io}: {}", street.show("counters"));
                std::thread::yield_now();
            }
            send(b"behind");
            arrives(b"behind");
        }
        echo_over_tcp(&street, 300_000);
        let kept = || std::fs::read_dir(state.join("weir/panics")).map_or(0, Iterator::count);
        let deadline = Instant::now() + PATIENCE;
        while kept() < 3 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(kept(), 3, "{io}: a file with the frames of each");
        let (is_well, words) = end_with_words(&mut node);
        let is_about_it =
            |line: &&str| line.contains("the node panicked") && line.contains("stage 1 (nat) was restarted");
        let said = words.lines().filter(is_about_it).count();
        assert!(is_well && said == 3, "{io}, {threads} threads: {words}");
    }
}

#[test]
fn a_node_passes_frames_though_no_event_can_be_written() {
    need_root!();
    let street = Street::new();
    let mut command = Command::new(WEIR);
    command.args(["node", "run"]).arg(street.file(NAT)).args(["--json", "--events", "/dev/full"]);
    let mut node = street.run_command(command);
    echo_over_tcp(&street, 30_000);
    echo_over_tcp(&street, 30_000);
    let (ended, said) = end_with_words(&mut node);
    assert!(ended, "{said}");
    assert_eq!(said.matches("cannot write /dev/full: No space left on device").count(), 1, "once: {said}");
    assert!(said.contains("events are not in /dev/full"), "how many: {said}");
}

#[test]
fn what_others_laid_where_a_node_writes_stays_as_it_is() {
    need_root!();
    let street = Street::new();
    let file = street.file(ROUTER);
    let victim = street.folder.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let link = street.folder.join("link");
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    for (option, path, why) in [
        ("--events", &link, "cannot write DIR/link: it is a symbolic link: use its target"),
        ("--blocks", &link, "cannot write DIR/link: it is a symbolic link: use its target"),
        (
            "--blocks",
            &victim,
            "DIR/victim is no file of port blocks: use a file that --blocks wrote, or a new one",
        ),
        (
            "--socket",
            &victim,
            "cannot create the socket DIR/victim: choose another one with --socket: it exists and is no socket",
        ),
        (
            "--socket",
            &link,
            "cannot create the socket DIR/link: choose another one with --socket: it exists and is no socket",
        ),
    ] {
        let mut command = Command::new(WEIR);
        command.args(["node", "run"]).arg(&file).arg(option).arg(path);
        command.env("WEIR_NODE_SOCKET", street.folder.join("other.sock"));
        let refused = street.node.run(|| output(&mut command)).unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        let said = said.trim_end().replace(&street.folder.display().to_string(), "DIR");
        assert_eq!((refused.status.code(), said), (Some(1), format!("weir: {why}")), "{option}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious", "{option}");
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
fn a_node_changes_its_routes_while_it_runs() {
    need_root!();
    let street = Street::new();
    let node = street.run(ROUTER);
    echo_over_tcp(&street, 1000);
    let before = street.show("counters");
    let changed = ROUTER.replace("route", "route(198.51.100.0/24 via 192.0.2.2)");
    let file = street.file(&changed);
    let output = street.weir(&["apply", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let reported = String::from_utf8(output.stdout).unwrap();
    assert_eq!(reported, format!("the node applied {}\n", file.display()));
    assert_eq!(street.show("routes")["routes"][0]["prefix"], "198.51.100.0/24");
    let text = String::from_utf8(street.weir(&["show", "routes"]).stdout).unwrap();
    assert_eq!(text, "198.51.100.0/24 via 192.0.2.2\n");
    let after = street.show("counters");
    assert!(after["entered"].as_u64() >= before["entered"].as_u64(), "it is the same node");
    let other = format!("{ROUTER} run(wait poll)");
    let output = street.weir(&["apply", street.file(&other).to_str().unwrap()]);
    let reported = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), reported.as_str()),
        (Some(1), "weir: another `wait` of `run`: this takes a restart of the node\n")
    );
    echo_over_tcp(&street, 1000);
    node.end();
}

/// A host with this VLAN tag asks the node for its address there; waits for the answer.
fn ask_on_a_line(street: &Street, tag: u16, own: [u8; 4], node: [u8; 4]) {
    let index = street.left.run(|| Rtnl::open().unwrap().link("l0").unwrap().ifindex);
    let host = [2, 0, 0, 0, 0xcc, 1];
    let [high, low] = tag.to_be_bytes();
    let asks = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    let frame = [&[0xff; 6][..], &host, &[0x81, 0, high, low], &asks, &host, &own, &[0; 6], &node].concat();
    let mut receiver = street.left.run(|| packet::Receiver::open(index, 1 << 20).unwrap());
    street.left.run(|| packet::Sender::open(index).unwrap().send(&[frame]).unwrap());
    let (mut is_answered, deadline) = (false, Instant::now() + PATIENCE);
    while !is_answered {
        assert!(Instant::now() < deadline, "the node answers on VLAN {tag}");
        let is_answer = |bytes: &[u8]| bytes.starts_with(&host) && bytes.get(28..32) == Some(&node);
        receiver.receive(Duration::from_millis(100), |bytes| is_answered |= is_answer(bytes)).unwrap();
    }
}

#[test]
fn a_node_changes_addresses_and_tags_and_gets_ports_while_it_runs() {
    need_root!();
    let street = Street::new();
    let text = |more: &str, run: &str| {
        format!(
            "node lan(198.18.0.1/24, 198.18.9.1/24, on n0) {more} filter(policy accept) > route > wan(192.0.2.1/24, on n1)\n{run}\n"
        )
    };
    let apply = |text: &str| street.weir(&["apply", street.file(text).to_str().unwrap()]);
    let applied = |text: &str| {
        let output = apply(text);
        assert!(output.status.success(), "{text}: {output:?}");
        let ports = street.show("ports")["ports"].as_array().unwrap().clone();
        ports
            .iter()
            .map(|port| format!("{} {}", port["port"].as_str().unwrap(), port["number"]))
            .collect::<Vec<_>>()
    };
    let run = "run(io packet, ports change)";
    let node = street.run(&text("", run));
    echo_over_tcp(&street, 1000);
    let before = street.show("counters");
    assert_eq!(applied(&text("dmz(198.18.7.1/24, on n0, vlan 7)", run)), ["lan 0", "dmz 2", "wan 1"]);
    ask_on_a_line(&street, 7, [198, 18, 7, 2], [198, 18, 7, 1]);
    assert_eq!(applied(&text("dmz(198.18.8.1/24, on n0, vlan 8)", run)), ["lan 0", "dmz 2", "wan 1"]);
    ask_on_a_line(&street, 8, [198, 18, 8, 2], [198, 18, 8, 1]);
    echo_over_tcp(&street, 1000);
    assert_eq!(applied(&text("", run)), ["lan 0", "wan 1"]);
    let counters = street.show("counters");
    let names: Vec<_> = counters["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(names, ["lan", "wan"]);
    assert!(
        counters["entered"].as_u64() > before["entered"].as_u64() && counters["balance"] == true,
        "{counters}"
    );
    echo_over_tcp(&street, 1000);
    node.end();
    // Without the right to open it no port comes, and addresses change all the same.
    let node = street.run(&text("", "run(io packet)"));
    let output = apply(&text("dmz(198.18.7.1/24, on n0, vlan 7)", "run(io packet)"));
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(
        reported.starts_with("weir: port dmz: ") && reported.contains("begin it with run(ports change)"),
        "{reported}"
    );
    applied(&text("", "run(io packet)").replace("198.18.9.1", "198.18.5.1"));
    let ports = street.show("ports");
    assert_eq!(ports["ports"][0]["addresses"][1], "198.18.5.1/24", "{ports}");
    echo_over_tcp(&street, 1000);
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
fn a_killed_node_leaves_no_program_behind() {
    need_root!();
    let street = Street::new();
    for _ in 0..2 {
        let mut node = street.run(ROUTER);
        let mut child = node.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!street.weir(&["show"]).status.success(), "the node has ended");
    }
    // AF_XDP binds to an unused queue, and its program to an interface without one.
    street.run(ROUTER).end();
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

#[test]
fn threads_are_distinguished_and_changed_together() {
    need_root!();
    let street = Street::new();
    let text = "lan(198.18.0.1/24, on n0) filter(accept state new, accept state established) > route \
                > wan(192.0.2.1/24, on n1) run(io packet, threads 2, host none)";
    let node = street.run(text);
    echo_over_tcp(&street, 100_000);
    let counters = street.show("counters");
    assert_eq!(counters["threads"].as_array().map(Vec::len), Some(2), "{counters}");
    let other = street.file(&text.replace("accept state new", "accept outward"));
    let applied = street.weir(&["apply", other.to_str().unwrap()]);
    assert!(applied.status.success(), "{applied:?}");
    let rules = street.show("rules").to_string();
    assert!(rules.contains("accept outward") && !rules.contains("state new"), "{rules}");
    let wrong = street.weir(&["run", other.to_str().unwrap(), "--cpus", "0,x"]);
    assert_eq!(
        String::from_utf8_lossy(&wrong.stderr),
        "weir: --cpus: `x` is no CPU: write its number, from 0, or the first and the last: 2-5\n"
    );
    let accounting = node.end();
    let threads = accounting["threads"].as_array().unwrap();
    let entered: u64 = threads.iter().map(|thread| thread["entered"].as_u64().unwrap()).sum();
    assert_eq!(accounting["entered"], entered, "{accounting}");
}

/// The left host becomes several: their addresses.
fn more_hosts(street: &Street) -> Vec<String> {
    let hosts: Vec<String> = (2..10).map(|n| format!("198.18.0.{n}")).collect();
    street.left.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.link("l0").unwrap().ifindex;
        hosts[1..].iter().for_each(|host| rtnl.add_address(index, host.parse().unwrap(), 24).unwrap());
    });
    hosts
}

/// What a host says arrives at the other, and is answered; the end that the other sees.
fn ask(client: &UdpSocket, server: &UdpSocket) -> SocketAddr {
    let mut bytes = [0; 16];
    client.send_to(b"ask", server.local_addr().unwrap()).unwrap();
    let (length, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"ask");
    server.send_to(b"answer", from).unwrap();
    let (length, _) = client.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"answer");
    from
}

#[test]
fn sessions_of_all_threads_live_on_while_ports_change_and_filters_come_and_go() {
    need_root!();
    for io in ["xdp", "packet"] {
        let street = Street::for_threads(2, &[LEFT4], &[RIGHT4]);
        if io == "xdp" {
            street.merge();
        }
        let hosts = more_hosts(&street);
        let with = |ports: &str, other: &str| {
            format!(
                "node lan(198.18.0.1/24, on n0) {other} filter(accept state new, accept state established)
                    > nat(public 192.0.2.1 ports {ports}) > {other} route > wan(192.0.2.1/24, on n1)
                 run(io {io}, threads 2)"
            )
        };
        let text = |ports: &str| with(ports, "");
        let node = street.run(&text("1024-16383"));
        let listening = |host: &Namespace, address: &str, port: u16| {
            let socket = host.run(|| UdpSocket::bind((address, port)).unwrap());
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        let server = listening(&street.right, "192.0.2.2", 9);
        let clients = |port: u16| -> Vec<UdpSocket> {
            hosts.iter().map(|host| listening(&street.left, host, port)).collect()
        };
        let seen = |clients: &[UdpSocket]| -> Vec<SocketAddr> {
            clients.iter().map(|client| ask(client, &server)).collect()
        };
        let old = clients(5000);
        let ends = seen(&old);
        let sessions = street.show("sessions");
        assert_eq!(sessions["live"], 2 * hosts.len(), "{io}: in the NAT and in the filter: {sessions}");
        let applied = street.weir(&["apply", street.file(&text("32768-65535")).to_str().unwrap()]);
        assert!(applied.status.success(), "{applied:?}");
        assert_eq!(seen(&old), ends, "{io}: what lives is seen as before");
        let (new, among) = (clients(6000), 32768..=65535);
        assert!(seen(&new).iter().all(|end| among.contains(&end.port())), "{io}: what is new is not");
        // Whatever each thread has taken of a change, no frame is lost meanwhile.
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let filter = "filter(count all udp, policy accept) >";
                for (ports, other) in
                    [("1024-9999 20000-29999, block 100", filter), ("32768-65535", "")].repeat(3)
                {
                    let file = street.file(&with(ports, other));
                    let applied = street.weir(&["apply", file.to_str().unwrap()]);
                    assert!(applied.status.success(), "{applied:?}");
                }
            });
            while !changing.is_finished() {
                assert_eq!(seen(&old), ends, "{io}: what lives is seen as before");
            }
        });
        // Hosts of all threads reach each other by what the outside sees of them.
        for (n, host) in old.iter().enumerate() {
            let (other, end) = ((n + 1) % old.len(), ends[n]);
            host.send_to(b"hello", ends[other]).unwrap();
            let (_, from) = old[other].recv_from(&mut [0; 16]).unwrap();
            assert_eq!(from, end, "{io}: from {n} to {other}");
        }
        let applied = street.weir(&["apply", street.file(&text("1024-65535, block 1024")).to_str().unwrap()]);
        let reported = String::from_utf8_lossy(&applied.stderr);
        assert_eq!(
            reported,
            "weir: blocks of more than 512 ports come only when the node begins anew, since it has several threads\n"
        );
        let accounting = node.end();
        let threads = accounting["threads"].as_array().unwrap();
        assert!(
            threads.iter().all(|thread| thread["left"].as_u64() > Some(8)),
            "{io}: both work: {accounting}"
        );
        assert_eq!(accounting["dropped"], 0, "{io}: {accounting}");
    }
}
