//! Rules decide as the same rules of nftables do: random rules, random packets, the kernel beside the plane.
//!
//! ```text
//!            +-> plane: lan filter(...) wan          left, or not
//!   frame ---|
//!            +-> TAP t0 > netdev chain of nft > TAP t1         arrived, or not
//! ```

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use weir_linux::namespace::Namespace;
use weir_plane::scenario::packet;
use weir_plane::{Batch, Config, Frame, HEAD_ROOM, Plane, PortId, Time, Verdict};
use weir_port::duplex::{FRONT, Pool, Port, Tap, wait};
use weir_testkit::{Dice, PATIENCE, need_root};

/// Frames of a round; less than a TAP device keeps.
const FRAMES: u16 = 200;
/// What every node passes on, and nothing that is tested is: the last frame of a round.
const LAST: [u8; 2] = [0x88, 0xb5];

/// One of these words.
fn one<'a>(dice: &mut Dice, of: &[&'a str]) -> &'a str {
    dice.pick(of).expect("there are some")
}

const PORTS: [&str; 7] = ["1", "53", "80", "443", "1023", "1024", "65535"];
const FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];

fn address(dice: &mut Dice, v4: bool) -> String {
    let (a, b, c) = (dice.roll(2), dice.roll(2), dice.roll(4));
    if v4 { format!("10.{a}.{b}.{c}") } else { format!("2001:db8:{a}::{b}:{c}") }
}

/// A packet as a line of a scenario.
fn line(dice: &mut Dice) -> String {
    let v4 = dice.roll(5) < 3;
    let [src, dst] = [(); 2].map(|()| address(dice, v4));
    let proto = one(dice, &["tcp", "tcp", "udp", "udp", "sctp", "icmp", "proto/47"]);
    let has_ports = ["tcp", "udp", "sctp"].contains(&proto);
    let ends = if has_ports {
        format!("[{src}]:{} > [{dst}]:{}", one(dice, &PORTS), one(dice, &PORTS))
    } else {
        format!("{src} > {dst}")
    };
    let what = match proto {
        "icmp" => format!("icmp {}", one(dice, &["echo", "reply", "13/1", "135/2"])),
        proto => proto.to_string(),
    };
    let flags = if proto == "tcp" { one(dice, &["S", "SA", "A", "FA", "R", "FSRPAU"]) } else { "" };
    let more = match (dice.roll(6), proto) {
        (0, _) if v4 => "options 3",
        (1, "udp") => "len 24 whole 48 frag 0+",
        (1, "tcp") => "len 28 whole 56 frag 0+",
        _ => "",
    };
    format!("{what} {ends} {flags} {more}")
}

/// Words of a rule, and what nftables calls the same.
type Words = (String, String);

fn networks(dice: &mut Dice, v4: bool, (own, theirs): (&str, &str)) -> Words {
    let len = if v4 {
        one(dice, &["8", "16", "24", "31", "32"])
    } else {
        one(dice, &["32", "48", "112", "127", "128"])
    };
    let network: String = match (v4, len) {
        (true, "8") => "10.0.0.0".into(),
        (true, "16") => format!("10.{}.0.0", dice.roll(2)),
        (true, "24") => format!("10.{}.{}.0", dice.roll(2), dice.roll(2)),
        (true, "31") => format!("10.{}.{}.{}", dice.roll(2), dice.roll(2), 2 * dice.roll(2)),
        (false, "32") => "2001:db8::".into(),
        (false, "48") => format!("2001:db8:{}::", dice.roll(2)),
        (false, "112") => format!("2001:db8:{}::{}:0", dice.roll(2), dice.roll(2)),
        (false, "127") => format!("2001:db8:{}::{}:{}", dice.roll(2), dice.roll(2), 2 * dice.roll(2)),
        _ => address(dice, v4),
    };
    let family = if v4 { "ip" } else { "ip6" };
    (format!("{own} {network}/{len}"), format!("{family} {theirs} {network}/{len}"))
}

