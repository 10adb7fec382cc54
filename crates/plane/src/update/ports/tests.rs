//! Ports that come, change and go: each text that a plane has been given makes it decide as a new plane of that text.

use std::collections::BTreeMap;

use weir_packet::frame::Mac;

use super::*;
use crate::batch::{Batch, Verdict};
use crate::drops::DropReason;
use crate::frame::{Frame, HEAD_ROOM};
use crate::kept::Emitted;
use crate::random::Random;
use crate::scenario::packet;
use crate::time::Time;
use crate::update::Update;

const HOST: Mac = [2, 0, 0, 0, 0xcc, 1];

fn config(text: &str) -> Config {
    Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A plane with its text.
struct Rig {
    plane: Plane,
    config: Config,
    now: Time,
}

impl Rig {
    fn new(config: Config) -> Rig {
        let macs: Vec<Mac> = config.ports.iter().map(|port| port.mac.unwrap_or([2; 6])).collect();
        Rig { plane: Plane::new(&config, &macs), config, now: Time::from_ms(1) }
    }

    fn apply(&mut self, text: &str) {
        let new = config(text).instead_of(&self.config, 1).expect("numbers");
        let update = Update::prepare(&self.config, &new).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        self.plane.take(self.now, update).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        self.config = new;
        self.free();
        assert!(self.plane.accounting().balance(), "{text}: {:?}", self.plane.accounting());
    }

    /// What was kept has no memory.
    fn free(&mut self) {
        while let Some(emitted) = self.plane.next_emitted() {
            if let Emitted::Back(ticket) = emitted {
                self.plane.lost_while_kept(ticket);
            }
        }
    }

    fn number(&self, name: &str) -> PortId {
        let found = self.config.ordered().find(|(_, port)| port.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).0
    }

    fn name(&self, port: PortId) -> String {
        self.config.ports[usize::from(port.0)].name.clone()
    }

    /// A frame comes in by a port, with its tags; what becomes of it.
    fn frame(&mut self, port: &str, to: Mac, rest: &[u8]) -> String {
        let number = self.number(port);
        let tags = self.config.ports[usize::from(number.0)].tags().concat();
        self.tagged(number, to, &[&tags[..], rest].concat())
    }

    fn tagged(&mut self, number: PortId, to: Mac, rest: &[u8]) -> String {
        let mut buf = [&[0; HEAD_ROOM][..], &to, &HOST, rest].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, number));
        self.plane.run(self.now, &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        let bytes: String = frame.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = match verdict {
            Verdict::Out(port) => format!("out {} {bytes}", self.name(port)),
            Verdict::Kept(_) => "kept".to_string(),
            other => format!("{other:?}"),
        };
        self.plane.departures().for_each(drop);
        self.free();
        shown
    }

    fn mac(&self, port: &str) -> Mac {
        self.config.ports[usize::from(self.number(port).0)].mac.unwrap_or([2; 6])
    }

    /// A packet comes in by a port.
    fn packet(&mut self, port: &str, line: &str) -> String {
        let kind: [u8; 2] = if line.contains('[') { [0x86, 0xdd] } else { [8, 0] };
        let packet = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
        let mac = self.mac(port);
        self.frame(port, mac, &[&kind[..], &packet].concat())
    }

    /// A host of the link of a port asks for an address: the node learns of it.
    fn asks(&mut self, port: &str, host: [u8; 4], target: [u8; 4]) -> String {
        let arp = [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1][..], &HOST, &host, &[0; 6], &target].concat();
        self.frame(port, [0xff; 6], &arp)
    }
}

const LAN: &str = "lan(10.1.0.1/16, mac 02:00:00:00:00:01)";
const WAN: &str = "wan(198.18.0.1/24, mac 02:00:00:00:00:02, neighbour 198.18.0.9 02:00:00:00:cc:09)";

fn router(lan: &str, wan: &str) -> String {
    format!("{lan} > route(default via 198.18.0.9) > {wan}")
}

