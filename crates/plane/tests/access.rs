//! Frames of subscribers at access ports, and the commands that add and remove their sessions.

use weir_packet::frame::Mac;
use weir_plane::scenario::packet;
use weir_plane::{
    AccessState, Batch, ClassCount, Command, Config, DropReason, Frame, HEAD_ROOM, MacText, Plane, PortId,
    PuntReason, SubscriberCommand, SubscriberEntry, SubscriberState, Time, Update, Verdict,
};
use weir_testkit::Dice;

const TEXT: &str = "access1(access) access2(vlan 100-199.1-4094, access, mac 02:00:00:00:00:a2) > access(gateway 100.64.0.1/10)
    > route(default via 198.18.0.2) > wan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:00:99)";
/// Of the ports.
const MACS: [Mac; 3] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xa2], [2, 0, 0, 0, 0, 0xff]];
const ROUTER: Mac = [2, 0, 0, 0, 0, 0x99];
const ACCESS1: u16 = 0;
const ACCESS2: u16 = 1;
const WAN: u16 = 2;

struct Node {
    config: Config,
    plane: Plane,
    ms: u64,
}

/// A device of a customer: its port, its tags, the last byte of its Ethernet address.
#[derive(Clone, Copy)]
struct Device(u16, [u16; 2], u8);

const ANNA: Device = Device(ACCESS1, [0, 0], 1);
const BEN: Device = Device(ACCESS2, [100, 7], 2);
const EVE: Device = Device(ACCESS1, [0, 0], 9);

impl Device {
    fn mac(self) -> Mac {
        [2, 0, 0, 0, 0, self.2]
    }

    fn tags(self) -> Vec<u8> {
        match self.1 {
            [0, _] => Vec::new(),
            [outer, inner] => [[0x88, 0xa8], outer.to_be_bytes(), [0x81, 0], inner.to_be_bytes()].concat(),
        }
    }

    fn header(self, to: Mac) -> Vec<u8> {
        [&to[..], &self.mac(), &self.tags()].concat()
    }
}

/// What becomes of a frame in a plane, and its bytes afterwards.
pub(crate) fn pass(plane: &mut Plane, now: Time, port: u16, bytes: &[u8]) -> (Verdict, Vec<u8>) {
    let mut buf = [&[0; HEAD_ROOM], bytes].concat();
    let end = buf.len();
    let mut batch = Batch::default();
    batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port)));
    plane.run(now, &mut batch);
    assert!(plane.accounting().balance(), "{:?}", plane.accounting());
    let (frame, verdict) = batch.outcome().next().expect("one");
    (verdict, frame.bytes().to_vec())
}

impl Node {
    fn new(text: &str) -> Node {
        let config = Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let mut plane = Plane::new(&config, &MACS[..config.ports.len()]);
        plane.set_control(true);
        Node { config, plane, ms: 1 }
    }

    /// With the sessions of Anna and Ben.
    fn with_two() -> Node {
        let mut node = Node::new(TEXT);
        node.command(&[add(1, ANNA, &["100.64.0.2/32"]), add(2, BEN, &["100.64.0.3/32", "100.65.0.0/24"])])
            .expect("both");
        node
    }

    fn command(&mut self, list: &[Command]) -> Result<(), String> {
        let changes = self.config.decide(list).map_err(|why| why.to_string())?;
        self.plane.take(Time::from_ms(self.ms), Update::of_changes(&changes)).map(drop)
    }

    fn apply(&mut self, text: &str) -> Result<(), String> {
        let new =
            Config::read("n", text).map_err(|mistakes| mistakes.to_string())?.instead_of(&self.config, 1)?;
        self.plane.apply(Time::from_ms(self.ms), &self.config, &new)?;
        self.config = new;
        Ok(())
    }

    /// What becomes of a frame, and its bytes afterwards.
    fn frame(&mut self, port: u16, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        self.ms += 1;
        pass(&mut self.plane, Time::from_ms(self.ms), port, bytes)
    }

    /// A packet of a device.
    fn from(&mut self, device: Device, line: &str) -> (Verdict, Vec<u8>) {
        let header = device.header(MACS[usize::from(device.0)]);
        let packet = packet(line).expect("a packet");
        let kind = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        self.frame(device.0, &[&header, &kind[..], &packet].concat())
    }

