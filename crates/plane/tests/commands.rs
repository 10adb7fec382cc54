//! Random lists of commands beside a naive model, which keeps what there is in plain lists and writes it into a text: the node is
//! what a new node of that text is, and a list with one wrong command has changed nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use weir_packet::frame::Mac;
use weir_plane::scenario::packet;
use weir_plane::{
    Batch, Command, Config, Dir, DropReason, FilterCommand, ForwardEntry, Frame, HEAD_ROOM, MacText,
    NatCommand, NeighbourCommand, NeighbourEntry, OneToOneEntry, Plane, PoliceCommand, PortId, Prefix,
    RouteCommand, RouteEntry, RouteTarget, Time, Transport, Update, Verdict, Via,
};
use weir_testkit::Dice;

use crate::access::pass;

const MACS: [Mac; 2] = [[2; 6], [4; 6]];

/// What there is, in plain lists.
#[derive(Clone, Default)]
struct Model {
    routes: Vec<(Prefix, RouteTarget)>,
    neighbours: Vec<(IpAddr, String)>,
    forwards: Vec<(Transport, SocketAddrV4, SocketAddrV4)>,
    pairs: Vec<(Ipv4Addr, Ipv4Addr)>,
    blocked: u16,
    rate: u64,
}

impl Model {
    fn new() -> Model {
        Model { blocked: 7, rate: 1_000_000, ..Model::default() }
    }

    fn rules(&self) -> String {
        format!("drop udp to port {}\npolicy accept", self.blocked)
    }

    /// The text of a node that has it.
    fn text(&self) -> String {
        let target = |target: &RouteTarget| match target {
            RouteTarget::Via(via) => {
                via.iter().map(|via| format!("via {}", via.address)).collect::<Vec<_>>().join(" ")
            }
            RouteTarget::Blackhole => "blackhole".into(),
            RouteTarget::Unreachable => "unreachable".into(),
            RouteTarget::Prohibit => "prohibit".into(),
        };
        let routes: Vec<String> =
            self.routes.iter().map(|(prefix, to)| format!("{prefix} {}", target(to))).collect();
        let neighbours: Vec<String> =
            self.neighbours.iter().map(|(address, mac)| format!(", neighbour {address} {mac}")).collect();
        let name = |proto: &Transport| if *proto == Transport::Tcp { "tcp" } else { "udp" };
        let forward = |(proto, outside, inside): &(Transport, SocketAddrV4, SocketAddrV4)| {
            format!(", forward {} {outside} to {inside}", name(proto))
        };
        let pair = |(outside, inside): &(Ipv4Addr, Ipv4Addr)| format!(", one-to-one {outside} to {inside}");
        format!(
            "lan(10.0.0.1/24, rpf off) filter({}) > nat(public 192.0.2.1{}{}) > \
             police(profile all outward {}bit burst 64kB, others all) > route({}) > wan(198.51.100.1/24{})",
            self.rules().replace('\n', ", "),
            self.forwards.iter().map(forward).collect::<String>(),
            self.pairs.iter().map(pair).collect::<String>(),
            self.rate,
            routes.join(", "),
            neighbours.concat(),
        )
    }