#[test]
fn addresses_mtu_tags_and_checks_of_sources_change_in_place() {
    let mut rig = Rig::new(config(&router(LAN, WAN)));
    let out = "udp 10.1.0.5:1 > 203.0.113.9:2";
    let (back, other) = ("udp 203.0.113.9:2 > 10.1.0.5:1", "udp 203.0.113.9:2 > 10.2.0.5:1");
    assert!(rig.packet("lan", out).starts_with("out wan"));
    assert_eq!(rig.packet("wan", back), "kept", "a neighbour is asked for");
    assert!(rig.asks("lan", [10, 1, 0, 5], [10, 1, 0, 1]).starts_with("Punted"));
    assert!(rig.packet("wan", back).starts_with("out lan"));
    // Another network: its hosts are new, and those before are none.
    let moved = LAN.replace("10.1.0.1/16", "10.2.0.1/16");
    rig.apply(&router(&moved, WAN));
    assert!(rig.packet("lan", out).contains("ReversePath"));
    assert_eq!(rig.packet("wan", other), "kept");
    assert!(!rig.packet("wan", back).starts_with("out lan"));
    assert!(rig.packet("lan", "udp 10.2.0.5:1 > 203.0.113.9:2").starts_with("out wan"));
    // The node answers.
    assert!(rig.packet("lan", "icmp echo 10.2.0.5 > 10.2.0.1 id 1").starts_with("out lan"));
    rig.apply(&router(&moved.replace("/16", "/16, rpf off"), WAN));
    assert!(rig.packet("lan", out).starts_with("out wan"));
    // Shorter packets.
    let long = "udp 10.2.0.5:1 > 203.0.113.9:2 len 600 df";
    let is_long = rig.packet("lan", long).starts_with("out wan");
    rig.apply(&router(&moved, &WAN.replace("/24", "/24, mtu 576")));
    assert!(is_long && rig.packet("lan", long).contains("TooBig"), "{is_long}");
    // Tags: frames with those of before are none of the port.
    rig.apply(&router(&moved, &WAN.replace("/24", "/24, vlan 7")));
    let tagged = rig.packet("lan", "udp 10.2.0.5:1 > 203.0.113.9:2");
    assert!(tagged.starts_with("out wan") && &tagged["out wan ".len() + 24..][..8] == "81000007", "{tagged}");
    let (wan, mac) = (rig.number("wan"), rig.mac("wan"));
    let plain = [&[8, 0][..], &packet("udp 203.0.113.9:1 > 10.2.0.5:2").expect("a packet")].concat();
    assert!(rig.tagged(wan, mac, &plain).contains("UnknownVlan"));
    // Another Ethernet address.
    rig.apply(&router(&moved, &WAN.replace("00:02,", "00:22,").replace("/24", "/24, vlan 7")));
    assert!(rig.tagged(wan, mac, &[&[0x81, 0, 0, 7][..], &plain].concat()).contains("NotForUs"));
    assert_eq!(rig.packet("wan", "udp 203.0.113.9:2 > 10.2.0.7:1"), "kept");
}

#[test]
fn a_port_that_comes_to_punt_finds_the_control_program() {
    let mut rig = Rig::new(config("lan > wan"));
    rig.plane.set_control(true);
    assert!(rig.asks("lan", [10, 1, 0, 5], [10, 1, 0, 1]).starts_with("out wan"));
    rig.apply("lan(punt arp) > wan");
    assert_eq!(rig.asks("lan", [10, 1, 0, 5], [10, 1, 0, 1]), "Control(Arp)");
    rig.apply("lan > wan");
    assert!(rig.asks("lan", [10, 1, 0, 5], [10, 1, 0, 1]).starts_with("out wan"));
}

#[test]
fn frames_of_a_port_that_has_gone_are_dropped_by_name() {
    let mut rig = Rig::new(config("a b filter(policy accept) > queue(outward 8Mbit) > x"));
    let line = "udp 10.1.0.5:1 > 203.0.113.9:2";
    // The first one is on the link at once, the others wait for that.
    (0..3).for_each(|_| assert_eq!(rig.packet("b", line), "kept"));
    let b = rig.number("b");
    rig.apply("a filter(policy accept) > queue(outward 8Mbit) > x");
    let plain = [&[8, 0][..], &packet(line).expect("a packet")].concat();
    assert!(rig.tagged(b, [2; 6], &plain).contains("PortGone"));
    // Those of it that waited go on.
    let before = rig.plane.accounting();
    rig.plane.tick(Time::from_ms(100));
    assert!(matches!(rig.plane.next_emitted(), Some(Emitted::Back(_))));
    assert_eq!((before.kept, before.drops[DropReason::PortGone]), (2, 1));
}