    /// A packet from the network.
    fn to(&mut self, line: &str) -> (Verdict, Vec<u8>) {
        let header = [&MACS[usize::from(WAN)][..], &ROUTER, &[8, 0]].concat();
        self.frame(WAN, &[&header[..], &packet(line).expect("a packet")].concat())
    }

    /// What the node answers to an ARP request of a device.
    fn arp(&mut self, device: Device, sender: [u8; 4], target: [u8; 4]) -> Result<Vec<u8>, Verdict> {
        let header = device.header([0xff; 6]);
        let request =
            [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1][..], &device.mac(), &sender, &[0; 6], &target].concat();
        let (verdict, _) = self.frame(device.0, &[header, request].concat());
        let mut left = self.plane.departures();
        left.next().map(|departure| departure.bytes.clone()).ok_or(verdict)
    }

    fn state(&self, session: u64) -> SubscriberState {
        let names = ["access1", "access2", "wan"].map(String::from);
        let (all, next) = self.plane.subscribers(0, &names);
        assert_eq!(next, None);
        all.into_iter().find(|one| one.entry.session == session).expect("a session")
    }
}

fn entry(session: u64, device: Device, prefixes: &[&str]) -> SubscriberEntry {
    let tags = match device.1 {
        [0, _] => "untagged".to_string(),
        [outer, inner] => format!("{outer}.{inner}"),
    };
    SubscriberEntry {
        session,
        port: ["access1", "access2", "wan"][usize::from(device.0)].into(),
        tags,
        mac: MacText(format!("02:00:00:00:00:{:02x}", device.2)),
        prefixes: prefixes.iter().map(|text| text.parse().expect("a prefix")).collect(),
        ..SubscriberEntry::default()
    }
}

fn add(session: u64, device: Device, prefixes: &[&str]) -> Command {
    Command::Subscriber(SubscriberCommand::Add(entry(session, device, prefixes)))
}

fn dropped(reason: DropReason) -> Verdict {
    Verdict::Dropped(reason)
}

#[test]
fn a_packet_of_a_subscriber_goes_out_and_one_to_it_gets_its_header() {
    let mut node = Node::with_two();
    let (verdict, bytes) = node.from(ANNA, "udp 100.64.0.2:1 > 198.51.100.9:53");
    assert_eq!((verdict, &bytes[..12]), (Verdict::Out(PortId(WAN)), &[ROUTER, MACS[2]].concat()[..]));
    let (verdict, _) = node.from(BEN, "udp 100.65.0.7:1 > 198.51.100.9:53");
    assert_eq!(verdict, Verdict::Out(PortId(WAN)), "an address of its network");
    for (to, device) in [("100.64.0.2", ANNA), ("100.64.0.3", BEN), ("100.65.0.200", BEN)] {
        let (verdict, bytes) = node.to(&format!("udp 198.51.100.9:53 > {to}:1"));
        let port = MACS[usize::from(device.0)];
        let header = [&device.mac()[..], &port, &device.tags(), &[8, 0]].concat();
        assert_eq!((verdict, &bytes[..header.len()]), (Verdict::Out(PortId(device.0)), &header[..]), "{to}");
    }
    let anna = node.state(1);
    let bytes = 14 + packet("udp 100.64.0.2:1 > 198.51.100.9:53").expect("a packet").len() as u64;
    assert_eq!((anna.from_frames, anna.from_bytes, anna.to_frames, anna.to_bytes), (1, bytes, 1, bytes));
    assert_eq!((anna.last_seen_s, Node::with_two().state(1).last_seen_s), (Some(0), None));
    let ben = node.state(2);
    assert_eq!(
        (ben.from_frames, ben.from_bytes, ben.to_frames, ben.to_bytes),
        (1, bytes + 8, 2, 2 * bytes + 16)
    );
}

