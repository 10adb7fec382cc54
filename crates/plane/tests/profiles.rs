//! NAT profiles of subscribers: what each gets, what is refused, and that others go on as before.

use weir_packet::frame::Mac;
use weir_plane::scenario::packet;
use weir_plane::{
    Command, Config, MacText, NatProfile, Plane, PortId, SubscriberCommand, SubscriberEntry, Time, Update,
    Verdict,
};

use super::access::pass;

const NAT: &str = "nat(public 192.0.2.0/30, deterministic 100.65.0.0/24 dynamic 2)";
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 0xa1], [2, 0, 0, 0, 0, 0xff]];
const ROUTER: Mac = [2, 0, 0, 0, 0, 0x99];
const LAN: PortId = PortId(0);
const WAN: PortId = PortId(1);

struct Node {
    config: Config,
    plane: Plane,
    ms: u64,
}

fn text(nat: &str) -> Config {
    let text = format!(
        "lan(access) > access(gateway 100.127.255.254/10) > {nat}
         > route(default via 198.18.0.2) > wan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:00:99)"
    );
    Config::read("n", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn add(number: u8, address: &str, nat: NatProfile) -> Command {
    Command::Subscriber(SubscriberCommand::Add(SubscriberEntry {
        session: number.into(),
        port: "lan".into(),
        tags: "untagged".into(),
        mac: MacText::from(mac(number)),
        prefixes: vec![format!("{address}/32").parse().expect("an address")],
        nat,
        ..SubscriberEntry::default()
    }))
}

fn mac(number: u8) -> Mac {
    [2, 0, 0, 0, 1, number]
}

fn one_to_one(last: u8) -> NatProfile {
    NatProfile::OneToOne([192, 0, 2, last].into())
}

impl Node {
    fn new() -> Node {
        let config = text(NAT);
        let plane = Plane::new(&config, &MACS);
        Node { config, plane, ms: 1 }
    }

    fn command(&mut self, list: &[Command]) -> Result<(), String> {
        let changes = self.config.decide(list).map_err(|why| why.to_string())?;
        self.plane.take(Time::from_ms(self.ms), Update::of_changes(&changes)).map(drop)
    }

    fn apply(&mut self, nat: &str) {
        let new = text(nat).instead_of(&self.config, 1).expect("the same node");
        self.plane.apply(Time::from_ms(self.ms), &self.config, &new).expect("a change");
        self.config = new;
    }

    fn frame(&mut self, port: PortId, macs: [Mac; 2], line: &str) -> (Verdict, Vec<u8>) {
        self.ms += 1;
        let [from, to] = macs;
        let bytes = [&to[..], &from, &[8, 0], &packet(line).expect("a packet")].concat();
        pass(&mut self.plane, Time::from_ms(self.ms), port.0, &bytes)
    }

    /// The public end that a packet of a subscriber gets.
    fn public(&mut self, number: u8, address: &str) -> ([u8; 4], u16) {
        let line = format!("udp {address}:4000 > 198.51.100.9:53");
        let (verdict, bytes) = self.frame(LAN, [mac(number), MACS[0]], &line);
        assert_eq!(verdict, Verdict::Out(WAN), "{line}");
        let port = u16::from_be_bytes([bytes[34], bytes[35]]);
        (bytes[26..30].try_into().expect("four bytes"), port)
    }

    /// Whether a connection from outside to this public address comes to the subscriber.
    fn is_reached(&mut self, number: u8, public: [u8; 4]) -> bool {
        let [a, b, c, d] = public;
        let line = format!("udp 198.51.100.77:1000 > {a}.{b}.{c}.{d}:2000");
        let (verdict, bytes) = self.frame(WAN, [ROUTER, MACS[1]], &line);
        verdict == Verdict::Out(LAN) && bytes[..6] == mac(number)
    }

    fn sessions(&self) -> usize {
        self.plane.subscribers(0, &["lan".to_string(), "wan".to_string()]).0.len()
    }
}

#[test]
fn a_profile_is_that_of_its_subscriber_alone() {
    let mut node = Node::new();
    let (anna, ben, carl, dora) = ("100.64.0.1", "100.64.0.2", "100.65.0.3", "100.64.0.4");
    node.command(&[
        add(1, anna, one_to_one(77)),
        add(2, ben, NatProfile::Block),
        add(3, carl, NatProfile::Deterministic),
        add(4, dora, NatProfile::None),
    ])
    .expect("all");
    assert_eq!(node.public(1, anna), ([192, 0, 2, 77], 4000));
    let bens = node.public(2, ben);
    assert!(bens.0[..3] == [192, 0, 2] && bens.0[3] < 4, "{bens:?}");
    let carls = node.public(3, carl);
    let fixed = node.config.deterministic().next().expect("one").outside(u32::from_be_bytes([100, 65, 0, 3]));
    let (public, ports) = fixed.expect("its ports");
    assert_eq!((carls.0, ports.contains(&carls.1)), (public.to_be_bytes(), true), "{carls:?}");
    assert_eq!(node.public(4, dora), ([100, 64, 0, 4], 4000));
    assert!(node.is_reached(1, [192, 0, 2, 77]) && node.is_reached(4, [100, 64, 0, 4]));
    // Other profiles of others change nothing for Ben.
    node.command(&[add(1, anna, NatProfile::None), add(4, dora, one_to_one(77))])
        .expect("the address is free");
    assert_eq!((node.public(2, ben), node.public(3, carl)), (bens, carls));
    assert!(node.is_reached(4, [192, 0, 2, 77]) && node.is_reached(1, [100, 64, 0, 1]));
    assert_eq!(node.public(1, anna), ([100, 64, 0, 1], 4000));
    node.command(&[Command::Subscriber(SubscriberCommand::Remove { session: 4 })]).expect("there is one");
    assert!(!node.is_reached(4, [192, 0, 2, 77]), "the address goes with the session");
    assert_eq!((node.public(2, ben), node.public(3, carl)), (bens, carls));
}

/// Both have the same access port. The packet passes the NAT, so that it comes from a public address.
#[test]
fn a_packet_to_the_public_address_of_another_subscriber_comes_to_it() {
    let mut node = Node::new();
    node.command(&[add(1, "100.64.0.1", one_to_one(77)), add(2, "100.64.0.2", NatProfile::Block)])
        .expect("both");
    let line = "udp 100.64.0.2:4000 > 192.0.2.77:2000";
    let (verdict, bytes) = node.frame(LAN, [mac(2), MACS[0]], line);
    assert_eq!(
        (verdict, &bytes[..6], &bytes[30..34]),
        (Verdict::Out(LAN), &mac(1)[..], &[100, 64, 0, 1][..])
    );
    let (public, port) = (bytes[26..30].to_vec(), u16::from_be_bytes([bytes[34], bytes[35]]));
    assert!(public[..3] == [192, 0, 2] && public[3] < 4, "{public:?}");
    let line = format!("udp 100.64.0.1:2000 > 192.0.2.{}:{port}", public[3]);
    let (verdict, bytes) = node.frame(LAN, [mac(1), MACS[0]], &line);
    let ends = [&bytes[26..30], &bytes[30..34]];
    assert_eq!((verdict, &bytes[..6]), (Verdict::Out(LAN), &mac(2)[..]), "{line}");
    assert_eq!(ends, [[192, 0, 2, 77], [100, 64, 0, 2]]);
    let traffic = |session| {
        let (all, _) = node.plane.subscribers(0, &["lan".to_string(), "wan".to_string()]);
        let one = all.into_iter().find(|one| one.entry.session == session).expect("a session");
        (one.from_frames, one.to_frames)
    };
    assert_eq!((traffic(1), traffic(2)), ((1, 1), (1, 1)));
}

#[test]
fn a_profile_that_the_nat_does_not_have_is_refused() {
    let mut node = Node::new();
    node.command(&[add(1, "100.64.0.1", one_to_one(77))]).expect("it is free");
    for (command, said) in [
        (
            add(2, "100.65.0.2", NatProfile::Block),
            "100.65.0.2/32 is in the `deterministic` network of the NAT",
        ),
        (
            add(2, "100.64.0.2", NatProfile::Deterministic),
            "100.64.0.2/32 is not in a `deterministic` network",
        ),
        (add(2, "100.64.0.2", one_to_one(77)), "two one-to-one have the end 192.0.2.77"),
        (add(2, "100.64.0.2", one_to_one(1)), "192.0.2.1 is one-to-one and in the pool"),
    ] {
        let why = node.command(&[add(9, "100.64.0.9", one_to_one(90)), command]).expect_err("it is wrong");
        assert!(why.starts_with("command 1: ") && why.contains(said), "{why}");
        assert_eq!(node.sessions(), 1);
    }
    let mut router = text("filter(accept outward, policy drop)");
    let why = router.decide(&[add(1, "100.64.0.1", one_to_one(77))]).expect_err("no NAT").to_string();
    assert!(why.contains("the node has no `nat`: set the profile `configured` or `none`"), "{why}");
}

#[test]
fn profiles_stay_when_the_text_changes() {
    let mut node = Node::new();
    node.command(&[add(1, "100.64.0.1", one_to_one(77)), add(2, "100.65.0.2", NatProfile::Deterministic)])
        .expect("both");
    node.apply("nat(public 192.0.2.0/30, deterministic 100.65.0.0/24 dynamic 2, mss 1400)");
    assert_eq!(node.public(1, "100.64.0.1"), ([192, 0, 2, 77], 4000));
    assert!(node.is_reached(1, [192, 0, 2, 77]));
    assert_eq!(node.sessions(), 2);
    // The pool takes the address, and no port is deterministic any more.
    node.apply("nat(public 192.0.2.64/26)");
    assert_eq!(node.sessions(), 0);
}
