//! A node whose established sessions are passed on by XDP programs, beside one where all frames come to the plane.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_linux::rtnl::Rtnl;
use weir_node::{Config, Opened, Snapshot, Table};
use weir_packet::frame::Mac;
use weir_plane::scenario::talk::{NODES, talk};
use weir_plane::scenario::{End, FastPathModel, Target, VirtualNode, described, packet, suites};
use weir_plane::{FastState, FastTable, PortId, Time};
use weir_port::fast::{Fast, Gate};
use weir_port::packet::{Receiver, Sender};
use weir_testkit::{PATIENCE, need_root};

use crate::street::{HOST, Street};

/// When a node in virtual time begins, by the clock of programs, where 0 is none.
const START_NS: u64 = 1_000_000_000;
/// The loopback of any network namespace.
const LOOPBACK: u32 = 1;

/// The kernel's program, run frame by frame.
struct Program {
    fast: Arc<Fast>,
    is_eager: bool,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Program")
    }
}

impl FastPathModel for Program {
    fn table(&self) -> Box<dyn FastTable> {
        Box::new(Table::new(self.fast.clone(), START_NS, 2).eager(self.is_eager))
    }

    fn pass(&mut self, now: Time, port: PortId, mac: Option<Mac>, frame: &[u8]) -> Option<(PortId, Vec<u8>)> {
        self.fast.set_clock(START_NS + now.ns());
        let gate = Gate {
            number: port.0.into(),
            checks_partial: 0,
            is_router: mac.is_some().into(),
            mac: mac.unwrap_or_default(),
            ..Gate::default()
        };
        // The kernel runs no program on what has no Ethernet header.
        if frame.len() < 14 {
            return None;
        }
        let (out, after) = self.fast.try_on(&gate, LOOPBACK, frame).expect("it runs");
        match out {
            Some(out) => Some((PortId(out as u16), after)),
            None => {
                assert_eq!(after, frame, "what is left to the plane is as it came");
                None
            }
        }
    }
}

/// A node with programs that have room for 256 entries, of which flows make one with their first frame or with the second.
fn fast_node(is_eager: bool) -> VirtualNode {
    let program = Program { fast: Arc::new(Fast::new(256).expect("a program")), is_eager };
    VirtualNode::default().with_fast(Box::new(program))
}

fn nodes(is_eager: bool) -> [VirtualNode; 2] {
    [VirtualNode::default(), fast_node(is_eager)]
}

fn served(node: &VirtualNode) -> u64 {
    node.fast_state().map_or(0, |state| state.counts.received.iter().sum())
}

/// Frames that were left to the plane for a reason with this in its name.
fn punts(state: &FastState, reason: &str) -> u64 {
    state.counts.punts.iter().filter(|(name, _)| name.contains(reason)).map(|(_, n)| n).sum()
}

#[test]
fn programs_change_nothing_but_the_way() {
    need_root!();
    let mut all = 0;
    for (n, node) in NODES.iter().enumerate() {
        for seed in 1..=4 {
            let mut nodes = nodes(seed % 2 == 0);
            talk(&mut nodes, seed * 5 + n as u64, node.0, node.1);
            all += served(&nodes[1]);
        }
    }
    println!("{all} frames passed by programs");
    assert!(all > 1000, "only {all} frames passed by programs");
}

#[test]
fn a_node_with_programs_does_as_the_scenarios_say() {
    need_root!();
    let (mut wrong, mut passed, mut left) = (Vec::new(), 0, 0);
    for (name, scenarios) in suites() {
        for scenario in scenarios {
            let mut node = fast_node(true);
            if let Err(text) = scenario.run(&mut node) {
                wrong.push(format!("{name}:{}: {}: {text}", scenario.line, scenario.title));
            }
            passed += served(&node);
            left += punts(&node.fast_state().expect("a fast path"), "");
        }
    }
    assert!(wrong.is_empty(), "{} scenarios failed:\n{}", wrong.len(), wrong.join("\n"));
    println!("{passed} frames passed by programs, and {left} were left to the plane");
    // Most scenarios have few frames of a flow.
    assert!(passed > 5 && left > 1000, "only {passed} frames passed by programs, and {left} did not");
}

/// What more entries were used for than are read at once is known before the stages change.
#[test]
fn a_change_loses_no_count_of_many_entries() {
    need_root!();
    const FLOWS: u16 = 5000;
    let program = Program { fast: Arc::new(Fast::new(1 << 14).expect("a program")), is_eager: true };
    let mut node = VirtualNode::default().with_fast(Box::new(program));
    let mut at = Duration::from_millis(1);
    for (round, more) in ["", "count some udp to port 53, ", ""].into_iter().enumerate() {
        let text = format!("node lan > filter(count all udp, {more}policy accept) > wan");
        node.configure(&text).expect("a node");
        let before = served(&node);
        for _ in 0..3 {
            at += Duration::from_millis(1);
            for flow in 0..FLOWS {
                let line = format!("udp 198.18.0.1:{} > 198.19.0.9:80 df len 30", 1000 + flow);
                node.send(at, End::Left, &packet(&line).expect("a packet"));
            }
        }
        assert!(served(&node) - before >= u64::from(FLOWS) * 3 / 2, "round {round}: {:?}", node.fast_state());
        // Nothing has read the entries but the change, which leaves this filter as it is.
        node.configure(&text.replace("accept) >", "accept) > filter(policy accept) >")).expect("another");
        let frames = node.rules()[0][0]
            .iter()
            .find(|(rule, _)| rule == "count all udp")
            .map(|(_, count)| count.frames);
        assert_eq!(frames, Some(3 * u64::from(FLOWS)), "round {round}");
    }
}

