//! Several planes as the threads of one node: they do together what one does alone, and each knows what is its own.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use weir_packet::checksum::{fold, sum};
use weir_plane::Config;
use weir_plane::scenario::{End, Target, VirtualNode, described, packet, read, suites};
use weir_testkit::Dice;

use crate::frames;

const THREADS: u8 = 3;

/// What threads do otherwise: limits are dealt out to them, well-known ports only where there is a block for each, and
/// deterministic ports stay as they are.
const OTHERWISE: &[&str] = &[
    "the connection table is never larger than allowed, and no answered connection is replaced",
    "a subscriber has so many sessions and no more, and all together",
    "ports of 0 to 1023 stay in that range, others in theirs",
    "new rules for deterministic ports apply to new mappings",
    "datagrams of one host to many keep no other host from sending, and a host with few sessions loses none",
    "a host that gets many errors does not keep other hosts from getting packet too big",
    "how often errors are sent follows the text",
    "a reason, a line and a sender have a rate each",
];

#[test]
fn threads_do_as_the_scenarios_say() {
    for threads in [2, THREADS, 5] {
        let (mut wrong, mut run) = (Vec::new(), 0);
        for (name, scenarios) in suites() {
            for scenario in scenarios {
                let may_share = |text: String| match Config::read("n", &text) {
                    Ok(config) => config.may_share(threads).is_ok(),
                    // It is to be refused.
                    Err(_) => true,
                };
                if OTHERWISE.contains(&scenario.title.as_str()) || !scenario.nodes().all(may_share) {
                    continue;
                }
                run += 1;
                let node = || VirtualNode::of_threads(threads);
                let cached = || node().with_flow_caches();
                for (how, mut node) in [
                    ("frame by frame", node()),
                    ("in batches", node().in_batches()),
                    ("in batches with flow caches", cached().in_batches()),
                ] {
                    if let Err(text) = scenario.run(&mut node) {
                        let (line, title) = (scenario.line, &scenario.title);
                        wrong.push(format!("{name}:{line}: {title}, {threads} threads, {how}: {text}"));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} scenarios failed:\n{}", wrong.len(), wrong.join("\n"));
        assert!(run > 100, "only {run} scenarios can be shared by {threads}");
    }
}

/// Nodes that remember something, and whether they translate all.
const NODES: &[&str] = &[
    "filter(accept outward, accept state established, accept state related)",
    "nat(public 192.0.2.0/28)",
    "nat(public 192.0.2.1, mapping address-and-port-dependent, block 128)",
    "nat(public 192.0.2.1, filtering address-and-port-dependent, block 128)",
    "nat(public 192.0.2.0/28, deterministic 198.18.0.0/24 dynamic 4)",
    "filter(accept outward, accept state established, accept state related) > nat(public 192.0.2.0/30)",
    "nat(public 192.0.2.0/30) > filter(accept outward, accept state established, accept state related)",
    "nat(public 192.0.2.1, block 128, one-to-one 192.0.2.9 to 198.18.0.7, one-to-one 192.0.2.10 to 198.18.0.8, \
     exclude 198.19.0.0/28) > filter(accept outward, accept state established, accept state related)",
    "nat(public 192.0.2.1, block 128, forward udp 192.0.2.1:53 to 198.18.0.3:53, forward tcp 192.0.2.1:5000 to 198.18.0.4:80)",
    "nat(public 192.0.2.1, exclude 198.19.0.0/28) > nat(public 192.0.2.2, exclude 198.19.0.16/28)",
    "nat(public 100.64.0.0/29) > nat(public 192.0.2.0/29)",
    "nat(one-to-one 100.64.0.9 to 198.18.0.7, public 100.64.0.1, forward udp 100.64.0.1:53 to 198.18.0.3:53) \
     > filter(accept outward, accept state established, accept state related) \
     > nat(public 192.0.2.1, one-to-one 192.0.2.2 to 100.64.0.9, forward udp 192.0.2.1:53 to 100.64.0.1:53) \
     > nat(public 203.0.113.32/29, block 100)",
];

/// The same packet the other way, a query of ICMP as its answer.
fn reversed(packet: &[u8]) -> Vec<u8> {
    let mut back = packet.to_vec();
    back[12..16].copy_from_slice(&packet[16..20]);
    back[16..20].copy_from_slice(&packet[12..16]);
    match packet[9] {
        6 | 17 => {
            back[20..22].copy_from_slice(&packet[22..24]);
            back[22..24].copy_from_slice(&packet[20..22]);
        }
        1 => {
            back[20] = 0;
            back[22..24].fill(0);
            let checksum = !fold(sum(&back[20..]));
            back[22..24].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => {}
    }
    back
}

/// An error about a packet, from a router without a connection.
fn error_about(quoted: &[u8]) -> Vec<u8> {
    let to = Ipv4Addr::from(*quoted[12..].first_chunk::<4>().expect("an address"));
    let mut error = packet(&format!("icmp unreachable/1 203.0.113.7 > {to} {{udp {to}:1 > {to}:2 cut 8}}"))
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    error[28..56].copy_from_slice(&quoted[..28]);
    error[22..24].fill(0);
    let checksum = !fold(sum(&error[20..]));
    error[22..24].copy_from_slice(&checksum.to_be_bytes());
    error
}

fn target(packet: &[u8]) -> IpAddr {
    IpAddr::from(*packet[16..].first_chunk::<4>().expect("an address"))
}

/// Sends a packet in at an end; what leaves at the other.
fn through(node: &mut VirtualNode, ms: u64, end: End, bytes: &[u8]) -> Option<Vec<u8>> {
    node.send(Duration::from_millis(ms), end, bytes);
    let far = if end == End::Left { End::Right } else { End::Left };
    let mut left = node.left();
    assert!(left.len() <= 1 && left.iter().all(|(at, _)| *at == far), "{left:?}");
    left.pop().map(|(_, bytes)| bytes)
}

#[test]
fn both_directions_of_all_sessions_and_errors_about_them_meet() {
    for (n, text) in NODES.iter().enumerate() {
        for threads in [2, 3, 8] {
            let mut node = VirtualNode::of_threads(threads);
            node.configure(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            let mut dice = Dice::new(n as u64 * 100 + u64::from(threads));
            for n in 0..300_u32 {
                let host = format!("198.18.0.{}", 1 + dice.roll(20));
                // Some of them stay as they are where addresses are excluded.
                let remote = format!("198.19.0.{}", 1 + dice.roll(30));
                let (sport, dport) = (1024 + dice.roll(60_000), [53, 80, 443][dice.roll(3) as usize]);
                let line = match dice.roll(5) {
                    0 | 1 => format!("udp {host}:{sport} > {remote}:{dport}"),
                    2 => format!("tcp {host}:{sport} > {remote}:{dport} S"),
                    3 => format!("icmp echo {host} > {remote} id {sport}"),
                    // One host at a time talks to a remote end without ports.
                    _ => format!("proto/47 {host} > 198.19.{}.{} len 20", 1 + n / 200, n % 200),
                };
                let context = format!("{text}, {threads} threads: {line}");
                let out = packet(&line).unwrap_or_else(|wrong| panic!("{wrong}"));
                let ms = 10 * u64::from(n);
                let left = through(&mut node, ms, End::Left, &out)
                    .unwrap_or_else(|| panic!("{context} did not leave: {:?}", node.drops()));
                let back = through(&mut node, ms + 1, End::Right, &reversed(&left));
                let back = back.unwrap_or_else(|| panic!("{context} got no answer: {:?}", node.drops()));
                assert_eq!(target(&back), target(&reversed(&out)), "{context}");
                described(&back).unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                if out[9] != 47 {
                    let error = through(&mut node, ms + 2, End::Right, &error_about(&left));
                    let error = error.unwrap_or_else(|| panic!("{context}, no error: {:?}", node.drops()));
                    assert_eq!(
                        (target(&error), &error[40..52]),
                        (target(&reversed(&out)), &out[12..24]),
                        "{context}"
                    );
                }
                node.sound().unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
            }
            let accounting = node.accounting();
            assert_eq!(accounting.drops.total(), 0, "{text}: {accounting:?}");
            assert!(accounting.handed > 300, "{text}: nothing came to the wrong thread: {accounting:?}");
            // Each knows its part, and none what another knows.
            let mut known: Vec<Vec<String>> = node.sessions();
            assert!(known.iter().all(|of| !of.is_empty()), "{text}: {known:?}");
            let mut all: Vec<String> = known.drain(..).flatten().collect();
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "{text}: two threads know the same");
        }
    }
}

/// If the public address is the node's own, one thread knows what is awaited at a port and another one asks.
const OWN_ADDRESS: &str = "
== own: hosts inside reach each other, and the node, at its public address
node lan(198.18.0.1/16) > nat(public 198.19.0.1) > route > wan(198.19.0.1/16)
0ms   in   udp 198.18.0.2:6000 > 198.19.0.9:53
      out  udp 198.19.0.1:$q > 198.19.0.9:53
1ms   in   udp 198.18.0.3:5000 > 198.19.0.1:$q
      home udp 198.19.0.1:$p > 198.18.0.2:6000
2ms   in   udp 198.18.0.2:6000 > 198.19.0.1:$p
      home udp 198.19.0.1:$q > 198.18.0.3:5000
3ms   in   tcp 198.18.0.3:5000 > 198.19.0.1:22 S
      local tcp 198.18.0.3:5000 > 198.19.0.1:22 S
4ms   in   tcp 198.18.0.3:5000 > 198.19.0.1:40000 S
      local tcp 198.18.0.3:5000 > 198.19.0.1:40000 S
5ms   in   icmp echo 198.18.0.3 > 198.19.0.1 id 7000
      home icmp reply 198.19.0.1 > 198.18.0.3 id 7000
";

#[test]
fn hosts_and_the_node_are_reached_at_an_address_that_is_both() {
    let scenario = read(OWN_ADDRESS).unwrap_or_else(|wrong| panic!("{wrong}")).remove(0);
    for threads in 1..=8 {
        scenario
            .run(&mut VirtualNode::of_threads(threads))
            .unwrap_or_else(|wrong| panic!("{threads} threads: {wrong}"));
    }
}

#[test]
fn what_threads_cannot_share_is_refused() {
    let text = "nat(public 192.0.2.1, block 512)";
    for (text, other, why) in [
        (
            text,
            "nat(public 192.0.2.1, block 513)",
            "blocks of more than 512 ports come only when the node begins anew",
        ),
        (
            text,
            "nat(public 192.0.2.1 ports 2048-3071, block 64)",
            "3 threads share the ports of a public address in fragments of 512",
        ),
        (text, "nat(public 192.0.2.1, deterministic 198.18.0.0/28)", "deterministic ports change only"),
        ("nat(public 192.0.2.1, block 32768)", "", "3 threads need blocks of ports each, and there are 2"),
        (
            "nat(public 100.64.0.1) > nat(public 192.0.2.1, deterministic 100.64.0.0/28)",
            "",
            "the NAT before gives 100.64.0.1 to hosts of 3 threads",
        ),
        (
            "lan > wan",
            "nat(public 192.0.2.1, block 32768)",
            "3 threads need blocks of ports each, and there are 2",
        ),
    ] {
        let mut node = VirtualNode::of_threads(THREADS);
        let begun = node.configure(text);
        let wrong = if other.is_empty() { begun } else { begun.and_then(|()| node.configure(other)) };
        assert!(wrong.as_ref().is_err_and(|wrong| wrong.starts_with(why)), "{text} {other}: {wrong:?}");
    }
}

/// Ports and blocks that a node may change to which began with blocks of 128, in the order of time.
const OTHER_PORTS: &[&str] = &[
    "public 192.0.2.1 ports 1024-2047, block 128",
    "public 192.0.2.1 ports 1024-2047, block 64",
    "public 192.0.2.1 ports 1500-2999, block 128",
    "public 192.0.2.1 ports 1500-2999, public 192.0.2.2, block 100",
    "public 192.0.2.2 ports 900-1400 5000-6000, block 128",
    "public 192.0.2.1 ports 1024-2047, block 128",
    "public 192.0.2.1 ports 1024-2047 3000-3127, public 192.0.2.3, block 7",
    // As many fragments as threads, of addresses that come late.
    "public 192.0.2.6-192.0.2.8 ports 1024-1151, public 192.0.2.9 ports 1024-1279, block 128",
];

/// What a mapping or session is shown as: the inside end and the outside end.
fn inside_and_outside(line: &str) -> (String, String) {
    let words: Vec<&str> = line.split(' ').collect();
    (format!("{} {}", words[0], words[1]), format!("{} {}", words[0], words[3]))
}

#[test]
fn ports_change_under_sessions_and_no_two_threads_give_out_the_same() {
    for threads in [2, 3, 5] {
        let mut node = VirtualNode::of_threads(threads);
        let mut dice = Dice::new(threads.into());
        let mut lives: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (n, ports) in OTHER_PORTS.iter().enumerate() {
            let text = format!("nat({ports}, blocks 64, hold 0s, udp-timeout 120s, exhausted silent)");
            node.configure(&text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            let ms = 10_000 * n as u64;
            // All that lives goes on, and is answered.
            for (out, as_seen) in &lives {
                let context = format!("{text}, {threads} threads: {:?}", described(out));
                let left = through(&mut node, ms, End::Left, out).expect(&context);
                assert_eq!(left[12..16], as_seen[12..16], "{context}");
                assert_eq!(left[20..22], as_seen[20..22], "{context}");
                let back = through(&mut node, ms, End::Right, &reversed(as_seen));
                assert_eq!(back.map(|back| target(&back)), Some(target(&reversed(out))), "{context}");
            }
            let mut new = 0;
            for _ in 0..60 {
                let (host, port) = (1 + dice.roll(6), 1024 + dice.roll(60_000));
                let out = packet(&format!("udp 198.18.0.{host}:{port} > 198.19.0.9:53")).expect("a packet");
                if let Some(left) = through(&mut node, ms + 1, End::Left, &out) {
                    new += 1;
                    lives.push((out, left));
                }
            }
            assert!(new > 10, "{text}, {threads} threads: {new} of 60 found a port");
            let mut seen_as = std::collections::HashMap::new();
            for line in node.sessions().concat() {
                let (inside, outside) = inside_and_outside(&line);
                let other = seen_as.insert(outside, inside.clone());
                assert!(other.as_ref().is_none_or(|other| *other == inside), "{text}: {line}, and {other:?}");
            }
            node.sound().unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        }
    }
}

#[test]
fn no_packet_breaks_threads() {
    let more = [
        "nat(public 192.0.2.1 ports 1024-1151, block 16, sessions 64, udp-timeout 120s)",
        "nat(public 192.0.2.1 ports 1040-1055, block 4, prefix64 2001:db8:2::/96, mss 1200, log sessions)",
        "lan(198.18.0.1/16, 2001:db8:1::1/64) filter(accept state established, accept outward) \
         > nat(public 198.19.0.1, forward tcp 198.19.0.1:80 to 198.18.0.2:1000) \
         > route(default via 198.19.0.9) > wan(198.19.0.1/16, 2001:db8:2::1/64, mtu 1280)",
    ];
    for text in NODES.iter().chain(&more) {
        let mut node = VirtualNode::of_threads(THREADS);
        node.configure(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        let mut dice = Dice::new(7);
        for n in 0..6000 {
            let frame = frames::frame(&mut dice, [2; 12]);
            let end = if dice.roll(2) == 0 { End::Left } else { End::Right };
            if frame.len() > 14 {
                node.send(Duration::from_millis(n * 20), end, &frame[14..]);
            }
            node.sound().unwrap_or_else(|wrong| panic!("{text}: {n}: {wrong}: {frame:02x?}"));
            node.left();
        }
    }
}
