//! Bytes of others: clients of a node's socket, the remote end of a measurement, capture files.

use weir_control::request::{Ask, Hello, Request, Wants};
use weir_lab::frames::remote;
use weir_plane::scenario::packet;
use weir_plane::{Command, Plane, Time, Update};
use weir_port::pcap;
use weir_port::pcapng::read::{Item, Reader};
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

use super::of_texts;

/// A line to a node, as a greeting and as a request; what is taken is the same after it was written and read again, and a node's text
/// is read.
pub(super) fn control(input: &[u8]) {
    match Hello::read(input) {
        Ok(hello) => {
            let again = serde_json::to_vec(&hello).expect("greetings are plain data");
            assert_eq!(Hello::read(&again), Ok(hello));
        }
        Err(why) => assert!(!why.message.is_empty()),
    }
    match Request::read(input) {
        Ok(request) => {
            let again = serde_json::to_vec(&request).expect("requests are plain data");
            assert_eq!(Request::read(&again).as_ref(), Ok(&request));
            match &request.wants {
                Wants::Answer(Ask::Apply(apply)) => {
                    let beside = |name: &str| {
                        apply.files.get(name).cloned().ok_or_else(|| "it is not there".to_string())
                    };
                    if let Err(mistakes) = weir_node::Config::read(&apply.file, &apply.text, &beside) {
                        assert!(!mistakes.to_string().is_empty());
                    }
                }
                Wants::Answer(Ask::Commands(commands)) => decided(commands),
                _ => {}
            }
        }
        Err(wrong) => assert!(!wrong.why.message.is_empty()),
    }
}

/// The node that commands change: stage 1 is a filter, 2 a NAT, 3 a policer; `access1` has subscribers.
const COMMANDED: &str = "access1(access, vlan 1-9, untagged) lan(10.0.0.1/24, 2001:db8:1::1/64) > \
    access(gateway 100.64.0.1/10) > filter(drop udp to port 7, policy accept) > \
    nat(public 192.0.2.1, forward tcp 192.0.2.1:80 to 10.0.0.2:80, one-to-one 192.0.2.2 to 10.0.0.3) > \
    police(profile all outward 1Mbit, others all) > route(203.0.113.0/24 blackhole) > \
    wan(198.51.100.1/24, 2001:db8:2::1/64, neighbour 198.51.100.9 02:00:00:00:00:09)";

/// A list of commands is refused and has changed nothing, or done: a plane takes it, and what it has changed can be undone.
fn decided(commands: &[Command]) {
    let before = weir_plane::Config::read("n", COMMANDED).expect("a node");
    let mut config = before.clone();
    let is_before =
        |config: &weir_plane::Config| Update::prepare(&before, config).expect("the same ports").is_empty();
    match config.decide(commands) {
        Ok(changes) => {
            let mut plane = Plane::new(&before, &[[2; 6], [4; 6], [6; 6]]);
            plane.take(Time::from_ms(1), Update::of_changes(&changes)).expect("there is room");
            let left = Update::prepare(&config, &config).expect("the same ports");
            assert!(left.is_empty());
            config.undo(changes);
            assert!(is_before(&config), "undone: {commands:?}");
        }
        Err(refused) => {
            assert!(refused.command < commands.len() && !refused.why.is_empty());
            assert!(is_before(&config), "refused: {commands:?}");
        }
    }
}

