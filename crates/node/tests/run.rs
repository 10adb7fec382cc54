//! Nodes that run: between wires in memory, and between those of the kernel.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_node::{Config, Node, Opened, SessionsQuery, Snapshot};
use weir_packet::checksum::write_ipv4;
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_plane::scenario::packet;
use weir_plane::{BlockEvent, DropReason, EventKind, NatSession, PortBlock, SessionRecord};
use weir_port::duplex::{Memory, MemoryEnd, Port, wait};
use weir_port::packet::{Receiver, Sender};
use weir_testkit::wires::{End, Wire, address, default_route, join, set_up};
use weir_testkit::{PATIENCE, accept, be_patient, need_root};

use crate::street::{HOST, Street};

fn config(text: &str) -> Config {
    Config::read("test", text, &|name| Err(format!("no file {name}")))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Test frames from left to right, numbered.
fn frames(n: u32) -> Vec<Vec<u8>> {
    let ends = Ends::v4([2; 6], [4; 6]);
    let flow = Flow { src: 0xc612_0001, dst: 0xc613_0001, sport: 1, dport: 2, group: 0 };
    let frame =
        |seq| ends.frame(&flow, [64, 300, 1518][seq as usize % 3], Signature { seq, ..Signature::default() });
    (0..n).map(frame).collect()
}

/// Waits until the counters are as wanted, and says what they are.
pub(crate) fn until(node: &Node, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = Snapshot::sum(&node.snapshots());
        if wanted(&seen) || Instant::now() > deadline {
            return seen;
        }
        std::thread::yield_now();
    }
}

pub(crate) fn next(end: &MemoryEnd) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(frame) = end.receive() {
            return frame;
        }
        assert!(Instant::now() < deadline, "a frame comes");
        let fd: BorrowedFd<'_> = end.descriptor();
        wait(&[fd], PATIENCE).unwrap();
    }
}

/// All sessions that a question is for, page by page.
fn pages(node: &Node, mut query: SessionsQuery) -> Vec<SessionRecord> {
    let mut all = Vec::new();
    loop {
        let page = node.sessions(&query).unwrap();
        all.extend(page.sessions);
        query.after = page.next;
        if query.after.is_none() {
            return all;
        }
    }
}

/// How many sessions there are, and all of them.
pub(crate) fn all_sessions(node: &Node) -> (u64, Vec<String>) {
    let live = node.sessions(&SessionsQuery::default()).unwrap().live;
    (live, pages(node, SessionsQuery::default()).iter().map(ToString::to_string).collect())
}

#[test]
fn frames_pass_a_node_between_memory_wires_and_the_accounting_close() {
    for wait in ["sleep", "poll"] {
        let config = config(&format!("lan > wan run(wait {wait})"));
        let wires = [(); 2].map(|()| Memory::new().unwrap());
        let [(left, a), (right, b)] = wires;
        let node =
            Opened::between(&config, vec![vec![Box::new(left) as Box<dyn Port>, Box::new(right)]]).unwrap();
        let node = node.start().unwrap();
        let sent = frames(300);
        for frame in &sent {
            assert!(a.send(frame) && b.send(frame));
            assert_eq!((&next(&b), &next(&a)), (frame, frame), "{wait}");
        }
        assert!(a.send(&[1, 2, 3]), "too short for any header");
        let seen = until(&node, |seen| seen.accounting.entered == 601);
        assert_eq!((seen.accounting.left, seen.accounting.drops.total()), (600, 1), "{wait}: {seen:?}");
        assert_eq!((seen.ports[0].received, seen.ports[1].sent), (301, 300), "{wait}: {seen:?}");
        if wait == "sleep" {
            until(&node, |later| later.sleeps > seen.sleeps);
        }
        // What waits when it is asked to end still leaves, or never came in.
        sent.iter().for_each(|frame| assert!(a.send(frame)));
        let last = Snapshot::sum(&node.stop().threads.unwrap());
        assert!(last.accounting.balance(), "{wait}: {last:?}");
        assert_eq!(
            last.accounting.entered,
            last.ports.iter().map(|port| port.received).sum::<u64>(),
            "{wait}"
        );
        let left = std::iter::from_fn(|| b.receive()).count() as u64;
        assert_eq!(left + 300, last.ports[1].sent, "{wait}: {last:?}");
    }
}

/// A frame of a separate flow.
fn of_flow(frame: &[u8], n: u32) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[26..30].copy_from_slice(&(0xc612_0000 + n % 500).to_be_bytes());
    frame[34..36].copy_from_slice(&(1000 + n / 500).to_be_bytes()[2..]);
    write_ipv4(&mut frame[14..34]);
    frame
}

