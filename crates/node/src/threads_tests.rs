//! Several threads of a node, here without threads: each works when the test has it do so.

use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Mac, Signature};
use weir_packet::neighbour::{Heard, Host, answer, parse, question};
use weir_plane::scenario::packet;
use weir_plane::{Config, DropReason, Plane, PortId, Share, Time};
use weir_port::bpf::now_ns;
use weir_port::duplex::{Memory, MemoryEnd, Pool, Port};

use crate::config::Wait;
use crate::counters::Snapshot;
use crate::handover::{RING_BYTES, exchanges};
use crate::worker::{Machine, Parts, Recipient, Worker};

const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const HOST: Mac = [2, 0, 0, 0, 0xcc, 1];

fn config(text: &str) -> Config {
    Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Workers, and for each the remote ends of its parts of the ports.
struct Rig {
    workers: Vec<Worker>,
    wires: Vec<[MemoryEnd; 2]>,
}

impl Rig {
    fn new(text: &str, threads: u8, ring_bytes: usize) -> Rig {
        Rig::on(|ports| Machine::at(ports, Recipient::None), text, threads, ring_bytes)
    }

    fn on(
        mut machine: impl FnMut(&[weir_plane::Port]) -> Machine,
        text: &str,
        threads: u8,
        ring_bytes: usize,
    ) -> Rig {
        let mut config = config(text).shared_by(threads);
        let (mut workers, mut wires) = (Vec::new(), Vec::new());
        for (thread, exchange) in
            (0..threads).zip(exchanges(usize::from(threads), ring_bytes).expect("sockets"))
        {
            config.share = Share { thread, of: threads };
            let [(left, a), (right, b)] = [(); 2].map(|()| Memory::new().expect("descriptors"));
            wires.push([a, b]);
            workers.push(Worker::new(Parts {
                plane: Plane::new(&config, &MACS),
                ports: vec![Box::new(left) as Box<dyn Port>, Box::new(right)],
                pool: Pool::new(4096, 1518).expect("memory"),
                most_chunks: 64,
                machine: machine(&config.ports),
                exchange,
                wait: Wait::Sleep,
                start_ns: now_ns(),
            }));
        }
        Rig { workers, wires }
    }

    /// One of them becomes what another text says; it is not passed to the others.
    fn apply(&mut self, thread: usize, old: &str, new: &str) {
        let threads = self.workers.len() as u8;
        let old = config(old).shared_by(threads);
        let mut new = config(new).instead_of(&old, threads).expect("numbers");
        new.share = Share { thread: thread as u8, of: threads };
        self.workers[thread].plane.apply(Time::from_ns(now_ns()), &old, &new).expect("other stages");
    }

    /// All of them, until none has anything to do.
    fn settle(&mut self) {
        while self.workers.iter_mut().map(|worker| worker.turn().expect("it works")).fold(false, |a, b| a | b)
        {
        }
    }

    /// What has left by a port of the node, with the thread that it left by.
    fn left(&self, port: usize) -> Vec<(usize, Vec<u8>)> {
        let of = |(thread, ends): (usize, &[MemoryEnd; 2])| {
            std::iter::from_fn(|| ends[port].receive()).map(|frame| (thread, frame)).collect::<Vec<_>>()
        };
        self.wires.iter().enumerate().flat_map(of).collect()
    }

    fn counted(&mut self) -> Snapshot {
        let all: Vec<Snapshot> =
            self.workers.iter_mut().map(|worker| worker.snapshot().expect("counters")).collect();
        assert!(all.iter().all(|snapshot| snapshot.accounting.balance()), "{all:?}");
        let sum = Snapshot::sum(&all);
        assert_eq!(sum.accounting.handed, sum.accounting.taken, "{all:?}");
        sum
    }
}

/// A frame between host `n` of either side; outward or back.
fn frame(n: u32, outward: bool, bytes: u16) -> Vec<u8> {
    let (src_mac, dst_mac) = if outward { (HOST, MACS[0]) } else { (HOST, MACS[1]) };
    let ends = Ends::v4(src_mac, dst_mac);
    let (inside, outside) = ((0xc612_0000 + n, 1000), (0xc613_0000 + n, 53));
    let ((src, sport), (dst, dport)) = if outward { (inside, outside) } else { (outside, inside) };
    ends.frame(
        &Flow { src, dst, sport, dport, group: 0 },
        bytes,
        Signature { seq: n, ..Signature::default() },
    )
}

#[test]
fn both_directions_of_a_connection_meet_wherever_they_arrive() {
    let text = "lan filter(accept outward, accept state established) > wan";
    let mut rig = Rig::new(text, 3, RING_BYTES);
    for n in 1..=300_usize {
        assert!(rig.wires[n % 3][0].send(&frame(n as u32, true, 100)));
    }
    rig.settle();
    let mut by_thread = [0; 3];
    let left = rig.left(1);
    left.iter().for_each(|(thread, _)| by_thread[*thread] += 1);
    assert_eq!(left.len(), 300);
    assert!(by_thread.iter().all(|&frames| frames > 60), "spread: {by_thread:?}");
    for n in 1..=300_usize {
        assert!(rig.wires[n / 3 % 3][1].send(&frame(n as u32, false, 100)));
    }
    // This thread was not woken.
    assert!(rig.wires[0][1].send(&frame(301, false, 100)));
    rig.settle();
    assert_eq!(rig.left(0).len(), 300);
    let seen = rig.counted().accounting;
    assert_eq!((seen.entered, seen.left, seen.drops[DropReason::FilterPolicy]), (601, 600, 1), "{seen:?}");
    assert!((300..500).contains(&seen.handed), "two thirds of them: {seen:?}");
    let live: u32 = rig.workers.iter().map(|worker| worker.plane.connections()).sum();
    assert_eq!(live, 300);
}

#[test]
fn frames_without_state_stay_where_they_arrive() {
    for text in ["lan > wan", "lan filter(accept udp, policy drop) > wan"] {
        let mut rig = Rig::new(text, 2, RING_BYTES);
        for n in 0..100 {
            assert!(rig.wires[1][0].send(&frame(n, true, 100)));
        }
        rig.settle();
        assert!(rig.left(1).iter().all(|(thread, _)| *thread == 1), "{text}");
        let seen = rig.counted().accounting;
        assert_eq!((seen.left, seen.handed), (100, 0), "{text}");
    }
}

/// A machine with a TAP device at the first of these ports.
fn with_tap(ports: &[weir_plane::Port], takes: &[usize], ends: &mut Vec<MemoryEnd>) -> Machine {
    let (tap, end) = Memory::new().expect("descriptors");
    ends.push(end);
    let mut machine = Machine::at(ports, Recipient::None);
    machine.add_tap(Box::new(tap), PortId(takes[0] as u16), takes);
    machine
}

/// A packet between the node's address of a port and a host there, with these tags.
fn of_machine(line: &str, tags: &[u8]) -> Vec<u8> {
    let packet = packet(line).expect("a packet");
    let to_node = line.contains("> 198.18.0.1");
    let (to, from) = if to_node { (MACS[0], HOST) } else { (HOST, MACS[0]) };
    [&to[..], &from, tags, &[8, 0], &packet].concat()
}

#[test]
fn a_tap_device_has_frames_without_the_tags_of_its_port() {
    const TAGS: [u8; 8] = [0x88, 0xa8, 0x20, 100, 0x81, 0, 0, 5];
    let text = "lan(198.18.0.1/16, vlan 100.5, host tap t0) > route > wan(198.19.0.1/16)";
    let mut ends = Vec::new();
    let mut rig = Rig::on(|ports| with_tap(ports, &[0], &mut ends), text, 1, RING_BYTES);
    let free = rig.workers[0].free_chunks();
    let (asked, answered) = ("udp 198.18.0.5:7 > 198.18.0.1:7", "udp 198.18.0.1:7 > 198.18.0.5:7");
    assert!(rig.wires[0][0].send(&of_machine(asked, &TAGS)) && ends[0].send(&of_machine(answered, &[])));
    rig.settle();
    assert_eq!(ends[0].receive(), Some(of_machine(asked, &[])));
    let without_priority = [0x88, 0xa8, 0, 100, 0x81, 0, 0, 5];
    assert_eq!(rig.left(0), [(0, of_machine(answered, &without_priority))]);
    let seen = rig.counted();
    assert_eq!((seen.accounting.originated, seen.accounting.left), (1, 1), "{seen:?}");
    assert_eq!((rig.workers[0].free_chunks(), ends[0].receive()), (free, None));
}

/// One thread hears the machine, and its connections are of any.
#[test]
fn connections_of_the_machine_are_known_where_their_answers_arrive() {
    let rules = "filter(accept state established, accept inward, policy drop)";
    for stages in [rules.to_string(), format!("{rules} > nat(public 192.0.2.1)")] {
        let text = format!("lan(198.18.0.1/16, host tap t0) {stages} > route > wan(192.0.2.1/24)");
        let mut ends = Vec::new();
        let mut rig = Rig::on(|ports| with_tap(ports, &[0], &mut ends), &text, 3, RING_BYTES);
        for n in 2..=100 {
            let line = format!("udp 198.18.0.1:7 > 198.18.0.{n}:7");
            assert!(ends[0].send(&of_machine(&line, &[])));
            rig.settle();
            let left = rig.left(0);
            assert_eq!(left.len(), 1, "{text}");
            assert_eq!(left[0].1, of_machine(&line, &[]), "{text}");
        }
        for n in 2..=100 {
            let line = format!("udp 198.18.0.{n}:7 > 198.18.0.1:7");
            assert!(rig.wires[n % 3][0].send(&of_machine(&line, &[])));
        }
        rig.settle();
        let given: usize = ends.iter().map(|end| std::iter::from_fn(|| end.receive()).count()).sum();
        let seen = rig.counted().accounting;
        assert_eq!((given, seen.local.total(), seen.drops.total()), (99, 99, 0), "{text}: {seen:?}");
        assert!(seen.handed > 99, "{text}: {seen:?}");
    }
}

/// The same at the public end of a NAT, whose ports say which thread an answer belongs to.
#[test]
fn connections_of_the_machine_at_a_public_address_are_known_as_well() {
    let text = "lan(198.19.0.1/16)
        > filter(accept state established, accept outward udp to any port 7, policy drop)
        > nat(public 198.18.0.1) > route > wan(198.18.0.1/16, host tap t0)";
    let mut ends = Vec::new();
    let mut rig = Rig::on(|ports| with_tap(ports, &[1], &mut ends), text, 3, RING_BYTES);
    for (kind, expected) in [("", 50), ("frag 0+", 50)] {
        for n in 0..50 {
            let port = 2000 + 997 * n;
            assert!(
                ends[0]
                    .send(&of_machine(&format!("udp 198.18.0.1:{port} > 198.18.0.5:7 id {n} {kind}"), &[]))
            );
            if !kind.is_empty() {
                let later = format!("udp 198.18.0.1 > 198.18.0.5 len 8 whole 48 frag 40 id {n}");
                assert!(ends[0].send(&of_machine(&later, &[])));
            }
            rig.settle();
            assert_eq!(rig.left(1).len(), if kind.is_empty() { 1 } else { 2 }, "{kind}");
            let answer = format!("udp 198.18.0.5:7 > 198.18.0.1:{port}");
            let answer = [&MACS[1][..], &of_machine(&answer, &[])[6..]].concat();
            assert!(rig.wires[n % 3][1].send(&answer));
            rig.settle();
        }
        let given: usize = ends.iter().map(|end| std::iter::from_fn(|| end.receive()).count()).sum();
        let seen = rig.counted().accounting;
        assert_eq!((given, seen.drops.total()), (expected, 0), "{kind}: {seen:?}");
    }
}

/// Of what comes in one turn, the machine is given first what more depends on.
#[test]
fn the_machine_gets_its_frames_by_reason() {
    let mut ends = Vec::new();
    let machine = |ports: &[weir_plane::Port]| with_tap(ports, &[0, 1], &mut ends);
    let mut rig = Rig::on(machine, "lan(198.18.0.1/16) > route > wan(198.19.0.1/16)", 1, RING_BYTES);
    let to_node = |line: &str| {
        let packet = packet(line).expect("a packet");
        [&MACS[0][..], &HOST, &[8, 0], &packet].concat()
    };
    let [rest, icmp, routing] = [
        "udp 198.18.0.5:1000 > 198.18.0.1:53",
        "icmp reply 198.18.0.5 > 198.18.0.1 id 7",
        "tcp 198.18.0.5:1000 > 198.18.0.1:179 S",
    ]
    .map(to_node);
    let asks = question(Host { mac: HOST, ip: [198, 18, 0, 5].into() }, [198, 18, 0, 1].into());
    for frame in [&rest, &icmp, &rest, &routing, &asks] {
        assert!(rig.wires[0][0].send(frame));
    }
    rig.settle();
    let given: Vec<Vec<u8>> = std::iter::from_fn(|| ends[0].receive()).collect();
    let expected = [asks, routing, icmp, rest.clone(), rest];
    assert!(given.iter().zip(&expected).all(|(given, sent)| given.starts_with(sent)), "{given:02x?}");
    assert_eq!(given.len(), expected.len());
    let punted: Vec<_> = rig.counted().accounting.local.by_reason().map(|(_, frames)| frames).collect();
    assert_eq!(punted, [1, 1, 1, 2]);
}

/// Some wait in the memory that they came in, the others as copies.
#[test]
fn frames_wait_in_a_queue_and_give_their_memory_back() {
    let mut rig = Rig::new("lan > queue(outward 20Mbit, aqm fifo, limit 1MB) > wan", 1, RING_BYTES);
    let free = rig.workers[0].free_chunks();
    let (mut rounds, mut waited) = (0, 0);
    // Where this thread has no CPU for the 80 ms that they take, none waits when it looks.
    while waited < 3 && rounds < 50 {
        for n in 0..200 {
            assert!(rig.wires[0][0].send(&frame(n, true, 1000)));
        }
        rig.settle();
        let mut left = rig.left(1);
        waited += usize::from(left.len() < 200 && rig.counted().accounting.kept > 0);
        while left.len() < 200 {
            rig.workers[0].turn().expect("it works");
            left.extend(rig.left(1));
        }
        let expected: Vec<_> = (0..200).map(|n| (0, frame(n, true, 1000))).collect();
        assert!(left == expected, "{rounds}: in their order, as they came");
        rounds += 1;
    }
    let seen = rig.counted().accounting;
    assert_eq!((waited, seen.kept, seen.left), (3, 0, rounds * 200), "{seen:?}");
    assert_eq!(rig.workers[0].free_chunks(), free, "{seen:?}");
}

/// A plane that is replaced takes what it kept with it, but not the memory.
#[test]
fn a_node_that_begins_anew_has_the_memory_of_what_waited() {
    let text = "lan > queue(outward 8kbit, aqm fifo, limit 1MB) > wan";
    let mut rig = Rig::new(text, 1, RING_BYTES);
    let free = rig.workers[0].free_chunks();
    for n in 0..100 {
        assert!(rig.wires[0][0].send(&frame(n, true, 1000)));
    }
    rig.settle();
    assert!(rig.workers[0].free_chunks() < free);
    rig.workers[0].begin_anew(Plane::new(&config(text), &MACS));
    assert_eq!(rig.workers[0].free_chunks(), free);
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let mut rig = Rig::new("lan filter(accept state new) > wan", 2, 4000);
    for n in 0..1000 {
        assert!(rig.wires[0][0].send(&frame(n, true, 200)));
    }
    // The other thread sleeps meanwhile.
    while rig.workers[0].turn().expect("it works") {}
    rig.settle();
    let seen = rig.counted().accounting;
    let full = seen.drops[DropReason::HandoverFull];
    assert!(seen.handed > 10 && full > 400, "{seen:?}");
    assert_eq!((seen.entered, seen.left + full), (1000, 1000), "{seen:?}");
    assert_eq!(rig.left(1).len() as u64, seen.left);
}

#[test]
fn a_flood_of_questions_leaves_room_for_frames() {
    let text = "lan(198.18.0.1/16) filter(accept outward, accept state established) \
                > route(default via 192.0.2.2) > wan(192.0.2.1/24, neighbour 192.0.2.2 02:00:00:00:cc:01)";
    let mut rig = Rig::new(text, 2, 8000);
    for n in 0..40_u32 {
        for host in 0..6 {
            let from = Host { mac: [2, 1, 0, 0, n as u8, host], ip: [198, 18, 1 + host, n as u8].into() };
            assert!(rig.wires[0][0].send(&question(from, [198, 18, 0, 1].into())));
        }
        assert!(rig.wires[0][0].send(&frame(2 + n, true, 100)));
    }
    // The other thread is busy in the meantime.
    while rig.workers[0].turn().expect("it works") {}
    rig.settle();
    let seen = rig.counted().accounting;
    assert_eq!((rig.left(1).len(), seen.drops[DropReason::HandoverFull]), (40, 0), "{seen:?}");
    assert!(seen.handed > 5, "{seen:?}");
}

#[test]
fn what_is_received_in_a_turn_finds_room() {
    let mut rig = Rig::new("lan filter(accept state new, accept state established) > wan", 2, RING_BYTES);
    let is_others = |rig: &mut Rig, n: &u32| {
        assert!(rig.wires[0][0].send(&frame(*n, true, 64)));
        let before = rig.workers[0].snapshot().expect("counters").accounting.handed;
        rig.settle();
        rig.workers[0].snapshot().expect("counters").accounting.handed > before
    };
    let n = (0..100).find(|n| is_others(&mut rig, n)).expect("a flow of the other thread");
    for _ in 0..256 {
        assert!(rig.wires[0][0].send(&frame(n, true, 1518)) && rig.wires[0][1].send(&frame(n, false, 1518)));
    }
    rig.workers[0].turn().expect("it works");
    rig.settle();
    let seen = rig.counted().accounting;
    assert!(seen.handed > 512 && seen.drops.total() == 0, "{seen:?}");
}

#[test]
fn as_much_comes_by_other_threads_as_by_ports() {
    let mut rig = Rig::new("lan filter(accept state new) > wan", 2, RING_BYTES);
    for n in 0..1000 {
        assert!(rig.wires[0][0].send(&frame(n, true, 64)));
    }
    while rig.workers[0].turn().expect("it works") {}
    let handed = rig.workers[0].snapshot().expect("counters").accounting.handed;
    assert!(handed > 400, "{handed}");
    rig.workers[1].turn().expect("it works");
    let taken = rig.workers[1].snapshot().expect("counters").accounting.taken;
    // Two ports, four batches of each.
    assert_eq!(taken, handed.min(512));
}

#[test]
fn what_finds_no_memory_is_dropped_and_counted() {
    let mut rig = Rig::new("lan filter(accept state new) > wan", 2, RING_BYTES);
    for n in 0..1000 {
        assert!(rig.wires[0][0].send(&frame(n, true, 200)));
    }
    while rig.workers[0].turn().expect("it works") {}
    rig.workers[1].starve();
    rig.settle();
    let seen = rig.counted().accounting;
    assert_eq!(
        (seen.left + seen.drops[DropReason::HandoverFull], seen.handed),
        (1000, seen.drops[DropReason::HandoverFull])
    );
}

#[test]
fn all_threads_hear_what_one_hears_of_neighbours_and_one_answers() {
    let text = "lan(198.18.0.1/16) > route(default via 198.19.0.2) > wan(198.19.0.1/16)";
    let mut rig = Rig::new(text, 3, RING_BYTES);
    let hosts: [Host; 2] = [("198.19.0.2", 2), ("198.18.0.9", 9)]
        .map(|(ip, n)| Host { mac: [2, 0, 0, 0, 0xdd, n], ip: ip.parse().expect("an address") });
    for thread in 0..3 {
        let mut waits = frame(20 + thread as u32, true, 100);
        // To a remote host, so that the gateway is asked for.
        waits[30..34].copy_from_slice(&[203, 0, 113, 7]);
        waits[24..26].fill(0);
        let checksum = !weir_packet::checksum::fold(weir_packet::checksum::sum(&waits[14..34]));
        waits[24..26].copy_from_slice(&checksum.to_be_bytes());
        assert!(rig.wires[thread][0].send(&waits));
    }
    rig.settle();
    let asked = rig.left(1);
    let asker = Host { mac: MACS[1], ip: "198.19.0.1".parse().expect("an address") };
    assert!(
        asked
            .iter()
            .all(|(_, frame)| parse(frame) == Some(Heard::Question { from: asker, target: hosts[0].ip }))
    );
    assert_eq!(
        asked.iter().map(|(thread, _)| *thread).collect::<Vec<_>>(),
        [0, 1, 2],
        "each asks for its own"
    );
    // One answer for all three.
    assert!(rig.wires[2][1].send(&answer(hosts[0], asker)));
    rig.settle();
    let left = rig.left(1);
    assert_eq!(left.iter().map(|(thread, _)| *thread).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(left.iter().all(|(_, frame)| frame[..6] == hosts[0].mac));
    // A host of the lan asks, and is known everywhere.
    let mut question = weir_packet::neighbour::question(hosts[1], "198.18.0.1".parse().expect("an address"));
    question[..6].fill(0xff);
    assert!(rig.wires[0][0].send(&question));
    rig.settle();
    let answered = rig.left(0);
    assert_eq!(answered.len(), 1, "one thread answers: {answered:?}");
    for thread in 0..3 {
        let mut back = frame(9, false, 100);
        back[..6].copy_from_slice(&MACS[1]);
        assert!(rig.wires[thread][1].send(&back));
    }
    rig.settle();
    let left = rig.left(0);
    assert_eq!(left.iter().map(|(thread, _)| *thread).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(left.iter().all(|(_, frame)| frame[..6] == hosts[1].mac), "nobody asks");
    rig.counted();
}

/// A frame to another destination, with no checksum of UDP.
fn to(mut frame: Vec<u8>, (address, port): (&[u8], &[u8])) -> Vec<u8> {
    frame[30..34].copy_from_slice(address);
    frame[36..38].copy_from_slice(port);
    frame[40..42].fill(0);
    frame[24..26].fill(0);
    let checksum = !weir_packet::checksum::fold(weir_packet::checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// A fragment of an error of ICMP, with its identification.
fn fragment(part: &str, id: usize) -> Vec<u8> {
    let quote = "{udp 198.19.0.9:53 > 198.18.0.5:1000}";
    let line = format!("icmp unreachable/1 198.18.0.5 > 198.19.0.9 {part} id {id} {quote}");
    let packet = packet(&line).unwrap_or_else(|wrong| panic!("{wrong}"));
    [&MACS[0], &HOST, &[8, 0][..], &packet].concat()
}

#[test]
fn no_frame_is_lost_while_some_threads_have_other_filters_than_others() {
    let remembers = "filter(accept outward, accept state established, accept state related)";
    let counts = "lan filter(count a udp, policy accept) wan".to_string();
    for (old, new) in [
        ("lan > wan".to_string(), format!("lan {remembers} wan")),
        (format!("lan {remembers} wan"), "lan > wan".to_string()),
        (format!("lan {remembers} wan"), format!("lan filter(policy accept) {remembers} wan")),
        (counts.clone(), counts.replace("wan", &format!("{remembers} wan"))),
    ] {
        let mut rig = Rig::new(&old, 3, RING_BYTES);
        // Each thread alternately takes the other text, and each flow goes on, both ways, and so do fragments of errors, of which only
        // the first tells its thread.
        for round in 0..4 {
            if let Some(thread) = usize::checked_sub(round, 1) {
                rig.apply(thread, &old, &new);
            }
            let what = format!("{old} to {new}, {round} threads");
            for (port, outward) in [(0, true), (1, false)] {
                for n in 0..60_usize {
                    assert!(rig.wires[(n + round) % 3][port].send(&frame(n as u32, outward, 100)));
                    rig.settle();
                }
                assert_eq!(rig.left(1 - port).len(), 60, "{what}, outward: {outward}");
            }
            for n in 0..60_usize {
                // The later one first.
                for part in ["len 4 frag 40", "whole 8 len 4 frag 0+"] {
                    assert!(rig.wires[(n + round) % 3][0].send(&fragment(part, n)));
                    rig.settle();
                }
            }
            assert_eq!(rig.left(1).len(), 120, "{what}: fragments");
        }
        assert_eq!(rig.counted().accounting.drops.total(), 0, "{old} to {new}");
    }
}

#[test]
fn pieces_that_wait_for_a_first_one_go_on_when_no_thread_asks_for_it_any_more() {
    let (old, new) = ("lan filter(accept outward, accept state established) wan", "lan > wan");
    let mut rig = Rig::new(old, 3, RING_BYTES);
    for thread in 0..3 {
        for n in 0..60 {
            let later = fragment("len 4 frag 40", 60 * thread + n);
            assert!(rig.wires[n % 3][0].send(&later));
            rig.settle();
        }
        assert!(rig.counted().accounting.kept > 0, "{thread}");
        rig.apply(thread, old, new);
        rig.settle();
    }
    let seen = rig.counted().accounting;
    assert_eq!((rig.left(1).len(), seen.kept, seen.drops.total()), (180, 0, 0), "{seen:?}");
}

#[test]
fn hosts_of_threads_with_other_stages_reach_each_other_by_the_public_address() {
    let nat = "nat(public 192.0.2.1)";
    let (old, new) = (format!("lan {nat} wan"), format!("lan filter(count a udp, policy accept) {nat} wan"));
    let mut rig = Rig::new(&old, 3, RING_BYTES);
    let ends: Vec<(Vec<u8>, Vec<u8>)> = (0..30_u32)
        .map(|n| {
            assert!(rig.wires[0][0].send(&frame(n, true, 100)));
            rig.settle();
            let (_, seen) = rig.left(1).remove(0);
            (seen[26..30].to_vec(), seen[34..36].to_vec())
        })
        .collect();
    for thread in 0..3 {
        rig.apply(thread, &old, &new);
        for n in 0..30_u32 {
            let other = (n as usize + 7) % 30;
            let (address, port) = &ends[other];
            assert!(rig.wires[n as usize % 3][0].send(&to(frame(n, true, 100), (address, port))));
            rig.settle();
            let home: Vec<u32> = rig
                .left(0)
                .iter()
                .map(|(_, frame)| u32::from_be_bytes(frame[30..34].try_into().expect("four")))
                .collect();
            assert_eq!(home, [0xc612_0000 + other as u32], "{thread}: from {n}");
        }
    }
    let seen = rig.counted().accounting;
    assert!(seen.handed > 60 && seen.drops.total() == 0, "{seen:?}");
}

#[test]
fn a_nat_comes_and_goes_thread_by_thread() {
    let (plain, nat) = ("lan > wan", "lan nat(public 192.0.2.1) wan");
    let mut rig = Rig::new(plain, 3, RING_BYTES);
    let mut translated = Vec::new();
    for (thread, old, new) in
        [(0, plain, nat), (1, plain, nat), (2, plain, nat), (1, nat, plain), (0, nat, plain), (2, nat, plain)]
    {
        rig.apply(thread, old, new);
        for n in 0..40_u32 {
            assert!(rig.wires[n as usize % 3][0].send(&frame(n, true, 100)));
            rig.settle();
        }
        let left = rig.left(1);
        assert_eq!(left.len(), 40, "each leaves, by the text of its thread");
        translated.push(left.iter().filter(|(_, frame)| frame[26..30] == [192, 0, 2, 1]).count());
        // Some ports of the public address belong to threads without the NAT.
        for n in 0..40_u32 {
            let port = (2000 + 512 * n as u16).to_be_bytes();
            assert!(rig.wires[0][0].send(&to(frame(n, true, 100), (&[192, 0, 2, 1], &port))));
            rig.settle();
        }
        (0..2).for_each(|port| drop(rig.left(port)));
        rig.counted();
    }
    assert!(0 < translated[0] && translated[0] < translated[1] && translated[1] < 40, "{translated:?}");
    assert_eq!((translated[2], translated[5]), (40, 0), "{translated:?}");
    let live: u32 = rig.workers.iter().map(|worker| worker.plane.nat_usage().sessions).sum();
    assert_eq!(live, 0);
}

#[test]
fn a_panic_costs_its_batch_and_not_the_thread() {
    let text = "lan filter(accept outward, accept state established) > wan";
    let mut rig = Rig::new(text, 1, RING_BYTES);
    assert!(rig.wires[0][0].send(&frame(1, true, 100)));
    rig.settle();
    // What the plane does not know came with a frame: a port that it does not have.
    assert!(rig.wires[0][1].send(&frame(1, false, 100)) && rig.wires[0][1].send(&frame(1, false, 80)));
    rig.workers[0].provoke_panic();
    rig.settle();
    let lost = rig.counted().accounting;
    assert_eq!((lost.entered, lost.left, lost.drops[DropReason::Panic]), (3, 1, 2), "{lost:?}");
    let [report] = &rig.workers[0].panic_reports()[..] else { panic!("one report") };
    let bytes: Vec<usize> = report.batch.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!((report.frames, report.stage, bytes), (2, None, vec![96, 76]));
    assert!(rig.wires[0][1].send(&frame(1, false, 100)));
    rig.settle();
    assert_eq!((rig.left(0).len(), rig.workers[0].panic_reports().len()), (1, 0), "its connection lives");
}
