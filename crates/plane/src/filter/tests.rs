//! The compiled rules agree with a search through the rules as they were read, from the first to the last.

use std::net::IpAddr;

use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Signature};
use weir_packet::headers::{ICMP, ICMP6};

use super::classify::{Asked, BITS, DIR, DPORT, DST, Key, NONE, PORT, PROTO, SPORT, SRC, STATE};
use super::compile::{MatchRanges, Program};
use super::match_ranges::{LATER, STATES, bits};
use super::rules::{Rule, Version, read};
use crate::config::Config;
use crate::dir::Dir;
use crate::port::Port;
use crate::prefix::Prefix;
use crate::random::Random;
use crate::{Batch, DropReason, Frame, HEAD_ROOM, Plane, PortId, Time, Verdict};

fn one<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[random.below(of.len() as u64) as usize]
}

/// An address near others, so that rules overlap.
fn address(random: &mut Random, v4: bool) -> IpAddr {
    let near = |random: &mut Random| random.next() & 0x0303_0000_0300_0303;
    if v4 {
        (0x0a00_0000 | near(random) as u32).to_be_bytes().into()
    } else {
        (0x2001_0db8_u128 << 96 | u128::from(near(random)) << 32 | u128::from(near(random)))
            .to_be_bytes()
            .into()
    }
}

fn networks(random: &mut Random, v4: bool) -> String {
    let network = |random: &mut Random| {
        let len = if v4 { random.below(33) } else { random.below(129) } as u8;
        Prefix { address: address(random, v4), len }.network().to_string()
    };
    match random.below(6) {
        0..3 => "any".to_string(),
        3 => format!("{},{}", network(random), network(random)),
        _ => network(random),
    }
}

fn ports(random: &mut Random) -> String {
    match random.below(5) {
        0 => String::new(),
        1 => " port 1024-65535".to_string(),
        2 => format!(" port {},{}", random.below(10), random.below(70)),
        3 => format!(" port {}-{}", random.below(20), 20 + random.below(2000)),
        _ => format!(" port {}", random.below(10)),
    }
}

fn rule(random: &mut Random) -> String {
    let v4 = random.below(2) == 0;
    let mut text = one(random, &["accept", "count some"]).to_string();
    let mut say = |words: &str| text.extend([" ", words]);
    say(one(random, &["", "", "", "in lan", "in wan"]));
    say(one(random, &["", "", "", "inward", "outward"]));
    let proto = one(random, &["", "tcp", "udp", "tcp,udp", "proto 47", if v4 { "icmp" } else { "icmp6" }]);
    say(proto);
    let has_ports = ["tcp", "udp", "tcp,udp"].contains(&proto);
    for side in ["from", "to"] {
        let ports = if has_ports { ports(random) } else { String::new() };
        say(&format!("{side} {}{ports}", networks(random, v4)));
    }
    if proto == "tcp" {
        say(one(random, &["", "", "flags syn/syn,ack", "flags none/fin,syn,rst"]));
    }
    if proto.starts_with("icmp") {
        say(one(random, &["", "type echo-request", "type echo-reply,unreachable/1"]));
    }
    say(one(random, &["", "", "state new", "state established,related", "state invalid"]));
    text
}

/// What a frame says that rules look at.
#[derive(Debug)]
struct Packet {
    src: IpAddr,
    dst: IpAddr,
    sport: u16,
    dport: u16,
    proto: u8,
    flags: u8,
    port: u16,
    dir: Dir,
    state: u32,
    later: bool,
}