/// A route stays as it is written, and its next hop is at another port.
#[test]
fn a_next_hop_is_at_the_port_that_has_its_network_now() {
    let with = |p: &str, q: &str| {
        let ports =
            format!("p({p}, mac 02:00:00:00:00:01) q({q}, mac 02:00:00:00:00:03) filter(policy accept)");
        format!("{ports} > route(203.0.113.0/24 via 10.1.0.6) > {WAN}")
    };
    let (here, there) = ("10.1.0.1/16, neighbour 10.1.0.6 02:00:00:00:cc:06", "10.2.0.1/16");
    let mut rig = Rig::new(config(&with(here, there)));
    let line = "udp 198.18.0.9:1 > 203.0.113.9:2";
    assert!(rig.packet("wan", line).starts_with("out p"));
    rig.apply(&with(there, here));
    assert!(rig.packet("wan", line).starts_with("out q"));
    // The port goes, and another one has its network.
    rig.apply(&format!(
        "r({here}, mac 02:00:00:00:00:05) filter(policy accept) > route(203.0.113.0/24 via 10.1.0.6) > {WAN}"
    ));
    assert!(rig.packet("wan", line).starts_with("out r"));
}

/// A host that waits for its neighbour's answer at a port that goes is told so, and all is counted.
#[test]
fn what_waits_for_a_neighbour_of_a_port_that_goes_is_dropped() {
    let dmz = "dmz(10.3.0.1/16, mac 02:00:00:00:00:03)";
    let mut rig = Rig::new(config(&router(&format!("{LAN} {dmz} filter(policy accept)"), WAN)));
    assert_eq!(rig.packet("wan", "udp 203.0.113.9:2 > 10.3.0.5:1"), "kept");
    assert_eq!(rig.plane.accounting().kept, 1);
    rig.apply(&router(&format!("{LAN} filter(policy accept)"), WAN));
    let seen = rig.plane.accounting();
    assert_eq!((seen.kept, seen.drops.total()), (0, 1), "{seen:?}");
    // What was its network is reached by the default route.
    assert!(rig.packet("lan", "udp 10.1.0.5:1 > 10.3.0.5:2").starts_with("out wan"));
}

#[test]
fn a_port_without_an_address_of_its_own_cannot_come_to_a_router() {
    let old = config(&router(LAN, WAN));
    let new = config(&router(&format!("{LAN} dmz(10.3.0.1/16) filter(policy accept)"), WAN));
    let new = new.instead_of(&old, 1).expect("numbers");
    let wrong = Update::prepare(&old, &new).expect_err("no mac");
    assert_eq!(wrong, "port `dmz` comes without an Ethernet address: write its `mac`");
}

/// A text of some of these ports, at either end, with networks inside each other, and routes to them.
fn some_text(random: &mut Random) -> String {
    let mut ends = [Vec::new(), Vec::new()];
    for n in 0..6 {
        if random.below(4) == 0 {
            continue;
        }
        let network = match random.below(5) {
            0 => format!("10.{}.0.1/16", random.below(3)),
            1 => format!("10.{}.{}.1/24", random.below(3), random.below(3)),
            2 => format!("10.{}.0.{}/30", random.below(3), 5 + 4 * random.below(2)),
            3 => format!("10.{}.0.1/16, 2001:db8:{}::1/64", random.below(3), random.below(3)),
            _ => format!("10.{}.1.1/24, 10.{}.0.1/24", random.below(3), random.below(3)),
        };
        let one =
            |random: &mut Random, all: &[&str]| all[random.below(all.len() as u64) as usize].to_string();
        let vlan = one(random, &["", "", ", vlan 5", ", vlan 7.9", ", vlan 10-20"]);
        let mtu = one(random, &["", "", ", mtu 600"]);
        let rpf = one(random, &["", "", ", rpf strict", ", rpf loose", ", rpf off"]);
        let punt = one(random, &["", "", "", ", punt dhcp4 arp"]);
        let neighbour = match random.below(3) {
            0 if !vlan.contains('-') => format!(", neighbour 10.{}.0.6 02:00:00:00:cc:06", random.below(3)),
            _ => String::new(),
        };
        let port = format!("p{n}({network}{vlan}{mtu}{rpf}{punt}{neighbour}, mac 02:00:00:00:00:0{n})");
        ends[random.below(2) as usize].push(port);
    }
    let mut routes = BTreeMap::new();
    for _ in 0..random.below(6) {
        let target = match random.below(6) {
            0 => "blackhole".to_string(),
            1 => format!("via 10.{}.0.6 via 10.{}.0.5", random.below(3), random.below(3)),
            2 => format!("via 10.{}.0.6 on p{}", random.below(3), random.below(6)),
            _ => format!("via 10.{}.{}.5", random.below(3), random.below(3)),
        };
        let prefix = match random.below(4) {
            0 => format!("10.{}.{}.0/24", random.below(3), random.below(3)),
            1 => format!("10.{}.0.0/16", random.below(3)),
            2 => format!("10.{}.0.6/32", random.below(3)),
            _ => format!("198.18.{}.0/24", random.below(4)),
        };
        routes.insert(prefix, target);
    }
    let routes: Vec<String> =
        routes.into_iter().map(|(prefix, target)| format!("{prefix} {target}")).collect();
    let rule = format!("drop in p{} udp to port 7", random.below(6));
    let rule = if random.below(2) == 0 { rule } else { "count all udp".into() };
    let [left, right] = ends.map(|ports| ports.join(" "));
    format!("{left} filter({rule}, policy accept) route({}) {right}", routes.join(", "))
}

