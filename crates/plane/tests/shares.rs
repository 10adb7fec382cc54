//! A host that means no good beside one that does: it floods what both use together, and the other one loses nothing.
//!
//! ```text
//! flood, a packet of the honest host, flood, the answer to it, ...        each row a flood, in virtual time
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_packet::neighbour::{Host, question};
use weir_plane::scenario::{End, Target, VirtualNode, described, packet};
use weir_testkit::Dice;

/// A flooding host: dice, and the peer of an exchange that is under way, with its next step.
struct Attacker {
    dice: Dice,
    other: Ipv4Addr,
    step: u32,
}

impl Attacker {
    fn roll(&mut self, sides: u32) -> u32 {
        self.dice.roll(sides)
    }

    /// The next step of an exchange of so many, from 0, and its peer.
    fn exchange(&mut self, steps: u32) -> (u32, Ipv4Addr) {
        let step = self.step;
        if step == 0 {
            self.other = self.address();
        }
        self.step = (step + 1) % steps;
        (step, self.other)
    }

    /// An address that no honest host has.
    fn address(&mut self) -> Ipv4Addr {
        Ipv4Addr::from(0xc613_8000 + self.roll(1 << 14))
    }
}

/// What a flood sends next, and where it comes in: a packet, or `arp HOST > ADDRESS`.
type Flood = fn(&mut Attacker) -> (End, String);

/// Frames of a flood before each packet of the honest host, and the time that passes with them.
const BETWEEN: u32 = 300;
const STEP: Duration = Duration::from_millis(10);
/// How often the honest host does all that it does.
const ROUNDS: u32 = 3;

/// An honest host at 198.18.0.200 and one far away at 198.19.0.200, through a node that is flooded.
struct Street {
    node: VirtualNode,
    flood: Flood,
    attacker: Attacker,
    at: Duration,
    what: String,
}

