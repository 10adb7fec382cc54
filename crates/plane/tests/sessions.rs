//! Sessions of subscribers at a node with two access ports: frames of their devices, and what becomes of them.

use weir_packet::checksum::{fold, sum};
use weir_packet::frame::Mac;
use weir_packet::neighbour::{Host, question};
use weir_plane::scenario::packet;
use weir_plane::{
    Command, Config, Departure, DropReason, MacText, Plane, SubscriberCommand, SubscriberEntry,
    SubscriberState, Time, Update, Verdict,
};

use crate::access::pass;

pub(crate) const TEXT: &str = "access1(access) access2(vlan 100-199.1-4094, access)
    > access(gateway 100.64.0.1/10, gateway 2001:db8:100::1/40) > route(default via 198.18.0.2, ::/0 via 2001:db8:ff::2)
    > wan(198.18.0.1/24, 2001:db8:ff::1/64, neighbour 198.18.0.2 02:00:00:00:00:99, neighbour 2001:db8:ff::2 02:00:00:00:00:99)";
pub(crate) const MACS: [Mac; 3] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xa2], [2, 0, 0, 0, 0, 0xff]];
pub(crate) const ROUTER: Mac = [2, 0, 0, 0, 0, 0x99];
pub(crate) const WAN: u16 = 2;
pub(crate) const MAGIC: u32 = 0x0a0b_0c0d;

/// A session of a device: its port, its tags, the last byte of its Ethernet address, the id of the session; 0: IP over Ethernet.
#[derive(Clone, Copy)]
pub(crate) struct Line(pub(crate) u16, pub(crate) [u16; 2], pub(crate) u8, pub(crate) u16);

pub(crate) const ANNA: Line = Line(0, [0, 0], 1, 7);
pub(crate) const BEN: Line = Line(1, [100, 7], 2, 65_534);

impl Line {
    pub(crate) fn mac(self) -> Mac {
        [2, 0, 0, 0, 0, self.2]
    }

    pub(crate) fn own(self) -> Mac {
        MACS[usize::from(self.0)]
    }

    pub(crate) fn tags(self) -> Vec<u8> {
        match self.1 {
            [0, _] => Vec::new(),
            [outer, inner] => [[0x88, 0xa8], outer.to_be_bytes(), [0x81, 0], inner.to_be_bytes()].concat(),
        }
    }

    /// A frame from this device to another one, or back: the receiver, the sender, what stands behind the tags.
    pub(crate) fn frame(self, to: Mac, from: Mac, rest: &[u8]) -> Vec<u8> {
        [&to[..], &from, &self.tags(), rest].concat()
    }

    /// What stands behind the tags of a frame with this packet.
    pub(crate) fn payload(self, packet: &[u8]) -> Vec<u8> {
        let is_v4 = packet[0] >> 4 == 4;
        if self.3 == 0 {
            return [if is_v4 { &[8, 0][..] } else { &[0x86, 0xdd] }, packet].concat();
        }
        self.ppp(if is_v4 { 0x21 } else { 0x57 }, packet)
    }

    /// The same with this protocol of PPP.
    pub(crate) fn ppp(self, protocol: u16, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len() as u16 + 2;
        [
            &[0x88, 0x64, 0x11, 0][..],
            &self.3.to_be_bytes(),
            &length.to_be_bytes(),
            &protocol.to_be_bytes(),
            bytes,
        ]
        .concat()
    }

    pub(crate) fn up(self, packet: &[u8]) -> Vec<u8> {
        self.frame(self.own(), self.mac(), &self.payload(packet))
    }

    pub(crate) fn down(self, packet: &[u8]) -> Vec<u8> {
        self.frame(self.mac(), self.own(), &self.payload(packet))
    }