#[test]
fn between_subscribers_packets_pass_and_both_count() {
    let mut node = Node::with_two();
    let (verdict, bytes) = node.from(ANNA, "udp 100.64.0.2:1 > 100.64.0.3:53");
    let header = [&BEN.mac()[..], &MACS[1], &BEN.tags(), &[8, 0]].concat();
    assert_eq!((verdict, &bytes[..header.len()]), (Verdict::Out(PortId(ACCESS2)), &header[..]));
    assert_eq!((node.state(1).from_frames, node.state(2).to_frames), (1, 1));
    // And on one port.
    node.command(&[add(3, EVE, &["100.64.0.9/32"])]).expect("room");
    let (verdict, bytes) = node.from(EVE, "udp 100.64.0.9:1 > 100.64.0.2:53");
    assert_eq!((verdict, &bytes[..6]), (Verdict::Out(PortId(ACCESS1)), &ANNA.mac()[..]));
    let (verdict, _) = node.from(ANNA, "udp 100.64.0.2:1 > 100.64.7.7:53");
    assert_eq!(verdict, dropped(DropReason::NoSubscriber), "no session has the address");
    assert_eq!(node.to("udp 198.51.100.9:53 > 100.64.7.7:1").0, dropped(DropReason::NoSubscriber));
}

#[test]
fn what_no_session_has_goes_no_further() {
    let mut node = Node::with_two();
    let unknown = Verdict::Control(PuntReason::UnknownSource);
    let line = "udp 100.64.0.2:1 > 198.51.100.9:53";
    assert_eq!(node.from(EVE, line).0, unknown, "another Ethernet address");
    assert_eq!(node.from(Device(ACCESS2, [100, 7], 1), line).0, unknown, "another port");
    assert_eq!(node.from(Device(ACCESS2, [100, 8], 2), "udp 100.64.0.3:1 > 198.51.100.9:53").0, unknown);
    assert_eq!(node.from(Device(ACCESS2, [200, 7], 2), line).0, dropped(DropReason::UnknownVlan));
    for source in ["100.64.0.3", "100.64.0.1", "198.51.100.9", "100.66.0.1"] {
        let (verdict, _) = node.from(ANNA, &format!("udp {source}:1 > 198.51.100.9:53"));
        assert_eq!(verdict, dropped(DropReason::SubscriberSource), "{source}");
    }
    assert_eq!((node.state(1).foreign_sources, node.state(1).from_frames), (4, 0));
    assert_eq!(node.state(1).last_foreign_source, Some([100, 66, 0, 1].into()));
    // A host that has no address yet reports its groups: nobody's address is used.
    let (verdict, _) = node.from(ANNA, "icmp 143 :: > ff02::16 ttl 1");
    assert!(matches!(verdict, Verdict::Punted(_)) && node.state(1).foreign_sources == 4, "{verdict:?}");
    let (verdict, _) = node.from(ANNA, "udp [::]:1 > [2001:db8:9::1]:53");
    assert_eq!((verdict, node.state(1).foreign_sources), (dropped(DropReason::SubscriberSource), 5));
    node.plane.set_control(false);
    assert_eq!(node.from(EVE, line).0, dropped(DropReason::NoControl));
    node.plane.set_control(true);
    // DHCP is for the control program, with a session or without; so is a server among the subscribers.
    for device in [ANNA, EVE] {
        let (verdict, _) = node.from(device, "udp 0.0.0.0:68 > 255.255.255.255:67");
        assert_eq!(verdict, Verdict::Control(PuntReason::Dhcp4));
        let (verdict, _) = node.from(device, "udp 100.64.0.2:67 > 100.64.0.3:68");
        assert_eq!(verdict, Verdict::Control(PuntReason::Dhcp4));
    }
    assert_eq!(
        node.from(ANNA, "udp 100.64.0.2:68 > 100.64.0.1:67").0,
        Verdict::Control(PuntReason::Dhcp4),
        "renewal"
    );
    assert_eq!(node.from(ANNA, "udp 100.64.0.2:68 > 198.51.100.9:67").0, Verdict::Out(PortId(WAN)));
}

