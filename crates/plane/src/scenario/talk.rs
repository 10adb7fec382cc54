//! Hosts that talk through two nodes, of which one has a shortcut: what leaves, what is counted and what is remembered must
//! be the same, whatever ends in between: connections, times, rules, neighbours.

use std::time::Duration;

use super::{End, Target, VirtualNode, described, packet};

/// Nodes, and what each becomes now and then.
pub const NODES: &[(&str, &str)] = &[
    (
        "nat(public 192.0.2.1-192.0.2.2, udp-timeout 120s, log sessions)",
        "nat(public 192.0.2.1-192.0.2.3, udp-timeout 130s, log sessions)",
    ),
    (
        "nat(public 192.0.2.1, filtering address-and-port-dependent, mapping address-and-port-dependent)",
        "nat(public 192.0.2.1, mapping address-and-port-dependent)",
    ),
    (
        "lan > filter(count all ip, accept state established,related, accept outward) > wan",
        "lan > filter(count all ip, drop udp to port 53, accept state established,related, accept outward) > wan",
    ),
    (
        "lan(198.18.0.1/16) filter(count u udp, accept outward, accept state established) > \
         nat(public 192.0.2.1-192.0.2.2, mss 1400) > filter(count t tcp, policy accept) > \
         route(198.19.0.0/16 via 198.51.100.2) > wan(198.51.100.1/24)",
        "lan(198.18.0.1/16) filter(count u udp, accept outward, accept state established) > \
         nat(public 192.0.2.1-192.0.2.2, mss 1400) > filter(count t tcp, policy accept) > \
         route(198.19.0.0/16 via 198.51.100.3 via 198.51.100.4) > wan(198.51.100.1/24)",
    ),
    (
        "lan(198.18.0.1/16, 2001:db8:1::1/64) filter(count u udp, accept outward, accept state established) > \
         nat(public 192.0.2.1, prefix64 2001:db8:64::/96) > \
         route(default via 198.51.100.2, default via 2001:db8:2::2) > wan(198.51.100.1/24, 2001:db8:2::1/64)",
        "lan(198.18.0.1/16, 2001:db8:1::1/64) filter(drop udp to port 53, accept outward, accept state established) > \
         nat(public 192.0.2.1, prefix64 2001:db8:9::/96) > \
         route(default via 198.51.100.2, default via 2001:db8:2::3) > wan(198.51.100.1/24, 2001:db8:2::1/64)",
    ),
    // Stages come, go and stand elsewhere: what a shortcut knows of them by number is of the text before.
    (
        "filter(count u udp, policy accept) > nat(public 192.0.2.1, udp-timeout 120s) > \
         filter(accept outward, accept state established)",
        "nat(public 192.0.2.1, udp-timeout 120s) > filter(accept outward, accept state established) > \
         filter(count t tcp, accept state established, accept outward)",
    ),
    (
        "filter(accept outward, accept state established) > nat(public 192.0.2.1, log sessions)",
        "nat(public 192.0.2.1, log sessions) > filter(accept outward, accept state established)",
    ),
];

/// Numbers, the same from the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % sides
    }
}

/// Two ends that talk, and what both have sent.
struct Talk {
    proto: &'static str,
    inside: String,
    remote: String,
    /// What the remote end takes the inside for.
    outside: Option<String>,
    sent: [u32; 2],
}