/// Changes a packet, or not: any bit of the headers, its length, or a header with a right checksum.
fn changed(mut bytes: Vec<u8>, roll: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let is_v4 = bytes[0] >> 4 == 4;
    let header = if is_v4 { 20 } else { 40 };
    match roll(4) {
        0 => {}
        1 => {
            let place = roll(header + 24);
            bytes[place] ^= 1 << roll(8);
        }
        2 => bytes.truncate(header + roll(bytes.len() - header)),
        _ if is_v4 => {
            let place = [1, 2, 3, 4, 6, 7, 8, 9][roll(8)];
            bytes[place] ^= 1 << roll(8);
            bytes[10..12].fill(0);
            let sum = weir_packet::checksum::fold(weir_packet::checksum::sum(&bytes[..20]));
            bytes[10..12].copy_from_slice(&(!sum).to_be_bytes());
        }
        _ => {
            let place = [0, 1, 4, 5, 6, 7][roll(6)];
            bytes[place] ^= 1 << roll(8);
        }
    }
    bytes
}

/// Frames of flows that have entries, in any of which something may be wrong.
#[test]
fn hostile_frames_are_treated_as_the_plane_treats_them() {
    need_root!();
    let text = "node lan(198.18.0.1/16, 2001:db8:1::1/64) > filter(count u udp, policy accept) > nat(public 192.0.2.1) > \
                route(198.19.0.0/16 via 198.51.100.2, default via 2001:db8:2::2) > \
                wan(198.51.100.1/24, 2001:db8:2::1/64)";
    let mut nodes = nodes(false);
    nodes.iter_mut().for_each(|node| node.configure(text).expect("a node"));
    let (mut at, mut state) = (Duration::from_millis(1), 7_u64);
    let mut roll = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides
    };
    let lines = [
        "udp 198.18.0.2:1000 > 198.19.0.9:53 df len 30",
        "tcp 198.18.0.2:1000 > 198.19.0.9:80 A df seq 1 ack 1 len 30",
        "tcp 198.18.0.2:1000 > 198.19.0.9:80 PA df seq 31 ack 1 len 9",
        "udp [2001:db8:1::2]:1000 > [2001:db8:9::9]:53 len 30",
        "tcp [2001:db8:1::2]:1000 > [2001:db8:9::9]:80 A seq 1 ack 1 len 30",
    ];
    for round in 0..6000 {
        at += Duration::from_millis(5);
        let line = lines[roll(lines.len())];
        let mut frames = vec![(End::Left, changed(packet(line).expect("a packet"), &mut roll))];
        if round % 500 == 0 {
            // A connection that may have been reset begins anew.
            frames.push((
                End::Left,
                packet("tcp 198.18.0.2:1000 > 198.19.0.9:80 S df seq 0").expect("a packet"),
            ));
        }
        let mut seen = both(&mut nodes, at, &frames);
        let opened =
            seen.iter().find_map(|packet| described(packet).ok().filter(|line| line.contains(":80 S ")));
        if let Some(outside) = opened.as_ref().and_then(|line| line.split(' ').nth(1)) {
            let answer =
                packet(&format!("tcp 198.19.0.9:80 > {outside} SA df seq 0 ack 1")).expect("a packet");
            seen.extend(both(&mut nodes, at, &[(End::Right, answer)]));
        }
    }
    let state = nodes[1].fast_state().expect("a fast path");
    println!("{state:?}");
    assert!(served(&nodes[1]) > 1000, "{state:?}");
    let met = ["header", "fragment", "no hop left", "neither TCP nor UDP", "begin or end of TCP", "no entry"];
    met.into_iter().for_each(|reason| assert!(punts(&state, reason) > 0, "{reason}: {state:?}"));
}

/// Both nodes get these packets and do the same; returns what left.
fn both(nodes: &mut [VirtualNode; 2], at: Duration, packets: &[(End, Vec<u8>)]) -> Vec<Vec<u8>> {
    let seen = nodes.each_mut().map(|node| {
        packets.iter().for_each(|(end, bytes)| node.send(at, *end, bytes));
        let left: Vec<_> =
            node.left().into_iter().map(|(end, bytes)| (end, without_padding(bytes))).collect();
        (left, node.drops(), node.sessions(), node.rules(), node.accounting())
    });
    assert_eq!(seen[0], seen[1], "at {at:?}: {packets:02x?}");
    seen[0].0.iter().map(|(_, bytes)| bytes.clone()).collect()
}

