//! What one subscriber can flood a node with, through filter, NAT and shaper, while others on the same port send and receive: those lose no
//! frame, and what they say to the control program comes to it. One row for each flood.
//!
//! ```text
//!  eve   ---- 30 frames a ms ----\
//!  anna  ---- PPPoE in QinQ -----> access (shaper) > filter > NAT > route ---> 198.51.100.9
//!  ben   ---- IP in QinQ --------/          <--------- answers --------------
//! ```

use weir_packet::checksum::write_ipv4;
use weir_packet::frame::Mac;
use weir_packet::neighbour::{Host, question};
use weir_plane::scenario::{Vector, packet};
use weir_plane::{
    Batch, Command, Config, DropReason, Frame, HEAD_ROOM, MacText, Plane, PortId, PuntReason, Shelf,
    SubscriberCommand, SubscriberEntry, Time, UnknownSessions, Update, Verdict,
};
use weir_testkit::Dice;

const TEXT: &str = "lan(vlan 100-199.1-4094, access)
    > access(gateway 100.64.0.1/10, gateway 2001:db8:100::1/40, group north vlan 100-199 rate 40Mbit, port lan rate 100Mbit)
    > filter(connections 20000, accept state established, accept state related, accept outward state new)
    > nat(public 192.0.2.1, sessions 20000, subscriber-sessions 4000)
    > route(default via 198.18.0.2, ::/0 via 2001:db8:ff::2)
    > wan(198.18.0.1/24, 2001:db8:ff::1/64, neighbour 198.18.0.2 02:00:00:00:00:99, neighbour 2001:db8:ff::2 02:00:00:00:00:99)";
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xff]];
const ROUTER: Mac = [2, 0, 0, 0, 0, 0x99];
const LAN: u16 = 0;
const WAN: u16 = 1;
const MBIT: u64 = 1_000_000;
/// Frames of the flood in a millisecond, more than its rate.
const FLOOD: usize = 30;
const ROUNDS_MS: u64 = 400;
/// Flows of each of the others begin so often.
const FLOW_MS: u64 = 20;

/// A line: the outer tag, the last byte of the Ethernet address, the PPPoE session, 0: none.
#[derive(Clone, Copy)]
struct Line(u8, u8, u16);

const EVE: Line = Line(100, 1, 9);
const EVE_IP: Line = Line(100, 1, 0);
const ANNA: Line = Line(101, 2, 7);
const BEN: Line = Line(102, 3, 0);
/// The others, and their addresses.
const OTHERS: [(Line, &str); 2] = [(ANNA, "100.64.0.3"), (BEN, "100.64.0.4")];

impl Line {
    fn mac(self) -> Mac {
        [2, 0, 0, 0, 1, self.1]
    }

    /// What stands behind the tags of a frame, in the PPPoE session if there is one.
    fn payload(self, packet: &[u8]) -> Vec<u8> {
        let is_v4 = packet[0] >> 4 == 4;
        if self.2 == 0 {
            return [if is_v4 { &[8, 0][..] } else { &[0x86, 0xdd] }, packet].concat();
        }
        let length = packet.len() as u16 + 2;
        let header = [&[0x88, 0x64, 0x11, 0][..], &self.2.to_be_bytes(), &length.to_be_bytes()].concat();
        [&header[..], if is_v4 { &[0, 0x21] } else { &[0, 0x57] }, packet].concat()
    }

    fn frame(self, to: Mac, rest: &[u8]) -> Vec<u8> {
        [&to[..], &self.mac(), &[0x88, 0xa8, 0, self.0, 0x81, 0, 0, 7], rest].concat()
    }

    fn up(self, packet: &[u8]) -> Vec<u8> {
        self.frame(MACS[0], &self.payload(packet))
    }