#[test]
fn a_large_table_is_shown_whole_while_frames_pass() {
    const SESSIONS: u32 = 200_000;
    let text = "lan > nat(public 192.0.2.0/28) > wan";
    let [(left, a), (right, b)] = [(); 2].map(|()| Memory::new().unwrap());
    let ports = vec![Box::new(left) as Box<dyn Port>, Box::new(right)];
    let node = Opened::between(&config(text), vec![ports]).unwrap().start().unwrap();
    let frame = frames(1).remove(0);
    let pass = |flows: std::ops::Range<u32>| {
        flows.clone().for_each(|n| assert!(a.send(&of_flow(&frame, n))));
        flows.for_each(|_| _ = next(&b));
    };
    (0..SESSIONS / 500).for_each(|n| pass(500 * n..500 * (n + 1)));
    let (passed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                pass(0..1);
                passed.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Until so many have passed during a listing.
        let deadline = Instant::now() + PATIENCE;
        let mut during = 0;
        while during < 100 && Instant::now() < deadline {
            let before = passed.load(Ordering::Relaxed);
            let (live, shown) = all_sessions(&node);
            during += passed.load(Ordering::Relaxed) - before;
            let different: BTreeSet<&str> =
                shown.iter().map(|line| line.split(" as ").next().unwrap()).collect();
            assert_eq!(live, u64::from(SESSIONS));
            assert_eq!((shown.len(), different.len()), (SESSIONS as usize, SESSIONS as usize));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(during >= 100, "{during} frames passed while all was shown");
    });
    let first = node.sessions(&SessionsQuery { most: Some(1), ..SessionsQuery::default() }).unwrap();
    let one = &first.sessions[0];
    let SessionRecord::Nat(NatSession { inside, .. }) = one else { panic!("{one}") };
    let of_host = SessionsQuery { address: Some(inside.ip()), ..SessionsQuery::default() };
    let found = pages(&node, of_host);
    assert!(found.contains(one) && found.iter().all(|record| record.has(inside.ip())), "{found:?}");
    assert!(Snapshot::sum(&node.stop().threads.unwrap()).accounting.balance());
}

