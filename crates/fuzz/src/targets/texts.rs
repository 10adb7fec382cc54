//! Texts that people write: mistakes, or what was asked for.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Duration;

use weir_agent::hosts::{Hosts, Role};
use weir_bottleneck::{SETTINGS, Settings, chunks_for};
use weir_config::{rate, unit};
use weir_lab::plan::PlanError;
use weir_plane::scenario::{self, End, Target, VirtualNode, packet, suites};
use weir_plane::{Batch, Beside, Config, Frame, HEAD_ROOM, Plane, PortId, Time, Verdict};
use weir_rigs::PLANS;
use weir_testkit::Dice;

use super::{files, of_texts};
use crate::grammar::{self, Ends};

/// What is refused has its reasons.
fn check_refusal(count: usize, mistakes: impl Display) {
    assert!(count > 0 && !mistakes.to_string().is_empty());
}

/// A configuration of `weir detect`.
pub(super) fn detect(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(mistakes) = weir_detect::Config::read("fuzz", &text) {
        check_refusal(mistakes.list.len(), mistakes);
    }
}

pub(super) fn detect_seeds() -> Vec<Vec<u8>> {
    files("examples", "toml")
}

/// A plan; one that is taken has points, takes a time, and is read again from its record.
pub(super) fn plan(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match PLANS.reload("fuzz", &text) {
        Ok(plan) => {
            plan.estimate();
            // What a plan of two hundred axes would take is not asked for here.
            if text.len() < 1 << 12 {
                weir_rigs::throughput::points(&plan);
            }
        }
        Err(PlanError::Mistakes(mistakes)) => check_refusal(mistakes.list.len(), mistakes),
        Err(other) => panic!("{other}"),
    }
}

pub(super) fn plan_seeds() -> Vec<Vec<u8>> {
    files("plans", "toml")
}

/// A file of hosts; one that is taken has what its roles allow.
pub(super) fn hosts(input: &[u8]) {
    let modes = ["forward", "stateless", "stateful"];
    let hosts = match Hosts::read("fuzz", &String::from_utf8_lossy(input), &modes) {
        Ok(hosts) => hosts,
        Err(mistakes) => return check_refusal(mistakes.list.len(), mistakes),
    };
    let count = |role| hosts.with(role).count();
    let bed = [Role::Tester, Role::RemoteTester, Role::Dut].map(count);
    let workers: HashSet<_> = hosts.with(Role::Worker).map(|host| &host.ssh.target).collect();
    assert_eq!(workers.len(), count(Role::Worker), "each worker is another host");
    assert!(bed.iter().all(|hosts| *hosts <= 1), "{bed:?}");
    assert!(workers.is_empty() != (bed == [0; 3]), "workers or a bed: {workers:?}, {bed:?}");
    for (role, _) in Role::ALL {
        for host in hosts.with(role) {
            assert!(!host.ssh.target.is_empty() && !host.ssh.timeout.is_zero(), "{host:?}");
            assert!(
                host.mode.as_deref().is_none_or(|mode| role == Role::Dut && modes.contains(&mode)),
                "{host:?}"
            );
            let (fewest, most) = match role {
                Role::Worker => (0, 0),
                Role::Tester => (0, 2),
                Role::RemoteTester => (1, 1),
                Role::Dut => (1, 2),
            };
            assert!((fewest..=most).contains(&host.ports.len()), "{host:?}");
        }
    }
}

pub(super) fn hosts_seeds() -> Vec<Vec<u8>> {
    let mut seeds = of_texts([
        "ssh_config = \"lab\"\n[[host]]\nrole = \"dut\"\nssh = \"root@192.0.2.1\"\nports = [\"eth1\", \"eth2\"]\nmode = \"stateful\"\n\
         timeout_s = 5\n[[host]]\nrole = \"remote-tester\"\nssh = \"b\"\nports = \"eth2\"\nweir = \"/opt/weir\"\n[[host]]\n\
         role = \"tester\"\nssh = \"c\"\n",
        "host = [{ role = \"worker\", ssh = \"a\", timeout_s = 0.5 }, { role = \"worker\", ssh = \"b\" }]\n",
    ]);
    seeds.extend(files("examples/three-hosts", "toml"));
    seeds
}

