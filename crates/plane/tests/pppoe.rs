//! PPPoE sessions of subscribers at access ports: packets in and out of them, and sessions that the node does not have.

use weir_packet::checksum::write_ipv4;
use weir_plane::{
    Command, Departure, DropReason, Leave, MacText, PortId, PuntReason, SubscriberCommand, SubscriberEntry,
    Time, UnknownSessions, Update, Verdict,
};
use weir_testkit::Dice;

use crate::sessions::{ANNA, BEN, Line, MACS, MAGIC, Node, ROUTER, WAN, dropped, hop, ip, solicitation};

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

/// A packet as a fragment with any number: the first one, or one of the middle.
fn fragment(mut packet: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let number = dice.roll(65_536) as u16;
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    let more_and_offset = 0x2000 | (dice.roll(2) as u16 * 185);
    packet[6..8].copy_from_slice(&more_and_offset.to_be_bytes());
    write_ipv4(&mut packet[..20]);
    packet
}

/// Everything that a subscriber can flood the node with, mixed, without NAT and shaper (`floods.rs` has them): another one loses nothing.
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