    /// Does a command; false: it cannot be done.
    fn take(&mut self, command: &Command) -> bool {
        match command.clone() {
            Command::Route(RouteCommand::Set(RouteEntry { prefix, target })) => {
                let is_wrong = matches!(&target, RouteTarget::Via(via) if via.is_empty()
                    || via.iter().any(|via| !is_near(via.address)));
                if prefix.network() != prefix || is_wrong {
                    return false;
                }
                self.routes.retain(|(other, _)| *other != prefix);
                self.routes.push((prefix, target));
                true
            }
            Command::Route(RouteCommand::Remove { prefix }) => {
                let before = self.routes.len();
                self.routes.retain(|(other, _)| *other != prefix);
                self.routes.len() < before
            }
            Command::Neighbour(NeighbourCommand::Set(NeighbourEntry { address, mac, .. })) => {
                if !is_near(address) {
                    return false;
                }
                self.neighbours.retain(|(other, _)| *other != address);
                self.neighbours.push((address, mac.0));
                true
            }
            Command::Neighbour(NeighbourCommand::Remove { address, .. }) => {
                let before = self.neighbours.len();
                self.neighbours.retain(|(other, _)| *other != address);
                self.neighbours.len() < before
            }
            Command::Nat(NatCommand::SetForward(ForwardEntry { proto, outside, inside, .. })) => {
                let others: Vec<_> =
                    self.forwards.iter().filter(|one| (one.0, one.1) != (proto, outside)).copied().collect();
                let clash = others.iter().any(|one| one.0 == proto && one.2 == inside)
                    || self.pairs.iter().any(|(out, to)| out == outside.ip() || to == inside.ip());
                if !clash {
                    self.forwards = others;
                    self.forwards.push((proto, outside, inside));
                }
                !clash
            }
            Command::Nat(NatCommand::RemoveForward { proto, outside, .. }) => {
                let before = self.forwards.len();
                self.forwards.retain(|one| (one.0, one.1) != (proto, outside));
                self.forwards.len() < before
            }
            Command::Nat(NatCommand::SetOneToOne(OneToOneEntry { outside, inside, .. })) => {
                let others: Vec<_> = self.pairs.iter().filter(|one| one.0 != outside).copied().collect();
                let clash = outside == Ipv4Addr::new(192, 0, 2, 1)
                    || others.iter().any(|one| one.1 == inside)
                    || self.forwards.iter().any(|one| *one.1.ip() == outside || *one.2.ip() == inside);
                if !clash {
                    self.pairs = others;
                    self.pairs.push((outside, inside));
                }
                !clash
            }
            Command::Nat(NatCommand::RemoveOneToOne { outside, .. }) => {
                let before = self.pairs.len();
                self.pairs.retain(|one| one.0 != outside);
                self.pairs.len() < before
            }
            Command::Nat(NatCommand::EndMapping { proto, outside, .. }) => {
                !self.forwards.iter().any(|one| (one.0, one.1) == (proto, outside))
            }
            Command::Filter(FilterCommand::SetRules { rules, .. }) => {
                let port = rules.split("port ").nth(1).and_then(|rest| rest.split('\n').next());
                self.blocked = port.expect("as `command` writes them").parse().expect("a port");
                true
            }
            Command::Subscriber(_) => unreachable!("they are tested beside frames of subscribers"),
            Command::Police(PoliceCommand::SetRate { bits_per_s, .. }) => {
                self.rate = if bits_per_s > 0 { bits_per_s } else { return false };
                true
            }
        }
    }
}

/// Whether it is in the network of `wan`.
fn is_near(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[..3] == [198, 51, 100])
}

fn host(dice: &mut Dice) -> IpAddr {
    IpAddr::from([198, 51, if dice.roll(20) == 0 { 99 } else { 100 }, 2 + dice.roll(4) as u8])
}

/// Some command, which may be wrong.
fn command(dice: &mut Dice) -> Command {
    let far = |dice: &mut Dice| Prefix {
        address: IpAddr::from([203, 0, 113, 16 * dice.roll(8) as u8]),
        len: [28, 32, 24][dice.roll(3)],
    };
    let outside = |dice: &mut Dice| Ipv4Addr::new(192, 0, 2, 1 + dice.roll(3) as u8);
    let inside = |dice: &mut Dice| Ipv4Addr::new(10, 0, 0, 2 + dice.roll(6) as u8);
    let proto = if dice.roll(2) == 0 { Transport::Tcp } else { Transport::Udp };
    let port = |dice: &mut Dice| 80 + dice.roll(4) as u16;
    match dice.roll(10) {
        0..=2 => {
            let target = match dice.roll(5) {
                0 => RouteTarget::Blackhole,
                1 => RouteTarget::Prohibit,
                hops => {
                    RouteTarget::Via((0..hops - 1).map(|_| Via { address: host(dice), port: None }).collect())
                }
            };
            Command::Route(RouteCommand::Set(RouteEntry { prefix: far(dice), target }))
        }
        3 => Command::Route(RouteCommand::Remove { prefix: far(dice) }),
        4 => {
            let mac = MacText(format!("02:00:00:00:00:{:02x}", dice.roll(9)));
            let (port, address) = ("wan".to_string(), host(dice));
            Command::Neighbour(NeighbourCommand::Set(NeighbourEntry { port, address, mac }))
        }
        5 => Command::Neighbour(NeighbourCommand::Remove { port: "wan".into(), address: host(dice) }),
        6 => {
            let outside = SocketAddrV4::new(outside(dice), port(dice));
            let inside = SocketAddrV4::new(inside(dice), port(dice));
            Command::Nat(NatCommand::SetForward(ForwardEntry { stage: 2, proto, outside, inside }))
        }
        7 => {
            let outside = SocketAddrV4::new(outside(dice), port(dice));
            Command::Nat(match dice.roll(4) {
                0 => NatCommand::EndMapping { stage: 2, proto, outside },
                _ => NatCommand::RemoveForward { stage: 2, proto, outside },
            })
        }
        8 => match dice.roll(2) {
            0 => Command::Nat(NatCommand::SetOneToOne(OneToOneEntry {
                stage: 2,
                outside: outside(dice),
                inside: inside(dice),
            })),
            _ => Command::Nat(NatCommand::RemoveOneToOne { stage: 2, outside: outside(dice) }),
        },
        _ => match dice.roll(2) {
            0 => Command::Filter(FilterCommand::SetRules {
                stage: 1,
                rules: format!("drop udp to port {}\npolicy accept", 80 + dice.roll(4)),
            }),
            _ => Command::Police(PoliceCommand::SetRate {
                stage: 3,
                profile: "all".into(),
                class: None,
                direction: Dir::Outward,
                bits_per_s: 1_000_000 * dice.roll(4) as u64,
                burst_bytes: 64_000,
            }),
        },
    }
}