    fn padi(self) -> Vec<u8> {
        self.frame([0xff; 6], &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0])
    }

    fn entry(self, session: u64, prefixes: [&str; 2]) -> SubscriberCommand {
        SubscriberCommand::Add(SubscriberEntry {
            session,
            port: "lan".into(),
            tags: format!("{}.7", self.0),
            mac: MacText::from(self.mac()),
            prefixes: prefixes.iter().map(|text| text.parse().expect("a prefix")).collect(),
            pppoe_session: Some(self.2).filter(|id| *id > 0),
            from_bits_per_s: Some(4 * MBIT),
            to_bits_per_s: Some(4 * MBIT),
            ..SubscriberEntry::default()
        })
    }
}

fn ip(line: &str) -> Vec<u8> {
    packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"))
}

/// A node in virtual time, and what has left it.
struct Node {
    config: Config,
    plane: Plane,
    kept: Shelf<Vector>,
    now_us: u64,
    left: Vec<(u16, Vec<u8>)>,
}

impl Node {
    fn new() -> Node {
        let config = Config::read("n", TEXT).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let mut plane = Plane::new(&config, &MACS);
        plane.set_control(true);
        let mut node = Node { config, plane, kept: Shelf::default(), now_us: 1000, left: Vec::new() };
        node.command(EVE.entry(1, ["100.64.0.2/32", "2001:db8:100:1::/64"]));
        node.command(EVE_IP.entry(4, ["100.64.0.5/32", "2001:db8:100:4::/64"]));
        node.command(ANNA.entry(2, ["100.64.0.3/32", "2001:db8:100:2::/64"]));
        node.command(BEN.entry(3, ["100.64.0.4/32", "2001:db8:100:3::/64"]));
        node.command(SubscriberCommand::UnknownSessions(UnknownSessions::Terminate));
        node
    }

    fn now(&self) -> Time {
        Time::from_ns(self.now_us * 1000)
    }

    fn command(&mut self, command: SubscriberCommand) {
        let changes =
            self.config.decide(&[Command::Subscriber(command)]).unwrap_or_else(|why| panic!("{why}"));
        self.plane.take(self.now(), Update::of_changes(&changes)).expect("room");
    }