impl Street {
    fn new(text: &str, threads: u8, flood: Flood, what: &str) -> Street {
        let nobody_at =
            ["198.18.128.0/17", "198.19.128.0/17", "2001:db8:1:0:8000::/65", "2001:db8:2:0:8000::/65"];
        let nobody_at = nobody_at.map(|network| network.parse().expect("a network"));
        let mut node =
            nobody_at.into_iter().fold(VirtualNode::of_threads(threads), VirtualNode::with_nobody_at);
        node.configure(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        Street {
            node,
            flood,
            attacker: Attacker { dice: Dice::new(7), other: Ipv4Addr::UNSPECIFIED, step: 0 },
            at: Duration::ZERO,
            what: format!("{what}, {threads} threads"),
        }
    }

    /// What leaves by the other end because of a packet that comes in by one, behind the next fragment of the flood.
    fn send(&mut self, end: End, line: &str) -> Vec<String> {
        for n in 0..BETWEEN {
            let (end, line) = (self.flood)(&mut self.attacker);
            let at = self.at + STEP * (n + 1) / BETWEEN;
            match line.strip_prefix("arp ").and_then(|ends| ends.split_once(" > ")) {
                Some((from, target)) => self.node.send_frame(at, end, &arp(from, target)),
                None => {
                    self.node.send(at, end, &packet(&line).unwrap_or_else(|wrong| panic!("{line}: {wrong}")))
                }
            }
        }
        self.at += STEP;
        self.node.wait(self.at);
        self.node.left();
        self.node.send(self.at, end, &packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}")));
        self.node.sound().unwrap_or_else(|wrong| panic!("{}: {wrong}", self.what));
        let left = self.node.left();
        left.iter()
            .map(|(_, bytes)| described(bytes).unwrap_or_else(|wrong| panic!("{line}: {wrong}")))
            .collect()
    }

    /// The one packet that leaves because of this one.
    fn pass(&mut self, end: End, line: &str) -> String {
        let mut left = self.send(end, line);
        assert_eq!(left.len(), 1, "{}: {line} at {:?}: {:?}", self.what, self.at, self.node.drops());
        left.remove(0)
    }

    /// All that an honest host does, once.
    fn talk(&mut self, round: u32) {
        let port = 2000 + round;
        // It opens a connection and says something, and hears something.
        let out = self.pass(End::Left, &format!("tcp 198.18.0.200:{port} > 198.19.0.200:80 S seq 1"));
        let (from, to) = ends(&out);
        self.pass(End::Right, &format!("tcp {to} > {from} SA seq 1 ack 2"));
        self.pass(End::Left, &format!("tcp 198.18.0.200:{port} > 198.19.0.200:80 A seq 2 ack 2 len 100"));
        self.pass(End::Right, &format!("tcp {to} > {from} A seq 2 ack 102 len 1000"));
        // Datagrams in fragments, the first one first, and then last, both ways.
        let asks = format!("udp 198.18.0.200:{port} > 198.19.0.200:53");
        let (from, to) = ends(&self.pass(End::Left, &asks));
        let answers = format!("udp {to} > {from}");
        for (end, line) in [(End::Left, asks), (End::Right, answers)] {
            let id = 2 * round;
            let first = format!("{line} frag 0+ len 16 whole 64 id {id}");
            let later = first.replace("frag 0+", "frag 24").replace("len 16", "len 48");
            let later = without_ports(&later);
            self.pass(end, &first);
            self.pass(end, &later);
            let again = |line: &str| line.replace(&format!("id {id}"), &format!("id {}", id + 1));
            assert_eq!(self.send(end, &again(&later)), [""; 0], "{}: it waits", self.what);
            assert_eq!(self.send(end, &again(&first)).len(), 2, "{}: {:?}", self.what, self.node.drops());
        }
    }
}

/// The ARP request of a host, under an Ethernet address that follows from its own.
fn arp(from: &str, target: &str) -> Vec<u8> {
    let from: Ipv4Addr = from.parse().expect("an address");
    let [a, b, c, d] = from.octets();
    question(Host { mac: [2, 1, a, b, c, d], ip: from.into() }, target.parse().expect("an address"))
}

/// Hosts at either end reach some at the other that are new to the node.
fn meet(street: &mut Street, round: u32) {
    let (from, to) = (100 + round, 150 + round);
    street.pass(End::Left, &format!("udp 198.18.0.200:1 > 198.19.0.{to}:53"));
    street.pass(End::Right, &format!("udp 198.19.0.200:1 > 198.18.0.{from}:53"));
    street.pass(End::Left, &format!("udp [2001:db8:1::200]:1 > [2001:db8:2::{to}]:53"));
    // And those that have been talked to, again.
    street.pass(End::Right, "udp [2001:db8:2::200]:1 > [2001:db8:1::200]:53");
    street.pass(End::Right, "udp 198.19.0.200:1 > 198.18.0.200:53");
}

/// Neighbours and others speak with the node itself: BGP, OSPF, a login, a ping.
fn visit(street: &mut Street, round: u32) {
    let id = 1 + round;
    street.pass(End::Right, &format!("tcp 198.19.0.200:50000 > 198.19.0.1:179 A seq {id} ack 1 len 1000"));
    street.pass(End::Right, "proto/89 198.19.0.200 > 224.0.0.5 len 44");
    street.pass(End::Left, &format!("tcp 198.18.0.200:50000 > 198.18.0.1:22 A seq {id} ack 1 len 10"));
    street.pass(End::Left, &format!("icmp echo 198.18.0.200 > 198.18.0.1 id {id}"));
    street.pass(End::Left, &format!("icmp reply 198.18.0.200 > 198.18.0.1 id {id}"));
}

/// The ends of a packet as a line describes it.
fn ends(line: &str) -> (String, String) {
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().position(|word| *word == ">").expect("from somebody to somebody");
    (words[at - 1].to_string(), words[at + 1].to_string())
}

/// The line of a later fragment.
fn without_ports(line: &str) -> String {
    let host = |word: &str| word.split_once(':').map_or(word.to_string(), |(host, _)| host.to_string());
    line.split(' ').map(host).collect::<Vec<_>>().join(" ")
}

const FILTER: &str = "filter(accept outward, accept state established, accept state related)";
const NAT: &str = "nat(public 192.0.2.0/28)";

#[test]
fn a_flood_takes_nothing_from_others() {
    let both = format!("{FILTER} > {NAT}");
    let rows: &[(&str, &str, Flood)] = &[
        ("first fragments from a host inside", &both, |dice| {
            let (port, id) = (dice.roll(60_000), dice.roll(65_536));
            (End::Left, format!("udp 198.18.0.66:{port} > 198.19.0.9:53 frag 0+ len 16 whole 64 id {id}"))
        }),
        ("later fragments from a host inside", &both, |dice| {
            let id = dice.roll(65_536);
            (End::Left, format!("udp 198.18.0.66 > 198.19.0.9 frag 24 len 16 whole 64 id {id}"))
        }),
        ("fragments of one packet", &both, |dice| {
            let at = 8 * (1 + dice.roll(7000));
            (End::Left, format!("udp 198.18.0.66 > 198.19.0.9 frag {at}+ len 8 whole 65000 id 7"))
        }),
        ("first and later fragments from one host outside", &both, |dice| {
            let id = dice.roll(65_536);
            match dice.roll(2) {
                0 => (End::Right, format!("udp 198.19.0.9 > 192.0.2.3 frag 24 len 16 whole 64 id {id}")),
                _ => {
                    (End::Right, format!("udp 198.19.0.9:9 > 192.0.2.3:5000 frag 0+ len 16 whole 64 id {id}"))
                }
            }
        }),
    ];
    for (what, node, flood) in rows {
        for threads in [1, 3] {
            let mut street = Street::new(node, threads, *flood, what);
            (0..ROUNDS).for_each(|round| street.talk(round));
        }
    }
}

const ROUTER: &str = "lan(198.18.0.1/16, 2001:db8:1::1/64) > route(default via 198.19.0.200) > \
                      wan(198.19.0.1/16, 2001:db8:2::1/64)";

/// Runs each row, by one thread and by several.
fn check(rows: &[(&str, Flood)], honest: fn(&mut Street, u32)) {
    for (what, flood) in rows {
        for threads in [1, 3] {
            let mut street = Street::new(ROUTER, threads, *flood, what);
            (0..ROUNDS).for_each(|round| honest(&mut street, round));
        }
    }
}

#[test]
fn who_scans_a_network_hides_no_neighbour() {
    check(
        &[
            ("a network inside, from outside", |dice| {
                (
                    End::Right,
                    format!("udp 198.19.0.66:1 > 198.18.{}.{}:53", 128 + dice.roll(128), dice.roll(255)),
                )
            }),
            ("a network outside, from inside", |dice| {
                (
                    End::Left,
                    format!("udp 198.18.0.66:1 > 198.19.{}.{}:53", 128 + dice.roll(128), dice.roll(255)),
                )
            }),
            ("a network of IPv6 inside, from outside", |dice| {
                let (a, b) = (0x8000 + dice.roll(0x8000), dice.roll(0xffff));
                (End::Right, format!("udp [2001:db8:2::66]:1 > [2001:db8:1:0:{a:x}:{b:x}::9]:53"))
            }),
            ("a network of IPv6 inside, from addresses that are made up outside", |dice| {
                let (from, a) = (dice.roll(0xffff), 0x8000 + dice.roll(0x8000));
                (End::Right, format!("udp [2001:db8:2:0:{from:x}::6]:1 > [2001:db8:1:0:{a:x}::9]:53"))
            }),
            ("questions under addresses that are made up", |dice| {
                let (a, b) = (128 + dice.roll(128), 1 + dice.roll(250));
                (End::Left, format!("arp 198.18.{a}.{b} > 198.18.0.1"))
            }),
        ],
        meet,
    );
}

#[test]
fn a_flood_to_the_node_itself_keeps_nobody_else_from_it() {
    check(
        &[
            ("datagrams", |dice| {
                (End::Right, format!("udp 198.19.0.66:1 > 198.19.0.1:{}", 1000 + dice.roll(9)))
            }),
            ("datagrams from inside", |_| (End::Left, "udp 198.18.0.66:1 > 198.18.0.1:53".to_string())),
            ("connections to BGP from far away", |dice| {
                (
                    End::Right,
                    format!("tcp 192.0.2.{}:{} > 198.19.0.1:179 S", dice.roll(250), 1 + dice.roll(60_000)),
                )
            }),
            ("answers of ICMP", |_| (End::Right, "icmp reply 198.19.0.66 > 198.19.0.1 id 7".to_string())),
            ("questions", |dice| (End::Left, format!("arp 198.18.0.66 > 198.18.0.{}", dice.roll(2)))),
        ],
        visit,
    );
}

/// A host inside finds out how long packets may be, and by which way they go.
fn discover(street: &mut Street, round: u32) {
    for (line, reported) in [
        (format!("udp 198.18.0.200:{round} > 198.19.0.200:53 len 1450 df"), "icmp unreachable/4 "),
        (format!("udp 198.18.0.200:{round} > 198.19.0.200:53 ttl 1"), "icmp exceeded"),
    ] {
        let answer = street.pass(End::Left, &line);
        assert!(answer.starts_with(reported), "{}: {line}: {answer}", street.what);
    }
}

#[test]
fn who_is_reported_of_much_keeps_nobody_from_being_reported() {
    let text = ROUTER.replace("::1/64)", "::1/64, mtu 1400)");
    let rows: [(&str, Flood); 5] = [
        ("packets whose time ends here", |_| {
            (End::Left, "udp 198.18.0.66:1 > 198.19.0.200:53 ttl 1".to_string())
        }),
        ("packets that are too long", |_| {
            (End::Left, "udp 198.18.0.66:1 > 198.19.0.200:53 len 1450 df".to_string())
        }),
        ("packets without a way, from outside", |dice| {
            (End::Right, format!("udp 198.19.0.66:1 > 198.19.0.200:{} ttl 1", 1 + dice.roll(99)))
        }),
        ("packets whose time ends here, from addresses that are made up outside", |dice| {
            (End::Right, format!("udp {}:1 > 198.18.0.200:53 ttl 1", dice.address()))
        }),
        ("packets that are too long, from addresses that are made up outside", |dice| {
            (End::Right, format!("udp {}:1 > 198.18.0.200:53 len 1450 df", dice.address()))
        }),
    ];
    for (what, flood) in rows {
        let mut street = Street::new(&text, 1, flood, what);
        (0..ROUNDS).for_each(|round| discover(&mut street, round));
    }
}

#[test]
fn who_gets_no_port_is_told_so_whoever_else_gets_none() {
    let flood: Flood = |dice| {
        let port = 1000 + dice.roll(60_000);
        (End::Left, format!("udp 198.18.0.66:{port} > 198.19.0.9:53"))
    };
    let mut street = Street::new("nat(public 192.0.2.1 ports 5000-5000)", 1, flood, "ports");
    for round in 0..ROUNDS {
        let answer = street.pass(End::Left, &format!("udp 198.18.0.200:{} > 198.19.0.200:53", 2000 + round));
        assert!(answer.starts_with("icmp unreachable/1 "), "{}: {answer}", street.what);
    }
}

/// Tables that a flood fills in a tenth of a second.
const SMALL_FILTER: &str = "filter(connections 2000, accept outward, accept state established, accept state related, \
                            accept inward udp to port 9, accept inward tcp to port 80)";
const SMALL_NAT: &str = "nat(public 192.0.2.0/28, sessions 2000, subscriber-calls 100, forward tcp 192.0.2.1:80 to 198.18.0.66:80)";

#[test]
fn a_table_that_is_full_takes_whoever_is_honest() {
    let rows: &[(&str, &str, Flood)] = &[
        ("questions from anywhere outside, which are answered, by a filter", SMALL_FILTER, |dice| match dice
            .exchange(2)
        {
            (0, asks) => (End::Right, format!("udp {asks}:9000 > 198.18.0.66:9")),
            (_, asks) => (End::Left, format!("udp 198.18.0.66:9 > {asks}:9000")),
        }),
        ("questions from a host inside, which are answered, by a filter", SMALL_FILTER, |dice| {
            match dice.exchange(2) {
                (0, asked) => (End::Left, format!("udp 198.18.0.66:9000 > {asked}:53")),
                (_, asked) => (End::Right, format!("udp {asked}:53 > 198.18.0.66:9000")),
            }
        }),
        ("connections from a host inside, which are open, by a filter", SMALL_FILTER, |dice| {
            match dice.exchange(3) {
                (0, to) => (End::Left, format!("tcp 198.18.0.66:9000 > {to}:80 S seq 1")),
                (1, to) => (End::Right, format!("tcp {to}:80 > 198.18.0.66:9000 SA seq 1 ack 2")),
                (_, to) => (End::Left, format!("tcp 198.18.0.66:9000 > {to}:80 A seq 2 ack 2")),
            }
        }),
        ("connections from anywhere outside, which are open", SMALL_NAT, |dice| match dice.exchange(3) {
            (0, from) => (End::Right, format!("tcp {from}:9000 > 192.0.2.1:80 S seq 1")),
            (1, from) => (End::Left, format!("tcp 198.18.0.66:80 > {from}:9000 SA seq 1 ack 2")),
            (_, from) => (End::Right, format!("tcp {from}:9000 > 192.0.2.1:80 A seq 2 ack 2")),
        }),
        ("connections from outside that nobody answers", SMALL_NAT, |dice| {
            (End::Right, format!("tcp {}:{} > 192.0.2.1:80 S", dice.address(), 1 + dice.roll(60_000)))
        }),
        ("connections from inside that nobody answers", SMALL_NAT, |dice| {
            (End::Left, format!("tcp 198.18.0.66:{} > {}:80 S", 1 + dice.roll(60_000), dice.address()))
        }),
        ("datagrams from a host inside", SMALL_NAT, |dice| {
            (End::Left, format!("udp 198.18.0.66:{} > {}:53", 1 + dice.roll(60_000), dice.address()))
        }),
        ("datagrams from anywhere outside, by a filter", SMALL_FILTER, |dice| {
            (End::Right, format!("udp {}:{} > 198.18.0.66:9", dice.address(), 1 + dice.roll(60_000)))
        }),
        ("connections from anywhere outside, by a filter", SMALL_FILTER, |dice| {
            (End::Right, format!("tcp {}:{} > 198.18.0.66:80 S", dice.address(), 1 + dice.roll(60_000)))
        }),
        ("datagrams from a host inside, by a filter", SMALL_FILTER, |dice| {
            (End::Left, format!("udp 198.18.0.66:{} > {}:53", 1 + dice.roll(60_000), dice.address()))
        }),
    ];
    for (what, node, flood) in rows {
        let mut street = Street::new(node, 1, *flood, what);
        (0..2 * ROUNDS).for_each(|round| street.talk(round));
    }
}

/// Where addresses are made up, no address outside can be told from another: inside this has no effect.
#[test]
fn a_flood_from_addresses_that_are_made_up_stays_on_its_side() {
    let flood: Flood = |dice| {
        let (from, id) = (dice.address(), dice.roll(65_536));
        (End::Right, format!("udp {from} > 192.0.2.3 frag 24 len 16 whole 64 id {id}"))
    };
    let mut street = Street::new(&format!("{FILTER} > {NAT}"), 1, flood, "later fragments from anywhere");
    for round in 0..ROUNDS {
        let line = format!("udp 198.18.0.200:{round} > 198.19.0.200:53 frag 0+ len 16 whole 64 id {round}");
        let later = without_ports(&line).replace("frag 0+ len 16", "frag 24 len 48");
        assert_eq!(street.send(End::Left, &later), [""; 0]);
        assert_eq!(street.send(End::Left, &line).len(), 2, "{:?}", street.node.drops());
    }
    assert!(street.node.drops().is_some_and(|drops| drops["fragment_limit"] > 1000));
}