/// A node, as a text alone and as a file with settings of threads. The input is a text, or chooses one.
pub(super) fn node(input: &[u8]) {
    match grammar::choices(input) {
        Some(mut dice) => {
            let ends = Ends::new(&mut dice);
            let node = grammar::node(&mut dice, &ends);
            read_node(&node);
            read_file(&(node + &grammar::run(&mut dice)));
        }
        None => {
            let text = String::from_utf8_lossy(input);
            read_node(&text);
            read_file(&text);
        }
    }
}

/// Whether it is a node.
fn read_node(text: &str) -> bool {
    match Config::read("fuzz", text) {
        Ok(config) => {
            let macs: Vec<_> = config.ports.iter().map(|_| [2, 0, 0, 0, 0xaa, 1]).collect();
            Plane::new(&config, &macs);
            true
        }
        Err(mistakes) => {
            check_refusal(mistakes.list.len(), mistakes);
            false
        }
    }
}

fn read_file(text: &str) {
    match weir_node::Config::read("fuzz", text, &|name| Err(format!("{name} is not there"))) {
        Ok(config) => drop(config.check_threads()),
        Err(mistakes) => check_refusal(mistakes.list.len(), mistakes),
    }
}

pub(super) fn node_seeds() -> Vec<Vec<u8>> {
    let scenarios = suites().into_iter().flat_map(|(_, scenarios)| scenarios);
    let mut seeds = of_texts(scenarios.flat_map(|scenario| scenario.nodes().collect::<Vec<_>>()));
    seeds.extend(files("examples", "node"));
    seeds.extend(grammar::seeds(64, 64));
    seeds
}

/// Scenarios, which are run. The input is a text, or chooses the packets of one.
pub(super) fn scenario(input: &[u8]) {
    if let Some(dice) = grammar::choices(input) {
        chosen_scenario(dice);
        return;
    }
    match scenario::read(&String::from_utf8_lossy(input)) {
        Ok(scenarios) => {
            for scenario in scenarios {
                if let Err(wrong) = scenario.run(&mut VirtualNode::default()) {
                    assert!(!wrong.is_empty());
                }
            }
        }
        Err(mistakes) => assert!(!mistakes.is_empty()),
    }
}

/// Most packets of a scenario that is chosen.
const MOST_PACKETS: usize = 40;