    pub(crate) fn entry(self, session: u64, prefixes: &[&str]) -> SubscriberEntry {
        let tags = match self.1 {
            [0, _] => "untagged".to_string(),
            [outer, inner] => format!("{outer}.{inner}"),
        };
        SubscriberEntry {
            session,
            port: ["access1", "access2"][usize::from(self.0)].into(),
            tags,
            mac: MacText::from(self.mac()),
            prefixes: prefixes.iter().map(|text| text.parse().expect("a prefix")).collect(),
            pppoe_session: Some(self.3).filter(|id| *id > 0),
            magic: Some(MAGIC).filter(|_| self.3 > 0),
            ..SubscriberEntry::default()
        }
    }
}

pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) plane: Plane,
    pub(crate) ms: u64,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node::of(TEXT)
    }

    pub(crate) fn of(text: &str) -> Node {
        let config = Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let mut plane = Plane::new(&config, &MACS[..config.ports.len()]);
        plane.set_control(true);
        Node { config, plane, ms: 1 }
    }

    /// With the sessions of Anna and Ben.
    pub(crate) fn with_two() -> Node {
        let mut node = Node::new();
        node.add(ANNA.entry(1, &["100.64.0.2/32", "2001:db8:100:1::/64", "2001:db8:110::/56"]));
        node.add(BEN.entry(2, &["100.64.0.3/32", "2001:db8:100:2::/64"]));
        node
    }

    pub(crate) fn command(&mut self, command: SubscriberCommand) -> Result<(), String> {
        let changes = self.config.decide(&[Command::Subscriber(command)]).map_err(|why| why.to_string())?;
        self.plane.take(Time::from_ms(self.ms), Update::of_changes(&changes)).map(drop)
    }

    pub(crate) fn add(&mut self, entry: SubscriberEntry) {
        self.command(SubscriberCommand::Add(entry)).expect("room");
    }

    /// What becomes of a frame, and its bytes afterwards.
    pub(crate) fn frame(&mut self, port: u16, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        self.ms += 1;
        pass(&mut self.plane, Time::from_ms(self.ms), port, bytes)
    }

    /// A packet of a device.
    pub(crate) fn up(&mut self, line: Line, packet: &[u8]) -> (Verdict, Vec<u8>) {
        self.frame(line.0, &line.up(packet))
    }

    /// A packet from the network.
    pub(crate) fn inward(&mut self, packet: &[u8]) -> (Verdict, Vec<u8>) {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        self.frame(WAN, &[&MACS[usize::from(WAN)][..], &ROUTER, &kind, packet].concat())
    }

    pub(crate) fn departures(&mut self) -> Vec<Departure> {
        self.plane.departures().collect()
    }

    pub(crate) fn state(&self, session: u64) -> SubscriberState {
        let names = ["access1", "access2", "wan"].map(String::from);
        let (all, _) = self.plane.subscribers(0, &names);
        all.into_iter().find(|one| one.entry.session == session).expect("a session")
    }

    pub(crate) fn drops(&self, reason: DropReason) -> u64 {
        self.plane.accounting().drops[reason]
    }
}

pub(crate) fn ip(line: &str) -> Vec<u8> {
    packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"))
}

/// The same packet one hop later.
pub(crate) fn hop(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[8] -= 1;
        packet[10..12].fill(0);
        let checksum = !fold(sum(&packet[..20]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet[7] -= 1;
    }
    packet
}

pub(crate) fn dropped(reason: DropReason) -> Verdict {
    Verdict::Dropped(reason)
}

/// A neighbour solicitation of a device for an address.
pub(crate) fn solicitation(line: Line, source: &str, target: &str) -> Vec<u8> {
    let frame = question(
        Host { mac: line.mac(), ip: source.parse().expect("an address") },
        target.parse().expect("an address"),
    );
    let packet = &frame[14..];
    match line.3 {
        0 => line.frame(*frame.first_chunk().expect("six"), line.mac(), &line.payload(packet)),
        _ => line.frame(line.own(), line.mac(), &line.payload(packet)),
    }
}