#[test]
fn threads_of_a_node_pass_what_belongs_to_others_and_the_accounting_close() {
    for wait in ["sleep", "poll"] {
        let text = format!("lan filter(count all state new, accept) > wan run(wait {wait}, threads 3)");
        let mut ends = Vec::new();
        let part = |_| {
            let [(left, a), (right, b)] = [(); 2].map(|()| Memory::new().unwrap());
            ends.push([a, b]);
            vec![Box::new(left) as Box<dyn Port>, Box::new(right)]
        };
        let parts = (0..3).map(part).collect();
        let node = Opened::between(&config(&text), parts).unwrap().start().unwrap();
        assert_eq!(node.threads().len(), 3);
        let flow = |n: u32| {
            let mut frame = frames(1).remove(0);
            frame[26..30].copy_from_slice(&(0xc612_0000 + n).to_be_bytes());
            frame[24..26].fill(0);
            let checksum = !weir_packet::checksum::fold(weir_packet::checksum::sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            frame
        };
        // Each flow is of one thread, wherever its frames come in.
        for n in 0..100 {
            ends.iter().for_each(|[a, _]| assert!(a.send(&flow(n))));
        }
        let total = |node: &Node| Snapshot::sum(&node.count().unwrap());
        let deadline = Instant::now() + PATIENCE;
        while total(&node).accounting.left < 300 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(all_sessions(&node).0, 100, "{wait}: each is known to one thread");
        let rules = node.rules().unwrap();
        assert_eq!(rules[1].frames, 300, "{wait}: all threads count");
        // What is in a ring when it is asked to end still leaves.
        for n in 0..250 {
            assert!(ends[n as usize % 3][0].send(&flow(n)));
        }
        let threads = node.stop().threads.unwrap();
        let last = Snapshot::sum(&threads);
        assert!(
            threads.iter().all(|thread| thread.accounting.balance() && thread.accounting.left > 50),
            "{threads:?}"
        );
        let (accounting, sent) = (&last.accounting, last.ports[1].sent);
        assert_eq!(
            (accounting.entered, accounting.handed),
            (accounting.left, accounting.taken),
            "{wait}: {last:?}"
        );
        assert!(accounting.handed > 150 && accounting.left >= 300, "{wait}: {last:?}");
        let came = ends.iter().map(|[_, b]| std::iter::from_fn(|| b.receive()).count() as u64).sum::<u64>();
        assert_eq!((came, accounting.left), (sent, sent), "{wait}");
    }
}

#[test]
fn held_fragments_that_become_longer_than_frames_leave() {
    let config = config("lan > nat(public 192.0.2.1, prefix64 2001:db8:64::/96) > wan");
    let [(left, a), (right, b)] = [(); 2].map(|()| Memory::new().unwrap());
    let ports = vec![Box::new(left) as Box<dyn Port>, Box::new(right)];
    let node = Opened::between(&config, vec![ports]).unwrap().start().unwrap();
    let frame = |line: &str, ether_type: [u8; 2]| {
        [&[2; 12][..], &ether_type, &packet(line).expect("a packet")].concat()
    };
    assert!(a.send(&frame("udp [2001:db8::1]:1 > [2001:db8:64::c613:9]:53", [0x86, 0xdd])));
    let out = next(&b);
    let port = u16::from_be_bytes([out[34], out[35]]);
    // As long as chunks have room for, and not to be cut.
    let later = frame("udp 198.19.0.9 > 192.0.2.1 len 1744 whole 3488 frag 1752 id 9 df", [8, 0]);
    let first =
        frame(&format!("udp 198.19.0.9:53 > 192.0.2.1:{port} len 1744 whole 3488 frag 0+ id 9 df"), [8, 0]);
    assert!(b.send(&later) && b.send(&first));
    assert_eq!([next(&a).len(), next(&a).len()], [first.len() + 28, later.len() + 28]);
    assert!(Snapshot::sum(&node.stop().threads.unwrap()).accounting.balance());
}

#[test]
fn stages_come_and_go_in_a_node_and_their_end_is_reported() {
    let (nat, plain) = ("lan > nat(public 192.0.2.1, log sessions) > wan", "lan > wan");
    let [(left, a), (right, b)] = [(); 2].map(|()| Memory::new().unwrap());
    let ports = vec![Box::new(left) as Box<dyn Port>, Box::new(right)];
    let node = Opened::between(&config(nat), vec![ports]).unwrap().start().unwrap();
    let frame =
        [&[2; 12][..], &[8, 0], &packet("udp 198.18.0.1:5 > 198.19.0.9:53").expect("a packet")].concat();
    let source = |node: &Node, text: &str| {
        node.apply(&config(text)).unwrap();
        assert!(a.send(&frame));
        next(&b)[26..30].to_vec()
    };
    let whole = [
        EventKind::BlockAllocated,
        EventKind::SessionCreated,
        EventKind::BlockReleased,
        EventKind::SessionDeleted,
    ];
    let reported = |(events, lost): (Vec<weir_plane::Event>, u64)| {
        assert_eq!(lost, 0);
        assert!(events.is_sorted_by_key(|event| event.at), "{events:?}");
        events.iter().map(|event| event.kind).collect::<Vec<_>>()
    };
    assert_eq!(source(&node, nat), [192, 0, 2, 1]);
    assert_eq!(source(&node, "lan > filter(log 1/1 udp, policy accept) > wan"), [198, 18, 0, 1]);
    assert_eq!(reported(node.events().unwrap()), whole);
    assert_eq!(reported(node.events().unwrap()), [], "once");
    assert_eq!(source(&node, plain), [198, 18, 0, 1]);
    assert_eq!(node.logged().unwrap().len(), 1, "what a filter wrote down that has gone");
    assert_eq!(node.logged().unwrap().len(), 0, "once");
    assert_eq!(source(&node, nat), [192, 0, 2, 1]);
    assert_eq!(source(&node, plain), [198, 18, 0, 1]);
    let ended = node.stop();
    assert_eq!(reported(ended.events), whole, "also where nobody has asked before the end");
    let accounting = Snapshot::sum(&ended.threads.unwrap()).accounting;
    assert!(accounting.balance() && accounting.drops.total() == 0, "{accounting:?}");
}

/// Sends a datagram from each of so many hosts, of which the first has this number, and waits until all have left.
fn hosts_send(node: &Node, (a, b): (&MemoryEnd, &MemoryEnd), first: u32, hosts: u32) {
    let before = Snapshot::sum(&node.snapshots()).accounting.entered;
    for host in first..first + hosts {
        let host = std::net::Ipv4Addr::from(0xc612_0000 + host);
        let packet = packet(&format!("udp {host}:5 > 198.19.255.9:53")).expect("a packet");
        let frame = [&[2; 12][..], &[8, 0], &packet].concat();
        while !a.send(&frame) {
            while b.receive().is_some() {}
        }
    }
    let left = until(node, |seen| {
        while b.receive().is_some() {}
        seen.accounting.entered - before >= u64::from(hosts)
    });
    assert_eq!(left.accounting.drops.total(), 0, "{left:?}");
}

#[test]
fn blocks_of_ports_are_known_whatever_the_log_holds_and_however_many_there_are() {
    let nat = "lan > nat(public 192.0.2.0/24, block 64, log nothing) > wan";
    let [(left, a), (right, b)] = [(); 2].map(|()| Memory::new().unwrap());
    let ports = vec![Box::new(left) as Box<dyn Port>, Box::new(right)];
    let node = Opened::between(&config(nat), vec![ports]).unwrap().start().unwrap();
    let ends = (&a, &b);
    hosts_send(&node, ends, 1, 3);
    let events = node.block_events().unwrap().expect("they were few");
    assert!(events.iter().all(|event| matches!(event, BlockEvent::Allocated(_))), "{events:?}");
    assert_eq!(events.len(), 3);
    assert_eq!(node.block_events().unwrap(), Some(Vec::new()), "once");
    assert_eq!(node.events().unwrap(), (Vec::new(), 0), "the log holds nothing");
    hosts_send(&node, ends, 4, 70_000);
    assert_eq!(node.block_events().unwrap(), None, "they were too many to be kept one by one");
    let hosts =
        |blocks: Vec<PortBlock>| blocks.iter().map(|block| block.inside).collect::<BTreeSet<_>>().len();
    assert_eq!(hosts(node.blocks().unwrap()), 70_003);
    assert_eq!(node.block_events().unwrap(), Some(Vec::new()), "all have been read");
    hosts_send(&node, ends, 70_004, 2);
    assert_eq!(node.block_events().unwrap().map(|events| events.len()), Some(2));
    node.apply(&config("lan > wan")).unwrap();
    assert_eq!((node.block_events().unwrap(), node.blocks().unwrap()), (None, Vec::new()), "the NAT is gone");
    node.apply(&config(nat)).unwrap();
    hosts_send(&node, ends, 1, 5);
    assert_eq!(hosts(node.stop().blocks), 5, "nobody has asked since the NAT is there");
}

/// So many frames as a capture file.
fn capture_of(frames: &[Vec<u8>]) -> Vec<u8> {
    use weir_port::pcapng::{ETHERNET, Interface, Packet, write};
    let mut capture = vec![];
    write::section(&mut capture, &write::Author::default());
    write::interface(&mut capture, &Interface { link_type: ETHERNET, ..Interface::default() });
    for bytes in frames {
        let wire_len = bytes.len() as u32;
        write::packet(&mut capture, &Packet { interface: 0, at_ns: 1, wire_len, bytes, dropped: 0 });
    }
    capture
}

/// Its writer was killed, or the disk was full: what is whole is forwarded, and the node says where the file ends.
#[test]
fn a_node_forwards_all_that_is_complete_of_a_file_that_ends_early() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [from, to] = ["node-cut.pcapng", "node-cut-out.pcapng"].map(|name| folder.join(name));
    let capture = capture_of(&frames(201));
    std::fs::write(&from, &capture[..capture.len() - 5]).unwrap();
    let _ = std::fs::remove_file(&to);
    let text = format!("lan(on pcapng:{}:) > wan(on pcapng::{})", from.display(), to.display());
    let node = Opened::new(&config(&text)).unwrap().start().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !node.has_ended() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let ended = node.stop();
    let last = Snapshot::sum(&ended.threads.unwrap());
    assert_eq!((last.accounting.left, last.ports[1].sent), (200, 200), "{last:?}");
    let [reason] = &ended.ended_early[..] else { panic!("{:?}", ended.ended_early) };
    assert!(reason.starts_with(&format!("{}: at byte", from.display())), "{reason}");
}

