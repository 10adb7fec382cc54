//! Ports that come, change and go while other ports forward frames, which lose none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_node::{Config, Node, Opened, PartsOfPort, Query, Snapshot};
use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_plane::DropReason;
use weir_port::duplex::{Memory, MemoryEnd, Port, wait};
use weir_port::packet::{self, Receiver};
use weir_testkit::{PATIENCE, need_root};

use crate::run::next;
use crate::street::{HOST, Street, THIRD};

pub(crate) fn config(text: &str) -> Config {
    Config::read("n", text, &|name| Err(format!("no file {name}")))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A frame with a number, between so many hosts: threads hand some of them over.
fn frame(number: u32) -> Vec<u8> {
    let flow = Flow { src: 0xc612_0001 + number % 16, dst: 0xc613_0001, sport: 1, dport: 2, group: 0 };
    let mut frame = Ends::v4([2; 6], [4; 6]).frame(&flow, 64, Signature::default());
    let at = frame.len() - 4;
    frame[at..].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().unwrap())
}

/// The parts of a port for so many threads, and the other ends of its wires.
fn wires(threads: usize) -> (PartsOfPort, Vec<MemoryEnd>) {
    let one = |_| {
        let (port, end) = Memory::new().unwrap();
        (Box::new(port) as Box<dyn Port>, end)
    };
    (0..threads).map(one).unzip()
}

/// A node between wires in memory, and their other ends, by port and by thread.
fn between(config: &Config, ports: usize) -> (Node, Vec<Vec<MemoryEnd>>) {
    let threads = config.settings.threads.len();
    let mut of_threads: Vec<Vec<Box<dyn Port>>> = (0..threads).map(|_| Vec::new()).collect();
    let mut ends = Vec::new();
    for _ in 0..ports {
        let (parts, far) = wires(threads);
        of_threads.iter_mut().zip(parts).for_each(|(thread, part)| thread.push(part));
        ends.push(far);
    }
    (Opened::between(config, of_threads).unwrap().start().unwrap(), ends)
}

/// The number of frames that a port sends which has come.
const OTHER: u32 = u32::MAX;

/// Sends numbered frames to the node until `stop` is set, at most `ON_THE_WAY` more than were received; returns their number. Reports
/// each frame of another port to `others`.
fn forward(from: &[MemoryEnd], to: &[MemoryEnd], stop: &AtomicBool, others: &Sender<()>) -> u32 {
    const ON_THE_WAY: u32 = 256;
    let (mut sent, mut received) = (0, Vec::new());
    let deadline = Instant::now() + PATIENCE;
    while !stop.load(Ordering::Relaxed) || received.len() < sent as usize {
        if !stop.load(Ordering::Relaxed) && sent - (received.len() as u32) < ON_THE_WAY {
            assert!(from[sent as usize % from.len()].send(&frame(sent)), "the wire has room");
            sent += 1;
        }
        let before = received.len();
        for number in to.iter().filter_map(MemoryEnd::receive).map(|frame| number(&frame)) {
            if number == OTHER {
                others.send(()).unwrap();
            } else {
                received.push(number);
            }
        }
        if received.len() == before && sent - (received.len() as u32) == ON_THE_WAY {
            let all: Vec<_> = to.iter().map(MemoryEnd::descriptor).collect();
            wait(&all, Duration::from_millis(100)).unwrap();
        }
        assert!(Instant::now() < deadline, "{} of {sent} frames came", received.len());
    }
    received.sort_unstable();
    assert!(received.iter().copied().eq(0..sent), "each frame came once");
    sent
}

