//! A node under hostile frames from both sides, while two hosts communicate through it: what they send arrives unchanged,
//! and the node's memory does not grow. `FLOOD_S=300 cargo test --release -p weir
//! --test weir flood:: -- --nocapture` goes on for minutes with each kind of port.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_plane::scenario::packet;
use weir_port::packet::BATCH;
use weir_testkit::{Dice, PATIENCE, accept, be_patient, need_root, number};

use crate::frames;
use crate::storm::{End, storm};
use crate::street::{RIGHT4, Running, Street, WAYS};

/// Default of the shortest time of a flood, s.
const FLOOD_S: u64 = 1;
/// Bytes that arrive each way before it ends.
const LEAST_BYTES: u64 = 500_000;
/// What a thread of the node may grow by, KiB: tables of fixed size that fill up, and for each session or connection its entry
/// of 64 bytes with its share of an index that may just have doubled.
const GROWTH_KIB: u64 = 8 << 10;
const SESSION_BYTES: u64 = 160;
/// What the wire takes.
const LONGEST: usize = 1514;

/// A node with small tables: few connections, ports and sessions. The host inside is none of those that the frames are from.
const NODE: &str = "node lan(198.18.0.1/24, 2001:db8:1::1/64, on n0)
    filter(connections 20000, accept state established, accept state related, accept outward state new, accept icmp)
    > nat(public 192.0.2.1 ports 1024-2047, block 16, sessions 3000, prefix64 2001:db8:2::/96, log sessions)
    > route(default via 192.0.2.2) > wan(192.0.2.1/24, on n1)\n";

/// A batch of the flood from one side: cut, bent and random frames, fragments, new sessions from all over.
fn batch(dice: &mut Dice, node: [u8; 6], inside: bool) -> Vec<Vec<u8>> {
    let addresses: [u8; 12] = [node, [2, 0, 0, 0, 0xcc, 1]].concat().try_into().expect("twelve bytes");
    let flood = |dice: &mut Dice| {
        let (host, port) = (1 + dice.roll(199), 1 + dice.roll(65_000));
        let line = match (inside, dice.roll(3)) {
            (true, 0) => format!("tcp 198.18.0.{host}:{port} > 198.19.0.9:80 S seq 1 mss 1460"),
            (true, 1) => format!("udp 198.18.0.{host}:{port} > 198.19.0.{host}:53"),
            (true, _) => format!("udp [2001:db8:1::{host}]:{port} > [2001:db8:2::c613:9]:53"),
            (false, 0) => format!("tcp 198.19.0.{host}:{port} > 192.0.2.1:{} S seq 1", 1024 + port % 1024),
            (false, _) => format!("udp 198.19.0.{host}:{port} > 192.0.2.1:{}", 1024 + port % 1024),
        };
        let packet = packet(&line).expect("a packet");
        let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&addresses[..], &kind, &packet].concat()
    };
    let one = |_| {
        let mut frame = if dice.roll(2) == 0 { flood(dice) } else { frames::frame(dice, addresses) };
        frame.resize(frame.len().clamp(14, LONGEST), 0);
        frame
    };
    (0..BATCH).map(one).collect()
}

/// Sends them from a host until it is asked to stop; says how many.
fn attack(host: &Namespace, (name, number): (&str, u8), seed: u64, over: &AtomicBool) -> u64 {
    let mut dice = Dice::new(seed);
    storm(host, name, over, || batch(&mut dice, [2, 0, 0, 0, number, 2], number == 0))
}

/// The byte at a place of what is said.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(7) ^ (at / 251)) as u8
}

/// Says something until it is asked to stop; how much.
fn say(mut stream: &TcpStream, over: &AtomicBool) -> u64 {
    let mut said = 0;
    while !over.load(Relaxed) {
        let some: Vec<u8> = (said..said + 8192).map(byte).collect();
        stream.write_all(&some).expect("the connection holds");
        said += some.len() as u64;
    }
    stream.shutdown(Shutdown::Write).expect("the connection holds");
    said
}

/// Hears it to the end, each byte as it was said; how much, also reported meanwhile.
fn hear(mut stream: &TcpStream, heard: &AtomicU64) -> u64 {
    let (mut some, mut at) = ([0; 8192], 0);
    loop {
        let n = stream.read(&mut some).expect("the connection holds");
        for &one in &some[..n] {
            assert_eq!(one, byte(at), "at {at}");
            at += 1;
        }
        heard.store(at, Relaxed);
        if n == 0 {
            return at;
        }
    }
}