#[test]
fn arp_is_answered_for_the_gateway_and_for_other_subscribers() {
    let mut node = Node::with_two();
    let gateway = [100, 64, 0, 1];
    for (device, own, target) in [
        (ANNA, [100, 64, 0, 2], gateway),
        (ANNA, [100, 64, 0, 2], [100, 64, 0, 3]),
        (BEN, [100, 64, 0, 3], gateway),
        (BEN, [100, 64, 0, 3], [100, 64, 0, 2]),
        // Whether another one has it (RFC 5227).
        (ANNA, [0; 4], [100, 64, 0, 3]),
    ] {
        let answer =
            node.arp(device, own, target).unwrap_or_else(|verdict| panic!("{target:?}: {verdict:?}"));
        let port = MACS[usize::from(device.0)];
        let expected = [
            &device.mac()[..],
            &port,
            &device.tags(),
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
            &port,
            &target,
            &device.mac(),
            &own,
        ];
        assert_eq!(answer, expected.concat(), "{target:?}");
    }
    for (device, own, target, reason) in [
        (ANNA, [0; 4], [100, 64, 0, 2], DropReason::NotForUs),
        (ANNA, [100, 64, 0, 2], [100, 64, 0, 2], DropReason::NotForUs),
        (ANNA, [100, 64, 0, 2], [100, 64, 0, 77], DropReason::NotForUs),
        (ANNA, [100, 64, 0, 3], gateway, DropReason::SubscriberSource),
        (EVE, [100, 64, 0, 2], gateway, DropReason::NoSubscriber),
    ] {
        assert_eq!(node.arp(device, own, target), Err(dropped(reason)), "{own:?} {target:?}");
    }
    // What Eve says of Anna's address changes nothing.
    let (_, bytes) = node.to("udp 198.51.100.9:53 > 100.64.0.2:1");
    assert_eq!(bytes[..6], ANNA.mac());
}

#[test]
fn the_gateway_answers_pings_and_errors_come_back() {
    let mut node = Node::with_two();
    for (device, own) in [(ANNA, "100.64.0.2"), (BEN, "100.64.0.3")] {
        let (verdict, bytes) = node.from(device, &format!("icmp echo {own} > 100.64.0.1 id 1"));
        assert_eq!((verdict, &bytes[..6]), (Verdict::Out(PortId(device.0)), &device.mac()[..]), "{own}");
        let (verdict, _) = node.from(device, &format!("udp {own}:1 > 198.51.100.9:53 ttl 1"));
        assert_eq!(verdict, dropped(DropReason::TtlExpired));
        let departure = node.plane.departures().next().expect("an error of ICMP");
        let header = [&device.mac()[..], &MACS[usize::from(device.0)], &device.tags(), &[8, 0]].concat();
        assert_eq!(departure.bytes[..header.len()], header[..], "{own}");
    }
}

#[test]
fn each_direction_has_its_rate() {
    let mut node = Node::new(&TEXT.replace("100.64.0.1/10", "100.64.0.1/10, police"));
    let limited = |from_bits_per_s, to_bits_per_s| {
        let entry = SubscriberEntry { from_bits_per_s, to_bits_per_s, ..entry(1, ANNA, &["100.64.0.2/32"]) };
        Command::Subscriber(SubscriberCommand::Add(entry))
    };
    node.command(&[limited(Some(8000), None)]).expect("room");
    let up = "udp 100.64.0.2:1 > 198.51.100.9:53 len 958";
    let down = "udp 198.51.100.9:53 > 100.64.0.2:1 len 958";
    let is_out = |(verdict, _): &(Verdict, Vec<u8>)| matches!(verdict, Verdict::Out(_));
    // The burst of a low rate is one longest frame: nine of 1000 bytes.
    let passed = (0..20).filter(|_| is_out(&node.from(ANNA, up))).count();
    assert_eq!(passed, 9);
    assert!((0..20).all(|_| is_out(&node.to(down))));
    node.command(&[limited(None, Some(8000))]).expect("the same session");
    assert!((0..20).all(|_| is_out(&node.from(ANNA, up))));
    let passed = (0..20).filter(|_| is_out(&node.to(down))).count();
    assert_eq!(passed, 9);
    let state = node.state(1);
    assert_eq!(
        (state.from_over_rate, state.to_over_rate, state.from_frames, state.to_frames),
        (11, 11, 29, 29)
    );
    assert_eq!(node.plane.accounting().drops[DropReason::SubscriberRate], 22);
}

