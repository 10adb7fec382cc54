use std::time::{Duration, Instant};

use weir_packet::flow::IpVersion::{V4, V6};

use super::*;
use crate::counters::Delta;
use crate::device::Device;
use crate::fault::Faults;
use crate::spread::Spread;
use crate::updates::Updates;
use weir_linux::rtnl::Mac;
use weir_linux::sys;
use weir_testkit::{Folder, need_root};

mod frames;
mod xdp;

use frames::{Frame, PacketSocket};

/// Longer than anything takes that a test waits for, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn spec(dut: DutKind, ip: IpVersion) -> BedSpec {
    let cpus = sys::affinity(0).unwrap();
    BedSpec { rules: 25, ip, ..BedSpec::plain(dut, vec![*cpus.last().unwrap()]) }
}

fn build(spec: &BedSpec) -> Bed {
    let dir = Folder::new();
    Bed::build(spec, &mut Journal::in_dir(&dir)).unwrap()
}

/// Sends one frame of each of these flows from t0 and waits until all have come out at t1.
fn pass(bed: &Bed, flows: std::ops::Range<u16>) -> Vec<Frame> {
    pass_from(bed, Side::A, flows)
}

/// The same from either side.
fn pass_from(bed: &Bed, side: Side, flows: std::ops::Range<u16>) -> Vec<Frame> {
    let [mut a, mut b] = bed.ports();
    if side == Side::B {
        std::mem::swap(&mut a, &mut b);
    }
    let (from, to) = (PacketSocket::open(&a), PacketSocket::open(&b));
    for flow in flows.clone() {
        from.send(&Frame::new(bed.spec().ip, side, flow).to(&a)).unwrap();
    }
    flows.map(|_| to.receive()).collect()
}

#[test]
fn every_kind_forwards_both_ip_versions() {
    need_root!();
    for ip in [V4, V6] {
        for (kind, _) in DutKind::ALL {
            let bed = build(&spec(kind, ip));
            let [a, b] = bed.ports();
            let sent = Frame::new(ip, Side::A, 7);
            let got = &pass(&bed, 7..8)[0];
            assert_eq!(got.destination, sent.destination, "{kind} {ip}");
            assert_eq!(got.payload, sent.payload, "{kind} {ip}");
            if matches!(kind, DutKind::WIRE | DutKind::KERNEL_BRIDGE) {
                assert_eq!((got.to_mac, got.from_mac, got.hops), (b.mac, a.mac, sent.hops));
            } else {
                assert_eq!((got.to_mac, got.from_mac, got.hops), (b.mac, b.next_hop_mac, sent.hops - 1));
            }
            let translated = kind == DutKind::KERNEL_NAT;
            let source = if translated { bed.dut_address(Side::B) } else { sent.source };
            assert_eq!(got.source, source, "{kind} {ip}");

            // The way back: through a NAT, to the address and port that it chose.
            let (back, home) = (PacketSocket::open(&b), PacketSocket::open(&a));
            back.send(&got.reply().to(&b)).unwrap();
            let answer = home.receive();
            assert_eq!((answer.destination, answer.source), (sent.source, sent.destination), "{kind} {ip}");
            assert_eq!((answer.ports.1, answer.to_mac), (sent.ports.0, a.mac), "{kind} {ip}");
            let drops = bed.snapshot().unwrap().since(&Default::default()).drops();
            assert!(
                drops.iter().all(|drop| drop.owner == Owner::Dut && drop.name == "addressed to the dut"),
                "{drops:?}"
            );
            assert!(!translated || drops.is_empty(), "{drops:?}");
        }
    }
}