/// Stops what forwards, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// 100 times a port comes, sends and gets frames, changes and goes, while two others forward.
#[test]
fn ports_come_and_go_and_the_others_lose_nothing() {
    for threads in [1, 2] {
        let run = format!("run(host none, threads {threads})");
        let text =
            |more: &str| config(&format!("lan {more} filter(accept state new, policy accept) wan {run}"));
        let (node, ends) = between(&text(""), 2);
        let stop = AtomicBool::new(false);
        let ((others, other), mut ports) = (channel(), Vec::new());
        let sent = std::thread::scope(|scope| {
            let _stops = Stop(&stop);
            let forwarded = scope.spawn(|| forward(&ends[0], &ends[1], &stop, &others));
            for n in 0..100 {
                let mut far = Vec::new();
                let open = |_: &weir_plane::Port| {
                    let (parts, ends) = wires(threads);
                    far = ends;
                    Ok(parts)
                };
                node.apply_between(&text(&format!("dmz{n}(on packet:dmz{n}, mac 02:00:00:00:00:07)")), open)
                    .unwrap();
                let refused = |_: &weir_plane::Port| -> Result<PartsOfPort, _> { panic!("no port comes") };
                node.apply_between(
                    &text(&format!("dmz{n}(on packet:dmz{n}, mac 02:00:00:00:00:07, mtu 1400, vlan 7)")),
                    refused,
                )
                .unwrap();
                ports.extend(ports_of(&node));
                far.iter().for_each(|end| assert!(end.send(&tagged(7, OTHER))));
                far.iter().for_each(|_| other.recv_timeout(PATIENCE).expect("what comes by it leaves"));
                node.apply_between(&text(""), refused).unwrap();
                assert!(node.port_names().iter().all(|name| !name.starts_with("dmz")), "{n}");
            }
            stop.store(true, Ordering::Relaxed);
            forwarded.join().unwrap()
        });
        let seen = Snapshot::sum(&node.stop().threads.unwrap()).accounting;
        assert!(seen.balance(), "{threads} threads: {seen:?}");
        let all = u64::from(sent) + 100 * threads as u64;
        assert_eq!(
            (seen.entered, seen.left, seen.handed),
            (all, all, seen.taken),
            "{threads} threads: {seen:?}"
        );
        // Numbers are used again.
        assert!(ports.iter().all(|number| *number < 90), "{ports:?}");
    }
}

/// The numbers of all ports.
fn ports_of(node: &Node) -> Vec<usize> {
    let Ok(weir_node::Answer::Ports(ports)) = node.query(&Query::Ports) else { panic!("ports") };
    ports.ports.iter().map(|port| port.number).collect()
}

/// Why a text is refused.
fn refused(node: &Node, text: &str) -> String {
    node.apply(&config(text)).expect_err(text).to_string()
}

#[test]
fn what_takes_a_restart_is_named() {
    let (node, ends) = between(&config("lan > wan run(host none)"), 2);
    for (text, expected) in [
        ("lan > wan run(host none, wait poll)", "another `wait` of `run`: this takes a restart of the node"),
        ("lan > wan run(host none, threads 2)", "another `threads` of `run`"),
        (
            "lan > wan run(host none, io packet)",
            "port `lan` on packet:lan, which is on xdp:lan: this takes a restart",
        ),
        ("lan(mtu 9000) > wan run(host none)", "mtu 9000 of `lan`, since frames have memory for 1762 bytes"),
        ("lan(host tap t0) > route > wan run(host none)", "another `host tap` of `lan`"),
        ("lan > wan dmz run(host none)", "dmz: "),
        (
            "lan > wan dmz(mac 02:00:00:00:00:07) run(host none)",
            "port dmz: AF_XDP ports come only to a node that has begun with one: write packet:dmz, or begin it anew",
        ),
        ("lan > wan dmz(on packet:weir-none, mac 02:00:00:00:00:07) run(host none)", "port dmz: "),
        ("lan(10.0.0.1/8) > route > wan run(host none)", "a bump becomes a router only when"),
    ] {
        let wrong = refused(&node, text);
        assert!(wrong.contains(expected), "{text}: {wrong}");
        assert_eq!(node.port_names(), ["lan", "wan"]);
    }
    node.apply(&config("lan(mtu 1400) > wan run(host none)")).unwrap();
    // A chunk has room for more than the ports had at the start.
    node.apply(&config("lan(mtu 1762) > wan(mtu 1762) run(host none)")).unwrap();
    let longest = [&[6; 12][..], &[0x88, 0xb5], &[0; 1762]].concat();
    assert!(ends[0][0].send(&longest));
    assert_eq!(next(&ends[1][0]), longest);
}

