//! Frames of subscribers that wait for rates: none is lost, none takes another way, and each rate holds.

use weir_packet::frame::Mac;
use weir_plane::scenario::{Vector, packet};
use weir_plane::{
    Batch, Command, Config, DropReason, Frame, GroupState, HEAD_ROOM, MacText, Plane, PortId, Shelf,
    SubscriberCommand, SubscriberEntry, SubscriberState, Time, Update, Verdict,
};

const REST: &str =
    "> route(default via 198.18.0.2) > wan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:00:99)";
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xff]];
const ROUTER: Mac = [2, 0, 0, 0, 0, 0x99];
const MBIT: u64 = 1_000_000;
const US: u64 = 1000;

/// A node in virtual time, and the frames that it keeps.
struct Node {
    config: Config,
    plane: Plane,
    kept: Shelf<Vector>,
    now_us: u64,
}

/// A frame that has left: when, by which port, its bytes.
type Left = (u64, u16, Vec<u8>);

impl Node {
    fn new(access: &str) -> Node {
        let config = read(access);
        let plane = Plane::new(&config, &MACS);
        Node { config, plane, kept: Shelf::default(), now_us: 1000 }
    }

    fn now(&self) -> Time {
        Time::from_ns(self.now_us * US)
    }

    fn command(&mut self, command: Command) {
        let changes = self.config.decide(&[command]).unwrap_or_else(|why| panic!("{why}"));
        self.plane.take(self.now(), Update::of_changes(&changes)).expect("room");
    }

    fn apply(&mut self, access: &str) {
        let new = read(access).instead_of(&self.config, 1).expect("the same node");
        self.plane.apply(self.now(), &self.config, &new).expect("a change");
        self.config = new;
    }

    fn frame(&mut self, port: u16, header: &[u8], line: &str) -> Vec<Left> {
        let packet = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
        self.bytes(port, &[header, &[8, 0], &packet].concat())
    }

    fn bytes(&mut self, port: u16, frame: &[u8]) -> Vec<Left> {
        let mut buf = [&[0; HEAD_ROOM][..], frame].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
        let now = self.now();
        self.plane.run(now, &mut batch);
        let mut left = Vec::new();
        for (frame, verdict) in batch.outcome() {
            match verdict {
                Verdict::Kept(ticket) => self.kept.copy(ticket, frame),
                Verdict::Out(port) => left.push((self.now_us, port.0, frame.bytes().to_vec())),
                _ => {}
            }
        }
        left.extend(self.resume());
        left
    }

    fn resume(&mut self) -> Vec<Left> {
        let now = self.now();
        let resumed = self.kept.resume(&mut self.plane, now);
        assert!(self.plane.accounting().balance(), "{:?}", self.plane.accounting());
        let out = |(verdict, _, bytes)| match verdict {
            Verdict::Out(port) => Some((self.now_us, port.0, bytes)),
            _ => None,
        };
        resumed.into_iter().filter_map(out).collect()
    }

    /// A packet for a subscriber, from the network.
    fn to(&mut self, line: &str) -> Vec<Left> {
        self.frame(1, &[&MACS[1][..], &ROUTER].concat(), line)
    }

    /// A packet of a subscriber.
    fn from(&mut self, of: u8, line: &str) -> Vec<Left> {
        let header = [&MACS[0][..], &mac(of), &tags(of)].concat();
        self.frame(0, &header, line)
    }

    /// Lets time pass.
    fn until(&mut self, us: u64) -> Vec<Left> {
        let mut left = Vec::new();
        while let Some(due) = self.plane.due(self.now()).filter(|due| due.ns() <= us * US) {
            self.now_us = self.now_us.max(due.ns().div_ceil(US));
            while self.plane.tick(self.now()) {}
            left.extend(self.resume());
            self.now_us += 1;
        }
        self.now_us = us.max(self.now_us);
        left
    }

    fn state(&self, session: u64) -> SubscriberState {
        let (all, _) = self.plane.subscribers(0, &["lan".to_string(), "wan".to_string()]);
        all.into_iter().find(|one| one.entry.session == session).expect("a session")
    }

    fn group(&self, name: &str) -> GroupState {
        let all = self.plane.groups(&["lan".to_string(), "wan".to_string()]);
        all.into_iter().find(|one| one.group.as_deref() == Some(name)).expect("a group")
    }
}

