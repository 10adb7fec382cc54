//! Nodes under hostile frames: cut, bent and random ones. Nothing panics, each frame is accounted for, and what leaves is sound
//! if what came in was. `HOSTILE_SEEDS=5000 cargo test --release -p weir-plane --test
//! plane hostile::` goes on for minutes.

mod case;
mod lines;
mod search;

use std::time::Duration;

use case::{Arrivals, Bench, Case, fitting, mac};
use weir_testkit::{Dice, number};

use crate::frames;

/// Nodes of every stage.
const NODES: &[&str] = &[
    "node lan > wan(vlan 7)",
    "node lan(vlan 100-199.1-4094) > filter(reject udp to port 53, policy accept) > wan(vlan 100-4094.1-4094)",
    "node lan(vlan 7-9, 198.18.0.1/16, 2001:db8:1::1/64)
        > police(profile a outward 100kbit inward 200kbit burst 3000, others a, subscribers 1)
        > route(192.0.2.0/24 via 198.19.0.9)
        > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280, neighbour 198.19.0.9 02:00:00:00:00:02)
        subscribers(anna lan 7 02:00:00:00:cc:01 198.18.0.0/24 2001:db8:1::/64)",
    "node lan(vlan 7-9, untagged, access) > access(gateway 198.18.0.1/16, gateway 2001:db8:1::1/64, loops reject)
        > filter(reject udp to port 53, policy accept) > route(192.0.2.0/24 via 198.19.0.9)
        > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280, neighbour 198.19.0.9 02:00:00:00:00:02)
        subscribers(anna lan untagged 02:00:00:00:cc:01 pppoe 7 198.18.0.0/24 2001:db8:1::/64,
            ben lan 7 02:00:00:00:cc:01 198.18.1.0/24, eve lan 7 02:00:00:00:cc:01 pppoe 65534 198.18.2.0/24)",
    "node lan(vlan 100-199.1-4094, untagged, access)
        > access(gateway 198.18.0.1/16, gateway 2001:db8:1::1/64, port lan rate 4Mbit, group north vlan 100-149 rate 2Mbit,
            group olt vlan 100.1-9 to 500kbit from 300kbit in north, hosts fair, strict 30%, class 3 dscp ef priority 5, overhead pppoe 32)
        > filter(accept state established,related, accept outward, policy accept)
        > nat(public 192.0.2.1 ports 1024-1151, block 16, sessions 64) > route(192.0.2.0/24 via 198.19.0.9)
        > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280, neighbour 198.19.0.9 02:00:00:00:00:02)
        subscribers(anna lan 100.5 02:00:00:00:cc:01 pppoe 7 198.18.0.0/24 2001:db8:1::/64,
            ben lan 100.5 02:00:00:00:cc:01 pppoe 8 198.18.1.0/24, eve lan 120.5 02:00:00:00:cc:01 198.18.2.0/24,
            tom lan untagged 02:00:00:00:cc:01 pppoe 7 198.18.3.0/24)",
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
    "node lan > filter(accept udp to port 53, accept outward) > queue(outward 1Mbit, inward 500kbit, aqm codel, limit 8kB)
        > nat(public 192.0.2.1, prefix64 2001:db8:2::/96) > wan(vlan 7)",
    "node lan > filter(accept udp to port 53 class 1, accept udp class 2, policy accept)
        > police(profile a outward 100kbit inward 200kbit burst 3000, profile a class 1 outward 8kbit,
            198.18.0.2/32 none, others a, subscribers 1)
        > nat(public 192.0.2.1, prefix64 2001:db8:2::/96) > queue(outward 500kbit, aqm cake, limit 20kB) > wan",
];

