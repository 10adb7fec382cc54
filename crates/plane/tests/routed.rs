//! Neighbours and routers of subscribers: solicitations, sources behind a router, packets that would come back.

use weir_packet::neighbour::{Host, answer, question};
use weir_plane::{
    Config, Departure, DropReason, Leave, PortId, PuntReason, SubscriberCommand, SubscriberEntry, Time,
    Verdict,
};

use crate::sessions::{ANNA, BEN, Line, Node, TEXT, WAN, dropped, hop, ip, solicitation};

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
