//! Nodes under frames that nobody means well with: cut, bent and random ones. Nothing panics, each frame is accounted
//! for, and what leaves is sound if what came in was. `HOSTILE_SEEDS=5000 cargo test --release -p weir-plane --test
//! hostile` goes on for minutes.

use std::time::Duration;

use weir_plane::scenario::{described, packet};
use weir_plane::{Batch, Config, Fate, Frame, HEAD_ROOM, Plane, PortId, Time};

/// Nodes of every stage.
const NODES: &[&str] = &[
    "node lan > wan(vlan 7)",
    "node lan(198.18.0.1/16, 2001:db8:1::1/64, neighbour 198.18.0.2 02:00:00:00:00:01)
        > route(192.0.2.0/24 via 198.18.0.2)
        > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280, neighbour 198.19.0.9 02:00:00:00:00:02,
              neighbour 2001:db8:2::9 02:00:00:00:00:02)",
    "node nat(public 192.0.2.1 ports 1024-1151, block 16, sessions 64, udp-timeout 120s)",
    "node nat(public 192.0.2.1, filtering address-dependent, mapping address-and-port-dependent, log sessions)",
    "node lan > nat(public 192.0.2.1, deterministic 198.18.0.0/24 dynamic 2, mss 1400)
        > filter(reject tcp flags syn/syn, count x udp, policy accept) > wan",
    "node nat(public 192.0.2.0/30, forward tcp 192.0.2.1:80 to 198.18.0.2:1000, one-to-one 192.0.2.9 to 198.18.0.2)",
    "node nat(public 192.0.2.1 ports 1040-1043, block 4, prefix64 2001:db8:2::/96, mss 1200, log sessions)",
];

/// What the frames are made of.
const LINES: &[&str] = &[
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 100",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 101 nosum options 3",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 1472 id 5",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 1472 df",
    "udp 198.18.0.2:1111 > 198.19.0.9:53 len 24 whole 48 frag 0+ id 9",
    "udp 198.18.0.2 > 198.19.0.9 len 24 whole 48 frag 32 id 9",
    "udp 198.18.0.2:1111 > 192.0.2.1:53",
    "tcp 198.18.0.2:1000 > 198.19.0.9:80 S seq 1 mss 1460",
    "tcp 198.18.0.2:1000 > 198.19.0.9:80 A seq 2 ack 7 len 33",
    "tcp 198.18.0.2:1000 > 198.19.0.9:80 R seq 2",
    "icmp echo 198.18.0.2 > 198.19.0.9 id 7",
    "icmp echo 198.18.0.2 > 198.18.0.1 id 7 ttl 1",
    "icmp unreachable/4 198.18.0.2 > 198.19.0.9 mtu 1400 {udp 198.19.0.9:53 > 198.18.0.2:1111}",
    "udp 198.19.0.9:53 > 192.0.2.1:1040 len 9",
    "tcp 198.19.0.9:80 > 192.0.2.1:1041 SA seq 1 ack 2",
    "tcp 198.19.0.9:5 > 192.0.2.1:80 S",
    "udp 198.19.0.9 > 192.0.2.1 len 24 whole 72 frag 32+ id 9",
    "icmp exceeded 198.19.0.7 > 192.0.2.1 {tcp 192.0.2.1:1000 > 198.19.0.9:80 S}",
    "udp [2001:db8:1::2]:1111 > [2001:db8:2::9]:53 len 100",
    "udp [2001:db8:1::2]:1111 > [2001:db8:2::9]:53 len 24 whole 48 frag 0+ id 9",
    "tcp [2001:db8:1::2]:1000 > [2001:db8:2::9]:80 S",
    "icmp echo 2001:db8:1::2 > 2001:db8:2::9 id 7",
    "icmp toobig 2001:db8:1::2 > 2001:db8:2::9 mtu 1300 {udp [2001:db8:2::9]:53 > [2001:db8:1::2]:1111}",
    "icmp unreachable/4 2001:db8:1::2 > 2001:db8:2::9 {udp [2001:db8:2::9]:53 > [2001:db8:1::2]:1111}",
    "icmp unreachable/4 198.19.0.7 > 192.0.2.1 mtu 1300 {udp 192.0.2.1:1040 > 0.0.0.9:53}",
    "udp 198.19.0.9:53 > 192.0.2.1:1041 len 24 whole 72 frag 0+ id 9",
    "udp [2001:db8:1::2]:1111 > [2001:db8:2::c000:201]:1041 len 5",
    "proto/47 198.18.0.2 > 198.19.0.9",
    "proto/50 198.18.0.2 > 198.19.0.9 len 3",
];