/// A packet alone: the plane leaves away what follows it in a frame, and programs do not.
fn without_padding(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let end = if bytes[0] >> 4 == 4 { length(2) } else { 40 + length(4) };
    bytes.truncate(end);
    bytes
}

/// A NAT between two wires, with a rule before it.
fn nat(rule: &str) -> Config {
    let text = format!(
        "lan(198.18.0.1/16, on n0, neighbour 198.18.0.2 02:00:00:00:00:01) > \
         filter(count all udp, {rule}policy accept) > nat(public 192.0.2.1) > \
         route(default via 198.51.100.2) > \
         wan(198.51.100.1/24, on n1, neighbour 198.51.100.2 02:00:00:00:01:01) run(fast on, host none)"
    );
    Config::read("test", &text, &|name| Err(format!("no file {name}")))
        .unwrap_or_else(|wrong| panic!("{wrong}"))
}

const FLOWS: u16 = 20;

/// A frame of a flow, numbered.
fn frame(flow: u16, number: u16) -> Vec<u8> {
    let (port, to) = (1000 + flow, 50 + flow);
    let line = format!("udp 198.18.0.2:{port} > 198.19.0.9:{to} df id {number} len 30");
    [&[2, 0, 0, 0, 0, 2][..], &[2, 0, 0, 0, 0, 1], &[8, 0], &packet(&line).expect("a packet")].concat()
}

/// Packets of IPv4 that came, until so many were there.
fn arrivals(receiver: &mut Receiver, wanted: usize) -> Vec<Vec<u8>> {
    let (mut came, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while came.len() < wanted && Instant::now() < deadline {
        // A node tries on older kernels whether a veth takes frames, with one of an experiment's type.
        let take = |frame: &[u8]| came.extend((frame[12..14] == [8, 0]).then(|| frame.to_vec()));
        receiver.receive(Duration::from_millis(50), take).expect("it receives");
    }
    came
}

/// Source port and destination port.
fn ports(frame: &[u8]) -> (u16, u16) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    (word(34), word(36))
}

/// Frames pass programs of the kernel while rules change; when a rule drops some, not one of them passes any more.
#[test]
fn nothing_is_lost_or_mixed_up_while_a_node_changes() {
    need_root!();
    let street = Street::new();
    let node = street.node.run(|| {
        let opened = Opened::new(&nat("")).expect("a node");
        assert_eq!(opened.obstacles(), [""; 0]);
        opened.start().expect("it starts")
    });
    let index = |side: usize| Rtnl::open().expect("netlink").link(HOST[side]).expect("a link").ifindex;
    let mut receiver = street.hosts[1].run(|| Receiver::open(index(1), 16 << 20).expect("a receiver"));
    let sender = street.hosts[0].run(|| Sender::open(index(0)).expect("a sender"));
    let mut outside: BTreeMap<u16, u16> = BTreeMap::new();
    let rounds = 60;
    for round in 0..rounds {
        let sent: Vec<_> = (0..FLOWS).map(|flow| frame(flow, round)).collect();
        assert_eq!(sender.send(&sent).expect("it sends"), sent.len());
        if round % 8 == 7 {
            let rule = ["", "count some udp to port 53, "][usize::from(round / 8 % 2)];
            node.apply(&nat(rule)).expect("another text");
        }
        for frame in arrivals(&mut receiver, sent.len()) {
            assert_eq!(&frame[26..30], [192, 0, 2, 1], "it is translated");
            let (from, to) = ports(&frame);
            assert_eq!(*outside.entry(to).or_insert(from), from, "round {round}: a flow keeps its port");
            assert_eq!(frame[18..20], round.to_be_bytes(), "all of a round came before the next one");
        }
    }
    let sent = u64::from(FLOWS) * u64::from(rounds);
    let fast = node.fast().expect("it runs").expect("a fast path");
    println!("{fast:?}");
    let served: u64 = fast.counts.received.iter().sum();
    assert!(fast.on && fast.entries > 0 && served > sent / 4, "{fast:?}");
    let all = Snapshot::sum(&node.count().expect("it runs"));
    assert!(all.accounting.balance(), "{all:?}");
    assert_eq!((all.accounting.entered, all.accounting.left), (sent, sent), "{all:?}");
    assert_eq!((all.ports[0].received, all.ports[1].sent), (sent, sent), "{all:?}");
    let rules = node.rules().expect("it runs");
    assert!(rules.iter().any(|one| one.rule.contains("count all") && one.frames == sent), "{rules:?}");
    // From now on a flow that has an entry is dropped.
    node.apply(&nat("drop udp to port 50, ")).expect("another text");
    let last: Vec<_> = (0..FLOWS).map(|flow| frame(flow, rounds)).collect();
    assert_eq!(sender.send(&last).expect("it sends"), last.len());
    let came = arrivals(&mut receiver, last.len() - 1);
    assert!(came.iter().all(|frame| ports(frame).1 != 50) && came.len() == last.len() - 1);
    let ended = Snapshot::sum(&node.stop().threads.expect("it ended"));
    assert_eq!(ended.accounting.drops.total(), 1, "{ended:?}");
    assert!(ended.accounting.balance(), "{ended:?}");
}