fn read(access: &str) -> Config {
    let text =
        format!("lan(vlan 100-199.1-4094, access) > access(gateway 100.127.255.254/10{access}) {REST}");
    Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn mac(of: u8) -> Mac {
    [2, 0, 0, 0, 1, of]
}

fn tags(of: u8) -> [u8; 8] {
    [0x88, 0xa8, 0, 100 + of, 0x81, 0, 0, 7]
}

/// Subscriber `of` has the address 100.64.0.`of` and the network 100.65.`of`.0/24, at the line `100 + of`.7.
fn add(of: u8, from_bits_per_s: Option<u64>, to_bits_per_s: Option<u64>) -> Command {
    let prefixes = [format!("100.64.0.{of}/32"), format!("100.65.{of}.0/24")];
    Command::Subscriber(SubscriberCommand::Add(SubscriberEntry {
        session: of.into(),
        port: "lan".into(),
        tags: format!("{}.7", 100 + u16::from(of)),
        mac: MacText::from(mac(of)),
        prefixes: prefixes.iter().map(|text| text.parse().expect("a prefix")).collect(),
        from_bits_per_s,
        to_bits_per_s,
        ..SubscriberEntry::default()
    }))
}

/// The identification of the packet of a frame, which says its order.
fn id(bytes: &[u8], tags: usize) -> u16 {
    let at = 14 + 4 * tags + 4;
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A packet with which a frame to a subscriber has 1000 bytes.
fn down(of: u8, n: u16) -> String {
    format!("udp 198.51.100.9:53 > 100.64.0.{of}:4000 len 950 id {n}")
}

/// Packets for a subscriber, all at once.
fn burst(node: &mut Node, of: u8, ids: std::ops::Range<u16>) -> Vec<Left> {
    ids.flat_map(|n| node.to(&down(of, n))).collect()
}

#[test]
fn frames_to_a_subscriber_leave_at_its_rate_and_count_when_they_leave() {
    let mut node = Node::new("");
    node.command(add(1, None, Some(8 * MBIT)));
    let mut left = burst(&mut node, 1, 0..20);
    let at_once = left.len();
    assert!((1..=3).contains(&at_once), "the burst of an idle subscriber: {at_once}");
    let state = node.state(1);
    assert_eq!((state.to_frames, state.to_queue.backlog_frames), (at_once as u64, 20 - at_once as u64));
    left.extend(node.until(100_000));
    let ids: Vec<u16> = left.iter().map(|(_, _, bytes)| id(bytes, 2)).collect();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    for (n, (us, port, bytes)) in left.iter().enumerate().skip(at_once) {
        let due = 1000 + 1000 * (n - at_once + 1) as u64;
        assert!((due - 1000..=due + 100).contains(us), "frame {n} left at {us} us");
        assert_eq!((*port, &bytes[..6], &bytes[12..20]), (0, &mac(1)[..], &tags(1)[..]));
    }
    let state = node.state(1);
    let bytes: usize = left.iter().map(|(_, _, bytes)| bytes.len()).sum();
    assert_eq!((state.to_frames, state.to_bytes), (20, bytes as u64));
    let queue = state.to_queue;
    assert_eq!((queue.backlog_frames, queue.dropped), (0, 0));
    assert!(queue.limited_by_plan_ms > 10 && queue.limited_by_parent_ms < 2, "{queue:?}");
    assert!(queue.delay_us(0.5).is_some_and(|us| (8_000..17_000).contains(&us)), "{queue:?}");
}

#[test]
fn the_rate_of_a_line_holds_where_it_is_the_smaller_one() {
    let times = |plan: Option<u64>, line: Option<u64>, overhead: &str, pppoe_session: Option<u16>| {
        let mut node = Node::new(overhead);
        let Command::Subscriber(SubscriberCommand::Add(entry)) = add(1, None, plan) else { unreachable!() };
        let entry = SubscriberEntry { line_to_bits_per_s: line, pppoe_session, ..entry };
        node.command(Command::Subscriber(SubscriberCommand::Add(entry)));
        let mut left = burst(&mut node, 1, 0..20);
        left.extend(node.until(1_000_000));
        let state = node.state(1);
        assert_eq!((left.len(), state.entry.line_to_bits_per_s, state.entry.to_bits_per_s), (20, line, plan));
        left.into_iter().map(|(us, ..)| us).collect::<Vec<_>>()
    };
    let (mbit8, mbit80) = (Some(8 * MBIT), Some(80 * MBIT));
    let slow = times(mbit8, None, "", None);
    for (plan, line) in [(mbit8, mbit80), (mbit80, mbit8), (None, mbit8)] {
        assert_eq!(times(plan, line, "", None), slow, "{plan:?} {line:?}");
    }
    assert_eq!(times(mbit8, None, ", overhead pppoe 100", None), slow);
    // A frame of a PPPoE session has 8 bytes more, and these.
    let of_session = times(mbit8, None, ", overhead 0, overhead pppoe 100", Some(7));
    assert_eq!(of_session, times(mbit8, None, ", overhead 100", Some(7)));
    assert!(of_session[19] > slow[19] + 19 * 90, "{of_session:?}");
}

#[test]
fn frames_from_a_subscriber_wait_in_front_of_the_stages() {
    let mut node = Node::new("");
    node.command(add(1, Some(8 * MBIT), None));
    let up = |n: u16| format!("udp 100.64.0.1:4000 > 198.51.100.9:53 len 950 id {n}");
    let mut left: Vec<Left> = (0..20).flat_map(|n| node.from(1, &up(n))).collect();
    assert!(left.len() < 4 && node.state(1).from_queue.backlog_frames > 16);
    left.extend(node.until(100_000));
    assert_eq!(
        left.iter().map(|(_, _, bytes)| id(bytes, 0)).collect::<Vec<_>>(),
        (0..20).collect::<Vec<_>>()
    );
    assert!(left.iter().all(|(_, port, _)| *port == 1));
    let (last, ..) = left.last().expect("20 frames");
    assert!((17_000..=21_000).contains(last), "{last}");
}

/// Frames to a PPPoE session wait with its header, those from it without; each counts as it is on the line.
#[test]
fn frames_of_a_pppoe_session_wait_and_keep_their_way() {
    let mut node = Node::new("");
    let Command::Subscriber(SubscriberCommand::Add(entry)) = add(1, Some(8 * MBIT), Some(8 * MBIT)) else {
        unreachable!("it adds one")
    };
    let entry = SubscriberEntry { pppoe_session: Some(9), ..entry };
    node.command(Command::Subscriber(SubscriberCommand::Add(entry)));
    let mut left = burst(&mut node, 1, 0..20);
    // It is cut: the node makes the second part.
    left.extend(node.to("udp 198.51.100.9:53 > 100.64.0.1:4000 len 1500 id 20"));
    left.extend(node.until(200_000));
    let made: Vec<_> = node.plane.departures().map(|departure| departure.bytes).collect();
    assert_eq!((left.len(), made.len()), (21, 1));
    let all: Vec<&Vec<u8>> = left.iter().map(|(_, _, bytes)| bytes).chain(&made).collect();
    for (n, bytes) in all.iter().enumerate() {
        let header = [&mac(1)[..], &MACS[0], &tags(1), &[0x88, 0x64, 0x11, 0, 0, 9]].concat();
        assert_eq!(bytes[..26], header, "{n}");
        assert_eq!(bytes[26..30], [&(bytes.len() as u16 - 28).to_be_bytes()[..], &[0, 0x21]].concat(), "{n}");
    }
    // Fragments are a flow of their own, which does not wait for the other one.
    let mut ids: Vec<u16> = all.iter().map(|bytes| u16::from_be_bytes([bytes[34], bytes[35]])).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=20).chain([20]).collect::<Vec<_>>());
    let state = node.state(1);
    let bytes: usize = all.iter().map(|bytes| bytes.len()).sum();
    assert_eq!((state.to_frames, state.to_bytes), (22, bytes as u64));
    let (mut up, mut up_bytes) = (Vec::new(), 0);
    for n in 0..20 {
        let packet =
            packet(&format!("udp 100.64.0.1:4000 > 198.51.100.9:53 len 950 id {n}")).expect("a packet");
        let length = (packet.len() as u16 + 2).to_be_bytes();
        let session = [&[0x88, 0x64, 0x11, 0, 0, 9][..], &length, &[0, 0x21], &packet].concat();
        let frame = [&MACS[0][..], &mac(1), &tags(1), &session].concat();
        up_bytes += frame.len() as u64;
        up.extend(node.bytes(0, &frame));
    }
    up.extend(node.until(400_000));
    assert_eq!(up.iter().map(|(_, _, bytes)| id(bytes, 0)).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert_eq!((node.state(1).from_frames, node.state(1).from_bytes), (20, up_bytes));
}

/// LibreQoS#515, #47: a change of rate emptied queues.
#[test]
fn a_change_of_plan_loses_no_frame_and_keeps_the_order() {
    let mut node = Node::new("");
    node.command(add(1, None, Some(MBIT / 4)));
    let mut left = burst(&mut node, 1, 0..30);
    left.extend(node.until(2000));
    node.command(add(1, None, Some(80 * MBIT)));
    left.extend(node.until(12_000));
    assert_eq!(
        left.iter().map(|(_, _, bytes)| id(bytes, 2)).collect::<Vec<_>>(),
        (0..30).collect::<Vec<_>>()
    );
    assert_eq!(node.state(1).to_queue.dropped, 0);
}

/// LibreQoS#42: each network of a customer had a queue of its own.
#[test]
fn all_addresses_of_a_subscriber_share_its_rate() {
    let mut node = Node::new("");
    node.command(add(1, None, Some(8 * MBIT)));
    let mut left = Vec::new();
    for n in 0..20 {
        left.extend(node.to(&down(1, n)));
        left.extend(node.to(&format!("udp 198.51.100.9:53 > 100.65.1.{n}:4000 len 950 id {n}")));
    }
    left.extend(node.until(100_000));
    let (last, ..) = left.last().expect("40 frames");
    assert!(left.len() == 40 && (37_000..42_000).contains(last), "{} frames until {last} us", left.len());
}

/// LibreQoS#790: traffic between subscribers passed beside the shaper.
#[test]
fn between_subscribers_both_rates_hold() {
    for (from, to) in [(Some(8 * MBIT), None), (None, Some(8 * MBIT)), (Some(80 * MBIT), Some(8 * MBIT))] {
        let mut node = Node::new("");
        node.command(add(1, from, None));
        node.command(add(2, None, to));
        let line = |n: u16| format!("udp 100.64.0.1:4000 > 100.64.0.2:53 len 950 id {n}");
        let mut left: Vec<Left> = (0..20).flat_map(|n| node.from(1, &line(n))).collect();
        left.extend(node.until(100_000));
        let ids: Vec<u16> = left.iter().map(|(_, _, bytes)| id(bytes, 2)).collect();
        assert_eq!(ids, (0..20).collect::<Vec<_>>(), "{from:?} {to:?}");
        let (last, _, bytes) = left.last().expect("20 frames");
        assert!((17_000..=22_000).contains(last), "{from:?} {to:?}: {last} us");
        assert_eq!(&bytes[..6], &mac(2));
    }
}

#[test]
fn frames_of_a_session_that_has_ended_leave_no_more() {
    let mut node = Node::new("");
    node.command(add(1, None, Some(8 * MBIT)));
    let left = burst(&mut node, 1, 0..20).len() as u64;
    node.command(Command::Subscriber(SubscriberCommand::Remove { session: 1 }));
    node.command(add(2, None, Some(8 * MBIT)));
    assert_eq!(node.until(100_000), Vec::new());
    let accounting = node.plane.accounting();
    assert_eq!((accounting.drops[DropReason::NoSubscriber], accounting.kept), (20 - left, 0));
}

#[test]
fn subscribers_of_a_group_share_its_rate() {
    let mut node =
        Node::new(", group north vlan 100-149 rate 100Mbit, group olt vlan 101-102 rate 8Mbit in north");
    (1..=3).for_each(|of| node.command(add(of, None, None)));
    let mut left = Vec::new();
    for n in 0..20 {
        (1..=3).for_each(|of| left.extend(node.to(&down(of, n))));
    }
    left.extend(node.until(100_000));
    assert_eq!(left.len(), 60);
    let last = |of: u8| left.iter().rev().find(|(_, _, bytes)| bytes[5] == of).map_or(0, |(us, ..)| *us);
    // Two of them have 8 Mbit/s together; the third one is beside their group.
    assert!((36_000..=42_000).contains(&last(1).max(last(2))), "{} {}", last(1), last(2));
    assert!(last(1).abs_diff(last(2)) <= 3000 && last(3) < 8000, "{} {} {}", last(1), last(2), last(3));
    let (olt, north) = (node.group("olt"), node.group("north"));
    let frame = left.first().map_or(0, |(_, _, bytes)| bytes.len() as u64);
    assert_eq!((olt.to_sent, north.to_sent), ((40, 40 * frame), (60, 60 * frame)));
    assert_eq!((olt.within.as_deref(), olt.to_bits_per_s), (Some("north"), Some(8 * MBIT)));
    assert!(node.state(1).to_queue.limited_by_parent_ms > 10, "{:?}", node.state(1).to_queue);
}

#[test]
fn hosts_of_a_subscriber_share_its_rate() {
    let share = |access: &str| {
        let mut node = Node::new(access);
        node.command(add(1, None, Some(8 * MBIT)));
        for n in 0..80 {
            let port = 4000 + n % 8;
            node.to(&format!("udp 198.51.100.9:53 > 100.64.0.1:{port} len 950"));
            node.to("udp 198.51.100.9:53 > 100.65.1.7:4000 len 950");
        }
        let left = node.until(60_000);
        let of_host = left.iter().filter(|(_, _, bytes)| bytes[38..42] == [100, 65, 1, 7]).count();
        (of_host, left.len())
    };
    let (of_host, all) = share("");
    assert!(all >= 50 && of_host * 7 < all, "{of_host} of {all}: one of nine flows");
    let (of_host, all) = share(", hosts fair");
    assert!(all >= 50 && (all / 2).abs_diff(of_host) <= 4, "{of_host} of {all}: one of two hosts");
}

/// Frames and bytes, as subscribers, their group, the port and the wire count them.
#[test]
fn counters_of_subscribers_group_port_and_wire_agree() {
    let mut node = Node::new(", group north vlan 100-149 rate 8Mbit, hosts fair");
    for of in 1..=3 {
        node.command(add(of, Some(4 * MBIT), Some(4 * MBIT)));
    }
    let Command::Subscriber(SubscriberCommand::Add(entry)) = add(4, None, Some(MBIT)) else { unreachable!() };
    node.command(Command::Subscriber(SubscriberCommand::Add(SubscriberEntry {
        pppoe_session: Some(9),
        ..entry
    })));
    let (mut down, mut up) = (Vec::new(), [0; 2]);
    for n in 0..400_u32 {
        let (of, len) = (1 + n * 7 % 4, 60 + n * 37 % 1300);
        let line = format!("udp 198.51.100.9:{n} > 100.64.0.{of}:4000 len {len}");
        down.extend(node.to(&line));
        let back = packet(&format!("udp 100.64.0.{of}:4000 > 198.51.100.9:{n} len {len}")).expect("a packet");
        let session = match of {
            4 => [&[0x88, 0x64, 0x11, 0, 0, 9][..], &(back.len() as u16 + 2).to_be_bytes(), &[0, 0x21]]
                .concat(),
            _ => vec![8, 0],
        };
        let frame = [&MACS[0][..], &mac(of as u8), &tags(of as u8), &session, &back].concat();
        let before = (1..=4).map(|of| node.state(of).from_frames).sum::<u64>();
        down.extend(node.bytes(0, &frame));
        let after = (1..=4).map(|of| node.state(of).from_frames).sum::<u64>();
        if after > before {
            up = [up[0] + 1, up[1] + frame.len() as u64];
        }
        down.extend(node.until(node.now_us + 1000));
    }
    down.extend(node.until(node.now_us + 5_000_000));
    let down: Vec<_> = down.into_iter().filter(|(_, port, _)| *port == 0).collect();
    let wire = [down.len() as u64, down.iter().map(|(_, _, bytes)| bytes.len() as u64).sum()];
    let states: Vec<SubscriberState> = (1..=4).map(|of| node.state(of)).collect();
    let sum = |of: fn(&SubscriberState) -> [u64; 2]| {
        states.iter().map(of).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
    };
    let port = node.plane.groups(&["lan".to_string(), "wan".to_string()]);
    let port = port.iter().find(|one| one.group.is_none()).expect("the port");
    for (what, shaped) in [("group", &node.group("north")), ("port", port)] {
        assert_eq!(<[u64; 2]>::from(shaped.to_sent), wire, "to {what}");
        assert_eq!(<[u64; 2]>::from(shaped.from_sent), up, "from {what}");
        assert_eq!(shaped.to_queue.backlog_frames + shaped.from_queue.backlog_frames, 0);
    }
    assert_eq!(sum(|state| [state.to_frames, state.to_bytes]), wire);
    assert_eq!(sum(|state| [state.from_frames, state.from_bytes]), up);
    let lost: u64 = states.iter().map(|state| state.to_queue.dropped).sum();
    assert!(wire[0] > 300 && wire[0] + lost == 400, "{wire:?}, {lost}");
}

#[test]
fn another_text_has_other_rates_and_loses_no_frame() {
    for (before, after) in [
        (", group olt vlan 101 rate 400kbit", ", group olt vlan 101 rate 80Mbit"),
        (", group olt vlan 101 rate 400kbit", ""),
        (", port lan rate 400kbit", ", group a vlan 100-150 rate 80Mbit, group b vlan 101 rate 80Mbit in a"),
    ] {
        let mut node = Node::new(before);
        node.command(add(1, None, Some(800 * MBIT)));
        let mut left = burst(&mut node, 1, 0..30);
        assert!(left.len() < 10, "{before}");
        node.apply(after);
        left.extend(node.until(12_000));
        let ids: Vec<u16> = left.iter().map(|(_, _, bytes)| id(bytes, 2)).collect();
        assert_eq!(ids, (0..30).collect::<Vec<_>>(), "{before} > {after}");
    }
}

#[test]
fn strict_frames_overtake_others() {
    let mut node = Node::new(", class 3 dscp ef, strict 30%");
    node.command(add(1, None, Some(8 * MBIT)));
    let mut left = burst(&mut node, 1, 0..20);
    left.extend(node.to("udp 198.51.100.9:5060 > 100.64.0.1:5060 len 100 id 99 tos 184"));
    left.extend(node.until(100_000));
    let at = left.iter().position(|(_, _, bytes)| id(bytes, 2) == 99);
    assert!(at.is_some_and(|at| at < 6), "{at:?}");
}

#[test]
fn frames_that_know_ecn_are_marked_where_others_are_dropped() {
    let mut node = Node::new("");
    node.command(add(1, None, Some(8 * MBIT)));
    let mut left = Vec::new();
    for n in 0..600 {
        for ecn in ["", " tos 2"] {
            let port = if ecn.is_empty() { 1 } else { 2 };
            left.extend(node.to(&format!("udp 198.51.100.9:53 > 100.64.0.1:{port} len 950 id {n}{ecn}")));
        }
        let now = node.now_us;
        left.extend(node.until(now + 1000));
    }
    left.extend(node.until(3_000_000));
    let marked = |bytes: &[u8]| bytes[23] & 3 == 3;
    let all = left.iter().filter(|(_, _, bytes)| marked(bytes)).count();
    let state = node.state(1).to_queue;
    assert!(all > 5 && state.dropped > 5, "{all} are marked, {} dropped", state.dropped);
    assert_eq!(all as u64, state.marked);
    for (_, _, bytes) in left.iter().filter(|(_, _, bytes)| marked(bytes)) {
        let sum: u32 = bytes[22..42].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        assert_eq!((sum >> 16) + (sum & 0xffff), 0xffff, "the checksum of a marked frame");
    }
    let accounting = node.plane.accounting();
    let (aqm, limit) = (accounting.drops[DropReason::QueueAqm], accounting.drops[DropReason::QueueLimit]);
    assert_eq!(aqm + limit, state.dropped);
}

#[test]
fn a_policer_drops_and_keeps_nothing() {
    let mut node = Node::new(", police");
    node.command(add(1, None, Some(8000)));
    let left = burst(&mut node, 1, 0..20);
    assert_eq!((left.len(), node.state(1).to_over_rate), (9, 11));
    assert_eq!((node.until(100_000).len(), node.plane.accounting().kept), (0, 0));
}

#[test]
fn wrong_rates_are_refused_with_a_remedy() {
    for (text, remedy) in [
        (", strict 0%", "write `strict 50%`"),
        (", overhead 200", "write `overhead 24`"),
        (", port wan rate 1Gbit", "is no access port"),
        (", group a vlan 100 rate 1Gbit, group a vlan 101 rate 1Gbit", "give each its own name"),
        (", group a vlan 100-110 rate 1Gbit, group b vlan 105 rate 1Gbit", "write `in a`"),
        (", group a vlan 100 rate 1Gbit in b", "write it in front of `a`"),
        (", group a vlan 100 fast", "`rate 1Gbit`"),
        (", group a 100 rate 1Gbit", "vlan 107"),
        (", group a vlan 100 rate 0", "at a rate of 0"),
    ] {
        let text =
            format!("lan(vlan 100-199.1-4094, access) > access(gateway 100.127.255.254/10{text}) {REST}");
        let mistakes = Config::read("n", &text).expect_err(&text).to_string();
        assert!(mistakes.contains(remedy), "{text}\n{mistakes}");
    }
}