/// So many frames, at most, that arrive together some time after those before.
fn arrivals(dice: &mut Dice, after_ms: usize, most: usize) -> Arrivals {
    let after = Duration::from_millis(after_ms as u64);
    let frames = (0..1 + dice.roll(most)).map(|_| {
        let port = dice.roll(2);
        let addresses = [mac(port), [2, 0, 0, 0, 0xcc, 1]].concat().try_into().expect("twelve bytes");
        let frame = frames::frame(dice, addresses);
        (port, if dice.roll(3) == 0 { lines::on_line(dice, &frame) } else { frame })
    });
    Arrivals { node: None, after, frames: frames.collect() }
}

fn check(text: &str, seed: u64, threads: u8) {
    let (mut bench, mut dice) = (Bench::new(text, threads), Dice::new(seed));
    let mut case = Case::new(text, threads);
    for _ in 0..200 {
        let after_ms = dice.roll(400);
        let arrivals = arrivals(&mut dice, after_ms, 64);
        if let Err(wrong) = case.go_on(&mut bench, arrivals) {
            case.fail(seed, &wrong);
        }
    }
}

fn seeds() -> u64 {
    number("HOSTILE_SEEDS", 3)
}

#[test]
fn no_frame_breaks_a_node() {
    for (seed, text) in (1..=seeds()).flat_map(|seed| NODES.iter().map(move |text| (seed, text))) {
        check(text, seed, 1);
        check(text, seed, fitting(text, 3));
    }
}

/// Stages of which a node has some at a time.
pub(crate) const STAGES: &[&str] = &[
    "filter(accept udp to port 1024-65535, accept state established,related, accept outward)",
    "filter(reject tcp flags syn/syn, count x udp, policy accept)",
    "nat(public 192.0.2.1 ports 1024-1151, block 16, sessions 64, udp-timeout 120s)",
    "nat(public 192.0.2.1 ports 1040-1047, block 4, prefix64 2001:db8:2::/96, mss 1200, log sessions)",
    "filter(log 1/9 udp, drop proto 47, policy accept)",
    "queue(outward 2Mbit, inward 1Mbit, aqm codel, limit 20kB)",
    "police(profile a outward 100kbit inward 200kbit burst 3000, 198.18.0.2/32 none, others a, subscribers 9)",
    "nat(public 198.18.9.0/30, forward tcp 198.18.9.1:80 to 198.18.0.2:1000, one-to-one 192.0.2.9 to 198.18.0.3)",
];

/// A text with some of them, in the order in which they stand above.
fn some_stages(dice: &mut Dice, ends: (&str, &str)) -> String {
    let some: Vec<&str> = STAGES.iter().copied().filter(|_| dice.roll(2) == 0).collect();
    [&[ends.0], &some[..], &[ends.1]].concat().join(" > ")
}

#[test]
fn no_frame_breaks_a_node_whose_stages_come_and_go() {
    let router =
        ("lan(198.18.0.1/16, 2001:db8:1::1/64)", "route > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280)");
    for seed in 1..=seeds() {
        let ends = if seed % 2 == 0 { router } else { ("lan", "wan") };
        let threads = if seed % 4 < 2 { 1 } else { 2 };
        let (mut dice, begin) = (Dice::new(seed), [ends.0, ends.1].join(" > "));
        let (mut bench, mut case) = (Bench::new(&begin, threads), Case::new(&begin, threads));
        for _ in 0..600 {
            let node = (dice.roll(8) == 0).then(|| some_stages(&mut dice, ends));
            let arrivals = Arrivals { node, ..arrivals(&mut dice, 200, 32) };
            if let Err(wrong) = case.go_on(&mut bench, arrivals) {
                case.fail(seed, &wrong);
            }
        }
        assert!(bench.changes > 10, "seed {seed}: only {} changes", bench.changes);
        // What waits anywhere has an end.
        for _ in 0..8 {
            let after = Duration::from_secs(4);
            if let Err(wrong) = case.go_on(&mut bench, Arrivals { after, ..Arrivals::default() }) {
                case.fail(seed, &wrong);
            }
        }
        assert_eq!(bench.accounting().kept, 0, "seed {seed}");
    }
}