/// What becomes of all that can be sent, one line each.
fn all_outcomes(rig: &mut Rig) -> Vec<String> {
    let hosts: Vec<[u8; 4]> =
        (0..3).flat_map(|a| (0..3).flat_map(move |b| [1, 5, 6, 255].map(|c| [10, a, b, c]))).collect();
    let ports: Vec<(String, Vec<std::net::IpAddr>)> =
        rig.config.ordered().map(|(_, port)| (port.name.clone(), local_addresses(port))).collect();
    for (port, addresses) in &ports {
        for &host in &hosts {
            for address in addresses {
                if let IpAddr::V4(address) = address {
                    rig.asks(port, host, address.octets());
                }
            }
        }
    }
    let mut all = Vec::new();
    let to = |[a, b, c, d]: [u8; 4]| format!("{a}.{b}.{c}.{d}");
    let targets: Vec<String> =
        hosts.iter().map(|host| to(*host)).chain((0..4).map(|n| format!("198.18.{n}.9"))).collect();
    for (port, _) in &ports {
        for from in ["10.0.0.5", "10.1.1.5", "10.2.0.6"] {
            for target in &targets {
                for dport in [7, 8] {
                    rig.now = rig.now + std::time::Duration::from_millis(500);
                    let line = format!("udp {from}:1 > {target}:{dport} len 700 df");
                    let seen = rig.packet(port, &line);
                    all.push(format!("{port}: {line}: {seen}"));
                }
            }
        }
        for n in 0..3 {
            let line = format!("udp [2001:db8:{n}::5]:1 > [2001:db8:{}::1]:2", (n + 1) % 3);
            let seen = rig.packet(port, &line);
            all.push(format!("{port}: {line}: {seen}"));
        }
    }
    all
}

#[test]
fn a_plane_decides_as_a_new_one_of_the_same_text() {
    let (mut texts, mut came, mut went) = (0, 0, 0);
    for seed in 1..=2 {
        let mut random = Random(seed);
        let mut next = || loop {
            let text = some_text(&mut random);
            if Config::read("n", &text)
                .is_ok_and(|config| config.ports.iter().all(|port| port.name.starts_with('p')))
            {
                return text;
            }
        };
        let mut rig = Rig::new(config(&next()));
        for step in 0..12 {
            let text = next();
            let before = rig.config.clone();
            rig.apply(&text);
            let is_new = |config: &Config, other: &Config| {
                config.ordered().filter(|(_, port)| !other.ports.iter().any(|one| one.is_same(port))).count()
            };
            (texts, came, went) =
                (texts + 1, came + is_new(&rig.config, &before), went + is_new(&before, &rig.config));
            let mut new = Rig::new(config(&text));
            new.now = rig.now;
            let (seen, expected) = (all_outcomes(&mut rig), all_outcomes(&mut new));
            for (seen, expected) in seen.iter().zip(&expected) {
                assert_eq!(seen, expected, "seed {seed}, step {step}: {text}");
            }
            assert!(
                rig.plane.accounting().balance(),
                "seed {seed}, step {step}: {:?}",
                rig.plane.accounting()
            );
            // The numbers of ports that went are free: no frame is kept.
            let holes = rig.config.ports.iter().enumerate().filter(|(_, port)| !port.is_present());
            let holes: Vec<PortId> = holes.map(|(n, _)| PortId(n as u16)).collect();
            holes.into_iter().for_each(|number| rig.config.free_number(number));
        }
    }
    assert!(came > 25 && went > 25, "of {texts} texts {came} ports came and {went} went");
}