#[test]
fn wrong_commands_and_texts_are_refused_with_a_remedy() {
    let mut node = Node::with_two();
    let with = |change: &dyn Fn(&mut SubscriberEntry)| {
        let mut entry = entry(7, EVE, &["100.64.0.9/32"]);
        change(&mut entry);
        Command::Subscriber(SubscriberCommand::Add(entry))
    };
    for (command, why) in [
        (with(&|entry| entry.port = "wan".into()), "`wan` is no access port"),
        (
            with(&|entry| entry.port = "acess1".into()),
            "`acess1` is no port of the node: did you mean `access1`?",
        ),
        (with(&|entry| entry.tags = "7".into()), "`access1` has no frames with these tags (7)"),
        (with(&|entry| entry.mac = MacText("03:00:00:00:00:01".into())), "is no address of one host"),
        (with(&|entry| entry.mac = MacText("02:00:00:00:00:01".into())), "session 1 has this port, tags"),
        (with(&|entry| entry.prefixes.clear()), "a session has 1 to 16 addresses"),
        (
            with(&|entry| entry.prefixes = vec!["100.64.0.2/32".parse().expect("one")]),
            "session 1 has 100.64.0.2/32",
        ),
        (
            with(&|entry| entry.prefixes = vec!["192.0.2.1/32".parse().expect("one")]),
            "in no network of a gateway: those are 100.64.0.0/10",
        ),
        (
            with(&|entry| entry.prefixes = vec!["100.64.0.1/32".parse().expect("one")]),
            "100.64.0.1 is the address of the node",
        ),
        (with(&|entry| entry.prefixes = vec!["100.64.9.1/24".parse().expect("one")]), "write 100.64.9.0/24"),
        (with(&|entry| entry.to_bits_per_s = Some(0)), "a rate is of 1 to"),
        (Command::Subscriber(SubscriberCommand::Remove { session: 9 }), "there is no session 9"),
    ] {
        let wrong = node
            .command(&[add(8, Device(ACCESS2, [100, 9], 9), &["100.64.0.8/32"]), command.clone()])
            .expect_err(why);
        assert!(wrong.starts_with("command 1: ") && wrong.contains(why), "{wrong}");
    }
    assert_eq!(node.plane.subscribers(0, &[]).0.len(), 2, "nothing of the lists was done");
    let none = Node::new("a(10.0.0.1/8) > route > b")
        .command(&[add(1, ANNA, &["100.64.0.2/32"])])
        .expect_err("no access");
    assert!(none.contains("the node has no `access`"), "{none}");
    for (text, why) in [
        ("a(access) > route > b", "`a` is an access port, but the node has no `access`"),
        ("a(access) > access(gateway 100.64.0.1/10) > b", "`access` needs a router"),
        ("a > access(gateway 100.64.0.1/10) > route > b", "no port is an access port"),
        (
            "a(access) > filter(policy accept) > access(gateway 100.64.0.1/10) > route > b",
            "in front of all other stages",
        ),
        ("a(access) > access > route > b", "`access` has no gateway"),
        (
            "a(access) > access(gateway 100.64.0.1/10, gateway 100.64.9.1/24) > route > b",
            "overlaps with the gateway",
        ),
        ("a(access, 10.0.0.1/8) > access(gateway 100.64.0.1/10) > route > b", "remove those of `a`"),
        ("c(access) > access(gateway 100.64.0.1/10) > route > b(access)", "`b` is on the right side"),
        (
            "a(access) > access(gateway 100.64.0.1/10) access(gateway 100.64.0.1/10) > route > b",
            "an `access` already",
        ),
        ("a(access) > access(gateway 100.64.0.1/10) > route(default via 100.64.0.5) > b", "100.64.0.5"),
    ] {
        let wrong = Config::read("n", text).expect_err(text).to_string();
        assert!(wrong.contains(why), "{text}: {wrong}");
    }
}

/// Sessions outlive another text, but for those that have no place in it.
#[test]
fn sessions_stay_when_the_text_changes() {
    let mut node = Node::with_two();
    node.from(ANNA, "udp 100.64.0.2:1 > 198.51.100.9:53");
    node.apply(&TEXT.replace("> route(", "> filter(policy accept) > route(192.0.2.0/24 blackhole, "))
        .expect("another stage");
    assert_eq!(node.from(ANNA, "udp 100.64.0.2:1 > 198.51.100.9:53").0, Verdict::Out(PortId(WAN)));
    assert_eq!(node.state(1).from_frames, 2);
    node.apply(&TEXT.replace("100-199", "150-199")).expect("other tags");
    assert_eq!(node.plane.subscribers(0, &[]).0.len(), 1, "Ben's line is gone");
    assert_eq!(node.state(1).from_frames, 2);
    assert_eq!(node.to("udp 198.51.100.9:53 > 100.64.0.3:1").0, dropped(DropReason::NoSubscriber));
    node.apply(TEXT).expect("as before");
    node.command(&[add(2, BEN, &["100.64.0.3/32"])]).expect("it was removed");
    assert_eq!(node.to("udp 198.51.100.9:53 > 100.64.0.3:1").0, Verdict::Out(PortId(ACCESS2)));
    node.apply(&TEXT.replace("access2(vlan 100-199.1-4094, access, mac 02:00:00:00:00:a2) ", ""))
        .expect("a port fewer");
    assert_eq!(node.plane.subscribers(0, &[]).0.len(), 1);
    node.apply(&TEXT.replace("100.64.0.1/10", "100.80.0.1/12")).expect("another network");
    assert_eq!(node.plane.subscribers(0, &[]).0.len(), 0);
    let wrong = node.apply("a(10.0.0.1/8) > route > wan(198.18.0.1/24)").expect_err("no access any more");
    assert!(wrong.contains("`access` comes and goes only when"), "{wrong}");
}