#[test]
fn only_the_last_rule_matches_and_only_stateful_and_nat_track() {
    need_root!();
    for ip in [V4, V6] {
        for (kind, tracked, rules) in [
            (DutKind::KERNEL_FORWARD, 0, 0),
            (DutKind::KERNEL_STATELESS, 0, 25),
            (DutKind::KERNEL_STATEFUL, 10, 25),
            (DutKind::KERNEL_NAT, 10, 0),
        ] {
            let bed = build(&spec(kind, ip));
            pass(&bed, 0..10);
            pass(&bed, 0..10);
            let snapshot = bed.snapshot().unwrap();
            assert_eq!(snapshot.conntrack.entries, tracked, "{kind} {ip}");
            let counters = bed.rule_counters().unwrap();
            assert_eq!(counters.len(), rules, "{kind} {ip}");
            if let Some((last, others)) = counters.split_last() {
                assert_eq!(last.packets, 20, "every frame is compared with every rule: {kind} {ip}");
                assert!(others.iter().all(|rule| rule.packets == 0), "{others:?}");
                assert_eq!(snapshot.filter.unwrap().accepted, 20);
            }

            bed.reset().unwrap();
            let snapshot = bed.snapshot().unwrap();
            assert_eq!(snapshot.conntrack.entries, 0, "{kind} {ip}");
            assert!(bed.rule_counters().unwrap().iter().all(|rule| (rule.packets, rule.bytes) == (0, 0)));
            pass(&bed, 0..10);
            assert_eq!(bed.snapshot().unwrap().conntrack.entries, tracked, "{kind} {ip}: works after reset");
        }
    }
}

/// In every form of the rules all test frames pass, by the last rule alone, and others do not.
#[test]
fn every_form_of_rules_lets_the_test_traffic_pass_and_nothing_else() {
    need_root!();
    for ip in [V4, V6] {
        for kind in [DutKind::KERNEL_STATELESS, DutKind::KERNEL_STATEFUL] {
            let tracked = if kind == DutKind::KERNEL_STATEFUL { 10 } else { 0 };
            for (form, name) in RuleForm::ALL {
                let wanted = BedSpec { form, rules: 40, ..spec(kind, ip) };
                if let Err(error @ crate::error::Error::ToolMissing { .. }) = Bed::check(&wanted) {
                    eprintln!("skipped: {} needs a program ({error})", module_path!());
                    continue;
                }
                let bed = build(&wanted);
                pass(&bed, 0..10);
                let (last, others) = check_passed(&bed, 10);
                assert_eq!(others, if name.ends_with("chain") { 39 } else { 1 }, "{kind} {ip} {name}");
                assert_eq!(bed.snapshot().unwrap().conntrack.entries, tracked, "{kind} {ip} {name}");
                // What is described besides it matches too, and what is not described is refused.
                check_foreign(&bed, last);
                bed.reset().unwrap();
                pass(&bed, 0..10);
                check_passed(&bed, 10);
            }
            let bed = build(&BedSpec { rules: 0, ..spec(kind, ip) });
            pass(&bed, 0..10);
            let snapshot = bed.snapshot().unwrap();
            assert_eq!(
                (snapshot.filter, snapshot.conntrack.entries),
                (None, tracked),
                "{kind} {ip}: no rules"
            );
        }
    }
}

/// The last rule matched `frames` times and no other did; returns its position and how many others there are.
fn check_passed(bed: &Bed, frames: u64) -> (usize, usize) {
    let counters = bed.rule_counters().unwrap();
    let (last, others) = counters.split_last().expect("a filter");
    let place = format!("{} {:?} {}", bed.spec().dut, bed.spec().form, bed.spec().ip);
    assert_eq!(last.packets, frames, "{place}");
    assert!(others.iter().all(|rule| rule.packets == 0), "{place}: {others:?}");
    let filter = bed.snapshot().unwrap().filter.expect("a filter");
    assert_eq!((filter.accepted, filter.refused), (frames, 0), "{place}");
    (last.rule, others.len())
}

/// Frames that are not the test's: one of a flow that the rules describe, and five that they do not.
fn check_foreign(bed: &Bed, last: usize) {
    let ip = bed.spec().ip;
    let address = |v4: &str, v6: &str| if ip == V4 { v4 } else { v6 }.parse().unwrap();
    let listed = Frame {
        source: address("198.19.128.4", "2001:db8:19:8000::4"),
        destination: address("198.19.192.4", "2001:db8:19:8001::4"),
        ports: (1028, 53),
        ..Frame::new(ip, Side::A, 0)
    };
    let before = bed.rule_counters().unwrap();
    let socket = PacketSocket::open(&bed.ports()[0]);
    let arrived = PacketSocket::open(&bed.ports()[1]);
    socket.send(&listed.to(&bed.ports()[0])).unwrap();
    assert_eq!(arrived.receive().ports, (1028, 53));
    let matched: Vec<_> =
        bed.rule_counters().unwrap().iter().zip(&before).map(|(n, b)| n.packets - b.packets).collect();
    assert_eq!((matched.iter().sum::<u64>(), matched[last]), (1, 0), "{:?} {ip}", bed.spec().form);
    let stranger = Frame { source: address("192.0.2.1", "2001:db9::1"), ..Frame::new(ip, Side::A, 0) };
    check_drops(bed, stranger, "filter");
}

