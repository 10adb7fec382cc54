//! Requests as hosts send them, through a whole plane, and packets from outside to what they got.

#![expect(clippy::arithmetic_side_effects, reason = "a test's own lengths")]

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::fields::{be16, be32};
use weir_packet::headers::UDP;

use super::{ANNOUNCE, MAP, PEER, PORT};
use crate::{Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Time, Verdict};

const HOST: u32 = 0xc612_0005;
const NODE: u32 = 0xc612_0001;
const FAR: u32 = 0xc613_0009;

fn half(bytes: &[u8], at: usize) -> u16 {
    be16(bytes, at).expect("a message that long")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    be32(bytes, at).expect("a message that long")
}

fn plane(more: &str) -> Plane {
    let text = format!(
        "lan(198.18.0.1/24) nat(public 192.0.2.1 ports 2000-2007, block 4, blocks 1, pcp{more}) > wan"
    );
    let config = Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plane::new(&config, &[[2; 6], [4; 6]])
}

/// A datagram passes; what it became, and by which port it left.
fn pass(
    plane: &mut Plane,
    s: u64,
    (src, sport): (u32, u16),
    (dst, dport): (u32, u16),
    data: &[u8],
) -> Option<(PortId, Vec<u8>)> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, UDP, 0, 0];
    ip.extend([src.to_be_bytes(), dst.to_be_bytes()].concat());
    let length = ((8 + data.len()) as u16).to_be_bytes();
    let mut udp = [&sport.to_be_bytes()[..], &dport.to_be_bytes(), &length, &[0, 0], data].concat();
    let checksum = !fold(pseudo_header(&ip[12..], UDP, udp.len()) + sum(&udp));
    udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    let total = (20 + udp.len()) as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    write_ipv4(&mut ip);
    let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &ip, &udp].concat();
    let end = buf.len();
    let mut batch = Batch::default();
    batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(u16::from(src == FAR))));
    plane.tick(Time::from_ms(s * 1000));
    plane.run(Time::from_ms(s * 1000), &mut batch);
    assert!(plane.accounting().balance());
    let (frame, verdict) = batch.outcome().next().expect("one");
    let Verdict::Out(port) = verdict else { return None };
    let packet = frame.bytes()[14..].to_vec();
    assert_eq!(fold(sum(&packet[..20])), 0xffff, "the header's checksum");
    assert_eq!(fold(pseudo_header(&packet[12..20], UDP, packet.len() - 20) + sum(&packet[20..])), 0xffff);
    Some((port, packet))
}