impl Talk {
    /// The next packet: from inside or, where that was heard, from outside.
    fn next(&mut self, dice: &mut Dice) -> (End, String) {
        let back = self.outside.as_ref().filter(|_| dice.roll(2) == 0);
        let (end, from, to) = match back {
            Some(outside) => (End::Right, &self.remote, outside),
            None => (End::Left, &self.inside, &self.remote),
        };
        let line = format!("{} {from} > {to}", self.proto);
        let bytes = dice.roll(3) * 100;
        if self.proto == "udp" {
            return (end, format!("{line} df len {bytes}"));
        }
        let side = usize::from(end == End::Right);
        let (seq, ack) = (self.sent[side], self.sent[1 - side]);
        let (flags, more) = match (seq, dice.roll(40)) {
            (0, _) if side == 1 => ("SA", 1),
            (0, _) => ("S", 1),
            (_, 0) => ("FA", 1),
            (_, 1) => ("R", 0),
            (_, 2) => {
                self.sent = [0, 0];
                ("S", 0)
            }
            (_, n) if n % 2 == 0 => ("PA", bytes),
            _ => ("A", bytes),
        };
        self.sent[side] += more;
        // Some were lost on their way, and some acknowledge what was never sent.
        let ack = match dice.roll(9) {
            0 => ack + dice.roll(3000),
            1 => ack + dice.roll(40),
            _ => ack,
        };
        let len = if flags.contains('S') || flags.contains('F') || flags == "R" { 0 } else { more };
        (end, format!("{line} {flags} df seq {seq} ack {ack} len {len}"))
    }
}

/// Hosts talk through both nodes, which become `other` and what they were again now and then.
///
/// # Panics
/// If the two do not do the same.
pub fn talk(nodes: &mut [VirtualNode; 2], seed: u64, text: &str, other: &str) {
    let mut dice = Dice(seed);
    let mut talks: Vec<Talk> = (0..12)
        .map(|n| {
            let (host, port, far, service) = (2 + n % 4, 5000 + n, 9 + n % 3, [53, 80][n % 2]);
            let (inside, remote) = match n % 3 {
                2 => (format!("[2001:db8:1::{host}]:{port}"), format!("[2001:db8:9::{far}]:{service}")),
                _ => (format!("198.18.0.{host}:{port}"), format!("198.19.0.{far}:{service}")),
            };
            Talk { proto: ["udp", "tcp"][n % 2], inside, remote, outside: None, sent: [0, 0] }
        })
        .collect();
    nodes.iter_mut().for_each(|node| node.configure(&format!("node {text}")).expect("a node"));
    let (mut at, mut changed) = (Duration::from_millis(1), false);
    for step in 0..250 {
        at += match dice.roll(30) {
            0 => Duration::from_secs(dice.roll(200).into()),
            _ => Duration::from_millis(dice.roll(500).into()),
        };
        if dice.roll(40) == 0 {
            changed = !changed;
            let text = if changed { other } else { text };
            nodes.iter_mut().for_each(|node| node.configure(&format!("node {text}")).expect("another"));
        }
        let lines: Vec<_> = (0..=dice.roll(12))
            .map(|_| {
                let n = dice.roll(talks.len() as u32) as usize;
                let (end, line) = talks[n].next(&mut dice);
                (n, end, line)
            })
            .collect();
        let seen = nodes.each_mut().map(|node| {
            for (_, end, line) in &lines {
                node.send(at, *end, &packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}")));
            }
            let left = node.left();
            (left, node.drops(), node.sessions(), node.rules(), node.accounting())
        });
        let said = || format!("{text}, seed {seed}, step {step}: {lines:#?}");
        assert_eq!(seen[0], seen[1], "{}", said());
        for (_, packet) in seen[0].0.iter().filter(|(end, _)| *end == End::Right) {
            let line = described(packet).expect("a packet");
            let mut words = line.split(' ');
            let (Some(proto), Some(from), Some(to)) = (words.next(), words.next(), words.nth(1)) else {
                continue;
            };
            let mut of_it = talks.iter_mut().filter(|talk| (talk.proto, &talk.remote[..]) == (proto, to));
            let port = from.rsplit(':').next();
            // The sender: the talk without an outside end yet, or with the same one.
            let is_it = |talk: &&mut Talk| {
                lines.iter().any(|(_, _, line)| line.contains(&talk.inside))
                    && (text.contains("nat") && !from.starts_with('[')
                        || talk.inside.rsplit(':').next() == port)
            };
            if let Some(talk) = of_it.find(is_it) {
                talk.outside = Some(from.to_string());
            }
        }
    }
}