#[test]
fn each_network_has_its_route_and_nothing_else_has_one() {
    need_root!();
    for ip in [V4, V6] {
        let bed = build(&BedSpec { networks: 256, ..spec(DutKind::KERNEL_FORWARD, ip) });
        let [a, b] = bed.ports();
        let (from, to) = (PacketSocket::open(&a), PacketSocket::open(&b));
        let networks: Vec<_> = Side::B.networks(ip, 256).map(|(network, _)| network).collect();
        for &destination in &networks {
            from.send(&Frame { destination, ..Frame::new(ip, Side::A, 0) }.to(&a)).unwrap();
        }
        let arrived: Vec<_> = networks.iter().map(|_| to.receive().destination).collect();
        assert_eq!(arrived, networks, "{ip}");
        // The address just below the first network.
        let outside = if ip == V4 { "198.19.127.255" } else { "2001:db8:19::c613:7fff" };
        let before = bed.snapshot().unwrap();
        let lost = Frame { destination: outside.parse().unwrap(), ..Frame::new(ip, Side::A, 0) };
        let last = Frame { destination: networks[255], ..Frame::new(ip, Side::A, 1) };
        from.send(&lost.to(&a)).unwrap();
        from.send(&last.to(&a)).unwrap();
        assert_eq!(to.receive().destination, networks[255]);
        let drops = bed.snapshot().unwrap().since(&before).drops();
        let found: Vec<_> = drops.iter().map(|drop| (drop.name, drop.frames)).collect();
        assert_eq!(found, [("no route", 1)], "{ip}");
    }
}

#[test]
fn routes_come_and_go_and_none_stays() {
    need_root!();
    for ip in [V4, V6] {
        let bed = build(&spec(DutKind::KERNEL_FORWARD, ip));
        let routes = || {
            let file = if ip == V4 { "route" } else { "ipv6_route" };
            let read = || std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
            let text = bed.dut().unwrap().run(read);
            text.lines().filter(|line| line.contains("007100CB") || line.contains("20010db8ffff")).count()
        };
        let updates = Updates::start(&bed, 1000).unwrap().expect("a router has routes");
        let deadline = Instant::now() + PATIENCE;
        let mut seen = 0;
        while seen == 0 && Instant::now() < deadline {
            seen = routes();
        }
        // It may go and come again while the file is read in pieces, and then stand in it twice.
        assert!(seen > 0, "no route has come");
        let made = updates.stop().unwrap();
        assert!(made.changes > 0 && made.run_ns > 0, "{made:?}");
        assert_eq!(routes(), 0, "{made:?}");
    }
    let wire = build(&spec(DutKind::WIRE, V4));
    assert!(Updates::start(&wire, 10).unwrap().is_none());
}

/// Sends frames that the DUT must drop, then one that passes, and checks what the drops are called.
fn check_drops(bed: &Bed, bad: Frame, name: &str) {
    let before = bed.snapshot().unwrap();
    let port = &bed.ports()[0];
    let socket = PacketSocket::open(port);
    for _ in 0..5 {
        socket.send(&bad.clone().to(port)).unwrap();
    }
    // Frames of one queue stay in order: when this one is through, the others have met their verdict.
    pass(bed, 0..1);
    let drops = bed.snapshot().unwrap().since(&before).drops();
    let found: Vec<_> = drops.iter().map(|drop| (drop.name, drop.owner, drop.frames)).collect();
    assert_eq!(found, [(name, Owner::Dut, 5)], "{} {}", bed.spec().dut, bed.spec().ip);
}

