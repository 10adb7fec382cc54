//! `weir node` where something fails: crashes, a full disk, a panic, files of other users.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_testkit::{PATIENCE, need_root, output};

use crate::node::{NAT, ROUTER, more_hosts};
use crate::street::{LEFT4, RIGHT4, Running, Street, WAYS, echo_over_tcp};
use crate::weir::WEIR;

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
