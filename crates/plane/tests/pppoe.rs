//! PPPoE sessions of subscribers at access ports: packets in and out of them, echoes of LCP, sessions that the node does not have.

use std::net::IpAddr;

use weir_packet::checksum::{fold, pseudo_header, sum, write_ipv4};
use weir_packet::frame::Mac;
use weir_packet::neighbour::{Host, answer, question};
use weir_plane::scenario::packet;
use weir_plane::{
    Command, Config, Departure, DropReason, Leave, MacText, Plane, PortId, PuntReason, SubscriberCommand,
    SubscriberEntry, SubscriberState, Time, UnknownSessions, Update, Verdict,
};
use weir_testkit::Dice;

use crate::access::pass;

const TEXT: &str = "access1(access) access2(vlan 100-199.1-4094, access)
    > access(gateway 100.64.0.1/10, gateway 2001:db8:100::1/40) > route(default via 198.18.0.2, ::/0 via 2001:db8:ff::2)
    > wan(198.18.0.1/24, 2001:db8:ff::1/64, neighbour 198.18.0.2 02:00:00:00:00:99, neighbour 2001:db8:ff::2 02:00:00:00:00:99)";
const MACS: [Mac; 3] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xa2], [2, 0, 0, 0, 0, 0xff]];
const ROUTER: Mac = [2, 0, 0, 0, 0, 0x99];
const WAN: u16 = 2;
const MAGIC: u32 = 0x0a0b_0c0d;

/// A session of a device: its port, its tags, the last byte of its Ethernet address, the id of the session; 0: IP over Ethernet.
#[derive(Clone, Copy)]
struct Line(u16, [u16; 2], u8, u16);

const ANNA: Line = Line(0, [0, 0], 1, 7);
const BEN: Line = Line(1, [100, 7], 2, 65_534);

impl Line {
    fn mac(self) -> Mac {
        [2, 0, 0, 0, 0, self.2]
    }

    fn own(self) -> Mac {
        MACS[usize::from(self.0)]
    }

    fn tags(self) -> Vec<u8> {
        match self.1 {
            [0, _] => Vec::new(),
            [outer, inner] => [[0x88, 0xa8], outer.to_be_bytes(), [0x81, 0], inner.to_be_bytes()].concat(),
        }
    }

    /// A frame from this device to another one, or back: the receiver, the sender, what stands behind the tags.
    fn frame(self, to: Mac, from: Mac, rest: &[u8]) -> Vec<u8> {
        [&to[..], &from, &self.tags(), rest].concat()
    }

    /// What stands behind the tags of a frame with this packet.
    fn payload(self, packet: &[u8]) -> Vec<u8> {
        let is_v4 = packet[0] >> 4 == 4;
        if self.3 == 0 {
            return [if is_v4 { &[8, 0][..] } else { &[0x86, 0xdd] }, packet].concat();
        }
        self.ppp(if is_v4 { 0x21 } else { 0x57 }, packet)
    }