/// Asks by UDP until an answer comes: the address that the other end sees.
fn ask(client: &UdpSocket, server: &UdpSocket) -> String {
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = [0; 16];
    while Instant::now() < deadline {
        client.send(b"ask").unwrap();
        let Ok((_, from)) = server.recv_from(&mut bytes) else { continue };
        server.send_to(b"answer", from).unwrap();
        if client.recv(&mut bytes).is_ok() {
            return from.to_string();
        }
    }
    panic!("no answer in {PATIENCE:?}");
}

/// Memory of the node that is in use, KiB.
fn resident_kib(node: &Running<'_>) -> u64 {
    let pid = node.child.as_ref().expect("it runs").id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[test]
fn a_flood_of_hostile_frames_harms_no_session() {
    need_root!();
    let seconds = number("FLOOD_S", FLOOD_S);
    for (io, threads) in WAYS {
        let way = format!("{io}, {threads} threads");
        let street = Street::for_threads(threads, &[("198.18.0.200", "198.18.0.1")], &[RIGHT4]);
        if io == "xdp" {
            street.merge();
        }
        let node = street.run(&format!("{NODE}run(io {io}, threads {threads})"));
        let listener = street.right.run(|| TcpListener::bind("192.0.2.2:7").unwrap());
        let client = street.left.run(|| TcpStream::connect("192.0.2.2:7").unwrap());
        be_patient(&client);
        let (server, _) = accept(&listener);
        let answers = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
        let asks = street.left.run(|| UdpSocket::bind("198.18.0.200:4000").unwrap());
        asks.connect("192.0.2.2:9").unwrap();
        let seen_as = ask(&asks, &answers);

        let (over, heard) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
        let begin = Instant::now();
        let mut memory = vec![];
        let (said, heard_last, sent) = std::thread::scope(|scope| {
            let end = End(&over);
            let over = &over;
            let says = [&client, &server].map(|stream| scope.spawn(|| say(stream, over)));
            let hears = [(&server, &heard[0]), (&client, &heard[1])]
                .map(|(stream, heard)| scope.spawn(|| hear(stream, heard)));
            let attacks = [(&street.left, ("l0", 0)), (&street.right, ("r0", 1))]
                .map(|(host, at)| scope.spawn(move || attack(host, at, u64::from(at.1) + 1, over)));
            let enough = || heard.iter().all(|heard| heard.load(Relaxed) >= LEAST_BYTES);
            let length = Duration::from_secs(seconds);
            while begin.elapsed() < length || !enough() && begin.elapsed() < length + PATIENCE {
                assert_eq!(ask(&asks, &answers), seen_as, "{way}: its mapping has changed");
                let live = street.show("sessions")["live"].as_u64().expect("a number");
                memory.push((resident_kib(&node), live));
                std::thread::sleep(Duration::from_millis(300));
            }
            drop(end);
            let sent: u64 = attacks.map(|attack| attack.join().unwrap()).iter().sum();
            (says.map(|one| one.join().unwrap()), hears.map(|one| one.join().unwrap()), sent)
        });
        assert_eq!(said, heard_last, "{way}: all that was said is heard");
        assert!(said.iter().all(|said| *said >= LEAST_BYTES), "{way}: {said:?} bytes");
        let (first, _) = memory[0];
        let (last, _) = *memory.last().expect("it was asked");
        let most = memory.iter().map(|(_, live)| *live).max().expect("it was asked");
        assert!(
            last <= first + u64::from(threads) * GROWTH_KIB + most * SESSION_BYTES / 1024,
            "{way}: memory of the node in KiB, sessions: {memory:?}"
        );
        let accounting = node.end();
        println!(
            "{way}: {sent} hostile frames in {:?}, {said:?} bytes both ways, {most} sessions, {first} KiB at first, {last} at \
             last\n{accounting}",
            begin.elapsed(),
        );
        for reason in ["malformed", "bad_checksum", "nat_no_port", "nat_no_mapping", "nat_fragment"] {
            assert!(accounting["drops"][reason].as_u64().unwrap_or(0) > 0, "{way}, {reason}: {accounting}");
        }
    }
}