/// Waits for frames with these numbers.
fn receive(receiver: &mut Receiver, expected: &[u32]) {
    let deadline = Instant::now() + PATIENCE;
    let mut got = Vec::new();
    while got.len() < expected.len() {
        assert!(Instant::now() < deadline, "{got:?} of {expected:?} came");
        receiver.receive(Duration::from_millis(100), |bytes| got.push(number(bytes))).unwrap();
    }
    assert_eq!(got, expected);
}

/// A frame with this tag.
fn tagged(tag: u16, of: u32) -> Vec<u8> {
    let mut frame = frame(of);
    let [high, low] = tag.to_be_bytes();
    frame.splice(12..12, [0x81, 0, high, low]);
    frame
}

/// Two ports on one interface: each gets frames of its tags before and behind a change, and the kernel keeps the others away.
#[test]
fn sockets_take_other_tags_and_ports_come_to_their_interface() {
    need_root!();
    for threads in [1, 2] {
        let street = Street::new();
        let text = |ports: &str| {
            config(&format!(
                "{ports} filter(policy accept) wan(on packet:n1) run(host none, threads {threads})"
            ))
        };
        let lan = |tags: &str| format!("lan(on packet:n0, vlan {tags})");
        let node = street.node.run(|| Opened::new(&text(&lan("5"))).unwrap().start().unwrap());
        let apply = |ports: &str| street.node.run(|| node.apply(&text(ports))).unwrap();
        let at =
            |side: usize| street.hosts[side].run(|| Rtnl::open().unwrap().link(HOST[side]).unwrap().ifindex);
        let (left, right) = (at(0), at(1));
        let sender = street.hosts[0].run(|| packet::Sender::open(left)).unwrap();
        let mut receiver = street.hosts[1].run(|| Receiver::open(right, 1 << 20)).unwrap();
        // Frames for another thread may be behind those that were seen to leave.
        let entered = |frames: u64, unknown: u64| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let seen = Snapshot::sum(&node.count().unwrap()).accounting;
                let now = (seen.entered, seen.drops[DropReason::UnknownVlan]);
                if now == (frames, unknown) {
                    return;
                }
                assert!(now.0 <= frames && Instant::now() < deadline, "{now:?}, not {frames}, {unknown}");
            }
        };
        sender.send(&[tagged(5, 1)]).unwrap();
        receive(&mut receiver, &[1]);
        // In place; the interface has no other port, so that the node drops what has other tags.
        apply(&lan("6"));
        sender.send(&[tagged(5, 2), tagged(6, 3)]).unwrap();
        receive(&mut receiver, &[3]);
        entered(3, 1);
        // Another port comes to the interface: the kernel tells them apart.
        apply(&format!("{} dmz(on packet:n0, vlan 7)", lan("6")));
        sender.send(&[tagged(5, 4), tagged(6, 5), tagged(7, 6)]).unwrap();
        let mut got = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while got.len() < 2 && Instant::now() < deadline {
            receiver.receive(Duration::from_millis(100), |bytes| got.push(number(bytes))).unwrap();
        }
        got.sort_unstable();
        assert_eq!(got, [5, 6]);
        entered(5, 1);
        // Tags change places.
        apply(&format!("{} dmz(on packet:n0, vlan 6)", lan("7")));
        sender.send(&[tagged(7, 7)]).unwrap();
        receive(&mut receiver, &[7]);
        entered(6, 1);
        let counts = Snapshot::sum(&node.count().unwrap());
        let (lan_number, names) = (0, node.port_names());
        assert_eq!((counts.ports[lan_number].received, &names[lan_number][..]), (5, "lan"), "{names:?}");
        // One goes, and the other has the interface alone.
        apply("dmz(on packet:n0, vlan 6)");
        sender.send(&[tagged(7, 8), tagged(6, 9)]).unwrap();
        receive(&mut receiver, &[9]);
        entered(8, 2);
        // An interface that does not exist: nothing has changed.
        let wrong = street.node.run(|| node.apply(&text("dmz(on packet:n0, vlan 6) x(on packet:n9)")));
        let wrong = wrong.expect_err("there is no n9").to_string();
        assert!(wrong.starts_with("port x: ") && wrong.contains("n9"), "{wrong}");
        sender.send(&[tagged(6, 10)]).unwrap();
        receive(&mut receiver, &[10]);
        let ended = Snapshot::sum(&node.stop().threads.unwrap());
        assert!(ended.accounting.balance(), "{ended:?}");
    }
}