#[test]
fn losses_in_the_dut_have_names() {
    need_root!();
    for ip in [V4, V6] {
        let good = || Frame::new(ip, Side::A, 0);
        let bed = build(&spec(DutKind::KERNEL_FORWARD, ip));
        check_drops(&bed, Frame { hops: 1, ..good() }, "ttl expired");
        check_drops(&bed, Frame { destination: bed.dut_address(Side::B), ..good() }, "addressed to the dut");
        let bed = build(&spec(DutKind::KERNEL_STATEFUL, ip));
        check_drops(&bed, Frame { spoilt: true, ..good() }, "filter");
    }
    let bed = build(&spec(DutKind::KERNEL_FORWARD, V6));
    let nowhere = Frame { destination: "2001:db8:77::1".parse().unwrap(), ..Frame::new(V6, Side::A, 0) };
    check_drops(&bed, nowhere, "no route");
}

#[test]
fn a_node_translates_and_lets_answers_in() {
    need_root!();
    let mut bed = build(&spec(DutKind::NODE_NAT, V4));
    let device = Device::start(&bed, &Faults::default()).unwrap();
    bed.place_receivers();
    let [a, b] = bed.ports();
    let got = pass(&bed, 7..8).remove(0);
    assert_ne!(got.source, Frame::new(V4, Side::A, 7).source);
    let back = PacketSocket::open(&a);
    PacketSocket::open(&b).send(&got.reply().to(&b)).unwrap();
    let answer = back.receive();
    assert_eq!((answer.destination, answer.ports.1), (Frame::new(V4, Side::A, 7).source, 10_007));
    device.reset().unwrap();
    // No connection has it any more.
    PacketSocket::open(&b).send(&got.reply().to(&b)).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while device.drops().unwrap().is_empty() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(device.drops().unwrap().len(), 1);
}

#[test]
fn a_node_forwards_both_ip_versions_and_counts_what_it_drops() {
    need_root!();
    for ip in [V4, V6] {
        for kind in [
            DutKind::NODE_FORWARD,
            DutKind::NODE_FORWARD_PACKET,
            DutKind::NODE_STATELESS,
            DutKind::NODE_STATEFUL,
        ] {
            let mut bed = build(&spec(kind, ip));
            let device = Device::start(&bed, &Faults::default()).unwrap();
            bed.place_receivers();
            let b = &bed.ports()[1];
            for side in [Side::A, Side::B] {
                let got = pass_from(&bed, side, 7..9);
                assert_eq!(got[0].destination, Frame::new(ip, side, 7).destination, "{kind} {ip}");
                assert_eq!(got[1].hops, Frame::new(ip, side, 8).hops - 1, "{kind} {ip}");
                if side == Side::A {
                    assert_eq!((got[0].to_mac, got[0].from_mac), (b.mac, b.next_hop_mac), "{kind} {ip}");
                }
            }
            assert_eq!(device.drops().unwrap(), [], "{kind} {ip}");
            let dying = Frame { hops: 1, ..Frame::new(ip, Side::A, 7) };
            let a = &bed.ports()[0];
            PacketSocket::open(a).send(&dying.to(a)).unwrap();
            let deadline = Instant::now() + PATIENCE;
            while device.drops().unwrap().is_empty() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            assert_eq!(device.drops().unwrap(), [("ttl_expired".to_string(), 1)], "{kind} {ip}");
            assert_eq!(device.threads().len(), 1);
        }
    }
}

#[test]
fn programs_pass_on_what_a_fast_node_has_decided() {
    need_root!();
    for kind in [DutKind::NODE_FORWARD_FAST, DutKind::NODE_STATEFUL_FAST, DutKind::NODE_NAT_FAST] {
        let mut bed = build(&spec(kind, V4));
        let device = Device::start(&bed, &Faults::default()).unwrap();
        assert_eq!(device.notes().unwrap(), [""; 0], "{kind}");
        bed.place_receivers();
        let [a, b] = bed.ports();
        for _ in 0..5 {
            let got = pass(&bed, 7..8).remove(0);
            assert_eq!(got.hops, Frame::new(V4, Side::A, 7).hops - 1, "{kind}");
            // A connection without an answer stays with the filter.
            let back = PacketSocket::open(&a);
            PacketSocket::open(&b).send(&got.reply().to(&b)).unwrap();
            back.receive();
        }
        let Device::Node(node) = &device else { panic!("{kind} is a node") };
        let state = node.fast().unwrap().unwrap();
        assert_eq!(state.entries, 2, "{kind}: {state:?}");
        assert!(state.counts.received.iter().all(|frames| (1..5).contains(frames)), "{kind}: {state:?}");
    }
}

