//! A host that means no good beside one that does: it floods what both use together, and the other one loses nothing.
//!
//! ```text
//! flood, a packet of the honest host, flood, the answer to it, ...        each row a flood, in virtual time
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_plane::scenario::{End, Target, VirtualNode, described, packet};

/// Numbers, the same from the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % sides
    }

    /// An address that nobody honest has.
    fn address(&mut self) -> Ipv4Addr {
        Ipv4Addr::from(0xc613_8000 + self.roll(1 << 14))
    }
}

/// What a flood sends next, and where it comes in.
type Flood = fn(&mut Dice) -> (End, String);

/// Frames of a flood before each packet of the honest host, and the time that passes with them.
const BETWEEN: u32 = 300;
const STEP: Duration = Duration::from_millis(10);
/// How often the honest host does all that it does.
const ROUNDS: u32 = 5;

/// An honest host at 198.18.0.200 and one far away at 198.19.0.200, through a node that somebody floods.
struct Street {
    node: VirtualNode,
    flood: Flood,
    dice: Dice,
    at: Duration,
    what: String,
}

impl Street {
    fn new(text: &str, threads: u8, flood: Flood, what: &str) -> Street {
        let mut node = VirtualNode::of_threads(threads);
        node.configure(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        Street { node, flood, dice: Dice(7), at: Duration::ZERO, what: format!("{what}, {threads} threads") }
    }

    /// What leaves by the other end because of a packet that comes in by one, behind the next piece of the flood.
    fn send(&mut self, end: End, line: &str) -> Vec<String> {
        for n in 0..BETWEEN {
            let (end, line) = (self.flood)(&mut self.dice);
            let bytes = packet(&line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
            self.node.send(self.at + STEP * n / BETWEEN, end, &bytes);
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
        // Datagrams in pieces, the first one first, and then last, both ways.
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

/// Where addresses are made up, nobody tells one outside from another: inside nobody notices.
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
