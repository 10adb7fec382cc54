//! Stages come and go at random while hosts talk: what passes stages that stay goes on as if nothing had happened.
//!
//! ```text
//! others? > filter that remembers > others? > NAT? > others?       each time other filters are others
//! ```
//! `STAGES_SEEDS=1000 cargo test --release -p weir-plane --test plane stages::` goes on for minutes.

use std::time::Duration;

use weir_packet::checksum::{fold, sum};
use weir_plane::scenario::{End, Target, VirtualNode, described, packet};
use weir_testkit::{Dice, number};

/// The filter that stays: without its connections no host gets answers.
const STAYS: &str = "filter(accept outward, accept state established, accept state related)";

/// Up to two filters that let all pass. Those that remember connections are never as they were before: one of them might
/// change places with the one that stays.
fn others(dice: &mut Dice) -> Vec<String> {
    let one = |dice: &mut Dice| {
        let name = dice.roll(20);
        match dice.roll(4) {
            0 => {
                let name = dice.roll(1 << 30);
                format!("filter(count c{name} udp, accept state established, policy accept)")
            }
            1 => format!("filter(count c{name} udp, accept udp to port {name}, policy accept)"),
            _ => format!("filter(count c{name} udp, policy accept)"),
        }
    };
    (0..dice.roll(3)).map(|_| one(dice)).collect()
}

/// A text with a NAT of this pool, if any.
fn text(dice: &mut Dice, nat: Option<&str>, has_routes: bool) -> String {
    let mut stages = others(dice);
    stages.push(STAYS.to_string());
    stages.extend(others(dice));
    if let Some(pool) = nat {
        stages.push(format!("nat(public {pool}, udp-timeout 120s)"));
        stages.extend(others(dice));
    }
    if has_routes {
        format!("lan(198.18.0.1/16) {} route > wan(198.19.0.1/16)", stages.join(" > "))
    } else {
        stages.join(" > ")
    }
}

/// The same packet the other way.
fn reversed(packet: &[u8]) -> Vec<u8> {
    let mut back = packet.to_vec();
    back[12..16].copy_from_slice(&packet[16..20]);
    back[16..20].copy_from_slice(&packet[12..16]);
    back[20..22].copy_from_slice(&packet[22..24]);
    back[22..24].copy_from_slice(&packet[20..22]);
    back
}

/// The same segment with these flags.
fn with_flags(packet: &[u8], flags: u8) -> Vec<u8> {
    let mut other = packet.to_vec();
    other[33] = flags;
    if flags == SYN | ACK {
        other[28..32].copy_from_slice(&[0, 0, 0, 1]);
    }
    other[36..38].fill(0);
    let length = (other.len() - 20) as u64;
    let checksum = !fold(sum(&other[12..20]) + sum(&other[20..]) + u64::from(TCP) + length);
    other[36..38].copy_from_slice(&checksum.to_be_bytes());
    described(&other).unwrap_or_else(|wrong| panic!("{wrong}"));
    other
}

const TCP: u8 = 6;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A host inside that talks to one outside.
struct Talk {
    /// What it sends, and how that leaves.
    out: Vec<u8>,
    as_seen: Vec<u8>,
}

impl Talk {
    /// Both ends send something; one of them first. `what` says when, for people.
    fn goes_on(&self, node: &mut VirtualNode, at: Duration, outside_first: bool, what: &str) {
        let plain = |packet: &[u8]| if packet[9] == TCP { with_flags(packet, ACK) } else { packet.to_vec() };
        let (out, as_seen) = (plain(&self.out), plain(&self.as_seen));
        for outside in [outside_first, !outside_first] {
            let (end, sent, expected) = if outside {
                (End::Right, reversed(&as_seen), reversed(&out))
            } else {
                (End::Left, out.clone(), as_seen.clone())
            };
            node.send(at, end, &sent);
            let left = node.left();
            let far = if outside { End::Left } else { End::Right };
            let got: Vec<_> = left.iter().map(|(end, bytes)| (*end, &bytes[12..24])).collect();
            let sent = described(&sent);
            assert_eq!(got, [(far, &expected[12..24])], "{what}: {sent:?}; {:?}", node.drops());
        }
    }
}

/// A new talk, if there is room for it.
fn talk(dice: &mut Dice, node: &mut VirtualNode, at: Duration, what: &str) -> Talk {
    let (host, port) = (2 + dice.roll(8), 1024 + dice.roll(60_000));
    let ends =
        format!("198.18.0.{host}:{port} > 198.19.0.{}:{}", 2 + dice.roll(4), [53, 80][dice.roll(2) as usize]);
    let line = if dice.roll(2) == 0 { format!("udp {ends}") } else { format!("tcp {ends} S") };
    let out = packet(&line).expect("a packet");
    node.send(at, End::Left, &out);
    let left = node.left();
    let [(End::Right, as_seen)] = &left[..] else { panic!("{what}: {line}: {left:?}, {:?}", node.drops()) };
    let talk = Talk { out, as_seen: as_seen.clone() };
    if talk.out[9] == TCP {
        node.send(at, End::Right, &with_flags(&reversed(&talk.as_seen), SYN | ACK));
        assert_eq!(node.left().len(), 1, "{what}: {line}: the answer; {:?}", node.drops());
    }
    talk
}

/// How many talk at the end.
fn check(seed: u64, threads: u8, has_routes: bool) -> u32 {
    let mut dice = Dice::new(seed * 1000 + u64::from(threads));
    let mut node = VirtualNode::of_threads(threads);
    let mut talks: Vec<Talk> = Vec::new();
    let mut nat = None;
    for step in 0..60_u64 {
        let at = Duration::from_millis(500 * step);
        if dice.roll(8) == 0 {
            let before = nat;
            nat = [None, Some("198.19.7.0/28"), Some("198.19.7.16/28")][dice.roll(3) as usize];
            if nat.is_some() != before.is_some() {
                // From now on all are known by other addresses.
                talks.clear();
            }
        }
        let text = text(&mut dice, nat, has_routes);
        let what = format!("seed {seed}, {threads} threads, step {step}, {text}");
        node.configure(&text).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        for talk in &talks {
            talk.goes_on(&mut node, at, dice.roll(2) == 0, &what);
        }
        if talks.len() < 12 {
            talks.push(talk(&mut dice, &mut node, at, &what));
        }
        node.sound().unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        assert_eq!(node.accounting().drops.total(), 0, "{what}");
    }
    let is_translated = |talk: &Talk| talk.as_seen[12..15] == [198, 19, 7];
    assert!(talks.iter().all(|talk| is_translated(talk) == nat.is_some()), "seed {seed}");
    u32::try_from(talks.len()).expect("few")
}

#[test]
fn sessions_live_on_while_other_stages_come_and_go() {
    let seeds = number("STAGES_SEEDS", 8);
    let runs = (0..seeds).flat_map(|seed| [1, 3].map(|threads| check(seed, threads, seed % 2 == 0)));
    assert!(runs.sum::<u32>() as u64 > 10 * seeds, "most live long");
}