fn packet(random: &mut Random) -> Packet {
    let v4 = random.below(2) == 0;
    let protos = [6, 6, 17, 47, if v4 { ICMP } else { ICMP6 }];
    let proto = protos[random.below(5) as usize];
    let later = random.below(8) == 0;
    let wide = if random.below(4) == 0 { 65536 } else { 12 };
    let port = |random: &mut Random| if later || proto == 47 { 0 } else { random.below(wide) as u16 };
    let (sport, dport) = match proto {
        ICMP | ICMP6 if !later => {
            let kinds = if v4 { [8, 0, 3] } else { [128, 129, 1] };
            (kinds[random.below(3) as usize] << 8 | random.below(3) as u16, 0)
        }
        ICMP | ICMP6 => (0, 0),
        _ => (port(random), port(random)),
    };
    Packet {
        src: address(random, v4),
        dst: address(random, v4),
        sport,
        dport,
        proto,
        flags: if proto == 6 && !later { random.below(64) as u8 } else { 0 },
        port: random.below(2) as u16,
        dir: if random.below(2) == 0 { Dir::Outward } else { Dir::Inward },
        state: random.below(4) as u32,
        later,
    }
}

fn holds(rule: &Rule, packet: &Packet) -> bool {
    let v4 = packet.src.is_ipv4();
    let near = |networks: &[Prefix], address: IpAddr| {
        networks.is_empty() || networks.iter().any(|network| network.contains(address))
    };
    let within = |ranges: &[(u16, u16)], port: u16| {
        ranges.is_empty() || !packet.later && ranges.iter().any(|(low, high)| (*low..=*high).contains(&port))
    };
    rule.port.is_none_or(|port| port.0 == packet.port)
        && rule.dir.is_none_or(|dir| dir == packet.dir)
        && rule.version.is_none_or(|version| (version == Version::V4) == v4)
        && (rule.protos.is_empty() || rule.protos.contains(&packet.proto))
        && near(&rule.from.networks, packet.src)
        && near(&rule.to.networks, packet.dst)
        && within(&rule.from.ports, packet.sport)
        && within(&rule.to.ports, packet.dport)
        && within(&rule.types, packet.sport)
        && rule.flags.is_none_or(|(set, of)| !packet.later && packet.flags & of == set)
        && (rule.states == 0 || rule.states >> packet.state & 1 != 0)
}

fn key(packet: &Packet) -> Key {
    let mut key = Key::default();
    match (packet.src, packet.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => (key.words[SRC], key.words[DST]) = (src.into(), dst.into()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => key.set_v6(src.into(), dst.into()),
        _ => unreachable!("of one version"),
    }
    let dir = u32::from(packet.dir == Dir::Inward);
    key.words[SPORT] = packet.sport.into();
    key.words[DPORT] = packet.dport.into();
    key.words[PROTO] = packet.proto.into();
    key.words[PORT] = packet.port.into();
    key.words[STATE] = packet.state;
    key.words[DIR] = dir;
    let meta = 1 << packet.state | 1 << (STATES + dir) | if packet.later { LATER } else { 0 };
    key.words[BITS] = bits(packet.flags, meta);
    key
}

#[test]
fn the_first_rule_that_holds_is_found() {
    let mut hits = 0;
    for (seed, count) in [(1, 1), (2, 5), (3, 25), (4, 25), (5, 100), (6, 400)] {
        let mut random = Random(seed);
        let text: String = (0..count).map(|_| rule(&mut random) + "\n").collect();
        let ports = [Port::plain("lan"), Port::plain("wan")];
        let rules = read("r", &text, &ports).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let program = Program::new(&MatchRanges::of(&rules).expect("few rules"));
        for round in 0..60 {
            let packets: Vec<Packet> = (0..64).map(|_| packet(&mut random)).collect();
            // Nothing is asked for behind a rule that ends all.
            let last = rules.rules.iter().position(Rule::ends_all).map_or(count, |last| last as u64 + 1);
            let mut asked = Asked { len: 64, ..Asked::default() };
            for (n, packet) in packets.iter().enumerate() {
                asked.keys[n] = key(packet);
                asked.from[n] = random.below(if round % 2 == 0 { 1 } else { last }) as u32;
            }
            let from = asked.from;
            program.first_v4(&mut asked);
            let v4 = asked.found;
            program.first_v6(&mut asked);
            let v6 = asked.found;
            for (n, packet) in packets.iter().enumerate() {
                let found = if packet.src.is_ipv4() { v4[n] } else { v6[n] };
                let expected = (from[n]..count as u32).find(|&r| holds(&rules.rules[r as usize], packet));
                hits += usize::from(expected.is_some_and(|rule| rule > 0));
                assert_eq!(
                    found,
                    expected.unwrap_or(NONE),
                    "seed {seed}, from {}: {packet:?}\n{text}",
                    from[n]
                );
            }
        }
    }
    assert!(hits > 5_000, "{hits} frames hit a rule");
}

#[test]
fn a_share_of_frames_is_written_down() {
    let text = "lan > filter(log 1/3 udp, policy accept) > wan";
    let config = Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
    for ms in 1..=7 {
        let mut buf = [&[0; HEAD_ROOM][..], &datagram(ms as u16, 53)].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(ms), &mut batch);
    }
    let lines: Vec<String> = plane.logged().iter().map(ToString::to_string).collect();
    let line = |n| format!("0.00{n} s  UDP 198.18.0.5:{n} > 192.0.2.1:53  by `log 1/3 udp`");
    assert_eq!(lines, [1, 4, 7].map(line));
    assert!(plane.logged().is_empty());
    let frames: Vec<u64> = plane.filter_counts()[0].iter().map(|(_, count)| count.frames).collect();
    assert_eq!(frames, [7, 7]);
}

