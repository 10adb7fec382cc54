//! Nodes under frames that nobody means well with: cut, bent and random ones. Nothing panics, each frame is accounted
//! for, and what leaves is sound if what came in was. `HOSTILE_SEEDS=5000 cargo test --release -p weir-plane --test
//! hostile` goes on for minutes.

mod case;
mod craft;
mod frames;
mod search;

use std::time::Duration;

use case::{is_sound, mac};
use frames::Dice;
use weir_plane::scenario::described;
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
    "node nat(public 192.0.2.0/30, forward tcp 192.0.2.1:80 to 198.18.0.2:1000, one-to-one 192.0.2.9 to 198.18.0.3)",
    "node nat(public 192.0.2.1 ports 1040-1043, block 4, prefix64 2001:db8:2::/96, mss 1200, log sessions)",
];

/// A frame to a port, and whether its packet is sound.
fn frame(dice: &mut Dice, port: usize) -> (Vec<u8>, bool) {
    let addresses = [mac(port), [2, 0, 0, 0, 0xcc, 1]].concat().try_into().expect("twelve bytes");
    let frame = frames::frame(dice, addresses);
    let sound = frame.get(14..).is_some_and(is_sound);
    (frame, sound)
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

fn seeds() -> u64 {
    std::env::var("HOSTILE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(8)
}

#[test]
fn no_frame_breaks_a_node() {
    for seed in 1..=seeds() {
        NODES.iter().for_each(|text| check(text, seed, 200));
    }
}

/// Stages of which a node has some at a time.
pub(crate) const STAGES: &[&str] = &[
    "filter(accept udp to port 1024-65535, accept state established,related, accept outward)",
    "filter(reject tcp flags syn/syn, count x udp, policy accept)",
    "nat(public 192.0.2.1 ports 1024-1151, block 16, sessions 64, udp-timeout 120s)",
    "nat(public 192.0.2.1 ports 1040-1043, block 4, prefix64 2001:db8:2::/96, mss 1200, log sessions)",
    "filter(log 1/9 udp, drop proto 47, policy accept)",
    "nat(public 198.18.9.0/30, forward tcp 198.18.9.1:80 to 198.18.0.2:1000, one-to-one 192.0.2.9 to 198.18.0.3)",
];

/// A text with some of them, in the order in which they stand above.
fn some_stages(dice: &mut Dice, ends: (&str, &str)) -> Config {
    let some: Vec<&str> = STAGES.iter().copied().filter(|_| dice.roll(2) == 0).collect();
    let text = format!("{} {} {}", ends.0, some.join(" > "), ends.1);
    Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn no_frame_breaks_a_node_whose_stages_come_and_go() {
    let router =
        ("lan(198.18.0.1/16, 2001:db8:1::1/64)", "route > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280)");
    for seed in 1..=seeds() {
        let ends = if seed % 2 == 0 { router } else { ("lan", "wan") };
        let mut dice = Dice(seed);
        let mut config = some_stages(&mut dice, ends);
        let mut plane = Plane::new(&config, &[mac(0), mac(1)]);
        for n in 0..600 {
            let now = Time::default() + Duration::from_millis(n * 200);
            if dice.roll(8) == 0 {
                let other = some_stages(&mut dice, ends);
                plane.apply(now, &config, &other).expect("other stages");
                config = other;
            }
            let mut frames: Vec<(usize, Vec<u8>)> = (0..1 + dice.roll(32))
                .map(|_| {
                    let port = dice.roll(2);
                    (port, [&[0; HEAD_ROOM], &frame(&mut dice, port).0[..]].concat())
                })
                .collect();
            let mut batch = Batch::default();
            for (port, bytes) in &mut frames {
                let end = bytes.len();
                batch.push(Frame::new(bytes, HEAD_ROOM, end, PortId(*port as u8)));
            }
            plane.run(now, &mut batch);
            plane.tick(now);
            plane.departures().for_each(drop);
            assert!(plane.books().balance(), "seed {seed}, {n}, {config:?}: {:?}", plane.books());
        }
        // What waits anywhere has an end.
        (0..8).for_each(|n| _ = plane.tick(Time::from_ms(150_000 + n * 1000)));
        assert_eq!(plane.books().held, 0, "seed {seed}");
    }
}
