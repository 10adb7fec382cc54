//! Neighbours as they are seen from the wire: what is asked and answered when, and what becomes of frames meanwhile.

use weir_packet::flow::Flow;
use weir_packet::frame::{Ends, Mac, Signature};
use weir_packet::neighbour::{Heard, Host, answer, parse, question};

use crate::config::Config;
use crate::frame::{Frame, HEAD_ROOM, PortId};
use crate::scenario::Vector;
use crate::{Batch, DropReason, Leave, Plane, Punt, Shelf, Time, Verdict};

const NODE: &str = "lan(198.18.0.1/24, 2001:db8:1::1/64) route(default via 198.19.0.2) > wan(198.19.0.1/24)";
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const HOST: Mac = [2, 0, 0, 0, 0xcc, 1];

/// A node and what left it.
struct Net {
    plane: Plane,
    kept: Shelf<Vector>,
    now: Time,
    left: Vec<(u16, Vec<u8>)>,
}

impl Net {
    fn new(text: &str) -> Net {
        let config = Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        Net::of(&config)
    }

    fn of(config: &Config) -> Net {
        let plane = Plane::new(config, &MACS);
        Net { plane, kept: Shelf::default(), now: Time::default(), left: Vec::new() }
    }

    fn frame(&mut self, ms: u64, port: u16, bytes: &[u8]) -> Verdict {
        let mut buf = [&[0; HEAD_ROOM], bytes].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
        self.plane.run(Time::from_ms(ms), &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        match verdict {
            Verdict::Out(port) => self.left.push((port.0, frame.bytes().to_vec())),
            Verdict::Kept(ticket) => self.kept.copy(ticket, frame),
            _ => {}
        }
        self.now = Time::from_ms(ms);
        self.depart();
        verdict
    }

    fn tick(&mut self, ms: u64) {
        self.plane.tick(Time::from_ms(ms));
        self.now = Time::from_ms(ms);
        self.depart();
    }

    fn depart(&mut self) {
        for (verdict, _, bytes) in self.kept.resume(&mut self.plane, self.now) {
            if let Verdict::Out(port) = verdict {
                self.left.push((port.0, bytes));
            }
        }
        let departed = self.plane.departures().filter_map(|d| match d.to {
            Leave::Port(port) => Some((port.0, d.bytes)),
            _ => None,
        });
        self.left.extend(departed);
        assert!(self.plane.accounting().balance(), "{:?}", self.plane.accounting());
    }

    /// What left since the last call: `ask`, `ask HOST` for a question to one host, `answer`, else the UDP source port.
    fn seen(&mut self) -> String {
        let show = |(port, bytes): (u16, Vec<u8>)| match parse(&bytes) {
            Some(Heard::Question { target, .. }) if bytes[..6] == HOST => format!("{port}:probe {target}"),
            Some(Heard::Question { target, .. }) => format!("{port}:ask {target}"),
            Some(Heard::Answer(host)) => format!("{port}:answer {}", host.ip),
            None if bytes[23] == 1 => format!("{port}:icmp {}/{}", bytes[34], bytes[35]),
            None => {
                let to_host = if bytes[..6] == HOST { "" } else { " elsewhere" };
                format!("{port}:{}{to_host}", u16::from_be_bytes([bytes[34], bytes[35]]))
            }
        };
        self.left.drain(..).map(show).collect::<Vec<_>>().join(", ")
    }
}

/// A frame from a host of the lan to a remote host, distinguished by its source port.
fn packet(sport: u16) -> Vec<u8> {
    let ends = Ends::v4(HOST, MACS[0]);
    let flow = Flow { src: 0xc612_0005, dst: 0xc000_0201, sport, dport: 2, group: 0 };
    ends.frame(&flow, 64, Signature::default())
}

fn host(mac: Mac, ip: &str) -> Host {
    Host { mac, ip: ip.parse().expect("an address") }
}

fn reply(ip: &str, mac: Mac) -> Vec<u8> {
    answer(host(mac, ip), host(MACS[1], "198.19.0.1"))
}

#[test]
fn frames_wait_for_an_answer_and_go_in_order() {
    let mut net = Net::new(NODE);
    assert!(matches!(net.frame(0, 0, &packet(10)), Verdict::Kept(_)));
    assert!(matches!(net.frame(1, 0, &packet(11)), Verdict::Kept(_)));
    assert_eq!(net.seen(), "1:ask 198.19.0.2");
    assert_eq!(net.frame(2, 1, &reply("198.19.0.2", HOST)), Verdict::Punted(Punt::Neighbours));
    assert_eq!(net.seen(), "1:10, 1:11");
    assert_eq!(net.frame(3, 0, &packet(12)), Verdict::Out(PortId(1)));
    assert_eq!((net.seen().as_str(), net.plane.accounting().drops.total()), ("1:12", 0));
}

#[test]
fn who_does_not_answer_is_asked_three_times_and_the_sender_reported() {
    let mut net = Net::new(NODE);
    // The sender is known, so that the error finds it.
    net.frame(0, 0, &question(host(HOST, "198.18.0.5"), "198.18.0.1".parse().unwrap()));
    net.seen();
    for sport in 0..10 {
        assert!(matches!(net.frame(u64::from(sport), 0, &packet(sport)), Verdict::Kept(_)));
    }
    assert_eq!(net.plane.accounting().drops[DropReason::NeighbourQueue], 2, "the newest eight are kept");
    assert_eq!(net.seen(), "1:ask 198.19.0.2");
    for (ms, seen) in [(999, ""), (1000, "1:ask 198.19.0.2"), (2000, "1:ask 198.19.0.2"), (2999, "")] {
        net.tick(ms);
        assert_eq!(net.seen(), seen, "{ms} ms");
    }
    net.tick(3000);
    assert_eq!(net.seen(), ["0:icmp 3/1"; 8].join(", "));
    assert_eq!((net.plane.accounting().drops[DropReason::NoNeighbour], net.plane.accounting().kept), (8, 0));
    net.frame(3001, 0, &packet(1));
    assert_eq!(net.seen(), "1:ask 198.19.0.2", "asked anew");
}

#[test]
fn an_old_answer_is_used_and_checked() {
    let mut net = Net::new(NODE);
    net.frame(0, 0, &packet(1));
    net.frame(0, 1, &reply("198.19.0.2", HOST));
    assert_eq!(net.seen(), "1:ask 198.19.0.2, 1:1");
    for (ms, action, seen) in [
        (29_000, "frame", "1:2"),
        (30_000, "tick", ""),
        (90_000, "frame", "1:2"),
        (94_999, "tick", ""),
        (95_000, "tick", "1:probe 198.19.0.2"),
        (95_100, "reply", ""),
        (125_100, "tick", ""),
        (125_200, "frame", "1:2"),
        (130_200, "tick", "1:probe 198.19.0.2"),
        (131_200, "tick", "1:probe 198.19.0.2"),
        (132_200, "tick", "1:probe 198.19.0.2"),
        (132_300, "frame", "1:2"),
        (133_200, "tick", ""),
        (133_300, "frame", "1:ask 198.19.0.2"),
    ] {
        match action {
            "tick" => net.tick(ms),
            "reply" => drop(net.frame(ms, 1, &reply("198.19.0.2", HOST))),
            _ => drop(net.frame(ms, 0, &packet(2))),
        }
        assert_eq!(net.seen(), seen, "{ms} ms: {action}");
    }
}

#[test]
fn a_neighbour_that_nobody_uses_is_forgotten() {
    let mut net = Net::new(NODE);
    let asks = question(host(HOST, "198.18.0.5"), "198.18.0.1".parse().unwrap());
    assert_eq!(net.frame(0, 0, &asks), Verdict::Punted(Punt::Neighbours));
    assert_eq!(net.seen(), "0:answer 198.18.0.1");
    // To the host itself, so that its own route is used.
    let to_host = |net: &mut Net, ms| {
        let ends = Ends::v4(HOST, MACS[1]);
        let flow = Flow { src: 0xc000_0201, dst: 0xc612_0005, sport: 7, dport: 2, group: 0 };
        net.frame(ms, 1, &ends.frame(&flow, 64, Signature::default()))
    };
    net.tick(599_999);
    assert_eq!(to_host(&mut net, 599_999), Verdict::Out(PortId(0)));
    for ms in [604_999, 605_999, 606_999, 607_999] {
        net.tick(ms);
    }
    net.seen();
    assert!(matches!(to_host(&mut net, 608_000), Verdict::Kept(_)));
    assert_eq!(net.seen(), "0:ask 198.18.0.5");
}

#[test]
fn questions_for_the_node_are_answered_and_no_others() {
    let mut net = Net::new(NODE);
    for (from, target, verdict, seen) in [
        ("198.18.0.5", "198.18.0.1", Verdict::Punted(Punt::Neighbours), "0:answer 198.18.0.1"),
        ("198.18.0.5", "198.18.0.9", Verdict::Dropped(DropReason::NotForUs), ""),
        ("0.0.0.0", "198.18.0.1", Verdict::Punted(Punt::Neighbours), "0:answer 198.18.0.1"),
        ("2001:db8:1::5", "2001:db8:1::1", Verdict::Punted(Punt::Neighbours), "0:answer 2001:db8:1::1"),
        ("2001:db8:1::5", "fe80::ff:fe00:1", Verdict::Punted(Punt::Neighbours), "0:answer fe80::ff:fe00:1"),
        ("2001:db8:1::5", "2001:db8:1::2", Verdict::Dropped(DropReason::NotForUs), ""),
    ] {
        let asks = question(host(HOST, from), target.parse().unwrap());
        assert_eq!(
            (net.frame(0, 0, &asks), net.seen().as_str()),
            (verdict, seen),
            "{from} asks for {target}"
        );
    }
    let mut other = packet(1);
    other[5] ^= 7;
    assert_eq!(net.frame(0, 0, &other), Verdict::Dropped(DropReason::NotForUs));
}

#[test]
fn outside_the_node_answers_for_what_it_translates_to() {
    let text = |pool: &str| {
        format!("lan(198.18.0.1/24) nat(public {pool}) route(default via 198.19.0.2) > wan(198.19.0.1/24)")
    };
    let (before, after) = (text("198.19.0.16/28"), text("198.19.0.32/28"));
    let mut net = Net::new(&before);
    let asks = |last: u8| question(host(HOST, "198.19.0.2"), [198, 19, 0, last].into());
    let answers = |net: &mut Net| {
        [15, 17, 33].map(|last| net.frame(0, 1, &asks(last)) == Verdict::Punted(Punt::Neighbours))
    };
    assert_eq!(answers(&mut net), [false, true, false]);
    assert_eq!(
        net.frame(0, 0, &asks(17)),
        Verdict::Dropped(DropReason::NotForUs),
        "inside nobody knows them"
    );
    let [before, after] = [before, after].map(|text| Config::read("n", &text).expect("a node"));
    net.plane.apply(Time::from_ms(1), &before, &after).expect("another pool");
    assert_eq!(answers(&mut net), [false, false, true]);
}

#[test]
fn whoever_waited_for_nobody_is_reported_through_other_stages() {
    let text = |stages: &str| {
        format!("lan(198.18.0.1/24) {stages} route(default via 198.19.0.2) > wan(198.19.0.1/24)")
    };
    let (two, errors) =
        ("filter(count a udp, policy accept) filter(policy accept)", "filter(count b icmp, policy accept)");
    for (before, after) in [(two, ""), ("", errors), (errors, two)] {
        let mut net = Net::new(&text(before));
        net.frame(0, 0, &question(host(HOST, "198.18.0.5"), "198.18.0.1".parse().unwrap()));
        assert!(matches!(net.frame(0, 0, &packet(1)), Verdict::Kept(_)));
        net.seen();
        let [old, new] = [before, after].map(|stages| Config::read("n", &text(stages)).expect("a node"));
        net.plane.apply(Time::from_ms(1), &old, &new).expect("other stages");
        for ms in [1000, 2000, 3000] {
            net.tick(ms);
        }
        assert!(net.seen().ends_with("0:icmp 3/1"), "from {before} to {after}");
        if after == errors {
            assert_eq!(net.plane.filter_counts()[0][0].1.frames, 1, "it passes what has come");
        }
    }
}

#[test]
fn a_given_neighbour_is_not_asked_and_does_not_change() {
    let text = "lan(198.18.0.1/24) route(default via 198.19.0.2) > \
                wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:cc:01)";
    let mut net = Net::new(text);
    assert_eq!(net.frame(0, 0, &packet(1)), Verdict::Out(PortId(1)));
    net.frame(1, 1, &reply("198.19.0.2", [2, 0, 0, 0, 0xcc, 9]));
    net.tick(10_000_000);
    net.frame(10_000_000, 0, &packet(2));
    assert_eq!(net.seen(), "1:1, 1:2");
}

/// A frame of IPv4 from a host outside to an address inside.
fn scan(from: u8, to: u32) -> Vec<u8> {
    let ends = Ends::v4(HOST, MACS[1]);
    let flow =
        Flow { src: 0xc613_0000 | u32::from(from), dst: 0xc612_0000 + to, sport: 7, dport: 2, group: 0 };
    ends.frame(&flow, 64, Signature::default())
}

#[test]
fn of_those_that_are_asked_about_the_oldest_of_who_has_most_gives_way() {
    let node = "lan(198.18.0.1/16) route > wan(198.19.0.1/16) limits(unresolved 20, questions 100)";
    let mut net = Net::new(node);
    // A quarter of a quarter of the rate at once, and the rest of what others have left.
    let verdicts: Vec<Verdict> = (0..30).map(|n| net.frame(0, 1, &scan(6, 1000 + n))).collect();
    let kept = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Kept(_))).count();
    assert_eq!((kept, verdicts[29]), (7, Verdict::Dropped(DropReason::NeighbourRate)));
    // One more every 40 ms.
    (0..30).for_each(|n| _ = net.frame(100 + 40 * n, 1, &scan(6, 2000 + n as u32)));
    let drops = net.plane.accounting().drops;
    assert_eq!((drops[DropReason::NeighbourLimit], net.plane.accounting().kept), (17, 20));
    net.seen();
    // The address of another host is not among them, whichever host asks next.
    assert!(matches!(net.frame(1300, 1, &scan(7, 9)), Verdict::Kept(_)));
    (0..9).for_each(|n| _ = net.frame(1340 + 40 * n, 1, &scan(6, 3000 + n as u32)));
    net.seen();
    let asked = question(host(MACS[0], "198.18.0.1"), [198, 18, 0, 9].into());
    let Some(Heard::Question { from, .. }) = parse(&asked) else { panic!("a question") };
    net.frame(1700, 0, &answer(host(HOST, "198.18.0.9"), from));
    assert_eq!(net.seen(), "0:7", "what waited for it goes on");
    // Whoever has answered stays, however many are asked about.
    (0..500).for_each(|n| _ = net.frame(2000 + 40 * n, 1, &scan(6, 5000 + n as u32)));
    assert_eq!(net.frame(22_000, 1, &scan(7, 9)), Verdict::Out(PortId(0)));
}

