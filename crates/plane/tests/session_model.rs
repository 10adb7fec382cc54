//! Random commands for sessions under traffic, beside a naive model.

use std::net::IpAddr;

use weir_plane::{DropReason, PortId, SubscriberCommand, SubscriberEntry, Verdict};
use weir_testkit::Dice;

use crate::sessions::{Line, Node, WAN, dropped, hop, ip};

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