/// What becomes of a frame: the verdict, and its addresses afterwards but for the port of its source, which a NAT draws.
fn probe(plane: &mut Plane, port: u8, line: &str) -> (Verdict, Vec<u8>) {
    let packet = packet(line).expect("a packet");
    let mut buf =
        [&[0; HEAD_ROOM][..], &MACS[usize::from(port)], &[2, 0, 0, 0, 0, 9], &[8, 0], &packet].concat();
    let end = buf.len();
    let mut batch = Batch::default();
    batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(port.into())));
    plane.run(Time::from_ms(9), &mut batch);
    assert!(plane.accounting().balance());
    let (frame, verdict) = batch.outcome().next().expect("one");
    let bytes = frame.bytes();
    let parts = [&bytes[..12], &bytes[26..34], &bytes[36..38]].concat();
    (verdict, if matches!(verdict, Verdict::Out(_)) { parts } else { Vec::new() })
}

/// What a node does with frames of all kinds that the commands are about.
fn behaviour(plane: &mut Plane) -> Vec<(Verdict, Vec<u8>)> {
    let mut all = Vec::new();
    for far in 0..128 {
        all.push(probe(plane, 0, &format!("udp 10.0.0.200:9 > 203.0.113.{far}:9")));
    }
    for port in 80..84 {
        all.push(probe(plane, 0, &format!("udp 10.0.0.201:9 > 203.0.113.1:{port}")));
        for (host, proto) in [(1, "udp"), (2, "udp"), (3, "udp"), (1, "tcp"), (2, "tcp"), (3, "tcp")] {
            let flags = if proto == "tcp" { " S" } else { "" };
            all.push(probe(plane, 1, &format!("{proto} 203.0.113.200:99 > 192.0.2.{host}:{port}{flags}")));
        }
    }
    all
}

#[test]
fn what_commands_make_is_what_a_text_makes() {
    let (mut refused, mut done) = (0, 0);
    for seed in 0..40 {
        let (mut dice, mut model) = (Dice::new(seed), Model::new());
        let mut config = Config::read("n", &model.text()).expect("a node");
        let mut plane = Plane::new(&config, &MACS);
        for round in 0..25 {
            let list: Vec<Command> = (0..1 + dice.roll(4)).map(|_| command(&mut dice)).collect();
            let mut after = model.clone();
            let wrong = list.iter().position(|command| !after.take(command));
            match (config.decide(&list), wrong) {
                (Ok(changes), None) => {
                    plane.take(Time::from_ms(round), Update::of_changes(&changes)).expect("room");
                    model = after;
                    done += 1;
                }
                (Err(why), Some(n)) => {
                    assert_eq!(why.command, n, "seed {seed}: {why} of {list:?}");
                    refused += 1;
                }
                (decided, wrong) => panic!("seed {seed}: {wrong:?}, but {decided:?} of {list:?}"),
            }
            let read = Config::read("n", &model.text()).expect("a node");
            let differs = Update::prepare(&config, &read).expect("only objects differ");
            assert!(differs.is_empty(), "seed {seed}, round {round}: {differs:?}");
        }
        let mut fresh = Plane::new(&Config::read("n", &model.text()).expect("a node"), &MACS);
        let (of_commands, of_text) = (behaviour(&mut plane), behaviour(&mut fresh));
        for (n, (one, other)) in of_commands.iter().zip(&of_text).enumerate() {
            assert_eq!(one, other, "seed {seed}, probe {n} of {}", model.text());
        }
    }
    assert!(refused > 200 && done > 200, "{refused} refused, {done} done");
}