#[test]
fn a_node_with_files_ends_with_them() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [from, to] = ["node-in.pcapng", "node-out.pcapng"].map(|name| folder.join(name));
    std::fs::write(&from, capture_of(&frames(200))).unwrap();
    // That of an earlier run; a node makes only what is not there.
    let _ = std::fs::remove_file(&to);
    let (from_name, to_name) = (from.display(), to.display());
    let text = format!(
        "lan(on pcapng:{from_name}:) > nat(public 192.0.2.1, log sessions) > wan(on pcapng::{to_name})"
    );
    let node = Opened::new(&config(&text)).unwrap().start().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !node.has_ended() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let ended = node.stop();
    let last = Snapshot::sum(&ended.threads.unwrap());
    assert_eq!(
        (last.accounting.entered, last.accounting.left, last.ports[1].sent),
        (200, 200, 200),
        "{last:?}"
    );
    let happened: Vec<EventKind> = ended.events.0.iter().map(|event| event.kind).collect();
    assert_eq!(happened, [EventKind::BlockAllocated, EventKind::SessionCreated], "nobody has asked before");
    assert!(std::fs::read(&to).unwrap().len() > 200 * 64);
}

#[test]
fn frames_pass_a_node_between_wires_of_the_kernel() {
    need_root!();
    for io in ["xdp", "packet", "packet, threads 2"] {
        let street = Street::new();
        let config = config(&format!("lan(on n0) > wan(on n1) run(io {io}, host none)"));
        let node = street.node.run(|| Opened::new(&config).unwrap().start().unwrap());
        let index = |side: usize| Rtnl::open().unwrap().link(HOST[side]).unwrap().ifindex;
        let mut receiver = street.hosts[1].run(|| Receiver::open(index(1), 16 << 20).unwrap());
        let sender = street.hosts[0].run(|| Sender::open(index(0)).unwrap());
        let sent = frames(900);
        for some in sent.chunks(60) {
            assert_eq!(sender.send(some).unwrap(), 60);
            let mut came: Vec<Vec<u8>> = vec![];
            let deadline = Instant::now() + PATIENCE;
            while came.len() < 60 && Instant::now() < deadline {
                // Before Linux 6.3, a port finds out with a frame of the experimental protocol what the wire takes.
                let mut note = |frame: &[u8]| {
                    if frame[12..14] != [0x88, 0xb5] {
                        came.push(frame.to_vec());
                    }
                };
                receiver.receive(Duration::from_millis(50), &mut note).unwrap();
            }
            // A sender that moves to another CPU has frames on two ways into the node.
            let mut some = some.to_vec();
            came.sort();
            some.sort();
            assert!(came == some, "{io}: {} of 60 frames, or others", came.len());
        }
        let last = Snapshot::sum(&node.stop().threads.unwrap());
        assert!(last.accounting.balance() && last.accounting.left == 900, "{io}: {last:?}");
        // Nothing of it is left at the interfaces.
        let again = street.node.run(|| Opened::new(&config).map(drop));
        again.unwrap();
    }
}