/// A session has neither the line nor the address of a subscriber of the text.
#[test]
fn sessions_and_subscribers_of_the_text_have_no_address_in_common() {
    let mut node =
        Node::new(&format!("{TEXT} subscribers(carl access1 untagged 02:00:00:00:00:09 100.64.0.9)"));
    for (session, why) in [
        (add(1, ANNA, &["100.64.0.2/32", "100.64.0.9/32"]), "`subscribers` has carl with 100.64.0.9/32"),
        (add(1, EVE, &["100.64.0.2/32"]), "`subscribers` has carl with this port, tags and Ethernet address"),
    ] {
        let wrong = node.command(&[session]).expect_err(why);
        assert!(wrong.contains(why), "{wrong}");
    }
    node.command(&[add(1, ANNA, &["100.64.0.2/32"])]).expect("it is free");
}

/// Random lists of commands beside a list that is searched from end to end.
#[test]
fn random_commands_agree_with_a_list() {
    let (mut refused, mut done) = (0, 0);
    for seed in 0..30 {
        let (mut dice, mut node) = (Dice::new(seed), Node::new(TEXT));
        let mut model: Vec<SubscriberEntry> = Vec::new();
        for round in 0..60 {
            let device = |dice: &mut Dice| match dice.roll(2) {
                0 => Device(ACCESS1, [0, 0], dice.roll(5) as u8 + 1),
                _ => Device(ACCESS2, [100 + dice.roll(2) as u16, 7], dice.roll(3) as u8 + 1),
            };
            let list: Vec<Command> = (0..1 + dice.roll(3))
                .map(|_| match dice.roll(3) {
                    0 => Command::Subscriber(SubscriberCommand::Remove { session: dice.roll(8) as u64 }),
                    _ => {
                        let prefix = format!("100.64.0.{}/32", 2 + dice.roll(10));
                        let net = format!("100.65.{}.0/24", dice.roll(3));
                        let prefixes = [&prefix[..], &net];
                        let session = dice.roll(8) as u64;
                        add(session, device(&mut dice), &prefixes[..1 + dice.roll(2)])
                    }
                })
                .collect();
            let mut after = model.clone();
            let is_right = list.iter().all(|command| take(&mut after, command));
            match node.command(&list) {
                Ok(()) => {
                    assert!(is_right, "seed {seed}, round {round}: {list:?}");
                    (model, done) = (after, done + 1);
                }
                Err(why) => {
                    assert!(!is_right, "seed {seed}, round {round}: {why} of {list:?}");
                    refused += 1;
                }
            }
            let names = ["access1", "access2", "wan"].map(String::from);
            let mut shown: Vec<_> =
                node.plane.subscribers(0, &names).0.into_iter().map(|one| one.entry).collect();
            shown.sort_by_key(|entry| entry.session);
            model.sort_by_key(|entry| entry.session);
            assert_eq!(shown, model, "seed {seed}, round {round}");
            for host in 2..12 {
                let address = format!("100.64.0.{host}/32").parse().expect("a prefix");
                let owner = model.iter().find(|entry| entry.prefixes.contains(&address));
                let (verdict, bytes) = node.to(&format!("udp 198.51.100.9:53 > 100.64.0.{host}:1"));
                match owner {
                    Some(owner) => {
                        let mac = u8::from_str_radix(&owner.mac.0[15..], 16).expect("hexadecimal");
                        assert!(
                            matches!(verdict, Verdict::Out(_)) && bytes[5] == mac,
                            "seed {seed}: {owner:?}"
                        );
                    }
                    None => assert_eq!(verdict, dropped(DropReason::NoSubscriber), "seed {seed}: {host}"),
                }
            }
        }
    }
    assert!(refused > 200 && done > 200, "{refused} refused, {done} done");
}