    /// The same with this protocol of PPP.
    fn ppp(self, protocol: u16, bytes: &[u8]) -> Vec<u8> {
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

    fn up(self, packet: &[u8]) -> Vec<u8> {
        self.frame(self.own(), self.mac(), &self.payload(packet))
    }

    fn down(self, packet: &[u8]) -> Vec<u8> {
        self.frame(self.mac(), self.own(), &self.payload(packet))
    }

    fn entry(self, session: u64, prefixes: &[&str]) -> SubscriberEntry {
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

struct Node {
    config: Config,
    plane: Plane,
    ms: u64,
}

impl Node {
    fn new() -> Node {
        Node::of(TEXT)
    }

    fn of(text: &str) -> Node {
        let config = Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let mut plane = Plane::new(&config, &MACS[..config.ports.len()]);
        plane.set_control(true);
        Node { config, plane, ms: 1 }
    }

    /// With the sessions of Anna and Ben.
    fn with_two() -> Node {
        let mut node = Node::new();
        node.add(ANNA.entry(1, &["100.64.0.2/32", "2001:db8:100:1::/64", "2001:db8:110::/56"]));
        node.add(BEN.entry(2, &["100.64.0.3/32", "2001:db8:100:2::/64"]));
        node
    }

    fn command(&mut self, command: SubscriberCommand) -> Result<(), String> {
        let changes = self.config.decide(&[Command::Subscriber(command)]).map_err(|why| why.to_string())?;
        self.plane.take(Time::from_ms(self.ms), Update::of_changes(&changes)).map(drop)
    }

    fn add(&mut self, entry: SubscriberEntry) {
        self.command(SubscriberCommand::Add(entry)).expect("room");
    }

    /// What becomes of a frame, and its bytes afterwards.
    fn frame(&mut self, port: u16, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        self.ms += 1;
        pass(&mut self.plane, Time::from_ms(self.ms), port, bytes)
    }

    /// A packet of a device.
    fn up(&mut self, line: Line, packet: &[u8]) -> (Verdict, Vec<u8>) {
        self.frame(line.0, &line.up(packet))
    }

    /// A packet from the network.
    fn inward(&mut self, packet: &[u8]) -> (Verdict, Vec<u8>) {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        self.frame(WAN, &[&MACS[usize::from(WAN)][..], &ROUTER, &kind, packet].concat())
    }

    fn departures(&mut self) -> Vec<Departure> {
        self.plane.departures().collect()
    }

    fn state(&self, session: u64) -> SubscriberState {
        let names = ["access1", "access2", "wan"].map(String::from);
        let (all, _) = self.plane.subscribers(0, &names);
        all.into_iter().find(|one| one.entry.session == session).expect("a session")
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.plane.accounting().drops[reason]
    }
}

fn ip(line: &str) -> Vec<u8> {
    packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"))
}

/// The same packet one hop later.
fn hop(mut packet: Vec<u8>) -> Vec<u8> {
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

fn dropped(reason: DropReason) -> Verdict {
    Verdict::Dropped(reason)
}

#[test]
fn packets_leave_their_session_and_get_into_one() {
    let mut node = Node::with_two();
    for (line, up, down) in [
        (ANNA, "udp 100.64.0.2:1 > 198.51.100.9:53", "udp 198.51.100.9:53 > 100.64.0.2:1"),
        (
            ANNA,
            "udp [2001:db8:100:1::5]:1 > [2001:db8:9::9]:53",
            "udp [2001:db8:9::9]:53 > [2001:db8:100:1::5]:1",
        ),
        (
            ANNA,
            "udp [2001:db8:110:7::5]:1 > [2001:db8:9::9]:53",
            "udp [2001:db8:9::9]:53 > [2001:db8:110:7::5]:1",
        ),
        (BEN, "udp 100.64.0.3:1 > 198.51.100.9:53", "udp 198.51.100.9:53 > 100.64.0.3:1"),
        (
            BEN,
            "udp [2001:db8:100:2::5]:1 > [2001:db8:9::9]:53",
            "udp [2001:db8:9::9]:53 > [2001:db8:100:2::5]:1",
        ),
    ] {
        let (verdict, bytes) = node.up(line, &ip(up));
        let kind: [u8; 2] = if up.contains('[') { [0x86, 0xdd] } else { [8, 0] };
        assert_eq!(verdict, Verdict::Out(PortId(WAN)), "{up}");
        assert_eq!(bytes, [&ROUTER[..], &MACS[2], &kind, &hop(ip(up))].concat(), "{up}");
        let (verdict, bytes) = node.inward(&ip(down));
        assert_eq!((verdict, bytes), (Verdict::Out(PortId(line.0)), line.down(&hop(ip(down)))), "{down}");
    }
    let (v4, v6) =
        (ip("udp 100.64.0.2:1 > 198.51.100.9:53").len(), ip("udp [2001:db8::1]:1 > [2001:db8::2]:53").len());
    let bytes = (v4 + 2 * v6 + 3 * (14 + 8)) as u64;
    let anna = node.state(1);
    assert_eq!((anna.from_frames, anna.from_bytes, anna.to_frames, anna.to_bytes), (3, bytes, 3, bytes));
    assert_eq!(anna.entry, ANNA.entry(1, &["100.64.0.2/32", "2001:db8:100:1::/64", "2001:db8:110::/56"]));
}

/// Between two sessions, and from a session to IP over Ethernet: each gets its own header.
#[test]
fn between_subscribers_headers_are_replaced() {
    let mut node = Node::with_two();
    let (other, plain) = (Line(0, [0, 0], 1, 9), Line(1, [100, 8], 2, 0));
    node.add(other.entry(3, &["100.64.0.4/32"]));
    node.add(plain.entry(4, &["100.64.0.5/32"]));
    let address = |n: usize| ["100.64.0.2", "100.64.0.3", "100.64.0.4", "100.64.0.5"][n];
    let lines = [ANNA, BEN, other, plain];
    for (a, from) in lines.into_iter().enumerate() {
        for (b, to) in lines.into_iter().enumerate().filter(|(b, _)| *b != a) {
            let packet = ip(&format!("udp {}:1 > {}:2", address(a), address(b)));
            let (verdict, bytes) = node.up(from, &packet);
            assert_eq!((verdict, bytes), (Verdict::Out(PortId(to.0)), to.down(&hop(packet))), "{a} {b}");
        }
    }
}

#[test]
fn padding_is_cut_and_broken_headers_go_no_further() {
    let mut node = Node::with_two();
    let packet = ip("udp 100.64.0.2:1 > 198.51.100.9:53");
    let whole = ANNA.up(&packet);
    let (verdict, bytes) = node.frame(0, &[&whole[..], &[0xee; 6]].concat());
    assert_eq!((verdict, bytes.len()), (Verdict::Out(PortId(WAN)), 14 + packet.len()), "padding");
    // Length, version, code and id of the header, the protocol of PPP.
    for (at, bytes, reason) in [
        (18, &(packet.len() as u16 + 3).to_be_bytes()[..], DropReason::Malformed),
        (18, &(packet.len() as u16 + 1).to_be_bytes(), DropReason::Malformed),
        (18, &[0, 1], DropReason::Malformed),
        (14, &[0x12], DropReason::Malformed),
        (15, &[1], DropReason::Malformed),
        (16, &[0, 0], DropReason::Malformed),
        (16, &[0xff, 0xff], DropReason::Malformed),
        (20, &[0x21], DropReason::Malformed),
        (16, &[0, 8], DropReason::PppoeSession),
        (0, &[2, 0, 0, 0, 0, 0x77], DropReason::NotForUs),
        (0, &[0xff; 6], DropReason::NotForUs),
    ] {
        let mut frame = whole.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(node.frame(0, &frame).0, dropped(reason), "{at} {bytes:02x?}");
    }
    for end in 14..whole.len() {
        assert_eq!(node.frame(0, &whole[..end]).0, dropped(DropReason::Malformed), "{end} bytes");
    }
    // Sources of others, and the address of the link, which goes no further than to the node.
    for (line, source, verdict) in [
        (ANNA, "udp 100.64.0.3:1 > 198.51.100.9:53", dropped(DropReason::SubscriberSource)),
        (ANNA, "udp [2001:db8:100:2::5]:1 > [2001:db8:9::9]:53", dropped(DropReason::SubscriberSource)),
        (ANNA, "udp [fe80::5]:1 > [2001:db8:9::9]:53", dropped(DropReason::MartianSource)),
        (BEN, "udp [2001:db8:110:7::5]:1 > [2001:db8:9::9]:53", dropped(DropReason::SubscriberSource)),
        (BEN, "icmp echo [fe80::5] > [fe80::ff:fe00:a2] id 1", Verdict::Out(PortId(1))),
        (BEN, "icmp echo [2001:db8:100:2::5] > [2001:db8:100::1] id 1", Verdict::Out(PortId(1))),
        (BEN, "icmp echo 100.64.0.3 > 100.64.0.1 id 1", Verdict::Out(PortId(1))),
    ] {
        let (found, bytes) = node.up(line, &ip(source));
        assert_eq!(found, verdict, "{source}");
        if found == Verdict::Out(PortId(line.0)) {
            let header = line.frame(line.mac(), line.own(), &[0x88, 0x64, 0x11, 0]);
            assert_eq!(bytes[..header.len()], header[..], "{source}");
            assert_eq!(bytes.len(), line.up(&ip(source)).len());
        }
    }
}

#[test]
fn ppp_that_carries_no_packet_is_for_the_control_program() {
    let mut node = Node::with_two();
    let control = Verdict::Control(PuntReason::PppControl);
    let echo = [9, 5, 0, 10, 1, 2, 3, 4, 0xaa, 0xbb];
    let stranger = Line(0, [0, 0], 1, 8);
    for (line, protocol, bytes, expected) in [
        (ANNA, 0xc021, &[5, 1, 0, 4][..], control),
        (ANNA, 0xc023, &[1, 1, 0, 6, 0, 0], control),
        (ANNA, 0x8021, &[1, 1, 0, 4], control),
        (ANNA, 0x8057, &[1, 1, 0, 4], control),
        // The node's own magic number: a loop in the line.
        (ANNA, 0xc021, &[9, 5, 0, 8, 0x0a, 0x0b, 0x0c, 0x0d], control),
        // Of a session that is being set up.
        (stranger, 0xc021, &echo, control),
        (stranger, 0xc021, &[1, 1, 0, 4], control),
        (ANNA, 0xc021, &echo[..9], dropped(DropReason::LcpEcho)),
    ] {
        let frame = line.frame(line.own(), line.mac(), &line.ppp(protocol, bytes));
        let (verdict, after) = node.frame(line.0, &frame);
        assert_eq!((verdict, after), (expected, frame), "{protocol:04x} {bytes:02x?}");
    }
    // Discovery, from all and from none.
    for code in [0x09, 0x19, 0xa7] {
        for line in [ANNA, stranger, BEN] {
            let frame = line.frame(line.own(), line.mac(), &[0x88, 0x63, 0x11, code, 0, 0, 0, 0]);
            assert_eq!(node.frame(line.0, &frame), (Verdict::Control(PuntReason::PppoeDiscovery), frame));
        }
    }
    // A packet that is punted comes with the header of its session.
    for text in ["udp [fe80::5]:546 > [ff02::1:2]:547 len 40", "icmp 133/0 [fe80::5] > [ff02::2]"] {
        let frame = BEN.up(&ip(text));
        let (verdict, bytes) = node.frame(1, &frame);
        assert!(
            matches!(verdict, Verdict::Control(PuntReason::Dhcp6 | PuntReason::Nd)),
            "{text}: {verdict:?}"
        );
        assert_eq!(bytes, frame, "{text}");
    }
}

#[test]
fn echo_requests_of_an_open_session_are_answered() {
    let mut node = Node::with_two();
    for (line, mru) in [(ANNA, None), (BEN, Some(576))] {
        if mru.is_some() {
            node.add(SubscriberEntry { mru, ..line.entry(2, &["100.64.0.3/32"]) });
        }
        for data in [0, 2, 600] {
            let length = 8 + data as u16;
            let request = [&[9, 5][..], &length.to_be_bytes(), &[1, 2, 3, 4], &vec![0xaa; data]].concat();
            let frame = line.frame(line.own(), line.mac(), &line.ppp(0xc021, &request));
            let (verdict, bytes) = node.frame(line.0, &[frame, vec![0; 20]].concat());
            let length = length.min(mru.unwrap_or(1492));
            let magic = MAGIC.to_be_bytes();
            let reply =
                [&[10, 5][..], &length.to_be_bytes(), &magic, &vec![0xaa; usize::from(length) - 8]].concat();
            let expected = line.frame(line.mac(), line.own(), &line.ppp(0xc021, &reply));
            assert_eq!((verdict, bytes), (Verdict::Out(PortId(line.0)), expected), "{data}");
        }
        let reply = line.frame(line.own(), line.mac(), &line.ppp(0xc021, &[10, 5, 0, 8, 1, 2, 3, 4]));
        assert!(matches!(node.frame(line.0, &reply).0, Verdict::Punted(_)));
    }
}

#[test]
fn packets_of_unknown_sessions_are_answered_by_a_padt_once_a_second() {
    let mut node = Node::with_two();
    let packet = ip("udp 100.64.0.2:1 > 198.51.100.9:53");
    let strangers =
        [Line(0, [0, 0], 1, 8), Line(0, [0, 0], 3, 7), Line(1, [100, 7], 1, 7), Line(1, [100, 8], 2, 7)];
    for line in strangers {
        assert_eq!(node.up(line, &packet).0, dropped(DropReason::PppoeSession));
    }
    assert_eq!(node.departures(), [], "sessions may be missing yet");
    node.command(SubscriberCommand::UnknownSessions(UnknownSessions::Terminate)).expect("done");
    for (n, line) in strangers.into_iter().enumerate() {
        for again in 0..5 {
            let reason = if again == 0 { DropReason::PppoeTerminated } else { DropReason::PppoeSession };
            assert_eq!(node.up(line, &packet).0, dropped(reason), "{n} {again}");
        }
        let padt = [&[0x88, 0x63, 0x11, 0xa7][..], &line.3.to_be_bytes(), &[0, 0]].concat();
        let bytes = line.frame(line.mac(), line.own(), &padt);
        assert_eq!(node.departures(), [Departure { to: Leave::Port(PortId(line.0)), bytes }], "{n}");
    }
    node.ms += 1000;
    assert_eq!(node.up(strangers[0], &packet).0, dropped(DropReason::PppoeTerminated));
    assert_eq!(node.drops(DropReason::PppoeTerminated), 5);
    // Not to all, and not about what was sent to another host.
    let mut frame = strangers[1].up(&packet);
    frame[..6].fill(0xff);
    assert_eq!(node.frame(0, &frame).0, dropped(DropReason::NotForUs));
    node.command(SubscriberCommand::UnknownSessions(UnknownSessions::Ignore)).expect("done");
    node.ms += 1000;
    assert_eq!(node.up(strangers[0], &packet).0, dropped(DropReason::PppoeSession));
}

/// The sum of the transport of a packet, with its pseudo header; 0xffff if the checksum is right.
fn transport_sum(packet: &[u8]) -> u16 {
    let (addresses, l4) =
        if packet[0] >> 4 == 4 { (&packet[12..20], &packet[20..]) } else { (&packet[8..40], &packet[40..]) };
    fold(pseudo_header(addresses, 6, l4.len()) + sum(l4))
}

/// A SYN with options of which this is the MSS.
fn syn(from: &str, to: &str, mss: u16) -> Vec<u8> {
    let mut packet = ip(&format!("tcp {from}:1 > {to}:80 S"));
    let v4 = packet[0] >> 4 == 4;
    let l4_at = if v4 { 20 } else { 40 };
    packet.truncate(l4_at + 20);
    packet[l4_at + 12] = 7 << 4;
    packet.extend([1, 2, 4]);
    packet.extend(mss.to_be_bytes());
    packet.extend([1, 1, 0]);
    packet[l4_at + 16..l4_at + 18].fill(0);
    if v4 {
        packet[2..4].copy_from_slice(&48_u16.to_be_bytes());
        packet[10..12].fill(0);
        let checksum = !fold(sum(&packet[..20]));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&28_u16.to_be_bytes());
    }
    let checksum = !transport_sum(&packet);
    packet[l4_at + 16..l4_at + 18].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[test]
fn tcp_is_told_the_mru_in_both_directions() {
    let mut node = Node::new();
    for (line, mru, expected) in [
        (ANNA, None, 1492),
        (ANNA, Some(1500), 1500),
        (ANNA, Some(576), 576),
        (Line(0, [0, 0], 1, 0), Some(1400), 1400),
        (Line(0, [0, 0], 1, 0), None, 65_535),
    ] {
        node.add(SubscriberEntry { mru, ..line.entry(1, &["100.64.0.2/32", "2001:db8:100:1::/64"]) });
        for (host, far, headers) in
            [("100.64.0.2", "198.51.100.9", 40), ("[2001:db8:100:1::5]", "[2001:db8:9::9]", 60)]
        {
            for asked in [400, 1460, 8960] {
                let behind = |bytes: &[u8]| bytes[bytes.len() - 5..bytes.len() - 3].to_vec();
                let (verdict, up) = node.up(line, &syn(host, far, asked));
                assert_eq!(verdict, Verdict::Out(PortId(WAN)));
                let (verdict, down) = node.inward(&syn(far, host, asked));
                assert_eq!(verdict, Verdict::Out(PortId(0)));
                for bytes in [&up, &down] {
                    let mss = asked.min(expected - headers);
                    assert_eq!(behind(bytes), mss.to_be_bytes(), "{mru:?} {host} {asked}");
                    let packet =
                        if headers == 40 { &bytes[bytes.len() - 48..] } else { &bytes[bytes.len() - 68..] };
                    assert_eq!(transport_sum(packet), 0xffff, "{mru:?} {host} {asked}");
                }
            }
        }
    }
}

/// What is longer than the MRU is cut, or its sender is told how long it may be.
#[test]
fn long_packets_are_cut_or_their_senders_told_the_mru() {
    let mut node = Node::with_two();
    for mru in [None, Some(1000)] {
        let most = usize::from(mru.unwrap_or(1492));
        node.add(SubscriberEntry { mru, ..BEN.entry(2, &["100.64.0.3/32", "2001:db8:100:2::/64"]) });
        let of = |bytes: usize, more: &str| {
            ip(&format!("udp 198.51.100.9:53 > 100.64.0.3:1 len {} {more}", bytes - 28))
        };
        let (verdict, bytes) = node.inward(&of(most, "df"));
        assert_eq!((verdict, bytes.len()), (Verdict::Out(PortId(1)), 22 + 8 + most));
        assert_eq!(node.inward(&of(most + 1, "df")).0, dropped(DropReason::TooBig));
        let error = node.departures().pop().expect("an error");
        assert_eq!(error.to, Leave::Port(PortId(WAN)));
        assert_eq!(error.bytes[26..36], [198, 18, 0, 1, 198, 51, 100, 9, 3, 4], "from the node");
        assert_eq!(error.bytes[40..42], (most as u16).to_be_bytes());
        let long = ip(&format!("udp [2001:db8:9::9]:53 > [2001:db8:100:2::5]:1 len {}", most + 1 - 48));
        assert_eq!(node.inward(&long).0, dropped(DropReason::TooBig));
        let error = node.departures().pop().expect("an error");
        assert_eq!(error.bytes[22..38], [0x20, 1, 0xd, 0xb8, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(
            (error.bytes[54], &error.bytes[58..62]),
            (2, &[&[0, 0][..], &(most as u16).to_be_bytes()].concat()[..])
        );
        // Each fragment has the header of the session, with its own length.
        let (verdict, first) = node.inward(&of(most + 9, ""));
        assert_eq!(verdict, Verdict::Out(PortId(1)));
        let later = node.departures().pop().expect("the rest").bytes;
        for part in [&first, &later] {
            let header = BEN.frame(BEN.mac(), BEN.own(), &[0x88, 0x64, 0x11, 0, 0xff, 0xfe]);
            assert_eq!(part[..header.len()], header[..]);
            let length = u16::from_be_bytes([part[header.len()], part[header.len() + 1]]);
            assert_eq!(usize::from(length), part.len() - header.len() - 2);
            assert_eq!(part[header.len() + 2..][..2], [0, 0x21]);
            assert!(usize::from(length) - 2 <= most);
        }
        assert_eq!(first.len() + later.len() - 2 * 30, most + 9 + 20);
    }
    // An error about a packet of the session goes back in it.
    assert_eq!(
        node.up(BEN, &ip("udp 100.64.0.3:1 > 198.51.100.9:53 ttl 1")).0,
        dropped(DropReason::TtlExpired)
    );
    let error = node.departures().pop().expect("an error");
    let header = BEN.frame(BEN.mac(), BEN.own(), &[0x88, 0x64, 0x11, 0, 0xff, 0xfe]);
    assert_eq!((error.to, &error.bytes[..header.len()]), (Leave::Port(PortId(1)), &header[..]));
    assert_eq!(error.bytes[30..32], [0x45, 0xc0]);
}

/// RFC 8987, R-5: they would go back and forth between the node and the subscriber.
#[test]
fn packets_of_a_subscriber_for_its_own_prefixes_are_dropped() {
    for (loops, is_told) in [("", false), (", loops drop", false), (", loops reject", true)] {
        let mut node = Node::of(&TEXT.replace("::1/40)", &format!("::1/40{loops})")));
        node.add(
            ANNA.entry(1, &["100.64.0.2/32", "100.65.0.0/24", "2001:db8:100:1::/64", "2001:db8:110::/56"]),
        );
        for (line, error) in [
            ("udp [2001:db8:110:7::5]:1 > [2001:db8:110:9::5]:2", [1, 6]),
            ("udp [2001:db8:100:1::5]:1 > [2001:db8:110:9::5]:2", [1, 6]),
            ("udp 100.64.0.2:1 > 100.65.0.9:2", [3, 1]),
        ] {
            assert_eq!(node.up(ANNA, &ip(line)).0, dropped(DropReason::SubscriberLoop), "{line}");
            let errors = node.departures();
            assert_eq!(errors.len(), usize::from(is_told), "{line}");
            for answer in errors {
                let at = if line.contains('[') { 62 } else { 42 };
                assert_eq!(answer.bytes[at..at + 2], error, "{line}");
            }
        }
        // A prefix that no session has.
        assert_eq!(
            node.up(ANNA, &ip("udp 100.64.0.2:1 > 100.66.0.9:2")).0,
            dropped(DropReason::NoSubscriber)
        );
        assert_eq!(
            node.up(ANNA, &ip("udp [2001:db8:110:7::5]:1 > [2001:db8:111::5]:2")).0,
            dropped(DropReason::NoSubscriber)
        );
        let error = node.departures().pop().expect("it is unreachable");
        assert_eq!(error.bytes[62..64], [1, 3]);
        assert_eq!(node.drops(DropReason::SubscriberLoop), 3);
    }
    let mut node = Node::new();
    let text = TEXT.replace("::1/40)", "::1/40, loops reject)");
    let new = Config::read("n", &text).expect("a node").instead_of(&node.config, 1).expect("beside");
    node.plane.apply(Time::from_ms(5), &node.config, &new).expect("applied");
    node.config = new;
    node.add(ANNA.entry(1, &["100.64.0.2/32"]));
    assert_eq!(node.up(ANNA, &ip("udp 100.64.0.2:1 > 100.64.0.2:2")).0, dropped(DropReason::SubscriberLoop));
    assert_eq!(node.departures().len(), 1, "the text has changed");
}

/// An id that is used again, by another device or another subscriber: no frame gets to the session that had it before. (osvbng#419: frames of
/// sessions that were freed.)
#[test]
fn a_frame_of_an_ended_session_reaches_no_other() {
    let mut node = Node::with_two();
    for round in 0..300_u16 {
        let mut dice = Dice::new(round.into());
        let line = Line(0, [0, 0], 1 + dice.roll(2) as u8, 7 + dice.roll(3) as u16);
        let host = 10 + u8::try_from(round % 7).expect("small");
        let _ = node.command(SubscriberCommand::Remove { session: 1 });
        node.add(line.entry(1, &[&format!("100.64.0.{host}/32")]));
        for mac in 1..3 {
            for id in 7..10 {
                let from = Line(0, [0, 0], mac, id);
                let (verdict, _) = node.up(from, &ip(&format!("udp 100.64.0.{host}:1 > 198.51.100.9:53")));
                let is_own = (from.2, from.3) == (line.2, line.3);
                let expected =
                    if is_own { Verdict::Out(PortId(WAN)) } else { dropped(DropReason::PppoeSession) };
                assert_eq!(verdict, expected, "round {round}");
            }
        }
        for other in 10..17 {
            let (verdict, bytes) = node.inward(&ip(&format!("udp 198.51.100.9:53 > 100.64.0.{other}:1")));
            if other == host {
                let expected = line.down(&hop(ip(&format!("udp 198.51.100.9:53 > 100.64.0.{other}:1"))));
                assert_eq!((verdict, bytes), (Verdict::Out(PortId(0)), expected), "round {round}");
            } else {
                assert_eq!(verdict, dropped(DropReason::NoSubscriber), "round {round}");
            }
        }
    }
}

/// The frames of a device that are heard of in 30 s keep its session alive; one that is silent is asked, and dead after three requests.
#[test]
fn silent_sessions_are_asked_and_die() {
    let mut node = Node::with_two();
    node.add(Line(0, [0, 0], 5, 3).entry(3, &["100.64.0.5/32"]));
    node.add(SubscriberEntry {
        echo_interval_s: Some(0),
        ..Line(0, [0, 0], 6, 3).entry(4, &["100.64.0.6/32"])
    });
    let (mut asked, mut events) = ([0; 7], Vec::new());
    let mut alive = true;
    while node.ms < 200_000 {
        node.ms += 100;
        while node.plane.tick(Time::from_ms(node.ms)) {}
        for Departure { to, bytes } in node.departures() {
            let line = [ANNA, BEN, Line(0, [0, 0], 5, 3)]
                .into_iter()
                .find(|line| bytes[..6] == line.mac())
                .expect("a device");
            let id = asked[usize::from(line.2)] + 1;
            asked[usize::from(line.2)] = id;
            let lcp = [&[9, id, 0, 8][..], &MAGIC.to_be_bytes()].concat();
            let expected = line.frame(line.mac(), line.own(), &line.ppp(0xc021, &lcp));
            assert_eq!((to, bytes), (Leave::Port(PortId(line.0)), expected));
            // Ben answers.
            if line.2 == BEN.2 {
                let reply =
                    line.frame(line.own(), line.mac(), &line.ppp(0xc021, &[10, id, 0, 8, 1, 2, 3, 4]));
                node.frame(line.0, &reply);
            }
        }
        // Anna sends.
        if node.ms % 10_000 < 100 {
            node.up(ANNA, &ip("udp 100.64.0.2:1 > 198.51.100.9:53"));
        }
        for event in node.plane.subscriber_events() {
            events.push((event.session, event.is_alive));
            assert!(node.state(3).is_dead);
        }
        if alive && !events.is_empty() {
            alive = false;
            assert!((90_000..=151_000).contains(&node.ms), "{} ms", node.ms);
            // The control program may be away.
            node.plane.set_control(false);
            node.plane.set_control(true);
        }
    }
    assert_eq!(events, [(3, false)]);
    assert!(
        (5..=7).contains(&asked[2]) && (5..=7).contains(&asked[5]) && asked[1] == 0 && asked[6] == 0,
        "{asked:?}"
    );
    assert_eq!([1, 2, 3, 4].map(|session| node.state(session).is_dead), [false, false, true, false]);
    node.up(Line(0, [0, 0], 5, 3), &ip("udp 100.64.0.5:1 > 198.51.100.9:53"));
    for _ in 0..400 {
        node.ms += 100;
        node.plane.tick(Time::from_ms(node.ms));
    }
    assert_eq!(
        node.plane.subscriber_events().pop().map(|event| (event.session, event.is_alive)),
        Some((3, true))
    );
}

/// 64,000 sessions that begin at once: in no tenth of a second more requests than in any other.
#[test]
fn requests_to_many_sessions_are_spread_evenly() {
    let mut node = Node::new();
    let commands: Vec<Command> = (0..64_000_u32)
        .map(|n| {
            let line = Line(1, [100 + (n / 4000) as u16, 1 + (n % 4000) as u16], 1, 1 + (n % 60_000) as u16);
            let [_, a, b, c] = n.to_be_bytes();
            Command::Subscriber(SubscriberCommand::Add(
                line.entry(u64::from(n) + 1, &[&format!("100.{}.{b}.{c}/32", 70 + a)]),
            ))
        })
        .collect();
    let changes = node.config.decide(&commands).expect("each has its own");
    node.plane.take(Time::from_ms(1), Update::of_changes(&changes)).expect("room");
    let mut requests = Vec::new();
    let mut now = Time::from_ms(1);
    while now < Time::from_ms(62_000) {
        while node.plane.tick(now) {}
        let count = node.departures().len();
        requests.extend((count > 0).then_some((now, count)));
        now = node.plane.due(now).expect("sessions").max(Time::from_ns(now.ns() + 1000));
    }
    let of_interval = requests.iter().filter(|(now, _)| now.ms() >= 31_000 && now.ms() < 61_000);
    let (turns, all) = of_interval.fold((0, 0), |(turns, all), (_, count)| (turns + 1, all + count));
    assert!((63_800..=64_200).contains(&all), "{all} requests in 30 s");
    let most = requests.iter().map(|(_, count)| *count).max().expect("some");
    assert!(most <= 64 && turns > 1700, "{most} at once, {turns} turns");
    assert!(node.plane.accounting().balance());
}

/// A neighbour solicitation of a device for an address.
fn solicitation(line: Line, source: &str, target: &str) -> Vec<u8> {
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

#[test]
fn solicitations_are_answered_for_the_gateway_and_for_other_subscribers() {
    let plain = Line(1, [100, 8], 3, 0);
    let (anna, gateway, of_link) = ("2001:db8:100:1::5", "2001:db8:100::1", "fe80::ff:fe00:a2");
    for line in [plain, BEN] {
        let mut node = Node::with_two();
        let _ = node.command(SubscriberCommand::Remove { session: 2 });
        node.add(line.entry(3, &["100.64.0.9/32", "2001:db8:100:3::/64"]));
        for (source, target, reason) in [
            ("2001:db8:100:3::7", gateway, None),
            ("fe80::7", of_link, None),
            ("fe80::7", gateway, None),
            ("fe80::7", anna, None),
            // Whether another one has it (RFC 4862).
            ("::", anna, None),
            ("::", gateway, None),
            ("::", "2001:db8:100:3::7", Some(DropReason::NotForUs)),
            ("fe80::7", "2001:db8:100:3::8", Some(DropReason::NotForUs)),
            ("fe80::7", "2001:db8:100:77::8", Some(DropReason::NotForUs)),
            ("::", "fe80::7", Some(DropReason::NotForUs)),
            (anna, gateway, Some(DropReason::SubscriberSource)),
        ] {
            let (verdict, _) = node.frame(line.0, &solicitation(line, source, target));
            let answers = node.departures();
            if let Some(reason) = reason {
                assert_eq!((verdict, answers), (dropped(reason), Vec::new()), "{source} {target}");
                continue;
            }
            let [Departure { to, bytes }] = &answers[..] else {
                panic!("{source} {target}: {verdict:?} {answers:?}")
            };
            assert_eq!(*to, Leave::Port(PortId(line.0)));
            let host = Host { mac: line.own(), ip: target.parse().expect("an address") };
            let asker = Host { mac: line.mac(), ip: source.parse().expect("an address") };
            let expected = line.frame(line.mac(), line.own(), &line.payload(&answer(host, asker)[14..]));
            assert_eq!(*bytes, expected, "{source} {target}");
        }
        // An advertisement changes nothing.
        let said = answer(
            Host { mac: [2, 0, 0, 0, 0, 9], ip: anna.parse().expect("one") },
            Host { mac: line.own(), ip: gateway.parse().expect("one") },
        );
        let frame = line.frame(line.own(), line.mac(), &line.payload(&said[14..]));
        assert_eq!(node.frame(line.0, &frame).0, dropped(DropReason::NotForUs));
        let packet = ip("udp [2001:db8:9::9]:53 > [2001:db8:100:1::5]:1");
        assert_eq!(node.inward(&packet).1, ANNA.down(&hop(packet)));
        let stranger = Line(1, [100, 9], 3, 0);
        assert_eq!(
            node.frame(1, &solicitation(stranger, "fe80::7", gateway)).0,
            dropped(DropReason::NoSubscriber)
        );
    }
}

/// Several subscribers behind one router are told apart by their sources.
#[test]
fn subscribers_behind_a_router_are_known_by_their_sources() {
    let mut node = Node::with_two();
    let router = Line(1, [100, 5], 8, 0);
    let behind = |session, prefixes: &[&str]| SubscriberEntry {
        behind_router: true,
        ..router.entry(session, prefixes)
    };
    node.add(behind(10, &["100.64.9.1/32"]));
    node.add(behind(11, &["100.64.9.2/32", "100.66.1.0/24", "2001:db8:120::/56"]));
    node.add(behind(12, &["100.66.2.0/24"]));
    for (source, session) in
        [("100.64.9.1", 10), ("100.64.9.2", 11), ("100.66.1.77", 11), ("100.66.2.77", 12)]
    {
        let before = node.state(session).from_frames;
        assert_eq!(
            node.up(router, &ip(&format!("udp {source}:1 > 198.51.100.9:53"))).0,
            Verdict::Out(PortId(WAN)),
            "{source}"
        );
        assert_eq!(node.state(session).from_frames, before + 1, "{source}");
        let packet = ip(&format!("udp 198.51.100.9:53 > {source}:1"));
        assert_eq!(node.inward(&packet).1, router.down(&hop(packet)), "{source}");
    }
    assert_eq!(
        node.up(router, &ip("udp [2001:db8:120:7::5]:1 > [2001:db8:9::9]:53")).0,
        Verdict::Out(PortId(WAN))
    );
    // An address of nobody, that of a subscriber elsewhere, and one behind the router from elsewhere.
    for (line, source, verdict) in [
        (router, "100.64.9.3", Verdict::Control(PuntReason::UnknownSource)),
        (router, "100.64.0.2", Verdict::Control(PuntReason::UnknownSource)),
        (Line(1, [100, 6], 8, 0), "100.64.9.2", Verdict::Control(PuntReason::UnknownSource)),
        (ANNA, "100.64.9.2", dropped(DropReason::SubscriberSource)),
    ] {
        assert_eq!(node.up(line, &ip(&format!("udp {source}:1 > 198.51.100.9:53"))).0, verdict, "{source}");
    }
    // Packets of one to another behind the same router.
    let packet = ip("udp 100.66.1.7:1 > 100.66.2.7:2");
    assert_eq!(node.up(router, &packet).1, router.down(&hop(packet)));
    // The router asks for the gateway.
    let asks = question(Host { mac: router.mac(), ip: [100, 64, 9, 1].into() }, [100, 64, 0, 1].into());
    node.frame(1, &router.frame([0xff; 6], router.mac(), &asks[12..]));
    assert_eq!(node.departures().len(), 1);
    node.frame(1, &solicitation(router, "fe80::8", "2001:db8:100::1"));
    assert_eq!(node.departures().len(), 1);
    let wrong = node
        .command(SubscriberCommand::Add(router.entry(13, &["100.64.9.9/32"])))
        .expect_err("a router is there");
    assert!(wrong.contains("add this one with `behind_router`, too"), "{wrong}");
    let wrong = node
        .command(SubscriberCommand::Add(SubscriberEntry {
            behind_router: true,
            ..BEN.entry(13, &["100.64.9.9/32"])
        }))
        .expect_err("both");
    assert!(wrong.contains("not both"), "{wrong}");
    // They end one by one; then the line is free.
    for session in [10, 11, 12] {
        node.command(SubscriberCommand::Remove { session }).expect("it is there");
    }
    assert_eq!(
        node.up(router, &ip("udp 100.66.2.77:1 > 198.51.100.9:53")).0,
        Verdict::Control(PuntReason::UnknownSource)
    );
    node.add(router.entry(13, &["100.64.9.9/32"]));
    assert_eq!(node.up(router, &ip("udp 100.64.9.9:1 > 198.51.100.9:53")).0, Verdict::Out(PortId(WAN)));
    let wrong = node.command(SubscriberCommand::Add(behind(14, &["100.64.9.1/32"]))).expect_err("a line");
    assert!(wrong.contains("is behind no router"), "{wrong}");
}

/// A naive model of sessions: a list that is searched from end to end.
#[derive(Default)]
struct Model(Vec<SubscriberEntry>);

impl Model {
    /// Does a command; false: it cannot be done.
    fn take(&mut self, command: &SubscriberCommand) -> bool {
        match command {
            SubscriberCommand::Add(new) => {
                let line = |entry: &SubscriberEntry| {
                    (entry.port.clone(), entry.tags.clone(), entry.mac.0.clone(), entry.pppoe_session)
                };
                let clashes = self.0.iter().filter(|other| other.session != new.session).any(|other| {
                    let is_shared = other.behind_router && new.behind_router;
                    line(other) == line(new) && !is_shared
                        || other.prefixes.iter().any(|prefix| new.prefixes.contains(prefix))
                });
                if !clashes {
                    self.0.retain(|other| other.session != new.session);
                    self.0.push(new.clone());
                }
                !clashes
            }
            SubscriberCommand::Remove { session } => {
                let before = self.0.len();
                self.0.retain(|other| other.session != *session);
                self.0.len() < before
            }
            other => unreachable!("{other:?} is not sent"),
        }
    }

    /// The session of an address: the one with the longest prefix.
    fn of_address(&self, address: IpAddr) -> Option<&SubscriberEntry> {
        let all = self.0.iter().flat_map(|entry| entry.prefixes.iter().map(move |prefix| (prefix, entry)));
        let holds = all.filter(|(prefix, _)| prefix.contains(address));
        holds.max_by_key(|(prefix, _)| prefix.len).map(|(_, entry)| entry)
    }

    /// The session that a packet of a line with this source is accepted for.
    fn of_line(&self, line: Line, source: IpAddr) -> Option<&SubscriberEntry> {
        let like = line.entry(0, &[]);
        let is_line = |entry: &&SubscriberEntry| {
            (&entry.port, &entry.tags, &entry.mac, entry.pppoe_session)
                == (&like.port, &like.tags, &like.mac, like.pppoe_session)
        };
        match self.0.iter().filter(is_line).find(|entry| !entry.behind_router) {
            Some(entry) => {
                Some(entry).filter(|entry| entry.prefixes.iter().any(|prefix| prefix.contains(source)))
            }
            None => self.of_address(source).filter(is_line),
        }
    }
}

/// One of a few lines.
fn some_line(dice: &mut Dice) -> Line {
    let (mac, session) = (1 + dice.roll(2) as u8, [0, 0, 7, 8, 65_534][dice.roll(5)]);
    match dice.roll(2) {
        0 => Line(0, [0, 0], mac, session),
        _ => Line(1, [100 + dice.roll(2) as u16, 7], mac, session),
    }
}

/// A command for one of a few sessions.
fn some_command(dice: &mut Dice) -> SubscriberCommand {
    let session = 1 + dice.roll(8) as u64;
    if dice.roll(3) == 0 {
        return SubscriberCommand::Remove { session };
    }
    let host = format!("100.64.1.{}/32", 2 + dice.roll(10));
    let (net, net6) = (format!("100.65.{}.0/24", dice.roll(3)), format!("2001:db8:1{}0::/56", dice.roll(3)));
    let inner = format!("100.65.1.{}/32", dice.roll(3));
    let all = [&host[..], &net, &net6, &inner];
    let from = dice.roll(3);
    let line = some_line(dice);
    let mut entry = line.entry(session, &all[from..from + 1 + dice.roll(4 - from)]);
    entry.behind_router = line.3 == 0 && dice.roll(3) == 0;
    SubscriberCommand::Add(entry)
}

/// An address of a few.
fn some_address(dice: &mut Dice) -> String {
    match dice.roll(3) {
        0 => format!("100.64.1.{}", 2 + dice.roll(10)),
        1 => format!("100.65.{}.{}", dice.roll(3), dice.roll(5)),
        _ => format!("[2001:db8:1{}0:{}::7]", dice.roll(3), dice.roll(4)),
    }
}

fn address(text: &str) -> IpAddr {
    text.trim_matches(['[', ']']).parse().expect("an address")
}

/// Sends a packet from a line, or to an address, and compares what becomes of it.
fn compare(node: &mut Node, model: &Model, dice: &mut Dice, what: &str) {
    let at = some_address(dice);
    let far = if at.starts_with('[') { "[2001:db8:9::9]" } else { "198.51.100.9" };
    if dice.roll(2) == 0 {
        let line = some_line(dice);
        let is_accepted = model.of_line(line, address(&at)).is_some();
        let (verdict, _) = node.up(line, &ip(&format!("udp {at}:1 > {far}:53")));
        assert_eq!(verdict == Verdict::Out(PortId(WAN)), is_accepted, "{what}: from {at}: {verdict:?}");
        return;
    }
    let packet = ip(&format!("udp {far}:53 > {at}:1"));
    let (verdict, bytes) = node.inward(&packet);
    match model.of_address(address(&at)) {
        Some(entry) => {
            let mac = u8::from_str_radix(&entry.mac.0[15..], 16).expect("hexadecimal");
            let tags = match entry.tags.split_once('.') {
                Some((outer, inner)) => [outer, inner].map(|vid| vid.parse().expect("a VLAN")),
                None => [0, 0],
            };
            let line = Line(u16::from(entry.port == "access2"), tags, mac, entry.pppoe_session.unwrap_or(0));
            assert_eq!(
                (verdict, bytes),
                (Verdict::Out(PortId(line.0)), line.down(&hop(packet))),
                "{what}: to {at}"
            );
        }
        None => assert_eq!(verdict, dropped(DropReason::NoSubscriber), "{what}: to {at}"),
    }
}

/// Random commands under traffic beside the model.
fn commands_under_traffic(commands: usize) {
    let (mut done, mut refused) = (0, 0);
    for seed in 0..commands.div_ceil(5000) as u64 {
        let (mut dice, mut node, mut model) = (Dice::new(seed), Node::new(), Model::default());
        for step in 0..commands.min(5000) {
            let what = format!("seed {seed}, step {step}");
            let command = some_command(&mut dice);
            let is_right = model.take(&command);
            let taken = node.command(command.clone());
            assert_eq!(taken.is_ok(), is_right, "{what}: {command:?}: {taken:?}");
            *(if is_right { &mut done } else { &mut refused }) += 1;
            (0..3).for_each(|_| compare(&mut node, &model, &mut dice, &what));
        }
        let mut shown: Vec<_> = node.plane.subscribers(0, &["access1", "access2", "wan"].map(String::from)).0;
        shown.sort_by_key(|one| one.entry.session);
        model.0.sort_by_key(|entry| entry.session);
        assert_eq!(shown.into_iter().map(|one| one.entry).collect::<Vec<_>>(), model.0, "seed {seed}");
    }
    assert!(done > commands / 4 && refused > commands / 4, "{done} done, {refused} refused");
}

#[test]
fn random_commands_under_traffic_agree_with_a_model() {
    commands_under_traffic(20_000);
}

/// `cargo test --release -p weir-plane --test plane -- --ignored million` takes minutes.
#[test]
#[ignore = "a million commands take minutes"]
fn a_million_random_commands_under_traffic_agree_with_a_model() {
    commands_under_traffic(1_000_000);
}

/// A packet as a fragment with any number: the first one, or one of the middle.
fn fragment(mut packet: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let number = dice.roll(65_536) as u16;
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    let more_and_offset = 0x2000 | (dice.roll(2) as u16 * 185);
    packet[6..8].copy_from_slice(&more_and_offset.to_be_bytes());
    write_ipv4(&mut packet[..20]);
    packet
}

/// Table, indexes, wheel of echo requests, and the queues' share: a session with both families that sends nothing.
#[test]
fn an_idle_session_takes_less_than_a_kibibyte_of_the_plane() {
    const SESSIONS: u32 = 20_000;
    let mut node = Node::new();
    let empty = node.plane.subscriber_bytes();
    let add = |n: u32| {
        let [_, b, c, d] = n.to_be_bytes();
        let session = Line(0, [0, 0], 0, 1 + n as u16);
        let prefixes = [format!("100.{}.{c}.{d}/32", 65 + b), format!("2001:db8:1{c:02x}:{d:x}::/64")];
        let [v4, v6] = &prefixes;
        let mac = MacText::from([2, 1, 0, b, c, d]);
        let entry =
            SubscriberEntry { mac, plan: Some("basic".into()), ..session.entry(1 + u64::from(n), &[v4, v6]) };
        Command::Subscriber(SubscriberCommand::Add(entry))
    };
    let changes = node.config.decide(&(0..SESSIONS).map(add).collect::<Vec<_>>()).expect("each has its own");
    node.plane.take(Time::from_ms(node.ms), Update::of_changes(&changes)).expect("room");
    let each = (node.plane.subscriber_bytes() - empty) / SESSIONS as usize;
    println!("{each} bytes for each session, {empty} without any");
    assert!((128..1024).contains(&each), "{each} bytes");
}

/// What one customer floods the node with (SYN, spoofed sources, fragments, unknown sessions and devices, PADI, RS, ARP), while another one sends and receives: that one loses nothing.
#[test]
fn a_flood_of_one_subscriber_takes_nothing_from_another() {
    let mut node = Node::with_two();
    node.command(SubscriberCommand::UnknownSessions(UnknownSessions::Terminate)).expect("done");
    let (up, down) = (ip("udp 100.64.0.3:1 > 198.51.100.9:53"), ip("udp 198.51.100.9:53 > 100.64.0.3:1"));
    let mut dice = Dice::new(7);
    let packets = [
        "tcp 100.64.0.2:1 > 198.51.100.9:80 S",
        "udp 100.64.0.9:1 > 198.51.100.9:53",
        "udp 100.64.0.2:1 > 100.64.0.1:53",
        "icmp 133/0 [fe80::5] > [ff02::2]",
    ]
    .map(ip);
    for round in 0..300 {
        for _ in 0..30 {
            let line = Line(0, [0, 0], dice.roll(250) as u8, dice.roll(65_536) as u16);
            let frame = match dice.roll(9) {
                8 => ANNA.up(&fragment(packets[0].clone(), &mut dice)),
                0 => line.frame(line.own(), line.mac(), &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]),
                1 => line.frame([0xff; 6], line.mac(), &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]),
                2 => line.frame(line.own(), line.mac(), &line.ppp(0xc021, &[9, 1, 0, 8, 0, 0, 0, 0])),
                3 => ANNA.frame(ANNA.own(), ANNA.mac(), &ANNA.ppp(0xc021, &[9, 1, 0, 8, 0, 0, 0, 0])),
                4 => [
                    &[0xff; 6],
                    &line.mac()[..],
                    &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
                    &[dice.roll(256) as u8; 20],
                ]
                .concat(),
                5 => line.up(&packets[dice.roll(4)]),
                6 => solicitation(ANNA, "fe80::7", "2001:db8:100::1"),
                _ => ANNA.up(&packets[dice.roll(4)]),
            };
            node.frame(0, &frame);
        }
        node.departures();
        assert_eq!(node.up(BEN, &up).0, Verdict::Out(PortId(WAN)), "round {round}");
        assert_eq!(node.inward(&down).1, BEN.down(&hop(down.clone())), "round {round}");
        let discovery = BEN.frame([0xff; 6], BEN.mac(), &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]);
        if round % 30 == 0 {
            assert_eq!(
                node.frame(1, &discovery).0,
                Verdict::Control(PuntReason::PppoeDiscovery),
                "round {round}"
            );
            let terminate = BEN.frame(BEN.own(), BEN.mac(), &BEN.ppp(0xc021, &[5, 1, 0, 4]));
            assert_eq!(
                node.frame(1, &terminate).0,
                Verdict::Control(PuntReason::PppControl),
                "round {round}"
            );
        }
    }
}

#[test]
fn wrong_sessions_are_refused_with_a_remedy() {
    let mut node = Node::with_two();
    let entry = Line(0, [0, 0], 9, 5).entry(7, &["100.64.0.9/32"]);
    for (entry, why) in [
        (SubscriberEntry { pppoe_session: Some(0), ..entry.clone() }, "an id of 1 to 65534, not 0"),
        (SubscriberEntry { pppoe_session: Some(65_535), ..entry.clone() }, "an id of 1 to 65534, not 65535"),
        (
            SubscriberEntry { echo_interval_s: Some(3601), ..entry.clone() },
            "every 1 to 3600 s, or never with 0, not every 3601 s",
        ),
        (SubscriberEntry { echo_lost: Some(0), ..entry.clone() }, "after 1 to 20 echo requests"),
        (
            SubscriberEntry { echo_lost: Some(3), pppoe_session: None, ..entry.clone() },
            "echo requests are for PPPoE sessions",
        ),
        (SubscriberEntry { mru: Some(575), ..entry.clone() }, "an MRU is of 576 to 9216 bytes, not 575"),
        (
            ANNA.entry(7, &["100.64.0.9/32"]),
            "session 1 has this port, tags, Ethernet address and PPPoE session",
        ),
    ] {
        let wrong = node.command(SubscriberCommand::Add(entry)).expect_err(why);
        assert!(wrong.contains(why), "{wrong}");
    }
}