#[test]
fn a_bridge_knows_its_stations_and_sends_nothing_of_its_own() {
    need_root!();
    for ip in [V4, V6] {
        let bed = build(&spec(DutKind::KERNEL_BRIDGE, ip));
        let [a, b] = bed.ports();
        assert_eq!((a.next_hop_mac, b.next_hop_mac), (b.mac, a.mac));
        let to_the_bridge = Port { next_hop_mac: bed.dut_ports().unwrap()[0].mac, ..a.clone() };
        let before = bed.snapshot().unwrap();
        let socket = PacketSocket::open(&a);
        for _ in 0..5 {
            socket.send(&Frame::new(ip, Side::A, 0).to(&to_the_bridge)).unwrap();
        }
        pass(&bed, 0..10);
        let delta = bed.snapshot().unwrap().since(&before);
        let found: Vec<_> = delta.drops().iter().map(|drop| (drop.name, drop.owner, drop.frames)).collect();
        assert_eq!(found, [("addressed to the dut", Owner::Dut, 5)], "{ip}: {:#?}", delta.drops());
        // What came in at a port left at the other, and nothing else.
        let packets = |name: &str| {
            let link = delta.0.devices[name].link;
            (link.rx_packets, link.tx_packets)
        };
        assert_eq!((packets("d0"), packets("d1")), ((15, 0), (0, 10)), "{ip}");

        // struct __fdb_entry of linux/if_bridge.h: address, port, whether it is the bridge's own, age.
        let table = bed.dut().unwrap().run(|| std::fs::read("/sys/class/net/br0/brforward")).unwrap();
        let stations = table.chunks_exact(16).filter(|entry| entry[7] == 0);
        let mut found: Vec<(Mac, u8, [u8; 4])> =
            stations.map(|e| (e[..6].try_into().unwrap(), e[6], e[8..12].try_into().unwrap())).collect();
        found.sort();
        assert_eq!(found, [(a.mac, 1, [0; 4]), (b.mac, 2, [0; 4])], "static entries do not age");
    }
}

/// Sent, received at the other port, and what the counters name, once all frames are accounted for.
fn accounting(bed: &Bed, before: &Snapshot, sent: u64) -> Delta {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let delta = bed.snapshot().unwrap().since(before);
        let received = delta.0.devices["t1"].link.rx_packets;
        let lost: u64 = delta.drops().iter().map(|drop| drop.frames).sum();
        // Frames that are still on their way are missing; too many would stay too many.
        assert!(received + lost <= sent, "sent {sent} received {received} {:#?}", delta.drops());
        if received + lost == sent {
            return delta;
        }
        assert!(Instant::now() < deadline, "sent {sent} received {received} {:#?}", delta.drops());
        std::thread::yield_now();
    }
}

#[test]
fn an_overload_from_a_socket_is_accounted_for() {
    need_root!();
    let all = sys::affinity(0).unwrap();
    let last = || all[all.len() - 1..].to_vec();
    for (kind, ip, dut_cpus) in [
        (DutKind::KERNEL_STATELESS, V4, last()),
        (DutKind::KERNEL_STATEFUL, V6, last()),
        (DutKind::KERNEL_NAT, V4, last()),
        (DutKind::KERNEL_STATELESS, V4, all.clone()),
    ] {
        let bed = build(&BedSpec { rules: 5000, dut_cpus, ..spec(kind, ip) });
        let port = &bed.ports()[0];
        let socket = PacketSocket::open(port);
        let frames: Vec<_> = (0..16).map(|flow| Frame::new(ip, Side::A, flow).to(port)).collect();
        let before = bed.snapshot().unwrap();
        let sent = 60_000;
        for n in 0..sent {
            // A full ring answers ENOBUFS to a socket; the frame is counted as dropped there.
            let _ = socket.send(&frames[n % frames.len()]);
        }
        let delta = accounting(&bed, &before, sent as u64);
        eprintln!("{kind} {ip}: {:?}", delta.drops());
        let places = ["dut ring full", "softnet backlog", "tester ring full"];
        assert!(delta.drops().iter().all(|drop| places.contains(&drop.name)), "{:?}", delta.drops());
        skip_unless_overloaded(&delta);
    }
}