#[test]
fn a_node_ends_when_an_interface_of_its_own_has_gone() {
    need_root!();
    for io in ["xdp", "packet", "packet, threads 2"] {
        let Street { hosts: [left, right], node } = Street::new();
        let config = config(&format!("lan(on n0) > wan(on n1) run(io {io})"));
        let running = node.run(|| Opened::new(&config).unwrap().start().unwrap());
        // Its wire goes with the namespace of the host.
        drop(left);
        let deadline = Instant::now() + PATIENCE;
        while !running.has_ended() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let why = running.stop().threads.expect_err("a port is gone").to_string();
        assert!(why.contains("interface n0 has vanished"), "{io}: {why}");
        drop(right);
    }
}

/// Sets an interface up, with an address and a gateway.
fn settle(end: End<'_>, own: &str, gateway: &str) {
    set_up(end, true);
    address(end, own);
    default_route(end, gateway);
}

/// Sends what it hears back until the other side is done.
fn echo(listener: &TcpListener) {
    let (mut stream, from) = accept(listener);
    assert_eq!(from.ip().to_string(), "198.19.0.33", "it is translated");
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
}

/// Between a TAP device and a veth, both with the offloads that the kernel gives them: large frames and partial checksums
/// come from either side.
#[test]
fn a_machine_behind_a_tap_device_talks_through_a_nat_with_all_offloads() {
    need_root!();
    for io in ["packet", "xdp"] {
        let [right, node] = [(); 2].map(|()| Namespace::new().unwrap());
        join([(&right, "r0"), (&node, "n1")], Wire { number: 1, queues: 1 });
        settle((&right, "r0"), "198.19.0.2", "198.19.0.1");
        set_up((&node, "n1"), true);
        let text = format!(
            "lan(198.18.0.1/24, on tap:t0, mac 02:00:00:00:09:01) > nat(public 198.19.0.33) > route \
             > wan(198.19.0.1/24, on n1) run(io {io}, host none)"
        );
        let running = node.run(|| Opened::new(&config(&text)).unwrap().start().unwrap());
        settle((&node, "t0"), "198.18.0.2", "198.18.0.1");
        let listener = right.run(|| TcpListener::bind("198.19.0.2:7000").unwrap());
        let server = std::thread::spawn(move || echo(&listener));
        let sent: Vec<u8> = (0..2_000_000_u32).map(|n| (n / 7) as u8).collect();
        let mut stream = node.run(|| TcpStream::connect("198.19.0.2:7000").unwrap());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut came = vec![];
        stream.read_to_end(&mut came).unwrap();
        assert!(came == sent, "{io}: {} of {} bytes, or others", came.len(), sent.len());
        server.join().unwrap();
        let seen = Snapshot::sum(&running.stop().threads.unwrap());
        assert!(seen.accounting.balance() && seen.ports[0].received > 1000, "{io}: {seen:?}");
    }
}