/// Rules about frames that are no packets of IP count and log, and so does what is accepted in spite of the policy.
#[test]
fn frames_that_are_no_packets_of_ip_are_counted_and_written_down() {
    let config = Config::read("n", "lan > filter(log 1/1 pppoe, accept pppoe) > wan").expect("a node");
    let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
    let session = [&[0x88, 0x64, 0x11, 0, 0, 7, 0, 48, 0, 0x21][..], &datagram(1, 53)[14..]].concat();
    let solicitation =
        crate::scenario::packet("icmp 135 fe80::1 > ff02::1:ff00:2 ttl 255").expect("a packet");
    for (behind, out) in [
        (session, true),
        (vec![8, 6, 0, 1, 8, 0], true),
        ([&[0x86, 0xdd], &solicitation[..]].concat(), true),
        (vec![0x88, 0xcc, 2, 7], false),
    ] {
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &behind].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(1), &mut batch);
        let (_, verdict) = batch.outcome().next().expect("one");
        let expected =
            if out { Verdict::Out(PortId(1)) } else { Verdict::Dropped(DropReason::FilterEthertype) };
        assert_eq!(verdict, expected, "{behind:02x?}");
    }
    let lines: Vec<String> = plane.logged().iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["0.001 s  EtherType 0x8864 UDP 198.18.0.5:1 > 192.0.2.1:53  by `log 1/1 pppoe`"]);
    let [counts] = &plane.filter_counts()[..] else { panic!("one filter") };
    let counts: Vec<(&str, u64)> = counts.iter().map(|(rule, count)| (&rule[..], count.frames)).collect();
    assert_eq!(
        counts,
        [
            ("log 1/1 pppoe", 1),
            ("accept pppoe", 1),
            ("policy drop", 1),
            ("accept arp, neighbour discovery (where no rule decides)", 2)
        ]
    );
}