/// The accounting balances either way; without drops it only says less.
fn skip_unless_overloaded(delta: &Delta) {
    if delta.drops().is_empty() {
        eprintln!("skipped: {} found this machine too busy to overload a DUT", module_path!());
    }
}

#[test]
fn a_full_backlog_is_named() {
    need_root!();
    let cpus = sys::affinity(0).unwrap();
    let (Some(&first), Some(&last)) = (cpus.first(), cpus.last().filter(|_| cpus.len() > 1)) else {
        return eprintln!("skipped: {} needs two CPUs", module_path!());
    };
    // Received on one CPU, which hands the frames to the backlog of another that cannot keep up.
    let wanted = BedSpec { rules: 10_000, dut_cpus: vec![last], ..spec(DutKind::KERNEL_STATELESS, V4) };
    let bed = build(&wanted);
    let mask = format!("{:x}", 1 << first);
    bed.dut().unwrap().run(|| std::fs::write("/sys/class/net/d0/queues/rx-0/rps_cpus", mask)).unwrap();
    weir_port::thread::pin_to(last).unwrap();
    let port = &bed.ports()[0];
    let (socket, frame) = (PacketSocket::open(port), Frame::new(V4, Side::A, 1).to(port));
    let before = bed.snapshot().unwrap();
    let sent = 60_000;
    for _ in 0..sent {
        let _ = socket.send(&frame);
    }
    let delta = accounting(&bed, &before, sent);
    eprintln!("{:?}", delta.drops());
    let places = ["dut ring full", "softnet backlog", "tester ring full"];
    assert!(delta.drops().iter().all(|drop| places.contains(&drop.name)), "{:?}", delta.drops());
    skip_unless_overloaded(&delta);
}

#[test]
fn an_overload_by_redirect_is_accounted_for() {
    need_root!();
    let all = sys::affinity(0).unwrap();
    for (kind, cpus) in
        [(DutKind::WIRE, 1), (DutKind::KERNEL_FORWARD, 1), (DutKind::KERNEL_FORWARD, all.len())]
    {
        let mut wanted = spec(kind, V4);
        wanted.dut_cpus = all.iter().rev().take(cpus).copied().collect();
        let bed = build(&wanted);
        let port = bed.ports()[0].clone();
        let frame = Frame::new(V4, Side::A, 3).to(&port);
        let before = bed.snapshot().unwrap();
        let sent = 2_000_000;
        let Some(result) = port.namespace.run(|| xdp::send_live(port.ifindex, &frame, sent)) else {
            eprintln!("skipped: {} needs bpf(2) with live frames", module_path!());
            return;
        };
        result.unwrap();
        let delta = accounting(&bed, &before, u64::from(sent));
        eprintln!("{kind}, {cpus} CPU: {:?}", delta.drops());
        // A wire has no DUT to overload: it may take all.
        if kind != DutKind::WIRE {
            skip_unless_overloaded(&delta);
        }
    }
}

#[test]
fn receive_threads_are_pinned_and_their_time_is_counted() {
    need_root!();
    let cpus = sys::affinity(0).unwrap();
    for queues in [1, 2] {
        let mut wanted = spec(DutKind::KERNEL_FORWARD, V4);
        wanted.rx_queues = queues;
        let mut bed = build(&wanted);
        assert_eq!(bed.notes(), [""; 0]);
        for _ in 0..2 {
            assert_eq!(bed.threads().len(), 2 * queues as usize);
            for thread in bed.threads() {
                assert_eq!(sys::affinity(thread.pid).unwrap(), [*cpus.last().unwrap()], "{thread:?}");
            }
            bed.place_receivers();
        }
        let before = bed.cost(&[]);
        pass(&bed, 0..100);
        assert!(bed.cost(&[]).since(&before).dut_run_ns > 0);
    }
}