/// A request.
fn request(opcode: u8, lifetime_s: u32, port: u16, nonce: u8) -> Vec<u8> {
    let mut bytes = vec![2, opcode, 0, 0];
    bytes.extend(lifetime_s.to_be_bytes());
    bytes.extend([[0; 4], [0; 4], [0, 0, 0xff, 0xff], HOST.to_be_bytes()].concat());
    if opcode != ANNOUNCE {
        bytes.extend([nonce; 12]);
        bytes.extend([UDP, 0, 0, 0]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0; 18]);
    }
    if opcode == PEER {
        bytes.extend([0, 53, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        bytes.extend(FAR.to_be_bytes());
    }
    bytes
}

/// What the node answers: its result, lifetime and external port.
fn ask(plane: &mut Plane, s: u64, request: &[u8]) -> Option<(u8, u32, u16)> {
    let (port, packet) = pass(plane, s, (HOST, 4000), (NODE, PORT), request)?;
    assert_eq!((port, word(&packet, 12), word(&packet, 16)), (PortId(0), NODE, HOST));
    assert_eq!((half(&packet, 20), half(&packet, 22)), (PORT, 4000));
    let answer = &packet[28..];
    assert_eq!((answer.len(), answer[0], answer[1]), (request.len(), 2, request[1] | 0x80));
    assert_eq!((u64::from(word(answer, 8)), &answer[12..24]), (s, &[0; 12][..]), "the epoch");
    let outside = if answer.len() < 60 { 0 } else { half(answer, 42) };
    if answer[3] == 0 && outside != 0 {
        assert_eq!((word(answer, 52), word(answer, 56)), (0xffff, 0xc000_0201));
        assert_eq!(answer[24..42], request[24..42], "nonce, protocol and port are its own");
    }
    Some((answer[3], word(answer, 4), outside))
}

/// The inside host that gets a datagram from outside.
fn reaches(plane: &mut Plane, s: u64, port: u16) -> Option<(u32, u16)> {
    let (left, packet) = pass(plane, s, (FAR, 9), (0xc000_0201, port), b"hello")?;
    assert_eq!(left, PortId(0));
    Some((word(&packet, 16), half(&packet, 22)))
}

#[test]
fn a_mapping_is_leased_renewed_and_ended() {
    for filtering in ["", ", filtering address-dependent", ", filtering address-and-port-dependent"] {
        let mut plane = plane(filtering);
        let (code, lifetime_s, port) = ask(&mut plane, 1, &request(MAP, 600, 80, 7)).expect("an answer");
        assert_eq!((code, lifetime_s, (2000..=2007).contains(&port)), (0, 600, true), "{filtering}");
        assert_eq!(reaches(&mut plane, 500, port), Some((HOST, 80)), "{filtering}");
        // No other host renews or ends it.
        assert_eq!(ask(&mut plane, 510, &request(MAP, 600, 80, 8)), Some((2, 1800, 0)));
        assert_eq!(ask(&mut plane, 510, &request(MAP, 0, 80, 8)), Some((2, 1800, 0)));
        assert_eq!(ask(&mut plane, 510, &request(MAP, 600, 80, 7)), Some((0, 600, port)));
        assert_eq!(reaches(&mut plane, 1100, port), Some((HOST, 80)));
        assert_eq!(reaches(&mut plane, 2000, port), None, "{filtering}: its time is over");
        assert_eq!(plane.nat_usage().sessions, 0);
        let (_, _, port) = ask(&mut plane, 2001, &request(MAP, 600, 80, 9)).expect("an answer");
        assert_eq!(ask(&mut plane, 2002, &request(MAP, 0, 80, 9)), Some((0, 0, 0)));
        assert_eq!(ask(&mut plane, 2002, &request(MAP, 0, 80, 9)), Some((0, 0, 0)), "it may be said twice");
        // As any mapping it lives for a while, and is for its own remote ends.
        assert_eq!(reaches(&mut plane, 2400, port), None, "{filtering}");
    }
}

#[test]
fn a_mapping_that_is_there_is_the_one_that_is_leased() {
    let mut plane = plane("");
    let (_, packet) = pass(&mut plane, 1, (HOST, 80), (FAR, 53), b"hello").expect("it leaves");
    let port = half(&packet, 20);
    assert_eq!(ask(&mut plane, 2, &request(PEER, 1000, 80, 7)), Some((0, 1000, port)));
    assert_eq!(reaches(&mut plane, 900, port), Some((HOST, 80)));
    let (_, packet) = pass(&mut plane, 950, (HOST, 80), (FAR, 53), b"hello").expect("it leaves");
    assert_eq!(half(&packet, 20), port);
    // Behind its lease it lives by its last datagram.
    assert_eq!(reaches(&mut plane, 1200, port), Some((HOST, 80)));
    assert_eq!(reaches(&mut plane, 1260, port), None);
}

#[test]
fn what_is_refused_is_reported() {
    let map = request(MAP, 600, 80, 7);
    let with = |at: usize, value: u8| {
        let mut bytes = map.clone();
        bytes[at] = value;
        bytes
    };
    let option = |code: u8| [&map[..], &[code, 0, 0, 2, 1, 1, 0, 0]].concat();
    for (what, bytes, code, lifetime_s) in [
        ("a version", with(0, 1), 1, 1800),
        ("no whole words", [&map[..], &[0; 2]].concat(), 3, 1800),
        ("too short", map[..40].to_vec(), 3, 1800),
        ("an opcode", with(1, 3), 4, 1800),
        ("an option", option(1), 5, 1800),
        ("an option for who knows it", option(129), 0, 600),
        ("half an option", [&map[..], &[129, 0, 0, 9]].concat(), 6, 1800),
        ("a protocol", with(36, 132), 9, 1800),
        ("all ports", [&map[..40], &[0; 20]].concat(), 9, 1800),
        ("another host", with(23, 9), 12, 1800),
        ("a short time", request(MAP, 1, 80, 7), 0, 120),
        ("a long time", request(MAP, u32::MAX, 80, 7), 0, 86_400),
        ("the epoch", request(ANNOUNCE, 0, 0, 0), 0, 0),
    ] {
        let answer = ask(&mut plane(""), 5, &bytes).unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!((answer.0, answer.1), (code, lifetime_s), "{what}");
    }
    for (what, bytes) in [("no header", &map[..20]), ("an answer", &with(1, 0x81))] {
        assert_eq!(ask(&mut plane(""), 5, bytes), None, "{what}");
    }
    let mut plane = plane("");
    for port in 1..=4 {
        assert_eq!(ask(&mut plane, 5, &request(MAP, 600, port, 7)).map(|answer| answer.0), Some(0));
    }
    assert_eq!(ask(&mut plane, 5, &request(MAP, 600, 5, 7)), Some((10, 30, 0)), "one block is all");
}

#[test]
fn a_forward_takes_the_port_of_a_lease() {
    let text =
        |more: &str| format!("lan(198.18.0.1/24) nat(public 192.0.2.1 ports 2000-2000, pcp{more}) > wan");
    let config = |text: String| Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let (old, new) = (config(text("")), config(text(", forward udp 192.0.2.1:2000 to 198.18.0.9:7")));
    let mut plane = Plane::new(&old, &[[2; 6], [4; 6]]);
    assert_eq!(ask(&mut plane, 1, &request(MAP, 600, 80, 7)), Some((0, 600, 2000)));
    plane.apply(Time::from_ms(2000), &old, &new).expect("a forward");
    assert_eq!(reaches(&mut plane, 3, 2000), Some((0xc612_0009, 7)));
    assert_eq!(ask(&mut plane, 4, &request(MAP, 600, 80, 7)).map(|answer| answer.0), Some(8));
    assert_eq!(plane.nat_usage().sessions, 1);
}