/// A node with a tagged port on `v0`, whose machine has the TAP device `m0` there.
fn with_machine(namespace: &Namespace, own: &str, mac: u8, run: &str) -> Node {
    let text = format!(
        "peer({own}/24, vlan 100.5, mtu 1400, mac 02:00:00:00:09:0{mac}, host tap m0, on v0)
            filter(accept state established, accept tcp to any port 7000, policy drop)
            > route > rest(192.0.2.1/24, on tap:r0)
         run(host none, {run})"
    );
    namespace.run(|| Opened::new(&config(&text)).unwrap().start().unwrap())
}

/// Two machines without VLAN interfaces, whose nodes put the tags on and take them off.
#[test]
fn machines_talk_by_the_tap_devices_of_tagged_ports() {
    need_root!();
    for run in ["io packet", "io xdp", "io packet, threads 2"] {
        let [left, right] = [(); 2].map(|()| Namespace::new().unwrap());
        let ends = [(&left, "v0"), (&right, "v0")];
        join(ends, Wire { number: 1, queues: 2 });
        ends.into_iter().for_each(|end| set_up(end, true));
        let nodes = [(&left, "198.18.0.1", 1), (&right, "198.18.0.2", 2)]
            .map(|(at, own, mac)| with_machine(at, own, mac, run));
        address((&left, "m0"), "198.18.0.1");
        address((&right, "m0"), "198.18.0.2");
        let device = left.run(|| Rtnl::open().unwrap().link("m0").unwrap());
        assert_eq!((device.mac, device.mtu, device.up), ([2, 0, 0, 0, 9, 1], 1400, true), "{run}");
        let listener = right.run(|| TcpListener::bind("198.18.0.2:7000").unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = accept(&listener);
            let mut bytes = vec![];
            stream.read_to_end(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
        let mut stream = left.run(|| TcpStream::connect("198.18.0.2:7000").unwrap());
        be_patient(&stream);
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut came = vec![];
        stream.read_to_end(&mut came).unwrap();
        assert!(came == sent, "{run}: {} of {} bytes, or others", came.len(), sent.len());
        server.join().unwrap();
        for node in nodes {
            let seen = Snapshot::sum(&node.stop().threads.unwrap());
            let all = &seen.accounting;
            assert!(all.balance() && all.originated > 500 && all.local.total() > 500, "{run}: {seen:?}");
        }
    }
}

#[test]
fn what_nobody_takes_is_dropped_and_counted() {
    for (host, no_local) in [("", 0), (" run(host none)", 1)] {
        let [(left, a), (right, _b)] = [(); 2].map(|()| Memory::new().unwrap());
        let ports = vec![Box::new(left) as Box<dyn Port>, Box::new(right)];
        let text = format!("lan(198.18.0.1/24) > route > wan(198.19.0.1/24){host}");
        let node = Opened::between(&config(&text), vec![ports]).unwrap().start().unwrap();
        let packet = packet("tcp 198.18.0.5:1000 > 198.18.0.1:22 S").expect("a packet");
        assert!(a.send(&[&[0xff; 6][..], &[2; 6], &[8, 0], &packet].concat()));
        until(&node, |seen| seen.accounting.entered == 1);
        let last = Snapshot::sum(&node.stop().threads.unwrap()).accounting;
        assert!(last.balance(), "{last:?}");
        assert_eq!(
            (last.drops[DropReason::NoLocal], last.local.total()),
            (no_local, 1 - no_local),
            "{last:?}"
        );
    }
}