/// Does a command; false: it cannot be done.
fn take(model: &mut Vec<SubscriberEntry>, command: &Command) -> bool {
    match command {
        Command::Subscriber(SubscriberCommand::Add(new)) => {
            let line =
                |entry: &SubscriberEntry| (entry.port.clone(), entry.tags.clone(), entry.mac.0.clone());
            let clash = model.iter().filter(|other| other.session != new.session).any(|other| {
                line(other) == line(new) || other.prefixes.iter().any(|prefix| new.prefixes.contains(prefix))
            });
            if !clash {
                model.retain(|other| other.session != new.session);
                model.push(new.clone());
            }
            !clash
        }
        Command::Subscriber(SubscriberCommand::Remove { session }) => {
            let before = model.len();
            model.retain(|other| other.session != *session);
            model.len() < before
        }
        other => unreachable!("{other:?}"),
    }
}

fn set_state(session: u64, state: AccessState) -> Command {
    Command::Subscriber(SubscriberCommand::SetState { session, state })
}

/// A command changes the state; all that goes on follows with the next frame, and the counters go on.
#[test]
fn flows_follow_the_state_with_the_next_frame() {
    let text = TEXT.replace("100.64.0.1/10", "100.64.0.1/10, walled portal 192.0.2.80 dns 192.0.2.53");
    let mut node = Node::new(&text);
    node.command(&[add(1, ANNA, &["100.64.0.2/32"])]).expect("room");
    let out = Verdict::Out(PortId(WAN));
    let walled = dropped(DropReason::SubscriberWalled);
    let (up, down) = ("tcp 100.64.0.2:1 > 198.51.100.9:80 A", "tcp 198.51.100.9:80 > 100.64.0.2:1 A");
    for (state, expected) in [
        (AccessState::Active, [out, Verdict::Out(PortId(ACCESS1))]),
        (AccessState::Walled, [walled, walled]),
        (AccessState::Blocked, [dropped(DropReason::SubscriberBlocked); 2]),
        (AccessState::Active, [out, Verdict::Out(PortId(ACCESS1))]),
    ] {
        node.command(&[set_state(1, state)]).expect("the session");
        assert_eq!([node.from(ANNA, up).0, node.to(down).0], expected, "{state}");
        assert_eq!(node.state(1).entry.state, state);
    }
    let anna = node.state(1);
    // The reset that answered a segment of the walled state was sent to it, too.
    assert_eq!((anna.from_frames, anna.to_frames, anna.walled, anna.blocked), (2, 3, 2, 2));
    assert!(node.arp(ANNA, [100, 64, 0, 2], [100, 64, 0, 1]).is_ok());
    node.command(&[set_state(1, AccessState::Blocked)]).expect("the session");
    let verdict = node.arp(ANNA, [100, 64, 0, 2], [100, 64, 0, 1]);
    assert_eq!(verdict, Err(dropped(DropReason::SubscriberBlocked)));
    let wrong = node.command(&[set_state(9, AccessState::Active)]).expect_err("no session");
    assert!(wrong.contains("there is no session 9"), "{wrong}");
}