/// Sends a node what is chosen, and lists what leaves: the text that says so is read, and is so. Says how much left.
fn chosen_scenario(mut dice: Dice) -> usize {
    let ends = Ends::new(&mut dice);
    let (mut node, mut now, mut listed) = (VirtualNode::default(), Duration::ZERO, 0);
    let first = grammar::node(&mut dice, &ends);
    if node.configure(&first).is_err() {
        return 0;
    }
    let mut text = format!("== CHOSEN: what a node does it does again\n{first}\n");
    for _ in 0..1 + dice.roll(MOST_PACKETS) {
        now += Duration::from_millis([0, 1, 100, 5000][dice.roll(4)]);
        let (end, verb) = if dice.one_in(2) { (End::Left, "in") } else { (End::Right, "back") };
        let line = grammar::packet(&mut dice, end == End::Left);
        // A line of a scenario counts up what ends with a sign: here each is sent once.
        let mut line = line.replace("1000+", "1000");
        // No line says that fragments have a wrong checksum together.
        if line.contains(" len ") || line.contains(" frag ") {
            line = line.replace(" badsum", "").replace(" nosum", "");
        }
        let Ok(packet) = self::packet(&line) else { continue };
        node.send(now, end, &packet);
        text += &format!("{}ms {verb} {line}\n", now.as_millis());
        for (end, packet) in node.left() {
            // What no line describes ends the scenario.
            let Ok(line) = scenario::described(&packet) else { return listed };
            let verb = match end {
                End::Left => "home",
                End::Right => "out",
                End::Local => "local",
                End::Control => "control",
            };
            text += &format!("{verb} {line}\n");
            listed += 1;
        }
    }
    let scenarios = scenario::read(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    for scenario in scenarios {
        scenario.run(&mut VirtualNode::default()).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    }
    listed
}

/// One by one: a mistake in one of many would keep all from running.
pub(super) fn scenario_seeds() -> Vec<Vec<u8>> {
    let split = |file: Vec<u8>| {
        let text = String::from_utf8_lossy(&file).into_owned();
        text.split("\n== ").skip(1).map(|one| format!("== {one}\n").into_bytes()).collect::<Vec<_>>()
    };
    files("tests", "txt").into_iter().flat_map(split).chain(grammar::seeds(32, 400)).collect()
}

/// Rules: a filter decides about frames as it did when it was new, whatever it was before. The first line is what it was.
pub(super) fn rules(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (before, rules) = text.split_once('\n').unwrap_or(("", &text));
    let Some(config) = filter(rules) else { return };
    let macs = [[2, 0, 0, 0, 0xaa, 0], [2, 0, 0, 0, 0xaa, 1]];
    let expected = verdicts(&mut Plane::new(&config, &macs));
    if let Some(old) = filter(before) {
        let mut changed = Plane::new(&old, &macs);
        changed.apply(Time::default(), &old, &config).expect("rules can be changed");
        assert_eq!(verdicts(&mut changed), expected);
    }
}

pub(super) fn rules_seeds() -> Vec<Vec<u8>> {
    of_texts([
        "accept udp\naccept outward\naccept state established\ndrop tcp from 198.18.0.0/15 to port 80, 1000-2000\npolicy drop\n",
        "policy accept\nreject tcp flags syn/syn,ack\ncount x udp\nlog udp to 2001:db8:2::/64 port 53\npolicy accept\n",
        "\ncount all proto 47\ndrop fragments\naccept icmp\naccept from 2001:db8:1::/64\ndrop\n",
    ])
}

/// Packets of all kinds that rules tell apart.
static PACKETS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let lines = [
        "udp 198.18.0.2:1111 > 198.19.0.9:53 len 100",
        "udp 198.18.0.2 > 198.19.0.9 len 24 whole 48 frag 32 id 9",
        "tcp 198.18.0.2:1000 > 198.19.0.9:80 S seq 1",
        "tcp 198.18.0.2:1000 > 198.19.0.9:80 FA seq 1",
        "icmp echo 198.18.0.2 > 198.19.0.9 id 7",
        "icmp unreachable/4 198.18.0.2 > 198.19.0.9 mtu 1400 {udp 198.19.0.9:53 > 198.18.0.2:1111}",
        "udp [2001:db8:1::2]:1111 > [2001:db8:2::9]:53",
        "icmp echo 2001:db8:1::2 > 2001:db8:2::9 id 7",
        "proto/47 198.18.0.2 > 198.19.0.9",
    ];
    lines.iter().map(|line| packet(line).expect(line)).collect()
});

/// A node with these rules.
fn filter(rules: &str) -> Option<Config> {
    let file = |_: &str| Ok(rules.to_string());
    let mut beside = Beside { item: &mut |_, _| false, file: &file };
    match Config::read_with("fuzz", "node lan > filter(rules.fw) > wan", &mut beside) {
        Ok(config) => Some(config),
        Err(mistakes) => {
            check_refusal(mistakes.list.len(), mistakes);
            None
        }
    }
}