#[test]
fn too_long_a_frame_leaves_no_neighbour_behind() {
    let mut net = Net::new("lan(198.18.0.1/16, mtu 576) route > wan(198.19.0.1/16)");
    let ends = Ends::v4(HOST, MACS[1]);
    for n in 0..100 {
        let flow = Flow { src: 0xc613_0006, dst: 0xc612_1000 + n, sport: 7, dport: 2, group: 0 };
        let mut frame = ends.frame(&flow, 1000, Signature::default());
        // Not to be cut.
        frame[20] |= 0x40;
        weir_packet::checksum::write_ipv4(&mut frame[14..34]);
        assert_eq!(net.frame(n.into(), 1, &frame), Verdict::Dropped(DropReason::TooBig));
    }
    assert_eq!(net.seen(), "1:ask 198.19.0.6", "nobody but who is to hear of it");
}

/// What a thread of two tells the other one, of a flood of questions and of what that one waits for.
#[test]
fn threads_tell_each_other_what_they_wait_for_and_little_else() {
    let config = |thread| {
        let config = Config::read("n", NODE).expect("a node");
        Config { share: crate::Share { thread, of: 2 }, ..config }
    };
    let mut threads = [0, 1].map(|thread| Net::of(&config(thread)));
    for n in 0..5000_u32 {
        let from = [198, 18, 0, 2 + (n % 250) as u8].map(|byte| byte.to_string()).join(".");
        let mac = [2, 0, 0, 0, (n >> 8) as u8, n as u8];
        threads[0].frame(u64::from(n) / 50, 0, &question(host(mac, &from), "198.18.0.1".parse().unwrap()));
    }
    let reported = threads[0].plane.neighbour_news().count();
    assert!((64..=64 + 100 / 5).contains(&reported), "{reported} of 5000 in 100 ms");
    // The other one asks, and the answer comes to this one while the flood goes on.
    assert!(matches!(threads[1].frame(101, 0, &packet(1)), Verdict::Kept(_)));
    let asks: Vec<_> = threads[1].plane.neighbour_news().collect();
    assert_eq!(asks.len(), 1);
    threads[0].plane.on_neighbour_news(Time::from_ms(101), &asks[0]);
    for _ in 0..3 {
        threads[0].frame(101, 1, &reply("198.19.0.2", HOST));
    }
    let reported: Vec<_> = threads[0].plane.neighbour_news().collect();
    assert!(reported.iter().any(|news| news.frame == reply("198.19.0.2", HOST)), "{reported:?}");
    threads[1].plane.on_neighbour_news(Time::from_ms(102), &reported[0]);
    threads[1].depart();
    assert!(threads[1].seen().ends_with("1:1"), "what waited goes on");
}

#[test]
fn tags_are_on_questions_and_on_what_waited() {
    let mut net =
        Net::new("lan(198.18.0.1/24) route(default via 198.19.0.2) > wan(198.19.0.1/24, vlan 10.20)");
    let tags = [0x88, 0xa8, 0, 10, 0x81, 0, 0, 20];
    let tagged = |bytes: &[u8]| [&bytes[..12], &tags, &bytes[12..]].concat();
    net.frame(0, 0, &packet(1));
    assert_eq!(net.left[0].1[12..20], tags);
    net.frame(1, 1, &tagged(&reply("198.19.0.2", HOST)));
    let (port, released) = net.left.pop().expect("two left");
    assert_eq!((port, &released[..6], &released[12..20]), (1, &HOST[..], &tags[..]));
    // And on what is answered in place.
    assert_eq!(net.frame(2, 1, &reply("198.19.0.2", HOST)), Verdict::Dropped(DropReason::UnknownVlan));
}