/// A change of text is made of the same changes, and a list of any length takes turns of bounded length.
#[test]
fn many_commands_take_many_turns() {
    let mut config = Config::read("n", &Model::new().text()).expect("a node");
    let mut plane = Plane::new(&config, &MACS);
    let route = |n: u32| {
        let prefix = Prefix { address: IpAddr::from((0x0b00_0000 + n).to_be_bytes()), len: 32 };
        let via = Via { address: [198, 51, 100, 2 + (n % 200) as u8].into(), port: None };
        Command::Route(RouteCommand::Set(RouteEntry { prefix, target: RouteTarget::Via(vec![via]) }))
    };
    let list: Vec<Command> = (0..64_000).map(route).collect();
    let mut update = Update::of_changes(&config.decide(&list).expect("all are right"));
    while plane.accept(&mut update).expect("room") {}
    let (mut left, mut turns) = (update.objects(), 0);
    while plane.commit(Time::from_ms(1), &mut update) {
        assert!(left - update.objects() <= weir_plane::AT_A_TIME);
        (left, turns) = (update.objects(), turns + 1);
    }
    assert_eq!((update.objects(), left, turns + 1), (0, 256, 64_000 / 256));
    assert_eq!(config.routes_behind(None, None, usize::MAX).len(), 64_000);
    assert!(config.decide(&list).expect("they are there").is_empty(), "what is so already changes nothing");
}

/// Whether a frame has passed the NAT: it waits for the Ethernet address of the host inside.
fn awaits_its_host(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Kept(_))
}

/// A host's mapping ends by a command, with all its sessions and no other; one that is not there has ended already.
#[test]
fn a_mapping_ends_by_a_command() {
    let mut config = Config::read("n", &Model::new().text()).expect("a node");
    let mut plane = Plane::new(&config, &MACS);
    let send = |plane: &mut Plane, port: u8, line: &str| {
        let packet = packet(line).expect("a packet");
        let bytes = [&MACS[usize::from(port)][..], &[2, 0, 0, 0, 0, 9], &[8, 0], &packet].concat();
        pass(plane, Time::from_ms(9), port.into(), &bytes)
    };
    let open = |plane: &mut Plane, host: u8, far: u8| {
        let (_, bytes) = send(plane, 0, &format!("udp 10.0.0.{host}:9 > 203.0.113.{far}:53"));
        u16::from_be_bytes([bytes[34], bytes[35]])
    };
    config
        .decide(&[route_to_far()])
        .map(|changes| plane.take(Time::from_ms(1), Update::of_changes(&changes)))
        .expect("it is right")
        .expect("room");
    let (mine, other) = (open(&mut plane, 8, 1), open(&mut plane, 9, 1));
    assert_eq!(open(&mut plane, 8, 2), mine, "one mapping for all remote hosts");
    let answer = |plane: &mut Plane, far: u8, port: u16| {
        send(plane, 1, &format!("udp 203.0.113.{far}:53 > 192.0.2.1:{port}")).0
    };
    for (far, port) in [(1, mine), (2, mine), (1, other)] {
        assert!(awaits_its_host(answer(&mut plane, far, port)));
    }
    for _ in 0..2 {
        let outside = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), mine);
        let end = Command::Nat(NatCommand::EndMapping { stage: 2, proto: Transport::Udp, outside });
        let changes = config.decide(&[end]).expect("there is a NAT");
        plane.take(Time::from_ms(10), Update::of_changes(&changes)).expect("room");
    }
    assert_eq!(answer(&mut plane, 1, mine), Verdict::Dropped(DropReason::NatNoMapping));
    assert_eq!(answer(&mut plane, 2, mine), Verdict::Dropped(DropReason::NatNoMapping));
    assert!(awaits_its_host(answer(&mut plane, 1, other)));
}

/// A route to the hosts far away.
fn route_to_far() -> Command {
    let prefix = Prefix { address: Ipv4Addr::new(203, 0, 113, 0).into(), len: 24 };
    let via = Via { address: [198, 51, 100, 2].into(), port: None };
    Command::Route(RouteCommand::Set(RouteEntry { prefix, target: RouteTarget::Via(vec![via]) }))
}