/// What becomes of each packet, in both directions.
fn verdicts(plane: &mut Plane) -> Vec<Verdict> {
    let mut verdicts = vec![];
    for (n, packet) in PACKETS.iter().enumerate() {
        let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let mut buf = [&[0; HEAD_ROOM][..], &[2; 12], &kind, packet].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(n as u16 % 2)));
        plane.run(Time::default(), &mut batch);
        verdicts.extend(batch.outcome().map(|(_, verdict)| verdict));
        plane.departures().for_each(drop);
        assert!(plane.accounting().balance(), "{:?}", plane.accounting());
    }
    verdicts
}

/// Settings of a bottleneck, one after another; the same text as a trace of rates.
pub(super) fn bottleneck(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut settings = Settings::default();
    for line in text.lines() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        // What files say is the part of the trace below.
        if value.contains("trace:") {
            continue;
        }
        let before = settings.clone();
        if let Err(why) = settings.set(name, value) {
            assert!(!why.is_empty() && settings == before, "{line}: {why}");
        }
        for direction in 0..2 {
            if let Err(why) = settings.bottleneck(direction) {
                assert!(why.contains("buffer"), "{why}");
            }
        }
        chunks_for(&settings);
    }
    weir_link::fuzz::trace(&text);
}

pub(super) fn bottleneck_seeds() -> Vec<Vec<u8>> {
    let mut seeds = of_texts([
        "rate 100mbit\nback-rate none\ndelay 20ms\npath 198.18.1.0/24=5ms\nbuffer 1bdp\naqm pie:target_s=0.005,update_s=0.01\n\
         loss 0.1%\nburst 8\njitter 500us\nreorder 1%\nreorder-by 1ms\n",
        "rate lte:20mbit\nback-rate wifi:5mbit\npath 2001:db8::/32=1s\npath clear\nbuffer 64kB\naqm codel\n",
        "0 100mbit\n2.5 10mbit # less\n3 0\n10 repeat\n",
    ]);
    seeds.extend(of_texts(SETTINGS.map(|(name, values)| format!("{name} {values}\n"))));
    seeds
}

/// Numbers with units: a number that can be used, or what to write in its place.
pub(super) fn unit(input: &[u8]) {
    for text in String::from_utf8_lossy(input).lines() {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(86_400));
        match unit::time(text, least, most) {
            Ok(time) => assert!((least..=most).contains(&time), "{text}: {time:?}"),
            Err(why) => assert!(!why.is_empty()),
        }
        for number in [unit::quantity(text), rate::fps(text), rate::line_bits_per_s(text)] {
            match number {
                Ok(number) => assert!(number.is_finite() && number >= 0.0, "{text}: {number}"),
                Err(why) => assert!(!why.is_empty()),
            }
        }
        if let Err(why) = unit::bytes(text) {
            assert!(!why.is_empty());
        }
        let shown = weir_config::plain(text);
        assert!(!shown.contains('\u{1b}') && weir_config::plain(&shown) == shown, "{shown:?}");
    }
}

pub(super) fn unit_seeds() -> Vec<Vec<u8>> {
    of_texts([
        "250\n2.5M\n100ms\n1GiB\n20kpps\n100mbit\n1e6\n-1e-3 s\n5min\n95%\n2.5Gbit/s\n64kB\n1d\n.5h\n+3\n",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs that choose.
    const INPUTS: u64 = 200;

    #[test]
    fn most_choices_are_nodes_and_much_leaves_them() {
        let inputs = grammar::seeds(INPUTS, 300);
        let choices = || inputs.iter().filter_map(|input| grammar::choices(input));
        let nodes = choices().filter(|dice| {
            let mut dice = dice.clone();
            let ends = Ends::new(&mut dice);
            read_node(&grammar::node(&mut dice, &ends))
        });
        let (nodes, listed) =
            (nodes.count(), choices().filter(|dice| chosen_scenario(dice.clone()) > 0).count());
        println!("of {INPUTS}: {nodes} nodes, {listed} by which something leaves");
        assert!(nodes > 100 && listed > 50, "of {INPUTS}: {nodes} nodes, {listed} by which something leaves");
    }
}