/// 50 times a socket with a tag comes to the interface of a port and goes, while that port forwards over wires of the kernel.
#[test]
fn sockets_come_and_go_beside_one_that_loses_nothing() {
    const BURST: u32 = 32;
    need_root!();
    let street = Street::new();
    let text = |more: &str| {
        let ports = format!("lan(on packet:n0) {more} filter(policy accept) wan(on packet:n1)");
        config(&format!("{ports} run(host none)"))
    };
    let node = street.node.run(|| Opened::new(&text("")).unwrap().start().unwrap());
    let at = |side: usize| street.hosts[side].run(|| Rtnl::open().unwrap().link(HOST[side]).unwrap().ifindex);
    let (left, right) = (at(0), at(1));
    let sender = street.hosts[0].run(|| packet::Sender::open(left)).unwrap();
    let mut receiver = street.hosts[1].run(|| Receiver::open(right, 1 << 20)).unwrap();
    let stop = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let stops = Stop(&stop);
        let forwarded = scope.spawn(|| {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                sender.send(&(sent..sent + BURST).map(frame).collect::<Vec<_>>()).unwrap();
                receive(&mut receiver, &(sent..sent + BURST).collect::<Vec<_>>());
                sent += BURST;
            }
            sent
        });
        for n in 0..50 {
            street.node.run(|| node.apply(&text(&format!("dmz{n}(on packet:n0, vlan 7)")))).unwrap();
            node.apply(&text("")).unwrap();
        }
        drop(stops);
        forwarded.join().unwrap()
    });
    let seen = Snapshot::sum(&node.stop().threads.unwrap()).accounting;
    assert!(seen.balance() && sent > 0, "{seen:?}");
    assert_eq!((seen.entered, seen.left), (sent.into(), sent.into()), "{seen:?}");
}