/// Xorshift (Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0xaa, port as u8]
}

/// A frame to a port, as it is or bent, and whether its packet is sound.
fn frame(dice: &mut Dice, port: usize) -> (Vec<u8>, bool) {
    let packet = packet(LINES[dice.roll(LINES.len())]).expect("a packet");
    let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let mut frame = [&mac(port)[..], &[2, 0, 0, 0, 0xcc, 1], &kind, &packet].concat();
    for _ in 0..dice.roll(4) {
        if frame.len() < 44 {
            break;
        }
        let at = dice.roll(frame.len());
        match dice.roll(5) {
            0 => frame.truncate(at),
            1 => frame[at] ^= 1 << dice.roll(8),
            2 => frame[at] = dice.roll(256) as u8,
            3 => frame.insert(at, dice.roll(256) as u8),
            _ => frame[12 + at % 30] = dice.roll(256) as u8,
        }
    }
    if dice.roll(20) == 0 {
        frame = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
    }
    let sound = frame.get(14..).is_some_and(|packet| described(packet).is_ok() && is_judged(packet));
    (frame, sound)
}

/// Whether somebody looked at the checksum of the transport: behind extension headers of IPv6 nobody does, but once the
/// packet is translated it may be plain to see.
fn is_judged(packet: &[u8]) -> bool {
    packet[0] >> 4 != 6 || matches!(packet.get(6), Some(6 | 17 | 58))
}

fn check(text: &str, seed: u64, batches: usize) {
    let config = Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut plane = Plane::new(&config, &[mac(0), mac(1)]);
    let mut dice = Dice(seed);
    let mut now = Time::default();
    for _ in 0..batches {
        now = now + Duration::from_millis(dice.roll(400) as u64);
        let ports: Vec<usize> = (0..1 + dice.roll(64)).map(|_| dice.roll(2)).collect();
        let mut frames: Vec<(Vec<u8>, bool)> = ports.iter().map(|&port| frame(&mut dice, port)).collect();
        let sound: Vec<bool> = frames.iter().map(|(_, sound)| *sound).collect();
        frames.iter_mut().for_each(|(bytes, _)| drop(bytes.splice(0..0, [0; HEAD_ROOM])));
        let mut batch = Batch::default();
        for ((bytes, _), &port) in frames.iter_mut().zip(&ports) {
            let end = bytes.len();
            batch.push(Frame::new(bytes, HEAD_ROOM, end, PortId(port as u8)));
        }
        plane.run(now, &mut batch);
        for ((frame, fate), sound) in batch.outcome().zip(sound) {
            if let (Fate::Out(port), true) = (fate, sound) {
                let header = if text.contains("vlan") && port == PortId(1) { 18 } else { 14 };
                if let Err(wrong) = described(&frame.bytes()[header..]) {
                    panic!("{text}\nseed {seed}: {wrong}: {:02x?}", frame.bytes());
                }
            }
        }
        plane.tick(now);
        for departure in plane.departures() {
            assert!(departure.bytes.len() >= 14, "{text}\nseed {seed}: {departure:?}");
        }
        assert!(plane.books().balance(), "{text}\nseed {seed}: {:?}", plane.books());
    }
}

#[test]
fn no_frame_breaks_a_node() {
    let seeds = std::env::var("HOSTILE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(8);
    for seed in 1..=seeds {
        NODES.iter().for_each(|text| check(text, seed, 200));
    }
}