fn ports(dice: &mut Dice, theirs: &str) -> Words {
    let (first, other) = (one(dice, &PORTS[..3]), one(dice, &PORTS[3..]));
    let list = match dice.roll(3) {
        0 => first.to_string(),
        1 => format!("{first},{other}"),
        _ => format!("{first}-{other}"),
    };
    (format!("port {list}"), format!("th {theirs} {{ {list} }}"))
}

/// A rule, and the same of nftables.
fn rule(dice: &mut Dice) -> Words {
    let (action, verdict) = [("accept", "fwd to \"t1\""), ("drop", "drop")][dice.roll(2)];
    let mut v4 = dice.roll(5) < 3;
    let mut says: Vec<Words> = vec![(action.into(), String::new())];
    let (own, theirs) = [
        ("", ""),
        ("tcp", "meta l4proto tcp"),
        ("udp", "meta l4proto udp"),
        ("tcp,udp", "meta l4proto { tcp, udp }"),
        ("sctp", "meta l4proto sctp"),
        ("gre", "meta l4proto gre"),
        ("icmp", "meta protocol ip meta l4proto icmp"),
        ("icmp6", "meta protocol ip6 meta l4proto ipv6-icmp"),
    ][dice.roll(8)];
    match own {
        "icmp" => v4 = true,
        "icmp6" => v4 = false,
        _ if dice.roll(4) == 0 => {
            let family = if v4 { "ip" } else { "ip6" };
            says.push((family.into(), format!("meta protocol {family}")));
        }
        _ => {}
    }
    says.push((own.into(), theirs.into()));
    let has_ports = ["tcp", "udp", "tcp,udp", "sctp"].contains(&own);
    for (own, address, port) in [("from", "saddr", "sport"), ("to", "daddr", "dport")] {
        let named = dice.roll(2) == 0;
        if named {
            says.push(networks(dice, v4, (own, address)));
        }
        if has_ports && dice.roll(2) == 0 {
            if !named {
                says.push((format!("{own} any"), String::new()));
            }
            says.push(ports(dice, port));
        }
    }
    if own == "tcp" && dice.roll(2) == 0 {
        let first = dice.roll(FLAGS.len() - 1);
        let (one, other) = (FLAGS[first], FLAGS[first + 1]);
        says.push(match dice.roll(3) {
            0 => (format!("flags {one}/{one},{other}"), format!("tcp flags & ({one}|{other}) == {one}")),
            1 => (
                format!("flags {one},{other}/{one},{other}"),
                format!("tcp flags & ({one}|{other}) == {one}|{other}"),
            ),
            _ => (format!("flags none/{one},{other}"), format!("tcp flags & ({one}|{other}) == 0x0")),
        });
    }
    if let ("icmp" | "icmp6", 0) = (own, dice.roll(2)) {
        let theirs = if own == "icmp" { "icmp" } else { "icmpv6" };
        let kind = [if own == "icmp" { 8 } else { 128 }, 13, 135][dice.roll(3)];
        says.push(match dice.roll(2) {
            0 => (format!("type {kind}"), format!("{theirs} type {kind}")),
            _ => (format!("type {kind}/1"), format!("{theirs} type {kind} {theirs} code 1")),
        });
    }
    let join = |part: fn(&Words) -> &String| {
        let words: Vec<&str> =
            says.iter().map(|said| part(said).as_str()).filter(|word| !word.is_empty()).collect();
        words.join(" ")
    };
    (join(|said| &said.0), format!("{} {verdict}", join(|said| &said.1)))
}

/// A frame, with its number in its source address.
fn frame(number: u16, line: &str) -> Vec<u8> {
    let packet = packet(line).unwrap_or_else(|wrong| panic!("{line}: {wrong}"));
    let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0][..], &number.to_be_bytes(), &ether_type, &packet].concat()
}

fn number(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[10], frame[11]])
}

/// The frames that a node with these rules passes on.
fn by_plane(rules: &str, frames: &[Vec<u8>]) -> BTreeSet<u16> {
    let config =
        Config::read("n", &format!("lan filter({rules}) wan")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut plane = Plane::new(&config, &[[2; 6], [4; 6]]);
    let leaves = |frame: &&Vec<u8>| {
        let mut bytes = [&[0; HEAD_ROOM][..], frame].concat();
        let end = bytes.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut bytes, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(1), &mut batch);
        batch.outcome().all(|(_, verdict)| verdict == Verdict::Out(PortId(1)))
    };
    frames.iter().filter(leaves).map(|frame| number(frame)).collect()
}