#[test]
fn several_cpus_share_a_queue_through_rps() {
    need_root!();
    let mut wanted = spec(DutKind::KERNEL_FORWARD, V4);
    wanted.dut_cpus = sys::affinity(0).unwrap();
    if wanted.dut_cpus.len() < 2 {
        eprintln!("skipped: {} needs two CPUs", module_path!());
        return;
    }
    let bed = build(&wanted);
    assert!(bed.notes().iter().any(|note| note.contains("RPS")), "{:?}", bed.notes());
    let mask = bed.dut().unwrap().run(|| std::fs::read_to_string("/sys/class/net/d0/queues/rx-0/rps_cpus"));
    assert_ne!(mask.unwrap().trim(), "0");
    assert_eq!(pass(&bed, 0..50).len(), 50);
}

/// Counts frames by the CPU that has them at this hook, behind RPS and out of reach of others.
fn count_by_cpu(namespace: &Namespace, [first, second]: [usize; 2], hook: &str) {
    let rules = format!(
        "add table netdev t; add counter netdev t cpu{first}; add counter netdev t cpu{second};
         add chain netdev t c {{ type filter hook {hook} priority 0; }};
         add rule netdev t c counter name meta cpu map {{ {first} : \"cpu{first}\", {second} : \"cpu{second}\" }}"
    );
    let output = namespace.run(|| std::process::Command::new("nft").arg(rules).output().unwrap());
    assert!(output.status.success(), "{output:?}");
}

/// What was counted there since.
fn counted_by_cpu(namespace: &Namespace, cpus: [usize; 2]) -> [u64; 2] {
    cpus.map(|cpu| {
        let name = format!("cpu{cpu}");
        let arguments = ["list", "counter", "netdev", "t", &name];
        let output = namespace.run(|| std::process::Command::new("nft").args(arguments).output().unwrap());
        let text = String::from_utf8(output.stdout).unwrap();
        let number = text.split_once("packets ").unwrap_or_else(|| panic!("{text}")).1;
        number.split_whitespace().next().unwrap().parse().unwrap()
    })
}

#[test]
fn rps_and_xps_move_the_work_to_other_cpus_and_queues() {
    need_root!();
    let all = sys::affinity(0).unwrap();
    let &[first, second, ..] = all.as_slice() else {
        return eprintln!("skipped: {} needs two CPUs", module_path!());
    };
    let cpus = [first, second];
    for (rps, expected) in [(first, [50, 0]), (second, [0, 50])] {
        let rps = Spread::Over(vec![rps]);
        let spreading =
            Spreading { rps: rps.clone(), xps: Spread::Over(cpus.to_vec()), ..Default::default() };
        let dut_cpus = cpus.to_vec();
        let bed = build(&BedSpec { spreading, dut_cpus, ..spec(DutKind::KERNEL_FORWARD, V4) });
        let dut = bed.dut().unwrap();
        count_by_cpu(dut, cpus, "ingress device d0");
        let before = bed.snapshot().unwrap();
        pass(&bed, 0..50);
        assert_eq!(counted_by_cpu(dut, cpus), expected, "RPS to CPU {rps}");
        let received = &bed.snapshot().unwrap().since(&before).0.devices["t1"].driver;
        let queues = [0, 1].map(|n| received[&format!("rx_queue_{n}_xdp_packets")]);
        assert_eq!(queues, expected, "its transmit queue: {received:?}");

        let wire = build(&spec(DutKind::WIRE, V4));
        let rps = Spreading { rps, ..Default::default() };
        wire.spread_port(Side::B, &rps, &cpus).unwrap();
        count_by_cpu(wire.tester(), cpus, "ingress device t1");
        pass(&wire, 0..50);
        assert_eq!(counted_by_cpu(wire.tester(), cpus), expected, "the tester's port");
    }
}

#[test]
fn the_queues_of_the_dut_gather_frames() {
    need_root!();
    let spreading = Spreading { coalesce_us: Some(50), ..Default::default() };
    let bed = build(&BedSpec { spreading, ..spec(DutKind::KERNEL_FORWARD, V4) });
    let held_back = bed.dut().unwrap().run(weir_linux::napi::list).unwrap();
    let times: Vec<_> = held_back.iter().map(|napi| napi.defer_hard_irqs).collect();
    assert!(times.len() >= 2 && times.iter().all(|polls| matches!(polls, Some(2) | None)), "{times:?}");
    let read =
        |end: &str| std::fs::read_to_string(format!("/sys/class/net/{end}/gro_flush_timeout")).unwrap();
    assert_eq!(bed.dut().unwrap().run(|| ["d0", "d1"].map(read)), ["50000\n", "50000\n"]);
    pass(&bed, 0..50);
}

#[test]
fn what_cannot_be_built_is_refused_with_a_remedy() {
    let dir = Folder::new();
    let mut journal = Journal::in_dir(&dir);
    let base = || spec(DutKind::KERNEL_STATEFUL, V4);
    let mut check = |spec: BedSpec, words: &str| match Bed::build(&spec, &mut journal).err() {
        Some(Error::Input(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{spec:?}: {other:?}"),
    };
    check(BedSpec { rules: 10_001, ..base() }, "use 0 to 10000");
    check(BedSpec { networks: 257, ..base() }, "use 1 to 256");
    check(BedSpec { mtu: 1279, ..base() }, "use 1280 to 65535");
    check(BedSpec { mtu: 65_536, ..base() }, "use 1280 to 65535");
    check(BedSpec { rx_queues: 0, ..base() }, "use 1 to 64");
    check(BedSpec { dut_cpus: vec![100_000], ..base() }, "CPU 100000 of the DUT does not exist");
    let spreading = |spreading| BedSpec { spreading, ..base() };
    let nowhere = Spread::Over(vec![100_000]);
    check(
        spreading(Spreading { rps: nowhere, ..Default::default() }),
        "rps = \"100000\": CPU 100000 cannot do",
    );
    if weir_testkit::is_root() {
        let interrupts = Spread::Over(base().dut_cpus);
        check(spreading(Spreading { interrupts, ..Default::default() }), "d0 has no interrupts");
        let xps = Spread::Over(base().dut_cpus);
        check(spreading(Spreading { xps, ..Default::default() }), "d0 has one transmit queue");
    }
}

#[test]
fn published_names_go_with_the_journal() {
    need_root!();
    let (outside, dir) = (Namespace::new().unwrap(), Folder::new());
    // A mount namespace whose /run is its own: the host's stays as it is.
    outside.run(|| {
        rustix::mount::mount("none", "/run", "tmpfs", rustix::mount::MountFlags::empty(), c"").unwrap();
        let names = || std::fs::read_dir("/run/netns").unwrap().count();
        let mut journal = Journal::in_dir(&dir);
        let wanted = BedSpec { publish: Some("weir-bed".into()), ..spec(DutKind::KERNEL_FORWARD, V4) };
        let bed = Bed::build(&wanted, &mut journal).unwrap();
        assert_eq!(names(), 2);
        drop(bed);
        drop(journal);
        assert_eq!(names(), 0);
    });
}

/// The inner half of the next test.
#[test]
fn bed_in_a_user_namespace() {
    if std::env::var_os("WEIR_TEST_USER_NAMESPACE").is_none() {
        return;
    }
    for (kind, _) in DutKind::ALL {
        let bed = build(&spec(kind, V4));
        assert_eq!(pass(&bed, 0..3).len(), 3, "{kind}");
        bed.reset().unwrap();
        println!("\nnotes of {kind}: {:#?}", bed.notes());
    }
}

#[test]
fn a_user_without_rights_gets_a_bed_and_notes() {
    need_root!();
    let dir = Folder::new();
    // A copy, since others need not be able to reach the build directory.
    let test = dir.join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urnm"])
        .arg(&test)
        .args(["--exact", "bed::tests::bed_in_a_user_namespace", "--nocapture"])
        .env("WEIR_TEST_USER_NAMESPACE", "1")
        .env("TMPDIR", "/tmp")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: {} needs setpriv ({error})", module_path!()),
    };
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if text.contains("unshare failed") {
        return eprintln!("skipped: {} needs unprivileged user namespaces", module_path!());
    }
    assert!(output.status.success(), "{text}");
    eprintln!("{text}");
    assert!(text.contains("run as root to pin") || text.contains("no receive thread"), "{text}");
}