/// 20 times an AF_XDP port comes, gets and sends a frame, gets its first tag and goes, while two others forward over wires of the kernel. Its chunks come
/// back, or the node would run out of them.
#[test]
fn af_xdp_ports_come_and_go_and_the_others_lose_nothing() {
    const BURST: u32 = 32;
    const TIMES: u32 = 20;
    need_root!();
    for threads in [1, 2] {
        let (street, third) = (Street::with_queues(threads), Namespace::new().unwrap());
        street.join_third(&third, threads);
        let text = |more: &str| {
            let ports = format!("{more} lan(on xdp:n0) filter(policy accept) wan(on xdp:n1)");
            config(&format!("{ports} run(host none, ports change, threads {threads})"))
        };
        let node = street.node.run(|| Opened::new(&text("")).unwrap().start().unwrap());
        let index =
            |host: &Namespace, name: &str| host.run(|| Rtnl::open().unwrap().link(name).unwrap().ifindex);
        let (left, right) = (index(&street.hosts[0], HOST[0]), index(&street.hosts[1], HOST[1]));
        let far = index(&third, THIRD);
        let sender = |host: &Namespace, index: u32| host.run(|| packet::Sender::open(index)).unwrap();
        let receiver = |host: &Namespace, index: u32| host.run(|| Receiver::open(index, 1 << 20)).unwrap();
        let from_left = sender(&street.hosts[0], left);
        let (from_right, mut at_right) = (sender(&street.hosts[1], right), receiver(&street.hosts[1], right));
        let (from_third, mut at_third) = (sender(&third, far), receiver(&third, far));
        let stop = AtomicBool::new(false);
        let (others, other) = channel();
        let sent = std::thread::scope(|scope| {
            let stops = Stop(&stop);
            let forwarded = scope.spawn(|| {
                let (mut sent, deadline) = (0, Instant::now() + 2 * PATIENCE);
                while !stop.load(Ordering::Relaxed) {
                    from_left.send(&(sent..sent + BURST).map(frame).collect::<Vec<_>>()).unwrap();
                    let mut got = Vec::new();
                    while got.len() < BURST as usize {
                        assert!(Instant::now() < deadline, "{got:?} came of {BURST} from {sent} on");
                        let count = |bytes: &[u8]| match number(bytes) {
                            OTHER => others.send(()).unwrap(),
                            number => got.push(number),
                        };
                        at_right.receive(Duration::from_millis(100), count).unwrap();
                    }
                    got.sort_unstable();
                    assert_eq!(got, (sent..sent + BURST).collect::<Vec<_>>());
                    sent += BURST;
                }
                sent
            });
            for n in 0..TIMES {
                let comes = text(&format!("dmz{n}(on xdp:n2)"));
                street.node.run(|| node.apply(&comes)).unwrap();
                from_third.send(&[frame(OTHER)]).unwrap();
                other.recv_timeout(PATIENCE).expect("what comes by it leaves");
                from_right.send(&[frame(n)]).unwrap();
                receive(&mut at_third, &[n]);
                let tagged_port = text(&format!("dmz{n}(on xdp:n2, vlan 7)"));
                street.node.run(|| node.apply(&tagged_port)).unwrap();
                from_third.send(&[tagged(7, OTHER)]).unwrap();
                other.recv_timeout(PATIENCE).expect("what comes by it leaves");
                node.apply(&text("")).unwrap();
            }
            drop(stops);
            forwarded.join().unwrap()
        });
        let seen = Snapshot::sum(&node.stop().threads.unwrap()).accounting;
        assert!(seen.balance() && sent > 0, "{threads} threads: {seen:?}");
        let all = u64::from(sent) + 3 * u64::from(TIMES);
        assert_eq!((seen.entered, seen.left), (all, all), "{threads} threads: {seen:?}");
    }
}

/// Without memory for its queues a port is refused, and a port that goes leaves its memory to another one.
#[test]
fn an_af_xdp_port_without_memory_is_refused() {
    need_root!();
    let (street, third) = (Street::new(), Namespace::new().unwrap());
    street.join_third(&third, 1);
    let text = |left: &str| config(&format!("{left} > wan(on xdp:n1) run(host none)"));
    let node = street.node.run(|| Opened::new(&text("lan(on xdp:n0)")).unwrap().start().unwrap());
    let apply = |left: &str| street.node.run(|| node.apply(&text(left)));
    let wrong =
        apply("lan(on xdp:n0) filter(policy accept) > dmz(on xdp:n2)").expect_err("no memory").to_string();
    let expected = "port dmz: capturing: n2 has 1 receive queues for each thread, and there is memory for the frames of 0: ";
    assert!(wrong.starts_with(expected), "{wrong}");
    apply("lan(on packet:n0) filter(policy accept)").unwrap();
    apply("lan(on packet:n0) dmz(on xdp:n2) filter(policy accept)").unwrap();
    assert!(Snapshot::sum(&node.stop().threads.unwrap()).accounting.balance());
}
