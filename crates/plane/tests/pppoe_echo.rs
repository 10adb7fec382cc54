//! Echoes of LCP that the node asks for: silent sessions, and many sessions at once.

use weir_plane::{Command, Departure, Leave, PortId, SubscriberCommand, SubscriberEntry, Time, Update};

use crate::sessions::{ANNA, BEN, Line, MAGIC, Node, ip};

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