pub(super) fn control_seeds() -> Vec<Vec<u8>> {
    of_texts([
        r#"{"protocol": 1, "client": "x"}"#,
        r#"{"id": 7, "query": "counters"}"#,
        r#"{"id": 10, "subscribe": {"events": true}}"#,
        r#"{"id": 11, "subscribe": {"counters": {"interval_ms": 1000}}}"#,
        r#"{"id": 12, "unsubscribe": 10}"#,
        r#"{"id": 13, "control": {"slots": 64}}"#,
        r#"{"id": 14, "query": {"sessions": {"most": 10, "address": "100.64.0.7"}}}"#,
        r#"{"id": 15, "commands": [{"route": {"set": {"prefix": "203.0.113.0/25", "target": {"via": [{"address": "198.51.100.2", "port": "wan"}]}}}}, {"route": {"remove": {"prefix": "203.0.113.0/24"}}}]}"#,
        r#"{"id": 16, "commands": [{"neighbour": {"set": {"port": "wan", "address": "198.51.100.7", "mac": "02:00:00:00:00:07"}}}, {"neighbour": {"remove": {"port": "wan", "address": "198.51.100.9"}}}]}"#,
        r#"{"id": 17, "commands": [{"nat": {"set_forward": {"stage": 2, "proto": "tcp", "outside": "192.0.2.1:80", "inside": "10.0.0.9:8080"}}}, {"nat": {"remove_one_to_one": {"stage": 2, "outside": "192.0.2.2"}}}, {"nat": {"end_mapping": {"stage": 2, "proto": "udp", "outside": "192.0.2.1:1024"}}}]}"#,
        r#"{"id": 18, "commands": [{"filter": {"set_rules": {"stage": 1, "rules": "accept udp\npolicy drop"}}}, {"police": {"set_rate": {"stage": 3, "profile": "all", "class": null, "direction": "outward", "bits_per_s": 2000000, "burst_bytes": 64000}}}]}"#,
        r#"{"id": 19, "commands": [{"subscriber": {"add": {"session": 7, "revision": 9, "port": "access1", "tags": "untagged", "mac": "02:00:00:00:00:01", "prefixes": ["100.64.0.2/32"], "from_bits_per_s": 5000000, "to_bits_per_s": null}}}, {"subscriber": {"add": {"session": 7, "port": "access1", "tags": "5", "mac": "02:00:00:00:00:01", "prefixes": ["100.64.0.3/32", "100.65.0.0/24"]}}}, {"subscriber": {"remove": {"session": 7}}}]}"#,
        r#"{"id": 1, "apply": {"file": "x.node", "text": "node lan > filter(rules.fw) > nat(public 192.0.2.1) > wan", "files": {"rules.fw": "accept udp\npolicy drop"}}}"#,
        r#"{"id": 1, "apply": {"file": "x", "text": "node lan(198.18.0.1/16, 2001:db8:1::1/64) > route > wan(vlan 7, 198.19.0.1/16) run(cpu 0-1)"}}"#,
    ])
}

/// Lines of the remote side of a measurement: each is refused, or what it says goes into a record.
pub(super) fn remote(input: &[u8]) {
    for line in String::from_utf8_lossy(input).lines() {
        if let Err(why) = remote::take_in(line) {
            assert!(!why.is_empty());
        }
    }
}

pub(super) fn remote_seeds() -> Vec<Vec<u8>> {
    of_texts(remote::examples())
}

/// A capture file: an error, or all items; its packets are the same when they are written and read again, in both formats.
pub(super) fn pcapng(file: &[u8]) {
    let packets = packets(file);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    pcap::header(&mut old, u32::MAX, ETHERNET);
    write::section(&mut new, &write::Author::default());
    write::interface(&mut new, &Interface { link_type: ETHERNET, ..Interface::default() });
    for (at_ns, wire_len, bytes) in &packets {
        pcap::packet(&mut old, *at_ns, *wire_len, bytes);
        write::packet(
            &mut new,
            &Packet { interface: 0, at_ns: *at_ns, wire_len: *wire_len, bytes, dropped: 0 },
        );
    }
    assert_eq!(self::packets(&new), packets);
    // Seconds have 32 bits there.
    let has_room = |(at_ns, ..): &(u64, u32, Vec<u8>)| at_ns / 1_000_000_000 <= u64::from(u32::MAX);
    assert!(!packets.iter().all(has_room) || self::packets(&old) == packets);
}

/// Time, original length and bytes of each packet, as far as the file can be read.
fn packets(file: &[u8]) -> Vec<(u64, u32, Vec<u8>)> {
    let mut packets = Vec::new();
    if let Ok(mut reader) = Reader::open(file) {
        while let Ok(Some(item)) = reader.next_item() {
            if let Item::Packet(packet) = item {
                packets.push((packet.at_ns, packet.wire_len, packet.bytes.to_vec()));
            }
        }
    }
    packets
}

pub(super) fn pcapng_seeds() -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    write::section(&mut file, &write::Author { application: "weir fuzz", ..write::Author::default() });
    write::interface(&mut file, &Interface { link_type: ETHERNET, ..Interface::default() });
    for line in ["udp 198.18.0.2:1 > 198.19.0.9:53", "icmp echo 2001:db8:1::2 > 2001:db8:2::9 id 7"] {
        let bytes = &packet(line).expect("a line of a scenario");
        write::packet(&mut file, &Packet { interface: 0, at_ns: 1, wire_len: 2000, bytes, dropped: 3 });
    }
    let mut old = Vec::new();
    pcap::header(&mut old, 96, ETHERNET);
    pcap::packet(&mut old, 1_700_000_000_123_456_789, 1514, &[8; 96]);
    vec![file, old]
}