/// Each accepted frame is counted once for its subscriber and once for its plan and group, by family and class, with all its bytes; and
/// its tags have the priority of its class.
#[test]
fn frames_are_counted_by_family_and_class_to_the_byte() {
    let text = TEXT.replace("100.64.0.1/10", "100.64.0.1/10, gateway 2001:db8:1::1/48, class 3 dscp ef priority 5, class 1 dscp cs1 priority 1")
        .replace("198.18.0.1/24,", "198.18.0.1/24, 2001:db8:9::1/64, neighbour 2001:db8:9::2 02:00:00:00:00:99,")
        .replace("default via 198.18.0.2", "default via 198.18.0.2, default via 2001:db8:9::2");
    let mut node = Node::new(&text);
    let named = |session, device, prefixes: &[&str], plan: Option<&str>| {
        let entry = SubscriberEntry {
            plan: plan.map(String::from),
            group: Some("west".into()),
            ..entry(session, device, prefixes)
        };
        Command::Subscriber(SubscriberCommand::Add(entry))
    };
    node.command(&[
        named(1, ANNA, &["100.64.0.2/32", "2001:db8:1:5::/64"], Some("gold")),
        named(2, BEN, &["100.64.0.3/32"], Some("gold")),
    ])
    .expect("room");
    let (mut sent, mut received) = (0, 0);
    for tos in [0, 184, 184, 32, 255] {
        let line = format!("udp 100.64.0.2:1 > 198.51.100.9:53 tos {tos} len 100");
        sent += 14 + packet(&line).expect("a packet").len() as u64;
        assert_eq!(node.from(ANNA, &line).0, Verdict::Out(PortId(WAN)));
        let line = format!("udp 198.51.100.9:53 > 100.64.0.3:1 tos {tos} len 10");
        received += 22 + packet(&line).expect("a packet").len() as u64;
        let (_, bytes) = node.to(&line);
        let priority = match tos >> 2 {
            46 => 5,
            8 => 1,
            _ => 0,
        };
        assert_eq!([bytes[14] >> 5, bytes[18] >> 5], [priority; 2], "{tos}");
    }
    let v6 = packet("udp [2001:db8:1:5::9]:1 > [2001:db8:2::9]:53 tos 184").expect("a packet");
    let header = ANNA.header(MACS[usize::from(ACCESS1)]);
    let frame = [&header, &[0x86, 0xdd][..], &v6].concat();
    assert_eq!(node.frame(ACCESS1, &frame).0, Verdict::Out(PortId(WAN)));
    sent += frame.len() as u64;
    let rows = |all: &[ClassCount]| all.iter().map(|one| (one.ip, one.class, one.frames)).collect::<Vec<_>>();
    let (anna, ben) = (node.state(1), node.state(2));
    assert_eq!(rows(&anna.classes), [(4, 0, 2), (4, 1, 1), (4, 3, 2), (6, 3, 1)]);
    assert_eq!(rows(&ben.classes), [(4, 0, 2), (4, 1, 1), (4, 3, 2)]);
    let bytes = |all: &[ClassCount]| all.iter().map(|one| one.bytes).sum::<u64>();
    assert_eq!((anna.from_bytes, bytes(&anna.classes)), (sent, sent));
    assert_eq!((ben.to_bytes, bytes(&ben.classes)), (received, received));
    let plans = |node: &Node| {
        let all = node.plane.label_counts();
        all.into_iter()
            .map(|of| (of.plan.unwrap_or_default(), of.sessions, bytes(&of.classes)))
            .collect::<Vec<_>>()
    };
    assert_eq!(plans(&node), [("gold".to_string(), 2, sent + received)]);
    // Those of a plan stay when its sessions have another one, or end.
    node.command(&[
        named(1, ANNA, &["100.64.0.2/32", "2001:db8:1:5::/64"], None),
        Command::Subscriber(SubscriberCommand::Remove { session: 2 }),
    ])
    .expect("both");
    node.from(ANNA, "udp 100.64.0.2:1 > 198.51.100.9:53");
    assert_eq!(
        plans(&node),
        [("gold".to_string(), 0, sent + received), (String::new(), 1, node.state(1).from_bytes - sent)]
    );
}

/// A flow that was redirected is that of the state alone: afterwards the server itself says that it does not know it.
#[test]
fn a_redirected_flow_ends_with_the_state() {
    let mut node = Node::new(&TEXT.replace("100.64.0.1/10", "100.64.0.1/10, walled portal 192.0.2.80"));
    node.command(&[add(1, ANNA, &["100.64.0.2/32"]), set_state(1, AccessState::Walled)]).expect("room");
    let destination = |bytes: &[u8]| bytes[30..34].to_vec();
    let (verdict, bytes) = node.from(ANNA, "tcp 100.64.0.2:7 > 198.51.100.9:80 S");
    assert_eq!((verdict, destination(&bytes)), (Verdict::Out(PortId(WAN)), vec![192, 0, 2, 80]));
    node.command(&[set_state(1, AccessState::Active)]).expect("the session");
    let (_, bytes) = node.from(ANNA, "tcp 100.64.0.2:7 > 198.51.100.9:80 A");
    assert_eq!(destination(&bytes), [198, 51, 100, 9]);
    let (_, bytes) = node.to("tcp 192.0.2.80:80 > 100.64.0.2:7 A");
    assert_eq!(bytes[26..30], [192, 0, 2, 80], "the portal is the portal");
}