/// The kernel, with a TAP device on either side.
struct Kernel {
    near: Tap,
    far: Tap,
    pool: Pool,
}

impl Kernel {
    /// In the calling thread's network namespace.
    fn new() -> Kernel {
        let [near, far] = ["t0", "t1"].map(|name| Tap::open(name, None).unwrap());
        for name in ["t0", "t1"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
        }
        Kernel { near, far, pool: Pool::new(1024, 2048).unwrap() }
    }

    fn rule(&self, rules: &str) {
        let text = format!(
            "flush ruleset\ntable netdev t {{ chain c {{ type filter hook ingress device \"t0\" priority 0; policy drop;\n\
             ether type 0x88b5 fwd to \"t1\"\n{rules}\n}}\n}}\n"
        );
        let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        nft.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success(), "{text}");
    }

    /// The frames that get to the other side.
    fn passes(&mut self, frames: &[Vec<u8>]) -> BTreeSet<u16> {
        let last = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0][..], &LAST, &[0; 46]].concat();
        let mut chunks = Vec::new();
        for frame in frames.iter().chain([&last]) {
            let mut chunk = self.pool.take().expect("there are more chunks than frames");
            chunk.set_range(FRONT..FRONT + frame.len());
            self.pool.bytes_mut(&chunk).copy_from_slice(frame);
            chunks.push(chunk);
        }
        self.near.send(&mut self.pool, &mut chunks).unwrap();
        let (mut passed, deadline) = (BTreeSet::new(), Instant::now() + PATIENCE);
        loop {
            self.far.receive(&mut self.pool, &mut chunks).unwrap();
            for chunk in chunks.drain(..) {
                let bytes = self.pool.bytes(&chunk);
                let (is_last, is_ours) = (bytes[12..14] == LAST, bytes[6..10] == [2, 0, 0, 0]);
                if is_ours && !is_last {
                    passed.insert(number(bytes));
                }
                self.pool.give_back(chunk);
                if is_last {
                    return passed;
                }
            }
            assert!(Instant::now() < deadline, "the last frame of a round arrives");
            wait(&[self.far.descriptor().expect("it is open")], PATIENCE).unwrap();
        }
    }
}

fn compare() {
    let mut kernel = Kernel::new();
    let rounds = weir_testkit::number("RULES_ROUNDS", 40);
    let (mut passed, mut all) = (0, 0);
    for seed in 1..=rounds {
        let mut dice = Dice::new(seed);
        let rules: Vec<Words> = (0..1 + dice.roll(20)).map(|_| rule(&mut dice)).collect();
        let lines: Vec<String> = (0..FRAMES).map(|_| line(&mut dice)).collect();
        let frames: Vec<Vec<u8>> = (1..).zip(&lines).map(|(number, line)| frame(number, line)).collect();
        let (policy, last) = [("accept", "fwd to \"t1\""), ("drop", "")][dice.roll(2)];
        let own: Vec<&str> = rules.iter().map(|rule| rule.0.as_str()).collect();
        let theirs: Vec<&str> = rules.iter().map(|rule| rule.1.as_str()).chain([last]).collect();
        kernel.rule(&theirs.join("\n"));
        let (here, there) =
            (by_plane(&format!("policy {policy}, {}", own.join(", ")), &frames), kernel.passes(&frames));
        if let Some(&other) = here.symmetric_difference(&there).next() {
            let who = if here.contains(&other) { "the node" } else { "the kernel" };
            panic!(
                "seed {seed}: {who} alone passes {}\n{}\npolicy {policy}",
                lines[usize::from(other) - 1],
                own.join("\n")
            );
        }
        (passed, all) = (passed + here.len(), all + frames.len());
    }
    assert!(
        (all / 5..all * 4 / 5).contains(&passed),
        "rules that decide something: {passed} of {all} passed"
    );
}

#[test]
fn rules_decide_as_those_of_nftables() {
    need_root!();
    Namespace::new().unwrap().run(compare);
}