#[test]
fn rules_that_stay_go_on_counting() {
    let text = |rules: &str| format!("lan > filter({rules}) > wan");
    let config =
        |rules: &str| Config::read("n", &text(rules)).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let old = config("count all, count dns udp to any port 53, count all, policy accept");
    let mut plane = Plane::new(&old, &[[2; 6], [4; 6]]);
    let one = |plane: &mut Plane, ms: u64, dport: u16| {
        let mut buf = [&[0; HEAD_ROOM][..], &datagram(ms as u16, dport)].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(ms), &mut batch);
    };
    one(&mut plane, 1, 53);
    one(&mut plane, 2, 54);
    let counts = |plane: &Plane| -> Vec<u64> {
        plane.filter_counts()[0].iter().map(|(_, count)| count.frames).collect()
    };
    assert_eq!(counts(&plane), [2, 1, 2, 2]);
    // Another order, one rule more, one of two that are alike is gone; the policy is another.
    let new = config("count others udp, count dns udp to any port 53, count all, policy drop");
    plane.apply(Time::from_ms(3), &old, &new).expect("rules");
    assert_eq!(counts(&plane), [0, 1, 2, 0]);
    one(&mut plane, 4, 53);
    assert_eq!(counts(&plane), [1, 2, 3, 1]);
}

/// Of thousands of rules, in several trees, each gives its own class, to packets of either version of IP; what it leaves as it was has
/// class 0.
#[test]
fn frames_have_the_class_of_the_rule_that_accepts_them() {
    let class = |port: u16| (port % 10 < 8).then_some((port % 10) as u8);
    let rule = |port: u16| match class(port) {
        Some(class) => format!("accept udp to any port {port} class {class}, count all"),
        None => format!("accept udp to any port {port}"),
    };
    let rules = (1..=400).map(rule).collect::<Vec<_>>().join(", ");
    let text = format!("lan > filter({rules}, policy accept) > wan");
    let config = Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
    for ports in (1..=410).collect::<Vec<u16>>().chunks(32) {
        let v6 = |port: &u16| {
            let packet = crate::scenario::packet(&format!("udp [2001:db8:1::1]:5 > [2001:db8:2::9]:{port}"));
            [&[2; 12][..], &[0x86, 0xdd], &packet.expect("a packet")].concat()
        };
        let frames = ports.iter().map(|port| datagram(5, *port)).chain(ports.iter().map(v6));
        let mut buffers: Vec<Vec<u8>> = frames.map(|frame| [&[0; HEAD_ROOM][..], &frame].concat()).collect();
        let mut batch = Batch::default();
        for buf in &mut buffers {
            let end = buf.len();
            batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(0)));
        }
        plane.run(Time::from_ms(1), &mut batch);
        for (port, (frame, _)) in ports.iter().chain(ports).zip(batch.outcome()) {
            let expected = if *port > 400 { None } else { class(*port) };
            assert_eq!(frame.class, expected.unwrap_or(0), "port {port}, {:?}", frame.kind());
        }
    }
}

/// A datagram from inside.
fn datagram(sport: u16, dport: u16) -> Vec<u8> {
    let ends = Ends::v4([2; 6], [4; 6]);
    let flow = Flow { src: 0xc612_0005, dst: 0xc000_0201, sport, dport, group: 0 };
    ends.frame(&flow, 64, Signature::default())
}

/// A fragment of a packet of IPv6 whose part that was cut begins with an extension header.
fn fragment6(place: u16, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 8 + rest.len() as u8, 44, 64];
    packet.extend([[0x20; 16], [0x21; 16]].concat());
    // Destination options follow; the identification is 7.
    packet.extend([60, 0, (place >> 8) as u8, place as u8, 0, 0, 0, 7]);
    packet.extend(rest);
    [&[2; 12][..], &[0x86, 0xdd], &packet].concat()
}

#[test]
fn fragments_follow_a_first_one_with_extension_headers() {
    let config = Config::read("n", "filter(accept udp to port 53)").expect("a node");
    let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
    let options = [17, 0, 1, 4, 9, 9, 9, 9];
    let first = fragment6(1, &[&options[..], &[0, 1, 0, 53, 0, 16, 0, 0]].concat());
    for (n, fragment) in [first, fragment6(16, &[1; 8])].iter().enumerate() {
        let mut buf = [&[0; HEAD_ROOM], &fragment[..]].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(1), &mut batch);
        let (_, verdict) = batch.outcome().next().expect("one");
        assert_eq!(verdict, Verdict::Out(PortId(1)), "{n}");
    }
}