    fn frame(&mut self, port: u16, bytes: &[u8]) -> Verdict {
        let mut buf = [&[0; HEAD_ROOM], bytes].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
        let now = self.now();
        self.plane.run(now, &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        match verdict {
            Verdict::Kept(ticket) => self.kept.copy(ticket, frame),
            Verdict::Out(port) => self.left.push((port.0, frame.bytes().to_vec())),
            _ => {}
        }
        self.resume();
        verdict
    }

    fn resume(&mut self) {
        let now = self.now();
        for (verdict, _, bytes) in self.kept.resume(&mut self.plane, now) {
            if let Verdict::Out(port) = verdict {
                self.left.push((port.0, bytes));
            }
        }
        // Answers of the node itself leave.
        self.plane.departures().for_each(drop);
        assert!(self.plane.accounting().balance(), "{:?}", self.plane.accounting());
    }

    fn until(&mut self, us: u64) {
        while let Some(due) = self.plane.due(self.now()).filter(|due| due.ns() <= us * 1000) {
            self.now_us = self.now_us.max(due.ns().div_ceil(1000));
            while self.plane.tick(self.now()) {}
            self.resume();
            self.now_us += 1;
        }
        self.now_us = us.max(self.now_us);
    }

    /// The ends and the bytes behind the header of UDP of packets that have left by a port since the last call, but for the flood's.
    fn take_left(&mut self, port: u16) -> Vec<(Vec<u8>, u16)> {
        let of_others = |(_, bytes): &(u16, Vec<u8>)| {
            let at = bytes.windows(7).position(|some| some == b"regular")?;
            // The port of UDP inside, or the one of the NAT.
            Some((bytes.clone(), u16::from_be_bytes(bytes[at - 8..at - 6].try_into().expect("two"))))
        };
        let (taken, rest) = std::mem::take(&mut self.left).into_iter().partition(|(by, _)| *by == port);
        self.left = rest;
        let taken: Vec<(u16, Vec<u8>)> = taken;
        taken.iter().filter_map(of_others).collect()
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.plane.accounting().drops[reason]
    }
}

/// A packet of UDP that says "regular".
fn regular(from: &str, to: &str) -> Vec<u8> {
    let mut packet = ip(&format!("udp {from} > {to} len 120 nosum"));
    packet[28..35].copy_from_slice(b"regular");
    packet
}

/// A flood: what it is, its frames, and where most of them end.
struct Flood {
    what: &'static str,
    port: u16,
    frame: fn(&mut Dice) -> Vec<u8>,
    ends: &'static [DropReason],
}

fn syn(dice: &mut Dice) -> Vec<u8> {
    let (port, host) = (1 + dice.roll(65_000), dice.roll(250));
    EVE.up(&ip(&format!("tcp 100.64.0.2:{port} > 198.51.100.{host}:80 S seq 1")))
}

fn syn_of_one_port(dice: &mut Dice) -> Vec<u8> {
    let (port, host) = (1 + dice.roll(65_000), dice.roll(250));
    EVE.up(&ip(&format!("tcp 100.64.0.2:4000 > 198.51.100.{host}:{port} S seq 1")))
}

fn spoofed(dice: &mut Dice) -> Vec<u8> {
    let line = [EVE, EVE_IP][dice.roll(2)];
    let host = dice.roll(250);
    line.up(&ip(&format!("udp 100.64.1.{host}:1 > 198.51.100.9:53")))
}

fn spoofed_as_anna(dice: &mut Dice) -> Vec<u8> {
    let port = 1 + dice.roll(65_000);
    [EVE, EVE_IP][dice.roll(2)].up(&ip(&format!("udp 100.64.0.3:{port} > 198.51.100.9:53")))
}

fn unknown_keys(dice: &mut Dice) -> Vec<u8> {
    let line = Line(100, 10 + dice.roll(240) as u8, dice.roll(65_000) as u16);
    line.up(&ip("udp 100.64.0.2:1 > 198.51.100.9:53"))
}

fn unknown_devices(dice: &mut Dice) -> Vec<u8> {
    Line(100, 10 + dice.roll(240) as u8, 0).up(&ip("udp 100.64.0.2:1 > 198.51.100.9:53"))
}

fn padi(dice: &mut Dice) -> Vec<u8> {
    Line(100, dice.roll(250) as u8, 0).padi()
}

fn solicitations(dice: &mut Dice) -> Vec<u8> {
    let all_routers = ip("icmp 133/0 [fe80::5] > [ff02::2]");
    match dice.roll(3) {
        0 => EVE.up(&all_routers),
        1 => EVE_IP.frame([0x33, 0x33, 0, 0, 0, 2], &[&[0x86, 0xdd], &all_routers[..]].concat()),
        _ => {
            let own = Host { mac: EVE_IP.mac(), ip: "2001:db8:100:4::9".parse().expect("an address") };
            let asked =
                question(own, format!("2001:db8:100:2::{:x}", dice.roll(65_000)).parse().expect("one"));
            EVE_IP.frame(*asked.first_chunk().expect("six"), &asked[12..])
        }
    }
}

fn arp(dice: &mut Dice) -> Vec<u8> {
    // Questions, answers, and announcements of Anna's address.
    let operation = 1 + dice.roll(2) as u8;
    let (sender, target) = ([100, 64, 0, dice.roll(8) as u8], [100, 64, dice.roll(250) as u8, 1]);
    let header = [&[8, 6, 0, 1, 8, 0, 6, 4, 0, operation], &EVE_IP.mac()[..]].concat();
    EVE_IP.frame([0xff; 6], &[&header[..], &sender, &[0; 6], &target].concat())
}

fn fragments(dice: &mut Dice) -> Vec<u8> {
    let mut packet = ip("udp 100.64.0.2:1 > 198.51.100.9:53 len 40");
    let number = dice.roll(65_536) as u16;
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    // First ones without an end, later ones without a first, and those that overlap others.
    let offset = [0, 1, 2, 185][dice.roll(4)];
    packet[6..8].copy_from_slice(&(0x2000 | offset as u16).to_be_bytes());
    write_ipv4(&mut packet[..20]);
    EVE.up(&packet)
}

fn from_outside(dice: &mut Dice) -> Vec<u8> {
    let (host, port) = (dice.roll(250), 1024 + dice.roll(60_000));
    let packet = ip(&format!("tcp 198.51.100.{host}:80 > 192.0.2.1:{port} S seq 1"));
    [&MACS[1][..], &ROUTER, &[8, 0], &packet].concat()
}

/// What is beyond a rate waits, until its subscriber has too much of it.
const BEYOND_RATE: &[DropReason] = &[DropReason::QueueLimit, DropReason::QueueAqm];

const FLOODS: &[Flood] = &[
    Flood { what: "SYN from any port", port: LAN, frame: syn, ends: BEYOND_RATE },
    Flood { what: "SYN from one port", port: LAN, frame: syn_of_one_port, ends: BEYOND_RATE },
    Flood { what: "spoofed sources", port: LAN, frame: spoofed, ends: &[DropReason::SubscriberSource] },
    Flood { what: "Anna's source", port: LAN, frame: spoofed_as_anna, ends: &[DropReason::SubscriberSource] },
    Flood {
        what: "unknown sessions",
        port: LAN,
        frame: unknown_keys,
        ends: &[DropReason::PppoeSession, DropReason::PppoeTerminated],
    },
    Flood {
        what: "unknown devices",
        port: LAN,
        frame: unknown_devices,
        ends: &[DropReason::PuntUnknownSource],
    },
    Flood { what: "PADI", port: LAN, frame: padi, ends: &[DropReason::PuntPppoeDiscovery] },
    Flood { what: "solicitations", port: LAN, frame: solicitations, ends: &[DropReason::PuntNd] },
    Flood { what: "ARP", port: LAN, frame: arp, ends: &[] },
    Flood { what: "fragments", port: LAN, frame: fragments, ends: BEYOND_RATE },
    Flood { what: "SYN from outside", port: WAN, frame: from_outside, ends: &[DropReason::NatNoMapping] },
];

/// Each ms the others send a packet of a flow, and get an answer to the one before; every [`FLOW_MS`] their flows are new.
#[test]
fn a_flood_through_nat_and_shaper_loses_no_frame_of_others() {
    let mut wrong = Vec::new();
    for flood in FLOODS {
        let (mut node, mut dice) = (Node::new(), Dice::new(7));
        let (mut sent, mut answered, mut came_out, mut came_home) = (0, 0, 0, 0);
        for ms in 0..ROUNDS_MS {
            for n in 0..FLOOD {
                node.until(1000 * (ms + 1) + 900 * n as u64 / FLOOD as u64);
                node.frame(flood.port, &(flood.frame)(&mut dice));
                let (line, address) = OTHERS[n % 2];
                if n == 14 || n == 15 {
                    let port = 2000 + ms / FLOW_MS;
                    node.frame(LAN, &line.up(&regular(&format!("{address}:{port}"), "198.51.100.9:53")));
                    sent += 1;
                }
                if ms % 50 == 7 && n == 20 {
                    let verdict = node.frame(LAN, &ANNA.padi());
                    assert_eq!(verdict, Verdict::Control(PuntReason::PppoeDiscovery), "{}", flood.what);
                }
            }
            for (_, port) in node.take_left(WAN) {
                came_out += 1;
                let packet = regular("198.51.100.9:53", &format!("192.0.2.1:{port}"));
                node.frame(WAN, &[&MACS[1][..], &ROUTER, &[8, 0], &packet].concat());
                answered += 1;
            }
            came_home += node.take_left(LAN).len();
        }
        node.until(1000 * (ROUNDS_MS + 100));
        came_out += node.take_left(WAN).len();
        came_home += node.take_left(LAN).len();
        let ended: u64 = flood.ends.iter().map(|&reason| node.drops(reason)).sum();
        let loses_nothing = (came_out, came_home) == (sent, answered);
        if !loses_nothing || (!flood.ends.is_empty() && ended < ROUNDS_MS * FLOOD as u64 / 4) {
            let drops: Vec<_> = node.plane.accounting().drops.occurred().collect();
            let what = flood.what;
            wrong
                .push(format!("{what}: {came_out} of {sent} out, {came_home} of {answered} home, {drops:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
